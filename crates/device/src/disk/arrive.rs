//! Commands leave the firmware: hits are answered, the rest waits for the media. Source:
//! docs/specifications/devices.md, section 4.6.

use hoistway_block::{Nanos, Operation, Sector, Status};

use super::drive::{Arrival, Disk, Work};
use super::read_queue::Read;
use super::write_cache::{Waiter, Write};

impl Disk {
    /// The firmware has processed a command.
    pub(super) fn arrive(&mut self, now: Nanos, arrival: &Arrival) {
        match arrival.operation {
            Operation::Read => self.arrive_read(now, arrival),
            Operation::Flush => self.arrive_flush(now, arrival),
            Operation::Discard => {
                self.drop_cached(now, arrival.first, arrival.first + u64::from(arrival.sectors));
                self.completions.insert(now, (arrival.tag, Status::Ok));
            }
            _ => self.arrive_write(now, arrival),
        }
        if self.media.is_none() {
            self.start_best(now);
        }
    }

    fn arrive_read(&mut self, now: Nanos, arrival: &Arrival) {
        let &Arrival { tag, first, sectors, sequence, submitted_at, .. } = arrival;
        let end = first + u64::from(sectors);
        self.update_prefetch(now);
        let segment = self.cache.holding(first, end);
        if segment.is_some() || self.is_dirty(first, end) {
            let across_at = self.cross_link(now, sectors);
            self.completions.insert(across_at, (tag, Status::Ok));
            if let Some(segment) = segment {
                self.cache.read(segment, end);
                self.look_ahead(now, segment, end);
            }
            return;
        }
        let read = Read::new(tag, sequence, submitted_at, first, sectors, self.mechanics.place(first));
        if let Some(prefetch) = self.prefetch.filter(|prefetch| self.cache.touches(prefetch.segment, first)) {
            self.attach(now, prefetch, read);
            return;
        }
        self.reads.push(read);
    }

    fn arrive_write(&mut self, now: Nanos, arrival: &Arrival) {
        let &Arrival { tag, first, sectors, sequence, submitted_at, .. } = arrival;
        let is_pattern = arrival.operation == Operation::WriteZeroes;
        let write = Write { tag, sequence, submitted_at, first, sectors, is_pattern };
        self.drop_cached(now, first, write.end());
        if arrival.fua || !self.timing.write_cache {
            let data_at = self.cross_link(now, write.data_sectors());
            self.writes.pass(&write, self.mechanics.place(first), Waiter { tag, data_at });
        } else {
            self.writes.wait(write);
            self.admit_waiting(now);
        }
    }

    /// Moves writes into the cache in order of their arrival, as far as there is room.
    pub(super) fn admit_waiting(&mut self, now: Nanos) {
        while let Some(write) = self.writes.first_waiting() {
            if !self.writes.store(&write, || self.mechanics.place(write.first)) {
                return;
            }
            self.writes.admitted();
            let across_at = self.cross_link(now, write.data_sectors());
            self.completions.insert(across_at, (write.tag, Status::Ok));
        }
    }

    fn arrive_flush(&mut self, now: Nanos, arrival: &Arrival) {
        let destaging = self.media.as_ref().is_some_and(|media| matches!(media.work, Work::Destage(_)));
        if !self.writes.flush(arrival.tag, arrival.sequence, arrival.submitted_at, destaging) {
            self.completions.insert(now, (arrival.tag, Status::Ok));
        }
    }

    /// The read cache must not serve a range that has been written, nor may the head continue to
    /// prefetch it.
    fn drop_cached(&mut self, now: Nanos, first: Sector, end: Sector) {
        self.update_prefetch(now);
        if let Some(prefetch) = self.prefetch
            && first < prefetch.limit
            && self.cache.start(prefetch.segment) < end
        {
            self.stop_prefetch(now);
        }
        self.cache.invalidate(first, end);
    }
}
