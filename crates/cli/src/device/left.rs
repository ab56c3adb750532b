//! ublk devices that a server has left behind: their listing and removal.

use hoistway_export::ublk::{Left, left, remove_left};
use hoistway_linux::ublk::{State, node};

use crate::exit::Error;

/// Lines about the devices, for `hoistway device list`; empty without any.
pub fn lines() -> String {
    let devices = left();
    if devices.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<12} {:>10}  {:<20} STATE\n", "UBLK", "SIZE", "EXPORT");
    for Left { number, export, size_bytes, state, server } in devices {
        let (node, size) = (node(number).display().to_string(), format!("{} MiB", size_bytes >> 20));
        let state = match state {
            State::Live => format!("served by process {server}"),
            State::Quiesced | State::FailIo => "waits for a server".to_owned(),
            State::Dead => "stopped".to_owned(),
        };
        text += &format!("{node:<12} {size:>10}  {export:<20} {state}\n");
    }
    text
}

/// The number of a ublk device's node.
pub fn number(name: &str) -> Option<u32> {
    name.strip_prefix("/dev/").unwrap_or(name).strip_prefix("ublkb")?.parse().ok()
}

/// Removes a device that no server serves.
pub fn delete(number: u32, is_forced: bool) -> Result<(), Error> {
    let name = node(number).display().to_string();
    let users = hoistway_linux::ublk::users(number);
    if !users.is_empty() && !is_forced {
        let what = format!("{name} is in use: {}", users.join(", "));
        return Err(Error::refused(what, "unmount it; with --force its users get I/O errors"));
    }
    remove_left(number).map_err(|error| {
        Error::refused(format!("{name} cannot be removed: {error}"), "a server removes its devices when it is stopped")
    })
}
