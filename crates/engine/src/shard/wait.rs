//! How a worker waits when it has nothing to do: it polls for a while, then sleeps.
//!
//! An idle processor takes 15 to 25 µs to wake on a virtual machine, twice per request at depth 1.
//! Before sleeping the loop therefore polls the ring for `busy_poll_us`. If more polls find
//! nothing than find something, the next waits are sleeps without a poll: 8 of them, and twice as
//! many each time, so that a server with few requests seldom polls. The loop finds out by polling, not from how long
//! it slept, because that time includes its own waking.

use std::io;
use std::sync::atomic::Ordering;

use hoistway_block::Nanos;
use hoistway_linux::ring::Wait;

use super::Worker;
use super::shared::{Core, Locked};
use crate::gate::Gate;

/// When fruitless polls are ahead of fruitful ones by this many, the loop sleeps at least this many
/// times without polling first, and twice as often the next time.
const FRUITLESS_LIMIT: u32 = 8;
/// The most sleeps without polling. A fruitless poll is shorter than the time between two events, so eight of them take at most
/// a sixteenth of the time of 136 events. More sleeps would delay the first poll for a client with one request in flight.
const SLEEPS_WITHOUT_MAX: u32 = 128;
/// A model event closer than this is awaited by polling, because sleeping would overshoot it.
const MODEL_SPIN_NS: Nanos = 50_000;
/// The number of requests on the device from which waiting for a batch is worthwhile.
const BATCH_DEPTH: u32 = 8;
/// The number of completions that a batch waits for.
const BATCH_COMPLETIONS: u32 = 4;
/// Polls of the ring between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 64;

/// The state of waiting.
#[derive(Debug)]
pub(super) struct Idle {
    poll_ns: Nanos,
    processors: usize,
    /// By how many the fruitless polls are ahead of the fruitful ones.
    fruitless: u32,
    sleeps_without: u32,
    /// How many sleeps follow when they are ahead by the limit.
    next_sleeps: u32,
}

impl Idle {
    pub fn new(busy_poll_us: u32) -> Self {
        let (poll_ns, processors) = (u64::from(busy_poll_us) * 1_000, hoistway_linux::thread::processors());
        Self { poll_ns, processors, fruitless: 0, sleeps_without: 0, next_sleeps: FRUITLESS_LIMIT }
    }

    /// Whether polling is likely to succeed. `next_in_ns` is the time to the next deadline, `pollers`
    /// the number of workers that poll already: on the last processor, polling would keep the clients
    /// from producing the awaited event.
    fn may_poll(&mut self, next_in_ns: Option<Nanos>, pollers: usize) -> bool {
        if self.poll_ns == 0 || pollers + 1 >= self.processors {
            return false;
        }
        if next_in_ns.is_some_and(|at| at <= self.poll_ns) {
            return false;
        }
        if self.sleeps_without > 0 {
            self.sleeps_without -= 1;
            return false;
        }
        true
    }

    fn polled(&mut self, is_fruitful: bool) {
        if is_fruitful {
            self.fruitless = self.fruitless.saturating_sub(1);
            if self.fruitless == 0 {
                self.next_sleeps = FRUITLESS_LIMIT;
            }
            return;
        }
        self.fruitless += 1;
        if self.fruitless >= FRUITLESS_LIMIT {
            (self.fruitless, self.sleeps_without) = (0, self.next_sleeps);
            self.next_sleeps = (2 * self.next_sleeps).min(SLEEPS_WITHOUT_MAX);
        }
    }
}

impl Worker {
    /// Sends, submits everything and waits for the next event, unless there is work left.
    pub(super) fn wait_for_events(&mut self, mut core: Locked<'_>, turn_began_ns: Nanos) -> io::Result<()> {
        let now = hoistway_linux::thread::monotonic_ns();
        self.counters.longest_turn_ns = self.counters.longest_turn_ns.max(now.saturating_sub(turn_began_ns));
        self.note_counters(&mut core);
        let has_work = self.has_work_at_hand(&core);
        let model_at_ns = core.gate.as_ref().and_then(Gate::next_event);
        let deadline_ns = core.turn.next_deadline();
        let wants_batch = self.shared.settings.batch_wait_us > 0
            && core.turn.ios_in_flight() >= BATCH_DEPTH
            && self.ring.can_wait_for_batches();
        core.workers[self.number].is_asleep = !has_work;
        drop(core);
        self.signal_wakes();
        self.send_dirty(now);
        if has_work || !self.sent_without_bytes.is_empty() {
            return self.ring.enter(Wait::No);
        }
        let deadlines = [deadline_ns, model_at_ns, self.next_local_wake(), self.sockets.stall_check_at_ns()];
        let next_ns = deadlines.into_iter().flatten().min();
        // Sends complete inside this call, so their completions (and any others) are available at
        // once.
        self.ring.enter(Wait::No)?;
        if self.ring.has_news() || next_ns.is_some_and(|at| at <= now) {
            return Ok(());
        }
        if model_at_ns.is_some_and(|at| at.saturating_sub(now) <= MODEL_SPIN_NS) {
            self.poll_until(next_ns.unwrap_or(now));
            return self.ring.enter(Wait::No);
        }
        let pollers = self.shared.pollers.load(Ordering::Relaxed);
        if self.idle.may_poll(next_ns.map(|at| at.saturating_sub(now)), pollers) {
            self.shared.pollers.fetch_add(1, Ordering::Relaxed);
            let is_fruitful = self.poll_until(now + self.idle.poll_ns);
            self.shared.pollers.fetch_sub(1, Ordering::Relaxed);
            self.idle.polled(is_fruitful);
            if is_fruitful {
                self.counters.polls_fruitful += 1;
                return self.ring.enter(Wait::No);
            }
            self.counters.polls_fruitless += 1;
        }
        self.sleep(next_ns, wants_batch)
    }

    fn sleep(&mut self, next_ns: Option<Nanos>, wants_batch: bool) -> io::Result<()> {
        let before = hoistway_linux::thread::monotonic_ns();
        let wait = match next_ns {
            _ if wants_batch => Wait::Batch {
                completions: BATCH_COMPLETIONS,
                batch_us: self.shared.settings.batch_wait_us,
                timeout_ns: next_ns.map_or(1_000_000_000, |at| at.saturating_sub(before)),
            },
            None => Wait::Forever,
            Some(at) => Wait::AtMost(at.saturating_sub(before)),
        };
        self.counters.sleeps += 1;
        let result = self.ring.enter(wait);
        self.counters.asleep_ns += hoistway_linux::thread::monotonic_ns().saturating_sub(before);
        result
    }

    /// Polls the ring without a system call until there is a completion or the time is up.
    fn poll_until(&mut self, until_ns: Nanos) -> bool {
        loop {
            for _ in 0..POLLS_PER_CLOCK {
                if self.ring.has_news() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if hoistway_linux::thread::monotonic_ns() >= until_ns {
                return false;
            }
        }
    }

    fn has_work_at_hand(&self, core: &Core) -> bool {
        core.turn.needs_another_turn()
            || !core.workers[self.number].inbox.list.is_empty()
            || self.sockets.have_work()
            || self.inline.has_deferred()
            || self.inline.has_results()
            || !self.actions.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle() -> Idle {
        Idle { poll_ns: 50_000, processors: 2, fruitless: 0, sleeps_without: 0, next_sleeps: FRUITLESS_LIMIT }
    }

    /// The sleeps until it polls again.
    fn sleeps(idle: &mut Idle) -> u32 {
        (0..).find(|_| idle.may_poll(None, 0)).expect("it polls again")
    }

    #[test]
    fn fruitless_polls_are_followed_by_more_and_more_sleeps_until_polls_find_something() {
        let mut idle = idle();
        for expected in [8, 16, 32, 64, 128, 128] {
            (0..8).for_each(|_| idle.polled(false));
            assert_eq!(sleeps(&mut idle), expected);
        }
        (0..8).for_each(|_| idle.polled(true));
        (0..8).for_each(|_| idle.polled(false));
        assert_eq!(sleeps(&mut idle), 8);
    }

    #[test]
    fn polling_ends_when_fewer_than_half_of_the_polls_find_something() {
        let mut idle = idle();
        for found in [true, false].repeat(100) {
            idle.polled(found);
            assert_eq!(sleeps(&mut idle), 0);
        }
        let polls = [true, false, false].repeat(10);
        assert!(polls.into_iter().any(|found| {
            idle.polled(found);
            sleeps(&mut idle) > 0
        }));
    }

    #[test]
    fn no_polling_while_a_deadline_is_near() {
        let mut idle = idle();
        assert!(!idle.may_poll(Some(40_000), 0));
        assert!(idle.may_poll(Some(60_000), 0));
    }
}
