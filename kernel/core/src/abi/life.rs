//! The calls made for every request. Insertion, choice and end go through a table of the policy's
//! own functions.

use super::Handle;
use crate::device_state::DeviceState;
use crate::life;
use crate::records::{Call, pair};
use crate::values::{ATTEND, Action, Ask, DISPATCH, Effect, NONE};
use core::marker::PhantomData;
use hoistway_elevator::registry::Visitor;
use hoistway_elevator::{Attributes, Elevator};

/// The functions of one policy. Only the glue calls them through this table; the core never does.
#[repr(C)]
pub struct Entries {
    insert: unsafe extern "C" fn(*mut Handle, *const Attributes, u64) -> i64,
    dispatch: unsafe extern "C" fn(*mut Handle, u16, u64) -> i64,
    finish: unsafe extern "C" fn(*mut Handle, u32, u64) -> Effect,
}

struct Of<E>(PhantomData<E>);

impl<E: Elevator> Of<E> {
    const ENTRIES: Entries = Entries { insert: insert::<E>, dispatch: dispatch::<E>, finish: finish::<E> };
    const RECORDED: Entries =
        Entries { insert: insert_recorded::<E>, dispatch: dispatch_recorded::<E>, finish: finish_recorded::<E> };
}

/// Finds the table of a policy, with or without recording of its calls, and the policy's address.
pub(super) struct FindEntries {
    pub is_recorded: bool,
}

impl Visitor for FindEntries {
    type Answer = (&'static Entries, usize);

    fn visit<E: Elevator>(self, policy: &mut E) -> Self::Answer {
        let entries = if self.is_recorded { &Of::<E>::RECORDED } else { &Of::<E>::ENTRIES };
        (entries, (&raw mut *policy).addr())
    }
}

/// State and policy of a handle.
///
/// # Safety
/// The handle's policy is an `E`, and there is no other reference to the handle.
#[inline(always)]
unsafe fn parts<'a, E: Elevator>(handle: *mut Handle) -> (&'a mut DeviceState, &'a mut E) {
    // SAFETY: `hoist_new` computed the policy's offset in the handle when it chose the table that
    // this function is in; the state does not overlap with it.
    unsafe {
        let policy = handle.cast::<u8>().add((*handle).policy_at_bytes).cast::<E>();
        (&mut (*handle).device.state, &mut *policy)
    }
}

/// [`crate::DevicePolicy::insert`] of a new request that the policy sorts; all others are inserted
/// by `hoist_insert`.
#[inline(never)]
unsafe extern "C" fn insert<E: Elevator>(handle: *mut Handle, attributes: *const Attributes, now: u64) -> i64 {
    // SAFETY: this function is only in the table of handles whose policy is an `E`.
    let (state, policy) = unsafe { parts::<E>(handle) };
    // The glue encodes operations with `hoist_operation_of`, so no other numbers occur.
    life::insert_sorted(state, policy, at!(attributes), now)
}

/// [`crate::DevicePolicy::insert`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_insert(handle: *mut Handle, known: u32, ask: *const Ask, at: u32, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let id = handle.device.insert(known, ask, at, now);
    if handle.recorder.is_on() {
        handle.note(Call::Insert, known, now, ask, (id.into(), at.into()));
    }
    id
}

/// [`crate::DevicePolicy::dispatch`] without the timer: when a wait ends, the glue calls
/// `hoist_timer`. Returns the id, or [`NONE`] in the lower half; the value is negative unless a
/// request was chosen and nothing else needs the glue's attention.
#[inline(never)]
unsafe extern "C" fn dispatch<E: Elevator>(handle: *mut Handle, queue: u16, now: u64) -> i64 {
    // SAFETY: see `insert`.
    let (state, policy) = unsafe { parts::<E>(handle) };
    let action = life::dispatch(state, policy, queue, now);
    let id = i64::from(action.id);
    if action.kind == DISPATCH { id } else { id | i64::MIN }
}

/// [`crate::DevicePolicy::finish`].
#[inline(never)]
unsafe extern "C" fn finish<E: Elevator>(handle: *mut Handle, id: u32, now: u64) -> Effect {
    // SAFETY: see `insert`.
    let (state, policy) = unsafe { parts::<E>(handle) };
    life::finish(state, policy, id, now)
}

/// As [`insert`]; records the call with its answer.
unsafe extern "C" fn insert_recorded<E: Elevator>(handle: *mut Handle, attributes: *const Attributes, now: u64) -> i64 {
    // SAFETY: see `insert`.
    let encoded = unsafe { insert::<E>(handle, attributes, now) };
    let ask = Ask::from(at!(attributes));
    of!(handle).note(Call::Insert, NONE, now, &ask, (life::id_in(encoded).into(), 0));
    encoded
}

unsafe extern "C" fn dispatch_recorded<E: Elevator>(handle: *mut Handle, queue: u16, now: u64) -> i64 {
    // SAFETY: see `insert`.
    let encoded = unsafe { dispatch::<E>(handle, queue, now) };
    let handle = of!(handle);
    let action = match life::id_in(encoded) {
        NONE => handle.device.state.refusal,
        id => Action { kind: DISPATCH, id, until_ns: 0 },
    };
    let answer = (pair(action.kind, action.id), action.until_ns);
    handle.note_few(Call::Dispatch, queue.into(), now, (0, 0, 0), answer);
    encoded
}

unsafe extern "C" fn finish_recorded<E: Elevator>(handle: *mut Handle, id: u32, now: u64) -> Effect {
    // SAFETY: see `insert`.
    let effect = unsafe { finish::<E>(handle, id, now) };
    of!(handle).note_few(Call::Finish, id, now, (0, 0, 0), ((effect & !ATTEND).into(), 0));
    effect
}

/// [`crate::DevicePolicy::admit`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_admit(handle: *mut Handle, ask: *const Ask, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let depth = handle.device.admit(ask, now);
    if handle.recorder.is_on() {
        handle.note(Call::Admit, NONE, now, ask, (depth.into(), 0));
    }
    depth
}

/// [`crate::DevicePolicy::allocate`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_allocate(handle: *mut Handle, ask: *const Ask, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let id = handle.device.allocate(ask, now);
    if handle.recorder.is_on() {
        handle.note(Call::Allocate, NONE, now, ask, (id.into(), 0));
    }
    id
}

/// [`crate::DevicePolicy::requeue`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_requeue(handle: *mut Handle, id: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.device.requeue(id, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Requeue, id, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}
