//! When the next I/O may come: closed loop at a depth, a rate (even or Poisson), pauses.
//!
//! Pure bookkeeping over times that are handed in. A closed loop has no schedule; a rate keeps one per direction and
//! catches up at most [`CATCH_UP_NS`]; a pause begins when all that was issued has completed.

use block::random::Stream;
use block::{Nanos, time::SECOND};

use crate::distribution::exponential;
use crate::job::{Direction, Job, RateProcess, Think};

/// How far a thread may lag behind its rate and still catch up (devices specification 9.1).
const CATCH_UP_NS: Nanos = SECOND;

/// The schedule of one direction under a rate.
#[derive(Copy, Clone, Debug, Default)]
struct Lane {
    bytes_per_s: u64,
    ios_per_s: u64,
    due_ns: Nanos,
    /// What the divisions have cut off so far, in units of 1 / rate nanoseconds.
    cut_off: u64,
}

impl Lane {
    fn is_paced(&self) -> bool {
        self.bytes_per_s > 0 || self.ios_per_s > 0
    }

    /// The gap that follows an I/O; with both rates set, the slower one rules.
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
    lanes: [Lane; 3],
    poisson: bool,
    random: Stream,
}

impl Pacer {
    /// The pacer of a job; None when it has no rate.
    pub fn new(job: &Job, random: Stream) -> Option<Self> {
        let lanes = Direction::ALL.map(|direction| Lane {
            bytes_per_s: *job.rate_bytes_per_s.of(direction),
            ios_per_s: u64::from(*job.rate_ios_per_s.of(direction)),
            ..Lane::default()
        });
        let poisson = job.rate_process == RateProcess::Poisson;
        lanes.iter().any(Lane::is_paced).then_some(Self { lanes, poisson, random })
    }

    /// The schedule begins.
    pub fn start(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            lane.due_ns = now;
        }
    }

    /// When the direction's next I/O is due; 0 without a rate.
    pub fn due_ns(&self, direction: Direction) -> Nanos {
        let lane = &self.lanes[direction as usize];
        if lane.is_paced() { lane.due_ns } else { 0 }
    }

    /// Whether the direction has a rate at all.
    pub fn is_paced(&self, direction: Direction) -> bool {
        self.lanes[direction as usize].is_paced()
    }

    /// An I/O went out: the schedule advances by its gap, from where it should have gone out.
    pub fn issued(&mut self, direction: Direction, length_bytes: u64, now: Nanos) {
        let lane = &mut self.lanes[direction as usize];
        if !lane.is_paced() {
            return;
        }
        let gap_ns = lane.gap_ns(length_bytes);
        let gap_ns = if self.poisson { exponential(gap_ns, &mut self.random) } else { gap_ns };
        lane.due_ns = lane.due_ns.saturating_add(gap_ns).max(now.saturating_sub(CATCH_UP_NS));
    }

    /// Moves every schedule by a span that is not to be caught up.
    pub fn shift(&mut self, span_ns: Nanos) {
        for lane in &mut self.lanes {
            lane.due_ns = lane.due_ns.saturating_add(span_ns);
        }
    }
}

/// Pauses of a thread.
#[derive(Copy, Clone, Debug)]
pub struct Pauses {
    think: Think,
    counted: u32,
    /// End of the last pause, or the begin of the job.
    since_ns: Nanos,
}

impl Pauses {
    /// The pauses of a job; None when it has none.
    pub fn new(think: Think) -> Option<Self> {
        (think.time_ns > 0).then_some(Self { think, counted: 0, since_ns: 0 })
    }

    /// Length of a pause in nanoseconds.
    pub fn time_ns(&self) -> Nanos {
        self.think.time_ns
    }

    /// A pause is over, or the job begins.
    pub fn over(&mut self, at_ns: Nanos) {
        (self.since_ns, self.counted) = (at_ns, 0);
    }

    /// An I/O went out; whether a pause follows it.
    pub fn issued(&mut self, now: Nanos) -> bool {
        let Think { io_time_ns, counts_issued, .. } = self.think;
        let is_long_ago = io_time_ns > 0 && now.saturating_sub(self.since_ns) >= io_time_ns;
        (counts_issued && self.count()) || is_long_ago
    }

    /// An I/O has completed; whether a pause follows it.
    pub fn completed(&mut self) -> bool {
        !self.think.counts_issued && self.count()
    }

    fn count(&mut self) -> bool {
        self.counted += 1;
        // With a time and no count, only the time decides.
        let is_counted = self.think.blocks > 0 || self.think.io_time_ns == 0;
        let is_due = is_counted && self.counted >= self.think.blocks.max(1);
        if is_due {
            self.counted = 0;
        }
        is_due
    }
}
