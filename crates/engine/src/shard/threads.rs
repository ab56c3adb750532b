//! The threads of a device: one from the start, more when clients connect.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared::Route;
use super::{ANSWER_TIMEOUT, Core, LoopSettings, Mailbox, Shared, Silence, Worker};
use crate::error::EngineError;
use crate::gate::Gate;
use crate::turn::{Turn, TurnSettings};

/// The most threads of a device unless the user says otherwise: decisions are a quarter of the work of a
/// small request, so more than four threads would mostly wait for the lock.
const DEFAULT_THREADS: usize = 4;

/// Descriptors that a thread of a device takes: its ring, and the event that wakes it with a copy.
pub const DESCRIPTORS_OF_A_THREAD: u64 = 3;

/// The number of threads that a device may have. `wanted` is the user's number; 0 = as many as there are
/// processors for it (`cpus`; 0 = all of the machine), up to four, but one where a device model is the limit.
pub fn most_threads(wanted: usize, cpus: usize, has_model: bool) -> usize {
    let processors = if cpus == 0 { hoistway_linux::thread::processors() } else { cpus };
    match wanted {
        0 if has_model => 1,
        0 => processors.min(DEFAULT_THREADS),
        wanted => wanted,
    }
}

/// How often to look whether a thread has ended.
const JOIN_POLL: Duration = Duration::from_millis(1);

struct Thread {
    mailbox: Arc<Mailbox>,
    handle: JoinHandle<Result<(), EngineError>>,
}

/// The threads of a device.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// Worker 0's.
    first: Arc<Mailbox>,
    most: usize,
    /// In the order of the workers' numbers; empty after the end.
    threads: Mutex<Vec<Thread>>,
    silence: Arc<Mutex<Silence>>,
}

impl Threads {
    /// Builds the device's state and starts worker 0. `most` is the number of threads that the user
    /// wants at most; 0 = as many as there are processors for it, up to four.
    pub fn start(
        settings: LoopSettings,
        turn_settings: TurnSettings,
        gate: Option<(Gate, u64)>,
        most: usize,
        files: u32,
    ) -> Result<Self, EngineError> {
        let most = most_threads(most, settings.cpus.len(), gate.is_some());
        let arena = turn_settings
            .arena()
            .map_err(|error| EngineError::system(format!("memory for the arena: {error}"), "free some memory"))?;
        let turn = Turn::new(&turn_settings, Arc::clone(&arena)).map_err(|error| {
            EngineError::usage(
                crate::error::describe_build(&turn_settings.scheduler, error),
                "see `hoistway list schedulers`",
            )
        })?;
        let core = parking_lot::Mutex::new(Core::new(turn, turn_settings, gate));
        let shared = Arc::new(Shared { settings, arena, files, pollers: AtomicUsize::new(0), core });
        let first = launch(&shared)?;
        let mailbox = Arc::clone(&first.mailbox);
        Ok(Self { shared, first: mailbox, most, threads: Mutex::new(vec![first]), silence: Arc::default() })
    }

    /// Worker 0's mailbox.
    pub fn first(&self) -> &Mailbox {
        &self.first
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn silence(&self) -> &Arc<Mutex<Silence>> {
        &self.silence
    }

    /// The worker with the fewest clients, or a new one while every worker has some and there may be more. It
    /// counts the client that will be attached. `besides` has the workers of the client's other queues, which are
    /// chosen only where all are among them.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn worker_for_client(&self, besides: &BTreeSet<usize>) -> Result<(usize, Arc<Mailbox>), EngineError> {
        let until = Instant::now() + ANSWER_TIMEOUT;
        let least = self.under_lock(until, {
            let besides = besides.clone();
            move |core| core.least_loaded(&besides)
        })?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if least.is_none_or(|(_, clients)| clients > 0)
            && threads.len() < self.most
            && let Ok(thread) = launch(&self.shared)
        {
            threads.push(thread);
        }
        drop(threads);
        let (first, besides) = (Arc::clone(&self.first), besides.clone());
        self.under_lock(until, move |core| {
            match core.least_loaded(&besides).or_else(|| core.least_loaded(&BTreeSet::new())) {
                None => (0, first),
                Some((worker, _)) => {
                    core.workers[worker].clients += 1;
                    (worker, Arc::clone(&core.workers[worker].mailbox))
                }
            }
        })
    }

    /// The most threads that there may be.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A worker's mailbox.
    pub fn mailbox(&self, worker: usize) -> Arc<Mailbox> {
        let core = self.shared.core.try_lock_for(ANSWER_TIMEOUT);
        let found = core.and_then(|core| Some(Arc::clone(&core.workers.get(worker)?.mailbox)));
        found.unwrap_or_else(|| Arc::clone(&self.first))
    }

    /// Waits for the end of all threads until `deadline`. One that is stuck in the kernel then is left behind.
    pub fn join(&self, deadline: Instant) -> Result<(), EngineError> {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for Thread { handle, .. } in threads {
            while !handle.is_finished() && Instant::now() < deadline {
                std::thread::sleep(JOIN_POLL);
            }
            if handle.is_finished() {
                result = result.and(handle.join().unwrap_or_else(|_| Err(EngineError::stopped())));
            }
        }
        result
    }
}

impl Worker {
    /// Takes back the count of [`Threads::worker_for_client`], because the client was not added.
    pub fn client_refused(&self, core: &mut Core) {
        core.workers[self.number].clients -= 1;
    }
}

impl Core {
    /// The workers that serve a socket of a volume.
    pub fn workers_with_sockets_of(&self, volume: u32) -> BTreeSet<usize> {
        let of_volume = |connection: u32| self.turn.connection(connection).is_some_and(|(_, of, _)| of == volume);
        let numbered = (0_u32..).zip(&self.routes);
        let workers = numbered.filter_map(|(connection, route)| match route {
            Route::Socket { worker, .. } if of_volume(connection) => Some(*worker),
            _ => None,
        });
        workers.collect()
    }

    /// The worker with the fewest clients, besides some, and their number.
    fn least_loaded(&self, besides: &BTreeSet<usize>) -> Option<(usize, usize)> {
        let loads = self.workers.iter().map(|worker| worker.clients).enumerate();
        loads.filter(|(worker, _)| !besides.contains(worker)).min_by_key(|&(_, clients)| clients)
    }

    /// Notes that a worker has ended; the last one releases the files.
    fn worker_ended(&mut self) {
        self.stop();
        self.running -= 1;
        if self.running == 0 {
            self.volumes.clear();
        }
    }
}

/// Starts a worker, and waits until it runs.
fn launch(shared: &Arc<Shared>) -> Result<Thread, EngineError> {
    let failed =
        |error: std::io::Error| EngineError::system(format!("the device's thread: {error}"), "free some memory");
    let mailbox = Arc::new(Mailbox::new().map_err(failed)?);
    let (ready, is_ready) = mpsc::channel();
    let (own_shared, own_mailbox) = (Arc::clone(shared), Arc::clone(&mailbox));
    // The ring belongs to the thread that makes it, so the worker is built on that thread.
    let body = move || {
        let _closing = CloseOnDrop(Arc::clone(&own_mailbox));
        match Worker::new(Arc::clone(&own_shared), own_mailbox) {
            Err(error) => {
                let _ = ready.send(Err(error));
                Ok(())
            }
            Ok(worker) => {
                // Declared first, so that it is dropped after the worker and its ring.
                let _ended = Ended(own_shared);
                let mut worker = worker;
                let _ = ready.send(Ok(()));
                worker.run()
            }
        }
    };
    let handle = std::thread::Builder::new().name(shared.settings.name.clone()).spawn(body).map_err(failed)?;
    is_ready.recv_timeout(ANSWER_TIMEOUT).map_err(|_| EngineError::stopped())??;
    Ok(Thread { mailbox, handle })
}

/// Ends the other workers as well, whatever ends this one.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.core.lock().worker_ended();
    }
}

struct CloseOnDrop(Arc<Mailbox>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
