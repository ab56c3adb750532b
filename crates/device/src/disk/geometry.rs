//! The positions of the sectors, and the time that the head needs to transfer them. Source:
//! docs/specifications/devices.md, sections 4.2 and 4.4.
//!
//! Zones have equal numbers of cylinders and fewer sectors per track towards the inside. Addresses
//! run along a track, then over the surfaces of a cylinder, then to the next cylinder; each next
//! track begins later by a skew that hides the switch.

use hoistway_block::{Nanos, Sector};

use super::parameters::DiskLayout;
use super::rotation::{Rotation, angle_of, turn_ns};

/// A track.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Track {
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
}

/// The position of a sector.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) track: Track,
    /// The angle at which it begins.
    pub(crate) angle: u32,
}

/// A contiguous read: `first` is under the head at `at`, and the following sectors come after it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) first: Sector,
    pub(crate) at: Nanos,
}

#[derive(Clone, Debug)]
struct Zone {
    first: Sector,
    first_cylinder: u32,
    track_sectors: u64,
    track_skew_sectors: u64,
    cylinder_skew_sectors: u64,
}

/// The geometry of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    surfaces: u32,
    cylinders: u32,
    rotation: Rotation,
    head_switch_ns: Nanos,
    cylinder_switch_ns: Nanos,
}

/// A sector in its zone; the cylinder counts from the zone's first.
#[derive(Copy, Clone, Debug)]
struct Cursor {
    zone: usize,
    cylinder: u32,
    surface: u32,
    sector: u64,
}

/// Sectors per track of zone `zone`: linear from the outermost to the innermost, rounded to the
/// nearest sector.
fn track_sectors(layout: &DiskLayout, zone: u64) -> u64 {
    let steps = layout.zones.saturating_sub(1).max(1);
    let (outer, inner) = (layout.spt_outer, layout.spt_inner);
    (outer * (steps - zone.min(steps)) + inner * zone.min(steps) + steps / 2) / steps
}

/// Cylinders per zone needed for the capacity.
fn zone_cylinders(layout: &DiskLayout) -> u64 {
    let sectors: u64 = (0..layout.zones).map(|zone| track_sectors(layout, zone)).sum();
    layout.capacity_sectors.div_ceil((layout.heads * sectors).max(1)).max(1)
}

/// Cylinders of the whole disk.
pub(crate) fn cylinders(layout: &DiskLayout) -> u64 {
    zone_cylinders(layout).saturating_mul(layout.zones)
}

/// Sectors that pass the head during `switch_ns`, plus one as a margin.
fn skew_sectors(switch_ns: Nanos, turn_ns: Nanos, track_sectors: u64) -> u64 {
    (switch_ns * track_sectors).div_ceil(turn_ns) + 1
}

/// Converts a value that [`super::DiskParameters::check`] has bounded.
fn bounded(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Geometry {
    pub(crate) fn new(layout: &DiskLayout) -> Self {
        let zone_cylinders = zone_cylinders(layout);
        let turn = turn_ns(layout.rpm);
        let mut first = 0;
        let mut zones = Vec::new();
        for zone in 0..layout.zones {
            let track_sectors = track_sectors(layout, zone);
            zones.push(Zone {
                first,
                first_cylinder: bounded(zone * zone_cylinders),
                track_sectors,
                track_skew_sectors: skew_sectors(layout.head_switch_ns, turn, track_sectors),
                cylinder_skew_sectors: skew_sectors(layout.cyl_switch_ns, turn, track_sectors),
            });
            first += layout.heads * zone_cylinders * track_sectors;
        }
        Self {
            zones,
            surfaces: bounded(layout.heads),
            cylinders: bounded(cylinders(layout)),
            rotation: Rotation::new(layout.rpm, layout.rot_slack_ns),
            head_switch_ns: layout.head_switch_ns,
            cylinder_switch_ns: layout.cyl_switch_ns,
        }
    }

    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    #[inline]
    pub(crate) fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    /// The position of a sector.
    pub(crate) fn place(&self, sector: Sector) -> Place {
        let cursor = self.cursor(sector);
        Place { track: self.track(cursor), angle: self.angle(cursor) }
    }

    /// Transfers `sectors` from `first`, which is under the head at `at`; returns the time and the
    /// track of the end.
    pub(crate) fn transfer(&self, at: Nanos, first: Sector, sectors: u64) -> (Nanos, Track) {
        let mut cursor = self.cursor(first);
        let mut at = at;
        let mut left = sectors;
        loop {
            let zone = &self.zones[cursor.zone];
            let here = left.min(zone.track_sectors - cursor.sector);
            at += self.along_track_ns(zone, here);
            left -= here;
            if left == 0 {
                return (at, self.track(cursor));
            }
            at = self.next_track(&mut cursor, at);
        }
    }

    /// The run that continues a transfer that ended at `at` before the sector `first`.
    pub(crate) fn run_on(&self, at: Nanos, first: Sector, capacity_sectors: Sector) -> Run {
        if first >= capacity_sectors {
            return Run { first, at };
        }
        let cursor = self.cursor(first);
        if cursor.sector > 0 {
            return Run { first, at };
        }
        let mut last = self.cursor(first - 1);
        Run { first, at: self.next_track(&mut last, at) }
    }

    /// The sector that a run has reached at `now`, at most `limit`. Moves the run's origin to the
    /// start of a track on the way, which keeps a long run cheap and loses no fraction of a sector.
    pub(crate) fn follow(&self, run: &mut Run, limit: Sector, now: Nanos) -> Sector {
        if now <= run.at || run.first >= limit {
            return run.first.min(limit);
        }
        let mut cursor = self.cursor(run.first);
        loop {
            let zone = &self.zones[cursor.zone];
            let here = zone.track_sectors - cursor.sector;
            let track_end = run.at + self.along_track_ns(zone, here);
            if now < track_end {
                let elapsed_ns = now.saturating_sub(run.at);
                // The largest number of sectors whose time, rounded down, is not above the elapsed
                // time.
                let done = ((elapsed_ns + 1) * zone.track_sectors - 1) / self.rotation.turn_ns();
                return (run.first + done.min(here)).min(limit);
            }
            if run.first + here >= limit {
                return limit;
            }
            run.first += here;
            run.at = self.next_track(&mut cursor, track_end);
        }
    }

    #[inline]
    fn along_track_ns(&self, zone: &Zone, sectors: u64) -> Nanos {
        sectors * self.rotation.turn_ns() / zone.track_sectors
    }

    /// Moves to the start of the next track; returns when it is under the head.
    fn next_track(&self, cursor: &mut Cursor, at: Nanos) -> Nanos {
        cursor.sector = 0;
        cursor.surface += 1;
        let mut switch_ns = self.head_switch_ns;
        if cursor.surface == self.surfaces {
            cursor.surface = 0;
            cursor.cylinder += 1;
            switch_ns = self.cylinder_switch_ns;
            let next = self.zones.get(cursor.zone + 1);
            if next.is_some_and(|next| self.track(*cursor).cylinder == next.first_cylinder) {
                cursor.zone += 1;
                cursor.cylinder = 0;
            }
        }
        let there = at + switch_ns;
        there + self.rotation.wait_ns(there, self.angle(*cursor))
    }

    fn cursor(&self, sector: Sector) -> Cursor {
        let zone = self.zones.partition_point(|zone| zone.first <= sector) - 1;
        let track_sectors = self.zones[zone].track_sectors;
        let offset = sector - self.zones[zone].first;
        let track = bounded(offset / track_sectors);
        Cursor { zone, cylinder: track / self.surfaces, surface: track % self.surfaces, sector: offset % track_sectors }
    }

    fn track(&self, cursor: Cursor) -> Track {
        Track { cylinder: self.zones[cursor.zone].first_cylinder + cursor.cylinder, surface: cursor.surface }
    }

    /// Every zone's first track begins at angle 0.
    fn angle(&self, cursor: Cursor) -> u32 {
        let zone = &self.zones[cursor.zone];
        let cylinder_sectors = u64::from(self.surfaces - 1) * zone.track_skew_sectors + zone.cylinder_skew_sectors;
        let skew = u64::from(cursor.cylinder) * cylinder_sectors + u64::from(cursor.surface) * zone.track_skew_sectors;
        angle_of((skew + cursor.sector) % zone.track_sectors, zone.track_sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskParameters;

    fn sata() -> Geometry {
        Geometry::new(&DiskParameters::default().layout)
    }

    #[test]
    fn t06_zones_and_skews() {
        let geometry = sata();
        let tracks: Vec<_> = geometry.zones.iter().map(|zone| zone.track_sectors).collect();
        assert_eq!(tracks[..4], [1_157, 1_133, 1_109, 1_086]);
        assert_eq!((tracks[15], tracks.iter().sum::<u64>()), (800, 15_656));
        assert_eq!((geometry.zones[1].first_cylinder, geometry.cylinders), (5_199, 83_184));
        assert_eq!((geometry.zones[0].track_skew_sectors, geometry.zones[0].cylinder_skew_sectors), (126, 210));
        assert_eq!(geometry.zones[1].first, 36_091_458);
        let place = geometry.place(36_091_458);
        assert_eq!(place, Place { track: Track { cylinder: 5_199, surface: 0 }, angle: 0 });
        assert_eq!(geometry.place(0), Place::default());
        assert_eq!(geometry.place(1_157).track, Track { cylinder: 0, surface: 1 });
        assert_eq!(geometry.place(6_942).track, Track { cylinder: 1, surface: 0 });
    }

    #[test]
    fn a_transfer_inside_a_track_takes_its_share_of_a_turn() {
        assert_eq!(sata().transfer(0, 0, 256).0, 256 * 8_333_333 / 1_157);
    }

    #[test]
    fn t09_a_whole_zone_runs_at_the_sustained_rate() {
        let geometry = sata();
        let rate = |first: u64, end: u64| {
            let (end_ns, _) = geometry.transfer(0, first, end - first);
            (end - first) as f64 * 512e3 / end_ns as f64
        };
        let outer = rate(0, geometry.zones[1].first);
        let inner = rate(geometry.zones[15].first, 488_282_256);
        assert!((outer / 63.4 - 1.0).abs() < 0.005, "{outer}");
        assert!((inner / 43.8 - 1.0).abs() < 0.005, "{inner}");
    }

    #[test]
    fn the_progress_of_a_run_is_the_inverse_of_a_transfer() {
        let geometry = sata();
        let first = geometry.zones[1].first - 3_000;
        for sectors in [1, 7, 700, 1_500, 2_999, 3_000, 3_001, 9_000] {
            let (end, _) = geometry.transfer(50, first, sectors);
            let reached = |now| geometry.follow(&mut Run { first, at: 50 }, first + 10_000, now) - first;
            assert_eq!((reached(end - 1), reached(end)), (sectors - 1, sectors), "{sectors}");
        }
        let mut run = Run { first, at: 50 };
        assert_eq!(geometry.follow(&mut run, first + 4_000, 1 << 40), first + 4_000, "never past the limit");
        let (end, _) = geometry.transfer(run.at, run.first, first + 4_000 - run.first);
        assert_eq!(end, geometry.transfer(50, first, 4_000).0, "the moved origin keeps the time");
    }

    #[test]
    fn what_follows_a_transfer_is_under_the_head() {
        let geometry = sata();
        for first in [0, 1_000, 36_091_000, 488_000_000] {
            let start = geometry.rotation.wait_ns(0, geometry.place(first).angle);
            for sectors in [1, 13, 100] {
                let (end, track) = geometry.transfer(start, first, sectors);
                let next = geometry.place(first + sectors);
                if next.track == track {
                    assert!(geometry.rotation.wait_ns(end, next.angle) <= 1);
                }
            }
        }
    }
}
