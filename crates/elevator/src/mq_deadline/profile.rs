//! The forms of mq-deadline as data: what changed from kernel to kernel.

use crate::interface::{Form, Version};

/// What differs between the forms.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    pub(super) remembers: Remembers,
    pub(super) dispatch_lists: DispatchLists,
    pub(super) async_depth: AsyncDepth,
}

/// Where a direction continues after a request was sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Remembers {
    /// At the request that was its successor at that time: newcomers in between wait for the next
    /// sweep.
    NextRequest,
    /// At the first request at or behind its position: newcomers ahead of the head are included.
    SectorPosition,
}

/// Which classes share a list of head inserts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DispatchLists {
    PerClass,
    Shared,
}

/// The default of `async_depth`, in terms of `nr_requests`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AsyncDepth {
    ThreeQuarters,
    All,
}

impl AsyncDepth {
    pub const fn of(self, requests: u32) -> i64 {
        let depth = match self {
            AsyncDepth::ThreeQuarters => requests as i64 * 3 / 4,
            AsyncDepth::All => requests as i64,
        };
        if depth < 1 { 1 } else { depth }
    }
}

/// Oldest first. The default of `async_depth` that covers all tags came with a fix of 2024, which
/// older stable kernels took too.
pub const FORMS: &[Form<Profile>] = &[
    Form {
        since: Version(6, 1, 0),
        profile: Profile {
            remembers: Remembers::NextRequest,
            dispatch_lists: DispatchLists::PerClass,
            async_depth: AsyncDepth::ThreeQuarters,
        },
    },
    Form {
        since: Version(6, 5, 0),
        profile: Profile {
            remembers: Remembers::SectorPosition,
            dispatch_lists: DispatchLists::Shared,
            async_depth: AsyncDepth::ThreeQuarters,
        },
    },
    Form {
        since: Version(6, 11, 0),
        profile: Profile {
            remembers: Remembers::SectorPosition,
            dispatch_lists: DispatchLists::Shared,
            async_depth: AsyncDepth::All,
        },
    },
];
