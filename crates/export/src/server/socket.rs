//! Listening sockets: created, inherited, and removed.
//!
//! A unix socket gets its mode and owner before it listens, so that no client can connect through
//! unintended permissions. An existing socket file is removed only if no server answers on it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use crate::configuration::{Address, Problem, Sourced};

/// Connections that may wait to be accepted: as many as the system allows (net.core.somaxconn, 4,096 unless it was
/// changed). A client that does not wait is refused by the system at once when they are as many.
const BACKLOG: i32 = i32::MAX;
/// How long accepting pauses after the system ran out of descriptors or memory.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
#[derive(Debug)]
pub struct Listening {
    /// The socket, not blocking.
    pub descriptor: OwnedFd,
    /// The actual address: with the port that the system chose for port 0.
    pub address: Address,
    /// The address as configured.
    pub configured: Address,
    /// The file of a unix socket created here; none if it was inherited.
    pub file: Option<SocketFile>,
}

/// A unix socket's file; removed on drop.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may have been removed already; a failure cannot be handled here.
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens a socket at an address, or reports in one message why not.
pub fn listen(address: &Sourced<Address>) -> Result<Listening, Problem> {
    match &address.value {
        Address::Unix { path, mode, owner_group } => unix(address, path, *mode, owner_group.as_deref()),
        Address::Tcp(socket) => tcp(*socket).map_err(|error| {
            let what = format!("cannot listen on {address}: {error}");
            Problem::new(&address.place, what, "choose another port, or stop the program that listens there")
        }),
    }
}

/// A unix socket that only its owner may use: the control socket.
pub fn listen_private(path: &Sourced<PathBuf>) -> Result<Listening, Problem> {
    let address = Address::Unix { path: path.value.clone(), mode: 0o600, owner_group: None };
    listen(&Sourced::new(address, &path.place))
}

fn unix(address: &Sourced<Address>, path: &Path, mode: u32, owner_group: Option<&str>) -> Result<Listening, Problem> {
    let wrong = |what: String, help: &str| Problem::new(&address.place, what, help);
    remove_stale_socket(path).map_err(|(what, help)| wrong(what, help))?;
    let group = match owner_group {
        Some(name) => Some(group_id(name).ok_or_else(|| {
            wrong(format!("there is no group {name:?} on this system"), "give a name from /etc/group, or a number")
        })?),
        None => None,
    };
    let bind = || -> io::Result<OwnedFd> {
        let descriptor = stream_socket(AddressFamily::UNIX)?;
        rustix::net::bind(&descriptor, &SocketAddrUnix::new(path)?)?;
        Ok(descriptor)
    };
    let descriptor = bind().map_err(|error| {
        let help = "the directory must exist and be writable, the path be at most 107 bytes long";
        wrong(format!("cannot make the socket {}: {error}", path.display()), help)
    })?;
    let (file, configured) = (Some(SocketFile(path.to_owned())), address.value.clone());
    let listening = Listening { descriptor, address: configured.clone(), configured, file };
    let finish = || -> io::Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        if group.is_some() {
            std::os::unix::fs::chown(path, None, group)?;
        }
        Ok(rustix::net::listen(&listening.descriptor, BACKLOG)?)
    };
    finish().map_err(|error| {
        let what = format!("cannot give {} mode {mode:04o} and its group: {error}", path.display());
        wrong(what, "give a group that this process belongs to, or start it as root")
    })?;
    Ok(listening)
}

/// Removes a socket file on which no server listens. Any other file is kept and reported as an
/// error.
fn remove_stale_socket(path: &Path) -> Result<(), (String, &'static str)> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let shown = path.display();
    if !metadata.file_type().is_socket() {
        return Err((format!("{shown} exists and is not a socket"), "choose another path"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err((format!("a server listens on {shown} already"), "stop it first, or choose another path")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| (format!("cannot remove the stale socket {shown}: {error}"), "remove it by hand")),
        Err(error) => Err((
            format!("{shown} exists, and it cannot be determined whether a server uses it: {error}"),
            "remove it by hand",
        )),
    }
}

fn tcp(address: SocketAddr) -> io::Result<Listening> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let descriptor = stream_socket(family)?;
    // Otherwise a restart within a minute of the last connection would be refused.
    sockopt::set_socket_reuseaddr(&descriptor, true)?;
    rustix::net::bind(&descriptor, &address)?;
    rustix::net::listen(&descriptor, BACKLOG)?;
    let real = SocketAddr::try_from(rustix::net::getsockname(&descriptor)?)?;
    Ok(Listening { descriptor, address: Address::Tcp(real), configured: Address::Tcp(address), file: None })
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// What came of an attempt to accept.
pub enum Accepted {
    /// A connection.
    Client(OwnedFd),
    /// None waits.
    Empty,
    /// The system cannot accept one now, for want of descriptors or memory: try again after [`ACCEPT_PAUSE`].
    Failed(Errno),
}

/// Accepts a connection from a socket that does not block. The connection itself blocks: on one that does not, the shard's
/// `io_uring` requests would end with EAGAIN instead of waiting for data.
pub fn accept(listener: BorrowedFd<'_>) -> Accepted {
    loop {
        return match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => Accepted::Client(socket),
            Err(Errno::AGAIN) => Accepted::Empty,
            // A signal came, or the client was gone before it was accepted; the network's errors are its own.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::PERM,
            ) => continue,
            Err(error) => Accepted::Failed(error),
        };
    }
}

/// The number of a group given by number or by name. Only `/etc/group` is read, because a service's
/// group is a local one.
fn group_id(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

/// The sockets passed by a service manager (`LISTEN_FDS`, from descriptor 3), if they were passed to
/// this process.
pub fn inherited() -> io::Result<Vec<Listening>> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0).min(1_024);
    let this_process = Pid::from_raw(i32::try_from(std::process::id()).unwrap_or(0)).ok_or(io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(this_process, PidfdFlags::empty())?;
    let mut sockets = Vec::new();
    for raw in 3..3 + i32::try_from(count).unwrap_or(0) {
        // Safe code cannot take ownership of a descriptor of which it has only the number;
        // pidfd_getfd returns an owned copy.
        let descriptor = rustix::process::pidfd_getfd(&process, raw, PidfdGetfdFlags::empty())?;
        rustix::io::ioctl_fionbio(&descriptor, true)?;
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        let address = address_of(&descriptor)?;
        sockets.push(Listening { descriptor, address: address.clone(), configured: address, file: None });
    }
    Ok(sockets)
}

fn address_of(descriptor: impl AsFd) -> io::Result<Address> {
    let name = rustix::net::getsockname(descriptor)?;
    if let Ok(address) = SocketAddr::try_from(name.clone()) {
        return Ok(Address::Tcp(address));
    }
    let name = SocketAddrUnix::try_from(name)?;
    let path = name.path().ok_or(io::Error::new(io::ErrorKind::InvalidInput, "an inherited socket has no path"))?;
    let path = PathBuf::from(path.to_string_lossy().into_owned());
    Ok(Address::Unix { path, mode: 0o660, owner_group: None })
}
