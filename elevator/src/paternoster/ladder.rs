//! Whether a disk is better used by one issuer at a time or by all: learned by trying the other way now and then.
//!
//! Specification paternoster.md, 7, with two rungs instead of five, one cabin and flow: its measurements show that shares blur with
//! two cabins and more, and that wherever these were faster than one, flow was as fast and exact (10.6, 10.8, rules 7.T).

use block::Nanos;
use block::time::MILLISECOND;

/// An epoch lasts for so long of the time in which there was something to do, and for so many completions, but not for longer
/// than the last.
const BASE_NS: Nanos = 1_000 * MILLISECOND;
const PROBE_NS: Nanos = 800 * MILLISECOND;
const COMPLETIONS: u32 = 150;
const LONGEST_NS: Nanos = 2_400 * MILLISECOND;
/// At its begin nothing is measured.
const SKIPPED_NS: Nanos = 200 * MILLISECOND;
/// A probe that is hopeless after so long ends at once.
const HOPELESS_NS: Nanos = 100 * MILLISECOND;
const HOPELESS_PERCENT: u64 = 70;
/// What makes the other way better, and so much better that once is enough.
const CABIN_PERCENT: u64 = 105;
const FLOW_PERCENT: u64 = 95;
const CLEARLY_PERCENT: u64 = 120;
/// Epochs from one probe to the next.
const INTERVALS: core::ops::RangeInclusive<u32> = 2..=64;

/// How a disk is used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// One issuer at a time, for a slice.
    Cabin,
    /// As flash is.
    Flow,
}

impl Way {
    const fn other(self) -> Way {
        match self {
            Way::Cabin => Way::Flow,
            Way::Flow => Way::Cabin,
        }
    }
}

/// The search.
#[derive(Clone, Debug)]
pub struct Ladder {
    way: Way,
    is_searching: bool,
    is_probing: bool,
    work: u64,
    busy_ns: Nanos,
    skipped_ns: Nanos,
    completions: u32,
    /// Whether there was anything to choose in this epoch.
    is_contended: bool,
    base_rate: u64,
    wins: u32,
    interval: u32,
    until_probe: u32,
    last_percent: u64,
}

impl Ladder {
    pub const fn new(way: Way, is_searching: bool) -> Self {
        Self {
            way,
            is_searching,
            is_probing: false,
            work: 0,
            busy_ns: 0,
            skipped_ns: 0,
            completions: 0,
            is_contended: false,
            base_rate: 0,
            wins: 0,
            interval: *INTERVALS.start(),
            until_probe: *INTERVALS.start(),
            last_percent: 0,
        }
    }

    #[inline]
    pub const fn way(&self) -> Way {
        self.way
    }

    /// The way that is used now is only being tried.
    pub const fn is_probing(&self) -> bool {
        self.is_probing
    }

    /// All at once, and nothing else is tried.
    pub fn is_flow_for_good(&self) -> bool {
        self.way == Way::Flow && !self.is_searching
    }

    /// Of the last probe, in per cent of the other way.
    pub const fn last_percent(&self) -> u64 {
        self.last_percent
    }

    #[inline]
    pub const fn contended(&mut self) {
        self.is_contended = true;
    }

    /// A request is done; since some time there was something to do.
    #[inline]
    pub const fn completed(&mut self, work: u64, now: Nanos, busy_from_ns: Nanos) {
        if self.is_searching {
            self.count(work, now.saturating_sub(busy_from_ns));
        }
    }

    const fn count(&mut self, work: u64, busy_ns: Nanos) {
        if self.skipped_ns < SKIPPED_NS {
            self.skipped_ns = self.skipped_ns.saturating_add(busy_ns);
            return;
        }
        self.work = self.work.saturating_add(work);
        self.busy_ns = self.busy_ns.saturating_add(busy_ns);
        self.completions = self.completions.wrapping_add(1);
    }

    /// Bytes in 2^20 ns.
    fn rate(&self) -> u64 {
        (self.work.min(1 << 43) << 20).checked_div(self.busy_ns).unwrap_or(0)
    }

    fn is_hopeless(&self) -> bool {
        self.is_probing
            && self.busy_ns >= HOPELESS_NS
            && self.rate().saturating_mul(100) < self.base_rate.saturating_mul(HOPELESS_PERCENT)
    }

    #[inline]
    pub fn is_due(&self) -> bool {
        if !self.is_searching || self.busy_ns < HOPELESS_NS {
            return false;
        }
        let least_ns = if self.is_probing { PROBE_NS } else { BASE_NS };
        let is_full = self.busy_ns >= least_ns && self.completions >= COMPLETIONS;
        is_full || self.busy_ns >= LONGEST_NS || self.is_hopeless()
    }

    /// Ends the epoch; true if the way is another one now.
    pub fn step(&mut self) -> bool {
        let before = self.way;
        if !self.is_contended && !self.is_probing {
            self.begin();
            return false;
        }
        if self.is_probing {
            self.judge();
        } else {
            self.base_rate = self.rate();
            self.until_probe = self.until_probe.saturating_sub(1);
            if self.until_probe == 0 {
                (self.is_probing, self.way) = (true, self.way.other());
            }
        }
        self.begin();
        self.way != before
    }

    fn judge(&mut self) {
        let percent = self.rate().saturating_mul(100).checked_div(self.base_rate).unwrap_or(0);
        self.last_percent = percent;
        self.is_probing = false;
        let wanted = if self.way == Way::Cabin { CABIN_PERCENT } else { FLOW_PERCENT };
        self.wins = if percent >= wanted { self.wins.wrapping_add(1) } else { 0 };
        if percent >= CLEARLY_PERCENT || self.wins >= 2 {
            (self.interval, self.wins) = (*INTERVALS.start(), 0);
        } else {
            self.way = self.way.other();
            if self.wins == 0 {
                self.interval = self.interval.saturating_mul(2).min(*INTERVALS.end());
            }
        }
        self.until_probe = if self.wins > 0 { 1 } else { self.interval };
    }

    const fn begin(&mut self) {
        (self.work, self.busy_ns, self.skipped_ns, self.completions) = (0, 0, 0, 0);
        self.is_contended = false;
    }
}
