//! How other threads reach a shard: jobs that run on its thread. Control traffic only.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use linux::event::Event;

use super::Shard;

/// Jobs that may wait; more means that the shard is stuck.
const MAX_JOBS: usize = 4_096;

pub(crate) type Job = Box<dyn FnOnce(&mut Shard) + Send>;

struct Jobs {
    waiting: VecDeque<Job>,
    is_closed: bool,
}

/// A queue of jobs with a bell.
pub(crate) struct Mailbox {
    jobs: Mutex<Jobs>,
    pub event: Event,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let jobs = Mutex::new(Jobs { waiting: VecDeque::new(), is_closed: false });
        Ok(Self { jobs, event: Event::new()? })
    }

    /// Leaves a job. False when the shard has stopped or takes no more.
    pub fn post(&self, job: Job) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_closed || jobs.waiting.len() >= MAX_JOBS {
            return false;
        }
        jobs.waiting.push_back(job);
        // The bell rings under the lock: whoever empties the box clears it first, so no ring is lost.
        self.event.signal();
        true
    }

    /// All jobs that wait now, oldest first.
    pub fn take_all(&self) -> VecDeque<Job> {
        std::mem::take(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }

    /// The shard is gone: waiting jobs are dropped, so that nobody waits for their answers.
    pub fn close(&self) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.is_closed = true;
        jobs.waiting.clear();
    }
}
