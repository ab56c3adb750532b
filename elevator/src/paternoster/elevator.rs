//! The calls of a host.

use super::arrival::SPARE_LEAF;
use super::pick::{Decision, Found};
use super::state::{Held, Place, ROOT};
use super::*;

impl Elevator for Paternoster {
    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.admission(bio.group)
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.count_tag(requests.attributes(id).group, true);
    }

    fn freed(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.count_tag(requests.attributes(id).group, false);
    }

    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let request = requests.attributes(id);
        let is_of_one = request.is_sync() == bio.is_sync() && (!bio.is_sync() || request.context == bio.context);
        is_of_one && self.may_grow(id, request.extent.sectors.saturating_add(bio.extent.sectors))
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, _side: Side, now: Nanos) {
        self.now = now;
        if self.holds_request(id, Held::Queued) {
            self.note_merged(requests, id);
            let entry = self.slots.at(id.slot());
            let (leaf, class) = (entry.leaf, entry.class);
            if class == Class::BestEffort {
                self.roll_generation();
                self.learn_think_time(leaf);
                self.came_back(leaf);
            }
        }
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.now = now;
        if self.holds_request(keep, Held::Queued) {
            self.note_merged(requests, keep);
        }
        if self.holds_request(gone, Held::Queued) {
            self.take_out(gone.slot());
        }
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        self.now = now;
        let is_free = self.slots.get(id.slot()).is_some_and(|slot| slot.held == Held::Nowhere && slot.leaf == NIL);
        if !is_free {
            self.complain();
            return Wake::No;
        }
        self.roll_generation();
        if self.inside == 0 && self.queued_total == 0 {
            self.busy_from_ns = now;
        }
        match at {
            Position::Sorted(_) => self.add(requests, id),
            Position::Head | Position::Requeue => self.add_direct(requests, id),
        }
        self.wake_up()
    }

    fn choose(&mut self, _requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.now = now;
        (self.is_holding, self.hold_until) = (false, None);
        if let Some(id) = self.next_direct() {
            return Dispatch::Request { id, reason: Why::HeadInsert.into() };
        }
        if self.disordered != NIL {
            self.put_in_order();
        }
        self.step_epoch();
        self.roll_generation();
        if let Some((slot, why)) = self.urgent() {
            return self.send(slot, why);
        }
        if self.ladder.is_due() && self.ladder.step() {
            self.change_way();
        }
        let mut found = if self.ladder.way() == Way::Cabin { self.serve_cabin() } else { self.descend() };
        while let Found::HeldBelow(member) = found {
            found = if self.set_aside(member) { self.descend() } else { Found::Held };
        }
        if self.set_aside_vt.is_some() {
            self.put_back();
            if let Found::Nobody = found {
                found = Found::Held;
            }
        }
        if let Found::Request { slot, why } = found {
            return self.send(slot, why);
        }
        match self.instead(&found) {
            Decision::Send { slot, why } => self.send(slot, why),
            Decision::Answer(answer) => answer,
        }
    }

    fn drain(&mut self, _requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.now = now;
        if let Some(id) = self.next_direct() {
            return Some(id);
        }
        let slot = self.real_time.first().or(self.oldest.first()).or(self.idle.first())?;
        match self.send(slot, Why::FirstInOrder) {
            Dispatch::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        !self.direct.is_empty() || (self.queued_total > 0 && !self.is_holding)
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        if self.holds_request(id, Held::Dispatched) {
            self.leave_device(id.slot(), false);
            self.unbind(id.slot());
        }
        self.wake_up()
    }

    fn completed(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        if self.holds_request(id, Held::Dispatched) {
            self.leave_device(id.slot(), true);
            self.until_overdue = self.until_overdue.saturating_sub(1);
        }
        self.wake_up()
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        let slot = *self.slots.at(id.slot());
        if slot.id != id {
            return Wake::No;
        }
        match slot.held {
            Held::Nowhere => {}
            // Ended without a completion: drained, or failed before the device.
            Held::Dispatched => self.leave_device(id.slot(), false),
            Held::Queued => self.take_out(id.slot()),
            Held::Direct => {
                self.direct.remove(&mut self.fifo_links, id.slot());
                self.account_queued(&slot, false);
            }
        }
        self.unbind(id.slot());
        self.wake_up()
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.hold_until
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        self.now = now;
        self.roll_generation();
        if self.hold_until.is_some_and(|at| is_due(now, at)) { self.wake_up() } else { Wake::No }
    }

    fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake {
        self.now = now;
        let index = context.0.min(self.contexts.len().wrapping_sub(1));
        if context.0 != index {
            return Wake::No;
        }
        let leaf = core::mem::replace(self.contexts.at_mut(index), NIL);
        if leaf != NIL {
            self.abandon_leaf(leaf);
        }
        self.wake_up()
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.now = now;
        if group.0 == ROOT || self.groups.get(group.0).is_none() {
            return;
        }
        let member = self.group_member(group.0);
        *self.members.at_mut(member) = Member::new(settings.parent.0, settings.clamped_weight());
        *self.tallies.at_mut(group.0) = Tallies::ZERO;
        *self.other_vts.at_mut(member) = 0;
        *self.groups.at_mut(group.0) = Group { is_online: true, ..Group::unknown(group.0) };
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.now = now;
        if group.0 != ROOT && self.groups.get(group.0).is_some() {
            self.change_weight(self.group_member(group.0), settings.clamped_weight());
        }
        Wake::No
    }

    /// What is queued drains where it is; issuers get a leaf elsewhere with their next request.
    fn group_offline(&mut self, group: GroupId, now: Nanos) {
        self.now = now;
        if group.0 == ROOT {
            return;
        }
        let Some(state) = self.groups.get_mut(group.0) else { return };
        state.is_online = false;
        let leaf = core::mem::replace(&mut state.async_leaf, NIL);
        if leaf != NIL {
            self.leaves.at_mut(leaf).is_async = false;
            self.recycle_if_unused(leaf);
        }
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        self.now = now;
        if group.0 == ROOT || self.groups.get(group.0).is_none() {
            return;
        }
        for index in 0..self.contexts.len() {
            let leaf = *self.contexts.at(index);
            if leaf != NIL && self.members.at(leaf).parent == group.0 {
                *self.contexts.at_mut(index) = NIL;
                self.abandon_leaf(leaf);
            }
        }
        let member = self.group_member(group.0);
        self.leave_wheel(member);
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.depth = u64::from(depth.device).max(1).saturating_mul(self.hardware_queues);
        self.tags = u64::from(depth.requests);
        self.cap_q4 = self.depth_q4();
        self.walker.set_depth(self.depth);
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        if index == 0 { Some(self.give().cast_signed()) } else { self.settings.get(index) }
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)?;
        if index == 0 {
            self.is_give_set = true;
            self.walker.set_give(self.give());
        }
        let is_cabins = Settings::ROWS.get(index).is_some_and(|row| row.name == "cabins");
        if is_cabins {
            self.ladder = Paternoster::ladder_for(self.is_rotational, self.settings.cabins);
            self.change_way();
        }
        self.cap_q4 = self.depth_q4();
        (self.is_holding, self.hold_until) = (false, None);
        Ok(())
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.tallies.get(group.0).map(Tallies::account)
    }

    fn reset_group_account(&mut self, group: GroupId, _now: Nanos) -> bool {
        let Some(tallies) = self.tallies.get_mut(group.0) else { return false };
        tallies.reset();
        true
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}

impl Paternoster {
    fn add_direct(&mut self, requests: &Requests, id: RequestId) {
        let request = *requests.attributes(id);
        let slot = id.slot();
        // Uncharged, and in nobody's order; its class keeps it out of the tree.
        let entry = Slot {
            id,
            held: Held::Direct,
            class: Class::RealTime,
            direction: request.direction(),
            is_sync: request.is_sync(),
            leaf: SPARE_LEAF,
            group: ROOT,
            bytes: request.extent.sectors.saturating_mul(512),
            since_ns: self.now,
        };
        *self.slots.at_mut(slot) = entry;
        let spare = self.leaves.at_mut(SPARE_LEAF);
        spare.held = spare.held.wrapping_add(1);
        self.account_queued(&entry, true);
        let is_in = self.direct.push_front(&mut self.fifo_links, slot);
        self.must(is_in);
    }

    fn next_direct(&mut self) -> Option<RequestId> {
        let slot = self.direct.pop_front(&mut self.fifo_links)?;
        let entry = *self.slots.at(slot);
        self.account_queued(&entry, false);
        self.enter_device(slot, &entry);
        Some(entry.id)
    }

    /// Where positioning costs nothing, a request that competes with others grows only while the device is busy with it for a short
    /// time: a lagging reader waits behind it, and the floor cannot let in less than one.
    fn may_grow(&self, id: RequestId, sectors: u32) -> bool {
        let bytes = u64::from(sectors).saturating_mul(512);
        if self.is_rotational || bytes <= self.merged_bytes || !self.holds_request(id, Held::Queued) {
            return true;
        }
        let mut member = self.slots.at(id.slot()).leaf;
        for _ in 0..=self.groups.len() {
            let parent = self.members.at(member).parent;
            let group = self.groups.at(parent);
            if group.ready.len().wrapping_add(group.wait.len()) > 1 {
                return false;
            }
            if parent == ROOT {
                break;
            }
            member = self.group_member(parent);
        }
        true
    }

    fn note_merged(&mut self, requests: &Requests, id: RequestId) {
        let sectors = requests.attributes(id).extent.sectors;
        let slot = self.slots.at_mut(id.slot());
        slot.bytes = sectors.saturating_mul(512);
        let entry = *slot;
        let merged = &mut self.tallies.at_mut(entry.group).of(entry.direction, entry.is_sync).merged;
        *merged = merged.wrapping_add(1);
        if entry.class == Class::BestEffort {
            // It is as large as requests are here.
            let mut member = entry.leaf;
            while member != NIL {
                self.members.at_mut(member).newest_bytes = entry.bytes;
                member = self.parent_member(member);
            }
        }
    }

    fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        let must = |holds: bool, what, at| if holds { Ok(()) } else { Err(Violation { what, at }) };
        let queued = self.slots.iter().filter(|slot| slot.held == Held::Queued).count();
        must(u32::try_from(queued) == Ok(self.queued_total), "queued requests are counted", self.queued_total)?;
        let inside = self.slots.iter().filter(|slot| slot.held == Held::Dispatched).count();
        must(u32::try_from(inside) == Ok(self.inside), "requests in the device are counted", self.inside)?;
        for index in 0..self.members.len() {
            let member = self.members.at(index);
            let is_linked = self.chains.is_linked(index);
            must(is_linked == (member.place != Place::Inactive), "an active member is in a wheel", index)?;
            must((member.queued > 0) == (member.place == Place::Ready), "who has queued requests is ready", index)?;
            let is_busy = member.in_flight > 0;
            must(!is_busy || member.place != Place::Inactive, "who has requests inside is active", index)?;
            if self.is_leaf(index) {
                let leaf = self.leaves.at(index);
                must(leaf.fifo.len() == member.queued, "a leaf counts its requests", index)?;
            }
        }
        for index in 0..self.groups.len() {
            let group = self.groups.at(index);
            let children = || {
                (0..self.members.len())
                    .map(|child| self.members.at(child))
                    .filter(|child| child.parent == index && child.place != Place::Inactive)
            };
            let sum: u64 = children().map(|child| u64::from(child.weight)).sum();
            must(sum == group.weight_sum, "weights of active children add up", index)?;
            let len = group.ready.len().wrapping_add(group.wait.len());
            must(u32::try_from(children().count()) == Ok(len), "wheels hold the active children", index)?;
        }
        for slot in self.slots.iter().filter(|slot| slot.held == Held::Queued) {
            let sectors = requests.attributes(slot.id).extent.sectors;
            must(slot.bytes == sectors.saturating_mul(512), "a request's length is known", slot.id.slot())?;
        }
        Ok(())
    }
}
