//! The data of `device list`: one note per device in `/run/hoistway-root/devices`, written by its
//! server.
//!
//! A note keeps nothing alive. If both processes of a note have ended it is stale: the device is
//! gone, or vanishes when its last user closes it, and [`list`] removes the rest.

use std::io;
use std::path::{Path, PathBuf};

use hoistway_linux::own_files;
use hoistway_linux::process::Process;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lateness::Lateness;

/// A device of ours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rig {
    /// Number of its loop device.
    pub number: u32,
    /// The model as requested.
    pub model: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Commands that the model takes at a time; the block device dispatches no more, unless its
    /// `nr_requests` is raised.
    pub depth: u32,
    /// The server process.
    pub server: Process,
    /// The process that keeps the block device open.
    #[serde(rename = "keeper")]
    pub holder: Process,
    /// Memory that holds written data, in bytes.
    pub memory_bytes: u64,
    /// The most commands that were in service at a time.
    pub most_in_service: usize,
    /// The most commands that had arrived and were not answered; those above the model's depth
    /// waited before it.
    pub most_arrived: usize,
    /// The lateness of replies.
    pub lateness: Lateness,
}

impl Rig {
    /// The block device.
    pub fn node(&self) -> PathBuf {
        hoistway_linux::loop_device::node(self.number)
    }

    /// Whether its server or its holder is still alive.
    pub fn is_alive(&self) -> bool {
        self.server.is_alive() || self.holder.is_alive()
    }

    /// Writes the note.
    pub(crate) fn write(&self) -> io::Result<()> {
        let directory = directory();
        hoistway_linux::run_directory::make(&directory)?;
        own_files::replace(&path(self.number), &serde_json::to_vec_pretty(self)?)
    }
}

fn directory() -> PathBuf {
    hoistway_linux::run_directory::path().join("devices")
}

fn path(number: u32) -> PathBuf {
    directory().join(format!("loop{number}.json"))
}

/// Removes a device's note.
pub(crate) fn remove(number: u32) {
    // The other process may have removed it first.
    let _ = own_files::remove(&path(number));
}

/// All devices, by number. Devices that are no longer served are removed.
pub fn list() -> Vec<Rig> {
    // By a note that another user may have written no process is ended and no device removed.
    let paths = hoistway_linux::run_directory::list("devices", "json").unwrap_or_default();
    let mut rigs: Vec<Rig> = paths.iter().filter_map(|path| read(path)).collect();
    rigs.retain(|rig| {
        // A killed holder ends only when it has closed the device, which removal requires.
        let is_served = rig.server.is_running() || rig.holder.is_running();
        if !is_served && (!rig.node().exists() || hoistway_linux::loop_device::remove(rig.number)) {
            remove(rig.number);
        }
        is_served
    });
    rigs.sort_by_key(|rig| rig.number);
    rigs
}

/// A device by its node, `loop64` or `64`.
pub fn find(name: &str) -> Option<Rig> {
    let number = name.strip_prefix("/dev/").unwrap_or(name);
    let number: u32 = number.strip_prefix("loop").unwrap_or(number).parse().ok()?;
    list().into_iter().find(|rig| rig.number == number)
}

fn read(path: &Path) -> Option<Rig> {
    serde_json::from_slice(&own_files::read(path).ok()?).ok()
}
