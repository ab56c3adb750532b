//! The source of the figures: a server, a block device, or a measurement that is played.

use std::time::Duration;

use super::kernel::Kernel;
use super::playback::Playback;
use super::sample::{Interval, Sample};
use super::server::Server;
use crate::exit::Error;

/// A source of intervals.
#[derive(Debug)]
pub enum Source {
    /// A server, and its last sample.
    Server(Server, Sample),
    /// A block device, and its last sample.
    Kernel(Kernel, Sample),
    /// A measurement, and how many of its seconds are played per second.
    Playback(Playback, f64),
}

impl Source {
    /// A server.
    pub fn server(server: Server) -> Result<Self, Error> {
        let sample = server.sample()?;
        Ok(Self::Server(server, sample))
    }

    /// A block device.
    pub fn kernel(kernel: Kernel) -> Result<Self, Error> {
        let sample = kernel.sample()?;
        Ok(Self::Kernel(kernel, sample))
    }

    /// How long to wait for the next interval.
    pub fn pause(&self, wanted: Duration) -> Duration {
        match self {
            Source::Server(..) | Source::Kernel(..) => wanted,
            Source::Playback(_, speed) => Duration::from_secs_f64((1.0 / speed).clamp(0.0, 3600.0)),
        }
    }

    /// The interval since the last call; none at the end of the source.
    pub fn next(&mut self) -> Result<Option<Interval>, Error> {
        match self {
            Source::Server(server, before) => server.sample().map(|now| Some(advance(before, now))),
            Source::Kernel(kernel, before) => kernel.sample().map(|now| Some(advance(before, now))),
            Source::Playback(playback, _) => Ok(playback.next()),
        }
    }
}

fn advance(before: &mut Sample, now: Sample) -> Interval {
    let interval = Interval::between(before, &now);
    *before = now;
    interval
}
