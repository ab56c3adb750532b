//! Takes the events of `tracing`: filters and limits them, and queues their lines.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::format::Record;
use super::limit::Admission;
use super::settings::InForce;
use super::style;
use super::writer::LineQueue;

/// The layer.
pub(super) struct Lines {
    in_force: Arc<RwLock<InForce>>,
    queue: LineQueue,
}

impl Lines {
    pub fn new(in_force: Arc<RwLock<InForce>>, queue: LineQueue) -> Self {
        Self { in_force, queue }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    /// The filter may change, so that no answer of it may be kept.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).is_enabled(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        match self.queue.admit(metadata.name(), metadata.target(), *metadata.level(), Instant::now()) {
            Admission::Write => self.queue.push(Record::of(event).line(style(&self.in_force))),
            Admission::BeginToLeaveOut => self.queue.wake(),
            Admission::LeaveOut => {}
        }
    }
}
