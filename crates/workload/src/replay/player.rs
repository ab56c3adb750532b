//! One thread of a replay as a state machine.

use std::sync::Arc;

use hoistway_block::{Nanos, Priority};

use super::{Fit, Pace, Part, Recording, Replay, Step};
use crate::issuer::{Call, Io, Next, Tokens, Unsuitable, part_of};
use crate::job::Job;

/// A speed of 1 in thousandths.
const AS_RECORDED: u128 = 1_000;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// `next` has not been called yet; its first call is time 0 of the job.
    Fresh,
    Delayed(Nanos),
    Running,
    Finished,
}

/// A thread that replays its part of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    replay: Replay,
    recording: Arc<Recording>,
    part: usize,
    tokens: Tokens<u32>,
    stage: Stage,
    /// Index of the next step.
    at: usize,
    /// Steps below this index may be issued, because their whole plug was admitted.
    admitted_up_to: usize,
    /// Number of completed passes.
    passes: u32,
    /// Start of the current pass.
    begin_ns: Nanos,
    /// Whether each step has completed, for the pace `dependent`; empty otherwise.
    is_done: Box<[bool]>,
    /// Number of leading entries of the part's `completed` that have completed here as well.
    done_in_order: usize,
    first_byte: u64,
    area_bytes: u64,
    start_delay_ns: Nanos,
    issue_for_ns: Option<Nanos>,
    end_ns: Nanos,
    priority: Priority,
}

impl Player {
    pub(crate) fn new(replay: &Replay, job: &Job, thread: u32, area_bytes: u64) -> Result<Self, Unsuitable> {
        let region = part_of(job, thread, area_bytes);
        let part_bytes = region.end_bytes - region.start_bytes;
        let unsuitable = |needed_bytes| Unsuitable::TraceTooLarge {
            job: job.name.clone(),
            trace: replay.trace.clone(),
            needed_bytes,
            area_bytes: part_bytes,
        };
        if replay.fit == Fit::Strict && replay.span_bytes > part_bytes {
            return Err(unsuitable(replay.span_bytes));
        }
        let largest = replay.recording.largest_bytes(None);
        if largest > part_bytes {
            return Err(unsuitable(largest));
        }
        let Some(part) = replay.recording.parts.get(thread as usize) else {
            return Err(Unsuitable::NoRecording { job: job.name.clone(), trace: replay.trace.clone() });
        };
        let remembered = if replay.pace == Pace::Dependent { part.steps.len() } else { 0 };
        Ok(Self {
            recording: Arc::clone(&replay.recording),
            replay: Replay { recording: Arc::default(), ..replay.clone() },
            part: thread as usize,
            tokens: Tokens::new(job.effective_depth()),
            stage: Stage::Fresh,
            at: 0,
            admitted_up_to: 0,
            passes: 0,
            begin_ns: 0,
            is_done: vec![false; remembered].into(),
            done_in_order: 0,
            first_byte: region.start_bytes,
            area_bytes: part_bytes,
            start_delay_ns: job.times.start_delay_ns.0,
            issue_for_ns: job.times.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.times.ramp_ns)),
            end_ns: Nanos::MAX,
            priority: job.priority(),
        })
    }

    fn part(&self) -> &Part {
        &self.recording.parts[self.part]
    }

    #[inline]
    pub(crate) fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.stage {
                Stage::Running => return self.next_running(now),
                Stage::Fresh => self.stage = Stage::Delayed(now.saturating_add(self.start_delay_ns)),
                Stage::Delayed(until) if now < until => return Next::NotBefore(until),
                Stage::Delayed(until) => {
                    self.stage = Stage::Running;
                    self.begin_ns = until;
                    self.end_ns = self.issue_for_ns.map_or(Nanos::MAX, |span_ns| until.saturating_add(span_ns));
                }
                Stage::Finished => return Next::Finished,
            }
        }
    }

    fn next_running(&mut self, now: Nanos) -> Next {
        if now >= self.end_ns {
            self.stage = Stage::Finished;
            return Next::Finished;
        }
        let Some(step) = self.part().steps.get(self.at).copied() else {
            return self.end_pass(now);
        };
        let due_ns = self.due_ns(&step);
        match self.replay.pace {
            Pace::AsRecorded if now < due_ns => return Next::NotBefore(due_ns.min(self.end_ns)),
            Pace::Dependent if self.done_in_order < step.after as usize => return Next::Busy,
            _ => {}
        }
        if self.in_flight() == self.depth() || (self.replay.pace == Pace::Closed && !self.plug_fits(&step)) {
            return Next::Busy;
        }
        let due_ns = (self.replay.pace == Pace::AsRecorded).then_some(due_ns);
        Next::Issue(self.issue(&step, due_ns))
    }

    /// Whether there is room for all I/Os of the plug, or for as many as the depth permits. If they
    /// were issued one by one as others complete, they could not merge. I/Os of the thread's other
    /// processes that lie between them need room as well.
    fn plug_fits(&mut self, first: &Step) -> bool {
        if !first.is_plugged || self.at < self.admitted_up_to {
            return true;
        }
        let depth = self.depth() as usize;
        let rest = self.part().steps[self.at..].iter().take(depth);
        let last = rest.enumerate().find(|(_, step)| step.actor == first.actor && !step.is_plugged);
        let length = last.map_or(depth, |(index, _)| index + 1);
        if self.in_flight() as usize + length > depth && self.in_flight() > 0 {
            return false;
        }
        self.admitted_up_to = self.at + length;
        true
    }

    fn due_ns(&self, step: &Step) -> Nanos {
        self.begin_ns.saturating_add(self.sped_up(step.at_ns))
    }

    fn sped_up(&self, span_ns: Nanos) -> Nanos {
        let faster = u128::from(span_ns) * AS_RECORDED / u128::from(self.replay.speed_permille.max(1));
        u64::try_from(faster).unwrap_or(Nanos::MAX)
    }

    fn end_pass(&mut self, now: Nanos) -> Next {
        if self.passes + 1 >= self.replay.repeats || self.part().steps.is_empty() {
            self.stage = Stage::Finished;
            return Next::Finished;
        }
        // Completions of one pass must not count for the next.
        if self.replay.pace == Pace::Dependent && self.in_flight() > 0 {
            return Next::Busy;
        }
        self.passes += 1;
        (self.at, self.admitted_up_to) = (0, 0);
        self.done_in_order = 0;
        self.is_done.fill(false);
        self.begin_ns = self.begin_ns.saturating_add(self.sped_up(self.recording.pass_ns));
        self.next_running(now)
    }

    fn issue(&mut self, step: &Step, due_ns: Option<Nanos>) -> Io {
        // A recording has fewer than 2^32 steps.
        let number = u32::try_from(self.at).unwrap_or(u32::MAX);
        self.at += 1;
        let length_bytes = u64::from(step.length_bytes).min(self.area_bytes);
        Io {
            token: self.tokens.take(number),
            operation: step.operation,
            flags: step.flags,
            offset_bytes: self.first_byte + self.replay.place(step.offset_bytes, length_bytes, self.area_bytes),
            // The length was not increased, so it still fits.
            length_bytes: u32::try_from(length_bytes).unwrap_or(step.length_bytes),
            priority: self.priority,
            call: Call::Data,
            actor: step.actor,
            deadline_ns: None,
            due_ns,
            is_plugged: step.is_plugged,
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, token: u32) {
        let Some(step) = self.tokens.give_back(token) else { return };
        let Some(is_done) = self.is_done.get_mut(step as usize) else { return };
        *is_done = true;
        let completed = &self.recording.parts[self.part].completed;
        while completed.get(self.done_in_order).is_some_and(|step| self.is_done[*step as usize]) {
            self.done_in_order += 1;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.stage = Stage::Finished;
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.tokens.in_flight()
    }

    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.tokens.depth()
    }

    pub(crate) fn actors(&self) -> u16 {
        self.part().actors.max(1)
    }
}
