//! I/Os that the backing does not answer: what they may hold of the device that all its volumes
//! share.
//!
//! An I/O that is older than [`OVERDUE_NS`] counts no longer against the device's depth, so that
//! the other volumes get the depth back, and the scheduler is told that it is done, because some
//! wait for a group's requests (shares, turns) and a switch of the scheduler waits for all. A
//! volume with half of the depth overdue gets nothing more started: what the scheduler chooses of
//! it is held back here, in order, until some of its I/Os have ended. The tables of requests and
//! parts are divided by dynamic thresholds (Choudhury and Hahne 1998): a volume may hold as much as
//! is free.

use hoistway_block::{Nanos, RequestId};

use super::{Actions, Turn};
use crate::protocol::Failure;

/// The age of an I/O from which on it is overdue: longer than a healthy device with a full queue
/// takes (128 requests at 100 per second), and short for those who wait meanwhile.
pub(crate) const OVERDUE_NS: Nanos = 2 * hoistway_block::time::SECOND;
/// How often such I/Os are looked for while requests wait: others wait at most this much longer.
pub(super) const LOOK_INTERVAL_NS: Nanos = OVERDUE_NS / 4;

/// What a volume waits for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    /// Since when, in nanoseconds of the monotonic clock: when its oldest I/O or fsync was started.
    pub since_ns: Nanos,
    /// I/Os in flight.
    pub ios: u32,
}

impl Turn {
    /// Looks for overdue I/Os in a moment if requests wait: for the device, or for a policy that
    /// waits for some.
    #[inline]
    pub(super) fn expect_overdue(&mut self, now: Nanos) {
        if self.queue.tags().in_use() > self.queue.in_device() || self.queue.is_switching() {
            self.in_flight.look_later(now);
        }
    }

    /// Takes the overdue I/Os out of the device's depth.
    pub(super) fn look_for_overdue(&mut self, now: Nanos) {
        if !self.in_flight.is_look_due(now) {
            return;
        }
        let mut from = 0;
        while let Some((slot, volume)) = self.in_flight.mark_overdue(from, now) {
            from = slot + 1;
            if let Some(id) = self.queue.requests().id_of(slot) {
                self.queue.detach(id, now);
            }
            if let Some(Some(volume)) = self.volumes.get_mut(volume as usize) {
                volume.overdue += 1;
            }
            self.occupancy.no_longer_held();
        }
    }

    /// An overdue I/O has ended.
    pub(super) fn overdue_ended(&mut self, volume: u32) {
        if let Some(Some(volume)) = self.volumes.get_mut(volume as usize) {
            volume.overdue -= 1;
        }
    }

    /// Whether a request that the scheduler chose must wait, because its volume does not answer; it
    /// is then kept.
    #[inline]
    pub(super) fn holds_back(&mut self, io: RequestId, now: Nanos) -> bool {
        self.in_flight.has_overdue() && self.holds_back_of(io, now)
    }

    fn holds_back_of(&mut self, io: RequestId, now: Nanos) -> bool {
        let most = self.most_overdue();
        let Some(volume) = self.volume_of_io(io) else { return false };
        let Some(Some(state)) = self.volumes.get_mut(volume as usize) else { return false };
        if state.overdue < most && state.held_back.is_empty() {
            return false;
        }
        state.held_back.push_back(io);
        self.in_flight.held_back();
        self.queue.detach(io, now);
        true
    }

    /// Starts what was held back of volumes that answer again.
    #[inline]
    pub(super) fn start_held_back(&mut self, now: Nanos, actions: &mut Actions) {
        if !self.in_flight.holds_any_back() {
            return;
        }
        let most = self.most_overdue();
        for volume in 0..self.volumes.len() {
            while self.has_room()
                && let Some(Some(state)) = self.volumes.get_mut(volume)
                && state.overdue < most
                && let Some(io) = state.held_back.pop_front()
            {
                self.in_flight.let_go();
                self.start(io, now, actions);
            }
        }
    }

    /// Drops a request that is held back, because its client is gone. False if it is none.
    pub(super) fn drop_held_back(&mut self, io: RequestId, now: Nanos, actions: &mut Actions) -> bool {
        if !self.in_flight.holds_any_back() {
            return false;
        }
        let held_back = self.volume_of_io(io).and_then(|volume| self.volumes.get_mut(volume as usize)?.as_mut());
        let Some(state) = held_back else { return false };
        let Some(at) = state.held_back.iter().position(|other| *other == io) else { return false };
        state.held_back.remove(at);
        self.in_flight.let_go();
        // It was never started, so it does not leave the device.
        self.end_parts(io, Some(Failure::Shutdown), now, actions);
        true
    }

    /// Overdue I/Os of one volume from which on it gets nothing more started.
    fn most_overdue(&self) -> u32 {
        self.occupancy.limit().div_ceil(2)
    }

    /// The volume of a request in the queue.
    pub(super) fn volume_of_io(&self, io: RequestId) -> Option<u32> {
        let (cookie, _) = self.queue.bios_of(io).next()?;
        let part = self.parts.get(u32::try_from(cookie).ok()?)?;
        Some(self.connections[self.requests[part.request].connection].volume)
    }

    /// What each volume waits for that its backing has not answered for [`OVERDUE_NS`], by number.
    /// Reads all I/Os.
    pub fn unanswered(&self, now: Nanos) -> Vec<(u32, Waits)> {
        let mut all: Vec<Option<Waits>> = vec![None; self.volumes.len()];
        for io in self.in_flight.iter() {
            if let Some(waits) = all.get_mut(io.volume as usize) {
                let waits = waits.get_or_insert(Waits { since_ns: io.started_ns, ios: 0 });
                waits.since_ns = waits.since_ns.min(io.started_ns);
                waits.ios += 1;
            }
        }
        for (waits, volume) in all.iter_mut().zip(&self.volumes) {
            if let Some(since_ns) = volume.as_ref().and_then(|volume| volume.flush.running_since_ns()) {
                let waits = waits.get_or_insert(Waits { since_ns, ios: 0 });
                waits.since_ns = waits.since_ns.min(since_ns);
                waits.ios += 1;
            }
        }
        let is_old = |waits: &Waits| now.saturating_sub(waits.since_ns) >= OVERDUE_NS;
        (0..).zip(all).filter_map(|(volume, waits)| Some((volume, waits.filter(is_old)?))).collect()
    }

    /// The number of requests not yet answered and sent, by volume; only volumes that have some.
    pub fn requests_by_volume(&self) -> Vec<(u32, u32)> {
        let counted = (0..).zip(&self.volumes);
        counted
            .filter_map(|(number, volume)| Some((number, volume.as_ref()?.requests)))
            .filter(|(_, requests)| *requests > 0)
            .collect()
    }
}
