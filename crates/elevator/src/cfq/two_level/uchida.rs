//! uchida: a complete CFQ of 2.6.26 (below: the engine) in each group, and above them a service
//! tree of groups with CFQ's own rules for sync queues: slices that begin with the first
//! completion, and keys that put low levels further back.
//!
//! Promise  always backlogged groups share time as 8 - level, 0 the highest: 8 : 4 : 1 for 0, 4 and
//!          7; with `key_offset` 1, as in 2008, as 16 : 8 : 1. A group is served as long as its
//!          engine keeps the device for a queue: idling there is idling for the group.
//! Source   Satoshi Uchida, "CFQ-cgroup: Control cfq_data per driver", linux-kernel, 2008-04-01,
//!          and his report of 2008-05-27; docs/specifications/cfq.md, section 15.2. The rules of
//!          the layer are modelled on the engine's, as he described them.

use super::{GROUP_LEVELS, PerGroup, Profile, Turn, must, rows_with};
use crate::cfq::Cfq;
use crate::cfq::slices::key_offset;
use crate::cfq::tunables::{MOST, ROWS_FIRST, Ticks};
use crate::group::GroupPriority;
use crate::interface::{Form, Version, Violation};
use crate::structures::{Array, NIL, NoMemory, SortedLinks, Tree};
use crate::tunable::{OutOfRange, Tunable, Unit};
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Level of a group without one.
const DEFAULT_LEVEL: u8 = 3;
/// One level is worth a fifth of the base slice.
const SLICE_SCALE: u64 = 5;

const OWN_ROWS: [Tunable; 2] = [
    Tunable {
        name: "group_slice",
        unit: Unit::Milliseconds,
        min: 1,
        max: MOST,
        default: Some(100),
        out_of_range: OutOfRange::Clamp,
        doc: "Slice of a group of level 3; each level changes it by a fifth.",
    },
    Tunable {
        name: "key_offset",
        unit: Unit::Boolean,
        min: 0,
        max: 1,
        default: Some(1),
        out_of_range: OutOfRange::Clamp,
        doc: "Whether low levels are also placed further back in the rotation (as in 2008), or the rotation is \
            plain and shares follow the slices.",
    },
];
const GROUP_SLICE: usize = 0;
const KEY_OFFSET: usize = 1;

const ROWS: [Tunable; ROWS_FIRST.len() + OWN_ROWS.len()] = rows_with(OWN_ROWS);

/// The slice of a level.
#[inline]
const fn group_slice(base: u64, level: u8) -> u64 {
    let level = if level > 7 { 7 } else { level as u64 };
    (base / SLICE_SCALE).saturating_mul(GROUP_LEVELS as u64 - level)
}

#[derive(Copy, Clone, Debug)]
struct State {
    level: u8,
    /// Unused rest of the last slice; negative if the slice was exceeded.
    rest_ticks: i64,
}

const NEW: State = State { level: DEFAULT_LEVEL, rest_ticks: 0 };

/// The service tree of groups.
#[derive(Debug)]
pub struct Layer {
    base_ticks: u64,
    has_key_offset: bool,
    groups: Array<State>,
    links: SortedLinks,
    /// Groups with requests, and the active one, in the order of their turns.
    order: Tree,
    active: u32,
    /// The slice of the active group begins with its next completion.
    is_slice_new: bool,
    slice_end_ticks: u64,
    active_since_ns: Nanos,
}

impl Layer {
    /// Places a group in the order. The position depends on the number of the other groups, so they
    /// are counted before the group is linked. This is rare, compared with requests.
    #[inline(never)]
    fn link(&mut self, engine: &Cfq, group: u32) {
        let others = i64::from(self.order.len());
        let state = self.groups.at_mut(group);
        let rest = core::mem::replace(&mut state.rest_ticks, 0);
        let slice = group_slice(self.base_ticks, state.level);
        let offset = if self.has_key_offset { key_offset(others, group_slice(self.base_ticks, 0), slice) } else { 0 };
        let key = engine.clock.now().saturating_add_signed(offset).saturating_add_signed(rest);
        self.order.insert(&mut self.links, group, key);
    }

    /// Ends the active group's turn; if `keeps_rest`, an overlong turn brings the group's next one
    /// forward by the excess (the sign of quirk Q13 of docs/specifications/cfq.md).
    #[inline(never)]
    fn expire(&mut self, engine: &mut Cfq, keeps_rest: bool) {
        let group = core::mem::replace(&mut self.active, NIL);
        engine.load_instance(group);
        if keeps_rest && !self.is_slice_new {
            let rest = self.slice_end_ticks.cast_signed().wrapping_sub(engine.clock.now().cast_signed());
            self.groups.at_mut(group).rest_ticks = rest;
        }
        engine.group_ends(group, self.active_since_ns);
        self.order.remove(&mut self.links, group);
        if engine.queued_in(group) > 0 {
            self.link(engine, group);
        }
    }

    #[inline]
    fn is_slice_used(&self, engine: &Cfq) -> bool {
        !self.is_slice_new && engine.clock.now() >= self.slice_end_ticks
    }

    /// Whether the active group, whose engine is loaded, has no requests any more: queued, in
    /// flight or expected.
    fn has_no_work(&self, engine: &Cfq) -> bool {
        engine.queued_in(self.active) == 0
            && engine.groups.at(self.active).dispatched == 0
            && engine.engine.timer_at.is_none()
    }
}

impl super::Layer for Layer {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(2, 6, 25), profile: () }];
    const DEFAULT_FORM: usize = 0;
    const ENGINE: &'static Profile = &Profile::first_in_groups(PerGroup::Engine);

    fn try_new(groups: u32, ticks: &Ticks, (): ()) -> Result<Self, NoMemory> {
        Ok(Self {
            base_ticks: ticks.round_up(100 * MILLISECOND),
            has_key_offset: true,
            groups: Array::try_new(groups, NEW)?,
            links: SortedLinks::try_new(groups)?,
            order: Tree::EMPTY,
            active: NIL,
            is_slice_new: false,
            slice_end_ticks: 0,
            active_since_ns: 0,
        })
    }

    fn rows(&self) -> &'static [Tunable] {
        &ROWS
    }

    fn setting(&self, row: usize, ticks: &Ticks) -> Option<i64> {
        match row {
            GROUP_SLICE => i64::try_from(ticks.ns(self.base_ticks) / MILLISECOND).ok(),
            KEY_OFFSET => Some(i64::from(self.has_key_offset)),
            _ => None,
        }
    }

    fn set(&mut self, row: usize, value: i64, ticks: &Ticks) {
        match row {
            GROUP_SLICE => self.base_ticks = ticks.round_up(value.unsigned_abs().saturating_mul(MILLISECOND)),
            _ => self.has_key_offset = value != 0,
        }
    }

    fn set_priority(&mut self, group: u32, priority: Option<GroupPriority>) {
        self.groups.at_mut(group).level = priority.map_or(DEFAULT_LEVEL, GroupPriority::level);
    }

    fn active(&self) -> u32 {
        self.active
    }

    /// The active group stays linked until its turn ends, even when it has no requests.
    #[inline]
    fn settle(&mut self, engine: &Cfq, group: u32) {
        let (is_linked, is_wanted) = (self.links.is_linked(group), engine.queued_in(group) > 0);
        if is_wanted && !is_linked {
            self.link(engine, group);
        } else if !is_wanted && is_linked && group != self.active {
            self.order.remove(&mut self.links, group);
        }
    }

    fn turn(&mut self, engine: &mut Cfq) -> Turn {
        let mut is_new = false;
        if self.active != NIL {
            engine.load_instance(self.active);
            if self.is_slice_used(engine) || self.has_no_work(engine) {
                self.expire(engine, false);
            }
        }
        if self.active == NIL {
            let Some(group) = self.order.first() else { return Turn::NoGroup };
            engine.group_begins(group);
            engine.fire_overdue();
            (self.active, self.is_slice_new, self.active_since_ns) = (group, true, engine.clock.now_ns());
            is_new = true;
        }
        if engine.queued_in(self.active) > 0 {
            Turn::Serve { is_new }
        } else if engine.load.requests() > 0 {
            Turn::Wait
        } else {
            Turn::NoGroup
        }
    }

    fn interrupt(&mut self, engine: &mut Cfq) {
        if self.active != NIL {
            self.expire(engine, false);
        }
    }

    /// The first completion of a turn begins the slice; any completion may end it.
    #[inline]
    fn completed(&mut self, engine: &mut Cfq, group: u32) {
        if group == NIL {
            return;
        }
        if group != self.active {
            // If the completion has started an idle timer, it keeps running, but the device is not
            // idled: another group is served.
            engine.engine.idle_since_ns = None;
            return;
        }
        if self.is_slice_new {
            self.is_slice_new = false;
            let slice = group_slice(self.base_ticks, self.groups.at(group).level);
            self.slice_end_ticks = engine.clock.now().saturating_add(slice);
        }
        if self.is_slice_used(engine) {
            self.expire(engine, true);
        }
    }

    fn renew(&mut self, engine: &mut Cfq, group: u32) {
        if group == self.active {
            super::Layer::interrupt(self, engine);
        }
        if self.links.is_linked(group) {
            self.order.remove(&mut self.links, group);
        }
        *self.groups.at_mut(group) = NEW;
    }

    fn check(&self, engine: &Cfq) -> Result<(), Violation> {
        for group in 0..self.groups.len() {
            let is_wanted = engine.queued_in(group) > 0 || group == self.active;
            must(
                self.links.is_linked(group) == is_wanted,
                "exactly the groups with requests and the active group are in the rotation",
                group,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_levels_are_fifths_of_the_base() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|level| group_slice(100, level)), [160, 140, 120, 100, 80, 60, 40, 20]);
    }
}
