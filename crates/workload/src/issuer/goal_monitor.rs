//! Watches what a thread achieves, and slows it down or ends it: minimum rates, maximum latency,
//! the search for a depth, the steady state.
//!
//! The rules are those of fio 3.33. Cost: one clock value per I/O in flight and a few comparisons
//! per completion, only in jobs with such goals.

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;

use super::steady::Observed;
use crate::goal::{Goals, Search};
use crate::job::{Direction, Job, PerDirection};

/// Time that rates have to settle before they are checked.
const SETTLING_NS: Nanos = 2 * SECOND;
/// Number of cycles in which the target must hold at the depth just below one that failed, before a
/// search that continues tries the failed depth again.
const GOOD_CYCLES: u32 = 3;

/// Why a thread ended before its work or time was done.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It was slower than its minimum rate (rate_min, rate_iops_min).
    TooSlow,
    /// An I/O took longer than max_latency.
    TooLate,
    /// The observed figure is steady.
    Steady,
    /// The depth at which the latency target holds was found.
    Found {
        /// The depth.
        depth: u32,
    },
    /// The latency target does not hold even at depth 1.
    OutOfReach,
}

impl Ending {
    /// The errno that fio reports for it; `None` for endings that are no failure.
    pub const fn errno(self) -> Option<u16> {
        match self {
            Ending::TooSlow => Some(5),
            Ending::TooLate => Some(110),
            Ending::Steady | Ending::Found { .. } | Ending::OutOfReach => None,
        }
    }

    /// A description in one sentence.
    pub fn text(self) -> String {
        match self {
            Ending::TooSlow => "slower than its rate_min: ended".to_owned(),
            Ending::TooLate => "an I/O took longer than max_latency: ended".to_owned(),
            Ending::Steady => "steady: ended".to_owned(),
            Ending::Found { depth } => format!("holds latency_target at iodepth {depth}"),
            Ending::OutOfReach => "does not hold latency_target at iodepth 1: ended".to_owned(),
        }
    }
}

/// One I/O that has completed.
#[derive(Copy, Clone, Debug)]
pub(super) struct Completed {
    pub direction: Direction,
    pub bytes: u64,
    pub latency_ns: Nanos,
}

/// Totals of a thread in one direction.
#[derive(Copy, Clone, Debug, Default)]
struct Done {
    ios: u64,
    bytes: u64,
    /// Time, bytes and I/Os at the last check of the rate.
    looked: Option<(Nanos, u64, u64)>,
}

/// Checks the goals of a thread.
#[derive(Clone, Debug)]
pub(super) struct GoalMonitor {
    goals: Goals,
    start_ns: Nanos,
    done: PerDirection<Done>,
    depth_search: Option<DepthSearch>,
    observed: Option<Observed>,
    /// Time and length of each I/O in flight, indexed by token.
    issued: Vec<(Nanos, u32)>,
    ending: Option<Ending>,
}

impl GoalMonitor {
    /// The monitor of a job; `None` for a job without goals.
    pub fn new(job: &Job) -> Option<Box<Self>> {
        let goals = &job.goals;
        let depth = job.effective_depth();
        goals.watch_completions().then(|| {
            Box::new(Self {
                depth_search: goals.search.map(|search| DepthSearch::new(search, depth)),
                observed: goals.steady.map(Observed::new),
                goals: goals.clone(),
                start_ns: 0,
                done: PerDirection::default(),
                issued: vec![(0, 0); depth as usize],
                ending: None,
            })
        })
    }

    /// Starts the thread's clocks.
    pub fn start(&mut self, at_ns: Nanos) {
        self.start_ns = at_ns;
        if let Some(depth_search) = &mut self.depth_search {
            depth_search.begin_cycle(at_ns);
        }
        if let Some(observed) = &mut self.observed {
            observed.start(at_ns);
        }
    }

    /// Maximum number of I/Os in flight at present.
    pub fn depth(&self) -> u32 {
        self.depth_search.as_ref().map_or(u32::MAX, |depth_search| depth_search.depth)
    }

    /// Whether everything in flight has to complete before more is issued.
    pub fn is_quiescing(&mut self, in_flight: u32) -> bool {
        let Some(depth_search) = &mut self.depth_search else { return false };
        depth_search.is_quiescing &= in_flight > 0;
        depth_search.is_quiescing
    }

    pub fn issued(&mut self, token: u32, length_bytes: u32, now: Nanos) {
        if let Some(issued) = self.issued.get_mut(token as usize) {
            *issued = (now, length_bytes);
        }
    }

    /// Notes a completion; returns whether the thread has to end.
    pub fn completed(&mut self, token: u32, direction: Direction, now: Nanos) -> bool {
        let (issued_ns, length_bytes) = self.issued.get(token as usize).copied().unwrap_or((now, 0));
        let io = Completed { direction, bytes: u64::from(length_bytes), latency_ns: now.saturating_sub(issued_ns) };
        let done = self.done.of_mut(direction);
        (done.ios, done.bytes) = (done.ios + 1, done.bytes + io.bytes);
        if self.ending.is_none() {
            self.ending = self.judge(io, now);
        }
        self.ending.is_some_and(|ending| !matches!(ending, Ending::Found { .. }) || !self.continues())
    }

    /// Why the thread ended. If its search for a depth continues after finding one, the current
    /// depth.
    pub fn ending(&self) -> Option<Ending> {
        let found = |depth_search: &DepthSearch| Ending::Found { depth: depth_search.depth };
        self.ending.or_else(|| self.depth_search.as_ref().filter(|_| self.continues()).map(found))
    }

    fn continues(&self) -> bool {
        self.goals.search.is_some_and(|search| search.continues)
    }

    fn judge(&mut self, io: Completed, now: Nanos) -> Option<Ending> {
        if self.goals.longest_io_ns > 0 && io.latency_ns > self.goals.longest_io_ns {
            return Some(Ending::TooLate);
        }
        if self.is_too_slow(io.direction, now) {
            return Some(Ending::TooSlow);
        }
        if self.observed.as_mut().is_some_and(|observed| observed.completed(io.bytes, io.latency_ns, now)) {
            return Some(Ending::Steady);
        }
        self.depth_search.as_mut().and_then(|depth_search| depth_search.completed(io.latency_ns, now))
    }

    fn is_too_slow(&mut self, direction: Direction, now: Nanos) -> bool {
        let least_bytes = *self.goals.least_bytes_per_s.of(direction);
        let least_ios = u64::from(*self.goals.least_ios_per_s.of(direction));
        if (least_bytes, least_ios) == (0, 0) || now < self.start_ns.saturating_add(SETTLING_NS) {
            return false;
        }
        let done = self.done.of_mut(direction);
        let Some((looked_ns, bytes, ios)) = done.looked else {
            done.looked = Some((now, done.bytes, done.ios));
            return false;
        };
        let passed_ns = now.saturating_sub(looked_ns);
        if passed_ns < self.goals.cycle_ns.max(1) {
            return false;
        }
        let per_second = |count: u64| {
            let rate = u128::from(count) * u128::from(SECOND) / u128::from(passed_ns);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let is_slow = per_second(done.bytes - bytes) < least_bytes || per_second(done.ios - ios) < least_ios;
        done.looked = Some((now, done.bytes, done.ios));
        is_slow
    }
}

/// Searches the largest depth that holds a latency target: doubles it while the target holds, then
/// bisects between the last depth that held and the first that did not.
#[derive(Clone, Debug)]
struct DepthSearch {
    search: Search,
    largest: u32,
    depth: u32,
    /// The last depth that held and the first that did not.
    low: u32,
    high: u32,
    good_cycles: u32,
    cycle_began_ns: Nanos,
    ios: u64,
    late: u64,
    is_last_cycle: bool,
    is_quiescing: bool,
}

impl DepthSearch {
    fn new(search: Search, largest: u32) -> Self {
        Self {
            search,
            largest,
            depth: 1,
            low: 1,
            high: largest,
            good_cycles: 0,
            cycle_began_ns: 0,
            ios: 0,
            late: 0,
            is_last_cycle: false,
            is_quiescing: false,
        }
    }

    fn begin_cycle(&mut self, now: Nanos) {
        (self.cycle_began_ns, self.ios, self.late) = (now, 0, 0);
    }

    fn completed(&mut self, latency_ns: Nanos, now: Nanos) -> Option<Ending> {
        if self.is_quiescing {
            // These I/Os were issued at the larger depth, which is known to fail; the next cycle
            // starts after them.
            self.begin_cycle(now);
            return None;
        }
        self.ios += 1;
        let is_late = latency_ns > self.search.target_ns;
        self.late += u64::from(is_late);
        // If all I/Os must hold the target, a single late one decides.
        if is_late && self.search.share_millionths >= 1_000_000 {
            return self.failed(now);
        }
        if now.saturating_sub(self.cycle_began_ns) < self.search.window_ns {
            return None;
        }
        let held = u128::from(self.ios - self.late) * 1_000_000;
        if held >= u128::from(self.search.share_millionths) * u128::from(self.ios) {
            self.held(now)
        } else {
            self.failed(now)
        }
    }

    fn failed(&mut self, now: Nanos) -> Option<Ending> {
        if self.depth == 1 {
            return Some(Ending::OutOfReach);
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low = self.low.saturating_sub(1).max(1);
        }
        self.depth = u32::midpoint(self.depth, self.low).max(1);
        self.good_cycles = 0;
        self.is_quiescing = true;
        self.is_last_cycle = false;
        self.begin_cycle(now);
        None
    }

    fn held(&mut self, now: Nanos) -> Option<Ending> {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            self.good_cycles += 1;
            if self.good_cycles >= GOOD_CYCLES && self.search.continues {
                self.good_cycles = 0;
                self.high = (self.high + 1).min(self.largest);
            }
        }
        self.depth =
            if self.high == self.largest { self.depth.saturating_mul(2) } else { u32::midpoint(self.depth, self.high) };
        self.depth = self.depth.min(self.largest);
        self.begin_cycle(now);
        if self.depth == before && !self.search.continues {
            // One more cycle runs at this depth alone before the end.
            if self.is_last_cycle {
                return Some(Ending::Found { depth: self.depth });
            }
            self.is_last_cycle = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with I/Os whose latency is `ns_per_depth` for each one in flight; returns the
    /// ending.
    fn seek(search: Search, largest: u32, ns_per_depth: Nanos) -> Option<Ending> {
        let mut depth_search = DepthSearch::new(search, largest);
        let mut now = 0;
        for _ in 0..10_000 {
            now += 1_000;
            depth_search.is_quiescing = false;
            if let Some(ending) = depth_search.completed(u64::from(depth_search.depth) * ns_per_depth, now) {
                return Some(ending);
            }
        }
        None
    }

    const SEARCH: Search =
        Search { target_ns: 2_050, window_ns: 10_000, share_millionths: 1_000_000, continues: false };

    #[test]
    fn the_largest_depth_that_holds_is_found() {
        assert_eq!(seek(SEARCH, 128, 100), Some(Ending::Found { depth: 20 }));
        assert_eq!(seek(SEARCH, 16, 100), Some(Ending::Found { depth: 16 }));
        let most = Search { share_millionths: 990_000, ..SEARCH };
        assert_eq!(seek(most, 128, 100), Some(Ending::Found { depth: 20 }));
    }

    #[test]
    fn a_target_below_that_of_depth_1_is_out_of_reach() {
        assert_eq!(seek(SEARCH, 128, 3_000), Some(Ending::OutOfReach));
    }

    #[test]
    fn a_search_that_goes_on_never_ends() {
        assert_eq!(seek(Search { continues: true, ..SEARCH }, 128, 100), None);
    }

    fn goal_monitor(goals: Goals) -> GoalMonitor {
        let mut goal_monitor = *GoalMonitor::new(&Job::default().with(|job| job.goals = goals)).expect("goals");
        goal_monitor.start(0);
        goal_monitor
    }

    #[test]
    fn a_rate_is_looked_at_once_it_has_settled_and_averaged_over_its_cycle() {
        let goals = Goals { least_ios_per_s: PerDirection { read: 100, write: 0, trim: 0 }, ..Goals::default() };
        let mut goal_monitor = goal_monitor(goals);
        let mut io = |at_ms: u64| {
            let now = at_ms * 1_000_000;
            goal_monitor.issued(0, 4096, now - 500_000);
            goal_monitor.completed(0, Direction::Read, now)
        };
        // One I/O in two seconds does not matter while rates settle.
        assert!(!io(1) && !io(2_000));
        assert!((2_001..3_000).step_by(9).all(|at_ms| !io(at_ms)), "111 a second");
        assert!(!io(3_001));
        assert!((3_100..4_000).step_by(100).all(|at_ms| !io(at_ms)));
        assert!(io(4_002), "11 a second");
        assert_eq!(goal_monitor.ending(), Some(Ending::TooSlow));
    }

    #[test]
    fn one_io_that_takes_too_long_ends_the_thread() {
        let mut goal_monitor = goal_monitor(Goals { longest_io_ns: 1_000, ..Goals::default() });
        goal_monitor.issued(0, 512, 5_000);
        assert!(!goal_monitor.completed(0, Direction::Write, 6_000));
        goal_monitor.issued(0, 512, 6_000);
        assert!(goal_monitor.completed(0, Direction::Write, 7_001));
        assert_eq!(goal_monitor.ending().and_then(Ending::errno), Some(110));
    }
}
