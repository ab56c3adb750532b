//! The plug of the kernels up to 2.6.38: the queue itself holds requests back, so that merge
//! candidates can arrive.
//!
//! A bio that finds the queue empty plugs it. While it is plugged, [`RequestQueue::dispatch`]
//! returns no request. A task that is about to wait for I/O unplugs it
//! ([`RequestQueue::unplug_device`]); it stays unplugged until the queue is empty again.

use crate::era::QueuePlug;
use crate::{RequestQueue, TraceKind};
use hoistway_block::{Flags, Nanos, RequestId};
use hoistway_elevator::{Bio, Elevator, Wake};

impl<E: Elevator> RequestQueue<E> {
    /// Unplugs the queue. Hosts call it whenever a task is about to wait for I/O (2.4: `tq_disk`),
    /// and may call it at any time; it does nothing if the queue is not plugged.
    #[inline]
    pub fn unplug_device(&mut self, now: Nanos) {
        if self.gate.is_plugged() {
            self.pull_plug(now);
        }
    }

    /// Whether the queue is plugged.
    pub fn is_plugged(&self) -> bool {
        self.gate.is_plugged()
    }

    #[cold]
    fn pull_plug(&mut self, now: Nanos) {
        self.gate.unplug();
        self.trace(TraceKind::Unplugged, RequestId::from_raw(hoistway_block::NIL), None, now);
        self.note(Wake::All);
    }

    /// Plugs an empty queue when a bio arrives. A bio that slept does not plug it, because its task
    /// is past the point where it would unplug it again.
    pub(crate) fn plug_if_empty(&mut self, now: Nanos) {
        if self.gate.is_plugged() {
            return;
        }
        let is_empty = if self.settings.era.head_active { self.pool.tags().in_use() == 0 } else { self.queued() == 0 };
        let configuration = &self.settings.configuration;
        let until = match self.settings.era.queue_plug {
            QueuePlug::UntilAsked => None,
            // Solid-state devices that queue commands are not plugged (since 2.6.29).
            QueuePlug::Threshold { delay_ns, .. } if configuration.rotational || !configuration.queueing => {
                let ticks_ns = hoistway_block::time::round_up_to_tick(delay_ns, configuration.tick_ns);
                Some(now.saturating_add(ticks_ns))
            }
            _ => return,
        };
        if is_empty {
            self.gate.plug(until);
            self.trace(TraceKind::Plugged, RequestId::from_raw(hoistway_block::NIL), None, now);
        }
    }

    /// Applies the threshold after a bio has entered: the queue is unplugged if a task waits for
    /// the bio or enough requests are queued.
    pub(crate) fn unplug_by_threshold(&mut self, bio: &Bio, now: Nanos) {
        if let QueuePlug::Threshold { requests, .. } = self.settings.era.queue_plug
            && self.gate.is_plugged()
            && (bio.flags.contains(Flags::SYNC) || self.queued() >= requests)
        {
            self.pull_plug(now);
        }
    }

    /// Requests allocated and not in the driver.
    fn queued(&self) -> u32 {
        // The queue's own flush command counts as in the driver, but not as allocated.
        let own = u32::from(self.flush.command_is_in(&self.requests));
        self.pool.tags().in_use().saturating_sub(self.device.started().saturating_sub(own))
    }
}
