//! Work on the media: its start and end, and what the head does when there is none. Source:
//! docs/specifications/devices.md, section 4.6.

use hoistway_block::{Nanos, Sector, Status};

use super::cache::SegmentId;
use super::choose::{Choice, ChoiceContext};
use super::drive::{Disk, Media, Prefetch, STATUS_NS, Work};
use super::geometry::Run;
use super::read_queue::Read;

impl Disk {
    /// Starts the best waiting work on the unused media. A prefetch is stopped for what a command
    /// waits for, not for writing back.
    pub(super) fn start_best(&mut self, now: Nanos) {
        if self.prefetch.is_none() || self.is_wanted() {
            self.stop_prefetch(now);
            self.start_next(now, None);
        }
    }

    /// Whether a command waits for the media.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reads.is_empty() || self.writes.is_wanted()
    }

    /// Starts the work that the drive has committed to, or else the best work that waits now.
    fn start_next(&mut self, now: Nanos, committed: Option<Choice>) {
        let context = ChoiceContext { now, free_at: now, from: self.head };
        let choice = committed.or_else(|| self.chooser.choose(context, &self.mechanics, &self.reads, &self.writes));
        if let Some(choice) = choice {
            self.start(now, choice);
        }
    }

    fn start(&mut self, now: Nanos, choice: Choice) {
        let (work, first, sectors, place) = match choice {
            Choice::Read(index) => {
                let read = self.reads.take(index);
                (Work::Read(read), read.first, read.sectors, read.place)
            }
            Choice::Extent(index) => {
                let extent = self.writes.take(index);
                (Work::Destage(extent), extent.first, extent.sectors, extent.place)
            }
        };
        let is_write = matches!(work, Work::Destage(_));
        let transfer_at = now + self.mechanics.actual_ns(now, self.head, place, is_write, &mut self.stream);
        let (end_at, end_track) = self.mechanics.geometry().transfer(transfer_at, first, u64::from(sectors));
        self.media = Some(Media { work, transfer_at, end_at, end_track, committed: false, next: None });
    }

    /// The transfer on the media has ended.
    pub(super) fn end_work(&mut self, now: Nanos) {
        let Some(media) = self.media.take() else { return };
        self.head = media.end_track;
        match media.work {
            Work::Read(read) => {
                // The link has transferred the sectors as they were read, so only its own rate can
                // delay the last ones.
                let across_at = media.transfer_at + self.timing.link.transfer_ns(read.sectors);
                self.link_free_at = now.max(across_at).max(self.link_free_at);
                self.completions.insert(self.link_free_at + STATUS_NS, (read.tag, Status::Ok));
                let segment = self.cache.store(read.first, read.end());
                if !self.is_wanted() {
                    let run = self.mechanics.geometry().run_on(now, read.end(), self.info.capacity_sectors);
                    self.begin_prefetch(run, read.end() + self.timing.readahead_sectors, segment);
                }
                if self.prefetch.is_none() {
                    self.start_next(now, media.next);
                }
            }
            Work::Destage(extent) => {
                if let Some(waiter) = extent.waiter {
                    self.completions.insert(now.max(waiter.data_at), (waiter.tag, Status::Ok));
                }
                let completions = &mut self.completions;
                self.writes.written(&extent, |tag| completions.insert(now, (tag, Status::Ok)));
                self.admit_waiting(now);
                self.start_next(now, media.next);
            }
        }
    }

    /// Prefetches into `segment`, if there is anything before `limit` and the end of the disk.
    fn begin_prefetch(&mut self, run: Run, limit: Sector, segment: SegmentId) {
        let limit = limit.min(self.info.capacity_sectors);
        if run.first < limit {
            self.prefetch = Some(Prefetch { run, limit, end_at: self.run_end(run, limit), segment });
        }
    }

    fn run_end(&self, run: Run, end: Sector) -> Nanos {
        self.mechanics.geometry().transfer(run.at, run.first, end - run.first).0
    }

    /// Records what a running prefetch has read by now.
    pub(super) fn update_prefetch(&mut self, now: Nanos) {
        if let Some(prefetch) = &mut self.prefetch {
            let reached = self.mechanics.geometry().follow(&mut prefetch.run, prefetch.limit, now);
            self.cache.extend(prefetch.segment, reached);
        }
    }

    /// Stops a prefetch at its position.
    pub(super) fn stop_prefetch(&mut self, now: Nanos) {
        let Some(mut prefetch) = self.prefetch.take() else { return };
        let reached = self.mechanics.geometry().follow(&mut prefetch.run, prefetch.limit, now);
        self.cache.extend(prefetch.segment, reached);
        // At its limit the head stays on the last track instead of moving to the next.
        let at = if reached == prefetch.limit { reached - 1 } else { reached };
        self.head = self.mechanics.place(at).track;
    }

    /// After a cache hit that ends at `end`, continues the prefetch into the segment. If none is
    /// running and the media is unused, it starts one when less than half of the read-ahead is
    /// cached beyond `end`.
    pub(super) fn look_ahead(&mut self, now: Nanos, segment: SegmentId, end: Sector) {
        let readahead = self.timing.readahead_sectors;
        let limit = (end + readahead).min(self.info.capacity_sectors);
        if let Some(prefetch) = self.prefetch {
            if prefetch.segment == segment && limit > prefetch.limit {
                let end_at = self.run_end(prefetch.run, limit);
                self.prefetch = Some(Prefetch { limit, end_at, ..prefetch });
            }
            return;
        }
        let first = self.cache.end(segment);
        if self.media.is_none() && first < limit && first - end < readahead / 2 {
            let place = self.mechanics.place(first);
            let wait_ns = self.mechanics.actual_ns(now, self.head, place, false, &mut self.stream);
            self.begin_prefetch(Run { first, at: now + wait_ns }, limit, segment);
        }
    }

    /// A read continues what the head is prefetching: the prefetch becomes its transfer, without
    /// positioning.
    pub(super) fn attach(&mut self, now: Nanos, prefetch: Prefetch, read: Read) {
        self.prefetch = None;
        let Run { first, at } = prefetch.run;
        let (end_at, end_track) = self.mechanics.geometry().transfer(at, first, read.end() - first);
        let work = Work::Read(read);
        self.media = Some(Media { work, transfer_at: now, end_at, end_track, committed: false, next: None });
    }
}
