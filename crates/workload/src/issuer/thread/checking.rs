//! The part of a thread that verifies: when to read back, and the reads themselves.

use hoistway_block::Operation;

use super::Thread;
use crate::issuer::Io;
use crate::issuer::in_flight::InFlight;
use crate::issuer::reading_back::{Check, Written};
use crate::job::Direction;

impl Thread {
    /// Whether a pass has ended and its blocks are to be read back now. If the job only verifies,
    /// this first records the blocks that a writing pass would have written.
    pub(super) fn must_read_back(&mut self) -> bool {
        if self.reading_back.is_none() {
            return false;
        }
        if self.reading_back.as_ref().is_some_and(|reading_back| reading_back.only_checks()) {
            self.pretend_to_write();
        }
        let in_flight = self.in_flight();
        self.budget.pass_is_over() && self.reading_back.as_ref().is_some_and(|it| it.is_due_after_pass(in_flight))
    }

    /// Treats the blocks of a pass as written, because an earlier run has written them.
    #[cold]
    fn pretend_to_write(&mut self) {
        while !self.budget.pass_is_over() {
            let direction = self.directions.choose(&mut self.choices);
            let Some(block) = self.directions.block_again(direction).or_else(|| self.draw(direction)) else { return };
            self.account(direction, block);
            if direction == Direction::Write
                && let Some(reading_back) = &mut self.reading_back
            {
                reading_back.wrote(Written { offset_bytes: block.0, length_bytes: block.1, number: 0 });
            }
        }
    }

    /// A read of a block that was written. Rates, pauses and the amount left of the pass do not
    /// count it; `number_ios` does, as in fio, but does not keep a block from being read.
    pub(super) fn read_back(&mut self, block: Written) -> Io {
        self.budget.counts_io();
        let token = self.depth.take(InFlight::Data(Direction::Read));
        if let Some(reading_back) = &mut self.reading_back {
            reading_back.reads(token, block);
        }
        let flags = self.attributes.flags(Direction::Read);
        Io::plain(token, Operation::Read, flags, (block.offset_bytes, block.length_bytes), self.attributes.priority())
    }

    /// See [`crate::Issuer::check_of`].
    pub(in crate::issuer) fn check_of(&self, token: u32) -> Option<Check> {
        self.reading_back.as_ref().and_then(|reading_back| reading_back.check_of(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Mix};
    use crate::verify::{DAMAGED_ERRNO, Verify};
    use crate::{Issuer, Next};

    fn job(verify: Verify) -> Job {
        Job::default().with(|job| {
            job.shape.mix = Mix::Write;
            job.area.size = None;
            job.checks.verify = Some(Box::new(verify));
        })
    }

    /// Runs a thread on 16 blocks, one I/O at a time, and returns the I/Os as letters: `r` for a
    /// read, `w` for a write. Asserts that nothing else is issued while an I/O is in flight. Reads
    /// end with `errno`.
    fn run(job: &Job, errno: Option<u16>) -> String {
        let mut issuer = Issuer::new(job, 0, 16 * 4096, 1).expect("it fits");
        let mut done = String::new();
        loop {
            match issuer.next(0) {
                Next::Issue(io) => {
                    let is_read = io.operation == Operation::Read;
                    assert_eq!(matches!(issuer.check_of(io.token), Some(Check::Read { .. })), is_read);
                    done.push(if is_read { 'r' } else { 'w' });
                    assert!(!matches!(issuer.next(0), Next::Issue(_)), "after {done}");
                    issuer.ended(io.token, errno.filter(|_| is_read), 0);
                }
                Next::Finished => return done,
                other => panic!("{other:?} after {done}"),
            }
        }
    }

    #[test]
    fn a_number_of_ios_counts_the_reads_that_check() {
        let done = |number_ios, loops, backlog| {
            let verify = Verify { backlog, ..Verify::default() };
            run(
                &job(verify).with(|job| {
                    job.area.number_ios = Some(number_ios);
                    job.area.loops = loops;
                }),
                None,
            )
        };
        let expected =
            |parts: &[(&str, usize)]| parts.iter().map(|(what, times)| what.repeat(*times)).collect::<String>();
        // What fio 3.33 does: the number times loops, over all passes.
        assert_eq!(done(10, 3, 0), expected(&[("w", 16), ("r", 16)]));
        assert_eq!(done(20, 2, 0), expected(&[("w", 16), ("r", 16), ("w", 8), ("r", 8)]));
        assert_eq!(done(10, 1, 0), expected(&[("w", 10), ("r", 10)]));
        assert_eq!(done(10, 1, 4), expected(&[("w", 4), ("r", 4), ("w", 2), ("r", 2)]));
    }

    #[test]
    fn what_is_written_is_read_back_to_the_last_block() {
        assert_eq!(run(&job(Verify::default()), None), format!("{}{}", "w".repeat(16), "r".repeat(16)));
        assert_eq!(run(&job(Verify { reads_back: false, ..Verify::default() }), None), "w".repeat(16));
        let backlog = Verify { backlog: 1, ..Verify::default() };
        assert_eq!(run(&job(backlog.clone()), None), "wr".repeat(16));
        assert_eq!(run(&job(Verify { backlog: 4, backlog_batch: 2, ..backlog }), None).matches('r').count(), 16);
        assert_eq!(run(&job(Verify { only_checks: true, ..Verify::default() }), None), "r".repeat(16));
        let reader = job(Verify { only_checks: true, ..Verify::default() }).with(|job| job.shape.mix = Mix::Read);
        assert_eq!(run(&reader, None), "r".repeat(16));
    }

    #[test]
    fn a_damaged_block_ends_the_thread_unless_it_is_to_go_on() {
        let damaged = |verify| run(&job(verify), Some(DAMAGED_ERRNO)).matches('r').count();
        assert_eq!(damaged(Verify::default()), 1);
        assert_eq!(damaged(Verify { continues: true, ..Verify::default() }), 16);
        assert_eq!(damaged(Verify { continues: true, is_fatal: true, ..Verify::default() }), 1);
    }
}
