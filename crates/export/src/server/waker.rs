//! Wakes a handshake thread from other threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hoistway_linux::event::Event;

/// Wakes a handshake thread from other threads.
#[derive(Debug)]
pub struct Waker {
    pub(super) event: Event,
    pub(super) stop: AtomicBool,
    /// Whether the thread accepts no more clients.
    pub(super) is_closed: AtomicBool,
}

impl Waker {
    /// A waker of a thread that accepts clients and has not been asked to stop.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: Event::new()?, stop: AtomicBool::new(false), is_closed: AtomicBool::new(false) })
    }

    /// Wakes the thread, because the state has changed.
    pub fn wake(&self) {
        self.event.signal();
    }

    /// Waits, for a second at most, until the thread accepts no more clients: one that is told to go must not
    /// reach this server again.
    pub fn await_closed(&self) {
        let start = Instant::now();
        while !self.is_closed.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the thread; open handshakes are closed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.event.signal();
    }
}
