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

/// The plug of a queue.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct DevicePlug {
    pub is_in: bool,
    /// The time at which the plug is removed without a call of the host.
    pub until: Option<Nanos>,
}

impl<E: Elevator> RequestQueue<E> {
    /// Unplugs the queue. Hosts call it whenever a task is about to wait for I/O (2.4: `tq_disk`),
    /// and may call it at any time; it does nothing if the queue is not plugged.
    #[inline]
    pub fn unplug_device(&mut self, now: Nanos) {
        if self.device_plug.is_in {
            self.pull_plug(now);
        }
    }

    /// Whether the queue is plugged.
    pub fn is_plugged(&self) -> bool {
        self.device_plug.is_in
    }

    #[cold]
    fn pull_plug(&mut self, now: Nanos) {
        self.device_plug = DevicePlug::default();
        self.update_gate();
        self.trace(TraceKind::Unplugged, RequestId::from_raw(hoistway_block::NIL), None, now);
        self.note(Wake::All);
    }

    /// Plugs an empty queue when a bio arrives. A bio that slept does not plug it, because its task
    /// is past the point where it would unplug it again.
    pub(crate) fn plug_if_empty(&mut self, now: Nanos) {
        if self.device_plug.is_in {
            return;
        }
        let is_empty = if self.era.head_active { self.tags.in_use() == 0 } else { self.queued() == 0 };
        let until = match self.era.queue_plug {
            QueuePlug::UntilAsked => None,
            QueuePlug::Threshold { delay_ns, .. } if self.is_plug_useful => {
                let ticks_ns = hoistway_block::time::round_up_to_tick(delay_ns, self.tick_ns);
                Some(now.saturating_add(ticks_ns))
            }
            _ => return,
        };
        if is_empty {
            self.device_plug = DevicePlug { is_in: true, until };
            self.update_gate();
            self.trace(TraceKind::Plugged, RequestId::from_raw(hoistway_block::NIL), None, now);
        }
    }

    /// Applies the threshold after a bio has entered: the queue is unplugged if a task waits for
    /// the bio or enough requests are queued.
    pub(crate) fn unplug_by_threshold(&mut self, bio: &Bio, now: Nanos) {
        if let QueuePlug::Threshold { requests, .. } = self.era.queue_plug
            && self.device_plug.is_in
            && (bio.flags.contains(Flags::SYNC) || self.queued() >= requests)
        {
            self.pull_plug(now);
        }
    }

    /// Requests allocated and not in the driver.
    fn queued(&self) -> u32 {
        // The queue's own flush command counts as in the driver, but not as allocated.
        let own = u32::from(self.flush.command_is_in(&self.requests));
        self.tags.in_use().saturating_sub(self.in_device_total.saturating_sub(own))
    }
}
