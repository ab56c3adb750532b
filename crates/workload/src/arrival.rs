//! When the next I/O may be issued: closed loop at a depth, a rate (even or Poisson), pauses.
//!
//! The caller provides all times. A closed loop has no schedule; a rate has one per direction and
//! catches up at most [`CATCH_UP_NS`]; a pause starts when everything issued has completed.

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, time::SECOND};

use crate::distribution::exponential;
use crate::job::{Direction, Job, RateProcess, Think};

/// How far a thread may lag behind its rate and still catch up. Source:
/// docs/specifications/devices.md, section 9.1.
const CATCH_UP_NS: Nanos = SECOND;

/// The schedule of one direction under a rate.
#[derive(Copy, Clone, Debug, Default)]
struct Pacing {
    bytes_per_s: u64,
    ios_per_s: u64,
    due_ns: Nanos,
    /// Sum of the remainders that the divisions of [`Pacing::gap_ns`] leave, in units of 1 / rate
    /// nanoseconds; a whole nanosecond is added to a gap.
    cut_off: u64,
}

impl Pacing {
    fn is_paced(&self) -> bool {
        self.bytes_per_s > 0 || self.ios_per_s > 0
    }

    /// The gap after an I/O; if both rates are set, the slower one applies.
    fn gap_ns(&mut self, length_bytes: u64) -> Nanos {
        let by_ios = SECOND.checked_div(self.ios_per_s).unwrap_or(0);
        let by_bytes = (length_bytes * SECOND).checked_div(self.bytes_per_s).unwrap_or(0);
        let ios_rule = self.bytes_per_s == 0 || by_ios > by_bytes;
        let (work, rate) = if ios_rule { (SECOND, self.ios_per_s) } else { (length_bytes * SECOND, self.bytes_per_s) };
        let whole = work / rate;
        self.cut_off += work % rate;
        let carry = u64::from(self.cut_off >= rate);
        self.cut_off -= carry * rate;
        whole + carry
    }
}

/// The schedules of the three directions.
#[derive(Clone, Debug)]
pub struct Pacer {
    by_direction: [Pacing; 3],
    poisson: bool,
    random: Stream,
}

impl Pacer {
    /// The pacer of a job; `None` if it has no rate.
    pub fn new(job: &Job, random: Stream) -> Option<Self> {
        let by_direction = Direction::ALL.map(|direction| Pacing {
            bytes_per_s: *job.pacing.rate_bytes_per_s.of(direction),
            ios_per_s: u64::from(*job.pacing.rate_ios_per_s.of(direction)),
            ..Pacing::default()
        });
        let poisson = job.pacing.rate_process == RateProcess::Poisson;
        by_direction.iter().any(Pacing::is_paced).then_some(Self { by_direction, poisson, random })
    }

    /// Starts the schedule.
    pub fn start(&mut self, now: Nanos) {
        for pacing in &mut self.by_direction {
            pacing.due_ns = now;
        }
    }

    /// Due time of the direction's next I/O; 0 without a rate.
    pub fn due_ns(&self, direction: Direction) -> Nanos {
        let pacing = &self.by_direction[direction as usize];
        if pacing.is_paced() { pacing.due_ns } else { 0 }
    }

    /// Notes an issued I/O: the schedule advances by its gap from the I/O's due time.
    pub fn issued(&mut self, direction: Direction, length_bytes: u64, now: Nanos) {
        let pacing = &mut self.by_direction[direction as usize];
        if !pacing.is_paced() {
            return;
        }
        let gap_ns = pacing.gap_ns(length_bytes);
        let gap_ns = if self.poisson { exponential(gap_ns, &mut self.random) } else { gap_ns };
        pacing.due_ns = pacing.due_ns.saturating_add(gap_ns).max(now.saturating_sub(CATCH_UP_NS));
    }

    /// Delays every schedule by `span_ns`, so that the I/Os that were due meanwhile are not caught
    /// up.
    pub fn shift(&mut self, span_ns: Nanos) {
        for pacing in &mut self.by_direction {
            pacing.due_ns = pacing.due_ns.saturating_add(span_ns);
        }
    }
}

/// Pauses of a thread.
#[derive(Copy, Clone, Debug)]
pub struct Pauses {
    think: Think,
    counted: u32,
    /// End of the last pause, or start of the job.
    since_ns: Nanos,
}

impl Pauses {
    /// The pauses of a job; `None` if it has none.
    pub fn new(think: Think) -> Option<Self> {
        (think.time_ns > 0).then_some(Self { think, counted: 0, since_ns: 0 })
    }

    /// Length of a pause in nanoseconds.
    pub fn time_ns(&self) -> Nanos {
        self.think.time_ns
    }

    /// Notes the end of a pause or the start of the job.
    pub fn over(&mut self, at_ns: Nanos) {
        (self.since_ns, self.counted) = (at_ns, 0);
    }

    /// Notes an issued I/O; returns whether a pause follows it.
    pub fn issued(&mut self, now: Nanos) -> bool {
        let Think { io_time_ns, counts_issued, .. } = self.think;
        let is_long_ago = io_time_ns > 0 && now.saturating_sub(self.since_ns) >= io_time_ns;
        (counts_issued && self.count()) || is_long_ago
    }

    /// Notes a completed I/O; returns whether a pause follows it.
    pub fn completed(&mut self) -> bool {
        !self.think.counts_issued && self.count()
    }

    fn count(&mut self) -> bool {
        self.counted += 1;
        // If only a time of I/O (`io_time_ns`) is given, I/Os are not counted.
        let is_counted = self.think.blocks > 0 || self.think.io_time_ns == 0;
        let is_due = is_counted && self.counted >= self.think.blocks.max(1);
        if is_due {
            self.counted = 0;
        }
        is_due
    }
}
