//! The sockets of a worker, and which of them have work for the next turn of the loop.

use std::collections::VecDeque;

use hoistway_block::{Nanos, time};
use hoistway_linux::buffer::Span;

use super::stream::Socket;

/// The sockets, by index. A socket that is taken out for a while keeps its index; one that is
/// removed is in no list.
#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<Option<Box<Socket>>>,
    free: Vec<u32>,
    /// Of the last socket, so that completions for an earlier one of the same index are told apart.
    generation: u16,
    /// With received bytes that were left unparsed for fairness, in the order of service.
    ready: VecDeque<u32>,
    /// With output that is not being sent.
    dirty: VecDeque<u32>,
    /// That may receive more when what they have received is copied.
    emptied: Vec<u32>,
    payloads: Vec<PayloadCopy>,
    /// The time of the next check for stalled clients.
    stall_check_at_ns: Option<Nanos>,
}

/// Bytes of a payload that are still in a receive buffer, which takes no new ones before they are copied.
#[derive(Copy, Clone, Debug)]
pub(super) struct PayloadCopy {
    pub from: Span,
    pub to: Span,
    /// The part, if these are its last bytes.
    pub part: Option<u32>,
}

impl Sockets {
    /// The generation of the next socket; 12 bits, as a token has room for.
    pub(super) fn next_generation(&mut self) -> u16 {
        self.generation = self.generation.wrapping_add(1) & 0xfff;
        self.generation
    }

    /// Adds a socket; returns its index.
    pub(super) fn insert(&mut self, socket: Socket) -> u32 {
        let free = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        self.places[free as usize] = Some(Box::new(socket));
        free
    }

    /// Removes a socket; its index is free.
    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Socket>> {
        let socket = self.take(index)?;
        self.free.push(index);
        self.ready.retain(|&other| other != index);
        self.dirty.retain(|&other| other != index);
        self.emptied.retain(|&other| other != index);
        Some(socket)
    }

    /// Takes a socket out, so that the worker can be used beside it; [`Sockets::put_back`] follows.
    #[inline]
    pub(super) fn take(&mut self, index: u32) -> Option<Box<Socket>> {
        self.places.get_mut(index as usize)?.take()
    }

    #[inline]
    pub(super) fn put_back(&mut self, index: u32, socket: Box<Socket>) {
        self.places[index as usize] = Some(socket);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Socket> {
        self.places.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Socket> {
        self.places.get_mut(index as usize)?.as_deref_mut()
    }

    /// The socket that a completion is for; `None` if it is gone.
    #[inline]
    pub(super) fn of(&mut self, index: u32, generation: u16) -> Option<&mut Socket> {
        self.get_mut(index).filter(|socket| socket.generation == generation)
    }

    /// All sockets.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.places.iter_mut().flatten().map(|socket| &mut **socket)
    }

    /// All indexes, used or free.
    pub(super) fn indexes(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    // ---- work for the next turn ----

    /// Whether any socket has received bytes that are left for the next turn.
    pub(super) fn have_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A socket has received bytes that are left for later.
    pub(super) fn serve_later(&mut self, index: u32) {
        self.ready.push_back(index);
    }

    /// Bytes to be copied at the end of this turn.
    #[inline]
    pub(super) fn copy_later(&mut self, payload: PayloadCopy) {
        self.payloads.push(payload);
    }

    /// The bytes to be copied.
    #[inline]
    pub(super) fn payloads(&self) -> &[PayloadCopy] {
        &self.payloads
    }

    /// Forgets the bytes, which were copied; returns the parts that are complete by them.
    #[inline]
    pub(super) fn take_copied(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.payloads.drain(..).filter_map(|payload| payload.part)
    }

    /// A socket is to receive more when this turn's payloads are copied.
    #[inline]
    pub(super) fn receive_later(&mut self, index: u32) {
        self.emptied.push(index);
    }

    /// A socket that is to receive more.
    #[inline]
    pub(super) fn next_to_receive(&mut self) -> Option<u32> {
        self.emptied.pop()
    }

    /// How many sockets are to be served.
    pub(super) fn to_serve(&self) -> usize {
        self.ready.len()
    }

    /// The next socket to serve. Service is in rotation: one that is not finished goes to the end.
    pub(super) fn next_to_serve(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// A socket has output to send.
    #[inline]
    pub(super) fn mark_dirty(&mut self, index: u32) {
        let is_new = self.get_mut(index).is_some_and(|socket| socket.outgoing.becomes_dirty());
        if is_new {
            self.dirty.push_back(index);
        }
    }

    /// Takes the socket that has had output to send for longest.
    #[inline]
    pub(super) fn next_dirty(&mut self) -> Option<u32> {
        let index = self.dirty.pop_front()?;
        if let Some(socket) = self.get_mut(index) {
            socket.outgoing.becomes_clean();
        }
        Some(index)
    }
    /// Schedules a check for stalled clients at `at_ns`, unless an earlier one is scheduled.
    #[inline]
    pub(super) fn expect_stall(&mut self, at_ns: Nanos) {
        self.stall_check_at_ns = Some(self.stall_check_at_ns.map_or(at_ns, |earlier| earlier.min(at_ns)));
    }

    /// The time of the next check for stalled clients.
    pub(super) fn stall_check_at_ns(&self) -> Option<Nanos> {
        self.stall_check_at_ns
    }

    /// Whether the check for stalled clients is due; if so, it is no longer scheduled.
    #[inline]
    pub(super) fn take_stall_check(&mut self, now: Nanos) -> bool {
        self.stall_check_at_ns.take_if(|at| time::is_due(now, *at)).is_some()
    }
}
