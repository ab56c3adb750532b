//! How bios get into the queue: their longest size, plugs, and the bios for which it has no room.
//!
//! Since 2.6.39 submitters have plugs, which a direct transfer uses only if it makes more than one
//! bio. The queues of older kernels plug themselves and are told when a process waits.

use std::collections::VecDeque;

use hoistway_block::{Nanos, SECTOR_BYTES};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::{KernelEra, Machine};
use hoistway_queue::{Plug, RequestQueue, Submitted};
use hoistway_workload::Io;

use super::recorded_plugs::{Holder, RecordedPlugs};

/// The way of bios into the queue. Bios are submitted in the order in which they came: none
/// overtakes one for which the queue had no room.
#[derive(Debug)]
pub(super) struct Submission {
    /// Bios for which the queue had no room.
    backlog: VecDeque<(Bio, u64)>,
    /// The current submitter's plug; empty between calls. None where submitters have no plugs.
    plug: Option<Plug>,
    recorded_plugs: RecordedPlugs,
    bio_bytes: u64,
}

impl Submission {
    /// The way into a queue whose requests have at most `request_bytes`.
    pub(super) fn new(machine: &Machine, request_bytes: u64) -> Self {
        let longest: u64 = match machine.era {
            KernelEra::Linux24 => 128 << 10,
            KernelEra::Linux26 => 512 << 10,
            KernelEra::Linux3 | KernelEra::Mq => 1 << 20,
        };
        let has_plugs = matches!(machine.era, KernelEra::Linux3 | KernelEra::Mq);
        Self {
            backlog: VecDeque::new(),
            plug: has_plugs.then(Plug::default),
            recorded_plugs: RecordedPlugs::default(),
            bio_bytes: longest.min(request_bytes),
        }
    }

    /// The longest bio of a direct transfer or a read-ahead window.
    pub(super) fn longest_bio_bytes(&self) -> u64 {
        self.bio_bytes
    }

    /// The longest bio that may be submitted now for a transfer with this bio's attributes. A
    /// transfer that no scheduler would cut is not worth the question.
    #[inline]
    pub(super) fn bio_bytes_for<E: Elevator>(&self, bio: &Bio, bytes: u64, now: Nanos, queue: &RequestQueue<E>) -> u64 {
        if bytes <= u64::from(E::TRAITS.quantum_sectors) * SECTOR_BYTES {
            return self.bio_bytes;
        }
        let sectors = queue.elevator().longest_sectors(bio, now);
        self.bio_bytes.min(u64::from(sectors) * SECTOR_BYTES)
    }

    /// Whether submitters have plugs.
    #[inline]
    pub(super) fn has_plug(&self) -> bool {
        self.plug.is_some()
    }

    /// Whether no bio waits for room in the queue.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Submits one bio, or keeps it until the queue has room; it waits then.
    #[inline]
    pub(super) fn submit(
        &mut self,
        bio: &Bio,
        cookie: u64,
        is_plugged: bool,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> Submitted {
        if self.backlog.is_empty() {
            let submitted = match &mut self.plug {
                Some(plug) if is_plugged || self.recorded_plugs.is_submitting() => {
                    queue.submit_plugged(bio, cookie, plug, now)
                }
                _ => queue.submit(bio, cookie, now),
            };
            if let Ok(submitted) = submitted {
                return submitted;
            }
        }
        self.backlog.push_back((*bio, cookie));
        Submitted::Waiting
    }

    /// Submits the first bio that waits for room; its cookie, unless there is still none.
    pub(super) fn retry(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) -> Option<(u64, Submitted)> {
        let (bio, cookie) = self.backlog.front()?;
        let submitted = queue.submit(bio, *cookie, now).ok()?;
        let (_, cookie) = self.backlog.pop_front()?;
        Some((cookie, submitted))
    }

    /// The submission is finished: the plug is flushed.
    #[inline]
    pub(super) fn unplug(&mut self, is_plugged: bool, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let is_plugged = is_plugged && !self.recorded_plugs.is_submitting();
        if let Some(plug) = self.plug.as_mut().filter(|_| is_plugged) {
            queue.unplug(plug, now);
        }
    }

    /// A process is about to wait for I/O: a queue with its own plug is unplugged.
    #[inline]
    pub(super) fn begins_to_wait(&self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        // In eras where submitters have plugs the queue has none.
        if self.plug.is_none() && !self.recorded_plugs.is_submitting() {
            queue.unplug_device(now);
        }
    }
}

// ---- recorded plugs ----
impl Submission {
    /// Whether an I/O needs [`Submission::enter_plug`]: its process holds the plug afterwards, or
    /// some process holds one already.
    #[inline]
    pub(super) fn meets_a_plug(&self, io: &Io) -> bool {
        io.is_plugged || self.recorded_plugs.are_held()
    }

    /// Begins a submission in a process's own plug, if it holds one or will (`keeps`). Returns the
    /// plug that is set aside meanwhile.
    pub(super) fn enter_plug(&mut self, holder: Holder, keeps: bool) -> Option<Plug> {
        let open = self.recorded_plugs.take(holder);
        if open.is_none() && !keeps {
            return None;
        }
        let mut plug = open.unwrap_or_default();
        self.exchange(&mut plug);
        self.recorded_plugs.set_submitting(true);
        Some(plug)
    }

    /// Ends a submission in a process's own plug, which is flushed unless the process `keeps` it.
    pub(super) fn leave_plug(
        &mut self,
        holder: Holder,
        mut plug: Plug,
        keeps: bool,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) {
        self.recorded_plugs.set_submitting(false);
        self.exchange(&mut plug);
        if keeps {
            self.recorded_plugs.keep(holder, plug);
        } else {
            queue.unplug(&mut plug, now);
            self.begins_to_wait(now, queue);
        }
    }

    /// In eras without process plugs there is nothing to exchange: the queue plugs itself and stays
    /// plugged until the process waits.
    fn exchange(&mut self, plug: &mut Plug) {
        if let Some(usual) = &mut self.plug {
            std::mem::swap(usual, plug);
        }
    }

    /// The issuer has to wait: the plugs of its processes are flushed.
    #[inline]
    pub(super) fn release_plugs(&mut self, issuer: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.recorded_plugs.are_held() {
            self.flush_plugs(issuer, now, queue);
        }
    }

    #[cold]
    fn flush_plugs(&mut self, issuer: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        while let Some(mut plug) = self.recorded_plugs.take_of(issuer) {
            queue.unplug(&mut plug, now);
        }
        self.begins_to_wait(now, queue);
    }
}
