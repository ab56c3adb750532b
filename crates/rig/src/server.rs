//! The server process: runs the model in real time.
//!
//! One thread reads requests, asks the model and replies in time, so that there is no hand-over
//! between threads. It sleeps until shortly before the model's next event and polls for the rest,
//! because a virtual machine wakes up tens of microseconds late. A late reply delays nothing else,
//! because the model has its own clock.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hoistway_block::{Nanos, SECTOR_BYTES};
use hoistway_device::{Device, Model};
use hoistway_linux::fuse::{BUFFER_BYTES, MAX_TRANSFER_BYTES, Received, Session};
use hoistway_linux::process::Process;
use hoistway_linux::thread::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::RigError;
use crate::device_holder::{Answer, Facts};
use crate::note::{self, Rig};
use crate::service::Service;
use crate::store::Store;

/// Sleeping ends this long before the model's next event; the rest is spent polling.
const SPIN_NS: Nanos = 60_000;
/// While polling, other descriptors are checked at this interval.
const CHECK_INTERVAL_NS: Nanos = 2_000_000;
/// Requests taken between two calls of the model.
const BATCH: u32 = 32;
/// A note is written after this time without requests.
const NOTE_DELAY_NS: Nanos = 300_000_000;
/// After the holder has closed the device, its users have this long to finish.
const DRAIN_TIMEOUT_NS: Nanos = 5_000_000_000;

/// The device to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `NAME[,KEY=VALUE...]` as [`Model::parse`] takes it.
    pub model: String,
    /// Size in bytes; the model's own size if none. A smaller device is the start of the model's.
    pub size_bytes: Option<u64>,
    /// Seed of the model's random numbers, unless the model has its own.
    pub seed: u64,
    /// The most memory for written data, in bytes.
    pub memory_bytes: u64,
}

impl Settings {
    /// The model, and the size in sectors.
    ///
    /// # Errors
    /// An impossible model or size, with what is possible.
    pub fn resolve(&self) -> Result<(Model, u64), RigError> {
        let model = Model::parse(&self.model)?;
        let Some(size_bytes) = self.size_bytes else { return Ok((model.clone(), model.capacity_sectors())) };
        if size_bytes < 1 << 20 || !size_bytes.is_multiple_of(4_096) {
            let what = format!("a size of {size_bytes} bytes: at least 1 MiB and a multiple of 4096 are possible");
            return Err(RigError::Size(what));
        }
        let sectors = size_bytes / SECTOR_BYTES;
        Ok((model.with_capacity_sectors(sectors), sectors))
    }
}

/// What ends the server besides signals.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// The end of the standard input, unless a `K` was sent before: then the device stays.
    StandardInput,
    /// Only signals.
    UntilSignal,
}

/// Serves until SIGTERM, SIGINT or SIGHUP, or until its lifetime ends. `holder` is the command that
/// runs [`crate::hold`]; `ready` is called with the device once it is usable, and returns false if
/// it is no longer wanted.
///
/// # Errors
/// Why there is no device; nothing is left of it.
pub fn serve(
    settings: &Settings,
    mut holder: Command,
    lifetime: Lifetime,
    ready: &mut dyn FnMut(&Rig) -> bool,
) -> Result<(), RigError> {
    let (model, sectors) = settings.resolve()?;
    let is_asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_asked_to_end)).map_err(RigError::system("signals"))?;
    }
    // Precise timers and real-time scheduling make the device's latencies more accurate;
    // it works without them.
    let _ = hoistway_linux::thread::precise_timers();
    let _ = hoistway_linux::thread::most_urgent();
    let session = Session::open(sectors * SECTOR_BYTES).map_err(RigError::system("/dev/fuse"))?;
    let mount = session.mount().map_err(RigError::system("mounting a FUSE file system"))?;
    let (socket, theirs) = UnixStream::pair().map_err(RigError::system("a socket"))?;
    socket.set_nonblocking(true).map_err(RigError::system("a socket"))?;
    holder.stdin(Stdio::from(mount)).stdout(Stdio::from(OwnedFd::from(theirs)));
    let child = holder.spawn().map_err(RigError::system("starting the holder"))?;
    // The command still has the holder's descriptors of mount and socket open; dropping it closes
    // them in this process.
    drop(holder);
    let device = model.build(settings.seed, "rig");
    let facts = facts_of(&settings.model, device.info())?;
    let mut server = Server {
        session,
        service: Service::new(device, Store::new(settings.memory_bytes)),
        socket: BufReader::new(socket),
        child,
        answer: String::new(),
        rig: None,
        lifetime,
        is_asked_to_end,
        closing_since_ns: None,
    };
    server.send(&facts)?;
    let fresh = |number, holder, server: Process| Rig {
        number,
        model: settings.model.clone(),
        size_bytes: sectors * SECTOR_BYTES,
        depth: facts.depth,
        server,
        holder,
        memory_bytes: 0,
        most_in_service: 0,
        most_arrived: 0,
        lateness: crate::Lateness::default(),
    };
    let ended = server.run(&mut |number, holder| {
        let rig = fresh(number, holder, facts.server);
        rig.write().map_err(RigError::system("/run/hoistway-root"))?;
        Ok((ready(&rig), rig))
    });
    server.clean_up();
    ended
}

fn facts_of(name: &str, info: &hoistway_device::DeviceInfo) -> Result<Facts, RigError> {
    Ok(Facts {
        name: format!("hoistway model:{name}"),
        block_bytes: info.logical_block_bytes,
        is_rotational: info.rotational,
        has_cache: info.volatile_cache,
        depth: u32::try_from(info.total_depth()).unwrap_or(u32::MAX).clamp(4, 128),
        max_kib: (info.max_sectors / 2).clamp(4, MAX_TRANSFER_BYTES / 1_024),
        server: Process::this().map_err(RigError::system("/proc/self/stat"))?,
    })
}

struct Server {
    session: Session,
    service: Service,
    socket: BufReader<UnixStream>,
    child: Child,
    /// The part of the holder's line received so far.
    answer: String,
    rig: Option<Rig>,
    lifetime: Lifetime,
    is_asked_to_end: Arc<AtomicBool>,
    /// Since when the holder is closing the device.
    closing_since_ns: Option<Nanos>,
}

/// Called when the device is attached; returns whether it is wanted, and its note.
type Attached<'a> = dyn FnMut(u32, Process) -> Result<(bool, Rig), RigError> + 'a;

impl Server {
    fn send(&mut self, facts: &Facts) -> Result<(), RigError> {
        let mut line = serde_json::to_string(facts).map_err(|error| RigError::Holder(error.to_string()))?;
        line.push('\n');
        self.socket.get_mut().write_all(line.as_bytes()).map_err(RigError::system("the holder's socket"))
    }

    fn run(&mut self, attached: &mut Attached<'_>) -> Result<(), RigError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut checked_ns, mut noted_ns, mut busy_ns) = (0, monotonic_ns(), 0);
        loop {
            let now = monotonic_ns();
            self.service.advance(&self.session, now).map_err(RigError::system("/dev/fuse"))?;
            let taken_requests = self.take_requests(&mut buffer)?;
            match taken_requests {
                Taken::Unmounted => return Ok(()),
                Taken::Some => {
                    busy_ns = now;
                    continue;
                }
                Taken::None => {}
            }
            let next = self.service.next_event();
            if next > now + SPIN_NS {
                let is_quiet = self.service.is_idle() && noted_ns <= busy_ns;
                let until = if is_quiet { next.min(busy_ns + NOTE_DELAY_NS) } else { next.saturating_sub(SPIN_NS) };
                self.sleep(until);
                checked_ns = 0;
                if is_quiet && monotonic_ns() > busy_ns + NOTE_DELAY_NS {
                    noted_ns = monotonic_ns();
                    self.write_note();
                }
            }
            if now >= checked_ns + CHECK_INTERVAL_NS {
                checked_ns = now;
                if self.handle_events(now, attached)? {
                    return Ok(());
                }
            }
        }
    }

    fn take_requests(&mut self, buffer: &mut [u8]) -> Result<Taken, RigError> {
        let failed = |error| RigError::System { what: "/dev/fuse".to_owned(), source: error };
        for taken in 0..BATCH {
            match self.session.receive(buffer).map_err(failed)? {
                Received::Request(request) => {
                    self.service.arrived(&self.session, request, monotonic_ns()).map_err(failed)?;
                }
                Received::Internal => {}
                Received::Nothing if taken == 0 => return Ok(Taken::None),
                Received::Nothing => return Ok(Taken::Some),
                Received::Unmounted => return Ok(Taken::Unmounted),
            }
        }
        Ok(Taken::Some)
    }

    /// Sleeps until a time of the monotonic clock (`Nanos::MAX`: for ever), a request, or another
    /// event.
    fn sleep(&self, until: Nanos) {
        let left_ns = until.saturating_sub(monotonic_ns());
        let timeout = (until != Nanos::MAX).then(|| Timespec {
            tv_sec: i64::try_from(left_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left_ns % 1_000_000_000).unwrap_or(0),
        });
        let stdin = io::stdin();
        let (session, socket) = (self.session.descriptor(), self.socket.get_ref().as_fd());
        let mut descriptors = vec![PollFd::from_borrowed_fd(session, PollFlags::IN)];
        if self.closing_since_ns.is_none() {
            descriptors.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
        }
        if self.lifetime == Lifetime::StandardInput {
            descriptors.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        }
        // A signal ends the sleep early, as intended.
        let _ = poll(&mut descriptors, timeout.as_ref());
    }

    /// Handles everything but requests; returns true when serving is over.
    fn handle_events(&mut self, now: Nanos, attached: &mut Attached<'_>) -> Result<bool, RigError> {
        if let Some(since_ns) = self.closing_since_ns {
            return Ok(now > since_ns + DRAIN_TIMEOUT_NS);
        }
        if self.is_asked_to_end.load(Ordering::Relaxed) || !self.is_wanted() {
            self.close_device(now);
            return Ok(false);
        }
        match self.socket.read_line(&mut self.answer) {
            Ok(0) if self.rig.is_none() => {
                Err(RigError::Holder("the process that holds the device open has ended".to_owned()))
            }
            // The holder was killed: the device is gone as soon as it has no users.
            Ok(0) => {
                self.closing_since_ns = Some(now);
                Ok(false)
            }
            Ok(_) => {
                match serde_json::from_str(&self.answer).map_err(|error| RigError::Holder(error.to_string()))? {
                    Answer::Failed(why) => return Err(RigError::Holder(why)),
                    Answer::Attached { number, holder } => {
                        let (is_wanted, rig) = attached(number, holder)?;
                        self.rig = Some(rig);
                        if !is_wanted {
                            self.close_device(now);
                        }
                    }
                }
                Ok(false)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(RigError::System { what: "the holder's socket".to_owned(), source: error }),
        }
    }

    /// Makes the holder close the device. Requests in flight are still answered.
    fn close_device(&mut self, now: Nanos) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
        self.closing_since_ns = Some(now);
    }

    /// Whether the process that started the server still wants the device; after `K` only signals end
    /// it.
    fn is_wanted(&mut self) -> bool {
        if self.lifetime == Lifetime::UntilSignal {
            return true;
        }
        let stdin = io::stdin();
        let mut descriptors = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        if !matches!(poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..)) {
            return true;
        }
        let mut byte = [0];
        match stdin.lock().read(&mut byte) {
            Ok(1) if byte == *b"K" => {
                self.lifetime = Lifetime::UntilSignal;
                true
            }
            Ok(1..) => true,
            Ok(0) => false,
            Err(error) => error.kind() == ErrorKind::Interrupted,
        }
    }

    fn write_note(&mut self) {
        let Some(rig) = &mut self.rig else { return };
        rig.memory_bytes = self.service.memory_bytes();
        rig.most_in_service = self.service.most_in_service;
        rig.most_arrived = self.service.most_arrived;
        rig.lateness = self.service.lateness.clone();
        // If this fails, the list shows older figures.
        let _ = rig.write();
    }

    fn clean_up(mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
        // Closing the FUSE session makes the kernel fail all remaining requests, so that no process
        // waits for ever.
        drop(self.session);
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(rig) = self.rig
            && hoistway_linux::loop_device::remove(rig.number)
        {
            note::remove(rig.number);
        }
    }
}

enum Taken {
    Some,
    None,
    Unmounted,
}
