//! Replays one storm, or a range of them: `cargo run --release -p hoistway-simulator --example
//! storm -- POLICY SEED BIOS`. With FIRST..LAST for SEED it prints the first line of every failure
//! and their number.

use std::ops::Range;
use std::process::ExitCode;

use hoistway_simulator::Storm;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, seeds, bios] = arguments.as_slice() else {
        eprintln!("usage: storm POLICY SEED BIOS, for example: storm mq-deadline 42 10000, or 0..500 for the seed");
        return ExitCode::from(2);
    };
    let (Some(seeds), Ok(bios)) = (seeds_of(seeds), bios.parse()) else {
        eprintln!("error: SEED '{seeds}' and BIOS '{bios}' must be whole numbers");
        return ExitCode::from(2);
    };
    if seeds.end - seeds.start > 1 { run_all(policy, seeds, bios) } else { run(policy, seeds.start, bios) }
}

fn seeds_of(text: &str) -> Option<Range<u64>> {
    let Some((first, last)) = text.split_once("..") else {
        let seed = text.parse().ok()?;
        return Some(seed..seed + 1);
    };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first < last).then_some(first..last)
}

fn run(policy: &str, seed: u64, bios: u64) -> ExitCode {
    match (Storm { policy: policy.to_owned(), seed, bios }).run() {
        Ok(report) => {
            println!("{report:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(policy: &str, seeds: Range<u64>, bios: u64) -> ExitCode {
    let (mut failures, mut requests) = (0_u64, 0);
    for seed in seeds.clone() {
        match (Storm { policy: policy.to_owned(), seed, bios }).run() {
            Ok(report) => requests += report.requests - report.requeued,
            Err(failure) => {
                failures += 1;
                println!("{}", failure.to_string().lines().next().unwrap_or_default());
            }
        }
    }
    println!("{policy}: {failures} of {} storms failed; {requests} requests", seeds.end - seeds.start);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
