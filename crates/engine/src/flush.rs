//! The flush state machine of one backing: one fsync runs, later flushes wait for the next.
//!
//! ```text
//! FLUSH -> waiting --(no fsync runs)--> running --(fsync ends)--> all of them answered
//! ```
//! A flush that arrives while an fsync runs may not join it, because it must cover writes that
//! completed after that fsync began. After a failure no later flush arrives: the volume is damaged
//! ([`crate::damage`]).

use hoistway_block::Nanos;

/// Requests that wait for durability.
#[derive(Debug, Default)]
pub(crate) struct FlushMachine {
    running: Vec<u32>,
    waiting: Vec<u32>,
    /// When the fsync that runs was started.
    running_since_ns: Option<Nanos>,
}

/// How to treat a flush that has arrived.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// Start an fsync.
    Start,
    /// Nothing: an fsync runs, and the flush joins the next one.
    Wait,
}

impl FlushMachine {
    /// Adds a request that needs everything completed before it to be durable.
    pub(crate) fn join(&mut self, request: u32, now: Nanos) -> Joined {
        if self.is_running() {
            self.waiting.push(request);
            return Joined::Wait;
        }
        self.running.push(request);
        self.running_since_ns = Some(now);
        Joined::Start
    }

    /// Ends the fsync. Moves the requests that it served to `served`; returns whether another fsync
    /// is to be started. After a failure the waiting requests are moved as well, because they fail
    /// too.
    pub(crate) fn completed(&mut self, is_ok: bool, now: Nanos, served: &mut Vec<u32>) -> bool {
        served.append(&mut self.running);
        self.running_since_ns = None;
        if !is_ok {
            served.append(&mut self.waiting);
            return false;
        }
        std::mem::swap(&mut self.running, &mut self.waiting);
        self.running_since_ns = (!self.running.is_empty()).then_some(now);
        self.is_running()
    }

    /// Whether an fsync is running.
    pub(crate) fn is_running(&self) -> bool {
        self.running_since_ns.is_some()
    }

    /// When the fsync that runs was started.
    pub(crate) fn running_since_ns(&self) -> Option<Nanos> {
        self.running_since_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_flushes_during_one_fsync_make_exactly_one_more() {
        let mut machine = FlushMachine::default();
        assert_eq!(machine.join(0, 0), Joined::Start);
        for request in 1..=10 {
            assert_eq!(machine.join(request, 0), Joined::Wait);
        }
        let mut served = Vec::new();
        assert!(machine.completed(true, 1, &mut served));
        assert_eq!(served, [0]);
        served.clear();
        assert!(!machine.completed(true, 1, &mut served));
        assert_eq!(served, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(!machine.is_running());
    }

    #[test]
    fn a_failed_fsync_fails_those_that_wait_for_the_next() {
        let mut machine = FlushMachine::default();
        assert_eq!(machine.join(0, 0), Joined::Start);
        assert_eq!(machine.join(1, 0), Joined::Wait);
        let mut served = Vec::new();
        assert!(!machine.completed(false, 1, &mut served));
        assert_eq!(served, [0, 1]);
        assert!(!machine.is_running());
    }
}
