//! Plugs that processes hold across several I/Os, as the trace recorded them, so that the replay of
//! a trace merges the same bios as when it was recorded. As in Linux, a process that has to wait
//! flushes its plug.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_elevator::Elevator;
use hoistway_queue::{Plug, RequestQueue};
use hoistway_workload::Io;

use super::Processes;

/// The plugs that are not empty, and whether a plugged submission is in progress.
#[derive(Debug, Default)]
pub(super) struct RecordedPlugs {
    /// By issuer and actor: one of the recorded processes whose I/O the issuer replays.
    open: BTreeMap<(usize, u16), Plug>,
    /// Whether the current submission stays in the submitter's plug.
    pub(super) is_submitting: bool,
}

impl Processes {
    /// Whether an I/O needs [`Processes::start_plugged`]: its process holds the plug afterwards, or
    /// some process holds one already.
    #[inline]
    pub(super) fn meets_a_plug(&self, io: &Io) -> bool {
        io.is_plugged || !self.recorded_plugs.open.is_empty()
    }

    /// Starts an I/O in its process's plug. The process keeps holding the plug if more I/Os follow;
    /// otherwise it is flushed.
    #[cold]
    pub(super) fn start_plugged(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let key = (index, io.actor);
        let open = self.recorded_plugs.open.remove(&key);
        if open.is_none() && !io.is_plugged {
            return self.start_io(index, io, now, queue);
        }
        let mut plug = open.unwrap_or_default();
        // In eras without process plugs there is nothing to exchange: the queue plugs itself and
        // stays plugged until the process waits.
        if let Some(usual) = &mut self.plug {
            std::mem::swap(usual, &mut plug);
        }
        self.recorded_plugs.is_submitting = true;
        self.start_io(index, io, now, queue);
        self.recorded_plugs.is_submitting = false;
        if let Some(usual) = &mut self.plug {
            std::mem::swap(usual, &mut plug);
        }
        if io.is_plugged {
            self.recorded_plugs.open.insert(key, plug);
        } else {
            queue.unplug(&mut plug, now);
            self.begins_to_wait(now, queue);
        }
    }

    /// A process has to wait: the plugs of its actors are flushed.
    #[inline]
    pub(super) fn release_plug(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if !self.recorded_plugs.open.is_empty() {
            self.flush_plugs(index, now, queue);
        }
    }

    #[cold]
    fn flush_plugs(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let own = self.recorded_plugs.open.range((index, 0)..=(index, u16::MAX)).map(|(key, _)| *key);
        for key in own.collect::<Vec<_>>() {
            if let Some(mut plug) = self.recorded_plugs.open.remove(&key) {
                queue.unplug(&mut plug, now);
            }
        }
        self.begins_to_wait(now, queue);
    }
}
