//! Storms: random workloads from a seed, with every kind of fault and change, and a check of every
//! invariant after every step that can have changed something.
//!
//! A storm submits bios that provoke merges, holds some in plugs, takes those of submitters that vanish
//! back, lets the device fail, stall and reset, has the driver return requests, adds and removes groups and contexts, changes tunables
//! and depths, and switches policies under load. It ends by draining everything. A failure reports
//! the seed, the broken invariant, the last events and the command that replays it.

mod attention;
mod bios;
#[cfg(test)]
mod canaries;
mod churn;
mod conditions;
mod limiting;
mod machine;
mod tally;
mod withdrawing;

use std::collections::VecDeque;
use std::fmt;

use hoistway_block::random::Stream;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos};
use hoistway_device::{AnyDevice, Completion};
use hoistway_elevator::{Any, Bio, Configuration, Elevator};
use hoistway_queue::{Limits, Plug, RequestQueue};

use crate::invariants::{Broken, Ledger};
use crate::starvation::Starvation;
use attention::Attention;
use conditions::Intensity;
use limiting::Limiting;
use tally::Tally;
use withdrawing::Withdrawing;

const CAPACITY_SECTORS: u64 = 1 << 17;
const GROUPS: u32 = 12;
const CONTEXTS: u32 = 24;
/// A context that never exits.
const LASTING_CONTEXT: ContextId = ContextId(CONTEXTS - 1);
const SOFTWARE_QUEUES: u16 = 4;
const PLUGS: usize = 3;
/// The number of recent outside changes that a failure shows.
const SHOWN_CHANGES: usize = 16;
/// Steps without a completed bio after which the final drain counts as stuck.
const DRAIN_STEPS: u64 = 1_000_000;

/// The parameters of a storm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Storm {
    /// The policy at the start, to which the storm returns after switches: a name of the registry,
    /// with `@VERSION` for that version and `:KEY=VALUE` for a tunable, followed by `+NAME` for
    /// each limiter. Without a limiter, the seed may choose some.
    pub policy: String,
    /// Seed of all its random draws.
    pub seed: u64,
    /// Number of bios to submit.
    pub bios: u64,
}

/// The result of a storm.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct StormReport {
    /// Bios submitted and completed.
    pub bios: u64,
    /// Requests started.
    pub requests: u64,
    /// Requests of more than one bio.
    pub merged: u64,
    /// Requests returned by the driver.
    pub requeued: u64,
    /// Completed switches of the policy.
    pub switches: u64,
    /// Groups added.
    pub groups: u64,
    /// Requests that the device completed with an error.
    pub failed: u64,
    /// Requests lost in a reset of the device.
    pub lost: u64,
    /// Bios that were taken back before the device had them.
    pub withdrawn: u64,
    /// Bios that limiters held.
    pub held: u64,
    /// Changes of limits, of limiters and of their tunables.
    pub limit_changes: u64,
    /// How often a waiting request was passed over within the policy's promise against starvation.
    pub passed_over: u64,
    /// FNV-1a over time, cookie (number of the bio) and status of every completion: equal for equal
    /// storms.
    pub checksum: u64,
}

/// A storm that violated an invariant.
#[derive(Clone, Debug)]
pub struct StormFailure {
    /// The storm.
    pub storm: Storm,
    /// The step at which the violation was detected.
    pub step: u64,
    /// The violated invariant.
    pub what: String,
    /// The last trace events, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for StormFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Storm { policy, seed, bios } = &self.storm;
        writeln!(formatter, "storm over {policy} with seed {seed}, step {}: {}", self.step, self.what)?;
        for event in &self.events {
            writeln!(formatter, "  {event}")?;
        }
        write!(formatter, "replay: cargo run -p hoistway-simulator --example storm -- {policy} {seed} {bios}")
    }
}

impl std::error::Error for StormFailure {}

impl Storm {
    /// Runs the storm.
    ///
    /// ```
    /// use hoistway_simulator::Storm;
    ///
    /// let storm = Storm { policy: "mq-deadline".to_owned(), seed: 7, bios: 500 };
    /// let report = storm.run().unwrap_or_else(|failure| panic!("{failure}"));
    /// assert_eq!(report.checksum, storm.run().unwrap().checksum, "a storm depends on its seed alone");
    /// ```
    ///
    /// # Errors
    /// The first invariant that did not hold, or an unknown policy.
    pub fn run(&self) -> Result<StormReport, Box<StormFailure>> {
        let mut state = StormState::new(self).map_err(|what| self.failure(0, what, Vec::new()))?;
        match state.run(self.bios) {
            Ok(()) => Ok(state.report()),
            Err(what) => Err(self.failure(state.step, what, state.last_events())),
        }
    }

    fn failure(&self, step: u64, what: String, events: Vec<String>) -> Box<StormFailure> {
        Box::new(StormFailure { storm: self.clone(), step, what, events })
    }
}

/// The bios submitted so far.
struct Submissions {
    /// The last one; later bios are often adjacent to it.
    last: Bio,
    /// The number of the last one.
    cookie: u64,
}

struct StormState {
    policy: String,
    intensity: Intensity,
    random: Stream,
    queue: RequestQueue<Any>,
    configuration: Configuration,
    device: AnyDevice,
    ledger: Ledger,
    starvation: Starvation,
    limiting: Limiting,
    withdrawing: Withdrawing,
    limits: Limits,
    plugs: [Plug; PLUGS],
    /// Contexts that have exited and still have bios in flight.
    leaving: Vec<bool>,
    submissions: Submissions,
    now: Nanos,
    step: u64,
    completions: Vec<Completion>,
    /// The last changes of groups, contexts, limits, tunables, depths and policies.
    changes: VecDeque<String>,
    attention: Attention,
    tally: Tally,
}

impl StormState {
    fn report(&self) -> StormReport {
        StormReport {
            bios: self.ledger.answered,
            requests: self.ledger.started,
            merged: self.ledger.merged,
            requeued: self.tally.requeued,
            switches: self.tally.switches,
            groups: self.tally.groups,
            failed: self.tally.failed,
            lost: self.tally.lost,
            withdrawn: self.withdrawing.bios,
            held: self.limiting.held,
            limit_changes: self.limiting.changes,
            passed_over: self.starvation.passed_over,
            checksum: self.tally.checksum,
        }
    }

    fn last_events(&self) -> Vec<String> {
        let untaken = self.queue.events().iter();
        let events = self.starvation.last_events().chain(untaken).map(ToString::to_string);
        let policy = self.queue.elevator();
        let state = format!(
            "in force: {}; violations: {} in all, {} in the request table, {} in the policy",
            policy.name(),
            self.queue.violations(),
            self.queue.requests().violations(),
            policy.violations()
        );
        let head = self.changes.iter().cloned().chain([state]);
        head.chain(events).collect()
    }

    fn note(&mut self, change: String) {
        if self.changes.len() == SHOWN_CHANGES {
            self.changes.pop_front();
        }
        self.attention.changed();
        self.changes.push_back(format!("{:>14} step {}: {change}", self.now, self.step));
    }

    fn run(&mut self, bios: u64) -> Result<(), Broken> {
        // A policy that loses requests fills the table of bios in the end. Then nothing more can be submitted, and the
        // drain finds what was never answered.
        let (mut submitted, mut fruitless_steps) = (0, 0_u64);
        while self.ledger.submitted < bios && fruitless_steps < DRAIN_STEPS {
            fruitless_steps = if self.ledger.submitted == submitted { fruitless_steps + 1 } else { 0 };
            submitted = self.ledger.submitted;
            self.step += 1;
            self.change_limits()?;
            self.withdraw_some()?;
            let roll = self.random.below(1_000);
            if roll < self.intensity.churn_per_mille {
                self.attention.touch(true);
                self.churn()?;
            } else if roll < self.intensity.churn_per_mille + self.intensity.submit_per_mille {
                self.submit_some()?;
            } else {
                self.pass_time()?;
            }
            self.settle()?;
        }
        self.drain()
    }

    /// Dispatches what may start and checks all invariants. The check is skipped if only dispatches
    /// were called that reported no change: most steps only advance to the device's next event, and
    /// the last check saw the same state.
    fn settle(&mut self) -> Result<(), Broken> {
        let is_dispatch_idle =
            (0..self.intensity.hardware_queues).all(|queue| self.queue.is_dispatch_idle(HardwareQueue(queue)));
        self.attention.touch(!is_dispatch_idle);
        self.dispatch()?;
        self.held_comes_out()?;
        if self.queue.retired().is_some() {
            self.tally.switches += 1;
        }
        if !self.attention.wants_check(self.starvation.events()) {
            return Ok(());
        }
        self.queue.check().map_err(|violation| format!("{} ({})", violation.what, violation.at))
    }

    /// Submits nothing more: every bio in flight must complete without outside help.
    fn drain(&mut self) -> Result<(), Broken> {
        self.lift_tight_limits();
        self.attention.touch(true);
        let mut idle_steps = 0_u64;
        while self.ledger.open() > 0 {
            self.step += 1;
            idle_steps += 1;
            let open = self.ledger.open();
            for index in 0..PLUGS {
                self.attention.touch(!self.plugs[index].is_empty());
                self.queue.unplug(&mut self.plugs[index], self.now);
            }
            self.settle()?;
            self.pass_time()?;
            self.settle()?;
            if self.ledger.open() < open {
                idle_steps = 0;
            }
            // A limiter's ticks must not keep the storm from reaching a distant timer: up to years,
            // after `read_expire` was lowered from its largest value (mq-deadline derives the age
            // from the deadline).
            self.now += idle_steps.saturating_sub(1_000) * 10_000_000;
            if idle_steps > DRAIN_STEPS {
                return Err(format!("P6: {open} bios were never answered"));
            }
        }
        let tags = self.queue.tags().in_use();
        let requests = self.queue.requests().in_use();
        let (bios, counters) = (self.queue.bios_in_flight(), self.queue.counters());
        let in_flight = counters.in_flight();
        if tags + requests + bios + in_flight > 0 {
            let what = format!("{tags} tags, {requests} requests, {bios} bios, {in_flight} counted in flight");
            return Err(format!("P1: left after all bios were answered: {what}"));
        }
        let held: u32 = (0..GROUPS).map(|group| self.queue.groups().requests(GroupId(group))).sum();
        (held == 0).then_some(()).ok_or_else(|| format!("groups hold {held} requests after all bios were answered"))
    }
}

fn below(random: &mut Stream, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

fn u32_below(random: &mut Stream, bound: u32) -> u32 {
    u32::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

fn u16_below(random: &mut Stream, bound: u16) -> u16 {
    u16::try_from(random.below(u64::from(bound))).unwrap_or(0)
}
