//! What is kept of a device beside its policy: the table of requests, groups and issuers, counters, and what the glue reads.

use crate::ids::Ids;
use crate::offered::{PER_QUEUE, WANTS_CONTEXTS, WANTS_GROUPS, offer};
use crate::values::{Config, Effect, RUN_QUEUE, Shared, Stats};
use block::{HardwareQueue, RequestId};
use core::sync::atomic::Ordering::Relaxed;
use elevator::structures::{Array, NoMemory};
use elevator::{Attributes, Configuration, Elevator, GroupTree, Requests, Wake};

/// Numbers of reasons that are counted.
const REASONS: u32 = 64;

/// The books of one device.
#[repr(C)]
#[derive(Debug)]
pub struct Books {
    /// For the glue; first, because it reads it through the handle.
    pub shared: Shared,
    pub(crate) requests: Requests,
    pub(crate) groups: GroupTree,
    pub(crate) group_ids: Ids,
    pub(crate) context_ids: Ids,
    pub(crate) reasons: Array<u64>,
    pub(crate) stats: Stats,
    /// The policy has queues of its own for each hardware queue, so that one question does not tell of all of them.
    is_per_queue: bool,
    /// Requests are of groups or issuers.
    has_holders: bool,
    /// blk-mq was told that nothing goes although something is queued: it asks again only when it is told to.
    was_refused: bool,
}

impl Books {
    pub(crate) fn try_new(config: &Config) -> Result<Self, NoMemory> {
        let configuration: Configuration = config.configuration();
        let wants = offer(config.policy).map_or(0, |offer| offer.wants);
        Ok(Self {
            shared: Shared::new(),
            requests: Requests::try_new(configuration.slots)?,
            groups: GroupTree::try_new(configuration.groups)?,
            group_ids: Ids::try_new(configuration.groups)?,
            context_ids: Ids::try_new(configuration.contexts)?,
            reasons: Array::try_new(REASONS, 0)?,
            stats: Stats::default(),
            is_per_queue: wants & PER_QUEUE != 0,
            has_holders: wants & (WANTS_GROUPS | WANTS_CONTEXTS) != 0,
            was_refused: false,
        })
    }

    /// Id 0 of either stands for nobody in particular and is never given back, so nobody has to hold it.
    #[inline]
    pub(crate) fn hold(&mut self, attributes: &Attributes) {
        if !self.has_holders {
            return;
        }
        if attributes.group.0 != 0 {
            self.group_ids.hold(attributes.group.0);
        }
        if attributes.context.0 != 0 {
            self.context_ids.hold(attributes.context.0);
        }
    }

    #[inline(always)]
    pub(crate) fn let_go(&mut self, group: u32, context: u32) {
        if context != 0 && self.context_ids.let_go(context) {
            self.release_context(context);
        }
        if group != 0 && self.group_ids.let_go(group) {
            self.shared.dying_group.store(group, Relaxed);
            self.shared.call_for_attention();
        }
    }

    #[cold]
    #[inline(never)]
    fn release_context(&mut self, context: u32) {
        self.context_ids.release(context);
    }

    /// Gives the slot back, and with it its hold on group and issuer.
    #[inline(always)]
    pub(crate) fn forget(&mut self, id: RequestId) {
        let Some((group, context)) = self.requests.give_back(id) else { return };
        if self.has_holders {
            self.let_go(group.0, context.0);
        }
    }

    #[inline]
    pub(crate) fn one_more_queued(&mut self) {
        let queued = self.shared.queued.load(Relaxed);
        self.shared.queued.store(queued.wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn one_less_queued(&mut self) {
        let queued = self.shared.queued.load(Relaxed);
        // Every one that leaves was counted when it came.
        self.shared.queued.store(queued.wrapping_sub(1), Relaxed);
    }

    #[inline]
    pub(crate) fn one_more_in_driver(&mut self) {
        let in_driver = self.shared.in_driver.load(Relaxed);
        self.shared.in_driver.store(in_driver.wrapping_add(1), Relaxed);
    }

    #[inline]
    pub(crate) fn one_less_in_driver(&mut self) {
        let in_driver = self.shared.in_driver.load(Relaxed);
        self.shared.in_driver.store(in_driver.wrapping_sub(1), Relaxed);
    }

    #[inline]
    pub(crate) fn count_reason(&mut self, reason: u8) {
        if let Some(count) = self.reasons.get_mut(u32::from(reason)) {
            *count = count.wrapping_add(1);
        }
    }

    /// What the glue may read without asking, after any call.
    #[inline(always)]
    pub(crate) fn after<E: Elevator>(&mut self, policy: &E, wake: Wake) -> Effect {
        if wake.is_wanted() {
            self.shared.throttled.store(0, Relaxed);
        }
        let may_go = self.shared.queued.load(Relaxed) != 0 && self.shared.throttled.load(Relaxed) == 0;
        let has_work = may_go && policy.has_work(HardwareQueue(0));
        let mut effect = 0;
        if wake.is_wanted() {
            let had_work = self.shared.has_work.load(Relaxed) != 0;
            effect = self.effect(has_work, had_work);
        }
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        self.tell_timer(policy);
        effect
    }

    /// The same after an insertion: something is queued, nothing is throttled, and blk-mq runs the queue by itself.
    #[inline(always)]
    pub(crate) fn after_insertion<E: Elevator>(&mut self, policy: &E, wake: Wake) {
        let has_work = policy.has_work(HardwareQueue(0));
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        if wake.is_wanted() && (has_work || self.is_per_queue) {
            self.was_refused = false;
        }
        self.tell_timer(policy);
    }

    /// The glue has to know only of a time that is earlier than the one that its timer is set to.
    #[inline(always)]
    fn tell_timer<E: Elevator>(&mut self, policy: &E) {
        let at_ns = policy.next_timer().unwrap_or(u64::MAX);
        self.shared.timer_at_ns.store(at_ns, Relaxed);
        if at_ns != u64::MAX && at_ns < self.shared.armed_at_ns.load(Relaxed) {
            self.shared.call_for_attention();
        }
    }

    /// While blk-mq knows of work it asks by itself for as long as the device takes any, and again when the device can.
    #[inline(always)]
    fn effect(&mut self, has_work: bool, had_work: bool) -> Effect {
        let is_news = has_work && (!had_work || self.was_refused);
        if is_news || self.is_per_queue {
            self.was_refused = false;
            return RUN_QUEUE;
        }
        0
    }

    /// Nothing went, although something may be queued.
    pub(crate) fn refuse(&mut self) {
        self.was_refused = true;
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self) -> Effect {
        self.stats.faults = self.stats.faults.saturating_add(1);
        0
    }
}
