//! Fuzzes mq-deadline with arbitrary host calls.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "mq-deadline",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("mq-deadline", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};

/// The version before Linux 6.5.
pub const BEFORE_6_5: Target =
    Target { name: "mq-deadline-6.1", run: |bytes| drive("mq-deadline@6.1", bytes), ..TARGET };
