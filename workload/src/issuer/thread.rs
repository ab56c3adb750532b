//! A thread whose I/Os follow its job's pattern: fio's meaning of depth, rate, pause, size and loops.
//!
//! Refill (devices specification 9.1): one I/O after the other until `iodepth` are in flight; then at least one completion
//! is waited for, all that are there are taken, and as many new ones go out. `iodepth_low` and the completion batch widen
//! the gap between "full" and "refill". Cost: a few branches and at most three random draws per I/O.

mod checking;

use block::random::Stream;
use block::{Flags, Nanos, Operation, Priority};

use super::flow::{Flows, Part};
use super::flying::Flying;
use super::governor::{Ending, Governor};
use super::originals::Originals;
use super::reading_back::{ReadingBack, Written};
use super::region::{regions_of, whole_blocks};
use super::{Io, Next, Tokens, Unsuitable, root_stream};
use crate::arrival::{Pacer, Pauses};
use crate::files::Files;
use crate::goal;
use crate::job::{Direction, Job, Mix, Pattern, PrioritySplit, SyncKind};
use crate::sizes::Sizes;
use crate::verify::DAMAGED_ERRNO;

/// Where a thread stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// `next` has not been called yet: its first call is time 0 of the job.
    Fresh,
    /// Waits for its start delay.
    Delayed(Nanos),
    /// Issues.
    Running,
    /// Has issued enough to pause; waits for completions.
    BeforePause,
    /// Pauses.
    Pausing(Nanos),
    /// A pass is written; reads it back when everything has completed.
    BeforeReadingBack,
    /// Reads back what it has written.
    ReadingBack,
    /// All data issued; an fsync follows when it has completed.
    BeforeEndSync,
    /// Over.
    Finished,
}

/// The end of the work, counted down.
#[derive(Copy, Clone, Debug)]
struct Budget {
    /// Bytes still to issue in this loop.
    bytes_left: u64,
    loops_left: u32,
    ios_left: u64,
}

/// What is the same of all I/Os of a thread that differ in their place alone: nearly all threads.
#[derive(Copy, Clone, Debug)]
struct Uniform {
    direction: Direction,
    length_bytes: u32,
}

impl Uniform {
    /// Whether the job is of this kind: one direction, one size, one priority, one file, no rate, pause or sync between,
    /// no goal.
    fn of(job: &Job, sizes: &[Sizes; 3], has_one_file: bool) -> Option<Self> {
        let direction = match job.mix {
            Mix::Read => Direction::Read,
            Mix::Write if job.fsync_every == 0 && job.fdatasync_every == 0 => Direction::Write,
            Mix::Trim => Direction::Trim,
            _ => return None,
        };
        if job.goals.watch_completions() || job.goals.flow.is_some() || job.verify.is_some() {
            return None;
        }
        let Sizes::Fixed(length_bytes) = sizes[direction as usize] else { return None };
        let share = &job.priority_share;
        let has_one_priority = [share.read_percent, share.write_percent, 0][direction as usize] == 0
            && job.priority_splits.of(direction).is_empty();
        (has_one_priority && has_one_file && !job.sizes_by_pattern).then_some(Self { direction, length_bytes })
    }
}

/// One thread of a job.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    stage: Stage,
    /// The short way; what it leaves out is not set then.
    uniform: Option<Uniform>,
    // Depth.
    tokens: Tokens<Flying>,
    resume_at: u32,
    is_draining: bool,
    // What comes next.
    mix: Mix,
    sizes: [Sizes; 3],
    sizes_by_pattern: bool,
    offsets: Files,
    choices: Stream,
    /// The direction drawn for an I/O that its rate holds back.
    chosen: Option<Direction>,
    /// TrimWrite: the discarded block that is to be written.
    trimmed: Option<(u64, u32)>,
    /// Rewrite: the blocks that are read and not yet written back.
    originals: Originals,
    // When.
    pacer: Option<Pacer>,
    rate_ignores_think: bool,
    pauses: Option<Pauses>,
    start_delay_ns: Nanos,
    issue_for_ns: Option<Nanos>,
    end_ns: Nanos,
    // How much.
    budget: Budget,
    loop_bytes: u64,
    loop_ios: u64,
    /// Forward strides: an I/O that ends exactly here ends the pass, though fewer bytes than `size` were moved. One that
    /// jumps over it wraps instead. Both are fio's behaviour (3.33).
    pass_end_bytes: Option<u64>,
    time_based: bool,
    // How.
    flags: [Flags; 3],
    priority: Priority,
    other_priority: Priority,
    other_percent: [u8; 3],
    priority_splits: [Box<[PrioritySplit]>; 3],
    sync_every: [u32; 2],
    writes_issued: u64,
    sync_is_due: bool,
    end_fsync: bool,
    continue_on_error: [bool; 3],
    ignored_errnos: [Box<[u16]>; 3],
    /// What it has written and not yet read back.
    reading_back: Option<Box<ReadingBack>>,
    // What it must achieve.
    governor: Option<Box<Governor>>,
    flow: Option<Part>,
    wanted_flow: Option<goal::Flow>,
}

impl Thread {
    /// As [`super::Issuer::new`].
    pub(super) fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let regions = regions_of(job, thread, area_bytes)?;
        let (files, region) = (regions.len() as u64, regions[0]);
        let part_bytes = region.end_bytes - region.start_bytes;
        let mut root = root_stream(job, thread, seed);
        let mut stream = || Stream::new(root.next());
        let (offset_stream, mut choices, pace_stream) = (stream(), stream(), stream());

        let depth = job.effective_depth();
        let low = job.iodepth_low.unwrap_or(depth).min(depth);
        let resume_at = low.min(depth - job.completion_batch.clamp(1, depth));
        let (earliest, latest) = job.start_delay_ns;
        let start_delay_ns = earliest + choices.below(latest.saturating_sub(earliest).saturating_add(1));
        let file_bytes = whole_blocks(job, part_bytes);
        let pass_bytes = files * file_bytes;
        let mut loop_bytes = job.io_size.map_or(pass_bytes, |amount| amount.of(files * part_bytes)).max(1);
        let mut reading_back = ReadingBack::new(job, depth);
        if let Some(reading_back) = &mut reading_back {
            loop_bytes = reading_back.bytes_of_pass(job, pass_bytes.max(1), loop_bytes);
        }
        let strides = matches!(job.pattern, Pattern::Sequential { skip_bytes: 1.. });
        let sizes = Direction::ALL.map(|direction| Sizes::new(job.block_sizes.of(direction), job.sizes_unaligned));
        let pass_end_bytes = (strides && files == 1 && loop_bytes <= pass_bytes).then_some(region.end_bytes);
        let (pacer, pauses) = (Pacer::new(job, pace_stream), Pauses::new(job.think));
        let has_own_time = pacer.is_some() || pauses.is_some() || pass_end_bytes.is_some();
        Ok(Self {
            stage: Stage::Fresh,
            uniform: Uniform::of(job, &sizes, files == 1).filter(|_| !has_own_time),
            tokens: Tokens::new(depth),
            resume_at,
            is_draining: false,
            mix: job.mix,
            sizes,
            sizes_by_pattern: job.sizes_by_pattern,
            offsets: Files::new(job, &regions, file_bytes, offset_stream),
            choices,
            chosen: None,
            trimmed: None,
            originals: Originals::new(job.mix, depth),
            pacer,
            rate_ignores_think: job.rate_ignores_think,
            pauses,
            start_delay_ns,
            issue_for_ns: job.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.ramp_ns)),
            end_ns: Nanos::MAX,
            budget: Budget {
                bytes_left: loop_bytes,
                loops_left: job.loops.max(1),
                ios_left: job.number_ios.unwrap_or(u64::MAX),
            },
            loop_bytes,
            loop_ios: job.number_ios.unwrap_or(u64::MAX),
            pass_end_bytes,
            time_based: job.time_based && job.runtime_ns.is_some(),
            flags: data_flags(job),
            priority: job.priority(),
            other_priority: Priority(job.priority_share.priority_bits),
            other_percent: [job.priority_share.read_percent, job.priority_share.write_percent, 0],
            priority_splits: Direction::ALL.map(|direction| job.priority_splits.of(direction).clone().into()),
            sync_every: [job.fsync_every, job.fdatasync_every],
            writes_issued: 0,
            sync_is_due: false,
            end_fsync: job.end_fsync && job.mix.has_writes(),
            continue_on_error: Direction::ALL.map(|direction| *job.continue_on_error.of(direction)),
            ignored_errnos: Direction::ALL.map(|direction| job.goals.ignored_errnos.of(direction).clone().into()),
            reading_back,
            governor: Governor::new(job),
            flow: None,
            wanted_flow: job.goals.flow,
        })
    }

    #[inline(always)]
    pub(super) fn next(&mut self, now: Nanos) -> Next {
        if let Some(uniform) = self.uniform
            && self.stage == Stage::Running
            && now < self.end_ns
            && !self.budget_is_spent()
        {
            self.next_uniform(uniform)
        } else {
            self.next_of_any(now)
        }
    }

    /// As [`Thread::next_running`], where nothing is to be decided but the place.
    #[inline]
    fn next_uniform(&mut self, uniform: Uniform) -> Next {
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
        let token = self.tokens.take(Flying::Data(uniform.direction));
        Next::Issue(self.issue_uniform(uniform, token))
    }

    /// As [`super::Issuer::turn_over`].
    #[inline(always)]
    pub(super) fn turn_over(&mut self, token: u32, now: Nanos) -> Option<Io> {
        let uniform = self.uniform?;
        let is_running = self.stage == Stage::Running && now < self.end_ns && !self.is_draining;
        if !is_running || !self.tokens.is_held(token) || self.budget_is_spent() {
            return None;
        }
        // The token given back last is the one taken next.
        Some(self.issue_uniform(uniform, token))
    }

    #[inline(always)]
    fn issue_uniform(&mut self, Uniform { direction, length_bytes }: Uniform, token: u32) -> Io {
        let draws = self.offsets.will_draw(direction);
        let offset_bytes = self.offsets.next(direction, u64::from(length_bytes), draws);
        self.budget.bytes_left = self.budget.bytes_left.saturating_sub(u64::from(length_bytes));
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
                    } else {
                        return self.next_running(now);
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

    /// As [`super::Issuer::ended`]; without a time nobody looks at what the thread achieves.
    #[inline]
    pub(super) fn ended(&mut self, token: u32, errno: Option<u16>, now: Option<Nanos>) {
        let Some(was) = self.tokens.give_back(token) else { return };
        if self.stage == Stage::Running && was != Flying::Sync && self.pauses.as_mut().is_some_and(Pauses::completed) {
            self.stage = Stage::BeforePause;
        }
        let direction = was.direction();
        let is_damaged = match &mut self.reading_back {
            None => false,
            Some(reading_back) => reading_back.ended(token, errno.is_none()) && errno == Some(DAMAGED_ERRNO),
        };
        let goes_on = |errno| match &self.reading_back {
            Some(reading_back) if is_damaged => reading_back.goes_on(),
            _ => self.goes_on_after(errno, direction),
        };
        if !errno.is_none_or(goes_on) {
            self.stage = Stage::Finished;
        }
        if was == Flying::Original {
            self.original_came(token, errno.is_none());
        }
        if let (Some(governor), Some(direction), Some(now)) = (&mut self.governor, direction, now)
            && governor.completed(token, direction, now)
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
        self.governor.as_ref().and_then(|governor| governor.ending())
    }

    /// Ends the thread: nothing more is issued, not even a final fsync.
    pub(super) fn stop(&mut self) {
        self.stage = Stage::Finished;
        self.leave_flow();
    }

    /// Whether as many I/Os are in flight as may be.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.tokens.are_all_taken()
    }

    /// I/Os issued and not yet completed.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.tokens.in_flight()
    }

    /// Tokens are below this.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.tokens.depth()
    }

    /// A block that could not be read is not written, and counts as done.
    fn original_came(&mut self, token: u32, ok: bool) {
        let (offset_bytes, length_bytes) = self.originals.asked[token as usize];
        if ok {
            self.originals.ready.push_back((offset_bytes, length_bytes));
        } else {
            let bytes = u64::from(length_bytes);
            self.originals.unwritten_bytes -= bytes;
            self.budget.bytes_left = self.budget.bytes_left.saturating_sub(bytes);
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
        if let Some(governor) = &mut self.governor {
            governor.start(at_ns);
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

    fn next_running(&mut self, now: Nanos) -> Next {
        if self.in_flight() == self.depth() {
            self.is_draining = true;
            return Next::Busy;
        }
        if self.is_draining {
            if self.in_flight() > self.resume_at {
                return Next::Busy;
            }
            self.is_draining = false;
        }
        let in_flight = self.in_flight();
        if let Some(governor) = &mut self.governor
            && (governor.is_quiescing(in_flight) || in_flight >= governor.depth())
        {
            return Next::Busy;
        }
        if self.sync_is_due {
            self.sync_is_due = false;
            return self.issue_sync();
        }
        // Every block of the pass is asked for, and none has come that could be written.
        if self.mix == Mix::Rewrite
            && self.originals.ready.is_empty()
            && self.originals.unwritten_bytes >= self.budget.bytes_left
        {
            return Next::Busy;
        }
        if let Some(block) = self.reading_back.as_mut().and_then(|reading_back| reading_back.take_of_backlog()) {
            return Next::Issue(self.read_back(block));
        }
        let chosen = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.choose_direction(),
        };
        let (direction, held_until_ns) = self.pace(chosen, now);
        if held_until_ns > now {
            self.chosen = Some(direction);
            return Next::NotBefore(held_until_ns.min(self.end_ns));
        }
        if let Some(sleep_ns) = self.flow.as_mut().and_then(Part::take) {
            self.chosen = Some(direction);
            return Next::NotBefore(now.saturating_add(sleep_ns).min(self.end_ns));
        }
        Next::Issue(self.issue_data(direction, now))
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
            Mix::Rewrite if self.originals.ready.is_empty() => Direction::Read,
            Mix::Rewrite => Direction::Write,
        }
    }

    /// The direction to issue, and when: that of the mix, unless it lags behind no rate while the other does.
    fn pace(&self, chosen: Direction, now: Nanos) -> (Direction, Nanos) {
        let Some(pacer) = &self.pacer else { return (chosen, now) };
        let due_ns = pacer.due_ns(chosen);
        let other = match (self.mix, chosen) {
            (Mix::ReadWrite { .. }, Direction::Read) => Direction::Write,
            (Mix::ReadWrite { .. }, _) => Direction::Read,
            _ => return (chosen, due_ns),
        };
        // Each direction keeps its own rate: the mix does not hold back one that is due (fio does the same).
        if due_ns > now && pacer.is_paced(other) && pacer.due_ns(other) < due_ns {
            (other, pacer.due_ns(other))
        } else {
            (chosen, due_ns)
        }
    }

    fn issue_data(&mut self, direction: Direction, now: Nanos) -> Io {
        let index = direction as usize;
        let again = match self.mix {
            Mix::TrimWrite => self.trimmed.take(),
            Mix::Rewrite if direction == Direction::Write => self.originals.ready.pop_front(),
            _ => None,
        };
        let (offset_bytes, length_bytes) = again.unwrap_or_else(|| self.draw(direction));
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
        if let Some(governor) = &mut self.governor {
            governor.issued(token, length_bytes, now);
        }
        if what == Flying::Original {
            self.originals.asked[token as usize] = (offset_bytes, length_bytes);
        }
        if let Some(reading_back) = &mut self.reading_back
            && direction != Direction::Trim
        {
            let block = Written { offset_bytes, length_bytes, number };
            reading_back.issued(token, block, direction == Direction::Write);
        }
        Io::plain(token, direction.operation(), self.flags[index], (offset_bytes, length_bytes), priority)
    }

    /// The place and size of the next I/O.
    fn draw(&mut self, direction: Direction) -> (u64, u32) {
        let draws = self.offsets.will_draw(direction);
        let sizes = if self.sizes_by_pattern { usize::from(draws) } else { direction as usize };
        let length_bytes = self.sizes[sizes].draw(&mut self.choices);
        let offset_bytes = self.offsets.next(direction, u64::from(length_bytes), draws);
        let trimmed = self.offsets.trimmed(direction, offset_bytes, u64::from(length_bytes));
        (offset_bytes, u32::try_from(trimmed).unwrap_or(length_bytes))
    }

    /// The I/O's own priority: the job's, or for a share of them another one.
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
        let token = self.tokens.take(Flying::Sync);
        Next::Issue(Io::plain(token, Operation::Flush, Flags::SYNC, (0, 0), self.priority))
    }

    /// Counts an I/O against what is left of the pass. Of a pair over one block only the last one counts.
    fn account(&mut self, direction: Direction, offset_bytes: u64, length_bytes: u32) -> Flying {
        let bytes = u64::from(length_bytes);
        let ends_pass = self.pass_end_bytes == Some(offset_bytes + bytes);
        match (self.mix, direction) {
            (Mix::TrimWrite, Direction::Trim) => self.trimmed = Some((offset_bytes, length_bytes)),
            (Mix::Rewrite, Direction::Read) => {
                self.originals.unwritten_bytes += bytes;
                if ends_pass {
                    self.budget.bytes_left = self.originals.unwritten_bytes;
                }
                return Flying::Original;
            }
            _ => {
                self.budget.bytes_left = self.budget.bytes_left.saturating_sub(bytes);
                if self.mix == Mix::Rewrite {
                    self.originals.unwritten_bytes -= bytes;
                } else if ends_pass {
                    self.budget.bytes_left = 0;
                }
            }
        }
        Flying::Data(direction)
    }

    /// Whether nothing is left to issue; begins the next loop when one is due.
    #[inline]
    fn budget_is_spent(&mut self) -> bool {
        if self.budget.ios_left > 0 && self.budget.bytes_left > 0 { false } else { self.loop_is_over() }
    }

    #[cold]
    fn loop_is_over(&mut self) -> bool {
        if self.time_based && self.budget.ios_left == 0 {
            return true;
        }
        let pass_bytes = self.loop_bytes;
        let wants_more = |reading_back: &mut Box<ReadingBack>| reading_back.wants_another_pass(pass_bytes);
        let has_more = self.reading_back.as_mut().is_some_and(wants_more);
        if !self.time_based {
            self.budget.loops_left = self.budget.loops_left.saturating_sub(1);
            // The number is that of a loop, as with fio.
            let is_last = self.budget.loops_left == 0 && !has_more;
            self.budget.ios_left = if is_last { 0 } else { self.loop_ios };
        }
        if self.budget.ios_left == 0 {
            return true;
        }
        self.budget.bytes_left = self.loop_bytes;
        self.offsets.rewind();
        false
    }

    fn end_work(&mut self) {
        let wrote = self.end_fsync && self.writes_issued > 0;
        self.stage = if wrote { Stage::BeforeEndSync } else { Stage::Finished };
    }
}

fn data_flags(job: &Job) -> [Flags; 3] {
    let durable = job.sync != SyncKind::None;
    let waits = match (job.direct, durable) {
        // Whoever writes directly goes on writing; Linux says so to its schedulers.
        (true, _) => Flags::SYNC.with(Flags::IDLE),
        (false, true) => Flags::SYNC,
        (false, false) => Flags::NONE,
    };
    let write = if durable { waits.with(Flags::FUA) } else { waits };
    [Flags::NONE, write, Flags::NONE]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Issuer;
    use crate::job::{Engine, PerDirection, Placement, Think};
    use block::time::{MILLISECOND, SECOND};

    const AREA: u64 = 1 << 20;

    fn issuer(job: &Job) -> Issuer {
        Issuer::new(job, 0, AREA, 1).expect("the area is large enough")
    }

    /// Runs with every I/O completing after `latency_ns`, in order; returns (time, io) of all issued.
    fn run(issuer: &mut Issuer, latency_ns: Nanos, limit: usize) -> Vec<(Nanos, Io)> {
        let (mut now, mut issued, mut flying) = (0, Vec::new(), std::collections::VecDeque::new());
        while issued.len() < limit {
            let first: Option<(Nanos, u32)> = flying.front().copied();
            let wake = match (issuer.next(now), first) {
                (Next::Issue(io), _) => {
                    issued.push((now, io));
                    flying.push_back((now + latency_ns, io.token));
                    continue;
                }
                (Next::NotBefore(at), Some((done, _))) => at.min(done),
                (Next::NotBefore(at), None) => at,
                (Next::Busy | Next::Finished, Some((done, _))) => done,
                (Next::Busy, None) => panic!("busy with nothing in flight"),
                (Next::Finished, None) => break,
            };
            assert!(wake > now || latency_ns == 0, "time stands still at {now}");
            now = wake;
            while let Some((_, token)) = flying.pop_front_if(|(done, _)| *done <= now) {
                issuer.completed(token, true);
            }
        }
        issued
    }

    #[test]
    fn a_closed_loop_keeps_its_depth_and_transfers_its_size() {
        let job = Job { engine: Engine::Async, iodepth: 4, ..Job::default() };
        let issued = run(&mut issuer(&job), 100, usize::MAX);
        assert_eq!(issued.len(), 256);
        let times: Vec<_> = issued.iter().take(8).map(|(now, _)| *now).collect();
        assert_eq!(times, [0, 0, 0, 0, 100, 100, 100, 100]);
    }

    #[test]
    fn a_synchronous_engine_has_one_io_in_flight_whatever_its_iodepth() {
        let issued = run(&mut issuer(&Job { iodepth: 8, ..Job::default() }), 100, 3);
        assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 100, 200]);
    }

    #[test]
    fn a_low_mark_lets_the_depth_run_down_before_it_refills() {
        let job = Job { engine: Engine::Async, iodepth: 4, iodepth_low: Some(1), ..Job::default() };
        let mut issuer = issuer(&job);
        for _ in 0..4 {
            assert!(matches!(issuer.next(0), Next::Issue(_)));
        }
        assert_eq!(issuer.next(0), Next::Busy);
        for token in 0..2 {
            issuer.completed(token, true);
            assert_eq!(issuer.next(0), Next::Busy);
        }
        issuer.completed(2, true);
        assert!(matches!(issuer.next(0), Next::Issue(_)));
    }

    #[test]
    fn a_rate_spaces_the_ios_evenly_without_drift() {
        let rate = PerDirection { read: 3_u32, ..PerDirection::all(0) };
        let issued = run(&mut issuer(&Job { rate_ios_per_s: rate, ..Job::default() }), 100, 7);
        // The third I/O after the first is due exactly one second later although a third of a second is no whole number.
        assert_eq!(issued[3].0, SECOND);
        assert_eq!(issued[6].0, 2 * SECOND);
    }

    #[test]
    fn a_thread_behind_its_rate_catches_up_one_second_at_most() {
        let rate = PerDirection { read: 10_u32, ..PerDirection::all(0) };
        let mut issuer = issuer(&Job { rate_ios_per_s: rate, engine: Engine::Null, iodepth: 64, ..Job::default() });
        assert!(matches!(issuer.next(0), Next::Issue(_)));
        let late = 60 * SECOND;
        let burst = (0..60).take_while(|_| matches!(issuer.next(late), Next::Issue(_))).count();
        // The first late one cuts the schedule to one second ago; ten follow on the way to now, and the one due now.
        assert_eq!(burst, 12);
    }

    #[test]
    fn a_pause_begins_when_everything_issued_has_completed() {
        let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: true, io_time_ns: 0 };
        let job = Job { engine: Engine::Async, iodepth: 8, think, ..Job::default() };
        let issued = run(&mut issuer(&job), 100, 4);
        assert_eq!(
            issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(),
            [0, 0, MILLISECOND + 100, MILLISECOND + 100]
        );
    }

    #[test]
    fn a_pause_that_counts_completions_lets_the_depth_fill_first() {
        let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: false, io_time_ns: 0 };
        let job = Job { engine: Engine::Async, iodepth: 3, think, ..Job::default() };
        let issued = run(&mut issuer(&job), 100, 6);
        // Three go out at once; the second completion begins the pause, the third only drains.
        let again = MILLISECOND + 100;
        assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 0, 0, again, again, again]);
    }

    #[test]
    fn a_pause_after_a_time_of_io_does_not_count() {
        let think = Think { time_ns: MILLISECOND, blocks: 0, counts_issued: false, io_time_ns: 250 };
        let issued = run(&mut issuer(&Job { think, ..Job::default() }), 100, 8);
        // Four until 250 ns are over (at 0, 100, 200, 300), then a pause from 400 on.
        let times: Vec<_> = issued.iter().map(|(now, _)| *now).collect();
        let again = MILLISECOND + 400;
        assert_eq!(times, [0, 100, 200, 300, again, again + 100, again + 200, again + 300]);
    }

    #[test]
    fn a_share_of_one_size_has_another_priority() {
        let split = PrioritySplit { bytes: 4096, percent: 40, priority_bits: 1 << 13 };
        let entry = |bytes| crate::job::SplitEntry { bytes, weight: 5_000 };
        let job = Job {
            priority_splits: PerDirection { read: vec![split], ..PerDirection::default() },
            block_sizes: PerDirection::all(crate::job::BlockSize::Split(vec![entry(4096), entry(8192)])),
            pattern: crate::job::Pattern::Random { run: 1, repeat_offset: false },
            // With a map some of the longer ones would be trimmed to the shorter size.
            random_map: false,
            number_ios: Some(20_000),
            time_based: true,
            runtime_ns: Some(SECOND),
            ..Job::default()
        };
        let issued = run(&mut issuer(&job), 1, usize::MAX);
        let count = |bytes: u32, bits: u16| {
            issued.iter().filter(|(_, io)| io.length_bytes == bytes && io.priority == Priority(bits)).count()
        };
        assert_eq!((issued.len(), count(8192, 1 << 13)), (20_000, 0));
        // 40 % of 10,000; four deviations are 200.
        assert!(count(4096, 1 << 13).abs_diff(4_000) < 300, "{}", count(4096, 1 << 13));
    }

    #[test]
    fn each_direction_of_a_mix_keeps_its_own_rate() {
        let rate = PerDirection { read: 900_u32, write: 100, trim: 0 };
        let mix = Mix::ReadWrite { read_percent: 50 };
        let job = Job { mix, rate_ios_per_s: rate, runtime_ns: Some(SECOND), time_based: true, ..Job::default() };
        let issued = run(&mut issuer(&job), 1000, usize::MAX);
        let reads = issued.iter().filter(|(_, io)| io.operation == Operation::Read).count();
        assert_eq!((reads, issued.len() - reads), (900, 100));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_irregular_gaps() {
        let rate = PerDirection { read: 1000_u32, ..PerDirection::all(0) };
        let job = Job {
            rate_ios_per_s: rate,
            rate_process: crate::job::RateProcess::Poisson,
            runtime_ns: Some(60 * SECOND),
            time_based: true,
            engine: Engine::Async,
            iodepth: 64,
            ..Job::default()
        };
        let issued = run(&mut issuer(&job), 1000, usize::MAX);
        // 60,000 expected; four deviations of a Poisson count are 980.
        assert!(issued.len().abs_diff(60_000) < 980, "{}", issued.len());
        let long = issued.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 2 * MILLISECOND).count();
        // e^-2 = 13.5 % of the gaps are longer than two means.
        assert!(long.abs_diff(8120) < 400, "{long}");
    }

    #[test]
    fn a_seed_means_the_same_offsets_for_ever_and_others_for_each_thread() {
        let pattern = crate::job::Pattern::Random { run: 1, repeat_offset: false };
        let job = Job { group: "db".into(), pattern, random_map: false, ..Job::default() };
        let offsets = |thread| -> Vec<u64> {
            let mut issuer = Issuer::new(&job, thread, 1 << 30, 42).expect("fits");
            run(&mut issuer, 1, 3).iter().map(|(_, io)| io.offset_bytes / 4096).collect()
        };
        // Computed apart from this code: xoshiro256** of splitmix64, seeded by 42 ^ FNV-1a("proc/db/0"). A change here means
        // that stored seeds no longer replay.
        assert_eq!(offsets(0), PINNED);
        assert_ne!(offsets(1), PINNED);
    }

    const PINNED: [u64; 3] = [19_868, 28_419, 126_967];

    #[test]
    fn writes_are_followed_by_their_syncs_and_the_final_one() {
        let job = Job { mix: Mix::Write, fsync_every: 2, end_fsync: true, number_ios: Some(5), ..Job::default() };
        let issued = run(&mut issuer(&job), 100, usize::MAX);
        let text: String =
            issued.iter().map(|(_, io)| if io.operation == Operation::Flush { 'F' } else { 'W' }).collect();
        assert_eq!(text, "WWFWWFWF");
    }

    #[test]
    fn a_time_based_job_starts_over_until_its_runtime_is_done() {
        let runtime_ns = Some(SECOND);
        let job = Job { runtime_ns, time_based: true, ramp_ns: SECOND, ..Job::default() };
        let issued = run(&mut issuer(&job), MILLISECOND, usize::MAX);
        assert_eq!(issued.len(), 2000);
        assert_eq!(issued[256].1.offset_bytes, 0);
    }

    #[test]
    fn threads_of_a_split_area_never_meet() {
        let job = Job { threads: 3, placement: Placement::Split, ..Job::default() };
        for thread in 0..3 {
            let mut issuer = Issuer::new(&job, thread, 10 << 20, 1).expect("fits");
            let issued = run(&mut issuer, 1, usize::MAX);
            let part = u64::from(thread) * (3 << 20)..u64::from(thread + 1) * (3 << 20);
            assert!(issued.iter().all(|(_, io)| part.contains(&io.offset_bytes)), "thread {thread}");
            assert_eq!(issued.len(), 768);
        }
    }

    #[test]
    fn a_discard_is_followed_by_the_write_of_its_block() {
        let job = Job {
            mix: Mix::TrimWrite,
            pattern: crate::job::Pattern::Random { run: 1, repeat_offset: false },
            number_ios: Some(8),
            ..Job::default()
        };
        let issued = run(&mut issuer(&job), 100, usize::MAX);
        for pair in issued.chunks(2) {
            assert_eq!((pair[0].1.operation, pair[1].1.operation), (Operation::Discard, Operation::Write));
            assert_eq!(pair[0].1.offset_bytes, pair[1].1.offset_bytes);
        }
    }

    #[test]
    fn a_failure_ends_the_thread_unless_the_job_continues_on_errors() {
        for (continues, expected) in [(false, true), (true, false)] {
            let job = Job { continue_on_error: PerDirection::all(continues), ..Job::default() };
            let mut issuer = issuer(&job);
            let Next::Issue(io) = issuer.next(0) else { panic!("an I/O is due") };
            issuer.completed(io.token, false);
            assert_eq!(issuer.next(0) == Next::Finished, expected);
        }
    }

    #[test]
    fn an_area_below_one_block_is_refused_with_its_figures() {
        let error = Issuer::new(&Job { name: "db".into(), ..Job::default() }, 0, 4095, 1).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("4095 bytes"), "{error}");
    }
}
