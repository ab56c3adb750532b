//! The channel to a front end, to tell it that its disk has changed.
//!
//! The crate `vhost` takes the channel from the front end but has no message for a change of the configuration space.
//! So a copy of the descriptor is taken from the message before that crate reads it.
//! Source: docs/interop/vhost-user.rst of QEMU, VHOST_USER_SET_BACKEND_REQ_FD and VHOST_USER_BACKEND_CONFIG_CHANGE_MSG.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};

/// Bytes of a message's header: the request, flags, the length of what follows.
const HEADER_BYTES: usize = 12;
const SET_BACKEND_REQ_FD: u32 = 21;
/// A change of the configuration space, without an answer: protocol version 1, nothing follows.
const CONFIG_CHANGE: [u32; 3] = [2, 1, 0];

/// Waits for the next message, and returns a copy of the channel if the message brings one. The message stays to be
/// read.
pub fn channel_in_next_message(stream: &UnixStream) -> Option<UnixStream> {
    let mut header = [0; HEADER_BYTES];
    let (received, _) = recv(stream, &mut header[..], RecvFlags::PEEK).ok()?;
    let request = header.first_chunk().copied().map(u32::from_ne_bytes)?;
    if received < HEADER_BYTES || request != SET_BACKEND_REQ_FD {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut header)];
    recvmsg(stream, &mut parts, &mut control, RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC).ok()?;
    let descriptor: OwnedFd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    Some(UnixStream::from(descriptor))
}

/// Tells a front end to read the configuration space again; whether the message was sent.
pub fn tell_change(channel: &UnixStream) -> bool {
    let message: Vec<u8> = CONFIG_CHANGE.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // A front end that reads nothing must not block the server, and may change the channel's own flag.
    let sent = send(channel, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    sent.is_ok_and(|sent| sent == message.len())
}
