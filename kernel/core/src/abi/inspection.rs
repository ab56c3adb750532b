//! Calls about tunables, counters and messages.

use super::Handle;
use crate::records::Call;
use crate::values::{Line, NONE, Stats};
use hoistway_elevator::Elevator;
use hoistway_elevator::tunable::{OutOfRange, Unit};

/// A tunable (row), in the form for the glue, which is the C part of the module.
#[repr(C)]
pub struct Row {
    /// Its name in sysfs.
    pub name: Line,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
    /// 1 if a value out of range is refused, 0 if it is clamped.
    pub refuses: u32,
    /// The number of words (names of values) that the tunable accepts; 0 = its values are numbers.
    pub words: u32,
    /// 1 if only unsigned decimal numbers are accepted (nanoseconds).
    pub decimal: u32,
    /// Padding.
    pub unused: u32,
}

/// The policy's tunable number `index`; false if there is none.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_row(handle: *mut Handle, index: u32, row: &mut Row) -> bool {
    let Some(found) = of!(handle).device.policy().tunables().get(index as usize) else { return false };
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

/// Word number `word` of tunable `index`; false if there is none.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_word(handle: *mut Handle, index: u32, word: u32, text: &mut Line) -> bool {
    let Some(row) = of!(handle).device.policy().tunables().get(index as usize) else { return false };
    let Unit::Choice(words) = row.unit else { return false };
    let Some(found) = words.get(word as usize) else { return false };
    *text = Line::of(found);
    true
}

/// The value of tunable `index`; false if there is none.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_setting(handle: *mut Handle, index: u32, value: &mut i64) -> bool {
    let Some(found) = of!(handle).device.policy().setting(index as usize) else { return false };
    *value = found;
    true
}

/// [`crate::DevicePolicy::set`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_set(handle: *mut Handle, index: u32, value: i64) -> bool {
    let handle = of!(handle);
    let done = handle.device.set(index, value);
    if handle.recorder.is_on() {
        handle.note_few(Call::Set, index, 0, (value.cast_unsigned(), 0, 0), (done.into(), 0));
    }
    done
}

/// [`crate::DevicePolicy::stats`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_stats(handle: *mut Handle, stats: &mut Stats) {
    *stats = of!(handle).device.stats();
}

/// Text and count of reason `index`; false if there is none.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_reason(handle: *mut Handle, index: u32, text: &mut Line, count: &mut u64) -> bool {
    let device = &of!(handle).device;
    let Some(name) = device.policy().reasons().get(index as usize) else { return false };
    *text = Line::of(name);
    *count = device.reason_count(index);
    true
}

/// [`crate::DevicePolicy::trace`].
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_trace(handle: *mut Handle, is_on: bool) {
    of!(handle).device.trace(is_on);
}

/// A message of the policy: a text in which `{0}` stands for a number, `{0i}` for a signed one.
#[repr(C)]
pub struct Message {
    /// The text.
    pub text: Line,
    /// The group that it is about, or none.
    pub group: u32,
    /// The issuer that it is about, or none.
    pub context: u32,
    /// 1 if it is about the issuer's sync queue.
    pub is_sync: u32,
    /// Padding.
    pub unused: u32,
    /// The numbers.
    pub numbers: [u64; 8],
}

/// Takes the oldest message; false if there is none.
///
/// # Safety
/// See the documentation of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hoist_take_message(handle: *mut Handle, out: &mut Message) -> bool {
    let Some(message) = of!(handle).device.take_message() else { return false };
    let (context, is_sync) = message.queue.map_or((NONE, false), |(context, is_sync)| (context.0, is_sync));
    *out = Message {
        text: Line::of(message.text),
        group: message.group.map_or(NONE, |group| group.0),
        context,
        is_sync: is_sync.into(),
        unused: 0,
        numbers: message.numbers,
    };
    true
}
