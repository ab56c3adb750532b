//! ublk: the block layer's requests as requests of the engine, and failures as errno values.

use hoistway_linux::ublk::{Operation, Request};
use rustix::io::Errno;

use super::{Command, Failure};
use crate::shard::LocalRequest;

/// The engine's request for a tag's; `None` for an operation that was not offered.
pub(crate) fn translate(tag: u16, request: &Request) -> Option<LocalRequest> {
    let (command, keeps_space) = match request.operation {
        Operation::Read => (Command::Read, false),
        Operation::Write => (Command::Write, false),
        Operation::Flush => (Command::Flush, false),
        Operation::Discard => (Command::Trim, false),
        Operation::WriteZeroes(keeps_space) => (Command::WriteZeroes, keeps_space),
        Operation::Unknown(_) => return None,
    };
    Some(LocalRequest {
        cookie: u64::from(tag),
        command,
        offset_bytes: request.offset_bytes,
        length_bytes: request.length_bytes,
        is_durable: request.is_durable,
        keeps_space,
        actor: 0,
        is_held: false,
    })
}

/// The errno that the block layer gets; `None` where the request is not answered, because the server
/// ends and the next one gets it again.
pub(crate) fn errno(failure: Failure) -> Option<i32> {
    let errno = match failure {
        Failure::NotPermitted => Errno::PERM,
        Failure::Io => Errno::IO,
        Failure::Invalid => Errno::INVAL,
        Failure::NoSpace => Errno::NOSPC,
        Failure::Overflow => Errno::OVERFLOW,
        Failure::NotSupported => Errno::OPNOTSUPP,
        Failure::Shutdown => return None,
    };
    Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation) -> Request {
        let mut request = Request::default();
        (request.operation, request.is_durable) = (operation, true);
        (request.offset_bytes, request.length_bytes) = (4_096, 8_192);
        request
    }

    #[test]
    fn every_offered_operation_is_translated() {
        let of = |operation| translate(3, &request(operation)).map(|it| (it.command, it.keeps_space, it.cookie));
        assert_eq!(of(Operation::Read), Some((Command::Read, false, 3)));
        assert_eq!(of(Operation::Discard), Some((Command::Trim, false, 3)));
        assert_eq!(of(Operation::WriteZeroes(true)), Some((Command::WriteZeroes, true, 3)));
        assert_eq!(of(Operation::Unknown(10)), None);
    }

    #[test]
    fn a_request_is_not_failed_because_the_server_ends() {
        assert_eq!((errno(Failure::Shutdown), errno(Failure::NoSpace)), (None, Some(28)));
    }
}
