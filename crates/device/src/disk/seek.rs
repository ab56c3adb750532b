//! The time of a seek over a distance in cylinders. Source: docs/specifications/devices.md, section
//! 4.3.
//!
//! The time follows the curve of Lee & Katz (1993), which matches three figures of a data sheet:
//! next track, mean over random pairs, full stroke. If measured points are given, it is
//! interpolated linearly between them instead. The times are computed once, into a table, so that a
//! run uses no floating point.

use std::sync::Arc;

use hoistway_block::Nanos;

use super::parameters::DiskSeeks;

/// Seek times by distance. Clones share the table.
#[derive(Clone, Debug)]
pub(crate) struct SeekTable(Arc<[u32]>);

impl SeekTable {
    /// The table of a disk with this many cylinders. A time above 4.29 s (2^32 ns) becomes 4.29 s;
    /// [`super::DiskParameters::check`] refuses such times.
    pub(crate) fn new(seeks: &DiskSeeks, cylinders: u32) -> Self {
        let distances = 1..u64::from(cylinders.max(1));
        let time = |distance| {
            let ns = match &seeks.seek_table[..] {
                [] => lee_katz_ns(seeks, cylinders, distance),
                points => between_points_ns(points, distance),
            };
            u32::try_from(ns).unwrap_or(u32::MAX)
        };
        Self(std::iter::once(0).chain(distances.map(time)).collect())
    }

    /// Time of a seek over `distance` cylinders; 0 for distance 0.
    #[inline]
    pub(crate) fn seek_ns(&self, distance: u32) -> Nanos {
        Nanos::from(self.0[distance as usize])
    }

    /// The first distance that takes less time than a shorter one.
    pub(crate) fn first_decrease(&self) -> Option<u32> {
        let at = self.0.windows(2).position(|pair| pair[1] < pair[0])?;
        u32::try_from(at + 1).ok()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a time in nanoseconds, rounded; negative becomes 0")]
fn lee_katz_ns(seeks: &DiskSeeks, cylinders: u32, distance: u64) -> u64 {
    let cylinders = f64::from(cylinders);
    let (track, average, full) = (seeks.seek_track_ns as f64, seeks.seek_avg_ns as f64, seeks.seek_full_ns as f64);
    let root_factor = (-10.0 * track + 15.0 * average - 5.0 * full) / (3.0 * cylinders.sqrt());
    let linear_factor = (7.0 * track - 15.0 * average + 8.0 * full) / (3.0 * cylinders);
    let beyond_track = (distance - 1) as f64;
    (track + root_factor * beyond_track.sqrt() + linear_factor * beyond_track).round().max(0.0) as u64
}

/// Interpolates between points; constant before the first and after the last.
fn between_points_ns(points: &[(u64, u64)], distance: u64) -> u64 {
    let above = points.partition_point(|point| point.0 < distance);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above).copied()) {
        (Some((from, from_ns)), Some((to, to_ns))) => {
            let rise = i128::from(to_ns) - i128::from(from_ns);
            let part = rise * i128::from(distance - from) / i128::from(to - from);
            u64::try_from(i128::from(from_ns) + part).unwrap_or(0)
        }
        (_, Some((_, ns))) | (Some((_, ns)), None) => ns,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskParameters;

    #[test]
    fn t07_the_default_curve() {
        let table = SeekTable::new(&DiskParameters::default().seeks, 83_184);
        let expected = [(1, 2.000), (2, 2.032), (100, 2.329), (1_000, 3.096), (27_728, 9.411), (83_183, 17.40)];
        for (distance, ms) in expected {
            let seek_ms = table.seek_ns(distance) as f64 / 1e6;
            assert!((seek_ms - ms).abs() < 0.001, "{distance}: {seek_ms}");
        }
        assert_eq!((table.seek_ns(0), table.first_decrease()), (0, None));
        // A distance d occurs 2 (N - d) times among all N^2 ordered pairs.
        let weighted: f64 = (1..83_184).map(|d| f64::from(2 * (83_184 - d)) * table.seek_ns(d) as f64).sum();
        let mean_ms = weighted / 83_184.0 / 83_184.0 / 1e6;
        assert!((mean_ms - 9.0).abs() < 0.01, "{mean_ms}");
    }

    #[test]
    fn measured_points_replace_the_curve() {
        let points = vec![(1, 530_000), (36, 1_160_000), (290, 1_510_000)];
        let table = SeekTable::new(&DiskParameters::default().with(|disk| disk.seeks.seek_table = points).seeks, 500);
        let times = [1, 36, 163, 290, 499].map(|distance| table.seek_ns(distance));
        assert_eq!(times, [530_000, 1_160_000, 1_335_000, 1_510_000, 1_510_000]);
    }
}
