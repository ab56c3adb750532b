//! `hoistway device calibrate`: a model of the user's disk, fitted to measurements of it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use hoistway_device::{Anchor, Model, Preset, Setting, Unit};
use hoistway_experiment::Exit;
use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_report::json::Json;

use super::journal::Journal;
use super::rows::Runner;
use super::{load, measured, wrong_model};
use crate::device::arguments::CalibrateArguments;
use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::ProgressName;
use crate::run_test::show::check_place;
use crate::run_test::store::write;
use hoistway::plan::machine;
use hoistway_study::calibration::row::Row;
use hoistway_study::calibration::search::{self, Free, Residuals, Search, rms};
use hoistway_study::calibration::table::{self, Fitted};

/// The parameters that usually differ between two devices of one type and show in simple
/// measurements.
const USUAL: [(&str, &[&str]); 4] = [
    ("hdd", &["spt_outer", "spt_inner", "seek_track_ms", "seek_avg_ms", "cmd_overhead_us"]),
    ("raid", &["ctl_latency_us", "link_MBps", "disk.spt_outer", "disk.seek_track_ms", "disk.seek_avg_ms"]),
    ("flash", &["t_read_us", "t_prog_us", "cmd_us", "write_ack_us", "serial_us", "channel_MBps", "link_MBps"]),
    ("null", &["latency_us"]),
];

/// A search that fits well takes about this many steps; one with many rows and parameters that depend on
/// one another took ten (nvme-consumer, nine rows and six parameters).
const FEW_STEPS: usize = 3;
const MANY_STEPS: usize = 12;

/// A model with some free parameters.
struct Open {
    /// As the user wrote it, without `model:`.
    text: String,
    keys: Vec<String>,
    free: Vec<Free>,
}

/// Runs the subcommand.
pub fn run(arguments: &CalibrateArguments, reporter: Reporter) -> Outcome {
    if let Some(path) = &arguments.output {
        check_place(path)?;
    }
    let open = Open::read(arguments)?;
    let rows = measured::read(arguments, reporter)?;
    let interrupt = Interrupt::install()?;
    let runner = Runner { interrupt: &interrupt };
    runner.check(&rows, &open.text)?;
    let mut display = Display::new(ProgressName::None, reporter.quiet, false, None);
    let mut journal = Journal::open(arguments.output.as_deref(), &open.identity(&rows))?;
    if journal.len() > 0 {
        reporter.note(format!("continues after {} trials of an interrupted calibration", journal.len()));
    }
    let begin = Instant::now();
    let mut evaluate = |points: &[Vec<f64>]| open.known_residuals(&runner, &rows, points, &mut display, &mut journal);
    let mut report = |trials: usize, error: f64| {
        reporter.line(&format!("{trials} trials of {} rows: {:.2} % mean error", rows.len(), error * 100.0));
        if trials == 1 {
            reporter.line(&open.forecast(&rows, begin.elapsed(), arguments));
        }
    };
    let max_trials = usize::try_from(arguments.max_trials).unwrap_or(usize::MAX);
    let search = Search { free: &open.free, max_trials, evaluate: &mut evaluate, report: &mut report };
    let found = search.run()?;
    let interrupted = || interrupt.exit().unwrap_or(Exit::Interrupted);
    let Some(found) = found else { return Ok(interrupted()) };
    let after = open.text_of(&found.values);
    let pairs: [(&str, &[Row]); 2] = [(&open.text, &rows), (&after, &rows)];
    let Some(figures) = runner.figures(&pairs, &mut display)? else { return Ok(interrupted()) };
    let [before_rows, after_rows] = [0, 1].map(|side: usize| {
        let model = ["before", "after"][side];
        let values = figures[side].iter();
        rows.iter().zip(values).map(|(row, values)| Fitted { model, row, values: values.clone() }).collect::<Vec<_>>()
    });
    let written = open.file(arguments, &after, &rows)?;
    journal.remove();
    if rms(&found.residuals) > 0.12 {
        let what = format!("the model is still {:.0} % mean error", rms(&found.residuals) * 100.0);
        reporter.warn(what, "adjust other parameters (--free), or start from another model");
    }
    let rows: Vec<Fitted<'_>> = before_rows.into_iter().chain(after_rows).collect();
    let Some(path) = &arguments.output else {
        format!("{}\n{}", table::text(&rows), open.changes(&found.values)).lines().for_each(|line| reporter.line(line));
        print(&written)?;
        return Ok(Exit::Done);
    };
    write(path, &written)?;
    if arguments.json {
        print(&open.json(&found.values, &rows).document())?;
    } else {
        print(&format!("{}\n{}", table::text(&rows), open.changes(&found.values)))?;
    }
    reporter.note(format!("the model is in {}: hoistway test model:{}", path.display(), as_model(path)));
    Ok(Exit::Done)
}

/// A path in a form that cannot be taken for the name of a model.
fn as_model(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    if text.contains('/') { text } else { format!("./{text}") }
}

impl Open {
    fn read(arguments: &CalibrateArguments) -> Result<Self, Error> {
        let text = arguments.model.strip_prefix("model:").unwrap_or(&arguments.model).to_owned();
        let preset = load(&text)?;
        let settings = preset.model.settings();
        let is_usual = arguments.free.is_empty();
        let usual = USUAL.iter().find(|(kind, _)| *kind == preset.model.type_word()).map_or(&[][..], |row| row.1);
        let keys: Vec<String> =
            if is_usual { usual.iter().map(|key| (*key).to_owned()).collect() } else { arguments.free.clone() };
        let free = keys.iter().map(|key| free(&settings, key).map_err(|error| error.at(format!("--free {key}"))));
        let free = free.collect::<Result<Vec<_>, Error>>();
        match free {
            Ok(free) => Ok(Self { text, keys, free }),
            // A parameter that is free by default may be unusable in this model; it keeps its
            // value.
            Err(_) if is_usual => {
                let usable = keys.into_iter().filter_map(|key| free_of(&settings, &key).map(|free| (key, free)));
                let (keys, free) = usable.unzip();
                Ok(Self { text, keys, free })
            }
            Err(error) => Err(error),
        }
    }

    /// The model with these values, as text.
    fn text_of(&self, values: &[f64]) -> String {
        let mut text = self.text.clone();
        for ((key, free), value) in self.keys.iter().zip(&self.free).zip(values) {
            let _ = write!(text, ",{key}={}", free.written(*value));
        }
        text
    }

    /// What determines every trial, as text.
    fn identity(&self, rows: &[Row]) -> String {
        let preset = load(&self.text).map(|preset| preset.to_toml()).unwrap_or_default();
        let rows: String = rows.iter().map(|row| format!("{:?}", (&row.anchor, &row.experiments))).collect();
        format!("{} {} {preset}{rows}", env!("CARGO_PKG_VERSION"), self.text)
    }

    /// How long the search will take if every trial takes as long as the first one.
    fn forecast(&self, rows: &[Row], of_one: Duration, arguments: &CalibrateArguments) -> String {
        let per_step = self.free.len() + search::DAMPING.len();
        // The first trial used no more processors than it has rows; later trials run side by side on all of them.
        let beside = machine::cpus() as f64 / machine::cpus().min(rows.len()) as f64;
        let minutes = |steps: usize| of_one.as_secs_f64() * (per_step * steps) as f64 / 60.0 / beside;
        let interruption = match arguments.output {
            Some(_) => "; after an interruption the same command continues",
            None => "; with -o FILE it can be interrupted and continued",
        };
        let [few, many] = [FEW_STEPS, MANY_STEPS].map(minutes);
        format!(
            "a step is {per_step} trials, a search {FEW_STEPS} to {MANY_STEPS} steps: about {few:.1} to {many:.1} minutes{interruption}"
        )
    }

    /// The errors of each of the given points: those of the journal, and new ones, which it gets.
    fn known_residuals(
        &self,
        runner: &Runner<'_>,
        rows: &[Row],
        points: &[Vec<f64>],
        display: &mut Display,
        journal: &mut Journal,
    ) -> Result<Option<Vec<Residuals>>, Error> {
        let texts: Vec<String> = points.iter().map(|values| self.text_of(values)).collect();
        let is_new = |at: &usize| journal.get(&texts[*at]).is_none() && !texts[..*at].contains(&texts[*at]);
        let new: Vec<usize> = (0..points.len()).filter(is_new).collect();
        let tried: Vec<Vec<f64>> = new.iter().map(|at| points[*at].clone()).collect();
        let Some(found) = self.residuals(runner, rows, &tried, display)? else { return Ok(None) };
        journal.add(new.iter().map(|at| texts[*at].clone()).zip(found).collect())?;
        Ok(Some(texts.iter().map(|text| journal.get(text).cloned().flatten()).collect()))
    }

    /// The errors of every row for each of the given points (values of the free parameters); `None`
    /// for a point that is not a valid model.
    fn residuals(
        &self,
        runner: &Runner<'_>,
        rows: &[Row],
        points: &[Vec<f64>],
        display: &mut Display,
    ) -> Result<Option<Vec<Residuals>>, Error> {
        let texts: Vec<String> = points.iter().map(|values| self.text_of(values)).collect();
        let is_model: Vec<bool> = texts.iter().map(|text| Model::parse(text).is_ok()).collect();
        let sound = texts.iter().zip(&is_model).filter(|(_, is_model)| **is_model);
        let pairs: Vec<(&str, &[Row])> = sound.map(|(text, _)| (text.as_str(), rows)).collect();
        let Some(figures) = runner.figures(&pairs, display)? else { return Ok(None) };
        let mut figures = figures.into_iter();
        let residuals =
            is_model.iter().map(|is_model| if *is_model { figures.next().map(|of| logs(rows, &of)) } else { None });
        Ok(Some(residuals.collect()))
    }

    /// The new model's file.
    fn file(&self, arguments: &CalibrateArguments, text: &str, rows: &[Row]) -> Result<String, Error> {
        let model = Model::parse(text).map_err(wrong_model)?;
        let doc = format!("{} calibrated to {}", self.text, arguments.rows.display());
        let written = |row: &Row| (!row.anchor.job.is_empty()).then(|| row.anchor.clone());
        let anchors: Vec<Anchor> = rows.iter().filter_map(written).collect();
        Ok(Preset { doc, model, anchors, text: String::new() }.to_toml())
    }

    /// The changes of the free parameters.
    fn changes(&self, values: &[f64]) -> String {
        let width = self.keys.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for ((key, free), value) in self.keys.iter().zip(&self.free).zip(values) {
            let (before, after) = (free.written(free.initial), free.written(*value));
            let _ = writeln!(
                text,
                "{key:<width$}  {before:>9} -> {after:<9} {}",
                table::percent(value / free.initial - 1.0)
            );
        }
        text
    }

    fn json(&self, values: &[f64], rows: &[Fitted<'_>]) -> Json {
        let parameters = self.keys.iter().zip(&self.free).zip(values).map(|((key, free), value)| {
            Json::object([
                ("name", Json::text(key)),
                ("before", Json::Decimal(free.initial)),
                ("after", Json::Decimal(*value)),
            ])
        });
        let of = |side: &str| {
            let rows: Vec<Json> = rows.iter().filter(|row| row.model == side).map(|row| row.json(0.12)).collect();
            Json::List(rows)
        };
        Json::object([
            ("model", Json::text(&self.text)),
            ("parameters", Json::List(parameters.collect())),
            ("before", of("before")),
            ("after", of("after")),
        ])
    }
}

fn logs(rows: &[Row], figures: &[Vec<f64>]) -> Vec<f64> {
    let of_row = |(row, values): (&Row, &Vec<f64>)| {
        let of_value = |(value, published): (&f64, &f64)| (value.max(1e-9) / published).ln();
        values.iter().zip(&row.anchor.published).map(of_value).collect::<Vec<f64>>()
    };
    rows.iter().zip(figures).flat_map(of_row).collect()
}

/// A parameter that can be free.
fn free_of(settings: &[Setting], key: &str) -> Option<Free> {
    let setting = settings.iter().find(|setting| setting.key == key)?;
    let start: f64 = setting.value.parse().ok()?;
    let (low, high) = (setting.parameter.minimum as f64, setting.parameter.maximum as f64);
    let is_number = !matches!(setting.parameter.unit, Unit::Choice(_) | Unit::Switch);
    (is_number && start > 0.0).then(|| Free { initial: start, low, high, decimals: setting.parameter.unit.decimals() })
}

/// The parameter with its range, or the reason why it cannot be free.
fn free(settings: &[Setting], key: &str) -> Result<Free, Error> {
    if let Some(free) = free_of(settings, key) {
        return Ok(free);
    }
    let Some(setting) = settings.iter().find(|setting| setting.key == key) else {
        let meant = did_you_mean(key, settings.iter().map(|setting| setting.key.as_str()));
        let what = format!("the model has no parameter '{key}'");
        return Err(Error::usage(what, format!("{meant}all of them: hoistway list devices")));
    };
    if setting.value == "0" {
        let what = format!("{key} is 0, but the search changes parameters by percentages");
        return Err(Error::usage(what, format!("give it a start value: MODEL,{key}=1")));
    }
    Err(Error::usage(
        format!("{key} = {} is not a number", setting.value),
        "only numbers can be adjusted; set this one in MODEL",
    ))
}
