//! The steady state of a run by the rule of SNIA's Solid State Storage Performance Test
//! Specification (PTS, its definition of steady state): five consecutive rounds that are alike and have no trend.

use std::ops::Range;

/// Rounds of the window that has to be steady.
pub const ROUNDS: usize = 5;
/// Largest difference between two rounds of the window, as a part of their mean.
pub const MOST_RANGE: f64 = 0.20;
/// Largest rise or fall of the least-squares line over the window, as a part of the mean.
pub const MOST_SLOPE: f64 = 0.10;

/// The first window of five rounds in which every one of these series is steady; none if there is
/// no such window. Each series has one value per round.
///
/// ```
/// use hoistway_experiment::steady_state;
///
/// let rounds = [50.0, 80.0, 99.0, 100.0, 101.0, 100.0, 99.0];
/// assert_eq!(steady_state::window(&[&rounds]), Some(2..7));
/// ```
pub fn window(series: &[&[f64]]) -> Option<Range<usize>> {
    let rounds = series.iter().map(|values| values.len()).min()?;
    let mut windows = (0..=rounds.checked_sub(ROUNDS)?).map(|from| from..from + ROUNDS);
    windows.find(|window| series.iter().all(|values| is_steady(&values[window.clone()])))
}

/// Whether these rounds are alike and have no trend. Rounds in which nothing happens are not
/// steady.
pub fn is_steady(rounds: &[f64]) -> bool {
    let count = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / count;
    if rounds.len() < 2 || mean <= 0.0 {
        return false;
    }
    let most = rounds.iter().copied().fold(f64::MIN, f64::max);
    let least = rounds.iter().copied().fold(f64::MAX, f64::min);
    let middle = (count - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (index, value) in rounds.iter().enumerate() {
        let distance = index as f64 - middle;
        products += distance * (value - mean);
        squares += distance * distance;
    }
    let excursion = products / squares * (count - 1.0);
    most - least <= MOST_RANGE * mean && excursion.abs() <= MOST_SLOPE * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_series_is_steady_from_its_first_five_rounds() {
        assert_eq!(window(&[&[7.0; 8]]), Some(0..5));
        assert_eq!(window(&[&[7.0; 4]]), None);
        assert_eq!(window(&[]), None);
        assert_eq!(window(&[&[0.0; 8]]), None);
    }

    #[test]
    fn the_range_is_at_most_a_fifth_of_the_mean() {
        // Means 100; the largest and the smallest are 20 and 20.2 apart, without a trend.
        assert!(is_steady(&[100.0, 110.0, 100.0, 90.0, 100.0]), "slope -20 / 10 per round, 8 over the window");
        assert!(!is_steady(&[100.0, 110.1, 100.0, 89.9, 100.0]));
        assert!(!is_steady(&[110.1, 100.0, 79.8, 100.0, 110.1]), "a range of 30 % without a slope");
    }

    #[test]
    fn the_line_may_rise_by_a_tenth_of_the_mean() {
        // 2.5 per round are 10 over the window.
        assert!(is_steady(&[95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(!is_steady(&[94.9, 97.4, 100.0, 102.6, 105.1]));
        assert!(!is_steady(&[105.1, 102.6, 100.0, 97.4, 94.9]), "falls as well");
    }

    #[test]
    fn the_window_begins_where_the_decline_ends() {
        // A fresh drive whose garbage collection begins: fast, then a decline, then steady.
        let rounds = [300.0, 290.0, 280.0, 200.0, 150.0, 104.0, 101.0, 100.0, 99.0, 100.0];
        assert_eq!(window(&[&rounds]), Some(5..10));
        assert_eq!(window(&[&rounds[..9]]), None);
    }

    #[test]
    fn every_series_has_to_be_steady_in_the_same_window() {
        let (early, late) = ([100.0, 100.0, 100.0, 100.0, 100.0, 100.0], [10.0, 50.0, 50.0, 50.0, 50.0, 50.0]);
        assert_eq!(window(&[&early, &late]), Some(1..6));
        assert_eq!(window(&[&early, &late[..5]]), None, "only the rounds that all have");
    }
}
