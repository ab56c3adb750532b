//! A FUSE file system with one file that hangs when told to: requests of chosen kinds get no answer
//! until they are released. It offers nothing asynchronous, as many FUSE servers do, so that the
//! kernel waits in the caller.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

// Operations from linux/fuse.h.
pub const LOOKUP: u32 = 1;
pub const GETATTR: u32 = 3;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
pub const FSYNC: u32 = 20;
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
/// Those that get no answer.
const SILENT: [u32; 3] = [2, 36, 42];
const ASYNC_READ_AND_BIG_WRITES: u32 = 1 | 1 << 5;
const FILE: u64 = 2;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

struct Shared {
    device: OwnedFd,
    content: Mutex<Vec<u8>>,
    /// Operations that hang.
    hung: Mutex<Vec<u32>>,
    held: Mutex<Vec<Vec<u8>>>,
    must_end: AtomicBool,
}

/// The file system; it ends when this is dropped, and what hangs then fails.
pub struct HangingFile {
    shared: Arc<Shared>,
    mount: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl HangingFile {
    /// A file of this size; `None` where FUSE cannot be mounted (no root, no module).
    pub fn new(size_bytes: usize) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).ok()?;
        let mount = mount(&device).ok()?;
        let shared = Arc::new(Shared {
            device,
            content: Mutex::new(vec![0; size_bytes]),
            hung: Mutex::default(),
            held: Mutex::default(),
            must_end: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || own.serve());
        Some(Self { shared, mount: Some(mount), thread: Some(thread) })
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        let mount = self.mount.as_ref().unwrap().as_raw_fd();
        PathBuf::from(format!("/proc/{}/fd/{mount}/disk", std::process::id()))
    }

    /// Requests of these kinds get no answer from now on.
    pub fn hang(&self, operations: &[u32]) {
        self.shared.hung.lock().unwrap().extend(operations);
    }

    /// How many requests wait for an answer.
    pub fn held(&self) -> usize {
        self.shared.held.lock().unwrap().len()
    }

    /// Answers what waits, and all that comes.
    pub fn release(&self) {
        self.shared.hung.lock().unwrap().clear();
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap());
        held.iter().for_each(|message| self.shared.answer(message));
    }
}

impl Drop for HangingFile {
    fn drop(&mut self) {
        self.release();
        self.shared.must_end.store(true, Ordering::Relaxed);
        self.mount = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn mount(device: &OwnedFd) -> std::io::Result<OwnedFd> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    set("source", "hanging")?;
    set("fd", &device.as_raw_fd().to_string())?;
    set("rootmode", "40000")?;
    set("user_id", "0")?;
    set("group_id", "0")?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn u32_at(message: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(message[at..at + 4].try_into().unwrap())
}

fn u64_at(message: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(message[at..at + 8].try_into().unwrap())
}

/// Numbers one behind the other, as the protocol's structures have them.
fn words(parts: &[(u64, usize)]) -> Vec<u8> {
    parts.iter().flat_map(|(value, bytes)| value.to_ne_bytes()[..*bytes].to_vec()).collect()
}

impl Shared {
    fn serve(&self) {
        let mut buffer = vec![0; (1 << 20) + 4_096];
        while !self.must_end.load(Ordering::Relaxed) {
            let tick = Timespec::try_from(Duration::from_millis(50)).unwrap();
            let _ = poll(&mut [PollFd::new(&self.device, PollFlags::IN)], Some(&tick));
            let length = match rustix::io::read(&self.device, &mut buffer) {
                Ok(length) => length,
                Err(rustix::io::Errno::NODEV) => return,
                Err(_) => continue,
            };
            let message = &buffer[..length];
            let hung = self.hung.lock().unwrap();
            if hung.contains(&u32_at(message, 4)) {
                self.held.lock().unwrap().push(message.to_vec());
                continue;
            }
            drop(hung);
            self.answer(message);
        }
    }

    fn answer(&self, message: &[u8]) {
        let (operation, unique, node) = (u32_at(message, 4), u64_at(message, 8), u64_at(message, 16));
        if SILENT.contains(&operation) {
            return;
        }
        let offset = || usize::try_from(u64_at(message, 48)).unwrap();
        let length = || u32_at(message, 56) as usize;
        let body = match operation {
            INIT => {
                let mut body =
                    words(&[(7, 4), (31, 4), (0, 4), (ASYNC_READ_AND_BIG_WRITES.into(), 4), (64, 2), (48, 2)]);
                body.extend(words(&[(128 << 10, 4), (1, 4)]));
                body.resize(64, 0);
                Ok(body)
            }
            LOOKUP if message[40..].starts_with(b"disk\0") => {
                let mut body = words(&[(FILE, 8), (0, 8), (0, 8), (0, 8), (0, 8)]);
                body.extend(self.attributes(FILE));
                Ok(body)
            }
            LOOKUP => Err(ENOENT),
            GETATTR => Ok([words(&[(0, 8), (0, 8)]), self.attributes(node)].concat()),
            OPEN => Ok(words(&[(0, 8), (0, 8)])),
            READ => {
                let content = self.content.lock().unwrap();
                let (from, to) = (offset().min(content.len()), (offset() + length()).min(content.len()));
                Ok(content[from..to].to_vec())
            }
            WRITE => {
                let data = &message[80..80 + length()];
                let mut content = self.content.lock().unwrap();
                content[offset()..offset() + data.len()].copy_from_slice(data);
                Ok(words(&[(data.len() as u64, 8)]))
            }
            STATFS => Ok(vec![0; 80]),
            RELEASE | FSYNC | FLUSH => Ok(Vec::new()),
            _ => Err(ENOSYS),
        };
        let (error, body) = body.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let mut reply = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // The requester may be gone.
        let _ = rustix::io::write(&self.device, &reply);
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let size = self.content.lock().unwrap().len() as u64;
        let (mode, size, links) = if node == FILE { (0o100_600, size, 1) } else { (0o040_700, 0, 2) };
        let mut body = words(&[(node, 8), (size, 8), (size / 512, 8), (0, 8), (0, 8), (0, 8), (0, 4), (0, 4), (0, 4)]);
        body.extend(words(&[(mode, 4), (links, 4), (0, 4), (0, 4), (0, 4), (4_096, 4), (0, 4)]));
        body
    }
}
