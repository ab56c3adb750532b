//! The C interface, declared in `kernel/module/hoist_core.h`. Its users are the module's C files,
//! the glue. Requests, groups and issuers are passed as ids, and answers are returned as values.
//! Every call is made under the device's lock.
//!
//! Pointers come from the glue and are valid for the duration of the call; the handle is one
//! returned by `hoist_new`.

use crate::device_policy::DevicePolicy;
use crate::elevator_types::{PREFIX, elevator_type, elevator_types};
use crate::records::{Call, Record, Recorder};
use crate::values::{Ask, Config, Line};
use alloc::boxed::Box;
use core::alloc::Layout;
use hoistway_elevator::registry::BuildError;

/// Must change with every change of this interface; the glue compares it when the module is loaded.
pub const ABI: u32 = 5;

/// A device's policy, and the recorder of its calls.
#[repr(C)]
pub struct Handle {
    entries: &'static life::Entries,
    policy_at_bytes: usize,
    device: DevicePolicy,
    recorder: Recorder,
}

impl Handle {
    /// Records a call with its answer.
    #[cold]
    #[inline(never)]
    fn note(&mut self, call: Call, id: u32, now_ns: u64, ask: &Ask, answer: (u64, u64)) {
        let recorder = &mut self.recorder;
        if recorder.written >= recorder.room {
            recorder.lost += 1;
            return;
        }
        let (answer, answer_more) = answer;
        let record = Record { call: call as u32, id, now_ns, ask: *ask, answer, answer_more };
        // SAFETY: `hoist_record` was given room for `room` records at `into`, and `written` is less
        // than that.
        unsafe { recorder.into.add(usize::try_from(recorder.written).unwrap_or(0)).write(record) };
        recorder.written += 1;
    }

    /// Records a call with few arguments, which are stored in the fields for sector, length and
    /// issuer.
    #[cold]
    #[inline(never)]
    fn note_few(&mut self, call: Call, id: u32, now_ns: u64, more: (u64, u32, u32), answer: (u64, u64)) {
        let (sector, sectors, context) = more;
        self.note(call, id, now_ns, &Ask { sector, sectors, context, ..Ask::default() }, answer);
    }
}

/// The handle behind the glue's pointer.
macro_rules! of {
    ($handle:ident) => {
        // SAFETY: the glue passes what `hoist_new` returned, and holds the device's lock, so there
        // is no other reference.
        unsafe { &mut *$handle }
    };
}

/// The value behind a pointer argument.
macro_rules! at {
    ($pointer:ident) => {
        // SAFETY: the glue passes the address of a value of its own that is valid for the duration
        // of the call.
        unsafe { &*$pointer }
    };
}

mod change;
mod inspection;
mod life;
mod merging;

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn hoist_core_abi() -> u32 {
    ABI
}

/// The number of elevators.
#[unsafe(no_mangle)]
pub extern "C" fn hoist_elevator_types() -> u32 {
    let mut count = 0;
    for _ in elevator_types() {
        count += 1;
    }
    count
}

/// The name of elevator `index`, as a prefix and the rest, and what it needs from the glue
/// (`wants`).
#[unsafe(no_mangle)]
pub extern "C" fn hoist_elevator_type(index: u32, prefix: &mut Line, name: &mut Line, wants: &mut u32) -> bool {
    let Some(elevator_type) = elevator_type(index) else { return false };
    *prefix = Line::of(PREFIX);
    *name = Line::of(elevator_type.entry.name);
    *wants = elevator_type.wants;
    true
}

/// Builds a policy for a device. Returns null with `error` 1 if memory is short, and with 2 if the
/// policy is newer than the requested version.
///
/// # Safety
/// `config` and `error` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_new(config: *const Config, error: *mut u32) -> *mut Handle {
    let config = at!(config);
    let layout = Layout::new::<Handle>();
    // SAFETY: the size of a handle is not 0.
    let place = unsafe { alloc::alloc::alloc(layout) }.cast::<Handle>();
    let why = if place.is_null() {
        BuildError::NoMemory
    } else {
        // Built in place and in parts, because two copies of a policy do not fit on a kernel stack.
        //
        // SAFETY: `place` is memory for a handle, and its parts are written one after another.
        let built = unsafe {
            (&raw mut (*place).recorder).write(Recorder::OFF);
            DevicePolicy::build_at(&raw mut (*place).device, config)
        };
        match built {
            Ok(()) => {
                // SAFETY: all fields but the first two are initialised, and these need no drop.
                unsafe {
                    let (entries, policy) = (*place).device.visit(life::FindEntries { is_recorded: false });
                    (&raw mut (*place).entries).write(entries);
                    (&raw mut (*place).policy_at_bytes).write(policy - place.addr());
                }
                return place;
            }
            Err(why) => {
                // SAFETY: allocated above with the same layout; nothing was built in it.
                unsafe { alloc::alloc::dealloc(place.cast(), layout) };
                why
            }
        }
    };
    // SAFETY: the caller passes a valid address.
    unsafe { *error = if why == BuildError::NoMemory { 1 } else { 2 } };
    core::ptr::null_mut()
}

/// Frees the handle and everything that it owns.
///
/// # Safety
/// `handle` came from `hoist_new` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_delete(handle: *mut Handle) {
    // SAFETY: `hoist_new` allocated it with the layout of a box.
    drop(unsafe { Box::from_raw(handle) });
}

/// Records all further calls that [`Call`] lists at `into`, at most `room`; 0 stops recording.
///
/// # Safety
/// `into` has room for that many records until the handle is deleted or another place is given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_record(handle: *mut Handle, into: *mut Record, room: u64) {
    let handle = of!(handle);
    handle.recorder = Recorder { into, room, written: 0, lost: 0 };
    (handle.entries, _) = handle.device.visit(life::FindEntries { is_recorded: room != 0 });
}

/// The number of recorded calls, and of those that found no room.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_recorded(handle: *mut Handle, lost: &mut u64) -> u64 {
    let recorder = &of!(handle).recorder;
    *lost = recorder.lost;
    recorder.written
}
