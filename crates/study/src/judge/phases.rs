//! Divides a cell's runs into phases: the start and each change begin a phase, whose later part is
//! the steady state.

use super::cell::Cell;
use super::field::measured_bins;
use super::format::Kind;
use super::series::{BIN_NS, PER_SECOND, Series};
use super::settling::{Phase, window};

/// A device has become slower if at most this part of its throughput remains over half a second.
const FALLEN: f64 = 0.7;
const HALF_A_SECOND: usize = PER_SECOND / 2;

/// The phases of a run from which the time to settle can be determined.
pub fn phases(cell: &Cell, series: &Series) -> Vec<Phase> {
    let (judged_from, end) = measured_bins(cell);
    let window = window(cell.is_rotational);
    let mut starts: Vec<usize> = Vec::new();
    if cell.is_alike_from_the_start() {
        starts.push(0);
    }
    let bin = |ns: &u64| usize::try_from(ns / BIN_NS).unwrap_or(usize::MAX);
    starts.extend(cell.changes.iter().map(bin));
    if cell.is_fall {
        starts.extend(fall(series, end));
    }
    let ends = starts.iter().skip(1).copied().chain([end]);
    let phase = |(from, to): (usize, usize)| {
        let middle = from + to.saturating_sub(from) / 2;
        let steady = if cell.kind != Kind::Changes || to == end { middle.max(judged_from) } else { middle };
        // The steady state must be at least twice as long as the windows that are compared with it.
        (steady + 2 * window <= to).then_some(Phase { from, steady, to, window })
    };
    starts.iter().copied().zip(ends).filter_map(phase).collect()
}

/// The bin in which the throughput falls permanently; none if it does not.
fn fall(series: &Series, end: usize) -> Option<usize> {
    let total = |from: usize, to: usize| series.rates(from, to).iter().sum::<f64>();
    let first = total(0, HALF_A_SECOND);
    (HALF_A_SECOND..end.saturating_sub(HALF_A_SECOND)).find(|from| total(*from, from + HALF_A_SECOND) < FALLEN * first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_found_where_it_begins() {
        let bytes = (0..100).map(|bin| if bin < 33 { 100 } else { 20 }).collect();
        let found = fall(&Series { bytes: vec![bytes] }, 100).unwrap();
        // In the five bins (half a second) from bin 30 on, two bins are slower, and 68 % of the
        // throughput remains.
        assert_eq!(found, 30);
        assert_eq!(fall(&Series { bytes: vec![vec![100; 100]] }, 100), None);
    }
}
