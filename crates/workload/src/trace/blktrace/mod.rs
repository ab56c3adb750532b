//! The binary files of blktrace (`BASE.blktrace.0`, `.1`, ...), as blkparse, btt and iowatcher read
//! them.
//!
//! ```text
//! record  magic 4 | sequence 4 | time_ns 8 | sector 8 | bytes 4 | action 4 | pid 4 | device 4 | cpu 4 | error 2 | n 2 | payload n
//! ```
//! There is one file per CPU, numbered without gaps, each in order of time. Words are in the byte
//! order of the writer, except for the payloads of unplugs, splits and remaps, which are
//! big-endian. Sources: Linux, include/uapi/linux/blktrace_api.h; blktrace 1.2.0 for what readers
//! require; docs/specifications/harness.md, section 9.2.

mod reader;
mod writer;

use hoistway_block::{Flags, Operation};

use super::Action;
pub use reader::FORMAT;
pub use writer::Writer;

/// First word of a record; version 7 is the only one in use.
const MAGIC_AND_VERSION: u32 = 0x6561_7407;
/// Length of a record without its payload.
const HEADER_BYTES: usize = 48;
/// Set in the action code of a record whose payload starts with the cgroup id (Linux 4.14 and
/// later). It is never written, because blkparse 1.2.0 drops such records.
const GROUP_MARK: u32 = 0x100;

/// The categories: bits in the upper half of a record's action.
pub(super) mod category {
    pub const READ: u16 = 0x0001;
    pub const WRITE: u16 = 0x0002;
    pub const FLUSH: u16 = 0x0004;
    pub const SYNC: u16 = 0x0008;
    pub const QUEUE: u16 = 0x0010;
    pub const REQUEUE: u16 = 0x0020;
    pub const ISSUE: u16 = 0x0040;
    pub const COMPLETE: u16 = 0x0080;
    pub const FS: u16 = 0x0100;
    pub const PASSTHROUGH: u16 = 0x0200;
    pub const NOTIFY: u16 = 0x0400;
    pub const AHEAD: u16 = 0x0800;
    pub const META: u16 = 0x1000;
    pub const DISCARD: u16 = 0x2000;
    pub const FUA: u16 = 0x8000;
    /// The categories that describe the kind of I/O.
    pub const KIND: u16 = READ | WRITE | FLUSH | SYNC | PASSTHROUGH | AHEAD | META | DISCARD | FUA;
}

/// Codes of notify records, which describe no I/O.
#[derive(Copy, Clone)]
enum Notice {
    Process = 0,
    Timestamp = 1,
    Message = 2,
}

/// Code of each action and the category of its stage.
const CODES: [(u8, Action, u16); 15] = {
    use category as c;
    [
        (1, Action::Queued, c::QUEUE),
        (2, Action::BackMerged, c::QUEUE),
        (3, Action::FrontMerged, c::QUEUE),
        (4, Action::Allocated, c::QUEUE),
        (5, Action::Slept, c::QUEUE),
        (6, Action::Requeued, c::REQUEUE | c::FS),
        (7, Action::Issued, c::ISSUE | c::FS),
        (8, Action::Completed, c::COMPLETE | c::FS),
        (9, Action::Plugged, c::QUEUE),
        (10, Action::Unplugged, c::QUEUE),
        (11, Action::UnpluggedByTimer, c::QUEUE),
        (12, Action::Inserted, c::QUEUE | c::FS),
        (13, Action::Split, 0),
        (14, Action::Bounced, 0),
        (15, Action::Remapped, c::QUEUE),
    ]
};

const MARKS: [(Flags, u16); 5] = {
    use category as c;
    [
        (Flags::SYNC, c::SYNC),
        (Flags::PREFLUSH, c::FLUSH),
        (Flags::FUA, c::FUA),
        (Flags::READAHEAD, c::AHEAD),
        (Flags::META, c::META),
    ]
};

/// The categories of an operation and its flags.
pub(super) fn categories_of(operation: Operation, flags: Flags) -> u16 {
    use category as c;
    let direction = match operation {
        Operation::Read => c::READ,
        Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend => c::WRITE,
        Operation::Flush => c::FLUSH | c::WRITE,
        Operation::Discard | Operation::SecureErase => c::DISCARD | c::WRITE,
        Operation::Passthrough => c::PASSTHROUGH | c::READ,
    };
    MARKS.into_iter().filter(|(flag, _)| flags.contains(*flag)).fold(direction, |all, (_, bit)| all | bit)
}

/// The operation and the flags of categories, for an I/O of `bytes` bytes.
pub(super) fn kind_of(categories: u16, bytes: u64) -> (Operation, Flags) {
    use category as c;
    let has = |bit: u16| categories & bit != 0;
    let flags = MARKS.into_iter().filter(|(_, bit)| has(*bit)).fold(Flags::NONE, |all, (flag, _)| all.with(flag));
    match () {
        () if has(c::PASSTHROUGH) => (Operation::Passthrough, flags),
        () if has(c::DISCARD) => (Operation::Discard, flags),
        () if has(c::FLUSH) && bytes == 0 => (Operation::Flush, flags.without(Flags::PREFLUSH)),
        () if has(c::WRITE) => (Operation::Write, flags),
        () => (Operation::Read, flags),
    }
}
