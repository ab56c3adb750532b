//! `hoistway trace convert`: the same trace in another format.
//!
//! What has no stages gets the usual ones where the new format wants them: queued, allocated, inserted and issued at once, and
//! completed when its latency is over, if it is known. What has stages is reduced to what was queued where the new format
//! knows only I/Os.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use block::{DeviceNumber, Nanos};
use experiment::Exit;
use workload::trace::blktrace::Writer;
use workload::trace::{Action, Item, Record, Tracer, blkparse, csv, iolog};

use super::open::{How, Opened};
use crate::arguments::trace::{ConvertArguments, ToName};
use crate::exit::{Error, Outcome, Voice};
use crate::replay::groups::Grouping;

/// The subcommand.
pub fn run(arguments: &ConvertArguments, voice: Voice) -> Outcome {
    let grouping = Grouping::read(arguments.groups_by.as_deref())?;
    if grouping.is_some() && !matches!(arguments.to, ToName::Csv | ToName::Fio) {
        let what = "only csv and fio keep groups";
        return Err(Error::usage(what, "leave it out, or add --to csv").at("--groups-by"));
    }
    if arguments.device.contains(char::is_whitespace) || arguments.device.is_empty() {
        return Err(Error::usage("fio's logs have no names with blanks", "give a path without").at("--device"));
    }
    let mut trace = Opened::new(&arguments.file, How::new(arguments.format.as_deref(), &arguments.reading))?;
    let mut sink: Box<dyn Sink> = match arguments.to {
        ToName::Blktrace => Box::new(Blktrace::new(&arguments.out)),
        ToName::Blkparse => Box::new(Lines { out: create(&arguments.out)?, printer: blkparse::Printer::default() }),
        ToName::Csv => Box::new(Table::new(&arguments.out, grouping)?),
        ToName::Iolog3 => Box::new(Logs::alone(&arguments.out, &arguments.device)?),
        ToName::Fio => Box::new(Logs::of_groups(&arguments.out, &arguments.device, grouping.unwrap_or_default())),
    };
    let needs_stages = matches!(arguments.to, ToName::Blktrace | ToName::Blkparse);
    let mut stages = Stages::default();
    let mut ios = Reduced::default();
    while let Some(item) = trace.next()? {
        match (trace.format().has_stages, needs_stages) {
            (true, true) | (false, false) => sink.put(&item)?,
            (false, true) => stages.put(&item, sink.as_mut())?,
            (true, false) => ios.put(item, sink.as_mut())?,
        }
    }
    trace.conclude(voice)?;
    stages.end(sink.as_mut())?;
    ios.end(sink.as_mut())?;
    for note in sink.finish()? {
        voice.note(note);
    }
    voice.note(trace.summary());
    Ok(Exit::Done)
}

/// What takes items and writes them.
pub trait Sink {
    /// Takes the next item.
    fn put(&mut self, item: &Item) -> Result<(), Error>;
    /// Writes everything out; answers what is worth knowing.
    fn finish(self: Box<Self>) -> Result<Vec<String>, Error>;
}

/// A file being written, which must not be there yet.
struct Out {
    path: PathBuf,
    file: BufWriter<File>,
}

fn create(path: &Path) -> Result<Out, Error> {
    let file = File::options().write(true).create_new(true).open(path);
    let file = file.map_err(|error| Error::file(path, "create", &error))?;
    Ok(Out { path: path.to_owned(), file: BufWriter::new(file) })
}

impl Out {
    fn text(&mut self, text: &str) -> Result<(), Error> {
        self.file.write_all(text.as_bytes()).map_err(|error| Error::file(&self.path, "write", &error))
    }

    fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| Error::file(&self.path, "write", &error))
    }
}

// ---- stages where there are none, and none where there are ----

/// Completions that are still ahead.
#[derive(Default)]
struct Stages {
    ahead: BinaryHeap<Reverse<(Nanos, u64)>>,
    records: BTreeMap<u64, Record>,
    number: u64,
    sequence: u32,
}

/// Completions that wait at most: what comes later than so many others is left out.
const MAX_AHEAD: usize = 1 << 20;

impl Stages {
    fn put(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error> {
        let Item::Record(record) = item else { return sink.put(item) };
        self.complete_until(record.at_ns, sink)?;
        for action in [Action::Queued, Action::Allocated, Action::Inserted, Action::Issued] {
            self.tell(&Record { action, ..*record }, sink)?;
        }
        if let Some(latency_ns) = record.latency_ns
            && self.records.len() < MAX_AHEAD
        {
            self.number += 1;
            let at_ns = record.at_ns.saturating_add(latency_ns);
            self.ahead.push(Reverse((at_ns, self.number)));
            // Completions come by interrupt, which is nobody's.
            self.records.insert(self.number, Record { at_ns, pid: 0, action: Action::Completed, ..*record });
        }
        Ok(())
    }

    fn tell(&mut self, record: &Record, sink: &mut dyn Sink) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        sink.put(&Item::Record(Record { sequence: self.sequence, ..*record }))
    }

    fn complete_until(&mut self, now_ns: Nanos, sink: &mut dyn Sink) -> Result<(), Error> {
        while let Some(Reverse((_, number))) = self.ahead.peek().copied().filter(|next| next.0.0 <= now_ns) {
            self.ahead.pop();
            if let Some(record) = self.records.remove(&number) {
                self.tell(&record, sink)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        self.complete_until(Nanos::MAX, sink)
    }
}

/// I/Os of a trace with stages, each with its latency: they wait for their completions, in order.
#[derive(Default)]
struct Reduced {
    /// What was queued or issued and has not been passed on, in order.
    kept: std::collections::VecDeque<Item>,
    /// How many were passed on or dropped before the first of `kept`.
    passed: u64,
    /// Device, read or not, first byte, number -> end.
    waiting: BTreeMap<(DeviceNumber, bool, u64, u64), u64>,
    has_queued: bool,
}

/// I/Os that wait for the completion of an earlier one; beyond that it counts as unknown.
const MAX_KEPT: usize = 1 << 18;

impl Reduced {
    fn put(&mut self, item: Item, sink: &mut dyn Sink) -> Result<(), Error> {
        let Item::Record(record) = &item else {
            self.kept.push_back(item);
            return self.pass_on(sink);
        };
        match record.action {
            Action::Queued if !self.has_queued => {
                self.has_queued = true;
                // What was issued belongs to something queued before the trace began.
                self.passed += self.kept.len() as u64;
                self.kept.clear();
                self.waiting.clear();
                self.keep(*record);
            }
            Action::Queued => self.keep(*record),
            Action::Issued if !self.has_queued => self.keep(Record { action: Action::Queued, ..*record }),
            Action::Completed => self.complete(record),
            _ => return Ok(()),
        }
        self.pass_on(sink)
    }

    fn keep(&mut self, record: Record) {
        let number = self.passed + self.kept.len() as u64;
        let key = (record.device, record.operation == block::Operation::Read, record.offset_bytes, number);
        self.waiting.insert(key, record.end_bytes());
        self.kept.push_back(Item::Record(record));
    }

    fn complete(&mut self, done: &Record) {
        let is_read = done.operation == block::Operation::Read;
        let first = (done.device, is_read, done.offset_bytes, 0);
        let last = (done.device, is_read, done.end_bytes().max(done.offset_bytes.saturating_add(1)), 0);
        let inside = self.waiting.range(first..last).filter(|(_, end)| **end <= done.end_bytes());
        for key in inside.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.waiting.remove(&key);
            let at = usize::try_from(key.3.saturating_sub(self.passed)).unwrap_or(usize::MAX);
            if let Some(Item::Record(record)) = self.kept.get_mut(at) {
                record.latency_ns = Some(done.at_ns.saturating_sub(record.at_ns));
            }
        }
    }

    /// Passes on what need not wait any more.
    fn pass_on(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        while let Some(item) = self.kept.front() {
            let waits = matches!(item, Item::Record(record) if record.latency_ns.is_none());
            if waits && self.kept.len() <= MAX_KEPT {
                break;
            }
            self.pass_one(sink)?;
        }
        Ok(())
    }

    fn pass_one(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        let Some(item) = self.kept.pop_front() else { return Ok(()) };
        if let Item::Record(record) = &item {
            let key = (record.device, record.operation == block::Operation::Read, record.offset_bytes, self.passed);
            self.waiting.remove(&key);
        }
        self.passed += 1;
        sink.put(&item)
    }

    fn end(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        while !self.kept.is_empty() {
            self.pass_one(sink)?;
        }
        Ok(())
    }
}

// ---- the formats ----

/// blktrace's files; begun with the first event, which says on which device it was.
pub struct Blktrace {
    base: PathBuf,
    writer: Option<Writer>,
    /// Subtracted from all times: blktrace counts from the begin of the trace or the machine.
    begin_ns: Nanos,
    names: Vec<(u32, String)>,
    unix_ns: Option<(Nanos, Nanos)>,
}

impl Blktrace {
    /// Files of this base name.
    pub fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), writer: None, begin_ns: 0, names: Vec::new(), unix_ns: None }
    }

    /// Sees to it that there is a writer; answers the time since its begin.
    fn begin(&mut self, at_ns: Nanos, device: DeviceNumber) -> Result<Nanos, Error> {
        if self.writer.is_none() {
            let first = Writer::path_of(&self.base, 0);
            if first.exists() {
                return Err(Error::failed(format!("{} exists", first.display()), "choose another --out"));
            }
            // Without a word about the clock, times since 1970 are taken for what they look like.
            let unix_ns =
                self.unix_ns.map_or(at_ns, |(then_ns, unix_ns)| unix_ns.saturating_add(at_ns).saturating_sub(then_ns));
            let writer = Writer::create(&self.base, device, unix_ns);
            let mut writer = writer.map_err(|error| Error::file(&first, "create", &error))?;
            self.names.drain(..).for_each(|(pid, name)| writer.process(0, pid, &name));
            self.begin_ns = at_ns;
            self.writer = Some(writer);
        }
        Ok(at_ns.saturating_sub(self.begin_ns))
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

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        let first = Writer::path_of(&self.base, 0);
        let Some(writer) = self.writer else { return Ok(Vec::new()) };
        writer.finish().map_err(|error| Error::file(&first, "write", &error))?;
        Ok(vec![format!("written: {} and its siblings; blkparse -i {}", first.display(), self.base.display())])
    }
}

/// blkparse's lines.
struct Lines {
    out: Out,
    printer: blkparse::Printer,
}

impl Sink for Lines {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        let Some(line) = self.printer.line(item) else { return Ok(()) };
        self.out.text(&format!("{line}\n"))
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        self.out.finish().map(|()| Vec::new())
    }
}

/// Our table.
struct Table {
    out: Out,
    grouping: Option<Grouping>,
    names: Names,
}

impl Table {
    fn new(path: &Path, grouping: Option<Grouping>) -> Result<Self, Error> {
        let mut out = create(path)?;
        out.text(&format!("{}\n", csv::HEADER))?;
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
        csv::line(record, names).map_or(Ok(()), |line| self.out.text(&line))
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        self.out.finish().map(|()| Vec::new())
    }
}

/// What numbers of a trace are called.
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
struct Logs {
    /// The job file; none for a log alone.
    job_file: Option<PathBuf>,
    device: String,
    grouping: Grouping,
    names: Names,
    logs: BTreeMap<String, (Out, iolog::Writer)>,
    begin_ns: Option<Nanos>,
    left_out: u64,
}

impl Logs {
    fn alone(path: &Path, device: &str) -> Result<Self, Error> {
        let mut logs = Self::of_groups(path, device, Grouping::default());
        logs.job_file = None;
        logs.open("", path)?;
        Ok(logs)
    }

    fn of_groups(path: &Path, device: &str, grouping: Grouping) -> Self {
        Self {
            job_file: Some(path.to_owned()),
            device: device.to_owned(),
            grouping,
            names: Names::default(),
            logs: BTreeMap::new(),
            begin_ns: None,
            left_out: 0,
        }
    }

    fn open(&mut self, group: &str, path: &Path) -> Result<(), Error> {
        let mut out = create(path)?;
        let writer = iolog::Writer::since(&self.device, self.begin_ns);
        out.text(&writer.begin())?;
        self.logs.insert(group.to_owned(), (out, writer));
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
                    let path = Self::path_of(job_file, &group);
                    self.open(&group, &path)?;
                }
                group
            }
        };
        let Some((out, writer)) = self.logs.get_mut(&group) else { return Ok(()) };
        match writer.line(record) {
            Some(line) => out.text(&line),
            None => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        let mut jobs =
            format!("[global]\nioengine=libaio\ndirect=1\niodepth=64\nfilename={}\n", self.device.replace(':', "\\:"));
        for (group, (mut out, writer)) in self.logs {
            out.text(&writer.end())?;
            jobs.push_str(&format!("\n[{}]\nread_iolog={}\n", group.replace(']', "_"), out.path.display()));
            out.finish()?;
        }
        if self.left_out > 0 {
            notes.push(format!("{} I/Os are left out: fio has no word for them", self.left_out));
        }
        if let Some(path) = &self.job_file {
            let mut out = create(path)?;
            out.text(&jobs)?;
            out.finish()?;
            notes.push(format!("written: {}; fio {}", path.display(), path.display()));
        }
        Ok(notes)
    }
}
