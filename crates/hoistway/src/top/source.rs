//! The source of the figures: a server, a block device, or a measurement that is played.

use std::time::Duration;

use super::kernel::Kernel;
use super::look::{Interval, Look};
use super::played::Played;
use super::server::Server;
use crate::exit::Error;

/// A source of intervals.
#[derive(Debug)]
pub enum Source {
    /// A server, and its last sample.
    Server(Server, Look),
    /// A block device, and its last sample.
    Kernel(Kernel, Look),
    /// A measurement, and how many of its seconds are played per second.
    Played(Played, f64),
}

impl Source {
    /// A server.
    pub fn server(server: Server) -> Result<Self, Error> {
        let look = server.look()?;
        Ok(Self::Server(server, look))
    }

    /// A block device.
    pub fn kernel(kernel: Kernel) -> Result<Self, Error> {
        let look = kernel.look()?;
        Ok(Self::Kernel(kernel, look))
    }

    /// How long to wait for the next interval.
    pub fn pause(&self, wanted: Duration) -> Duration {
        match self {
            Source::Server(..) | Source::Kernel(..) => wanted,
            Source::Played(_, speed) => Duration::from_secs_f64((1.0 / speed).clamp(0.0, 3600.0)),
        }
    }

    /// The interval since the last call; none at the end of the source.
    pub fn next(&mut self) -> Result<Option<Interval>, Error> {
        match self {
            Source::Server(server, before) => server.look().map(|now| Some(advance(before, now))),
            Source::Kernel(kernel, before) => kernel.look().map(|now| Some(advance(before, now))),
            Source::Played(played, _) => Ok(played.next()),
        }
    }
}

fn advance(before: &mut Look, now: Look) -> Interval {
    let interval = Interval::between(before, &now);
    *before = now;
    interval
}
