//! One thread of a job as a plain state machine: the same I/O sequence in every host.
//!
//! ```text
//! next(now) -> Issue(io)       submit it, ask again at once
//!              NotBefore(t)    ask again at t, or after a completion if that comes first
//!              Busy            ask again after a completion
//!              Finished        nothing more will come; wait for what is in flight
//! completed(token, ok)         for every Io issued, in any order
//! ```
//! Time is handed in; nothing allocates after [`Issuer::new`]. The sequence depends on (job, thread, area, seed) and,
//! where rate, pause or runtime say so, on the times at which the host asks.

use block::random::Stream;
use block::{Flags, Nanos, Operation, Priority};

use crate::arrival::{Pacer, Pauses};
use crate::job::{Amount, Direction, Job, Mix, Pattern, Placement, SyncKind};
use crate::pattern::{Offsets, Region};
use crate::sizes::Sizes;

/// What a process asks of the file system. Hosts without one refuse jobs that ask for more than [`Call::Data`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Call {
    /// To transfer data, or to sync it: what the operation says. A flush with a length syncs that range's file only.
    #[default]
    Data,
    /// To write behind the end of the file in the range: its size changes as well.
    Append,
    /// To make the file that will fill the range.
    Create,
    /// To remove the file in the range; its dirty pages are dropped.
    Unlink,
    /// To give the file in the range another name.
    Rename,
}

/// One I/O to submit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Names the I/O until it completes; below [`Issuer::depth`], so it may index a table of the host.
    pub token: u32,
    /// Read, write, discard, or flush (an fsync or fdatasync; it carries no range).
    pub operation: Operation,
    /// SYNC for direct, O_SYNC and O_DSYNC writes and for flushes; FUA for O_SYNC and O_DSYNC writes. None for reads.
    pub flags: Flags,
    /// First byte, from the begin of the area.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u32,
    /// Its priority.
    pub priority: Priority,
    /// What is asked of the file system; create, unlink and rename transfer nothing, whatever the operation says.
    pub call: Call,
    /// Which of the job's processes issues it, below [`Issuer::actors`]; each has a context of its own.
    pub actor: u16,
    /// When it has to be complete to be of use, in ns; late ones are counted. `None` = never too late.
    pub deadline_ns: Option<Nanos>,
}

/// What a thread does next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this now, then ask again.
    Issue(Io),
    /// Nothing before this time.
    NotBefore(Nanos),
    /// Nothing before one of its I/Os completes.
    Busy,
    /// Nothing any more. I/Os may still be in flight.
    Finished,
}

/// Why a job cannot run on an area.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// The thread's part of the area cannot hold one block.
    #[error(
        "job '{job}', thread {thread}: its part of the area is {part_bytes} bytes, less than its largest block of \
         {block_bytes} bytes (area of {area_bytes} bytes); give it a larger area or a smaller bs"
    )]
    AreaTooSmall {
        /// The job's name.
        job: String,
        /// The thread's number within the job.
        thread: u32,
        /// What falls to the thread, in bytes.
        part_bytes: u64,
        /// The largest block it may issue, in bytes.
        block_bytes: u64,
        /// The whole area in bytes.
        area_bytes: u64,
    },
}

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
    /// All data issued; an fsync follows when it has completed.
    BeforeEndSync,
    /// Over.
    Finished,
}

/// What a token stands for while in flight.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Data(Direction),
    Sync,
}

/// The end of the work, counted down.
#[derive(Copy, Clone, Debug)]
struct Budget {
    /// Bytes still to issue in this loop.
    bytes_left: u64,
    loops_left: u32,
    ios_left: u64,
}

/// One thread of a job.
#[derive(Clone, Debug)]
pub struct Issuer {
    stage: Stage,
    // Depth.
    slots: Vec<Slot>,
    free: Vec<u32>,
    depth: u32,
    in_flight: u32,
    resume_at: u32,
    is_draining: bool,
    // What comes next.
    mix: Mix,
    sizes: [Sizes; 3],
    sizes_by_pattern: bool,
    offsets: Offsets,
    choices: Stream,
    /// The direction drawn for an I/O that its rate holds back.
    chosen: Option<Direction>,
    /// TrimWrite: the discarded block that is to be written.
    trimmed: Option<(u64, u32)>,
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
    /// Forward strides: an I/O that ends exactly here ends the pass, though fewer bytes than `size` were moved. One that
    /// jumps over it wraps instead. Both are fio's behaviour (3.33).
    pass_end_bytes: Option<u64>,
    time_based: bool,
    // How.
    flags: [Flags; 3],
    priority: Priority,
    other_priority: Priority,
    other_percent: [u8; 3],
    sync_every: [u32; 2],
    writes_issued: u64,
    sync_is_due: bool,
    end_fsync: bool,
    continue_on_error: [bool; 3],
}

impl Issuer {
    /// Thread `thread` (0-based within the job) of `job` on an area of `area_bytes`, in the run of `seed`.
    ///
    /// # Errors
    /// [`Unsuitable::AreaTooSmall`] when the thread's part of the area does not hold its largest block.
    pub fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let region = region_of(job, thread, area_bytes)?;
        let part_bytes = region.end_bytes - region.start_bytes;
        let path = format!("proc/{}/{}", job.group, u64::from(job.first_thread) + u64::from(thread));
        let mut root = Stream::of(job.seed.unwrap_or(seed), &path);
        let mut stream = || Stream::new(root.next());
        let (offset_stream, mut choices, pace_stream) = (stream(), stream(), stream());

        let depth = job.effective_depth();
        let low = job.iodepth_low.unwrap_or(depth).min(depth);
        let resume_at = low.min(depth - job.completion_batch.clamp(1, depth));
        let (earliest, latest) = job.start_delay_ns;
        let start_delay_ns = earliest + choices.below(latest.saturating_sub(earliest).saturating_add(1));
        let pass_bytes = whole_blocks(job, part_bytes);
        let loop_bytes = job.io_size.map_or(pass_bytes, |amount| amount.of(part_bytes)).max(1);
        let strides = matches!(job.pattern, Pattern::Sequential { skip_bytes: 1.. });
        Ok(Self {
            stage: Stage::Fresh,
            slots: vec![Slot::Free; depth as usize],
            free: (0..depth).rev().collect(),
            depth,
            in_flight: 0,
            resume_at,
            is_draining: false,
            mix: job.mix,
            sizes: Direction::ALL.map(|direction| Sizes::new(job.block_sizes.of(direction), job.sizes_unaligned)),
            sizes_by_pattern: job.sizes_by_pattern,
            offsets: Offsets::new(job, region, offset_stream),
            choices,
            chosen: None,
            trimmed: None,
            pacer: Pacer::new(job, pace_stream),
            rate_ignores_think: job.rate_ignores_think,
            pauses: Pauses::new(job.think),
            start_delay_ns,
            issue_for_ns: job.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.ramp_ns)),
            end_ns: Nanos::MAX,
            budget: Budget {
                bytes_left: loop_bytes,
                loops_left: job.loops.max(1),
                ios_left: job.number_ios.unwrap_or(u64::MAX),
            },
            loop_bytes,
            pass_end_bytes: (strides && loop_bytes <= pass_bytes).then_some(region.end_bytes),
            time_based: job.time_based && job.runtime_ns.is_some(),
            flags: data_flags(job),
            priority: job.priority(),
            other_priority: Priority(job.priority_share.priority_bits),
            other_percent: [job.priority_share.read_percent, job.priority_share.write_percent, 0],
            sync_every: [job.fsync_every, job.fdatasync_every],
            writes_issued: 0,
            sync_is_due: false,
            end_fsync: job.end_fsync && job.mix.has_writes(),
            continue_on_error: Direction::ALL.map(|direction| *job.continue_on_error.of(direction)),
        })
    }

    /// What the thread does at `now`. The first call is the begin of its phase; times must not go back.
    pub fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.stage {
                Stage::Running => {
                    if now < self.end_ns && !self.budget_is_spent() {
                        return self.next_running(now);
                    }
                    self.end_work();
                }
                Stage::Fresh => {
                    self.stage = Stage::Delayed(now.saturating_add(self.start_delay_ns));
                }
                Stage::Delayed(until) | Stage::Pausing(until) if now < until.min(self.end_ns) => {
                    return Next::NotBefore(until.min(self.end_ns));
                }
                Stage::Delayed(until) => self.start(until),
                Stage::Pausing(_) => self.stage = Stage::Running,
                Stage::BeforePause if self.in_flight > 0 => return Next::Busy,
                Stage::BeforePause => self.begin_pause(now),
                Stage::BeforeEndSync if self.in_flight > 0 => return Next::Busy,
                Stage::BeforeEndSync => {
                    self.stage = Stage::Finished;
                    return self.issue_sync();
                }
                Stage::Finished => return Next::Finished,
            }
        }
    }

    /// The I/O of `token` has completed; `ok` is false for an error and for a short transfer.
    ///
    /// A failure ends the thread unless the job continues on errors of that direction.
    pub fn completed(&mut self, token: u32, ok: bool) {
        let Some(slot) = self.slots.get_mut(token as usize) else {
            debug_assert!(false, "token {token} was never issued");
            return;
        };
        let was = std::mem::replace(slot, Slot::Free);
        debug_assert!(was != Slot::Free, "token {token} is not in flight");
        if was == Slot::Free {
            return;
        }
        self.free.push(token);
        self.in_flight -= 1;
        if self.stage == Stage::Running && was != Slot::Sync && self.pauses.as_mut().is_some_and(Pauses::completed) {
            self.stage = Stage::BeforePause;
        }
        let goes_on = ok || matches!(was, Slot::Data(direction) if self.continue_on_error[direction as usize]);
        if !goes_on {
            self.stage = Stage::Finished;
        }
    }

    /// Ends the thread: nothing more is issued, not even a final fsync.
    pub fn stop(&mut self) {
        self.stage = Stage::Finished;
    }

    /// I/Os issued and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// I/Os that may be in flight at once: tokens are below this.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Processes that issue on behalf of this thread: 1 but for programs that are several processes by nature.
    pub fn actors(&self) -> u16 {
        1
    }

    fn start(&mut self, at_ns: Nanos) {
        self.stage = Stage::Running;
        self.end_ns = self.issue_for_ns.map_or(Nanos::MAX, |span_ns| at_ns.saturating_add(span_ns));
        if let Some(pacer) = &mut self.pacer {
            pacer.start(at_ns);
        }
    }

    fn begin_pause(&mut self, now: Nanos) {
        let pause_ns = self.pauses.map_or(0, |pauses| pauses.time_ns());
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.rate_ignores_think) {
            pacer.shift(pause_ns);
        }
        self.stage = Stage::Pausing(now.saturating_add(pause_ns));
    }

    fn next_running(&mut self, now: Nanos) -> Next {
        if self.in_flight == self.depth {
            self.is_draining = true;
            return Next::Busy;
        }
        if self.is_draining {
            if self.in_flight > self.resume_at {
                return Next::Busy;
            }
            self.is_draining = false;
        }
        if self.sync_is_due {
            self.sync_is_due = false;
            return self.issue_sync();
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
        let (offset_bytes, length_bytes) = match self.trimmed.take() {
            Some(place) => place,
            None => {
                let draws = self.offsets.will_draw(direction);
                let sizes = if self.sizes_by_pattern { usize::from(draws) } else { index };
                let length_bytes = self.sizes[sizes].draw(&mut self.choices);
                (self.offsets.next(direction, u64::from(length_bytes), draws), length_bytes)
            }
        };
        if self.mix == Mix::TrimWrite && direction == Direction::Trim {
            self.trimmed = Some((offset_bytes, length_bytes));
        } else {
            self.budget.bytes_left = self.budget.bytes_left.saturating_sub(u64::from(length_bytes));
        }
        if self.pass_end_bytes == Some(offset_bytes + u64::from(length_bytes)) {
            self.budget.bytes_left = 0;
        }
        self.budget.ios_left -= 1;
        if let Some(pacer) = &mut self.pacer {
            pacer.issued(direction, u64::from(length_bytes), now);
        }
        if self.pauses.as_mut().is_some_and(Pauses::issued) {
            self.stage = Stage::BeforePause;
        }
        if direction == Direction::Write {
            self.writes_issued += 1;
            let is_due = |every: &u32| *every > 0 && self.writes_issued.is_multiple_of(u64::from(*every));
            self.sync_is_due = self.sync_every.iter().any(is_due);
        }
        let percent = self.other_percent[index];
        let is_other = percent > 0 && self.choices.chance(u64::from(percent), 100);
        Io {
            token: self.take_token(Slot::Data(direction)),
            operation: direction.operation(),
            flags: self.flags[index],
            offset_bytes,
            length_bytes,
            priority: if is_other { self.other_priority } else { self.priority },
            call: Call::Data,
            actor: 0,
            deadline_ns: None,
        }
    }

    fn issue_sync(&mut self) -> Next {
        Next::Issue(Io {
            token: self.take_token(Slot::Sync),
            operation: Operation::Flush,
            flags: Flags::SYNC,
            offset_bytes: 0,
            length_bytes: 0,
            priority: self.priority,
            call: Call::Data,
            actor: 0,
            deadline_ns: None,
        })
    }

    fn take_token(&mut self, slot: Slot) -> u32 {
        // Callers have checked in_flight < depth, so a token is free; 0 keeps a broken host from a panic here.
        debug_assert!(!self.free.is_empty(), "no token free at {} in flight", self.in_flight);
        let token = self.free.pop().unwrap_or(0);
        self.slots[token as usize] = slot;
        self.in_flight += 1;
        token
    }

    /// Whether nothing is left to issue; begins the next loop when one is due.
    fn budget_is_spent(&mut self) -> bool {
        if self.budget.ios_left == 0 {
            return true;
        }
        if self.budget.bytes_left > 0 {
            return false;
        }
        if !self.time_based {
            self.budget.loops_left -= 1;
            if self.budget.loops_left == 0 {
                self.budget.ios_left = 0;
                return true;
            }
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

/// The part of the area that falls to a thread, checked to hold its largest block.
fn region_of(job: &Job, thread: u32, area_bytes: u64) -> Result<Region, Unsuitable> {
    let (base, end) = match job.placement {
        Placement::Shared | Placement::Own => (0, area_bytes),
        Placement::Split => {
            let threads = u64::from(job.threads.max(1));
            let part_bytes = area_bytes / threads;
            // Parts of whole MiB where there is that much; blocks of 4 KiB in tiny areas.
            let unit = if part_bytes >= 1 << 20 { 1 << 20 } else { 4096 };
            let part_bytes = part_bytes / unit * unit;
            let base = part_bytes.saturating_mul(u64::from(thread));
            (base, base.saturating_add(part_bytes).min(area_bytes))
        }
    };
    let skipped = job.offset.of(end.saturating_sub(base));
    let increments = job.offset_increment_bytes.saturating_mul(u64::from(thread));
    let start_bytes = base.saturating_add(skipped).saturating_add(increments).min(end);
    let room = end - start_bytes;
    let size_bytes = match job.size {
        None | Some(Amount::Bytes(0)) => room,
        Some(amount @ Amount::Bytes(_)) => amount.of(area_bytes).min(room),
        Some(percent) => percent.of(end - base).min(room),
    };
    let largest = job.mix.directions().iter().map(|direction| job.block_sizes.of(*direction).largest_bytes());
    let block_bytes = u64::from(largest.max().unwrap_or(1).max(1));
    if size_bytes < block_bytes {
        let job = job.name.clone();
        return Err(Unsuitable::AreaTooSmall { job, thread, part_bytes: size_bytes, block_bytes, area_bytes });
    }
    Ok(Region { start_bytes, end_bytes: start_bytes + size_bytes })
}

/// What one pass transfers: the part, without the rest at its end that no block of a fixed size fits into.
fn whole_blocks(job: &Job, part_bytes: u64) -> u64 {
    let smallest = job.mix.directions().iter().map(|direction| job.block_sizes.of(*direction).smallest_bytes());
    let unit = u64::from(smallest.min().unwrap_or(1).max(1));
    part_bytes / unit * unit
}

fn data_flags(job: &Job) -> [Flags; 3] {
    let durable = job.sync != SyncKind::None;
    let waits = if job.direct || durable { Flags::SYNC } else { Flags::NONE };
    let write = if durable { waits.with(Flags::FUA) } else { waits };
    [Flags::NONE, write, Flags::NONE]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Engine, PerDirection, Think};
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
        let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: true };
        let job = Job { engine: Engine::Async, iodepth: 8, think, ..Job::default() };
        let issued = run(&mut issuer(&job), 100, 4);
        assert_eq!(
            issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(),
            [0, 0, MILLISECOND + 100, MILLISECOND + 100]
        );
    }

    #[test]
    fn a_pause_that_counts_completions_lets_the_depth_fill_first() {
        let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: false };
        let job = Job { engine: Engine::Async, iodepth: 3, think, ..Job::default() };
        let issued = run(&mut issuer(&job), 100, 6);
        // Three go out at once; the second completion begins the pause, the third only drains.
        let again = MILLISECOND + 100;
        assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 0, 0, again, again, again]);
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
