//! Our mq-deadline against the kernel's: the same random batches, the same order of issue.
//!
//! One io_submit of more than two I/Os collects in the submitter's plug and enters the scheduler of a loop device as one
//! batch; the tracepoint block_rq_issue tells in which order it comes out. Our request queue gets the same batch through
//! its plug. Needs root, a loop device, mq-deadline (6.5 or later) and tracefs; otherwise it says `skipped:` and why, or
//! fails where HOISTWAY_NO_SKIP is set. `HOISTWAY_SEED=n` replays one chain of batches.
//!
//! Run: `cargo test -p hoistway --test kernel_differential -- --nocapture`
#![allow(unsafe_code)]

use block::random::Stream;
use block::{Class, Extent, HardwareQueue, Operation, Priority, RequestId, Status};
use elevator::{Bio, Configuration, Depth};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use testbed::notation::show;
use testbed::queue::{Era, Limits, Next, Plug, RequestQueue, Settings};

/// Batches that are compared, at least.
const BATCHES: u64 = 600;
/// Batches of a chain between two resets, where the state carries over.
const CHAIN: usize = 10;
/// Requests of a batch: the kernel's plug takes 32.
const BATCH_MOST: u64 = 28;
const DEVICE_SECTORS: u64 = 64 << 11;
const BLOCK_SECTORS: u64 = 8;
/// Sectors of the largest I/O.
const IO_MOST: u32 = 32;

#[test]
fn the_kernel_issues_every_batch_in_our_order() {
    let mut kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(reason) => return skipped(&reason),
    };
    let replayed = std::env::var("HOISTWAY_SEED").ok().and_then(|text| text.parse().ok());
    let mut sum = Sum::default();
    for seed in replayed.map_or(0..u64::MAX, |seed: u64| seed..seed + 1) {
        chain(seed, &mut kernel, &mut sum);
        assert!(
            !INTERRUPTED.load(Ordering::Relaxed),
            "interrupted after {} batches; everything is put back",
            sum.batches
        );
        if sum.batches >= BATCHES {
            break;
        }
    }
    let Sum { batches, requests, split } = sum;
    eprintln!(
        "{batches} batches of {requests} requests in the same order; {split} were split by the kernel and repeated"
    );
    assert!(split * 10 <= batches, "{split} of {batches} batches did not enter as one");
}

/// Set by SIGINT and SIGTERM, so that scheduler and tracing are put back then as well.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Says aloud that nothing was compared: past the capture of the test harness.
fn skipped(reason: &str) {
    assert!(std::env::var_os("HOISTWAY_NO_SKIP").is_none(), "may not be skipped, but: {reason}");
    let _ = writeln!(io::stderr(), "skipped: {reason}");
}

#[derive(Default)]
struct Sum {
    batches: u64,
    requests: u64,
    split: u64,
}

/// Batches one after the other from a fresh scheduler. Even seeds: one batch of all classes. Odd seeds: several, whose
/// state carries over.
///
/// While a class is in the device the kernel looks at the lower ones in vain, as often as its timing has it, and each look
/// moves the shared batch unless that has room and a request ahead. So where it may have none (a position from before, or
/// fifo_batch 0) the order of several classes depends on timing, and a batch is of one class there.
fn chain(seed: u64, kernel: &mut Kernel, sum: &mut Sum) {
    let mut random = Stream::of(seed, "kernel_differential");
    let tunables = random_tunables(&mut random);
    kernel.reset(&tunables);
    let mut ours = Ours::new(&tunables, kernel);
    let carries = seed % 2 == 1;
    let of_one_class = carries || tunables.contains(&("fifo_batch", 0));
    for _ in 0..if carries { CHAIN } else { 1 } {
        let batch = random_batch(&mut random, of_one_class);
        let Some(issued) = kernel.issue(&batch) else {
            // The submitter slept halfway: nothing is said about a batch then, and the state is unknown.
            sum.split += 1;
            return;
        };
        let expected = ours.issue(&batch);
        let text = batch.iter().map(show).collect::<Vec<_>>().join(" ");
        assert_eq!(
            issued, expected,
            "the kernel (left) and we (right) differ: HOISTWAY_SEED={seed}, {tunables:?}\n  {{{text}}}\n"
        );
        sum.batches += 1;
        sum.requests += u64::try_from(expected.len()).expect("few");
    }
}

fn random_tunables(random: &mut Stream) -> Vec<(&'static str, i64)> {
    let mut one_of = |values: &[i64]| values[usize::try_from(random.below(values.len() as u64)).expect("in range")];
    vec![
        ("fifo_batch", one_of(&[0, 1, 2, 3, 16])),
        ("writes_starved", one_of(&[-5, 0, 1, 2, 5])),
        ("front_merges", one_of(&[0, 1])),
        // At 0 every request is overdue when it is inserted.
        ("read_expire", one_of(&[500_000, 0])),
        ("write_expire", one_of(&[500_000, 0])),
    ]
}

/// A batch on few places, so that neighbours meet: in order, in reverse, and across a gap.
fn random_batch(random: &mut Stream, of_one_class: bool) -> Vec<Bio> {
    let priorities = [
        Priority::DEFAULT,
        Priority::new(Class::RealTime, 4),
        Priority::new(Class::Idle, 4),
        Priority::DEFAULT,
        Priority::new(Class::BestEffort, 2),
    ];
    let usable = if random.chance(1, 2) { 2 } else { priorities.len() as u64 };
    let only = random.below(usable);
    let places = if random.chance(1, 2) { 64 } else { DEVICE_SECTORS / BLOCK_SECTORS - 8 };
    let mut bios: Vec<Bio> = Vec::new();
    for _ in 0..3 + random.below(BATCH_MOST - 3) {
        let operation = if random.chance(1, 2) { Operation::Read } else { Operation::Write };
        let sectors = u32::try_from(BLOCK_SECTORS * (1 + random.below(4))).expect("small").min(IO_MOST);
        let behind = bios.last().filter(|_| random.chance(1, 4)).map(|last| last.extent.end());
        let first_sector = behind.unwrap_or_else(|| random.below(places) * BLOCK_SECTORS);
        let mut bio = Bio::new(operation, Extent::new(first_sector.min(DEVICE_SECTORS - u64::from(IO_MOST)), sectors));
        let which = if of_one_class { only } else { random.below(usable) };
        bio.priority = priorities[usize::try_from(which).expect("in range")];
        bios.push(bio);
    }
    bios
}

/// A request as both sides show it: direction, first sector, sectors, class.
type Issued = (char, u64, u32, Class);

// ---- our side ----

struct Ours {
    queue: RequestQueue,
    plug: Plug,
    now: u64,
    cookie: u64,
}

impl Ours {
    fn new(tunables: &[(&str, i64)], kernel: &Kernel) -> Self {
        let configuration = Configuration { depth: Depth { requests: 256, device: 128 }, ..Configuration::default() };
        let limits = Limits { max_sectors: kernel.max_sectors, max_segments: kernel.max_segments, ..Limits::default() };
        let settings = Settings { configuration, limits, era: Era::BLK_MQ, ..Settings::default() };
        let mut queue = RequestQueue::build("mq-deadline", None, &settings).expect("registered");
        for (name, value) in tunables {
            queue.set(name, &value.to_string()).expect("a tunable of the kernel is one of ours");
        }
        Self { queue, plug: Plug::default(), now: 1_000_000_000, cookie: 0 }
    }

    fn issue(&mut self, batch: &[Bio]) -> Vec<Issued> {
        // As much time as a batch really takes is beyond every doubt between two of them.
        self.now += 1_000_000_000;
        for bio in batch {
            self.cookie += 1;
            self.queue.submit_plugged(bio, self.cookie, &mut self.plug, self.now).expect("room for all bios");
        }
        self.queue.unplug(&mut self.plug, self.now);
        let (mut issued, mut in_device) = (Vec::new(), Vec::<RequestId>::new());
        loop {
            match self.queue.dispatch(HardwareQueue(0), self.now) {
                Next::Start { id, .. } => {
                    let request = self.queue.requests().attributes(id);
                    let letter = if request.operation == Operation::Read { 'R' } else { 'W' };
                    issued.push((letter, request.extent.first_sector, request.extent.sectors, request.class()));
                    in_device.push(id);
                }
                _ if in_device.is_empty() => break,
                _ => self.queue.complete(in_device.remove(0), Status::Ok, self.now, |_| {}),
            }
        }
        assert_eq!(self.queue.check(), Ok(()));
        assert_eq!(self.queue.bios_inside(), 0, "everything is issued");
        issued
    }
}

// ---- the kernel's side ----

/// A loop device under mq-deadline, traced. Everything is put back when it goes.
struct Kernel {
    // Fields are dropped in this order: the trace first, the scheduler before the device.
    trace: TraceInstance,
    scheduler: Scheduler,
    device: LoopDevice,
    context: AioContext,
    buffers: Buffers,
    max_sectors: u32,
    max_segments: u16,
}

impl Kernel {
    fn open() -> Result<Self, String> {
        // SAFETY: takes no argument and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err("not root".into());
        }
        let handler: extern "C" fn(libc::c_int) = interrupt;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        if (numbers.next(), numbers.next()) < (Some(6), Some(5)) {
            return Err(format!(
                "kernel {} has another form of mq-deadline (6.5 or later is compared)",
                release.trim()
            ));
        }
        let device = LoopDevice::attach(DEVICE_SECTORS)?;
        let scheduler = Scheduler::take_over(&device.queue)?;
        let limit = |name: &str| -> Result<u32, String> {
            let path = device.queue.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            text.trim().parse().map_err(|_| format!("{}: {text:?} is no number", path.display()))
        };
        let max_sectors = limit("max_sectors_kb")? * 2;
        let max_segments = u16::try_from(limit("max_segments")?).unwrap_or(u16::MAX);
        let trace = TraceInstance::begin(device.number)?;
        let context = AioContext::new()?;
        let buffers = Buffers::new(usize::try_from(BATCH_MOST).expect("small"));
        Ok(Self { trace, scheduler, device, context, buffers, max_sectors, max_segments })
    }

    /// A scheduler without a past, with these tunables.
    fn reset(&mut self, tunables: &[(&str, i64)]) {
        self.scheduler.select("none").expect("none is always there");
        self.scheduler.select("mq-deadline").expect("was there before");
        for (name, value) in tunables {
            let path = self.device.queue.join("iosched").join(name);
            fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Issues the batch and waits for it. None if it did not enter the scheduler as a whole before any of it left.
    fn issue(&mut self, batch: &[Bio]) -> Option<Vec<Issued>> {
        self.trace.clear();
        self.context.run(&self.device.file, batch, &mut self.buffers);
        self.trace.issued()
    }
}

struct LoopDevice {
    file: File,
    number: u32,
    queue: PathBuf,
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    before_flags: [u64; 6],
    encrypt_key_size: u32,
    flags: u32,
    names_and_keys: [u64; 22],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304, "as in linux/loop.h");

impl LoopDevice {
    /// A free loop device over an unlinked file. It detaches by itself when the last descriptor closes (autoclear), even
    /// if this process is killed.
    fn attach(sectors: u64) -> Result<Self, String> {
        const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
        const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
        const LO_FLAGS_AUTOCLEAR: u32 = 4;
        let control = File::open("/dev/loop-control").map_err(|error| format!("/dev/loop-control: {error}"))?;
        let backing = tempfile::tempfile().and_then(|file| file.set_len(sectors * 512).map(|()| file));
        let backing = backing.map_err(|error| format!("no backing file: {error}"))?;
        backing
            .write_all_at(&vec![1; usize::try_from(sectors * 512).expect("64 MiB")], 0)
            .map_err(|e| e.to_string())?;
        // Another process may take the free device first; then the next one is tried.
        for _ in 0..16 {
            // SAFETY: the request takes no argument; the descriptor is open.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            let number =
                u32::try_from(number).map_err(|_| format!("no free loop device: {}", io::Error::last_os_error()))?;
            let path = format!("/dev/loop{number}");
            let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
            let file = opened.map_err(|error| format!("{path}: {error}"))?;
            let config = LoopConfig {
                fd: u32::try_from(backing.as_raw_fd()).expect("descriptors are positive"),
                block_size: 0,
                before_flags: [0; 6],
                encrypt_key_size: 0,
                flags: LO_FLAGS_AUTOCLEAR,
                names_and_keys: [0; 22],
                reserved: [0; 8],
            };
            // SAFETY: the request reads a loop_config, whose layout is asserted above and which outlives the call.
            if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) } == 0 {
                return Ok(Self { file, number, queue: PathBuf::from(format!("/sys/block/loop{number}/queue")) });
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(format!("{path} cannot be attached: {error}"));
            }
        }
        Err("every free loop device was taken by somebody else".into())
    }
}

struct Scheduler {
    path: PathBuf,
    before: String,
}

impl Scheduler {
    fn take_over(queue: &Path) -> Result<Self, String> {
        let path = queue.join("scheduler");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let before = text.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
        let mut scheduler = Self { path, before };
        scheduler.select("mq-deadline").map_err(|error| format!("the kernel has no mq-deadline: {error}"))?;
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

/// Before the process id, in the name of a tracing instance.
const INSTANCE_PREFIX: &str = "hoistway-differential-";

/// A tracing instance of our own, so that nobody else's tracing is disturbed.
struct TraceInstance {
    path: PathBuf,
}

impl TraceInstance {
    fn begin(loop_number: u32) -> Result<Self, String> {
        let root = tracefs()?;
        remove_leftovers(&root.join("instances"));
        let path = root.join("instances").join(format!("{INSTANCE_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let trace = Self { path };
        // The counter orders events of all CPUs without relying on their clocks.
        trace.set("trace_clock", "counter")?;
        // dev_t as the kernel keeps it: major 7 in the upper 12 of 32 bits, a minor per device.
        let device = (7 << 20) | loop_number;
        for event in ["block_rq_insert", "block_rq_issue"] {
            trace.set(&format!("events/block/{event}/filter"), &format!("dev == {device}"))?;
            trace.set(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn clear(&self) {
        self.set("trace", "").expect("could be written before");
    }

    /// The requests in order of issue; None if one was inserted after another was issued.
    fn issued(&self) -> Option<Vec<Issued>> {
        let text = fs::read_to_string(self.path.join("trace")).expect("could be read before");
        let mut issued = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
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

/// Instances of earlier runs that were killed.
fn remove_leftovers(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(INSTANCE_PREFIX));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
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
    let letter = words.nth(1)?.chars().find(|letter| matches!(letter, 'R' | 'W'))?;
    let mut words = words.skip_while(|word| !word.ends_with(')')).skip(1);
    let first_sector = words.next()?.parse().ok()?;
    let sectors = words.nth(1)?.parse().ok()?;
    let class = match words.next()?.split(',').next()? {
        "rt" => Class::RealTime,
        "idle" => Class::Idle,
        _ => Class::BestEffort,
    };
    Some((letter, first_sector, sectors, class))
}

/// Where tracefs is; mounts it at its usual place if it is nowhere (and leaves it there, as any tracing tool does).
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

// ---- asynchronous I/O ----

/// `struct iocb` of linux/aio_abi.h, little-endian.
#[repr(C)]
#[derive(Clone, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: u16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64, "as in linux/aio_abi.h");

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Default)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// Page-aligned memory that is present, so that no submission sleeps for it.
struct Buffers {
    bytes: Vec<u8>,
    first: usize,
}

const PAGE_BYTES: usize = 4096;
const BUFFER_BYTES: usize = IO_MOST as usize * 512;

impl Buffers {
    fn new(count: usize) -> Self {
        let bytes = vec![1; count * BUFFER_BYTES + PAGE_BYTES];
        let first = bytes.as_ptr().align_offset(PAGE_BYTES);
        // SAFETY: the range is one live allocation. A refusal only costs repeated batches.
        unsafe { libc::mlock(bytes.as_ptr().cast(), bytes.len()) };
        Self { bytes, first }
    }

    fn address(&mut self, index: usize, bytes: usize) -> u64 {
        let from = self.first + index * BUFFER_BYTES;
        self.bytes[from..from + bytes].as_mut_ptr() as u64
    }
}

struct AioContext(libc::c_ulong);

impl AioContext {
    fn new() -> Result<Self, String> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the new context's id to the live variable, which is zero as it must be.
        match unsafe { libc::syscall(libc::SYS_io_setup, 64, &raw mut context) } {
            0 => Ok(Self(context)),
            _ => Err(format!("io_setup: {}", io::Error::last_os_error())),
        }
    }

    /// Submits the batch with one call and waits until all of it has ended.
    fn run(&self, file: &File, batch: &[Bio], buffers: &mut Buffers) {
        const IOCB_CMD_PREAD: u16 = 0;
        const IOCB_CMD_PWRITE: u16 = 1;
        const IOCB_FLAG_IOPRIO: u32 = 2;
        let iocb = |(index, bio): (usize, &Bio)| Iocb {
            opcode: if bio.operation == Operation::Read { IOCB_CMD_PREAD } else { IOCB_CMD_PWRITE },
            priority: bio.priority.0,
            file: u32::try_from(file.as_raw_fd()).expect("descriptors are positive"),
            buffer: buffers.address(index, usize::try_from(bio.extent.bytes()).expect("small")),
            bytes: bio.extent.bytes(),
            offset: i64::try_from(bio.extent.first_sector * 512).expect("a small device"),
            flags: IOCB_FLAG_IOPRIO,
            ..Iocb::default()
        };
        let iocbs: Vec<Iocb> = batch.iter().enumerate().map(iocb).collect();
        let pointers: Vec<*const Iocb> = iocbs.iter().map(std::ptr::from_ref).collect();
        // SAFETY: pointers and iocbs live until the call returns, which is as long as the kernel reads them; the buffers
        // are disjoint parts of `buffers` and stay untouched until every I/O has ended, below.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.0, pointers.len(), pointers.as_ptr()) };
        let error = io::Error::last_os_error();
        let expected = libc::c_long::try_from(batch.len()).expect("small");
        let mut ended: libc::c_long = 0;
        while ended < submitted {
            let mut events = vec![IoEvent::default(); batch.len()];
            let null = std::ptr::null::<libc::timespec>();
            // SAFETY: the kernel writes at most `batch.len()` events to the live vector of that length.
            let got = unsafe {
                libc::syscall(libc::SYS_io_getevents, self.0, 1, submitted - ended, events.as_mut_ptr(), null)
            };
            assert!(got > 0, "io_getevents: {}", io::Error::last_os_error());
            ended += got;
            let got = usize::try_from(got).expect("positive");
            assert!(events.iter().take(got).all(|event| event.result > 0), "an I/O failed: {:?}", events[0].result);
        }
        assert_eq!(submitted, expected, "io_submit took a part only: {error}");
    }
}

impl Drop for AioContext {
    fn drop(&mut self) {
        // SAFETY: the context is ours and nothing is in flight: `run` waits for everything.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}
