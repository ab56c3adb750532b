//! The journal's thread, and the calls that change metadata or wait for a commit.
//!
//! The thread is a submitter with its own context and, if it was given a weight, its own group. It
//! runs the steps of a commit, each when the bios of the previous one have completed.

use hoistway_block::{Extent, Flags, Nanos, Operation, Priority, SECTOR_BYTES, Status};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::KernelEra;
use hoistway_queue::{RequestQueue, Submitted};
use hoistway_workload::Call;

use super::Processes;
use super::agenda::JOURNAL;
use super::transfers::PageSubmitter;
use crate::events::NEVER;
use crate::os::journal::Journal;

/// What the thread waits for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Step {
    /// A reason to commit.
    Idle,
    /// A request, while it writes the data of the transaction: the current file range and page.
    Data { range: usize, next_page: u64 },
    /// Completion of the data.
    Settling,
    /// Completion of the descriptors and blocks.
    Blocks,
    /// Completion of the commit block.
    Commit,
}

/// The thread and the calls that wait for it.
#[derive(Debug)]
pub(super) struct JournalThread {
    journal: Journal,
    /// Template of its bios.
    template: Bio,
    /// Template of the bios that write the data: since 2.6.39 the flusher's, before that the
    /// thread's own.
    data_template: Bio,
    step: Step,
    /// Its bio waits for a request.
    is_asleep: bool,
    bios_left: u32,
    /// The space that the checkpoint in progress frees, and its bios in flight.
    checkpoint: Option<(u64, u32)>,
    runs_at: Nanos,
    /// Calls that wait for a frozen block: a metadata block that the commit is writing.
    frozen_out: Vec<u32>,
    /// Calls that wait for the commit of a transaction.
    awaiting: Vec<(u32, u64)>,
}

impl JournalThread {
    pub(super) fn new(journal: Journal, template: Bio, era: KernelEra) -> Self {
        let data_template = match era {
            KernelEra::Linux24 | KernelEra::Linux26 => template,
            KernelEra::Linux3 | KernelEra::Mq => {
                let priority = Priority::NONE;
                Bio {
                    context: hoistway_block::ContextId(0),
                    group: hoistway_block::GroupId::ROOT,
                    priority,
                    ..template
                }
            }
        };
        Self {
            journal,
            template,
            data_template: Bio { operation: Operation::Write, flags: Flags::SYNC, ..data_template },
            step: Step::Idle,
            is_asleep: false,
            bios_left: 0,
            checkpoint: None,
            runs_at: NEVER,
            frozen_out: Vec::new(),
            awaiting: Vec::new(),
        }
    }
}

// ---- calls ----
impl Processes {
    /// Adds a call's changes to the running transaction. False: the call waits and is resumed.
    pub(super) fn joins_transaction(&mut self, number: u32, call: Call, now: Nanos) -> bool {
        let (io, range) = (*self.ios.get(number), self.ios.rest(number));
        let file = self.processes[io.process as usize].file;
        let Some(thread) = &mut self.journal else { return true };
        let pages = super::cached::pages_of(&range);
        if thread.journal.join(call, range.next_byte, (file, pages), now).is_err() {
            thread.frozen_out.push(number);
            return false;
        }
        self.commit_by_age();
        true
    }

    /// Whether a sync has to wait for a commit; it is resumed afterwards.
    pub(super) fn awaits_commit(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) -> bool {
        let file = self.processes[self.ios.process_of(number)].file;
        let pages = self.calls[number as usize].pages();
        let Some(thread) = &mut self.journal else { return false };
        let Some(transaction) = thread.journal.ask_for(file, &pages) else { return false };
        thread.awaiting.push((number, transaction));
        self.run_journal(now, queue);
        true
    }
}

// ---- the thread ----
impl Processes {
    fn commit_by_age(&mut self) {
        if let Some(thread) = self.journal.as_mut().filter(|thread| thread.journal.due_ns() < thread.runs_at) {
            thread.runs_at = thread.journal.due_ns();
            self.agenda.add(thread.runs_at, JOURNAL, 0);
        }
    }

    /// An event of the thread: its timer expired, or its bios completed.
    pub(super) fn journal_due(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if let Some(thread) = self.journal.as_mut().filter(|thread| thread.runs_at <= now) {
            thread.runs_at = NEVER;
        }
        self.run_journal(now, queue);
    }

    /// The thread got the request that it slept for.
    pub(super) fn journal_runs_again(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if let Some(thread) = &mut self.journal {
            thread.is_asleep = false;
        }
        self.run_journal(now, queue);
    }

    /// Runs the thread until it waits.
    pub(super) fn run_journal(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        loop {
            let Some(thread) = self.journal.as_mut().filter(|thread| !thread.is_asleep) else { return };
            match thread.step {
                Step::Idle => {
                    if !thread.journal.begin_commit(now) {
                        return self.commit_by_age();
                    }
                    thread.step = Step::Data { range: 0, next_page: 0 };
                }
                Step::Data { range, next_page } => {
                    if !self.write_transaction_data(range, next_page, now, queue) {
                        return;
                    }
                }
                Step::Settling => {
                    let is_written = |(file, pages): &(u32, std::ops::Range<u64>)| {
                        !self.memory.cache.has_write_back(*file, pages.clone())
                    };
                    if !thread.journal.data().iter().all(is_written) {
                        return;
                    }
                    thread.step = Step::Blocks;
                    let writes = thread.journal.block_writes();
                    self.write_blocks(&writes, Flags::SYNC.with(Flags::META), now, queue);
                }
                Step::Blocks if thread.bios_left == 0 => {
                    let commit = thread.journal.blocks_written();
                    thread.step = Step::Commit;
                    self.thaw(now);
                    let flags = Flags::SYNC.with(Flags::META).with(Flags::PREFLUSH).with(Flags::FUA);
                    self.write_blocks(&[commit], flags, now, queue);
                }
                Step::Commit if thread.bios_left == 0 => {
                    thread.journal.commit_written();
                    thread.step = Step::Idle;
                    self.tell_committed(now);
                    self.checkpoint(now, queue);
                }
                Step::Blocks | Step::Commit => return,
            }
        }
    }

    /// Writes the dirty pages of the transaction's files. False: it sleeps for a request.
    fn write_transaction_data(
        &mut self,
        first: usize,
        page: u64,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> bool {
        let (mut range, mut next_page) = (first, page);
        let shape = self.write_shape(PageSubmitter::Journal);
        loop {
            let Some(thread) = &mut self.journal else { return false };
            let bio = thread.data_template;
            let Some((file, pages)) = thread.journal.data().get(range).cloned() else {
                thread.step = Step::Settling;
                self.submission.unplug(true, now, queue);
                self.begins_to_wait(now, queue);
                return true;
            };
            let from = next_page.max(pages.start);
            let Some(run) = self.memory.cache.next_dirty(file, from..pages.end.max(from), shape.most_pages) else {
                (range, next_page) = (range + 1, 0);
                continue;
            };
            next_page = run.end;
            self.memory.cache.begin_write_back(file, run.clone());
            let (_, sleeps) = self.submit_pages(&bio, (file, run), shape, now, queue);
            if let Some(thread) = self.journal.as_mut().filter(|_| sleeps) {
                thread.step = Step::Data { range, next_page };
                thread.is_asleep = true;
                return false;
            }
        }
    }

    fn write_blocks(
        &mut self,
        writes: &[(u64, u64)],
        flags: Flags,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) {
        let Some(thread) = &self.journal else { return };
        let bio = Bio { operation: Operation::Write, flags, ..thread.template };
        let count = self.submit_blocks(&bio, writes, super::submitting::JOURNAL_COOKIE, now, queue);
        if let Some(thread) = &mut self.journal {
            thread.bios_left += count;
        }
    }

    /// Submits contiguous blocks as bios of the longest size. Returns how many are in flight.
    fn submit_blocks(
        &mut self,
        bio: &Bio,
        writes: &[(u64, u64)],
        cookie: u64,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> u32 {
        let mut count = 0;
        for (first_byte, bytes) in writes {
            let mut done = 0;
            while done < *bytes {
                let length = self.submission.longest_bio_bytes().min(bytes - done);
                let sectors = u32::try_from(length / SECTOR_BYTES).unwrap_or(u32::MAX);
                let extent = Extent::new((first_byte + done) / SECTOR_BYTES, sectors);
                let segments = u16::try_from(sectors.div_ceil(128)).unwrap_or(u16::MAX);
                let piece = Bio { extent, segments, ..*bio };
                let is_plugged = self.submission.has_plug();
                let submitted = self.submit_bio(&piece, cookie, is_plugged, now, queue);
                count += u32::from(submitted != Submitted::Nothing);
                done += length;
            }
        }
        self.submission.unplug(true, now, queue);
        self.begins_to_wait(now, queue);
        count
    }

    /// A bio of a commit completed. After an error a real journal aborts; this one continues.
    pub(super) fn journal_bio_ended(&mut self, _status: Status, now: Nanos) {
        let Some(thread) = &mut self.journal else { return };
        thread.bios_left -= 1;
        if thread.bios_left == 0 {
            self.wake_journal(now);
        }
    }

    fn wake_journal(&mut self, now: Nanos) {
        self.agenda.add(now + self.host.completion_ns(), JOURNAL, 0);
    }

    /// Pages of a file were written: the thread may have waited for them.
    pub(super) fn journal_sees_pages_written(&mut self, now: Nanos) {
        if self.journal.as_ref().is_some_and(|thread| thread.step == Step::Settling) {
            self.wake_journal(now);
        }
    }

    /// Resumes the calls that waited for a frozen block.
    fn thaw(&mut self, now: Nanos) {
        let Some(thread) = &mut self.journal else { return };
        let mut calls = std::mem::take(&mut thread.frozen_out);
        for io in calls.drain(..) {
            let at = self.runs_again(self.ios.process_of(io), now);
            self.resume_at(io, at);
        }
    }

    /// Resumes the calls that waited for the committed transaction.
    fn tell_committed(&mut self, now: Nanos) {
        let Some(thread) = &mut self.journal else { return };
        let awaiting = std::mem::take(&mut thread.awaiting);
        let (done, left): (Vec<_>, Vec<_>) =
            awaiting.into_iter().partition(|(_, transaction)| thread.journal.is_committed(*transaction));
        thread.awaiting = left;
        for (io, _) in done {
            let at = self.runs_again(self.ios.process_of(io), now);
            self.resume_at(io, at);
        }
    }

    /// Writes old metadata in place when the journal is nearly full; nothing waits for it.
    fn checkpoint(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let Some(thread) = self.journal.as_mut().filter(|thread| thread.checkpoint.is_none()) else { return };
        let Some((blocks, space)) = thread.journal.checkpoint() else { return };
        let bio = Bio { operation: Operation::Write, flags: Flags::META.with(Flags::BACKGROUND), ..thread.template };
        let writes: Vec<_> = blocks.iter().map(|byte| (*byte, crate::os::journal::BLOCK_BYTES)).collect();
        let count = self.submit_blocks(&bio, &writes, super::submitting::CHECKPOINT_COOKIE, now, queue);
        if let Some(thread) = &mut self.journal {
            thread.checkpoint = Some((space, count));
        }
    }

    /// A block of the checkpoint was written.
    pub(super) fn checkpoint_bio_ended(&mut self) {
        let Some(thread) = &mut self.journal else { return };
        let Some((space, left)) = &mut thread.checkpoint else { return };
        *left -= 1;
        if *left == 0 {
            thread.journal.checkpointed(*space);
            thread.checkpoint = None;
        }
    }
}
