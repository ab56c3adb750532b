//! The server's log: life-cycle events, changes and errors, as lines on standard error.
//!
//! ```text
//! any thread: tracing event ─► filter ─► rate limit ─► line ─► bounded queue ─► writer thread ─► stderr
//! ```
//! Promise  no event blocks the thread that has it, and none that threads of devices have waits for a
//!          reader: if the queue is full, its line is dropped and counted.
//! Cost     nothing per request; an event is an allocation of a few hundred bytes.
//! Memory   1,024 lines, and a counter for each kind of event.
//!
//! All events with their fields: docs/reference/logs.md.

pub mod events;
mod format;
mod layer;
mod limit;
mod settings;
mod writer;

use std::io::Write;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

pub use settings::{Filter, Format, LogOverrides, LogSettings, TARGETS};

use format::Style;
use layer::Lines;
use settings::InForce;
use writer::{Flusher, LineQueue};

/// The one log of the process.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    /// Settings that no configuration file overrides: those of the command line.
    given: LogOverrides,
    in_force: Arc<RwLock<InForce>>,
}

/// Writes what is queued when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the log's guarantee that queued lines are written"]
pub struct Guard(Option<Flusher>);

impl Guard {
    /// Writes what is queued.
    pub fn flush(&self) {
        if let Some(flusher) = &self.0 {
            flusher.flush();
        }
    }
}

/// Starts the process's log. `given` are the settings of the command line, `configured` those of the
/// file, `sink` takes the lines. A process has one log: a second call changes nothing.
pub fn start(given: LogOverrides, configured: &LogSettings, sink: Box<dyn Write + Send>) -> Guard {
    let in_force = Arc::new(RwLock::new(InForce::new(&given, configured)));
    let Ok(queue) = LineQueue::start(sink, Arc::clone(&in_force)) else { return Guard(None) };
    let flusher = queue.flusher();
    let lines = Lines::new(Arc::clone(&in_force), queue);
    if tracing::subscriber::set_global_default(Registry::default().with(lines)).is_err() {
        return Guard(None);
    }
    let _ = LOG.set(Log { given, in_force });
    Guard(Some(flusher))
}

/// Applies the settings of a configuration that was read again.
pub fn configure(configured: &LogSettings) {
    if let Some(log) = LOG.get() {
        *log.in_force.write().unwrap_or_else(PoisonError::into_inner) = InForce::new(&log.given, configured);
    }
}

/// The form of lines now.
fn style(in_force: &RwLock<InForce>) -> Style {
    in_force.read().unwrap_or_else(PoisonError::into_inner).style
}
