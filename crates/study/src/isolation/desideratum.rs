//! What the field asks of isolation, and the limits from which a desideratum is met.
//!
//! Each limit has its reason in docs/reference/isolation.md. A limit applies to the mean of all
//! repetitions; a figure whose interval contains it is marked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Deviations up to this are not told apart from the device's own: the rule of steady state lets
/// rounds lie 10 % above and below their mean. In per cent.
pub const WITHIN_STEADY: f64 = 10.0;
/// A request on a device that cannot interrupt an operation waits for one that has begun: twice
/// the latency without company.
pub const ONE_REQUEST_AHEAD: f64 = 2.0;
/// Part of the throughput that a priority may cost, and the part from which it counts as partly
/// met.
pub const FULL_UTILISATION: f64 = 0.9;
/// See [`FULL_UTILISATION`].
pub const HALF_UTILISATION: f64 = 0.5;
/// Part of the latency under `none` up to which a priority counts as partly met.
pub const HALF_OF_NONE: f64 = 0.5;
/// A tenant has its due with this part of it.
pub const HAS_ITS_DUE: f64 = 0.9;
/// A reaction within this is not noticed by a person, in milliseconds.
pub const UNNOTICED_MS: f64 = 100.0;
/// A reaction within this is not seen in samples of a second, in milliseconds.
pub const ONE_SAMPLE_MS: f64 = 1_000.0;
/// Mean score of its cells from which a desideratum is partly met.
pub const HALF_OF_CELLS: f64 = 0.5;

/// What is asked of a mechanism.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Desideratum {
    /// It costs one tenant alone neither throughput nor latency.
    LowOverhead,
    /// It divides by weight among equal requests.
    EqualRequests,
    /// It divides by weight among requests of different sizes and patterns.
    UnequalRequests,
    /// It divides by weight among readers and writers on flash with garbage collection.
    ReadsBesideWrites,
    /// It protects a tenant's latency without losing utilisation.
    Priority,
    /// An important tenant that comes back has its due soon.
    Bursts,
    /// It never again leaves that tenant below its due for long (delta-fairness).
    Delta,
    /// It leaves nothing idle that a tenant could use.
    WorkConservation,
}

/// The four measurements, which can be run alone.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measurement {
    /// One tenant alone.
    Overhead,
    /// Shares by weight.
    Fairness,
    /// Latency and throughput of unequal tenants.
    Priority,
    /// A tenant that comes back.
    Bursts,
}

impl Desideratum {
    /// All, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::LowOverhead,
        Self::EqualRequests,
        Self::UnequalRequests,
        Self::ReadsBesideWrites,
        Self::Priority,
        Self::Bursts,
        Self::Delta,
        Self::WorkConservation,
    ];

    /// The head of its column.
    pub const fn title(self) -> &'static str {
        match self {
            Self::LowOverhead => "low overhead",
            Self::EqualRequests => "fair, equal requests",
            Self::UnequalRequests => "fair, sizes and patterns",
            Self::ReadsBesideWrites => "fair, reads beside writes",
            Self::Priority => "priority at full use",
            Self::Bursts => "response to bursts",
            Self::Delta => "delta after bursts",
            Self::WorkConservation => "work conservation",
        }
    }

    /// Its figure and limit in one sentence.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::LowOverhead => "loss of IOPS and growth of p99 against none, the larger one: met up to 10 %",
            Self::EqualRequests => "weighted error of the shares in bytes: met up to 10 %",
            Self::UnequalRequests | Self::ReadsBesideWrites => {
                "weighted error of the shares, in bytes or in progress against running alone, the smaller one: met up to 10 %"
            }
            Self::Priority => {
                "p99 of the sensitive tenant against running alone, at 90 % of none's throughput or more: met up to 2; partly up to half of none's, or up to 2 at 50 %"
            }
            Self::Bursts => "time until the important tenant has 90 % of its due: met up to 100 ms, partly up to 1 s",
            Self::Delta => {
                "longest time that the important tenant stays below 90 % of its due after it came back: met up to 100 ms, partly up to 1 s"
            }
            Self::WorkConservation => {
                "loss of throughput against none while the important tenant asks for little: met up to 10 %"
            }
        }
    }

    /// The figure up to which a cell is met, and the one up to which it is partly met. That of
    /// [`Self::Priority`] depends on the throughput as well.
    pub const fn limits(self) -> (f64, f64) {
        match self {
            Self::Priority => (ONE_REQUEST_AHEAD, ONE_REQUEST_AHEAD),
            Self::Bursts | Self::Delta => (UNNOTICED_MS, ONE_SAMPLE_MS),
            _ => (WITHIN_STEADY, WITHIN_STEADY),
        }
    }

    /// The measurement that it belongs to.
    pub const fn measurement(self) -> Measurement {
        match self {
            Self::LowOverhead => Measurement::Overhead,
            Self::EqualRequests | Self::UnequalRequests | Self::ReadsBesideWrites => Measurement::Fairness,
            Self::Priority | Self::WorkConservation => Measurement::Priority,
            Self::Bursts | Self::Delta => Measurement::Bursts,
        }
    }

    /// Whether its cells have a tenant that comes back.
    pub const fn has_return(self) -> bool {
        matches!(self, Self::Bursts | Self::Delta)
    }

    /// What the runs of a cell for this one answer: a return is both answered and, later, kept.
    pub const fn answered(self) -> &'static [Self] {
        match self {
            Self::LowOverhead => &[Self::LowOverhead],
            Self::EqualRequests => &[Self::EqualRequests],
            Self::UnequalRequests => &[Self::UnequalRequests],
            Self::ReadsBesideWrites => &[Self::ReadsBesideWrites],
            Self::Priority => &[Self::Priority],
            Self::Bursts => &[Self::Bursts, Self::Delta],
            Self::Delta => &[Self::Delta],
            Self::WorkConservation => &[Self::WorkConservation],
        }
    }

    /// Whether it is about shares by weight.
    pub const fn is_about_shares(self) -> bool {
        matches!(self.measurement(), Measurement::Fairness)
    }
}

impl Measurement {
    /// The measurement of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Overhead, Self::Fairness, Self::Priority, Self::Bursts];
        all.into_iter().find(|one| one.name() == name)
    }

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead",
            Self::Fairness => "fairness",
            Self::Priority => "priority",
            Self::Bursts => "bursts",
        }
    }
}

/// Whether a mechanism meets a desideratum.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// In every cell.
    Met,
    /// In half of the cells or more; or a cell comes near it in a defined way.
    Partly,
    /// Less than that.
    Not,
}

impl Score {
    /// The word in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Partly => "partly",
            Self::Not => "not",
        }
    }

    /// The score of a figure of which less is better.
    pub fn of(figure: f64, (met, partly): (f64, f64)) -> Self {
        if figure <= met {
            Self::Met
        } else if figure <= partly {
            Self::Partly
        } else {
            Self::Not
        }
    }

    /// The score of a desideratum from those of its cells; none without cells.
    pub fn of_cells(cells: &[Self]) -> Option<Self> {
        let count = cells.len();
        let sum: f64 = cells.iter().map(|cell| cell.points()).sum();
        (count > 0).then(|| match sum / count as f64 {
            1.0 => Self::Met,
            mean if mean >= HALF_OF_CELLS => Self::Partly,
            _ => Self::Not,
        })
    }

    const fn points(self) -> f64 {
        match self {
            Self::Met => 1.0,
            Self::Partly => 0.5,
            Self::Not => 0.0,
        }
    }
}

/// A setting of a knob: latency and throughput against those of `none` and of running alone.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct TradeOff {
    /// 99th percentile over that of the tenant alone.
    pub latency_ratio: f64,
    /// Throughput over that of `none`.
    pub utilisation: f64,
}

/// The setting that decides, and what it is worth: the lowest latency at full utilisation; if no
/// setting has that, at half of it; otherwise the setting with the highest utilisation.
pub fn best_trade_off(settings: &[TradeOff], none_latency: f64) -> Option<(usize, Score)> {
    let lowest = |least: f64| {
        let enough = settings.iter().enumerate().filter(|(_, setting)| setting.utilisation >= least);
        enough
            .min_by(|a, b| a.1.latency_ratio.total_cmp(&b.1.latency_ratio))
            .map(|(index, one)| (index, one.latency_ratio))
    };
    let (full, half) = (lowest(FULL_UTILISATION), lowest(HALF_UTILISATION));
    match (full, half) {
        (Some((index, latency)), _) if latency <= ONE_REQUEST_AHEAD => Some((index, Score::Met)),
        (Some((index, latency)), _) if latency <= HALF_OF_NONE * none_latency => Some((index, Score::Partly)),
        (_, Some((index, latency))) if latency <= ONE_REQUEST_AHEAD => Some((index, Score::Partly)),
        (Some((index, _)), _) => Some((index, Score::Not)),
        (None, Some((index, _))) => Some((index, Score::Not)),
        (None, None) => {
            let all = settings.iter().enumerate();
            all.max_by(|a, b| a.1.utilisation.total_cmp(&b.1.utilisation)).map(|(index, _)| (index, Score::Not))
        }
    }
}

/// Which of these settings no other one beats in both latency and utilisation.
pub fn front(settings: &[TradeOff]) -> Vec<bool> {
    let beats = |one: &TradeOff, other: &TradeOff| {
        one.latency_ratio <= other.latency_ratio && one.utilisation >= other.utilisation && one != other
    };
    settings.iter().map(|setting| !settings.iter().any(|other| beats(other, setting))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_its_limit_is_met() {
        let limits = Desideratum::Bursts.limits();
        assert_eq!([100.0, 100.1, 1_000.0, 1_000.1].map(|ms| Score::of(ms, limits)), {
            [Score::Met, Score::Partly, Score::Partly, Score::Not]
        });
        let shares = Desideratum::EqualRequests.limits();
        assert_eq!([10.0, 10.1].map(|error| Score::of(error, shares)), [Score::Met, Score::Not]);
    }

    #[test]
    fn half_of_the_cells_are_partly() {
        let of = |text: &str| {
            let cells: Vec<Score> = text
                .chars()
                .map(|one| match one {
                    'm' => Score::Met,
                    'p' => Score::Partly,
                    _ => Score::Not,
                })
                .collect();
            Score::of_cells(&cells)
        };
        assert_eq!(of("mmm"), Some(Score::Met));
        assert_eq!(of("mmmmn"), Some(Score::Partly));
        assert_eq!(of("mn"), Some(Score::Partly));
        assert_eq!(of("pp"), Some(Score::Partly));
        assert_eq!(of("pn"), Some(Score::Not));
        assert_eq!(of(""), None);
    }

    fn settings(list: &[(f64, f64)]) -> Vec<TradeOff> {
        list.iter()
            .map(|(latency, utilisation)| TradeOff { latency_ratio: *latency, utilisation: *utilisation })
            .collect()
    }

    #[test]
    fn the_lowest_latency_at_full_use_decides() {
        let best = |list: &[(f64, f64)]| best_trade_off(&settings(list), 8.0);
        assert_eq!(best(&[(8.0, 1.0), (1.9, 0.91), (1.2, 0.5)]), Some((1, Score::Met)));
        assert_eq!(best(&[(8.0, 1.0), (4.0, 0.9), (3.0, 0.89)]), Some((1, Score::Partly)), "half of none's");
        assert_eq!(best(&[(8.0, 1.0), (4.1, 0.9), (2.0, 0.5)]), Some((2, Score::Partly)), "2 at half use");
        assert_eq!(best(&[(8.0, 1.0), (4.1, 0.9), (2.0, 0.49)]), Some((1, Score::Not)));
        assert_eq!(best(&[(1.0, 0.3), (1.5, 0.4)]), Some((1, Score::Not)), "no setting uses half of it");
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn the_front_has_what_no_other_beats() {
        let settings = settings(&[(8.0, 1.0), (4.0, 0.9), (4.0, 0.8), (2.0, 0.5), (2.0, 0.5), (9.0, 0.7)]);
        assert_eq!(front(&settings), [true, true, false, true, true, false]);
    }
}
