//! SIGINT, SIGTERM and SIGHUP as something that can be asked for.
//!
//! The first signal asks every run to end and lets the command put its things away; a second one ends the process at
//! once. Temporary files have no name while runs go on (`target.rs`), so even that leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use experiment::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Error;

/// Whether, and by what, the command was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes the signals over.
    pub fn install() -> Result<Self, Error> {
        let asked = Arc::new(AtomicUsize::new(0));
        let failed = |error: std::io::Error| Error::failed(format!("cannot listen for signals: {error}"), "");
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated), (SIGHUP, Exit::Terminated)] {
            let once = Arc::new(AtomicBool::new(false));
            // In this order: the shutdown looks at what an earlier signal left.
            signal_hook::flag::register_conditional_shutdown(signal, i32::from(exit.code()), once.clone())
                .map_err(failed)?;
            signal_hook::flag::register(signal, once).map_err(failed)?;
            signal_hook::flag::register_usize(signal, asked.clone(), exit.code().into()).map_err(failed)?;
        }
        Ok(Self(asked))
    }

    /// How the command is to end, if it was asked to.
    pub fn exit(&self) -> Option<Exit> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            code if code == usize::from(Exit::Interrupted.code()) => Some(Exit::Interrupted),
            _ => Some(Exit::Terminated),
        }
    }

    /// Whether it was asked to end.
    pub fn is_asked(&self) -> bool {
        self.exit().is_some()
    }

    /// Waits, but not beyond a signal.
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
