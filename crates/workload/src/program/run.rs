//! What all scripts share. A script is the state machine that produces the I/Os of one program;
//! this adds tokens, start delay, runtime, loops and failures.

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Nanos, Operation, Priority};

use super::Program;
use super::copy::Copying;
use super::dbench::Client;
use super::start_up::Replay;
use super::video::Player;
use crate::issuer::{Call, Io, Next, Tokens, Unsuitable, part_of, root_stream};
use crate::job::{Direction, Job};

/// The next step of a script.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Issue this I/O now.
    Ask(Ask),
    /// Do nothing before this time, which is later than now.
    NotBefore(Nanos),
    /// Do nothing before one of its I/Os completes; at least one is in flight.
    Wait,
    /// The script has ended; once everything is complete it may start again.
    Done,
}

/// One I/O of a script.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub call: Call,
    pub operation: Operation,
    /// Offset from the start of the thread's part.
    pub offset_bytes: u64,
    pub length_bytes: u32,
    pub actor: u16,
    pub deadline_ns: Option<Nanos>,
    /// Returned with the completion.
    pub tag: u32,
}

impl Ask {
    /// A read of the only process.
    pub(super) fn read(offset_bytes: u64, length_bytes: u32) -> Self {
        let (call, operation) = (Call::Data, Operation::Read);
        Self { call, operation, offset_bytes, length_bytes, actor: 0, deadline_ns: None, tag: 0 }
    }
}

/// The scripts, which produce a program's I/Os.
#[derive(Clone, Debug)]
enum Script {
    Dbench(Client),
    StartUp(Replay),
    Video(Player),
    Copy(Copying),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// `next` has not been called yet; its first call is time 0 of the job.
    Fresh,
    Delayed(Nanos),
    Running,
    Finished,
}

/// What a token stands for while its I/O is in flight.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    tag: u32,
    /// `None` for syncs and metadata, whose failure always ends the program.
    direction: Option<Direction>,
}

/// One thread of a job that runs a program.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    script: Script,
    tokens: Tokens<InFlight>,
    stage: Stage,
    /// First byte of the thread's part.
    first_byte: u64,
    start_delay_ns: Nanos,
    issue_for_ns: Option<Nanos>,
    end_ns: Nanos,
    loops_left: u32,
    time_based: bool,
    priority: Priority,
    continue_on_error: [bool; 3],
}

impl Run {
    pub(crate) fn new(
        program: &Program,
        job: &Job,
        thread: u32,
        area_bytes: u64,
        seed: u64,
    ) -> Result<Self, Unsuitable> {
        let part = part_of(job, thread, area_bytes);
        let part_bytes = part.end_bytes - part.start_bytes;
        let needed_bytes = match program {
            Program::Dbench(settings) => settings.least_bytes(),
            Program::StartUp(settings) => settings.area_bytes(),
            Program::Video(settings) => u64::from(settings.frame_bytes),
            Program::Copy(settings) => settings.least_bytes(),
        };
        if part_bytes < needed_bytes {
            let (job, program) = (job.name.clone(), program.name());
            return Err(Unsuitable::ProgramTooLarge { job, thread, part_bytes, program, needed_bytes, area_bytes });
        }
        let mut root = root_stream(job, thread, seed);
        let (mut own, scripts) = (Stream::new(root.next()), Stream::new(root.next()));
        let (earliest, latest) = job.times.start_delay_ns;
        let script = match program {
            Program::Dbench(settings) => Script::Dbench(Client::new(*settings, part_bytes, scripts)),
            Program::StartUp(settings) => Script::StartUp(Replay::new(*settings, scripts)),
            Program::Video(settings) => Script::Video(Player::new(*settings, part_bytes)),
            Program::Copy(settings) => Script::Copy(Copying::new(*settings, part_bytes)),
        };
        Ok(Self {
            script,
            tokens: Tokens::new(job.effective_depth()),
            stage: Stage::Fresh,
            first_byte: part.start_bytes,
            start_delay_ns: earliest + own.below(latest.saturating_sub(earliest).saturating_add(1)),
            issue_for_ns: job.times.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.times.ramp_ns)),
            end_ns: Nanos::MAX,
            loops_left: job.area.loops.max(1),
            time_based: job.times.time_based && job.times.runtime_ns.is_some(),
            priority: job.priority(),
            continue_on_error: Direction::ALL.map(|direction| *job.checks.continue_on_error.of(direction)),
        })
    }

    pub(crate) fn next(&mut self, now: Nanos) -> Next {
        loop {
            match self.stage {
                Stage::Running if now >= self.end_ns => self.stage = Stage::Finished,
                Stage::Running if self.in_flight() == self.depth() => return Next::Busy,
                Stage::Running => match self.script.next(now) {
                    Step::Ask(ask) => return Next::Issue(self.issue(&ask)),
                    Step::NotBefore(at) => return Next::NotBefore(at.min(self.end_ns)),
                    Step::Wait => return Next::Busy,
                    Step::Done if self.in_flight() > 0 => return Next::Busy,
                    Step::Done => self.begin_again(),
                },
                Stage::Fresh => self.stage = Stage::Delayed(now.saturating_add(self.start_delay_ns)),
                Stage::Delayed(until) if now < until => return Next::NotBefore(until),
                Stage::Delayed(until) => {
                    self.stage = Stage::Running;
                    self.end_ns = self.issue_for_ns.map_or(Nanos::MAX, |span_ns| until.saturating_add(span_ns));
                }
                Stage::Finished => return Next::Finished,
            }
        }
    }

    pub(crate) fn completed(&mut self, token: u32, ok: bool) {
        let Some(was) = self.tokens.give_back(token) else { return };
        self.script.completed(was.tag);
        let continues = ok || was.direction.is_some_and(|direction| self.continue_on_error[direction as usize]);
        if !continues {
            self.stage = Stage::Finished;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.stage = Stage::Finished;
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.tokens.in_flight()
    }

    pub(crate) fn depth(&self) -> u32 {
        self.tokens.depth()
    }

    pub(crate) fn actors(&self) -> u16 {
        match &self.script {
            Script::StartUp(replay) => replay.actors(),
            Script::Dbench(_) | Script::Video(_) | Script::Copy(_) => 1,
        }
    }

    fn begin_again(&mut self) {
        if !self.time_based {
            self.loops_left -= 1;
        }
        if self.loops_left == 0 {
            self.stage = Stage::Finished;
        } else {
            self.script.restart();
        }
    }

    fn issue(&mut self, ask: &Ask) -> Io {
        let direction = match (ask.call, ask.operation) {
            (Call::Data, Operation::Read) => Some(Direction::Read),
            (Call::Data | Call::Append, Operation::Write) => Some(Direction::Write),
            _ => None,
        };
        Io {
            token: self.tokens.take(InFlight { tag: ask.tag, direction }),
            operation: ask.operation,
            flags: if ask.operation == Operation::Flush { Flags::SYNC } else { Flags::NONE },
            offset_bytes: self.first_byte + ask.offset_bytes,
            length_bytes: ask.length_bytes,
            priority: self.priority,
            call: ask.call,
            actor: ask.actor,
            deadline_ns: ask.deadline_ns,
            due_ns: None,
            is_plugged: false,
        }
    }
}

impl Script {
    fn next(&mut self, now: Nanos) -> Step {
        match self {
            Script::Dbench(client) => client.next(),
            Script::StartUp(replay) => replay.next(),
            Script::Video(player) => player.next(now),
            Script::Copy(copying) => copying.next(),
        }
    }

    fn completed(&mut self, tag: u32) {
        if let Script::StartUp(replay) = self {
            replay.completed(tag);
        }
    }

    fn restart(&mut self) {
        match self {
            Script::Dbench(client) => client.restart(),
            Script::StartUp(replay) => replay.restart(),
            Script::Video(player) => player.restart(),
            Script::Copy(copying) => copying.restart(),
        }
    }
}
