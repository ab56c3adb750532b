//! Tests for a policy of your own: what the tests of the built-in ones check, for any type.
//!
//! [`check`] runs rounds, one per seed. Each round has three parts:
//!
//! * a storm: random I/O with merges, faults, resets, groups, changes of settings and switches to
//!   other policies and back, with a check of every invariant after each step, of the promise that
//!   [`Traits::passing`](hoistway_elevator::Traits::passing) declares, and of every request's answer at the
//!   end;
//! * random host calls, among them those that a sane host never makes, in every form of the policy;
//! * every operation of a host under an allocator that counts: after construction a policy
//!   allocates nothing.
//!
//! ```
//! use hoistway_elevator::structures::NoMemory;
//! use hoistway_elevator::{Configuration, Policy};
//!
//! #[global_allocator]
//! static ALLOCATOR: hoistway_conformance::Counting = hoistway_conformance::Counting;
//!
//! fn test<P: Policy + std::fmt::Debug + Send + 'static>() {
//!     if let Err(failure) = hoistway_conformance::check::<P>() {
//!         panic!("{failure}");
//!     }
//! }
//! ```
//!
//! A failure names its seed: [`check_seeds`] with that seed alone replays it.
#![deny(unsafe_code)]

mod counting;

use std::any::type_name;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hoistway_block::random::Stream;
use hoistway_elevator::{Policy, Version, registry};
use hoistway_simulator::Storm;
use hoistway_testbed::{SteadyHost, drive_policy};

pub use counting::Counting;
use counting::{allocations_of, is_in_force};

/// Rounds of [`check`].
pub const ROUNDS: u64 = 60;
/// Bios of a storm.
const STORM_BIOS: u64 = 1_500;
/// Bytes that describe the random calls of a round: about 500 calls.
const CALL_BYTES: usize = 2_048;
/// Operations under the counting allocator.
const OPERATIONS: u32 = 10_000;
/// The limiters beside which a policy is stormed, in turn; most storms have none.
const LIMITERS: [&str; 8] = ["", "", "+throttle", "", "+wbt", "", "+io.latency", ""];

/// The part of a round that failed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A storm.
    Storm,
    /// Random host calls.
    RandomCalls,
    /// The count of allocations.
    Allocations,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Storm => "a storm",
            Part::RandomCalls => "random host calls",
            Part::Allocations => "the count of allocations",
        })
    }
}

/// What a policy did wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The policy's type, without its path.
    pub policy: &'static str,
    /// The seed of the round.
    pub seed: u64,
    /// The part of the round.
    pub part: Part,
    /// What does not hold.
    pub what: String,
    /// The last events before it, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { policy, seed, part, what, events } = self;
        writeln!(f, "{policy} fails in {part} with seed {seed}: {what}")?;
        for event in events {
            writeln!(f, "  {event}")?;
        }
        write!(f, "replay: conformance::check_seeds::<{policy}>([{seed}])")
    }
}

impl std::error::Error for Failure {}

/// What was done to a policy that passed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Bios submitted in storms, all of them answered.
    pub bios: u64,
    /// How often a request was passed over within the promise.
    pub passed_over: u64,
    /// Random host calls.
    pub calls: u64,
    /// Requests dispatched under the counting allocator.
    pub requests: u64,
}

/// Runs [`ROUNDS`] rounds: about half a minute in an optimised test.
///
/// # Errors
/// The first thing that is wrong. [`Counting`] must be the program's allocator.
pub fn check<P: Policy + fmt::Debug + Send + 'static>() -> Result<Report, Box<Failure>> {
    check_seeds::<P>(0..ROUNDS)
}

/// Runs a round for each of these seeds.
///
/// # Errors
/// As [`check`].
pub fn check_seeds<P>(seeds: impl IntoIterator<Item = u64>) -> Result<Report, Box<Failure>>
where
    P: Policy + fmt::Debug + Send + 'static,
{
    // The notation of schedulers gives a meaning to colons.
    let policy = type_name::<P>().rsplit("::").next().unwrap_or("policy");
    let failure = |seed, part, what: String| Failure { policy, seed, part, what, events: Vec::new() };
    registry::register::<P>(policy, "under test").map_err(|error| failure(0, Part::Storm, error.to_string()))?;
    if !is_in_force() {
        let what = "the program has another allocator; add\n  #[global_allocator]\n  static ALLOCATOR: \
                    conformance::Counting = conformance::Counting;";
        return Err(failure(0, Part::Allocations, what.to_owned()).into());
    }
    let mut report = Report::default();
    for seed in seeds {
        report.rounds += 1;
        storm(policy, seed, &mut report)?;
        random_calls(policy, seed, &mut report).map_err(|what| failure(seed, Part::RandomCalls, what))?;
        allocations(policy, seed, &mut report).map_err(|what| failure(seed, Part::Allocations, what))?;
    }
    Ok(report)
}

/// The forms of a policy, in turn.
fn version_of(policy: &str, seed: u64) -> Option<Version> {
    let versions = registry::find(policy).map_or(&[][..], |entry| entry.versions);
    versions.get(usize::try_from(seed).unwrap_or(0) % versions.len().max(1)).copied()
}

fn storm(policy: &'static str, seed: u64, report: &mut Report) -> Result<(), Box<Failure>> {
    let version = version_of(policy, seed).map_or_else(String::new, |Version(a, b, c)| format!("@{a}.{b}.{c}"));
    let limiter = LIMITERS[usize::try_from(seed).unwrap_or(0) % LIMITERS.len()];
    let storm = Storm { policy: format!("{policy}{version}{limiter}"), seed, bios: STORM_BIOS };
    let stormed = storm.run().map_err(|failure| {
        let what = format!("step {}: {}", failure.step, failure.what);
        Failure { policy, seed, part: Part::Storm, what, events: failure.events }
    })?;
    report.bios += stormed.bios;
    report.passed_over += stormed.passed_over;
    Ok(())
}

fn random_calls(policy: &str, seed: u64, report: &mut Report) -> Result<(), String> {
    let mut random = Stream::of(seed, "conformance/calls");
    let bytes: Vec<u8> = (0..CALL_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let driven = catch_unwind(AssertUnwindSafe(|| drive_policy(policy, &bytes).map(|(calls, _)| calls.0.len())));
    let calls = driven.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".to_owned())
    })?;
    report.calls += calls.unwrap_or(0) as u64;
    Ok(())
}

fn allocations(policy: &str, seed: u64, report: &mut Report) -> Result<(), String> {
    let kinds = SteadyHost::kinds_of_queue();
    let settings = &kinds[usize::try_from(seed).unwrap_or(0) % kinds.len()];
    let mut host = SteadyHost::new(policy, version_of(policy, seed), settings, seed);
    let count = allocations_of(|| (0..OPERATIONS).for_each(|_| host.step()));
    report.requests += host.started();
    match (count, host.queue_mut().violations()) {
        (0, 0) => Ok(()),
        (0, violations) => Err(format!("{violations} violations counted")),
        (count, _) => Err(format!("{count} allocations after construction, in {OPERATIONS} operations")),
    }
}
