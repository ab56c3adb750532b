//! A wake-up between threads: an eventfd.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

/// Something that can be signalled from any thread and polled by a ring.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A new event, not signalled.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Signals it. Many signals before the next [`Event::clear`] count as one.
    pub fn signal(&self) {
        // The only refusal is a counter at its maximum, which is a signal as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Clears the signal; returns whether there was one.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0_u8; 8]).is_ok()
    }

    /// A second descriptor of the same event, for a ring.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}
