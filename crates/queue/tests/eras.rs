//! Tests of the eras of the request queue. Source: docs/specifications/classic-elevators.md,
//! sections 1.7 to 1.11.

use hoistway_block::{ContextId, Direction, Extent, Flags, HardwareQueue, Operation, Status};
use hoistway_elevator::{Attributes, Bio};
use hoistway_queue::{Allocation, Era, Flushes, Kinds, Next, Plug, RequestQueue, Settings, Submitted};

const QUEUE: HardwareQueue = HardwareQueue(0);
const MILLISECOND: u64 = 1_000_000;

fn bio(operation: Operation, first_sector: u64, context: u32) -> Bio {
    let mut bio = Attributes::new(operation, Extent::new(first_sector, 8));
    bio.context = ContextId(context);
    bio
}

/// The n-th of many transfers that are not adjacent.
fn apart(operation: Operation, n: u64, context: u32) -> Bio {
    bio(operation, n * 1000, context)
}

/// A disk of this queue depth, under noop.
fn settings(era: Era, device: u32) -> Settings {
    let mut settings = Settings::of_era(era, device);
    settings.configuration.rotational = true;
    settings
}

fn queue(era: Era, device: u32) -> RequestQueue {
    RequestQueue::build("noop", None, &settings(era, device)).expect("noop")
}

/// A queue and the cookies of its completed bios.
struct Host {
    queue: RequestQueue,
    now: u64,
    cookies: u64,
    in_device: Vec<hoistway_block::RequestId>,
    ended: Vec<u64>,
}

impl Host {
    fn new(era: Era, device: u32) -> Self {
        Self { queue: queue(era, device), now: 0, cookies: 0, in_device: Vec::new(), ended: Vec::new() }
    }

    fn submit(&mut self, bio: &Bio) -> Submitted {
        self.cookies += 1;
        let submitted = self.queue.submit(bio, self.cookies, self.now).expect("room for bios");
        self.queue.check().expect("invariants");
        submitted
    }

    /// Dispatches until the device is full; returns the number of requests started.
    fn start_all(&mut self) -> usize {
        let before = self.in_device.len();
        while let Next::Start { id, .. } = self.queue.dispatch(QUEUE, self.now) {
            self.in_device.push(id);
        }
        self.queue.check().expect("invariants");
        self.in_device.len() - before
    }

    fn complete_oldest(&mut self) {
        let id = self.in_device.remove(0);
        let ended = &mut self.ended;
        self.queue.complete(id, Status::Ok, self.now, |done| ended.push(done.cookie));
        self.queue.check().expect("invariants");
    }

    /// Bios that belong to a request.
    fn inside(&self) -> usize {
        let requests = self.queue.requests();
        let live = (0..requests.capacity()).filter_map(|slot| requests.id_of(slot));
        live.map(|id| self.queue.bios_of(id).count()).sum()
    }

    fn sleeping(&self) -> usize {
        self.queue.bios_in_flight() as usize - self.inside()
    }
}

// ---- 1.7 (a): 2.4 ----

#[test]
fn s1_7a_sleepers_wake_one_by_one_once_a_batch_is_free_and_late_comers_take_what_they_find() {
    let mut host = Host::new(Era { head_active: false, ..Era::LINUX_2_4 }, 64);
    for n in 0..64 {
        assert!(matches!(host.submit(&apart(Operation::Write, n, 0)), Submitted::Queued(_)), "write {n}");
    }
    let (a, b, c) = (apart(Operation::Write, 100, 1), apart(Operation::Write, 101, 2), apart(Operation::Write, 102, 3));
    assert_eq!((host.submit(&a), host.submit(&b)), (Submitted::Waiting, Submitted::Waiting));
    assert!(!host.queue.is_plugged(), "who sleeps for a request unplugs");
    assert!(matches!(host.submit(&apart(Operation::Read, 200, 4)), Submitted::Queued(_)), "reads have their own list");
    host.start_all();
    for _ in 0..5 {
        host.complete_oldest();
    }
    assert_eq!(host.sleeping(), 2);
    assert!(matches!(host.submit(&c), Submitted::Queued(_)), "nothing keeps a late comer out");
    // Bio C got one of the five freed requests: 27 more make 31 free ones.
    for _ in 5..32 {
        host.complete_oldest();
    }
    assert_eq!(host.sleeping(), 2, "31 are free");
    host.complete_oldest();
    assert_eq!(host.sleeping(), 1, "32 are free: A is woken and takes one");
    host.complete_oldest();
    assert_eq!(host.sleeping(), 0, "32 are free again: B");
}

#[test]
fn s1_7a_a_woken_submitter_searches_again_and_frees_the_request_if_it_can_merge() {
    let mut host = Host::new(Era { head_active: false, ..Era::LINUX_2_4 }, 32);
    for n in 0..64 {
        host.submit(&apart(Operation::Write, n, 0));
    }
    // Both sleep, and the second is adjacent to the first.
    let (a, b) = (bio(Operation::Write, 500_000, 1), bio(Operation::Write, 500_008, 2));
    assert_eq!((host.submit(&a), host.submit(&b)), (Submitted::Waiting, Submitted::Waiting));
    host.start_all();
    for _ in 0..32 {
        host.complete_oldest();
        host.start_all();
    }
    assert_eq!(host.sleeping(), 1);
    let out = host.queue.tags().in_use();
    host.complete_oldest();
    assert_eq!((host.sleeping(), host.queue.tags().in_use()), (0, out - 1), "B joined A's request");
}

// ---- 1.7 (b): low latency ----

#[test]
fn s1_7b_above_4_mib_writes_sleep_and_a_few_reads_go() {
    let mut host = Host::new(Era { head_active: false, ..Era::LINUX_2_4_LOW_LATENCY }, 64);
    let large = |n: u64| Bio { extent: Extent::new(n * 1000, 255), ..apart(Operation::Write, n, 0) };
    // 33 times 255 sectors is the first sum above 8192.
    for n in 0..33 {
        assert!(matches!(host.submit(&large(n)), Submitted::Queued(_)), "write {n}");
    }
    assert_eq!(host.submit(&large(33)), Submitted::Waiting);
    for n in 100..105 {
        assert!(matches!(host.submit(&apart(Operation::Read, n, 1)), Submitted::Queued(_)), "read {n}");
    }
    assert_eq!(host.submit(&apart(Operation::Read, 105, 1)), Submitted::Waiting, "five reads are pending");
    host.start_all();
    while host.sleeping() == 2 {
        host.complete_oldest();
    }
    // Sleepers are woken when a quarter of the cap of 8192 sectors is free. 33 * 255 + 5 * 8
    // sectors less 9 * 255 are 6160, still above 6144.
    assert_eq!((host.ended.len(), host.sleeping()), (10, 1));
}

// ---- 1.7 (c): 2.6 ----

#[test]
fn s1_7c_the_submitter_that_fills_a_kind_gets_32_more_and_others_sleep() {
    let mut host = Host::new(Era::LINUX_2_6, 64);
    for n in 0..128 {
        assert!(matches!(host.submit(&apart(Operation::Write, n, 1)), Submitted::Queued(_)), "write {n}");
    }
    assert_eq!(host.submit(&apart(Operation::Write, 500, 2)), Submitted::Waiting, "full for others");
    assert!(matches!(host.submit(&apart(Operation::Read, 600, 2)), Submitted::Queued(_)), "reads are counted apart");
    for n in 128..160 {
        assert!(matches!(host.submit(&apart(Operation::Write, n, 1)), Submitted::Queued(_)), "write {n} of the batch");
    }
    assert_eq!(host.submit(&apart(Operation::Write, 160, 1)), Submitted::Waiting, "the batch is used up");
}

#[test]
fn s1_7c_a_batch_ends_after_20_ms() {
    let mut host = Host::new(Era::LINUX_2_6, 64);
    for n in 0..129 {
        host.submit(&apart(Operation::Write, n, 1));
    }
    host.now = 20 * MILLISECOND - 1;
    assert!(matches!(host.submit(&apart(Operation::Write, 200, 1)), Submitted::Queued(_)));
    host.now += 1;
    assert_eq!(host.submit(&apart(Operation::Write, 201, 1)), Submitted::Waiting);
}

#[test]
fn s1_7c_a_sleeper_wakes_below_the_limit_and_is_a_batcher() {
    let mut host = Host::new(Era::LINUX_2_6, 192);
    for n in 0..160 {
        host.submit(&apart(Operation::Write, n, 1));
    }
    assert_eq!(host.submit(&apart(Operation::Write, 500, 2)), Submitted::Waiting);
    host.start_all();
    for _ in 0..32 {
        host.complete_oldest();
    }
    assert_eq!(host.sleeping(), 1, "128 are out");
    host.now = 5 * MILLISECOND;
    host.complete_oldest();
    assert_eq!(host.sleeping(), 0, "127 were out");
    // The request that the context slept for is part of its batch: 31 are left, and the kind is
    // full again.
    for n in 0..31 {
        assert!(matches!(host.submit(&apart(Operation::Write, 600 + n, 2)), Submitted::Queued(_)), "{n}");
    }
    assert_eq!(host.submit(&apart(Operation::Write, 700, 2)), Submitted::Waiting);
}

#[test]
fn s1_7c_no_kind_exceeds_three_halves_of_the_limit() {
    for (is_capped, expected) in [(true, 192), (false, 224)] {
        let era = Era { allocation: Allocation::Batching { by: Kinds::Direction, is_capped }, ..Era::LINUX_2_6 };
        let mut host = Host::new(era, 256);
        // Context 1 fills the kind and uses half of its batch; contexts 2 to 4 fill it again after
        // the count fell below 128.
        for n in 0..128 {
            host.submit(&apart(Operation::Write, n, 1));
        }
        host.start_all();
        for context in 2..5 {
            host.complete_oldest();
            host.submit(&apart(Operation::Write, 1000 + u64::from(context), context));
        }
        let mut n = 2000;
        for context in 1..5 {
            for _ in 0..24 {
                host.submit(&apart(Operation::Write, n, context));
                n += 1;
            }
        }
        assert_eq!(host.queue.tags().in_use(), expected);
    }
}

#[test]
fn s1_7c_congestion_begins_at_113_of_128_and_ends_below_103() {
    let mut host = Host::new(Era::LINUX_2_6, 128);
    for n in 0..112 {
        host.submit(&apart(Operation::Write, n, 0));
    }
    assert!(!host.queue.is_congested(Direction::Write));
    host.submit(&apart(Operation::Write, 112, 0));
    assert!(host.queue.is_congested(Direction::Write) && !host.queue.is_congested(Direction::Read));
    host.start_all();
    for _ in 0..10 {
        host.complete_oldest();
    }
    assert!(host.queue.is_congested(Direction::Write), "103 are out");
    host.complete_oldest();
    assert!(!host.queue.is_congested(Direction::Write), "102 are out");
}

#[test]
fn s1_7c_since_2_6_30_sync_writes_count_with_the_reads() {
    let mut host = Host::new(Era::LINUX_3, 64);
    for n in 0..128 {
        host.submit(&apart(Operation::Write, n, 0));
    }
    let sync = |n| Bio { flags: Flags::SYNC, ..apart(Operation::Write, n, 1) };
    assert!(matches!(host.submit(&sync(200)), Submitted::Queued(_)));
    assert_eq!(host.submit(&apart(Operation::Write, 201, 1)), Submitted::Waiting);
}

// ---- 1.8: plugging ----

#[test]
fn s1_8a_in_2_4_an_unplug_starts_dispatch_and_it_goes_on_until_the_queue_is_empty() {
    let mut host = Host::new(Era::LINUX_2_4, 1);
    for n in 0..20 {
        host.submit(&apart(Operation::Read, n, 0));
    }
    host.now = 1_000_000 * MILLISECOND;
    assert_eq!((host.queue.dispatch(QUEUE, host.now), host.queue.next_timer()), (Next::Plugged, None));
    host.queue.unplug_device(host.now);
    assert!(host.queue.take_wake().is_wanted());
    for left in (0..20).rev() {
        assert_eq!(host.start_all(), 1);
        if left == 0 {
            host.submit(&apart(Operation::Read, 100, 0));
        }
        assert!(!host.queue.is_plugged(), "the request in service is on the queue: it is not empty");
        host.complete_oldest();
    }
    assert_eq!(host.start_all(), 1);
    host.complete_oldest();
    host.submit(&apart(Operation::Read, 101, 0));
    assert_eq!(host.queue.dispatch(QUEUE, host.now), Next::Plugged);
}

#[test]
fn s1_8a_a_driver_that_takes_requests_off_the_queue_leaves_it_empty() {
    let mut host = Host::new(Era { head_active: false, ..Era::LINUX_2_4 }, 8);
    host.submit(&apart(Operation::Read, 0, 0));
    host.queue.unplug_device(0);
    assert_eq!(host.start_all(), 1);
    host.submit(&apart(Operation::Read, 1, 0));
    assert!(host.queue.is_plugged());
}

#[test]
fn s1_8b_four_requests_unplug_2_6() {
    let mut host = Host::new(Era::LINUX_2_6, 31);
    for n in 0..3 {
        host.submit(&apart(Operation::Read, n, 0));
        assert_eq!(host.queue.dispatch(QUEUE, 0), Next::Plugged);
    }
    host.submit(&bio(Operation::Read, 8, 0));
    assert!(host.queue.is_plugged(), "a merged bio is not a fourth request");
    host.submit(&apart(Operation::Read, 3, 0));
    assert_eq!(host.start_all(), 4);
}

#[test]
fn s1_8b_three_milliseconds_unplug_2_6_rounded_up_to_a_tick() {
    for (tick_ns, expected) in [(0, 3), (4 * MILLISECOND, 4), (10 * MILLISECOND, 10)] {
        let mut settings = settings(Era::LINUX_2_6, 31);
        settings.configuration.tick_ns = tick_ns;
        let mut queue = RequestQueue::build("noop", None, &settings).unwrap();
        let submitted_ns = 7 * MILLISECOND;
        queue.submit(&apart(Operation::Read, 0, 0), 1, submitted_ns).unwrap();
        let at = submitted_ns + expected * MILLISECOND;
        assert_eq!(queue.next_timer(), Some(at));
        queue.timer(at - 1);
        assert_eq!(queue.dispatch(QUEUE, at - 1), Next::Plugged);
        queue.timer(at);
        assert!(matches!(queue.dispatch(QUEUE, at), Next::Start { .. }));
        assert_eq!(queue.next_timer(), None);
    }
}

#[test]
fn s1_8b_a_sync_bio_unplugs_2_6_even_if_it_merges() {
    let sync = |first_sector| Bio { flags: Flags::SYNC, ..bio(Operation::Write, first_sector, 0) };
    let mut host = Host::new(Era::LINUX_2_6, 31);
    host.submit(&sync(0));
    assert_eq!(host.start_all(), 1);
    host.complete_oldest();
    host.submit(&bio(Operation::Write, 5000, 0));
    assert!(host.queue.is_plugged());
    assert!(matches!(host.submit(&sync(5008)), Submitted::Merged(_)));
    assert_eq!(host.start_all(), 1);
}

#[test]
fn s1_8b_a_requeue_neither_plugs_nor_unplugs() {
    let mut host = Host::new(Era::LINUX_2_6, 31);
    for n in 0..4 {
        host.submit(&apart(Operation::Read, n, 0));
    }
    assert_eq!(host.start_all(), 4);
    host.submit(&apart(Operation::Read, 10, 0));
    assert!(host.queue.is_plugged());
    for _ in 0..4 {
        let id = host.in_device.remove(0);
        host.queue.requeue(id, 0);
        host.queue.check().unwrap();
        assert!(host.queue.is_plugged(), "five are queued now, and the queue was not unplugged");
    }
    host.queue.unplug_device(0);
    assert_eq!(host.start_all(), 5);
}

#[test]
fn s1_8b_a_solid_state_device_that_queues_is_not_plugged() {
    let mut queue = RequestQueue::build("noop", None, &Settings::of_era(Era::LINUX_2_6, 31)).unwrap();
    queue.submit(&apart(Operation::Read, 0, 0), 1, 0).unwrap();
    assert!(matches!(queue.dispatch(QUEUE, 0), Next::Start { .. }));
}

#[test]
fn s1_8c_a_task_plug_holds_16_requests_until_5_15_and_32_since() {
    let linux_5_15 = Era { plug_requests: 16, ..Era::BLK_MQ };
    for (era, expected) in [(Era::LINUX_3, 16), (linux_5_15, 16), (Era::BLK_MQ, 32)] {
        let mut queue = queue(era, 31);
        let mut plug = Plug::default();
        for n in 0..=expected {
            assert_eq!(queue.requests().in_use() as usize, n);
            queue.submit_plugged(&apart(Operation::Read, n as u64, 0), n as u64, &mut plug, 0).unwrap();
        }
        assert_eq!(plug.len(), 1);
    }
}

// ---- devices, case 49 ----

#[test]
fn d49_32_bios_of_4_kib_become_one_request_of_128_kib() {
    for era in [Era::LINUX_2_4, Era::LINUX_2_6, Era::LINUX_3, Era::BLK_MQ] {
        let mut queue = queue(era, 1);
        let mut plug = Plug::default();
        // 2.4 ends requests at 255 sectors.
        let bios = if era == Era::LINUX_2_4 { 31 } else { 32 };
        for n in 0..bios {
            queue.submit_plugged(&bio(Operation::Read, n * 8, 0), n, &mut plug, 0).unwrap();
            assert!(!matches!(queue.dispatch(QUEUE, 0), Next::Start { .. }), "nothing goes before the wait");
        }
        // The reader waits for its I/O, so the plug is flushed.
        queue.unplug(&mut plug, 0);
        queue.unplug_device(0);
        let Next::Start { id, .. } = queue.dispatch(QUEUE, 0) else { panic!("a request is queued") };
        assert_eq!(u64::from(queue.requests().attributes(id).extent.sectors), bios * 8);
        assert_eq!(queue.tags().in_use(), 1);
    }
}

// ---- 1.9 to 1.11: specials, barriers ----

fn flagged(flags: Flags, n: u64) -> Bio {
    Bio { flags, ..apart(Operation::Write, n, 0) }
}

/// Runs everything to completion; returns the commands of the device, by letter and sector.
fn commands(host: &mut Host) -> String {
    let mut seen = Vec::new();
    for _ in 0..1000 {
        host.queue.unplug_device(host.now);
        let before = host.in_device.len();
        host.start_all();
        for id in &host.in_device[before..] {
            let request = host.queue.requests().attributes(*id);
            let letter = if request.operation == Operation::Flush { 'F' } else { 'W' };
            seen.push(format!("{letter}{}", request.extent.first_sector));
        }
        if host.in_device.is_empty() {
            break;
        }
        host.complete_oldest();
    }
    seen.join(" ")
}

#[test]
fn s1_9_what_blk_mq_chose_without_a_tag_cannot_be_overtaken_any_more() {
    for (era, expected) in [(Era::BLK_MQ, "R90000 R91000 R300rt"), (Era::ENGINE, "R90000 R300rt R91000")] {
        let mut testbed = hoistway_testbed::Testbed::with("mq-deadline@6.1", &settings(era, 1));
        testbed.when("R90000 d R91000 d R300rt rest");
        testbed.then(expected);
    }
}

#[test]
fn s1_11_a_barrier_of_2_6_waits_for_all_before_it_and_lets_none_past() {
    let mut host = Host::new(Era::LINUX_2_6, 8);
    for bio in [apart(Operation::Write, 1, 0), apart(Operation::Write, 2, 0)] {
        host.submit(&bio);
    }
    host.submit(&flagged(Flags::BARRIER, 3));
    host.submit(&apart(Operation::Write, 4, 0));
    assert!(!host.queue.is_plugged(), "a tail insert runs the queue");
    assert_eq!(host.start_all(), 2, "what came before goes");
    assert_eq!(host.queue.dispatch(QUEUE, 0), Next::Throttled);
    host.complete_oldest();
    assert_eq!(host.start_all(), 0, "one is still in the device");
    assert_eq!(commands(&mut host), "F0 W3000 F0 W4000");
    assert_eq!(host.ended, [1, 2, 3, 4]);
}

#[test]
fn s1_11_a_barrier_needs_no_flush_without_a_volatile_cache() {
    let mut settings = settings(Era::LINUX_2_6, 8);
    settings.limits.volatile_cache = false;
    let mut host = Host::new(Era::LINUX_2_6, 8);
    host.queue = RequestQueue::build("noop", None, &settings).unwrap();
    host.submit(&apart(Operation::Write, 1, 0));
    host.submit(&flagged(Flags::BARRIER, 2));
    host.submit(&flagged(Flags::BARRIER, 3));
    assert_eq!(host.start_all(), 1);
    assert_eq!(host.queue.dispatch(QUEUE, 0), Next::Throttled);
    host.complete_oldest();
    assert_eq!(host.start_all(), 1, "one barrier at a time");
    assert_eq!(commands(&mut host), "W3000");
}

#[test]
fn s1_11_a_flush_of_2_6_is_an_empty_barrier() {
    let mut host = Host::new(Era::LINUX_2_6, 8);
    host.submit(&apart(Operation::Write, 1, 0));
    host.submit(&Attributes::new(Operation::Flush, Extent::new(0, 0)));
    host.submit(&apart(Operation::Write, 2, 0));
    assert_eq!(commands(&mut host), "W1000 F0 W2000");
    assert_eq!(host.ended, [1, 2, 3]);
}

#[test]
fn s1_11_a_failed_flush_ends_the_barrier_and_the_queue_goes_on() {
    let mut host = Host::new(Era::LINUX_2_6, 8);
    host.submit(&flagged(Flags::BARRIER, 1));
    host.submit(&apart(Operation::Write, 2, 0));
    assert_eq!(host.start_all(), 1);
    let flush = host.in_device.remove(0);
    let mut ended = Vec::new();
    host.queue.complete(flush, Status::IoError, 0, |done| ended.push((done.cookie, done.status)));
    assert_eq!(ended, [(1, Status::IoError)]);
    assert_eq!(commands(&mut host), "W2000");
}

#[test]
fn s1_11_without_a_flush_concept_a_flush_is_done_at_once() {
    let mut host = Host::new(Era::LINUX_2_4, 1);
    assert_eq!(host.submit(&Attributes::new(Operation::Flush, Extent::new(0, 0))), Submitted::Nothing);
    host.submit(&flagged(Flags::FUA, 1));
    assert_eq!(commands(&mut host), "W1000");
}

#[test]
fn s1_10_a_special_of_2_6_goes_behind_the_drained_policy_and_before_what_comes_later() {
    for (era, expected) in [(Era::LINUX_3, "R1 P0 R5"), (Era::BLK_MQ, "P0 R1 R5"), (Era::LINUX_2_4, "R1 R5 P0")] {
        // A policy that sorts has no list for the command, so it is drained in 2.4 as well.
        let mut testbed = hoistway_testbed::Testbed::with("mq-deadline", &settings(era, 1));
        testbed.given(if era == Era::LINUX_2_4 { "R5 R1 P0" } else { "R1 P0 R5" });
        testbed.when("rest");
        testbed.then(expected);
    }
}

// ---- random calls ----

#[test]
fn random_calls_lose_nothing_in_any_era_under_any_policy() {
    let mixed = Era { plug_requests: 16, flushes: Flushes::Barriers, ..Era::BLK_MQ };
    let eras = [Era::LINUX_2_4, Era::LINUX_2_4_LOW_LATENCY, Era::LINUX_2_6, Era::LINUX_3, mixed];
    let run = |index: usize, era: Era| {
        for (number, policy) in hoistway_testbed::Testbed::policies().iter().enumerate() {
            // In the last row the table is too small for both kinds, so that one kind can take all
            // requests and the other has to wait.
            for (device, requests, missing) in [(1, 8, 0), (8, 3, 0), (31, 128, 0), (4, 12, 14)] {
                let mut settings = settings(era, device);
                settings.configuration.depth.requests = requests;
                settings.configuration.slots = era.slots(requests, 1).saturating_sub(missing).max(8);
                settings.configuration.groups = 16;
                let seed = (number * 100 + index * 10) as u64 + u64::from(requests);
                let mut testbed = hoistway_testbed::Testbed::with(policy, &settings);
                testbed.drive(&hoistway_testbed::Calls::random(seed, 250));
            }
        }
    };
    std::thread::scope(|scope| {
        eras.into_iter().enumerate().for_each(|(index, era)| _ = scope.spawn(move || run(index, era)));
    });
}

// ---- limits ----

#[test]
fn an_era_brings_its_limits() {
    let limits = |era: Era| (era.max_sectors, era.usual_requests(32));
    assert_eq!(limits(Era::LINUX_2_4), (255, 128));
    assert_eq!(limits(Era::LINUX_2_6), (1024, 128));
    assert_eq!(limits(Era::LINUX_3), (1024, 128));
    assert_eq!(limits(Era::BLK_MQ), (2560, 64));
    assert_eq!(Settings::of_era(Era::LINUX_2_4, 1).limits.max_sectors, 255);
}
