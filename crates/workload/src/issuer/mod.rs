//! One thread of a job as a plain state machine, with the same I/O sequence in every host.
//!
//! ```text
//! next(now) -> Issue(io)       submit it, ask again at once
//!              NotBefore(t)    ask again at t, or after a completion if that comes first
//!              Busy            ask again after a completion
//!              Finished        nothing more will come; wait for what is in flight
//! ended(token, error, now)     for every Io issued, in any order
//! ```
//! The caller provides the time, and nothing allocates after [`Issuer::new`]. The sequence depends
//! on (job, thread, area, seed) and, if the job has a rate, pauses, a runtime or a program, on the
//! times at which the host asks.

mod attributes;
mod budget;
mod depth;
mod directions;
mod flow;
mod goal_monitor;
mod in_flight;
mod places;
mod reading_back;
mod region;
mod rewrite_blocks;
mod steady;
mod syncs;
mod thread;
mod timing;
mod tokens;
mod tolerance;

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Nanos, Operation, Priority};

use crate::files::whole_file;
use crate::job::Job;
use crate::program::Run;
use crate::replay::Player;
pub(crate) use budget::whole_blocks;
pub use flow::Flows;
pub use goal_monitor::Ending;
pub use reading_back::Check;
pub(crate) use region::part_of;
use thread::Thread;
pub(crate) use tokens::Tokens;

/// File system operation of an I/O on the file in its range (offset and length). Hosts without a
/// file system refuse jobs that need more than [`Call::Data`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Call {
    /// Transfer or sync data, according to the operation. A flush with a length syncs only the file
    /// in that range.
    #[default]
    Data,
    /// Write beyond the end of the file in the range, so that its size changes.
    Append,
    /// Create the file that will fill the range.
    Create,
    /// Remove the file in the range; its dirty pages are dropped.
    Unlink,
    /// Rename the file in the range.
    Rename,
}

/// One I/O to submit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Identifies the I/O until it completes. It is below [`Issuer::depth`], so it may index a
    /// table of the host.
    pub token: u32,
    /// Read, write, discard, or flush (an fsync or fdatasync).
    pub operation: Operation,
    /// SYNC for direct, O_SYNC and O_DSYNC writes and for flushes; IDLE for direct writes; FUA for
    /// O_SYNC and O_DSYNC writes; none for reads.
    pub flags: Flags,
    /// First byte, from the start of the area.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush that is not limited to one file.
    pub length_bytes: u32,
    /// Its priority.
    pub priority: Priority,
    /// File system operation. Create, unlink and rename transfer nothing, whatever the operation
    /// is.
    pub call: Call,
    /// The process of the job that issues it, below [`Issuer::actors`]; each has its own context.
    pub actor: u16,
    /// Deadline of its completion in ns; later completions are counted as late. `None` means
    /// there is no deadline.
    pub deadline_ns: Option<Nanos>,
    /// Scheduled time of its submission, if there is one; the delay is counted.
    pub due_ns: Option<Nanos>,
    /// Whether its process keeps it in its plug because more follows at once (a replay of recorded
    /// plugs). The next I/O of the same process without this mark releases the plug, and so does a
    /// wait.
    pub is_plugged: bool,
}

impl Io {
    /// A transfer or sync without deadline, scheduled time or other extras.
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
            is_plugged: false,
        }
    }
}

/// What a thread does next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this I/O now, then ask again.
    Issue(Io),
    /// Ask again at this time, or after a completion if that comes first.
    NotBefore(Nanos),
    /// Do nothing before one of the thread's I/Os completes.
    Busy,
    /// Nothing more will be issued. I/Os may still be in flight.
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
        /// Size of the thread's part in bytes.
        part_bytes: u64,
        /// The largest block it may issue, in bytes.
        block_bytes: u64,
        /// The whole area in bytes.
        area_bytes: u64,
    },
    /// The thread's part of the area is too small for its program.
    #[error(
        "job '{job}', thread {thread}: its part of the area is {part_bytes} bytes, {program} needs {needed_bytes} (area of \
         {area_bytes} bytes); give it a larger area"
    )]
    ProgramTooLarge {
        /// The job's name.
        job: String,
        /// The thread's number within the job.
        thread: u32,
        /// Size of the thread's part in bytes.
        part_bytes: u64,
        /// The program.
        program: &'static str,
        /// Size that the program needs, in bytes.
        needed_bytes: u64,
        /// The whole area in bytes.
        area_bytes: u64,
    },
    /// The trace extends beyond the area, or one of its I/Os is larger than the area.
    #[error(
        "job '{job}': trace {trace} needs {needed_bytes} bytes, and its area has {area_bytes}; give it a larger area, or fold \
         it into this one (--wrap, --scale)"
    )]
    TraceTooLarge {
        /// The job's name.
        job: String,
        /// The trace.
        trace: String,
        /// Size that the trace needs, in bytes.
        needed_bytes: u64,
        /// Size of the job's area in bytes.
        area_bytes: u64,
    },
    /// The recording of a replay is missing.
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

// Jobs that follow a pattern are the hot path, so their state is stored inline; that of programs
// and replays is boxed.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Kind {
    Pattern(Thread),
    Program(Box<Run>),
    Replay(Box<Player>),
}

impl Issuer {
    /// Thread `thread` (0-based within the job) of `job` on an area of `area_bytes`, in the run of
    /// `seed`.
    ///
    /// # Errors
    /// [`Unsuitable`] if the thread's part of the area cannot hold its largest block, what its
    /// program needs, or its trace; or if the recording of the trace is missing.
    pub fn new(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Self, Unsuitable> {
        let kind = match (&job.source.replay, &job.source.program) {
            (Some(replay), _) => Kind::Replay(Box::new(Player::new(replay, job, thread, area_bytes)?)),
            (None, None) => Kind::Pattern(Thread::new(job, thread, area_bytes, seed)?),
            (None, Some(program)) => Kind::Program(Box::new(Run::new(program, job, thread, area_bytes, seed)?)),
        };
        Ok(Self(kind))
    }

    /// What the thread does at `now`. The first call is the start of its phase; times must not
    /// decrease.
    // Always inlined: a call would return the result, which does not fit in registers, through
    // memory.
    #[inline(always)]
    pub fn next(&mut self, now: Nanos) -> Next {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.next(now),
            Kind::Program(run) => run.next(now),
            Kind::Replay(player) => player.next(now),
        }
    }

    /// Makes the thread join its job's flow. All threads of a run must join before any of them
    /// starts; a thread that does not join is never delayed by its flow.
    pub fn join(&mut self, flows: &mut Flows) {
        if let Kind::Pattern(thread) = &mut self.0 {
            thread.join(flows);
        }
    }

    /// The I/O of `token` has completed at `now`, successfully or with an errno (5 for a short
    /// transfer).
    ///
    /// A failure ends the thread unless the job continues on errors of that direction, or ignores
    /// this one.
    #[inline]
    pub fn ended(&mut self, token: u32, errno: Option<u16>, now: Nanos) {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.ended(token, errno, Some(now)),
            Kind::Program(run) => run.completed(token, errno.is_none()),
            Kind::Replay(player) => player.completed(token),
        }
    }

    /// As [`Issuer::ended`] without a time; goals of the job are not checked.
    #[inline]
    pub fn completed(&mut self, token: u32, ok: bool) {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.ended(token, (!ok).then_some(5), None),
            Kind::Program(run) => run.completed(token, ok),
            Kind::Replay(player) => player.completed(token),
        }
    }

    /// What the host has to do with the data of an I/O in flight, in a job that verifies; must be
    /// called before [`Issuer::ended`].
    #[inline]
    pub fn check_of(&self, token: u32) -> Option<Check> {
        match &self.0 {
            Kind::Pattern(thread) => thread.check_of(token),
            Kind::Program(_) | Kind::Replay(_) => None,
        }
    }

    /// Why the thread ended before its work or time was done, and what it found.
    pub fn ending(&self) -> Option<Ending> {
        match &self.0 {
            Kind::Pattern(thread) => thread.ending(),
            Kind::Program(_) | Kind::Replay(_) => None,
        }
    }

    /// Combines [`Issuer::completed`] of a successful I/O with the following [`Issuer::next`]. It
    /// returns the I/O that takes the completed one's place if that is all that the thread would
    /// do; otherwise it changes nothing and returns `None`.
    #[inline(always)]
    pub fn complete_and_issue_next(&mut self, token: u32, now: Nanos) -> Option<Io> {
        match &mut self.0 {
            Kind::Pattern(thread) => thread.complete_and_issue_next(token, now),
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

    /// Whether the maximum number of I/Os is in flight.
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

    /// Maximum number of I/Os in flight; tokens are below this.
    #[inline]
    pub fn depth(&self) -> u32 {
        match &self.0 {
            Kind::Pattern(thread) => thread.depth(),
            Kind::Program(run) => run.depth(),
            Kind::Replay(player) => player.depth(),
        }
    }

    /// Number of processes that issue on behalf of this thread: 1, except for programs and replays
    /// of several processes.
    pub fn actors(&self) -> u16 {
        match &self.0 {
            Kind::Pattern(_) => 1,
            Kind::Program(run) => run.actors(),
            Kind::Replay(player) => player.actors(),
        }
    }
}

/// The first byte of its area that a thread uses, and the byte after the last. Only for jobs of one
/// file.
pub fn part_of_thread(job: &Job, thread: u32, area_bytes: u64) -> (u64, u64) {
    let part = part_of(job, thread, area_bytes);
    (part.start_bytes, part.end_bytes)
}

/// Bytes of a thread's part that its pattern uses, and how many of them one loop transfers
/// (`None`: all). If a pass transfers every block once, the rest
/// at the end that is smaller than a block is excluded. If the part is placed in a larger file, it
/// must have this size, because otherwise that rest would be used.
pub fn size_of_thread(job: &Job, thread: u32, area_bytes: u64) -> (u64, Option<u64>) {
    let part = part_of(job, thread, area_bytes);
    let part_bytes = part.end_bytes - part.start_bytes;
    let room_bytes = whole_file(job, part, area_bytes).end_bytes - part.start_bytes;
    let amount_bytes = region::amount_of(job, part_bytes);
    let used_bytes = budget::longest_pass(job, &[part_bytes], room_bytes).min(part_bytes);
    (used_bytes, (amount_bytes < part_bytes).then_some(amount_bytes))
}

/// The random stream from which a thread's other streams are drawn, derived from the seed of the
/// run (or job) and the thread's number.
pub(crate) fn root_stream(job: &Job, thread: u32, seed: u64) -> Stream {
    let path = format!("proc/{}/{}", job.group, u64::from(job.first_thread) + u64::from(thread));
    Stream::of(job.seed.unwrap_or(seed), &path)
}
