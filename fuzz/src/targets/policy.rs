//! Fuzzes every policy of the registry, in all its forms, with arbitrary host calls: converts bytes
//! to a form, an era, settings and host calls; the testbed makes them and checks after each.

use crate::target::{Seen, Target};
use hoistway_testbed::Call;
use std::collections::BTreeSet;

/// One target for each policy, under its name.
macro_rules! targets {
    ($($name:literal $variant:ident,)+) => {
        pub const TARGETS: &[Target] = &[$(Target {
            name: $name,
            promise: "no call breaks an invariant, loses a bio or stops the queue",
            run: |bytes| drive($name, bytes),
            corpus,
            tokens: TOKENS,
            longest_bytes: LONGEST_BYTES,
        },)+];
    };
}

hoistway_elevator::for_each_policy!(targets);

/// Longest input: about 500 calls.
const LONGEST_BYTES: usize = 2_048;

/// First bytes of each kind of call, so that mutations change the kind on purpose.
const TOKENS: &[&[u8]] = &[
    &[0, 0, 8, 0, 0],
    &[0, 130, 8, 0, 9],
    &[0, 226, 0, 0, 0],
    &[90, 0, 16, 1, 0],
    &[120],
    &[127, 0],
    &[127, 1],
    &[128, 0],
    &[128, 9],
    &[130, 0],
    &[130, 1],
    &[180, 0],
    &[180, 9],
    &[220, 0],
    &[226, 0],
    &[230, 200, 28],
    &[245, 0, 0],
    &[248, 0, 0],
    &[249, 0],
    &[249, 1],
    &[250, 1, 25, 0],
    &[250, 2, 255, 1],
    &[252, 1, 255, 0],
    &[254, 1],
    &[255, 1],
];

/// Makes the calls on the policy. A violated property panics with the calls as a script.
fn drive(name: &str, bytes: &[u8]) -> Seen {
    let Some((calls, testbed)) = hoistway_testbed::drive_policy(name, bytes) else { return Seen::NOTHING };
    let kinds: BTreeSet<_> = calls.0.iter().map(kind).collect();
    let mut seen = kinds.into_iter().fold(Seen::NOTHING, |seen, kind| seen.and(&[kind]));
    for (reason, times) in testbed.queue().reasons() {
        seen = seen.and(reason.as_bytes()).and_count(usize::try_from(times).unwrap_or(usize::MAX));
    }
    seen
}

fn kind(call: &Call) -> u8 {
    match call {
        Call::Submit(_) => 0,
        Call::SubmitPlugged(_) => 1,
        Call::Unplug => 2,
        Call::Dispatch(_) => 3,
        Call::Complete(..) => 4,
        Call::Requeue(_) => 5,
        Call::Refuse(_) => 6,
        Call::Pass(_) => 7,
        Call::Set(..) => 8,
        Call::SetDepth(_) => 9,
        Call::Switch(..) => 10,
        Call::AddGroup(..) => 11,
        Call::ChangeGroup(..) => 12,
        Call::RemoveGroup(_) => 13,
        Call::ContextExited(_) => 14,
        Call::Limit(..) => 15,
        Call::ToggleLimiter(_) => 16,
        Call::SetLimiter(..) => 17,
        Call::Withdraw(_) => 18,
        Call::Combine(_) => 19,
    }
}

/// Initial inputs: a few of every shape.
fn corpus() -> Vec<Vec<u8>> {
    let input = |seed: u8| {
        let mut random = hoistway_block::random::Stream::of(u64::from(seed), "fuzz/policy");
        let mut bytes = vec![seed / 5, seed];
        bytes.extend((0..64).flat_map(|_| random.next().to_le_bytes()));
        bytes
    };
    (0..=255).step_by(5).map(input).collect()
}
