//! Reports TLS clients that failed, without a line for each: anyone can cause them.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use linux::output::error_line;

use crate::configuration::Address;
use crate::server::peer::Peer;

/// The shortest time between two reports of a listener.
const INTERVAL: Duration = Duration::from_secs(60);

/// The failures of one listener.
#[derive(Default)]
pub struct Failures {
    /// Those that were not reported.
    count: Cell<u64>,
    reported_at: Cell<Option<Instant>>,
}

impl Failures {
    /// Tells the operator about the first, and then at most once a minute, because anyone can cause them.
    pub fn report(&self, peer: &Peer, address: &Address, error: &io::Error) {
        let now = Instant::now();
        if self.reported_at.get().is_some_and(|at| at + INTERVAL > now) {
            self.count.set(self.count.get() + 1);
            return;
        }
        self.reported_at.set(Some(now));
        let more = match self.count.take() {
            0 => String::new(),
            count => format!(" ({count} more failed before)"),
        };
        let peer = peer.name();
        error_line(format_args!("hoistway: warning: TLS of client {peer} at {address} failed: {error}{more}"));
    }
}
