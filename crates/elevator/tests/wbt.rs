//! wbt: the numbered cases of docs/specifications/throttle.md, section 10, that concern wbt alone,
//! and its other documented properties.

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, Nanos, Operation, Status};
use hoistway_elevator::wbt::{Limits, State, Wbt};
use hoistway_elevator::{Bio, BioId, Depth, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};

const MS: Nanos = 1_000_000;
const US: Nanos = 1_000;
const SYNC: Flags = Flags::SYNC;
const DIRECT: Flags = Flags(Flags::SYNC.0 | Flags::IDLE.0);

/// A limiter, the time, and the bios that the test submits to it.
struct Bench {
    wbt: Wbt,
    now: Nanos,
    bios: Vec<Bio>,
    /// Passed and not ended, oldest first.
    in_device: Vec<u32>,
}

fn configuration(queue_depth: u32) -> LimiterConfiguration {
    LimiterConfiguration {
        bios: 4_000,
        groups: 1,
        depth: Depth { requests: 256, device: queue_depth },
        rotational: false,
        volatile_cache: false,
        tick_ns: 0,
    }
}

impl Bench {
    fn new(configuration: &LimiterConfiguration) -> Self {
        let wbt = Wbt::build(configuration).expect("memory");
        Self { wbt, now: 1_000 * MS, bios: Vec::new(), in_device: Vec::new() }
    }

    fn flash() -> Self {
        Self::new(&configuration(32))
    }

    fn submit(&mut self, operation: Operation, flags: Flags) -> Verdict {
        let id = u32::try_from(self.bios.len()).expect("few");
        let bio = Bio { flags, ..Bio::new(operation, Extent::new(u64::from(id) * 8, 8)) };
        self.bios.push(bio);
        let verdict = self.wbt.submit(BioId(id), &bio, self.now);
        if verdict == Verdict::Pass {
            self.start(id);
        }
        self.collect();
        verdict
    }

    /// Submits `count` bios and returns how many pass.
    fn flood(&mut self, count: usize, operation: Operation, flags: Flags) -> usize {
        (0..count).filter(|_| self.submit(operation, flags) == Verdict::Pass).count()
    }

    fn start(&mut self, id: u32) {
        self.wbt.issued(&self.bios[id as usize], self.now);
        self.in_device.push(id);
    }

    fn collect(&mut self) {
        while let Some(BioId(id)) = self.wbt.next_released(self.now) {
            self.start(id);
        }
        assert_eq!(self.wbt.check(), Ok(()));
        assert_eq!(self.wbt.violations(), 0);
    }

    /// A passed bio ends after `took` in the device.
    fn end(&mut self, id: u32, took: Nanos) {
        let place = self.in_device.iter().position(|other| *other == id).expect("it has passed");
        self.in_device.remove(place);
        let bio = self.bios[id as usize];
        let issued_ns = self.now - took;
        let end = RequestEnd { attributes: bio, start_ns: issued_ns, issued_ns, status: Status::Ok };
        self.wbt.request_ended(&end, self.now);
        self.wbt.bio_ended(BioId(id), &bio, issued_ns, self.now);
        self.collect();
    }

    fn end_oldest(&mut self, count: usize, took: Nanos) {
        for _ in 0..count {
            self.end(self.in_device[0], took);
        }
    }

    fn last(&self) -> u32 {
        u32::try_from(self.bios.len() - 1).expect("few")
    }

    /// A read that takes `took`, without moving the clock.
    fn read(&mut self, took: Nanos) {
        assert_eq!(self.submit(Operation::Read, Flags::NONE), Verdict::Pass);
        self.end(self.last(), took);
    }

    /// Submits writes, which must pass, and ends each at once.
    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            assert_eq!(self.submit(Operation::Write, SYNC), Verdict::Pass);
            self.end(self.last(), MS);
        }
    }

    /// Lets the running window end (the interval over which wbt judges latencies). Returns its
    /// length in tenths of a ms.
    fn end_window(&mut self) -> u64 {
        let length = self.wbt.window_ns();
        self.now = self.wbt.next_timer().expect("a window runs");
        self.wbt.timer(self.now);
        self.collect();
        length / (100 * US)
    }
}

fn limits(max: u32, normal: u32, background: u32) -> Limits {
    Limits { max, normal, background }
}

#[test]
fn t33_the_limits_of_each_kind_are_those_of_the_table() {
    // After each window with a slow read wbt takes a step down, to smaller limits. At every step
    // the test submits many bios of each kind and compares the number that passes.
    for (steps, expected) in
        [(0, limits(16, 8, 4)), (1, limits(8, 4, 2)), (2, limits(4, 2, 1)), (3, limits(2, 2, 1)), (4, limits(1, 1, 1))]
    {
        let mut bench = Bench::flash();
        for _ in 0..steps {
            bench.writes(3);
            bench.read(3 * MS);
            bench.end_window();
        }
        assert_eq!((bench.wbt.step(), bench.wbt.limits()), (steps, expected));
        // The last read is 200 ms ago, so it does not reduce the limits. wbt counts normal writes,
        // discards and swap separately.
        bench.now += 200 * MS;
        let normal = bench.flood(40, Operation::Write, Flags::NONE);
        let discards = bench.flood(40, Operation::Discard, Flags::NONE);
        let swap = bench.flood(40, Operation::Write, Flags::SWAP);
        let passed = [normal, discards, swap].map(|passed| u32::try_from(passed).expect("few"));
        assert_eq!(passed, [expected.normal, expected.background, expected.max]);
    }
    let bench = Bench::new(&configuration(1));
    assert_eq!(bench.wbt.limits(), limits(2, 2, 1));
}

#[test]
fn t34_slow_reads_take_a_step_per_window_and_windows_shrink() {
    let mut bench = Bench::flash();
    let mut lengths = Vec::new();
    for step in 1..=4 {
        bench.writes(3);
        bench.read(3 * MS);
        lengths.push(bench.end_window());
        assert_eq!(bench.wbt.step(), step);
    }
    assert_eq!(lengths, [1_000, 727, 592, 500]);
    // Depth 1 is the lowest.
    bench.writes(3);
    bench.read(3 * MS);
    bench.end_window();
    assert_eq!((bench.wbt.step(), bench.wbt.limits()), (4, limits(1, 1, 1)));
}

#[test]
fn t34_each_window_is_logged() {
    let mut bench = Bench::flash();
    bench.wbt.trace(true);
    let mut after_window = |writes: usize, read: Option<Nanos>| -> Vec<String> {
        bench.writes(writes);
        if let Some(took) = read {
            bench.read(took);
        }
        bench.end_window();
        std::iter::from_fn(|| bench.wbt.take_message()).map(|message| message.to_string()).collect()
    };
    let step = |way: &str, step: i32, window_us: u64, Limits { max, normal, background }: Limits| {
        format!("scale {way}: step={step}, window={window_us}us, background={background}, normal={normal}, max={max}")
    };
    assert_eq!(
        after_window(3, Some(3 * MS)),
        ["latency 3000us", "status=4, step=0, inflight=0", &step("down", 1, 100_000, limits(8, 4, 2))]
    );
    assert_eq!(
        after_window(3, Some(4 * MS)),
        ["latency 4000us", "status=4, step=1, inflight=0", &step("down", 2, 72_727, limits(4, 2, 1))]
    );
    assert_eq!(after_window(0, Some(MS)), ["status=2, step=2, inflight=0"], "a read alone says nothing");
    assert_eq!(after_window(3, Some(MS)), ["status=1, step=2, inflight=0", &step("up", 1, 59_259, limits(8, 4, 2))]);
    assert_eq!(after_window(1, None), ["status=3, step=1, inflight=0", &step("up", 0, 72_727, limits(16, 8, 4))]);
}

#[test]
fn t34_two_writes_are_not_enough_to_blame_writes() {
    let mut bench = Bench::flash();
    bench.writes(2);
    bench.read(3 * MS);
    bench.end_window();
    assert_eq!(bench.wbt.step(), -1, "too few samples to decide anything but that writes are in flight");
}

#[test]
fn t35_one_fast_read_keeps_a_window_good() {
    let mut bench = Bench::flash();
    bench.writes(3);
    bench.read(3 * MS);
    bench.end_window();
    assert_eq!(bench.wbt.step(), 1);
    for step in [0, -1, -1] {
        bench.writes(3);
        for _ in 0..50 {
            bench.read(100 * MS);
        }
        bench.read(2 * MS);
        bench.end_window();
        assert_eq!(bench.wbt.step(), step);
    }
}

#[test]
fn t36_with_writes_only_the_depth_rises_to_three_quarters() {
    let mut bench = Bench::flash();
    bench.flood(2_000, Operation::Write, SYNC);
    assert_eq!(bench.wbt.in_flight(), 16);
    for _ in 0..10 {
        bench.end_window();
        assert_eq!((bench.wbt.step(), bench.wbt.limits()), (-1, limits(24, 12, 6)));
        for _ in 0..100 {
            bench.end_oldest(1, 10 * MS);
            // wbt wakes waiting bios when 9 are in flight, which is the normal limit of 12 less
            // half of the background limit of 6. Then bios pass until 24 are in flight.
            assert!((10..=24).contains(&bench.wbt.in_flight()), "{}", bench.wbt.in_flight());
        }
    }
    assert_eq!(bench.wbt.held(), 2_000 - 1_000 - bench.wbt.in_flight());
    // Reads are slow now: from step -1 wbt goes back to step 0 after one window, then to step 1.
    for step in [0, 1] {
        bench.end_oldest(3, MS);
        bench.read(3 * MS);
        bench.end_window();
        assert_eq!(bench.wbt.step(), step);
    }
}

#[test]
fn reads_and_direct_writes_are_never_held() {
    let mut bench = Bench::flash();
    bench.flood(100, Operation::Write, Flags::NONE);
    assert!(bench.wbt.held() > 0);
    assert_eq!(bench.flood(100, Operation::Read, Flags::NONE), 100);
    assert_eq!(bench.flood(100, Operation::Write, DIRECT), 100);
    assert_eq!(bench.flood(10, Operation::Flush, Flags::NONE), 10);
}

#[test]
fn the_limit_follows_the_mix_of_writes_and_reads() {
    let passed = |flags, prepare: fn(&mut Bench)| {
        let mut bench = Bench::flash();
        prepare(&mut bench);
        bench.flood(40, Operation::Write, flags)
    };
    let read_ms_ago = |bench: &mut Bench, ms| {
        bench.read(MS);
        bench.now += ms * MS;
    };
    assert_eq!(passed(Flags::NONE, |_| {}), 8);
    assert_eq!(passed(Flags::BACKGROUND, |_| {}), 4);
    for urgent in [SYNC, Flags::META, Flags::PRIO, Flags::SWAP] {
        assert_eq!(passed(urgent.with(Flags::BACKGROUND), |_| {}), 16, "{urgent:?}");
    }
    let mut near = Bench::flash();
    read_ms_ago(&mut near, 99);
    assert_eq!(near.flood(40, Operation::Write, Flags::NONE), 4);
    let mut far = Bench::flash();
    read_ms_ago(&mut far, 100);
    assert_eq!(far.flood(40, Operation::Write, Flags::NONE), 8);
    assert_eq!(passed(Flags::BACKGROUND, |bench| bench.wbt.dirty_throttled(bench.now - 999 * MS)), 16);
    assert_eq!(passed(Flags::BACKGROUND, |bench| bench.wbt.dirty_throttled(bench.now - 1_000 * MS)), 4);
}

#[test]
fn a_read_that_does_not_come_back_counts_against_writes() {
    let mut bench = Bench::flash();
    bench.flood(40, Operation::Write, Flags::NONE);
    bench.submit(Operation::Read, Flags::NONE);
    bench.end_window();
    assert_eq!(bench.wbt.step(), 1, "the read is in the device for 100 ms");
    // The driver requeues the read. wbt does not know its age any more, so the window without it is
    // no reason for smaller limits.
    let read = bench.bios[40];
    bench.wbt.requeued(&read, bench.now);
    bench.end_window();
    assert_eq!(bench.wbt.step(), 0);
}

#[test]
fn windows_that_say_nothing_lead_back_to_the_middle() {
    let mut bench = Bench::flash();
    for _ in 0..2 {
        bench.writes(3);
        bench.read(3 * MS);
        bench.end_window();
    }
    let steps: Vec<i32> = (0..10)
        .map(|_| {
            bench.end_window();
            bench.wbt.step()
        })
        .collect();
    assert_eq!(steps, [2, 2, 2, 2, 1, 1, 1, 1, 1, 0]);
    assert_eq!(bench.wbt.next_timer(), None, "in the middle and with nothing in flight no window runs");
}

#[test]
fn waiting_submitters_are_woken_in_order_and_in_batches() {
    for (volatile_cache, is_dirty, woken_at) in [(false, false, 6), (true, false, 0), (true, true, 6)] {
        let mut bench = Bench::new(&LimiterConfiguration { volatile_cache, ..configuration(32) });
        bench.flood(40, Operation::Write, Flags::NONE);
        assert_eq!(bench.wbt.in_flight(), 8);
        if is_dirty {
            bench.wbt.dirty_throttled(bench.now);
        }
        let mut left = 8;
        while bench.in_device.last() == Some(&7) {
            left -= 1;
            let first = bench.in_device[0];
            bench.end(first, MS);
        }
        assert_eq!(left, woken_at, "cache {volatile_cache}, dirty {is_dirty}: in flight when others were woken");
        let released: Vec<u32> = bench.in_device.iter().copied().filter(|id| *id > 7).collect();
        let expected: Vec<u32> = (8..8 + u32::try_from(released.len()).expect("few")).collect();
        assert_eq!(released, expected);
    }
}

#[test]
fn a_merged_bio_gives_its_place_back() {
    let mut bench = Bench::flash();
    bench.flood(10, Operation::Write, Flags::NONE);
    assert_eq!((bench.wbt.in_flight(), bench.wbt.held()), (8, 2));
    for id in 0..2 {
        let bio = bench.bios[id as usize];
        bench.wbt.merged(BioId(id), &bio, bench.now);
        bench.collect();
    }
    assert_eq!((bench.wbt.in_flight(), bench.wbt.held()), (8, 0));
    // The end of a bio that was merged has no effect.
    let bio = bench.bios[0];
    bench.wbt.bio_ended(BioId(0), &bio, 0, bench.now);
    assert_eq!(bench.wbt.in_flight(), 8);
}

#[test]
fn the_tunable_switches_and_reads_back_the_effective_value() {
    let mut bench = Bench::flash();
    let row = &bench.wbt.tunables()[0];
    assert_eq!((row.name, bench.wbt.setting(0), bench.wbt.state()), ("wbt_lat_usec", Some(2_000), State::OnDefault));
    bench.flood(40, Operation::Write, Flags::NONE);
    assert_eq!(bench.wbt.held(), 32);

    bench.wbt.set(0, 0, bench.now).expect("off");
    bench.collect();
    assert_eq!((bench.wbt.setting(0), bench.wbt.state(), bench.wbt.held()), (Some(0), State::OffManual, 0));
    assert_eq!(bench.flood(40, Operation::Write, Flags::NONE), 40);
    assert_eq!(bench.wbt.next_timer(), None);

    bench.wbt.set(0, 10_000, bench.now).expect("a target");
    assert_eq!((bench.wbt.setting(0), bench.wbt.state()), (Some(10_000), State::OnManual));
    assert_eq!(bench.flood(1, Operation::Write, Flags::NONE), 0, "40 are in flight that were counted");
    bench.wbt.disable_default(bench.now);
    assert_eq!(bench.wbt.state(), State::OnManual, "BFQ does not switch off a target that was set by hand");
    bench.wbt.set(0, -1, bench.now).expect("the default");
    bench.wbt.disable_default(bench.now);
    assert_eq!((bench.wbt.state(), bench.wbt.setting(0)), (State::OffDefault, Some(0)));
    bench.wbt.enable_default(bench.now);
    assert_eq!((bench.wbt.state(), bench.wbt.setting(0)), (State::OnDefault, Some(2_000)));
    assert!(bench.wbt.set(0, -2, bench.now).is_err() && bench.wbt.set(1, 0, bench.now).is_err());

    let disk = Bench::new(&LimiterConfiguration { rotational: true, ..configuration(32) });
    assert_eq!(disk.wbt.setting(0), Some(75_000));
}

#[test]
fn a_change_of_depth_and_a_drain_release() {
    let mut bench = Bench::flash();
    bench.flood(40, Operation::Write, SYNC);
    assert_eq!(bench.wbt.in_flight(), 16);
    bench.wbt.depth_changed(Depth { requests: 256, device: 8 });
    bench.collect();
    assert_eq!((bench.wbt.in_flight(), bench.wbt.limits()), (16, limits(8, 4, 2)));
    bench.wbt.depth_changed(Depth { requests: 256, device: 0 });
    bench.collect();
    assert_eq!((bench.wbt.in_flight(), bench.wbt.limits()), (16, limits(16, 8, 4)), "no depth of its own: the tags");
    bench.wbt.drain(bench.now);
    bench.collect();
    assert_eq!((bench.wbt.in_flight(), bench.wbt.held()), (40, 0));
    assert_eq!(bench.flood(1, Operation::Write, SYNC), 0, "who comes after is limited");
}

/// A random number below `many`.
fn any_of(random: &mut Stream, many: usize) -> usize {
    usize::try_from(random.below(many as u64)).expect("below a usize")
}

/// Verdicts, releases and messages of a random run.
fn random_run(seed: u64) -> String {
    let mut random = Stream::new(seed);
    let mut bench = Bench::flash();
    bench.wbt.trace(true);
    let mut text = String::new();
    for _ in 0..5_000 {
        bench.now += random.below(2 * MS);
        match random.below(8) {
            0 => {
                bench.submit(Operation::Read, Flags::NONE);
            }
            1..=3 => {
                let flags = [Flags::NONE, Flags::BACKGROUND, SYNC, Flags::SWAP][any_of(&mut random, 4)];
                let operation = if random.below(9) == 0 { Operation::Discard } else { Operation::Write };
                bench.submit(operation, flags);
            }
            4..=6 if !bench.in_device.is_empty() => {
                let at = any_of(&mut random, bench.in_device.len());
                bench.end(bench.in_device[at], random.below(4 * MS));
            }
            _ => bench.wbt.timer(bench.now),
        }
        bench.collect();
        text += &format!("{} {:?}\n", bench.wbt.held(), bench.in_device.last());
        while let Some(message) = bench.wbt.take_message() {
            text += &format!("{} {message}\n", message.at_ns);
        }
    }
    text
}

#[test]
fn t45_the_same_calls_give_the_same_trace() {
    let first = random_run(7);
    assert!(first.contains("scale up: step=-1, window=100000us, background=6, normal=12, max=24"), "{first}");
    assert!(first.contains("scale down") && first.contains("latency "));
    assert_eq!(first, random_run(7));
    assert_ne!(first, random_run(8));
}

#[test]
fn the_page_has_the_rows() {
    hoistway_testbed::check_table("limiters/wbt.md", Bench::flash().wbt.tunables());
}
