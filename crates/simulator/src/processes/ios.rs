//! All I/Os of the processes that are in flight, or may be.

use hoistway_block::{Nanos, Status};

use super::io_in_flight::{IoInFlight, IoRemainder};
use super::number;
use crate::events::NEVER;

/// The I/Os, by number. What only some runs need is allocated when the first I/O needs it: the
/// remainder of I/Os of several bios, and deadlines.
#[derive(Debug)]
pub(super) struct Ios {
    all: Vec<IoInFlight>,
    /// By I/O; empty as long as each I/O was a single bio.
    remainders: Vec<IoRemainder>,
    /// The deadline of each I/O; empty until one has a deadline.
    deadlines: Vec<Nanos>,
}

impl Ios {
    pub(super) fn new(all: Vec<IoInFlight>) -> Self {
        Self { all, remainders: Vec::new(), deadlines: Vec::new() }
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds `room` idle I/Os of a process; returns the number of the first.
    pub(super) fn extend(&mut self, process: u32, room: u32) -> u32 {
        let first = number(self.all.len());
        self.all.extend(std::iter::repeat_n(IoInFlight::idle(process), room as usize));
        if !self.remainders.is_empty() {
            self.remainders.resize(self.all.len(), IoRemainder::ONE_BIO);
        }
        if !self.deadlines.is_empty() {
            self.deadlines.resize(self.all.len(), NEVER);
        }
        first
    }

    /// Begins an I/O of a single bio; possible while [`Ios::have_deadlines`] is false.
    #[inline]
    pub(super) fn begin_bio(&mut self, io: u32, state: IoInFlight) {
        self.all[io as usize] = state;
        if let Some(rest) = self.remainders.get_mut(io as usize) {
            *rest = IoRemainder::ONE_BIO;
        }
    }

    /// Begins an I/O; none of its bios has been submitted yet.
    pub(super) fn begin(&mut self, io: u32, state: IoInFlight, rest: IoRemainder, deadline_ns: Option<Nanos>) {
        self.all[io as usize] = state;
        if self.remainders.is_empty() {
            // The I/Os already in flight are one bio each.
            self.remainders.resize(self.all.len(), IoRemainder::ONE_BIO);
        }
        self.remainders[io as usize] = rest;
        if deadline_ns.is_some() || !self.deadlines.is_empty() {
            self.deadlines.resize(self.all.len(), NEVER);
            self.deadlines[io as usize] = deadline_ns.unwrap_or(NEVER);
        }
    }

    /// An I/O, by reference: some fields may have been written just before, so that a load of the
    /// whole would stall on store forwarding.
    #[inline]
    pub(super) fn get(&self, io: u32) -> &IoInFlight {
        &self.all[io as usize]
    }

    /// The process of an I/O.
    #[inline]
    pub(super) fn process_of(&self, io: u32) -> usize {
        self.all[io as usize].process as usize
    }

    /// What is left of an I/O that was begun by [`Ios::begin`].
    #[inline]
    pub(super) fn rest(&self, io: u32) -> IoRemainder {
        self.remainders[io as usize]
    }

    /// Whether a part of the I/O has not been submitted yet.
    pub(super) fn is_unfinished(&self, io: u32) -> bool {
        self.remainders.get(io as usize).is_some_and(|rest| rest.left_bytes > 0)
    }

    /// Bios of the I/O up to this byte have been submitted, and `in_flight` of them have not
    /// completed at once. Returns whether any is in flight.
    #[inline]
    pub(super) fn submitted_to(&mut self, io: u32, byte: u64, in_flight: u32) -> bool {
        let rest = &mut self.remainders[io as usize];
        // The rest is smaller than before, so the number fits.
        let left_bytes = u32::try_from(rest.end_byte().saturating_sub(byte)).unwrap_or(0);
        (rest.next_byte, rest.left_bytes) = (byte, left_bytes);
        rest.bios_left += in_flight;
        rest.bios_left > 0
    }

    /// The I/O transfers nothing: what follows is a flush without an extent.
    pub(super) fn without_extent(&mut self, io: u32) {
        let rest = &mut self.remainders[io as usize];
        (rest.next_byte, rest.left_bytes) = (0, 0);
    }

    /// The I/O failed, if `status` is an error.
    #[inline]
    pub(super) fn set_status(&mut self, io: u32, status: Status) {
        if !status.is_ok() {
            self.all[io as usize].status = status;
        }
    }

    /// A bio of the I/O ended after `device_ns` in the device. Returns whether it was the last one.
    #[inline]
    pub(super) fn bio_ended(&mut self, io: u32, status: Status, device_ns: Nanos) -> bool {
        self.all[io as usize].device_ns += device_ns;
        self.set_status(io, status);
        self.remainders.get_mut(io as usize).is_none_or(|rest| {
            rest.bios_left -= 1;
            rest.bios_left == 0 && rest.left_bytes == 0
        })
    }

    /// Whether any I/O had a deadline.
    #[inline]
    pub(super) fn have_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// Whether the I/O's deadline has passed.
    #[inline]
    pub(super) fn is_late(&self, io: u32, now: Nanos) -> bool {
        self.deadlines.get(io as usize).is_some_and(|&deadline_ns| now > deadline_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ios() -> Ios {
        Ios::new(vec![IoInFlight::idle(0); 2])
    }

    #[test]
    fn an_io_ends_with_its_last_bio() {
        let mut ios = ios();
        ios.begin_bio(0, IoInFlight::idle(0));
        let rest = IoRemainder { next_byte: 4096, left_bytes: 12_288, bios_left: 0 };
        ios.begin(1, IoInFlight::idle(0), rest, None);
        assert!(ios.submitted_to(1, 12_288, 2) && ios.is_unfinished(1));
        assert!(!ios.bio_ended(1, Status::Ok, 5) && !ios.bio_ended(1, Status::IoError, 5), "4 KiB are left");
        assert!(ios.submitted_to(1, 16_384, 1) && !ios.is_unfinished(1));
        assert!(ios.bio_ended(1, Status::Ok, 5));
        assert_eq!((ios.get(1).device_ns, ios.get(1).status), (15, Status::IoError), "the first error stays");
        assert!(ios.bio_ended(0, Status::Ok, 5), "begun before any had several bios");
    }

    #[test]
    fn numbers_are_added_behind_the_others() {
        let mut ios = ios();
        let rest = IoRemainder { next_byte: 0, left_bytes: 512, bios_left: 0 };
        ios.begin(0, IoInFlight::idle(0), rest, Some(10));
        assert_eq!((ios.extend(3, 4), ios.len(), ios.process_of(5)), (2, 6, 3));
        assert!(ios.have_deadlines() && ios.is_late(0, 11) && !ios.is_late(0, 10) && !ios.is_late(5, NEVER));
    }
}
