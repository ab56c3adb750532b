//! The limiters' stage of the queue: which bios are held, how they go on after their release, and
//! what may happen meanwhile. The limiter is throttle; its own arithmetic is tested in its module.

use hoistway_block::{Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, RequestId, Status};
use hoistway_elevator::limiters::LimiterError;
use hoistway_elevator::tunable::SettingError;
use hoistway_elevator::{Attributes, Bio, Configuration, Depth, GroupSettings, GroupState, IoLimits, Rates, registry};
use hoistway_queue::{Era, Handover, Limits, Next, Plug, RequestQueue, Settings, Submitted};

const QUEUE: HardwareQueue = HardwareQueue(0);
const MS: Nanos = 1_000_000;
const T0: Nanos = 1_000 * MS;
const GROUP: GroupId = GroupId(1);

/// A queue with a throttle (slices of 100 ms), a group, and the requests and bios that were
/// observed.
struct Bench {
    queue: RequestQueue,
    configuration: Configuration,
    now: Nanos,
    cookie: u64,
    /// Started requests: time in ms, operation, first sector, sectors, group.
    started: Vec<(u64, Operation, u64, u32, u32)>,
    in_device: Vec<RequestId>,
    /// Cookies of completed bios, in order.
    ended: Vec<u64>,
}

impl Bench {
    fn new(ios_per_s: u32) -> Self {
        let bench = Self::unlimited(Era::ENGINE);
        bench.with_throttle(ios_per_s)
    }

    fn unlimited(era: Era) -> Self {
        let depth = Depth { requests: 32, device: 32 };
        let configuration =
            Configuration { slots: era.slots(32, 1), groups: 8, contexts: 8, depth, ..Configuration::default() };
        let limits = Limits { volatile_cache: true, ..Limits::default() };
        let settings = Settings { configuration, era, limits, ..Settings::default() };
        let mut queue = RequestQueue::build("noop", None, &settings).expect("noop");
        assert!(queue.add_group(GROUP, &GroupSettings::with_weight(100), T0));
        Self { queue, configuration, now: T0, cookie: 0, started: Vec::new(), in_device: Vec::new(), ended: Vec::new() }
    }

    fn with_throttle(mut self, ios_per_s: u32) -> Self {
        self.queue.add_limiter("throttle", self.now).expect("throttle");
        self.queue.set_limiter("throttle", "throttle_sample_time", "100", self.now).expect("a sample time");
        self.queue.set_limits(GROUP, &ios(ios_per_s), self.now);
        self
    }

    fn submit(&mut self, operation: Operation, first_sector: u64) -> Submitted {
        let extent = if operation == Operation::Flush { Extent::new(0, 0) } else { Extent::new(first_sector, 8) };
        self.submit_bio(Bio { group: GROUP, ..Attributes::new(operation, extent) })
    }

    fn submit_bio(&mut self, bio: Bio) -> Submitted {
        self.cookie += 1;
        let submitted = self.queue.submit(&bio, self.cookie, self.now).expect("room");
        self.queue.check().expect("invariants");
        submitted
    }

    fn read(&mut self, first_sector: u64) -> Submitted {
        self.submit(Operation::Read, first_sector)
    }

    /// Dispatches until the device is full.
    fn start_all(&mut self) {
        while let Next::Start { id, .. } = self.queue.dispatch(QUEUE, self.now) {
            let request = self.queue.requests().attributes(id);
            let Extent { first_sector, sectors } = request.extent;
            self.started.push(((self.now - T0) / MS, request.operation, first_sector, sectors, request.group.0));
            self.in_device.push(id);
        }
        self.queue.check().expect("invariants");
    }

    fn complete_all(&mut self) {
        for id in std::mem::take(&mut self.in_device) {
            self.queue.complete(id, Status::Ok, self.now, |done| self.ended.push(done.cookie));
            self.queue.check().expect("invariants");
        }
    }

    /// Advances the time; the device completes at once.
    fn until(&mut self, ms: u64) {
        let end = T0 + ms * MS;
        loop {
            self.start_all();
            if !self.in_device.is_empty() {
                self.complete_all();
                continue;
            }
            let Some(at) = self.queue.next_timer().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            self.queue.timer(self.now);
            self.queue.check().expect("invariants");
        }
        self.now = end;
    }

    fn times(&self) -> Vec<u64> {
        self.started.iter().map(|(at, ..)| *at).collect()
    }

    fn sectors(&self) -> Vec<u64> {
        self.started.iter().map(|(_, _, sector, ..)| *sector).collect()
    }
}

/// A limit of `per_s` reads and as many writes per second.
fn ios(per_s: u32) -> IoLimits {
    IoLimits { max: Rates { ios_per_s: [per_s; 2], ..Rates::UNLIMITED }, ..IoLimits::NONE }
}

#[test]
fn what_is_held_goes_on_in_its_order_and_time() {
    let mut bench = Bench::new(10);
    assert!(matches!(bench.read(1_000), Submitted::Queued(_)));
    assert_eq!([bench.read(900), bench.read(800), bench.read(700)], [Submitted::Held; 3]);
    assert_eq!((bench.queue.held_by_limiters(), bench.queue.bios_in_flight()), (3, 4));
    assert_eq!(bench.queue.next_timer(), Some(T0 + 100 * MS));
    bench.until(1_000);
    assert_eq!(bench.sectors(), [1_000, 900, 800, 700]);
    assert_eq!(bench.times(), [0, 100, 200, 300]);
    assert_eq!(bench.ended, [1, 2, 3, 4]);
    assert_eq!((bench.queue.held_by_limiters(), bench.queue.bios_in_flight()), (0, 0));
}

#[test]
fn other_groups_pass() {
    let mut bench = Bench::new(10);
    bench.read(0);
    assert_eq!(bench.read(100), Submitted::Held);
    let of_root = Attributes::new(Operation::Read, Extent::new(200, 8));
    assert!(matches!(bench.submit_bio(of_root), Submitted::Queued(_)));
}

#[test]
fn released_bios_find_merge_candidates() {
    let mut bench = Bench::new(20);
    // Two per slice: the second pair is released together, and its bios are adjacent.
    for sector in [0, 1_000, 2_000, 2_008] {
        bench.read(sector);
    }
    bench.until(100);
    let last = bench.started.last().expect("started");
    assert_eq!((bench.started.len(), last.2, last.3), (3, 2_000, 16));
    assert_eq!(bench.ended, [1, 2, 3, 4]);
    // A released bio also merges into a queued request.
    let mut bench = Bench::new(20);
    for sector in [0, 1_000, 2_008] {
        bench.read(sector);
    }
    bench.start_all();
    bench.submit_bio(Bio { group: GroupId::ROOT, ..Attributes::new(Operation::Read, Extent::new(2_000, 8)) });
    bench.until(100);
    assert_eq!(bench.started.len(), 4, "bios of different groups share no request");
}

#[test]
fn flushes_and_forced_writes_are_held_and_then_done_in_full() {
    let mut bench = Bench::new(10);
    bench.submit(Operation::Write, 0);
    assert_eq!(bench.submit(Operation::Flush, 0), Submitted::Held);
    let forced = Bio {
        group: GROUP,
        flags: Flags::FUA.with(Flags::PREFLUSH),
        ..Attributes::new(Operation::Write, Extent::new(500, 8))
    };
    assert_eq!(bench.submit_bio(forced), Submitted::Held);
    bench.until(1_000);
    let operations: Vec<_> = bench.started.iter().map(|(at, operation, ..)| (*at, *operation)).collect();
    let (write, flush) = (Operation::Write, Operation::Flush);
    // No FUA in this device: flush, write, flush.
    assert_eq!(operations, [(0, write), (100, flush), (200, flush), (200, write), (200, flush)]);
    assert_eq!(bench.ended, [1, 2, 3]);
}

#[test]
fn a_group_that_goes_stays_known_until_its_held_bios_have_ended() {
    let mut bench = Bench::new(10);
    for sector in [0, 100, 200] {
        bench.read(sector);
    }
    bench.start_all();
    bench.complete_all();
    assert!(bench.queue.remove_group(GROUP, bench.now));
    assert_eq!(bench.queue.groups().state(GROUP), GroupState::Offline);
    let again = GroupSettings::with_weight(100);
    assert!(!bench.queue.add_group(GROUP, &again, bench.now), "the id is in use");
    bench.until(100);
    assert_eq!(bench.queue.groups().state(GROUP), GroupState::Offline);
    bench.until(200);
    assert_eq!(bench.times(), [0, 100, 200], "its limits go on to bind what it left");
    let groups: Vec<_> = bench.started.iter().map(|(.., group)| *group).collect();
    assert_eq!(groups, [1, 0, 0], "what enters later counts for the group above");
    assert_eq!(bench.queue.groups().state(GROUP), GroupState::Absent);
    assert!(bench.queue.add_group(GROUP, &again, bench.now));
    assert_eq!(*bench.queue.limits_of(GROUP), IoLimits::NONE, "a new group of an old id has no limits");
}

#[test]
fn the_policy_may_change_while_bios_are_held() {
    for handover in [Handover::Drain, Handover::Carry] {
        for is_busy in [false, true] {
            let mut bench = Bench::new(10);
            for sector in [0, 100, 200] {
                bench.read(sector);
            }
            bench.start_all();
            if !is_busy {
                bench.complete_all();
            }
            let next = registry::build("mq-deadline", None, &bench.configuration).expect("mq-deadline");
            bench.queue.switch(next, handover, bench.now).expect("no other switch");
            assert_eq!(bench.queue.is_switching(), is_busy, "a switch does not wait for held bios");
            if is_busy {
                // The bio is released during the switch and waits outside the policy.
                bench.now = T0 + 100 * MS;
                bench.queue.timer(bench.now);
                bench.queue.check().expect("invariants");
                assert_eq!((bench.queue.held_by_limiters(), bench.queue.dispatch(QUEUE, bench.now)), (1, Next::Empty));
                bench.complete_all();
            }
            bench.until(1_000);
            assert_eq!((bench.sectors(), bench.times()), (vec![0, 100, 200], vec![0, 100, 200]), "{handover:?}");
            assert_eq!(bench.queue.elevator().name(), "mq-deadline");
        }
    }
}

#[test]
fn removing_a_limiter_releases_all_bios_at_once() {
    let mut bench = Bench::new(10);
    for child in 2..6 {
        let settings = GroupSettings { parent: GroupId(child - 1), ..GroupSettings::with_weight(100) };
        assert!(bench.queue.add_group(GroupId(child), &settings, T0));
    }
    for n in 0..200_u64 {
        let group = GroupId(1 + u32::try_from(n % 5).unwrap());
        bench.submit_bio(Bio { group, ..Attributes::new(Operation::Read, Extent::new(n * 100, 8)) });
    }
    assert_eq!(bench.queue.held_by_limiters(), 199);
    // Several bios are held at different levels of the hierarchy.
    bench.until(350);
    assert!(bench.queue.remove_limiter("throttle", bench.now));
    bench.queue.check().expect("invariants");
    assert_eq!((bench.queue.held_by_limiters(), bench.queue.limiters().count()), (0, 0));
    assert!(!bench.queue.remove_limiter("throttle", bench.now), "it is gone");
    bench.until(350);
    let mut ended = bench.ended.clone();
    ended.sort_unstable();
    assert_eq!((ended, bench.queue.bios_in_flight()), ((1..=200).collect(), 0));
    assert!((1..6).rev().all(|group| bench.queue.remove_group(GroupId(group), bench.now)), "nothing holds a group");
    assert!((1..6).all(|group| bench.queue.groups().state(GroupId(group)) == GroupState::Absent));
}

#[test]
fn a_limiter_added_late_gets_the_earlier_settings() {
    let mut bench = Bench::unlimited(Era::ENGINE);
    bench.queue.set_limits(GROUP, &ios(10), T0);
    let below = GroupSettings { parent: GROUP, ..GroupSettings::with_weight(100) };
    assert!(bench.queue.add_group(GroupId(2), &below, T0));
    let of_child = |sector| Bio { group: GroupId(2), ..Attributes::new(Operation::Read, Extent::new(sector, 8)) };
    // The limiter ignores a bio from before it was added, also when that completes.
    bench.submit_bio(of_child(5_000));
    bench.queue.add_limiter("throttle", T0).expect("throttle");
    bench.queue.set_limiter("throttle", "throttle_sample_time", "100", T0).expect("a sample time");
    assert!(matches!(bench.submit_bio(of_child(0)), Submitted::Queued(_)));
    assert_eq!(bench.submit_bio(of_child(100)), Submitted::Held, "the limit above binds");
    bench.until(1_000);
    assert_eq!(bench.times(), [0, 0, 100]);
}

#[test]
fn limits_of_the_root_bind_without_a_hierarchy_only() {
    let mut bench = Bench::unlimited(Era::ENGINE);
    bench.queue.set_limits(GroupId::ROOT, &ios(10), T0);
    bench.queue.add_limiter("throttle", T0).expect("throttle");
    bench.queue.set_limiter("throttle", "throttle_sample_time", "100", T0).expect("a sample time");
    let read = |sector| Attributes::new(Operation::Read, Extent::new(sector, 8));
    assert!((0..5).all(|n| matches!(bench.submit_bio(read(n * 100)), Submitted::Queued(_))), "cgroup v2");
    bench.queue.set_limiter("throttle", "hierarchy", "0", T0).expect("a switch");
    assert_eq!((5..8).filter(|n| bench.submit_bio(read(n * 100)) == Submitted::Held).count(), 2, "v1");
    bench.until(1_000);
    assert_eq!(bench.ended.len(), 8);
}

#[test]
fn a_change_of_the_hierarchy_loses_nothing() {
    let mut bench = Bench::new(10);
    let below = GroupSettings { parent: GROUP, ..GroupSettings::with_weight(100) };
    assert!(bench.queue.add_group(GroupId(2), &below, T0));
    bench.queue.set_limits(GroupId(2), &ios(20), T0);
    for n in 0..40 {
        let group = GroupId(1 + (n % 2));
        let extent = Extent::new(u64::from(n) * 100, 8);
        bench.submit_bio(Bio { group, ..Attributes::new(Operation::Read, extent) });
    }
    bench.until(250);
    for (value, ms) in [("0", 250), ("1", 300), ("0", 350)] {
        bench.queue.set_limiter("throttle", "hierarchy", value, bench.now).expect("a switch");
        bench.queue.check().expect("invariants");
        for sector in 0..6 {
            let group = GroupId(1 + (sector % 2));
            bench.submit_bio(Bio { group, ..Attributes::new(Operation::Read, Extent::new(u64::from(sector) * 64, 8)) });
        }
        bench.until(ms + 30);
    }
    bench.until(20_000);
    assert_eq!((bench.queue.bios_in_flight(), bench.ended.len()), (0, 58));
}

#[test]
fn limits_change_while_bios_wait() {
    let mut bench = Bench::new(10);
    for sector in 0..50 {
        bench.read(sector * 100);
    }
    bench.until(50);
    assert_eq!(bench.started.len(), 1);
    bench.queue.set_limits(GROUP, &ios(1_000), bench.now);
    assert_eq!(*bench.queue.limits_of(GROUP), ios(1_000));
    bench.until(52);
    assert_eq!(bench.started.len(), 50, "a slice of the new limit is more than what waits");
    // No limits at all, and a group that does not exist.
    bench.queue.set_limits(GROUP, &IoLimits::NONE, bench.now);
    assert!((0..20).all(|sector| bench.read(sector * 100) != Submitted::Held));
    bench.queue.set_limits(GroupId(7), &ios(1), bench.now);
    assert_eq!(*bench.queue.limits_of(GroupId(7)), IoLimits::NONE);
    bench.until(60);
    assert_eq!(bench.queue.bios_in_flight(), 0);
}

#[test]
fn a_submitters_plug_stays_its_own() {
    let mut bench = Bench::new(20);
    let mut plug = Plug::default();
    let read = |sector| Bio { group: GROUP, ..Attributes::new(Operation::Read, Extent::new(sector, 8)) };
    let submitted: Vec<_> =
        [0, 100, 200].map(|sector| bench.queue.submit_plugged(&read(sector), sector, &mut plug, T0)).into();
    assert!(matches!(submitted[..], [Ok(Submitted::Queued(_)), Ok(Submitted::Queued(_)), Ok(Submitted::Held)]));
    assert_eq!(plug.len(), 2, "no submitter sleeps for a limiter");
    bench.until(0);
    assert!(bench.started.is_empty());
    bench.queue.unplug(&mut plug, T0);
    bench.until(100);
    assert_eq!(bench.times(), [0, 0, 100]);
}

/// In 2.6.18 to 2.6.38 the queue itself is plugged. No task waits for a released bio, so none would
/// unplug the queue.
#[test]
fn a_queues_own_plug_does_not_keep_what_was_released() {
    let mut bench = Bench::unlimited(Era::LINUX_2_6).with_throttle(10);
    bench.read(0);
    bench.read(100);
    bench.queue.unplug_device(bench.now);
    bench.until(99);
    assert_eq!(bench.times(), [0]);
    bench.until(100);
    assert_eq!(bench.times(), [0, 100]);
}

#[test]
fn messages_of_a_limiter_come_with_their_group() {
    let mut bench = Bench::new(10);
    bench.queue.set_tracing(true);
    bench.read(0);
    bench.read(100);
    let messages: Vec<_> = std::iter::from_fn(|| bench.queue.take_message()).map(|said| said.message).collect();
    let held = messages.iter().find(|message| message.text.starts_with("[R] bio. bdisp="));
    assert_eq!(held.map(|message| (message.group, message.at_ns)), Some((Some(GROUP), T0)), "{messages:?}");
    bench.queue.set_tracing(false);
    bench.read(200);
    assert_eq!(bench.queue.take_message(), None);
}

#[test]
fn a_target_through_the_queue_halves_nr_requests_and_the_usual_number_where_it_is_a_table() {
    // The table of this test holds 32 requests, and its device at most 32 commands.
    for (era, device, halved) in [(Era::BLK_MQ, 32, 16), (Era::BLK_MQ, 8, 16), (Era::ENGINE, 8, 8), (Era::ENGINE, 4, 4)]
    {
        let mut bench = Bench::unlimited(era);
        let (depth, other) = (Depth { requests: 32, device }, GroupId(2));
        bench.queue.set_depth(depth, T0);
        bench.queue.set_tracing(true);
        assert!(bench.queue.add_group(other, &GroupSettings::with_weight(100), T0));
        bench.queue.add_limiter("io.latency", T0).expect("io.latency");
        let targeted = GroupSettings { latency_target_ns: MS, ..GroupSettings::with_weight(100) };
        assert!(bench.queue.change_group(GROUP, &targeted, T0));
        // A window is 100 ms: at its end one bio has missed the target, and the other group is told
        // at the end of its own next window.
        bench.read(0);
        bench.start_all();
        bench.now = T0 + 100 * MS;
        bench.complete_all();
        let read = Attributes::new(Operation::Read, Extent::new(800, 8));
        bench.submit_bio(Bio { group: other, ..read });
        let messages: Vec<_> = std::iter::from_fn(|| bench.queue.take_message()).map(|said| said.message).collect();
        let told = messages.iter().find(|message| message.group == Some(other)).expect("the other group is told");
        assert_eq!((told.text, told.numbers[0]), ("depth {0}", halved), "{era:?} over {device} commands");
        // A later change of depth has the same effect.
        bench.queue.set_depth(depth, bench.now);
        bench.read(1_600);
        bench.start_all();
        bench.now += 500 * MS;
        bench.complete_all();
        bench.submit_bio(Bio { group: other, ..read });
        let messages: Vec<_> = std::iter::from_fn(|| bench.queue.take_message()).map(|said| said.message).collect();
        let below = messages.iter().find(|message| message.text.starts_with("scale down")).expect("missed again");
        assert_eq!(below.numbers[0], halved, "{era:?} over {device} commands");
    }
}

#[test]
fn a_limiter_is_there_once_and_its_settings_are_checked() {
    let mut bench = Bench::new(10);
    assert_eq!(bench.queue.add_limiter("throttle", T0), Err(LimiterError::InPlace));
    assert_eq!(bench.queue.add_limiter("trottle", T0), Err(LimiterError::UnknownName));
    assert!(!bench.queue.remove_limiter("trottle", T0));
    let mut set = |limiter, key, value| bench.queue.set_limiter(limiter, key, value, T0);
    assert_eq!(set("throttle", "throttle_sample_time", "20"), Ok(20));
    assert_eq!(set("throttle", "throttle_sample_time", "0"), Err(SettingError::Range));
    assert_eq!(set("throttle", "throttle_sample_time", "1001"), Err(SettingError::Range));
    assert_eq!(set("throttle", "sample_time", "20"), Err(SettingError::Unknown));
    assert_eq!(set("trottle", "throttle_sample_time", "20"), Err(SettingError::Unknown));
    let settings: Vec<_> = bench.queue.limiter_settings("throttle").map(|(row, value)| (row.name, value)).collect();
    assert_eq!(settings, [("throttle_sample_time", 20), ("hierarchy", 1), ("high", 0)]);
    assert_eq!(bench.queue.limiter_settings("trottle").count(), 0);
}

/// Of three bios at 10 per second, the second is taken back while it is held: the third goes in its
/// place, and the group counts as throttled no longer than it was.
#[test]
fn a_held_bio_that_is_taken_back_costs_its_group_nothing() {
    let mut bench = Bench::new(10);
    for sector in [0, 64, 128] {
        bench.submit(Operation::Write, sector);
    }
    let mut ended = Vec::new();
    bench.queue.withdraw(|cookie| cookie == 2, bench.now, |cookie| ended.push(cookie));
    assert_eq!((ended, bench.queue.held_by_limiters(), bench.queue.bios_in_flight()), (vec![2], 1, 2));
    assert_eq!(bench.queue.next_timer(), Some(T0 + 100 * MS), "the third goes when the second would have gone");
    bench.queue.withdraw(|_| true, bench.now, |_| ());
    assert_eq!((bench.queue.bios_in_flight(), bench.queue.tags().in_use()), (0, 0));
    assert_eq!(bench.queue.throttled_ns(GROUP, bench.now + 1_000 * MS), bench.queue.throttled_ns(GROUP, bench.now));
    assert_eq!((bench.queue.groups().requests(GROUP), bench.queue.check()), (0, Ok(())));
}
