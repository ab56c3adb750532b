//! Notes of the devices that servers have made, so that a later server goes on with them: one file
//! per device in the run directory.

use std::io;
use std::path::PathBuf;

use hoistway_linux::own_files;
use serde::{Deserialize, Serialize};

/// A note of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub number: u32,
    /// The configuration's device and export that it belongs to.
    pub device: String,
    pub export: String,
    pub size_bytes: u64,
    /// The boot in which the device was made; no ublk device survives a reboot.
    boot: String,
}

impl Note {
    pub fn new(number: u32, device: &str, export: &str, size_bytes: u64) -> Self {
        let boot = hoistway_linux::run_directory::boot_id();
        Self { number, device: device.to_owned(), export: export.to_owned(), size_bytes, boot }
    }

    /// All notes of this boot, by number.
    pub fn all() -> Vec<Self> {
        let boot = hoistway_linux::run_directory::boot_id();
        // Notes that another user may have written are as good as none: their devices are not taken over.
        let files = hoistway_linux::run_directory::list("ublk", "json").unwrap_or_default();
        let notes = files.iter().filter_map(|file| serde_json::from_slice::<Self>(&own_files::read(file).ok()?).ok());
        let mut notes: Vec<Self> = notes.filter(|note| note.boot == boot).collect();
        notes.sort_by_key(|note| note.number);
        notes
    }

    /// The note of an export's device, if an earlier server of this boot has left one.
    pub fn find(device: &str, export: &str) -> Option<Self> {
        Self::all().into_iter().find(|note| note.device == device && note.export == export)
    }

    pub fn write(&self) -> io::Result<()> {
        hoistway_linux::run_directory::make(&directory())?;
        own_files::replace(&path(self.number), &serde_json::to_vec(self)?)
    }

    pub fn remove(&self) {
        Self::remove_of(self.number);
    }

    pub fn remove_of(number: u32) {
        // A note that is gone already needs no removal, and one that stays names no device any more.
        let _ = own_files::remove(&path(number));
    }
}

fn directory() -> PathBuf {
    hoistway_linux::run_directory::path().join("ublk")
}

fn path(number: u32) -> PathBuf {
    directory().join(format!("{number}.json"))
}
