//! Compares our mq-deadline and kyber with the kernel's: the same random batches must have the same
//! order of issue.
//!
//! One io_uring_enter of more than two I/Os collects in the submitter's plug and enters the
//! scheduler of a loop device as one batch; the tracepoint block_rq_issue reports the order of
//! dispatch. Our request queue gets the same batch through its plug. Needs root, a loop device, the
//! scheduler, io_uring, tracefs and kernel 6.5 or later; otherwise a test says `skipped:` and why,
//! or fails where HOISTWAY_NO_SKIP is set. `HOISTWAY_SEED=n` replays one chain of batches,
//! `HOISTWAY_BATCHES=n` compares more of them.
//!
//! Run: `cargo test -p hoistway --test kernel_differential -- --nocapture`
//!
//! [`chains`] documents what is compared and what cannot be; `kernel` dispatches a batch with the
//! kernel's scheduler, and [`ours`] with that of this repository.

mod chains;
mod kernel;
mod loop_device;
mod ours;
mod submission;
mod trace;

use chains::Chain;
use hoistway_block::{Class, Operation};
use hoistway_testbed::notation::show;
use kernel::Kernel;
use ours::Ours;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A request in the form common to both sides: operation, first sector, sectors, class.
type Issued = (Operation, u64, u32, Class);

/// A policy and a kind of batches.
struct Comparison {
    elevator: &'static str,
    /// The name of the test, for the line that replays a seed.
    test: &'static str,
    /// Smallest number of batches to compare.
    batches: u64,
    /// The chain of a seed; the flag says whether the device supports discards.
    chain_of: fn(u64, bool) -> Chain,
}

#[test]
fn mq_deadline_issues_every_batch_in_our_order() {
    compare(&Comparison {
        elevator: "mq-deadline",
        test: "mq_deadline_issues_every_batch_in_our_order",
        batches: 600,
        chain_of: |seed, _| chains::mq_deadline(seed),
    });
}

#[test]
fn mq_deadline_ranks_the_classes_of_every_batch_as_we_do() {
    compare(&Comparison {
        elevator: "mq-deadline",
        test: "mq_deadline_ranks_the_classes_of_every_batch_as_we_do",
        batches: 600,
        chain_of: |seed, _| chains::mq_deadline_of_several_classes(seed),
    });
}

#[test]
fn kyber_takes_turns_between_kinds_as_we_do() {
    compare(&Comparison {
        elevator: "kyber",
        test: "kyber_takes_turns_between_kinds_as_we_do",
        batches: 600,
        chain_of: chains::kyber,
    });
}

/// Attempts before a chain is skipped: a batch is split if its submitter sleeps halfway.
const ATTEMPTS: u32 = 4;

/// Set by SIGINT and SIGTERM, so that scheduler and tracing are also restored then.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The tests of this file take turns, so that none makes another's submitter sleep.
static TURN: Mutex<()> = Mutex::new(());

/// Reports that nothing was compared, bypassing the output capture of the test harness.
fn skipped(test: &str, reason: &str) {
    assert!(std::env::var_os("HOISTWAY_NO_SKIP").is_none(), "may not be skipped, but: {reason}");
    let _ = writeln!(io::stderr(), "skipped: {test}: {reason}");
}

#[derive(Default)]
struct Sum {
    batches: u64,
    requests: u64,
    /// Batches that did not enter as a whole.
    split: u64,
    /// Batches with more than one class, and with more than one operation.
    mixed_classes: u64,
    mixed_operations: u64,
    discards: u64,
}

fn compare(comparison: &Comparison) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut kernel = match Kernel::open(comparison.elevator) {
        Ok(kernel) => kernel,
        Err(reason) => return skipped(comparison.test, &reason),
    };
    let replayed = number_from("HOISTWAY_SEED");
    let batches = number_from("HOISTWAY_BATCHES").unwrap_or(comparison.batches);
    let mut sum = Sum::default();
    for seed in replayed.map_or(0..u64::MAX, |seed| seed..seed + 1) {
        let mut attempts = 0;
        while attempts < ATTEMPTS && !run_chain(seed, comparison, &mut kernel, &mut sum) {
            attempts += 1;
        }
        assert!(
            !INTERRUPTED.load(Ordering::Relaxed),
            "interrupted after {} batches; everything is put back",
            sum.batches
        );
        if sum.batches >= batches {
            break;
        }
        // Without this bound, a kernel that splits every batch would be tried forever.
        assert!(sum.split <= 100 + sum.batches / 10, "{} batches split, {} compared", sum.split, sum.batches);
    }
    let Sum { batches, requests, split, mixed_classes, mixed_operations, discards } = sum;
    eprintln!(
        "{}: {batches} batches of {requests} requests in the same order, {mixed_classes} of several classes, \
         {mixed_operations} of several operations, {discards} requests were discards; \
         {split} batches were split by the kernel and their chains tried again",
        comparison.test
    );
    assert!(split * 10 <= batches, "{split} of {batches} batches did not enter as one");
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Batches one after the other on a fresh scheduler, whose state carries over. False if the kernel
/// split one; then the chain has no result, since the state is unknown from there on.
fn run_chain(seed: u64, comparison: &Comparison, kernel: &mut Kernel, sum: &mut Sum) -> bool {
    let Chain { tunables, batches } = (comparison.chain_of)(seed, kernel.takes_discards());
    kernel.reset(&tunables);
    let mut compared = Sum::default();
    let mut ours = Ours::new(comparison.elevator, &tunables, kernel);
    for (step, batch) in batches.iter().enumerate() {
        let Some(issued) = kernel.issue(batch) else {
            sum.split += 1;
            return false;
        };
        let expected = ours.issue(batch);
        let text = batch.iter().map(show).collect::<Vec<_>>().join(" ");
        assert_eq!(
            issued, expected,
            "the kernel (left) and we (right) differ: HOISTWAY_SEED={seed} {}, batch {step}, {tunables:?}\n  {{{text}}}\n",
            comparison.test
        );
        compared.count(&expected);
    }
    sum.add(&compared);
    true
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.batches += other.batches;
        self.requests += other.requests;
        self.split += other.split;
        self.mixed_classes += other.mixed_classes;
        self.mixed_operations += other.mixed_operations;
        self.discards += other.discards;
    }

    fn count(&mut self, issued: &[Issued]) {
        self.batches += 1;
        self.requests += issued.len() as u64;
        let Some((first_operation, .., first_class)) = issued.first() else { return };
        self.mixed_classes += u64::from(issued.iter().any(|(.., class)| class != first_class));
        self.mixed_operations += u64::from(issued.iter().any(|(operation, ..)| operation != first_operation));
        self.discards += issued.iter().filter(|(operation, ..)| *operation == Operation::Discard).count() as u64;
    }
}
