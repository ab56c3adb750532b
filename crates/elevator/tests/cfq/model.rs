//! The device U(P, s) of docs/specifications/cfq.md, section 19: P parallel servers, each of which
//! takes the time s for every request, in order of arrival. Also the readers that use the device.

use crate::host::Host;
use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Priority};
use hoistway_elevator::Elevator;
use hoistway_testbed::notation::bio;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const US: Nanos = 1_000;

/// A reader that keeps `qd` reads outstanding: it sends the next one `think_ns` after a completion.
#[derive(Clone)]
pub struct Reader {
    pub context: u32,
    pub group: u32,
    pub qd: u32,
    pub think_ns: Nanos,
    pub sectors: u32,
    pub is_random: bool,
    pub priority: Priority,
    /// The first sector that is read. `step` is the distance from there to the sector of the next
    /// request.
    pub from: u64,
    pub step: u64,
}

/// A sequential reader of 4 KiB that thinks for 0.1 ms.
pub fn reader(context: u32, group: u32) -> Reader {
    Reader {
        context,
        group,
        qd: 1,
        think_ns: 100 * US,
        sectors: 8,
        is_random: false,
        priority: Priority::NONE,
        from: (u64::from(context) + 1) << 26,
        step: 8,
    }
}

impl Reader {
    pub fn qd(self, qd: u32) -> Self {
        Self { qd, ..self }
    }

    pub fn think(self, think_ns: Nanos) -> Self {
        Self { think_ns, ..self }
    }

    pub fn sectors(self, sectors: u32) -> Self {
        Self { sectors, step: u64::from(sectors), ..self }
    }

    pub fn random(self) -> Self {
        Self { is_random: true, ..self }
    }

    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }
}

/// The device, and how many requests the host lets into it.
#[derive(Copy, Clone)]
pub struct Servers {
    pub count: usize,
    pub service_ns: Nanos,
    pub limit: usize,
    /// Additional time for a request that begins more than 800 sectors from the end of the one
    /// served before it.
    pub seek_ns: Nanos,
}

pub const fn servers(count: usize, service_ns: Nanos) -> Servers {
    Servers { count, service_ns, limit: usize::MAX, seek_ns: 0 }
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Completed requests of each reader.
    pub done: Vec<u64>,
    /// Largest number of requests in flight.
    pub depth: usize,
    pub span_ns: Nanos,
}

impl Outcome {
    pub fn total(&self) -> u64 {
        self.done.iter().sum()
    }

    pub fn per_s(&self) -> f64 {
        self.total() as f64 * 1e9 / self.span_ns as f64
    }

    pub fn kb_per_s(&self, sectors: u32) -> f64 {
        self.per_s() * f64::from(sectors) / 2.0
    }

    /// Per cent of the total, by reader.
    pub fn shares(&self) -> Vec<f64> {
        self.done.iter().map(|done| *done as f64 * 100.0 / self.total() as f64).collect()
    }

    /// Per cent of the total, by group, in order of the groups' ids.
    pub fn of_groups(&self, readers: &[Reader]) -> Vec<f64> {
        let groups = readers.iter().map(|reader| reader.group).max().unwrap_or(0);
        let of = |group| readers.iter().zip(&self.done).filter(move |(reader, _)| reader.group == group);
        let sums = (0..=groups).map(|group| of(group).map(|(_, done)| *done).sum::<u64>());
        sums.filter(|sum| *sum > 0).map(|sum| sum as f64 * 100.0 / self.total() as f64).collect()
    }
}

/// Runs the readers for `span_ns`; requests completed in that time count.
pub fn run(host: &mut Host, readers: &[Reader], device: Servers, span_ns: Nanos) -> Outcome {
    Model::new(host, readers, device).run(span_ns)
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done(u32),
    Wants(usize),
}

/// A run that can be interrupted to change something.
pub struct Model<'a> {
    pub host: &'a mut Host,
    readers: &'a [Reader],
    device: Servers,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    order: u64,
    /// Requests in the device that no server works on yet, by slot.
    waiting: VecDeque<u32>,
    busy: usize,
    head: u64,
    next: Vec<u64>,
    reader_of: Vec<usize>,
    random: Stream,
    done: Vec<u64>,
    depth: usize,
}

impl<'a> Model<'a> {
    pub fn new(host: &'a mut Host, readers: &'a [Reader], device: Servers) -> Self {
        let mut model = Self {
            readers,
            device,
            events: BinaryHeap::new(),
            order: 0,
            waiting: VecDeque::new(),
            busy: 0,
            head: 0,
            next: readers.iter().map(|reader| reader.from).collect(),
            reader_of: vec![0; host.requests.capacity() as usize],
            random: Stream::new(1),
            done: vec![0; readers.len()],
            depth: 0,
            host,
        };
        for (index, reader) in readers.iter().enumerate() {
            for _ in 0..reader.qd {
                model.at(model.host.now, Event::Wants(index));
            }
        }
        model
    }

    fn at(&mut self, when: Nanos, event: Event) {
        self.order += 1;
        self.events.push(Reverse((when, self.order, event)));
    }

    /// Continues the run for `span_ns`. The result covers only this part of the run.
    pub fn run(&mut self, span_ns: Nanos) -> Outcome {
        let end = self.host.now + span_ns;
        (self.done, self.depth) = (vec![0; self.readers.len()], 0);
        loop {
            let event = self.events.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            let timer = self.host.policy.next_timer().unwrap_or(Nanos::MAX);
            let now = event.min(timer.max(self.host.now));
            if now >= end {
                break;
            }
            let span = now - self.host.now;
            self.host.pass(span);
            if event <= now
                && let Some(Reverse((_, _, event))) = self.events.pop()
            {
                self.happen(event);
            }
            self.fill();
        }
        let left = end - self.host.now;
        self.host.pass(left);
        self.host.check();
        Outcome { done: self.done.clone(), depth: self.depth, span_ns }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wants(index) => self.ask(index),
            Event::Done(slot) => {
                let place = self.host.in_device.iter().position(|id| id.slot() == slot).expect("it is in the device");
                self.host.complete_nth(place);
                self.busy -= 1;
                let index = self.reader_of[slot as usize];
                self.done[index] += 1;
                let think = self.readers[index].think_ns;
                self.at(self.host.now + think, Event::Wants(index));
                if let Some(slot) = self.waiting.pop_front() {
                    self.serve(slot);
                }
            }
        }
    }

    fn ask(&mut self, index: usize) {
        let reader = &self.readers[index];
        let mut bio = bio(&format!("R0@{}g{}", reader.context, reader.group));
        let sector = if reader.is_random { reader.from + self.random.below(1 << 22) * 8 } else { self.next[index] };
        self.next[index] += reader.step;
        (bio.extent.first_sector, bio.extent.sectors) = (sector, reader.sectors);
        bio.priority = reader.priority;
        let id = self.host.submit_bio(&bio);
        self.reader_of[id.slot() as usize] = index;
    }

    fn fill(&mut self) {
        while self.host.in_device.len() < self.device.limit {
            let before = self.host.in_device.len();
            let _ = self.host.choose();
            if self.host.in_device.len() == before {
                break;
            }
            let slot = self.host.in_device[before].slot();
            self.depth = self.depth.max(before + 1);
            if self.busy < self.device.count { self.serve(slot) } else { self.waiting.push_back(slot) }
        }
    }

    fn serve(&mut self, slot: u32) {
        self.busy += 1;
        let id = self.host.requests.id_of(slot).expect("it is in the device");
        let extent = self.host.requests.attributes(id).extent;
        let seek = if extent.first_sector.abs_diff(self.head) > 800 { self.device.seek_ns } else { 0 };
        self.head = extent.end();
        self.at(self.host.now + self.device.service_ns + seek, Event::Done(slot));
    }
}

/// Asserts that a figure deviates by at most 3 %, which docs/specifications/cfq.md, section 19,
/// permits for figures that were computed with a model of the device.
#[track_caller]
pub fn assert_near(measured: f64, expected: f64) {
    assert!((measured / expected - 1.0).abs() <= 0.03, "{measured:.3}, and {expected} is expected");
}

/// Asserts that each share, in per cent, deviates by at most one percentage point.
#[track_caller]
pub fn assert_shares(measured: &[f64], expected: &[f64]) {
    let is_near = measured.iter().zip(expected).all(|(measured, expected)| (measured - expected).abs() <= 1.0);
    assert!(is_near && measured.len() == expected.len(), "{measured:.1?} %, and {expected:?} are expected");
}
