//! The worker processes of a run: starts them, exchanges messages with them, and ends them with the
//! run, however the run ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use hoistway_experiment::RunError;

use crate::message::{FromHost, FromWorker, Order, send};

/// A worker opens a device and makes a ring; if this takes longer, it has failed.
const START_TIMEOUT: Duration = Duration::from_secs(30);

struct Worker {
    child: Child,
    pipe: Option<ChildStdin>,
}

/// All workers, in the order of the experiment's threads.
pub struct Workers {
    workers: Vec<Worker>,
    inbox: Receiver<(usize, FromWorker)>,
    senders: Sender<(usize, FromWorker)>,
}

impl Workers {
    /// Starts one worker per order and waits until all are ready. `program` makes the command that
    /// calls [`crate::worker::work`].
    ///
    /// # Errors
    /// The error of a worker, or that one sends none and does not get ready.
    pub fn start(
        orders: &[Order],
        program: &dyn Fn() -> Command,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, RunError> {
        let (senders, inbox) = mpsc::channel();
        let mut workers = Self { workers: Vec::new(), inbox, senders };
        for order in orders {
            workers.start_worker(order, program())?;
        }
        let begin = Instant::now();
        let mut ready = 0;
        while ready < orders.len() {
            match workers.receive(Duration::from_millis(100))? {
                Some((_, FromWorker::Ready)) => ready += 1,
                Some(_) => {}
                None if is_cancelled() => return Err(RunError::Cancelled),
                None if begin.elapsed() > START_TIMEOUT => {
                    let message =
                        format!("{} of {} workers are not ready after 30 s", orders.len() - ready, orders.len());
                    return Err(RunError::Failed { message, source: None });
                }
                None => {}
            }
        }
        Ok(workers)
    }

    fn start_worker(&mut self, order: &Order, mut command: Command) -> Result<(), RunError> {
        let failed = |error| RunError::Failed { message: "cannot start a worker".to_owned(), source: Some(error) };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (pipe, stdout) = (child.stdin.take(), child.stdout.take());
        let index = self.workers.len();
        self.workers.push(Worker { child, pipe });
        if let Some(stdout) = stdout {
            let sender = self.senders.clone();
            std::thread::spawn(move || listen(index, BufReader::new(stdout), &sender));
        }
        let worker = &mut self.workers[index];
        worker.pipe.as_mut().map_or(Ok(()), |pipe| send(pipe, order)).map_err(failed)
    }

    /// Sends a message to one worker. If the worker has ended, [`Workers::receive`] reports it.
    pub fn send(&mut self, worker: usize, message: FromHost) {
        if let Some(pipe) = self.workers.get_mut(worker).and_then(|worker| worker.pipe.as_mut()) {
            let _ = send(pipe, &message);
        }
    }

    /// Sends a message to all workers.
    pub fn send_all(&mut self, message: FromHost) {
        (0..self.workers.len()).for_each(|worker| self.send(worker, message));
    }

    /// The next message, if one arrives in time.
    ///
    /// # Errors
    /// A worker has failed or ended.
    pub fn receive(&self, timeout: Duration) -> Result<Option<(usize, FromWorker)>, RunError> {
        match self.inbox.recv_timeout(timeout) {
            Ok((worker, FromWorker::Failed(why))) => {
                Err(RunError::Failed { message: format!("worker {worker}: {why}"), source: None })
            }
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

/// Passes on a worker's lines; its end is a failure unless it has sent its figures before.
fn listen(index: usize, lines: BufReader<std::process::ChildStdout>, sender: &Sender<(usize, FromWorker)>) {
    let mut has_reported = false;
    for line in lines.lines().map_while(Result::ok) {
        let message = serde_json::from_str(&line)
            .unwrap_or_else(|error| FromWorker::Failed(format!("its message cannot be parsed: {error}")));
        has_reported |= matches!(message, FromWorker::Figures(_) | FromWorker::Failed(_));
        if sender.send((index, message)).is_err() {
            return;
        }
    }
    if !has_reported {
        // The run may be over and the receiver gone.
        let _ = sender.send((index, FromWorker::Failed("it ended without its figures".to_owned())));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // The end of the pipe ends the worker; one that hangs in the kernel is killed.
            drop(worker.pipe.take());
        }
        for worker in &mut self.workers {
            let begin = Instant::now();
            while matches!(worker.child.try_wait(), Ok(None)) {
                if begin.elapsed() > Duration::from_millis(500) {
                    let _ = worker.child.kill();
                    let _ = worker.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
