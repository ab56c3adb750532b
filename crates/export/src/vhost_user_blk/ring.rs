//! One virtqueue of a device, on the shard's thread: chains are taken from the available ring, and go
//! back by the used ring.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use hoistway_engine::protocol::Failure;
use hoistway_engine::protocol::virtio_blk::Status;
use hoistway_engine::{ClientContext, Data, Payload};
use hoistway_linux::aio::Signals;
use hoistway_linux::ring::FileId;
use rustix::io::ReadWriteFlags;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::attached::AttachedMemory;
use super::chain::{Chain, Malformed};
use super::guest_memory::{GuestMemory, LOST};
use super::in_flight::Record;

/// The most descriptors of a ring.
pub const MAX_RING_SIZE: u16 = 1_024;

/// What the front end has said about a ring when it starts.
#[derive(Debug)]
pub struct RingSettings {
    /// Its number.
    pub index: u16,
    /// Its descriptors, a power of two.
    pub descriptors: u16,
    /// The descriptor table.
    pub table: GuestAddress,
    /// The available ring.
    pub available: GuestAddress,
    /// The used ring.
    pub used: GuestAddress,
    /// The index at which the available ring is read first.
    pub base: u16,
    /// Whether the guest says by index when it wants to be notified.
    pub has_event_index: bool,
    /// The guest signals this when it has added chains.
    pub kick: OwnedFd,
    /// Signalled when chains were given back.
    pub call: Option<OwnedFd>,
    /// Signalled when the ring cannot be used any more.
    pub error: Option<OwnedFd>,
    /// Whether chains may be taken.
    pub is_enabled: bool,
    /// The front end's record of requests in flight.
    pub record: Option<Arc<Record>>,
}

/// A chain that was taken and not given back.
#[derive(Debug, Default)]
pub struct Slot {
    /// Its content.
    pub chain: Chain,
    /// The guest's memory when it was taken; `None` if this slot is free.
    pub memory: Option<Arc<GuestMemory>>,
    /// The same memory for direct requests, if it could be attached.
    pub attached: Option<Arc<AttachedMemory>>,
    /// Bytes of data for the guest, if it succeeds.
    pub in_bytes: u32,
    is_repeated: bool,
}

impl Slot {
    /// Supplies data of a write.
    ///
    /// # Errors
    /// The guest's memory is not there.
    pub fn fill(&self, offset_bytes: u64, to: &Payload<'_>) -> Result<(), Failure> {
        let is_filled = self.memory.as_ref().is_some_and(|it| it.copy_to(self.chain.out_segments(), offset_bytes, to));
        if is_filled { Ok(()) } else { Err(Failure::Io) }
    }

    /// Takes data of a read.
    ///
    /// # Errors
    /// The guest's memory is not there.
    pub fn empty(&self, offset_bytes: u64, from: &Data<'_>) -> Result<(), Failure> {
        let is_taken =
            self.memory.as_ref().is_some_and(|it| it.copy_from(self.chain.in_segments(), offset_bytes, from));
        if is_taken { Ok(()) } else { Err(Failure::Io) }
    }
}

/// A running ring.
#[derive(Debug)]
pub struct Ring {
    queue: Queue,
    memory: Arc<GuestMemory>,
    attached: Option<Arc<AttachedMemory>>,
    settings: RingSettings,
    slots: Vec<Slot>,
    counter: u64,
    /// Heads (first descriptors) of chains that an earlier server had taken and not given back,
    /// oldest first; they are served again.
    repeats: std::vec::IntoIter<u16>,
    repeats_in_flight: u16,
    in_flight: u16,
    /// Answers that were not given back yet.
    pub answers: Vec<(u16, Option<Status>)>,
    /// The ring's own handle on the kick descriptor, once it is polled.
    pub kick: Option<FileId>,
    /// Whether a poll of the kick descriptor has not completed.
    pub is_polled: bool,
    /// Whether there may be chains to take.
    pub has_work: bool,
    is_broken: bool,
    /// The server ends: nothing is taken any more.
    is_draining: bool,
    must_signal: bool,
    /// Gets the ring's next available index when nothing is in flight any more.
    pub stopping: Option<Option<Sender<u16>>>,
}

impl Ring {
    /// A ring as the front end describes it.
    ///
    /// # Errors
    /// What is wrong with the description.
    pub fn new(settings: RingSettings, memory: Arc<GuestMemory>) -> Result<Self, String> {
        let index = settings.index;
        let wrong = |what: &str| format!("ring {index}: {what}");
        let mut queue = Queue::new(MAX_RING_SIZE).map_err(|error| error.to_string())?;
        queue.try_set_size(settings.descriptors).map_err(|_| wrong("its size is not a power of two up to 1,024"))?;
        queue
            .try_set_desc_table_address(settings.table)
            .and_then(|()| queue.try_set_avail_ring_address(settings.available))
            .and_then(|()| queue.try_set_used_ring_address(settings.used))
            .map_err(|error| wrong(&error.to_string()))?;
        queue.set_event_idx(settings.has_event_index);
        queue.set_ready(true);
        if !queue.is_valid(memory.map()) {
            return Err(wrong("it lies outside the guest's memory"));
        }
        let used = queue.used_idx(memory.map(), Ordering::Acquire).map_err(|error| wrong(&error.to_string()))?.0;
        queue.set_next_used(used);
        let (mut repeats, mut counter, mut base) = (Vec::new(), 0, settings.base);
        if let Some(record) = &settings.record {
            (repeats, counter) = record.begin(index, settings.descriptors, used)?;
            // The front end's base counts only the chains that were given back. Those in flight are
            // taken from the record, so reading continues behind them.
            base = used.wrapping_add(u16::try_from(repeats.len()).unwrap_or(u16::MAX));
        }
        queue.set_next_avail(base);
        if memory.is_lost() || settings.record.as_ref().is_some_and(|record| record.is_lost()) {
            return Err(wrong(LOST));
        }
        let mut slots = Vec::new();
        slots.resize_with(usize::from(settings.descriptors), Slot::default);
        Ok(Self {
            queue,
            memory,
            attached: None,
            settings,
            slots,
            counter,
            repeats: repeats.into_iter(),
            repeats_in_flight: 0,
            in_flight: 0,
            answers: Vec::new(),
            kick: None,
            is_polled: false,
            // The guest may have kicked before the descriptor was known here.
            has_work: true,
            is_broken: false,
            is_draining: false,
            must_signal: false,
            stopping: None,
        })
    }

    /// Its number.
    pub fn index(&self) -> u16 {
        self.settings.index
    }

    /// The guest's memory has changed, or has been attached.
    pub fn set_memory(&mut self, memory: &Arc<GuestMemory>, attached: Option<&Arc<AttachedMemory>>) {
        self.memory = Arc::clone(memory);
        self.attached = attached.cloned();
    }

    /// Chains may be taken from now on, or no more.
    pub fn enable(&mut self, is_enabled: bool) {
        self.settings.is_enabled = is_enabled;
        self.has_work = true;
    }

    /// Replaces the descriptor that is signalled when chains were given back.
    pub fn set_call(&mut self, call: Option<OwnedFd>, signals: &mut Signals) {
        self.settings.call = call;
        // The guest may have missed a signal on the old one; one too many does no harm.
        self.signal_call(signals);
    }

    /// Another descriptor of the kick event, for the engine's ring.
    pub fn duplicate_kick(&self) -> std::io::Result<OwnedFd> {
        self.settings.kick.try_clone()
    }

    /// Whether chains may be taken now.
    pub fn is_open(&self) -> bool {
        self.has_work && self.settings.is_enabled && !self.is_broken && !self.is_draining && self.stopping.is_none()
    }

    /// Whether kicks are of interest.
    pub fn wants_kicks(&self) -> bool {
        !self.is_broken && self.stopping.is_none()
    }

    /// Whether it is stopping, and nothing of it is in flight. If the front end has gone, no guest hears of
    /// what is in flight.
    pub fn is_stopped(&self) -> bool {
        self.stopping.is_some() && (self.in_flight == 0 || self.is_lost()) && !self.is_polled
    }

    /// The index that the available ring is read at next.
    pub fn next_available(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Takes nothing from now on. `reply` gets the next available index when nothing is in flight any
    /// more; without it the front end has gone.
    pub fn stop(&mut self, reply: Option<Sender<u16>>, context: &mut ClientContext<'_>) {
        if let Some(file) = self.kick.filter(|_| self.stopping.is_none()) {
            context.cancel(file);
        }
        self.stopping = Some(reply);
    }

    /// Takes note of a kick.
    pub fn kicked(&mut self) {
        self.is_polled = false;
        self.has_work = true;
        // Never blocks, whatever the front end has done with the descriptor.
        let mut count = [0; 8];
        let mut buffers = [IoSliceMut::new(&mut count)];
        let _ = rustix::io::preadv2(&self.settings.kick, &mut buffers, u64::MAX, ReadWriteFlags::NOWAIT);
    }

    /// Takes the next chain; its head.
    ///
    /// # Errors
    /// The guest has broken the ring.
    pub fn take(&mut self) -> Result<Option<u16>, Malformed> {
        if let Some(head) = self.repeats.next() {
            self.repeats_in_flight += 1;
            return self.occupy(head, true).map(Some);
        }
        if self.repeats_in_flight > 0 {
            // A request that is repeated must not pass one that the guest made later.
            return Ok(None);
        }
        if self.is_memory_lost() {
            return Err(LOST);
        }
        let outside = |_| "a ring is outside the guest's memory";
        self.queue.disable_notification(self.memory.map()).map_err(outside)?;
        loop {
            let taken = match self.queue.iter(self.memory.map()) {
                Ok(mut chains) => chains.next(),
                Err(_) => return Err("the available ring's index has advanced by more than the ring's size"),
            };
            if let Some(chain) = taken {
                let head = chain.head_index();
                return self.occupy(head, false).map(Some);
            }
            if !self.queue.enable_notification(self.memory.map()).map_err(outside)? {
                self.has_work = false;
                return if self.is_memory_lost() { Err(LOST) } else { Ok(None) };
            }
        }
    }

    fn occupy(&mut self, head: u16, is_repeated: bool) -> Result<u16, Malformed> {
        let slot = self.slots.get_mut(usize::from(head)).ok_or("a head is outside the descriptor table")?;
        if slot.memory.is_some() {
            return Err("a chain was made available again before it was given back");
        }
        slot.chain.read(&self.memory, self.settings.table, self.settings.descriptors, head)?;
        if self.is_memory_lost() {
            return Err(LOST);
        }
        let Some(slot) = self.slots.get_mut(usize::from(head)) else { return Err(LOST) };
        slot.memory = Some(Arc::clone(&self.memory));
        slot.attached.clone_from(&self.attached);
        (slot.is_repeated, slot.in_bytes) = (is_repeated, 0);
        self.in_flight += 1;
        if let Some(record) = self.settings.record.as_ref().filter(|_| !is_repeated) {
            record.take(self.settings.index, head, self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(head)
    }

    /// Whether the front end has taken memory away that the ring has read or written since.
    pub fn is_memory_lost(&self) -> bool {
        self.memory.is_lost() || self.settings.record.as_ref().is_some_and(|record| record.is_lost())
    }

    /// The slot of a chain that was taken.
    pub fn slot(&mut self, head: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(head)).filter(|slot| slot.memory.is_some())
    }

    /// Ends a chain. It is given back with its status; without one it is left to the next server.
    ///
    /// # Errors
    /// The guest has broken the ring.
    pub fn end(&mut self, head: u16, status: Option<Status>) -> Result<(), Malformed> {
        let is_lost = self.is_lost();
        let Some(slot) = self.slots.get_mut(usize::from(head)) else { return Ok(()) };
        let Some(memory) = slot.memory.take() else { return Ok(()) };
        slot.attached = None;
        self.in_flight -= 1;
        self.repeats_in_flight -= u16::from(slot.is_repeated);
        let Some(status) = status else {
            self.is_draining = true;
            return Ok(());
        };
        if is_lost {
            return Ok(());
        }
        let is_put = memory.put(&[slot.chain.status()], &[status as u8]);
        let written = if status == Status::Done { slot.in_bytes + 1 } else { 1 };
        let (record, index) = (self.settings.record.as_ref(), self.settings.index);
        if let Some(record) = record {
            record.begin_return(index, head);
        }
        let is_added = self.queue.add_used(self.memory.map(), head, written).is_ok();
        if let Some(record) = record {
            record.end_return(index, head, self.queue.next_used());
        }
        self.must_signal = true;
        match is_put && is_added {
            true => Ok(()),
            false if memory.is_lost() => Err(LOST),
            false => Err("the used ring is outside the guest's memory"),
        }
    }

    /// Whether the front end has gone, so that nothing is given back.
    pub fn is_lost(&self) -> bool {
        matches!(self.stopping, Some(None))
    }

    /// Tells the guest, if it wants to be told, that chains were given back.
    pub fn signal(&mut self, signals: &mut Signals) {
        if !std::mem::take(&mut self.must_signal) || self.is_lost() {
            return;
        }
        // If the ring cannot be read, because the guest has broken it, the signal is sent in any
        // case.
        if self.queue.needs_notification(self.memory.map()).unwrap_or(true) {
            self.signal_call(signals);
        }
    }

    fn signal_call(&self, signals: &mut Signals) {
        if let Some(call) = &self.settings.call {
            // It is an eventfd, so this fails only where the system has no memory.
            let _ = signals.signal(call.as_fd());
        }
    }

    /// Takes nothing from the ring any more, because the guest has broken it. False if the ring was
    /// known to be broken before.
    pub fn break_off(&mut self, signals: &mut Signals) -> bool {
        if let Some(error) = self.settings.error.as_ref().filter(|_| !self.is_broken) {
            let _ = signals.signal(error.as_fd());
        }
        !std::mem::replace(&mut self.is_broken, true)
    }
}
