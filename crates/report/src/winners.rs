//! The best schedulers, named only if their intervals are separate from all others' and they kept
//! the due shares.
//!
//! A scheduler that ignores weights may have a higher throughput, but it is no winner of a test
//! with shares. A single set has no interval of throughput or shares, so it yields no winner in
//! these.

use experiment::Percentile;
use experiment::cell::Cell;
use experiment::metric::Metric;
use experiment::statistics::{Difference, Estimate};

use crate::quantity::{decimals, mib, percent, percentile_name, scheduler, time};

/// Largest share error that still counts as keeping the weights.
const KEPT: f64 = 0.1;
/// The percentile that represents the tail of latency.
const TAIL: f64 = 99.0;

/// The answer to one question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Best {
    /// The question: `highest total`.
    pub what: String,
    /// The winner's figure; `None` if no scheduler is certainly the best.
    pub value: Option<String>,
    /// The winner, or why there is none.
    pub name: String,
}

/// A scheduler in a comparison, with its formatted figure.
struct Candidate<'a> {
    cell: &'a Cell<'a>,
    /// The group of the figure; empty for all.
    of: String,
    mean: f64,
    formatted: String,
}

/// Whether the groups got their due shares: within 10 %, with the whole interval. Always true for a
/// single group.
fn keeps_shares(cell: &Cell<'_>) -> bool {
    cell.groups.len() < 2
        || cell.fairness.is_none()
        || Metric::ShareErrorMax.of(cell, None, None).is_none_or(|error| error.high() <= KEPT)
}

/// Whether any cell has due shares.
fn is_promised(cells: &[&Cell<'_>]) -> bool {
    cells.iter().any(|cell| cell.groups.len() > 1 && cell.fairness.is_some())
}

/// The three main answers, or a single line if there cannot be a winner.
pub(crate) fn best(cells: &[&Cell<'_>]) -> Vec<Best> {
    let answers: Vec<Best> =
        [highest_total(cells), closest(cells), shortest_tail(cells)].into_iter().flatten().collect();
    if cells.len() > 1 && is_promised(cells) && !cells.iter().any(|cell| keeps_shares(cell)) {
        let name = format!("no scheduler keeps the weights within {:.0} %", KEPT * 100.0);
        return vec![Best { what: "no winner".to_owned(), value: None, name }];
    }
    answers
}

/// The scheduler with the highest throughput.
fn highest_total(cells: &[&Cell<'_>]) -> Option<Best> {
    let formatted = |total: f64| format!("{total:.*} MiB/s", decimals(total));
    let of = |&cell: &&'_ Cell<'_>| mib(cell.bytes_per_s.mean);
    let candidate = |cell| Candidate { cell, of: String::new(), mean: of(&cell), formatted: formatted(of(&cell)) };
    let candidates: Vec<Candidate<'_>> = cells.iter().copied().map(candidate).collect();
    if candidates.iter().all(|one| one.mean == 0.0) {
        // Discards transfer nothing, so there is no throughput to compare.
        return None;
    }
    let beats = |one: &Cell<'_>, other: &Cell<'_>| differs(&other.bytes_per_s, &one.bytes_per_s);
    let order = |a: &Candidate<'_>, b: &Candidate<'_>| b.mean.total_cmp(&a.mean);
    compare_candidates(["total", "highest total"], is_promised(cells), candidates, order, beats, Interval::OfSets)
}

/// The scheduler whose shares are closest to the weights.
fn closest(cells: &[&Cell<'_>]) -> Option<Best> {
    let error = |cell: &Cell<'_>| Metric::ShareErrorMax.of(cell, None, None);
    let of = |cell: &&'_ Cell<'_>| cell.groups.len() > 1 && error(cell).is_some();
    let mean = |cell: &Cell<'_>| error(cell).map_or(0.0, |error| error.mean);
    let candidates = cells.iter().copied().filter(of).map(|cell| {
        let formatted = format!("within {}", percent(mean(cell)));
        Candidate { cell, of: String::new(), mean: mean(cell), formatted }
    });
    let beats = |one: &Cell<'_>, other: &Cell<'_>| match (error(one), error(other)) {
        (Some(one), Some(other)) => differs(&other, &one),
        _ => false,
    };
    let order = |a: &Candidate<'_>, b: &Candidate<'_>| a.mean.total_cmp(&b.mean);
    compare_candidates(
        ["shares", "closest to the weights"],
        false,
        candidates.collect(),
        order,
        beats,
        Interval::OfSets,
    )
}

/// The scheduler whose slowest group has the lowest tail latency.
fn shortest_tail(cells: &[&Cell<'_>]) -> Option<Best> {
    let candidates = cells.iter().copied().filter_map(|cell| {
        let (group, tail) = cell.slowest_group(TAIL)?;
        let of = if cell.groups.len() > 1 { format!(" ({})", cell.groups[group].path) } else { String::new() };
        Some(Candidate { cell, of, mean: tail.ns, formatted: time(tail.ns) })
    });
    let interval = |cell: &Cell<'_>| cell.slowest_group(TAIL).and_then(|(_, tail)| tail.interval_ns);
    let beats = |one: &Cell<'_>, other: &Cell<'_>| match (interval(one), interval(other)) {
        (Some((_, high)), Some((low, _))) => high < low,
        _ => false,
    };
    let order = |a: &Candidate<'_>, b: &Candidate<'_>| a.mean.total_cmp(&b.mean);
    let has_groups = cells.iter().any(|cell| cell.groups.len() > 1);
    let name = percentile_name(TAIL);
    let of = if has_groups { format!("{name} of the slowest group") } else { format!("{name} of all requests") };
    let what = [of.clone(), format!("shortest {of}")];
    compare_candidates(
        [&what[0], &what[1]],
        is_promised(cells),
        candidates.collect(),
        order,
        beats,
        Interval::OfSamples,
    )
}

/// The source of intervals, which determines the remedy if they are missing or too wide.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Interval {
    OfSets,
    OfSamples,
}

impl Candidate<'_> {
    fn name(&self) -> String {
        scheduler(self.cell) + &self.of
    }
}

/// Whether two means differ significantly and by at least 1 %; never true for a single set.
fn differs(old: &Estimate, new: &Estimate) -> bool {
    Difference::between(old, new).is_some_and(|it| it.ci95.is_some() && it.is_significant())
}

/// The answer; `names` are the titles for a single candidate and for several.
fn compare_candidates<'a>(
    names: [&str; 2],
    asks_for_shares: bool,
    mut candidates: Vec<Candidate<'a>>,
    order: impl Fn(&Candidate<'a>, &Candidate<'a>) -> std::cmp::Ordering,
    beats: impl Fn(&Cell<'a>, &Cell<'a>) -> bool,
    interval: Interval,
) -> Option<Best> {
    candidates.sort_by(order);
    if let [only] = &candidates[..] {
        return Some(Best { what: names[0].into(), value: Some(only.formatted.clone()), name: only.name() });
    }
    let all = candidates.len();
    if all == 0 {
        return None;
    }
    let what = names[1].to_owned();
    let (candidates, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| keeps_shares(one.cell));
    let among = if asks_for_shares && candidates.len() < all {
        format!(" (of those within {:.0} % of the weights)", KEPT * 100.0)
    } else {
        String::new()
    };
    let first = candidates.first()?;
    // If shares matter, a winner only has to beat the others that keep the weights; otherwise it
    // has to beat all.
    let mut rivals = candidates[1..].iter().chain(others.iter().filter(|_| !asks_for_shares));
    let Some(equal) = rivals.find(|other| !beats(first.cell, other.cell)) else {
        return Some(Best { what: what + &among, value: Some(first.formatted.clone()), name: first.name() });
    };
    let [one, other] = [first, equal].map(|one| format!("{} {}", one.name(), one.formatted));
    let why = match interval {
        Interval::OfSets if first.cell.bytes_per_s.n < 2 => "one set has no interval, --sets 3 has",
        Interval::OfSamples if too_few(&candidates) => "too few samples",
        Interval::OfSets | Interval::OfSamples => "the intervals overlap",
    };
    Some(Best { what, value: None, name: format!("{one} and {other}{among} are not distinguishable: {why}") })
}

fn too_few(candidates: &[Candidate<'_>]) -> bool {
    let tail = |one: &Candidate<'_>| one.cell.slowest_group(TAIL);
    candidates.iter().filter_map(tail).any(|(_, Percentile { interval_ns, .. })| interval_ns.is_none())
}

impl Best {
    /// As a line of text.
    pub(crate) fn line(&self) -> String {
        match &self.value {
            Some(value) => format!("{}: {}, {value}\n", self.what, self.name),
            None => format!("{}: {}\n", self.what, self.name),
        }
    }
}
