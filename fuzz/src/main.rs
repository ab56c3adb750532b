//! Fuzzing on stable Rust: one list of targets, a seeded driver, and a target that must fail.
//!
//! ```text
//! cargo run -p hoistway-fuzz -- list
//! cargo run -p hoistway-fuzz -- nbd-handshake --seed 42 --seconds 600
//! cargo run -p hoistway-fuzz -- nbd-handshake --file target/debug/fuzz-findings/nbd-handshake-...
//! cargo run -p hoistway-fuzz -- smoke        every target briefly, as in CI
//! cargo run -p hoistway-fuzz -- canary       must find, shorten and print an input, and exit with 1
//! ```
//! The same seed gives the same inputs, so a finding can be replayed from seed and commit as well
//! as from its bytes.
#![forbid(unsafe_code)]

mod driver;
mod mutate;
mod shorten;
mod target;
mod targets;
mod worker;

use clap::Parser;
use driver::Outcome;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use target::Target;
use targets::{CANARY, targets};
use worker::{Budget, Tally};

/// How long `smoke` spends on each target.
const SMOKE_SECONDS: u64 = 4;
/// Default time per target.
const DEFAULT_SECONDS: u64 = 60;
/// Exit code if there is a finding.
const FOUND: u8 = 1;
/// Exit code for invalid arguments or errors of the system.
const TROUBLE: u8 = 2;

#[derive(Parser)]
#[command(name = "hoistway-fuzz", about = "Feeds random input to parsers and policies until a promise breaks")]
struct Arguments {
    /// A target, or: list (print all targets), smoke (each target briefly), canary (one that must
    /// fail).
    what: String,
    /// The same seed gives the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest number of inputs.
    #[arg(long)]
    runs: Option<u64>,
    /// Longest time in seconds for each target; 60 (smoke: 4) if neither this nor `--runs` is
    /// given.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Run only the input in this file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Run as the worker process, and keep the present input in this file.
    #[arg(long, hide = true)]
    worker: Option<PathBuf>,
    /// Run as the worker process for the one input of `--file`.
    #[arg(long, hide = true)]
    once: bool,
}

fn main() -> ExitCode {
    match act(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(error) => {
            eprintln!("hoistway-fuzz: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// Whether nothing was found.
fn act(arguments: &Arguments) -> std::io::Result<bool> {
    let Arguments { what, seed, file, worker, .. } = arguments;
    match (what.as_str(), worker, file) {
        ("list", ..) => {
            for target in targets() {
                println!("{:24}{}", target.name, target.promise);
            }
            Ok(true)
        }
        ("smoke", ..) => smoke(*seed, budget(arguments, SMOKE_SECONDS)),
        (name, Some(current), _) => {
            let Tally { runs, seen } = worker::work(&find(name)?, *seed, budget(arguments, DEFAULT_SECONDS), current)?;
            println!("{runs} inputs, {seen} different outcomes");
            Ok(true)
        }
        (name, None, Some(file)) if arguments.once => {
            worker::work_one(&find(name)?, &std::fs::read(file)?);
            Ok(true)
        }
        (name, None, Some(file)) => replay(&find(name)?, file),
        (name, None, None) => fuzz(&find(name)?, *seed, budget(arguments, DEFAULT_SECONDS)),
    }
}

/// Fuzzes all targets, one process each, as many at a time as there are CPUs.
fn smoke(seed: u64, budget: Budget) -> std::io::Result<bool> {
    let (all, next) = (targets().collect::<Vec<_>>(), AtomicUsize::new(0));
    let some = || {
        let mut is_clean = true;
        while let Some(target) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            is_clean &= fuzz(target, seed, budget)?;
        }
        Ok(is_clean)
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(some)).collect();
        workers.into_iter().try_fold(true, |is_clean, worker| {
            let own: std::io::Result<bool> = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(is_clean & own?)
        })
    })
}

fn budget(arguments: &Arguments, default_seconds: u64) -> Budget {
    let seconds = arguments.seconds.or_else(|| arguments.runs.is_none().then_some(default_seconds));
    Budget { runs: arguments.runs, time: seconds.map(Duration::from_secs) }
}

fn fuzz(target: &Target, seed: u64, budget: Budget) -> std::io::Result<bool> {
    match driver::fuzz(target, seed, budget)? {
        Outcome::Clean(tally) => {
            println!("{:24}{tally}", target.name);
            Ok(true)
        }
        Outcome::Found(finding) => {
            println!("{:24}FOUND with --seed {seed}\n{finding}", target.name);
            let (name, file) = (target.name, finding.file.display());
            println!("  replay  cargo run -p hoistway-fuzz -- {name} --file {file}");
            Ok(false)
        }
    }
}

fn replay(target: &Target, file: &Path) -> std::io::Result<bool> {
    let input = std::fs::read(file)?;
    match driver::replay(target, &input, Duration::from_secs(DEFAULT_SECONDS))? {
        None => {
            println!("{}: no finding with the {} bytes of {}", target.name, input.len(), file.display());
            Ok(true)
        }
        Some((ended, message)) => {
            println!("{}: {ended}\n{message}", target.name);
            Ok(false)
        }
    }
}

fn find(name: &str) -> std::io::Result<Target> {
    let mut known = targets().chain([&CANARY]);
    known.find(|target| target.name == name).copied().ok_or_else(|| {
        let names: Vec<_> = targets().map(|target| target.name).collect();
        std::io::Error::other(format!("there is no target {name:?}; there are {}", names.join(", ")))
    })
}
