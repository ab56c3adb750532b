//! The end of a device: a drain, or a stop at once. The calling thread conducts it, so that it ends
//! in time even if a worker or a backing hangs; what hangs is left to the end of the process.

use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::calls::Calls;
use super::volumes::Seal;
use super::{Core, Threads};
use crate::damage::Damage;
use crate::error::EngineError;

/// How often a drain looks whether all requests are answered.
const POLL: Duration = Duration::from_millis(2);
/// How long the threads of a device have to end: a ring waits for 5 s for what it cannot cancel.
const END_TIMEOUT: Duration = Duration::from_secs(7);
/// How long a look at the device's state may take.
const LOOK: Duration = Duration::from_secs(1);

/// The result of a drain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DrainReport {
    /// Requests that were not answered in time.
    pub abandoned_requests: usize,
    /// Volumes whose last fsync failed or did not end, or which had lost data before.
    pub failed_syncs: u32,
    /// What was abandoned or not made durable, by volume, as sentences.
    pub losses: Vec<String>,
}

/// A volume that is to be made durable.
struct Unsynced {
    name: String,
    file: Arc<OwnedFd>,
    calls: Arc<Calls>,
    /// Requests that are not answered.
    abandoned: u32,
    /// What it had lost before. The kernel reports a loss once, so its last fsync says nothing.
    damage: Option<Damage>,
    seal: Seal,
}

impl Threads {
    /// Refuses new requests, finishes those in flight without limits, makes everything durable,
    /// then stops. Waits at most `timeout` for the requests, and as long again for the last fsync.
    ///
    /// # Errors
    /// The device has stopped already, does not answer, or a thread of it has failed.
    pub fn drain(&self, timeout: Duration) -> Result<DrainReport, EngineError> {
        let deadline = Instant::now() + timeout;
        self.ask(|core| core.turn.drain(hoistway_linux::thread::monotonic_ns()))?;
        while self.look(|core| core.turn.requests_in_flight())? > 0 && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        let (abandoned_requests, unsynced, lost) = self.look(|core| {
            let requests = core.turn.requests_in_flight();
            (requests, core.unsynced(), core.abandoned())
        })?;
        let mut report = DrainReport { abandoned_requests, failed_syncs: 0, losses: lost };
        sync_all(unsynced, timeout, &mut report);
        self.stop()?;
        Ok(report)
    }

    /// Looks at the state without waking anybody.
    fn look<T>(&self, look: impl FnOnce(&mut Core) -> T) -> Result<T, EngineError> {
        match self.shared().core.try_lock_for(LOOK) {
            Some(mut core) if core.running > 0 => Ok(look(&mut core)),
            Some(_) => Err(EngineError::stopped()),
            None => self.under_lock(Instant::now() + super::asking::ANSWER_TIMEOUT, look),
        }
    }

    /// Stops at once: clients are disconnected, requests in flight are not answered.
    ///
    /// # Errors
    /// A thread of it has failed before.
    pub fn stop(&self) -> Result<(), EngineError> {
        match self.shared().core.try_lock_for(LOOK) {
            Some(mut core) => core.stop(),
            // It stops when it comes to it.
            None => self.first().post_result(Box::new(|_, core| core.stop())),
        }
        self.join(Instant::now() + END_TIMEOUT)
    }
}

impl Core {
    /// The volumes that the last fsync is for.
    fn unsynced(&self) -> Vec<Unsynced> {
        let requests = self.turn.requests_by_volume();
        let volumes = (0..).zip(&self.volumes).filter_map(|(number, volume)| Some((number, volume.as_ref()?)));
        volumes
            // A file in memory has no stable storage.
            .filter(|(number, volume)| {
                let is_damaged = self.turn.volume(*number).is_some_and(|(_, damage, _)| damage.is_some());
                !volume.facts.is_read_only && (!volume.is_inline || is_damaged)
            })
            .filter_map(|(number, volume)| {
                let abandoned = requests.iter().find(|(of, _)| *of == number).map_or(0, |(_, requests)| *requests);
                let (file, calls) = (Arc::clone(volume.file.as_ref()?), Arc::clone(&volume.calls));
                let damage = self.turn.volume(number).and_then(|(_, damage, _)| damage);
                let seal = self.seal(number);
                Some(Unsynced { name: volume.facts.name.clone(), file, calls, abandoned, damage, seal })
            })
            .collect()
    }

    /// A sentence about each volume with requests that are not answered.
    fn abandoned(&self) -> Vec<String> {
        let by_volume = self.turn.requests_by_volume();
        by_volume
            .into_iter()
            .map(|(volume, requests)| format!("{}: {requests} requests were not answered", self.volume_name(volume)))
            .collect()
    }
}

/// Makes the volumes durable, all at once. Those with abandoned requests are not waited for longer
/// than for the others.
fn sync_all(mut volumes: Vec<Unsynced>, timeout: Duration, report: &mut DrainReport) {
    let deadline = Instant::now() + timeout;
    let (done, results) = mpsc::channel();
    // What is known of each: nothing yet, or how its fsync ended.
    let mut ends: Vec<Option<Result<(), String>>> = vec![None; volumes.len()];
    for (index, Unsynced { file, calls, seal, .. }) in volumes.iter_mut().enumerate() {
        let (done, file, seal) = (done.clone(), Arc::clone(file), std::mem::take(seal));
        let sync = move || _ = done.send((index, seal.make_durable(&file)));
        if !calls.run(Box::new(sync)) {
            ends[index] = Some(Err("no thread can be started for it".to_owned()));
        }
    }
    loop {
        let must_wait = volumes.iter().zip(&ends).any(|(volume, end)| end.is_none() && volume.abandoned == 0);
        let left = if must_wait { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        let Ok((index, result)) = results.recv_timeout(left) else { break };
        ends[index] = Some(result.map_err(|error| error.to_string()));
    }
    for (volume, end) in volumes.iter().zip(ends) {
        let why = match (end, volume.damage) {
            (Some(Ok(())), None) => continue,
            (Some(Ok(())), Some(damage)) => {
                format!("answered writes may be lost, because {}", damage.text())
            }
            (Some(Err(error)), _) => format!("the last fsync failed: {error}"),
            (None, _) => "the last fsync did not end".to_owned(),
        };
        report.failed_syncs += 1;
        report.losses.push(format!("{}: {why}", volume.name));
    }
}
