//! Property P7 of the specification: how often, or how long, each policy lets a request wait for
//! others. Source: docs/specifications/classic-elevators.md, section 12.
//!
//! linus and read-latency2: at most latency / 16 later requests pass a request (`read_latency` or
//! `write_latency`). nas: no later request of the same direction passes an overdue request.
//! deadline and mq-deadline: an overdue request waits for a limited number of dispatches, as
//! follows.
//!
//! The tests use one device slot, no merging and one priority class. Every dispatch takes a
//! millisecond, so that waits can be counted in dispatches. Bounds with b = fifo_batch, s =
//! writes_starved, n = older overdue requests of the same direction: a read waits for the running
//! batch, one batch of writes, and the batches that the n older ones begin (after every s of them
//! another batch of writes); a write waits for the running batch, s batches of reads, and for each
//! older write s + 1 batches. Every version is given one batch more, which the specification allows
//! the 6.5 version: there a batch survives idle times and goes on when requests arrive.

use hoistway_block::random::Stream;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Class, Direction, Extent, HardwareQueue, Nanos, Operation, Priority, RequestId, Status};
use hoistway_elevator::{Bio, Configuration, Depth, Version};
use hoistway_queue::{Era, Merging, Next, RequestQueue, Settings};

const FIFO_BATCH: u64 = 4;
const WRITES_STARVED: u64 = 2;
const EXPIRE_MS: [u64; 2] = [20, 60];

/// The tunables of deadline, and in the last place one that only mq-deadline has.
const DEADLINES: [(&str, u64); 5] = [
    ("fifo_batch", FIFO_BATCH),
    ("writes_starved", WRITES_STARVED),
    ("read_expire", EXPIRE_MS[0]),
    ("write_expire", EXPIRE_MS[1]),
    ("async_depth", 256),
];

/// A queued request as the test tracks it.
struct Waiting {
    id: RequestId,
    direction: Direction,
    due_ns: Nanos,
    /// Once overdue: the dispatches until then, and the older overdue requests of its direction
    /// then.
    overdue: Option<(u64, u64)>,
}

fn bound(direction: Direction, older: u64) -> u64 {
    let batches = match direction {
        Direction::Read => 2 + older + older / WRITES_STARVED,
        Direction::Write => 2 + WRITES_STARVED + older * (WRITES_STARVED + 1),
    };
    (batches + 1) * FIFO_BATCH
}

fn queue(policy: &str, version: Option<Version>, tunables: &[(&str, u64)]) -> RequestQueue {
    queue_of_depth(1, policy, version, tunables)
}

fn queue_of_depth(device: u32, policy: &str, version: Option<Version>, tunables: &[(&str, u64)]) -> RequestQueue {
    let configuration =
        Configuration { slots: 260, depth: Depth { requests: 256, device }, ..Configuration::default() };
    let settings = Settings { configuration, era: Era::ENGINE, merging: Merging::Never, ..Settings::default() };
    let mut queue = RequestQueue::build(policy, version, &settings).unwrap();
    for (name, value) in tunables {
        queue.set(name, &value.to_string()).unwrap();
    }
    queue
}

/// Returns the longest wait beyond the due time, in dispatches, for reads and writes.
fn longest_waits(policy: &str, version: Option<Version>, seed: u64) -> [u64; 2] {
    let mut queue = queue(policy, version, &DEADLINES[..if policy == "mq-deadline" { 5 } else { 4 }]);
    let mut random = Stream::new(seed);
    let (reads_percent, per_dispatch) = (random.below(101), 1 + random.below(3));
    let mut waiting: Vec<Waiting> = Vec::new();
    let (mut now, mut dispatches, mut longest) = (0, 0, [0; 2]);
    while dispatches < 20_000 {
        for _ in 0..random.below(per_dispatch + 1) {
            let direction = if random.chance(reads_percent, 100) { Direction::Read } else { Direction::Write };
            let operation = [Operation::Read, Operation::Write][direction as usize];
            let bio = Bio::new(operation, Extent::new(random.below(1 << 20) * 16, 8));
            // A submitter that waits for a tag has not reached the policy, so its request has no
            // due time yet.
            if queue.tags().in_use() < queue.tags().depth()
                && let hoistway_queue::Submitted::Queued(id) = queue.submit(&bio, 0, now).unwrap()
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

fn holds(policy: &str, version: Option<Version>) {
    let mut longest = [0; 2];
    for seed in 0..30 {
        let waits = longest_waits(policy, version, seed);
        longest = [longest[0].max(waits[0]), longest[1].max(waits[1])];
    }
    // Waits beyond a single batch occurred in both directions.
    assert!(longest.iter().all(|waited| *waited > FIFO_BATCH), "{longest:?}");
}

#[test]
fn p7_overdue_requests_wait_no_longer_than_the_bound_in_the_newest_form() {
    holds("mq-deadline", Some(Version(6, 12, 0)));
}

#[test]
fn p7_overdue_requests_wait_no_longer_than_the_bound_in_the_form_of_6_1() {
    holds("mq-deadline", Some(Version(6, 1, 0)));
}

#[test]
fn p7_deadline_keeps_the_same_bound_in_both_forms() {
    holds("deadline", None);
    holds("deadline", Some(Version(2, 6, 0)));
}

/// Submits a read or write of a class, at a sector; returns its id.
fn submit(queue: &mut RequestQueue, operation: Operation, class: Class, first_sector: u64, now: Nanos) -> RequestId {
    let mut bio = Bio::new(operation, Extent::new(first_sector, 8));
    bio.priority = Priority::new(class, 4);
    match queue.submit(&bio, 0, now).unwrap() {
        hoistway_queue::Submitted::Queued(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Dispatches and completes the next request, if there is one.
fn serve(queue: &mut RequestQueue, now: Nanos) -> Option<RequestId> {
    let Next::Start { id, .. } = queue.dispatch(HardwareQueue(0), now) else { return None };
    queue.complete(id, Status::Ok, now, |_| ());
    Some(id)
}

fn mq_deadline(version: Version, tunables: &[(&str, u64)]) -> RequestQueue {
    queue_of_depth(32, "mq-deadline", Some(version), tunables)
}

/// Why the simulator's invariant for mq-deadline restarts its count whenever the policy examines a
/// lower class and finds its request too young. If only one class has requests, at most two batches
/// of writes pass a read, which is 8 writes here. But all classes share one batch. Here each choice
/// first examines the best-effort write, begins a batch of writes for it and finds it too young;
/// the real-time class then continues that new batch, so its read waits as long as it has writes.
/// The kernel's code has the same order: it checks the age after it has changed the batch.
#[test]
fn a_young_request_of_a_lower_class_suspends_the_bound_of_a_higher_class() {
    let passed = |has_young_write: bool| {
        let mut queue = mq_deadline(Version(6, 12, 0), &[("fifo_batch", 4), ("writes_starved", 2)]);
        let (read, write) = (Operation::Read, Operation::Write);
        // The last dispatched write of the class is at a higher sector than the young one below.
        // That one therefore continues no batch: each time it is examined, a batch begins.
        submit(&mut queue, write, Class::BestEffort, 1 << 20, 0);
        assert!(serve(&mut queue, 0).is_some());
        if has_young_write {
            submit(&mut queue, write, Class::BestEffort, 0, 0);
        }
        let waiting = submit(&mut queue, read, Class::RealTime, 0, 0);
        let mut passed = 0;
        for step in 1..=2_000 {
            submit(&mut queue, write, Class::RealTime, step * 64, step * MILLISECOND);
            if serve(&mut queue, step * MILLISECOND) == Some(waiting) {
                break;
            }
            passed += 1;
        }
        passed
    };
    assert!(passed(false) <= 2 * FIFO_BATCH, "{}", passed(false));
    assert_eq!(passed(true), 2_000, "the best-effort write ages after ten seconds only");
}

/// Found by storms of mq-deadline below io.cost (seed 698) and io.latency (seed 688), when the
/// invariant still counted whenever the queued requests had a single class. While a request of a
/// higher class is in the device, mq-deadline dispatches only aged requests of a lower class. When
/// it examines reads that are too young, it changes the shared batch to writes, and aged writes are
/// dispatched; so the reads may wait longer than the bound.
#[test]
fn aged_writes_pass_young_reads_while_a_higher_class_is_in_the_device() {
    for version in [Version(6, 1, 0), Version(6, 12, 0)] {
        let mut queue = mq_deadline(version, &[("fifo_batch", 1), ("writes_starved", 2)]);
        let (read, write) = (Operation::Read, Operation::Write);
        // The last dispatched read of the class is at a higher sector than the young ones below.
        // Those therefore continue no batch: each time one of them is examined, a batch begins.
        submit(&mut queue, read, Class::BestEffort, 1 << 20, 0);
        assert!(serve(&mut queue, 0).is_some());
        let higher = submit(&mut queue, read, Class::RealTime, 0, 0);
        assert!(matches!(queue.dispatch(HardwareQueue(0), 0), Next::Start { id, .. } if id == higher));
        let writes: Vec<_> = (0..6).map(|at| submit(&mut queue, write, Class::BestEffort, at * 64, 0)).collect();
        let aged_ns = 10_000 * MILLISECOND;
        let reads: Vec<_> = (0..6).map(|at| submit(&mut queue, read, Class::BestEffort, at * 64, aged_ns)).collect();
        let served: Vec<_> = (0..60).filter_map(|_| serve(&mut queue, aged_ns)).collect();
        assert_eq!(served, writes, "{version:?}: all that have aged, and no others");
        // Without a request of a higher class, the reads are dispatched as a normal batch.
        queue.complete(higher, Status::Ok, aged_ns, |_| ());
        let served: Vec<_> = (0..60).filter_map(|_| serve(&mut queue, aged_ns)).collect();
        assert_eq!(served, reads, "{version:?}");
    }
}

/// A queued request in [`passed_over`]: how many later requests were dispatched before it, in all
/// and of those that arrived when it was overdue.
struct Passed {
    id: RequestId,
    direction: Direction,
    due_ns: Nanos,
    later: u64,
    later_overdue: u64,
}

/// Returns two maxima over all requests, each by direction: the number of later requests that were
/// dispatched before a request, and how many of these had its direction and arrived when it was
/// already overdue.
fn passed_over(policy: &str, tunables: &[(&str, u64)], expire_ms: u64, seed: u64) -> ([u64; 2], [u64; 2]) {
    let mut queue = queue(policy, None, tunables);
    let mut random = Stream::new(seed);
    let (reads_percent, per_dispatch) = (random.below(101), 1 + random.below(3));
    let mut waiting: Vec<Passed> = Vec::new();
    let (mut now, mut most, mut most_overdue) = (0, [0; 2], [0; 2]);
    for _ in 0..20_000 {
        for _ in 0..random.below(per_dispatch + 1) {
            let direction = if random.chance(reads_percent, 100) { Direction::Read } else { Direction::Write };
            let operation = [Operation::Read, Operation::Write][direction as usize];
            let bio = Bio::new(operation, Extent::new(random.below(1 << 20) * 16, 8));
            if queue.tags().in_use() < queue.tags().depth()
                && let hoistway_queue::Submitted::Queued(id) = queue.submit(&bio, 0, now).unwrap()
            {
                let due_ns = now + expire_ms * MILLISECOND;
                waiting.push(Passed { id, direction, due_ns, later: 0, later_overdue: 0 });
            }
        }
        if let Next::Start { id, .. } = queue.dispatch(HardwareQueue(0), now) {
            let index = waiting.iter().position(|request| request.id == id).unwrap();
            let started = waiting.remove(index);
            let submitted_ns = started.due_ns - expire_ms * MILLISECOND;
            for older in &mut waiting[..index] {
                older.later += 1;
                let came_late = submitted_ns > older.due_ns && started.direction == older.direction;
                older.later_overdue += u64::from(came_late);
            }
            let at = started.direction as usize;
            most[at] = most[at].max(started.later);
            most_overdue[at] = most_overdue[at].max(started.later_overdue);
            queue.complete(id, Status::Ok, now, |_| ());
        }
        now += MILLISECOND;
    }
    (most, most_overdue)
}

fn most_of(policy: &str, tunables: &[(&str, u64)], expire_ms: u64) -> ([u64; 2], [u64; 2]) {
    (0..20)
        .map(|seed| passed_over(policy, tunables, expire_ms, seed))
        .fold(([0; 2], [0; 2]), |(a, b), (c, d)| ([a[0].max(c[0]), a[1].max(c[1])], [b[0].max(d[0]), b[1].max(d[1])]))
}

#[test]
fn p7_linus_passes_a_request_over_as_often_as_its_budget_allows() {
    for policy in ["linus", "read-latency2"] {
        let ([reads, writes], _) = most_of(policy, &[("read_latency", 320), ("write_latency", 640)], 0);
        assert!(reads <= 20 && writes <= 40, "{policy}: {reads} and {writes}");
        assert!(reads > 10 && writes > 20, "{policy}: too few to test the bound: {reads} and {writes}");
    }
}

#[test]
fn p7_nas_lets_no_request_of_the_direction_pass_an_overdue_one() {
    let (most, overdue) = most_of("nas", &[("expire_ms", 100)], 100);
    assert!(most[0] > 10 && most[1] > 10, "requests do overtake: {most:?}");
    assert_eq!(overdue, [0, 0]);
}
