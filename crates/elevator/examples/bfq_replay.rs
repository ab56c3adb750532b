//! Replays logs of the kernel's BFQ and prints how many events our policy answers in the same way; the
//! lines before a difference go to stderr.
//!
//! ```text
//! cargo run --release -p hoistway-elevator --example bfq_replay -- FOLDER
//! ```
//! FOLDER holds `NAME.log` as docs/measured/2026-11-26-bfq-ioprio/record writes them; a name that ends
//! with `-0` was recorded with low_latency=0.

#[path = "../tests/bfq_kernel/replay.rs"]
mod replay;

use std::io::{Error, Result};
use std::process::ExitCode;

use replay::Replay;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: bfq_replay FOLDER (of *.log)");
        return ExitCode::from(2);
    };
    match replay_folder(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bfq_replay: {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn replay_folder(folder: &str) -> Result<()> {
    let mut logs = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    logs.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    logs.sort();
    if logs.is_empty() {
        return Err(Error::other("no *.log in it"));
    }
    for path in logs {
        let log = std::fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let tunables = if name.ends_with("-0") { "low_latency=0" } else { "" };
        let [new, old] = ["6.18", "6.8"].map(|form| Replay::new(&format!("{form}:{tunables}"), &log).run(&log));
        if new.first_difference.is_some() {
            eprintln!("{name}:\n{}", new.last_lines());
        }
        let difference = new.first_difference.unwrap_or_default();
        let (same, old_same) = (new.same, old.same);
        println!(
            "{name}: {} events, {} turns; {same} same, form of 6.8 {old_same}; {} requests; {difference}",
            new.events, new.turns, new.requests
        );
    }
    Ok(())
}
