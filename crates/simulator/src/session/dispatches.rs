//! The requests that a session's device gets: when, for whom, where, and why.

use std::collections::VecDeque;

use hoistway_block::{Extent, GroupId, Nanos, RequestId};
use hoistway_elevator::{Any, Attributes, Elevator};
use hoistway_experiment::Experiment;
use hoistway_queue::{RequestQueue, TraceEvent, TraceItem, TraceKind};

use super::letter_of;
use crate::host::Prepared;

/// Requests, and completions, that are kept until they are taken.
const KEPT: usize = 2_048;

/// A request that the device got.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Its number, from 0.
    pub number: u64,
    /// When the device got it.
    pub at_ns: Nanos,
    /// Its sectors.
    pub extent: Extent,
    /// Its kind as blkparse's letter: `R`, `W`, `D` or `N`.
    pub kind: char,
    /// Index of its group in the experiment; `None` for the system's own I/O.
    pub group: Option<u16>,
    /// Why it was chosen, as an index of the policy's reasons; `None` if no policy chose it.
    pub reason: Option<u8>,
}

/// A request that the device completed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// The number of its dispatch.
    pub number: u64,
    /// Its time in the device.
    pub service_ns: Nanos,
}

/// A request slot of the queue.
#[derive(Copy, Clone, Debug, Default)]
struct Slot {
    /// Why the policy chose the request that is on its way.
    reason: Option<u8>,
    /// The request in the device: id, number and time of its dispatch.
    in_device: Option<(RequestId, u64, Nanos)>,
}

/// The recent dispatches of a run.
#[derive(Debug)]
pub(super) struct Record {
    slots: Vec<Slot>,
    dispatches: VecDeque<Dispatch>,
    served: VecDeque<Served>,
    dispatched: u64,
    held: Option<u8>,
    /// Ids of the experiment's groups.
    groups: Vec<GroupId>,
    /// The group of each issuer, by its context.
    group_of_context: Vec<Option<u16>>,
}

impl Record {
    pub(super) fn new(experiment: &Experiment, prepared: &Prepared<Any>) -> Self {
        let processes = &prepared.run.processes;
        let mut group_of_context = vec![None; processes.contexts() as usize];
        for (group, number) in (0..experiment.groups.len()).zip(0_u16..) {
            for context in processes.threads_of(group).flat_map(|thread| processes.contexts_of(thread)) {
                group_of_context[context as usize] = Some(number);
            }
        }
        Self {
            slots: Vec::new(),
            dispatches: VecDeque::with_capacity(KEPT),
            served: VecDeque::with_capacity(KEPT),
            dispatched: 0,
            held: None,
            groups: prepared.groups.clone(),
            group_of_context,
        }
    }

    /// Takes over what the queue has traced.
    #[inline]
    pub(super) fn drain(&mut self, queue: &mut RequestQueue<Any>) {
        while let Some(item) = queue.take_item() {
            if let TraceItem::Event(event) = item {
                self.see(&event);
            }
        }
    }

    fn see(&mut self, event: &TraceEvent) {
        match event.kind {
            TraceKind::Chosen => self.slot(event.id).reason = event.reason.map(|reason| reason.0),
            TraceKind::Held => self.held = event.reason.map(|reason| reason.0),
            TraceKind::Started => self.started(event),
            TraceKind::Completed => {
                let Some((_, number, since_ns)) = self.slot(event.id).in_device.take() else { return };
                keep(&mut self.served, Served { number, service_ns: event.at_ns.saturating_sub(since_ns) });
            }
            _ => {}
        }
    }

    fn started(&mut self, event: &TraceEvent) {
        let number = self.dispatched;
        self.dispatched += 1;
        self.held = None;
        let slot = self.slot(event.id);
        slot.in_device = Some((event.id, number, event.at_ns));
        let reason = slot.reason.take();
        let group = self.group_of(&event.attributes);
        let Attributes { extent, operation, .. } = event.attributes;
        let kind = letter_of(operation);
        keep(&mut self.dispatches, Dispatch { number, at_ns: event.at_ns, extent, kind, group, reason });
    }

    /// The group for which a request is: that of its issuer, or of a request of the system that is
    /// accounted to a group.
    fn group_of(&self, attributes: &Attributes) -> Option<u16> {
        let of_issuer = self.group_of_context.get(attributes.context.0 as usize).copied().flatten();
        of_issuer.or_else(|| {
            let own = |id: &GroupId| *id == attributes.group && *id != GroupId::ROOT;
            self.groups.iter().position(own).and_then(|index| u16::try_from(index).ok())
        })
    }

    fn slot(&mut self, id: RequestId) -> &mut Slot {
        let place = id.slot() as usize;
        if place >= self.slots.len() {
            self.slots.resize(place + 1, Slot::default());
        }
        &mut self.slots[place]
    }

    /// Requests that the device has got so far.
    pub(super) fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// Why the policy holds its requests back, if it does.
    pub(super) fn held(&self) -> Option<u8> {
        self.held
    }

    /// I/Os in the device, by group.
    pub(super) fn in_device(&self, queue: &RequestQueue<impl Elevator>) -> Vec<u32> {
        let mut counts = vec![0; self.groups.len()];
        for (id, ..) in self.slots.iter().filter_map(|slot| slot.in_device) {
            for (_, bio) in queue.bios_of(id) {
                if let Some(group) = self.group_of(bio) {
                    counts[usize::from(group)] += 1;
                }
            }
        }
        counts
    }

    pub(super) fn take_dispatches(&mut self) -> Vec<Dispatch> {
        self.dispatches.drain(..).collect()
    }

    pub(super) fn take_served(&mut self) -> Vec<Served> {
        self.served.drain(..).collect()
    }
}

fn keep<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(new);
}
