//! Traces of block I/O: events as the kernel's block layer names them, and the files they are kept in.

pub mod blktrace;
mod names;

use block::{Extent, Flags, Nanos, Operation};

pub use names::{Names, QueueName};

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
}

impl Action {
    /// All of them, with their letters.
    pub const ALL: [(char, Action); 11] = [
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
    ];

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
