//! Sinks: write the items of a trace in a format.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hoistway_block::{DeviceNumber, Nanos};
use hoistway_workload::trace::blktrace::Writer;
use hoistway_workload::trace::{Item, Record, Tracer, blkparse, csv, iolog};
use tempfile::TempDir;

use super::output::{self, Out};
use crate::exit::Error;
use crate::replay::groups::Grouping;

/// Takes items and writes them.
pub(super) trait Sink {
    /// Takes the next item.
    fn put(&mut self, item: &Item) -> Result<(), Error>;
    /// Whether the output still has a reader.
    fn is_wanted(&self) -> bool;
    /// Completes the output; returns notes for the user.
    fn finish(self: Box<Self>) -> Result<Vec<String>, Error>;
}

/// The destination of blktrace's files.
enum Place {
    /// At their final place from the start: an interrupted recording keeps what it has.
    AtOnce,
    /// In a temporary directory beside it until they are complete.
    Beside { directory: TempDir, is_forced: bool },
    /// All to standard output.
    Stdout,
}

/// blktrace's files; created with the first event, which names the device.
pub(super) struct Blktrace {
    base: PathBuf,
    place: Place,
    writer: Option<Writer>,
    /// Subtracted from all times: blktrace counts from the start of the trace or of the machine.
    begin_ns: Nanos,
    names: Vec<(u32, String)>,
    unix_ns: Option<(Nanos, Nanos)>,
}

impl Blktrace {
    /// Writes files of this base name directly, so that an interrupted recording keeps what it has.
    pub(super) fn recorded(base: &Path) -> Result<Self, Error> {
        output::check(&Writer::path_of(base, 0), false)?;
        Ok(Self::at(base, Place::AtOnce))
    }

    /// Files of this base name that appear when they are complete, or all to standard output.
    pub(super) fn converted(base: &Path, is_forced: bool) -> Result<Self, Error> {
        if output::is_stdout(base) {
            return Ok(Self::at(base, Place::Stdout));
        }
        output::check(&Writer::path_of(base, 0), is_forced)?;
        let directory = output::directory_beside(base)?;
        Ok(Self::at(base, Place::Beside { directory, is_forced }))
    }

    fn at(base: &Path, place: Place) -> Self {
        Self { base: base.to_owned(), place, writer: None, begin_ns: 0, names: Vec::new(), unix_ns: None }
    }

    /// The base name of the files while they are written.
    fn base_now(&self) -> PathBuf {
        match &self.place {
            Place::Beside { directory, .. } => directory.path().join("t"),
            Place::AtOnce | Place::Stdout => self.base.clone(),
        }
    }

    /// Creates the writer if necessary; returns the time since its start.
    fn begin(&mut self, at_ns: Nanos, device: DeviceNumber) -> Result<Nanos, Error> {
        if self.writer.is_none() {
            // If the clock is not named, the time of the first event is taken for a time since
            // 1970.
            let unix_ns =
                self.unix_ns.map_or(at_ns, |(then_ns, unix_ns)| unix_ns.saturating_add(at_ns).saturating_sub(then_ns));
            let mut writer = if let Place::Stdout = self.place {
                Writer::into_one(output::stdout()?, device, unix_ns)
            } else {
                let base = self.base_now();
                let writer = Writer::create(&base, device, unix_ns);
                writer.map_err(|error| Error::file(&Writer::path_of(&base, 0), "create", &error))?
            };
            self.names.drain(..).for_each(|(pid, name)| writer.process(0, pid, &name));
            self.begin_ns = at_ns;
            self.writer = Some(writer);
        }
        Ok(at_ns.saturating_sub(self.begin_ns))
    }

    /// Gives the files their names; files of a larger earlier set are removed.
    fn settle(&self) -> io::Result<()> {
        let Place::Beside { directory, is_forced } = &self.place else { return Ok(()) };
        let from = directory.path().join("t");
        let mut number = 0;
        loop {
            let (from, to) = (Writer::path_of(&from, number), Writer::path_of(&self.base, number));
            match (from.exists(), to.exists()) {
                (true, _) => fs::rename(from, to)?,
                (false, true) if *is_forced => fs::remove_file(to)?,
                (false, _) => return Ok(()),
            }
            number += 1;
        }
    }
}

impl Sink for Blktrace {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        match item {
            Item::Record(record) => {
                let at_ns = self.begin(record.at_ns, record.device)?;
                if let Some(writer) = &mut self.writer {
                    writer.record(&Record { at_ns, ..*record });
                }
            }
            Item::Message { at_ns, device, cpu, text, .. } => {
                let since_ns = self.begin(*at_ns, *device)?;
                if let Some(writer) = &mut self.writer {
                    writer.message_on(since_ns, (*device, *cpu), text);
                }
            }
            Item::Process { pid, name } => match &mut self.writer {
                Some(writer) => writer.process(0, *pid, name),
                None if self.names.len() < 65_536 => self.names.push((*pid, name.clone())),
                None => {}
            },
            Item::Clock { at_ns, unix_ns } => self.unix_ns = Some((*at_ns, *unix_ns)),
            Item::Device { .. } | Item::Group { .. } => {}
        }
        Ok(())
    }

    fn is_wanted(&self) -> bool {
        // A write error is reported at the end.
        !self.writer.as_ref().is_some_and(Writer::has_failed)
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<String>, Error> {
        let first = Writer::path_of(&self.base, 0);
        let Some(writer) = self.writer.take() else { return Ok(Vec::new()) };
        match writer.finish() {
            Err(error) if matches!(self.place, Place::Stdout) && error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Vec::new());
            }
            other => other.map_err(|error| Error::file(&first, "write", &error))?,
        };
        self.settle().map_err(|error| Error::file(&first, "create", &error))?;
        if let Place::Stdout = self.place {
            return Ok(Vec::new());
        }
        Ok(vec![format!("written: {} and its siblings; blkparse -i {}", first.display(), self.base.display())])
    }
}

/// Writes blkparse's lines.
pub(super) struct Lines {
    out: Out,
    printer: blkparse::Printer,
    line: Vec<u8>,
}

impl Lines {
    /// Writes lines to this file.
    pub(super) fn new(out: Out) -> Self {
        Self { out, printer: blkparse::Printer::default(), line: Vec::new() }
    }
}

impl Sink for Lines {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        self.line.clear();
        self.printer.put_line(item, &mut self.line);
        self.out.bytes(&self.line)
    }

    fn is_wanted(&self) -> bool {
        self.out.is_wanted()
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        self.out.finish().map(|()| Vec::new())
    }
}

/// Writes our table (CSV).
pub(super) struct Table {
    out: Out,
    grouping: Option<Grouping>,
    names: Names,
}

impl Table {
    /// Writes a table to this file.
    pub(super) fn new(mut out: Out, grouping: Option<Grouping>) -> Result<Self, Error> {
        out.bytes(format!("{}\n", csv::HEADER).as_bytes())?;
        Ok(Self { out, grouping, names: Names::default() })
    }
}

impl Sink for Table {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        let Item::Record(record) = item else {
            self.names.learn(item);
            return Ok(());
        };
        let device = self.names.device(record.device);
        let group = match &self.grouping {
            Some(grouping) => grouping.group_of(record, &self.names),
            None => self.names.group(record.group),
        };
        let process = self.names.processes.get(&record.pid).map_or("", String::as_str);
        let names = csv::LineNames { device: &device, process, group: &group.unwrap_or_default() };
        csv::line(record, names).map_or(Ok(()), |line| self.out.bytes(line.as_bytes()))
    }

    fn is_wanted(&self) -> bool {
        self.out.is_wanted()
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        self.out.finish().map(|()| Vec::new())
    }
}

/// The names for numbers in a trace.
#[derive(Default)]
pub struct Names {
    /// By pid.
    pub processes: BTreeMap<u32, String>,
    devices: BTreeMap<DeviceNumber, String>,
    groups: BTreeMap<u64, String>,
}

impl Names {
    fn learn(&mut self, item: &Item) {
        match item {
            Item::Process { pid, name } => _ = self.processes.insert(*pid, name.clone()),
            Item::Device { device, name } => _ = self.devices.insert(*device, name.clone()),
            Item::Group { group, name } => _ = self.groups.insert(*group, name.clone()),
            _ => {}
        }
    }

    /// A device's name.
    pub fn device(&self, device: DeviceNumber) -> String {
        self.devices.get(&device).cloned().unwrap_or_else(|| device.to_string())
    }

    /// A group's name; none if it has none.
    pub fn group(&self, group: u64) -> Option<String> {
        let named = self.groups.get(&group).cloned();
        named.or_else(|| (group != 0).then(|| group.to_string()))
    }
}

/// fio's logs: one, or one per group with a job file that reads them.
pub(super) struct Logs {
    /// The job file; none for a single log.
    job_file: Option<Out>,
    is_forced: bool,
    files: FilesOfDevices,
    grouping: Grouping,
    names: Names,
    logs: BTreeMap<String, (Out, iolog::Writer)>,
    begin_ns: Option<Nanos>,
    left_out: u64,
}

impl Logs {
    /// A single log.
    pub(super) fn alone(out: Out, files: FilesOfDevices) -> Result<Self, Error> {
        let mut logs = Self::of_groups(None, files, Grouping::default(), false);
        logs.open("", out)?;
        Ok(logs)
    }

    /// A log per group beside the job file.
    pub(super) fn with_job_file(out: Out, files: FilesOfDevices, grouping: Grouping, is_forced: bool) -> Self {
        Self::of_groups(Some(out), files, grouping, is_forced)
    }

    fn of_groups(job_file: Option<Out>, files: FilesOfDevices, grouping: Grouping, is_forced: bool) -> Self {
        let (names, logs) = (Names::default(), BTreeMap::new());
        Self { job_file, is_forced, files, grouping, names, logs, begin_ns: None, left_out: 0 }
    }

    fn open(&mut self, group: &str, mut out: Out) -> Result<(), Error> {
        out.bytes(iolog::Writer::BEGIN.as_bytes())?;
        self.logs.insert(group.to_owned(), (out, iolog::Writer::since(self.begin_ns)));
        Ok(())
    }

    /// The log of a group beside the job file: `sda.fio` -> `sda.db.iolog`.
    fn path_of(job_file: &Path, group: &str) -> PathBuf {
        let group = group.replace('/', "-");
        job_file.with_extension(format!("{group}.iolog"))
    }
}

impl Sink for Logs {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        let Item::Record(record) = item else {
            self.names.learn(item);
            return Ok(());
        };
        self.begin_ns.get_or_insert(record.at_ns);
        let group = match &self.job_file {
            None => String::new(),
            Some(job_file) => {
                let group = self.grouping.group_of(record, &self.names).unwrap_or_else(|| "rest".to_owned());
                if !self.logs.contains_key(&group) {
                    let out = Out::create(&Self::path_of(job_file.path(), &group), self.is_forced)?;
                    self.open(&group, out)?;
                }
                group
            }
        };
        let Some((out, writer)) = self.logs.get_mut(&group) else { return Ok(()) };
        match writer.line(record, self.files.of(record.device)) {
            Some(line) => out.bytes(line.as_bytes()),
            None => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    fn is_wanted(&self) -> bool {
        self.logs.is_empty() || self.logs.values().any(|(out, _)| out.is_wanted())
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        let mut jobs = "[global]\nioengine=libaio\ndirect=1\niodepth=64\n".to_owned();
        for (group, (mut out, writer)) in self.logs {
            out.bytes(writer.end().as_bytes())?;
            jobs.push_str(&format!("\n[{}]\nread_iolog={}\n", group.replace(']', "_"), out.path().display()));
            out.finish()?;
        }
        if self.left_out > 0 {
            notes.push(format!("{} I/Os are left out: fio's log cannot express them", self.left_out));
        }
        notes.extend(self.files.note(&self.names));
        if let Some(mut out) = self.job_file {
            out.bytes(jobs.as_bytes())?;
            let path = out.path().display().to_string();
            out.finish()?;
            notes.push(format!("written: {path}; fio {path}"));
        }
        Ok(notes)
    }
}

/// The file that fio reads and writes for each device: two devices must not share one.
pub(super) struct FilesOfDevices {
    /// The given names, for the devices in order of appearance.
    given: Vec<String>,
    files: BTreeMap<DeviceNumber, String>,
    in_order: Vec<DeviceNumber>,
}

impl FilesOfDevices {
    /// From the given names; further devices get the last one with a number appended.
    pub(super) fn new(given: &[String]) -> Self {
        Self { given: given.to_vec(), files: BTreeMap::new(), in_order: Vec::new() }
    }

    fn of(&mut self, device: DeviceNumber) -> &str {
        let (given, in_order) = (&self.given, &mut self.in_order);
        self.files.entry(device).or_insert_with(|| {
            let number = in_order.len();
            in_order.push(device);
            given.get(number).cloned().unwrap_or_else(|| {
                let last = given.last().map_or("", String::as_str);
                format!("{last}.{}", number + 1 - given.len().min(number))
            })
        })
    }

    /// A note on which device became which file, if there are several.
    fn note(&self, names: &Names) -> Option<String> {
        const SHOWN: usize = 16;
        let [_, _, ..] = self.in_order[..] else { return None };
        let one = |device: &DeviceNumber| {
            let file = self.files.get(device).map_or("", String::as_str);
            format!("{} is {file}", names.device(*device))
        };
        let mut list: Vec<String> = self.in_order.iter().take(SHOWN).map(one).collect();
        list.extend((self.in_order.len() > SHOWN).then(|| "...".to_owned()));
        let count = self.in_order.len();
        Some(format!("{count} devices, one file each (--device A,B,... sets their names): {}", list.join(", ")))
    }
}
