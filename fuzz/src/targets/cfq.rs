//! Fuzzes cfq with arbitrary host calls: the last version, those around the patches of 2010, the
//! first, and the group layers of 2008 above it.

use super::policy::{LONGEST_BYTES, TOKENS, corpus, drive};
use crate::target::Target;

pub const TARGET: Target = Target {
    name: "cfq",
    promise: "no call breaks an invariant, loses a bio or stops the queue",
    run: |bytes| drive("cfq", bytes),
    corpus,
    tokens: TOKENS,
    longest_bytes: LONGEST_BYTES,
};

/// With groups in one level, and time in ticks.
pub const MERGED: Target = Target { name: "cfq-2.6.36", run: |bytes| drive("cfq@2.6.36", bytes), ..TARGET };

/// Before IOPS mode.
pub const WITH_GROUPS: Target = Target { name: "cfq-2.6.35", run: |bytes| drive("cfq@2.6.35", bytes), ..TARGET };

/// Without groups, dispatching in rounds.
pub const FIRST: Target = Target { name: "cfq-2.6.26", run: |bytes| drive("cfq@2.6.26", bytes), ..TARGET };

/// One first-version cfq in each group.
pub const UCHIDA: Target = Target { name: "uchida", run: |bytes| drive("uchida", bytes), ..TARGET };

/// Groups in turns.
pub const TARASOV: Target = Target { name: "tarasov", run: |bytes| drive("tarasov", bytes), ..TARGET };

/// Groups by virtual time.
pub const TARASOV_BY_TIME: Target =
    Target { name: "tarasov-2.6.18", run: |bytes| drive("tarasov@2.6.18", bytes), ..TARGET };
