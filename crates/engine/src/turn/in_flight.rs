//! The I/Os in the device, and those of them that the backing does not answer.

use hoistway_block::{Nanos, RequestId};

use super::overdue::{LOOK_INTERVAL_NS, OVERDUE_NS};

/// One request of the queue, in the device.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Io {
    /// The turn of the loop in which it was started.
    pub turn: u32,
    /// The connection and the volume of its first part.
    pub connection: u32,
    pub volume: u32,
    /// When it was started; 0 = it is not in the device.
    pub started_ns: Nanos,
    pub is_overdue: bool,
    pub total_bytes: u32,
    pub done_bytes: u32,
    pub retries: u8,
    pub empty_answers: u8,
}

/// The I/Os, indexed by their slot in the queue's request table.
///
/// Invariants: `overdue` is the number of I/Os in the device that are marked so; `held_back` that of
/// chosen requests in the volumes' lists.
#[derive(Debug)]
pub(super) struct InFlight {
    ios: Vec<Io>,
    overdue: u32,
    /// Chosen requests that are held back because their volume does not answer.
    held_back: u32,
    /// When to look for overdue ones; none while the device has room.
    look_at_ns: Option<Nanos>,
}

impl InFlight {
    /// None, with room for an I/O in each of these slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { ios: vec![Io::default(); slots], overdue: 0, held_back: 0, look_at_ns: None }
    }

    #[inline]
    pub(super) fn at(&self, io: RequestId) -> &Io {
        &self.ios[io.slot() as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, io: RequestId) -> &mut Io {
        &mut self.ios[io.slot() as usize]
    }

    /// An I/O of this connection and volume enters the device, in this turn of the loop.
    #[inline]
    pub(super) fn begin(&mut self, io: RequestId, (connection, volume): (u32, u32), turn: u32, now: Nanos) {
        *self.at_mut(io) = Io { turn, connection, volume, started_ns: now.max(1), ..Io::default() };
    }

    /// An I/O leaves the device.
    #[inline]
    pub(super) fn end(&mut self, io: RequestId) -> Io {
        let state = self.at_mut(io);
        state.started_ns = 0;
        let ended = *state;
        self.overdue -= u32::from(ended.is_overdue);
        ended
    }

    /// Those in the device.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Io> {
        self.ios.iter().filter(|io| io.started_ns != 0)
    }

    // ---- held back ----

    /// Whether any request is held back.
    #[inline]
    pub(super) fn holds_any_back(&self) -> bool {
        self.held_back > 0
    }

    /// A chosen request is held back.
    pub(super) fn held_back(&mut self) {
        self.held_back += 1;
    }

    /// A request that was held back is started or dropped.
    pub(super) fn let_go(&mut self) {
        self.held_back -= 1;
    }

    // ---- overdue ones ----

    /// Whether any is overdue.
    #[inline]
    pub(super) fn has_overdue(&self) -> bool {
        self.overdue > 0
    }

    /// Overdue ones are to be looked for in a moment.
    #[inline]
    pub(super) fn look_later(&mut self, now: Nanos) {
        self.look_at_ns.get_or_insert(now + LOOK_INTERVAL_NS);
    }

    /// When to look for overdue ones.
    #[inline]
    pub(super) fn next_look(&self) -> Option<Nanos> {
        self.look_at_ns
    }

    /// Whether the time to look has come.
    #[inline]
    pub(super) fn is_look_due(&mut self, now: Nanos) -> bool {
        self.look_at_ns.take_if(|at| hoistway_block::time::is_due(now, *at)).is_some()
    }

    /// Marks the next overdue I/O from this slot on. Returns its slot and volume.
    pub(super) fn mark_overdue(&mut self, from: u32, now: Nanos) -> Option<(u32, u32)> {
        let is_new =
            |io: &&mut Io| io.started_ns != 0 && !io.is_overdue && now.saturating_sub(io.started_ns) >= OVERDUE_NS;
        let (slot, io) = (from..).zip(self.ios.iter_mut().skip(from as usize)).find(|(_, io)| is_new(io))?;
        io.is_overdue = true;
        self.overdue += 1;
        Some((slot, io.volume))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_io_is_found_once_and_counts_until_it_ends() {
        let (mut ios, [old, new]) = (InFlight::new(8), [3, 5].map(RequestId::from_raw));
        ios.begin(old, (7, 2), 1, 0);
        ios.begin(new, (7, 4), 1, OVERDUE_NS);
        ios.look_later(0);
        assert!(!ios.is_look_due(LOOK_INTERVAL_NS - 1) && ios.is_look_due(LOOK_INTERVAL_NS));
        assert_eq!((ios.mark_overdue(0, OVERDUE_NS), ios.mark_overdue(0, OVERDUE_NS)), (None, None));
        assert_eq!(ios.mark_overdue(0, OVERDUE_NS + 1), Some((old.slot(), 2)));
        assert_eq!((ios.mark_overdue(0, OVERDUE_NS + 1), ios.iter().count()), (None, 2));
        assert!(!ios.end(new).is_overdue && ios.has_overdue());
        assert!(ios.end(old).is_overdue && !ios.has_overdue() && ios.iter().next().is_none());
    }
}
