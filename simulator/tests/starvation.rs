//! P7 of the classic elevators' specification: how long an overdue request can still wait under mq-deadline.
//!
//! One device slot, no merging, one priority class; every dispatch takes a millisecond, so that "waits" can be counted
//! in dispatches. Bounds with b = fifo_batch, s = writes_starved, n = older overdue requests of the same direction:
//! a read waits for the running batch, one batch of writes, and the batches that the n older ones begin (behind each s
//! of them another batch of writes); a write waits for the running batch, s batches of reads, and for each older write
//! s + 1 batches. The 6.5 form looks for overdue requests only when a batch begins, which adds one batch.

use block::random::Stream;
use block::time::MILLISECOND;
use block::{Direction, Extent, HardwareQueue, Nanos, Operation, RequestId, Status};
use elevator::{Bio, Configuration, Depth, Version};
use queue::{Era, Merging, Next, RequestQueue, Settings};

const FIFO_BATCH: u64 = 4;
const WRITES_STARVED: u64 = 2;
const EXPIRE_MS: [u64; 2] = [20, 60];

/// A queued request as the test sees it.
struct Waiting {
    id: RequestId,
    direction: Direction,
    due_ns: Nanos,
    /// Once overdue: the dispatches until then, and the older overdue ones of its direction then.
    overdue: Option<(u64, u64)>,
}

fn bound(direction: Direction, older: u64) -> u64 {
    let batches = match direction {
        Direction::Read => 2 + older + older / WRITES_STARVED,
        Direction::Write => 2 + WRITES_STARVED + older * (WRITES_STARVED + 1),
    };
    (batches + 1) * FIFO_BATCH
}

fn queue(version: Version) -> RequestQueue {
    let configuration =
        Configuration { slots: 260, depth: Depth { requests: 256, device: 1 }, ..Configuration::default() };
    let settings = Settings { configuration, era: Era::ENGINE, merging: Merging::Never, ..Settings::default() };
    let mut queue = RequestQueue::build("mq-deadline", Some(version), &settings).unwrap();
    let tunables = [
        ("fifo_batch", FIFO_BATCH),
        ("writes_starved", WRITES_STARVED),
        ("read_expire", EXPIRE_MS[0]),
        ("write_expire", EXPIRE_MS[1]),
        ("async_depth", 256),
    ];
    for (name, value) in tunables {
        queue.set(name, &value.to_string()).unwrap();
    }
    queue
}

/// Answers the longest wait seen beyond the due time, in dispatches, for reads and writes.
fn longest_waits(version: Version, seed: u64) -> [u64; 2] {
    let mut queue = queue(version);
    let mut random = Stream::new(seed);
    let (reads_percent, per_dispatch) = (random.below(101), 1 + random.below(3));
    let mut waiting: Vec<Waiting> = Vec::new();
    let (mut now, mut dispatches, mut longest) = (0, 0, [0; 2]);
    while dispatches < 20_000 {
        for _ in 0..random.below(per_dispatch + 1) {
            let direction = if random.chance(reads_percent, 100) { Direction::Read } else { Direction::Write };
            let operation = [Operation::Read, Operation::Write][direction as usize];
            let bio = Bio::new(operation, Extent::new(random.below(1 << 20) * 16, 8));
            // A submitter that has to wait for a tag waits outside: its time has not begun.
            if queue.tags().in_use() < queue.tags().depth()
                && let queue::Submitted::Queued(id) = queue.submit(&bio, 0, now).unwrap()
            {
                let due_ns = now + EXPIRE_MS[direction as usize] * MILLISECOND;
                waiting.push(Waiting { id, direction, due_ns, overdue: None });
            }
        }
        for index in 0..waiting.len() {
            if waiting[index].overdue.is_none() && waiting[index].due_ns <= now {
                let direction = waiting[index].direction;
                let older = waiting[..index].iter().filter(|other| other.direction == direction).count() as u64;
                waiting[index].overdue = Some((dispatches, older));
            }
        }
        if let Next::Start { id, .. } = queue.dispatch(HardwareQueue(0), now) {
            dispatches += 1;
            let index = waiting.iter().position(|request| request.id == id).unwrap();
            let Waiting { direction, overdue, .. } = waiting.remove(index);
            if let Some((at, older)) = overdue {
                let waited = dispatches - 1 - at;
                longest[direction as usize] = waited.max(longest[direction as usize]);
                let bound = bound(direction, older);
                assert!(
                    waited <= bound,
                    "seed {seed}: an overdue {direction:?} waited for {waited} dispatches, {bound} allowed ({older} older)"
                );
            }
            queue.complete(id, Status::Ok, now, |_| ());
        }
        now += MILLISECOND;
    }
    longest
}

fn holds(version: Version) {
    let mut longest = [0; 2];
    for seed in 0..30 {
        let waits = longest_waits(version, seed);
        longest = [longest[0].max(waits[0]), longest[1].max(waits[1])];
    }
    // Waiting did occur, beyond a single batch, in both directions.
    assert!(longest.iter().all(|waited| *waited > FIFO_BATCH), "{longest:?}");
}

#[test]
fn p7_overdue_requests_wait_no_longer_than_the_bound_in_the_newest_form() {
    holds(Version(6, 12, 0));
}

#[test]
fn p7_overdue_requests_wait_no_longer_than_the_bound_in_the_form_of_6_1() {
    holds(Version(6, 1, 0));
}
