//! How soon after the start, or after a change, shares settle.
//!
//! Shares over a short sliding window are compared with those of the steady state that follows.
//! They have settled when every later window is within 10 % of those, tenant by tenant, or within
//! 1.25 times the deviation of the windows of the steady state itself, so that a scheduler that
//! serves in turns does not count as unsettled. The time is that of the window's end, so that it is
//! never shorter than a window.

use super::series::{BIN_NS, PER_SECOND, Series};
use super::verdict::{NEAR, SMALLEST_SHARE};

/// Tolerance for chance: without any change, the largest deviation among some windows is still
/// often larger than that among as many other windows, on disks in one case of six.
const CHANCE: f64 = 1.25;

/// A phase and its steady part, in bins.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Its first bin.
    pub from: usize,
    /// The first bin of its steady part.
    pub steady: usize,
    /// Its end.
    pub to: usize,
    /// Length of the window.
    pub window: usize,
}

/// The time until shares settled, and how steady they were afterwards.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Settling {
    /// Time from the change to the end of the first window that is, like all windows after it,
    /// within the tolerance; in nanoseconds.
    pub after_ns: u64,
    /// The largest deviation of any tenant from its mean, in any window of the steady state.
    pub scatter: f64,
}

/// Window length in bins: one second on flash; three seconds on disks, where it takes up to a
/// second until every tenant was served once.
pub const fn window(is_rotational: bool) -> usize {
    if is_rotational { 3 * PER_SECOND } else { PER_SECOND }
}

/// When a run settles in a phase; none if nothing is transferred at its end.
pub fn settling(series: &Series, phase: Phase) -> Option<Settling> {
    let Phase { from, steady, to, window } = phase;
    let shares = |from: usize, to: usize| -> Option<Vec<f64>> {
        let rates = series.rates(from, to);
        let sum: f64 = rates.iter().sum();
        (sum > 0.0).then(|| rates.iter().map(|rate| rate / sum).collect())
    };
    let wanted = shares(steady, to)?;
    // A window without transfers has the largest possible deviation.
    let distance = |end: usize| {
        let Some(got) = shares(end - window, end) else { return 1.0 };
        let tenants = got.iter().zip(&wanted).filter(|(_, wanted)| **wanted >= SMALLEST_SHARE);
        tenants.map(|(got, wanted)| (got / wanted - 1.0).abs()).fold(0.0, f64::max)
    };
    let scatter = (steady + window..=to).map(distance).fold(0.0, f64::max);
    let allowed = (scatter * CHANCE).max(NEAR);
    let first = from + window;
    let settled = (first..=to).rev().take_while(|end| distance(*end) <= allowed).last()?;
    Some(Settling { after_ns: (settled - from) as u64 * BIN_NS, scatter })
}

/// Median, 90th percentile and maximum of some figures; none without figures.
pub fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    // The smallest value that this percentage of values does not exceed.
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1).min(last)];
    Some([at(50), at(90), values[last]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of two tenants in each bin (interval of a tenth of a second); together they are
    /// 100.
    fn series(first: impl Iterator<Item = u64>) -> Series {
        let first: Vec<u64> = first.collect();
        let second = first.iter().map(|bytes| 100 - bytes).collect();
        Series { bytes: vec![first, second] }
    }

    const PHASE: Phase = Phase { from: 0, steady: 60, to: 100, window: 10 };

    #[test]
    fn shares_settle_when_no_later_window_is_off() {
        // Half and half for 2 s, then 20 : 80. A window with 9 bins of 20 and one of 50 has 23,
        // which is 15 % too much.
        let late = series((0..100).map(|bin| if bin < 20 { 50 } else { 20 }));
        let settling = settling(&late, PHASE).unwrap();
        assert_eq!((settling.after_ns / BIN_NS, settling.scatter), (30, 0.0));
        let at_once = super::settling(&series((0..100).map(|_| 20)), PHASE).unwrap();
        assert_eq!(at_once.after_ns / BIN_NS, 10);
        // If the shares are disturbed again later, the later time counts.
        let again = series((0..100).map(|bin| if (40..45).contains(&bin) { 50 } else { 20 }));
        assert_eq!(super::settling(&again, PHASE).unwrap().after_ns / BIN_NS, 55);
    }

    #[test]
    fn serving_by_turns_is_not_unsteady() {
        // The scheduler serves the tenants in turns, which repeat every 1.3 s; so the windows of
        // the steady state deviate by up to 30 %.
        let turns = series((0..100).map(|bin| if bin % 13 < 4 { 100 } else { 0 }));
        let settling = settling(&turns, PHASE).unwrap();
        assert!(settling.scatter > 0.2 && settling.after_ns / BIN_NS == 10, "{settling:?}");
    }

    #[test]
    fn nothing_done_is_no_steady_state() {
        let ended = series((0..100).map(|bin| if bin < 50 { 20 } else { 0 }));
        assert!(settling(&ended, PHASE).is_some(), "the second tenant goes on");
        assert_eq!(settling(&Series { bytes: vec![vec![0; 100]; 2] }, PHASE), None);
    }

    #[test]
    fn a_ninth_tenth_is_not_exceeded_by_nine_tenths() {
        assert_eq!(spread((1..=10).map(f64::from).collect()), Some([5.0, 9.0, 10.0]));
        assert_eq!(spread(vec![3.0]), Some([3.0; 3]));
        assert_eq!(spread(Vec::new()), None);
    }
}
