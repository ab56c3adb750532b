//! The claims of docs/limiters/rate.md, in simulated time.

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation};
use hoistway_elevator::limiter::{Limiter, LimiterConfiguration, LimiterPolicy, Verdict};
use hoistway_elevator::limiters::AnyLimiter;
use hoistway_elevator::rate::Rate;
use hoistway_elevator::{Attributes, BioId, Ceiling, Ceilings, Depth, GroupSettings, IoLimits};

const SECOND: Nanos = 1_000_000_000;
const BIOS: u32 = 4_096;

/// A bio that went: when, in which group, and what it was.
#[derive(Copy, Clone, Debug)]
struct Passed {
    at: Nanos,
    group: u32,
    is_read: bool,
    bytes: u64,
    counts: bool,
}

struct Bench {
    limiter: Rate,
    parents: Vec<u32>,
    ceilings: Vec<Ceilings>,
    bios: Vec<Option<(Nanos, Attributes)>>,
    passed: Vec<Passed>,
    now: Nanos,
}

impl Bench {
    fn new(parents: &[u32]) -> Self {
        let configuration = LimiterConfiguration {
            bios: BIOS,
            groups: u32::try_from(parents.len()).unwrap(),
            depth: Depth { requests: 128, device: 32 },
            rotational: false,
            volatile_cache: false,
            tick_ns: 0,
        };
        let mut limiter = Rate::build(&configuration).unwrap();
        for (group, parent) in (0..).zip(parents).skip(1) {
            let settings = GroupSettings { parent: GroupId(*parent), ..GroupSettings::with_weight(100) };
            limiter.group_added(GroupId(group), &settings, 0);
        }
        let ceilings = vec![Ceilings::NONE; parents.len()];
        Self {
            limiter,
            parents: parents.to_vec(),
            ceilings,
            bios: vec![None; BIOS as usize],
            passed: Vec::new(),
            now: 0,
        }
    }

    fn limit(&mut self, group: u32, ceilings: Ceilings) {
        self.ceilings[group as usize] = ceilings;
        let limits = IoLimits { ceilings, ..IoLimits::NONE };
        self.limiter.limits_changed(GroupId(group), &limits, self.now);
        self.take_released();
    }

    fn submit(&mut self, group: u32, operation: Operation, sectors: u32, flags: Flags) -> bool {
        let Some(id) = self.bios.iter().position(Option::is_none) else { return false };
        let bio = Attributes { group: GroupId(group), flags, ..Attributes::new(operation, Extent::new(0, sectors)) };
        self.bios[id] = Some((self.now, bio));
        let id = BioId(u32::try_from(id).unwrap());
        if self.limiter.submit(id, &bio, self.now) == Verdict::Pass {
            self.pass(id);
        }
        self.take_released();
        true
    }

    fn pass(&mut self, BioId(id): BioId) {
        let (_, bio) = self.bios[id as usize].take().expect("released once");
        self.passed.push(Passed {
            at: self.now,
            group: bio.group.0,
            is_read: bio.operation == Operation::Read,
            bytes: u64::from(bio.extent.sectors) * 512,
            counts: !bio.flags.contains(Flags::IO_CHARGED),
        });
    }

    /// Takes a random held bio back.
    fn withdraw(&mut self, stream: &mut Stream) {
        let held: Vec<usize> = (0..self.bios.len()).filter(|at| self.bios[*at].is_some()).collect();
        if held.is_empty() {
            return;
        }
        let id = held[usize::try_from(stream.below(held.len() as u64)).unwrap()];
        self.bios[id] = None;
        self.limiter.withdrawn(BioId(u32::try_from(id).unwrap()), self.now);
        self.take_released();
    }

    fn take_released(&mut self) {
        while let Some(id) = self.limiter.next_released(self.now) {
            self.pass(id);
        }
        self.limiter.check().unwrap();
    }

    /// Runs the timers up to a time.
    fn run_until(&mut self, until: Nanos) {
        while let Some(at) = self.limiter.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.limiter.timer(self.now);
            self.take_released();
        }
        self.now = until;
    }

    fn is_below(&self, group: u32, above: u32) -> bool {
        let mut at = group;
        while at != above && at != 0 {
            at = self.parents[at as usize];
        }
        at == above
    }

    /// Checks each ceiling of each group in all windows that begin and end with a bio.
    fn check_ceilings(&self) {
        for (group, ceilings) in (0..).zip(&self.ceilings) {
            let kinds = [(ceilings.read, Some(true)), (ceilings.write, Some(false)), (ceilings.total, None)];
            for (ceiling, kind) in kinds {
                let of_it = |it: &&Passed| kind.is_none_or(|kind| it.is_read == kind) && self.is_below(it.group, group);
                let all: Vec<Passed> = self.passed.iter().filter(of_it).copied().collect();
                check_windows(&all, ceiling.bytes_per_s, ceilings.burst_ns, |it| it.bytes);
                check_windows(&all, ceiling.ios_per_s, ceilings.burst_ns, |it| u64::from(it.counts));
            }
        }
    }
}

/// In each window, no more than rate x (length + burst) and one bio.
fn check_windows(all: &[Passed], rate: u64, burst_ns: Nanos, amount: impl Fn(&Passed) -> u64) {
    if rate == u64::MAX {
        return;
    }
    // The worst window that ends with a bio begins with one: keep the largest lead of its start.
    let mut worst: Option<i128> = None;
    let mut sum: i128 = 0;
    let paid = |ns: Nanos| i128::from(ns) * i128::from(rate);
    for it in all {
        let start = sum * i128::from(SECOND) - paid(it.at);
        let base = worst.map_or(start, |worst| worst.min(start));
        worst = Some(base);
        sum += i128::from(amount(it));
        let before_it = (sum - i128::from(amount(it))) * i128::from(SECOND) - paid(it.at) - base;
        assert!(before_it <= paid(burst_ns) + i128::from(SECOND), "{it:?} comes too early for {rate} per second");
    }
}

fn random_ceiling(stream: &mut Stream) -> Ceiling {
    let any = |stream: &mut Stream, bits: u64| {
        let most = 1 << stream.below(bits);
        if stream.chance(1, 2) { u64::MAX } else { 1 + stream.below(most) }
    };
    Ceiling { bytes_per_s: any(stream, 30), ios_per_s: any(stream, 12) }
}

/// Random rates from 1 per second up, sizes, arrivals, nested groups, late timers, changes of limits.
#[test]
fn no_window_holds_more_than_the_rate_the_burst_and_one_bio() {
    for seed in 0..60 {
        let mut stream = Stream::new(seed);
        let mut bench = Bench::new(&[0, 0, 0, 1, 1, 2, 3]);
        for group in 0..7 {
            let burst_ns = 1 + stream.below(SECOND);
            let [read, write, total] = std::array::from_fn(|_| random_ceiling(&mut stream));
            bench.limit(group, Ceilings { read, write, total, burst_ns });
        }
        for _ in 0..2_000 {
            let operations = [Operation::Read, Operation::Write, Operation::WriteZeroes];
            let operation = operations[usize::try_from(stream.below(3)).unwrap()];
            let flags = if stream.chance(1, 4) { Flags::IO_CHARGED } else { Flags::NONE };
            let group = u32::try_from(stream.below(7)).unwrap();
            let most_sectors = 1 << stream.below(12);
            let sectors = 1 + u32::try_from(stream.below(most_sectors)).unwrap();
            bench.submit(group, operation, sectors, flags);
            if stream.chance(1, 5) {
                bench.withdraw(&mut stream);
            }
            if stream.chance(1, 3) {
                let late = bench.now + stream.below(SECOND);
                if stream.chance(1, 8) {
                    // A timer that is late by up to a second.
                    bench.now = late;
                }
                bench.run_until(late);
            }
        }
        bench.check_ceilings();
        bench.limiter.drain(bench.now);
        bench.take_released();
        assert_eq!((bench.limiter.held(), bench.limiter.violations()), (0, 0), "seed {seed}");
        assert!(bench.bios.iter().all(Option::is_none), "seed {seed}");
    }
}

/// With bios waiting all the time, a group gets its rate less one bio, whatever the rate, the sizes and
/// the kind of the ceiling, also from a parent's.
#[test]
fn a_busy_group_gets_its_rate() {
    for seed in 0..200 {
        let mut stream = Stream::new(seed);
        let most_rate = 1 << stream.below(10);
        let rate = 1 + stream.below(most_rate);
        let is_bytes = stream.chance(1, 2);
        let most_sectors = 1 << stream.below(11);
        let value = if is_bytes { rate * 512 * most_sectors } else { rate };
        let ceiling = if is_bytes {
            Ceiling { bytes_per_s: value, ..Ceiling::NONE }
        } else {
            Ceiling { ios_per_s: value, ..Ceiling::NONE }
        };
        let ceilings = match stream.below(3) {
            0 => Ceilings { read: ceiling, ..Ceilings::NONE },
            1 => Ceilings { write: ceiling, ..Ceilings::NONE },
            _ => Ceilings { total: ceiling, ..Ceilings::NONE },
        };
        let is_read = ceilings.read != Ceiling::NONE;
        let mut bench = Bench::new(&[0, 0, 1]);
        bench.limit(1 + u32::from(stream.chance(1, 2)), ceilings);
        let seconds = 20;
        let most = u32::try_from(most_sectors).unwrap();
        let mut held = 0;
        for step in 0..seconds * 50 {
            // Enough bios wait at any time.
            while bench.limiter.held() < 200 && bench.passed.len() < 60_000 {
                let is_write = !is_read && (ceilings.write != Ceiling::NONE || stream.chance(1, 2));
                let operation = if is_write { Operation::Write } else { Operation::Read };
                let sectors = 1 + u32::try_from(stream.below(u64::from(most))).unwrap();
                bench.submit(2, operation, sectors, Flags::NONE);
            }
            held += bench.limiter.held();
            bench.run_until((step + 1) * SECOND / 50);
        }
        assert!(held > 0);
        let amount = |it: &Passed| if is_bytes { it.bytes } else { 1 };
        let sum: u64 = bench.passed.iter().map(amount).sum();
        let one = if is_bytes { u64::from(most) * 512 } else { 1 };
        let least = (value * seconds).saturating_sub(one);
        assert!(sum >= least || bench.passed.len() >= 60_000, "{sum} of {least} at {value} per second, seed {seed}");
        bench.check_ceilings();
    }
}

/// Rates of issue 48: throttle, as the kernel, gives 1.1, 1.6, 2.7 and 5.6.
#[test]
fn small_rates_are_the_rates() {
    for rate in [1, 2, 3, 5, 10] {
        let mut bench = Bench::new(&[0, 0]);
        bench.limit(1, Ceilings { write: Ceiling { ios_per_s: rate, ..Ceiling::NONE }, ..Ceilings::NONE });
        for _ in 0..1_000 {
            bench.submit(1, Operation::Write, 8, Flags::NONE);
        }
        bench.run_until(60 * SECOND);
        let count = bench.passed.len() as u64;
        assert!((60 * rate..=60 * rate + 2).contains(&count), "{count} at {rate} per second");
    }
}

#[test]
fn the_parts_of_a_request_are_one_io_and_do_not_wait_behind_others() {
    let mut bench = Bench::new(&[0, 0]);
    bench.limit(1, Ceilings { read: Ceiling { ios_per_s: 1, ..Ceiling::NONE }, burst_ns: 1, ..Ceilings::NONE });
    bench.submit(1, Operation::Read, 2_048, Flags::NONE);
    bench.submit(1, Operation::Read, 8, Flags::NONE);
    for _ in 0..31 {
        bench.submit(1, Operation::Read, 2_048, Flags::IO_CHARGED);
    }
    assert_eq!((bench.passed.len(), bench.limiter.held()), (32, 1));
    bench.run_until(SECOND);
    assert_eq!(bench.passed.len(), 33);
}

#[test]
fn reads_and_writes_share_a_total_and_groups_share_their_parent_s() {
    let mut bench = Bench::new(&[0, 0, 1, 1]);
    bench.limit(1, Ceilings { total: Ceiling { ios_per_s: 100, ..Ceiling::NONE }, ..Ceilings::NONE });
    for _ in 0..900 {
        bench.submit(2, Operation::Read, 8, Flags::NONE);
    }
    for _ in 0..900 {
        bench.submit(2, Operation::Write, 8, Flags::NONE);
        bench.submit(3, Operation::Write, 8, Flags::NONE);
    }
    bench.run_until(10 * SECOND);
    let count = |group, is_read| bench.passed.iter().filter(|it| it.group == group && it.is_read == is_read).count();
    // The two groups take turns, and in the first one reads and writes.
    let (reads, writes, others) = (count(2, true), count(2, false), count(3, false));
    assert!((245..=262).contains(&reads) && (245..=262).contains(&writes), "{reads} {writes}");
    assert!((495..=515).contains(&others), "{others}");
}

#[test]
fn a_limit_that_is_lifted_lets_everything_go_and_a_higher_one_counts_at_once() {
    let mut bench = Bench::new(&[0, 0]);
    let writes = |ios_per_s| Ceilings { write: Ceiling { ios_per_s, ..Ceiling::NONE }, ..Ceilings::NONE };
    bench.limit(1, writes(1));
    for _ in 0..500 {
        bench.submit(1, Operation::Write, 8, Flags::NONE);
    }
    bench.limit(1, writes(1_000));
    bench.run_until(SECOND / 10);
    assert!((99..=103).contains(&bench.passed.len()), "{}", bench.passed.len());
    bench.limit(1, Ceilings::NONE);
    assert_eq!((bench.passed.len(), bench.limiter.held()), (500, 0));
}

#[test]
fn it_is_among_the_limiters() {
    let names: Vec<_> = hoistway_elevator::limiters::LIMITERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.first(), Some(&"rate"));
    fn is_limiter(_: fn(Rate) -> AnyLimiter) {}
    is_limiter(AnyLimiter::Rate);
}
