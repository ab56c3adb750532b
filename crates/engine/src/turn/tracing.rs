//! What the queue and its policies tell, collected while somebody listens. Off it costs a look at one flag per call.

use block::ContextId;
pub use queue::Told as Traced;

use super::Turn;

impl Turn {
    /// Begins or ends listening.
    pub fn set_tracing(&mut self, on: bool) {
        self.queue.set_tracing(on);
        self.is_traced = on;
    }

    /// Called after each call that may tell something: the queue and the policies keep only the last of it.
    #[inline]
    pub(super) fn listen(&mut self) {
        if self.is_traced {
            self.collect();
        }
    }

    #[cold]
    fn collect(&mut self) {
        while let Some(told) = self.queue.take_told() {
            self.traced.push(told);
        }
    }

    /// Everything told and not taken yet.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        std::mem::take(&mut self.traced)
    }

    /// The context in which a connection's requests are made.
    pub fn context_of(&self, connection: u32) -> Option<ContextId> {
        self.connections.get(connection).map(super::state::context_id)
    }
}
