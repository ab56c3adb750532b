//! What holds all requests back: the queue's plug and barriers.

use hoistway_block::{Nanos, RequestId};

/// The gate before the device.
///
/// Invariant: it is closed while the queue is plugged or a barrier is in flight. A dispatch reads that one flag, and the
/// rest only if it is set.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_closed: bool,
    is_plugged: bool,
    /// The time at which the plug is removed without a call of the host.
    until: Option<Nanos>,
    /// Barriers in flight.
    barriers: u32,
    /// The barrier being run: only its flushes and itself go to the device.
    current: Option<RequestId>,
}

impl Gate {
    /// Whether a plug or a barrier may hold requests back.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    // ---- the plug ----

    #[inline]
    pub(crate) fn is_plugged(&self) -> bool {
        self.is_plugged
    }

    /// When the plug is removed without a call of the host.
    #[inline]
    pub(crate) fn plugged_until(&self) -> Option<Nanos> {
        self.until
    }

    pub(crate) fn plug(&mut self, until: Option<Nanos>) {
        (self.is_plugged, self.until) = (true, until);
        self.update();
    }

    pub(crate) fn unplug(&mut self) {
        (self.is_plugged, self.until) = (false, None);
        self.update();
    }

    // ---- barriers ----

    /// A barrier arrived.
    pub(crate) fn add_barrier(&mut self) {
        self.barriers += 1;
        self.update();
    }

    /// The barrier being run.
    pub(crate) fn current(&self) -> Option<RequestId> {
        self.current
    }

    /// This barrier is run from now on.
    pub(crate) fn begin(&mut self, id: RequestId) {
        self.current = Some(id);
    }

    /// A request has ended. Returns whether it was the barrier being run.
    #[cold]
    pub(crate) fn end(&mut self, id: RequestId) -> bool {
        let is_end = self.current == Some(id);
        if is_end {
            self.current = None;
            self.forget_barrier();
        }
        is_end
    }

    /// A barrier that has not begun was taken back.
    #[cold]
    pub(crate) fn forget_barrier(&mut self) {
        self.barriers = self.barriers.saturating_sub(1);
        self.update();
    }

    fn update(&mut self) {
        self.is_closed = self.is_plugged || self.barriers > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_when_the_plug_is_out_and_every_barrier_has_ended() {
        let (mut gate, [first, second]) = (Gate::default(), [0, 1].map(RequestId::from_raw));
        gate.plug(Some(500));
        gate.add_barrier();
        gate.add_barrier();
        gate.unplug();
        assert_eq!((gate.is_closed(), gate.plugged_until()), (true, None));
        gate.begin(first);
        assert!(!gate.end(second) && gate.end(first) && !gate.end(first) && gate.is_closed());
        gate.forget_barrier();
        assert!(!gate.is_closed());
    }
}
