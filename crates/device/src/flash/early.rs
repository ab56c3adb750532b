//! Reserves the die for a read as soon as the firmware takes the read, instead of when the read
//! starts, if nothing can change the result in between.
//!
//! A read starts a fixed delay after the firmware takes it, and usually this start is a separate
//! event. While a device does nothing but reads, nothing can change the mapping, the dies or the
//! channels during the delay. In that state the event is saved: the die is reserved at once, for
//! the time of the start. If a command of another kind arrives before that time, the reservation is
//! cancelled and the read waits for its start as usual: times, order and random numbers equal those
//! of a device without early reservation.
//!
//! Cost: a record for each such read; cancelling costs a scan of all pending events, once per
//! change from reading to something else.

use hoistway_block::Nanos;
use hoistway_block::random::Stream;

use super::operations::Event;
use super::read::SensedPage;
use super::{Flash, Source};

/// The largest number of reads that have a reservation and have not started. Further reads are
/// handled when they start, as without early reservation.
const MOST: usize = 128;

/// The state to restore if a reservation is cancelled.
#[derive(Clone, Debug)]
struct Begun {
    start_at: Nanos,
    read_free: Nanos,
    command: u32,
    die: u32,
    stream: Stream,
}

/// The last early reservations, in the order of their starts.
#[derive(Clone, Debug)]
pub(super) struct EarlyReads {
    ring: Box<[Begun; MOST]>,
    /// Number of early reservations so far.
    count: usize,
    /// Whether nothing but reads is in progress and every unit is at the place of its own number.
    /// Any other command ends this state.
    is_reads_only: bool,
    #[cfg(test)]
    is_off: bool,
}

impl EarlyReads {
    pub(super) fn new() -> Self {
        let none = Begun { start_at: 0, read_free: 0, command: 0, die: 0, stream: Stream::new(0) };
        Self {
            ring: Box::new(std::array::from_fn(|_| none.clone())),
            count: 0,
            is_reads_only: false,
            #[cfg(test)]
            is_off: false,
        }
    }

    /// An early reservation by its age: 0 is the newest.
    fn newest(&self, number: usize) -> &Begun {
        &self.ring[self.count.wrapping_sub(1 + number) % MOST]
    }

    /// How many of the recorded reservations start later than `now`.
    fn ahead(&self, now: Nanos) -> usize {
        (0..MOST.min(self.count)).take_while(|number| self.newest(*number).start_at > now).count()
    }
}

impl Flash {
    /// Reserves the die at `now` for a read that starts at `start_at`, if the read is of one unit,
    /// only reads are in progress, none of them waits for its start, and the die will have no
    /// program or erase. Otherwise, or if [`MOST`] reads have a reservation, returns false and
    /// reserves nothing.
    #[inline]
    pub(super) fn begin_early(&mut self, now: Nanos, command: u32, start_at: Nanos) -> bool {
        let read = self.commands.get(command);
        let (unit, sectors) = (read.unit, read.sectors);
        let place = self.early.count % MOST;
        if read.units != 1
            || !self.stages.starting.is_empty()
            || self.early.ring[place].start_at > now
            || !(self.early.is_reads_only || self.becomes_reads_only())
        {
            return false;
        }
        // The mapping is in order, so the unit's place has the number of the unit.
        let die = self.layout.die_of(unit);
        let Some(read_free) = self.dies.read_free_if_idle(die, start_at) else { return false };
        self.early.ring[place] = Begun { start_at, read_free, command, die, stream: self.dies.stream() };
        self.early.count = self.early.count.wrapping_add(1);
        self.sense(start_at, SensedPage::of_small_read(command, die, sectors));
        true
    }

    #[inline(never)]
    fn becomes_reads_only(&mut self) -> bool {
        self.early.is_reads_only = !self.commands.has_others()
            && self.buffer.is_at_rest()
            && self.translation.is_in_order()
            && self.holding.is_empty()
            && !self.collector.is_working()
            // An idle period after writes could still begin a collection.
            && !self.idle.is_running();
        #[cfg(test)]
        if self.early.is_off {
            self.early.is_reads_only = false;
        }
        self.early.is_reads_only
    }

    /// A command other than a read arrives at `now`, or a reset: cancels the reservations with
    /// later starts.
    #[inline]
    pub(super) fn take_early_back(&mut self, now: Nanos) {
        if self.early.is_reads_only {
            self.early.is_reads_only = false;
            self.take_back(now);
        }
    }

    #[cold]
    fn take_back(&mut self, now: Nanos) {
        let ahead = self.early.ahead(now);
        for number in 0..ahead {
            let Begun { read_free, die, ref stream, .. } = *self.early.newest(number);
            self.dies.restore(die, read_free, stream);
        }
        let early = &self.early;
        let is_ahead = |command: u32| (0..ahead).any(|number| early.newest(number).command == command);
        self.operations.retain(now, |event: &Event| !event.command().is_some_and(is_ahead));
        // Commands that wait for their start arrived later, otherwise they would have been
        // reserved.
        let next = || (self.stages.starting.next(), self.stages.starting.pop());
        let later: Vec<_> = std::iter::repeat_with(next).map_while(|(at, read)| Some((at, read?))).collect();
        for number in (0..ahead).rev() {
            let Begun { start_at, command, .. } = *self.early.newest(number);
            self.stages.starting.push(start_at, command);
        }
        for (start_at, command) in later {
            self.stages.starting.push(start_at, command);
        }
        self.stages.prefetched = 0;
        for number in 0..ahead {
            let place = self.early.count.wrapping_sub(1 + number) % MOST;
            self.early.ring[place].start_at = 0;
        }
        self.agenda.set(Source::Operation, self.operations.next());
        self.agenda.set(Source::Start, self.stages.starting.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::FlashParameters;
    use crate::interface::{Command, Completion, Device, Submit};
    use hoistway_block::{Extent, Flags, HardwareQueue, Operation};

    /// Phases of reads only and of all kinds, on drives of one and of four queues.
    #[test]
    fn prefetching_the_mapping_changes_no_completion() {
        for (seed, hardware_queues) in [(1, 1), (2, 4), (3, 1), (4, 4)] {
            let parameters = FlashParameters::default().with(|flash| {
                flash.controller.hardware_queues = hardware_queues;
                flash.controller.depth = 64;
                flash.layout.simulated_mib = 64;
                flash.layout.capacity_sectors = 64 << 11;
                flash.dies.read_jitter_ns = 9_000;
                flash.controller.command_ns = 40_000;
                flash.history.precondition = 1;
            });
            let [mut ahead, mut never] = [(); 2].map(|()| Flash::new("flash", &parameters, Stream::new(seed)));
            never.early.is_off = true;
            let mut random = Stream::new(seed);
            let (mut now, mut tags, mut in_flight, mut taken_back) = (0, 0..u32::MAX, 0, 0);
            for step in 0..20_000 {
                let others_percent = if step / 200 % 2 == 0 { 0 } else { 10 };
                if random.chance(1, 2) && in_flight < 60 {
                    let roll = random.below(100);
                    let is_read = roll >= others_percent;
                    let (operation, sectors) = match roll {
                        _ if is_read => (Operation::Read, [4, 8][usize::from(roll.is_multiple_of(5))]),
                        // Overwrites end the order of the mapping permanently, so they come late.
                        0..5 if step >= 16_000 => (Operation::Write, 8),
                        0..5 => (Operation::Flush, 0),
                        // No whole unit: the mapping does not change.
                        _ => (Operation::Discard, 3),
                    };
                    let first_sector = random.below(16_000) * 8 + random.below(2) * 4;
                    let hardware_queue = HardwareQueue(u16::try_from(random.below(hardware_queues)).unwrap());
                    let tag = tags.next().unwrap();
                    let extent = Extent::new(first_sector, sectors);
                    let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue };
                    taken_back += if is_read { 0 } else { ahead.early.ahead(now) };
                    for device in [&mut ahead, &mut never] {
                        assert_eq!(device.submit(now, &command), Submit::Accepted);
                    }
                    in_flight += 1;
                } else {
                    now += random.below(30_000);
                    let mut out: [Vec<Completion>; 2] = [Vec::new(), Vec::new()];
                    ahead.advance(now, &mut out[0]);
                    never.advance(now, &mut out[1]);
                    assert_eq!(out[0], out[1], "seed {seed}, step {step}");
                    in_flight -= out[0].len();
                }
                if random.chance(1, 2_000) {
                    ahead.reset(now);
                    never.reset(now);
                    in_flight = 0;
                }
            }
            assert!(ahead.early.count > 500 && taken_back > 50, "{} began, {taken_back} taken back", ahead.early.count);
        }
    }
}
