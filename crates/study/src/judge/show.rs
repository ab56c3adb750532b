//! Judged cells as text: a row per cell, then a summary of all of them.

use super::balance::{Balance, Goal};
use super::cell::Cell;
use super::cell_verdict::CellVerdict;
use super::format::Kind;
use super::runs::Plan;
use super::summary::{Counts, Medium, goal_ns};
use super::verdict::{Field, Score, Verdict};
use crate::columns::grid;

/// The media, which divide the summaries.
pub const MEDIA: [(&str, bool); 2] = [("flash", false), ("disks and arrays", true)];

/// The portion of cells that are judged by isolation and speedup.
const UNEQUAL: &str = "isolation and speedup";

/// The plan of the runs: cells with their times, then all measured schedulers.
pub fn plan(plan: &Plan) -> String {
    let mut rows = vec![["cell", "kind", "ramp s", "judged s", ""].map(str::to_owned).to_vec()];
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    rows.extend(plan.cells.iter().map(|cell| {
        let Cell { name, kind, ramp_ns, runtime_ns, doc, .. } = cell;
        vec![name.clone(), kind.name().to_owned(), seconds(*ramp_ns), seconds(*runtime_ns), doc.clone()]
    }));
    let names: Vec<String> = plan.schedulers.iter().map(ToString::to_string).collect();
    let (judged, against) = names.split_at(plan.judged_schedulers);
    let seeds = plan.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "{}{} cells; judged: {}; against: {}; seeds {seeds}: {} runs\n",
        grid(&rows),
        plan.cells.len(),
        judged.join(", "),
        against.join(", "),
        plan.count()
    )
}

/// The table of all cells.
pub fn table(plan: &Plan, cells: &[CellVerdict]) -> String {
    grid(&rows(plan, cells))
}

/// A row for each cell: throughput in per cent of that of `none`, error in per cent, and the
/// verdict on each judged scheduler.
pub fn rows(plan: &Plan, cells: &[CellVerdict]) -> Vec<Vec<String>> {
    let mut header = vec!["cell".to_owned(), "free".to_owned(), "none MB/s".to_owned()];
    header.extend(
        plan.schedulers[..plan.judged_schedulers].iter().map(|spec| format!("{spec}: % of none, error, verdict")),
    );
    let mut rows = vec![header];
    for one in cells {
        let CellVerdict { cell, field, .. } = one;
        let free = if field.is_free() { "yes" } else { "no" };
        let mut row = vec![cell.name.clone(), free.to_owned(), format!("{:.2}", field.none.throughput / 1e6)];
        for (index, score) in field.scores[..plan.judged_schedulers].iter().enumerate() {
            let percent = field.part_of_none(score) * 100.0;
            let judgement =
                one.balance(index).map_or_else(|| verdict(plan, field, score), |(goal, got)| balance(goal, got));
            row.push(format!("{percent:6.1} {:6.1}  {judgement}", score.error * 100.0));
        }
        rows.push(row);
    }
    rows
}

/// Isolation and speedup, with what is missed.
fn balance(goal: Goal, got: Balance) -> String {
    let missed = match (goal.is_isolated(got), goal.is_fast(got)) {
        (true, true) => String::new(),
        (false, true) => format!(", not {:.0} %", goal.isolation * 100.0),
        _ => ", slower than none".to_owned(),
    };
    let Balance { isolation, speedup } = got;
    format!("isolation {:.0} %, speedup {speedup:.2} of {:.2}{missed}", isolation * 100.0, goal.speedup)
}

/// The verdict with the dominating scheduler, or with the distance from what is attainable.
pub fn verdict(plan: &Plan, field: &Field, score: &Score) -> String {
    let verdict = field.judge(score);
    let is_oracles = !field.is_rotational && !field.is_free();
    match (verdict, field.distance(score)) {
        (Verdict::Dominated(by), _) => format!("dominated by {}", plan.schedulers[by]),
        (Verdict::Bound | Verdict::Lost, Some(distance)) if is_oracles => {
            format!("{}, {:.0} % off", verdict.name(), distance * 100.0)
        }
        _ => verdict.name().to_owned(),
    }
}

/// The groups of cells that are summarised together, with their names.
pub fn portions<'a>(cells: &'a [CellVerdict]) -> Vec<Portion<'a>> {
    let mut portions = Vec::new();
    for (medium, is_rotational) in MEDIA {
        let grids: [(&str, &dyn Fn(Kind) -> bool); 3] = [
            ("grid", &|kind| kind == Kind::Grid),
            ("unequal tenants and changes", &|kind| matches!(kind, Kind::Tenants | Kind::Changes)),
            (UNEQUAL, &|kind| kind == Kind::Unequal),
        ];
        for (name, fits) in grids {
            let fits = |cell: &&CellVerdict| cell.cell.is_rotational == is_rotational && fits(cell.cell.kind);
            let cells: Vec<&CellVerdict> = cells.iter().filter(fits).collect();
            portions.push(Portion { medium, name, is_rotational, cells });
        }
    }
    portions.retain(|portion| !portion.cells.is_empty());
    portions
}

/// See [`portions`].
pub struct Portion<'a> {
    /// The kind of device.
    pub medium: &'static str,
    /// The kind of the cells.
    pub name: &'static str,
    is_rotational: bool,
    /// The cells.
    pub cells: Vec<&'a CellVerdict>,
}

/// The summaries, one after the other.
pub fn summary(plan: &Plan, cells: &[CellVerdict]) -> String {
    let texts = summaries(plan, cells).into_iter().map(|rows| grid(&rows));
    texts.collect::<Vec<_>>().join("\n")
}

/// The summaries as rows of columns, by kind of device: verdicts of the grid and of all other
/// cells, then how soon shares settled and how steady the throughput was.
pub fn summaries(plan: &Plan, cells: &[CellVerdict]) -> Vec<Vec<Vec<String>>> {
    let count = plan.schedulers.len();
    let verdicts = portions(cells).into_iter().map(|portion| match portion.name {
        UNEQUAL => balance_rows(plan, &portion),
        _ => verdict_rows(plan, &portion, &Medium::of(&portion.cells, count)),
    });
    let mut tables: Vec<_> = verdicts.collect();
    for (name, is_rotational) in MEDIA {
        let of_medium: Vec<_> = cells.iter().filter(|cell| cell.cell.is_rotational == is_rotational).collect();
        if !of_medium.is_empty() {
            tables.push(pace_rows(plan, name, goal_ns(is_rotational), &Medium::of(&of_medium, count)));
        }
    }
    tables
}

/// A row of a summary: its label, and its value for each scheduler.
type Row<'a> = (String, &'a dyn Fn(&Counts) -> String);

fn rows_of(plan: &Plan, head: String, counts: &[Counts], rows: &[Row<'_>]) -> Vec<Vec<String>> {
    let names = plan.schedulers.iter().map(ToString::to_string);
    let mut table = vec![std::iter::once(head).chain(names).collect::<Vec<_>>()];
    table.extend(rows.iter().map(|(what, figure)| {
        let figures = counts.iter().map(figure);
        std::iter::once(what.clone()).chain(figures).collect()
    }));
    table
}

fn verdict_rows(plan: &Plan, portion: &Portion<'_>, medium: &Medium) -> Vec<Vec<String>> {
    let Medium { cells, free, exact_by_any, counts } = medium;
    let dear = cells - free;
    let (bound, floor) = if portion.is_rotational {
        ("as fast as exact shares can be", "at least 97 % of none's throughput")
    } else {
        ("within 10 % of the attainable", "throughput floor kept")
    };
    let rows: [Row<'_>; 6] = [
        (format!("exact where it costs no throughput ({free})"), &|counts| counts.exact_free.to_string()),
        (format!("where it costs throughput: {bound} ({dear})"), &|counts| counts.bound.to_string()),
        (format!("dominated ({cells})"), &|counts| counts.dominated.to_string()),
        ("verdicts: exact/bound/dominated/lost".to_owned(), &|counts| {
            counts.verdicts.map(|count| count.to_string()).join("/")
        }),
        (format!("{floor} ({cells})"), &|counts| counts.floor_kept.to_string()),
        (format!("error <= 6 % at >= 97 % of the fastest exact scheduler ({exact_by_any})"), &|counts| {
            counts.as_fast_as_exact.to_string()
        }),
    ];
    rows_of(plan, format!("{}, {}: {cells} cells", portion.medium, portion.name), counts, &rows)
}

/// Isolation and weighted speedup of all schedulers, over the cells that are judged by them.
fn balance_rows(plan: &Plan, portion: &Portion<'_>) -> Vec<Vec<String>> {
    let count = portion.cells.len();
    let of = |index: usize| Balances(portion.cells.iter().filter_map(|cell| cell.balance(index)).collect());
    let all: Vec<Balances> = (0..plan.schedulers.len()).map(of).collect();
    let rows: [BalanceRow; 5] = [
        (format!("isolation and speedup ({count})"), |all| all.count(Goal::is_reached)),
        (format!("isolation: 60 % beside 16 times as large requests, 85 % elsewhere ({count})"), |all| {
            all.count(Goal::is_isolated)
        }),
        (format!("weighted speedup not below none's ({count})"), |all| all.count(Goal::is_fast)),
        ("isolation, %: mean/worst".to_owned(), |all| {
            let worst = all.0.iter().map(|(_, got)| got.isolation).fold(f64::INFINITY, f64::min);
            format!("{:.0}/{:.0}", 100.0 * all.mean(|got| got.isolation), 100.0 * worst)
        }),
        ("weighted speedup: mean".to_owned(), |all| format!("{:.2}", all.mean(|got| got.speedup))),
    ];
    let head = format!("{}, {}: {count} cells", portion.medium, portion.name);
    let mut table = vec![std::iter::once(head).chain(plan.schedulers.iter().map(ToString::to_string)).collect()];
    table.extend(rows.map(|(what, figure)| std::iter::once(what).chain(all.iter().map(figure)).collect()));
    table
}

/// A row: its label, and its value for a scheduler.
type BalanceRow = (String, fn(&Balances) -> String);

/// One scheduler's figures, with what is asked for.
struct Balances(Vec<(Goal, Balance)>);

impl Balances {
    fn count(&self, holds: fn(Goal, Balance) -> bool) -> String {
        self.0.iter().filter(|(goal, got)| holds(*goal, *got)).count().to_string()
    }

    fn mean(&self, of: fn(&Balance) -> f64) -> f64 {
        self.0.iter().map(|(_, got)| of(got)).sum::<f64>() / self.0.len().max(1) as f64
    }
}

fn pace_rows(plan: &Plan, name: &str, goal_ns: u64, medium: &Medium) -> Vec<Vec<String>> {
    let Medium { cells, counts, .. } = medium;
    let settlings = counts.first().map_or(0, |counts| counts.settling.count);
    let goal_s = goal_ns / 1_000_000_000;
    let rows: [Row<'_>; 5] = [
        (format!("settled within {goal_s} s, % of {settlings}"), &|counts| {
            percent(counts.settling.soon, counts.settling.count)
        }),
        ("settled after, s: p50/p90/max".to_owned(), &|counts| three(counts.settling.seconds, 1.0)),
        ("every later window within 10 %, %".to_owned(), &|counts| {
            percent(counts.settling.calm, counts.settling.count)
        }),
        (format!("CV at most 1.2 of none's, or 1 % ({cells})"), &|counts| counts.steadiness.kept.to_string()),
        ("CV, %: p50/p90/max".to_owned(), &|counts| three(counts.steadiness.variations, 100.0)),
    ];
    rows_of(plan, format!("{name}: pace and steadiness, {cells} cells"), counts, &rows)
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0}", part as f64 / whole as f64 * 100.0) }
}

fn three(values: Option<[f64; 3]>, unit: f64) -> String {
    values.map_or_else(|| "-".to_owned(), |values| values.map(|value| format!("{:.1}", value * unit)).join("/"))
}
