//! A cell after all its runs: the schedulers' figures, what is attainable, how soon shares settled,
//! how steady the throughput was.

use super::balance::{Balance, Goal, balance, goal};
use super::cell::Cell;
use super::field::{present, score, variation};
use super::format::Kind;
use super::oracle::Oracle;
use super::phases::phases;
use super::runs::{Plan, Runs};
use super::settling::{Settling, settling};
use super::verdict::{FULL, Field};
use crate::explain::Curves;

/// A cell with its figures.
#[derive(Clone, Debug)]
pub struct CellVerdict {
    /// The cell.
    pub cell: Cell,
    /// The tenants that are judged, as indices into those of the cell.
    pub present: Vec<usize>,
    /// The schedulers in the plan's order.
    pub field: Field,
    /// By scheduler: one for each seed and phase.
    pub settlings: Vec<Vec<Settling>>,
    /// By scheduler: standard deviation over mean of the throughput of whole seconds.
    pub variations: Vec<Option<f64>>,
    /// By scheduler: isolation and weighted speedup; none where all tenants have the same workload.
    pub balances: Vec<Option<Balance>>,
    /// The index of `none` among the schedulers.
    pub none: usize,
}

impl CellVerdict {
    /// What is asked of schedulers, and what the one with this index achieves, in a cell that is judged
    /// by isolation and speedup.
    pub fn balance(&self, scheduler: usize) -> Option<(Goal, Balance)> {
        let balance = self.balances[scheduler].filter(|_| self.cell.kind == Kind::Unequal)?;
        Some((goal(&self.cell, self.balances[self.none]?), balance))
    }

    /// Combines the runs of a cell; none if a signal left some of them out.
    pub fn of(plan: &Plan, runs: &Runs, index: usize, curves: &mut Curves) -> Option<Self> {
        let cell = &plan.cells[index];
        let all: Vec<_> = (0..plan.schedulers.len()).map(|scheduler| runs.of(index, scheduler)).collect();
        if all.iter().any(|runs| runs.len() < plan.seeds.len()) {
            return None;
        }
        let solo_rates = runs.solo_rates(index);
        let scores: Vec<_> = all.iter().map(|runs| score(cell, &solo_rates, runs)).collect();
        let none = plan.schedulers.iter().position(|spec| spec.name == "none")?;
        let (nones, shares) = scores[none].clone();
        let mut scores: Vec<_> = scores.into_iter().map(|(score, _)| score).collect();
        let present = present(cell);
        if let Some(oracle) = Oracle::of(cell, &shares, &present, curves) {
            scores.iter_mut().for_each(|score| score.can = Some(oracle.rates(1.0 - FULL)));
        }
        let settlings = all.iter().map(|runs| {
            let of_run = |series| phases(cell, series).into_iter().filter_map(move |phase| settling(series, phase));
            runs.iter().flat_map(|run| of_run(&run.series)).collect()
        });
        let variations =
            all.iter().map(|runs| variation(cell, &runs.iter().map(|run| &run.series).collect::<Vec<_>>()));
        let (settlings, variations) = (settlings.collect(), variations.collect());
        let balances = scores.iter().map(|score| balance(cell, &solo_rates, &score.rates)).collect();
        let field = Field { is_rotational: cell.is_rotational, shares, none: nones, scores };
        Some(Self { cell: cell.clone(), present, field, settlings, variations, balances, none })
    }
}
