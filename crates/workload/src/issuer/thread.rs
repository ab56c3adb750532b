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
use hoistway_block::{Flags, Nanos, Operation, Priority};

use super::budget::{Budget, whole_blocks};
use super::flow::{FlowWait, Flows, Part};
use super::goal_monitor::{Ending, GoalMonitor};
use super::in_flight::InFlight;
use super::reading_back::{ReadingBack, Written};
use super::region::{amount_of, regions_of};
use super::rewrite_blocks::RewriteBlocks;
use super::{Io, Next, Tokens, Unsuitable, root_stream};
use crate::arrival::{Pacer, Pauses};
use crate::files::{Files, whole_file};
use crate::goal;
use crate::job::{Direction, Job, Mix, Pattern, PrioritySplit, SyncKind};
use crate::sizes::Sizes;
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
    /// file, and no stride, sync, goal, flow or verification. The caller excludes rates and pauses.
    fn of(job: &Job, sizes: &[Sizes; 3], has_one_file: bool) -> Option<Self> {
        let direction = match job.shape.mix {
            Mix::Read => Direction::Read,
            Mix::Write
                if job.submission.fsync_every == 0
                    && job.submission.fdatasync_every == 0
                    && !job.submission.fsync_on_close =>
            {
                Direction::Write
            }
            Mix::Trim => Direction::Trim,
            _ => return None,
        };
        let has_no_stride = matches!(job.shape.pattern, Pattern::Sequential { skip_bytes: 0 } | Pattern::Random { .. });
        if !has_no_stride || job.goals.watch_completions() || job.goals.flow.is_some() || job.checks.verify.is_some() {
            return None;
        }
        let Sizes::Fixed(length_bytes) = sizes[direction as usize] else { return None };
        let share = &job.priorities.priority_share;
        let has_one_priority = [share.read_percent, share.write_percent, 0][direction as usize] == 0
            && job.priorities.priority_splits.of(direction).is_empty();
        (has_one_priority && has_one_file && !job.shape.sizes_by_pattern).then_some(Self { direction, length_bytes })
    }
}

/// One thread of a job.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    stage: Stage,
    /// Fast path; if it is set, the features that it leaves out are not used.
    fast_path: Option<FastPath>,
    // Depth.
    tokens: Tokens<InFlight>,
    resume_at: u32,
    is_draining: bool,
    // The next I/O.
    mix: Mix,
    sizes: [Sizes; 3],
    sizes_by_pattern: bool,
    offsets: Files,
    choices: Stream,
    /// The direction that was drawn for the next I/O, while a rate or flow delays it.
    chosen: Option<Direction>,
    /// TrimWrite: the discarded block that is to be written next.
    trimmed: Option<(u64, u32)>,
    /// Rewrite: the blocks that are read and not yet written back.
    rewrite_blocks: RewriteBlocks,
    // Time of the next I/O.
    pacer: Option<Pacer>,
    rate_ignores_think: bool,
    pauses: Option<Pauses>,
    start_delay_ns: Nanos,
    issue_for_ns: Option<Nanos>,
    end_ns: Nanos,
    // Remaining amount.
    budget: Budget,
    // Properties of I/Os.
    flags: [Flags; 3],
    priority: Priority,
    other_priority: Priority,
    other_percent: [u8; 3],
    priority_splits: [Box<[PrioritySplit]>; 3],
    sync_every: [u32; 2],
    writes_issued: u64,
    sync_is_due: bool,
    end_fsync: bool,
    fsync_on_close: bool,
    continue_on_error: [bool; 3],
    ignored_errnos: [Box<[u16]>; 3],
    /// Blocks that were written and not yet read back.
    reading_back: Option<Box<ReadingBack>>,
    // Goals.
    goal_monitor: Option<Box<GoalMonitor>>,
    flow: Option<Part>,
    wanted_flow: Option<goal::Flow>,
}

impl Thread {
    /// See [`super::Issuer::new`].
    pub(super) fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let regions = regions_of(job, thread, area_bytes, seed)?;
        let parts_bytes: Vec<u64> = regions.iter().map(|region| region.end_bytes - region.start_bytes).collect();
        let mut root = root_stream(job, thread, seed);
        let mut stream = || Stream::new(root.next());
        let (offset_stream, mut choices, pace_stream) = (stream(), stream(), stream());

        let depth = job.effective_depth();
        let low = job.submission.iodepth_low.unwrap_or(depth).min(depth);
        let resume_at = low.min(depth - job.submission.completion_batch.clamp(1, depth));
        let (earliest, latest) = job.times.start_delay_ns;
        let start_delay_ns = earliest + choices.below(latest.saturating_sub(earliest).saturating_add(1));
        let room_bytes = whole_file(job, regions[0], area_bytes).end_bytes - regions[0].start_bytes;
        let mut budget = Budget::new(job, &parts_bytes, room_bytes);
        let mut reading_back = ReadingBack::new(job, depth);
        if let Some(reading_back) = &mut reading_back {
            let part_bytes = parts_bytes.iter().sum();
            let whole_bytes = parts_bytes.iter().map(|bytes| whole_blocks(job, *bytes)).sum();
            let pass_bytes = amount_of(job, part_bytes).min(whole_bytes);
            let all_bytes = job.area.io_size.map_or(pass_bytes, |amount| amount.of(part_bytes)).max(1);
            budget = budget.of_passes(reading_back.bytes_of_pass(job, pass_bytes.max(1), all_bytes));
        }
        let sizes =
            Direction::ALL.map(|direction| Sizes::new(job.shape.block_sizes.of(direction), job.shape.sizes_unaligned));
        let (pacer, pauses) = (Pacer::new(job, pace_stream), Pauses::new(job.pacing.think));
        let has_own_time = pacer.is_some() || pauses.is_some();
        Ok(Self {
            stage: Stage::Fresh,
            fast_path: FastPath::of(job, &sizes, regions.len() == 1).filter(|_| !has_own_time),
            tokens: Tokens::new(depth),
            resume_at,
            is_draining: false,
            mix: job.shape.mix,
            sizes,
            sizes_by_pattern: job.shape.sizes_by_pattern,
            offsets: Files::new(job, &regions, area_bytes, offset_stream),
            choices,
            chosen: None,
            trimmed: None,
            rewrite_blocks: RewriteBlocks::new(job.shape.mix, depth),
            pacer,
            rate_ignores_think: job.pacing.rate_ignores_think,
            pauses,
            start_delay_ns,
            issue_for_ns: job.times.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.times.ramp_ns)),
            end_ns: Nanos::MAX,
            budget,
            flags: data_flags(job),
            priority: job.priority(),
            other_priority: Priority(job.priorities.priority_share.priority_bits),
            other_percent: [job.priorities.priority_share.read_percent, job.priorities.priority_share.write_percent, 0],
            priority_splits: Direction::ALL
                .map(|direction| job.priorities.priority_splits.of(direction).clone().into()),
            sync_every: [job.submission.fsync_every, job.submission.fdatasync_every],
            writes_issued: 0,
            sync_is_due: false,
            end_fsync: (job.submission.end_fsync || job.submission.fsync_on_close) && job.shape.mix.has_writes(),
            fsync_on_close: job.submission.fsync_on_close,
            continue_on_error: Direction::ALL.map(|direction| *job.checks.continue_on_error.of(direction)),
            ignored_errnos: Direction::ALL.map(|direction| job.goals.ignored_errnos.of(direction).clone().into()),
            reading_back,
            goal_monitor: GoalMonitor::new(job),
            flow: None,
            wanted_flow: job.goals.flow,
        })
    }

    #[inline(always)]
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        if let Some(fast_path) = self.fast_path
            && self.stage == Stage::Running
            && now < self.end_ns
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
        if self.is_full() {
            self.is_draining = true;
            return Next::Busy;
        }
        if self.is_draining {
            if self.in_flight() > self.resume_at {
                return Next::Busy;
            }
            self.is_draining = false;
        }
        let token = self.tokens.take(InFlight::Data(fast_path.direction));
        Next::Issue(self.issue_uniform(fast_path, token))
    }

    /// See [`super::Issuer::complete_and_issue_next`].
    #[inline(always)]
    pub(super) fn complete_and_issue_next(&mut self, token: u32, now: Nanos) -> Option<Io> {
        let fast_path = self.fast_path?;
        let is_running = self.stage == Stage::Running && now < self.end_ns && !self.is_draining;
        if !is_running || !self.tokens.is_in_flight(token) || self.budget_is_spent() {
            return None;
        }
        // The token that was returned last is the next one to be taken.
        Some(self.issue_uniform(fast_path, token))
    }

    #[inline(always)]
    fn issue_uniform(&mut self, FastPath { direction, length_bytes }: FastPath, token: u32) -> Io {
        let draws = self.offsets.will_draw(direction);
        let offset_bytes = self.offsets.next(direction, u64::from(length_bytes), draws);
        self.budget.issued(u64::from(length_bytes));
        self.budget.ios_left -= 1;
        self.writes_issued += u64::from(direction == Direction::Write);
        let flags = self.flags[direction as usize];
        Io::plain(token, direction.operation(), flags, (offset_bytes, length_bytes), self.priority)
    }

    #[inline(never)]
    fn next_of_any(&mut self, now: Nanos) -> Next {
        loop {
            match self.stage {
                Stage::Running if now >= self.end_ns => self.end_work(),
                Stage::Running => {
                    if self.must_read_back() {
                        self.stage = Stage::BeforeReadingBack;
                    } else if self.budget_is_spent() {
                        self.end_work();
                    } else if let Some(next) = self.next_running(now) {
                        return next;
                    }
                }
                Stage::BeforeReadingBack | Stage::ReadingBack if now >= self.end_ns => self.end_work(),
                Stage::BeforeReadingBack if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforeReadingBack => self.stage = Stage::ReadingBack,
                Stage::ReadingBack if self.is_full() => return Next::Busy,
                Stage::ReadingBack => match self.reading_back.as_mut().and_then(|it| it.take()) {
                    Some(block) => return Next::Issue(self.read_back(block)),
                    None if self.in_flight() > 0 => return Next::Busy,
                    None => self.stage = Stage::Running,
                },
                Stage::Fresh => {
                    self.stage = Stage::Delayed(now.saturating_add(self.start_delay_ns));
                }
                Stage::Delayed(until) | Stage::Pausing(until) if now < until.min(self.end_ns) => {
                    return Next::NotBefore(until.min(self.end_ns));
                }
                Stage::Delayed(until) => self.start(until),
                Stage::Pausing(_) => self.stage = Stage::Running,
                Stage::BeforePause if self.in_flight() > 0 => return Next::Busy,
                Stage::BeforePause => self.begin_pause(now),
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
        let Some(was) = self.tokens.give_back(token) else { return };
        if self.stage == Stage::Running && was != InFlight::Sync && self.pauses.as_mut().is_some_and(Pauses::completed)
        {
            self.stage = Stage::BeforePause;
        }
        let direction = was.direction();
        let is_damaged = match &mut self.reading_back {
            None => false,
            Some(reading_back) => reading_back.ended(token, errno.is_none()) && errno == Some(DAMAGED_ERRNO),
        };
        let continues = |errno| match &self.reading_back {
            Some(reading_back) if is_damaged => reading_back.continues(),
            _ => self.goes_on_after(errno, direction),
        };
        if !errno.is_none_or(continues) {
            self.stage = Stage::Finished;
        }
        if was == InFlight::Original {
            self.block_was_read(token, errno.is_none());
        }
        if let (Some(goal_monitor), Some(direction), Some(now)) = (&mut self.goal_monitor, direction, now)
            && goal_monitor.completed(token, direction, now)
        {
            self.stage = Stage::Finished;
        }
    }

    #[cold]
    fn goes_on_after(&self, errno: u16, direction: Option<Direction>) -> bool {
        let Some(direction) = direction else { return false };
        let index = direction as usize;
        self.continue_on_error[index] || self.ignored_errnos[index].contains(&errno)
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
        self.tokens.are_all_taken()
    }

    /// I/Os issued and not yet completed.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.tokens.in_flight()
    }

    /// Number of tokens.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.tokens.depth()
    }

    /// Records that a block of a rewriting job was read, so that it can be written. A block that
    /// could not be read is not written and counts as done.
    fn block_was_read(&mut self, token: u32, ok: bool) {
        let (offset_bytes, length_bytes) = self.rewrite_blocks.asked[token as usize];
        if ok {
            self.rewrite_blocks.ready.push_back((offset_bytes, length_bytes));
        } else {
            let bytes = u64::from(length_bytes);
            self.rewrite_blocks.unwritten_bytes -= bytes;
            self.budget.issued(bytes);
        }
    }

    fn start(&mut self, at_ns: Nanos) {
        self.stage = Stage::Running;
        self.end_ns = self.issue_for_ns.map_or(Nanos::MAX, |span_ns| at_ns.saturating_add(span_ns));
        if let Some(pacer) = &mut self.pacer {
            pacer.start(at_ns);
        }
        if let Some(pauses) = &mut self.pauses {
            pauses.over(at_ns);
        }
        if let Some(goal_monitor) = &mut self.goal_monitor {
            goal_monitor.start(at_ns);
        }
    }

    fn begin_pause(&mut self, now: Nanos) {
        let pause_ns = self.pauses.map_or(0, |pauses| pauses.time_ns());
        if let Some(pauses) = &mut self.pauses {
            pauses.over(now.saturating_add(pause_ns));
        }
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.rate_ignores_think) {
            pacer.shift(pause_ns);
        }
        self.stage = Stage::Pausing(now.saturating_add(pause_ns));
    }

    /// The next step while running; `None` if the pass has ended or the stage has changed, so that
    /// the caller must check again.
    fn next_running(&mut self, now: Nanos) -> Option<Next> {
        if self.in_flight() == self.depth() {
            self.is_draining = true;
            return Some(Next::Busy);
        }
        if self.is_draining {
            if self.in_flight() > self.resume_at {
                return Some(Next::Busy);
            }
            self.is_draining = false;
        }
        let in_flight = self.in_flight();
        if let Some(goal_monitor) = &mut self.goal_monitor
            && (goal_monitor.is_quiescing(in_flight) || in_flight >= goal_monitor.depth())
        {
            return Some(Next::Busy);
        }
        if self.sync_is_due {
            self.sync_is_due = false;
            return Some(self.issue_sync());
        }
        // Every block of the pass is being read, and none can be written yet.
        if self.mix == Mix::Rewrite
            && self.rewrite_blocks.ready.is_empty()
            && self.rewrite_blocks.unwritten_bytes >= self.budget.bytes_left()
        {
            return Some(Next::Busy);
        }
        if let Some(block) = self.reading_back.as_mut().and_then(|reading_back| reading_back.take_of_backlog()) {
            return Some(Next::Issue(self.read_back(block)));
        }
        let chosen = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.choose_direction(),
        };
        let (direction, held_until_ns) = self.pace(chosen, now);
        if held_until_ns > now {
            self.chosen = Some(direction);
            return Some(Next::NotBefore(held_until_ns.min(self.end_ns)));
        }
        match self.flow.as_mut().and_then(Part::take) {
            None => {}
            Some(FlowWait::Recheck(after_ns)) => {
                self.chosen = Some(direction);
                return Some(Next::NotBefore(now.saturating_add(after_ns).min(self.end_ns)));
            }
            Some(FlowWait::Sleep(sleep_ns)) => {
                self.chosen = Some(direction);
                self.stage = Stage::BeforeFlowSleep(sleep_ns);
                return None;
            }
        }
        self.issue_data(direction, now).map(Next::Issue)
    }

    fn choose_direction(&mut self) -> Direction {
        match self.mix {
            Mix::Read => Direction::Read,
            Mix::Write => Direction::Write,
            Mix::Trim => Direction::Trim,
            Mix::ReadWrite { read_percent } if self.choices.chance(u64::from(read_percent), 100) => Direction::Read,
            Mix::ReadWrite { .. } => Direction::Write,
            Mix::TrimWrite if self.trimmed.is_some() => Direction::Write,
            Mix::TrimWrite => Direction::Trim,
            Mix::Rewrite if self.rewrite_blocks.ready.is_empty() => Direction::Read,
            Mix::Rewrite => Direction::Write,
        }
    }

    /// The direction to issue and its time: the drawn one, unless the other direction of the mix is
    /// due earlier under its rate.
    fn pace(&self, chosen: Direction, now: Nanos) -> (Direction, Nanos) {
        let Some(pacer) = &self.pacer else { return (chosen, now) };
        let due_ns = pacer.due_ns(chosen);
        let other = match (self.mix, chosen) {
            (Mix::ReadWrite { read_percent: 1..=99 }, Direction::Read) => Direction::Write,
            (Mix::ReadWrite { read_percent: 1..=99 }, _) => Direction::Read,
            _ => return (chosen, due_ns),
        };
        // Each direction keeps its own rate, as in fio: the mix does not delay a direction that is
        // due, and one without a rate always is.
        if due_ns > now && pacer.due_ns(other) < due_ns { (other, pacer.due_ns(other)) } else { (chosen, due_ns) }
    }

    /// The next data I/O; `None` if it does not fit into the pass.
    fn issue_data(&mut self, direction: Direction, now: Nanos) -> Option<Io> {
        let index = direction as usize;
        let again = match self.mix {
            Mix::TrimWrite => self.trimmed.take(),
            Mix::Rewrite if direction == Direction::Write => self.rewrite_blocks.ready.pop_front(),
            _ => None,
        };
        let (offset_bytes, length_bytes) = match again {
            Some(place) => place,
            None => self.draw(direction)?,
        };
        let what = self.account(direction, offset_bytes, length_bytes);
        self.budget.ios_left -= 1;
        if let Some(pacer) = &mut self.pacer {
            pacer.issued(direction, u64::from(length_bytes), now);
        }
        if self.pauses.as_mut().is_some_and(|pauses| pauses.issued(now)) {
            self.stage = Stage::BeforePause;
        }
        let number = self.writes_issued;
        if direction == Direction::Write {
            self.writes_issued += 1;
            let is_due = |every: &u32| *every > 0 && self.writes_issued.is_multiple_of(u64::from(*every));
            self.sync_is_due = self.sync_every.iter().any(is_due);
        }
        let priority = self.priority_of(direction, length_bytes);
        let token = self.tokens.take(what);
        if let Some(goal_monitor) = &mut self.goal_monitor {
            goal_monitor.issued(token, length_bytes, now);
        }
        if what == InFlight::Original {
            self.rewrite_blocks.asked[token as usize] = (offset_bytes, length_bytes);
        }
        if let Some(reading_back) = &mut self.reading_back
            && direction != Direction::Trim
        {
            let block = Written { offset_bytes, length_bytes, number };
            reading_back.issued(token, block, direction == Direction::Write);
        }
        Some(Io::plain(token, direction.operation(), self.flags[index], (offset_bytes, length_bytes), priority))
    }

    /// Offset and size of the next I/O; `None` if nothing more fits into the pass, which ends it.
    fn draw(&mut self, direction: Direction) -> Option<(u64, u32)> {
        let draws = self.offsets.will_draw(direction);
        let sizes = &self.sizes[if self.sizes_by_pattern { usize::from(draws) } else { direction as usize }];
        let mut length_bytes = sizes.draw(&mut self.choices);
        while !draws && !self.offsets.has_room(direction, length_bytes.into()) {
            if self.offsets.has_room(direction, sizes.smallest_bytes().into()) {
                length_bytes = sizes.draw(&mut self.choices);
            } else if !self.offsets.leave_file() {
                self.budget.end_pass_after(self.rewrite_blocks.unwritten_bytes);
                return None;
            }
        }
        let offset_bytes = self.offsets.next(direction, u64::from(length_bytes), draws);
        let trimmed = self.offsets.trimmed(direction, offset_bytes, u64::from(length_bytes));
        Some((offset_bytes, u32::try_from(trimmed).unwrap_or(length_bytes)))
    }

    /// The priority of an I/O: the job's, or another one for a share of the I/Os.
    #[inline]
    fn priority_of(&mut self, direction: Direction, length_bytes: u32) -> Priority {
        let percent = self.other_percent[direction as usize];
        if percent > 0 && self.choices.chance(u64::from(percent), 100) {
            return self.other_priority;
        }
        let split = self.priority_splits[direction as usize].iter().find(|split| split.bytes == length_bytes);
        match split {
            Some(split) if self.choices.chance(u64::from(split.percent), 100) => Priority(split.priority_bits),
            _ => self.priority,
        }
    }

    fn issue_sync(&mut self) -> Next {
        let token = self.tokens.take(InFlight::Sync);
        Next::Issue(Io::plain(token, Operation::Flush, Flags::SYNC, (0, 0), self.priority))
    }

    /// Subtracts an I/O from the rest of the pass. A job that reads and rewrites, or discards and
    /// writes, each block counts only the write.
    fn account(&mut self, direction: Direction, offset_bytes: u64, length_bytes: u32) -> InFlight {
        let bytes = u64::from(length_bytes);
        match (self.mix, direction) {
            (Mix::TrimWrite, Direction::Trim) => self.trimmed = Some((offset_bytes, length_bytes)),
            (Mix::Rewrite, Direction::Read) => {
                self.rewrite_blocks.unwritten_bytes += bytes;
                return InFlight::Original;
            }
            _ => {
                self.budget.issued(bytes);
                if self.mix == Mix::Rewrite {
                    self.rewrite_blocks.unwritten_bytes -= bytes;
                }
            }
        }
        InFlight::Data(direction)
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
            self.offsets.rewind();
            self.sync_is_due |= self.fsync_on_close && self.writes_issued > 0;
        }
        begins
    }

    fn end_work(&mut self) {
        let wrote = self.end_fsync && self.writes_issued > 0;
        self.stage = if wrote { Stage::BeforeEndSync } else { Stage::Finished };
    }
}

fn data_flags(job: &Job) -> [Flags; 3] {
    let durable = job.submission.sync != SyncKind::None;
    let waits = match (job.submission.direct, durable) {
        // Linux marks direct writes with REQ_IDLE, because more of them are expected to follow.
        (true, _) => Flags::SYNC.with(Flags::IDLE),
        (false, true) => Flags::SYNC,
        (false, false) => Flags::NONE,
    };
    let write = if durable { waits.with(Flags::FUA) } else { waits };
    [Flags::NONE, write, Flags::NONE]
}

#[cfg(test)]
mod tests;
