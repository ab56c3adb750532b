//! One thread of a job as a plain state machine: the same I/O sequence in every host.
//!
//! ```text
//! next(now) -> Issue(io)       submit it, ask again at once
//!              NotBefore(t)    ask again at t, or after a completion if that comes first
//!              Busy            ask again after a completion
//!              Finished        nothing more will come; wait for what is in flight
//! ended(token, error, now)     for every Io issued, in any order
//! ```
//! Time is handed in; nothing allocates after [`Issuer::new`]. The sequence depends on (job, thread, area, seed) and,
//! where rate, pause, runtime or a program's own logic say so, on the times at which the host asks.

mod budget;
mod flow;
mod flying;
mod governor;
mod originals;
mod reading_back;
mod region;
mod steady;
mod thread;
mod tokens;

use block::random::Stream;
use block::{Flags, Nanos, Operation, Priority};

use crate::files::whole_file;
use crate::job::Job;
use crate::program::Run;
use crate::replay::Player;
use budget::Budget;
pub use flow::Flows;
pub use governor::Ending;
pub use reading_back::Check;
pub(crate) use region::part_of;
use thread::Thread;
pub(crate) use tokens::Tokens;

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
    /// SYNC for direct, O_SYNC and O_DSYNC writes and for flushes; IDLE for direct writes; FUA for O_SYNC and O_DSYNC
    /// writes. None for reads.
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
    /// When it should have been submitted, of what has a time: how much later it was is counted.
    pub due_ns: Option<Nanos>,
    /// Its process has more to come at once, and keeps it in its plug until then (a replay of recorded plugs). The next I/O of
    /// the same process without this mark lets all go, and so does a wait.
    pub is_held: bool,
}

impl Io {
    /// A transfer or sync of a process without a deadline, a time or another wish.
    #[inline(always)]
    const fn plain(token: u32, operation: Operation, flags: Flags, place: (u64, u32), priority: Priority) -> Self {
        let (offset_bytes, length_bytes) = place;
        let call = Call::Data;
        Io {
            token,
            operation,
            flags,
            offset_bytes,
            length_bytes,
            priority,
            call,
            actor: 0,
            deadline_ns: None,
            due_ns: None,
            is_held: false,
        }
    }
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
    /// The thread's part of the area cannot hold what its program works on.
    #[error(
        "job '{job}', thread {thread}: its part of the area is {part_bytes} bytes, {program} needs {needed_bytes} (area of \
         {area_bytes} bytes); give it a larger area"
    )]
    ProgramTooLarge {
        /// The job's name.
        job: String,
        /// The thread's number within the job.
        thread: u32,
        /// What falls to the thread, in bytes.
        part_bytes: u64,
        /// The program.
        program: &'static str,
        /// What it needs, in bytes.
        needed_bytes: u64,
        /// The whole area in bytes.
        area_bytes: u64,
    },
    /// The trace goes beyond the area, or one of its I/Os is larger.
    #[error(
        "job '{job}': trace {trace} needs {needed_bytes} bytes, and its area has {area_bytes}; give it a larger area, or fold \
         it into this one (--wrap, --scale)"
    )]
    TraceTooLarge {
        /// The job's name.
        job: String,
        /// The trace.
        trace: String,
        /// What it needs, in bytes.
        needed_bytes: u64,
        /// What falls to the job, in bytes.
        area_bytes: u64,
    },
    /// The steps of a replay are missing.
    #[error("job '{job}': the recording of trace {trace} is not at hand; read the trace again")]
    NoRecording {
        /// The job's name.
        job: String,
        /// The trace.
        trace: String,
    },
}

/// One thread of a job.
#[derive(Clone, Debug)]
pub struct Issuer(Kind);

// Jobs that follow a pattern are the hot path: their state stays in line, that of programs may be a pointer away.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Kind {
    Pattern(Thread),
    Program(Box<Run>),
    Replay(Box<Player>),
}

impl Issuer {
    /// Thread `thread` (0-based within the job) of `job` on an area of `area_bytes`, in the run of `seed`.
    ///
    /// # Errors
    /// [`Unsuitable`] when the thread's part of the area does not hold its largest block or what its program works on.
    pub fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let kind = match (&job.replay, &job.program) {
            (Some(replay), _) => Kind::Replay(Box::new(Player::new(replay, job, thread, area_bytes)?)),
            (None, None) => Kind::Pattern(Thread::new(job, thread, area_bytes, seed)?),
            (None, Some(program)) => Kind::Program(Box::new(Run::new(program, job, thread, area_bytes, seed)?)),
        };
        Ok(Self(kind))
    }

    /// What the thread does at `now`. The first call is the begin of its phase; times must not go back.
    // Always: an answer is twelve words, which a call would put into memory twice.
    #[inline(always)]
    pub fn next(&mut self, now: Nanos) -> Next {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.next(now),
            Kind::Program(run) => run.next(now),
            Kind::Replay(player) => player.next(now),
        }
    }

    /// Makes the thread one of those that share its job's flow. All of a run do so before any of them begins; who does not
    /// has a flow of its own.
    pub fn join(&mut self, flows: &mut Flows) {
        if let Kind::Pattern(thread) = &mut self.0 {
            thread.join(flows);
        }
    }

    /// The I/O of `token` has completed at `now`: well, or with an errno (5 for a short transfer).
    ///
    /// A failure ends the thread unless the job continues on errors of that direction, or ignores this one.
    #[inline]
    pub fn ended(&mut self, token: u32, errno: Option<u16>, now: Nanos) {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.ended(token, errno, Some(now)),
            Kind::Program(run) => run.completed(token, errno.is_none()),
            Kind::Replay(player) => player.completed(token),
        }
    }

    /// As [`Issuer::ended`], where nobody knows when: what the job must achieve is not looked at.
    #[inline]
    pub fn completed(&mut self, token: u32, ok: bool) {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.ended(token, (!ok).then_some(5), None),
            Kind::Program(run) => run.completed(token, ok),
            Kind::Replay(player) => player.completed(token),
        }
    }

    /// What the host does with the data of an I/O in flight, in a job that verifies; asked before [`Issuer::ended`].
    #[inline]
    pub fn check_of(&self, token: u32) -> Option<Check> {
        match &self.0 {
            Kind::Pattern(thread) => thread.check_of(token),
            Kind::Program(_) | Kind::Replay(_) => None,
        }
    }

    /// Why the thread ended before its work or its time was done, and what it found out.
    pub fn ending(&self) -> Option<Ending> {
        match &self.0 {
            Kind::Pattern(thread) => thread.ending(),
            Kind::Program(_) | Kind::Replay(_) => None,
        }
    }

    /// [`Issuer::completed`] of an I/O that ended well, and the [`Issuer::next`] that answers it, in one: the I/O that takes
    /// the other's place, if that is all that the thread would do. Otherwise nothing has happened.
    #[inline(always)]
    pub fn turn_over(&mut self, token: u32, now: Nanos) -> Option<Io> {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.turn_over(token, now),
            Kind::Program(_) | Kind::Replay(_) => None,
        }
    }

    /// Ends the thread: nothing more is issued, not even a final fsync.
    pub fn stop(&mut self) {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.stop(),
            Kind::Program(run) => run.stop(),
            Kind::Replay(player) => player.stop(),
        }
    }

    /// Whether as many I/Os are in flight as may be.
    #[inline]
    pub fn is_full(&self) -> bool {
        match &self.0 {
            Kind::Pattern(thread) => thread.is_full(),
            Kind::Program(_) | Kind::Replay(_) => self.in_flight() == self.depth(),
        }
    }

    /// I/Os issued and not yet completed.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        match &self.0 {
            Kind::Pattern(thread) => thread.in_flight(),
            Kind::Program(run) => run.in_flight(),
            Kind::Replay(player) => player.in_flight(),
        }
    }

    /// I/Os that may be in flight at once: tokens are below this.
    #[inline]
    pub fn depth(&self) -> u32 {
        match &self.0 {
            Kind::Pattern(thread) => thread.depth(),
            Kind::Program(run) => run.depth(),
            Kind::Replay(player) => player.depth(),
        }
    }

    /// Processes that issue on behalf of this thread: 1 but for programs that are several processes by nature.
    pub fn actors(&self) -> u16 {
        match &self.0 {
            Kind::Pattern(_) => 1,
            Kind::Program(run) => run.actors(),
            Kind::Replay(player) => player.actors(),
        }
    }
}

/// The first byte of its area that a thread uses, and the one behind the last. For jobs of one file.
pub fn part_of_thread(job: &Job, thread: u32, area_bytes: u64) -> (u64, u64) {
    let part = part_of(job, thread, area_bytes);
    (part.start_bytes, part.end_bytes)
}

/// What a thread's part holds of what a pass moves: without the rest at the end of the area that no block fits into, where a
/// pass moves every block once. Whoever puts the part into a larger file gives it this size, or the rest would have room there.
pub fn size_of_thread(job: &Job, thread: u32, area_bytes: u64) -> u64 {
    let part = part_of(job, thread, area_bytes);
    let part_bytes = part.end_bytes - part.start_bytes;
    let room_bytes = whole_file(job, part, area_bytes).end_bytes - part.start_bytes;
    Budget::new(job, part_bytes, room_bytes).pass_bytes().min(part_bytes)
}

/// The random stream that a thread's own streams are drawn from: of the run's seed (or the job's) and the thread's number.
pub(crate) fn root_stream(job: &Job, thread: u32, seed: u64) -> Stream {
    let path = format!("proc/{}/{}", job.group, u64::from(job.first_thread) + u64::from(thread));
    Stream::of(job.seed.unwrap_or(seed), &path)
}
