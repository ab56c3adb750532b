//! Calls about time and about changes of depths, groups and issuers.

use super::Handle;
use crate::records::Call;
use crate::values::{Effect, NONE};

/// [`crate::DevicePolicy::timer`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_timer(handle: *mut Handle, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.device.timer(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Timer, NONE, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

/// [`crate::DevicePolicy::has_work`]: changes nothing, so it is not recorded.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_has_work(handle: *mut Handle, queue: u16) -> bool {
    of!(handle).device.has_work(queue)
}

/// [`crate::DevicePolicy::depth_changed`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_depth_changed(handle: *mut Handle, requests: u32, device: u32) {
    let handle = of!(handle);
    handle.device.depth_changed(requests, device);
    if handle.recorder.is_on() {
        handle.note_few(Call::DepthChanged, requests, 0, (0, device, 0), (0, 0));
    }
}

/// [`crate::DevicePolicy::group_added`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_added(handle: *mut Handle, parent: u32, weight: u32, now: u64) -> u32 {
    let handle = of!(handle);
    let id = handle.device.group_added(parent, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupAdded, parent, now, (0, weight, 0), (id.into(), 0));
    }
    id
}

/// [`crate::DevicePolicy::group_weighed`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_weighed(handle: *mut Handle, group: u32, weight: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.device.group_weighed(group, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupWeighed, group, now, (0, weight, 0), (effect.into(), 0));
    }
    effect
}

/// [`crate::DevicePolicy::group_offline`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_offline(handle: *mut Handle, group: u32, now: u64) {
    let handle = of!(handle);
    handle.device.group_offline(group, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupOffline, group, now, (0, 0, 0), (0, 0));
    }
}

/// [`crate::DevicePolicy::release_group`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_release_group(handle: *mut Handle, now: u64) {
    let handle = of!(handle);
    handle.device.release_group(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::ReleaseGroup, NONE, now, (0, 0, 0), (0, 0));
    }
}

/// [`crate::DevicePolicy::context_added`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_added(handle: *mut Handle) -> u32 {
    let handle = of!(handle);
    let id = handle.device.context_added();
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextAdded, NONE, 0, (0, 0, 0), (id.into(), 0));
    }
    id
}

/// [`crate::DevicePolicy::context_exited`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_exited(handle: *mut Handle, context: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.device.context_exited(context, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextExited, context, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}
