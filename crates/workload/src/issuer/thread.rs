//! A thread whose I/Os follow its job's pattern: fio's meaning of depth, rate, pause, size and
//! loops.
//!
//! I/Os are issued until `iodepth` are in flight. Then the thread waits for at least one
//! completion, takes all that are available and issues as many new I/Os. With `iodepth_low` or
//! `iodepth_batch_complete_min` it waits for more completions before it issues again. A pass is one
//! run over the job's size; `loops` repeats it. Goals are the options that end or slow a job down
//! depending on its results, as `latency_target` does. Cost: a few branches and random draws per
//! I/O. Source: docs/specifications/devices.md, section 9.1.

mod checking;

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Nanos, Operation};

use super::attributes::Attributes;
use super::budget::{Budget, whole_blocks};
use super::depth::Depth;
use super::directions::{Block, Directions};
use super::flow::{FlowWait, Flows, Part};
use super::goal_monitor::{Ending, GoalMonitor};
use super::in_flight::InFlight;
use super::places::Places;
use super::reading_back::{ReadingBack, Written};
use super::region::{amount_of, regions_of};
use super::syncs::Syncs;
use super::timing::Timing;
use super::tolerance::Tolerance;
use super::{Io, Next, Unsuitable, root_stream};
use crate::files::whole_file;
use crate::goal;
use crate::job::{Direction, Job, Mix, Pattern};
use crate::verify::DAMAGED_ERRNO;

/// State of a thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// `next` has not been called yet; its first call is time 0 of the job.
    Fresh,
    /// Waits for its start delay.
    Delayed(Nanos),
    /// Issues I/Os.
    Running,
    /// Has issued enough to pause; waits for completions.
    BeforePause,
    /// Has done more I/O than fio's option `flow` allows in proportion to other jobs; sleeps for
    /// this time once everything has completed.
    BeforeFlowSleep(Nanos),
    /// Pauses until this time.
    Pausing(Nanos),
    /// A pass is written; it is read back once everything has completed.
    BeforeReadingBack,
    /// Reads back what it has written.
    ReadingBack,
    /// All data is issued; an fsync follows once everything has completed.
    BeforeEndSync,
    /// Has ended.
    Finished,
}

/// The properties that all I/Os of a thread share if they differ in their offset alone, which is
/// true of nearly all threads.
#[derive(Copy, Clone, Debug)]
struct FastPath {
    direction: Direction,
    length_bytes: u32,
}

impl FastPath {
    /// Returns the shared properties if the job has one direction, one size, one priority and one
    /// file, and no stride, sync, goal, flow, verification, rate or pause.
    fn of(job: &Job, thread: &Thread, has_one_file: bool) -> Option<Self> {
        let direction = match job.shape.mix {
            Mix::Read => Direction::Read,
            Mix::Write if !thread.syncs.follow_writes() => Direction::Write,
            Mix::Trim => Direction::Trim,
            _ => return None,
        };
        let has_no_stride = matches!(job.shape.pattern, Pattern::Sequential { skip_bytes: 0 } | Pattern::Random { .. });
        let has_no_goal = !job.goals.watch_completions() && job.goals.flow.is_none() && job.checks.verify.is_none();
        let length_bytes = thread.places.fixed_bytes(direction)?;
        let is_plain = has_no_stride && has_no_goal && has_one_file && thread.timing.is_free();
        (is_plain && thread.attributes.has_one_priority(direction)).then_some(Self { direction, length_bytes })
    }
}

/// One thread of a job: the order of its steps. Each part decides one thing about the next I/O.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    stage: Stage,
    /// Fast path; if it is set, the features that it leaves out are not used.
    fast_path: Option<FastPath>,
    depth: Depth,
    directions: Directions,
    places: Places,
    /// Draws directions, sizes and priorities, in the order of the I/Os.
    choices: Stream,
    timing: Timing,
    budget: Budget,
    attributes: Attributes,
    syncs: Syncs,
    tolerance: Tolerance,
    /// Blocks that were written and not yet read back.
    reading_back: Option<Box<ReadingBack>>,
    goal_monitor: Option<Box<GoalMonitor>>,
    wanted_flow: Option<goal::Flow>,
    flow: Option<Part>,
}

impl Thread {
    /// See [`super::Issuer::new`].
    pub(super) fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let regions = regions_of(job, thread, area_bytes, seed)?;
        let parts_bytes: Vec<u64> = regions.iter().map(|region| region.end_bytes - region.start_bytes).collect();
        let mut root = root_stream(job, thread, seed);
        let mut stream = || Stream::new(root.next());
        let (offsets, mut choices, gaps) = (stream(), stream(), stream());

        let depth = Depth::new(job);
        let (earliest, latest) = job.times.start_delay_ns;
        let start_delay_ns = earliest + choices.below(latest.saturating_sub(earliest).saturating_add(1));
        let room_bytes = whole_file(job, regions[0], area_bytes).end_bytes - regions[0].start_bytes;
        let mut budget = Budget::new(job, &parts_bytes, room_bytes);
        let mut reading_back = ReadingBack::new(job, depth.most());
        if let Some(reading_back) = &mut reading_back {
            let part_bytes = parts_bytes.iter().sum();
            let whole_bytes = parts_bytes.iter().map(|bytes| whole_blocks(job, *bytes)).sum();
            let pass_bytes = amount_of(job, part_bytes).min(whole_bytes);
            let all_bytes = job.area.io_size.map_or(pass_bytes, |amount| amount.of(part_bytes)).max(1);
            budget = budget.of_passes(reading_back.bytes_of_pass(job, pass_bytes.max(1), all_bytes));
        }
        let mut thread = Self {
            stage: Stage::Fresh,
            fast_path: None,
            directions: Directions::new(job.shape.mix, depth.most()),
            depth,
            places: Places::new(job, &regions, area_bytes, offsets),
            choices,
            timing: Timing::new(job, start_delay_ns, gaps),
            budget,
            attributes: Attributes::new(job),
            syncs: Syncs::new(job),
            tolerance: Tolerance::new(job),
            reading_back,
            goal_monitor: GoalMonitor::new(job),
            wanted_flow: job.goals.flow,
            flow: None,
        };
        thread.fast_path = FastPath::of(job, &thread, regions.len() == 1);
        Ok(thread)
    }

    #[inline(always)]
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        if let Some(fast_path) = self.fast_path
            && self.stage == Stage::Running
            && !self.timing.is_over(now)
            && !self.budget_is_spent()
        {
            self.next_uniform(fast_path)
        } else {
            self.next_of_any(now)
        }
    }

    /// As [`Thread::next_running`], for threads whose I/Os differ in their offset alone.
    #[inline]
    fn next_uniform(&mut self, fast_path: FastPath) -> Next {
        if !self.depth.may_issue() {
            return Next::Busy;
        }
        let token = self.depth.take(InFlight::Data(fast_path.direction));
        Next::Issue(self.issue_uniform(fast_path, token))
    }

    /// See [`super::Issuer::complete_and_issue_next`].
    #[inline(always)]
    pub(super) fn complete_and_issue_next(&mut self, token: u32, now: Nanos) -> Option<Io> {
        let fast_path = self.fast_path?;
        let is_running = self.stage == Stage::Running && !self.timing.is_over(now);
        if !is_running || !self.depth.refills(token) || self.budget_is_spent() {
            return None;
        }
        // The token that was returned last is the next one to be taken.
        Some(self.issue_uniform(fast_path, token))
    }

    #[inline(always)]
    fn issue_uniform(&mut self, FastPath { direction, length_bytes }: FastPath, token: u32) -> Io {
        let offset_bytes = self.places.next_offset_bytes(direction, length_bytes);
        self.budget.issued(u64::from(length_bytes));
        self.budget.counts_io();
        self.syncs.count(u64::from(direction == Direction::Write));
        let flags = self.attributes.flags(direction);
        Io::plain(token, direction.operation(), flags, (offset_bytes, length_bytes), self.attributes.priority())
    }

    #[inline(never)]
    fn next_of_any(&mut self, now: Nanos) -> Next {
        loop {
            match self.stage {
                Stage::Running if self.timing.is_over(now) => self.end_work(),
                Stage::Running => {
                    if self.must_read_back() {
                        self.stage = Stage::BeforeReadingBack;
                    } else if self.budget_is_spent() {
                        self.end_work();
                    } else if let Some(next) = self.next_running(now) {
                        return next;
                    }
                }
                Stage::BeforeReadingBack | Stage::ReadingBack if self.timing.is_over(now) => self.end_work(),
                Stage::BeforeReadingBack if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforeReadingBack => self.stage = Stage::ReadingBack,
                Stage::ReadingBack if self.is_full() => return Next::Busy,
                Stage::ReadingBack => match self.reading_back.as_mut().and_then(|it| it.take()) {
                    Some(block) => return Next::Issue(self.read_back(block)),
                    None if self.in_flight() > 0 => return Next::Busy,
                    None => self.stage = Stage::Running,
                },
                Stage::Fresh => {
                    self.stage = Stage::Delayed(self.timing.begins_at_ns(now));
                }
                Stage::Delayed(until) | Stage::Pausing(until) if now < self.timing.by_end_ns(until) => {
                    return Next::NotBefore(self.timing.by_end_ns(until));
                }
                Stage::Delayed(until) => self.start(until),
                Stage::Pausing(_) => self.stage = Stage::Running,
                Stage::BeforePause if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforePause => self.stage = Stage::Pausing(self.timing.begin_pause(now)),
                Stage::BeforeFlowSleep(_) if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforeFlowSleep(sleep_ns) => self.stage = Stage::Pausing(now.saturating_add(sleep_ns)),
                Stage::BeforeEndSync if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforeEndSync => {
                    self.stage = Stage::Finished;
                    return self.issue_sync();
                }
                Stage::Finished => {
                    self.leave_flow();
                    return Next::Finished;
                }
            }
        }
    }

    /// See [`super::Issuer::ended`]; without a time, goals are not checked.
    #[inline]
    pub(super) fn ended(&mut self, token: u32, errno: Option<u16>, now: Option<Nanos>) {
        let Some(was) = self.depth.give_back(token) else { return };
        if self.stage == Stage::Running && was != InFlight::Sync && self.timing.completed() {
            self.stage = Stage::BeforePause;
        }
        let direction = was.direction();
        let is_damaged = match &mut self.reading_back {
            None => false,
            Some(reading_back) => reading_back.ended(token, errno.is_none()) && errno == Some(DAMAGED_ERRNO),
        };
        let continues = |errno| match &self.reading_back {
            Some(reading_back) if is_damaged => reading_back.continues(),
            _ => self.tolerance.covers(errno, direction),
        };
        if !errno.is_none_or(continues) {
            self.stage = Stage::Finished;
        }
        if was == InFlight::Original {
            self.budget.issued(self.directions.was_read(token, errno.is_none()));
        }
        if let (Some(goal_monitor), Some(direction), Some(now)) = (&mut self.goal_monitor, direction, now)
            && goal_monitor.completed(token, direction, now)
        {
            self.stage = Stage::Finished;
        }
    }

    pub(super) fn join(&mut self, flows: &mut Flows) {
        self.flow = self.wanted_flow.map(|flow| Part::join(flow, flows));
    }

    fn leave_flow(&mut self) {
        if let Some(flow) = &mut self.flow {
            flow.leave();
        }
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.goal_monitor.as_ref().and_then(|goal_monitor| goal_monitor.ending())
    }

    /// Ends the thread: nothing more is issued, not even a final fsync.
    pub(super) fn stop(&mut self) {
        self.stage = Stage::Finished;
        self.leave_flow();
    }

    /// Whether the maximum number of I/Os is in flight.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.depth.is_full()
    }

    /// I/Os issued and not yet completed.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.depth.in_flight()
    }

    /// Number of tokens.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.depth.most()
    }

    fn start(&mut self, at_ns: Nanos) {
        self.stage = Stage::Running;
        self.timing.start(at_ns);
        if let Some(goal_monitor) = &mut self.goal_monitor {
            goal_monitor.start(at_ns);
        }
    }

    /// The next step while running; `None` if the pass has ended or the stage has changed, so that
    /// the caller must check again.
    fn next_running(&mut self, now: Nanos) -> Option<Next> {
        if !self.depth.may_issue() {
            return Some(Next::Busy);
        }
        let in_flight = self.in_flight();
        if let Some(goal_monitor) = &mut self.goal_monitor
            && (goal_monitor.is_quiescing(in_flight) || in_flight >= goal_monitor.depth())
        {
            return Some(Next::Busy);
        }
        if self.syncs.take_due() {
            return Some(self.issue_sync());
        }
        if self.directions.waits_for_blocks(self.budget.bytes_left()) {
            return Some(Next::Busy);
        }
        if let Some(block) = self.reading_back.as_mut().and_then(|reading_back| reading_back.take_of_backlog()) {
            return Some(Next::Issue(self.read_back(block)));
        }
        let chosen = self.directions.choose(&mut self.choices);
        let (direction, due_ns) = self.timing.pace(chosen, self.directions.instead_of(chosen), now);
        if due_ns > now {
            self.directions.hold(direction);
            return Some(Next::NotBefore(self.timing.by_end_ns(due_ns)));
        }
        match self.flow.as_mut().and_then(Part::take) {
            None => {}
            Some(FlowWait::Recheck(after_ns)) => {
                self.directions.hold(direction);
                return Some(Next::NotBefore(self.timing.by_end_ns(now.saturating_add(after_ns))));
            }
            Some(FlowWait::Sleep(sleep_ns)) => {
                self.directions.hold(direction);
                self.stage = Stage::BeforeFlowSleep(sleep_ns);
                return None;
            }
        }
        self.issue_data(direction, now).map(Next::Issue)
    }

    /// The next data I/O; `None` if it does not fit into the pass.
    fn issue_data(&mut self, direction: Direction, now: Nanos) -> Option<Io> {
        let block = match self.directions.block_again(direction) {
            Some(block) => block,
            None => self.draw(direction)?,
        };
        let (offset_bytes, length_bytes) = block;
        let what = self.account(direction, block);
        if self.timing.issued(direction, length_bytes, now) {
            self.stage = Stage::BeforePause;
        }
        let is_write = direction == Direction::Write;
        let number = if is_write { self.syncs.wrote() } else { self.syncs.writes() };
        let priority = self.attributes.priority_of(direction, length_bytes, &mut self.choices);
        let token = self.depth.take(what);
        if let Some(goal_monitor) = &mut self.goal_monitor {
            goal_monitor.issued(token, length_bytes, now);
        }
        if what == InFlight::Original {
            self.directions.asked(token, block);
        }
        if let Some(reading_back) = &mut self.reading_back
            && direction != Direction::Trim
        {
            reading_back.issued(token, Written { offset_bytes, length_bytes, number }, is_write);
        }
        let flags = self.attributes.flags(direction);
        Some(Io::plain(token, direction.operation(), flags, block, priority))
    }

    /// The block of the next I/O; `None` if nothing more fits into the pass, which ends it.
    fn draw(&mut self, direction: Direction) -> Option<Block> {
        let block = self.places.draw(direction, &mut self.choices);
        if block.is_none() {
            self.budget.end_pass_after(self.directions.unwritten_bytes());
        }
        block
    }

    /// Subtracts an I/O from the rest of the pass. Returns what its token stands for.
    fn account(&mut self, direction: Direction, block: Block) -> InFlight {
        let (what, bytes) = self.directions.issued(direction, block);
        self.budget.issued(bytes);
        self.budget.counts_io();
        what
    }

    fn issue_sync(&mut self) -> Next {
        let token = self.depth.take(InFlight::Sync);
        Next::Issue(Io::plain(token, Operation::Flush, Flags::SYNC, (0, 0), self.attributes.priority()))
    }

    /// Whether nothing is left to issue; starts the next loop if one is due.
    #[inline]
    fn budget_is_spent(&mut self) -> bool {
        self.budget.pass_is_over() && !self.begins_another_pass()
    }

    #[cold]
    fn begins_another_pass(&mut self) -> bool {
        let pass_bytes = self.budget.bytes_of_this_pass();
        let wants_more = |reading_back: &mut Box<ReadingBack>| reading_back.wants_another_pass(pass_bytes);
        let has_more = self.reading_back.as_mut().is_some_and(wants_more);
        let begins = self.budget.next_pass(has_more);
        if begins {
            self.places.rewind();
            self.syncs.pass_ended();
        }
        begins
    }

    fn end_work(&mut self) {
        self.stage = if self.syncs.is_due_at_end() { Stage::BeforeEndSync } else { Stage::Finished };
    }
}

#[cfg(test)]
mod tests;
