//! blktrace for the exporter: switched on for each device, read ten times a second by a thread, switched off at the
//! end by this process or by its watcher.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hoistway_linux::block_trace::BlockTrace;
use hoistway_linux::setting::{Journal, Watcher};

use super::exporter::DeviceTimes;
use crate::exit::{Error, Reporter};
use crate::processes;

/// Mount points of the tracing file system.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Time between two reads of the kernel's buffers.
const PAUSE: Duration = Duration::from_millis(100);

type Traces = Arc<Mutex<BTreeMap<String, BlockTrace>>>;

/// The traces of all devices.
pub struct Tracer {
    traces: Traces,
    /// What is to be switched off; none before the first device, and where nothing can be traced.
    settings: Option<(Journal, Watcher)>,
    reporter: Reporter,
}

fn locked(traces: &Traces) -> MutexGuard<'_, BTreeMap<String, BlockTrace>> {
    traces.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    /// Without devices.
    pub fn new(reporter: Reporter) -> Self {
        Self { traces: Traces::default(), settings: None, reporter }
    }

    /// Traces a device, or says why it cannot be traced: the other figures do not need it.
    pub fn trace(&mut self, name: &str) {
        if let Err(error) = self.start(name) {
            let why = match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => "another program traces it".to_owned(),
                _ => error.to_string(),
            };
            self.reporter.note(format!("{name}: times of requests are not recorded: {why}"));
        }
    }

    fn start(&mut self, name: &str) -> io::Result<()> {
        let switch = PathBuf::from(format!("/sys/block/{name}/trace/enable"));
        if std::fs::read_to_string(&switch)?.trim() != "0" {
            return Err(rustix::io::Errno::BUSY.into());
        }
        if self.settings.is_none() {
            self.settings = Some(self.begin()?);
        }
        if let Some((journal, _)) = &mut self.settings {
            journal.keep(&switch, None)?;
        }
        let trace = BlockTrace::start(name).inspect_err(|_| {
            // It may have begun, and its records cannot be read: it would cost for nothing. The journal has the switch.
            let _ = std::fs::write(&switch, "0");
        })?;
        locked(&self.traces).insert(name.to_owned(), trace);
        Ok(())
    }

    /// Journal and watcher, the numbers of groups in the records, and the thread.
    fn begin(&self) -> io::Result<(Journal, Watcher)> {
        let mut journal = Journal::begin("-top")?;
        let watcher = Watcher::start((processes::PROGRAMS.watcher)(journal.path()))?;
        journal.watched_by(watcher.process()?)?;
        if let Some(option) =
            PLACES.iter().map(|place| Path::new(place).join("options/blk_cgroup")).find(|it| it.exists())
        {
            journal.set(&option, "1")?;
        }
        let traces = self.traces.clone();
        thread::Builder::new().name("trace".into()).spawn(move || {
            loop {
                thread::sleep(PAUSE);
                // A trace that another program has ended keeps what it counted.
                locked(&traces).values_mut().for_each(|trace| drop(trace.take()));
            }
        })?;
        Ok((journal, watcher))
    }

    /// Forgets the devices that are not among these.
    pub fn forget(&mut self, names: &[String]) {
        locked(&self.traces).retain(|name, _| names.contains(name));
    }

    /// The times of a device up to now; none if it is not traced.
    pub fn times(&mut self, name: &str) -> Option<DeviceTimes> {
        let mut traces = locked(&self.traces);
        let trace = traces.get_mut(name)?;
        // As above.
        let _ = trace.take();
        let all = trace.times().all().map(|(group, direction, times)| (group, direction, times.clone())).collect();
        Some((all, trace.lost()))
    }

    /// Switches everything off.
    pub fn end(self) -> Result<(), Error> {
        locked(&self.traces).clear();
        let Some((mut journal, watcher)) = self.settings else { return Ok(()) };
        let restored = journal.restore();
        if restored.is_complete() {
            watcher.dismiss();
            return Ok(());
        }
        let what = format!("not restored: {}", restored.failed.join("; "));
        Err(Error::new(hoistway_experiment::Exit::NotRestored, what, "hoistway restore"))
    }
}
