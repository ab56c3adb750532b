//! Whether a queue leads its siblings by too much, and what follows from it.

use super::{Node, Order, inverse, span};
use crate::group::WEIGHT_DEFAULT;
use crate::request::Bio;
use hoistway_block::Nanos;

/// Whether a queue, or a group that contains it, leads one of its siblings.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It leads no active sibling by more than the allowed lead.
    InOrder,
    /// It leads a sibling that has requests in flight.
    Ahead,
    /// It leads a sibling without requests, which is expected to send one before this time.
    AheadUntil(Nanos),
}

/// The allowed lead over an active sibling: the sum of the three terms.
#[derive(Copy, Clone, Debug)]
pub struct Lead {
    /// In sectors of the child that leads.
    pub sectors: u64,
    /// In multiples of `sectors`, for each request that the leading child has in flight.
    pub by_in_flight: u64,
    /// In virtual time.
    pub extra: u64,
}

impl Lead {
    /// This many sectors of a child of weight 100, which is the same virtual time for every child.
    pub fn of_weight_100(sectors: u64) -> Self {
        Self { sectors: 0, by_in_flight: 0, extra: span(sectors, inverse(WEIGHT_DEFAULT)) }
    }

    fn span(self, inverse_weight: u64, in_flight: u32) -> u64 {
        let times = self.by_in_flight.saturating_mul(u64::from(in_flight)).saturating_add(1);
        span(self.sectors.saturating_mul(times), inverse_weight).saturating_add(self.extra)
    }
}

impl Order {
    /// The lead, in virtual time, of the last queue that was found to lead by too much.
    pub const fn lead(&self) -> u64 {
        self.lead
    }

    /// Notes when the last [`Standing`] that was not [`Standing::InOrder`] was found.
    pub fn note_leader(&mut self, now: Nanos) {
        let Some(first) = self.groups.at(self.nodes.at(self.leader).parent).busy.first() else { return };
        let led_cost = self.nodes.at(first).last_cost;
        let leader = self.nodes.at_mut(self.leader);
        (leader.led_ns, leader.led_cost) = (now, led_cost);
    }

    /// A queue that led goes on: what it or its groups were found to lead counts as found now.
    pub fn still_leads(&mut self, queue: u32, now: Nanos) {
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let node = self.nodes.at_mut(at);
            node.led_ns = if node.led_ns == 0 { 0 } else { now };
            let Some(parent) = self.parent_node(at) else { return };
            at = parent;
        }
    }

    /// The charge for the last request of a sibling that a group of a bio was found to lead by too much
    /// after `since_ns`; on several levels, the smallest one.
    pub fn led_cost(&self, bio: &Bio, since_ns: Nanos) -> Option<u32> {
        let mut at = self.node_of(self.home(bio.group));
        let mut least = None;
        for _ in 0..=self.groups.len() {
            let node = self.nodes.at(at);
            if node.led_ns > since_ns {
                least = Some(least.unwrap_or(u32::MAX).min(node.led_cost));
            }
            let Some(parent) = self.parent_node(at) else { break };
            at = parent;
        }
        least
    }

    /// Whether a queue, or one of its groups, leads an active sibling by more than `lead`.
    pub fn standing(&mut self, queue: u32, lead: Lead, now: Nanos) -> Standing {
        if self.is_sole() {
            return Standing::InOrder;
        }
        let mut at = queue;
        let mut standing = Standing::InOrder;
        for _ in 0..=self.groups.len() {
            match self.against_siblings(at, lead, now) {
                Standing::InOrder => {}
                Standing::Ahead => return Standing::Ahead,
                until => standing = until,
            }
            let Some(parent) = self.parent_node(at) else { break };
            at = parent;
        }
        standing
    }

    fn against_siblings(&mut self, node: u32, lead: Lead, now: Nanos) -> Standing {
        let Node { tag, inverse_weight, parent, in_flight, .. } = *self.nodes.at(node);
        if self.groups.at(parent).busy.is_empty() {
            return Standing::InOrder;
        }
        let allowed = lead.span(inverse_weight, in_flight);
        for _ in 0..self.nodes.len() {
            let group = self.groups.at_mut(parent);
            let Some(first) = group.busy.first() else { return Standing::InOrder };
            let behind = self.nodes.at(first);
            let least = behind.tag.max(group.floor);
            if tag <= least.saturating_add(allowed) {
                return Standing::InOrder;
            }
            self.lead = tag.saturating_sub(least);
            self.leader = node;
            if behind.in_flight > 0 {
                return Standing::Ahead;
            }
            let until = behind.done_ns.saturating_add(self.wait_ns);
            if now < until && !behind.is_late {
                return Standing::AheadUntil(until);
            }
            group.busy.remove(&mut self.busy, first);
            let behind = self.nodes.at_mut(first);
            (behind.is_late, behind.was_passed) = (true, true);
        }
        Standing::InOrder
    }

    /// For a queue that is dispatched although it leads. On each level, siblings that lag behind
    /// the queue by more than this many of its sectors are moved up to that lag.
    pub fn bound_lag(&mut self, queue: u32, sectors: u64) {
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let Node { tag, inverse_weight, parent, .. } = *self.nodes.at(at);
            let group = self.groups.at_mut(parent);
            group.floor = group.floor.max(tag.saturating_sub(span(sectors, inverse_weight)));
            let Some(above) = self.parent_node(at) else { return };
            at = above;
        }
    }
}
