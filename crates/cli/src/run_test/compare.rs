//! `hoistway test compare A B`: the differences between two stored results, and whether they exceed
//! the noise.

use std::path::PathBuf;

use clap::Args;
use hoistway_experiment::Exit;
use hoistway_experiment::cell::cells;
use hoistway_report::compare::{Against, Change, METRICS, changes, table};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::store;
use crate::exit::{Error, Outcome, print};
use crate::units;

/// `hoistway test compare`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:
  hoistway compare before after                         a table with intervals
  hoistway compare before after --max-regression 5%     for CI: exit 4 if worse, 5 if the noise hides it
  hoistway compare fio-old.json fio-new.json            results of fio --output-format=json+")]
pub struct CompareArguments {
    /// The earlier result: a result directory, or a JSON file written by fio
    pub old: PathBuf,
    /// The later result: a result directory, or a JSON file written by fio
    pub new: PathBuf,
    /// Largest accepted regression. Exit 4 if a figure is worse by more than PCT over its whole confidence interval;
    /// exit 5 if that cannot be decided, because the interval contains PCT or there is no interval (one set, too few
    /// samples). METRIC: total_bw, lat_p99 (of each group) or share_error_max (in percentage points) [default: all
    /// three]
    #[arg(long, value_name = "PCT[@METRIC]")]
    pub max_regression: Option<String>,
    /// Print the comparison as JSON; `hoistway schema compare` describes it
    #[arg(long)]
    pub json: bool,
}

/// A comparison of two results.
#[derive(Serialize, JsonSchema)]
pub struct Comparison<'a> {
    /// Version of hoistway.
    hoistway: &'a str,
    /// Version of this layout.
    schema: u32,
    /// The largest accepted regression as a fraction (`--max-regression`); null without a limit.
    max_regression: Option<f64>,
    /// The figures of the cells that both results have.
    changes: Vec<Compared<'a>>,
}

/// One figure in both results.
#[derive(Serialize, JsonSchema)]
struct Compared<'a> {
    #[serde(flatten)]
    change: &'a Change,
    /// How it compares with the limit; null without one, or if the limit is for another figure.
    verdict: Option<Against>,
}

/// Prints the comparison; exit 4 beyond `--max-regression`, 5 if an interval includes the limit, or
/// there is no interval.
pub fn run(arguments: &CompareArguments) -> Outcome {
    let limit = arguments.max_regression.as_deref().map(limit).transpose()?;
    let (old, new) = (store::read(&arguments.old)?, store::read(&arguments.new)?);
    let old_cells = cells(&old.measurements, &old.head.matrix.schedulers);
    let new_cells = cells(&new.measurements, &new.head.matrix.schedulers);
    let changes = changes(&old_cells, &new_cells);
    if changes.is_empty() {
        let what = format!("{} and {} have no run in common", arguments.old.display(), arguments.new.display());
        return Err(Error::usage(what, "compare results of the same workloads, schedulers and thread counts"));
    }
    let verdict = |change: &Change| {
        let (limit, metric) = limit.as_ref()?;
        let is_limited = metric.as_ref().is_none_or(|metric| change.metric.name() == metric);
        is_limited.then(|| change.against(*limit))
    };
    if arguments.json {
        let compared = changes.iter().map(|change| Compared { change, verdict: verdict(change) });
        let document = Comparison {
            hoistway: env!("CARGO_PKG_VERSION"),
            schema: 1,
            max_regression: limit.as_ref().map(|(limit, _)| *limit),
            changes: compared.collect(),
        };
        print(&format!("{:#}\n", json!(document)))?;
    } else {
        print(&table(&changes))?;
    }
    let mut exit = Exit::Done;
    for change in &changes {
        let (word, outcome) = match verdict(change) {
            None | Some(Against::Within) => continue,
            Some(Against::Unsure) => ("INCONCLUSIVE: perhaps worse by more than", Exit::Inconclusive),
            Some(Against::Beyond) => ("REGRESSION: worse by more than", Exit::AssertionFailed),
        };
        exit = exit.worse(outcome);
        if let (false, Some((limit, _))) = (arguments.json, &limit) {
            print(&format!("{word} {}%: {} {}\n", limit * 100.0, change.cell, change.name()))?;
        }
    }
    if exit == Exit::Inconclusive && !arguments.json {
        print("help: more --sets or a longer --runtime give narrower intervals\n")?;
    }
    Ok(exit)
}

/// `5%` or `5%@lat_p99`.
fn limit(text: &str) -> Result<(f64, Option<String>), Error> {
    let place = || format!("--max-regression {text}");
    let (percent, metric) = text.split_once('@').map_or((text, None), |(percent, metric)| (percent, Some(metric)));
    let percent = units::percent(percent).map_err(|wrong| Error::from(wrong).at(place()))?;
    if let Some(metric) = metric {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
        if !names.contains(&metric) {
            let what = format!("'{metric}' is not compared");
            return Err(Error::usage(what, format!("metrics are {}", names.join(", "))).at(place()));
        }
    }
    Ok((percent, metric.map(str::to_owned)))
}
