//! The C interface: what `kernel/hoist_core.h` declares. Ids in, values out; every call under the device's lock.
//!
//! Pointers come from the glue and are valid for the call; the handle is the one that `hoist_new` gave.

use crate::carried::Carried;
use crate::offered::{PREFIX, offer, offers};
use crate::records::{Call, Record, Recorder, pair};
use crate::values::{Action, Ask, Config, Effect, Line, NONE, Stats};
use alloc::boxed::Box;
use core::alloc::Layout;
use elevator::Elevator;
use elevator::registry::BuildError;
use elevator::tunable::{OutOfRange, Unit};

/// Changes with every change of this interface; the glue compares it when the module is loaded.
pub const ABI: u32 = 1;

/// A device's policy, and where its calls are written down.
#[repr(C)]
pub struct Handle {
    carried: Carried,
    recorder: Recorder,
}

impl Handle {
    /// Writes a call down with its answer.
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
        // SAFETY: `hoist_record` was given room for `room` records at `into`, and `written` is below that.
        unsafe { recorder.into.add(usize::try_from(recorder.written).unwrap_or(0)).write(record) };
        recorder.written += 1;
    }

    /// The same of a call whose further arguments are few: they stand where an ask has its sector, its length, its issuer.
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
        // SAFETY: the glue passes what `hoist_new` gave it, and holds the device's lock, so nobody else looks at it.
        unsafe { &mut *$handle }
    };
}

/// What a pointer argument points to.
macro_rules! at {
    ($pointer:ident) => {
        // SAFETY: the glue passes the address of a value of its own for the time of the call.
        unsafe { &*$pointer }
    };
}

/// Which interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn hoist_core_abi() -> u32 {
    ABI
}

/// How many elevators there are.
#[unsafe(no_mangle)]
pub extern "C" fn hoist_offers() -> u32 {
    let mut count = 0;
    for _ in offers() {
        count += 1;
    }
    count
}

/// Name, summary and wants of elevator `index`; the name is to be written behind the prefix.
#[unsafe(no_mangle)]
pub extern "C" fn hoist_offer(index: u32, prefix: &mut Line, name: &mut Line, wants: &mut u32) -> bool {
    let Some(offer) = offer(index) else { return false };
    *prefix = Line::of(PREFIX);
    *name = Line::of(offer.entry.name);
    *wants = offer.wants;
    true
}

/// A policy for a device; null when memory is short, or with `error` 2 if the policy is younger than the version.
///
/// # Safety
/// `config` and `error` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_new(config: *const Config, error: *mut u32) -> *mut Handle {
    let config = at!(config);
    let layout = Layout::new::<Handle>();
    // SAFETY: a handle is larger than nothing.
    let place = unsafe { alloc::alloc::alloc(layout) }.cast::<Handle>();
    let why = if place.is_null() {
        BuildError::NoMemory
    } else {
        // By parts and into place: two copies of a policy are too much for a kernel's stack.
        // SAFETY: `place` is memory for a handle, and its parts are written in turn.
        let built = unsafe {
            (&raw mut (*place).recorder).write(Recorder::OFF);
            Carried::build_at(&raw mut (*place).carried, config)
        };
        match built {
            Ok(()) => return place,
            Err(why) => {
                // SAFETY: allocated above with the same layout; nothing was built in it.
                unsafe { alloc::alloc::dealloc(place.cast(), layout) };
                why
            }
        }
    };
    // SAFETY: the caller gives a place for it.
    unsafe { *error = if why == BuildError::NoMemory { 1 } else { 2 } };
    core::ptr::null_mut()
}

/// Gives everything back.
///
/// # Safety
/// `handle` came from `hoist_new` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_delete(handle: *mut Handle) {
    // SAFETY: `hoist_new` allocated it as a box does.
    drop(unsafe { Box::from_raw(handle) });
}

/// Writes all further calls to `into`, at most `room`; 0 = none.
///
/// # Safety
/// `into` has room for that many until the handle is deleted or another place is given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_record(handle: *mut Handle, into: *mut Record, room: u64) {
    of!(handle).recorder = Recorder { into, room, written: 0, lost: 0 };
}

/// How many calls are written, and how many found no room.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_recorded(handle: *mut Handle, lost: &mut u64) -> u64 {
    let recorder = &of!(handle).recorder;
    *lost = recorder.lost;
    recorder.written
}

// ---- a request's life ----

/// [`Carried::admit`].
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

/// [`Carried::allocate`].
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

/// [`Carried::insert`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_insert(handle: *mut Handle, known: u32, ask: *const Ask, at: u32, now: u64) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let id = handle.carried.insert(known, ask, at, now);
    if handle.recorder.is_on() {
        handle.note(Call::Insert, known, now, ask, (id.into(), at.into()));
    }
    id
}

/// [`Carried::dispatch`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_dispatch(handle: *mut Handle, queue: u16, now: u64, action: *mut Action) {
    let handle = of!(handle);
    let chosen = handle.carried.dispatch(queue, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Dispatch, queue.into(), now, (0, 0, 0), (pair(chosen.kind, chosen.id), chosen.until_ns));
    }
    // SAFETY: the glue gives a place for the answer.
    unsafe { *action = chosen };
}

/// [`Carried::requeue`].
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

/// [`Carried::finish`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_finish(handle: *mut Handle, id: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.finish(id, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Finish, id, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

// ---- merging ----

/// [`Carried::find_company`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_find_company(handle: *mut Handle, ask: *const Ask, now: u64, side: &mut u32) -> u32 {
    let (handle, ask) = (of!(handle), at!(ask));
    let (id, found) = handle.carried.find_company(ask, now);
    *side = found;
    if handle.recorder.is_on() {
        handle.note(Call::FindCompany, NONE, now, ask, (pair(id, found), 0));
    }
    id
}

/// [`Carried::may_merge`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_may_merge(handle: *mut Handle, id: u32, ask: *const Ask) -> bool {
    let (handle, ask) = (of!(handle), at!(ask));
    let may = handle.carried.may_merge(id, ask);
    if handle.recorder.is_on() {
        handle.note(Call::MayMerge, id, 0, ask, (may.into(), 0));
    }
    may
}

/// [`Carried::bio_merged`].
///
/// # Safety
/// See the module.
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
    handle.carried.bio_merged(id, side, sector, sectors, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::BioMerged, id, now, (sector, sectors, side), (0, 0));
    }
}

/// [`Carried::absorbed`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_absorbed(handle: *mut Handle, keep: u32, sectors: u32, gone: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.absorbed(keep, sectors, gone, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Absorbed, keep, now, (0, sectors, gone), (effect.into(), 0));
    }
    effect
}

/// [`Carried::neighbour`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_neighbour(handle: *mut Handle, id: u32, is_behind: bool) -> u32 {
    let handle = of!(handle);
    let found = handle.carried.neighbour(id, is_behind);
    if handle.recorder.is_on() {
        handle.note_few(Call::Neighbour, id, 0, (is_behind.into(), 0, 0), (found.into(), 0));
    }
    found
}

// ---- time and change ----

/// [`Carried::timer`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_timer(handle: *mut Handle, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.timer(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::Timer, NONE, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

/// [`Carried::has_work`]: a question that changes nothing, so it is not recorded.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_has_work(handle: *mut Handle, queue: u16) -> bool {
    of!(handle).carried.has_work(queue)
}

/// [`Carried::depth_changed`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_depth_changed(handle: *mut Handle, requests: u32, device: u32) {
    let handle = of!(handle);
    handle.carried.depth_changed(requests, device);
    if handle.recorder.is_on() {
        handle.note_few(Call::DepthChanged, requests, 0, (0, device, 0), (0, 0));
    }
}

/// [`Carried::group_added`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_added(handle: *mut Handle, parent: u32, weight: u32, now: u64) -> u32 {
    let handle = of!(handle);
    let id = handle.carried.group_added(parent, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupAdded, parent, now, (0, weight, 0), (id.into(), 0));
    }
    id
}

/// [`Carried::group_weighed`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_weighed(handle: *mut Handle, group: u32, weight: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.group_weighed(group, weight, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupWeighed, group, now, (0, weight, 0), (effect.into(), 0));
    }
    effect
}

/// [`Carried::group_offline`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_group_offline(handle: *mut Handle, group: u32, now: u64) {
    let handle = of!(handle);
    handle.carried.group_offline(group, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::GroupOffline, group, now, (0, 0, 0), (0, 0));
    }
}

/// [`Carried::bury_group`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_bury_group(handle: *mut Handle, now: u64) {
    let handle = of!(handle);
    handle.carried.bury_group(now);
    if handle.recorder.is_on() {
        handle.note_few(Call::BuryGroup, NONE, now, (0, 0, 0), (0, 0));
    }
}

/// [`Carried::context_added`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_added(handle: *mut Handle) -> u32 {
    let handle = of!(handle);
    let id = handle.carried.context_added();
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextAdded, NONE, 0, (0, 0, 0), (id.into(), 0));
    }
    id
}

/// [`Carried::context_exited`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_context_exited(handle: *mut Handle, context: u32, now: u64) -> Effect {
    let handle = of!(handle);
    let effect = handle.carried.context_exited(context, now);
    if handle.recorder.is_on() {
        handle.note_few(Call::ContextExited, context, now, (0, 0, 0), (effect.into(), 0));
    }
    effect
}

// ---- tunables, counters, messages ----

/// One tunable for the glue.
#[repr(C)]
pub struct Row {
    /// Its name in sysfs.
    pub name: Line,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// 1 where a value outside is refused, 0 where it is clamped.
    pub refuses: u32,
    /// How many words there are instead of numbers; 0 = numbers.
    pub words: u32,
    /// 1 where only unsigned decimal numbers are read (nanoseconds).
    pub decimal: u32,
    /// Room.
    pub unused: u32,
}

/// Row `index` of the policy's tunables.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_row(handle: *mut Handle, index: u32, row: &mut Row) -> bool {
    let Some(found) = of!(handle).carried.policy().tunables().get(index as usize) else { return false };
    let words = match found.unit {
        Unit::Choice(words) => u32::try_from(words.len()).unwrap_or(0),
        _ => 0,
    };
    *row = Row {
        name: Line::of(found.name),
        min: found.min,
        max: found.max,
        refuses: (found.out_of_range == OutOfRange::Refuse).into(),
        words,
        decimal: (found.unit == Unit::Nanoseconds).into(),
        unused: 0,
    };
    true
}

/// Word `word` of row `index`, where the row has words.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_word(handle: *mut Handle, index: u32, word: u32, text: &mut Line) -> bool {
    let Some(row) = of!(handle).carried.policy().tunables().get(index as usize) else { return false };
    let Unit::Choice(words) = row.unit else { return false };
    let Some(found) = words.get(word as usize) else { return false };
    *text = Line::of(found);
    true
}

/// The value of row `index`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_setting(handle: *mut Handle, index: u32, value: &mut i64) -> bool {
    let Some(found) = of!(handle).carried.policy().setting(index as usize) else { return false };
    *value = found;
    true
}

/// [`Carried::set`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_set(handle: *mut Handle, index: u32, value: i64) -> bool {
    let handle = of!(handle);
    let done = handle.carried.set(index, value);
    if handle.recorder.is_on() {
        handle.note_few(Call::Set, index, 0, (value.cast_unsigned(), 0, 0), (done.into(), 0));
    }
    done
}

/// [`Carried::stats`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_stats(handle: *mut Handle, stats: &mut Stats) {
    *stats = of!(handle).carried.stats();
}

/// Text and count of reason `index`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_reason(handle: *mut Handle, index: u32, text: &mut Line, count: &mut u64) -> bool {
    let carried = &of!(handle).carried;
    let Some(name) = carried.policy().reasons().get(index as usize) else { return false };
    *text = Line::of(name);
    *count = carried.reason_count(index);
    true
}

/// [`Carried::trace`].
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_trace(handle: *mut Handle, is_on: bool) {
    of!(handle).carried.trace(is_on);
}

/// A message of the policy: a text whose `{0}` stands for a number, `{0i}` for a signed one.
#[repr(C)]
pub struct Said {
    /// The text.
    pub text: Line,
    /// The group it is about, or none.
    pub group: u32,
    /// The issuer it is about, or none.
    pub context: u32,
    /// 1: its sync queue.
    pub is_sync: u32,
    /// Room.
    pub unused: u32,
    /// The numbers.
    pub numbers: [u64; 8],
}

/// The oldest message.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_said(handle: *mut Handle, said: &mut Said) -> bool {
    let Some(message) = of!(handle).carried.take_message() else { return false };
    let (context, is_sync) = message.queue.map_or((NONE, false), |(context, is_sync)| (context.0, is_sync));
    *said = Said {
        text: Line::of(message.text),
        group: message.group.map_or(NONE, |group| group.0),
        context,
        is_sync: is_sync.into(),
        unused: 0,
        numbers: message.numbers,
    };
    true
}
