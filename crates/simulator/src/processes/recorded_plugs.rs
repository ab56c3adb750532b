//! Plugs that processes hold across several I/Os, as the trace recorded them, so that the replay of
//! a trace merges the same bios as when it was recorded. As in Linux, a process that has to wait
//! flushes its plug.

use std::collections::BTreeMap;

use hoistway_queue::Plug;

/// Who holds a plug: an issuer, and one of the recorded processes whose I/O it replays.
pub(super) type Holder = (usize, u16);

/// The plugs that are not empty, and whether a plugged submission is in progress.
#[derive(Debug, Default)]
pub(super) struct RecordedPlugs {
    open: BTreeMap<Holder, Plug>,
    is_submitting: bool,
}

impl RecordedPlugs {
    /// Whether any process holds a plug.
    #[inline]
    pub(super) fn are_held(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the current submission stays in the submitter's plug.
    #[inline]
    pub(super) fn is_submitting(&self) -> bool {
        self.is_submitting
    }

    /// A submission in a plug begins, or ends.
    pub(super) fn set_submitting(&mut self, is_submitting: bool) {
        self.is_submitting = is_submitting;
    }

    /// Takes a holder's plug.
    pub(super) fn take(&mut self, holder: Holder) -> Option<Plug> {
        self.open.remove(&holder)
    }

    /// The holder keeps its plug.
    pub(super) fn keep(&mut self, holder: Holder, plug: Plug) {
        self.open.insert(holder, plug);
    }

    /// Takes a plug of an issuer, in the order of its processes.
    pub(super) fn take_of(&mut self, issuer: usize) -> Option<Plug> {
        let holder = *self.open.range((issuer, 0)..=(issuer, u16::MAX)).next()?.0;
        self.take(holder)
    }
}
