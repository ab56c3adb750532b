//! Fuzzes paternoster with arbitrary host calls.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "paternoster",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("paternoster", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};

/// Exact shares: groups that are ahead are never dispatched.
pub const EXACT: Target =
    Target { name: "paternoster-exact", run: |bytes| drive("paternoster:give=100", bytes), ..TARGET };
