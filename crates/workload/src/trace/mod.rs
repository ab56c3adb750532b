//! Traces of block I/O: events as the kernel's block layer names them, and the files they are kept in.
//!
//! ```text
//! a run -> Tracer -> blktrace::Writer
//! files -> Reading (any of FORMATS) -> Item, Item, ... -> recording::Builder -> what is replayed
//!                                                      -> writers (blktrace, blkparse's lines, iolog, csv)
//! ```

mod alibaba;
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

use block::{Extent, Flags, Nanos, Operation};

pub use formats::{FORMATS, Format};
pub use names::{Names, QueueName};
pub use read::{
    Complaint, MAX_COMPLAINTS, Options, Place, Reading, SAMPLE_BYTES, Source, Tally, TraceError, Wait, detect,
    format_of_name,
};
pub use record::{Detail, Item, Record};

/// What happened to a bio or a request, by the letter of blkparse.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// `Q`: a bio came.
    Queued,
    /// `M`: it joined a request at its end.
    BackMerged,
    /// `F`: it joined a request before its begin.
    FrontMerged,
    /// `G`: it got a request.
    Allocated,
    /// `S`: it found none, and its submitter sleeps.
    Slept,
    /// `I`: a request went to the scheduler.
    Inserted,
    /// `R`: the driver gave it back.
    Requeued,
    /// `D`: it went to the driver.
    Issued,
    /// `C`: it ended.
    Completed,
    /// `P`: requests are held back.
    Plugged,
    /// `U`: they are let go.
    Unplugged,
    /// `UT`: they are let go because time is up.
    UnpluggedByTimer,
    /// `X`: a bio was cut in two.
    Split,
    /// `B`: its data was copied to where the device reaches it.
    Bounced,
    /// `A`: it was sent to another device, or to another place of this one.
    Remapped,
}

impl Action {
    /// Those that have a letter for themselves; `UT` is two.
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

    /// As blkparse shows it.
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

    /// The action of what blkparse shows.
    pub fn of_text(text: &str) -> Option<Action> {
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Self::of_letter(letter),
            _ if text == "UT" => Some(Action::UnpluggedByTimer),
            _ => None,
        }
    }

    /// The action of a letter.
    pub fn of_letter(letter: char) -> Option<Action> {
        Self::ALL.into_iter().find(|(known, _)| *known == letter).map(|(_, action)| action)
    }
}

/// One event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in nanoseconds since the trace began.
    pub at_ns: Nanos,
    /// On which processor, or for which hardware queue.
    pub cpu: u16,
    /// Who: the process's number, 0 for none in particular.
    pub pid: u32,
    /// What.
    pub action: Action,
    /// The kind of I/O.
    pub operation: Operation,
    /// Its properties.
    pub flags: Flags,
    /// Where.
    pub extent: Extent,
    /// How it ended: 0, or an errno as a positive number.
    pub error: u16,
}

/// Takes what happens in a run.
pub trait Tracer {
    /// There is a process of this number and name.
    fn process(&mut self, at_ns: Nanos, pid: u32, name: &str);

    /// Something happened; times never go back.
    fn event(&mut self, event: &Event);

    /// The scheduler says something.
    fn message(&mut self, at_ns: Nanos, text: &str);
}
