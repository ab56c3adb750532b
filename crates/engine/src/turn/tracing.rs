//! Collects trace events of the queue and its policies while there is a sink. Without one, the
//! cost is one flag test per call.

use hoistway_block::ContextId;
pub use hoistway_queue::TraceItem as Traced;

use super::Turn;

/// The events collected since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Collected {
    is_on: bool,
    items: Vec<Traced>,
}

impl Turn {
    /// Starts or stops collecting.
    pub fn set_tracing(&mut self, on: bool) {
        self.queue.set_tracing(on);
        self.collected.is_on = on;
    }

    /// Called after each call that may produce events, because the queue and the policies keep only
    /// those of the last call.
    #[inline]
    pub(super) fn take_trace(&mut self) {
        if self.collected.is_on {
            self.collect();
        }
    }

    #[cold]
    fn collect(&mut self) {
        while let Some(item) = self.queue.take_item() {
            self.collected.items.push(item);
        }
    }

    /// Takes all collected events.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        std::mem::take(&mut self.collected.items)
    }

    /// The context of a connection's requests.
    pub fn context_of(&self, connection: u32) -> Option<ContextId> {
        self.connections.get(connection).map(super::state::context_id)
    }
}
