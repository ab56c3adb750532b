//! Who dirties pages faster than the device takes them is slowed down.
//!
//! 2.4     above the limit the writer itself writes batches of 32 buffers until below.
//! 2.6     every so many pages the writer looks; above the limit it writes one and a half times as many itself, naps
//!         100 ms or until the queue has room, and looks again.
//! 3, mq   nobody writes himself: above the middle between background and limit every writer pauses, as long as keeps
//!         the sum of all at what the device writes and the dirty pages near the set point.
//!
//! Cost     a comparison per call; arithmetic only when a quota is used up, in integers.
//! Source   specification of the devices, 8.4 (Linux mm/page-writeback.c, fs/buffer.c of 2.4.20).

use block::Nanos;
use block::time::SECOND;
use experiment::{KernelEra, Machine};

use super::write_back::{Rules, dirtyable_pages};

/// Rates are looked at in spans of this length.
const SPAN_NS: Nanos = SECOND / 5;
/// 100 MB/s, where every estimate begins.
const FIRST_PAGES_PER_S: u64 = 24_414;
/// Bounds of a pause.
const PAUSE_NS: (Nanos, Nanos) = (SECOND / 100, SECOND / 5);
/// What a writer's pause is aimed at.
const USUAL_PAUSE_NS: Nanos = SECOND / 50;
/// Nap of a writer of 2.6 that has written.
pub(crate) const NAP_NS: Nanos = SECOND / 10;

/// What a writer has to do before it may go on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    GoOn,
    /// To pause.
    Pause(Nanos),
    /// To write so many pages itself, then to ask again, after a nap if it says so.
    Write { pages: u64, naps: bool },
}

/// The sums over all writers of a device.
#[derive(Debug)]
pub(crate) struct Throttle {
    era: KernelEra,
    background_pages: u64,
    limit_pages: u64,
    /// Pages after which a writer of 2.6 looks.
    ratelimit_pages: u64,
    /// What one writer may dirty at the set point, pages per second.
    base_pages_per_s: u64,
    /// What the device writes, pages per second, smoothed; 0 until known.
    written_per_s: u64,
    span_begin_ns: Nanos,
    dirtied: u64,
    written: u64,
    looked_ns: Nanos,
    /// What one writer was allowed in the span so far: pages per second x nanoseconds.
    allowed: u64,
    /// Whether all of the span was spent above the free run.
    is_held: bool,
}

impl Throttle {
    /// Nothing dirty yet.
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

    /// Pages that writers may have dirty before anybody pauses.
    pub(crate) fn freerun_pages(&self) -> u64 {
        u64::midpoint(self.background_pages, self.limit_pages)
    }

    /// What the device writes, in pages per second; 0 until known.
    pub(crate) fn written_per_s(&self) -> u64 {
        self.written_per_s
    }

    /// How many pages a writer may dirty before it asks [`Throttle::check`], with `dirty` pages dirty and in write-back.
    pub(crate) fn quota(&self, dirty: u64) -> u64 {
        match self.era {
            KernelEra::Linux24 => 32,
            KernelEra::Linux26 if dirty > self.limit_pages => 8,
            KernelEra::Linux26 => self.ratelimit_pages,
            KernelEra::Linux3 | KernelEra::Mq => {
                let freerun = self.freerun_pages();
                if dirty < freerun {
                    // Far below nobody need look often.
                    (freerun - dirty).isqrt().max(32)
                } else {
                    (self.rate(dirty) * USUAL_PAUSE_NS / SECOND).max(1)
                }
            }
        }
    }

    /// A writer has dirtied `pages` since it asked last. `dirty` are the pages dirty and, except in 2.4, in write-back.
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

    /// Pages have reached the device.
    pub(crate) fn written(&mut self, pages: u64, dirty: u64, now: Nanos) {
        self.written += pages;
        self.look(dirty, now);
    }

    /// What one writer may dirty per second with so many pages dirty.
    fn rate(&self, dirty: u64) -> u64 {
        self.base_pages_per_s * self.position_1024(dirty) / 1_024
    }

    /// 1 + x^3 in 1/1024, where x goes from 1 at the free run over 0 at the set point to -1 at the limit.
    fn position_1024(&self, dirty: u64) -> u64 {
        let set_point = u64::midpoint(self.freerun_pages(), self.limit_pages);
        let reach = (self.limit_pages - set_point).max(1);
        let signed = |pages: u64| i64::try_from(pages).unwrap_or(i64::MAX / 2_048);
        let x = ((signed(set_point) - signed(dirty)) * 1_024 / signed(reach)).clamp(-1_024, 1_024);
        let position = 1_024 + ((x * x * x) >> 20);
        u64::try_from(position.clamp(0, 2_048)).unwrap_or(0)
    }

    /// Adjusts the base rate at the end of a span.
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
            // All of the way when it is far, half when it is near: rates of one span are lumpy.
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

    /// Writers that dirty at memory speed between pauses, and a device that takes `device` pages per second.
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
