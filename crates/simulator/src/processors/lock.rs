//! A spin lock whose waiters get it in the order in which they asked, as with Linux's qspinlock.
//!
//! The lock keeps no time. Its user is told who gets it, and whether the lock comes from another
//! processor: then lock and guarded data have to cross from that processor's cache.

use std::collections::VecDeque;

/// The number of a processor.
pub(crate) type Processor = u16;

/// The answer to a request for the lock.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The processor holds the lock.
    Held {
        /// Another processor held it before.
        is_moved: bool,
    },
    /// The processor spins until a release names it.
    Waits,
}

/// The lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    holder: Option<Processor>,
    /// The processor in whose cache the lock and the guarded data are.
    last: Option<Processor>,
    waiting: VecDeque<Processor>,
}

impl Lock {
    /// A processor asks for the lock. It must neither hold it nor wait for it.
    pub(crate) fn ask(&mut self, processor: Processor) -> Answer {
        if self.holder.is_some() {
            debug_assert!(self.holder != Some(processor) && !self.waiting.contains(&processor));
            self.waiting.push_back(processor);
            return Answer::Waits;
        }
        Answer::Held { is_moved: self.hand_to(processor) }
    }

    /// The holder releases the lock. The answer is the processor that holds it from now on; the
    /// lock has moved to it.
    pub(crate) fn release(&mut self) -> Option<Processor> {
        debug_assert!(self.holder.is_some());
        self.holder = None;
        let next = self.waiting.pop_front()?;
        self.hand_to(next);
        Some(next)
    }

    fn hand_to(&mut self, processor: Processor) -> bool {
        let is_moved = self.last.is_some_and(|last| last != processor);
        (self.holder, self.last) = (Some(processor), Some(processor));
        is_moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_get_the_lock_in_the_order_in_which_they_asked() {
        let mut lock = Lock::default();
        assert_eq!(lock.ask(3), Answer::Held { is_moved: false });
        for processor in [5, 1, 4] {
            assert_eq!(lock.ask(processor), Answer::Waits);
        }
        assert_eq!(lock.release(), Some(5));
        // Who asks while others wait is behind them.
        assert_eq!(lock.ask(3), Answer::Waits);
        let rest: Vec<_> = std::iter::from_fn(|| lock.release()).collect();
        assert_eq!(rest, [1, 4, 3]);
    }

    #[test]
    fn the_lock_moves_only_when_another_processor_takes_it() {
        let mut lock = Lock::default();
        for (processor, is_moved) in [(0, false), (0, false), (1, true), (1, false), (0, true)] {
            assert_eq!(lock.ask(processor), Answer::Held { is_moved }, "processor {processor}");
            assert_eq!(lock.release(), None);
        }
    }
}
