//! A policy under host calls that bytes describe, for fuzzing.

use hoistway_elevator::{Configuration, Depth, Version, registry};
use hoistway_queue::{Era, Settings};

use crate::{Calls, Testbed};

/// Makes the host calls that the bytes describe on the policy of this name, and returns them with the
/// testbed after them; `None` for too few bytes. The first two bytes choose the form and the settings.
///
/// # Panics
/// With the calls as a script, if one breaks an invariant, loses a bio or stops the queue.
pub fn drive_policy(name: &str, bytes: &[u8]) -> Option<(Calls, Testbed)> {
    let [form, shape, bytes @ ..] = bytes else { return None };
    let calls = Calls::from(bytes);
    // Half of all inputs keep the policy, the others switch between several.
    let calls = if shape & 0x80 == 0 { calls.without_switches() } else { calls };
    let mut testbed = Testbed::with(&spec(name, *form), &surroundings(*shape));
    testbed.drive(&calls);
    assert_eq!(testbed.queue().violations(), 0, "violations counted");
    Some((calls, testbed))
}

/// Half of all inputs are for the default form, the others for the form of one kernel version.
fn spec(name: &str, form: u8) -> String {
    let versions = registry::find(name).map_or(&[][..], |entry| entry.versions);
    match versions.get(usize::from(form >> 1) % versions.len().max(1)) {
        Some(Version(major, minor, patch)) if form & 1 == 1 => format!("{name}@{major}.{minor}.{patch}"),
        _ => name.to_owned(),
    }
}

/// The settings that `shape` selects, because a queue with few tags or a device of small depth
/// behaves differently.
fn surroundings(shape: u8) -> Settings {
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
        // Old kernels with disks had coarse clocks, so one bit selects both. On a disk, policies
        // may idle to save seeks.
        tick_ns: if shape & 0x20 == 0 { 0 } else { 4_000_000 },
        rotational: shape & 0x20 != 0,
        ..Configuration::default()
    };
    let era = if shape & 0x40 == 0 { Era::ENGINE } else { Era::BLK_MQ };
    Settings { configuration, era, bios: 256, ..Settings::default() }
}
