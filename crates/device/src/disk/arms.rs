//! A disk with several actuators: each arm serves its own range of sectors, behind one command
//! queue and one link.
//!
//! Drives of this kind have two arms in one logical unit, each with half of the addresses.
//! Capacity, surfaces and both caches are divided equally, and the firmware schedules each range
//! separately, so that commands in different ranges use the media at the same time. A command
//! across a boundary is served by the arms of both ranges and completes with the last of its parts.
//!
//! Not modelled: arms that disturb each other mechanically, and the power draw of both at once.

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Operation, SectorRange, Status};

use super::drive::Disk;
use super::parameters::DiskParameters;
use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::tags::Tags;

/// A command in flight.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    /// The caller's tag.
    tag: u32,
    /// Parts that have not completed.
    parts: u32,
    /// The status of the first part that failed.
    status: Status,
}

/// A hard disk with more than one actuator.
#[derive(Clone, Debug)]
pub struct Arms {
    info: DeviceInfo,
    counters: Counters,
    /// In the order of their ranges.
    arms: Vec<Disk>,
    in_flight: Tags<InFlight>,
    /// Commands that reach no arm: rejected, or of zero length.
    refused: Pending<(u32, Status)>,
    refused_ns: Nanos,
    link_free_at: Nanos,
    scratch: Vec<Completion>,
}

impl DiskParameters {
    /// The parameters of one arm's disk.
    fn of_arm(&self, range: SectorRange) -> DiskParameters {
        let share = |whole: u64, least: u64| (whole / self.layout.actuators).max(least);
        self.clone().with(|disk| {
            disk.layout.capacity_sectors = range.sectors;
            disk.layout.actuators = 1;
            disk.layout.heads = share(self.layout.heads, 1);
            disk.reading.segments = share(self.reading.segments, 1);
            disk.writing.wc_entries = share(self.writing.wc_entries, 1);
            disk.writing.wc_kib = share(self.writing.wc_kib, 4);
        })
    }

    /// The sectors of each arm.
    fn ranges(&self) -> impl Iterator<Item = SectorRange> {
        let border = |arm: u64| {
            let share = u128::from(self.layout.capacity_sectors) * u128::from(arm) / u128::from(self.layout.actuators);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        (0..self.layout.actuators)
            .map(move |arm| SectorRange { first_sector: border(arm), sectors: border(arm + 1) - border(arm) })
    }
}

impl Arms {
    /// The disks of the arms, in the order of their ranges.
    pub(super) fn arms(&self) -> &[Disk] {
        &self.arms
    }

    /// A disk of these settings, which have passed [`DiskParameters::check`]; each arm draws its
    /// jitter from its own stream, made by `stream`.
    pub fn new(name: &str, parameters: &DiskParameters, stream: impl Fn(usize) -> Stream) -> Self {
        let ranges: Vec<_> = parameters.ranges().collect();
        let arm = |(number, range): (usize, &SectorRange)| Disk::new(name, &parameters.of_arm(*range), stream(number));
        let arms: Vec<Disk> = ranges.iter().enumerate().map(arm).collect();
        let info = DeviceInfo { capacity_sectors: parameters.layout.capacity_sectors, ranges, ..arms[0].info.clone() };
        let depth = info.total_depth();
        Self {
            in_flight: Tags::with_capacity(depth),
            refused: Pending::with_capacity(depth),
            refused_ns: parameters.firmware.hit_overhead_ns,
            link_free_at: 0,
            scratch: Vec::with_capacity(depth),
            counters: Counters::default(),
            arms,
            info,
        }
    }

    /// Submits to each arm its part of a command, and a flush to all arms; returns the number of
    /// parts.
    fn share_out(&mut self, now: Nanos, command: &Command, in_flight: u32) -> u32 {
        let mut parts = 0;
        for (arm, range) in self.arms.iter_mut().zip(&self.info.ranges) {
            let extent = match command.operation {
                Operation::Flush => command.extent,
                _ => range.part_of(command.extent),
            };
            if command.operation == Operation::Flush || extent.sectors > 0 {
                let part = Command { tag: in_flight, extent, ..*command };
                // Each arm has room for as many commands as the drive accepts.
                parts += u32::from(arm.submit(now, &part) == Submit::Accepted);
            }
        }
        parts
    }

    fn next(&self) -> (Nanos, Option<usize>) {
        let mut next = (self.refused.next(), None);
        for (number, arm) in self.arms.iter().enumerate() {
            let at = arm.next_event();
            if at < next.0 {
                next = (at, Some(number));
            }
        }
        next
    }

    /// Advances one arm to `at`, its next event. The arms share one link, so the arm first gets the
    /// link's state as the other arms left it.
    fn advance_arm(&mut self, number: usize, at: Nanos, out: &mut Vec<Completion>) {
        let Some(arm) = self.arms.get_mut(number) else { return };
        arm.link_free_at = arm.link_free_at.max(self.link_free_at);
        arm.advance(at, &mut self.scratch);
        self.link_free_at = arm.link_free_at;
        for ended in self.scratch.drain(..) {
            let Some(in_flight) = self.in_flight.get_mut(ended.tag) else { continue };
            in_flight.parts -= 1;
            if in_flight.status == Status::Ok {
                in_flight.status = ended.status;
            }
            let InFlight { tag, parts, status } = *in_flight;
            if parts == 0 {
                self.in_flight.give_back(ended.tag);
                out.push(Completion { at_ns: ended.at_ns, tag, status });
            }
        }
    }
}

impl Device for Arms {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.in_flight.len() + self.refused.len() >= self.info.total_depth() {
            return Submit::Busy;
        }
        self.counters.count(command.operation, command.extent.sectors);
        let rejected = self.info.rejects(command);
        if rejected.is_some() || (command.extent.sectors == 0 && command.operation != Operation::Flush) {
            self.counters.errors += u64::from(rejected.is_some());
            self.refused.insert(now + self.refused_ns, (command.tag, rejected.unwrap_or(Status::Ok)));
            return Submit::Accepted;
        }
        let in_flight = self.in_flight.take(InFlight { tag: command.tag, parts: 0, status: Status::Ok });
        let parts = self.share_out(now, command, in_flight);
        if let Some(entry) = self.in_flight.get_mut(in_flight) {
            entry.parts = parts;
        }
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        self.next().0
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        loop {
            let (at, arm) = self.next();
            if at > now || at == NEVER {
                return;
            }
            match arm {
                Some(number) => self.advance_arm(number, at, out),
                None => {
                    if let Some((at_ns, (tag, status))) = self.refused.pop() {
                        out.push(Completion { at_ns, tag, status });
                    }
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.len() == 0 && self.refused.is_empty() && self.arms.iter().all(Device::is_idle)
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset(&mut self, now: Nanos) {
        for arm in &mut self.arms {
            arm.reset(now);
        }
        self.in_flight.give_back_all(|_| {});
        self.refused.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Flags, HardwareQueue};

    const CAPACITY: u64 = 488_282_256;

    fn drive(actuators: u64) -> Arms {
        let parameters = DiskParameters::default().with(|disk| disk.layout.actuators = actuators);
        parameters.check().expect("consistent");
        Arms::new("arms", &parameters, |arm| Stream::of(1, &format!("arm{arm}")))
    }

    fn read(tag: u32, first_sector: u64, sectors: u32) -> Command {
        let extent = Extent::new(first_sector, sectors);
        Command { tag, operation: Operation::Read, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) }
    }

    /// A closed loop of random reads with `depth` in flight; returns the number completed in ten
    /// seconds.
    fn reads_in_ten_seconds(device: &mut impl Device, depth: u32) -> u64 {
        let mut random = Stream::of(3, "reads");
        let (mut out, mut now, mut ended) = (Vec::new(), 0, 0);
        for tag in 0..depth {
            device.submit(0, &read(tag, random.below(CAPACITY - 8), 8));
        }
        while now < 10_000_000_000 {
            now = device.next_event();
            device.advance(now, &mut out);
            for completion in out.drain(..) {
                ended += 1;
                device.submit(now, &read(completion.tag, random.below(CAPACITY - 8), 8));
            }
        }
        ended
    }

    #[test]
    fn the_ranges_are_the_whole_disk() {
        for actuators in 1..=6 {
            let ranges: Vec<_> =
                DiskParameters::default().with(|disk| disk.layout.actuators = actuators).ranges().collect();
            let mut end = 0;
            for range in &ranges {
                assert_eq!(range.first_sector, end);
                end = range.first_sector + range.sectors;
            }
            assert_eq!((u64::try_from(ranges.len()), end), (Ok(actuators), CAPACITY));
        }
    }

    /// Each arm seeks over as many cylinders as the single arm of a disk, but gets half of the
    /// commands. With enough commands in flight the drive reads nearly twice as much; it loses a
    /// little because each arm chooses from a shorter queue.
    #[test]
    fn two_actuators_read_at_random_at_nearly_twice_the_rate() {
        let mut one = Disk::new("disk", &DiskParameters::default(), Stream::of(1, "arm0"));
        let (single, double) = (reads_in_ten_seconds(&mut one, 32), reads_in_ten_seconds(&mut drive(2), 32));
        let percent = double * 100 / single;
        assert!((150..=200).contains(&percent), "{double} after {single}");
    }

    #[test]
    fn one_after_the_other_two_arms_are_no_faster_than_one() {
        let mut one = Disk::new("disk", &DiskParameters::default(), Stream::of(1, "arm0"));
        let (single, double) = (reads_in_ten_seconds(&mut one, 1), reads_in_ten_seconds(&mut drive(2), 1));
        assert!(double.abs_diff(single) * 20 < single, "{double} beside {single}");
    }

    #[test]
    fn a_command_over_the_border_ends_once_and_with_its_last_part() {
        let mut device = drive(2);
        let border = CAPACITY / 2;
        let mut out = Vec::new();
        device.submit(0, &read(7, border - 4, 8));
        device.advance(1_000_000_000, &mut out);
        let both = out.iter().map(|ended| (ended.tag, ended.status)).collect::<Vec<_>>();
        assert_eq!(both, [(7, Status::Ok)]);
        let together_ns = out.pop().map_or(0, |ended| ended.at_ns);
        for (first_sector, sectors) in [(border - 4, 4), (border, 4)] {
            let mut device = drive(2);
            device.submit(0, &read(0, first_sector, sectors));
            device.advance(1_000_000_000, &mut out);
            assert!(out.pop().is_some_and(|ended| ended.at_ns <= together_ns));
        }
    }

    #[test]
    fn a_flush_waits_for_both_actuators_and_errors_are_returned() {
        let mut device = drive(2);
        let mut out = Vec::new();
        for (tag, first_sector) in [(0, 0), (1, CAPACITY / 2)] {
            device.submit(0, &Command { operation: Operation::Write, ..read(tag, first_sector, 8) });
        }
        device.advance(5_000_000, &mut out);
        assert_eq!(out.len(), 2, "in the write cache");
        device.submit(5_000_000, &Command { operation: Operation::Flush, ..read(2, 0, 0) });
        device.submit(5_000_000, &read(3, CAPACITY, 8));
        device.advance(1_000_000_000, &mut out);
        let ends: Vec<_> = out.iter().skip(2).map(|ended| (ended.tag, ended.status)).collect();
        assert_eq!(ends, [(3, Status::IoError), (2, Status::Ok)]);
        assert!(device.is_idle() && device.counters().errors == 1);
    }
}
