//! blk-throttle: the numbered cases of docs/specifications/throttle.md, section 10, that concern
//! blk-throttle alone. A kernel tick is 1 ms (HZ 1000); limits are measured over slices of 100 ms.

use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation};
use hoistway_elevator::throttle::Throttle;
use hoistway_elevator::{
    Bio, BioId, Depth, GroupSettings, IoLimits, Limiter, LimiterConfiguration, LimiterPolicy, Message, Rates, Verdict,
};

const MS: Nanos = 1_000_000;
const PAGE: u32 = 4_096;
const MIB: u64 = 1 << 20;

/// A throttle, the time, and the bios that have passed.
struct Bench {
    throttle: Throttle,
    now: Nanos,
    next: u32,
    /// Time in ms, group and direction letter of each passed bio.
    passed: Vec<(u64, u32, char)>,
    bios: Vec<Bio>,
    /// Messages taken from the limiter and not read yet.
    told: Vec<Message>,
}

impl Bench {
    fn new() -> Self {
        Self::on(true)
    }

    /// On a rotational device slices are 100 ms long.
    fn on(rotational: bool) -> Self {
        let configuration = LimiterConfiguration {
            bios: 100_000,
            groups: 16,
            depth: Depth { requests: 256, device: 32 },
            rotational,
            volatile_cache: false,
            tick_ns: 0,
        };
        let throttle = Throttle::build(&configuration).expect("memory");
        Self { throttle, now: 1_000 * MS, next: 0, passed: Vec::new(), bios: Vec::new(), told: Vec::new() }
    }

    fn group(&mut self, group: u32, parent: u32) {
        let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(100) };
        self.throttle.group_added(GroupId(group), &settings, self.now);
    }

    fn limit(&mut self, group: u32, max: Rates) {
        self.throttle.limits_changed(GroupId(group), &IoLimits { max, ..IoLimits::NONE }, self.now);
        self.collect();
    }

    fn submit(&mut self, group: u32, operation: Operation, bytes: u32) -> Verdict {
        self.submit_with(group, operation, bytes, Flags::NONE)
    }

    fn submit_with(&mut self, group: u32, operation: Operation, bytes: u32, flags: Flags) -> Verdict {
        let extent = Extent::new(u64::from(self.next) * 4_096, bytes / 512);
        let bio = Bio { group: GroupId(group), flags, ..Bio::new(operation, extent) };
        let id = self.next;
        self.next += 1;
        self.bios.push(bio);
        let verdict = self.throttle.submit(BioId(id), &bio, self.now);
        if verdict == Verdict::Pass {
            self.note(id);
        }
        self.check();
        verdict
    }

    fn reads(&mut self, group: u32, count: u32) {
        for _ in 0..count {
            self.submit(group, Operation::Read, PAGE);
        }
    }

    fn note(&mut self, id: u32) {
        let bio = &self.bios[id as usize];
        let letter = if bio.operation == Operation::Read { 'R' } else { 'W' };
        // Times are counted from the start at 1000 ms. Bios that pass before that count as passed
        // at the start.
        self.passed.push(((self.now / MS).saturating_sub(1_000), bio.group.0, letter));
    }

    fn collect(&mut self) {
        while let Some(BioId(id)) = self.throttle.next_released(self.now) {
            self.note(id);
        }
        self.check();
    }

    /// Takes the messages after every call, because the limiter keeps only the most recent ones.
    fn check(&mut self) {
        self.told.extend(std::iter::from_fn(|| self.throttle.take_message()));
        assert_eq!(self.throttle.check(), Ok(()));
        assert_eq!(self.throttle.violations(), 0);
    }

    /// Time passes up to `ms` after the start.
    fn until(&mut self, ms: u64) {
        let end = (1_000 + ms) * MS;
        while let Some(at) = self.throttle.next_timer().filter(|at| *at <= end) {
            assert!(at >= self.now, "timers do not lie in the past");
            self.now = self.now.max(at);
            self.throttle.timer(self.now);
            self.collect();
        }
        self.now = end;
    }

    /// How many bios of a group have passed by a time in ms.
    fn by(&self, ms: u64, group: u32) -> usize {
        self.passed.iter().filter(|(at, of, _)| *at <= ms && *of == group).count()
    }
}

fn reads_per_s(bytes: u64) -> Rates {
    Rates { bytes_per_s: [bytes, u64::MAX], ..Rates::UNLIMITED }
}

fn read_ios(ios: u32) -> Rates {
    Rates { ios_per_s: [ios, u32::MAX], ..Rates::UNLIMITED }
}

/// One group below the root.
fn one_group(max: Rates) -> Bench {
    let mut bench = Bench::new();
    bench.group(1, 0);
    bench.limit(1, max);
    bench
}

#[test]
fn t01_a_burst_passes_a_slice_at_a_time() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 100);
    assert_eq!(bench.by(0, 1), 25);
    assert_eq!(bench.throttle.next_timer(), Some((1_000 + 101) * MS));
    bench.until(101);
    assert_eq!(bench.by(101, 1), 51);
}

#[test]
fn t02_the_rate_holds_over_ten_seconds() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 4_000);
    bench.until(10_000);
    let passed = bench.by(10_000, 1);
    assert!(passed.abs_diff(2_560) <= 26, "{passed}");
}

#[test]
fn t03_ios_are_counted_by_slices() {
    let mut bench = one_group(read_ios(100));
    bench.reads(1, 50);
    bench.until(1_000);
    let at: Vec<u64> = bench.passed.iter().map(|(at, ..)| *at).step_by(10).collect();
    assert_eq!(at, [0, 100, 200, 300, 400]);
}

#[test]
fn t04_a_large_bio_waits_for_more_than_a_slice() {
    let mut bench = one_group(reads_per_s(4 * MIB));
    for _ in 0..60 {
        bench.submit(1, Operation::Read, 1 << 20);
    }
    bench.until(10_000);
    // The first bio has 629146 bytes more than the slice permits; at 4194304 bytes per second they
    // take 150 ms. By docs/specifications/throttle.md, section 2.5, the bio waits for 150 + 100 ms.
    assert_eq!(bench.passed[0].0, 250);
    let passed = bench.by(10_000, 1);
    assert!(passed.abs_diff(40) <= 1, "{passed}");
}

#[test]
fn t05_the_tighter_of_two_limits_rules() {
    let mut bench = one_group(Rates { bytes_per_s: [MIB, u64::MAX], ios_per_s: [10, u32::MAX] });
    bench.reads(1, 100);
    bench.until(5_000);
    let passed = bench.by(5_000, 1);
    assert!(passed.abs_diff(50) <= 1, "{passed}");
}

#[test]
fn t06_a_limit_of_reads_leaves_writes_alone() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 100);
    for _ in 0..100 {
        assert_eq!(bench.submit(1, Operation::Write, PAGE), Verdict::Pass);
    }
}

#[test]
fn t07_a_discard_counts_as_one_sector() {
    let mut bench = one_group(Rates { bytes_per_s: [u64::MAX, MIB], ..Rates::UNLIMITED });
    assert_eq!(bench.submit(1, Operation::Discard, 1 << 30), Verdict::Pass);
}

#[test]
fn t08_no_bio_is_too_large_to_pass_at_last() {
    let mut bench = one_group(reads_per_s(2));
    bench.reads(1, 1);
    // 4096 bytes at 2 per second take 2,048 s; the bio also waits for the rest of the slice.
    let mut timers = 0;
    let mut last = bench.now;
    while bench.passed.is_empty() {
        let at = bench.throttle.next_timer().expect("a timer runs");
        assert!(at - last <= 800 * MS, "{} ms", (at - last) / MS);
        (last, bench.now) = (at, at);
        bench.throttle.timer(at);
        bench.collect();
        timers += 1;
    }
    assert_eq!(bench.passed[0].0, 2_048_100);
    assert!(timers > 2_000);
}

#[test]
fn t09_a_parent_binds_its_children_and_gives_them_turns() {
    let mut bench = Bench::new();
    bench.group(1, 0);
    bench.group(2, 1);
    bench.group(3, 1);
    bench.limit(1, reads_per_s(2 * MIB));
    for _ in 0..6_000 {
        bench.submit(2, Operation::Read, PAGE);
        bench.submit(3, Operation::Read, PAGE);
    }
    bench.until(10_000);
    let (a, b) = (bench.by(10_000, 2), bench.by(10_000, 3));
    assert!((a + b).abs_diff(5_120) <= 102, "{a} + {b}");
    assert!(a.abs_diff(b) * 20 <= a + b, "{a} : {b}");
}

#[test]
fn t10_limits_below_a_limit_hold_both_or_each_alone() {
    for (hierarchy, expected) in [(1, 3_840), (0, 10_000)] {
        let mut bench = Bench::new();
        bench.throttle.set(1, hierarchy, bench.now).expect("a switch");
        bench.group(1, 0);
        bench.group(2, 1);
        bench.group(3, 1);
        bench.limit(1, reads_per_s(2 * MIB));
        bench.limit(2, reads_per_s(MIB / 2));
        for _ in 0..10_000 {
            bench.submit(2, Operation::Read, PAGE);
            bench.submit(3, Operation::Read, PAGE);
        }
        bench.until(10_000);
        let (a, b) = (bench.by(10_000, 2), bench.by(10_000, 3));
        assert!(a.abs_diff(1_280) <= 64, "{a}");
        assert!(b.abs_diff(expected) * 20 <= expected, "{b}");
    }
}

#[test]
fn t11_a_groups_own_bios_have_the_turn_of_one_child() {
    let mut bench = Bench::new();
    bench.group(1, 0);
    bench.group(2, 1);
    bench.limit(1, read_ios(100));
    for _ in 0..1_000 {
        bench.submit(1, Operation::Read, PAGE);
        bench.submit(2, Operation::Read, PAGE);
    }
    bench.until(10_000);
    let (own, child) = (bench.by(10_000, 1), bench.by(10_000, 2));
    assert!(own.abs_diff(child) * 20 <= own + child && (own + child).abs_diff(1_000) <= 20, "{own} : {child}");
}

#[test]
fn t12_an_idle_group_saves_up_one_slice_at_most() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 10);
    bench.until(10_000);
    bench.reads(1, 100);
    assert_eq!(bench.by(10_000, 1), 10 + 25);
}

#[test]
fn t13_a_change_of_limits_counts_for_what_waits() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 125);
    assert_eq!(bench.by(0, 1), 25);
    bench.until(50);
    bench.limit(1, reads_per_s(10 * MIB));
    bench.until(52);
    assert_eq!(bench.by(52, 1), 125);
}

#[test]
fn t14_removing_a_limit_releases_all_bios() {
    let mut bench = one_group(reads_per_s(MIB));
    bench.reads(1, 1_025);
    bench.until(50);
    bench.limit(1, Rates::UNLIMITED);
    bench.until(51);
    assert_eq!(bench.by(51, 1), 1_025);
}

#[test]
fn t15_what_one_run_releases_is_all_reads_then_all_writes() {
    let mut bench = one_group(Rates { bytes_per_s: [512, 512], ..Rates::UNLIMITED });
    for _ in 0..100 {
        bench.submit(1, Operation::Read, PAGE);
        bench.submit(1, Operation::Write, PAGE);
    }
    let before = bench.passed.len();
    bench.limit(1, Rates::UNLIMITED);
    bench.until(10);
    let letters: String = bench.passed[before..].iter().map(|(.., letter)| *letter).collect();
    assert_eq!(letters, "R".repeat(100 - (before - before / 2)) + &"W".repeat(100 - before / 2));
}

#[test]
fn t16_groups_of_one_time_take_turns_of_six() {
    let mut bench = Bench::new();
    for group in [1, 2] {
        bench.group(group, 0);
        bench.limit(group, reads_per_s(512));
    }
    for _ in 0..64 {
        bench.submit(1, Operation::Read, PAGE);
        bench.submit(2, Operation::Read, PAGE);
    }
    // The bios of both groups wait, and lifting both limits releases them at the same time. One
    // group is visited first, but the root takes one bio of each group in turn.
    bench.throttle.limits_changed(GroupId(1), &IoLimits::NONE, bench.now);
    bench.throttle.limits_changed(GroupId(2), &IoLimits::NONE, bench.now);
    bench.until(5);
    let groups: Vec<u32> = bench.passed.iter().map(|(_, group, _)| *group).collect();
    assert_eq!(groups.len(), 128);
    assert!(groups.windows(2).take(72).all(|pair| pair[0] != pair[1]), "{groups:?}");
}

#[test]
fn t17_pieces_of_a_charged_bio_count_as_ios_only() {
    let mut bench = one_group(Rates { bytes_per_s: [MIB, u64::MAX], ios_per_s: [10, u32::MAX] });
    // A megabyte in pieces of 128 KiB: if its bytes counted, it would need a whole second.
    for _ in 0..8 {
        bench.submit_with(1, Operation::Read, 128 << 10, Flags::BYTES_CHARGED);
    }
    bench.until(2_000);
    let at: Vec<u64> = bench.passed.iter().map(|(at, ..)| *at).collect();
    assert_eq!(at, [0, 100, 200, 300, 400, 500, 600, 700], "each piece is one of ten I/Os a second");
    let mut bench = one_group(reads_per_s(2));
    assert_eq!(bench.submit_with(1, Operation::Read, 128 << 10, Flags::BYTES_CHARGED), Verdict::Pass);
}

#[test]
fn t18_a_drain_releases_everything_within_two_ticks() {
    let mut bench = Bench::new();
    for group in 1..=8 {
        bench.group(group, if group == 1 { 0 } else { group - 1 });
        bench.limit(group, reads_per_s(2));
    }
    for n in 0..90_000 {
        bench.submit_quick(1 + n % 8);
    }
    assert!(bench.throttle.held() > 89_000);
    bench.throttle.drain(bench.now);
    bench.collect();
    assert_eq!((bench.passed.len(), bench.throttle.next_timer()), (90_000, None));
    bench.until(2);
    assert_eq!(bench.throttle.held(), 0);
}

impl Bench {
    /// A submission without the check of the invariants, for tests with many bios.
    fn submit_quick(&mut self, group: u32) {
        let id = self.next;
        self.next += 1;
        let bio = Bio { group: GroupId(group), ..Bio::new(Operation::Read, Extent::new(u64::from(id) * 8, 8)) };
        self.bios.push(bio);
        if self.throttle.submit(BioId(id), &bio, self.now) == Verdict::Pass {
            self.note(id);
        }
    }
}

/// A best-effort limit for reads: the rate up to which the group is protected from others
/// (`io.low`). With these thresholds no group counts as idle while it sends requests.
fn promised(bytes_per_s: u64) -> IoLimits {
    let low = Rates { bytes_per_s: [bytes_per_s, 0], ios_per_s: [0; 2] };
    IoLimits { low, idle_us: 1_000_000, latency_us: 100, ..IoLimits::NONE }
}

impl Bench {
    fn promise(&mut self, group: u32, bytes_per_s: u64) {
        self.throttle.limits_changed(GroupId(group), &promised(bytes_per_s), self.now);
    }

    /// Submits one more read of the group, which has to wait, and returns the limit in MB/s that
    /// applies to it.
    fn ceiling_of(&mut self, group: u32) -> u64 {
        let _ = self.told();
        assert_eq!(self.submit(group, Operation::Read, PAGE), Verdict::Held);
        let told = self.told();
        let bio = told.iter().rfind(|message| message.text.contains("bps=")).expect("a queued bio is told");
        bio.numbers[2] / 1_000_000
    }

    /// The scale in each message about a downgrade since the last call. Up to their scale, groups
    /// may exceed their best-effort limits: by half of the limit for each step; a downgrade halves
    /// the scale.
    fn downgrades(&mut self) -> Vec<u64> {
        let told = self.told();
        told.iter().filter(|message| message.text.starts_with("downgrade")).map(|message| message.numbers[0]).collect()
    }

    fn told(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.told)
    }
}

/// A (1) and B (2) have best-effort limits of 10 MB/s each. At 0 ms both have reached them, so
/// blk-throttle permits all groups more from then on. A begins 15 ms earlier, so that A's rate is
/// examined in the middle of B's slices of 20 ms; A still reaches its limit at 185 ms, and no
/// longer at 205 ms. B has `b_reads` reads to do from 0 on. Returns the ceilings for B at 0, 19,
/// 20, 199 and 200 ms.
fn until_a_miss(b_reads: u32) -> (Bench, Vec<u64>) {
    let mut bench = Bench::new();
    bench.now -= 15 * MS;
    bench.throttle.set(0, 20, bench.now).expect("slices of 20 ms");
    for group in 1..=3 {
        bench.group(group, 0);
    }
    bench.promise(1, 10_000_000);
    bench.promise(2, 10_000_000);
    bench.throttle.trace(true);
    bench.reads(1, 50);
    bench.until(0);
    bench.reads(2, b_reads);
    let is_busy = b_reads > 1_000;
    let mut ceilings = vec![bench.ceiling_of(2)];
    for ms in 1..=200 {
        bench.until(ms);
        // Three reads per ms are 12 MB/s. The single read at 200 ms only makes blk-throttle examine
        // A's rate.
        bench.reads(1, if ms <= 185 { 3 } else { u32::from(ms == 200) });
        if is_busy && matches!(ms, 19 | 20 | 199 | 200) {
            ceilings.push(bench.ceiling_of(2));
        }
    }
    bench.until(205);
    assert_eq!(bench.downgrades(), [0_u64; 0]);
    bench.reads(1, 1);
    assert_eq!(bench.downgrades(), [5], "half of ten");
    (bench, ceilings)
}

#[test]
fn t23_the_ceiling_grows_by_half_a_slice_and_halves_with_each_miss() {
    let (mut bench, ceilings) = until_a_miss(4_000);
    assert_eq!(ceilings, [10, 10, 15, 55, 60]);
    assert_eq!(bench.ceiling_of(2), 35);
    assert_eq!(bench.submit(3, Operation::Read, PAGE), Verdict::Pass, "the state is still MAX");

    // Now B has no backlog, so blk-throttle examines the rates only when A sends a read.
    let (mut bench, _) = until_a_miss(50);
    for (ms, scale) in [(225, 2), (245, 1), (265, 0)] {
        bench.until(ms);
        assert_eq!(bench.submit(3, Operation::Read, PAGE), Verdict::Pass, "the state is still MAX");
        bench.reads(1, 1);
        assert_eq!(bench.downgrades(), [scale], "at {ms} ms");
    }
    assert_eq!(bench.submit(3, Operation::Read, PAGE), Verdict::Held, "the state is LOW: C was promised nothing");
}

#[test]
fn t24_a_group_that_was_promised_nothing_has_the_floor_unless_it_has_children() {
    let passed = |has_child: bool| {
        let mut bench = Bench::new();
        bench.group(1, 0);
        bench.group(2, 0);
        if has_child {
            bench.group(3, 2);
        }
        bench.promise(1, 50_000_000);
        bench.reads(2, 20);
        bench.reads(3, if has_child { 20 } else { 0 });
        (bench.by(u64::MAX, 2), bench.by(u64::MAX, 3))
    };
    assert_eq!(passed(false), (1, 0), "ten I/Os a second: one in a slice of 100 ms");
    assert_eq!(passed(true), (20, 1), "the floor is for leaves");
}

#[test]
fn t45_the_same_calls_give_the_same_trace() {
    let trace = || {
        let (mut bench, ceilings) = until_a_miss(4_000);
        bench.limit(3, Rates { bytes_per_s: [1 << 20, 0], ios_per_s: [0, 5] });
        bench.reads(3, 50);
        let mut texts: Vec<String> = bench.told().iter().map(ToString::to_string).collect();
        bench.until(2_000);
        texts.extend(bench.told().iter().map(ToString::to_string));
        (texts, ceilings, bench.passed)
    };
    let (texts, ceilings, passed) = trace();
    for line in ["limit change rbps=1048576 ", "[R] bio. bdisp="] {
        assert!(texts.iter().any(|text| text.starts_with(line)), "{line}: {texts:?}");
    }
    assert_eq!((texts, ceilings, passed), trace());
}

/// Group A (1) has a best-effort limit above its demand, group B (2) has none. A read on a disk is
/// late if it takes more than 4.1 ms (the baseline latency) + 0.1 ms (the target). Of 100 reads of
/// A, `late_of_100` are late. Returns how many of 20 reads of B then pass.
fn passed_beside_a_group_with(late_of_100: u32) -> usize {
    let mut bench = Bench::new();
    bench.group(1, 0);
    bench.group(2, 0);
    bench.promise(1, 50_000_000);
    for n in 0..100 {
        assert_eq!(bench.submit(1, Operation::Read, PAGE), Verdict::Pass);
        let (id, submitted) = (bench.next - 1, bench.now);
        bench.until(bench.now / MS - 1_000 + if n * late_of_100 % 100 < late_of_100 { 5 } else { 3 });
        bench.throttle.bio_ended(BioId(id), &bench.bios[id as usize], submitted, bench.now);
    }
    bench.reads(2, 20);
    bench.by(u64::MAX, 2)
}

#[test]
fn t26_a_group_is_protected_while_a_fifth_of_its_bios_come_late() {
    assert_eq!(passed_beside_a_group_with(15), 20, "its target is met, so every group may use the whole device");
    assert_eq!(passed_beside_a_group_with(25), 1, "ten I/Os a second are left: one in a slice of 100 ms");
}

#[test]
fn a_change_of_hierarchy_files_what_waits_anew() {
    let mut bench = Bench::new();
    bench.group(1, 0);
    bench.group(2, 1);
    bench.limit(1, reads_per_s(MIB));
    bench.limit(2, reads_per_s(MIB));
    bench.reads(2, 200);
    for hierarchy in [0, 1, 0] {
        bench.throttle.set(1, hierarchy, bench.now).expect("a switch");
        bench.collect();
        let before = bench.passed.len();
        bench.until(100 * (before as u64 / 25 + 1));
        assert!(bench.passed.len() > before && bench.passed.len() < 200, "{before}");
    }
    bench.until(3_000);
    assert_eq!((bench.passed.len(), bench.throttle.held()), (200, 0));
}

#[test]
fn the_page_has_the_rows() {
    hoistway_testbed::check_table("limiters/throttle.md", Bench::new().throttle.tunables());
}
