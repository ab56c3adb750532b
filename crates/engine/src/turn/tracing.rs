//! Collects trace events of the queue and its policies while there is a sink. Without one, the
//! cost is one flag test per call.

use hoistway_block::ContextId;
pub use hoistway_queue::TraceItem as Traced;

use super::Turn;

impl Turn {
    /// Starts or stops collecting.
    pub fn set_tracing(&mut self, on: bool) {
        self.queue.set_tracing(on);
        self.is_traced = on;
    }

    /// Called after each call that may produce events, because the queue and the policies keep only
    /// those of the last call.
    #[inline]
    pub(super) fn take_trace(&mut self) {
        if self.is_traced {
            self.collect();
        }
    }

    #[cold]
    fn collect(&mut self) {
        while let Some(item) = self.queue.take_item() {
            self.traced.push(item);
        }
    }

    /// Takes all collected events.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        std::mem::take(&mut self.traced)
    }

    /// The context of a connection's requests.
    pub fn context_of(&self, connection: u32) -> Option<ContextId> {
        self.connections.get(connection).map(super::state::context_id)
    }
}
