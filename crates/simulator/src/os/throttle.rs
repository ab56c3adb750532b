//! Slows down writers that dirty pages faster than the device writes them.
//!
//! * 2.4: above the limit the writer itself writes batches of 32 buffers until below it.
//! * 2.6: a writer checks after a number of pages; above the limit it writes one and a half times
//!   as many pages itself, sleeps 100 ms, and checks again.
//! * 3, mq: writers do not write pages themselves. Above the middle between background limit and
//!   limit (up to there is the free run) every writer pauses, so that their total rate matches the
//!   device's and the dirty pages stay near the set point, halfway between the end of the free run
//!   and the limit.
//! * Cost: a comparison per call; the computation runs only when a quota is used up, in integers.
//! * Source: docs/specifications/devices.md, section 8.4 (Linux mm/page-writeback.c, fs/buffer.c of
//!   2.4.20).

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use hoistway_experiment::{KernelEra, Machine};

use super::write_back::{Rules, dirtyable_pages};

/// Length of the spans over which rates are measured.
const SPAN_NS: Nanos = SECOND / 5;
/// 100 MB/s, the initial base rate of a writer.
const FIRST_PAGES_PER_S: u64 = 24_414;
/// Shortest and longest pause.
const PAUSE_NS: (Nanos, Nanos) = (SECOND / 100, SECOND / 5);
/// The target length of a writer's pause.
const USUAL_PAUSE_NS: Nanos = SECOND / 50;
/// How long a writer of 2.6 sleeps after it has written.
pub(crate) const NAP_NS: Nanos = SECOND / 10;

/// What a writer has to do before it may continue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    GoOn,
    /// To pause.
    Pause(Nanos),
    /// Write this many pages itself, then check again, after a sleep if `naps` is set.
    Write { pages: u64, naps: bool },
}

/// The state shared by all writers of a device.
#[derive(Debug)]
pub(crate) struct Throttle {
    era: KernelEra,
    background_pages: u64,
    limit_pages: u64,
    /// Pages after which a writer of 2.6 checks.
    ratelimit_pages: u64,
    /// The rate of one writer at the set point, in pages per second.
    base_pages_per_s: u64,
    /// The device's rate of write-back, pages per second, smoothed; 0 until known.
    written_per_s: u64,
    span_begin_ns: Nanos,
    dirtied: u64,
    written: u64,
    looked_ns: Nanos,
    /// The integral of one writer's allowed rate over the span so far: pages per second x
    /// nanoseconds.
    allowed: u64,
    /// Whether the whole span so far was spent above the free run.
    is_held: bool,
}

impl Throttle {
    /// The state without dirty pages.
    pub(crate) fn new(machine: &Machine, rules: &Rules) -> Self {
        let ratelimit_pages = (dirtyable_pages(machine) / (32 * machine.cpus)).clamp(16, 1_024);
        Self {
            era: machine.era,
            background_pages: rules.background_pages,
            limit_pages: rules.limit_pages,
            ratelimit_pages,
            base_pages_per_s: FIRST_PAGES_PER_S,
            written_per_s: 0,
            span_begin_ns: 0,
            dirtied: 0,
            written: 0,
            looked_ns: 0,
            allowed: 0,
            is_held: false,
        }
    }

    /// The number of dirty pages up to which no writer pauses.
    pub(crate) fn freerun_pages(&self) -> u64 {
        u64::midpoint(self.background_pages, self.limit_pages)
    }

    /// The device's rate of write-back, in pages per second; 0 until known.
    pub(crate) fn written_per_s(&self) -> u64 {
        self.written_per_s
    }

    /// How many pages a writer may dirty before it asks [`Throttle::check`], with `dirty` pages
    /// dirty and in write-back.
    pub(crate) fn quota(&self, dirty: u64) -> u64 {
        match self.era {
            KernelEra::Linux24 => 32,
            KernelEra::Linux26 if dirty > self.limit_pages => 8,
            KernelEra::Linux26 => self.ratelimit_pages,
            KernelEra::Linux3 | KernelEra::Mq => {
                let freerun = self.freerun_pages();
                if dirty < freerun {
                    // Far below the free run a writer may check rarely.
                    (freerun - dirty).isqrt().max(32)
                } else {
                    (self.rate(dirty) * USUAL_PAUSE_NS / SECOND).max(1)
                }
            }
        }
    }

    /// A writer has dirtied `pages` since its last check. `dirty` is the number of pages dirty and,
    /// except in 2.4, in write-back.
    pub(crate) fn check(&mut self, pages: u64, dirty: u64, now: Nanos) -> Verdict {
        self.dirtied += pages;
        match self.era {
            KernelEra::Linux24 | KernelEra::Linux26 if dirty <= self.limit_pages => Verdict::GoOn,
            KernelEra::Linux24 => Verdict::Write { pages: 32, naps: false },
            KernelEra::Linux26 => Verdict::Write { pages: self.ratelimit_pages * 3 / 2, naps: true },
            KernelEra::Linux3 | KernelEra::Mq => {
                self.look(dirty, now);
                if dirty < self.freerun_pages() {
                    return Verdict::GoOn;
                }
                if dirty >= self.limit_pages {
                    return Verdict::Pause(PAUSE_NS.1);
                }
                let pause_ns = pages.saturating_mul(SECOND) / self.rate(dirty).max(1);
                Verdict::Pause(pause_ns.clamp(PAUSE_NS.0, PAUSE_NS.1))
            }
        }
    }

    /// Pages have been written to the device.
    pub(crate) fn written(&mut self, pages: u64, dirty: u64, now: Nanos) {
        self.written += pages;
        self.look(dirty, now);
    }

    /// The allowed rate of one writer, in pages per second, with this many pages dirty.
    fn rate(&self, dirty: u64) -> u64 {
        self.base_pages_per_s * self.position_1024(dirty) / 1_024
    }

    /// 1 + x^3 in 1/1024, where x goes from 1 at the free run over 0 at the set point to -1 at the
    /// limit.
    fn position_1024(&self, dirty: u64) -> u64 {
        let set_point = u64::midpoint(self.freerun_pages(), self.limit_pages);
        let reach = (self.limit_pages - set_point).max(1);
        let signed = |pages: u64| i64::try_from(pages).unwrap_or(i64::MAX / 2_048);
        let x = ((signed(set_point) - signed(dirty)) * 1_024 / signed(reach)).clamp(-1_024, 1_024);
        let position = 1_024 + ((x * x * x) >> 20);
        u64::try_from(position.clamp(0, 2_048)).unwrap_or(0)
    }

    /// Adds up the time since the last call, and adjusts the base rate at the end of a span.
    fn look(&mut self, dirty: u64, now: Nanos) {
        let elapsed_ns = now.saturating_sub(self.span_begin_ns);
        let is_held = dirty >= self.freerun_pages();
        self.is_held &= is_held;
        // At most 2^32 pages per second over a few spans: far from overflow.
        self.allowed += self.rate(dirty) * now.saturating_sub(self.looked_ns).min(SPAN_NS);
        self.looked_ns = now;
        if elapsed_ns < SPAN_NS {
            return;
        }
        let per_s = |pages: u64| pages.saturating_mul(SECOND) / elapsed_ns;
        let (dirtied, written) = (per_s(self.dirtied), per_s(self.written));
        if written > 0 {
            self.written_per_s = if self.written_per_s == 0 { written } else { (3 * self.written_per_s + written) / 4 };
        }
        let allowed_per_s = self.allowed / elapsed_ns;
        if self.is_held && allowed_per_s > 0 && dirtied > 0 && self.written_per_s > 0 {
            let base = self.base_pages_per_s;
            let wanted = (allowed_per_s * self.written_per_s / dirtied).clamp(base / 2, base * 2);
            // The base rate moves all the way to a distant value and halfway to a near one, because
            // the rates of a single span are noisy.
            let is_near = wanted.abs_diff(base) < base / 4;
            self.base_pages_per_s = (if is_near { u64::midpoint(base, wanted) } else { wanted }).max(16);
        }
        (self.span_begin_ns, self.dirtied, self.written) = (now, 0, 0);
        (self.allowed, self.is_held) = (0, is_held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(text: &str) -> Throttle {
        let machine = Machine::parse(text).unwrap();
        Throttle::new(&machine, &Rules::of(&machine, 512 << 10))
    }

    #[test]
    fn the_position_falls_from_two_over_one_to_nothing() {
        let throttle = throttle("memory_mib=1024");
        // 235,929 pages: background 23,592, limit 47,185, free run 35,388, set point 41,286.
        assert_eq!(throttle.freerun_pages(), 35_388);
        assert_eq!(throttle.position_1024(30_000), 2_048);
        assert!(throttle.position_1024(35_388) > 2_040);
        assert_eq!(throttle.position_1024(41_286), 1_024);
        assert_eq!(throttle.position_1024(47_185), 0);
        assert_eq!(throttle.position_1024(60_000), 0);
    }

    #[test]
    fn writers_of_2_6_write_themselves_above_the_limit() {
        let mut throttle = throttle("era=2.6,memory_mib=1024");
        assert_eq!((throttle.quota(0), throttle.quota(50_000)), (1_024, 8));
        assert_eq!(throttle.check(1_024, 47_185, 0), Verdict::GoOn);
        assert_eq!(throttle.check(8, 47_186, 0), Verdict::Write { pages: 1_536, naps: true });
    }

    /// Writers that dirty at memory speed between pauses, and a device that takes `device` pages
    /// per second.
    fn closed_loop(writers: usize, device: u64) -> (Vec<u64>, u64) {
        let mut throttle = throttle("memory_mib=1024");
        let mut dirty = throttle.freerun_pages();
        let mut resume_ns = vec![0; writers];
        let mut dirtied = vec![0; writers];
        let step_ns = SECOND / 1_000;
        for step in 0..6_000 {
            let now = step * step_ns;
            if step == 2_000 {
                dirtied.fill(0);
            }
            for writer in 0..writers {
                if resume_ns[writer] <= now {
                    let pages = throttle.quota(dirty);
                    dirty += pages;
                    dirtied[writer] += pages;
                    let pause = throttle.check(pages, dirty, now);
                    resume_ns[writer] = now + if let Verdict::Pause(ns) = pause { ns } else { 0 };
                }
            }
            let taken = (device / 1_000).min(dirty);
            dirty -= taken;
            throttle.written(taken, dirty, now);
        }
        (dirtied, dirty)
    }

    #[test]
    fn n_writers_share_what_the_device_takes() {
        for (writers, device) in [(1, 15_000), (4, 15_000), (10, 15_000), (4, 100_000), (2, 8_000)] {
            let (dirtied, dirty) = closed_loop(writers, device);
            let rates: Vec<_> = dirtied.iter().map(|pages| *pages as f64 / 4.0).collect();
            let total: f64 = rates.iter().sum();
            assert!((total / device as f64 - 1.0).abs() < 0.05, "{writers} x {device}: {total}");
            let share = device as f64 / writers as f64;
            assert!(rates.iter().all(|rate| (rate / share - 1.0).abs() < 0.1), "{writers} x {device}: {rates:?}");
            assert!(dirty > 35_388 && dirty < 47_185, "{writers} x {device}: {dirty}");
        }
    }
}
