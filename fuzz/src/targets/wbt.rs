//! Fuzzes wbt with arbitrary host calls.

use super::limiter::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "wbt",
    promise: "no call breaks an invariant, loses a bio or releases one twice",
    run: drive::<hoistway_elevator::wbt::Wbt>,
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};
