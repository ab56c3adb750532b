//! Log events about backings that fail: the only events of the data path. Their subscriber must not block
//! (`export::log` does not).

use std::io;

use block::Operation;

use crate::turn::FailedIo;

/// An I/O failed; its requests are answered with an error.
pub(super) fn log_io(device: &str, export: &str, failed: &FailedIo) {
    let FailedIo { operation, offset_bytes, length_bytes, errno, .. } = *failed;
    let operation = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        _ => "discard",
    };
    let error = errno
        .map_or_else(|| "the backing ends before".to_owned(), |errno| io::Error::from_raw_os_error(errno).to_string());
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
        "device '{device}': flush of export {export} failed, and its flushes fail from now on: {error}"
    );
}
