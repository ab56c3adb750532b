//! Socket options of a connection.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Shutdown, sockopt};

/// Send buffer requested for unix sockets; the system caps it (net.core.wmem_max).
const UNIX_SEND_BUFFER_BYTES: usize = 1 << 20;
const KEEPALIVE_IDLE_S: u64 = 30;
const KEEPALIVE_INTERVAL_S: u64 = 10;
const KEEPALIVE_PROBES: u32 = 3;

/// Sets a stream socket up for many small and some large replies: larger buffers on unix sockets;
/// no delay and keepalive (30 s, then 3 probes 10 s apart) on TCP. Returns whether it is TCP.
///
/// # Errors
/// Any error from the socket.
pub fn tune(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let family = sockopt::socket_domain(socket)?;
    if family == AddressFamily::UNIX {
        sockopt::set_socket_send_buffer_size(socket, UNIX_SEND_BUFFER_BYTES)?;
        return Ok(false);
    }
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, std::time::Duration::from_secs(KEEPALIVE_IDLE_S))?;
    sockopt::set_tcp_keepintvl(socket, std::time::Duration::from_secs(KEEPALIVE_INTERVAL_S))?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    Ok(true)
}

/// Ends both directions at once. Closing alone does not reach the peer while a ring still refers to
/// the socket.
pub fn shut_down(socket: BorrowedFd<'_>) {
    // The peer may have closed the connection first; then there is nothing left to end.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Whether the peer has gone: it has closed the connection or reset it, whatever it has sent before. With
/// `or_no_more_bytes` it counts as gone as well if it only sends no more.
pub fn has_hung_up(socket: BorrowedFd<'_>, or_no_more_bytes: bool) -> bool {
    let gone = PollFlags::HUP | PollFlags::ERR;
    let wanted = if or_no_more_bytes { gone | PollFlags::RDHUP } else { gone };
    let mut polled = [PollFd::from_borrowed_fd(socket, wanted)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled.iter().any(|it| it.revents().intersects(wanted))
}
