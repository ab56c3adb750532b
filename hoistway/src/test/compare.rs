//! `hoistway test compare A B`: what changed between two stored results, and whether it is more than noise.

use experiment::Exit;
use experiment::cell::cells;
use report::compare::{Change, METRICS, changes, table};

use super::store;
use crate::arguments::test::CompareArguments;
use crate::exit::{Error, Outcome, print};
use crate::units;

/// Prints the comparison; exit 4 beyond `--max-regression`.
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
    print(&table(&changes))?;
    let Some((limit, metric)) = limit else { return Ok(Exit::Done) };
    let is_worse = |change: &&Change| {
        metric.as_ref().is_none_or(|metric| change.metric.name() == metric) && change.is_regression(limit)
    };
    let worse: Vec<&Change> = changes.iter().filter(is_worse).collect();
    for change in &worse {
        print(&format!("REGRESSION beyond {}%: {} {}\n", limit * 100.0, change.cell, change.metric.name()))?;
    }
    Ok(if worse.is_empty() { Exit::Done } else { Exit::AssertionFailed })
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
