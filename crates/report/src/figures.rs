//! A table of selected figures (`--figures`): a row per workload, scheduler and thread count.

use hoistway_experiment::assertion::Column;
use hoistway_experiment::cell::{Cell, cells};
use hoistway_experiment::measurement::Flag;
use hoistway_experiment::metric::Quantity;

use crate::Results;
use crate::grid::Grid;
use crate::quantity::{self, decimals, scheduler};
use crate::table::{incomplete, verdicts};

/// Unit of rates. fio 2 and bonnie++ print KiB/s as `KB/s` and `K/sec`, dd prints MB/s.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum RateUnit {
    /// 1,048,576 bytes per second.
    #[default]
    MebibytesPerSecond,
    /// 1,024 bytes per second.
    KibibytesPerSecond,
    /// 1,000,000 bytes per second.
    MegabytesPerSecond,
}

impl RateUnit {
    /// Name in headings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MebibytesPerSecond => "MiB/s",
            Self::KibibytesPerSecond => "KiB/s",
            Self::MegabytesPerSecond => "MB/s",
        }
    }

    fn amount(self, bytes_per_s: f64) -> String {
        let value = match self {
            Self::MebibytesPerSecond => quantity::mib(bytes_per_s),
            Self::KibibytesPerSecond => return format!("{:.0}", bytes_per_s / 1_024.0),
            Self::MegabytesPerSecond => bytes_per_s / 1e6,
        };
        format!("{value:.*}", decimals(value))
    }
}

/// What is shown, and how.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FigureOptions {
    /// The figures.
    pub columns: Vec<Column>,
    /// Unit of rates.
    pub rates: RateUnit,
    /// Whether each repetition has a row before the row of all.
    pub per_set: bool,
}

/// The table.
pub fn table(results: &Results<'_>, options: &FigureOptions) -> String {
    let cells = results.cells();
    let has_many = |of: fn(&Cell<'_>) -> String| cells.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
    let workload: fn(&Cell<'_>) -> String = |cell| cell.workload.to_owned();
    let threads: fn(&Cell<'_>) -> String = |cell| cell.threads.to_string();
    // Properties that all rows share need no column.
    let keys: Vec<_> = [("workload", workload), ("NR", threads)].into_iter().filter(|(_, of)| has_many(*of)).collect();
    let unit = |column: &Column| match column.quantity() {
        Quantity::BytesPerSecond => format!(" {}", options.rates.name()),
        _ => String::new(),
    };
    let mut header = vec!["sched".to_owned()];
    header.extend(keys.iter().map(|(name, _)| (*name).to_owned()));
    header.extend(options.per_set.then(|| "set".to_owned()));
    header.extend(options.columns.iter().map(|column| format!("{}{}", column.title(), unit(column))));
    header.push(String::new());
    let mut grid = Grid::new(&header);
    let row = |cell: &Cell<'_>, set: &str| {
        let mut row = vec![scheduler(cell)];
        row.extend(keys.iter().map(|(_, of)| of(cell)));
        row.extend(options.per_set.then(|| set.to_owned()));
        row.extend(options.columns.iter().map(|column| match column.of(cell) {
            Some(value) => figure(column.quantity(), value, options.rates),
            None => "-".to_owned(),
        }));
        let marks = cell.flags.iter().filter(|flag| !matches!(flag, Flag::ShortWindow | Flag::NoShares));
        row.push(marks.map(|flag| flag.label()).collect::<Vec<_>>().join(", "));
        row
    };
    for cell in &cells {
        for run in cell.runs.iter().filter(|_| options.per_set) {
            let alone = self::cells(std::slice::from_ref(*run), &results.matrix.schedulers);
            alone.iter().for_each(|alone| grid.row(row(alone, &run.experiment.set.to_string())));
        }
        grid.row(row(cell, "all"));
    }
    grid.show() + incomplete(results) + &verdicts(results)
}

/// A value without the unit of its column.
fn figure(quantity: Quantity, value: f64, rates: RateUnit) -> String {
    match quantity {
        Quantity::BytesPerSecond => rates.amount(value),
        _ => quantity::amount(quantity, value),
    }
}
