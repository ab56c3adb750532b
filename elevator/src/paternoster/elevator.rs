//! The calls of a host.

use super::arrival::SPARE_LEAF;
use super::pick::Decision;
use super::state::{Held, Place, ROOT};
use super::*;
use block::Direction;

impl Elevator for Paternoster {
    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.admission(bio.group)
    }

    #[inline(always)]
    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.count_tag::<true>(requests.attributes(id).group);
    }

    #[inline(always)]
    fn freed(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.count_tag::<false>(requests.attributes(id).group);
    }

    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let request = requests.attributes(id);
        let is_of_one = request.is_sync() == bio.is_sync() && (!bio.is_sync() || request.context == bio.context);
        is_of_one && self.may_grow(id, request.extent.sectors.saturating_add(bio.extent.sectors))
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, _side: Side, now: Nanos) {
        self.now = now;
        self.end_sole();
        if self.holds_request(id, Held::Queued) {
            self.note_merged(requests, id);
            let entry = self.slots.at(id.slot());
            let (leaf, class) = (entry.leaf, entry.class);
            if class == Class::BestEffort {
                self.roll_generation();
                self.members.at_mut(leaf).note_return(now);
                self.came_back(leaf);
            }
        }
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.now = now;
        self.end_sole();
        if self.holds_request(keep, Held::Queued) {
            self.note_merged(requests, keep);
        }
        if self.holds_request(gone, Held::Queued) {
            self.take_out(gone.slot());
        }
    }

    #[inline]
    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        match at {
            Position::Sorted(_) => self.insert_newcomer(requests, id, requests.attributes(id), now),
            Position::Head | Position::Requeue => self.insert_direct(requests, id, now),
        }
    }

    #[inline]
    fn insert_newcomer(&mut self, _requests: &Requests, id: RequestId, attributes: &Bio, now: Nanos) -> Wake {
        if self.sole.leaf == NIL {
            if self.insert_usual(id, attributes, now) {
                return self.wake_up();
            }
        } else if self.sole.takes(attributes) {
            return self.insert_of_sole(id, attributes, now);
        }
        self.insert_among(id, attributes, now)
    }

    #[inline]
    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.now = now;
        if self.sole.leaf == NIL {
            if let Some(id) = self.choose_in_order(requests) {
                return Dispatch::Request { id, reason: Why::FirstInOrder.into() };
            }
        } else if !self.has_more_to_look_at() {
            return self.choose_of_sole();
        }
        self.choose_among(requests)
    }

    fn drain(&mut self, _requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.now = now;
        self.end_sole();
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
        self.end_sole();
        if self.holds_request(id, Held::Dispatched) {
            self.give_up(id);
            self.unbind(id.slot());
        }
        self.wake_up()
    }

    #[inline]
    fn completed(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        if self.leave_device::<true>(id) && self.until_overdue > 0 {
            self.until_overdue = self.until_overdue.wrapping_sub(1);
        }
        self.wake_up()
    }

    #[inline]
    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        match self.slots.get_mut(id.slot()) {
            Some(slot) if slot.id == id => {
                if slot.held == Held::Nowhere {
                    let leaf = core::mem::replace(&mut slot.leaf, NIL);
                    self.let_go(leaf);
                } else {
                    self.release_unfinished(id);
                    self.unbind(id.slot());
                }
                self.wake_up()
            }
            _ => Wake::No,
        }
    }

    #[inline(always)]
    fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let sole = self.sole.leaf;
        match self.slots.get_mut(id.slot()) {
            Some(slot) if slot.id == id && slot.held == Held::Dispatched && slot.is_of_leaf(sole) => {
                (slot.leaf, slot.held) = (NIL, Held::Nowhere);
                let (bytes, tally, since_ns, is_read) = (slot.bytes, slot.tally, slot.since_ns, slot.is_read);
                self.now = now;
                self.one_out();
                self.learn(bytes, tally, since_ns, is_read);
                self.until_overdue = self.until_overdue.saturating_sub(1);
                let leaf = self.one_done_of_sole();
                // It is kept by its issuer.
                leaf.held = leaf.held.wrapping_sub(1);
                Wake::All
            }
            _ => self.complete_and_release(requests, id, now),
        }
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
        self.end_sole();
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
        self.end_sole();
        if group.0 == ROOT || self.groups.get(group.0).is_none() {
            return;
        }
        let member = self.group_member(group.0);
        *self.members.at_mut(member) = Member::new(settings.parent.0, settings.clamped_weight());
        self.members.at_mut(member).marks = mark::ONLINE;
        self.tallies.clear(group.0);
        *self.other_vts.at_mut(member) = 0;
        *self.groups.at_mut(group.0) = Group::numbered(group.0, settings.parent.0, self.members.len());
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.now = now;
        self.end_sole();
        if group.0 != ROOT && self.groups.get(group.0).is_some() {
            self.change_weight(self.group_member(group.0), settings.clamped_weight());
        }
        Wake::No
    }

    /// What is queued drains where it is; issuers get a leaf elsewhere with their next request.
    fn group_offline(&mut self, group: GroupId, now: Nanos) {
        self.now = now;
        self.end_sole();
        if group.0 == ROOT {
            return;
        }
        let Some(state) = self.groups.get_mut(group.0) else { return };
        let leaf = core::mem::replace(&mut state.async_leaf, NIL);
        let member = self.group_member(group.0);
        self.members.at_mut(member).marks &= !mark::ONLINE;
        if leaf != NIL {
            self.members.at_mut(leaf).marks &= !mark::ASYNC;
            self.recycle_if_unused(leaf);
        }
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        self.now = now;
        self.end_sole();
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
        self.end_sole();
        self.depth = u64::from(depth.device).max(1).saturating_mul(u64::from(self.hardware_queues));
        self.tags = depth.requests;
        self.cap_q4 = self.depth_q4();
        self.walker.set_depth(self.depth);
        self.look_ns = 0;
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
        self.end_sole();
        if index == 0 {
            self.is_give_set = true;
            self.walker.set_give(self.give());
        }
        let is_cabins = Settings::ROWS.get(index).is_some_and(|row| row.name == "cabins");
        if is_cabins {
            self.ladder = Paternoster::ladder_for(self.is_rotational, self.settings.cabins);
            self.change_way();
        }
        self.is_plain = self.has_nothing_special();
        self.cap_q4 = self.depth_q4();
        (self.look_ns, self.overdue_from_ns) = (0, 0);
        (self.is_holding, self.hold_until) = (false, None);
        Ok(())
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.tallies.account(group.0)
    }

    fn reset_group_account(&mut self, group: GroupId, _now: Nanos) -> bool {
        self.tallies.reset(group.0)
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.end_sole();
        self.messages.switch(on);
        self.is_plain = self.has_nothing_special();
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}

impl Paternoster {
    /// A newcomer takes its place in the order.
    #[inline(never)]
    fn insert_among(&mut self, id: RequestId, attributes: &Bio, now: Nanos) -> Wake {
        self.end_sole();
        if !self.begin_insertion(id, now) {
            return Wake::No;
        }
        self.add(attributes, id);
        self.wake_up()
    }

    /// Whoever's turn it is.
    #[inline(never)]
    fn choose_among(&mut self, requests: &Requests) -> Dispatch {
        self.end_sole();
        (self.is_holding, self.hold_until) = (false, None);
        if !self.direct.is_empty()
            && let Some(id) = self.next_direct()
        {
            return Dispatch::Request { id, reason: Why::HeadInsert.into() };
        }
        if self.disordered != NIL {
            self.put_in_order();
        }
        self.step_epoch();
        self.roll_generation();
        match self.whose_turn() {
            Decision::Send { slot, why } => {
                if matches!(why, Why::FirstInOrder) && self.is_alone_for_long() {
                    self.begin_sole(slot, requests);
                }
                if self.sole.leaf == NIL { self.send(slot, why) } else { self.choose_of_sole() }
            }
            Decision::Answer(answer) => answer,
        }
    }

    /// As [`Elevator::completed`] and [`Elevator::released`], of any but the sole issuer's.
    #[inline(never)]
    fn complete_and_release(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let entry = match self.slots.get_mut(id.slot()) {
            Some(entry) if entry.id == id && entry.held == Held::Dispatched && entry.class == Class::BestEffort => {
                entry
            }
            _ => {
                let completed = self.completed(requests, id, now);
                return completed.and(self.released(requests, id, now));
            }
        };
        entry.held = Held::Nowhere;
        let leaf = core::mem::replace(&mut entry.leaf, NIL);
        let (bytes, tally, since_ns, is_sync_read) =
            (entry.bytes, entry.tally, entry.since_ns, entry.is_sync & entry.is_read);
        self.now = now;
        self.one_out();
        self.learn(bytes, tally, since_ns, is_sync_read);
        self.end_sole();
        self.one_less_inside::<true>(leaf);
        self.until_overdue = self.until_overdue.saturating_sub(1);
        self.let_go(leaf);
        self.wake_up()
    }

    /// What comes before every insertion. False, and counted, if the slot is taken.
    #[inline(always)]
    pub(super) fn begin_insertion(&mut self, id: RequestId, now: Nanos) -> bool {
        self.now = now;
        if !self.is_free(id.slot()) {
            self.complain();
            return false;
        }
        self.begin_to_insert();
        true
    }

    #[inline(always)]
    pub(super) fn is_free(&self, slot: u32) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.held == Held::Nowhere && slot.leaf == NIL)
    }

    #[inline(always)]
    pub(super) fn begin_to_insert(&mut self) {
        self.roll_generation();
        if self.inside == 0 && self.queued_total == 0 {
            self.busy_from_ns = self.now;
        }
    }

    #[inline(never)]
    fn insert_direct(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.end_sole();
        if !self.begin_insertion(id, now) {
            return Wake::No;
        }
        let request = requests.attributes(id);
        let slot = id.slot();
        // Uncharged, and in nobody's order; its class keeps it out of the tree.
        let is_read = request.direction() == Direction::Read;
        let tally = Tallies::number(ROOT, is_read, request.is_sync());
        let entry = Slot {
            id,
            leaf: SPARE_LEAF,
            bytes: request.extent.sectors.saturating_mul(512),
            tally,
            since_ns: self.now,
            held: Held::Direct,
            class: Class::RealTime,
            is_sync: request.is_sync(),
            is_read,
        };
        *self.slots.at_mut(slot) = entry;
        let spare = self.members.at_mut(SPARE_LEAF);
        spare.held = spare.held.wrapping_add(1);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_add(1);
        self.direct.push_front(&mut self.links, slot);
        self.wake_up()
    }

    #[inline(never)]
    fn next_direct(&mut self) -> Option<RequestId> {
        let slot = self.direct.first()?;
        let now = self.now;
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Dispatched;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let (id, tally, bytes) = (entry.id, entry.tally, entry.bytes);
        self.direct.unlink_first(self.links.at(slot).place);
        self.enter_device(tally, bytes, came_ns);
        Some(id)
    }

    /// Ended without a completion: drained, absorbed, or failed before the device.
    #[inline(never)]
    fn release_unfinished(&mut self, id: RequestId) {
        self.end_sole();
        let slot = id.slot();
        let entry = self.slots.at(slot);
        match entry.held {
            Held::Nowhere => {}
            Held::Dispatched => self.give_up(id),
            Held::Queued => self.take_out(slot),
            Held::Direct => {
                let (tally, place) = (entry.tally, self.links.at(slot).place);
                self.slots.at_mut(slot).held = Held::Nowhere;
                self.direct.unlink::<ByPlace>(&mut self.links, slot, place);
                let queued = &mut self.tallies.at_mut(tally).queued;
                *queued = queued.wrapping_sub(1);
            }
        }
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
        let entry = self.slots.at_mut(id.slot());
        entry.bytes = sectors.saturating_mul(512);
        let (bytes, leaf, class, tally) = (entry.bytes, entry.leaf, entry.class, entry.tally);
        let merged = &mut self.tallies.at_mut(tally).merged;
        *merged = merged.wrapping_add(1);
        if class == Class::BestEffort {
            if self.is_rotational {
                self.sweeps.move_to(leaf, id.slot(), requests.attributes(id).extent.first_sector);
            }
            // It is as large as requests are here.
            let mut member = leaf;
            while member != NIL {
                self.members.at_mut(member).newest_bytes = bytes;
                member = self.parent_member(member);
            }
        }
    }

    fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        let must = |holds: bool, what, at| if holds { Ok(()) } else { Err(Violation { what, at }) };
        let queued = self.slots.iter().filter(|slot| slot.held == Held::Queued).count();
        must(u32::try_from(queued) == Ok(self.queued_total), "queued requests are counted", self.queued_total)?;
        let of_classes =
            self.real_time.count::<ByPlace>(&self.links).wrapping_add(self.idle.count::<ByPlace>(&self.links));
        must(of_classes == self.queued_of_classes, "lines of classes are counted", of_classes)?;
        let aged = self.line_of_all().count::<ByAge>(&self.links);
        must(aged.wrapping_add(of_classes) == self.queued_total, "the others are in the order of age", aged)?;
        let inside = self.slots.iter().filter(|slot| slot.held == Held::Dispatched).count();
        must(u32::try_from(inside) == Ok(self.inside), "requests in the device are counted", self.inside)?;
        for index in 0..self.members.len() {
            let member = self.members.at(index);
            let is_linked = self.chains.is_linked(index);
            let place = member.place();
            must(is_linked == (place != Place::Inactive), "an active member is in a wheel", index)?;
            if !self.is_above_sole(index) {
                must((member.queued > 0) == (place == Place::Ready), "who has queued requests is ready", index)?;
            }
            must(member.in_flight == 0 || place != Place::Inactive, "who has requests inside is active", index)?;
            if self.is_leaf(index) && member.is(mark::USED) {
                let count = member.line.count::<ByPlace>(&self.links);
                must(count == member.queued, "a leaf counts its requests", index)?;
                let sorted = if self.is_rotational { self.sweeps.len(index) } else { count };
                must(sorted == count, "a leaf's requests are in its sweep", index)?;
            }
        }
        for index in 0..self.groups.len() {
            let group = self.groups.at(index);
            let children = || {
                (0..self.members.len())
                    .map(|child| self.members.at(child))
                    .filter(|child| child.parent == index && child.place() != Place::Inactive)
            };
            let sum: u64 = children().map(|child| u64::from(child.weight())).sum();
            must(sum == group.weight_sum, "weights of active children add up", index)?;
            let len = group.ready.len().wrapping_add(group.wait.len());
            must(u32::try_from(children().count()) == Ok(len), "wheels hold the active children", index)?;
        }
        for slot in self.slots.iter().filter(|slot| slot.held == Held::Queued) {
            let extent = requests.attributes(slot.id).extent;
            must(slot.bytes == extent.sectors.saturating_mul(512), "a request's length is known", slot.id.slot())?;
            let place = self.sweeps.sector(slot.id.slot()).unwrap_or(extent.first_sector);
            must(place == extent.first_sector, "a request is where its sweep looks for it", slot.id.slot())?;
        }
        Ok(())
    }
}
