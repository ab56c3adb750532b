//! How an I/O ended.

/// The outcome of a request.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Status {
    /// Done, wholly.
    #[default]
    Ok,
    /// The device could not read or write the range (EIO).
    IoError,
    /// No room behind a thin volume or file (ENOSPC).
    NoSpace,
    /// The operation is not supported there (EOPNOTSUPP).
    NotSupported,
    /// The request is malformed for this device (EINVAL).
    Invalid,
    /// Not permitted: read-only (EPERM).
    NotPermitted,
    /// Gave up waiting, or the device was reset with the command inside (ETIMEDOUT).
    Timeout,
}

impl Status {
    /// Whether the I/O did what was asked.
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, Status::Ok)
    }

    /// Linux's number of the error, positive; 0 for success.
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
