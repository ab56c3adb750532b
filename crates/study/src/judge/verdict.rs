//! The verdict on a scheduler's figures in one cell, compared with those of the other schedulers; a
//! pure function of the figures.
//!
//! ```text
//! exact      error <= 5 % at >= 97 % of none's throughput
//! bound      exact shares are not free; within 10 % of the attainable (flash), or as fast as exact shares allow (disks)
//! dominated  error > 10 %, while another has <= 6 % at >= 97 % of this one's throughput
//! lost       everything else
//! ```

/// Shares are exact up to this error.
pub const EXACT: f64 = 0.05;
/// The larger error up to which a scheduler may dominate another.
pub const NEARLY_EXACT: f64 = 0.06;
/// Above this error a scheduler can be dominated.
pub const WRONG: f64 = 0.10;
/// The part of a throughput that counts as all of it.
pub const FULL: f64 = 0.97;
/// Allowed distance of a tenant from what is attainable.
pub const NEAR: f64 = 0.10;
/// Tenants that are due less than this are not compared with what is attainable, because a few
/// requests more or less are a large part of their share.
pub const SMALLEST_SHARE: f64 = 0.02;
/// Tolerance below the guaranteed throughput: a scheduler that controls its throughput falls below
/// the guarantee as often as it exceeds it.
pub const FLOOR_NOISE: f64 = 0.005;

/// One scheduler's results in a cell; means over seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// The largest relative error of a share.
    pub error: f64,
    /// Bytes per second of all tenants.
    pub throughput: f64,
    /// Bytes per second of each tenant.
    pub rates: Vec<f64>,
    /// The attainable rates at a loss of 3 % ([`FULL`]), tenant by tenant, where they can be computed.
    pub can: Option<Vec<f64>>,
}

/// A cell with all measured schedulers.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Whether the device is a disk or an array.
    pub is_rotational: bool,
    /// The tenants' due shares of the total, 0 to 1.
    pub shares: Vec<f64>,
    /// `none`, which ignores weights.
    pub none: Score,
    /// The measured schedulers; `none` may be among them.
    pub scores: Vec<Score>,
}

/// The verdict.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Shares by weight, at (nearly) the device's full throughput.
    Exact,
    /// Exact shares cost more than 3 % of the throughput, and it has the nearest attainable ones.
    Bound,
    /// Another scheduler (an index into [`Field::scores`]) is nearly exact and no slower.
    Dominated(usize),
    /// None of these.
    Lost,
}

impl Verdict {
    /// The name in tables, without the dominating scheduler.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Bound => "bound",
            Verdict::Dominated(_) => "dominated",
            Verdict::Lost => "lost",
        }
    }
}

impl Field {
    /// Whether exact shares cost nothing: some scheduler has them at 97 % of the throughput of
    /// `none`.
    pub fn is_free(&self) -> bool {
        self.everybody().any(|score| score.error <= EXACT && score.throughput >= FULL * self.none.throughput)
    }

    fn everybody(&self) -> impl Iterator<Item = &Score> {
        self.scores.iter().chain([&self.none])
    }

    /// The throughput of `score` relative to that of `none`.
    pub fn part_of_none(&self, score: &Score) -> f64 {
        if self.none.throughput > 0.0 { score.throughput / self.none.throughput } else { 0.0 }
    }

    /// Whether its throughput is full, except for noise.
    pub fn keeps_floor(&self, score: &Score) -> bool {
        score.throughput >= (FULL - FLOOR_NOISE) * self.none.throughput
    }

    /// The exact scheduler with the largest throughput.
    pub fn fastest_exact(&self) -> Option<&Score> {
        let exact = self.everybody().filter(|score| score.error <= EXACT);
        exact.max_by(|a, b| a.throughput.total_cmp(&b.throughput))
    }

    /// Whether it is (nearly) exact, and no slower than the fastest exact scheduler.
    pub fn is_as_fast_as_exact(&self, score: &Score) -> bool {
        let fastest = self.fastest_exact();
        fastest.is_some_and(|fastest| score.error <= NEARLY_EXACT && score.throughput >= FULL * fastest.throughput)
    }

    /// The attainable rates, tenant by tenant: by formula (4), or where that cannot be computed, by
    /// time-sharing between the fastest exact scheduler and `none`, with as much time for the
    /// former as a loss of 3 % pays for.
    pub fn can_be_had(&self, score: &Score) -> Option<Vec<f64>> {
        if let Some(can) = &score.can {
            return Some(can.clone());
        }
        let exact = self.fastest_exact()?;
        let none = &self.none;
        let cost = none.throughput - exact.throughput;
        let part = if cost > 0.0 { ((1.0 - FULL) * none.throughput / cost).min(1.0) } else { 1.0 };
        let tenants = exact.rates.iter().zip(&none.rates);
        Some(tenants.map(|(exact, free)| part * exact + (1.0 - part) * free).collect())
    }

    /// The largest distance of a tenant from what is attainable.
    pub fn distance(&self, score: &Score) -> Option<f64> {
        let can = self.can_be_had(score)?;
        let tenants = score.rates.iter().zip(&can).zip(&self.shares);
        let compared = tenants.filter(|((_, can), share)| **share >= SMALLEST_SHARE && **can > 0.0);
        Some(compared.map(|((got, can), _)| (got / can - 1.0).abs()).fold(0.0, f64::max))
    }

    /// The fastest scheduler that is nearly exact and no slower than `score`, whose shares are
    /// wrong.
    pub fn dominator(&self, score: &Score) -> Option<usize> {
        if score.error <= WRONG {
            return None;
        }
        let better = |other: &Score| other.error <= NEARLY_EXACT && other.throughput >= FULL * score.throughput;
        let better = self.scores.iter().enumerate().filter(|(_, other)| better(other));
        better.max_by(|a, b| a.1.throughput.total_cmp(&b.1.throughput)).map(|(index, _)| index)
    }

    /// The verdict on a score of this cell.
    pub fn judge(&self, score: &Score) -> Verdict {
        if score.error <= EXACT && score.throughput >= FULL * self.none.throughput {
            return Verdict::Exact;
        }
        if !self.is_free() && self.is_bound(score) {
            return Verdict::Bound;
        }
        self.dominator(score).map_or(Verdict::Lost, Verdict::Dominated)
    }

    fn is_bound(&self, score: &Score) -> bool {
        if self.is_rotational {
            return self.is_as_fast_as_exact(score);
        }
        let is_near = self.distance(score).is_some_and(|distance| distance <= NEAR);
        self.keeps_floor(score) && (is_near || self.is_better_than_turns(score))
    }

    /// Whether the shares are nearer to the weights than those of time-sharing. No scheduler can be
    /// nearer than formula (4), so this applies only where the formula does not.
    fn is_better_than_turns(&self, score: &Score) -> bool {
        let turns = self.can_be_had(score).filter(|_| score.can.is_none());
        turns.is_some_and(|turns| {
            let sum: f64 = turns.iter().sum();
            let tenants = turns.iter().zip(&self.shares).filter(|(_, share)| **share > 0.0);
            let error = tenants.map(|(rate, share)| (rate / sum / share - 1.0).abs()).fold(0.0, f64::max);
            score.error <= error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score of a scheduler with two tenants, of which the first is due a ninth. `part` is the
    /// part of `throughput` that the first one got.
    fn score(throughput: f64, part: f64) -> Score {
        let rates = vec![throughput * part, throughput * (1.0 - part)];
        let error = (part * 9.0 - 1.0).abs().max(((1.0 - part) * 9.0 / 8.0 - 1.0).abs());
        Score { error, throughput, rates, can: None }
    }

    fn field(is_rotational: bool, others: &[(f64, f64)]) -> Field {
        let scores = others.iter().map(|(throughput, part)| score(*throughput, *part)).collect();
        Field { is_rotational, shares: vec![1.0 / 9.0, 8.0 / 9.0], none: score(100.0, 0.5), scores }
    }

    const DUE: f64 = 1.0 / 9.0;

    #[test]
    fn exact_at_the_floor_is_exact() {
        let field = field(false, &[(97.1, DUE * 1.04), (96.9, DUE), (99.0, DUE * 1.08)]);
        assert!(field.is_free());
        assert_eq!(field.judge(&field.scores[0]), Verdict::Exact);
        // The second scheduler gave up 3.1 % for its exact shares, of the 3 % that are permitted;
        // the first shows that 3 % are enough.
        assert_eq!(field.judge(&field.scores[1]), Verdict::Lost);
        // An error of 8 % is more than [`EXACT`] and less than [`WRONG`].
        assert_eq!(field.judge(&field.scores[2]), Verdict::Lost);
    }

    #[test]
    fn ignoring_weights_is_dominated_by_the_fastest_that_respects_them() {
        let field = field(false, &[(98.0, DUE), (99.0, DUE), (96.0, DUE)]);
        assert_eq!(field.judge(&field.none), Verdict::Dominated(1));
        // A scheduler that is 3 % slower does not dominate.
        let slower = self::field(false, &[(96.0, DUE)]);
        assert_eq!(slower.judge(&slower.none), Verdict::Lost);
    }

    #[test]
    fn on_flash_bound_is_near_to_what_can_be_had() {
        // The exact scheduler delivers 70 (7.8 and 62.2) where `none` delivers 100 (50 and 50).
        // With a loss of 3 % exact shares are possible during a tenth of the time, because they
        // cost 30 %. So 0.1 * 7.8 + 0.9 * 50 = 45.8 and 0.1 * 62.2 + 0.9 * 50 = 51.2 are
        // attainable.
        let mut field = field(false, &[(70.0, DUE), (97.0, 0.472), (97.0, 0.55), (90.0, 0.472)]);
        assert!(!field.is_free());
        let can = field.can_be_had(&field.scores[1]).unwrap();
        assert!((can[0] - 45.78).abs() < 0.01 && (can[1] - 51.22).abs() < 0.01, "{can:?}");
        assert_eq!(field.judge(&field.scores[1]), Verdict::Bound);
        assert_eq!(field.judge(&field.scores[2]), Verdict::Lost);
        assert_eq!(field.judge(&field.scores[3]), Verdict::Lost, "below the floor");
        field.scores.push(score(97.0, 0.3));
        assert_eq!(field.judge(&field.scores[4]), Verdict::Bound, "nearer to the weights than turns");
        // If the attainable rates were computed from a formula (`can`), they have precedence over
        // this interpolation.
        field.scores[1].can = Some(vec![30.0, 67.0]);
        assert_eq!(field.judge(&field.scores[1]), Verdict::Lost);
        assert_eq!(field.judge(&field.scores[0]), Verdict::Lost, "exact at 70, whatever its own settings permit");
    }

    #[test]
    fn on_disks_bound_is_as_fast_as_exactness_can_be() {
        let field = field(true, &[(60.0, DUE), (58.5, DUE * 1.055), (57.0, DUE), (60.0, 0.3)]);
        assert_eq!(field.judge(&field.scores[0]), Verdict::Bound);
        assert_eq!(field.judge(&field.scores[1]), Verdict::Bound);
        assert_eq!(field.judge(&field.scores[2]), Verdict::Lost, "5 % slower than need be");
        assert_eq!(field.judge(&field.scores[3]), Verdict::Dominated(0));
        // Where exact shares cost no throughput they are required.
        let free = self::field(true, &[(98.0, DUE), (90.0, DUE)]);
        assert_eq!([0, 1].map(|index| free.judge(&free.scores[index])), [Verdict::Exact, Verdict::Lost]);
    }

    #[test]
    fn tenants_of_less_than_two_per_cent_are_not_held_against_the_oracle() {
        let rates = vec![2.0, 98.0];
        let score = Score { error: 1.0, throughput: 100.0, rates, can: Some(vec![1.0, 97.0]) };
        let none = score.clone();
        let field = Field { is_rotational: false, shares: vec![0.01, 0.99], none, scores: vec![score.clone()] };
        assert!(field.distance(&score).unwrap() < 0.011);
        let larger = Field { shares: vec![0.02, 0.98], ..field };
        assert!(larger.distance(&score).unwrap() > 0.9);
    }
}
