//! The forms of BFQ as data: what changed from kernel to kernel
//! (docs/specifications/bfq.md, section 19).

use crate::interface::{Form, Version};

/// What differs between the forms.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    /// No early queue merge and no position index on flash that queues commands: the patch of March
    /// 2019.
    pub(super) skips_merge_on_queueing_flash: bool,
    /// No idling for queues of the lowest weight.
    pub(super) skips_idling_for_lowest_weight: bool,
    /// Idling for a lone queue, and for a raised one while the others have four more requests in
    /// flight.
    pub(super) protects_lone_queue: bool,
    /// Raises only queues with the default weight.
    pub(super) raises_default_weight_only: bool,
    /// A queue whose recent requests were all far apart cannot become soft real-time.
    pub(super) has_totally_seeky: bool,
    /// Saves a queue's weight while it is merged into another.
    pub(super) saves_weight: bool,
    pub(super) preempts: Preempts,
    pub(super) io_bound: IoBound,
    pub(super) injection: Injection,
    /// Detects wakers and woken queues, and injects async requests of the issuer in service.
    pub(super) has_wakers: bool,
    /// Merges new queues of one group and level (stable merge).
    pub(super) has_stable_merge: bool,
    /// Async requests are charged like others while the scenario is asymmetric.
    pub(super) charges_plainly_if_asymmetric: bool,
    /// Weights also limit scheduler tags.
    pub(super) limits_tags_by_weight: bool,
    /// With more groups with requests than this, the scenario counts as asymmetric.
    pub(super) symmetric_groups: u32,
    /// A group counts as having requests for its own queues only, the root included; before, for
    /// all queues below it, without the root.
    pub(super) counts_own_queues: bool,
    /// An issuer has a queue for each actuator of the drive.
    pub(super) has_actuators: bool,
    /// A burst in an otherwise idle system starts with the queue that ended the burst before.
    pub(super) begins_bursts_always: bool,
}

/// Which arrivals preempt the queue in service.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Preempts {
    /// A queue that returns in time and is raised more.
    MoreRaised,
    /// Also a queue raised as much, of a higher class or weight; and any, once the queue in service
    /// is no longer idled for.
    Also,
}

/// When a queue counts as I/O bound.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum IoBound {
    /// Until it lets the idle timer expire with most of its budget left; again after 120 arrivals
    /// in time.
    ArrivalsInTime,
    /// While it is idle for at most a fifth of the time.
    ShareOfTime,
}

/// How requests of others are injected while the device is idled for a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Injection {
    /// Up to ten times the sectors that a seeky queue on flash had in its turn.
    Service,
    /// As many as keep the total service time of the queue's own requests within 1.5 times the
    /// baseline.
    ServiceTime,
}

const FIRST: Profile = Profile {
    skips_merge_on_queueing_flash: false,
    skips_idling_for_lowest_weight: false,
    protects_lone_queue: false,
    raises_default_weight_only: false,
    has_totally_seeky: false,
    saves_weight: false,
    preempts: Preempts::MoreRaised,
    io_bound: IoBound::ArrivalsInTime,
    injection: Injection::Service,
    has_wakers: false,
    has_stable_merge: false,
    charges_plainly_if_asymmetric: false,
    limits_tags_by_weight: false,
    symmetric_groups: 0,
    counts_own_queues: false,
    has_actuators: false,
    begins_bursts_always: true,
};

const MARCH_2019: Profile = Profile {
    skips_merge_on_queueing_flash: true,
    skips_idling_for_lowest_weight: true,
    has_totally_seeky: true,
    saves_weight: true,
    injection: Injection::ServiceTime,
    begins_bursts_always: false,
    ..FIRST
};

const WITH_WAKERS: Profile = Profile {
    protects_lone_queue: true,
    raises_default_weight_only: true,
    preempts: Preempts::Also,
    io_bound: IoBound::ShareOfTime,
    has_wakers: true,
    has_stable_merge: true,
    charges_plainly_if_asymmetric: true,
    limits_tags_by_weight: true,
    ..MARCH_2019
};

const OWN_QUEUES: Profile = Profile { symmetric_groups: 1, counts_own_queues: true, ..WITH_WAKERS };

const NEWEST: Profile = Profile { has_actuators: true, ..OWN_QUEUES };

/// By version: 4.12 stands for all up to 5.1; 5.2 is the series of March 2019.
pub const FORMS: &[Form<&'static Profile>] = &[
    Form { since: Version(4, 12, 0), profile: &FIRST },
    Form { since: Version(5, 2, 0), profile: &MARCH_2019 },
    Form { since: Version(5, 17, 0), profile: &WITH_WAKERS },
    Form { since: Version(6, 2, 0), profile: &OWN_QUEUES },
    Form { since: Version(6, 3, 0), profile: &NEWEST },
];
