//! How other threads ask a device: with a deadline, so that a device that does not answer delays
//! no caller for long.
//!
//! A job goes to worker 0. If that does not come to it, because it is stuck in the kernel, the one
//! who asks takes the job back and does it himself under the lock, which a worker in the kernel
//! does not hold. A job that needs the worker itself (files, sockets) is given up instead. So what
//! was answered with an error was not done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::{Core, Locked, Mailbox, Threads, Worker};
use crate::error::EngineError;

/// How long a device has for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long worker 0 has before the one who asks does it himself.
const WORKER_PATIENCE: Duration = Duration::from_secs(1);
/// How long to try for the lock of a device that is known not to answer.
const SHORT_TRY: Duration = Duration::from_millis(20);

/// What is known of a device that does not answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// Since when a worker has not come to its mailbox.
    since: Option<Instant>,
    /// The volume with the oldest I/O without an answer, when the device was last looked at.
    oldest_volume: Option<String>,
}

/// A job that can be taken back until it runs.
struct Asked<J, T> {
    job: Arc<Mutex<Option<J>>>,
    answer: mpsc::Receiver<T>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn post<J: Send + 'static, T: Send + 'static>(
    mailbox: &Mailbox,
    job: J,
    run: impl FnOnce(J, &mut Worker, &mut Locked<'_>) -> T + Send + 'static,
) -> Asked<J, T> {
    let job = Arc::new(Mutex::new(Some(job)));
    let (answer, is_answered) = mpsc::channel();
    let theirs = Arc::clone(&job);
    // A refusal drops the channel's other end, which is seen below.
    mailbox.post(Box::new(move |worker, core| {
        let job = lock(&theirs).take();
        if let Some(job) = job {
            let _ = answer.send(run(job, worker, core));
        }
    }));
    Asked { job, answer: is_answered }
}

impl Threads {
    /// Runs a job on the device's state and waits for its result.
    ///
    /// # Errors
    /// The device has stopped, or does not answer: then the job was not done.
    pub fn ask<T: Send + 'static>(&self, job: impl FnOnce(&mut Core) -> T + Send + 'static) -> Result<T, EngineError> {
        if self.silent_for().is_some() {
            return self.under_lock(Instant::now() + SHORT_TRY, job);
        }
        let asked = post(self.first(), job, |job, _, core| job(core));
        match asked.answer.recv_timeout(WORKER_PATIENCE) {
            Ok(answer) => return Ok(answer),
            Err(_) if self.first().is_closed() => return Err(EngineError::stopped()),
            Err(_) => {}
        }
        let job = lock(&asked.job).take();
        let Some(job) = job else { return self.last_wait(&asked.answer) };
        self.note_silence(self.first(), WORKER_PATIENCE);
        self.under_lock(Instant::now() + ANSWER_TIMEOUT.saturating_sub(WORKER_PATIENCE), job)
    }

    /// Runs a job on a worker and waits for its result.
    ///
    /// # Errors
    /// As [`Threads::ask`].
    pub fn ask_worker<T: Send + 'static>(
        &self,
        mailbox: &Mailbox,
        job: impl FnOnce(&mut Worker, &mut Locked<'_>) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let timeout = ANSWER_TIMEOUT.saturating_sub(self.silent_for().unwrap_or_default());
        if timeout.is_zero() {
            return Err(self.silent());
        }
        let asked = post(mailbox, job, |job, worker, core| job(worker, core));
        match asked.answer.recv_timeout(timeout) {
            Ok(answer) => return Ok(answer),
            Err(_) if mailbox.is_closed() => return Err(EngineError::stopped()),
            Err(_) => {}
        }
        // Taken back, so that it is not done later; with it go the files and sockets that it holds.
        if lock(&asked.job).take().is_none() {
            return self.last_wait(&asked.answer);
        }
        self.note_silence(mailbox, timeout);
        Err(self.silent())
    }

    /// Does a job on the calling thread.
    pub fn under_lock<T>(&self, until: Instant, job: impl FnOnce(&mut Core) -> T) -> Result<T, EngineError> {
        let Some(mut core) = self.shared().core.try_lock_until(until) else { return Err(self.silent()) };
        if core.running == 0 {
            return Err(EngineError::stopped());
        }
        let answer = job(&mut core);
        core.wake_all();
        Ok(answer)
    }

    /// The job runs just now.
    fn last_wait<T>(&self, answer: &mpsc::Receiver<T>) -> Result<T, EngineError> {
        answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| self.silent())
    }

    /// Notes that a worker has not come to its mailbox for a while. It ends that itself when it
    /// does.
    fn note_silence(&self, mailbox: &Mailbox, while_asked: Duration) {
        let mut silence = lock(self.silence());
        if silence.since.is_none() {
            silence.since = Instant::now().checked_sub(while_asked);
            let theirs = Arc::clone(self.silence());
            mailbox.post_result(Box::new(move |_, _| lock(&theirs).since = None));
        }
    }

    /// For how long the device has not answered; `None` while it does.
    pub fn silent_for(&self) -> Option<Duration> {
        lock(self.silence()).since.map(|since| since.elapsed())
    }

    /// Keeps the name of the volume with the oldest I/O, for a time when it cannot be looked at.
    pub fn note_oldest_volume(&self, name: Option<String>) {
        lock(self.silence()).oldest_volume = name;
    }

    /// The volume with the oldest I/O without an answer, as far as known.
    pub fn oldest_volume(&self) -> Option<String> {
        lock(self.silence()).oldest_volume.clone()
    }

    fn silent(&self) -> EngineError {
        let name = &self.shared().settings.name;
        let seconds = self.silent_for().unwrap_or(ANSWER_TIMEOUT).as_secs();
        let oldest = self.oldest_volume().map(|volume| format!("; its oldest I/O is of '{volume}'"));
        EngineError::system(
            format!("device '{name}' has not answered for {seconds} s{}", oldest.unwrap_or_default()),
            "nothing was changed on it; see what its backings wait for",
        )
    }
}
