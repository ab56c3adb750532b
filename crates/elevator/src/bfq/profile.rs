//! The forms of BFQ as data: what changed from kernel to kernel
//! (docs/specifications/bfq.md, section 19).

use super::next_request::LONG_ON_FLASH_SECTORS;
use crate::interface::{Form, Version};

/// What differs between the forms.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    pub(super) turns: TurnRules,
    pub(super) budgets: BudgetRules,
    pub(super) idling: IdlingRules,
    pub(super) behaviour: BehaviourRules,
    pub(super) raising: RaisingRules,
    pub(super) injection: InjectionRules,
    pub(super) merging: MergingRules,
    pub(super) tags: TagRules,
    /// An issuer has a queue for each actuator of the drive.
    pub(super) has_actuators: bool,
    /// A queue that ends a burst, because it was created later or in another group, begins the next
    /// burst even if other queues are busy; in other forms only if none is.
    pub(super) begins_bursts_always: bool,
    /// Takes notice of batch times ([`Configuration::batch_times`](crate::interface::Configuration)):
    /// the time of a request may lie before the last completion.
    pub(super) keeps_plug_time: bool,
}

impl Profile {
    /// The same form where a request of at least `near_sectors` sectors never counts as far.
    #[inline(always)]
    pub(super) fn with_near_sectors(mut self, near_sectors: u32) -> Self {
        self.behaviour.near_sectors = near_sectors;
        self
    }
}

/// When a turn ends, and which is next.
#[derive(Copy, Clone, Debug)]
pub struct TurnRules {
    pub(super) preempts: Preempts,
    /// A preempted queue that the device must be idled for stays busy although it is empty.
    pub(super) keeps_preempted_busy: bool,
    /// Looks for the next entity when a turn begins. Other forms keep the choice that they made while
    /// the last turn went on, even if it is not eligible (quirk Q17 of docs/specifications/bfq.md).
    pub(super) looks_up_each: bool,
    pub(super) polls: Polls,
    /// `strict_guarantees` keeps at most one request in the device.
    pub(super) strict_is_serial: bool,
}

/// What a turn may transfer, and what it is charged.
#[derive(Copy, Clone, Debug)]
pub struct BudgetRules {
    /// Measures the peak rate and slow turns by turns; in other forms by dispatches and by half of the
    /// largest budget.
    pub(super) rates_turns: bool,
    /// A slow turn that lasts as long as the timeout is charged the largest budget.
    pub(super) charges_whole_timeouts: bool,
    /// A queue that returns in time keeps its budget even if nothing is left of it.
    pub(super) keeps_spent: bool,
    /// A turn ends at once if the first request needs more than the queue's budget; then nothing is
    /// dispatched until a request completes or arrives.
    pub(super) gives_up_on_misfit: bool,
    /// Charges for async requests, in multiples of their size: while no raised queue is busy, and
    /// while one is.
    pub(super) async_charges: [u8; 2],
    /// Async requests are charged like sync ones while the scenario is asymmetric: weights, classes
    /// or groups of busy queues differ.
    pub(super) charges_plainly_if_asymmetric: bool,
}

/// For which queues the device is idled.
#[derive(Copy, Clone, Debug)]
pub struct IdlingRules {
    /// No idling for queues of the lowest weight.
    pub(super) skips_lowest_weight: bool,
    /// Idles the device for a queue that is the only busy one.
    pub(super) protects_lone_queue: bool,
    /// Idles for a raised queue while the others have at least four more requests in flight, even
    /// if these are raised as well.
    pub(super) includes_crowds: bool,
    /// Does not idle for a raised queue only because it is raised if all busy queues are.
    pub(super) spares_if_all_raised: bool,
    /// Does not idle for the share of a queue that began in a large burst.
    pub(super) spares_large_bursts: bool,
    /// With more groups with requests than this, the scenario counts as asymmetric.
    pub(super) symmetric_groups: u8,
    /// A group, also the root, counts as having requests only if its own queues have some. In older
    /// forms the queues of its descendants count as well, and the root does not count.
    pub(super) counts_own_queues: bool,
    /// Weights of queues and of groups make the scenario asymmetric, those of groups only if two in
    /// active sets differ; classes and equal groups do not.
    pub(super) compares_group_weights: bool,
    /// Idles for every sync queue on a device that does not queue commands; in other forms for seeky
    /// or slow ones only on a rotational device.
    pub(super) includes_devices_without_queue: bool,
    /// Idles for a raised queue at least 20 ms.
    pub(super) longer_for_raised: bool,
}

/// What is concluded from the arrivals of a queue, and from what the device holds.
#[derive(Copy, Clone, Debug)]
pub struct BehaviourRules {
    pub(super) io_bound: IoBound,
    /// Divides `slice_idle` into the longest think time that still counts as short, as a shift.
    pub(super) think_shift: u8,
    /// A queue whose recent requests were all far apart cannot become soft real-time.
    pub(super) has_totally_seeky: bool,
    /// With more far requests than this among the last 32, a queue is seeky.
    pub(super) seeky_above: u8,
    /// On flash a request of at least this length never counts as far in its queue.
    pub(super) near_sectors: u32,
    /// A device that holds more requests than this at a time queues commands.
    pub(super) queueing_above: u8,
    /// Completions do not count towards that while the queue in service has few requests.
    pub(super) skips_few_requests: bool,
}

/// Which queues are raised, and for how long.
#[derive(Copy, Clone, Debug)]
pub struct RaisingRules {
    /// Raises only queues with the default weight.
    pub(super) default_weight_only: bool,
    /// The longest raising of an interactive queue.
    pub(super) longest_ms: u32,
    /// An interactive queue ceases to be raised when it has had more than this.
    pub(super) service_max_sectors: u32,
    /// A queue that ceases to be soft real-time is interactive again for the rest of that period.
    pub(super) returns_to_interactive: bool,
}

/// Requests of others while the device is idled for a queue.
#[derive(Copy, Clone, Debug)]
pub struct InjectionRules {
    pub(super) method: Injection,
    /// Injects async requests of the issuer in service.
    pub(super) includes_own_async: bool,
    /// Detects wakers (queues whose completions trigger requests of another queue), and injects
    /// their requests.
    pub(super) has_wakers: bool,
    /// Also injects requests of queues that the queue in service wakes.
    pub(super) includes_woken: bool,
    /// The detections that confirm a waker must not be far apart.
    pub(super) limits_waker_detection: bool,
}

/// Queues that become one.
#[derive(Copy, Clone, Debug)]
pub struct MergingRules {
    /// No early queue merge and no position index on flash that queues commands: the patch of March
    /// 2019.
    pub(super) skips_queueing_flash: bool,
    /// Saves a queue's weight while it is merged into another.
    pub(super) saves_weight: bool,
    /// Merges new queues of one group and level (stable merge).
    pub(super) has_stable: bool,
    /// Queues become one only within 100 ms of their first request, and near the last request of the
    /// queue in service; in other forms at any time, unless one has been raised for longer than that,
    /// and near the last request of any queue.
    pub(super) young_only: bool,
}

/// Limits of scheduler tags.
#[derive(Copy, Clone, Debug)]
pub struct TagRules {
    /// Weights also limit scheduler tags.
    pub(super) by_weight: bool,
    /// Limits how many tags async requests and sync writes may use.
    pub(super) by_kind: bool,
}

/// When the block layer asks BFQ for a request again, although no request arrived meanwhile, after
/// BFQ dispatched none while requests were queued.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Polls {
    /// After every completion: the single-queue block layer.
    OnCompletion,
    /// Never.
    Never,
    /// 3 ms after the last call that dispatched none: each such call moves the poll.
    AfterLast,
    /// 3 ms after the first call since the last poll that dispatched none: later calls do not move it.
    AfterFirst,
}

/// Which arrivals preempt the queue in service.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Preempts {
    /// A request preempts if its queue is raised more than the queue in service.
    MoreRaised,
    /// A request preempts if its queue returns in time and is raised as much, or if its queue has a
    /// higher class or a larger weight.
    HigherToo,
    /// It also preempts if the device need not be idled for the queue in service.
    AlsoIfNotIdledFor,
}

/// When a queue counts as I/O bound.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum IoBound {
    /// Until the idle timer expires while most of its budget is left; and again after 120 arrivals
    /// in time.
    ArrivalsInTime,
    /// While it is idle for at most a fifth of the time.
    ShareOfTime,
}

/// How requests of others are injected while the device is idled for a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Injection {
    /// None.
    None,
    /// Up to ten times the sectors that a seeky queue on flash had in its turn.
    Service,
    /// As many as keep the total service time of the queue's own requests below 1.5 times the time
    /// without injection.
    ServiceTime,
}

/// The series outside of the kernel, as of September 2016.
const V8R3: Profile = Profile {
    turns: TurnRules {
        preempts: Preempts::MoreRaised,
        keeps_preempted_busy: false,
        polls: Polls::OnCompletion,
        looks_up_each: true,
        strict_is_serial: false,
    },
    budgets: BudgetRules {
        charges_plainly_if_asymmetric: false,
        rates_turns: true,
        charges_whole_timeouts: false,
        keeps_spent: true,
        gives_up_on_misfit: true,
        async_charges: [10, 20],
    },
    idling: IdlingRules {
        skips_lowest_weight: false,
        protects_lone_queue: false,
        includes_crowds: false,
        spares_if_all_raised: false,
        spares_large_bursts: true,
        symmetric_groups: 0,
        counts_own_queues: false,
        compares_group_weights: true,
        includes_devices_without_queue: true,
        longer_for_raised: false,
    },
    behaviour: BehaviourRules {
        has_totally_seeky: false,
        io_bound: IoBound::ArrivalsInTime,
        think_shift: 0,
        seeky_above: 4,
        near_sectors: u32::MAX,
        queueing_above: 4,
        skips_few_requests: false,
    },
    raising: RaisingRules {
        default_weight_only: false,
        longest_ms: 13_000,
        service_max_sectors: u32::MAX,
        returns_to_interactive: false,
    },
    injection: InjectionRules {
        method: Injection::None,
        includes_own_async: false,
        has_wakers: false,
        includes_woken: false,
        limits_waker_detection: false,
    },
    merging: MergingRules { skips_queueing_flash: false, saves_weight: false, has_stable: false, young_only: false },
    tags: TagRules { by_weight: false, by_kind: false },
    has_actuators: false,
    begins_bursts_always: true,
    keeps_plug_time: false,
};

const FIRST: Profile = Profile {
    turns: TurnRules { polls: Polls::Never, looks_up_each: false, strict_is_serial: true, ..V8R3.turns },
    budgets: BudgetRules { rates_turns: false, gives_up_on_misfit: false, ..V8R3.budgets },
    behaviour: BehaviourRules { near_sectors: LONG_ON_FLASH_SECTORS, ..V8R3.behaviour },
    raising: RaisingRules { returns_to_interactive: true, ..V8R3.raising },
    ..V8R3
};

const AUGUST_2018: Profile = Profile {
    budgets: BudgetRules { charges_whole_timeouts: true, keeps_spent: false, async_charges: [3, 3], ..FIRST.budgets },
    idling: IdlingRules { includes_devices_without_queue: false, ..FIRST.idling },
    behaviour: BehaviourRules { seeky_above: 19, ..FIRST.behaviour },
    raising: RaisingRules { longest_ms: 25_000, service_max_sectors: 120_000, ..FIRST.raising },
    merging: MergingRules { young_only: true, ..FIRST.merging },
    tags: TagRules { by_kind: true, ..FIRST.tags },
    ..FIRST
};

const SEPTEMBER_2018: Profile = Profile {
    idling: IdlingRules { spares_if_all_raised: true, compares_group_weights: false, ..AUGUST_2018.idling },
    injection: InjectionRules { method: Injection::Service, ..AUGUST_2018.injection },
    ..AUGUST_2018
};

const JANUARY_2019: Profile = Profile {
    budgets: BudgetRules { charges_plainly_if_asymmetric: true, ..SEPTEMBER_2018.budgets },
    idling: IdlingRules { spares_large_bursts: false, ..SEPTEMBER_2018.idling },
    behaviour: BehaviourRules { queueing_above: 3, skips_few_requests: true, ..SEPTEMBER_2018.behaviour },
    ..SEPTEMBER_2018
};

const MARCH_2019: Profile = Profile {
    idling: IdlingRules {
        skips_lowest_weight: true,
        includes_crowds: true,
        longer_for_raised: true,
        ..JANUARY_2019.idling
    },
    behaviour: BehaviourRules { has_totally_seeky: true, ..JANUARY_2019.behaviour },
    injection: InjectionRules { method: Injection::ServiceTime, includes_own_async: true, ..JANUARY_2019.injection },
    merging: MergingRules { skips_queueing_flash: true, saves_weight: true, ..JANUARY_2019.merging },
    begins_bursts_always: false,
    ..JANUARY_2019
};

const WITH_WAKERS: Profile = Profile {
    turns: TurnRules { preempts: Preempts::HigherToo, keeps_preempted_busy: true, ..MARCH_2019.turns },
    injection: InjectionRules { has_wakers: true, ..MARCH_2019.injection },
    ..MARCH_2019
};

const POLLED: Profile = Profile { turns: TurnRules { polls: Polls::AfterLast, ..WITH_WAKERS.turns }, ..WITH_WAKERS };

const JANUARY_2021: Profile = Profile {
    turns: TurnRules { preempts: Preempts::AlsoIfNotIdledFor, ..POLLED.turns },
    idling: IdlingRules { protects_lone_queue: true, ..POLLED.idling },
    behaviour: BehaviourRules { io_bound: IoBound::ShareOfTime, think_shift: 1, ..POLLED.behaviour },
    raising: RaisingRules { default_weight_only: true, ..POLLED.raising },
    ..POLLED
};

const STABLY_MERGED: Profile = Profile {
    injection: InjectionRules { includes_woken: true, ..JANUARY_2021.injection },
    merging: MergingRules { has_stable: true, ..JANUARY_2021.merging },
    ..JANUARY_2021
};

const TAGS_BY_WEIGHT: Profile = Profile {
    injection: InjectionRules { limits_waker_detection: true, ..STABLY_MERGED.injection },
    tags: TagRules { by_weight: true, ..STABLY_MERGED.tags },
    ..STABLY_MERGED
};

const POLLED_IN_TIME: Profile =
    Profile { turns: TurnRules { polls: Polls::AfterFirst, ..TAGS_BY_WEIGHT.turns }, ..TAGS_BY_WEIGHT };

const OWN_QUEUES: Profile = Profile {
    idling: IdlingRules { symmetric_groups: 1, counts_own_queues: true, ..POLLED_IN_TIME.idling },
    ..POLLED_IN_TIME
};

const WITH_ACTUATORS: Profile = Profile { has_actuators: true, ..OWN_QUEUES };

const NEWEST: Profile = Profile { keeps_plug_time: true, ..WITH_ACTUATORS };

/// By version; docs/elevators/bfq.md has the source of each difference.
pub const FORMS: &[Form<&'static Profile>] = &[
    Form { since: Version(4, 7, 0), profile: &V8R3 },
    Form { since: Version(4, 12, 0), profile: &FIRST },
    Form { since: Version(4, 19, 0), profile: &AUGUST_2018 },
    Form { since: Version(4, 20, 0), profile: &SEPTEMBER_2018 },
    Form { since: Version(5, 1, 0), profile: &JANUARY_2019 },
    Form { since: Version(5, 2, 0), profile: &MARCH_2019 },
    Form { since: Version(5, 3, 0), profile: &WITH_WAKERS },
    Form { since: Version(5, 8, 0), profile: &POLLED },
    Form { since: Version(5, 12, 0), profile: &JANUARY_2021 },
    Form { since: Version(5, 13, 0), profile: &STABLY_MERGED },
    Form { since: Version(5, 17, 0), profile: &TAGS_BY_WEIGHT },
    Form { since: Version(5, 18, 0), profile: &POLLED_IN_TIME },
    Form { since: Version(6, 2, 0), profile: &OWN_QUEUES },
    Form { since: Version(6, 3, 0), profile: &WITH_ACTUATORS },
    Form { since: Version(6, 9, 0), profile: &NEWEST },
];
