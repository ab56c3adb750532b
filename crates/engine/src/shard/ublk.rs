//! A queue of a ublk device as a client on a worker's thread. Each queue of a device is on a worker of its own while
//! there are enough workers.
//!
//! ```text
//! every queue attached ─► fetch ─► completed 0 ─► request waits ─► engine ─► answer ─► fetch with result ─► ...
//!                └► one could not be: all close        └► completed < 0: the device stops; when the last tag of the
//!                                                          queue has returned, the client closes
//! ```
//! The data of a request is moved in one of three ways:
//! 1. Its memory is in the ring's table of buffers, and the backing is read into it and written from it.
//! 2. The character device is read and written, where the first way is not possible. These calls copy memory and do
//!    not block.
//! 3. Each tag has a buffer in the arena, and the kernel copies the data to and from it.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hoistway_block::Priority;
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::{FileId, RequestBuffer, UblkData, UblkTag};
use hoistway_linux::ublk::{Queue, Request, commit_result, feature};

use super::shared::Core;
use super::{Answer, ClientContext, Data, LocalClient, LocalClientId, Payload, Worker};
use crate::error::EngineError;
use crate::protocol::{Failure, ublk};
use crate::turn::ConnectionBounds;
use crate::volume::{GroupHandle, LocalConnection, VolumeId};

const EOPNOTSUPP: i32 = 95;

/// A ublk device to be served, with its queues open.
pub struct UblkDevice {
    /// Its queues.
    pub queues: Vec<Queue>,
    /// The driver's features that it was made with.
    pub features: u64,
    /// The longest request, in bytes.
    pub max_io_bytes: u32,
    /// Its node, for status.
    pub label: String,
    /// Called on a thread of the shard when every tag has returned. Must not block.
    pub on_closed: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl std::fmt::Debug for UblkDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UblkDevice").field("label", &self.label).finish_non_exhaustive()
    }
}

/// What the queues of a device share.
pub(crate) struct UblkShared {
    features: u64,
    max_io_bytes: u32,
    label: String,
    on_closed: Option<Box<dyn FnOnce() + Send + Sync>>,
    /// A [`Stage`].
    stage: AtomicU8,
}

/// How far a device is. The command that starts it waits until every tag of every queue was fetched, and
/// would wait for ever for a queue that could not be attached, so none is fetched before all are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Queues are being attached.
    Attaching,
    /// Requests may be fetched.
    Serving,
    /// A queue could not be attached.
    Abandoned,
}

impl UblkShared {
    /// A device without its queues.
    pub fn new(device: UblkDevice) -> (Arc<Self>, Vec<Queue>) {
        let UblkDevice { queues, features, max_io_bytes, label, on_closed } = device;
        let stage = AtomicU8::new(Stage::Attaching as u8);
        (Arc::new(Self { features, max_io_bytes, label, on_closed, stage }), queues)
    }

    /// The caller wakes the clients of the queues afterwards.
    pub fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    fn is_at(&self, stage: Stage) -> bool {
        self.stage.load(Ordering::Acquire) == stage as u8
    }
}

impl Drop for UblkShared {
    fn drop(&mut self) {
        if let Some(on_closed) = self.on_closed.take() {
            on_closed();
        }
    }
}

struct UblkClient {
    queue: Queue,
    /// The device in the ring.
    file: FileId,
    has_begun: bool,
    /// One per tag where the kernel copies into buffers.
    buffers: Vec<Slot>,
    /// One per tag where the kernel registers the memory of requests.
    registered: Vec<RequestBuffer>,
    /// Whether the volume can use that memory.
    is_direct: bool,
    /// Tags that have not returned because the device stops.
    open_tags: u16,
    /// Requests that were not submitted yet.
    waiting: VecDeque<u16>,
    /// Answers that were not committed yet.
    answers: Vec<(u16, Option<i32>)>,
    /// Dropped last: nothing is left of the queue then.
    device: Arc<UblkShared>,
}

impl UblkClient {
    fn buffer(&self, tag: u16) -> Option<Span> {
        self.buffers.get(usize::from(tag)).map(|slot| Span::of(*slot, 0, slot.bytes()))
    }

    fn fetch(&self, tag: u16, result: Option<i32>, context: &mut ClientContext<'_>) {
        let of_ring = UblkTag { file: self.file, queue: self.queue.number(), tag };
        let registered = self.registered.get(usize::from(tag)).copied().map(UblkData::Registered);
        let data = registered.or(self.buffer(tag).map(UblkData::In)).unwrap_or(UblkData::InFile);
        context.fetch(of_ring, result, data);
    }

    /// The memory of a request's data, if the volume can use it.
    fn memory(&self, tag: u16, request: &Request) -> Option<Span> {
        let buffer = self.registered.get(usize::from(tag)).filter(|_| self.is_direct)?;
        let length_bytes = u32::try_from(request.length_bytes).ok()?;
        request.has_registered_memory().then(|| buffer.span(length_bytes))
    }

    fn begin(&mut self, context: &mut ClientContext<'_>) {
        self.has_begun = true;
        for tag in 0..self.open_tags {
            self.fetch(tag, None, context);
        }
    }

    fn end(&mut self, context: &mut ClientContext<'_>) {
        context.remove_file(self.file);
        context.give_request_buffers(self.registered.drain(..));
        self.buffers.drain(..).for_each(|slot| context.give_memory(slot));
        context.close();
    }
}

impl LocalClient for UblkClient {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        if self.open_tags == 0 || self.device.is_at(Stage::Abandoned) {
            return self.end(context);
        }
        if !self.has_begun {
            if self.device.is_at(Stage::Serving) {
                self.begin(context);
            }
            return;
        }
        let mut answers = std::mem::take(&mut self.answers);
        for (tag, errno) in answers.drain(..) {
            let result = commit_result(&self.queue.request(tag), errno);
            self.fetch(tag, Some(result), context);
        }
        self.answers = answers;
        while context.has_room(0) {
            let Some(tag) = self.waiting.pop_front() else { break };
            let asked = self.queue.request(tag);
            let Some(request) = ublk::translate(tag, &asked) else {
                let result = commit_result(&asked, Some(EOPNOTSUPP));
                self.fetch(tag, Some(result), context);
                continue;
            };
            let memory = self.memory(tag, &asked);
            let mut fill = |offset_bytes, to: Payload<'_>| self.fill(0, u64::from(tag), offset_bytes, to);
            match memory {
                Some(span) => context.submit_direct(0, request, &[span], &mut fill),
                None => context.submit(0, request, &mut fill),
            };
        }
    }

    fn fill(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, mut to: Payload<'_>) -> Result<(), Failure> {
        let tag = u16::try_from(cookie).unwrap_or(u16::MAX);
        let is_filled = match self.buffer(tag) {
            Some(buffer) => to.copy_from(buffer.behind(u32::try_from(offset_bytes).unwrap_or(u32::MAX))),
            None => {
                let position_bytes = self.queue.data_position_bytes(tag) + offset_bytes;
                to.read_from(self.queue.file().as_fd(), position_bytes).is_ok()
            }
        };
        if is_filled { Ok(()) } else { Err(Failure::Io) }
    }

    fn data(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, from: Data<'_>) -> Result<(), Failure> {
        let tag = u16::try_from(cookie).unwrap_or(u16::MAX);
        let is_taken = match self.buffer(tag) {
            Some(buffer) => from.copy_within(buffer.behind(u32::try_from(offset_bytes).unwrap_or(u32::MAX))),
            None => {
                let position_bytes = self.queue.data_position_bytes(tag) + offset_bytes;
                from.write_to(self.queue.file().as_fd(), position_bytes).is_ok()
            }
        };
        if is_taken { Ok(()) } else { Err(Failure::Io) }
    }

    fn answered(&mut self, answer: Answer) {
        let tag = u16::try_from(answer.cookie).unwrap_or(u16::MAX);
        match answer.result {
            Err(Failure::Shutdown) => {}
            Ok(()) => self.answers.push((tag, None)),
            Err(failure) => self.answers.push((tag, ublk::errno(failure))),
        }
    }

    fn command_completed(&mut self, tag: u16, result: i32) {
        if result == 0 {
            self.waiting.push_back(tag);
        } else {
            self.open_tags -= 1;
        }
    }

    fn label(&self) -> Option<&str> {
        Some(&self.device.label)
    }
}

impl Worker {
    /// Attaches a queue of a ublk device, as one connection. Returns its client, and a note if the thread could
    /// not be protected under memory pressure: it might then wait for memory that is freed only by writes
    /// to this device, which it serves itself.
    pub fn attach_ublk_queue(
        &mut self,
        core: &mut Core,
        device: Arc<UblkShared>,
        queue: Queue,
        (volume, group): (VolumeId, GroupHandle),
    ) -> Result<(LocalClientId, Option<String>), EngineError> {
        let protection = hoistway_linux::ublk::protect_thread_from_reclaim();
        let label = device.label.clone();
        let tags = queue.tags();
        let file = queue.duplicate().and_then(|file| self.ring.add_ublk_queue(file));
        let file =
            file.map_err(|error| EngineError::system(format!("{label}: {error}"), "raise the limit of open files"))?;
        let mut registered = Vec::new();
        if device.has(feature::AUTO_BUFFERS) {
            registered = self.ring.take_request_buffers(tags);
            registered.resize(usize::from(tags), RequestBuffer::NONE);
        }
        let mut buffers = Vec::new();
        if !device.has(feature::USER_COPY) {
            buffers.extend((0..tags).map_while(|_| core.turn.take_memory(device.max_io_bytes)));
            if buffers.len() < usize::from(tags) {
                let message = format!("{label}: no memory for {tags} buffers of {} KiB", device.max_io_bytes >> 10);
                self.ring.give_request_buffers(registered.into_iter());
                self.give_back(core, file, buffers);
                return Err(EngineError::usage(message, "raise the device's memory"));
            }
        }
        // The block layer bounds the requests by the tags, so the engine need not.
        let bounds = ConnectionBounds { requests: u32::from(tags), bytes: u64::MAX / 2, ..ConnectionBounds::default() };
        let connection = LocalConnection { volume, group, bounds, priority: Priority::NONE };
        let client = UblkClient {
            queue,
            file,
            has_begun: false,
            buffers,
            is_direct: core.takes_request_memory(volume.0),
            registered,
            open_tags: tags,
            waiting: VecDeque::with_capacity(usize::from(tags)),
            answers: Vec::with_capacity(usize::from(tags)),
            device,
        };
        let (given, places) = (client.buffers.clone(), client.registered.clone());
        match self.add_local_client(core, Box::new(client), &[connection]) {
            Err(error) => {
                self.ring.give_request_buffers(places.into_iter());
                self.give_back(core, file, given);
                Err(error)
            }
            Ok(client) => Ok((
                client,
                protection.err().map(|error| {
                    let stalls = "the server may stall when the machine runs out of memory";
                    format!("{label}: {stalls} ({error}); run it as root")
                }),
            )),
        }
    }

    fn give_back(&mut self, core: &mut Core, file: FileId, buffers: Vec<Slot>) {
        self.ring.remove_file(file);
        buffers.into_iter().for_each(|slot| core.turn.give_memory(slot));
    }
}
