//! Limits of scheduler tags: how many may be used by async requests and by sync writes, and how
//! many by a queue, according to its weight in its group.

use super::Bfq;
use crate::interface::Admission;
use crate::request::Bio;
use crate::structures::NIL;
use hoistway_block::Direction;

/// The tag limit of a queue that already has its share: with it, the queue gets a tag only while no
/// other limited request holds one.
const LAST_TAG: u32 = 1;
/// In the division of tags, the weights of a class count this many times less than those of the
/// next higher class.
const CLASS_STEP: u64 = 8;

impl Bfq {
    pub(super) fn depth_for(&self, bio: &Bio) -> Admission {
        let all = self.device.tags();
        let reads_sync = bio.is_sync() && bio.direction() == Direction::Read;
        let depth = if reads_sync | !self.profile.tags.by_kind { all } else { self.limited_depth(bio.is_sync()) };
        let limits = self.profile.tags.by_weight;
        let mut records = self.actuators.records(self.actuators.issuer(bio.context));
        // The issuer is limited as soon as its queue for one of the actuators has too many
        // requests.
        if limits && records.any(|record| self.is_over_share(self.contexts.at(record).queue(bio.is_sync()), depth)) {
            return Admission::Shallow(LAST_TAG);
        }
        if depth >= all { Admission::Full } else { Admission::Shallow(depth) }
    }

    /// The number of tags for async requests or for sync writes; lower while queues with raised
    /// weight are busy.
    pub(super) fn limited_depth(&self, is_sync: bool) -> u32 {
        let sixteenths = match (self.busy.raised() > 0, is_sync) {
            (false, false) => 8,
            (false, true) => 12,
            (true, false) => 3,
            (true, true) => 6,
        };
        (self.device.tags().saturating_mul(sixteenths) / 16).max(1)
    }

    /// Whether the queue, or one of its groups, has as many requests as its weight allows.
    fn is_over_share(&self, queue: u32, depth: u32) -> bool {
        if queue == NIL || queue == super::contexts::SPARE_QUEUE {
            return false;
        }
        let mut path = Path::default();
        let mut entity = queue;
        while entity != NIL {
            if !self.schedule.entity(entity).is_on_tree || !path.push(entity) {
                return false;
            }
            entity = self.parent_entity(entity);
        }
        let mut limit = u64::from(depth);
        while let Some(entity) = path.pop() {
            let state = self.schedule.entity(entity);
            let mut sum = 0_u64;
            if self.is_queue(entity) {
                let first = state.parent.wrapping_mul(super::state::CLASSES);
                for class in 0..=super::state::class_index(state.class) {
                    let tree = self.schedule.tree(first.wrapping_add(class));
                    sum = sum.saturating_mul(CLASS_STEP).saturating_add(tree.weight_sum.value());
                }
            } else {
                sum = self.schedule.tree(self.schedule.tree_index(entity)).weight_sum.value();
            }
            if sum == 0 {
                continue;
            }
            let rounded = limit.saturating_mul(u64::from(state.weight)).saturating_add(sum / 2);
            limit = rounded.checked_div(sum).unwrap_or(limit);
            if u64::from(state.allocated) >= limit {
                return true;
            }
        }
        false
    }
}

/// The path from a queue to the root; deeper trees are not limited.
#[derive(Default)]
struct Path {
    entities: [u32; 16],
    len: usize,
}

impl Path {
    fn push(&mut self, entity: u32) -> bool {
        match self.entities.get_mut(self.len) {
            Some(place) => {
                *place = entity;
                self.len = self.len.wrapping_add(1);
                true
            }
            None => false,
        }
    }

    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.entities.get(self.len).copied()
    }
}
