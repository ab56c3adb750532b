//! What a policy declares about itself, so that no host needs a list of policy names.

use hoistway_block::Nanos;

/// What a host must know about a policy before it builds it.
///
/// A policy states what differs from [`Traits::PLAIN`]:
///
/// ```
/// use hoistway_elevator::{Passing, Traits};
/// const TRAITS: Traits = Traits { uses_contexts: true, passing: Passing::WeightedService, ..Traits::PLAIN };
/// assert!(TRAITS.uses_issuers() && !TRAITS.has_shares);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Traits {
    /// It distinguishes issuers. Otherwise a host need not supply the issuer of a request.
    pub uses_contexts: bool,
    /// It distinguishes groups.
    pub uses_groups: bool,
    /// Weights of groups have an effect.
    pub has_shares: bool,
    /// It counts scheduler tags by group: [`crate::Elevator::allocated`] and
    /// [`crate::Elevator::freed`] have an effect.
    pub counts_tags: bool,
    /// Which requests [`crate::Elevator::admit`] may limit.
    pub limits: Limits,
    /// It keeps separate queues per hardware queue: a request queued for one cannot go to another.
    pub is_per_queue: bool,
    /// The policy's times are in milliseconds, so a clock that counts the kernel's ticks is fine
    /// enough.
    pub ticks_suffice: bool,
    /// It schedules or limits async writes itself, so blk-mq's writeback throttling is switched off
    /// for it, as for the kernel's bfq.
    pub schedules_writeback: bool,
    /// Linux has an elevator of this kind. `none` is the absence of one.
    pub is_elevator: bool,
    /// Size of the pieces, in sectors, that the policy wants some transfers cut into
    /// ([`crate::Elevator::longest_sectors`]); [`u32::MAX`] if it never does.
    pub quantum_sectors: u32,
    /// How often later requests may overtake a request.
    pub passing: Passing,
}

/// Which requests may have to wait for a scheduler tag although one is free.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limits {
    /// None.
    Nothing,
    /// All except reads.
    Writes,
    /// All.
    All,
}

/// The starvation promise: how often later requests may overtake one. The simulator's storm checks
/// it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Passing {
    /// No promise that could be checked from the order of requests. The comment on the policy's
    /// traits says why.
    Unchecked,
    /// No request is overtaken.
    Never,
    /// The lists of a hardware queue's software queues take turns, or are dispatched together.
    ListsInTurn,
    /// Each request overtakes a bounded number of earlier ones (the elevator of Linux 2.4).
    Budget {
        /// Reads overtake writes without using up the bound.
        reads_pass: bool,
    },
    /// No request overtakes one of its own direction that was already overdue when it arrived.
    NotOverdue,
    /// A batch of one direction may overtake an overdue request of the other, and a bounded number
    /// of batches of reads may overtake writes.
    Batches {
        /// Each priority class has batches of its own.
        has_classes: bool,
    },
    /// Each kind of I/O that has a token left is overtaken by at most one batch of each other kind.
    Tokens,
    /// Sync and async requests take turns by time, and the device is idled for a bounded time only.
    Turns,
    /// Start-time fair queueing: while a request waits, a sibling's service per weight exceeds its
    /// own by at most one request of each.
    WeightedService,
    /// MQFQ: the same for the root's children, also while all requests of a child are in flight; a
    /// sibling may be ahead by twice the tunable `lead` in addition. Below the root only the order
    /// within a queue is promised.
    WeightedServiceInFlight,
    /// CFQ: a queue's turn ends with its slice. How many turns a request waits for is not promised.
    Slices,
    /// BFQ: a queue's turn ends with its budget and its time. How many turns a request waits for is
    /// not promised.
    Budgets,
    /// Once the oldest best-effort request has waited for `after_ns`, others overtake it only until
    /// `completions` requests have completed, and after that at most `run` real-time requests do.
    Aged {
        /// Age at which a request is overdue.
        after_ns: Nanos,
        /// Completions between two overdue requests.
        completions: u32,
        /// Real-time requests in a row.
        run: u32,
    },
}

impl Traits {
    /// No issuers, no groups, no limits, no promise.
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
        quantum_sectors: u32::MAX,
        passing: Passing::Unchecked,
    };

    /// Weights of groups, and issuers inside a group.
    pub const SHARES: Traits = Traits { uses_contexts: true, uses_groups: true, has_shares: true, ..Traits::PLAIN };

    /// As [`Traits::SHARES`], with tags limited by group as well.
    pub const TAG_SHARES: Traits = Traits { counts_tags: true, limits: Limits::All, ..Traits::SHARES };

    /// Whether a host must supply the issuer of each request, and keep ids for issuers.
    pub const fn uses_issuers(&self) -> bool {
        self.uses_contexts || self.uses_groups
    }
}
