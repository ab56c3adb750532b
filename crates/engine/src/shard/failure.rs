//! Log events about backings that fail: the only events of the data path. Their subscriber must not block
//! (`export::log` does not).

use std::io;

use hoistway_block::Operation;
use hoistway_linux::ring::Emptying;

use crate::damage::Damage;
use crate::turn::{EFAULT, FailedIo};

/// An I/O failed; its requests are answered with an error.
pub(super) fn log_io(device: &str, export: &str, failed: &FailedIo) {
    let FailedIo { operation, offset_bytes, length_bytes, errno, .. } = *failed;
    let operation = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        _ => "discard",
    };
    let error = match errno {
        None => "the backing ends before".to_owned(),
        Some(EFAULT) => "memory that its client shares is gone".to_owned(),
        Some(errno) => io::Error::from_raw_os_error(errno).to_string(),
    };
    tracing::error!(
        name: "backing_error",
        target: "backing",
        device,
        export,
        operation,
        offset_bytes,
        length_bytes,
        errno,
        error,
        "device '{device}': {operation} of {length_bytes} bytes at offset {offset_bytes} of export {export} failed: {error}"
    );
}

/// An fsync failed; flushes of the export are answered with errors from now on.
pub(super) fn log_sync(device: &str, export: &str, errno: i32) {
    let error = io::Error::from_raw_os_error(errno).to_string();
    tracing::error!(
        name: "backing_error",
        target: "backing",
        device,
        export,
        operation = "flush",
        errno,
        error,
        "device '{device}': flush of export {export} failed: {error}"
    );
}

/// A write of an overlay's bitmap failed: the writes and flushes that waited for it are answered with errors.
pub(super) fn log_store(device: &str, export: &str, errno: i32) {
    let error = match errno {
        1.. => io::Error::from_raw_os_error(errno).to_string(),
        _ => "not all of it was written".to_owned(),
    };
    tracing::error!(
        name: "backing_error",
        target: "backing",
        device,
        export,
        operation = "write",
        errno,
        error,
        "device '{device}': write of the bitmap of export {export} failed: {error}"
    );
}

/// A volume has lost data.
pub(super) fn log_damage(device: &str, export: &str, damage: Damage) {
    let (word, text) = (damage.word(), damage.text());
    tracing::error!(
        name: "export_damaged",
        target: "backing",
        device,
        export,
        damage = word,
        "device '{device}': answered writes of export {export} may be lost, because {text}; its FLUSH and FUA requests fail until it is opened again"
    );
}

/// A volume was closed, and its data may not be on stable storage.
pub(super) fn log_unsynced(device: &str, export: &str, error: Option<&io::Error>) {
    let error = error.map_or_else(|| "it had lost data before".to_owned(), io::Error::to_string);
    tracing::error!(
        name: "not_synced",
        target: "backing",
        device,
        export,
        error,
        "device '{device}': export {export} is closed, and its data may not be on stable storage: {error}"
    );
}

/// A backing cannot do what it had said.
pub(super) fn log_withdrawal(device: &str, export: &str, how: Emptying) {
    let (what, instead) = match how {
        Emptying::Discard => ("discard", "trims"),
        Emptying::PunchHole => ("punch holes into", "trims and zeroes"),
        Emptying::ZeroRange => ("zero ranges of", "zeroes"),
    };
    tracing::warn!(
        name: "ability_withdrawn",
        target: "backing",
        device,
        export,
        ability = what,
        "device '{device}': the system cannot {what} the backing of export {export}; it {instead} in another way from now on"
    );
}

/// A backing is used in another way than was asked for.
pub(super) fn log_note(device: &str, export: &str, note: &str) {
    tracing::warn!(
        name: "backing_note",
        target: "backing",
        device,
        export,
        note,
        "device '{device}', export {export}: {note}"
    );
}

/// The kernel does not register a thread's memory, so direct I/O costs more.
pub(super) fn log_refusal(device: &str, error: &io::Error) {
    tracing::warn!(
        name: "memory_not_registered",
        target: "device",
        device,
        error = %error,
        "device '{device}': direct I/O costs about a tenth more processor time, because the kernel does not register memory for io_uring: {error}; raise the limit on locked memory (LimitMEMLOCK= of the unit, or ulimit -l) to more than the device's memory, or use less memory"
    );
}
