//! Fuzzes sfq and its relatives with arbitrary host calls.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "sfq",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("sfq:depth=3", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};

/// The version whose depth adapts to the latency of requests.
pub const ADAPTIVE: Target = Target { name: "sfq-d2", run: |bytes| drive("sfq-d2", bytes), ..TARGET };

/// The version that holds back groups that are ahead.
pub const STRICT: Target = Target { name: "mqfq", run: |bytes| drive("mqfq", bytes), ..TARGET };
