//! The order of issue, from the tracepoints of the block layer.
#![allow(unsafe_code)]

use crate::Issued;
use hoistway_block::{Class, Operation};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Prefix of the name of a tracing instance, followed by the process id and the device.
const INSTANCE_PREFIX: &str = "hoistway-differential-";

/// A tracing instance of our own, so that other tracing is not disturbed.
pub struct TraceInstance {
    path: PathBuf,
    /// Reading removes events, which is much cheaper than emptying the buffer, which waits for all
    /// CPUs. Closed before the instance is removed.
    pipe: Option<File>,
}

impl TraceInstance {
    pub fn begin(loop_number: u32) -> Result<Self, String> {
        let root = tracefs()?;
        remove_leftovers(&root.join("instances"));
        let path = root.join("instances").join(format!("{INSTANCE_PREFIX}{}-{loop_number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut trace = Self { path, pipe: None };
        // The counter orders events of all CPUs without relying on their clocks.
        trace.set("trace_clock", "counter")?;
        // dev_t in the kernel's form: major 7 in the upper 12 of 32 bits, a minor per device.
        let device = (7 << 20) | loop_number;
        for event in ["block_rq_insert", "block_rq_issue"] {
            trace.set(&format!("events/block/{event}/filter"), &format!("dev == {device}"))?;
            trace.set(&format!("events/block/{event}/enable"), "1")?;
        }
        let path = trace.path.join("trace_pipe");
        let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        trace.pipe = Some(pipe.map_err(|error| format!("{}: {error}", path.display()))?);
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The events since the last call.
    fn take(&mut self) -> String {
        let mut text = Vec::new();
        // Reads until the pipe is empty, and keeps what was read before that.
        match self.pipe.as_mut().expect("open until the end").read_to_end(&mut text) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("trace_pipe: {error}"),
            _ => String::from_utf8(text).expect("the kernel writes ASCII"),
        }
    }

    pub fn clear(&mut self) {
        self.take();
    }

    /// The requests in order of issue; None if one was inserted after another was issued.
    pub fn issued(&mut self) -> Option<Vec<Issued>> {
        let text = self.take();
        let mut issued = Vec::new();
        for line in text.lines() {
            assert!(!line.contains("LOST"), "the tracing buffer is too small: {line}");
            if line.contains(" block_rq_insert: ") && !issued.is_empty() {
                return None;
            }
            if let Some((_, event)) = line.split_once(" block_rq_issue: ") {
                issued.push(parse_issue(event).unwrap_or_else(|| panic!("a trace line of another format: {line:?}")));
            }
        }
        Some(issued)
    }
}

/// Removes instances of earlier runs that were killed.
fn remove_leftovers(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(INSTANCE_PREFIX));
        let owner = rest.and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        self.pipe = None;
        for event in ["block_rq_insert", "block_rq_issue"] {
            let _ = self.set(&format!("events/block/{event}/enable"), "0");
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{} could not be removed: {error}", self.path.display());
        }
    }
}

/// `7,0 WS 4096 () 1000 + 8 be,4,0 [comm]`
fn parse_issue(event: &str) -> Option<Issued> {
    let mut words = event.split_whitespace();
    let operation = words.nth(1)?.chars().find_map(|letter| match letter {
        'R' => Some(Operation::Read),
        'W' => Some(Operation::Write),
        'D' => Some(Operation::Discard),
        _ => None,
    })?;
    let mut words = words.skip_while(|word| !word.ends_with(')')).skip(1);
    let first_sector = words.next()?.parse().ok()?;
    let sectors = words.nth(1)?.parse().ok()?;
    let class = match words.next()?.split(',').next()? {
        "rt" => Class::RealTime,
        "idle" => Class::Idle,
        _ => Class::BestEffort,
    };
    Some((operation, first_sector, sectors, class))
}

/// The mount point of tracefs; mounts it at its usual place if it is not mounted (and leaves it
/// mounted, as any tracing tool does).
fn tracefs() -> Result<PathBuf, String> {
    let path = PathBuf::from("/sys/kernel/tracing");
    if path.join("instances").is_dir() {
        return Ok(path);
    }
    // SAFETY: all arguments are NUL-terminated constants; no data is passed.
    let mounted = unsafe {
        libc::mount(c"tracefs".as_ptr(), c"/sys/kernel/tracing".as_ptr(), c"tracefs".as_ptr(), 0, std::ptr::null())
    };
    match mounted {
        0 if path.join("instances").is_dir() => Ok(path),
        _ => Err(format!("no tracefs at {}: {}", path.display(), io::Error::last_os_error())),
    }
}
