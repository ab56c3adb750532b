//! What a verifying thread has written and not yet read back (fio `verify`).
//!
//! Blocks are read back in the order of their writes if none is written twice within a pass.
//! Otherwise they are sorted by position, and overwritten blocks are dropped. fio does both.
//! Memory grows with the number of waiting blocks.

use std::collections::{BTreeMap, VecDeque};

use crate::job::{Job, Pattern};
use crate::verify::Verify;

/// A block that was written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub offset_bytes: u64,
    pub length_bytes: u32,
    /// Number of the thread's write, from 0.
    pub number: u64,
}

/// What the host needs to know about an I/O of a verifying job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A write: its block is filled as write `number`.
    Fill {
        /// Number of the write within its thread.
        number: u64,
    },
    /// A read: its block is checked, against the write that it must come from if that is known.
    Read {
        /// Number of that write within its thread.
        number: Option<u64>,
    },
}

/// Blocks that wait to be read back.
#[derive(Clone, Debug)]
enum Waiting {
    InOrder(VecDeque<Written>),
    ByPlace(BTreeMap<u64, Written>),
}

/// State of a thread's verification.
#[derive(Clone, Debug)]
pub(super) struct ReadingBack {
    verify: Verify,
    /// Whether the job itself only reads; all its reads are checked then.
    checks_all_reads: bool,
    waiting: Waiting,
    /// The I/Os in flight and what the host does with them, indexed by token.
    in_flight: Vec<Option<(Written, Check)>>,
    /// Reads left of the current batch.
    batch_left: u32,
    /// Whether a write was issued since the last block of the backlog was read back; a batch starts
    /// only then.
    wrote_last: bool,
    /// Bytes of all passes so far, including those read back, and the number of bytes required.
    bytes: u64,
    wanted_bytes: u64,
}

impl ReadingBack {
    pub(super) fn new(job: &Job, depth: u32) -> Option<Box<Self>> {
        let verify = (**job.checks.verify.as_ref()?).clone();
        let is_dense = match job.shape.pattern {
            Pattern::Sequential { skip_bytes } => skip_bytes == 0 && job.area.zones.is_none(),
            Pattern::Random { .. } => job.uses_random_map(),
        };
        let waiting = if is_dense { Waiting::InOrder(VecDeque::new()) } else { Waiting::ByPlace(BTreeMap::new()) };
        Some(Box::new(Self {
            checks_all_reads: !job.shape.mix.has_writes(),
            verify,
            waiting,
            in_flight: vec![None; depth as usize],
            batch_left: 0,
            wrote_last: false,
            bytes: 0,
            wanted_bytes: 0,
        }))
    }

    /// Bytes that a pass transfers if the job transfers `all_bytes`: at most the area once if the
    /// job reads back what it writes and no block repeats within a pass, otherwise all of them.
    pub(super) fn bytes_of_pass(&mut self, job: &Job, area_bytes: u64, all_bytes: u64) -> u64 {
        let repeats = matches!(job.shape.pattern, Pattern::Random { .. }) && !job.shape.random_map;
        if !self.verify.reads_back || self.checks_all_reads || repeats {
            return all_bytes;
        }
        self.wanted_bytes = all_bytes;
        all_bytes.min(area_bytes)
    }

    /// Ends a pass; returns whether bytes are left for another one. As in fio, bytes that were read
    /// back count as well.
    pub(super) fn wants_another_pass(&mut self, pass_bytes: u64) -> bool {
        self.bytes += pass_bytes;
        self.bytes < self.wanted_bytes
    }

    /// Whether blocks are only read instead of written.
    pub(super) fn only_checks(&self) -> bool {
        self.verify.only_checks && !self.checks_all_reads
    }

    /// Whether blocks wait to be read back when the pass has ended, or will once everything in
    /// flight has completed.
    pub(super) fn is_due_after_pass(&self, in_flight: u32) -> bool {
        self.verify.reads_back && !self.checks_all_reads && (in_flight > 0 || self.count() > 0)
    }

    /// The next block to read back, once everything is written.
    pub(super) fn take(&mut self) -> Option<Written> {
        match &mut self.waiting {
            Waiting::InOrder(all) => all.pop_front(),
            Waiting::ByPlace(all) => all.pop_first().map(|(_, block)| block),
        }
    }

    /// The next block to read back between writes. As soon as `verify.backlog` blocks wait, a batch
    /// of them is read back.
    pub(super) fn take_of_backlog(&mut self) -> Option<Written> {
        let backlog = self.verify.backlog;
        if backlog == 0 || !self.verify.reads_back {
            return None;
        }
        if self.batch_left == 0 {
            if !self.wrote_last || self.count() < backlog as usize {
                return None;
            }
            self.batch_left = if self.verify.backlog_batch > 0 { self.verify.backlog_batch } else { backlog };
        }
        let block = self.take();
        self.batch_left = if block.is_some() { self.batch_left - 1 } else { 0 };
        self.wrote_last = false;
        block
    }

    fn count(&self) -> usize {
        match &self.waiting {
            Waiting::InOrder(all) => all.len(),
            Waiting::ByPlace(all) => all.len(),
        }
    }

    /// Records a block to be read back: it was written now or, if the job only verifies, by an
    /// earlier run.
    pub(super) fn wrote(&mut self, block: Written) {
        if !self.verify.reads_back {
            return;
        }
        match &mut self.waiting {
            Waiting::InOrder(all) => all.push_back(block),
            Waiting::ByPlace(all) => {
                let end = block.offset_bytes + u64::from(block.length_bytes);
                while let Some((&at, before)) = all.range(..end).next_back()
                    && before.offset_bytes + u64::from(before.length_bytes) > block.offset_bytes
                {
                    all.remove(&at);
                }
                all.insert(block.offset_bytes, block);
            }
        }
    }

    /// Notes a read or write of the pattern that is issued.
    pub(super) fn issued(&mut self, token: u32, block: Written, is_write: bool) {
        let check = match is_write {
            true => Check::Fill { number: block.number },
            false if self.checks_all_reads => Check::Read { number: None },
            false => return,
        };
        self.wrote_last |= is_write;
        self.in_flight[token as usize] = Some((block, check));
    }

    /// Notes a block that is being read back.
    pub(super) fn reads(&mut self, token: u32, block: Written) {
        self.bytes += u64::from(block.length_bytes);
        let is_known = self.verify.checks_order && !self.verify.only_checks;
        let number = (is_known && matches!(self.waiting, Waiting::InOrder(_))).then_some(block.number);
        self.in_flight[token as usize] = Some((block, Check::Read { number }));
    }

    /// Notes a completion; returns whether it was a read that is checked.
    pub(super) fn ended(&mut self, token: u32, is_success: bool) -> bool {
        let Some((block, check)) = self.in_flight.get_mut(token as usize).and_then(Option::take) else { return false };
        if is_success && matches!(check, Check::Fill { .. }) {
            self.wrote(block);
        }
        matches!(check, Check::Read { .. })
    }

    /// What the host does with an I/O in flight.
    pub(super) fn check_of(&self, token: u32) -> Option<Check> {
        self.in_flight.get(token as usize).copied().flatten().map(|(_, check)| check)
    }

    /// Whether the thread continues after a damaged block by the options of its verification.
    pub(super) fn continues(&self) -> bool {
        self.verify.continues && !self.verify.is_fatal
    }
}
