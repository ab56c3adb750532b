//! Plugs that processes keep over several requests. A replay plugs requests as they were plugged
//! when they were recorded, so that they merge in the same way. A process that has to wait submits
//! what its plug holds, as in Linux.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_queue::Plug;

use super::Turn;

/// Connection and actor.
type Owner = (u32, u16);

/// The plugs that hold requests, and the one that currently takes parts.
#[derive(Debug, Default)]
pub(super) struct Plugs {
    open: BTreeMap<Owner, Plug>,
    submitting: Option<Owner>,
}

impl Plugs {
    /// The plug for the parts that are being submitted; `None` if they go to the queue directly.
    #[inline]
    pub(super) fn taking(&mut self) -> Option<&mut Plug> {
        self.open.get_mut(&self.submitting?)
    }

    /// Drops the plugs of a connection that is closed: the queue takes their requests back.
    pub(super) fn forget(&mut self, connection: u32) {
        if !self.open.is_empty() {
            self.open.retain(|(owner, _), _| *owner != connection);
        }
    }
}

impl Turn {
    /// Selects the plug for the next submission: that of its process, which `is_held` creates if
    /// the process has none.
    #[inline]
    pub fn plug(&mut self, connection: u32, actor: u16, is_held: bool) {
        if is_held {
            self.plugs.open.entry((connection, actor)).or_default();
        }
        if !self.plugs.open.is_empty() {
            self.plugs.submitting = Some((connection, actor));
        }
    }

    /// Ends a submission. Unless `is_held` says that more follows at once, everything in the plug
    /// is submitted to the scheduler.
    #[inline]
    pub fn end_plug(&mut self, is_held: bool, now: Nanos) {
        let Some(owner) = self.plugs.submitting.take() else { return };
        if !is_held && let Some(plug) = self.plugs.open.remove(&owner) {
            self.unplug(plug, now);
        }
    }

    /// Releases all plugs of a connection.
    #[inline]
    pub fn unplug_all(&mut self, connection: u32, now: Nanos) {
        if self.plugs.open.is_empty() {
            return;
        }
        let own = self.plugs.open.range((connection, 0)..=(connection, u16::MAX)).map(|(owner, _)| *owner);
        for owner in own.collect::<Vec<Owner>>() {
            if let Some(plug) = self.plugs.open.remove(&owner) {
                self.unplug(plug, now);
            }
        }
    }

    fn unplug(&mut self, mut plug: Plug, now: Nanos) {
        self.queue.unplug(&mut plug, now);
        self.take_trace();
    }
}
