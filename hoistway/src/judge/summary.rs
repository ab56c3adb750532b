//! All cells together, scheduler by scheduler: the table that a change of a scheduler is held against.

use super::judged::JudgedCell;
use super::verdict::{Field, Score, Verdict};

/// What one scheduler did in the cells of one kind of device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Exact where that is free.
    pub exact_free: usize,
    /// Where it is not free: as near as can be.
    pub bound: usize,
    /// Shares wrong, while another is exact and no slower; wherever, also in cells that count as bound.
    pub dominated: usize,
    /// Its throughput is what it promises.
    pub floor_kept: usize,
    /// Nearly exact, and no slower than the fastest who is exact.
    pub as_fast_as_exact: usize,
    /// Verdicts: exact, bound, dominated, lost.
    pub verdicts: [usize; 4],
}

/// All cells of one kind of device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Medium {
    /// Cells.
    pub cells: usize,
    /// Cells in which exact shares are free.
    pub free: usize,
    /// Cells in which somebody is exact, whatever it costs.
    pub exact_by_anybody: usize,
    /// By scheduler.
    pub counts: Vec<Counts>,
}

impl Medium {
    /// Sums up; `schedulers` is how many there are.
    pub fn of<'a>(cells: impl Iterator<Item = &'a JudgedCell>, schedulers: usize) -> Self {
        let mut medium = Self { counts: vec![Counts::default(); schedulers], ..Self::default() };
        for cell in cells {
            let field = &cell.field;
            let is_free = field.is_free();
            medium.cells += 1;
            medium.free += usize::from(is_free);
            medium.exact_by_anybody += usize::from(field.fastest_exact().is_some());
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
        // Whoever may give more than 3 % is exact where it is not free for others.
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
