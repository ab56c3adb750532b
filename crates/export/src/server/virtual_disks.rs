//! The exports that virtual machines attach: a socket and a thread for each.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::devices::Devices;
use super::socket::{SocketFile, listen};
use super::{ABANDONED, Event, StartFailure, USAGE};
use crate::configuration::{Address, Configuration, Export, Problem};
use crate::vhost_user_blk::Listener;

/// The disks that are served, by export.
pub struct VirtualDisks {
    disks: BTreeMap<String, VirtualDisk>,
    events: Sender<Event>,
}

struct VirtualDisk {
    address: Address,
    // Dropped in this order: a front end that connects again finds no socket.
    _file: Option<SocketFile>,
    listener: Listener,
}

impl VirtualDisks {
    /// Serves every export that has a socket for it. `events` takes the messages.
    ///
    /// # Errors
    /// The first socket that cannot be opened; nothing is left behind.
    pub fn open(devices: &Devices, configuration: &Configuration, events: Sender<Event>) -> Result<Self, StartFailure> {
        let mut disks = Self { disks: BTreeMap::new(), events };
        for (_, export) in configuration.exports() {
            disks.add(devices, export, configuration)?;
        }
        Ok(disks)
    }

    /// Serves an export, if it has a socket for it.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn add(
        &mut self,
        devices: &Devices,
        export: &Export,
        configuration: &Configuration,
    ) -> Result<(), StartFailure> {
        let Some(address) = &export.vhost_user_blk else { return Ok(()) };
        let failure = |problem, exit_status| StartFailure { problems: vec![problem], exit_status };
        let mut socket = listen(address).map_err(|problem| failure(problem, USAGE))?;
        let failed = |what: String| failure(Problem::new(&address.place, what, ""), ABANDONED);
        let served = devices.served(export, configuration).map_err(|error| failed(error.message))?;
        let (file, address) = (socket.file.take(), address.value.clone());
        let events = self.events.clone();
        let report = move |text| {
            // The server may have ended already.
            let _ = events.send(Event::Warning(text));
        };
        let listener = Listener::start(socket.descriptor, served, std::sync::Arc::new(report))
            .map_err(|error| failed(format!("cannot start a thread: {error}")))?;
        self.disks.insert(export.name.value.clone(), VirtualDisk { address, _file: file, listener });
        Ok(())
    }

    /// Ends the service of an export. Requests in flight end first.
    pub fn remove(&mut self, export: &str) {
        self.disks.remove(export);
    }

    /// Disconnects the front end of an export, and waits until nothing of it can reach the device any more.
    /// `None` if there was none; false if that lasts longer than `timeout`.
    pub fn disconnect(&self, export: &str, timeout: Duration) -> Option<bool> {
        self.disks.get(export)?.listener.disconnect(timeout)
    }

    /// Tells the front end of an export its new size; returns a note if it cannot be told.
    pub fn grow(&self, export: &str, size_bytes: u64) -> Option<String> {
        let disk = self.disks.get(export)?;
        (!disk.listener.grow(size_bytes)).then(|| {
            let address = &disk.address;
            format!(
                "the virtual machine at {address} takes no notice of changes and keeps its size until it is restarted"
            )
        })
    }

    /// A line about each disk: `listening vhost-user-blk unix:/run/db.vhost exports=db`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.disks.iter().map(|(export, disk)| format!("listening vhost-user-blk {} exports={export}", disk.address))
    }
}
