//! The server: sockets, clients, operators and signals around the engine.
//!
//! ```text
//! handshake threads ──► ClientSink::attach ──► a device's shard (engine)     no data passes through here
//! control thread ───┐
//! signal thread ────┴─► Event ──► Server::run, one at a time: status, switch, weights, reload, evict, drain
//! ```
//! All changes happen on the thread of [`Server::run`], so that two operators cannot interfere.

pub mod admission;
pub mod announce;
pub mod crowd;
pub mod descriptors;
pub mod devices;
mod exports;
pub mod handshake_thread;
mod hang_monitor;
pub mod peer;
mod release;
pub mod reload;
mod share;
mod share_monitor;
mod signals;
pub mod socket;
mod virtual_disks;
mod waker;

use std::convert::Infallible;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracing::{error, warn};

use crate::configuration::check::check;
use crate::configuration::problem::shown;
use crate::configuration::{
    Address, Configuration, DEFAULT_WEIGHT, Device, Group, Listener, Place, Problem, Sourced, file, read_limits,
    write_limits,
};
use crate::control::{Refusal, Request, socket as control_socket};
use crate::log::events;
use crate::metrics::Snapshot;
use crate::tls::credentials::Credentials;
use crate::tls::relay;
use devices::report::{ListenerReport, StatusAnswer, StatusReport};
use devices::{Devices, Drained};
use exports::with_warnings;
use handshake_thread::{AcceptedClient, ActiveState, ClientSink, Counts, HandshakeThread};
use hang_monitor::HangMonitor;
use reload::{Change, difference};
use share_monitor::{ShareChange, ShareMonitor};
use socket::{Listening, SocketFile, inherited, listen, listen_private};
use virtual_disks::VirtualDisks;
use waker::Waker;

pub use devices::CHECKS;

/// Exit status: everything in flight was answered.
const DRAINED: u8 = 0;
/// Exit status: at least one request was abandoned.
const ABANDONED: u8 = 1;
/// Exit status: wrong usage or configuration.
const USAGE: u8 = 2;
/// How long the end of the server waits for an operator that does not read its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The source of the configuration, which decides whether it can be read again.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// The command line.
    Flags,
}

/// Why a server did not start. Nothing is left behind.
#[derive(Debug)]
pub struct StartFailure {
    /// The problems.
    pub problems: Vec<Problem>,
    /// 1 run-time failure, 2 configuration, 3 a missing feature of the system.
    pub exit_status: u8,
}

/// The events that [`Server::run`] handles.
pub enum Event {
    /// Drain; the second time: end at once.
    Terminate,
    /// Read the configuration again.
    Reload,
    /// Answer an operator's request.
    Operator(control_socket::PendingRequest),
    /// Answer a scrape of the metrics.
    Scrape(Sender<Snapshot>),
    /// Print a warning of a thread that must not wait for it.
    Warning(String),
    /// The drain has ended.
    Drained(Drained),
}

/// A server with its sockets open and its shards running.
pub struct Server {
    state: Arc<State>,
    origin: Origin,
    listeners: Vec<ListenerThread>,
    /// The control socket's file: its thread blocks in accept until the process ends, so it cannot
    /// remove the file.
    control_file: Option<SocketFile>,
    /// The file of the metrics' socket, likewise.
    metrics_file: Option<SocketFile>,
    virtual_disks: VirtualDisks,
    inherited: Vec<Address>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    is_draining: bool,
    /// Disconnected once an answer given while draining has been sent to its operator.
    last_answers: Vec<Receiver<Infallible>>,
}

/// What was applied of a configuration.
struct Applied {
    /// The changes.
    changes: Vec<Change>,
    /// What of the added exports is missing.
    warnings: Vec<String>,
}

/// One listener's thread.
struct ListenerThread {
    address: Address,
    configured: Address,
    waker: Arc<Waker>,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
}

/// The state that handshake threads share with the server.
struct State {
    active: RwLock<Arc<ActiveState>>,
    devices: Devices,
}

impl ClientSink for State {
    fn active(&self) -> Arc<ActiveState> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn attach(&self, client: AcceptedClient) {
        self.devices.attach(client, &self.active().configuration);
    }
}

impl State {
    fn set_active(&self, configuration: Configuration, draining: bool) {
        self.set_active_with(configuration, draining, self.active().credentials.clone());
    }

    /// Takes over what the devices have found out about themselves: an ability that a backing does not
    /// have after all is not offered to later clients.
    fn renew_facts(&self) {
        let active = self.active();
        if self.devices.facts(&active.configuration, &active.facts) != active.facts {
            self.set_active(active.configuration.clone(), active.draining);
        }
    }

    fn set_active_with(&self, configuration: Configuration, draining: bool, credentials: Arc<Credentials>) {
        let facts = self.devices.facts(&configuration, &self.active().facts);
        let next = Arc::new(ActiveState { configuration, facts, credentials, draining });
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

/// The sockets passed by a service manager. Those that no `[[listen]]` names become listeners of
/// their own.
///
/// # Errors
/// A socket that was announced but is missing, or is not a socket.
pub fn inherited_listeners(configuration: &mut Configuration) -> Result<Vec<Listening>, Problem> {
    let place = Place::flag("LISTEN_FDS", "");
    let sockets = inherited().map_err(|error| {
        let what = format!("the sockets passed by the service manager cannot be used: {error}");
        Problem::new(&place, what, "pass stream sockets, or start without socket activation")
    })?;
    add_listeners(configuration, sockets.iter().map(|socket| &socket.configured));
    Ok(sockets)
}

fn add_listeners<'a>(configuration: &mut Configuration, addresses: impl Iterator<Item = &'a Address>) {
    for address in addresses {
        if !configuration.listeners.iter().any(|listener| listener.address.value.is_same_place(address)) {
            let place = Place::flag("LISTEN_FDS", "");
            configuration.listeners.push(Listener::at(Sourced::new(address.clone(), &place)));
        }
    }
}

impl Server {
    /// Opens devices, then sockets, and starts serving. `configuration` must have passed [`check`].
    ///
    /// # Errors
    /// What could not be opened; everything opened before is closed again.
    pub fn start(
        configuration: Configuration,
        origin: Origin,
        inherited: Vec<Listening>,
    ) -> Result<Self, StartFailure> {
        let usage = |problem| StartFailure { problems: vec![problem], exit_status: USAGE };
        let credentials = read_credentials(&configuration).map_err(unusable)?;
        descriptors::raise_limit();
        if let Some(what) = descriptors::shortage(&configuration) {
            let problem = Problem::new(&Place::default(), what, descriptors::HELP);
            return Err(StartFailure { problems: vec![problem], exit_status: ABANDONED });
        }
        // Devices first: if another server uses them, its sockets must not be touched either.
        let devices = Devices::open(&configuration)?;
        let addresses: Vec<Address> = inherited.iter().map(|socket| socket.configured.clone()).collect();
        let mut inherited = inherited;
        let mut sockets = Vec::new();
        for listener in &configuration.listeners {
            let address = &listener.address;
            match inherited.iter().position(|socket| socket.configured.is_same_place(&address.value)) {
                Some(at) => sockets.push(inherited.swap_remove(at)),
                None => sockets.push(listen(address).map_err(usage)?),
            }
        }
        let control = configuration.control.as_ref().map(|it| listen_private(&it.unix)).transpose().map_err(usage)?;
        let metrics = configuration.metrics.as_ref().map(|it| listen(&it.address)).transpose().map_err(usage)?;
        let (sender, events) = mpsc::channel();
        let virtual_disks = VirtualDisks::open(&devices, &configuration, sender.clone())?;
        let facts = devices.facts(&configuration, &[]);
        let active = RwLock::new(Arc::new(ActiveState { configuration, facts, credentials, draining: false }));
        let state = Arc::new(State { active, devices });
        let failed = |error: io::Error| StartFailure {
            problems: vec![Problem::new(&Place::default(), format!("cannot start a thread: {error}"), "")],
            exit_status: ABANDONED,
        };
        let mut listeners: Vec<ListenerThread> = Vec::new();
        for socket in sockets {
            listeners.push(ListenerThread::open(socket, &state).map_err(failed)?);
        }
        match descriptors::check(&state.active().configuration) {
            descriptors::Room::Enough => {}
            descriptors::Room::Less(what) => {
                warn!(name: "descriptors", target: "server", "{what}\n  help: {}", descriptors::HELP);
            }
            descriptors::Room::None(what) => {
                listeners.into_iter().for_each(ListenerThread::end);
                let problem = Problem::new(&Place::default(), what, descriptors::HELP);
                return Err(StartFailure { problems: vec![problem], exit_status: ABANDONED });
            }
        }
        let control_file = match control {
            Some(control) => serve_operators(control, &sender).map_err(failed)?,
            None => None,
        };
        let metrics_file = match metrics {
            Some(metrics) => serve_scrapers(metrics, &sender).map_err(failed)?,
            None => None,
        };
        Ok(Self {
            state,
            origin,
            listeners,
            control_file,
            metrics_file,
            virtual_disks,
            inherited: addresses,
            events,
            sender,
            is_draining: false,
            last_answers: Vec::new(),
        })
    }

    /// Reports on stdout, and to the service manager, that clients may connect.
    pub fn announce(&self, with_uris: bool) {
        let active = self.state.active();
        let mut lines = String::new();
        for listener in &self.listeners {
            let visible = listener.exports(&active);
            lines += &announce::ready_line(&listener.address, &visible);
            lines.push('\n');
            if with_uris {
                let has_tls = active.credentials.of(&listener.configured).is_some();
                let uri = |export: &&str| announce::uri(&listener.address, export, has_tls);
                visible.iter().for_each(|export| lines += &format!("{}\n", uri(export)));
            }
        }
        for line in self.virtual_disks.lines() {
            lines += &line;
            lines.push('\n');
        }
        for line in self.state.devices.disk_lines() {
            lines += &format!("serving {line}\n");
        }
        // The parent process may have closed the pipe, which must not stop the server.
        let _ = io::stdout().write_all(lines.as_bytes());
        announce::ready(&self.state.active().configuration, "");
    }

    /// The actual address of each listener.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listeners.iter().map(|listener| &listener.address)
    }

    /// A sender of events to [`Server::run`], for other threads.
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Handles signals: SIGTERM and SIGINT drain, SIGHUP reloads. A second SIGTERM or SIGINT ends
    /// the server at once.
    pub fn handle_signals(&self) {
        if let Err(error) = signals::handle(self.sender.clone()) {
            warn!(
                name: "signals",
                target: "server",
                "signals cannot be handled and keep their default effect: {error}"
            );
        }
    }

    /// Serves until a drain ends; returns the exit status.
    pub fn run(mut self) -> u8 {
        let (mut monitor, mut hangs) = (ShareMonitor::default(), HangMonitor::default());
        let mut next_check = Instant::now() + share_monitor::CHECK_INTERVAL;
        let mut watchdog = announce::Watchdog::from_environment();
        loop {
            let event = match self.events.recv_timeout(watchdog.beat(next_check)) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) if Instant::now() < next_check => continue,
                Err(RecvTimeoutError::Timeout) => {
                    next_check = Instant::now() + share_monitor::CHECK_INTERVAL;
                    self.state.devices.remove_unused();
                    self.state.devices.remove_unused_groups(&self.state.active().configuration);
                    hangs.check(&self.state.devices);
                    monitor.check(&self.state.devices.saturations()).iter().for_each(ShareChange::log);
                    self.state.renew_facts();
                    continue;
                }
                // The server holds a sender itself, so the channel cannot be disconnected.
                Err(RecvTimeoutError::Disconnected) => return ABANDONED,
            };
            match event {
                Event::Terminate if self.is_draining => {
                    let count = self.state.devices.requests_in_flight();
                    error!(
                        name: "ended_at_once",
                        target: "server",
                        abandoned_requests = count,
                        "ended at once, {count} requests in flight were abandoned"
                    );
                    return self.end(ABANDONED);
                }
                Event::Terminate => self.drain(),
                // The log has the reason of a failure.
                Event::Reload => _ = self.reload(),
                Event::Warning(text) => warn!(name: "virtual_disk", target: "client", "{text}"),
                // The scraper may have disconnected in the meantime.
                Event::Scrape(answer) => _ = answer.send(self.snapshot()),
                Event::Operator(pending) => {
                    let answer = self.answer(pending.request);
                    // The operator may have disconnected in the meantime.
                    let _ = pending.answer.send(answer);
                    if self.is_draining {
                        self.last_answers.push(pending.sent);
                    }
                }
                Event::Drained(drained) => {
                    let status = self.report_drain(&drained);
                    self.listeners.iter().for_each(ListenerThread::await_relays);
                    return self.end(status);
                }
            }
        }
    }

    fn drain(&mut self) {
        self.is_draining = true;
        announce::tell("STOPPING=1\nSTATUS=shutting down");
        let active = self.state.active();
        self.state.set_active(active.configuration.clone(), true);
        self.listeners.iter().for_each(|listener| listener.waker.wake());
        let timeout = Duration::from_secs(active.configuration.drain_timeout_s);
        let (state, sender) = (self.state.clone(), self.sender.clone());
        let wakers: Vec<Arc<Waker>> = self.listeners.iter().map(|listener| listener.waker.clone()).collect();
        events::drain_begun(timeout.as_secs());
        let drain = Arc::new(move || {
            let begun = Instant::now();
            wakers.iter().for_each(|waker| waker.await_closed());
            state.devices.close_disks();
            let drained = state.devices.drain(timeout);
            events::drain_ended(drained.abandoned_requests, drained.failed_syncs, begun.elapsed());
            let _ = sender.send(Event::Drained(drained));
        });
        let of_thread = drain.clone();
        if thread::Builder::new().name("drain".into()).spawn(move || of_thread()).is_err() {
            // The data are worth more than answers to operators meanwhile.
            drain();
        }
    }

    /// Reports the failures of a drain; returns the exit status.
    fn report_drain(&self, drained: &Drained) -> u8 {
        let count = drained.abandoned_requests;
        if count > 0 {
            let seconds = self.state.active().configuration.drain_timeout_s;
            error!(name: "drain_failed", target: "server", "{count} requests were abandoned after {seconds} s of draining");
        }
        if drained.failed_syncs > 0 {
            let count = drained.failed_syncs;
            error!(name: "drain_failed", target: "server", "the last fsync failed on {count} volumes");
        }
        for failure in &drained.failures {
            error!(name: "drain_failed", target: "server", "{failure}");
        }
        if *drained == Drained::default() { DRAINED } else { ABANDONED }
    }

    /// Removes the sockets, and waits for the handshake threads and for answers to operators.
    fn end(self, status: u8) -> u8 {
        drop(self.control_file);
        drop(self.metrics_file);
        drop(self.virtual_disks);
        self.listeners.into_iter().for_each(ListenerThread::end);
        for sent in self.last_answers {
            let _ = sent.recv_timeout(ANSWER_TIMEOUT);
        }
        status
    }

    /// Reads the configuration again, and logs the result.
    fn reload(&mut self) -> Result<Value, Vec<Problem>> {
        announce::reloading();
        let outcome = self.read_again();
        let note = if outcome.is_err() { "; the last reload was refused" } else { "" };
        announce::ready(&self.state.active().configuration, note);
        match outcome {
            Ok((changes, answer)) => {
                events::reloaded(&changes);
                Ok(answer)
            }
            Err(problems) => {
                shown(&problems).iter().for_each(|line| events::problem(line));
                events::reload_refused(problems.len());
                Err(problems)
            }
        }
    }

    /// Reads, checks and compares everything before the first change is made.
    fn read_again(&mut self) -> Result<(Vec<Change>, Value), Vec<Problem>> {
        let Origin::File(path) = &self.origin else {
            let active = self.state.active();
            if active.configuration.listeners.iter().any(|listener| listener.tls.is_some()) {
                let credentials = read_credentials(&active.configuration)?;
                self.state.set_active_with(active.configuration.clone(), self.is_draining, credentials);
                return Ok((Vec::new(), json!({"changes": 0})));
            }
            let help = "start it with a configuration file to be able to reload, or use hoistway ctl set";
            let problem = Problem::new(&Place::default(), "the server was started by flags alone", help);
            return Err(vec![problem]);
        };
        let name = path.display().to_string();
        let text = hoistway_linux::input::regular_text(path, hoistway_linux::input::Ceiling::CONFIGURATION).map_err(
            |error| {
                let place = Place { at: name.as_str().into(), quoted: "".into() };
                vec![Problem::new(&place, format!("cannot be read: {error}"), "put the file back and reload again")]
            },
        )?;
        let mut configuration = file::read(&name, &text)?;
        add_listeners(&mut configuration, self.inherited.iter());
        let Applied { changes, mut warnings } = self.apply(configuration)?;
        let (grown, of_sizes) = self.grow_exports();
        of_sizes.iter().for_each(|warning| events::configuration_warning(warning));
        warnings.extend(of_sizes);
        let mut answer = json!({"changes": changes.len()});
        if !grown.is_empty() {
            answer["grown"] = json!(grown);
        }
        Ok((changes, with_warnings(answer, &warnings)))
    }

    /// Checks a configuration and applies all of it, or nothing.
    fn apply(&mut self, configuration: Configuration) -> Result<Applied, Vec<Problem>> {
        let problems = check(&configuration, CHECKS);
        if !problems.is_empty() {
            return Err(problems);
        }
        let changes = difference(&self.state.active().configuration, &configuration)?;
        let credentials = read_credentials(&configuration)?;
        self.state.devices.check_changes(&changes)?;
        // Exports are opened first: only this change can fail, and it can be undone.
        let devices = &self.state.devices;
        let opened = devices.open_added(&changes, &configuration)?;
        // What is removed makes room for what is added.
        for (device, export) in changes.iter().filter_map(Change::removed) {
            self.virtual_disks.remove(export);
            devices.remove(device, export, &opened);
        }
        let mut warnings = devices.publish(opened, &configuration);
        for change in &changes {
            // As with a block device, the other exports are in force already.
            if let Change::Added { export, .. } = change
                && let Err(failure) = self.virtual_disks.add(devices, export, &configuration)
            {
                failure.problems.iter().for_each(|problem| events::problem(&problem.to_string()));
                warnings.extend(failure.problems.iter().map(|problem| problem.what.clone()));
            }
            devices.apply(change).map_err(|problem| vec![problem])?;
        }
        devices.settle_groups(&configuration);
        crate::log::configure(&configuration.log);
        self.state.set_active_with(configuration, self.is_draining, credentials);
        self.listeners.iter().for_each(|listener| listener.waker.wake());
        Ok(Applied { changes, warnings })
    }

    fn answer(&mut self, request: Request) -> Value {
        let asked = request.clone();
        let answer = match request {
            Request::Status { buckets } => return json!(StatusAnswer { ok: self.status(buckets) }),
            Request::Scheduler { device, scheduler } => self.switch(device.as_deref(), &scheduler),
            Request::Tunable { device, name, value } => self.set_tunable(device.as_deref(), &name, &value),
            Request::Share { group, share } => self.set_share(&group, share),
            Request::Limit { group, file, line } => self.set_limits(&group, &file, &line),
            Request::EvictClient(client) => self.evict_client(&client),
            Request::EvictExport(export) => self.evict_export(&export),
            Request::AddExport { device, export } => self.add_export(device.as_deref(), &export),
            Request::RemoveExport(export) => self.remove_export(&export),
            Request::Resize(export) => self.resize(&export),
            Request::Drain => {
                if !self.is_draining {
                    self.drain();
                }
                Ok(json!("draining"))
            }
            Request::Reload => match self.reload() {
                Ok(answer) => Ok(answer),
                Err(problems) => Err(Refusal::new("", shown(&problems).join("\n"))),
            },
        };
        events::operated(&asked, &answer);
        match answer {
            Ok(done) => json!({"ok": done}),
            Err(refusal) => refusal.to_json(),
        }
    }

    /// Changes the policy, and records it in the configuration in force.
    fn switch(&self, device: Option<&str>, scheduler: &str) -> Result<Value, Refusal> {
        let (device, scheduler) = self.state.devices.switch(device, scheduler)?;
        self.amend_device(&device, |it| it.scheduler.value.clone_from(&scheduler));
        Ok(json!({"device": device, "scheduler": scheduler}))
    }

    fn set_tunable(&self, device: Option<&str>, name: &str, value: &str) -> Result<Value, Refusal> {
        let (device, stored) = self.state.devices.set_tunable(device, name, value)?;
        self.amend_device(&device, |it| it.scheduler.value = devices::with_tunable(&it.scheduler.value, name, value));
        Ok(json!({"device": device, "tunable": name, "value": stored}))
    }

    /// Changes a group's limits by a line of `io.max`, `io.low` or `io.latency`; omitted keys keep
    /// their values.
    fn set_limits(&self, path: &str, file: &str, line: &str) -> Result<Value, Refusal> {
        let mut configuration = self.state.active().configuration.clone();
        if file.starts_with("blkio.") {
            return self.write_blkio(path, file, line);
        }
        let mut limits = configuration.limits(path);
        write_limits(file, line, &mut limits)
            .map_err(|wrong| Refusal::new("line", format!("{}; {}", wrong.message, wrong.help)))?;
        let declared = configuration.groups.iter_mut().find(|group| group.path.value == path);
        if declared.is_none() && !self.state.devices.groups().iter().any(|known| known == path) {
            let known = self.state.devices.groups().join(", ");
            return Err(Refusal::new("group", format!("there is no group {path:?}; there are: {known}")));
        }
        let devices = self.state.devices.set_limits(path, &limits)?;
        match declared {
            Some(group) => group.limits = limits,
            None => {
                let path = Sourced::new(path.to_owned(), &Place::flag("ctl limit", ""));
                configuration.groups.push(Group { limits, ..Group::new(path, DEFAULT_WEIGHT) });
            }
        }
        self.state.set_active(configuration, self.is_draining);
        let mut answer = json!({"group": path, "devices": devices});
        for (file, line) in read_limits(&limits) {
            answer[file] = json!(line);
        }
        Ok(answer)
    }

    fn amend_device(&self, name: &str, amend: impl FnOnce(&mut Device)) {
        let mut configuration = self.state.active().configuration.clone();
        if let Some(device) = configuration.devices.iter_mut().find(|device| device.name.value == name) {
            amend(device);
        }
        self.state.set_active(configuration, self.is_draining);
    }

    fn snapshot(&self) -> Snapshot {
        let active = self.state.active();
        Snapshot {
            is_draining: self.is_draining,
            listeners: self.listeners.iter().map(|listener| listener.status(&active)).collect(),
            devices: self.state.devices.shard_statuses(),
            silent: self.state.devices.silent(),
        }
    }

    fn status(&self, with_buckets: bool) -> StatusReport {
        let active = self.state.active();
        StatusReport {
            draining: self.is_draining,
            listeners: self.listeners.iter().map(|listener| listener.status(&active)).collect(),
            devices: self.state.devices.status(with_buckets),
        }
    }
}

impl ListenerThread {
    fn open(socket: Listening, state: &Arc<State>) -> io::Result<Self> {
        let (waker, counts) = (Arc::new(Waker::new()?), Arc::new(Counts::default()));
        let (address, configured) = (socket.address.clone(), socket.configured.clone());
        let handshakes = HandshakeThread::new(socket, state.clone(), counts.clone(), waker.clone())?;
        let thread = thread::Builder::new().name("handshakes".into()).spawn(move || handshakes.run())?;
        Ok(Self { address, configured, waker, counts, thread })
    }

    /// Stops the thread and waits for its end.
    fn end(self) {
        self.waker.stop();
        // A handshake thread that panicked has reported it on stderr; there is nothing else to do.
        let _ = self.thread.join();
    }

    /// Waits until the clients with TLS have their last answers.
    fn await_relays(&self) {
        let running = self.counts.relays.wait(relay::END_TIMEOUT * 2);
        if running > 0 {
            let listener = self.address.to_string();
            warn!(name: "relays_left", target: "listener", listener, running, "{running} relays of TLS clients of {listener} still run");
        }
    }

    /// The exports that a client without an identity sees here.
    fn exports<'a>(&self, active: &'a ActiveState) -> Vec<&'a str> {
        let listeners = &active.configuration.listeners;
        let listener = listeners.iter().find(|it| it.address.value.is_same_place(&self.configured));
        let names = active.facts.iter().map(|facts| facts.name.as_str());
        names.filter(|name| listener.is_some_and(|listener| peer::may_see(None, listener, name))).collect()
    }

    fn status(&self, active: &ActiveState) -> ListenerReport {
        ListenerReport {
            address: self.address.to_string(),
            exports: self.exports(active).into_iter().map(str::to_owned).collect(),
            connections: self.counts.open.load(Ordering::Relaxed),
            accepted: self.counts.accepted.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            expired: self.counts.expired.load(Ordering::Relaxed),
        }
    }
}

/// Serves the control socket; returns its file.
fn serve_operators(mut control: Listening, sender: &Sender<Event>) -> io::Result<Option<SocketFile>> {
    let (file, sender) = (control.file.take(), sender.clone());
    control_socket::serve(control, move |pending| sender.send(Event::Operator(pending)).is_ok())?;
    Ok(file)
}

/// Serves the metrics; returns their socket's file.
fn serve_scrapers(mut metrics: Listening, sender: &Sender<Event>) -> io::Result<Option<SocketFile>> {
    let (file, sender) = (metrics.file.take(), sender.clone());
    crate::metrics::serve(metrics, move |answer| sender.send(Event::Scrape(answer)).is_ok())?;
    Ok(file)
}

fn unusable(problems: Vec<Problem>) -> StartFailure {
    StartFailure { problems, exit_status: USAGE }
}

/// Reads certificates and keys, and logs the warnings about them.
fn read_credentials(configuration: &Configuration) -> Result<Arc<Credentials>, Vec<Problem>> {
    let (credentials, warnings) = Credentials::read(configuration)?;
    warnings.iter().for_each(|warning| events::configuration_warning(warning));
    Ok(Arc::new(credentials))
}
