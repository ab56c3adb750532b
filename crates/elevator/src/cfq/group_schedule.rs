//! The choice of the group to serve, by the smallest `vdisktime` (its virtual time), and of the
//! workload: a class and a type of queue in this group.

use super::Cfq;
use super::profile::NoIdle;
use super::slice::Usage;
use super::state::{WORKLOAD_TYPES, Workload, WorkloadType};
use hoistway_block::Class;

/// Fixed-point shift of `vdisktime`.
const SERVICE_SHIFT: u32 = 12;
/// At this weight one unit charged is one unit of `vdisktime` (in fixed point).
const WEIGHT_UNIT: u64 = 500;
/// Larger charges are capped at this, so that products fit into 64 bits.
const MOST_CHARGED: u64 = 1 << 39;
/// The advance of `vdisktime` for `units` at a weight.
#[inline]
pub const fn scaled_charge(units: u64, weight: u32) -> u64 {
    let units = if units > MOST_CHARGED { MOST_CHARGED } else { units };
    match (units << SERVICE_SHIFT).saturating_mul(WEIGHT_UNIT).checked_div(weight as u64) {
        Some(scaled) => scaled,
        None => 0,
    }
}

/// The advance of `vdisktime` for `units` of a group that is due this fraction of the device
/// (4.20).
#[inline]
pub const fn scaled_charge_of_fraction(units: u64, fraction: u64) -> u64 {
    let units = if units > MOST_CHARGED { MOST_CHARGED } else { units };
    match (units << (2 * SERVICE_SHIFT)).checked_div(fraction) {
        Some(scaled) => scaled,
        None => 0,
    }
}

impl Cfq {
    /// A queue was linked in one of the group's trees. A group that becomes busy is placed behind
    /// all others (quirk Q4 of docs/specifications/cfq.md).
    #[inline(never)]
    pub(super) fn group_queue_added(&mut self, group: u32) {
        let Some(state) = self.groups.get_mut(group) else { return self.count_violation() };
        state.busy_queues = state.busy_queues.wrapping_add(1);
        if self.group_order.holds(group) {
            return;
        }
        let vdisktime = self.group_order.behind_all(|| self.return_delay());
        if let Some(state) = self.groups.get_mut(group) {
            state.vdisktime = vdisktime;
        }
        self.enter_order(group);
    }

    /// A queue of the group was unlinked. If it was the last one, the group leaves the order.
    #[inline(never)]
    pub(super) fn group_queue_removed(&mut self, group: u32) {
        let Some(state) = self.groups.get_mut(group).filter(|state| state.busy_queues > 0) else {
            return self.count_violation();
        };
        state.busy_queues = state.busy_queues.wrapping_sub(1);
        if state.busy_queues > 0 {
            return;
        }
        state.saved_slice_ticks = 0;
        state.account.dequeues = state.account.dequeues.wrapping_add(1);
        self.log_group(group, "del_from_rr group", &[]);
        self.leave_order(group);
    }

    fn return_delay(&self) -> u64 {
        let is_by_requests = self.profile.has_hierarchy && self.is_iops_mode();
        let second = if is_by_requests { self.jiffies_per_second() } else { self.clock.ticks().second_ticks };
        second / 5
    }

    fn jiffies_per_second(&self) -> u64 {
        self.clock.ticks().second_ticks.checked_div(self.clock.ticks().jiffy_ticks).unwrap_or(1)
    }

    /// The group enters the order; a changed weight takes effect here (quirk Q5 of the
    /// specification).
    fn enter_order(&mut self, group: u32) {
        if self.profile.has_hierarchy {
            self.activate_in_hierarchy(group);
        } else {
            if let Some(state) = self.groups.get_mut(group) {
                state.weight = state.new_weight;
            }
        }
        let state = self.groups.at(group);
        let vdisktime = state.vdisktime;
        if !self.group_order.enter(group, vdisktime, state.weight) {
            self.count_violation();
        }
        if self.group_order.begins_anew(vdisktime) {
            self.renumber();
        }
    }

    fn leave_order(&mut self, group: u32) {
        if !self.group_order.leave(group) {
            self.count_violation();
            return;
        }
        self.group_order.forget_weight(self.groups.at(group).weight);
        if self.profile.has_hierarchy {
            self.deactivate_in_hierarchy(group);
        }
    }

    #[inline]
    fn renumber(&mut self) {
        self.group_order.renumber(&mut self.groups);
    }

    /// Whether service is counted in requests instead of time, for devices that serve many at once
    /// (IOPS mode).
    #[inline]
    pub(super) fn is_iops_mode(&self) -> bool {
        self.profile.has_iops_mode && self.settings.slice_idle_ticks == 0 && self.device.may_queue()
    }

    /// Renumbers the groups if the mode has changed since the last charge, because their service so
    /// far was counted in another unit (quirk Q15 of docs/specifications/cfq.md).
    #[inline]
    pub(super) fn notice_mode(&mut self) {
        if self.group_order.change_unit(self.is_iops_mode()) {
            self.renumber();
        }
    }

    /// What a queue's group is charged when the queue's service ends.
    #[inline(never)]
    pub(super) fn turn_charge(&self, queue: u32) -> TurnCharge {
        let state = self.queues.at(queue);
        let (now, jiffy_ticks) = (self.clock.now(), self.clock.ticks().jiffy_ticks);
        let Usage { in_slice, unaccounted } = state.slice.usage(now, jiffy_ticks, self.profile.has_late_rules);
        let (group, is_sync, dispatched) = (state.group, state.is_sync(), state.slice.requests());
        let allocated = state.slice.length_ticks();
        let is_iops_mode = self.is_iops_mode();
        let charge = if is_iops_mode {
            dispatched
        } else if !is_sync && self.sync_busy(group) == 0 {
            allocated
        } else {
            in_slice
        };
        TurnCharge { group, charge, in_slice, unaccounted, is_iops_mode }
    }

    /// Records a turn in the group's account.
    #[inline(never)]
    pub(super) fn account_turn(&mut self, turn_charge: &TurnCharge) {
        let group = turn_charge.group;
        self.save_workload(group);
        let (time_ns, unaccounted_ns) =
            (self.clock.ticks().ns(turn_charge.in_slice), self.clock.ticks().ns(turn_charge.unaccounted));
        let now_ns = self.clock.now_ns();
        let Some(state) = self.groups.get_mut(group) else { return };
        state.account.time_ns = state.account.time_ns.wrapping_add(time_ns);
        state.account.unaccounted_ns = state.account.unaccounted_ns.wrapping_add(unaccounted_ns);
        if state.account.queued.total() == 0 && state.empty_since_ns.is_none() {
            state.empty_since_ns = Some(now_ns);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_vdisktime(&mut self, group: u32) {
        let vdisktime = self.groups.at(group).vdisktime;
        self.log_group(group, "served: vt={0} min_vt={1}", &[vdisktime, self.group_order.min_vdisktime()]);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn log_charge(&mut self, queue: u32, turn_charge: &TurnCharge) {
        let state = self.queues.at(queue);
        let (dispatched, sectors) = (state.slice.requests(), state.slice.sectors());
        let text = if self.profile.has_iops_mode {
            "sl_used={0} disp={1} charge={2} iops={3} sect={4}"
        } else {
            "sl_used={0}"
        };
        let numbers =
            [turn_charge.in_slice, dispatched, turn_charge.charge, u64::from(turn_charge.is_iops_mode), sectors];
        self.log_queue(queue, text, &numbers);
    }

    #[inline(never)]
    pub(super) fn pay(&mut self, group: u32, charge: u64) {
        let state = self.groups.at(group);
        let scaled = if self.profile.has_hierarchy {
            scaled_charge_of_fraction(charge, state.fraction)
        } else {
            scaled_charge(charge, state.weight)
        };
        let is_in_order = self.group_order.holds(group);
        if is_in_order {
            self.leave_order(group);
        }
        let state = self.groups.at_mut(group);
        state.vdisktime = state.vdisktime.saturating_add(scaled);
        if is_in_order {
            self.enter_order(group);
        }
    }

    /// Saves how much time the present workload has left, for the group's next turn.
    fn save_workload(&mut self, group: u32) {
        let Workload { class, kind, expires_ticks, .. } = self.serving;
        let left = expires_ticks.saturating_sub(self.clock.now());
        let state = self.groups.at_mut(group);
        state.saved_slice_ticks = left;
        if left > 0 {
            (state.saved_class, state.saved_type) = (class, kind);
        }
    }

    /// Number of a group's busy sync queues that are not of the idle class.
    fn sync_busy(&self, group: u32) -> u32 {
        let idle = self.trees.len(self.tree_index(group, Class::Idle, WorkloadType::Sync));
        let busy = self.groups.at(group).busy_queues;
        busy.saturating_sub(self.async_busy(group)).saturating_sub(idle)
    }

    /// Chooses the group with the least service, and its workload.
    pub(super) fn choose_group(&mut self) {
        let Some(group) = self.group_order.choose_first() else { return };
        let state = self.groups.at(group);
        self.serving.group = group;
        if state.saved_slice_ticks > 0 {
            self.serving.expires_ticks = self.clock.now().saturating_add(state.saved_slice_ticks);
            (self.serving.class, self.serving.kind) = (state.saved_class, state.saved_type);
        } else {
            self.serving.expires_ticks = self.clock.now().saturating_sub(1);
        }
        self.choose_workload(group);
    }

    #[inline(never)]
    fn choose_workload(&mut self, group: u32) {
        let original = self.serving.class;
        let class = if self.class_busy(group, Class::RealTime) > 0 {
            Class::RealTime
        } else if self.class_busy(group, Class::BestEffort) > 0 {
            Class::BestEffort
        } else {
            self.serving.class = Class::Idle;
            self.serving.expires_ticks = self.clock.now().saturating_add(self.clock.ticks().jiffy_ticks);
            return;
        };
        self.serving.class = class;
        let starts_anew = self.profile.has_late_rules && class != original;
        let tree = self.tree_index(group, class, self.serving.kind);
        if !starts_anew && self.trees.len(tree) > 0 && self.clock.now() <= self.serving.expires_ticks {
            return;
        }
        self.serving.kind = self.first_type(group, class);
        let slice = self.workload_slice(group, class, self.serving.kind);
        self.log("workload slice:{0}", &[slice]);
        self.serving.expires_ticks = self.clock.now().saturating_add(slice);
        if self.profile.no_idle == NoIdle::PerWorkload {
            self.serving.requires_idle = false;
        }
    }

    /// The type of queue whose first queue has the smallest key.
    fn first_type(&self, group: u32, class: Class) -> WorkloadType {
        let mut first = (i64::MAX, WorkloadType::SyncNoIdle);
        for kind in WORKLOAD_TYPES {
            let key = self.trees.first_key(self.tree_index(group, class, kind));
            if let Some(key) = key.filter(|key| *key < first.0) {
                first = (key, kind);
            }
        }
        first.1
    }
}

/// The charge for a turn.
#[derive(Debug)]
pub struct TurnCharge {
    pub group: u32,
    /// Ticks, or requests in IOPS mode.
    pub charge: u64,
    in_slice: u64,
    unaccounted: u64,
    is_iops_mode: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t07_vdisktime_by_weight() {
        assert_eq!((scaled_charge(33, 100), scaled_charge(100, 800)), (675_840, 256_000));
        assert_eq!(
            [100, 200, 500, 800, 1000].map(|weight| scaled_charge(1, weight)),
            [20_480, 10_240, 4096, 2560, 2048]
        );
    }

    #[test]
    fn a_fraction_of_the_whole_device_pays_as_it_is() {
        assert_eq!(scaled_charge_of_fraction(1, 4096), 4096);
        assert_eq!(scaled_charge_of_fraction(1_000_000, 2048), 8_192_000_000);
    }
}
