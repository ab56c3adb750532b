//! The invariants that hold for every policy, checked by a ledger outside the queue.
//!
//! * P1: every bio completes exactly once, with the attributes it was submitted with, or is taken back
//!   before the device has it.
//! * P2: a request that starts consists of submitted bios, in sector order, without gap or overlap,
//!   none of which is in the device already.
//! * P3: no request mixes operations, groups, priorities or devices, or holds more than one bio
//!   where one forbids merging.
//! * P4: no request exceeds the device's limits.
//! * P6: while anything is queued, something is dispatched or a pending event will cause it.
//! * A cache flush that a bio asked for happened at the right time: after its submission, or after
//!   its data.
//!
//! Source of the numbers: docs/specifications/classic-elevators.md, section 12.

use std::collections::{BTreeMap, BTreeSet};

use hoistway_block::{ContextId, Flags, HardwareQueue, Operation, RequestId, Status};
use hoistway_elevator::{Bio, Elevator};
use hoistway_queue::{Done, Limits, Next, RequestQueue};

/// A description of the invariant that was violated.
pub(crate) type Broken = String;

/// Flags that exclude a bio from merging.
const ALONE: Flags = Flags(Flags::NOMERGE.0 | Flags::FUA.0 | Flags::PREFLUSH.0 | Flags::WAITING.0);

/// A bio in flight.
#[derive(Copy, Clone, Debug)]
struct Open {
    bio: Bio,
    /// Event at which it was submitted.
    submitted: u64,
    /// Event at which the device last completed its data without error; 0 = not yet.
    data_completed: u64,
    in_device: bool,
}

/// A request in the device.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    id: RequestId,
    is_flush: bool,
    started: u64,
}

/// The ledger. It counts events, so that "before" and "after" need no clock.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    events: u64,
    open: BTreeMap<u64, Open>,
    in_flight: BTreeMap<u32, InFlight>,
    /// Start event of the newest flush command that completed without error.
    flushed_from: u64,
    open_of_context: Vec<u32>,
    pub submitted: u64,
    pub answered: u64,
    pub started: u64,
    pub merged: u64,
}

impl Ledger {
    pub(crate) fn new(limits: Limits, contexts: u32) -> Self {
        Self {
            limits,
            events: 0,
            open: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            flushed_from: 0,
            open_of_context: vec![0; contexts as usize],
            submitted: 0,
            answered: 0,
            started: 0,
            merged: 0,
        }
    }

    /// Bios of a context that are in flight.
    pub(crate) fn open_of(&self, context: ContextId) -> u32 {
        self.open_of_context[context.0 as usize]
    }

    /// Bios in flight.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn submitted(&mut self, cookie: u64, bio: &Bio) {
        self.events += 1;
        self.submitted += 1;
        self.open_of_context[bio.context.0 as usize] += 1;
        let open = Open { bio: *bio, submitted: self.events, data_completed: 0, in_device: false };
        self.open.insert(cookie, open);
    }

    /// The queue completed the bio at its submission.
    pub(crate) fn nothing_to_do(&mut self, cookie: u64) -> Result<(), Broken> {
        let open = self.open.remove(&cookie).ok_or("P1: nothing to do for an unknown bio")?;
        self.open_of_context[open.bio.context.0 as usize] -= 1;
        self.answered += 1;
        let is_empty_flush = open.bio.extent.sectors == 0;
        (is_empty_flush && !self.limits.volatile_cache).then_some(()).ok_or_else(|| {
            format!("a bio was answered without the device although there was something to do: {:?}", open.bio)
        })
    }

    /// The queue had no room for the bio: the submission does not count.
    pub(crate) fn withdrawn(&mut self, cookie: u64) {
        if let Some(open) = self.open.remove(&cookie) {
            self.open_of_context[open.bio.context.0 as usize] -= 1;
            self.submitted -= 1;
        }
    }

    /// The cookies of a context's bios in flight.
    pub(crate) fn cookies_of(&self, context: ContextId) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().filter(move |(_, open)| open.bio.context == context).map(|(cookie, _)| *cookie)
    }

    /// The queue gave a bio back that the device had not been given.
    pub(crate) fn taken_back(&mut self, cookie: u64) -> Result<(), Broken> {
        let open = self.open.remove(&cookie).ok_or_else(|| format!("P1: bio {cookie} was taken back twice"))?;
        self.open_of_context[open.bio.context.0 as usize] -= 1;
        self.answered += 1;
        if open.in_device { Err(format!("P1: bio {cookie} was taken back while in the device")) } else { Ok(()) }
    }

    /// Checks that of the bios to be taken back only those are left that are in the device or share a
    /// request with others.
    pub(crate) fn left_behind<E: Elevator>(
        &self,
        queue: &RequestQueue<E>,
        meant: &BTreeSet<u64>,
    ) -> Result<(), Broken> {
        let mut kept = BTreeSet::new();
        for id in (0..queue.requests().capacity()).filter_map(|slot| queue.requests().id_of(slot)) {
            let cookies: Vec<u64> = queue.bios_of(id).map(|(cookie, _)| cookie).collect();
            if self.in_flight.contains_key(&id.slot()) || cookies.iter().any(|cookie| !meant.contains(cookie)) {
                kept.extend(cookies);
            }
        }
        match self.open.keys().find(|cookie| meant.contains(cookie) && !kept.contains(cookie)) {
            Some(cookie) => Err(format!("P1: bio {cookie} was not taken back")),
            None => Ok(()),
        }
    }

    /// A request starts.
    pub(crate) fn start<E: Elevator>(&mut self, queue: &RequestQueue<E>, id: RequestId) -> Result<(), Broken> {
        self.events += 1;
        self.started += 1;
        let attributes = *queue.requests().attributes(id);
        let is_flush = attributes.operation == Operation::Flush;
        let in_flight = InFlight { id, is_flush, started: self.events };
        if self.in_flight.insert(id.slot(), in_flight).is_some() {
            return Err(format!("P1: slot {} started twice", id.slot()));
        }
        if is_flush {
            return Ok(());
        }
        self.check_limits(&attributes)?;
        let mut at_sector = attributes.extent.first_sector;
        let mut bios = 0;
        for (cookie, bio) in queue.bios_of(id) {
            bios += 1;
            let open =
                self.open.get_mut(&cookie).ok_or_else(|| format!("P2: request #{} has an unknown bio", id.slot()))?;
            if open.in_device {
                return Err(format!("P2: bio {cookie} is in the device twice"));
            }
            open.in_device = true;
            if bio.extent != open.bio.extent || bio.extent.first_sector != at_sector {
                return Err(format!("P2: bio {cookie} {:?} lies at {at_sector} of request {attributes:?}", bio.extent));
            }
            at_sector = bio.extent.end();
            check_same_kind(&attributes, bio)?;
            if self.limits.volatile_cache
                && open.bio.flags.intersects(Flags::PREFLUSH)
                && self.flushed_from <= open.submitted
            {
                return Err(format!("flush: data of bio {cookie} started before the flush it asked for"));
            }
            if bios > 1 && open.bio.flags.intersects(ALONE) {
                return Err(format!("P3: bio {cookie} forbids merging and shares a request"));
            }
        }
        self.merged += u64::from(bios > 1);
        if bios == 0 || at_sector != attributes.extent.end() {
            return Err(format!("P2: {bios} bios end at {at_sector}, the request is {attributes:?}"));
        }
        Ok(())
    }

    fn check_limits(&self, attributes: &Bio) -> Result<(), Broken> {
        let extent = attributes.extent;
        // A contiguous discard is a single range, however many bios it consists of.
        let segments = if attributes.operation == Operation::Discard { 1 } else { u32::from(attributes.segments) };
        let allowed = self.limits.allow(attributes.operation, extent.first_sector, u64::from(extent.sectors), segments);
        let exempt = attributes.operation == Operation::Passthrough;
        (allowed || exempt).then_some(()).ok_or_else(|| format!("P4: beyond the limits: {attributes:?}"))
    }

    /// A request leaves the device: completed, or returned by the driver.
    pub(crate) fn leave<E: Elevator>(
        &mut self,
        queue: &RequestQueue<E>,
        id: RequestId,
        status: Option<Status>,
    ) -> Result<(), Broken> {
        self.events += 1;
        let in_flight = self.in_flight.remove(&id.slot()).filter(|in_flight| in_flight.id == id);
        let in_flight = in_flight.ok_or_else(|| format!("P1: slot {} completed without being started", id.slot()))?;
        let ended_well = status == Some(Status::Ok);
        if in_flight.is_flush && ended_well {
            self.flushed_from = self.flushed_from.max(in_flight.started);
        }
        for (cookie, _) in queue.bios_of(id) {
            if let Some(open) = self.open.get_mut(&cookie) {
                open.in_device = false;
                if ended_well {
                    open.data_completed = self.events;
                }
            }
        }
        Ok(())
    }

    /// A bio completes.
    pub(crate) fn done(&mut self, done: &Done) -> Result<(), Broken> {
        self.events += 1;
        self.answered += 1;
        let cookie = done.cookie;
        let open = self.open.remove(&cookie).ok_or_else(|| format!("P1: bio {cookie} answered twice"))?;
        self.open_of_context[open.bio.context.0 as usize] -= 1;
        if open.in_device {
            return Err(format!("P1: bio {cookie} answered while in the device"));
        }
        if done.bio.extent != open.bio.extent || done.bio.operation != open.bio.operation {
            return Err(format!("P1: bio {cookie} answered as {:?}, submitted as {:?}", done.bio, open.bio));
        }
        if !done.status.is_ok() {
            return Ok(());
        }
        if open.bio.extent.sectors > 0 && open.data_completed == 0 {
            return Err(format!("P1: bio {cookie} was answered, but its data was never transferred"));
        }
        if !self.limits.volatile_cache {
            return Ok(());
        }
        let wants_before = open.bio.operation == Operation::Flush || open.bio.flags.intersects(Flags::PREFLUSH);
        if wants_before && self.flushed_from <= open.submitted {
            return Err(format!("flush: bio {cookie} is done, no flush began after its submission"));
        }
        let wants_after = open.bio.flags.intersects(Flags::FUA) && !self.limits.fua;
        if wants_after && self.flushed_from <= open.data_completed {
            return Err(format!("flush: bio {cookie} is done, no flush began after its data"));
        }
        Ok(())
    }

    /// Checks P6 after a dispatch loop that ended with `next`.
    pub(crate) fn progress<E: Elevator>(
        &self,
        queue: &RequestQueue<E>,
        hardware_queue: HardwareQueue,
        next: Next,
    ) -> Result<(), Broken> {
        if queue.in_device() as usize != self.in_flight.len() {
            return Err(format!(
                "the queue counts {} in the device, it holds {}",
                queue.in_device(),
                self.in_flight.len()
            ));
        }
        let broken = match next {
            Next::Empty => queue.elevator().has_work(hardware_queue) && !queue.is_switching(),
            // The policy waits for a completion: of a request in the device, or of one that the
            // device refused and that is about to start again.
            Next::Throttled => queue.in_device() == 0 && queue.awaiting_device() == 0 && queue.next_timer().is_none(),
            Next::Hold { .. } => queue.next_timer().is_none(),
            Next::DeviceFull => queue.in_device() == 0,
            Next::Plugged => !queue.is_plugged(),
            Next::Start { .. } => false,
        };
        (!broken).then_some(()).ok_or_else(|| format!("P6: {next:?} on hardware queue {} with work", hardware_queue.0))
    }
}

/// Checks P3 for one bio of a request.
fn check_same_kind(request: &Bio, bio: &Bio) -> Result<(), Broken> {
    let is_kin = bio.operation == request.operation
        && bio.group == request.group
        && bio.priority == request.priority
        && bio.device == request.device;
    is_kin.then_some(()).ok_or_else(|| format!("P3: {bio:?} in {request:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Nanos};
    use hoistway_queue::Settings;

    fn write(flags: Flags) -> Bio {
        Bio { flags, ..Bio::new(Operation::Write, Extent::new(8, 8)) }
    }

    fn ledger() -> Ledger {
        Ledger::new(Limits { fua: false, volatile_cache: true, ..Limits::default() }, 1)
    }

    fn answer(bio: Bio, status: Status) -> Done {
        let (submitted_ns, issued_ns): (Nanos, Nanos) = (0, 0);
        Done { cookie: 1, bio, status, submitted_ns, issued_ns }
    }

    /// A queue with one started request of `bio`, cookie 1, which the ledger has recorded.
    fn started(ledger: &mut Ledger, bio: &Bio) -> (RequestQueue, RequestId, Result<(), Broken>) {
        let mut queue = RequestQueue::build("noop", None, &Settings::default()).unwrap();
        queue.submit(bio, 1, 0).unwrap();
        let Next::Start { id, .. } = queue.dispatch(HardwareQueue(0), 0) else { panic!("a request is queued") };
        let outcome = ledger.start(&queue, id);
        (queue, id, outcome)
    }

    #[test]
    fn a_bio_answered_twice_is_noticed() {
        let (mut ledger, bio) = (ledger(), write(Flags::NONE));
        ledger.submitted(1, &bio);
        let (queue, id, outcome) = started(&mut ledger, &bio);
        outcome.unwrap();
        ledger.leave(&queue, id, Some(Status::Ok)).unwrap();
        ledger.done(&answer(bio, Status::Ok)).unwrap();
        assert!(ledger.done(&answer(bio, Status::Ok)).unwrap_err().starts_with("P1: bio 1 answered twice"));
    }

    #[test]
    fn an_answer_without_the_device_is_noticed() {
        let (mut ledger, bio) = (ledger(), write(Flags::NONE));
        ledger.submitted(1, &bio);
        assert!(ledger.done(&answer(bio, Status::Ok)).unwrap_err().contains("its data was never transferred"));
    }

    #[test]
    fn an_unknown_bio_and_a_double_start_are_noticed() {
        let (mut ledger, bio) = (ledger(), write(Flags::NONE));
        let (queue, id, outcome) = started(&mut ledger, &bio);
        assert!(outcome.unwrap_err().starts_with("P2"));
        assert!(ledger.start(&queue, id).unwrap_err().starts_with("P1"));
    }

    #[test]
    fn a_request_beyond_the_limits_is_noticed() {
        let bio = write(Flags::NONE);
        let mut ledger = Ledger::new(Limits { max_sectors: 4, ..Limits::default() }, 1);
        ledger.submitted(1, &bio);
        assert!(started(&mut ledger, &bio).2.unwrap_err().starts_with("P4"));
    }

    #[test]
    fn a_missing_flush_is_noticed_before_and_behind() {
        // The real queue would flush first; here the data is started without the flush.
        let mut first = ledger();
        first.submitted(1, &write(Flags::PREFLUSH));
        let (_, _, outcome) = started(&mut first, &write(Flags::NONE));
        assert!(outcome.unwrap_err().contains("before the flush it asked for"));

        let mut behind = ledger();
        behind.submitted(1, &write(Flags::FUA));
        let (queue, id, outcome) = started(&mut behind, &write(Flags::NONE));
        outcome.unwrap();
        behind.leave(&queue, id, Some(Status::Ok)).unwrap();
        let missing = behind.done(&answer(write(Flags::FUA), Status::Ok)).unwrap_err();
        assert!(missing.contains("no flush began after its data"), "{missing}");
    }
}
