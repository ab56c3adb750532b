//! blk-throttle: the messages of docs/specifications/throttle.md, section 2.8, each in a situation
//! that causes it. A kernel tick (jiffy) is 1 ms; limits are measured over slices of 100 ms.

use hoistway_block::{Extent, GroupId, Nanos, Operation, Status};
use hoistway_elevator::throttle::Throttle;
use hoistway_elevator::{Bio, BioId, Depth, GroupSettings, IoLimits, Limiter, LimiterConfiguration, LimiterPolicy};
use hoistway_elevator::{Message, Rates, RequestEnd, Verdict};
use std::ops::Range;

const MS: Nanos = 1_000_000;
const PAGE: u32 = 4_096;
const MIB: u64 = 1 << 20;
const NO_BYTES: u64 = u64::MAX;
const NO_IOS: u32 = u32::MAX;

/// A throttle with groups 1 to 3, and its messages. Time is counted in ticks of 1 ms.
struct Bench {
    throttle: Throttle,
    tick: u64,
    bios: Vec<Bio>,
    released: Vec<(u64, u32)>,
    lines: Vec<String>,
}

impl Bench {
    /// `parents` are the parents of groups 1, 2 and 3. Messages are on.
    fn new(parents: [u32; 3], rotational: bool) -> Self {
        let configuration = LimiterConfiguration {
            bios: 4_096,
            groups: 4,
            depth: Depth { requests: 256, device: 32 },
            rotational,
            volatile_cache: false,
            tick_ns: 0,
        };
        let mut throttle = Throttle::build(&configuration).expect("memory");
        throttle.set(0, 100, 0).expect("slices of 100 ms");
        for (group, parent) in (1..).zip(parents) {
            let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(100) };
            throttle.group_added(GroupId(group), &settings, MS);
        }
        throttle.trace(true);
        Self { throttle, tick: 1_000, bios: Vec::new(), released: Vec::new(), lines: Vec::new() }
    }

    fn limit(&mut self, group: u32, limits: IoLimits) {
        self.throttle.limits_changed(GroupId(group), &limits, self.tick * MS);
        self.settle();
    }

    fn submit(&mut self, group: u32, operation: Operation, bytes: u32) -> Verdict {
        let id = u32::try_from(self.bios.len()).expect("few");
        let extent = Extent::new(u64::from(id) * 4_096, bytes / 512);
        let bio = Bio { group: GroupId(group), ..Bio::new(operation, extent) };
        self.bios.push(bio);
        let verdict = self.throttle.submit(BioId(id), &bio, self.tick * MS);
        if verdict == Verdict::Pass {
            self.released.push((self.tick, id));
        }
        self.settle();
        verdict
    }

    fn reads(&mut self, group: u32, count: u32) {
        for _ in 0..count {
            self.submit(group, Operation::Read, PAGE);
        }
    }

    /// These bios, which arrived at `submitted_at`, end now.
    fn end(&mut self, ids: Range<usize>, submitted_at: u64) {
        for id in ids {
            let (bio, id) = (self.bios[id], BioId(u32::try_from(id).expect("few")));
            self.throttle.bio_ended(id, &bio, submitted_at * MS, self.tick * MS);
        }
    }

    /// Time passes up to a tick, and the limiter's timers fire on time.
    fn until(&mut self, tick: u64) {
        while let Some(at) = self.throttle.next_timer().filter(|at| *at <= tick * MS) {
            self.tick = at / MS;
            self.throttle.timer(at);
            self.settle();
        }
        self.tick = tick;
    }

    /// Takes released bios and messages.
    fn settle(&mut self) {
        while let Some(BioId(id)) = self.throttle.next_released(self.tick * MS) {
            self.released.push((self.tick, id));
        }
        while let Some(message) = self.throttle.take_message() {
            assert_eq!(message.at_ns, self.tick * MS, "{message}");
            self.lines.push(line(&message));
        }
        assert_eq!((self.throttle.check(), self.throttle.violations()), (Ok(()), 0));
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

/// A message with the number of its group, or `-` for the device.
fn line(message: &Message) -> String {
    message.group.map_or_else(|| format!("- {message}"), |group| format!("{} {message}", group.0))
}

fn rates(max: Rates) -> IoLimits {
    IoLimits { max, ..IoLimits::NONE }
}

fn read_rate(bytes_per_s: u64) -> IoLimits {
    rates(Rates { bytes_per_s: [bytes_per_s, NO_BYTES], ..Rates::UNLIMITED })
}

/// A best-effort limit of reads: the rate up to which the group is protected from others
/// (`io.low`).
fn promise(bytes_per_s: u64) -> IoLimits {
    let low = Rates { bytes_per_s: [bytes_per_s, 0], ios_per_s: [0; 2] };
    IoLimits { low, idle_us: 1_000_000, latency_us: 100, ..IoLimits::NONE }
}

/// docs/specifications/throttle.md, section 10, case 1: 25 reads pass, the 26th waits for 101
/// ticks.
#[test]
fn t01_the_life_of_a_bio_that_waits() {
    let mut bench = Bench::new([0; 3], true);
    bench.limit(1, read_rate(MIB));
    assert_eq!(
        bench.told(),
        [
            "1 limit change rbps=1048576 wbps=18446744073709551615 riops=4294967295 wiops=4294967295",
            "1 [R] new slice start=1000 end=1100 jiffies=1000",
            "1 [W] new slice start=1000 end=1100 jiffies=1000",
        ]
    );
    bench.reads(1, 25);
    assert_eq!(bench.told(), [""; 0], "the slice is new and long enough");
    bench.reads(1, 2);
    assert_eq!(
        bench.told(),
        [
            "1 [R] extend slice start=1000 end=1200 jiffies=1000",
            "1 [R] bio. bdisp=102400 sz=4096 bps=1048576 iodisp=25 iops=4294967295 queued=0/0",
            "0 schedule timer. delay=101 jiffies=1000",
            "1 [R] bio. bdisp=102400 sz=4096 bps=1048576 iodisp=25 iops=4294967295 queued=1/0",
        ]
    );
    bench.until(1_101);
    // A slice permits 104857 bytes, a tenth of 1048576 per second. "No limit" is represented by the
    // largest 64-bit number, of which a slice also permits a tenth, and for I/Os by the largest
    // 32-bit number.
    assert_eq!(
        bench.told(),
        [
            "0 dispatch nr_queued=0 read=0 write=0",
            "1 [R] extend slice start=1000 end=1300 jiffies=1101",
            "0 [R] new slice with credit start=1000 end=1201 jiffies=1101",
            "1 [R] trim slice nr=1 bytes=104857 io=4294967295 start=1100 end=1300 jiffies=1101",
            "0 bios disp=2",
            "- dispatch nr_queued=2 read=2 write=0",
            "0 [R] trim slice nr=1 bytes=1844674407370955161 io=4294967295 start=1100 end=1300 jiffies=1101",
            "- bios disp=2",
        ]
    );
    bench.until(5_000);
    bench.reads(1, 1);
    assert_eq!(bench.told(), ["1 [R] new slice start=5000 end=5100 jiffies=5000"]);
}

#[test]
fn writes_have_their_letter_and_discards_their_size() {
    let mut bench = Bench::new([0; 3], true);
    bench.throttle.set(1, 0, bench.tick * MS).expect("each group by its own limits");
    bench.limit(2, rates(Rates { ios_per_s: [NO_IOS, 10], ..Rates::UNLIMITED }));
    let told = bench.told();
    let expected = "2 limit change rbps=18446744073709551615 wbps=18446744073709551615 riops=4294967295 wiops=10";
    assert_eq!(told[0], expected);
    bench.submit(2, Operation::Discard, 1 << 20);
    bench.submit(2, Operation::Discard, 1 << 20);
    bench.submit(2, Operation::Write, PAGE);
    assert_eq!(
        bench.told(),
        [
            "2 [W] bio. bdisp=512 sz=1048576 bps=18446744073709551615 iodisp=1 iops=10 queued=0/0",
            "- schedule timer. delay=100 jiffies=1000",
            "2 [W] bio. bdisp=512 sz=4096 bps=18446744073709551615 iodisp=1 iops=10 queued=0/1",
        ]
    );
    bench.until(1_100);
    // A slice permits one I/O: the first passed at 1000, the second passes now, and the third waits
    // for another slice.
    assert_eq!(
        bench.told(),
        [
            "- dispatch nr_queued=2 read=0 write=2",
            "2 [W] extend slice start=1000 end=1200 jiffies=1100",
            "2 [W] trim slice nr=1 bytes=1844674407370955161 io=1 start=1100 end=1200 jiffies=1100",
            "- bios disp=1",
            "- schedule timer. delay=100 jiffies=1100",
        ]
    );
}

/// blk-throttle sets a timer for at most 8 slices.
#[test]
fn t08_a_long_wait_is_reported_in_pieces() {
    let mut bench = Bench::new([0; 3], true);
    bench.limit(1, read_rate(2));
    bench.told();
    bench.reads(1, 1);
    // 4096 bytes at 2 per second and the rest of the slice take 2048100 ticks from 1000 on.
    assert_eq!(
        bench.told(),
        [
            "1 [R] extend slice start=1000 end=2049100 jiffies=1000",
            "1 [R] bio. bdisp=0 sz=4096 bps=2 iodisp=0 iops=4294967295 queued=0/0",
            "0 schedule timer. delay=800 jiffies=1000",
        ]
    );
    bench.until(1_800);
    assert_eq!(bench.told(), ["0 dispatch nr_queued=0 read=0 write=0", "0 schedule timer. delay=800 jiffies=1800"]);
}

/// docs/specifications/throttle.md, section 10, case 13: while bios wait, the limit is raised
/// tenfold.
#[test]
fn t13_a_change_of_limits_sets_the_timer_anew() {
    let mut bench = Bench::new([0; 3], true);
    bench.limit(1, read_rate(MIB));
    bench.reads(1, 26);
    bench.until(1_050);
    bench.told();
    bench.limit(1, read_rate(10 * MIB));
    assert_eq!(
        bench.told()[..4],
        [
            "1 limit change rbps=10485760 wbps=18446744073709551615 riops=4294967295 wiops=4294967295",
            "1 [R] new slice start=1050 end=1150 jiffies=1050",
            "1 [W] new slice start=1050 end=1150 jiffies=1050",
            "0 schedule timer. delay=0 jiffies=1050",
        ]
    );
}

/// Group A (1) has a best-effort limit above its demand, group B (2) has none. On a disk a read is
/// late after 4.2 ms. Of 20 reads of A, all submitted at 1000, `late` end at 1005 and the others at
/// 1003. The first read to end is counted in the period before, so 19 are counted. At 1100 B sends
/// more than the floor, the small rate that every group without a best-effort limit has.
fn with_late_reads(late: usize) -> Bench {
    let mut bench = Bench::new([0; 3], true);
    bench.limit(1, promise(50_000_000));
    bench.reads(1, 20);
    bench.tick = 1_003;
    bench.end(late..20, 1_000);
    bench.tick = 1_005;
    bench.end(0..late, 1_000);
    bench.until(1_100);
    bench.told();
    bench.reads(2, 2);
    bench
}

/// docs/specifications/throttle.md, section 10, case 26, with the message that gives the reason.
#[test]
fn t26_a_group_that_misses_its_target_is_reported() {
    assert_eq!(
        with_late_reads(4).told(),
        [
            "2 [R] new slice start=1100 end=1200 jiffies=1100",
            "1 avg_idle=0, idle_threshold=1000000, bad_bio=4, total_bio=19, is_idle=0, scale=0",
            "2 [R] bio. bdisp=4096 sz=4096 bps=327680 iodisp=1 iops=10 queued=0/0",
            "0 schedule timer. delay=100 jiffies=1100",
        ]
    );
    let mut bench = with_late_reads(3);
    assert_eq!(
        bench.told(),
        [
            "2 [R] new slice start=1100 end=1200 jiffies=1100",
            "1 avg_idle=0, idle_threshold=1000000, bad_bio=3, total_bio=19, is_idle=1, scale=0",
            "- upgrade to max",
        ]
    );
    // A sends reads again, and all are late. The first of them is added to the old counts, which
    // are then halved; with the other 19 the total is (19 + 1) / 2 + 19 = 29, and (3 + 1) / 2 + 19
    // = 21 are late.
    bench.reads(1, 20);
    bench.tick = 1_106;
    bench.end(22..42, 1_100);
    bench.until(1_201);
    bench.told();
    bench.reads(1, 1);
    let thought = |from: u64, to: u64| ((to * MS) >> 10) - ((from * MS) >> 10);
    let average = (thought(1_005, 1_100) / 8 * 7 + thought(1_106, 1_201)) / 8;
    let told = bench.told();
    let expected =
        format!("1 avg_idle={average}, idle_threshold=1000000, bad_bio=21, total_bio=29, is_idle=0, scale=0");
    assert_eq!(told[..2], [expected.as_str(), "- downgrade, scale 0"], "{told:?}");
    let verdicts = [(); 2].map(|()| bench.submit(2, Operation::Read, PAGE));
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Held], "B has the floor again: one in a slice");
}

#[test]
fn baselines_are_logged_once_a_second_for_each_size() {
    let mut bench = Bench::new([0; 3], false);
    bench.limit(1, promise(50_000_000));
    bench.reads(1, 1);
    let mut answer = |operation: Operation, bytes: u32, us: u64, count: u32| {
        for _ in 0..count {
            let attributes = Bio { group: GroupId(1), ..Bio::new(operation, Extent::new(0, bytes / 512)) };
            let (issued_ns, now) = (1_500 * MS, 1_500 * MS + us * 1_024);
            let end = RequestEnd { attributes, start_ns: issued_ns, issued_ns, status: Status::Ok };
            bench.throttle.request_ended(&end, now);
        }
    };
    answer(Operation::Read, PAGE, 100, 32);
    answer(Operation::Write, 64 << 10, 250, 40);
    // A baseline needs 32 samples; these are 31.
    answer(Operation::Read, 1 << 20, 900, 31);
    bench.until(1_999);
    bench.told();
    bench.reads(1, 1);
    assert!(bench.told().iter().all(|line| !line.contains("Latency")), "not within a second of the last time");
    bench.until(2_000);
    bench.reads(1, 1);
    let told: Vec<String> = bench.told().into_iter().filter(|line| line.contains("Latency")).collect();
    let expected: Vec<String> = (0..9)
        .map(|size| {
            let (reads, write, writes) = (u32::from(size == 0), if size < 4 { 0 } else { 250 }, u32::from(size == 4));
            format!(
                "- Latency bucket {size}: read latency=100, read valid={reads}, write latency={write}, write valid={writes}"
            )
        })
        .collect();
    assert_eq!(told, expected);
}

/// Makes random calls. Returns which bios passed when, and the messages.
fn by_lot(is_traced: bool) -> (Vec<(u64, u32)>, Vec<String>) {
    let mut bench = Bench::new([0, 1, 0], true);
    bench.throttle.trace(is_traced);
    bench.limit(1, promise(4_000_000));
    bench.limit(2, promise(2_000_000));
    bench.limit(3, rates(Rates { bytes_per_s: [8 << 20, 2 << 20], ios_per_s: [2_000, 300] }));
    let mut seed = 7_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for n in 0..3_000 {
        let group = u32::try_from(1 + draw(3)).expect("small");
        let operation = if draw(3) == 0 { Operation::Write } else { Operation::Read };
        bench.submit(group, operation, PAGE << draw(3));
        if draw(2) == 0 {
            bench.end(n..n + 1, bench.tick);
            bench.until(bench.tick + draw(6));
        }
    }
    bench.until(bench.tick + 60_000);
    (bench.released, bench.lines)
}

#[test]
fn tracing_changes_no_decision() {
    let (released, lines) = by_lot(true);
    for part in ["new slice s", "with credit", "extend", "trim", "bio.", "dispatch", "disp=", "timer", "limit", "idle="]
    {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}");
    }
    assert!(lines.iter().any(|line| line.contains("upgrade to max")));
    assert!(lines.iter().any(|line| line.contains("downgrade, scale ")));
    assert_eq!((released, Vec::new()), by_lot(false));
}
