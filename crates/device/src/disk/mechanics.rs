//! Arm and platters together: the time until a sector is under the head.

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Sector};

use super::geometry::{Geometry, Place, Track};
use super::parameters::DiskParameters;
use super::seek::SeekTable;
use crate::rate::jittered;

/// Lower bound of a seek with jitter. Source: docs/specifications/devices.md, section 4.3.
const SHORTEST_SEEK_NS: Nanos = 300_000;

/// The moving parts of the drive.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    geometry: Geometry,
    seek: SeekTable,
    jitter_ns: Nanos,
    write_settle_ns: Nanos,
    head_switch_ns: Nanos,
}

impl Mechanics {
    pub(crate) fn new(parameters: &DiskParameters) -> Self {
        let geometry = Geometry::new(&parameters.layout);
        Self {
            seek: SeekTable::new(&parameters.seeks, geometry.cylinders()),
            geometry,
            jitter_ns: parameters.seeks.seek_jitter_ns,
            write_settle_ns: parameters.seeks.write_settle_ns,
            head_switch_ns: parameters.layout.head_switch_ns,
        }
    }

    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn place(&self, sector: Sector) -> Place {
        self.geometry.place(sector)
    }

    /// Time until `target` is under the head as the firmware plans it: with the largest jitter of
    /// the seek, so that a planned target is never missed.
    #[inline]
    pub(crate) fn planned_ns(&self, at: Nanos, from: Track, target: Place, is_write: bool) -> Nanos {
        self.position_ns(at, from, target, is_write, |seek_ns| seek_ns + self.jitter_ns / 2)
    }

    /// The actual time, with the jitter drawn.
    pub(crate) fn actual_ns(
        &self,
        at: Nanos,
        from: Track,
        target: Place,
        is_write: bool,
        stream: &mut Stream,
    ) -> Nanos {
        self.position_ns(at, from, target, is_write, |seek_ns| {
            jittered(seek_ns, self.jitter_ns, stream).max(SHORTEST_SEEK_NS.min(seek_ns))
        })
    }

    #[inline]
    fn position_ns(
        &self,
        at: Nanos,
        from: Track,
        target: Place,
        is_write: bool,
        with_jitter: impl FnOnce(Nanos) -> Nanos,
    ) -> Nanos {
        let distance = from.cylinder.abs_diff(target.track.cylinder);
        let mut move_ns = if distance > 0 {
            with_jitter(self.seek.seek_ns(distance))
        } else if from.surface != target.track.surface {
            self.head_switch_ns
        } else {
            0
        };
        if is_write && move_ns > 0 {
            move_ns += self.write_settle_ns;
        }
        move_ns + self.geometry.rotation().wait_ns(at + move_ns, target.angle)
    }
}
