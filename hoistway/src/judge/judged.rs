//! A cell when all its runs are made: figures of everybody, and what can be had.

use super::cells::Cell;
use super::field::{present, score};
use super::oracle::Oracle;
use super::runs::{Plan, Runs};
use super::verdict::Field;
use crate::test::explain::Curves;

/// A cell with its figures.
#[derive(Clone, Debug)]
pub struct JudgedCell {
    /// What it is.
    pub cell: Cell,
    /// The schedulers in the plan's order.
    pub field: Field,
}

impl JudgedCell {
    /// Puts the runs of a cell together; none if a signal left some of them out.
    pub fn of(plan: &Plan, runs: &Runs, index: usize, curves: &mut Curves) -> Option<Self> {
        let cell = &plan.cells[index];
        let all: Vec<_> = (0..plan.schedulers.len()).map(|scheduler| runs.of(index, scheduler)).collect();
        if all.iter().any(|runs| runs.len() < plan.seeds.len()) {
            return None;
        }
        let scores: Vec<_> = all.iter().map(|runs| score(cell, runs)).collect();
        let none = plan.schedulers.iter().position(|spec| spec.name == "none")?;
        let (none, shares) = scores[none].clone();
        let mut scores: Vec<_> = scores.into_iter().map(|(score, _)| score).collect();
        if let Some(oracle) = Oracle::of(cell, &shares, &present(cell), curves) {
            scores.iter_mut().for_each(|score| score.can = Some(oracle.rates(score.give)));
        }
        let field = Field { is_rotational: cell.is_rotational, shares, none, scores };
        Some(Self { cell: cell.clone(), field })
    }
}
