//! The state of a device beside its policy: tables of requests, groups and issuers, counters, and
//! the values that the glue (the C files of kernel/module) reads.

use crate::ids::Ids;
use crate::values::{ATTEND, Action, Config, Effect, NONE, REFUSED, RUN_QUEUE, Shared, Stats, THROTTLED};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use hoistway_block::{HardwareQueue, Nanos, RequestId};
use hoistway_elevator::structures::NoMemory;
use hoistway_elevator::{Attributes, Configuration, Elevator, GroupTree, Requests, Wake};

/// The number of reasons that are counted; no policy has more.
const REASONS: usize = 64;

/// The state of one device beside its policy.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceState {
    /// The values that the glue reads. They must be first, because it finds them through the
    /// handle.
    pub shared: Shared,
    pub(crate) requests: Requests,
    pub(crate) groups: GroupTree,
    pub(crate) group_ids: Ids,
    pub(crate) context_ids: Ids,
    pub(crate) reasons: Box<[u64; REASONS]>,
    pub(crate) stats: Stats,
    pub(crate) tallies: Tallies,
    /// The last answer that chose no request.
    pub(crate) refusal: Action,
}

/// Counters from which others are derived (see [`DeviceState::stats`]), so that each event increments
/// only one.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Tallies {
    /// Queued requests that were absorbed.
    pub absorbed_queued: u64,
    /// The number of times that no request was chosen.
    pub refusals: u64,
    /// Requests that completed in the device without the policy's knowledge, after they had been
    /// requeued.
    pub finished_unknown: u64,
}

/// Allocated separately to keep the state small; an array, so that its length is known to the
/// compiler.
fn no_reasons() -> Result<Box<[u64; REASONS]>, NoMemory> {
    let mut counts = Vec::new();
    counts.try_reserve_exact(REASONS).map_err(|_| NoMemory)?;
    counts.resize(REASONS, 0);
    counts.try_into().map_err(|_: Vec<u64>| NoMemory)
}

impl DeviceState {
    pub(crate) fn try_new(config: &Config) -> Result<Self, NoMemory> {
        let configuration: Configuration = config.configuration();
        Ok(Self {
            shared: Shared::new(),
            requests: Requests::try_new(configuration.slots)?,
            groups: GroupTree::try_new(configuration.groups)?,
            group_ids: Ids::try_new(configuration.groups)?,
            context_ids: Ids::try_new(configuration.contexts)?,
            reasons: no_reasons()?,
            stats: Stats::default(),
            tallies: Tallies::default(),
            refusal: Action::default(),
        })
    }

    /// Adds a reference to a request's group and issuer. Id 0 (the root group, the shared issuer)
    /// is never released, so references to it are not counted.
    #[inline(always)]
    pub(crate) fn get_ref<E: Elevator>(&mut self, attributes: &Attributes) {
        if !E::TRAITS.uses_issuers() {
            return;
        }
        if attributes.group.0 != 0 {
            self.group_ids.get_ref(attributes.group.0);
        }
        if attributes.context.0 != 0 {
            self.context_ids.get_ref(attributes.context.0);
        }
    }

    /// Drops a reference to group and issuer; returns whether the glue must attend to a dying
    /// group.
    #[inline(always)]
    pub(crate) fn put_ref(&mut self, group: u32, context: u32) -> bool {
        if context != 0 && self.context_ids.put_ref(context) {
            self.release_context(context);
        }
        let is_last = group != 0 && self.group_ids.put_ref(group);
        if is_last {
            self.mark_dying(group);
        }
        is_last
    }

    #[cold]
    #[inline(never)]
    fn mark_dying(&self, group: u32) {
        self.shared.dying_group.store(group, Relaxed);
        self.shared.request_attention();
    }

    #[cold]
    #[inline(never)]
    fn release_context(&mut self, context: u32) {
        self.context_ids.release(context);
    }

    /// Releases the slot of a request that is known to be live, and its references to group and
    /// issuer; returns whether the glue must attend to a dying group.
    #[inline(always)]
    pub(crate) fn forget<E: Elevator>(&mut self, id: RequestId) -> bool {
        let (group, context) = self.requests.give_back_known(id);
        E::TRAITS.uses_issuers() && self.put_ref(group.0, context.0)
    }

    #[inline]
    pub(crate) fn one_more_queued(&mut self) {
        let queued = self.shared.queued.load(Relaxed);
        self.shared.queued.store(queued.wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn one_less_queued(&mut self) {
        let queued = self.shared.queued.load(Relaxed);
        // Every request that leaves was counted on arrival.
        self.shared.queued.store(queued.wrapping_sub(1), Relaxed);
    }

    #[inline]
    pub(crate) fn count_reason(&mut self, reason: u8) {
        let count = &mut self.reasons[usize::from(reason) % REASONS];
        *count = count.wrapping_add(1);
    }

    /// [`DeviceState::after`] when a request was just dispatched. It does less, because blk-mq
    /// continues dispatching and nothing is throttled then. Whether requests are queued need not be
    /// checked either: a policy without queued requests says itself that it has no work.
    #[inline(always)]
    pub(crate) fn after_choice<E: Elevator>(&mut self, policy: &E, wake: Wake) -> u32 {
        self.shared.stalled.store(0, Relaxed);
        let has_work = policy.has_work(HardwareQueue(0));
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        // The queue that would be run is the one that is dispatching.
        let _ = wake;
        if self.is_earlier(policy) { ATTEND } else { 0 }
    }

    /// Updates the values that the glue reads without a call; used after any call.
    #[inline(always)]
    pub(crate) fn after<E: Elevator>(&mut self, policy: &E, wake: Wake) -> Effect {
        if wake.is_wanted() {
            self.shared.clear_condition(THROTTLED);
        }
        let may_go = self.shared.queued.load(Relaxed) != 0 && !self.shared.is(THROTTLED);
        let has_work = may_go && policy.has_work(HardwareQueue(0));
        let mut effect = 0;
        if wake.is_wanted() {
            let had_work = self.shared.has_work.load(Relaxed) != 0;
            effect = self.effect::<E>(has_work, had_work);
        }
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        if self.is_earlier(policy) { effect | ATTEND } else { effect }
    }

    /// [`DeviceState::after`] for an insertion: a request is queued, nothing is throttled, and blk-mq
    /// runs the queue anyway. Returns whether the glue must set its timer earlier.
    #[inline(always)]
    pub(crate) fn after_insertion<E: Elevator>(&mut self, policy: &E) -> bool {
        let has_work = policy.has_work(HardwareQueue(0));
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        self.is_earlier(policy)
    }

    /// Publishes the policy's timer only if it is earlier than the time to which the glue's timer
    /// is set.
    #[inline(always)]
    fn is_earlier<E: Elevator>(&mut self, policy: &E) -> bool {
        match policy.next_timer() {
            Some(at_ns) if at_ns < self.shared.armed_at_ns.load(Relaxed) => {
                self.shared.timer_at_ns.store(at_ns, Relaxed);
                self.shared.request_attention();
                true
            }
            _ => false,
        }
    }

    /// Asks for a run of the hardware queues if it is needed. While blk-mq knows that there is
    /// work, it dispatches by itself as long as the device accepts requests, and again when the
    /// device does.
    #[inline(always)]
    fn effect<E: Elevator>(&mut self, has_work: bool, had_work: bool) -> Effect {
        let is_new_work = has_work && (!had_work || self.shared.is(REFUSED));
        // If the policy has separate queues for each hardware queue, a dispatch for one of them
        // does not mean that blk-mq dispatches for the others.
        if is_new_work || E::TRAITS.is_per_queue {
            self.shared.clear_condition(REFUSED);
            return RUN_QUEUE;
        }
        0
    }

    /// Records that no request was chosen, although some may be queued.
    pub(crate) fn refuse(&mut self, kind: u32, until_ns: Nanos) -> Action {
        self.tallies.refusals = self.tallies.refusals.wrapping_add(1);
        self.shared.set_condition(REFUSED);
        self.refusal = Action { kind, id: NONE, until_ns };
        self.refusal
    }

    /// All counters. Requests that were inserted and neither dispatched nor absorbed are queued;
    /// those that were dispatched and neither requeued nor completed are in the driver.
    pub(crate) fn stats(&self) -> Stats {
        let (stats, tallies) = (self.stats, self.tallies);
        let left = stats.dispatched.wrapping_add(tallies.absorbed_queued);
        let ended = stats.finished.wrapping_sub(tallies.finished_unknown);
        Stats {
            inserted: left.wrapping_add(u64::from(self.shared.queued.load(Relaxed))),
            in_driver: stats.dispatched.wrapping_sub(stats.requeued).wrapping_sub(ended),
            dispatch_calls: stats.dispatched.wrapping_add(tallies.refusals),
            groups: u64::from(self.group_ids.in_use()),
            contexts: u64::from(self.context_ids.in_use()),
            groups_refused: self.group_ids.refused,
            contexts_refused: self.context_ids.refused,
            ..stats
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self) -> Effect {
        self.stats.faults = self.stats.faults.saturating_add(1);
        0
    }
}
