//! The client for other threads of this process: submit, do something else, wait.
//!
//! Requests travel through the shard's mailbox, so each costs a hand-over between threads. Load
//! generators that must avoid this cost run on the shard's thread instead ([`crate::LocalClient`]).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crate::error::EngineError;
use crate::protocol::{Command, Failure};
use crate::shard::{Answer, ClientContext, Data, LocalClient, LocalClientId, LocalRequest, Payload};
use crate::volume::ShardHandle;

/// The result of a request: the data of a read (else empty), or the failure.
type Outcome = Result<Vec<u8>, Failure>;

/// A request on its way to the shard.
struct QueuedRequest {
    request: LocalRequest,
    data: Vec<u8>,
    answer: mpsc::Sender<Outcome>,
}

#[derive(Default)]
pub(crate) struct ClientQueue {
    waiting: VecDeque<QueuedRequest>,
    next_cookie: u64,
    /// The client has been dropped.
    is_dropped: bool,
    /// The shard has stopped: requests are no longer taken.
    is_closed: bool,
}

/// A client of one volume, usable from any thread. Its requests are those of one context of its
/// group.
pub struct Client {
    shard: ShardHandle,
    number: LocalClientId,
    queue: Arc<Mutex<ClientQueue>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A request that was submitted and will be answered.
#[derive(Debug)]
pub struct Ticket {
    answer: mpsc::Receiver<Outcome>,
}

/// Why a client's request failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The volume refused or failed the request.
    Failed(Failure),
    /// The engine has stopped.
    Stopped,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Failed(failure) => write!(f, "the volume answered: {failure:?}"),
            ClientError::Stopped => write!(f, "{}", EngineError::stopped().message),
        }
    }
}

impl std::error::Error for ClientError {}

impl Ticket {
    /// Waits for the answer and returns the data of a read.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn wait(self) -> Result<Vec<u8>, ClientError> {
        self.answer.recv().map_err(|_| ClientError::Stopped)?.map_err(ClientError::Failed)
    }
}

impl Client {
    pub(crate) fn new(shard: ShardHandle, number: LocalClientId, queue: Arc<Mutex<ClientQueue>>) -> Self {
        Self { shard, number, queue }
    }

    /// Submits a request without waiting. `data` is used by a write only, which fails as invalid where it has
    /// fewer bytes than the request.
    pub fn submit(
        &self,
        command: Command,
        offset_bytes: u64,
        length_bytes: u64,
        is_durable: bool,
        data: Vec<u8>,
    ) -> Ticket {
        let (answer, ticket) = mpsc::channel();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let cookie = queue.next_cookie;
        queue.next_cookie += 1;
        let request = LocalRequest {
            cookie,
            command,
            offset_bytes,
            length_bytes,
            is_durable,
            keeps_space: false,
            actor: 0,
            is_held: false,
        };
        if !queue.is_closed {
            queue.waiting.push_back(QueuedRequest { request, data, answer });
        }
        let must_wake = queue.waiting.len() == 1;
        drop(queue);
        if must_wake {
            self.shard.wake(self.number);
        }
        Ticket { answer: ticket }
    }

    /// Reads.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn read(&self, offset_bytes: u64, length_bytes: u64) -> Result<Vec<u8>, ClientError> {
        self.submit(Command::Read, offset_bytes, length_bytes, false, Vec::new()).wait()
    }

    /// Writes; durable after the next flush.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<(), ClientError> {
        self.submit(Command::Write, offset_bytes, data.len() as u64, false, data.to_vec()).wait().map(drop)
    }

    /// Makes all writes durable that were answered before.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn flush(&self) -> Result<(), ClientError> {
        self.submit(Command::Flush, 0, 0, false, Vec::new()).wait().map(drop)
    }

    /// Makes a range read as zero.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn write_zeroes(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), ClientError> {
        self.submit(Command::WriteZeroes, offset_bytes, length_bytes, false, Vec::new()).wait().map(drop)
    }

    /// Says that a range is no longer needed.
    ///
    /// # Errors
    /// The volume's error, or that the engine has stopped.
    pub fn trim(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), ClientError> {
        self.submit(Command::Trim, offset_bytes, length_bytes, false, Vec::new()).wait().map(drop)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_dropped = true;
        self.shard.wake(self.number);
    }
}

/// Takes the client's requests from the queue, on the shard's thread.
#[derive(Default)]
pub(crate) struct QueueServer {
    queue: Arc<Mutex<ClientQueue>>,
    open: HashMap<u64, QueuedRequest>,
}

impl QueueServer {
    pub fn queue(&self) -> Arc<Mutex<ClientQueue>> {
        Arc::clone(&self.queue)
    }
}

impl LocalClient for QueueServer {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        while context.has_room(0) {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(mut queued) = queue.waiting.pop_front() else {
                if queue.is_dropped && self.open.is_empty() {
                    context.close();
                }
                return;
            };
            drop(queue);
            let (request, data) = (queued.request, std::mem::take(&mut queued.data));
            if request.command == Command::Read {
                queued.data = vec![0; usize::try_from(request.length_bytes).unwrap_or(0)];
            }
            context.submit(0, request, &mut |offset_bytes, mut to| put(&data, offset_bytes, &mut to));
            if request.command == Command::Write {
                // The shard may not have had memory for all of the data; it then requests the rest
                // by `fill`.
                queued.data = data;
            }
            self.open.insert(request.cookie, queued);
        }
    }

    fn fill(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, mut to: Payload<'_>) -> Result<(), Failure> {
        let queued = self.open.get(&cookie).ok_or(Failure::Io)?;
        put(&queued.data, offset_bytes, &mut to)
    }

    fn data(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, from: Data<'_>) -> Result<(), Failure> {
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let place = self.open.get_mut(&cookie).and_then(|queued| queued.data.get_mut(start..));
        let copied = place.map_or(0, |place| from.copy_to(place));
        if copied == from.bytes() as usize { Ok(()) } else { Err(Failure::Io) }
    }

    fn answered(&mut self, answer: Answer) {
        let Some(queued) = self.open.remove(&answer.cookie) else { return };
        let data = if queued.request.command == Command::Read { queued.data } else { Vec::new() };
        // The ticket may have been dropped; then the answer is not needed.
        let _ = queued.answer.send(answer.result.map(|()| data));
    }

    fn abandoned(&mut self) {
        self.open.clear();
    }
}

impl Drop for QueueServer {
    /// Wakes every waiting client, because no answer will come, however the shard ends.
    fn drop(&mut self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_closed = true;
        queue.waiting.clear();
    }
}

fn put(data: &[u8], offset_bytes: u64, to: &mut Payload<'_>) -> Result<(), Failure> {
    let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
    let bytes = data.get(start..).and_then(|rest| rest.get(..to.bytes() as usize)).ok_or(Failure::Invalid)?;
    to.put(0, bytes);
    Ok(())
}
