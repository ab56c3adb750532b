//! `hoistway device fit`: repeats on a model every measurement that it was fitted to.

use hoistway_device::MODELS;
use hoistway_experiment::Exit;
use hoistway_report::json::Json;

use super::load;
use super::rows::Runner;
use crate::device::arguments::FitArguments;
use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::ProgressName;
use hoistway_study::calibration::row::Row;
use hoistway_study::calibration::table::{self, Fitted};

/// Runs the subcommand.
pub fn run(arguments: &FitArguments, reporter: Reporter) -> Outcome {
    let models = models(arguments, reporter)?;
    let interrupt = Interrupt::install()?;
    let runner = Runner { interrupt: &interrupt };
    for (model, rows) in &models {
        runner.check(rows, model)?;
    }
    let pairs: Vec<(&str, &[Row])> = models.iter().map(|(model, rows)| (model.as_str(), rows.as_slice())).collect();
    let mut display = Display::new(ProgressName::Auto, reporter.quiet, false, None);
    let figures = runner.figures(&pairs, &mut display);
    display.end();
    let Some(figures) = figures? else { return Ok(interrupt.exit().unwrap_or(Exit::Interrupted)) };
    let rows = pairs.iter().zip(figures).flat_map(|((model, rows), figures)| {
        rows.iter().zip(figures).map(move |(row, values)| Fitted { model, row, values })
    });
    let rows: Vec<Fitted<'_>> = rows.collect();
    show(arguments, &rows)
}

/// The models with their rows. Without names, all models that have rows.
fn models(arguments: &FitArguments, reporter: Reporter) -> Result<Vec<(String, Vec<Row>)>, Error> {
    let is_named = !arguments.models.is_empty();
    let all = || MODELS.iter().map(|row| row.name.to_owned()).collect();
    let names: Vec<String> = if is_named { arguments.models.clone() } else { all() };
    let mut models = Vec::new();
    for name in names {
        let name = name.strip_prefix("model:").unwrap_or(&name).to_owned();
        let rows = load(&name)?.anchors.into_iter().map(Row::of).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|error| error.at(&name))?;
        if rows.is_empty() && is_named {
            reporter.note(format!("{name} was not fitted to measurements: its file has no [[anchor]]"));
        }
        models.push((name, rows));
    }
    Ok(models)
}

fn show(arguments: &FitArguments, rows: &[Fitted<'_>]) -> Outcome {
    let tolerance = arguments.tolerance;
    let counted = rows.iter().filter(|row| !row.row.anchor.is_provisional).count();
    let failed: Vec<_> = rows.iter().filter(|row| row.is_failed(tolerance)).collect();
    let within = format!("{} of {counted} rows within {:.0} %", counted - failed.len(), tolerance * 100.0);
    let provisional = rows.len() - counted;
    let rest = if provisional > 0 { format!("; {provisional} provisional rows do not count") } else { String::new() };
    if arguments.json {
        let document = Json::object([
            ("tolerance", Json::Decimal(tolerance)),
            ("ok", Json::Bool(failed.is_empty())),
            ("rows", table::json(rows, tolerance)),
        ]);
        print(&document.document())?;
    } else if arguments.markdown {
        print(&table::markdown(rows))?;
    } else {
        print(&format!("{}\n{within}{rest}\n", table::text(rows)))?;
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::AssertionFailed })
}
