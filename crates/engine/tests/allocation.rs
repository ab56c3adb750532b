//! In the steady state the shard's thread allocates nothing. Source:
//! docs/specifications/engine.md, section 10 (second half of test 63).
#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use hoistway_block::Priority;
use hoistway_engine::protocol::{Command, Failure};
use hoistway_engine::{
    Answer, Backing, ClientContext, ConnectionBounds, LocalClient, LocalConnection, LocalRequest, Payload,
    ShardSettings, VolumeSettings, start,
};
use hoistway_experiment::SchedulerSpec;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; the counter is a plain cell of
// the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; the call is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; the call is passed on unchanged.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: u64 = 50_000;
const MEASURED: u64 = 200_000;
const DEPTH: u64 = 64;

/// Reads and writes at random for a while, then reports how often the thread allocated meanwhile.
struct Prober {
    stream: hoistway_block::random::Stream,
    in_flight: u64,
    answered: u64,
    at_start: u64,
    result: Sender<u64>,
}

impl LocalClient for Prober {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        while self.in_flight < DEPTH && self.answered < WARM_UP + MEASURED {
            let command = if self.stream.chance(1, 3) { Command::Write } else { Command::Read };
            let offset_bytes = self.stream.below(4_096) * 4_096;
            let request = LocalRequest {
                cookie: 0,
                command,
                offset_bytes,
                length_bytes: 4_096,
                is_durable: false,
                keeps_space: false,
                actor: 0,
                is_held: false,
            };
            let connection = usize::try_from(self.stream.below(4)).unwrap_or(0);
            let mut fill = |_: u64, mut to: Payload<'_>| {
                to.put(0, &[1; 4_096]);
                Ok(())
            };
            if !context.submit(connection, request, &mut fill) {
                return;
            }
            self.in_flight += 1;
        }
    }

    fn fill(&mut self, _: usize, _: u64, _: u64, mut to: Payload<'_>) -> Result<(), Failure> {
        to.put(0, &[1; 4_096]);
        Ok(())
    }

    fn answered(&mut self, answer: Answer) {
        assert_eq!(answer.result, Ok(()));
        self.in_flight -= 1;
        self.answered += 1;
        let allocations = ALLOCATIONS.with(Cell::get);
        if self.answered == WARM_UP {
            self.at_start = allocations;
        }
        if self.answered == WARM_UP + MEASURED {
            let _ = self.result.send(allocations - self.at_start);
        }
    }
}

fn allocations(backing: &str, scheduler: &str) -> u64 {
    let volume = VolumeSettings::new("v", Backing::parse(backing).expect("a backing"));
    let settings = ShardSettings { scheduler: SchedulerSpec::named(scheduler), ..ShardSettings::default() };
    let shard = start(settings, &[volume]).expect("a shard");
    let (result, inbox) = mpsc::channel();
    let stream = hoistway_block::random::Stream::new(1);
    let prober = Prober { stream, in_flight: 0, answered: 0, at_start: 0, result };
    let bounds = ConnectionBounds::default();
    let connections = [100, 200, 300, 400].map(|weight| {
        let group = shard.add_group(&format!("g{weight}"), weight).expect("a group");
        LocalConnection { volume: shard.volumes()[0], group, bounds, priority: Priority::NONE }
    });
    shard.add_local_client(Box::new(prober), connections.to_vec()).expect("a client");
    inbox.recv_timeout(Duration::from_secs(120)).expect("a result")
}

#[test]
fn test_63_no_allocation_in_the_steady_state() {
    for scheduler in ["noop", "wfq"] {
        assert_eq!(allocations("memory:16MiB", scheduler), 0, "inline, {scheduler}");
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("disk.img");
    std::fs::File::create(&path).and_then(|file| file.set_len(16 << 20)).expect("a file");
    assert_eq!(allocations(&path.display().to_string(), "noop"), 0, "through the ring");
}
