//! Fast path for a single active issuer: its queue is in no tree, and its charges are summed. Any
//! other event first puts the queue back where it would be without the fast path. This saves the
//! kernel much of the cost while one process is busy.

use super::{NIL, Node, Order, ROOT, Strict, span};
use crate::request::Bio;
use hoistway_block::Nanos;

/// The only active issuer.
#[derive(Debug)]
pub(super) struct SoleIssuer {
    /// Its queue, or [`NIL`].
    pub queue: u32,
    weight: u32,
    /// The change in its requests in flight since it became the only one (wrapping), and when its
    /// last request ended.
    pub more_in_flight: u32,
    pub done_ns: Nanos,
    /// Sectors charged since it became the only one, and the charge of the last request.
    cost: u64,
    last_cost: u32,
}

impl SoleIssuer {
    pub const NONE: SoleIssuer =
        SoleIssuer { queue: NIL, weight: 0, more_in_flight: 0, done_ns: 0, cost: 0, last_cost: 0 };
}

impl Order {
    /// Whether only one issuer is active.
    #[inline(always)]
    pub const fn is_sole(&self) -> bool {
        self.sole.queue != NIL
    }

    /// The oldest request of the sole issuer.
    #[inline(always)]
    pub fn head_of_sole(&self) -> Option<u32> {
        self.queues.at(self.sole.queue).first()
    }

    /// Whether a request belongs to the sole issuer.
    #[inline(always)]
    pub(super) fn is_of_sole(&self, bio: &Bio, place: super::Place) -> bool {
        let SoleIssuer { queue, weight, .. } = self.sole;
        bio.context.0 == queue
            && !place.is_shared
            && place.weight == weight
            && self.nodes.at(queue).parent == self.home(bio.group)
    }

    /// A queue became backlogged: it is taken out of the trees if no other is active.
    #[inline]
    pub(super) fn begin_sole(&mut self, queue: u32, weight: u32) {
        if self.tenants() == 1 && queue < self.contexts && self.strict != Strict::Never {
            self.try_begin_sole(queue, weight);
        }
    }

    #[inline(never)]
    fn try_begin_sole(&mut self, queue: u32, weight: u32) {
        let mut at = queue;
        loop {
            let Node { parent, in_flight, .. } = *self.nodes.at(at);
            let group = self.groups.at(parent);
            if group.ready.len() != 1 || !group.busy.is_empty() {
                return;
            }
            if parent == ROOT {
                break;
            }
            at = self.node_of(parent);
            // Issuers with nothing queued may be in no tree.
            if self.nodes.at(at).in_flight != in_flight {
                return;
            }
        }
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let parent = self.nodes.at(at).parent;
            self.groups.at_mut(parent).ready.remove(&mut self.ready, at);
            if parent == ROOT {
                break;
            }
            at = self.node_of(parent);
        }
        let done_ns = self.nodes.at(queue).done_ns;
        self.sole = SoleIssuer { queue, weight, done_ns, ..SoleIssuer::NONE };
    }

    /// A request of the sole issuer was dispatched to the device.
    #[inline(always)]
    pub(super) fn charge_sole(&mut self, cost: u64) {
        self.sole.cost = self.sole.cost.saturating_add(cost);
        self.sole.last_cost = u32::try_from(cost).unwrap_or(u32::MAX);
        self.sole.more_in_flight = self.sole.more_in_flight.wrapping_add(1);
    }

    /// A request of the sole issuer left the device.
    #[inline(always)]
    pub(super) fn left_device_of_sole(&mut self, now: Nanos) {
        (self.sole.more_in_flight, self.sole.done_ns) = (self.sole.more_in_flight.wrapping_sub(1), now);
    }

    /// Leaves the fast path: puts the sole issuer's queue and groups where they would be.
    #[inline(always)]
    pub(super) fn end_sole(&mut self) {
        if self.is_sole() {
            self.settle_sole();
        }
    }

    #[inline(never)]
    fn settle_sole(&mut self) {
        let SoleIssuer { queue, more_in_flight, done_ns, cost, last_cost, .. } =
            core::mem::replace(&mut self.sole, SoleIssuer::NONE);
        let is_waiting = !self.queues.at(queue).is_empty();
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let node = self.nodes.at_mut(at);
            let group = self.groups.at_mut(node.parent);
            if cost > 0 {
                node.tag = node.tag.max(group.floor).saturating_add(span(cost, node.inverse_weight));
                let start = node.tag.saturating_sub(span(u64::from(last_cost), node.inverse_weight));
                group.virtual_time = group.virtual_time.max(start);
                node.last_cost = last_cost;
            }
            (node.in_flight, node.done_ns) = (node.in_flight.wrapping_add(more_in_flight), done_ns);
            let (tag, parent) = (node.tag, node.parent);
            if is_waiting {
                group.ready.insert(&mut self.ready, at, tag);
            } else {
                self.remember(at);
            }
            if parent == ROOT {
                return;
            }
            at = self.node_of(parent);
        }
    }

    /// Whether a node is the sole issuer's queue or a group of it; for checks.
    pub(super) fn is_above_sole(&self, node: u32) -> bool {
        let mut at = self.sole.queue;
        if at == NIL {
            return false;
        }
        for _ in 0..=self.groups.len() {
            if at == node {
                return true;
            }
            let Some(parent) = self.parent_node(at) else { return false };
            at = parent;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lead, Place, cost};
    use super::*;
    use crate::interface::Configuration;
    use crate::request::{Attributes, Requests};
    use alloc::vec::Vec;
    use hoistway_block::random::Stream;
    use hoistway_block::{ContextId, Extent, GroupId, Operation};

    /// Two orders get the same calls; in one of them the fast path ends after every call. Choice,
    /// lead and activity must be the same. Weights are powers of two, so that sums of charges are
    /// not rounded.
    #[test]
    fn the_order_does_not_depend_on_the_short_cut() {
        let configuration = Configuration { slots: 64, contexts: 4, groups: 3, ..Configuration::default() };
        let (mut alone, mut calls) = (0, 0);
        for seed in 0..40 {
            let mut random = Stream::of(seed, "order/sole");
            let mut orders = [0, 1].map(|_| {
                let mut order = Order::try_new(&configuration, Strict::Groups).unwrap();
                order.set_patience(100_000, 100_000);
                order.group_added(GroupId(1), GroupId::ROOT, 64);
                order.group_added(GroupId(2), GroupId(1), 256);
                order.group_changed(GroupId(order.own), 128);
                order
            });
            let mut requests = Requests::try_new(64).unwrap();
            let (mut in_flight, mut now, mut place) = (Vec::new(), 1_000_000, 0_u64);
            for _ in 0..2_000 {
                now += random.below(20_000);
                calls += 1;
                // One issuer most of the time; the others in bursts.
                let issuer = if now % 8_000_000 < 6_000_000 { 0 } else { u32::try_from(random.below(4)).unwrap() };
                match random.below(3) {
                    0 if requests.in_use() < 48 => {
                        place += 8;
                        let mut bio = Attributes::new(Operation::Read, Extent::new(place, 8 << random.below(3)));
                        (bio.context, bio.group) = (ContextId(issuer), GroupId(issuer % 3));
                        let id = requests.allocate(bio, now).unwrap();
                        let own = Place { is_shared: false, weight: 64 };
                        let [a, b] = orders.each_mut().map(|order| order.insert(&bio, id.slot(), own, false, now));
                        assert_eq!(a, b);
                    }
                    1 => {
                        let [a, b] = orders.each_ref().map(Order::first);
                        assert_eq!(a, b);
                        let Some(queue) = a else { continue };
                        let lead = Lead { sectors: 8, by_in_flight: 0, extra: 0 };
                        let [a, b] = orders.each_mut().map(|order| order.standing(queue, lead, now));
                        assert_eq!(a, b);
                        let slot = orders[0].head(queue).unwrap();
                        let charge = cost(requests.attributes(requests.id_of(slot).unwrap()), 0);
                        orders.iter_mut().for_each(|order| assert_eq!(order.serve(slot, charge), queue));
                        in_flight.push((slot, queue));
                    }
                    _ if !in_flight.is_empty() => {
                        let (slot, queue) = in_flight.swap_remove(0);
                        orders.iter_mut().for_each(|order| order.left_device(queue, now));
                        let id = requests.id_of(slot).unwrap();
                        requests.free(id);
                    }
                    _ => {}
                }
                alone += u32::from(orders[0].is_sole());
                orders[1].end_sole();
                assert_eq!(orders[0].in_flight(0), orders[1].in_flight(0));
            }
            orders[0].end_sole();
            for node in 0..orders[0].nodes.len() {
                assert_eq!(orders[0].nodes.at(node).tag, orders[1].nodes.at(node).tag, "node {node}, seed {seed}");
            }
            assert_eq!(orders[0].violations() + orders[1].violations(), 0);
        }
        assert!(alone > 10_000 && alone < calls - 10_000, "alone after {alone} of {calls} calls");
    }
}
