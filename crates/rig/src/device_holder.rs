//! The process that keeps the block device open and does nothing else: the crate's documentation
//! says why it is separate.
//!
//! The server starts it with the mount as its standard input and a socket as its standard output.
//! It attaches the loop device, sets its queue parameters, reports its number, and then waits for
//! the socket's end.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use hoistway_linux::loop_device::{self, LoopDevice};
use hoistway_linux::process::Process;
use serde::{Deserialize, Serialize};

use crate::{RigError, note};

/// The properties of the model that the holder needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// The name that listings of loop devices show.
    pub name: String,
    pub block_bytes: u32,
    pub is_rotational: bool,
    pub has_cache: bool,
    pub depth: u32,
    pub max_kib: u32,
    pub server: Process,
}

/// The holder's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The number of the loop device, and the holder's process.
    Attached { number: u32, holder: Process },
    /// Why there is no device.
    Failed(String),
}

/// The holder's main function.
///
/// # Errors
/// Any error from the system; it is reported to the server too.
pub fn hold() -> Result<(), RigError> {
    let socket = io::stdout().as_fd().try_clone_to_owned().map_err(RigError::system("the server's socket"))?;
    let mut socket = UnixStream::from(socket);
    let mut lines = BufReader::new(socket.try_clone().map_err(RigError::system("the server's socket"))?);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(RigError::system("the server's socket"))?;
    let facts: Facts = serde_json::from_str(&line).map_err(|error| RigError::Holder(error.to_string()))?;
    // The server handles a terminal's signals and closes the socket when the holder must end.
    let _ = rustix::process::setsid();
    let attached = attach(&facts);
    let holder = Process::this().map_err(RigError::system("/proc/self/stat"))?;
    let answer = match &attached {
        Ok(device) => Answer::Attached { number: device.number(), holder },
        Err(error) => Answer::Failed(error.to_string()),
    };
    let text = serde_json::to_string(&answer).map_err(|error| RigError::Holder(error.to_string()))?;
    // If the server is gone, the next line ends the holder.
    let _ = writeln!(socket, "{text}");
    let device = attached?;
    let number = device.number();
    // The server never sends anything: the holder waits for the end of the socket.
    let _ = io::copy(&mut lines, &mut io::sink());
    drop(device);
    // The server tries the same, because either process may be the last.
    if loop_device::remove(number) {
        note::remove(number);
    }
    Ok(())
}

fn attach(facts: &Facts) -> Result<LoopDevice, RigError> {
    let file =
        hoistway_linux::fuse::open_file(io::stdin().as_fd()).map_err(RigError::system("the file system's file"))?;
    let device = LoopDevice::attach(file.as_fd(), facts.block_bytes, &facts.name)
        .map_err(RigError::system("a new loop device"))?;
    let queue = format!("/sys/block/loop{}/queue", device.number());
    let set = |name: &str, value: &str| {
        let path = Path::new(&queue).join(name);
        fs::write(&path, value).map_err(RigError::system(path.display().to_string()))
    };
    set("rotational", if facts.is_rotational { "1" } else { "0" })?;
    set("write_cache", if facts.has_cache { "write back" } else { "write through" })?;
    set("max_sectors_kb", &facts.max_kib.to_string())?;
    // Without a scheduler this sets the number of the driver's tags, which is kept under every
    // scheduler chosen later: the device then takes as many commands as the model does. A few
    // kernels refuse. The server then queues the commands that exceed the model's depth.
    let _ = set("scheduler", "none");
    let _ = set("nr_requests", &facts.depth.to_string());
    Ok(device)
}
