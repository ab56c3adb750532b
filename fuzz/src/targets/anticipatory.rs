//! Fuzzes anticipatory with arbitrary host calls.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "anticipatory",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("anticipatory", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};
