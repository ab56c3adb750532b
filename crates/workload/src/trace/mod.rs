//! Traces of block I/O: events as the kernel's block layer names them, and the file formats that
//! store them.
//!
//! ```text
//! a run -> Tracer -> blktrace::Writer
//! files -> Reading (any of FORMATS) -> Item, Item, ... -> recording::Builder -> what is replayed
//!                                                      -> writers (blktrace, blkparse's lines, iolog, csv)
//! ```

mod alibaba;
mod biosnoop;
pub mod blkparse;
pub mod blktrace;
mod cloudphysics;
pub mod csv;
mod disksim;
mod formats;
pub mod iolog;
mod lines;
mod mqsim;
mod msr;
mod names;
mod read;
mod record;
pub mod recording;
mod scsi;
mod spc;
mod start_up;
mod systor17;
mod tencent;
mod vscsi;

use hoistway_block::{Extent, Flags, Nanos, Operation};

pub use formats::{FORMATS, Format};
pub use names::{Names, QueueName};
pub use read::{
    MAX_READ_ERRORS, Options, Place, ReadError, Reading, SAMPLE_BYTES, Source, Tally, TraceError, Wait, detect,
    format_of_name,
};
pub use record::{Detail, Item, Record};

/// What happened to a bio or a request, with blkparse's letter.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// `Q`: a bio was queued.
    Queued,
    /// `M`: a bio was merged to the end of a request.
    BackMerged,
    /// `F`: a bio was merged to the front of a request.
    FrontMerged,
    /// `G`: a request was allocated.
    Allocated,
    /// `S`: no request was free, and the submitter sleeps.
    Slept,
    /// `I`: a request was inserted into the scheduler.
    Inserted,
    /// `R`: the driver requeued a request.
    Requeued,
    /// `D`: a request was issued to the driver.
    Issued,
    /// `C`: a request completed.
    Completed,
    /// `P`: a process plugged its requests.
    Plugged,
    /// `U`: the plug was released.
    Unplugged,
    /// `UT`: the plug was released by its timer.
    UnpluggedByTimer,
    /// `X`: a bio was split.
    Split,
    /// `B`: a bio's data was copied to memory that the device can reach.
    Bounced,
    /// `A`: a bio was remapped to another device or another sector.
    Remapped,
}

impl Action {
    /// The actions with a single letter; `UT` has two.
    pub const ALL: [(char, Action); 14] = [
        ('Q', Action::Queued),
        ('M', Action::BackMerged),
        ('F', Action::FrontMerged),
        ('G', Action::Allocated),
        ('S', Action::Slept),
        ('I', Action::Inserted),
        ('R', Action::Requeued),
        ('D', Action::Issued),
        ('C', Action::Completed),
        ('P', Action::Plugged),
        ('U', Action::Unplugged),
        ('X', Action::Split),
        ('B', Action::Bounced),
        ('A', Action::Remapped),
    ];

    /// The letters that blkparse prints.
    pub const fn text(self) -> &'static str {
        match self {
            Action::Queued => "Q",
            Action::BackMerged => "M",
            Action::FrontMerged => "F",
            Action::Allocated => "G",
            Action::Slept => "S",
            Action::Inserted => "I",
            Action::Requeued => "R",
            Action::Issued => "D",
            Action::Completed => "C",
            Action::Plugged => "P",
            Action::Unplugged => "U",
            Action::UnpluggedByTimer => "UT",
            Action::Split => "X",
            Action::Bounced => "B",
            Action::Remapped => "A",
        }
    }

    /// The action of blkparse's letters.
    pub fn of_text(text: &str) -> Option<Action> {
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Self::of_letter(letter),
            _ if text == "UT" => Some(Action::UnpluggedByTimer),
            _ => None,
        }
    }

    /// The action of a single letter.
    pub fn of_letter(letter: char) -> Option<Action> {
        Self::ALL.into_iter().find(|(known, _)| *known == letter).map(|(_, action)| action)
    }
}

/// One event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time in nanoseconds since the start of the trace.
    pub at_ns: Nanos,
    /// The CPU or the hardware queue.
    pub cpu: u16,
    /// The process id; 0 if there is no particular process.
    pub pid: u32,
    /// What happened.
    pub action: Action,
    /// The kind of I/O.
    pub operation: Operation,
    /// Flags of the I/O.
    pub flags: Flags,
    /// Sectors of the I/O.
    pub extent: Extent,
    /// Result: 0, or an errno as a positive number.
    pub error: u16,
}

/// Receives the events of a run.
pub trait Tracer {
    /// Names a process.
    fn process(&mut self, at_ns: Nanos, pid: u32, name: &str);

    /// Takes an event; times never decrease.
    fn event(&mut self, event: &Event);

    /// Takes a message of the scheduler.
    fn message(&mut self, at_ns: Nanos, text: &str);
}
