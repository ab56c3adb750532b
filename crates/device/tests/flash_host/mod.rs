//! A host for the flash model: jobs that keep commands in flight and take some time to process a
//! completion.

pub mod dd;
pub mod presets;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{Command, Completion, Device, Flash, FlashParameters, NEVER, Submit};

/// A device with these settings under seed 1.
pub fn flash(parameters: &FlashParameters) -> Flash {
    assert_eq!(parameters.check(), Ok(()));
    Flash::new("flash", parameters, Stream::of(1, "dev0"))
}

/// Submits a command and asserts that it is accepted.
pub fn submit(device: &mut Flash, now: Nanos, tag: u32, operation: Operation, flags: Flags, extent: Extent) {
    let command = Command { tag, operation, flags, extent, hardware_queue: HardwareQueue(0) };
    assert_eq!(device.submit(now, &command), Submit::Accepted);
}

/// Runs until `tag` has completed; returns the time.
pub fn wait_for(device: &mut Flash, tag: u32) -> Nanos {
    let mut completions = Vec::new();
    loop {
        let now = device.next_event();
        assert_ne!(now, NEVER, "{tag} is in flight");
        device.advance(now, &mut completions);
        if let Some(completion) = completions.drain(..).find(|completion| completion.tag == tag) {
            assert!(completion.status.is_ok());
            return completion.at_ns;
        }
    }
}

/// A closed loop of commands of one size.
pub struct Job {
    pub operation: Operation,
    pub depth: usize,
    pub sectors: u32,
    /// From the completion of a command to the submission of the next.
    pub host_ns: Nanos,
    /// Least time between two submissions.
    pub interval_ns: Nanos,
    /// Next block of a sequential job; random without.
    pub sequential: Option<u64>,
    pub stream: Stream,
    /// Latencies from submission to the end of the host's part, in order of completion.
    pub latencies_ns: Vec<Nanos>,
    pub next_issue_at: Nanos,
}

impl Job {
    /// Random commands of 4 KiB over the whole device.
    pub fn random(operation: Operation, depth: usize, seed: u64) -> Self {
        Self {
            operation,
            depth,
            sectors: 8,
            host_ns: 3_000,
            interval_ns: 0,
            sequential: None,
            stream: Stream::of(seed, "proc"),
            latencies_ns: Vec::new(),
            next_issue_at: 0,
        }
    }

    /// Consecutive commands of `sectors`.
    pub fn sequential(operation: Operation, depth: usize, sectors: u32) -> Self {
        Self { sectors, sequential: Some(0), ..Self::random(operation, depth, 1) }
    }

    fn extent(&mut self, capacity_sectors: u64) -> Extent {
        let blocks = capacity_sectors / u64::from(self.sectors);
        let block = match &mut self.sequential {
            Some(next) => {
                *next += 1;
                (*next - 1) % blocks
            }
            None => self.stream.below(blocks),
        };
        Extent::new(block * u64::from(self.sectors), self.sectors)
    }

    pub fn mean_latency_us(&self) -> f64 {
        self.latencies_ns.iter().sum::<Nanos>() as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    /// The latency that `percent` of the commands do not exceed.
    pub fn percentile_us(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * percent / 100] as f64 / 1e3
    }
}

/// The jobs of a device, in virtual time.
pub struct Host {
    pub device: Flash,
    pub jobs: Vec<Job>,
    pub now: Nanos,
    issues: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// By tag: its job and its time of submission.
    in_flight: Vec<(usize, Nanos)>,
    completions: Vec<Completion>,
}

impl Host {
    /// All jobs start at time 0.
    pub fn new(device: Flash, jobs: Vec<Job>) -> Self {
        let mut host =
            Self { device, now: 0, issues: BinaryHeap::new(), in_flight: Vec::new(), completions: Vec::new(), jobs };
        for (index, job) in host.jobs.iter().enumerate() {
            for _ in 0..job.depth {
                host.issues.push(Reverse((0, host.in_flight.len())));
                host.in_flight.push((index, 0));
            }
        }
        host
    }

    /// Runs to time `until`; later completions belong to the next period. Returns commands per
    /// second of each job.
    pub fn run(&mut self, until: Nanos) -> Vec<f64> {
        self.jobs.iter_mut().for_each(|job| job.latencies_ns.clear());
        let begin = self.now;
        loop {
            let issue_at = self.issues.peek().map_or(NEVER, |Reverse((at, _))| *at);
            let event_at = self.device.next_event();
            if issue_at.min(event_at) > until {
                break;
            }
            if event_at <= issue_at {
                self.complete(event_at);
            } else {
                self.issue(issue_at);
            }
        }
        self.now = until;
        self.jobs.iter().map(|job| job.latencies_ns.len() as f64 * 1e9 / (until - begin) as f64).collect()
    }

    fn issue(&mut self, now: Nanos) {
        let Some(Reverse((_, tag))) = self.issues.pop() else { return };
        let (job, submitted_at) = &mut self.in_flight[tag];
        *submitted_at = now;
        let job = &mut self.jobs[*job];
        let extent = job.extent(self.device.info().capacity_sectors);
        let tag = u32::try_from(tag).unwrap();
        submit(&mut self.device, now, tag, job.operation, Flags::NONE, extent);
    }

    fn complete(&mut self, now: Nanos) {
        self.device.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            assert!(completion.status.is_ok() && completion.at_ns <= now);
            let tag = completion.tag as usize;
            let (job, submitted_at) = self.in_flight[tag];
            let job = &mut self.jobs[job];
            let answered_at = completion.at_ns + job.host_ns;
            job.latencies_ns.push(answered_at - submitted_at);
            let at = answered_at.max(job.next_issue_at);
            job.next_issue_at = at + job.interval_ns;
            self.issues.push(Reverse((at, tag)));
        }
    }
}

/// Commands per second and mean latency in us of random 4 KiB reads, after a warm-up.
pub fn random_reads(parameters: &FlashParameters, depth: usize, run_ns: Nanos) -> (f64, f64) {
    let mut host = Host::new(flash(parameters), vec![Job::random(Operation::Read, depth, 1)]);
    host.run(20_000_000);
    let rate = host.run(20_000_000 + run_ns)[0];
    (rate, host.jobs[0].mean_latency_us())
}
