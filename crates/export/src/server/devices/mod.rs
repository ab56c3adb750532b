//! The running shards with their exports, groups and clients. Only this module calls the engine.

mod answers;
pub mod blkio;
mod changes;
mod checks;
mod disks;
mod exports;
mod groups;
pub mod report;
mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hoistway_engine::protocol::MAX_PAYLOAD_BYTES;
use hoistway_engine::{
    Backing, BackingKind, ClientSocket, ConnectionId, EngineError, ErrorKind, Eviction, ShardHandle, ShardSettings,
    VolumeFacts, VolumeId, VolumeSettings,
};
use hoistway_experiment::{GroupPriority, Limits, SchedulerSpec};
use hoistway_linux::claims::Claims;
use tracing::info;

use super::handshake_thread::AcceptedClient;
use super::release::Release;
use super::{ABANDONED, StartFailure, USAGE};
use crate::configuration::{Cache, Configuration, Device, Export, Place, Problem};
use crate::control::Refusal;
use crate::group_use::GroupUse;
use crate::log::events::ClientLife;
use crate::nbd::handshake::ExportFacts;
use crate::nbd::transmission::Transmission;
use crate::nbd::wire::transmission_flag;
use crate::ublk::Disk;
use checks::check_whole;
use groups::Groups;

pub use checks::CHECKS;

/// Exit status: refused for safety (in use, outside its directory).
const UNSAFE: u8 = 3;
/// Local block devices: the ublk driver's default limit.
const MAX_LOCAL_DISKS: u32 = 64;
/// How long an eviction waits for commands in a device: longer than a disk tries to read or write a bad
/// sector, which is 7 or 8 s at most where its timeout is set for it.
pub const EVICTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The block size advised to clients where the device has no larger block of its own.
const PREFERRED_BLOCK_BYTES: u32 = 4_096;

/// All shards. Locked only for control and for passing on clients, never on the data path.
pub struct Devices {
    shards: Vec<Shard>,
    root: Option<PathBuf>,
    /// The block devices that exports write to: slices of one device share its claim.
    claims: Arc<Claims>,
    clients: Mutex<Clients>,
}

/// One device's shard and the names of its objects.
struct Shard {
    handle: ShardHandle,
    names: Mutex<Names>,
}

struct Names {
    exports: BTreeMap<String, VolumeId>,
    groups: Groups,
    /// The group that each open export charges, and its path.
    charged: BTreeMap<String, (String, Arc<GroupUse>)>,
    /// Removed exports that still had clients at the last check, with their volumes.
    removed: Vec<(Export, VolumeId)>,
    /// The exports that are open, as configured.
    opened: BTreeMap<String, Export>,
    disks: Vec<Disk>,
    /// Block devices of removed exports that were in use at the last check.
    removed_disks: Vec<Disk>,
}

/// The clients that were passed on and are still connected.
struct Clients {
    next: u64,
    connected: BTreeMap<u64, ConnectedClient>,
    closed: Receiver<u64>,
    /// Given to the shards, which send a client's number when nothing of it is left.
    on_closed: Sender<u64>,
}

struct ConnectedClient {
    device: String,
    connection: ConnectionId,
    peer: String,
    export: String,
}

impl Clients {
    /// Gives the clients of an export its new name.
    fn rename(&mut self, device: &str, before: &str, export: &str) {
        let of_it = self.connected.values_mut().filter(|client| client.device == device && client.export == before);
        of_it.for_each(|client| export.clone_into(&mut client.export));
    }

    /// Removes disconnected clients; called before any use of the list.
    fn sweep(&mut self) {
        while let Ok(number) = self.closed.try_recv() {
            self.connected.remove(&number);
        }
    }
}

/// The message for an eviction that lasts too long.
pub fn not_over(device: &str) -> String {
    let seconds = EVICTION_TIMEOUT.as_secs();
    format!(
        "closed, and what was queued is dropped, but {device} has not completed what it was given in {seconds} s \
         and may still write it: wait until it answers, then repeat the command"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Devices {
    /// Opens every backing and starts every shard; all or none.
    ///
    /// # Errors
    /// The first backing or shard that fails, at its place in the configuration.
    pub fn open(configuration: &Configuration) -> Result<Self, StartFailure> {
        let root = configuration.root.as_ref().map(|root| root.value.clone());
        let problems = check_whole(configuration);
        if !problems.is_empty() {
            return Err(StartFailure { problems, exit_status: USAGE });
        }
        let (on_closed, closed) = mpsc::channel();
        let clients = Mutex::new(Clients { next: 0, connected: BTreeMap::new(), closed, on_closed });
        let mut devices = Self { shards: Vec::new(), root, claims: Arc::default(), clients };
        for device in &configuration.devices {
            let shard = devices.start(device, configuration)?;
            devices.shards.push(shard);
        }
        Ok(devices)
    }

    fn start(&self, device: &Device, configuration: &Configuration) -> Result<Shard, StartFailure> {
        let failed = |error: EngineError| StartFailure {
            exit_status: exit_status(error.kind),
            problems: vec![placed(&error, &device.exports, &device.name.place)],
        };
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let scheduler = parse_scheduler(&device.scheduler.value).map_err(|refusal| StartFailure {
            problems: vec![Problem::new(&device.scheduler.place, refusal.error, "")],
            exit_status: USAGE,
        })?;
        // A disk of a virtual machine and a local one take a connection for each thread that serves them.
        let queues =
            hoistway_engine::most_threads(usize::try_from(device.threads).unwrap_or(0), device.cpu.len(), false);
        let queues = u32::try_from(queues).unwrap_or(1);
        let disks = device.exports.iter().filter(|export| export.vhost_user_blk.is_some()).count() as u64;
        let connections = configuration.listeners.iter().map(|listener| number(listener.max_connections)).sum::<u32>();
        let disks = number(disks).saturating_add(MAX_LOCAL_DISKS).saturating_mul(queues);
        let settings = ShardSettings {
            name: device.name.value.clone(),
            scheduler,
            memory_bytes: device.memory.0,
            queue_depth: number(device.queue_depth),
            rotational: device.rotational,
            max_request_bytes: number(device.max_request.0),
            inline_max_bytes: number(device.inline_max.0),
            batch_wait_us: number(device.batch_wait_us),
            busy_poll_us: number(device.busy_poll_us),
            threads: number(device.threads),
            stall_timeout: Duration::from_secs(configuration.stall_timeout_s()),
            cpus: device.cpu.iter().filter_map(|cpu| usize::try_from(*cpu).ok()).collect(),
            max_connections: connections.saturating_add(disks).min(16_384),
            max_groups: ShardSettings::most_groups(device.memory.0),
            ..ShardSettings::default()
        };
        let volumes: Vec<VolumeSettings> = device
            .exports
            .iter()
            .map(|export| self.volume(device, export))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let handle = start_with_retry(&settings, &volumes).map_err(failed)?;
        if let Some(note) = handle.note() {
            let device = &device.name.value;
            info!(name: "device_note", target: "device", device, "device '{device}': {note}");
        }
        let mut names = Names::of(device);
        for (export, volume) in device.exports.iter().zip(handle.volumes()) {
            names.exports.insert(export.name.value.clone(), *volume);
            names.opened.insert(export.name.value.clone(), export.clone());
            names.charge(&handle, export, configuration).map_err(failed)?;
        }
        for export in &device.exports {
            if let Err(error) = names.open_disk(&handle, export, configuration) {
                disks::close(names.take_disks());
                return Err(failed(error));
            }
        }
        Ok(Shard { handle, names: Mutex::new(names) })
    }

    fn volume(&self, device: &Device, export: &Export) -> Result<VolumeSettings, EngineError> {
        let backing = Backing::parse(&export.backing.value)?;
        // Block devices are named by their full path, whatever the root is.
        let is_device = matches!(&backing.kind, BackingKind::Path { path, .. } if path.starts_with("/dev"));
        Ok(VolumeSettings {
            root: self.root.clone().filter(|_| !is_device),
            is_read_only: export.read_only,
            uses_page_cache: device.cache == Cache::Page,
            has_unsafe_flush: export.unsafe_flush,
            unit_bytes: disks::unit_bytes(export),
            claims: Arc::clone(&self.claims),
            ..VolumeSettings::new(export.name.value.clone(), backing)
        })
    }

    fn shard(&self, name: &str) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.handle.name() == name)
    }

    /// The device that an operator names, or the only one.
    fn resolve_device(&self, device: Option<&str>) -> Result<&Shard, Refusal> {
        let known = || self.shards.iter().map(|shard| shard.handle.name()).collect::<Vec<_>>().join(", ");
        match (device, self.shards.as_slice()) {
            (Some(name), _) => self
                .shard(name)
                .ok_or_else(|| Refusal::new("device", format!("there is no device {name:?}; there are: {}", known()))),
            (None, [only]) => Ok(only),
            (None, _) => Err(Refusal::new("device", format!("name one of the devices: {}", known()))),
        }
    }

    /// The facts for clients of each open export of a configuration; of a device that does not answer, those known
    /// `before`.
    pub fn facts(&self, configuration: &Configuration, before: &[ExportFacts]) -> Vec<ExportFacts> {
        let answers = self.each(|handle| handle.check_answers().is_ok());
        let open = |device: &Device, export: &Export| {
            let at = self.shards.iter().position(|shard| shard.handle.name() == device.name.value)?;
            let (shard, name) = (&self.shards[at], &export.name.value);
            let volume = *lock(&shard.names).exports.get(name)?;
            match shard.handle.facts(volume) {
                Ok(facts) if answers[at] => Some(export_facts(device, export, &facts)),
                _ => before.iter().find(|facts| facts.name == *name).cloned(),
            }
        };
        configuration.exports().filter_map(|(device, export)| open(device, export)).collect()
    }

    /// Passes a client to the shard of its export. A client that cannot be served is disconnected.
    pub fn attach(&self, client: AcceptedClient, configuration: &Configuration) {
        let name = client.negotiated.export.clone();
        let device = configuration.exports().find(|(_, export)| export.name.value == name).map(|(device, _)| device);
        let Some(shard) = device.and_then(|device| self.shard(&device.name.value)) else { return };
        let mut names = lock(&shard.names);
        let Some(volume) = names.exports.get(&name).copied() else { return };
        let label = client.peer.name();
        let mut life = ClientLife {
            client: label.clone(),
            export: name.clone(),
            group: client.group.clone(),
            device: shard.handle.name().to_owned(),
            listener: client.listener.clone(),
            identity: client.identity.clone(),
            begun: Instant::now(),
        };
        let group = match names.group_of_client(&shard.handle, &client, configuration) {
            Ok((group, charged)) => {
                if charged != client.group {
                    life.charged_to(charged);
                }
                group
            }
            Err(error) => return life.refused(&error.message),
        };
        drop(names);
        let mut clients = lock(&self.clients);
        clients.sweep();
        let number = clients.next;
        clients.next += 1;
        let on_closed = clients.on_closed.clone();
        let place = client.place;
        // Before the shard has it and may log its end.
        life.connected();
        let own_life = life.clone();
        let attached = shard.handle.attach(ClientSocket {
            socket: client.socket,
            protocol: Box::new(Transmission::new(&client.negotiated)),
            volume,
            group: group.handle(),
            told_bytes: client.negotiated.size_bytes,
            received: client.received,
            label: label.clone(),
            on_closed: Some(Box::new(move |end| {
                own_life.ended(&end);
                drop((place, group));
                // If the server itself is ending, the receiver is gone.
                let _ = on_closed.send(number);
            })),
        });
        match attached {
            Ok(connection) => {
                let device = shard.handle.name().to_owned();
                clients.connected.insert(number, ConnectedClient { device, connection, peer: label, export: name });
            }
            Err(error) => life.refused(&error.message),
        }
    }

    /// Sets a group's weight wherever it exists; returns the number of devices.
    ///
    /// # Errors
    /// A weight out of range.
    pub fn set_weight(&self, group: &str, weight: u64) -> Result<usize, Refusal> {
        self.check_group(group)?;
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let mut devices = 0;
        for shard in &self.shards {
            let Some(group) = shard.group(group) else { continue };
            shard.handle.set_weight(group.handle(), weight).map_err(|error| Refusal::new("weight", error.message))?;
            devices += 1;
        }
        Ok(devices)
    }

    /// Sets the weight of a group's own queues wherever it exists; returns the number of devices.
    ///
    /// # Errors
    /// A weight out of range.
    pub fn set_leaf_weight(&self, group: &str, weight: Option<u64>) -> Result<usize, Refusal> {
        self.check_group(group)?;
        let weight = weight.map(|weight| u32::try_from(weight).unwrap_or(u32::MAX));
        let mut devices = 0;
        for shard in &self.shards {
            let Some(group) = shard.group(group) else { continue };
            let changed = shard.handle.set_leaf_weight(group.handle(), weight);
            changed.map_err(|error| Refusal::new("leaf_weight", error.message))?;
            devices += 1;
        }
        Ok(devices)
    }

    /// Sets a group's priority level wherever it exists; returns the number of devices.
    ///
    /// # Errors
    /// A device has stopped.
    pub fn set_group_priority(&self, group: &str, priority: Option<GroupPriority>) -> Result<usize, Refusal> {
        self.check_group(group)?;
        let mut devices = 0;
        for shard in &self.shards {
            let Some(group) = shard.group(group) else { continue };
            let changed = shard.handle.set_group_priority(group.handle(), priority);
            changed.map_err(|error| Refusal::new("priority", error.message))?;
            devices += 1;
        }
        Ok(devices)
    }

    /// Sets a group's limits wherever it exists; returns the number of devices.
    ///
    /// # Errors
    /// A device has no memory for the limiter.
    pub fn set_limits(&self, group: &str, limits: &Limits) -> Result<usize, Refusal> {
        self.check_group(group)?;
        let mut devices = 0;
        for shard in &self.shards {
            let Some(group) = shard.group(group) else { continue };
            shard.handle.set_limits(group.handle(), limits).map_err(|error| Refusal::new("line", error.message))?;
            devices += 1;
        }
        Ok(devices)
    }

    /// The names of all groups that exist on any device.
    pub fn groups(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .shards
            .iter()
            .flat_map(|shard| lock(&shard.names).groups.paths().cloned().collect::<Vec<_>>())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Switches a device's policy; returns the device's name and the policy's full text.
    ///
    /// # Errors
    /// No such device, policy or tunable; the old policy stays.
    pub fn switch(&self, device: Option<&str>, scheduler: &str) -> Result<(String, String), Refusal> {
        let shard = self.resolve_device(device)?;
        let spec = parse_scheduler(scheduler)?;
        shard.handle.switch_scheduler(&spec).map_err(|error| Refusal::new("scheduler", error.message))?;
        Ok((shard.handle.name().to_owned(), spec.to_string()))
    }

    /// Sets a tunable of the active policy; returns the device's name and the stored value.
    ///
    /// # Errors
    /// No such device or tunable, or a value out of range.
    pub fn set_tunable(&self, device: Option<&str>, name: &str, value: &str) -> Result<(String, i64), Refusal> {
        let shard = self.resolve_device(device)?;
        let stored = shard.handle.set_tunable(name, value).map_err(|error| Refusal::new("tunable", error.message))?;
        Ok((shard.handle.name().to_owned(), stored))
    }

    /// Closes the connections for which `fits`, called with the peer and the export, is true, and waits until
    /// nothing of them can reach a device any more. Returns how many there were.
    ///
    /// # Errors
    /// A device does not answer, or does not complete what it was given within [`EVICTION_TIMEOUT`]. `field` is
    /// the one of the request that named them.
    pub fn evict(&self, fits: &dyn Fn(&str, &str) -> bool, field: &'static str) -> Result<usize, Refusal> {
        let (evictions, silent) = self.close_clients(fits);
        if let Some(why) = silent.first() {
            let (closed, count) = (evictions.len(), silent.len());
            return Err(Refusal::new(field, format!("{closed} connections are closed, {count} are not: {why}")));
        }
        let deadline = Instant::now() + EVICTION_TIMEOUT;
        let is_over = |eviction: &Eviction| eviction.wait(deadline.saturating_duration_since(Instant::now()));
        match evictions.iter().find(|(_, eviction)| !is_over(eviction)) {
            Some((device, _)) => Err(Refusal::new(field, not_over(&format!("device {device:?}")))),
            None => Ok(evictions.len()),
        }
    }

    /// Closes connections; each that was open, with its device, and why others could not be closed. A client may
    /// connect while the caller waits.
    fn close_clients(&self, fits: &dyn Fn(&str, &str) -> bool) -> (Vec<(String, Eviction)>, Vec<String>) {
        let chosen: Vec<(String, ConnectionId)> = {
            let mut clients = lock(&self.clients);
            clients.sweep();
            let chosen = clients.connected.values().filter(|client| fits(&client.peer, &client.export));
            chosen.map(|client| (client.device.clone(), client.connection)).collect()
        };
        let (mut evictions, mut silent) = (Vec::new(), Vec::new());
        for (device, connection) in chosen {
            match self.shard(&device).map(|shard| shard.handle.evict(connection)) {
                Some(Ok(Some(eviction))) => evictions.push((device, eviction)),
                Some(Err(error)) => silent.push(error.message),
                Some(Ok(None)) | None => {}
            }
        }
        (evictions, silent)
    }

    /// Requests that are not answered yet. Stopped devices are left out.
    pub fn requests_in_flight(&self) -> u64 {
        self.shard_statuses().iter().map(|status| status.requests_in_flight as u64).sum()
    }

    /// Drains all shards in parallel; returns what was abandoned. Takes at most twice the time, and a few seconds.
    pub fn drain(&self, timeout: Duration) -> Drained {
        let mut drained = Drained::default();
        thread::scope(|scope| {
            let drains: Vec<_> = self
                .shards
                .iter()
                .map(|shard| {
                    let drain = || shard.handle.drain(timeout);
                    // Without a thread the devices are drained one after another.
                    thread::Builder::new().spawn_scoped(scope, drain).map_err(|_| drain())
                })
                .collect();
            for (shard, drain) in self.shards.iter().zip(drains) {
                let device = shard.handle.name();
                match drain.map_or_else(Ok, thread::ScopedJoinHandle::join) {
                    Ok(Ok(report)) => {
                        drained.abandoned_requests += report.abandoned_requests;
                        drained.failed_syncs += report.failed_syncs;
                        let losses = report.losses.iter().map(|loss| format!("device '{device}': {loss}"));
                        drained.failures.extend(losses);
                    }
                    Ok(Err(error)) => drained.failures.push(error.message),
                    Err(_) => drained.failures.push("a shard's drain panicked".to_owned()),
                }
            }
        });
        drained
    }
}

impl Drop for Devices {
    /// A server that does not start leaves no block device behind; after a drain there is none.
    fn drop(&mut self) {
        self.close_disks();
    }
}

/// The result of draining all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were not answered in time.
    pub abandoned_requests: usize,
    /// Volumes whose last fsync failed.
    pub failed_syncs: u32,
    /// Other failures.
    pub failures: Vec<String>,
}

impl Shard {
    /// A group that exists, which stays as long as it is used.
    fn group(&self, path: &str) -> Option<GroupUse> {
        lock(&self.names).groups.get(path)
    }
}

impl Names {
    /// No names yet, of a device with this configuration.
    fn of(device: &Device) -> Self {
        Self {
            exports: BTreeMap::new(),
            groups: Groups::of(device),
            charged: BTreeMap::new(),
            removed: Vec::new(),
            opened: BTreeMap::new(),
            disks: Vec::new(),
            removed_disks: Vec::new(),
        }
    }

    /// Charges an open export's I/O to its group.
    fn charge(
        &mut self,
        shard: &ShardHandle,
        export: &Export,
        configuration: &Configuration,
    ) -> Result<Arc<GroupUse>, EngineError> {
        let path = &export.group.value;
        match self.charged.get(&export.name.value) {
            Some((charged, group)) if charged == path => Ok(Arc::clone(group)),
            _ => {
                let group = Arc::new(self.groups.begin(shard, path, configuration)?);
                self.charged.insert(export.name.value.clone(), (path.clone(), Arc::clone(&group)));
                Ok(group)
            }
        }
    }

    /// The group that a client is charged to, and its path.
    fn group_of_client<'a>(
        &mut self,
        shard: &ShardHandle,
        client: &'a AcceptedClient,
        configuration: &'a Configuration,
    ) -> Result<(GroupUse, &'a str), EngineError> {
        if !client.is_charged_by_cgroup {
            return Ok((self.groups.begin(shard, &client.group, configuration)?, &client.group));
        }
        let export = configuration.exports().find(|(_, export)| export.name.value == client.negotiated.export);
        let instead = export.map_or(client.group.as_str(), |(_, export)| &export.group.value);
        self.groups.begin_for_cgroup(shard, (&client.group, client.peer.uid), instead, configuration)
    }
}

/// Starts a shard, and retries for a while if a backing is in use by a server that has ended.
fn start_with_retry(settings: &ShardSettings, volumes: &[VolumeSettings]) -> Result<ShardHandle, EngineError> {
    let path = |volume: &VolumeSettings| {
        let (path, _) = volume.backing.written().filter(|_| !volume.is_read_only)?;
        Some(volume.root.as_ref().map_or_else(|| path.to_owned(), |root| root.join(path)))
    };
    let mut release = Release::new(&settings.name, volumes.iter().filter_map(path).collect());
    loop {
        match hoistway_engine::start(settings.clone(), volumes) {
            Err(error) if error.kind == ErrorKind::Unsafe && release.is_worth_waiting() => {}
            answer => return answer,
        }
    }
}

fn parse_scheduler(text: &str) -> Result<SchedulerSpec, Refusal> {
    text.parse().map_err(|error: hoistway_experiment::Diagnostic| {
        Refusal::new("scheduler", format!("{}; {}", error.message, error.help))
    })
}

/// A scheduler's text with one tunable set.
pub fn with_tunable(scheduler: &str, name: &str, value: &str) -> String {
    scheduler.parse::<SchedulerSpec>().map_or_else(|_| scheduler.to_owned(), |it| it.with(name, value).to_string())
}

fn export_facts(device: &Device, export: &Export, volume: &VolumeFacts) -> ExportFacts {
    use transmission_flag as flag;
    let mut flags = flag::HAS_FLAGS | flag::CAN_MULTI_CONN;
    if volume.is_read_only {
        flags |= flag::READ_ONLY;
    } else {
        flags |= flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        flags |= if volume.can_trim { flag::SEND_TRIM } else { 0 };
    }
    flags |= if volume.is_rotational { flag::ROTATIONAL } else { 0 };
    flags |= if device.cache == Cache::Page && volume.uses_page_cache { flag::SEND_CACHE } else { 0 };
    ExportFacts {
        name: export.name.value.clone(),
        description: export.description.clone(),
        size_bytes: volume.size_bytes,
        flags,
        minimum_block_bytes: export.min_block,
        preferred_block_bytes: volume.physical_block_bytes.max(PREFERRED_BLOCK_BYTES),
        maximum_payload_bytes: MAX_PAYLOAD_BYTES,
    }
}

/// An engine error at the place that caused it: the export that it names, or the device.
fn placed(error: &EngineError, exports: &[Export], device: &Place) -> Problem {
    let names = |export: &Export, what: &str| error.message.starts_with(&format!("{what} '{}'", export.name));
    let of = |export| match export {
        export if names(export, "volume") => Some(&export.backing.place),
        export if names(export, "export") => Some(&export.name.place),
        _ => None,
    };
    let place = exports.iter().find_map(of).unwrap_or(device);
    Problem::new(place, error.message.clone(), error.help.clone())
}

const fn exit_status(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => USAGE,
        ErrorKind::Unsafe => UNSAFE,
        ErrorKind::System => ABANDONED,
    }
}
