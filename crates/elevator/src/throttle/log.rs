//! blk-throttle's blktrace messages, in the kernel's wording. The host adds the name of the group
//! in front.
//!
//! While messages are off, each costs one test of a flag. While on, they are written in place by
//! out-of-line functions, so that they take no stack from the working path. No message changes
//! behaviour. Times are ticks. Source: Linux 6.1 block/blk-throttle.c, throtl_log;
//! docs/specifications/throttle.md, section 2.8.

use super::Throttle;
use super::group::DIRECTIONS;
use super::idle::BUCKETS;
use super::slice::{Limit, Ticks, Trimmed};
use crate::message::{Message, NUMBERS};
use crate::request::Bio;
use hoistway_block::{Direction, GroupId};

/// What happened to a slice.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SliceEvent {
    Started,
    StartedWithCredit,
    Extended,
}

/// The text with the letter of a direction.
macro_rules! lettered {
    ($direction:expr, $text:literal) => {
        match $direction {
            Direction::Read => concat!("[R] ", $text),
            Direction::Write => concat!("[W] ", $text),
        }
    };
}

impl Throttle {
    /// Whether messages are recorded.
    #[inline]
    pub(super) fn is_traced(&self) -> bool {
        self.messages.is_on()
    }

    // ---- one direction of a group ----

    #[cold]
    pub(super) fn log_slice(&mut self, event: SliceEvent, group: GroupId, direction: Direction, now: Ticks) {
        let text = match event {
            SliceEvent::Started => lettered!(direction, "new slice start={0} end={1} jiffies={2}"),
            SliceEvent::StartedWithCredit => {
                lettered!(direction, "new slice with credit start={0} end={1} jiffies={2}")
            }
            SliceEvent::Extended => lettered!(direction, "extend slice start={0} end={1} jiffies={2}"),
        };
        let slice = self.groups.at(group.0).slices.of(direction);
        let (start, end) = (slice.start, slice.end);
        self.write(Some(group), text, now, [start, end, now, 0, 0, 0, 0, 0]);
    }

    #[cold]
    pub(super) fn log_trim(&mut self, trimmed: Trimmed, group: GroupId, direction: Direction, now: Ticks) {
        let text = lettered!(direction, "trim slice nr={0} bytes={1i} io={2i} start={3} end={4} jiffies={5}");
        let slice = self.groups.at(group.0).slices.of(direction);
        let (start, end) = (slice.start, slice.end);
        let Trimmed { slices, bytes, ios } = trimmed;
        self.write(Some(group), text, now, [slices, bytes.cast_unsigned(), ios.cast_unsigned(), start, end, now, 0, 0]);
    }

    /// A bio is about to wait at a group.
    #[cold]
    pub(super) fn log_bio(&mut self, bio: &Bio, group: GroupId, now: Ticks) {
        let direction = bio.direction();
        let text = lettered!(direction, "bio. bdisp={0} sz={1} bps={2} iodisp={3} iops={4} queued={5}/{6}");
        let limit = self.limit_at(group, direction, self.scale_at(now));
        let entry = self.groups.at(group.0);
        let slice = entry.slices.of(direction);
        let (bytes, ios, queued) = (slice.bytes, slice.ios, entry.service.queued);
        // The size as submitted, also for a discard, although it is charged less.
        let size = u64::from(bio.extent.sectors).saturating_mul(512);
        let numbers =
            [bytes, size, limit.bytes_per_s, ios, shown_ios(limit), queued.read.into(), queued.write.into(), 0];
        self.write(Some(group), text, now, numbers);
    }

    // ---- service queues ----

    /// A round of a service queue begins. Nothing waits at the top, so its numbers are those of the
    /// whole device.
    #[cold]
    pub(super) fn log_round(&mut self, queue: u32, now: Ticks) {
        let (mut reads, mut writes) = (0u64, 0u64);
        let is_top = queue >= self.groups.len();
        for index in 0..self.groups.len() {
            if is_top || index == queue {
                let queued = self.groups.at(index).service.queued;
                reads = reads.saturating_add(queued.read.into());
                writes = writes.saturating_add(queued.write.into());
            }
        }
        let numbers = [reads.saturating_add(writes), reads, writes, 0, 0, 0, 0, 0];
        self.write(self.owner_of(queue), "dispatch nr_queued={0} read={1} write={2}", now, numbers);
    }

    #[cold]
    pub(super) fn log_moved(&mut self, queue: u32, moved: u32, now: Ticks) {
        self.write(self.owner_of(queue), "bios disp={0}", now, [moved.into(), 0, 0, 0, 0, 0, 0, 0]);
    }

    #[cold]
    pub(super) fn log_timer(&mut self, queue: u32, at: Ticks, now: Ticks) {
        let numbers = [at.saturating_sub(now), now, 0, 0, 0, 0, 0, 0];
        self.write(self.owner_of(queue), "schedule timer. delay={0} jiffies={1}", now, numbers);
    }

    /// The group of a service queue; `None` = the device.
    fn owner_of(&self, queue: u32) -> Option<GroupId> {
        (queue < self.groups.len()).then_some(GroupId(queue))
    }

    // ---- limits and best-effort limits ----

    /// The limits in force after a change.
    #[cold]
    pub(super) fn log_limits(&mut self, group: GroupId, now: Ticks) {
        let [read, write] = DIRECTIONS.map(|direction| self.limit_at(group, direction, self.scale_at(now)));
        let numbers = [read.bytes_per_s, write.bytes_per_s, shown_ios(read), shown_ios(write), 0, 0, 0, 0];
        self.write(Some(group), "limit change rbps={0} wbps={1} riops={2} wiops={3}", now, numbers);
    }

    #[cold]
    pub(super) fn log_upgrade(&mut self, now: Ticks) {
        self.write(None, "upgrade to max", now, [0; NUMBERS]);
    }

    #[cold]
    pub(super) fn log_downgrade(&mut self, now: Ticks) {
        self.write(None, "downgrade, scale {0}", now, [self.state.scale, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[cold]
    pub(super) fn log_idle(&mut self, group: GroupId, is_idle: bool, now: Ticks) {
        let text = "avg_idle={0i}, idle_threshold={1i}, bad_bio={2}, total_bio={3}, is_idle={4}, scale={5}";
        let idle_stats = &self.groups.at(group.0).idle_stats;
        let (late, bios) = (idle_stats.late_bios.into(), idle_stats.bios.into());
        let numbers =
            [idle_stats.average_idle, idle_stats.idle_threshold_us, late, bios, is_idle.into(), self.state.scale, 0, 0];
        self.write(Some(group), text, now, numbers);
    }

    /// The baselines just calculated, one line per size.
    #[cold]
    pub(super) fn log_baselines(&mut self, now: Ticks) {
        let text = "Latency bucket {0}: read latency={1i}, read valid={2}, write latency={3i}, write valid={4}";
        for size in 0..BUCKETS {
            let (read, has_reads) = self.baselines.known(Direction::Read, size);
            let (write, has_writes) = self.baselines.known(Direction::Write, size);
            self.write(None, text, now, [size.into(), read, has_reads.into(), write, has_writes.into(), 0, 0, 0]);
        }
    }

    #[inline]
    fn write(&mut self, group: Option<GroupId>, text: &'static str, now: Ticks, numbers: [u64; NUMBERS]) {
        if let Some(message) = self.messages.begin(now.saturating_mul(self.tick_ns), text) {
            *message = Message { group, numbers, ..*message };
        }
    }
}

/// I/Os per second as shown: 32 bits, all ones without a limit.
const fn shown_ios(limit: Limit) -> u64 {
    let most = u32::MAX as u64;
    if limit.ios_per_s > most { most } else { limit.ios_per_s }
}
