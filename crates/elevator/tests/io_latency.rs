//! io.latency: the numbered cases of docs/specifications/throttle.md, section 10, that concern
//! io.latency alone, and its other documented properties.

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation};
use hoistway_elevator::io_latency::IoLatency;
use hoistway_elevator::{Bio, BioId, Depth, GroupSettings, Limiter, LimiterConfiguration, LimiterPolicy, Verdict};

const MS: Nanos = 1_000_000;
const ROOT: GroupId = GroupId::ROOT;

/// A limiter, the time, and the bios that the test submits to it.
struct Bench {
    limiter: IoLatency,
    now: Nanos,
    bios: Vec<(Bio, Nanos)>,
    free: Vec<u32>,
    /// Passed and not ended, oldest first.
    in_device: Vec<u32>,
}

impl Bench {
    /// On a disk, where a group's mean latency is compared with its target, or on flash, where the
    /// bios that miss it are counted. With 128 scheduler tags.
    fn on(rotational: bool) -> Self {
        let configuration = LimiterConfiguration {
            bios: 512,
            groups: 8,
            depth: Depth { requests: 128, device: 32 },
            rotational,
            volatile_cache: false,
            tick_ns: 0,
        };
        let limiter = IoLatency::build(&configuration).expect("memory");
        let bios = vec![(Bio::new(Operation::Read, Extent::default()), 0); 512];
        Self { limiter, now: 10_000 * MS, bios, free: (0..512).rev().collect(), in_device: Vec::new() }
    }

    fn group(&mut self, group: u32, parent: u32, target_ms: u64) {
        self.limiter.group_added(GroupId(group), &settings(parent, target_ms), self.now);
    }

    fn target(&mut self, group: u32, parent: u32, target_ms: u64) {
        self.limiter.group_changed(GroupId(group), &settings(parent, target_ms), self.now);
        self.collect();
    }

    /// Returns the bio's number and whether it passed.
    fn submit_as(&mut self, group: u32, flags: Flags) -> (u32, bool) {
        let id = self.free.pop().expect("few are about");
        let bio = Bio { group: GroupId(group), flags, ..Bio::new(Operation::Read, Extent::new(u64::from(id) * 8, 8)) };
        self.bios[id as usize] = (bio, self.now);
        let has_passed = self.limiter.submit(BioId(id), &bio, self.now) == Verdict::Pass;
        if has_passed {
            self.in_device.push(id);
        }
        self.collect();
        (id, has_passed)
    }

    fn submit(&mut self, group: u32) -> bool {
        self.submit_as(group, Flags::NONE).1
    }

    /// Submits `count` bios and returns how many pass.
    fn flood(&mut self, group: u32, count: usize) -> usize {
        (0..count).filter(|_| self.submit(group)).count()
    }

    fn collect(&mut self) {
        while let Some(BioId(id)) = self.limiter.next_released(self.now) {
            self.in_device.push(id);
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.limiter.check(), Ok(()));
        assert_eq!(self.limiter.violations(), 0);
    }

    fn end(&mut self, id: u32) {
        let place = self.in_device.iter().position(|other| *other == id).expect("it has passed");
        self.in_device.remove(place);
        self.free.push(id);
        let (bio, submitted) = self.bios[id as usize];
        self.limiter.bio_ended(BioId(id), &bio, submitted, self.now);
        self.collect();
    }

    /// Submits a bio, which must pass at once, and ends it as if it had taken `took`. The clock
    /// does not move.
    fn one(&mut self, group: u32, took: Nanos) {
        let (id, has_passed) = self.submit_as(group, Flags::NONE);
        assert!(has_passed, "group {group} is held up");
        self.bios[id as usize].1 = self.now - took;
        self.end(id);
    }

    /// Runs for `ms` ms with one bio of the group per ms, each taking `took`; calls the timer when
    /// due.
    fn run(&mut self, ms: u64, group: u32, took: Nanos) {
        for _ in 0..ms {
            self.now += MS;
            if self.limiter.next_timer().is_some_and(|at| at <= self.now) {
                self.limiter.timer(self.now);
                self.collect();
            }
            self.one(group, took);
        }
    }

    fn depth(&self, group: u32) -> Option<u32> {
        self.limiter.statistics(GroupId(group)).depth
    }

    fn below(&self) -> u32 {
        self.limiter.throttling_below(ROOT)
    }

    /// Submits and ends one bio of a group, which makes the group adopt the depth that is now
    /// prescribed for it; returns that depth.
    fn told(&mut self, group: u32) -> Option<u32> {
        self.one(group, MS);
        self.depth(group)
    }
}

fn settings(parent: u32, target_ms: u64) -> GroupSettings {
    GroupSettings { parent: GroupId(parent), latency_target_ns: target_ms * MS, ..GroupSettings::with_weight(100) }
}

/// On a disk: group 1 (A) with a target of 10 ms, and group 2 (B).
fn a_and_b(target_of_b_ms: u64) -> Bench {
    let mut bench = Bench::on(true);
    bench.group(1, 0, 10);
    bench.group(2, 0, target_of_b_ms);
    bench
}

#[test]
fn t29_a_missed_target_halves_the_siblings_and_a_kept_one_widens_them() {
    let mut bench = a_and_b(0);
    assert_eq!(bench.flood(2, 128), 128, "no group has missed its target yet");
    // A window is 16 targets long: 160 ms.
    bench.run(159, 1, 20 * MS);
    assert_eq!(bench.below(), 0);
    bench.run(1, 1, 20 * MS);
    assert_eq!((bench.below(), bench.depth(2)), (32, None), "B has not looked yet");
    assert!(!bench.submit(2), "128 are in flight");
    assert_eq!((bench.depth(2), bench.limiter.protected_below(ROOT)), (Some(64), Some(GroupId(1))));

    // The next change comes at the end of the first window that ends at least 500 ms later.
    let mut depths = Vec::new();
    let mut changed_at = vec![bench.now];
    while depths.last() != Some(&1) {
        let before = bench.below();
        bench.run(1, 1, 20 * MS);
        if bench.below() != before {
            changed_at.push(bench.now);
            bench.submit(2);
            depths.push(bench.depth(2).expect("limited"));
        }
    }
    assert_eq!(depths, [32, 16, 8, 4, 2, 1]);
    assert!(changed_at.windows(2).all(|pair| pair[1] - pair[0] == 640 * MS), "{changed_at:?}");
}

#[test]
fn t29_each_step_is_logged() {
    let mut bench = a_and_b(0);
    bench.limiter.trace(true);
    // The parent of a group has a number, the cookie, that every change of the children's depth
    // lowers or raises. After every change B submits a bio while it has none in flight. B then
    // compares the cookie with the value that it last saw, and changes its depth.
    let mut after_changes = |count: usize, a_takes: Nanos| -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            let before = bench.below();
            while bench.below() == before {
                bench.run(1, 1, a_takes);
            }
            bench.told(2);
            while let Some(message) = bench.limiter.take_message() {
                let GroupId(group) = message.group.expect("all are about a group");
                told.push(format!("{group} {message}"));
            }
        }
        told
    };
    let down = [(32, 64), (64, 32), (96, 16), (128, 8), (160, 4), (161, 2), (162, 1)].map(|(below, depth)| {
        [format!("0 scale down, cookie {below} below default, target 10000us"), format!("2 depth {depth}")]
    });
    assert_eq!(after_changes(7, 20 * MS), down.concat());
    let line = |way: &str, below: u32| format!("0 scale {way}, cookie {below} below default, target 10000us");
    let delayed = |steps: u32| format!("2 delay steps {steps}");
    let expected = [line("down", 163), delayed(1), line("down", 164), delayed(2)];
    assert_eq!(after_changes(2, 20 * MS), expected, "depth 1 is the end");
    let expected = [line("up", 163), delayed(1), line("up", 162), delayed(0), line("up", 161), "2 depth 9".to_owned()];
    assert_eq!(after_changes(3, 5 * MS), expected);
}

#[test]
fn t29_the_way_back_is_a_sixteenth_at_a_time() {
    let mut bench = a_and_b(0);
    bench.run(160 + 2 * 640, 1, 20 * MS);
    // The parent's cookie is a number that every change of the children's depth lowers or raises. B
    // compares it for the first time after three changes, and nevertheless halves its depth only
    // once.
    assert_eq!((bench.below(), bench.told(2)), (96, Some(64)));
    let mut depths = Vec::new();
    while bench.below() > 0 {
        let before = bench.below();
        bench.run(1, 1, 5 * MS);
        if bench.below() != before {
            depths.push(bench.told(2));
        }
    }
    let steps: Vec<Option<u32>> = [72, 80, 88, 96, 104, 112, 120, 128, 128, 128, 128].map(Some).into();
    assert_eq!((&depths[..11], depths[11]), (&steps[..], None), "96 below the default are 12 steps");
}

#[test]
fn t30_a_group_with_few_samples_or_a_tighter_target_is_not_throttled() {
    // The depth of B after some windows in which A misses 10 ms, B meets its own target, and one
    // bio in `one_in` is B's.
    let depth_of_b = |target_ms: u64, one_in: u64| {
        let mut bench = a_and_b(target_ms);
        for n in 0..2_000 {
            bench.run(1, 1, 20 * MS);
            if n % one_in == 0 {
                bench.one(2, 3 * MS);
            }
        }
        assert!(bench.below() >= 96, "{}", bench.below());
        bench.depth(2)
    };
    assert_eq!(depth_of_b(50, 25), None, "4 % of the samples");
    assert!(depth_of_b(50, 10).is_some(), "9 % of the samples, and a looser target");
    assert_eq!(depth_of_b(5, 1), None, "a tighter target");
    assert_eq!(depth_of_b(10, 1), None, "the same target");
    assert!(depth_of_b(0, 25).is_some(), "no target");
}

#[test]
fn t31_on_flash_a_tenth_of_the_bios_may_miss() {
    // 100 bios in one window of 100 ms.
    let after = |missed: u64| {
        let mut bench = Bench::on(false);
        bench.group(1, 0, 1);
        bench.run(100 - missed, 1, MS - 1);
        bench.run(missed, 1, MS);
        bench.below()
    };
    assert_eq!((after(9), after(10)), (0, 32));
}

#[test]
fn t32_when_the_protected_group_stops_the_others_come_back() {
    let mut bench = a_and_b(0);
    bench.run(160, 1, 20 * MS);
    assert_eq!((bench.below(), bench.told(2)), (32, Some(64)));
    let missed_at = bench.now;
    let mut changes = Vec::new();
    let mut forgotten_at = None;
    while bench.below() > 0 {
        let before = bench.below();
        bench.run(1, 2, MS);
        if bench.limiter.protected_below(ROOT).is_none() && forgotten_at.is_none() {
            forgotten_at = Some((bench.now - missed_at) / MS);
        }
        if bench.below() != before {
            changes.push(((bench.now - missed_at) / MS, bench.depth(2)));
        }
    }
    // The timer runs once a second as long as bios arrive; each firing is armed by the bio after
    // the previous firing.
    let forgotten_at = forgotten_at.expect("A is forgotten");
    assert!((5_000..6_100).contains(&forgotten_at), "{forgotten_at}");
    let depths: Vec<_> = changes.iter().map(|(_, depth)| *depth).collect();
    assert_eq!(depths, [Some(72), Some(80), Some(88), None]);
    let spans: Vec<u64> = changes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(spans.iter().all(|span| (1_000..=1_001).contains(span)), "{spans:?}");
    assert!((1_000..=1_001).contains(&(changes[0].0 - forgotten_at)));
    assert_eq!(bench.flood(2, 300), 300);
}

#[test]
fn waiting_bios_pass_in_order_when_every_level_has_room() {
    let mut bench = Bench::on(true);
    bench.group(1, 0, 10);
    bench.group(2, 0, 0);
    bench.group(3, 2, 0);
    bench.group(4, 2, 0);
    bench.run(160 + 6 * 640, 1, 20 * MS);
    // Groups 3 and 4 are children of B, which is throttled to a depth of 64.
    assert_eq!((bench.flood(3, 60), bench.flood(4, 60)), (60, 4));
    assert_eq!((bench.depth(2), bench.depth(3), bench.limiter.held()), (Some(64), None, 56));
    let before = bench.in_device.clone();
    for id in before.iter().take(10) {
        bench.end(*id);
    }
    let released = bench.in_device[bench.in_device.len() - 10..].to_vec();
    assert!(released.windows(2).all(|pair| pair[0] < pair[1]), "numbers rise as they are given out: {released:?}");
    assert_eq!(bench.limiter.statistics(GroupId(2)).in_flight, 64);
    assert_eq!(
        bench.limiter.statistics(GroupId(4)).in_flight,
        60,
        "those that wait above have room in their own group"
    );
}

#[test]
fn bios_issued_for_the_root_do_not_wait_and_are_paid_for_later() {
    let mut bench = Bench::on(true);
    bench.group(1, 0, 10);
    bench.group(2, 0, 50);
    // B keeps its own target. Seven changes reduce its depth from 128 to 1; further changes cannot
    // reduce it.
    while bench.depth(2) != Some(1) {
        bench.run(1, 1, 20 * MS);
        bench.one(2, 30 * MS);
    }
    assert!(bench.submit(2));
    assert!(!bench.submit(2), "one is in flight");
    let (metadata, has_passed) = bench.submit_as(2, Flags::META);
    assert!(has_passed && bench.submit_as(2, Flags::SWAP).1);
    // The group's processes are delayed only after a change that could not reduce the depth
    // further, and there was none yet.
    bench.bios[metadata as usize].1 = bench.now - 20 * MS;
    bench.end(metadata);
    assert_eq!(bench.limiter.delay_ns(GroupId(2), bench.now), 0);
    let waiting = bench.limiter.held();
    while bench.limiter.delay_ns(GroupId(2), bench.now) == 0 {
        bench.run(1, 1, 20 * MS);
        // A bio that is issued for the root (metadata, swap) also makes its group compare the
        // cookie, the parent's number that every change of depth alters. But it does not count in
        // the group's latency.
        let (id, has_passed) = bench.submit_as(2, Flags::META);
        assert!(has_passed);
        bench.end(id);
        assert_eq!(bench.limiter.held(), waiting);
        assert!(bench.now < 20_000 * MS + 100_000 * MS);
    }
    let due = bench.limiter.delay_ns(GroupId(2), bench.now);
    assert!(due > 0 && due <= 250 * MS, "{due}");
    assert_eq!(bench.limiter.delay_ns(GroupId(1), bench.now), 0);
    bench.target(1, 0, 0);
    bench.target(2, 0, 0);
    assert_eq!((bench.limiter.delay_ns(GroupId(2), bench.now), bench.limiter.held()), (0, 0));
}

#[test]
fn without_a_target_nothing_is_counted_and_removing_the_last_releases_all() {
    let mut bench = Bench::on(true);
    bench.group(1, 0, 0);
    bench.group(2, 0, 0);
    assert_eq!(bench.flood(2, 100), 100);
    assert_eq!((bench.limiter.statistics(GroupId(2)).in_flight, bench.limiter.next_timer()), (0, None));
    bench.target(1, 0, 10);
    bench.run(160, 1, 20 * MS);
    assert_eq!(bench.flood(2, 100), 64, "those that came before are not counted");
    bench.target(1, 0, 0);
    assert_eq!((bench.limiter.held(), bench.depth(2), bench.below(), bench.limiter.next_timer()), (0, None, 0, None));
    // Every counted bio is uncounted when it ends.
    while let Some(id) = bench.in_device.first().copied() {
        bench.end(id);
    }
    assert_eq!(bench.limiter.statistics(GroupId(2)).in_flight, 0);
}

#[test]
fn a_change_of_target_or_the_end_of_a_group_begins_anew() {
    let mut bench = a_and_b(0);
    bench.group(3, 0, 30);
    bench.run(160, 1, 20 * MS);
    assert_eq!((bench.below(), bench.told(2)), (32, Some(64)));
    bench.target(1, 0, 15);
    assert_eq!((bench.below(), bench.limiter.protected_below(ROOT)), (0, None));
    assert_eq!(bench.told(2), None);
    bench.run(240 + 640, 1, 20 * MS);
    assert!(bench.below() > 0);
    bench.limiter.group_offline(GroupId(1), bench.now);
    bench.limiter.group_removed(GroupId(1), bench.now);
    bench.collect();
    assert_eq!((bench.below(), bench.told(2)), (0, None));
}

#[test]
fn a_drain_releases_from_all_levels_and_limits_go_on() {
    let mut bench = Bench::on(true);
    bench.group(1, 0, 10);
    bench.group(2, 0, 0);
    bench.group(3, 2, 0);
    bench.run(160, 1, 20 * MS);
    assert_eq!((bench.flood(3, 100), bench.limiter.held()), (64, 36));
    bench.limiter.drain(bench.now);
    bench.collect();
    assert_eq!((bench.limiter.held(), bench.in_device.len()), (0, 100));
    assert_eq!(bench.flood(3, 10), 0);
}

#[test]
fn statistics_show_the_average_of_a_disk_and_the_misses_of_flash() {
    let mut bench = a_and_b(0);
    bench.run(1_600, 1, 8 * MS);
    let shown = bench.limiter.statistics(GroupId(1));
    assert_eq!((shown.window_ns, shown.depth), (160 * MS, None));
    // In each of ten windows the average moves towards 8 ms by a 683rd of the distance.
    assert!((100_000..120_000).contains(&shown.average_ns), "{}", shown.average_ns);
    let mut bench = Bench::on(false);
    bench.group(1, 0, 10);
    bench.run(50, 1, 10 * MS);
    let shown = bench.limiter.statistics(GroupId(1));
    assert_eq!((shown.missed, shown.total, shown.average_ns), (50, 50, 0));
}

/// A random number below `many`.
fn any_of(random: &mut Stream, many: usize) -> usize {
    usize::try_from(random.below(many as u64)).expect("below a usize")
}

/// Verdicts, releases and messages of a random run.
fn random_run(seed: u64) -> String {
    let mut random = Stream::new(seed);
    let mut bench = Bench::on(seed.is_multiple_of(2));
    bench.limiter.trace(true);
    for (group, parent, target) in [(1, 0, 5), (2, 0, 0), (3, 2, 20), (4, 2, 0), (5, 1, 3)] {
        bench.group(group, parent, target);
    }
    let mut text = String::new();
    for _ in 0..20_000 {
        bench.now += random.below(4 * MS);
        if bench.limiter.next_timer().is_some_and(|at| at <= bench.now) {
            bench.limiter.timer(bench.now);
            bench.collect();
        }
        let many = bench.in_device.len();
        if many > 100 || bench.free.len() < 200 || (many > 0 && random.below(2) == 0) {
            let id = bench.in_device[any_of(&mut random, many)];
            bench.end(id);
        } else {
            let flags = if random.below(20) == 0 { Flags::META } else { Flags::NONE };
            bench.submit_as(u32::try_from(random.below(6)).expect("few"), flags);
        }
        text += &format!("{} {:?}\n", bench.limiter.held(), bench.in_device.last());
        while let Some(message) = bench.limiter.take_message() {
            text += &format!("{} {:?} {message}\n", message.at_ns, message.group);
        }
    }
    text
}

#[test]
fn t45_the_same_calls_give_the_same_trace() {
    let first = random_run(7);
    assert!(first.contains("scale down, cookie 32 below default, target 5000us") && first.contains("depth 64"));
    assert_eq!(first, random_run(7));
    assert_ne!(first, random_run(9));
}
