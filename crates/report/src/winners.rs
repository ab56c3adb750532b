//! The best schedulers, named only if their intervals are separate from all others' and the groups
//! got what they are entitled to.
//!
//! A scheduler may reach a higher throughput by giving one group what belongs to another, but it is
//! no winner of a test with groups. Where what the groups are entitled to is not known, they are
//! judged by their weights. A single set has no interval of throughput or isolation, so it yields
//! an order, and no winner, in these.

use hoistway_experiment::Percentile;
use hoistway_experiment::cell::Cell;
use hoistway_experiment::metric::Metric;
use hoistway_experiment::statistics::{Difference, Estimate};

use crate::quantity::{decimals, mib, percent, percentile_name, scheduler, time};

/// Largest share error that still counts as keeping the weights, and largest distance from the best
/// isolation that still counts as isolating: p99 and total of two schedulers with less between them
/// may be compared.
const KEPT: f64 = 0.1;
/// The percentile that represents the tail of latency.
const TAIL: f64 = 99.0;

/// A percentile further out, named if it is ten times as long.
const FAR: f64 = 99.9;

/// The answer to one question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Best {
    /// The question: `highest total`.
    pub what: String,
    /// The winner's figure; `None` if no scheduler is certainly the best.
    pub value: Option<String>,
    /// The winner, or why there is none.
    pub name: String,
    /// What is to be known about the winner: the next one, where a single run tells no more.
    pub remark: String,
}

/// A scheduler in a comparison, with its formatted figure.
struct Candidate<'a> {
    cell: &'a Cell<'a>,
    /// The group of the figure; empty for all.
    of: String,
    mean: f64,
    formatted: String,
}

/// By what schedulers are judged beside their throughput and latency.
#[derive(Copy, Clone, PartialEq)]
enum Yardstick {
    /// What groups are entitled to; the best isolation of any scheduler.
    Isolation(f64),
    /// The weights alone.
    Weights,
}

impl Yardstick {
    /// Isolation if it is known of every cell.
    fn of(cells: &[&Cell<'_>]) -> Self {
        let known: Option<Vec<f64>> = cells.iter().map(|cell| Some(cell.entitlement.as_ref()?.isolation)).collect();
        known.and_then(|known| known.into_iter().reduce(f64::max)).map_or(Self::Weights, Self::Isolation)
    }

    /// Whether the groups got what they may expect: within 10 % of the best isolation, or within
    /// 10 % of the weights with the whole interval. Always true for a single group.
    fn is_met(self, cell: &Cell<'_>) -> bool {
        match self {
            Self::Isolation(best) => cell.entitlement.as_ref().is_none_or(|it| it.isolation >= best * (1.0 - KEPT)),
            Self::Weights => {
                cell.groups.len() < 2
                    || cell.fairness.is_none()
                    || Metric::ShareErrorMax.of(cell, None, None).is_none_or(|error| error.high() <= KEPT)
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Isolation(_) => "best isolation",
            Self::Weights => "weights",
        }
    }
}

/// Whether any cell has due shares.
fn is_promised(cells: &[&Cell<'_>]) -> bool {
    cells.iter().any(|cell| cell.groups.len() > 1 && cell.fairness.is_some())
}

/// The three main answers, or a single line if there cannot be a winner.
pub(crate) fn best(cells: &[&Cell<'_>]) -> Vec<Best> {
    let yardstick = Yardstick::of(cells);
    let fairest = match yardstick {
        Yardstick::Isolation(_) => best_isolation(cells),
        Yardstick::Weights => closest(cells),
    };
    let answers: Vec<Best> = [fairest, highest_total(cells), shortest_tail(cells)].into_iter().flatten().collect();
    if cells.len() > 1 && is_promised(cells) && !cells.iter().any(|cell| yardstick.is_met(cell)) {
        let name = format!("no scheduler keeps the weights within {:.0} %", KEPT * 100.0);
        return vec![Best { what: "no winner".to_owned(), value: None, name, remark: String::new() }];
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
    compare_candidates(["total", "highest total"], asked_of(cells), candidates, order, beats, Interval::OfSets)
}

/// The scheduler under which the group that is worst off gets most of what it is entitled to.
fn best_isolation(cells: &[&Cell<'_>]) -> Option<Best> {
    let isolation = |cell: &Cell<'_>| Metric::Isolation.of(cell, None, None);
    let candidates = cells.iter().copied().filter_map(|cell| {
        let (mean, worst) = (isolation(cell)?.mean, cell.entitlement.as_ref()?.worst);
        let of = if mean < 1.0 - KEPT { format!(" ({})", cell.groups[worst].path) } else { String::new() };
        Some(Candidate { cell, of, mean, formatted: percent(mean) })
    });
    let beats = |one: &Cell<'_>, other: &Cell<'_>| match (isolation(one), isolation(other)) {
        (Some(one), Some(other)) => differs(&other, &one),
        _ => false,
    };
    let order = |a: &Candidate<'_>, b: &Candidate<'_>| b.mean.total_cmp(&a.mean);
    let names = ["isolation", "best isolation"];
    compare_candidates(names, None, candidates.collect(), order, beats, Interval::OfSets)
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
    compare_candidates(["shares", "closest to the weights"], None, candidates.collect(), order, beats, Interval::OfSets)
}

/// The scheduler whose slowest group has the lowest tail latency.
fn shortest_tail(cells: &[&Cell<'_>]) -> Option<Best> {
    let candidates = cells.iter().copied().filter_map(|cell| {
        let (group, tail) = cell.slowest_group(TAIL)?;
        let of = if cell.groups.len() > 1 { format!(" ({})", cell.groups[group].path) } else { String::new() };
        // A few requests that wait far longer than these are not hidden behind them.
        let far = cell.slowest_group(FAR).filter(|(_, far)| far.ns >= tail.ns * 10.0);
        let far = far.map_or_else(String::new, |(_, far)| format!(", but {} {}", percentile_name(FAR), time(far.ns)));
        Some(Candidate { cell, of, mean: tail.ns, formatted: time(tail.ns) + &far })
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
    compare_candidates([&what[0], &what[1]], asked_of(cells), candidates.collect(), order, beats, Interval::OfSamples)
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

/// What a winner must meet as well, if the groups are promised anything.
fn asked_of(cells: &[&Cell<'_>]) -> Option<Yardstick> {
    is_promised(cells).then(|| Yardstick::of(cells))
}

/// The answer; `names` are the titles for a single candidate and for several.
fn compare_candidates<'a>(
    names: [&str; 2],
    asked: Option<Yardstick>,
    mut candidates: Vec<Candidate<'a>>,
    order: impl Fn(&Candidate<'a>, &Candidate<'a>) -> std::cmp::Ordering,
    beats: impl Fn(&Cell<'a>, &Cell<'a>) -> bool,
    interval: Interval,
) -> Option<Best> {
    candidates.sort_by(order);
    if let [only] = &candidates[..] {
        return Some(Best::certain(names[0].to_owned(), only));
    }
    let all = candidates.len();
    if all == 0 {
        return None;
    }
    let what = names[1].to_owned();
    let is_met = |one: &Candidate<'a>| asked.is_none_or(|yardstick| yardstick.is_met(one.cell));
    let candidates: Vec<Candidate<'a>> = candidates.into_iter().filter(is_met).collect();
    let among = match asked {
        Some(yardstick) if candidates.len() < all => {
            format!(" (of those within {:.0} % of the {})", KEPT * 100.0, yardstick.name())
        }
        _ => String::new(),
    };
    let first = candidates.first()?;
    let mut rivals = candidates[1..].iter();
    let Some(equal) = rivals.find(|other| !beats(first.cell, other.cell)) else {
        return Some(Best::certain(what + &among, first));
    };
    let [one, other] = [first, equal].map(|one| format!("{} {}", one.name(), one.formatted));
    if interval == Interval::OfSets && first.cell.bytes_per_s.n < 2 {
        let remark = format!("; then {other}; one run only: --sets 3 tells noise from difference");
        return Some(Best { remark, ..Best::certain(what + &among, first) });
    }
    let why = match interval {
        Interval::OfSamples if too_few(&candidates) => "too few samples",
        Interval::OfSets | Interval::OfSamples => "the intervals overlap",
    };
    let name = format!("{one} and {other}{among} are not distinguishable: {why}");
    Some(Best { what, value: None, name, remark: String::new() })
}

fn too_few(candidates: &[Candidate<'_>]) -> bool {
    let tail = |one: &Candidate<'_>| one.cell.slowest_group(TAIL);
    candidates.iter().filter_map(tail).any(|(_, Percentile { interval_ns, .. })| interval_ns.is_none())
}

impl Best {
    fn certain(what: String, winner: &Candidate<'_>) -> Self {
        Self { what, value: Some(winner.formatted.clone()), name: winner.name(), remark: String::new() }
    }

    /// As a line of text.
    pub(crate) fn line(&self) -> String {
        match &self.value {
            Some(value) => format!("{}: {}, {value}{}\n", self.what, self.name, self.remark),
            None => format!("{}: {}\n", self.what, self.name),
        }
    }
}
