//! Opens a trace by its path, and reports on it at the end.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use hoistway_workload::trace::{
    FORMATS, Format, Item, Options, Reading, SAMPLE_BYTES, Source, TraceError, Wait, detect, format_of_name,
};

use super::compressed::{refusal, unpacked};
use super::filter::Filter;
use crate::exit::{Error, Message, Reporter};
use crate::trace::arguments::{FormatArguments, TimeUnit, WaitName};
use hoistway_linux::input;

/// Suffix of blktrace's files, before their number.
const BLKTRACE: &str = ".blktrace.";
/// Largest number of per-CPU files.
const MAX_FILES: u32 = 8_192;

/// How to read a trace.
#[derive(Copy, Clone, Debug)]
pub struct How<'a> {
    /// The format's name, if it is given.
    pub format: Option<&'a str>,
    /// The other options.
    pub options: Options,
}

impl<'a> How<'a> {
    /// As the arguments specify.
    pub fn new(format: Option<&'a str>, reading: &FormatArguments) -> Self {
        let ps_per_tick = match reading.time_unit {
            TimeUnit::Ps => 1,
            TimeUnit::Ns => 1_000,
            TimeUnit::Us => 1_000_000,
        };
        let wait = match reading.iolog_wait {
            WaitName::Documented => Wait::Documented,
            WaitName::Fio => Wait::AsFio,
        };
        Self { format, options: Options { ps_per_tick, wait, skip_damaged: reading.skip_damaged } }
    }
}

/// An open trace.
pub struct Opened {
    reading: Reading,
    name: String,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Number of events that the filter selected.
    wanted: Option<u64>,
}

impl Opened {
    /// Opens the file, or the files of all CPUs.
    pub fn new(path: &Path, how: How<'_>) -> Result<Self, Error> {
        let paths = files_of(path)?;
        let mut sources = Vec::new();
        let mut begin = Vec::new();
        for path in &paths {
            let (name, content) = open(path)?;
            let content = Box::new(BufReader::with_capacity(SAMPLE_BYTES, content));
            let mut content = content;
            let packed = content.fill_buf().map_err(|error| Error::file(path, "read", &error))?;
            if let Some((what, help)) = refusal(packed) {
                return Err(Error::usage(format!("{name}: {what}"), help));
            }
            let mut content = unpacked(content).map_err(|error| Error::file(path, "read", &error))?;
            let sample = content.fill_buf().map_err(|error| Error::file(path, "read", &error))?;
            if begin.is_empty() {
                begin = sample.to_vec();
            }
            sources.push(Source { name, content });
        }
        let name = path.display().to_string();
        let format = match how.format {
            Some(given) => named(given)?,
            None if begin.is_empty() => return Err(Error::usage(format!("{name} is empty"), "name another trace")),
            None => detect(&begin).ok_or_else(|| {
                let known = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
                let what =
                    format!("{name}:{}: the format is not recognised", if is_text(&begin) { "1" } else { "byte 0" });
                Error::usage(what, format!("give the format if it is one of {known}"))
            })?,
        };
        Ok(Self { reading: Reading::new(format, sources, how.options), name, first_ns: None, last_ns: 0, wanted: None })
    }

    /// The format.
    pub fn format(&self) -> &'static Format {
        self.reading.format()
    }

    /// The next item.
    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        let item = self.reading.next_item().map_err(error)?;
        if let Some(at_ns) = item.as_ref().and_then(Item::at_ns) {
            self.first_ns.get_or_insert(at_ns);
            self.last_ns = at_ns;
        }
        Ok(item)
    }

    /// The next item that the filter selects.
    pub(super) fn next_wanted(&mut self, filter: &mut Filter) -> Result<Option<Item>, Error> {
        self.wanted.get_or_insert(0);
        loop {
            let Some(item) = self.next()? else { return Ok(None) };
            if filter.wants(&item) {
                let is_event = item.at_ns().is_some();
                self.wanted = self.wanted.map(|wanted| wanted + u64::from(is_event));
                return Ok(Some(item));
            }
        }
    }

    /// Time of the first event, on the trace's clock.
    pub fn first_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    /// Time from the first event to the last.
    pub fn duration_ns(&self) -> u64 {
        self.last_ns - self.first_ns()
    }

    /// The summary line: `FILE: format X, N records, T seconds, skipped K (reasons)`.
    pub fn summary(&self) -> String {
        let tally = self.reading.tally();
        let reasons: Vec<String> = tally.skipped.iter().map(|(reason, count)| format!("{count} x {reason}")).collect();
        let seconds = self.duration_ns() as f64 / 1e9;
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
        format!(
            "{}: format {}, {} records, {seconds:.6} seconds, skipped {}{reasons}",
            self.name,
            self.format().name,
            tally.records,
            tally.skipped_records()
        )
    }

    /// Prints notes about the trace; a trace without any readable record is an error, and so are
    /// filters that select nothing.
    pub fn conclude(&self, reporter: Reporter) -> Result<(), Error> {
        let tally = self.reading.tally();
        for error in &tally.errors {
            reporter.warn(error.to_string(), "");
        }
        for note in &tally.notes {
            reporter.note(note);
        }
        if tally.rounded > 0 {
            let count = tally.rounded;
            reporter.note(format!(
                "{}: {count} I/Os were not multiples of a sector and were rounded up to whole sectors",
                self.name
            ));
        }
        if tally.records > 0 && self.wanted == Some(0) {
            return Err(Error::usage(
                format!("{}: the filters leave nothing", self.name),
                "hoistway trace info shows what is in it",
            ));
        }
        if tally.records == 0 {
            return Err(Error::usage(self.summary(), "there is nothing in it; is it the right format?"));
        }
        Ok(())
    }

    /// Its name in reports: the file name without directory and suffix.
    pub fn short_name(path: &Path) -> String {
        let name = path.file_name().map_or_else(|| "trace".to_owned(), |name| name.to_string_lossy().into_owned());
        let name = name.split_once(BLKTRACE).map_or(name.as_str(), |(base, _)| base);
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        if stem.is_empty() { "trace".to_owned() } else { stem.to_owned() }
    }
}

fn named(name: &str) -> Result<&'static Format, Error> {
    format_of_name(name).ok_or_else(|| {
        let names = || FORMATS.iter().map(|format| format.name);
        let meant = hoistway_experiment::diagnostic::did_you_mean(name, names());
        let known = names().collect::<Vec<_>>().join(", ");
        Error::usage(format!("there is no format '{name}'"), format!("{meant}known are {known}"))
    })
}

fn is_text(begin: &[u8]) -> bool {
    begin.iter().take(256).all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Converts an error of the readers to the command's.
pub fn error(error: TraceError) -> Error {
    let mut messages: Vec<Message> = error.errors.iter().map(|error| Message::error(error.to_string(), "")).collect();
    if let Some(last) = messages.last_mut() {
        last.help = error.help;
    }
    let exit = if error.is_system { hoistway_experiment::Exit::Failed } else { hoistway_experiment::Exit::Usage };
    Error { messages, exit }
}

/// One file, or those of all CPUs.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if path.as_os_str() == "-" {
        return Ok(vec![path.to_owned()]);
    }
    let text = path.to_string_lossy();
    let base = match text.rsplit_once(BLKTRACE) {
        Some((base, number)) if number.parse::<u32>().is_ok() => Some(base.to_owned()),
        _ => None,
    };
    let file = |base: &str, number: u32| PathBuf::from(format!("{base}{BLKTRACE}{number}"));
    let base = match base {
        Some(base) => base,
        None if path.exists() => return Ok(vec![path.to_owned()]),
        None => text.into_owned(),
    };
    let files: Vec<PathBuf> =
        (0..MAX_FILES).map(|number| file(&base, number)).take_while(|path| path.exists()).collect();
    if !files.is_empty() {
        return Ok(files);
    }
    // A single file of a set is a trace as well.
    if path.exists() {
        return Ok(vec![path.to_owned()]);
    }
    let what = format!("there is no trace {}, nor {}", path.display(), file(&base, 0).display());
    Err(Error::usage(what, "name a file, or the base name of blktrace's files"))
}

fn open(path: &Path) -> Result<(String, Box<dyn io::Read>), Error> {
    if path.as_os_str() == "-" {
        return Ok(("stdin".to_owned(), Box::new(io::stdin())));
    }
    if path.is_dir() {
        return Err(Error::usage(format!("{} is a directory", path.display()), "name a file"));
    }
    let file = input::open(path).map_err(|error| Error::file(path, "open", &error))?;
    Ok((path.display().to_string(), Box::new(file)))
}
