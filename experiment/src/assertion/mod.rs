//! Assertions over results: `share_error_max <= 10% @ sched=bfq,nr=8`, `total_bw >= 0.95*total_bw@sched=none`.
//!
//! ```text
//! ASSERTION = FIGURE OP VALUE [@ SELECTOR]           FIGURE   = METRIC[(GROUP)][.mean | .lo | .hi]
//! OP        = <= | < | >= | > | ==                   SELECTOR = key=value[,key=value...]  keys: wl, sched, nr, dir
//! VALUE     = NUMBER[UNIT] | FACTOR*FIGURE[@ SELECTOR] | FACTOR*baseline
//! ```
//! An assertion must hold in every cell its selector chooses; one that chooses none is an error, not a pass. Against
//! another figure, cells of equal workload and thread count are compared. Source: harness 5.9.

use serde::{Deserialize, Serialize};

use crate::Diagnostic;
use crate::cell::Cell;
use crate::diagnostic::nearest;
use crate::metric::{Metric, Quantity, Scope};
use crate::recorder::IoDirection;
use crate::statistics::Estimate;

mod column;
mod parse;

pub use column::Column;

/// An assertion, parsed.
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

/// What became of an assertion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The assertion as written.
    pub expr: String,
    /// Whether it holds.
    pub ok: bool,
    /// The figure in the deciding cell: the first that fails, else the first.
    pub value: f64,
    /// What it was compared with.
    pub limit: f64,
    /// What both are: bytes/s, nanoseconds, a ratio, a number.
    pub quantity: Quantity,
    /// The deciding cell.
    pub cell: String,
}

impl Assertion {
    /// Reads an assertion. The error shows the text with a caret under the position.
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

    /// Judges the cells; an error (exit 2) if it applies to none of them.
    pub fn evaluate(&self, cells: &[Cell<'_>], baseline: &[Cell<'_>]) -> Result<Verdict, Diagnostic> {
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
                let ok = self.operator.holds(value, limit);
                let (expr, quantity) = (self.text.clone(), self.left.metric.quantity());
                verdicts.push(Verdict { expr, ok, value, limit, quantity, cell: cell.name() });
            }
        }
        let failed = verdicts.iter().position(|verdict| !verdict.ok);
        verdicts.into_iter().nth(failed.unwrap_or(0)).ok_or_else(|| {
            let what = format!("no run has both sides of it ({} has no value there)", self.left.metric.name());
            self.wrong(Diagnostic::new(what, "latencies exist only where requests were done in that direction"))
        })
    }

    /// What `cell` is compared with.
    fn limits(&self, cell: &Cell<'_>, cells: &[Cell<'_>], baseline: &[Cell<'_>]) -> Result<Vec<f64>, Diagnostic> {
        match &self.right {
            Value::Number(number) => Ok(vec![*number]),
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
                    limits.extend(value.map(|value| factor * value));
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
                Ok(value.map(|value| factor * value).into_iter().collect())
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
    /// The figure in a cell; none where there is nothing to measure, an error for a group that does not exist.
    fn of(&self, cell: &Cell<'_>, direction: Option<IoDirection>) -> Result<Option<f64>, Diagnostic> {
        let group = match &self.group {
            None => None,
            Some(name) => Some(cell.groups.iter().position(|group| group.path == name).ok_or_else(|| {
                let paths: Vec<&str> = cell.groups.iter().map(|group| group.path).collect();
                Diagnostic::new(format!("there is no group '{name}'"), format!("groups are: {}", paths.join(", ")))
            })?),
        };
        let pick = |estimate: Estimate| match self.statistic {
            Statistic::Mean => estimate.mean,
            Statistic::Low => estimate.low(),
            Statistic::High => estimate.high(),
        };
        Ok(self.metric.of(cell, group, direction).map(pick))
    }
}

impl Operator {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::AtMost => value <= limit,
            Operator::Below => value < limit,
            Operator::AtLeast => value >= limit,
            Operator::Above => value > limit,
            // Figures are quotients: equal to twelve digits is equal.
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
