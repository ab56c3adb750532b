//! The kernel's side of the comparison: a loop device under one of the kernel's schedulers, with
//! tracing of its requests.
#![allow(unsafe_code)]

use crate::loop_device::LoopDevice;
use crate::submission::{Buffers, Submitter};
use crate::trace::TraceInstance;
use crate::{INTERRUPTED, Issued, chains};
use hoistway_elevator::Bio;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// A kernel scheduler on a loop device. Dropping the value restores all settings.
pub struct Kernel {
    // Fields are dropped in this order: the trace first, the scheduler before the device.
    trace: TraceInstance,
    scheduler: Scheduler,
    _throttling: Throttling,
    elevator: &'static str,
    submitter: Submitter,
    device: LoopDevice,
    buffers: Buffers,
    takes_discards: bool,
    pub max_sectors: u32,
    pub max_segments: u16,
    pub max_discard_segments: u16,
}

extern "C" fn interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

impl Kernel {
    pub fn open(elevator: &'static str) -> Result<Self, String> {
        // SAFETY: takes no argument and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err("not root".into());
        }
        let handler: extern "C" fn(libc::c_int) = interrupt;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        let (release, version) = release();
        if version < (6, 5) {
            return Err(format!(
                "kernel {release} has another form of mq-deadline and of plugs (6.5 or later is compared)"
            ));
        }
        let device = LoopDevice::attach(chains::DEVICE_SECTORS)?;
        let scheduler = Scheduler::take_over(&device.queue, elevator)?;
        let throttling = Throttling::switch_off(&device.queue);
        let max_sectors = u32::try_from(device.limit("max_sectors_kb")? * 2).unwrap_or(u32::MAX);
        let max_segments = u16::try_from(device.limit("max_segments")?).unwrap_or(u16::MAX);
        let max_discard_segments = u16::try_from(device.limit("max_discard_segments")?).unwrap_or(u16::MAX);
        // Discards through io_uring exist since 6.12.
        let takes_discards = version >= (6, 12) && device.limit("discard_max_bytes")? > 0;
        let trace = TraceInstance::begin(device.number)?;
        let submitter = Submitter::new()?;
        let buffers = Buffers::new(chains::BATCH_MOST);
        Ok(Self {
            trace,
            scheduler,
            _throttling: throttling,
            elevator,
            submitter,
            device,
            buffers,
            takes_discards,
            max_sectors,
            max_segments,
            max_discard_segments,
        })
    }

    pub fn takes_discards(&self) -> bool {
        self.takes_discards
    }

    /// Software queues that batches can be staged in: one per CPU that this process may run on.
    pub fn software_queues(&self) -> u16 {
        self.submitter.cpus()
    }

    /// A fresh scheduler with these tunables.
    pub fn reset(&mut self, tunables: &[(&str, i64)]) {
        self.scheduler.select("none").expect("none is always there");
        self.scheduler.select(self.elevator).expect("was there before");
        for (name, value) in tunables {
            let path = self.device.queue.join("iosched").join(name);
            fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Issues the batch and waits for it. None if some of it left the scheduler before all of it
    /// had entered.
    pub fn issue(&mut self, batch: &[Bio]) -> Option<Vec<Issued>> {
        self.trace.clear();
        self.submitter.run(&self.device.file, batch, &mut self.buffers);
        self.trace.issued()
    }
}

/// The running kernel's release, and its first two numbers.
fn release() -> (String, (u32, u32)) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (release.trim().to_owned(), version)
}

/// Writeback throttling, which makes a submitter of several discards sleep, and so splits batches.
/// Nothing to do if the kernel has none.
struct Throttling {
    path: PathBuf,
    before: Option<String>,
}

impl Throttling {
    fn switch_off(queue: &Path) -> Self {
        let path = queue.join("wbt_lat_usec");
        let before = fs::read_to_string(&path).ok().filter(|_| fs::write(&path, "0").is_ok());
        Self { path, before }
    }
}

impl Drop for Throttling {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = fs::write(&self.path, before.trim())
        {
            eprintln!("{} could not be set back to {before}: {error}", self.path.display());
        }
    }
}

/// The selected scheduler; restored when dropped.
struct Scheduler {
    path: PathBuf,
    before: String,
}

impl Scheduler {
    fn take_over(queue: &Path, elevator: &str) -> Result<Self, String> {
        let path = queue.join("scheduler");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let before = text.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
        let mut scheduler = Self { path, before };
        scheduler.select(elevator).map_err(|error| format!("the kernel has no {elevator}: {error}"))?;
        Ok(scheduler)
    }

    fn select(&mut self, name: &str) -> io::Result<()> {
        fs::write(&self.path, name)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let before = self.before.clone();
        if let Err(error) = self.select(&before) {
            eprintln!("{} could not be set back to {before}: {error}", self.path.display());
        }
    }
}
