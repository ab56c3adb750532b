//! Fuzzes every policy of the registry, in all its forms, with arbitrary host calls: converts bytes
//! to a form, an era, settings and host calls; the testbed checks after each call.

use crate::target::{Seen, Target};
use elevator::registry::ENTRIES;
use elevator::{Configuration, Depth, Version};
use std::collections::BTreeSet;
use testbed::{Call, Calls, Testbed};

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

elevator::for_each_policy!(targets);

/// Longest input: about 500 calls.
const LONGEST_BYTES: usize = 2_048;

/// First bytes of each kind of call, so that mutations change the kind on purpose.
const TOKENS: &[&[u8]] = &[
    &[0, 0, 8, 0, 0],
    &[0, 130, 8, 0, 9],
    &[0, 226, 0, 0, 0],
    &[90, 0, 16, 1, 0],
    &[120],
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
    let [form, shape, bytes @ ..] = bytes else { return Seen::NOTHING };
    let calls = Calls::from(bytes);
    // Half of all inputs keep the policy, the others switch between several.
    let calls = if shape & 0x80 == 0 { calls.without_switches() } else { calls };
    let mut testbed = Testbed::with(&spec(name, *form), &surroundings(*shape));
    testbed.drive(&calls);
    assert_eq!(testbed.queue().violations(), 0, "violations counted");

    let kinds: BTreeSet<_> = calls.0.iter().map(kind).collect();
    let mut seen = kinds.into_iter().fold(Seen::NOTHING, |seen, kind| seen.and(&[kind]));
    for (reason, times) in testbed.queue().reasons() {
        seen = seen.and(reason.as_bytes()).and_count(usize::try_from(times).unwrap_or(usize::MAX));
    }
    seen
}

/// Half of all inputs are for the default form, the others for the form of one kernel version.
fn spec(name: &str, form: u8) -> String {
    let versions = ENTRIES.iter().find(|entry| entry.name == name).map_or(&[][..], |entry| entry.versions);
    match versions.get(usize::from(form >> 1) % versions.len().max(1)) {
        Some(Version(major, minor, patch)) if form & 1 == 1 => format!("{name}@{major}.{minor}.{patch}"),
        _ => name.to_owned(),
    }
}

/// A small or tight queue behaves differently from a wide one, so the second byte chooses the
/// settings.
fn surroundings(shape: u8) -> queue::Settings {
    let requests = [1, 4, 16, 64][usize::from(shape & 3)];
    let device = [1, 2, 8, 32][usize::from(shape >> 2 & 3)];
    let queues = if shape & 0x10 == 0 { 1 } else { 2 };
    let configuration = Configuration {
        slots: requests + u32::from(queues),
        groups: 8,
        contexts: 8,
        depth: Depth { requests, device },
        hardware_queues: queues,
        software_queues: queues * 2,
        // Coarse clocks go with old disks: in half of all inputs policies may idle for the head.
        tick_ns: if shape & 0x20 == 0 { 0 } else { 4_000_000 },
        rotational: shape & 0x20 != 0,
        ..Configuration::default()
    };
    let era = if shape & 0x40 == 0 { queue::Era::ENGINE } else { queue::Era::BLK_MQ };
    queue::Settings { configuration, era, bios: 256, ..queue::Settings::default() }
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
    }
}

/// Initial inputs: a few of every shape.
fn corpus() -> Vec<Vec<u8>> {
    let input = |seed: u8| {
        let mut random = block::random::Stream::of(u64::from(seed), "fuzz/policy");
        let mut bytes = vec![seed / 5, seed];
        bytes.extend((0..64).flat_map(|_| random.next().to_le_bytes()));
        bytes
    };
    (0..=255).step_by(5).map(input).collect()
}
