//! The engine's public interface: a handle on a shard, its volumes, groups and clients.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hoistway_block::{ContextId, Priority};
use hoistway_elevator::Actuators;
use hoistway_experiment::SchedulerSpec;

use crate::backing::{OpenVolume, VolumeFacts, VolumeSettings, common_actuators, common_model};
use crate::client::{Client, QueueServer};
use crate::error::EngineError;
use crate::gate::Gate;
use crate::protocol::Protocol;
use crate::saturation::Saturation;
use crate::settings::ShardSettings;
use crate::shard::{
    Attachment, Core, DrainReport, LocalClient, LocalClientId, Locked, LoopSettings, OnEnd, Stage, Threads, TraceSink,
    UblkDevice, UblkShared, Worker,
};
use crate::turn::{ConnectionBounds, TurnSettings};

/// Tags of a gate: every I/O slot of the queue, and one fsync per volume.
const GATE_TAGS: u32 = 8_193 + crate::shard::MAX_VOLUMES;

/// Bytes in flight of one socket, also those that its client does not take from it: what one that stops
/// reading holds at most. A device with 8 GB/s and 2 ms has as many under way.
const SOCKET_BYTES: u64 = 16 << 20;

/// A volume of a shard.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct VolumeId(pub(crate) u32);

/// A group of a shard.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupHandle(pub(crate) u32);

impl GroupHandle {
    /// The root group; it always exists and has weight 100.
    pub const ROOT: GroupHandle = GroupHandle(0);
}

/// The connection of a client, for eviction.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConnectionId(pub(crate) u32);

/// A connection that was closed and of which something may be left.
#[derive(Debug)]
pub struct Eviction {
    is_over: mpsc::Receiver<Infallible>,
}

impl Eviction {
    /// Waits until nothing of the connection can reach the device any more. False if that lasts longer than
    /// `timeout`: what it had queued is dropped, but the device has not completed what it was given.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.is_over.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}

/// A client for a shard, after its handshake.
pub struct ClientSocket {
    /// The connected stream socket.
    pub socket: OwnedFd,
    /// What was negotiated.
    pub protocol: Box<dyn Protocol>,
    /// The volume it opened.
    pub volume: VolumeId,
    /// The group of its requests.
    pub group: GroupHandle,
    /// Size of the volume that it was told. The volume may have grown since then.
    pub told_bytes: u64,
    /// Bytes received beyond the handshake.
    pub received: Vec<u8>,
    /// The client's description, for status.
    pub label: String,
    /// Called on one of the device's threads when nothing of the connection is left. Must not block.
    pub on_closed: Option<OnEnd>,
}

impl std::fmt::Debug for ClientSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSocket").field("label", &self.label).field("volume", &self.volume).finish_non_exhaustive()
    }
}

/// One connection of a local client: an issuer with a context of its own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LocalConnection {
    /// Its volume.
    pub volume: VolumeId,
    /// The group of its requests.
    pub group: GroupHandle,
    /// How much it may have in flight.
    pub bounds: ConnectionBounds,
    /// I/O priority of its requests; if it is none, they have the priority of the volume.
    pub priority: Priority,
}

/// A running shard. Clones refer to the same shard; it stops by [`ShardHandle::drain`] or
/// [`ShardHandle::stop`], or with the last handle.
#[derive(Clone)]
pub struct ShardHandle {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    note: Option<String>,
    threads: Threads,
    volumes: Vec<VolumeId>,
}

impl std::fmt::Debug for ShardHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardHandle").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// Opens the volumes, builds the shard and starts its thread. [`ShardHandle::volumes`] lists them
/// in the same order.
///
/// # Errors
/// Settings out of range, an unknown scheduler or tunable, a backing that cannot or may not be
/// opened, io_uring not available. Nothing is left behind.
pub fn start(settings: ShardSettings, volumes: &[VolumeSettings]) -> Result<ShardHandle, EngineError> {
    settings.check()?;
    let version = crate::shard::parse_version(&settings.scheduler)?;
    let mut opened: Vec<OpenVolume> = volumes.iter().map(OpenVolume::open).collect::<Result<_, _>>()?;
    let model = common_model(&opened)?;
    let note = crate::positioning::decide(&mut opened, settings.rotational);
    let is_rotational = opened.iter().any(|volume| volume.facts.is_rotational);
    let mut depth = opened.iter().map(OpenVolume::default_depth).min().unwrap_or(128);
    let mut rotational = is_rotational;
    let mut actuators = common_actuators(&opened);
    let mut gate = None;
    if let Some(model) = model {
        let device = model.build(settings.seed, "dev0");
        let info = hoistway_device::Device::info(&device);
        depth = u32::try_from(info.total_depth()).unwrap_or(u32::MAX);
        rotational = info.rotational;
        actuators = Actuators::of(&info.ranges);
        let capacity_bytes = info.capacity_sectors * hoistway_block::SECTOR_BYTES;
        gate = Some((Gate::new(device, GATE_TAGS), capacity_bytes));
    }
    if settings.queue_depth > 0 {
        depth = if gate.is_some() { depth.min(settings.queue_depth) } else { settings.queue_depth };
    }
    for volume in &mut opened {
        volume.facts.is_rotational |= gate.is_some() && rotational;
    }
    let turn_settings = TurnSettings {
        memory_bytes: settings.memory_bytes,
        connections: settings.max_connections,
        groups: settings.max_groups,
        device_depth: depth,
        // On a rotating disk every increase of the depth gains a little throughput, so there is no
        // knee to learn; the schedulers for disks limit the requests in flight themselves.
        may_learn_depth: settings.queue_depth == 0 && !rotational,
        queue_requests: settings.queue_requests,
        max_part_bytes: settings.max_request_bytes,
        is_rotational: rotational,
        actuators,
        capacity_sectors: gate.as_ref().map_or(1 << 50, |(_, bytes)| bytes / hoistway_block::SECTOR_BYTES),
        scheduler: settings.scheduler.name.clone(),
        version,
        seed: settings.seed,
    };
    launch(settings, turn_settings, gate, opened, note)
}

fn launch(
    settings: ShardSettings,
    turn_settings: TurnSettings,
    gate: Option<(Gate, u64)>,
    volumes: Vec<OpenVolume>,
    note: Option<String>,
) -> Result<ShardHandle, EngineError> {
    let loop_settings = LoopSettings {
        name: settings.name.clone(),
        inline_max_bytes: settings.inline_max_bytes,
        batch_wait_us: settings.batch_wait_us,
        busy_poll_us: settings.busy_poll_us,
        stall_timeout_ns: u64::try_from(settings.stall_timeout.as_nanos()).unwrap_or(u64::MAX),
        cpus: settings.cpus.clone(),
        is_urgent: settings.is_urgent,
    };
    // A volume on a block device has its claim beside its file, and an overlay its base and its bitmap.
    let files = settings.max_connections + 3 * crate::shard::MAX_VOLUMES + 1;
    let threads = Threads::start(loop_settings, turn_settings, gate, settings.threads as usize, files)?;
    let mut inner = Inner { name: settings.name, note, threads, volumes: Vec::new() };
    if !settings.scheduler.settings.is_empty() {
        let spec = settings.scheduler;
        inner.threads.ask(move |core| core.switch(&spec))??;
    }
    let added = inner.threads.ask_worker(inner.threads.first(), move |worker, core| {
        volumes.into_iter().map(|volume| worker.add_volume(core, volume).map(VolumeId)).collect::<Result<_, _>>()
    })?;
    inner.volumes = added?;
    Ok(ShardHandle { inner: Arc::new(inner) })
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A caller interested in the result has called `drain` or `stop`.
        let _ = self.threads.stop();
    }
}

impl ShardHandle {
    /// The device's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// A message for the user if measured reads contradict the system's report that the device is
    /// rotational.
    pub fn note(&self) -> Option<&str> {
        self.inner.note.as_deref()
    }

    /// The volumes given to [`start`], in that order.
    pub fn volumes(&self) -> &[VolumeId] {
        &self.inner.volumes
    }

    pub(crate) fn threads(&self) -> &Threads {
        &self.inner.threads
    }

    /// Runs a job on the device's state and waits for its result.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.inner.threads.ask(job)
    }

    /// Runs a job on worker 0 and waits for its result.
    fn ask_worker<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker, &mut Locked<'_>) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.inner.threads.ask_worker(self.inner.threads.first(), job)
    }

    /// Runs a job that adds a client on the worker that will serve it.
    fn ask_for_client<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker, &mut Locked<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Result<T, EngineError>, EngineError> {
        self.ask_for_queue(&mut BTreeSet::new(), job)
    }

    /// [`ShardHandle::ask_for_client`] for a queue of a client, whose queues are to be on different workers.
    /// `used` has those of its queues so far, and gets this one's.
    fn ask_for_queue<T: Send + 'static>(
        &self,
        used: &mut BTreeSet<usize>,
        job: impl FnOnce(&mut Worker, &mut Locked<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Result<T, EngineError>, EngineError> {
        let (worker, mailbox) = self.inner.threads.worker_for_client(used)?;
        if !used.insert(worker) {
            // Every worker has one: another round begins.
            *used = BTreeSet::from([worker]);
        }
        self.inner.threads.ask_worker(&mailbox, |worker, core| {
            let added = job(worker, core);
            if added.is_err() {
                worker.client_refused(core);
            }
            added
        })
    }

    /// Opens another volume.
    ///
    /// # Errors
    /// As [`start`].
    pub fn open_volume(&self, settings: &VolumeSettings) -> Result<VolumeId, EngineError> {
        let volume = OpenVolume::open_in_time(settings)?;
        self.ask_worker(|worker, core| worker.add_volume(core, volume))?.map(VolumeId)
    }

    /// Closes a volume that no client uses, and makes its data durable in the background. False while
    /// one does.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn close_volume(&self, volume: VolumeId) -> Result<bool, EngineError> {
        let removed = self.ask_worker(move |worker, core| worker.remove_volume(core, volume.0))?;
        let is_closed = removed.is_some();
        if let Some(removed) = removed {
            removed.sync(&self.inner.name);
        }
        Ok(is_closed)
    }

    /// Whether a ublk device of a volume should be one whose requests' memory is registered (UBLK_F_AUTO_BUF_REG): the
    /// volume's backing can be read into it and written from it.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn takes_request_memory(&self, volume: VolumeId) -> Result<bool, EngineError> {
        self.ask(move |core| core.takes_request_memory(volume.0))
    }

    /// The facts of a volume, which its clients get.
    ///
    /// # Errors
    /// No such volume, or the engine has stopped.
    pub fn facts(&self, volume: VolumeId) -> Result<VolumeFacts, EngineError> {
        let unknown = || EngineError::usage("there is no such volume", "see the status");
        self.ask(move |core| core.facts(volume.0))?.ok_or_else(unknown)
    }

    /// Adds a group below the root.
    ///
    /// # Errors
    /// Weight outside 1 to 10,000; more groups than ids or memory allow.
    pub fn add_group(&self, path: &str, weight: u32) -> Result<GroupHandle, EngineError> {
        self.add_group_below(GroupHandle::ROOT, path, weight)
    }

    /// Adds a group below another group.
    ///
    /// # Errors
    /// As [`ShardHandle::add_group`], or no such parent.
    pub fn add_group_below(&self, parent: GroupHandle, path: &str, weight: u32) -> Result<GroupHandle, EngineError> {
        check_weight(path, weight)?;
        let name = path.to_owned();
        let added = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.add_group(&name, parent.0, weight, now)
        })?;
        added.map(GroupHandle).ok_or_else(|| {
            let device = &self.inner.name;
            let message = format!(
                "group '{path}': device '{device}' has all the groups that it has room for, or the group above is gone"
            );
            EngineError::usage(message, "raise the device's memory, of which every group needs 2 MiB")
        })
    }

    /// Removes a group with its limits and counters. False, and nothing changes, while it has connections,
    /// requests or groups below it.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn remove_group(&self, group: GroupHandle) -> Result<bool, EngineError> {
        self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.remove_group(group.0, now)
        })
    }

    /// Gives a volume another name in status and messages, for an export that is renamed.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn rename_volume(&self, volume: VolumeId, name: &str) -> Result<(), EngineError> {
        let name = name.to_owned();
        self.ask(move |core| core.rename_volume(volume.0, name))
    }

    /// Changes a group's weight; requests in flight are not affected.
    ///
    /// # Errors
    /// Weight outside 1 to 10,000, or no such group.
    pub fn set_weight(&self, group: GroupHandle, weight: u32) -> Result<(), EngineError> {
        check_weight("", weight)?;
        let changed = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.set_weight(group.0, weight, now)
        })?;
        if changed { Ok(()) } else { Err(EngineError::usage("there is no such group", "see the status")) }
    }

    /// Changes the weight of a group's own queues among the groups below it; none = the group's
    /// weight.
    ///
    /// # Errors
    /// Weight outside 1 to 10,000, or no such group.
    pub fn set_leaf_weight(&self, group: GroupHandle, leaf_weight: Option<u32>) -> Result<(), EngineError> {
        leaf_weight.map_or(Ok(()), |weight| check_weight("", weight))?;
        let changed = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.set_leaf_weight(group.0, leaf_weight, now)
        })?;
        if changed { Ok(()) } else { Err(EngineError::usage("there is no such group", "see the status")) }
    }

    /// Resets the scheduler's statistics of a group's service (`reset_stats`). False if it keeps
    /// none.
    ///
    /// # Errors
    /// When the shard has stopped.
    pub fn reset_account(&self, group: GroupHandle) -> Result<bool, EngineError> {
        self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.reset_account(group.0, now)
        })
    }

    /// Changes a group's priority level, for policies that support levels of groups; none = the
    /// policy's default.
    ///
    /// # Errors
    /// No such group.
    pub fn set_group_priority(
        &self,
        group: GroupHandle,
        priority: Option<hoistway_experiment::GroupPriority>,
    ) -> Result<(), EngineError> {
        let priority = priority.and_then(|priority| hoistway_elevator::GroupPriority::new(priority.get()).ok());
        let changed = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.set_group_priority(group.0, priority, now)
        })?;
        if changed { Ok(()) } else { Err(EngineError::usage("there is no such group", "see the status")) }
    }

    /// Changes a group's limits; waiting requests are subject to the new limits.
    ///
    /// # Errors
    /// No such group, or no memory for the limiter, which is installed with the first limit.
    pub fn set_limits(&self, group: GroupHandle, limits: &hoistway_experiment::Limits) -> Result<(), EngineError> {
        let limits = *limits;
        let changed = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.set_limits(group.0, &limits, now)
        })?;
        match changed {
            Ok(true) => Ok(()),
            Ok(false) => Err(EngineError::usage("there is no such group", "see the status")),
            Err(message) => Err(EngineError::usage(message, "give the device less queue_depth")),
        }
    }

    /// Installs a limiter above the scheduler, or changes the settings of an installed one.
    ///
    /// # Errors
    /// Unknown limiter, tunable or value.
    pub fn add_limiter(&self, spec: &SchedulerSpec) -> Result<(), EngineError> {
        let spec = spec.clone();
        let added = self.ask(move |core| {
            let now = hoistway_linux::thread::monotonic_ns();
            core.turn.add_limiter(&spec, now)
        })?;
        added.map_err(|message| EngineError::usage(message, "see `hoistway list limiters`"))
    }

    /// Passes a client to the shard, which owns its socket from now on.
    ///
    /// # Errors
    /// No connection or memory is free, or the volume or group does not exist; the socket is closed
    /// then.
    pub fn attach(&self, client: ClientSocket) -> Result<ConnectionId, EngineError> {
        self.end_gone(client.volume.0)?;
        let attachment = Attachment {
            socket: client.socket,
            protocol: client.protocol,
            volume: client.volume.0,
            group: client.group.0,
            bounds: ConnectionBounds {
                bytes: SOCKET_BYTES,
                visible_bytes: client.told_bytes,
                ..ConnectionBounds::default()
            },
            received: client.received,
            label: client.label,
            on_closed: client.on_closed,
        };
        self.ask_for_client(|worker, core| worker.attach(core, attachment))?.map(ConnectionId)
    }

    /// The number of queues that a client of several is served by at the same time: as many as there may be
    /// threads, and processors to run them.
    pub fn parallel_queues(&self) -> usize {
        self.inner.threads.most().min(hoistway_linux::thread::processors()).max(1)
    }

    /// Serves a ublk device, each of its queues on a thread of its own while there are enough. Its requests count for
    /// `group`. The caller starts the device afterwards, which waits until the shard has fetched every tag.
    /// Returns a note for the user, if there is one.
    ///
    /// # Errors
    /// No connection or memory is free, or the volume or group does not exist. Then none of its queues is served.
    pub fn attach_ublk(
        &self,
        device: UblkDevice,
        volume: VolumeId,
        group: GroupHandle,
    ) -> Result<Option<String>, EngineError> {
        self.end_gone(volume.0)?;
        let (shared, queues) = UblkShared::new(device);
        let (mut used, mut clients, mut note) = (BTreeSet::new(), Vec::new(), None);
        let attached = queues.into_iter().try_for_each(|queue| {
            let shared = Arc::clone(&shared);
            let attach = move |worker: &mut Worker, core: &mut Locked<'_>| {
                worker.attach_ublk_queue(core, shared, queue, (volume, group))
            };
            let (client, of_thread) = self.ask_for_queue(&mut used, attach)??;
            clients.push(client);
            note = note.take().or(of_thread);
            Ok(())
        });
        shared.set_stage(if attached.is_ok() { Stage::Serving } else { Stage::Abandoned });
        clients.into_iter().for_each(|client| self.wake(client));
        attached.map(|()| note)
    }

    /// Closes a client's connection. `None` if nothing is left of it; otherwise the caller may wait for that.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn evict(&self, connection: ConnectionId) -> Result<Option<Eviction>, EngineError> {
        Ok(self.ask(move |core| core.evict(connection.0))?.map(|is_over| Eviction { is_over }))
    }

    /// Ends the connections of a volume whose clients have gone, before another client is attached: it may be
    /// the same one, which must not find its own old requests behind its new ones.
    fn end_gone(&self, volume: u32) -> Result<(), EngineError> {
        for worker in self.ask(move |core| core.workers_with_sockets_of(volume))? {
            self.inner
                .threads
                .ask_worker(&self.inner.threads.mailbox(worker), move |worker, core| worker.end_gone(core, volume))?;
        }
        Ok(())
    }

    /// Adds a client that runs on one of the device's threads, with its connections.
    /// Returns its number for [`ShardHandle::wake`].
    ///
    /// # Errors
    /// No connection is free, or a volume or group does not exist.
    pub fn add_local_client(
        &self,
        client: Box<dyn LocalClient>,
        connections: Vec<LocalConnection>,
    ) -> Result<LocalClientId, EngineError> {
        self.add_local_client_beside(&[], client, connections)
    }

    /// [`ShardHandle::add_local_client`] for a client whose `others` do the same work: it gets a thread that none of
    /// them has, as long as there may be one.
    ///
    /// # Errors
    /// As [`ShardHandle::add_local_client`].
    pub fn add_local_client_beside(
        &self,
        others: &[LocalClientId],
        client: Box<dyn LocalClient>,
        connections: Vec<LocalConnection>,
    ) -> Result<LocalClientId, EngineError> {
        let volumes: BTreeSet<u32> = connections.iter().map(|connection| connection.volume.0).collect();
        volumes.into_iter().try_for_each(|volume| self.end_gone(volume))?;
        let mut used = others.iter().map(|other| other.worker).collect();
        self.ask_for_queue(&mut used, move |worker, core| worker.add_local_client(core, client, &connections))?
    }

    /// The contexts of a local client's requests, by connection.
    pub(crate) fn contexts_of(&self, client: LocalClientId) -> Result<Vec<ContextId>, EngineError> {
        let mailbox = self.inner.threads.mailbox(client.worker);
        self.inner.threads.ask_worker(&mailbox, move |worker, core| worker.contexts_of(core, client))
    }

    /// Starts or stops sending trace events of queue and scheduler to a sink, which is called
    /// on the shard's thread.
    pub(crate) fn set_trace_sink(&self, sink: Option<TraceSink>) -> Result<(), EngineError> {
        self.ask(move |core| core.set_trace_sink(sink))
    }

    /// Requests an early turn for a local client. Does not wait.
    pub fn wake(&self, client: LocalClientId) {
        self.inner.threads.mailbox(client.worker).post(Box::new(move |worker, _| worker.wake(client)));
    }

    /// A client for other threads of this process.
    ///
    /// # Errors
    /// No connection is free, or the volume or group does not exist.
    pub fn client(&self, volume: VolumeId, group: GroupHandle) -> Result<Client, EngineError> {
        let server = QueueServer::default();
        let queue = server.queue();
        let (bounds, priority) = (ConnectionBounds::default(), Priority::NONE);
        let connections = vec![LocalConnection { volume, group, bounds, priority }];
        let number = self.add_local_client(Box::new(server), connections)?;
        Ok(Client::new(self.clone(), number, queue))
    }

    /// Replaces the scheduler under load: no request is lost, repeated or failed; clients see a
    /// pause of at most the device's latency.
    ///
    /// # Errors
    /// Unknown scheduler, version, tunable or value, or another switch in progress. The old one
    /// then stays.
    pub fn switch_scheduler(&self, spec: &SchedulerSpec) -> Result<(), EngineError> {
        let spec = spec.clone();
        self.ask(move |core| core.switch(&spec))?
    }

    /// Sets a tunable of the active scheduler; returns the stored value.
    ///
    /// # Errors
    /// Unknown tunable, not a number, out of range.
    pub fn set_tunable(&self, key: &str, value: &str) -> Result<i64, EngineError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        let set = self.ask(move |core| core.turn.set_tunable(&key, &value))?;
        set.map_err(|message| EngineError::usage(message, "see `hoistway list schedulers`"))
    }

    /// Whether the device is saturated, and which shares are not kept.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub fn saturation(&self) -> Result<Saturation, EngineError> {
        self.ask(|core| core.turn.saturation(hoistway_linux::thread::monotonic_ns()))
    }

    /// Refuses new requests, finishes those in flight, makes everything durable, closes the clients
    /// and stops. Waits at most `timeout`, and as long again for the last fsync; threads and calls that hang are left
    /// behind.
    ///
    /// # Errors
    /// The engine has stopped already, failed, or does not answer.
    pub fn drain(&self, timeout: Duration) -> Result<DrainReport, EngineError> {
        self.inner.threads.drain(timeout)
    }

    /// Stops at once: clients are disconnected, requests in flight are not answered.
    ///
    /// # Errors
    /// The shard had failed before.
    pub fn stop(&self) -> Result<(), EngineError> {
        self.inner.threads.stop()
    }
}

fn check_weight(path: &str, weight: u32) -> Result<(), EngineError> {
    let range = hoistway_elevator::group::WEIGHT_MIN..=hoistway_elevator::group::WEIGHT_MAX;
    if range.contains(&weight) {
        return Ok(());
    }
    let message = format!("group '{path}': weight {weight}; allowed: {} to {}", range.start(), range.end());
    Err(EngineError::usage(message, "choose a weight inside the range"))
}
