//! SIGINT, SIGTERM and SIGHUP as a flag that can be polled.
//!
//! The first signal asks every run to end and lets the command clean up; a second one ends the
//! process at once. Temporary files have no name during runs (`target.rs`), so that even a sudden
//! end leaves none behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hoistway_experiment::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Error;

/// Whether a signal asked the command to end, and which.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Installs the signal handlers.
    pub fn install() -> Result<Self, Error> {
        let asked = Arc::new(AtomicUsize::new(0));
        let failed = |error: std::io::Error| Error::failed(format!("cannot listen for signals: {error}"), "");
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated), (SIGHUP, Exit::Terminated)] {
            let once = Arc::new(AtomicBool::new(false));
            // The order matters: the shutdown checks whether an earlier signal was recorded.
            signal_hook::flag::register_conditional_shutdown(signal, i32::from(exit.code()), once.clone())
                .map_err(failed)?;
            signal_hook::flag::register(signal, once).map_err(failed)?;
            signal_hook::flag::register_usize(signal, asked.clone(), exit.code().into()).map_err(failed)?;
        }
        Ok(Self(asked))
    }

    /// The exit code, if the command was asked to end.
    pub fn exit(&self) -> Option<Exit> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            code if code == usize::from(Exit::Interrupted.code()) => Some(Exit::Interrupted),
            _ => Some(Exit::Terminated),
        }
    }

    /// Whether the command was asked to end.
    pub fn is_asked(&self) -> bool {
        self.exit().is_some()
    }

    /// Sleeps, at most until a signal.
    pub fn rest(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        let end = Instant::now() + time;
        while !self.is_asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}
