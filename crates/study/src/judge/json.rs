//! Judged cells as JSON: every figure of the table and the picture, and the underlying ones.

use serde_json::{Value, json};

use super::cell_verdict::CellVerdict;
use super::runs::Plan;
use super::settling::Settling;
use super::show::{Portion, portions};
use super::summary::{Counts, Medium};
use super::verdict::Verdict;

/// The document.
pub fn document(plan: &Plan, title: &str, cells: &[CellVerdict], complete: bool) -> String {
    let schedulers: Vec<String> = plan.schedulers.iter().map(ToString::to_string).collect();
    let document = json!({
        "hoistway": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "scenario": title,
        "complete": complete,
        "schedulers": schedulers,
        "judged": schedulers[..plan.judged_schedulers],
        "seeds": plan.seeds,
        "cells": cells.iter().map(|cell| of_cell(plan, cell)).collect::<Vec<_>>(),
        "summary": portions(cells).iter().map(|portion| summary(plan, portion)).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn of_cell(plan: &Plan, cell_verdict: &CellVerdict) -> Value {
    let CellVerdict { cell, field, present, .. } = cell_verdict;
    let paths: Vec<&str> = present.iter().map(|index| cell.groups[*index].path.as_str()).collect();
    let results = plan.schedulers.iter().enumerate().map(|(index, spec)| {
        let score = &field.scores[index];
        let verdict = field.judge(score);
        let by = match verdict {
            Verdict::Dominated(by) => Some(plan.schedulers[by].to_string()),
            _ => None,
        };
        json!({
            "scheduler": spec.to_string(),
            "verdict": verdict.name(),
            "dominated_by": by,
            "bytes_per_s": score.throughput,
            "part_of_none": field.part_of_none(score),
            "share_error_max": score.error,
            "group_bytes_per_s": score.rates,
            "can_bytes_per_s": field.can_be_had(score),
            "can_is_formula": score.can.is_some(),
            "distance": field.distance(score),
            "keeps_floor": field.keeps_floor(score),
            "settled": cell_verdict.settlings[index].iter().map(of_settling).collect::<Vec<_>>(),
            "variation": cell_verdict.variations[index],
            "isolation": cell_verdict.balances[index].map(|balance| balance.isolation),
            "weighted_speedup": cell_verdict.balances[index].map(|balance| balance.speedup),
        })
    });
    json!({
        "name": cell.name,
        "kind": cell.kind.name(),
        "target": cell.target,
        "rotational": cell.is_rotational,
        "ramp_s": cell.ramp_ns as f64 / 1e9,
        "runtime_s": cell.runtime_ns as f64 / 1e9,
        "free": field.is_free(),
        "groups": paths,
        "due": field.shares,
        "results": results.collect::<Vec<_>>(),
    })
}

fn of_settling(settling: &Settling) -> Value {
    json!({ "after_s": settling.after_ns as f64 / 1e9, "scatter": settling.scatter })
}

fn summary(plan: &Plan, portion: &Portion<'_>) -> Value {
    let medium = Medium::of(&portion.cells, plan.schedulers.len());
    let counts = plan.schedulers.iter().zip(&medium.counts);
    json!({
        "medium": portion.medium,
        "of": portion.name,
        "cells": medium.cells,
        "free": medium.free,
        "exact_by_anybody": medium.exact_by_any,
        "schedulers": counts.map(|(spec, counts)| of_counts(&spec.to_string(), counts)).collect::<Vec<_>>(),
    })
}

fn of_counts(scheduler: &str, counts: &Counts) -> Value {
    let [exact, bound, dominated, lost] = counts.verdicts;
    json!({
        "scheduler": scheduler,
        "exact_where_free": counts.exact_free,
        "bound_where_not_free": counts.bound,
        "dominated": counts.dominated,
        "floor_kept": counts.floor_kept,
        "as_fast_as_exact": counts.as_fast_as_exact,
        "verdicts": { "exact": exact, "bound": bound, "dominated": dominated, "lost": lost },
        "settled": {
            "count": counts.settling.count,
            "in_time": counts.settling.soon,
            "seconds_p50_p90_max": counts.settling.seconds,
            "calm": counts.settling.calm,
        },
        "variation": {
            "count": counts.steadiness.count,
            "kept": counts.steadiness.kept,
            "p50_p90_max": counts.steadiness.variations,
        },
    })
}
