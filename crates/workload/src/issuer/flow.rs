//! Flows: threads that share a flow keep their I/Os in proportion to their weights.
//!
//! A thread may issue while its fraction of the I/Os does not exceed its fraction of the weights,
//! as in fio 3.33. The counters are shared by all threads of a run within one process. Cost: two
//! atomic reads and one addition per I/O, only in jobs with a flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hoistway_block::Nanos;
use hoistway_block::time::MICROSECOND;

use crate::goal;

/// Time after which a thread that is ahead checks again if it has no `flow_sleep`.
const RECHECK_NS: Nanos = 20 * MICROSECOND;

/// The counters of all flows of a run; every issuer joins before the run starts.
#[derive(Clone, Debug, Default)]
pub struct Flows(BTreeMap<u32, Arc<FlowCounters>>);

/// Counters of one flow.
#[derive(Debug, Default)]
struct FlowCounters {
    ios: AtomicU64,
    weights: AtomicU64,
}

/// A thread's part of a flow.
#[derive(Clone, Debug)]
pub(super) struct Part {
    counters: Arc<FlowCounters>,
    weight: u64,
    ios: u64,
    sleep_ns: Nanos,
    has_left: bool,
}

/// What a thread that is ahead of its part has to do before it issues.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum FlowWait {
    /// Check again after this time.
    Recheck(Nanos),
    /// Wait for everything in flight, then sleep for this time: `flow_sleep`, as in fio.
    Sleep(Nanos),
}

impl Part {
    /// Joins a flow, which is created if `flows` does not contain it yet.
    pub fn join(flow: goal::Flow, flows: &mut Flows) -> Self {
        let counters = Arc::clone(flows.0.entry(flow.id).or_default());
        let weight = u64::from(flow.weight.max(1));
        counters.weights.fetch_add(weight, Ordering::Relaxed);
        // Every thread starts with a count of one, which avoids divisions by zero.
        counters.ios.fetch_add(1, Ordering::Relaxed);
        Self { counters, weight, ios: 1, sleep_ns: flow.sleep_ns, has_left: false }
    }

    /// Counts an I/O that is issued now, or returns what the thread has to do first.
    pub fn take(&mut self) -> Option<FlowWait> {
        let (all, weights) = (self.counters.ios.load(Ordering::Relaxed), self.counters.weights.load(Ordering::Relaxed));
        if u128::from(self.ios) * u128::from(weights) > u128::from(self.weight) * u128::from(all) {
            return Some(match self.sleep_ns {
                0 => FlowWait::Recheck(RECHECK_NS),
                sleep_ns => FlowWait::Sleep(sleep_ns),
            });
        }
        self.ios += 1;
        self.counters.ios.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Leaves the flow, so that other threads no longer wait for this one.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.counters.weights.fetch_sub(self.weight, Ordering::Relaxed);
            self.counters.ios.fetch_sub(self.ios, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_of_one_flow_go_one_to_three_until_one_leaves() {
        let mut flows = Flows::default();
        let flow = |weight| goal::Flow { id: 0, weight, sleep_ns: 0 };
        let mut parts = [Part::join(flow(1), &mut flows), Part::join(flow(3), &mut flows)];
        let mut done = [0_u64; 2];
        for _ in 0..4_000 {
            for (part, done) in parts.iter_mut().zip(&mut done) {
                *done += u64::from(part.take().is_none());
            }
        }
        assert!(done[0].abs_diff(done[1] / 3) <= 2, "{done:?}");
        parts[1].leave();
        parts[1].leave();
        assert!((0..100).all(|_| parts[0].take().is_none()));
        let mut alone = Part::join(goal::Flow { id: 7, weight: 5, sleep_ns: 0 }, &mut flows);
        assert!((0..100).all(|_| alone.take().is_none()));
    }
}
