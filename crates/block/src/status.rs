//! How an I/O ended.

/// The outcome of a request.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Status {
    /// Completed entirely.
    #[default]
    Ok,
    /// The device could not read or write the range (EIO).
    IoError,
    /// The storage below a thin volume or a sparse file is full (ENOSPC).
    NoSpace,
    /// The device does not support the operation (EOPNOTSUPP).
    NotSupported,
    /// The request is malformed for this device (EINVAL).
    Invalid,
    /// Not permitted: read-only (EPERM).
    NotPermitted,
    /// Timed out, or the device was reset with the command in flight (ETIMEDOUT).
    Timeout,
}

impl Status {
    /// Whether the I/O succeeded.
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, Status::Ok)
    }

    /// Linux's error number, positive; 0 for success.
    pub const fn errno(self) -> u16 {
        match self {
            Status::Ok => 0,
            Status::NotPermitted => 1,
            Status::IoError => 5,
            Status::Invalid => 22,
            Status::NoSpace => 28,
            Status::NotSupported => 95,
            Status::Timeout => 110,
        }
    }
}
