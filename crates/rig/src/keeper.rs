//! The process that has the block device open, and nothing else: see the crate's head for why it is one of its own.
//!
//! It is started by the server with the mount as its standard input and a socket as its standard output. It attaches, sets
//! what the model is like, says the device's number, and then waits for the socket's end.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use linux::loop_device::{self, LoopDevice};
use linux::process::Process;
use serde::{Deserialize, Serialize};

use crate::{RigError, note};

/// What the keeper must know of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// What listings of loop devices show.
    pub name: String,
    pub block_bytes: u32,
    pub is_rotational: bool,
    pub has_cache: bool,
    pub depth: u32,
    pub max_kib: u32,
    pub server: Process,
}

/// What the keeper answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The number of the loop device.
    Attached { number: u32, keeper: Process },
    /// Why there is none.
    Failed(String),
}

/// The keeper's whole life.
///
/// # Errors
/// Any error from the system; the server hears of it too.
pub fn keep() -> Result<(), RigError> {
    let socket = io::stdout().as_fd().try_clone_to_owned().map_err(RigError::system("the server's socket"))?;
    let mut socket = UnixStream::from(socket);
    let mut lines = BufReader::new(socket.try_clone().map_err(RigError::system("the server's socket"))?);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(RigError::system("the server's socket"))?;
    let facts: Facts = serde_json::from_str(&line).map_err(|error| RigError::Keeper(error.to_string()))?;
    // A terminal's signals are the server's business; it closes the socket when it is time.
    let _ = rustix::process::setsid();
    let attached = attach(&facts);
    let keeper = Process::this().map_err(RigError::system("/proc/self/stat"))?;
    let answer = match &attached {
        Ok(device) => Answer::Attached { number: device.number(), keeper },
        Err(error) => Answer::Failed(error.to_string()),
    };
    let text = serde_json::to_string(&answer).map_err(|error| RigError::Keeper(error.to_string()))?;
    // If the server is gone there is nobody to tell, and the next line ends it all.
    let _ = writeln!(socket, "{text}");
    let device = attached?;
    let number = device.number();
    // Nothing is ever said: the end of the socket is what is waited for.
    let _ = io::copy(&mut lines, &mut io::sink());
    drop(device);
    // The server does the same; whoever of the two is left.
    if loop_device::remove(number) {
        note::remove(number);
    }
    Ok(())
}

fn attach(facts: &Facts) -> Result<LoopDevice, RigError> {
    let file = linux::fuse::open_file(io::stdin().as_fd()).map_err(RigError::system("the file system's file"))?;
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
    // Without a scheduler this is the number of the driver's tags, and it stays so under every scheduler that is chosen
    // later: the device then takes as many commands as the model does. Few kernels refuse; the model copes.
    let _ = set("scheduler", "none");
    let _ = set("nr_requests", &facts.depth.to_string());
    Ok(device)
}
