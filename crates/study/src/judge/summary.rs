//! The summary of all cells by scheduler: the table against which a change of a scheduler is
//! checked.

use super::cell_verdict::CellVerdict;
use super::settling::{Settling, spread};
use super::verdict::{Field, NEAR, Score, Verdict};

/// Allowed ratio of a scheduler's variation of throughput to that of `none`.
pub const MOST_VARIATION: f64 = 1.2;
/// A variation below this is negligible, however small that of `none` is.
pub const UNFELT_VARIATION: f64 = 0.01;

/// The goal for the time to settle, in nanoseconds.
pub const fn goal_ns(is_rotational: bool) -> u64 {
    if is_rotational { 5_000_000_000 } else { 2_000_000_000 }
}

/// One scheduler's results in the cells of one kind of device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Cells in which exact shares are free and it has them.
    pub exact_free: usize,
    /// Cells in which exact shares are not free and it is as near as possible.
    pub bound: usize,
    /// Cells with wrong shares, while another scheduler is nearly exact and no slower; includes
    /// cells that count as bound.
    pub dominated: usize,
    /// Cells in which its throughput is what it guarantees.
    pub floor_kept: usize,
    /// Cells in which it is nearly exact, and no slower than the fastest exact scheduler.
    pub as_fast_as_exact: usize,
    /// Verdicts: exact, bound, dominated, lost.
    pub verdicts: [usize; 4],
    /// How soon shares settled.
    pub settling: Pace,
    /// How steady the total throughput is.
    pub steadiness: Steadiness,
}

/// How soon shares settled, over all runs and phases.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pace {
    /// Number of runs and phases.
    pub count: usize,
    /// Number that settled within [`goal_ns`].
    pub soon: usize,
    /// Median, 90th percentile and maximum, in seconds.
    pub seconds: Option<[f64; 3]>,
    /// Number in which every window of the steady state is within 10 % of its mean.
    pub calm: usize,
}

/// Variation of the throughput of whole seconds, over cells.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Steadiness {
    /// Cells in which it is known.
    pub count: usize,
    /// Cells in which it is at most [`MOST_VARIATION`] times that of `none`, or at most
    /// [`UNFELT_VARIATION`].
    pub kept: usize,
    /// Median, 90th percentile and maximum of the deviation over the mean.
    pub variations: Option<[f64; 3]>,
}

/// The cells of one kind of device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Medium {
    /// Cells.
    pub cells: usize,
    /// Cells in which exact shares are free.
    pub free: usize,
    /// Cells in which some scheduler is exact, at whatever cost.
    pub exact_by_any: usize,
    /// By scheduler.
    pub counts: Vec<Counts>,
}

impl Medium {
    /// Computes the summary; `schedulers` is their number.
    pub fn of(cells: &[&CellVerdict], schedulers: usize) -> Self {
        let counts = (0..schedulers).map(|index| Counts {
            settling: Pace::of(cells.iter().flat_map(|cell| {
                let goal_ns = goal_ns(cell.cell.is_rotational);
                cell.settlings[index].iter().map(move |settling| (*settling, goal_ns))
            })),
            steadiness: Steadiness::of(cells.iter().map(|cell| (cell.variations[index], cell.variations[cell.none]))),
            ..Counts::default()
        });
        let mut medium = Self { counts: counts.collect(), ..Self::default() };
        for cell in cells {
            let field = &cell.field;
            let is_free = field.is_free();
            medium.cells += 1;
            medium.free += usize::from(is_free);
            medium.exact_by_any += usize::from(field.fastest_exact().is_some());
            for (counts, score) in medium.counts.iter_mut().zip(&field.scores) {
                counts.add(field, score, is_free);
            }
        }
        medium
    }
}

impl Counts {
    fn add(&mut self, field: &Field, score: &Score, is_free: bool) {
        let verdict = field.judge(score);
        self.exact_free += usize::from(is_free && verdict == Verdict::Exact);
        // A scheduler whose `give` is larger than 3 % can be exact in a cell in which exact shares
        // are not free.
        self.bound += usize::from(!is_free && matches!(verdict, Verdict::Bound | Verdict::Exact));
        self.dominated += usize::from(field.dominator(score).is_some());
        self.floor_kept += usize::from(field.keeps_floor(score));
        self.as_fast_as_exact += usize::from(field.is_as_fast_as_exact(score));
        let place = match verdict {
            Verdict::Exact => 0,
            Verdict::Bound => 1,
            Verdict::Dominated(_) => 2,
            Verdict::Lost => 3,
        };
        self.verdicts[place] += 1;
    }
}

impl Pace {
    fn of(settlings: impl Iterator<Item = (Settling, u64)>) -> Self {
        let settlings: Vec<(Settling, u64)> = settlings.collect();
        Self {
            count: settlings.len(),
            soon: settlings.iter().filter(|(one, goal_ns)| one.after_ns <= *goal_ns).count(),
            seconds: spread(settlings.iter().map(|(one, _)| one.after_ns as f64 / 1e9).collect()),
            calm: settlings.iter().filter(|(one, _)| one.scatter <= NEAR).count(),
        }
    }
}

impl Steadiness {
    fn of(variations: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Self {
        let known: Vec<(f64, f64)> = variations.filter_map(|(own, none)| Some((own?, none?))).collect();
        let is_kept = |(own, none): &&(f64, f64)| *own <= (MOST_VARIATION * none).max(UNFELT_VARIATION);
        Self {
            count: known.len(),
            kept: known.iter().filter(is_kept).count(),
            variations: spread(known.iter().map(|(own, _)| *own).collect()),
        }
    }
}
