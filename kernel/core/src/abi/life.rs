//! A request's life. These come with every request, so a call is written down on a path of its own.

use super::Handle;
use crate::records::{Call, pair};
use crate::values::{Action, Ask, Effect, NONE};

impl Handle {
    #[cold]
    #[inline(never)]
    fn recorded_insert(&mut self, known: u32, ask: &Ask, at: u32, now: u64) -> u32 {
        let id = self.carried.insert(known, ask, at, now);
        self.note(Call::Insert, known, now, ask, (id.into(), at.into()));
        id
    }

    #[cold]
    #[inline(never)]
    fn recorded_dispatch(&mut self, queue: u16, now: u64) -> Action {
        let chosen = self.carried.dispatch(queue, now);
        self.note_few(Call::Dispatch, queue.into(), now, (0, 0, 0), (pair(chosen.kind, chosen.id), chosen.until_ns));
        chosen
    }

    #[cold]
    #[inline(never)]
    fn recorded_finish(&mut self, id: u32, now: u64) -> Effect {
        let effect = self.carried.finish(id, now);
        self.note_few(Call::Finish, id, now, (0, 0, 0), (effect.into(), 0));
        effect
    }
}

/// [`crate::Carried::admit`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_admit(handle: *mut Handle, ask: *const Ask, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let depth = handle.carried.admit(ask, now);
    if handle.recorder.is_on() {
        handle.note(Call::Admit, NONE, now, ask, (depth.into(), 0));
    }
    depth
}

/// [`crate::Carried::allocate`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_allocate(handle: *mut Handle, ask: *const Ask, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let id = handle.carried.allocate(ask, now);
    if handle.recorder.is_on() {
        handle.note(Call::Allocate, NONE, now, ask, (id.into(), 0));
    }
    id
}

/// [`crate::Carried::insert`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_insert(handle: *mut Handle, known: u32, ask: *const Ask, at: u32, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    if handle.recorder.is_on() {
        return handle.recorded_insert(known, ask, at, now);
    }
    handle.carried.insert(known, ask, at, now)
}

/// [`crate::Carried::dispatch`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_dispatch(handle: *mut Handle, queue: u16, now: u64) -> Action {
    let handle = of!(handle);
    if handle.recorder.is_on() {
        return handle.recorded_dispatch(queue, now);
    }
    handle.carried.dispatch(queue, now)
}

/// [`crate::Carried::requeue`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_requeue(handle: *mut Handle, id: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.requeue(id, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Requeue, id, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

/// [`crate::Carried::finish`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_finish(handle: *mut Handle, id: u32, now: u64) -> Effect {
    let handle = of!(handle);
    if handle.recorder.is_on() {
        return handle.recorded_finish(id, now);
    }
    handle.carried.finish(id, now)
}
