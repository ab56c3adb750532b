//! Calls about time and about changes of depths, groups and issuers.

use super::Handle;
use crate::records::Call;
use crate::values::{Effect, NONE};

/// [`crate::Carried::timer`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_timer(handle: *mut Handle, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.timer(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Timer, NONE, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

/// [`crate::Carried::has_work`]: changes nothing, so it is not recorded.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_has_work(handle: *mut Handle, queue: u16) -> bool {
    of!(handle).carried.has_work(queue)
}

/// [`crate::Carried::depth_changed`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_depth_changed(handle: *mut Handle, requests: u32, device: u32) {
    let handle = of!(handle);
    handle.carried.depth_changed(requests, device);
    if handle.recorder.is_on() {
        handle.note_few(Call::DepthChanged, requests, 0, (0, device, 0), (0, 0));
    }
}

/// [`crate::Carried::group_added`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_added(handle: *mut Handle, parent: u32, weight: u32, now: u64) -> u32 {
    let handle = of!(handle);
    let id = handle.carried.group_added(parent, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupAdded, parent, now, (0, weight, 0), (id.into(), 0));
    }
    id
}

/// [`crate::Carried::group_weighed`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_weighed(handle: *mut Handle, group: u32, weight: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.group_weighed(group, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupWeighed, group, now, (0, weight, 0), (effect.into(), 0));
    }
    effect
}

/// [`crate::Carried::group_offline`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_offline(handle: *mut Handle, group: u32, now: u64) {
    let handle = of!(handle);
    handle.carried.group_offline(group, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupOffline, group, now, (0, 0, 0), (0, 0));
    }
}

/// [`crate::Carried::bury_group`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_bury_group(handle: *mut Handle, now: u64) {
    let handle = of!(handle);
    handle.carried.bury_group(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::BuryGroup, NONE, now, (0, 0, 0), (0, 0));
    }
}

/// [`crate::Carried::context_added`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_added(handle: *mut Handle) -> u32 {
    let handle = of!(handle);
    let id = handle.carried.context_added();
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextAdded, NONE, 0, (0, 0, 0), (id.into(), 0));
    }
    id
}

/// [`crate::Carried::context_exited`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_exited(handle: *mut Handle, context: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.context_exited(context, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextExited, context, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}
