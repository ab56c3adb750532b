//! `hoistway test compare A B`: the differences between two stored results, and whether they exceed
//! the noise.

use experiment::Exit;
use experiment::cell::cells;
use report::compare::{Against, METRICS, changes, table};

use super::store;
use crate::arguments::test::CompareArguments;
use crate::exit::{Error, Outcome, print};
use crate::units;

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
    print(&table(&changes))?;
    let Some((limit, metric)) = limit else { return Ok(Exit::Done) };
    let mut exit = Exit::Done;
    for change in changes.iter().filter(|change| metric.as_ref().is_none_or(|metric| change.metric.name() == metric)) {
        let (word, outcome) = match change.against(limit) {
            Against::Within => continue,
            Against::Unsure => ("INCONCLUSIVE: perhaps worse by more than", Exit::Inconclusive),
            Against::Beyond => ("REGRESSION: worse by more than", Exit::AssertionFailed),
        };
        print(&format!("{word} {}%: {} {}\n", limit * 100.0, change.cell, change.name()))?;
        exit = exit.worse(outcome);
    }
    if exit == Exit::Inconclusive {
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
