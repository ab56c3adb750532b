//! Hosts for one disk: a closed loop of commands, and a queue in the host in front of the disk's
//! own.

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, Sector};
use hoistway_device::{Command, Completion, Device, Disk, DiskParameters, NEVER, Submit};

/// From the completion of a command to the next one of a closed loop.
pub const HOST_NS: Nanos = 20_000;

pub fn sata() -> DiskParameters {
    DiskParameters::default()
}

pub fn disk(parameters: &DiskParameters, seed: u64) -> Disk {
    parameters.check().expect("a consistent disk");
    Disk::new("disk", parameters, Stream::of(seed, "dev0"))
}

pub fn submit(disk: &mut Disk, now: Nanos, tag: u32, operation: Operation, extent: Extent, flags: Flags) {
    let command = Command { tag, operation, flags, extent, hardware_queue: HardwareQueue(0) };
    assert_eq!(disk.submit(now, &command), Submit::Accepted);
}

/// The results of a closed loop, in order of completion.
pub struct Outcome {
    pub latencies_ns: Vec<Nanos>,
    pub done_at: Vec<Nanos>,
    pub tags: Vec<u32>,
}

impl Outcome {
    /// Completions per second over the whole run.
    pub fn per_second(&self) -> f64 {
        self.done_at.len() as f64 * 1e9 / *self.done_at.last().unwrap() as f64
    }

    pub fn mean_ms(&self) -> f64 {
        self.latencies_ns.iter().sum::<Nanos>() as f64 / self.latencies_ns.len() as f64 / 1e6
    }

    /// The latency that `share` of the commands do not exceed.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let index = (share * (sorted.len() - 1) as f64).round();
        sorted[index as usize] as f64 / 1e6
    }

    pub fn max_ms(&self) -> f64 {
        self.percentile_ms(1.0)
    }
}

/// A command of a closed loop.
pub type Issue = (Operation, Extent, Flags);

/// Keeps `depth` commands in flight until `count` have completed; each is followed by the next of
/// `next` after `HOST_NS`. `next` gets the tag.
pub fn closed_loop(disk: &mut Disk, depth: u32, count: usize, mut next: impl FnMut(u32) -> Issue) -> Outcome {
    let mut outcome = Outcome { latencies_ns: Vec::new(), done_at: Vec::new(), tags: Vec::new() };
    // When each tag submits next; NEVER while it is in flight.
    let mut due: Vec<Nanos> = vec![0; depth as usize];
    let mut submitted = vec![0; depth as usize];
    let mut completions: Vec<Completion> = Vec::new();
    while outcome.done_at.len() < count {
        let (tag, at) = due.iter().copied().enumerate().min_by_key(|due| due.1).unwrap();
        let event = disk.next_event();
        assert!(event != NEVER || at != NEVER, "nothing in flight");
        if event <= at {
            disk.advance(event, &mut completions);
            for completion in completions.drain(..) {
                assert!(completion.status.is_ok() && completion.at_ns == event);
                let tag = completion.tag as usize;
                outcome.latencies_ns.push(event - submitted[tag]);
                outcome.done_at.push(event);
                outcome.tags.push(completion.tag);
                due[tag] = event + HOST_NS;
            }
        } else {
            let (operation, extent, flags) = next(tag as u32);
            submit(disk, at, tag as u32, operation, extent, flags);
            submitted[tag] = at;
            due[tag] = NEVER;
        }
    }
    outcome
}

/// Commands of `sectors` anywhere in the first `share` of the disk.
pub fn random(
    disk: &Disk,
    operation: Operation,
    sectors: u32,
    share: f64,
    seed: u64,
) -> impl FnMut(u32) -> Issue + use<> {
    let mut stream = Stream::new(seed);
    let places = (disk.info().capacity_sectors as f64 * share) as u64 / u64::from(sectors);
    move |_| (operation, Extent::new(stream.below(places) * u64::from(sectors), sectors), Flags::NONE)
}

/// One sequential stream from `first` on.
pub fn sequential(operation: Operation, first: Sector, sectors: u32) -> impl FnMut(u32) -> Issue {
    let mut first = first;
    move |_| {
        first += u64::from(sectors);
        (operation, Extent::new(first - u64::from(sectors), sectors), Flags::NONE)
    }
}

/// Keeps `outstanding` random reads of 4 KiB in a host that gives the disk as many as it accepts:
/// in order of arrival, or as deadline does (a one-way elevator; batches of 16, then the oldest if
/// it has waited 500 ms). Returns the rate per second.
pub fn host_queue(parameters: &DiskParameters, outstanding: u32, count: usize, deadline: bool) -> f64 {
    let mut disk = disk(parameters, 1);
    let mut next = random(&disk, Operation::Read, 8, 1.0, 5);
    // In order of arrival, with the arrival time.
    let mut queue: Vec<(Nanos, u32, Extent)> = (0..outstanding).map(|tag| (0, tag, next(tag).1)).collect();
    let (mut now, mut position, mut batch, mut in_flight, mut completed) = (0, 0, 0, 0, 0);
    let mut completions: Vec<Completion> = Vec::new();
    while completed < count {
        while in_flight < disk.info().depth && !queue.is_empty() {
            let expired = queue[0].0 + 500_000_000 <= now;
            let ahead = (0..queue.len()).filter(|index| queue[*index].2.first_sector >= position);
            let next_ahead = ahead.min_by_key(|index| queue[*index].2.first_sector);
            let goes_on = next_ahead.filter(|_| deadline && !(batch >= 16 && expired));
            batch = if goes_on.is_some() && batch < 16 { batch + 1 } else { 1 };
            let (_, tag, extent) = queue.remove(goes_on.unwrap_or(0));
            position = extent.end();
            in_flight += 1;
            submit(&mut disk, now + HOST_NS, tag, Operation::Read, extent, Flags::NONE);
        }
        now = disk.next_event();
        disk.advance(now, &mut completions);
        for completion in completions.drain(..) {
            in_flight -= 1;
            completed += 1;
            queue.push((now, completion.tag, next(completion.tag).1));
        }
    }
    completed as f64 * 1e9 / now as f64
}
