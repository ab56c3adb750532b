//! Direct requests: the device reads from or writes to memory of the client, so that nothing is
//! copied and their parts need no memory of the engine.

use hoistway_block::Nanos;
use hoistway_linux::buffer::Span;

use super::state::Part;
use super::{Actions, Turn, Verdict};
use crate::protocol::ClientRequest;

impl Turn {
    /// The alignment that a direct request of a connection needs: of its range, and of the address and
    /// length of each span. `None` if the volume takes no direct requests.
    pub fn direct_alignment(&self, connection: u32) -> Option<u32> {
        let abilities = &self.volume_of(connection)?.abilities;
        (!abilities.is_null).then_some(abilities.alignment_bytes)
    }

    /// [`Turn::submit`] for a read or write whose data is in `memory`, which is as long as the request
    /// and aligned as [`Turn::direct_alignment`] says.
    pub fn submit_direct(
        &mut self,
        connection: u32,
        asked: ClientRequest,
        memory: &[Span],
        now: Nanos,
        actions: &mut Actions,
    ) -> Verdict {
        let own = &mut self.connections[connection].memory;
        own.clear();
        own.extend_from_slice(memory);
        self.submit(connection, ClientRequest { is_direct: true, ..asked }, now, actions)
    }

    /// A pending direct request has become `request`, so its memory is kept there.
    pub(super) fn keep_client_memory(&mut self, request: u32) {
        let index = request as usize;
        if self.client_memory.len() <= index {
            self.client_memory.resize_with(index + 1, Vec::new);
        }
        let connection = self.requests[request].connection;
        std::mem::swap(&mut self.client_memory[index], &mut self.connections[connection].memory);
    }

    /// Whether a part uses memory of the client.
    #[inline]
    pub(super) fn is_direct(&self, part: &Part) -> bool {
        self.requests[part.request].asked.is_direct
    }

    /// The client's memory for a direct part without its first `skip_bytes`.
    pub(super) fn client_memory_of(&self, part: &Part, skip_bytes: u32) -> impl Iterator<Item = Span> + '_ {
        let before = part.offset_bytes - self.requests[part.request].asked.offset_bytes + u64::from(skip_bytes);
        let (mut skip, mut left) = (before, part.length_bytes - skip_bytes);
        self.client_memory[part.request as usize].iter().filter_map(move |span| {
            let here = u32::try_from(skip.min(u64::from(span.length_bytes))).unwrap_or(span.length_bytes);
            skip -= u64::from(here);
            let behind = span.behind(here);
            let taken = Span { length_bytes: behind.length_bytes.min(left), ..behind };
            left -= taken.length_bytes;
            (taken.length_bytes > 0).then_some(taken)
        })
    }
}
