//! Calls about merging bios and requests.

use super::Handle;
use crate::records::{Call, pair};
use crate::values::{Ask, Effect, NONE};

/// [`crate::DevicePolicy::find_merge`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_find_merge(handle: *mut Handle, ask: *const Ask, now: u64, side: &mut u32) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let (id, found) = handle.device.find_merge(ask, now);
    *side = found;
    if handle.recorder.is_on() {
        handle.note(Call::FindMerge, NONE, now, ask, (pair(id, found), 0));
    }
    id
}

/// [`crate::DevicePolicy::may_merge`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_may_merge(handle: *mut Handle, id: u32, ask: *const Ask) -> bool {
    let (handle, ask) = (of!(handle), at!(ask));
    let may = handle.device.may_merge(id, ask);
    if handle.recorder.is_on() {
        handle.note(Call::MayMerge, id, 0, ask, (may.into(), 0));
    }
    may
}

/// [`crate::DevicePolicy::bio_merged`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_bio_merged(
    handle: *mut Handle,
    id: u32,
    side: u32,
    sector: u64,
    sectors: u32,
    now: u64,
) {
    let handle = of!(handle);
    handle.device.bio_merged(id, side, sector, sectors, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::BioMerged, id, now, (sector, sectors, side), (0, 0));
    }
}

/// [`crate::DevicePolicy::absorbed`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_absorbed(handle: *mut Handle, keep: u32, sectors: u32, gone: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.device.absorbed(keep, sectors, gone, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Absorbed, keep, now, (0, sectors, gone), (effect.into(), 0));
    }
    effect
}

/// [`crate::DevicePolicy::neighbour`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_neighbour(handle: *mut Handle, id: u32, is_behind: bool) -> u32 {
    let handle = of!(handle);
    let found = handle.device.neighbour(id, is_behind);
    if handle.recorder.is_on() {
        handle.note_few(Call::Neighbour, id, 0, (is_behind.into(), 0, 0), (found.into(), 0));
    }
    found
}
