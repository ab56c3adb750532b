//! How many I/Os of a thread are in flight, and when it may issue again.

use super::Tokens;
use super::in_flight::InFlight;
use crate::job::Job;

/// The tokens of a thread. Once all are taken, none is given out until only `resume_at` are in
/// flight: `iodepth_low` and `iodepth_batch_complete_min`.
#[derive(Clone, Debug)]
pub(super) struct Depth {
    tokens: Tokens<InFlight>,
    resume_at: u32,
    is_draining: bool,
}

impl Depth {
    pub(super) fn new(job: &Job) -> Self {
        let depth = job.effective_depth();
        let low = job.submission.iodepth_low.unwrap_or(depth).min(depth);
        let resume_at = low.min(depth - job.submission.completion_batch.clamp(1, depth));
        Self { tokens: Tokens::new(depth), resume_at, is_draining: false }
    }

    /// Whether the thread may issue now. Once it may not, enough I/Os have to complete first.
    #[inline]
    pub(super) fn may_issue(&mut self) -> bool {
        if self.is_full() {
            self.is_draining = true;
        } else if self.is_draining && self.in_flight() <= self.resume_at {
            self.is_draining = false;
        }
        !self.is_draining
    }

    /// Whether the I/O of this token is in flight, and another one would follow it at once.
    #[inline]
    pub(super) fn refills(&self, token: u32) -> bool {
        !self.is_draining && self.tokens.is_in_flight(token)
    }

    /// Takes a token; one must be free.
    #[inline]
    pub(super) fn take(&mut self, what: InFlight) -> u32 {
        self.tokens.take(what)
    }

    /// Returns a token; yields what it stood for, or `None` if it was not in flight.
    #[inline]
    pub(super) fn give_back(&mut self, token: u32) -> Option<InFlight> {
        self.tokens.give_back(token)
    }

    /// Whether the maximum number of I/Os is in flight.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.tokens.are_all_taken()
    }

    /// I/Os issued and not yet completed.
    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.tokens.in_flight()
    }

    /// The maximum number of I/Os in flight.
    #[inline]
    pub(super) fn most(&self) -> u32 {
        self.tokens.depth()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Direction, Engine};

    #[test]
    fn a_full_thread_waits_until_it_has_drained() {
        let mut depth = Depth::new(&Job::default().with(|job| {
            job.submission.engine = Engine::Async;
            job.submission.iodepth = 4;
            job.submission.iodepth_low = Some(1);
        }));
        let read = InFlight::Data(Direction::Read);
        let tokens: Vec<u32> = (0..4)
            .map(|_| {
                assert!(depth.may_issue());
                depth.take(read)
            })
            .collect();
        assert!(!depth.may_issue(), "all are taken");
        for token in &tokens[..2] {
            assert_eq!(depth.give_back(*token), Some(read));
            assert!(!depth.may_issue() && !depth.refills(tokens[3]), "it drains");
        }
        depth.give_back(tokens[2]);
        assert!(depth.may_issue() && depth.refills(tokens[3]), "one is left");
    }
}
