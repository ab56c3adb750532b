//! How other threads reach a worker: jobs that run on its thread. Used for control only.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hoistway_linux::event::Event;

use super::{Locked, Worker};

/// The most jobs that may wait; more means that the worker is stuck.
const MAX_JOBS: usize = 4_096;

pub(crate) type Job = Box<dyn FnOnce(&mut Worker, &mut Locked<'_>) + Send>;

struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

/// A queue of jobs with an event that wakes the worker.
pub(crate) struct Mailbox {
    jobs: Mutex<Jobs>,
    pub event: Event,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let jobs = Mutex::new(Jobs { waiting: VecDeque::new(), is_closed: false });
        Ok(Self { jobs, event: Event::new()? })
    }

    /// Posts a job. False when the worker has stopped or the queue is full.
    pub fn post(&self, job: Job) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_closed || jobs.waiting.len() >= MAX_JOBS {
            return false;
        }
        jobs.waiting.push_back(job);
        // The event is signalled under the lock: the reader clears it before it empties the box, so
        // no signal is lost.
        self.event.signal();
        true
    }

    /// Posts the result of something that the worker has started, which is never refused: their number is bounded by
    /// what may be in flight.
    pub fn post_result(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if !jobs.is_closed {
            jobs.waiting.push_back(job);
            self.event.signal();
        }
    }

    /// Takes all waiting jobs, oldest first.
    pub fn take_all(&self) -> VecDeque<Job> {
        std::mem::take(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }

    /// Whether the worker has stopped.
    pub fn is_closed(&self) -> bool {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).is_closed
    }

    /// Closes the mailbox: waiting jobs are dropped, which wakes the threads that wait for their
    /// answers.
    pub fn close(&self) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.is_closed = true;
        jobs.waiting.clear();
    }
}
