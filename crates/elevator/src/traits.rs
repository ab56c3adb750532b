//! What a policy declares about itself, so that no host keeps a list of policies' names.

/// What a host has to know of a policy before it builds it.
///
/// A policy writes down what differs from [`Traits::PLAIN`]:
///
/// ```
/// use hoistway_elevator::{Passing, Traits};
/// const TRAITS: Traits = Traits { uses_contexts: true, passing: Passing::WeightedService, ..Traits::PLAIN };
/// assert!(TRAITS.uses_issuers() && !TRAITS.has_shares);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traits {
    /// It distinguishes issuers. Otherwise a host need not say whose a request is.
    pub uses_contexts: bool,
    /// It distinguishes groups.
    pub uses_groups: bool,
    /// Weights of groups have an effect.
    pub has_shares: bool,
    /// It counts scheduler tags by group: [`crate::Elevator::allocated`] and [`crate::Elevator::freed`] have an effect.
    pub counts_tags: bool,
    /// Which requests [`crate::Elevator::admit`] may limit.
    pub limits: Limits,
    /// Each hardware queue has queues of its own: what waits for one cannot go to another.
    pub is_per_queue: bool,
    /// Its times are milliseconds, so that a clock that counts the kernel's ticks is fine enough.
    pub ticks_suffice: bool,
    /// It shares out or holds back asynchronous writes itself, so that blk-mq's writeback throttling is switched off, as for
    /// the kernel's bfq.
    pub schedules_writeback: bool,
    /// Linux has an elevator of this kind. `none` is what Linux does without one.
    pub is_elevator: bool,
    /// How often a request may be passed over.
    pub passing: Passing,
}

/// Which requests may be told to wait for a scheduler tag although one is free.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limits {
    /// None.
    Nothing,
    /// All but reads.
    Writes,
    /// All.
    All,
}

/// The promise about requests that are passed over by later ones. The simulator's storm holds policies to it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Passing {
    /// It promises shares of time, which the order of requests alone does not show.
    Unchecked,
    /// No request is passed over.
    Never,
    /// The lists of a hardware queue's software queues take turns or leave together.
    ListsInTurn,
    /// Each request passes a bounded number of earlier ones (the elevator of Linux 2.4).
    Budget {
        /// Reads pass writes for nothing.
        reads_pass: bool,
    },
    /// No request passes one of its direction that was overdue when it came.
    NotOverdue,
    /// A batch of one direction passes an overdue request of the other, and a bounded number of batches of reads pass writes.
    Batches {
        /// Priority classes have batches of their own.
        has_classes: bool,
    },
    /// Each kind of I/O that has a token left sees one batch of each other kind pass.
    Tokens,
    /// Sync and async requests take turns by time, and the device is kept idle for a bounded time.
    Turns,
    /// Start-time fair queueing: a sibling gets over its weight what a waiting one gets over its own, and one request of each
    /// more.
    WeightedService,
}

impl Traits {
    /// Neither issuers nor groups, nothing is limited, nothing is promised.
    pub const PLAIN: Traits = Traits {
        uses_contexts: false,
        uses_groups: false,
        has_shares: false,
        counts_tags: false,
        limits: Limits::Nothing,
        is_per_queue: false,
        ticks_suffice: false,
        schedules_writeback: false,
        is_elevator: true,
        passing: Passing::Unchecked,
    };

    /// Weights of groups, and issuers inside a group.
    pub const SHARES: Traits = Traits { uses_contexts: true, uses_groups: true, has_shares: true, ..Traits::PLAIN };

    /// Tags are limited by group as well.
    pub const TAG_SHARES: Traits = Traits { counts_tags: true, limits: Limits::All, ..Traits::SHARES };

    /// Whether a host has to say whose a request is, and keep ids for it.
    pub const fn uses_issuers(&self) -> bool {
        self.uses_contexts || self.uses_groups
    }
}
