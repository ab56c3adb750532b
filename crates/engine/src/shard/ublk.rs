//! A ublk device's queue as a client on the shard's thread.
//!
//! ```text
//! fetch ─► completed 0 ─► request waits ─► engine ─► answer ─► commit_and_fetch ─► ...
//!       └► completed < 0: the device stops; when the last tag has returned, the client closes
//! ```
//! Where the kernel offers user copy, data is moved by reading and writing the character device;
//! these calls copy memory and do not block. Otherwise each tag has a buffer in the arena.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use hoistway_block::Priority;
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::FileId;
use hoistway_linux::ublk::{Queue, commit_result};

use super::shared::Core;
use super::{Answer, ClientContext, Data, LocalClient, Payload, Worker};
use crate::error::EngineError;
use crate::protocol::{Failure, ublk};
use crate::turn::ConnectionBounds;
use crate::volume::LocalConnection;

const EOPNOTSUPP: i32 = 95;

/// A ublk device to be served, with its queue open.
pub struct UblkDevice {
    /// Its queue.
    pub queue: Queue,
    /// Whether data is read from and written to the character device.
    pub has_user_copy: bool,
    /// The longest request, in bytes.
    pub max_io_bytes: u32,
    /// Its node, for status.
    pub label: String,
    /// Called on the shard's thread when every tag has returned. Must not block.
    pub on_closed: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for UblkDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UblkDevice").field("label", &self.label).finish_non_exhaustive()
    }
}

struct UblkClient {
    device: UblkDevice,
    /// The queue in the ring.
    file: FileId,
    has_begun: bool,
    /// One per tag where data is not copied by the character device.
    buffers: Vec<Slot>,
    /// Tags that have not returned because the device stops.
    open_tags: u16,
    /// Requests that were not submitted yet.
    waiting: VecDeque<u16>,
    /// Answers that were not committed yet.
    answers: Vec<(u16, Option<i32>)>,
}

impl UblkClient {
    fn buffer(&self, tag: u16) -> Option<Span> {
        self.buffers.get(usize::from(tag)).map(|slot| Span::of(*slot, 0, slot.bytes()))
    }

    fn begin(&mut self, context: &mut ClientContext<'_>) {
        self.has_begun = true;
        for tag in 0..self.open_tags {
            context.fetch(self.file, tag, None, self.buffer(tag));
        }
    }

    fn end(&mut self, context: &mut ClientContext<'_>) {
        context.remove_file(self.file);
        self.buffers.drain(..).for_each(|slot| context.give_memory(slot));
        context.close();
    }
}

impl LocalClient for UblkClient {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        if self.open_tags == 0 {
            return self.end(context);
        }
        if !self.has_begun {
            return self.begin(context);
        }
        let file = self.file;
        let mut answers = std::mem::take(&mut self.answers);
        for (tag, errno) in answers.drain(..) {
            let result = commit_result(&self.device.queue.request(tag), errno);
            context.fetch(file, tag, Some(result), self.buffer(tag));
        }
        self.answers = answers;
        while context.has_room(0) {
            let Some(tag) = self.waiting.pop_front() else { break };
            let request = self.device.queue.request(tag);
            let Some(request) = ublk::translate(tag, &request) else {
                let result = commit_result(&request, Some(EOPNOTSUPP));
                context.fetch(file, tag, Some(result), self.buffer(tag));
                continue;
            };
            context.submit(0, request, &mut |offset_bytes, to| self.fill(0, u64::from(tag), offset_bytes, to));
        }
    }

    fn fill(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, mut to: Payload<'_>) -> Result<(), Failure> {
        let tag = u16::try_from(cookie).unwrap_or(u16::MAX);
        let is_filled = match self.buffer(tag) {
            Some(buffer) => to.copy_from(buffer.behind(u32::try_from(offset_bytes).unwrap_or(u32::MAX))),
            None => {
                let position_bytes = Queue::data_position_bytes(tag) + offset_bytes;
                to.read_from(self.device.queue.file().as_fd(), position_bytes).is_ok()
            }
        };
        if is_filled { Ok(()) } else { Err(Failure::Io) }
    }

    fn data(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, from: Data<'_>) -> Result<(), Failure> {
        let tag = u16::try_from(cookie).unwrap_or(u16::MAX);
        let is_taken = match self.buffer(tag) {
            Some(buffer) => from.copy_within(buffer.behind(u32::try_from(offset_bytes).unwrap_or(u32::MAX))),
            None => {
                let position_bytes = Queue::data_position_bytes(tag) + offset_bytes;
                from.write_to(self.device.queue.file().as_fd(), position_bytes).is_ok()
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

impl Drop for UblkClient {
    fn drop(&mut self) {
        if let Some(on_closed) = self.device.on_closed.take() {
            on_closed();
        }
    }
}

impl Worker {
    /// Serves a ublk device from now on, as one connection. Returns a note if the thread could not be
    /// protected under memory pressure: it might then wait for memory that is freed only by writes
    /// to this device, which it serves itself.
    pub fn attach_ublk(
        &mut self,
        core: &mut Core,
        device: UblkDevice,
        volume: u32,
        group: u32,
    ) -> Result<Option<String>, EngineError> {
        let protection = hoistway_linux::ublk::protect_thread_from_reclaim();
        let label = device.label.clone();
        let tags = device.queue.tags();
        // The command that starts the device waits until every tag is fetched, and would wait for
        // ever after a failure here. So everything that can fail is done before the first fetch.
        let file = device.queue.duplicate().and_then(|file| self.ring.add_ublk_queue(file));
        let file =
            file.map_err(|error| EngineError::system(format!("{label}: {error}"), "raise the limit of open files"))?;
        let mut buffers = Vec::new();
        if !device.has_user_copy {
            buffers.extend((0..tags).map_while(|_| core.turn.take_memory(device.max_io_bytes)));
            if buffers.len() < usize::from(tags) {
                let message = format!("{label}: no memory for {tags} buffers of {} KiB", device.max_io_bytes >> 10);
                self.give_back(core, file, buffers);
                return Err(EngineError::usage(message, "raise the device's memory"));
            }
        }
        // The block layer bounds the requests by the tags, so the engine need not.
        let bounds = ConnectionBounds { requests: u32::from(tags), bytes: u64::MAX / 2, ..ConnectionBounds::default() };
        let connection = LocalConnection {
            volume: crate::volume::VolumeId(volume),
            group: crate::volume::GroupHandle(group),
            bounds,
            priority: Priority::NONE,
        };
        let client = UblkClient {
            device,
            file,
            has_begun: false,
            buffers,
            open_tags: tags,
            waiting: VecDeque::with_capacity(usize::from(tags)),
            answers: Vec::with_capacity(usize::from(tags)),
        };
        let given = client.buffers.clone();
        if let Err(error) = self.add_local_client(core, Box::new(client), &[connection]) {
            self.give_back(core, file, given);
            return Err(error);
        }
        Ok(protection.err().map(|error| {
            format!("{label}: the server may stall when the machine runs out of memory ({error}); run it as root")
        }))
    }

    fn give_back(&mut self, core: &mut Core, file: FileId, buffers: Vec<Slot>) {
        self.ring.remove_file(file);
        buffers.into_iter().for_each(|slot| core.turn.give_memory(slot));
    }
}
