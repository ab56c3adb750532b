//! `hoistway trace record`: records a block device with the kernel's own tracer, through the
//! tracing file system, as files of blktrace.
//!
//! The tracer returns the records of all CPUs mixed, without usable numbers: they are sorted into
//! files and numbered here. Every setting is journalled before it is changed, and restored at the
//! end, however the recording ends. Source: docs/specifications/harness.md, section 9.7.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hoistway_experiment::Exit;
use hoistway_linux::block_queue::BlockQueue;
use hoistway_linux::setting::{Journal, Watcher};
use hoistway_workload::trace::{Item, Options, Reading, SAMPLE_BYTES, Source, format_of_name};

use super::sinks::{Blktrace, Sink};
use crate::exit::{Error, Outcome, Reporter};
use crate::interrupt::Interrupt;
use crate::processes;
use crate::trace::arguments::RecordArguments;

/// Mount points of the tracing file system.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Time between two reads of an empty pipe.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the subcommand.
pub fn run(arguments: &RecordArguments, reporter: Reporter) -> Outcome {
    let switch = switch_of(arguments.device())?;
    let tracing = PLACES.iter().map(Path::new).find(|place| place.join("trace_pipe").exists());
    let tracing = tracing.ok_or_else(|| {
        Error::failed("there is no tracing file system", "as root: mount -t tracefs nodev /sys/kernel/tracing")
    })?;
    let active = text(&tracing.join("current_tracer"))?;
    if active != "nop" || text(&switch)? != "0" {
        let what = format!("the kernel's tracer is busy ({active})");
        return Err(Error::refused(
            what,
            "end the other tracing first; run hoistway restore if a killed hoistway left it",
        ));
    }
    let interrupt = Interrupt::install()?;
    let tracer = ActiveTracer::set(tracing, &switch)?;
    let end = arguments.length.map(|length_ns| Instant::now() + Duration::from_nanos(length_ns));
    let recorded = record(tracing, &arguments.out, (end, &interrupt), reporter);
    let lost = overruns(tracing);
    let restored = tracer.teardown();
    recorded?;
    restored?;
    if lost > 0 {
        reporter.warn(format!("{lost} events were lost"), "enlarge buffer_size_kb in the tracing file system");
    }
    Ok(interrupt.exit().filter(|_| end.is_some()).unwrap_or(Exit::Done))
}

/// The file that enables the device's tracing.
fn switch_of(device: &Path) -> Result<PathBuf, Error> {
    let failed = |error: io::Error| {
        let what = format!("cannot read the state of {}: {error}", device.display());
        Error::failed(what, "name a block device, as /dev/sdb")
    };
    let queue = BlockQueue::of(device).map_err(failed)?;
    let switch = PathBuf::from(format!("/sys/block/{}/trace/enable", queue.name()));
    if switch.exists() {
        return Ok(switch);
    }
    let what = format!("the kernel cannot trace {}: there is no {}", device.display(), switch.display());
    Err(Error::failed(what, "it needs CONFIG_BLK_DEV_IO_TRACE"))
}

fn text(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::file(path, "read", &error))?;
    Ok(text.trim().to_owned())
}

/// The tracer while it is enabled.
struct ActiveTracer {
    journal: Journal,
    watcher: Watcher,
}

impl ActiveTracer {
    fn set(tracing: &Path, switch: &Path) -> Result<Self, Error> {
        let failed =
            |what: &'static str| move |error: io::Error| Error::failed(format!("{what}: {error}"), "are you root?");
        let mut journal = Journal::begin("-trace").map_err(failed("the journal in /run/hoistway-root"))?;
        let watcher = Watcher::start((processes::PROGRAMS.watcher)(journal.path())).map_err(failed("the watcher"))?;
        let process = watcher.process().map_err(failed("the watcher"))?;
        journal.watched_by(process).map_err(failed("the journal in /run/hoistway-root"))?;
        let mut tracer = Self { journal, watcher };
        // The device is set first, so that at the end it is disabled first as well.
        let settings = [
            (switch.to_owned(), "1"),
            (tracing.join("options/context-info"), "0"),
            (tracing.join("current_tracer"), "blk"),
            (tracing.join("options/bin"), "1"),
        ];
        for (path, value) in settings {
            if let Err(error) = tracer.journal.set(&path, value) {
                tracer.teardown()?;
                return Err(Error::file(&path, "write", &error));
            }
        }
        Ok(tracer)
    }

    fn teardown(mut self) -> Result<(), Error> {
        let restored = self.journal.restore();
        if restored.is_complete() {
            self.watcher.dismiss();
            return Ok(());
        }
        let what = format!("not restored: {}", restored.failed.join("; "));
        Err(Error::new(Exit::NotRestored, what, "hoistway restore"))
    }
}

/// The kernel's pipe as a file that ends when the recording ends.
struct Pipe {
    file: File,
    until: Rc<dyn Fn() -> bool>,
}

impl Read for Pipe {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(to) {
                // Data in the buffers is read before the end.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if (self.until)() {
                        return Ok(0);
                    }
                    std::thread::sleep(PAUSE);
                }
                Ok(0) if !(self.until)() => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
    }
}

fn record(
    tracing: &Path,
    base: &Path,
    (end, interrupt): (Option<Instant>, &Interrupt),
    reporter: Reporter,
) -> Result<(), Error> {
    let path = tracing.join("trace_pipe");
    let file = OpenOptions::new().read(true).custom_flags(i32::from(NON_BLOCKING)).open(&path);
    let file = file.map_err(|error| Error::file(&path, "open", &error))?;
    let interrupt = interrupt.clone();
    let until: Rc<dyn Fn() -> bool> =
        Rc::new(move || interrupt.is_asked() || end.is_some_and(|end| Instant::now() >= end));
    let content = io::BufReader::with_capacity(SAMPLE_BYTES, Pipe { file, until });
    let format = format_of_name("blktrace").ok_or_else(|| Error::failed("the format is unknown", ""))?;
    let source = Source { name: path.display().to_string(), content: Box::new(content) };
    let mut reading = Reading::new(format, vec![source], Options::default());
    let mut sink = Box::new(Blktrace::recorded(base)?);
    reporter.note("recording; Ctrl-C ends it");
    // Groups are not written to the files, because blkparse does not read them.
    while let Some(item) = reading.next_item().map_err(super::open::error)? {
        let item = match item {
            Item::Record(record) => Item::Record(hoistway_workload::trace::Record { group: 0, ..record }),
            other => other,
        };
        sink.put(&item)?;
    }
    reporter.note(format!("{} events", reading.tally().records));
    sink.finish()?.into_iter().for_each(|note| reporter.note(note));
    Ok(())
}

/// `O_NONBLOCK` of Linux on all but a few old architectures.
const NON_BLOCKING: u16 = 0o4000;

/// Number of events that the kernel dropped since its buffers were emptied.
fn overruns(tracing: &Path) -> u64 {
    let processors = fs::read_dir(tracing.join("per_cpu")).into_iter().flatten().flatten();
    let overrun = |entry: fs::DirEntry| {
        let stats = fs::read_to_string(entry.path().join("stats")).ok()?;
        let line = stats.lines().find_map(|line| line.strip_prefix("overrun:"))?;
        line.trim().parse::<u64>().ok()
    };
    processors.filter_map(overrun).sum()
}
