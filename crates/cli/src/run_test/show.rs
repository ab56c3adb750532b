//! Results in the requested forms:
//! `--format text|classic|bonnie|json|fio-json|csv|html|markdown|explain|figure[=FILE]`, `--output`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use hoistway_experiment::Matrix;
use hoistway_experiment::assertion::Column;
use hoistway_report::figures::{self, FigureOptions, RateUnit};
use hoistway_report::table::TextOptions;
use hoistway_report::{Results, bonnie, csv, json, markdown, page, table, wrap};

use super::store::write;
use crate::exit::{Error, print};
use crate::run_test::arguments::{RatesName, ShowArguments};
use hoistway_study::explain;

/// Default percentiles of CSV files.
const CSV_PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 100.0];
/// Default percentiles of Markdown tables.
const MARKDOWN_PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The names of the formats.
const FORMATS: [(&str, Format); 10] = [
    ("text", Format::Text),
    ("classic", Format::Classic),
    ("bonnie", Format::Bonnie),
    ("json", Format::Json),
    ("fio-json", Format::FioJson),
    ("csv", Format::Csv),
    ("html", Format::Html),
    ("markdown", Format::Markdown),
    ("explain", Format::Explain),
    ("figure", Format::Figure),
];

/// A form of results.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// The table for people.
    Text,
    /// iostest's table.
    Classic,
    /// bonnie++'s lines.
    Bonnie,
    /// The complete results.
    Json,
    /// All runs as jobs of one fio.
    FioJson,
    /// One line per figure.
    Csv,
    /// One HTML page.
    Html,
    /// A pipe table.
    Markdown,
    /// Due, attainable and actual rates, and why they differ.
    Explain,
    /// One drawing: share error against throughput.
    Figure,
}

/// The requested forms and their places.
#[derive(Debug)]
pub struct Views {
    views: Vec<(Format, Option<PathBuf>)>,
    options: TextOptions,
    figures: FigureOptions,
    percentiles: Option<Vec<f64>>,
    with_total: bool,
}

impl Views {
    /// Parses the arguments; places that cannot be written to are detected now, not after an hour
    /// of measuring.
    pub fn read(arguments: &ShowArguments) -> Result<Self, Error> {
        let mut views = Vec::new();
        for (text, name, path) in arguments.formats() {
            let format = FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
            views.push((format.ok_or_else(|| unknown(name).at(format!("--format {text}")))?, path));
        }
        if views.is_empty() {
            let usual = if arguments.total { Format::Classic } else { Format::Text };
            views.push((usual, arguments.output.clone()));
        }
        if arguments.explain && !views.iter().any(|(format, _)| *format == Format::Explain) {
            views.push((Format::Explain, None));
        }
        let on_stdout: Vec<Format> =
            views.iter().filter(|(_, path)| path.is_none()).map(|(format, _)| *format).collect();
        let is_lone = |format: &Format| {
            matches!(format, Format::Json | Format::FioJson | Format::Html | Format::Csv | Format::Figure)
        };
        if on_stdout.len() > 1 && on_stdout.iter().any(is_lone) {
            let what = "json, fio-json, csv, html and figure cannot share stdout with another format";
            return Err(Error::usage(what, "write one of them to a file: --format json=FILE").at("--format"));
        }
        for (index, (_, path)) in views.iter().enumerate() {
            let Some(path) = path else { continue };
            if views[..index].iter().any(|(_, other)| other.as_ref() == Some(path)) {
                let what = format!("two formats would be written to {}", path.display());
                return Err(Error::usage(what, "give each its own file: --format FORMAT=FILE"));
            }
            check_place(path)?;
        }
        let usual = TextOptions::default();
        let percentiles = arguments.percentiles.clone();
        let options = TextOptions {
            percentiles: percentiles.clone().unwrap_or(usual.percentiles),
            per_group_latency: arguments.per_group_latency,
            width: None,
        };
        let columns = arguments.figures.as_deref().map(Column::parse_list).transpose();
        let columns = columns.map_err(|wrong| Error::from(wrong).at("--figures"))?.unwrap_or_default();
        let rates = match arguments.rates {
            None | Some(RatesName::Mib) => RateUnit::MebibytesPerSecond,
            Some(RatesName::Kib) => RateUnit::KibibytesPerSecond,
            Some(RatesName::Mb) => RateUnit::MegabytesPerSecond,
        };
        let figures = FigureOptions { columns, rates, per_set: arguments.per_set };
        Ok(Self { views, options, figures, percentiles, with_total: arguments.total })
    }

    /// Checks that every group of a figure is in the plan.
    pub fn check(&self, matrix: &Matrix) -> Result<(), Error> {
        let groups = matrix.workloads.iter().flat_map(|workload| &workload.groups);
        let wrong = self.figures.columns.iter().find_map(|column| column.check(groups.clone()).err());
        wrong.map_or(Ok(()), |wrong| Err(Error::from(wrong).at("--figures")))
    }

    /// Whether iostest's table is shown on stdout.
    pub fn is_classic(&self) -> bool {
        self.views.contains(&(Format::Classic, None))
    }

    /// Prints and writes.
    pub fn show(&self, results: &Results<'_>) -> Result<(), Error> {
        let mut is_first = true;
        let terminal = terminal_size::terminal_size_of(std::io::stdout());
        for (format, path) in &self.views {
            let width = terminal.filter(|_| path.is_none()).map(|(width, _)| usize::from(width.0));
            let text = self.text(*format, results, width)?;
            match path {
                Some(path) => write(path, &text)?,
                None if is_first => {
                    print(&text)?;
                    is_first = false;
                }
                None => print(&format!("\n{text}"))?,
            }
        }
        Ok(())
    }

    fn text(&self, format: Format, results: &Results<'_>, width: Option<usize>) -> Result<String, Error> {
        let percentiles = |usual: &[f64]| self.percentiles.clone().unwrap_or_else(|| usual.to_vec());
        Ok(match format {
            Format::Text if !self.figures.columns.is_empty() => figures::table(results, &self.figures),
            Format::Text => table::text(results, &TextOptions { width, ..self.options.clone() }),
            Format::Classic => table::classic(results, self.with_total),
            Format::Bonnie => bonnie::lines(results),
            Format::Json => format!("{}\n", json::result(results).document().trim_end()),
            Format::FioJson => json::fio(results, results.measurements).document(),
            Format::Csv => csv::table(results, &percentiles(&CSV_PERCENTILES)),
            Format::Html => page::html(results),
            Format::Markdown => markdown::table(results, &percentiles(&MARKDOWN_PERCENTILES)),
            Format::Explain => {
                let text = explain::text(results);
                width.map_or_else(|| text.clone(), |width| wrap::lines(&text, width))
            }
            Format::Figure => page::figure(results).ok_or_else(|| {
                let what = "there are no shares to draw: no run has two groups with I/O";
                Error::failed(what, "give several groups, for example --weights 100,800")
            })?,
        })
    }
}

/// The text stored in a result directory.
pub fn stored_text(results: &Results<'_>) -> String {
    table::text(results, &TextOptions::default())
}

fn unknown(name: &str) -> Error {
    let names = FORMATS.map(|(name, _)| name);
    let meant = hoistway_experiment::diagnostic::did_you_mean(name, names);
    Error::usage(format!("there is no format '{name}'"), format!("{meant}formats are {}", names.join(", ")))
}

/// Checks whether a file can be written there, without writing it.
pub fn check_place(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(Error::failed(format!("cannot write {}: it is a directory", path.display()), "name a file"));
    }
    if !parent.is_dir() {
        let what = format!("cannot write {}: there is no directory {}", path.display(), parent.display());
        return Err(Error::failed(what, "create it, or name another path"));
    }
    // Tested now rather than after the runs: an existing file is opened, a new one would be created
    // in its directory.
    let tried = match (path.is_file(), path.exists()) {
        (true, _) => OpenOptions::new().write(true).open(path).map(|_| ()),
        (false, true) => Ok(()),
        (false, false) => tempfile::tempfile_in(parent).map(|_| ()),
    };
    tried.map_err(|error| Error::file(path, "write", &error))
}
