//! When each process, call and kernel thread runs again.

use hoistway_block::Nanos;

use crate::events::{EventWheel, Payload};

/// An I/O has completed and its process runs again.
pub(super) const DELIVER: u8 = 0;
/// A process may act again.
pub(super) const WAKE: u8 = 1;
/// A group with a later start begins.
pub(super) const START: u8 = 2;
/// A group stops that ends before the run does.
pub(super) const STOP: u8 = 3;
/// Write-back may have pages to write.
pub(super) const WRITE_BACK: u8 = 4;
/// A system call of a process (buffered I/O, sync, change of a file) continues.
pub(super) const RESUME: u8 = 5;
/// The journal's thread may continue.
pub(super) const JOURNAL: u8 = 6;

/// What comes next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// An I/O is delivered to its process.
    Delivery(u32),
    /// An event of the wheel.
    Event(Payload),
}

/// The events of the processes. Deliveries at the present time come first, in their order, and
/// bypass the wheel; all are taken before time goes on.
#[derive(Debug)]
pub(super) struct Agenda {
    wheel: EventWheel,
    /// I/Os delivered at the present time, and how many of them are done. Empty when all are done.
    ready: Vec<u32>,
    delivered: usize,
}

impl Agenda {
    /// An agenda with room for this many events, and for deliveries at the present time.
    pub(super) fn with_capacity(events: usize, deliveries: usize) -> Self {
        Self { wheel: EventWheel::with_capacity(events), ready: Vec::with_capacity(deliveries), delivered: 0 }
    }

    /// Something happens at `at`; kinds are the constants of this module.
    #[inline]
    pub(super) fn add(&mut self, at: Nanos, kind: u8, index: u32) {
        self.wheel.insert(at, Payload::new(kind, index));
    }

    /// An I/O is delivered now.
    #[inline]
    pub(super) fn deliver(&mut self, io: u32) {
        self.ready.push(io);
    }

    /// Whether deliveries at the present time are left.
    #[inline]
    pub(super) fn has_deliveries(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The time of the wheel's next event.
    #[inline]
    pub(super) fn next_time(&mut self) -> Nanos {
        self.wheel.next_time()
    }

    /// What is due at `now`.
    #[inline]
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Due> {
        if let Some(&io) = self.ready.get(self.delivered) {
            self.delivered += 1;
            if self.delivered == self.ready.len() {
                self.ready.clear();
                self.delivered = 0;
            }
            return Some(Due::Delivery(io));
        }
        self.wheel.pop_due(now).map(|(_, event)| Due::Event(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_come_before_events_and_in_their_order() {
        let mut agenda = Agenda::with_capacity(4, 4);
        agenda.add(10, WAKE, 7);
        agenda.deliver(1);
        agenda.deliver(2);
        assert_eq!(agenda.take_due(10), Some(Due::Delivery(1)));
        agenda.deliver(3);
        assert_eq!(agenda.take_due(10), Some(Due::Delivery(2)));
        assert!(agenda.has_deliveries());
        assert_eq!(agenda.take_due(10), Some(Due::Delivery(3)));
        assert!(!agenda.has_deliveries());
        assert_eq!(agenda.take_due(9), None);
        assert_eq!(agenda.take_due(10), Some(Due::Event(Payload::new(WAKE, 7))));
    }
}
