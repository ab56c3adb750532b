//! Converts the file system's requests to commands of the model, and back. It never waits: the
//! caller keeps the time.

use std::collections::VecDeque;
use std::io;

use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, SECTOR_BYTES, Status};
use hoistway_device::{AnyDevice, Command, Completion, Device, Submit};
use hoistway_linux::fuse::{Request, Session, Unique};

use crate::lateness::Lateness;
use crate::store::Store;

/// The action after the model has completed a command.
#[derive(Copy, Clone, Debug)]
enum Reply {
    Data { offset_bytes: u64, length_bytes: u32 },
    Written { length_bytes: u32 },
    Done,
}

#[derive(Copy, Clone, Debug)]
struct Job {
    unique: Unique,
    reply: Reply,
    operation: Operation,
    extent: Extent,
}

/// The model with its commands in flight.
pub(crate) struct Service {
    device: AnyDevice,
    hardware_queues: u16,
    has_cache: bool,
    /// Commands in service, by tag.
    in_service: Vec<Option<Job>>,
    free_tags: Vec<u32>,
    /// Requests that have arrived while the model is full, in FIFO order.
    waiting: VecDeque<Job>,
    store: Store,
    completions: Vec<Completion>,
    pub lateness: Lateness,
    /// The most commands in service at a time, and arrived at a time.
    pub most_in_service: usize,
    pub most_arrived: usize,
}

impl Service {
    pub fn new(device: AnyDevice, store: Store) -> Self {
        let info = device.info();
        let (depth, hardware_queues, has_cache) =
            (info.total_depth(), info.hardware_queues.max(1), info.volatile_cache);
        let tags = u32::try_from(depth).unwrap_or(u32::MAX);
        Self {
            device,
            hardware_queues,
            has_cache,
            in_service: vec![None; depth],
            free_tags: (0..tags).rev().collect(),
            waiting: VecDeque::new(),
            store,
            completions: Vec::new(),
            lateness: Lateness::default(),
            most_in_service: 0,
            most_arrived: 0,
        }
    }

    /// When [`Service::advance`] must be called next; `Nanos::MAX` if it need not be.
    pub fn next_event(&self) -> Nanos {
        self.device.next_event()
    }

    pub fn is_idle(&self) -> bool {
        self.free_tags.len() == self.in_service.len() && self.waiting.is_empty()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes()
    }

    /// Takes a new request. Written data is stored at once, so a read that is answered before the
    /// write may return it.
    pub fn arrived(&mut self, session: &Session, request: Request<'_>, now: Nanos) -> io::Result<()> {
        let job = match request {
            Request::Read { unique, offset_bytes, length_bytes } => Job {
                unique,
                reply: Reply::Data { offset_bytes, length_bytes },
                operation: Operation::Read,
                extent: extent(offset_bytes, u64::from(length_bytes)),
            },
            Request::Write { unique, offset_bytes, data } => {
                if self.store.write(offset_bytes, data).is_err() {
                    return session.reply_error(unique, ENOSPC);
                }
                let length_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let extent = extent(offset_bytes, data.len() as u64);
                Job { unique, reply: Reply::Written { length_bytes }, operation: Operation::Write, extent }
            }
            // Without a cache nothing can be lost, so there is nothing to wait for.
            Request::Sync { unique } if !self.has_cache => return session.reply_done(unique),
            Request::Sync { unique } => {
                Job { unique, reply: Reply::Done, operation: Operation::Flush, extent: Extent::new(0, 0) }
            }
            Request::Zero { unique, offset_bytes, length_bytes, is_discard } => {
                self.store.zero(offset_bytes, length_bytes);
                let operation = if is_discard { Operation::Discard } else { Operation::WriteZeroes };
                Job { unique, reply: Reply::Done, operation, extent: extent(offset_bytes, length_bytes) }
            }
        };
        self.waiting.push_back(job);
        self.submit_waiting(now);
        let in_service = self.in_service.len() - self.free_tags.len();
        self.most_in_service = self.most_in_service.max(in_service);
        self.most_arrived = self.most_arrived.max(in_service + self.waiting.len());
        Ok(())
    }

    fn submit_waiting(&mut self, now: Nanos) {
        while let (Some(job), Some(&tag)) = (self.waiting.front(), self.free_tags.last()) {
            // Tags are spread evenly, so that no queue ever gets more than its depth.
            let queue = u16::try_from(tag % u32::from(self.hardware_queues)).unwrap_or(0);
            let command = Command {
                tag,
                operation: job.operation,
                flags: Flags::NONE,
                extent: job.extent,
                hardware_queue: HardwareQueue(queue),
            };
            if self.device.submit(now, &command) == Submit::Busy {
                return;
            }
            self.free_tags.pop();
            self.in_service[tag as usize] = self.waiting.pop_front();
        }
    }

    /// Advances the model to `now` and answers completed requests.
    pub fn advance(&mut self, session: &Session, now: Nanos) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let Some(job) = self.in_service[completion.tag as usize].take() else { continue };
            self.free_tags.push(completion.tag);
            self.answer(session, job, completion.status)?;
            let answered_ns = hoistway_linux::thread::monotonic_ns();
            self.lateness.add(answered_ns.saturating_sub(completion.at_ns));
        }
        self.completions = completions;
        self.submit_waiting(now);
        Ok(())
    }

    fn answer(&self, session: &Session, job: Job, status: Status) -> io::Result<()> {
        if status != Status::Ok {
            return session.reply_error(job.unique, errno(status));
        }
        match job.reply {
            Reply::Data { offset_bytes, length_bytes } => {
                let mut pieces: [&[u8]; hoistway_linux::fuse::MAX_PIECES] = [&[]; hoistway_linux::fuse::MAX_PIECES];
                let mut count = 0;
                for (to, piece) in pieces.iter_mut().zip(self.store.read(offset_bytes, length_bytes)) {
                    *to = piece;
                    count += 1;
                }
                session.reply_data(job.unique, &pieces[..count])
            }
            Reply::Written { length_bytes } => session.reply_written(job.unique, length_bytes),
            Reply::Done => session.reply_done(job.unique),
        }
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn errno(status: Status) -> i32 {
    match status {
        Status::Ok | Status::IoError => EIO,
        Status::NoSpace => ENOSPC,
        Status::NotSupported => 95,
        Status::Invalid => 22,
        Status::NotPermitted => 1,
        Status::Timeout => 110,
    }
}

fn extent(offset_bytes: u64, length_bytes: u64) -> Extent {
    let sectors = length_bytes.div_ceil(SECTOR_BYTES);
    Extent::new(offset_bytes / SECTOR_BYTES, u32::try_from(sectors).unwrap_or(u32::MAX))
}
