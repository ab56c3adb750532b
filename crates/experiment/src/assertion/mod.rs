//! Assertions about results: `share_error_max <= 10% @ sched=bfq,nr=8`, `total_bw >=
//! 0.95*total_bw@sched=none`.
//!
//! ```text
//! ASSERTION = FIGURE OP VALUE [@ SELECTOR]           FIGURE   = METRIC[(GROUP)][.mean | .lo | .hi]
//! OP        = <= | < | >= | > | ==                   SELECTOR = key=value[,key=value...]  keys: wl, sched, nr, dir
//! VALUE     = NUMBER[UNIT] | FACTOR*FIGURE[@ SELECTOR] | FACTOR*baseline
//! ```
//! An assertion must hold in every cell that its selector chooses; if it chooses none, that is an
//! error. If it refers to another figure, cells of equal workload and thread count are compared.
//! Source: docs/specifications/harness.md, section 5.9.

use serde::{Deserialize, Serialize};

use crate::Diagnostic;
use crate::cell::Cell;
use crate::diagnostic::nearest;
use crate::measurement::Flag;
use crate::metric::{Metric, Quantity, Scope};
use crate::recorder::IoDirection;
use crate::statistics::Estimate;

mod column;
mod parse;

pub use column::Column;

/// A parsed assertion.
#[derive(Clone, PartialEq, Debug)]
pub struct Assertion {
    text: String,
    left: Figure,
    operator: Operator,
    right: Value,
    selector: Selector,
}

#[derive(Clone, PartialEq, Debug)]
struct Figure {
    metric: Metric,
    group: Option<String>,
    statistic: Statistic,
}

#[derive(Copy, Clone, PartialEq, Debug)]
enum Statistic {
    Mean,
    Low,
    High,
}

#[derive(Copy, Clone, PartialEq, Debug)]
enum Operator {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
}

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Number(f64),
    Times { factor: f64, figure: Figure, selector: Selector },
    Baseline { factor: f64 },
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Selector {
    workload: Option<String>,
    scheduler: Option<String>,
    threads: Option<u32>,
    direction: Option<IoDirection>,
}

/// Result of an assertion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The assertion as written.
    pub expr: String,
    /// Whether it holds, by the point estimates.
    pub ok: bool,
    /// Whether noise prevents a decision: the interval of the figure contains values that would
    /// decide otherwise and is wider than the requested precision, or the run was disturbed.
    #[serde(default)]
    pub is_inconclusive: bool,
    /// The figure in the deciding cell: the first cell that certainly fails, otherwise the first
    /// uncertain one, otherwise the first.
    pub value: f64,
    /// The value that it was compared with.
    pub limit: f64,
    /// The unit of both: bytes/s, nanoseconds, a ratio, a number.
    pub quantity: Quantity,
    /// The deciding cell.
    pub cell: String,
}

impl Assertion {
    /// Parses an assertion. The error shows the text with a caret under the position.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        parse::assertion(text)
    }

    /// The assertion as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether [`Assertion::evaluate`] needs a baseline.
    pub fn needs_baseline(&self) -> bool {
        matches!(self.right, Value::Baseline { .. })
    }

    /// Evaluates the cells, taking every figure as exact; an error (exit 2) if the assertion
    /// applies to none of them.
    pub fn evaluate(&self, cells: &[Cell<'_>], baseline: &[Cell<'_>]) -> Result<Verdict, Diagnostic> {
        self.evaluate_within(cells, baseline, f64::INFINITY)
    }

    /// Evaluates the cells. A figure whose 95 % interval is wider than `precision` (0.05 = 5 % on
    /// either side) and contains the limit is inconclusive.
    ///
    /// # Errors
    /// As [`Assertion::evaluate`].
    pub fn evaluate_within(
        &self,
        cells: &[Cell<'_>],
        baseline: &[Cell<'_>],
        precision: f64,
    ) -> Result<Verdict, Diagnostic> {
        let chosen: Vec<&Cell<'_>> = cells.iter().filter(|cell| self.selector.matches(cell)).collect();
        if chosen.is_empty() {
            return Err(self.no_match(&self.selector, cells));
        }
        let mut verdicts = Vec::new();
        for cell in chosen {
            let Some(value) = self.left.of(cell, self.selector.direction).map_err(|what| self.wrong(what))? else {
                continue;
            };
            for limit in self.limits(cell, cells, baseline)? {
                let (value, limit) = (self.left.pick(&value), limit);
                let ok = self.operator.holds(value.at, limit.at);
                let is_disturbed = cell.flags.iter().any(|flag| matches!(flag, Flag::Disturbed | Flag::CpuShort));
                let is_noisy =
                    is_disturbed && precision.is_finite() || value.is_wider(precision) || limit.is_wider(precision);
                let is_inconclusive = is_noisy && !self.operator.is_sure(value, limit);
                let (expr, quantity, cell) = (self.text.clone(), self.left.metric.quantity(), cell.name());
                verdicts.push(Verdict { expr, ok, is_inconclusive, value: value.at, limit: limit.at, quantity, cell });
            }
        }
        let failed = verdicts.iter().position(|verdict| !verdict.ok && !verdict.is_inconclusive);
        let unsure = || verdicts.iter().position(|verdict| verdict.is_inconclusive);
        let deciding = failed.or_else(unsure).unwrap_or(0);
        verdicts.into_iter().nth(deciding).ok_or_else(|| {
            let what = format!("no run has both sides of it ({} has no value there)", self.left.metric.name());
            self.wrong(Diagnostic::new(what, "latencies exist only where requests were done in that direction"))
        })
    }

    /// The values that `cell` is compared with.
    fn limits(&self, cell: &Cell<'_>, cells: &[Cell<'_>], baseline: &[Cell<'_>]) -> Result<Vec<Reading>, Diagnostic> {
        match &self.right {
            Value::Number(number) => Ok(vec![Reading::exact(*number)]),
            Value::Times { factor, figure, selector } => {
                let matches = |other: &&Cell<'_>| {
                    selector.matches(other)
                        && (selector.workload.is_some() || other.workload == cell.workload)
                        && (selector.threads.is_some() || other.threads == cell.threads)
                };
                let others: Vec<&Cell<'_>> = cells.iter().filter(matches).collect();
                if others.is_empty() {
                    return Err(self.no_match(selector, cells));
                }
                let mut limits = Vec::new();
                for other in others {
                    let value = figure.of(other, selector.direction).map_err(|what| self.wrong(what))?;
                    limits.extend(value.map(|value| figure.pick(&value).times(*factor)));
                }
                Ok(limits)
            }
            Value::Baseline { factor } => {
                let same = |other: &&Cell<'_>| {
                    other.workload == cell.workload && other.threads == cell.threads && other.spec == cell.spec
                };
                let Some(other) = baseline.iter().find(same) else {
                    let what = format!("the baseline has no run of {}", cell.name());
                    return Err(
                        self.wrong(Diagnostic::new(what, "give --baseline DIR with a result of the same matrix"))
                    );
                };
                let value = self.left.of(other, self.selector.direction).map_err(|what| self.wrong(what))?;
                Ok(value.map(|value| self.left.pick(&value).times(*factor)).into_iter().collect())
            }
        }
    }

    fn wrong(&self, what: Diagnostic) -> Diagnostic {
        Diagnostic::new(format!("assertion '{}': {}", self.text, what.message), what.help)
    }

    fn no_match(&self, selector: &Selector, cells: &[Cell<'_>]) -> Diagnostic {
        let names: Vec<String> = cells.iter().map(Cell::name).collect();
        let mut help = format!("there are: {}", names.join("; "));
        if let Some(scheduler) = &selector.scheduler
            && let Some(meant) = nearest(scheduler, cells.iter().map(|cell| cell.spec.name.as_str()))
            && meant != scheduler
        {
            help = format!("did you mean sched={meant}? {help}");
        }
        self.wrong(Diagnostic::new(format!("no run matches {}", selector.text()), help))
    }
}

impl Figure {
    /// The figure in a cell; `None` if there is nothing to measure, an error for an unknown group.
    fn of(&self, cell: &Cell<'_>, direction: Option<IoDirection>) -> Result<Option<Estimate>, Diagnostic> {
        let group = match &self.group {
            None => None,
            Some(name) => Some(cell.groups.iter().position(|group| group.path == name).ok_or_else(|| {
                let paths: Vec<&str> = cell.groups.iter().map(|group| group.path).collect();
                Diagnostic::new(format!("there is no group '{name}'"), format!("groups are: {}", paths.join(", ")))
            })?),
        };
        Ok(self.metric.of(cell, group, direction))
    }

    /// The number that is compared. If the assertion names an end of the interval, noise is already
    /// accounted for.
    fn pick(&self, estimate: &Estimate) -> Reading {
        match self.statistic {
            Statistic::Mean => Reading { at: estimate.mean, low: estimate.low(), high: estimate.high() },
            Statistic::Low => Reading::exact(estimate.low()),
            Statistic::High => Reading::exact(estimate.high()),
        }
    }
}

/// A number of a comparison with its interval.
#[derive(Copy, Clone)]
struct Reading {
    at: f64,
    low: f64,
    high: f64,
}

impl Reading {
    const fn exact(at: f64) -> Self {
        Self { at, low: at, high: at }
    }

    fn times(self, factor: f64) -> Self {
        Self { at: self.at * factor, low: self.low * factor, high: self.high * factor }
    }

    fn is_wider(self, precision: f64) -> bool {
        (self.high - self.at).abs() > precision * self.at.abs()
    }
}

impl Operator {
    /// Whether all pairs of values within both intervals give the same answer.
    fn is_sure(self, value: Reading, limit: Reading) -> bool {
        match self {
            Operator::AtMost | Operator::Above => value.high <= limit.low || value.low > limit.high,
            Operator::Below | Operator::AtLeast => value.high < limit.low || value.low >= limit.high,
            // A measured value is never certain to be equal to another.
            Operator::Equal => value.low == value.high && limit.low == limit.high,
        }
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::AtMost => value <= limit,
            Operator::Below => value < limit,
            Operator::AtLeast => value >= limit,
            Operator::Above => value > limit,
            // Figures are quotients, so values that agree in twelve digits count as equal.
            Operator::Equal => (value - limit).abs() <= 1e-12 * value.abs().max(limit.abs()),
        }
    }
}

impl Selector {
    fn matches(&self, cell: &Cell<'_>) -> bool {
        let spec = cell.spec;
        self.workload.as_ref().is_none_or(|workload| workload.eq_ignore_ascii_case(cell.workload))
            && self.threads.is_none_or(|threads| threads == cell.threads)
            && self.scheduler.as_ref().is_none_or(|wanted| {
                let versioned = spec.version.as_ref().map(|version| format!("{}@{version}", spec.name));
                *wanted == spec.name || Some(wanted) == versioned.as_ref() || *wanted == spec.to_string()
            })
    }

    fn text(&self) -> String {
        let pairs = [
            self.workload.as_ref().map(|workload| format!("wl={workload}")),
            self.scheduler.as_ref().map(|scheduler| format!("sched={scheduler}")),
            self.threads.map(|threads| format!("nr={threads}")),
        ];
        let given: Vec<String> = pairs.into_iter().flatten().collect();
        if given.is_empty() { "(nothing was measured)".to_owned() } else { given.join(",") }
    }
}
