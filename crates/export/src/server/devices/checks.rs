//! Checks of a configuration's texts that need the engine: schedulers and backings.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use hoistway_engine::{Backing, BackingKind, ErrorKind, ShardSettings, VolumeSettings};
use hoistway_experiment::SchedulerSpec;
use hoistway_linux::claims::is_overlap;

use crate::configuration::check::{Checks, Verdict};
use crate::configuration::{Configuration, Device, Export, Problem};

use super::MAX_LOCAL_DISKS;
use super::groups::{paths_of, remedy, room_of};

/// How long a look at a file may take.
const LOOK: Duration = Duration::from_secs(1);

/// The engine's checks of a configuration, which open none of the user's files.
pub const CHECKS: Checks<'static> =
    Checks { scheduler: &check_scheduler, backing: &check_backing, whole: &check_whole };

fn check_backing(text: &str) -> Verdict {
    let backing = Backing::parse(text).map_err(|error| (error.message, error.help))?;
    match backing.kind {
        BackingKind::Memory(size_bytes) => check_memory(text, size_bytes, memory_of_machine()),
        _ => Ok(()),
    }
}

/// A backing in memory takes memory only for what was written, but more than the machine has can never be written.
fn check_memory(text: &str, size_bytes: u64, machine_bytes: Option<u64>) -> Verdict {
    match machine_bytes {
        Some(most) if size_bytes > most => {
            let what = format!("backing {text}: this machine has {} MiB of memory", most >> 20);
            Err((what, "give at most this size, or a sparse file (truncate -s SIZE FILE)".to_owned()))
        }
        _ => Ok(()),
    }
}

fn memory_of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Tries a scheduler on a null device, so that the engine alone decides about names, versions and
/// tunables.
fn check_scheduler(text: &str) -> Verdict {
    let scheduler: SchedulerSpec =
        text.parse().map_err(|error: hoistway_experiment::Diagnostic| (error.message, error.help))?;
    let settings = ShardSettings {
        name: "trial".to_owned(),
        scheduler,
        memory_bytes: 64 << 20,
        max_connections: 1,
        max_groups: 2,
        ..ShardSettings::default()
    };
    let nothing = Backing { kind: BackingKind::Null(1 << 20), model: None };
    match hoistway_engine::start(settings, &[VolumeSettings::new("trial", nothing)]) {
        Err(error) if error.kind == ErrorKind::Usage => Err((error.message, error.help)),
        // If the system cannot start a shard at all, starting the real one reports it.
        Err(_) | Ok(_) => Ok(()),
    }
}

/// What a start would refuse later: more than a device has room for, and exports that write to the same bytes.
pub(super) fn check_whole(configuration: &Configuration) -> Vec<Problem> {
    let mut problems: Vec<Problem> = configuration.devices.iter().flat_map(check_device).collect();
    let root = configuration.root.as_ref().map(|root| root.value.as_path());
    problems.extend(written_twice(configuration.exports().map(|(_, export)| export), root));
    problems
}

fn check_device(device: &Device) -> Vec<Problem> {
    let (place, name) = (&device.name.place, &device.name);
    let mut problems = Vec::new();
    let (needed, room) = (paths_of(&device.exports).len(), room_of(device));
    if needed > room {
        let what = format!(
            "the exports of device {name} have {needed} groups; its memory of {} has room for {room}",
            device.memory
        );
        problems.push(Problem::new(place, what, remedy(needed)));
    }
    let local = device.exports.iter().filter(|export| export.ublk.is_some()).count();
    if local > MAX_LOCAL_DISKS as usize {
        let what =
            format!("{local} exports of device {name} have ublk; a device has at most {MAX_LOCAL_DISKS} of them");
        problems.push(Problem::new(place, what, "serve the others by NBD or vhost-user-blk"));
    }
    let model = |export: &Export| Some(Backing::parse(&export.backing.value).ok()?.model?.name().to_owned());
    let models: Vec<Option<String>> = device.exports.iter().map(model).collect();
    if let Some(odd) = models.iter().position(|model| *model != models[0]) {
        let export = &device.exports[odd];
        let what = format!(
            "exports {} and {} share device {name}, which can have one model only",
            device.exports[0].name, export.name
        );
        let help = "give all exports of a device the same model, or put them on devices of their own";
        problems.push(Problem::new(&export.backing.place, what, help));
    }
    problems
}

/// Exports that would write to the same bytes of a file or device as an earlier one.
fn written_twice<'a>(exports: impl Iterator<Item = &'a Export>, root: Option<&Path>) -> Vec<Problem> {
    let mut seen: BTreeMap<(u64, u64), Vec<Writer<'a>>> = BTreeMap::new();
    let mut problems = Vec::new();
    for export in exports.filter(|export| !export.read_only) {
        let Ok(backing) = Backing::parse(&export.backing.value) else { continue };
        let Some((path, slice)) = backing.written() else { continue };
        let Some(identity) = identity_of(export, root) else { continue };
        let range_bytes = slice.unwrap_or((0, 0));
        let writers = seen.entry(identity).or_default();
        if let Some(first) = writers.iter().find(|other| is_overlap(other.range_bytes, range_bytes)) {
            let (what, help) = written_by(first.export, export, path);
            problems.push(Problem::new(&export.backing.place, what, help));
        }
        writers.push(Writer { range_bytes, export });
    }
    problems
}

/// The file or device of an export, if it has one that exists: device and inode number. Of an overlay, the overlay's.
pub(super) fn identity_of(export: &Export, root: Option<&Path>) -> Option<(u64, u64)> {
    let backing = Backing::parse(&export.backing.value).ok()?;
    let (path, _) = backing.written()?;
    let path = root.map_or_else(|| path.to_owned(), |root| root.join(path));
    // A file system that does not answer must not stop the server.
    let metadata = hoistway_linux::patience::within(LOOK, move || fs::metadata(path))?.ok()?;
    // All nodes of a device have the same device number.
    let is_device = metadata.file_type().is_block_device();
    Some(if is_device { (0, metadata.rdev()) } else { (metadata.dev(), metadata.ino()) })
}

/// An export that writes to a range, given as start and length; length 0 extends to the end.
struct Writer<'a> {
    range_bytes: (u64, u64),
    export: &'a Export,
}

fn written_by(first: &Export, export: &Export, path: &Path) -> (String, &'static str) {
    let (one, other, path) = (&first.name, &export.name, path.display());
    if first.backing.value.contains('@') || export.backing.value.contains('@') {
        let what = format!("exports {one} and {other} would both write to some of the same bytes of {path}");
        return (what, "choose slices that do not overlap, or make one read-only");
    }
    let what = format!("exports {one} and {other} would both write to {path}");
    (what, "give each a file of its own, or make one read-only")
}
