//! Fuzzes bfq with arbitrary host calls, in several versions.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "bfq",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("bfq", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};

/// With wakers and permanently merged queues; groups count all groups below them.
pub const WITH_WAKERS: Target = Target { name: "bfq-6.1", run: |bytes| drive("bfq@6.1", bytes), ..TARGET };

/// Injection by total service time, and no early merging on flash.
pub const MARCH_2019: Target = Target { name: "bfq-5.2", run: |bytes| drive("bfq@5.2", bytes), ..TARGET };

/// Injection by service, and early merging everywhere.
pub const FIRST: Target = Target { name: "bfq-4.12", run: |bytes| drive("bfq@4.12", bytes), ..TARGET };
