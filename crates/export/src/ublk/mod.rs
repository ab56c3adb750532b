//! Exports as local block devices through ublk: creation, recovery after the last server's end, and
//! removal.
//!
//! ```text
//! begin ─ a note of an earlier server and its device is there ─► recover ─► /dev/ublkbN goes on
//!       └ otherwise ──────────────────────────────────────────► create  ─► /dev/ublkbN
//! end   ─ in use ─► left: requests wait for the next server
//!       └ otherwise ─► removed
//! ```
//! The data path is the engine's (`hoistway_engine::UblkDevice`); this module only speaks to the driver's
//! control device.

mod note;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use hoistway_engine::{EngineError, ErrorKind, ShardHandle, UblkDevice, VolumeFacts, VolumeId};
use hoistway_linux::ublk::{self, Control, DeviceInfo, Parameters, Queue, Shape, State, feature};

use note::Note;

use crate::group_use::GroupUse;

/// Requests in flight per queue; the block layer keeps more waiting.
const TAGS: u16 = 128;
/// The longest request where the kernel copies (USER_COPY), and where each tag has a buffer.
const MAX_IO_BYTES: u32 = 1 << 20;
const MAX_BUFFERED_IO_BYTES: u32 = 128 << 10;
/// The longest discard.
const MAX_DISCARD_BYTES: u32 = 1 << 30;
/// The unit of the driver's sizes.
const SECTOR_BYTES: u64 = 512;
/// How long the kernel may take to notice a server's end.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// How long a stopped device's queues may take to return their tags.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of an export's device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Number {
    /// The kernel chooses a free one.
    Any,
    /// This one.
    Is(u32),
}

/// What an export's device is made of.
#[derive(Copy, Clone, Debug)]
pub struct Source<'a> {
    /// The device's shard.
    pub shard: &'a ShardHandle,
    /// The export's name.
    pub export: &'a str,
    /// Its volume.
    pub volume: VolumeId,
    /// The group of its requests.
    pub group: &'a Arc<GroupUse>,
    /// What the engine knows of the volume.
    pub facts: &'a VolumeFacts,
    /// Smallest block, in bytes.
    pub min_block_bytes: u32,
}

/// A block device that this server serves.
#[derive(Debug)]
pub struct Disk {
    info: DeviceInfo,
    export: String,
    /// Receives a message, or is disconnected, when every tag has returned.
    closed: Receiver<()>,
    note: Note,
}

impl Disk {
    /// Creates an export's device, or goes on with the one that an earlier server has left.
    ///
    /// # Errors
    /// The driver is missing or refuses, another server serves the device, or its size differs.
    pub fn open(source: &Source<'_>, number: Number) -> Result<Self, EngineError> {
        let name = source.export;
        let mut control = Control::open().map_err(|error| no_driver(name, &error))?;
        let failed = |error: io::Error| system(name, &error);
        if let Some(note) = Note::find(source.shard.name(), name)
            && let Some(info) = left_device(&mut control, &note, source).map_err(|what| what.into_error(name))?
        {
            return Self::recover(control, source, info, note);
        }
        let wanted = match number {
            Number::Any => None,
            Number::Is(number) => Some(number),
        };
        let offered = control.features().map_err(failed)?;
        let takes_memory = source.shard.takes_request_memory(source.volume)?;
        let shape =
            shape(source.shard.parallel_queues(), feature::wanted(offered, control.is_privileged(), takes_memory));
        let info = control.add(wanted, &shape).map_err(|error| not_added(name, wanted, &error))?;
        let note = Note::new(info.number, source.shard.name(), name, source.facts.size_bytes);
        let begun = control
            .await_access(info.number)
            .map_err(|error| no_access(name, info.number, &error))
            .and_then(|()| control.set_parameters(info.number, &parameters(source, shape.max_io_bytes)).map_err(failed))
            .and_then(|()| note.write().map_err(failed))
            .and_then(|()| Self::serve(source, &info, note))
            .and_then(|disk| control.start(info.number).map(|()| disk).map_err(failed));
        if begun.is_err() {
            let _ = control.stop(info.number);
            let _ = control.delete(info.number);
            Note::remove_of(info.number);
        }
        begun.inspect(|disk| leave_order_to_engine(disk.info.number))
    }

    fn recover(mut control: Control, source: &Source<'_>, info: DeviceInfo, note: Note) -> Result<Self, EngineError> {
        let failed = |error: io::Error| system(source.export, &error);
        let begin = Instant::now();
        while let Err(error) = control.start_recovery(info.number) {
            if error.raw_os_error() != Some(rustix::io::Errno::BUSY.raw_os_error())
                || begin.elapsed() > RECOVERY_TIMEOUT
            {
                return Err(failed(error));
            }
            thread::sleep(POLL);
        }
        let disk = Self::serve(source, &info, note)?;
        control.end_recovery(info.number).map_err(failed)?;
        Ok(disk)
    }

    /// Gives the queues to the shard, which fetches every tag.
    fn serve(source: &Source<'_>, info: &DeviceInfo, note: Note) -> Result<Self, EngineError> {
        let (sender, closed) = mpsc::channel::<()>();
        let group = Arc::clone(source.group);
        let begin = Instant::now();
        let queues = loop {
            match Queue::open_all(info) {
                Ok(queues) => break queues,
                // The last server's end is still being handled.
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
                        && begin.elapsed() < RECOVERY_TIMEOUT =>
                {
                    thread::sleep(POLL);
                }
                Err(error) => return Err(system(source.export, &error)),
            }
        };
        let device = UblkDevice {
            queues,
            features: info.features,
            max_io_bytes: info.max_io_bytes,
            label: ublk::node(info.number).display().to_string(),
            on_closed: Some(Box::new(move || drop((sender, group)))),
        };
        if let Some(note) = source.shard.attach_ublk(device, source.volume, source.group.handle())? {
            tracing::info!(name: "disk", target: "device", export = source.export, "{note}");
        }
        Ok(Self { info: *info, export: source.export.to_owned(), closed, note })
    }

    /// Its node.
    pub fn node(&self) -> String {
        ublk::node(self.info.number).display().to_string()
    }

    /// Its export's name.
    pub fn export(&self) -> &str {
        &self.export
    }

    /// Whether its requests wait for the next server when this one ends; a device of a user without
    /// privileges ends with its server.
    pub fn outlives_server(&self) -> bool {
        self.info.features & feature::USER_RECOVERY != 0
    }

    /// Its hardware queues.
    pub fn queues(&self) -> u16 {
        self.info.queues
    }

    /// The names of the driver's features in force that concern its users.
    pub fn features(&self) -> Vec<&'static str> {
        feature::names(self.info.features)
    }

    /// Its users in words; empty if there are none.
    pub fn users(&self) -> Vec<String> {
        ublk::users(self.info.number)
    }

    /// Tells the kernel that the volume has grown.
    ///
    /// # Errors
    /// The kernel cannot change the size of a device, or refuses.
    pub fn grow(&mut self, facts: &VolumeFacts, min_block_bytes: u32) -> Result<(), EngineError> {
        let node = self.node();
        let stays = |what: &str| {
            let message = format!("{node} keeps its size: {what}");
            EngineError::system(message, "remove the export and add it again, when nothing uses it")
        };
        let failed = |error: io::Error| stays(&error.to_string());
        let mut control = Control::open().map_err(failed)?;
        if control.features().map_err(failed)? & feature::GROWTH == 0 {
            return Err(stays("the kernel cannot change the size of a ublk device (Linux 6.16 can)"));
        }
        let block_bytes = u64::from(logical_block_bytes(facts, min_block_bytes));
        let size_bytes = facts.size_bytes / block_bytes * block_bytes;
        control.update_size(self.info.number, size_bytes / SECTOR_BYTES).map_err(failed)?;
        // The next server finds the size that it will see.
        self.note.size_bytes = facts.size_bytes;
        self.note.write().map_err(|error| system(&self.export, &error))
    }

    /// Removes it after finishing what is in flight. Its shard must still run.
    ///
    /// # Errors
    /// The driver's.
    pub fn remove(self) -> Result<(), EngineError> {
        let failed = |error: io::Error| system(&self.export, &error);
        let mut control = Control::open().map_err(failed)?;
        control.stop(self.info.number).map_err(failed)?;
        // The sender was dropped, which disconnects the channel, when nothing is left in the shard.
        if self.closed.recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let message = format!("export '{}': {} did not return its requests", self.export, self.node());
            return Err(EngineError::system(message, "restart the server"));
        }
        // A device that ends with its server may still be open; others are removed only if not in use.
        match self.outlives_server() {
            true => control.delete(self.info.number),
            false => control.delete_without_waiting(self.info.number),
        }
        .map_err(failed)?;
        self.note.remove();
        Ok(())
    }
}

/// A device that a server of this boot has made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// Its export's name.
    pub export: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its state.
    pub state: State,
    /// The process that serves or served it.
    pub server: i32,
}

/// The devices that servers of this boot have made and that still exist; none without rights to the
/// driver.
pub fn left() -> Vec<Left> {
    let notes = Note::all();
    if notes.is_empty() {
        return Vec::new();
    }
    let Ok(mut control) = Control::open() else { return Vec::new() };
    let found = notes.into_iter().filter_map(|note| {
        let info = control.info(note.number).ok()?;
        let (number, export, size_bytes) = (note.number, note.export, note.size_bytes);
        Some(Left { number, export, size_bytes, state: info.state, server: info.server })
    });
    found.collect()
}

/// Removes a device that no server serves any more, with its note.
///
/// # Errors
/// The driver's, or it is served.
pub fn remove_left(number: u32) -> io::Result<()> {
    let mut control = Control::open()?;
    let info = control.info(number)?;
    if info.state == State::Live && is_alive(info.server) {
        return Err(io::Error::other(format!("it is served by process {}", info.server)));
    }
    control.stop(number)?;
    control.delete(number)?;
    Note::remove_of(number);
    Ok(())
}

/// Why a device that a note names cannot be used.
enum Obstacle {
    Served(DeviceInfo),
    OtherSize { number: u32, before: u64, now: u64 },
    System(io::Error),
}

impl Obstacle {
    fn into_error(self, export: &str) -> EngineError {
        match self {
            Obstacle::Served(info) => EngineError {
                kind: ErrorKind::Unsafe,
                message: format!(
                    "export '{export}': {} is served by process {}",
                    ublk::node(info.number).display(),
                    info.server
                ),
                help: "stop that server, or give this export another name".to_owned(),
            },
            Obstacle::OtherSize { number, before, now } => EngineError {
                kind: ErrorKind::Unsafe,
                message: format!(
                    "export '{export}': {} was left by an earlier server with {before} bytes, and the backing has {now}",
                    ublk::node(number).display()
                ),
                help: format!("unmount it and remove it: hoistway device delete /dev/ublkb{number}"),
            },
            Obstacle::System(error) => system(export, &error),
        }
    }
}

/// The device of a note if it waits for a server; a dead one is removed.
fn left_device(control: &mut Control, note: &Note, source: &Source<'_>) -> Result<Option<DeviceInfo>, Obstacle> {
    let begin = Instant::now();
    loop {
        let info = match control.info(note.number) {
            Ok(info) => info,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                note.remove();
                return Ok(None);
            }
            Err(error) => return Err(Obstacle::System(error)),
        };
        let is_served = info.state == State::Live;
        match info.state {
            State::Quiesced | State::FailIo if note.size_bytes != source.facts.size_bytes => {
                let (before, now) = (note.size_bytes, source.facts.size_bytes);
                return Err(Obstacle::OtherSize { number: note.number, before, now });
            }
            State::Quiesced | State::FailIo => return Ok(Some(info)),
            State::Dead => {
                if info.features & feature::USER_RECOVERY == 0 {
                    let node = ublk::node(info.number);
                    tracing::info!(
                        name: "disk",
                        target: "device",
                        "{} of an earlier server goes once no process has it open",
                        node.display()
                    );
                }
                control.delete_without_waiting(note.number).map_err(Obstacle::System)?;
                note.remove();
                return Ok(None);
            }
            State::Live if is_served && is_alive(info.server) => return Err(Obstacle::Served(info)),
            State::Live if begin.elapsed() > RECOVERY_TIMEOUT => return Err(Obstacle::Served(info)),
            // The server has ended, but the kernel has not finished its clean-up of the device yet.
            State::Live => thread::sleep(POLL),
        }
    }
}

fn is_alive(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A process in state Z (zombie) or X (dead) has ended.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// What a new device is to be. Where every tag has a buffer, the queues share the buffers that one queue would have.
fn shape(queues: usize, features: u64) -> Shape {
    let queues = u16::try_from(queues).unwrap_or(u16::MAX);
    let (tags, max_io_bytes) = match features & feature::USER_COPY {
        0 => ((TAGS / queues).max(1), MAX_BUFFERED_IO_BYTES),
        _ => (TAGS, MAX_IO_BYTES),
    };
    Shape { queues, tags, max_io_bytes, features }
}

fn logical_block_bytes(facts: &VolumeFacts, min_block_bytes: u32) -> u32 {
    facts.block_bytes.max(min_block_bytes).clamp(512, 4_096)
}

fn parameters(source: &Source<'_>, max_io_bytes: u32) -> Parameters {
    let facts = source.facts;
    let logical_block_bytes = logical_block_bytes(facts, source.min_block_bytes);
    let physical_block_bytes = facts.physical_block_bytes.clamp(logical_block_bytes, 64 << 10);
    Parameters {
        size_bytes: facts.size_bytes / u64::from(logical_block_bytes) * u64::from(logical_block_bytes),
        logical_block_bytes,
        physical_block_bytes,
        optimal_io_bytes: physical_block_bytes.max(4_096),
        max_io_bytes,
        is_read_only: facts.is_read_only,
        is_rotational: facts.is_rotational,
        has_volatile_cache: true,
        max_discard_bytes: if facts.can_trim && !facts.is_read_only { MAX_DISCARD_BYTES } else { 0 },
        max_zeroes_bytes: if facts.can_zero_fast && !facts.is_read_only { MAX_DISCARD_BYTES } else { 0 },
    }
}

/// The engine orders the requests, so the block layer need not.
fn leave_order_to_engine(number: u32) {
    // Harmless if it fails: then requests are ordered twice.
    let _ = std::fs::write(format!("/sys/block/ublkb{number}/queue/scheduler"), "none");
}

fn no_driver(export: &str, error: &io::Error) -> EngineError {
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound => (
            "the kernel has no ublk driver",
            "modprobe ublk_drv (Linux 6.0 or later; Debian 12's kernel 6.1 has none, 6.12 has), or use NBD",
        ),
        io::ErrorKind::PermissionDenied => (
            "no rights on /dev/ublk-control",
            "run the server as root, or give the user the driver (docs/howto/share-a-local-disk.md)",
        ),
        _ => return system(export, error),
    };
    EngineError { kind: ErrorKind::System, message: format!("export '{export}': {message}"), help: help.to_owned() }
}

/// Without access to its node a user cannot remove the device either.
fn no_access(export: &str, number: u32, error: &io::Error) -> EngineError {
    let node = ublk::server_node(number);
    EngineError::system(
        format!("export '{export}': udev does not give {} to this user: {error}", node.display()),
        format!(
            "add the udev rule of docs/howto/share-a-local-disk.md, then as root: hoistway device delete /dev/ublkb{number}"
        ),
    )
}

fn not_added(export: &str, number: Option<u32>, error: &io::Error) -> EngineError {
    match (number, error.kind()) {
        (Some(number), io::ErrorKind::AlreadyExists) => EngineError::usage(
            format!("export '{export}': {} is taken", ublk::node(number).display()),
            "choose another number, or write ublk = true",
        ),
        (_, io::ErrorKind::PermissionDenied) => EngineError::system(
            format!("export '{export}': the ublk driver gives this user no device: {error}"),
            "the driver has given all that it may (its parameter ublks_max), or it is older than Linux 6.3: run the \
             server as root",
        ),
        (_, io::ErrorKind::InvalidInput) => EngineError::system(
            format!("export '{export}': the ublk driver refuses the device: {error}"),
            "it needs recovery of devices, which Linux has since 6.1",
        ),
        _ => system(export, error),
    }
}

fn system(export: &str, error: &io::Error) -> EngineError {
    EngineError::system(format!("export '{export}': ublk: {error}"), "see docs/howto/share-a-local-disk.md")
}
