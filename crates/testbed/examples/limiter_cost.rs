//! Measures the cost of a limiter per bio: submitted, released, issued, completed, at a steady
//! number of bios in flight.
//!
//! ```text
//! cargo run --release -p hoistway-testbed --example limiter_cost -- loose|tight NAME BIOS TURNS [ROUNDS]
//! ```
//! Eight groups, half of the bios reads and half buffered writes of 4 KiB, a device of 100,000 I/Os
//! per second. `loose`: limits and targets that are never reached. `tight`: each group may use a
//! hundredth of the device (throttle), the first group asks for a latency that it cannot get
//! (io.latency) or for most of the device (io.cost). Prints the nanoseconds per bio of the fastest
//! round, and the number of bios that the limiter holds after the last round; `bench/policies/run`
//! runs it for all limiters, and again under callgrind.

use hoistway_block::{Extent, GroupId, Nanos, Operation, Status, random::Stream};
use hoistway_elevator::limiters::{self, AnyLimiter};
use hoistway_elevator::{
    Bio, BioId, Depth, GroupSettings, IoLimits, Limiter, LimiterConfiguration, Rates, RequestEnd, Verdict,
};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;

const GROUPS: u32 = 8;
/// The device serves one request at a time, for this long each.
const SERVICE_NS: Nanos = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Some(default), |text| text.parse().ok());
    let parsed = (arguments.first(), arguments.get(1), number(2, 0), number(3, 0), number(4, 1));
    let (Some(how), Some(name), Some(bios @ 1..=30_000), Some(turns @ 1..), Some(rounds @ 1..)) = parsed else {
        eprintln!("usage: limiter_cost loose|tight NAME BIOS TURNS [ROUNDS]   (BIOS up to 30000)");
        return ExitCode::from(2);
    };
    let bios = u32::try_from(bios).expect("in range");
    let mut bench = Bench::new(name, how == "tight", bios);
    let mut fewest = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..turns {
            bench.turn();
        }
        fewest = fewest.min(start.elapsed().as_nanos() as f64 / turns as f64);
    }
    println!("{fewest:.1} {}", bench.limiter.held());
    ExitCode::SUCCESS
}

/// A limiter between submitters with a constant number of bios in flight, and a device that serves
/// in order.
struct Bench {
    limiter: AnyLimiter,
    bios: Vec<(Bio, Nanos)>,
    in_device: VecDeque<u32>,
    places: Stream,
    now: Nanos,
}

impl Bench {
    fn new(name: &str, is_tight: bool, bios: u32) -> Self {
        let configuration = LimiterConfiguration {
            bios,
            groups: GROUPS + 1,
            depth: Depth { requests: 256, device: 32 },
            rotational: false,
            volatile_cache: true,
            tick_ns: 0,
        };
        let mut limiter = limiters::build(name, &configuration).expect("a limiter of that name");
        let now = 1_000_000_000;
        for group in 1..=GROUPS {
            let is_first = group == 1;
            let weight = if is_first && is_tight { 10_000 } else { 100 };
            let latency_target_ns = match (name, is_tight) {
                ("io.latency", true) if is_first => 20_000,
                ("io.latency", false) => 60_000_000_000,
                _ => 0,
            };
            let settings = GroupSettings { latency_target_ns, ..GroupSettings::with_weight(weight) };
            limiter.group_added(GroupId(group), &settings, now);
            if name == "throttle" {
                let (ios, bytes) = if is_tight { (500, u64::MAX) } else { (4_000_000_000, 1 << 60) };
                let max = Rates { bytes_per_s: [bytes; 2], ios_per_s: [ios; 2] };
                limiter.limits_changed(GroupId(group), &IoLimits { max, ..IoLimits::NONE }, now);
            }
        }
        let table = vec![(Bio::new(Operation::Read, Extent::new(0, 8)), now); bios as usize];
        let in_device = VecDeque::with_capacity(bios as usize);
        let mut bench = Self { limiter, bios: table, in_device, places: Stream::new(7), now };
        (0..bios).for_each(|id| bench.submit(id));
        bench
    }

    fn submit(&mut self, id: u32) {
        let operation = if id.is_multiple_of(2) { Operation::Read } else { Operation::Write };
        let mut bio = Bio::new(operation, Extent::new(self.places.next() >> 34 << 3, 8));
        bio.group = GroupId(1 + id / 2 % GROUPS);
        self.bios[id as usize] = (bio, self.now);
        if self.limiter.submit(BioId(id), &bio, self.now) == Verdict::Pass {
            self.begin(id);
        }
        self.take_released();
    }

    fn begin(&mut self, id: u32) {
        self.limiter.issued(&self.bios[id as usize].0, self.now);
        self.in_device.push_back(id);
    }

    fn take_released(&mut self) {
        while let Some(BioId(id)) = self.limiter.next_released(self.now) {
            self.begin(id);
        }
    }

    fn pass_to(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        if self.limiter.next_timer().is_some_and(|at| at <= self.now) {
            self.limiter.timer(self.now);
            self.take_released();
        }
    }

    /// Completes one bio, for which its submitter sends another.
    fn turn(&mut self) {
        while self.in_device.is_empty() {
            let at = self.limiter.next_timer().expect("what is held waits for something");
            self.pass_to(at);
        }
        self.pass_to(self.now + SERVICE_NS);
        let Some(id) = self.in_device.pop_front() else { return };
        let (attributes, submitted_ns) = self.bios[id as usize];
        let end = RequestEnd { attributes, start_ns: submitted_ns, issued_ns: submitted_ns, status: Status::Ok };
        self.limiter.request_ended(&end, self.now);
        self.limiter.bio_ended(BioId(id), &attributes, submitted_ns, self.now);
        self.take_released();
        self.submit(id);
    }
}
