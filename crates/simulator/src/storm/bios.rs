//! The bios of a storm: mostly adjacent to each other, of all operations except zone appends and
//! secure erases, and with the flags that decide about merges, flushes and classes of I/O.

use hoistway_block::{Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Operation, Priority, SoftwareQueue};
use hoistway_elevator::Bio;
use hoistway_queue::{Full, Submitted};

use super::{
    CAPACITY_SECTORS, CONTEXTS, GROUPS, LASTING_CONTEXT, PLUGS, SOFTWARE_QUEUES, StormState, below, u16_below,
    u32_below,
};
use crate::invariants::Broken;

impl StormState {
    pub(super) fn submit_some(&mut self) -> Result<(), Broken> {
        let plug = self.random.chance(self.intensity.plug_percent, 100).then(|| below(&mut self.random, PLUGS));
        for _ in 0..=self.random.below(4) {
            let bio = self.draw_bio();
            self.submissions.cookie += 1;
            let cookie = self.submissions.cookie;
            self.ledger.submitted(cookie, &bio);
            let submitted = match plug {
                Some(plug) => self.queue.submit_plugged(&bio, cookie, &mut self.plugs[plug], self.now),
                None => self.queue.submit(&bio, cookie, self.now),
            };
            // A queue without room is unchanged, except for bios that limiters released meanwhile.
            self.attention.touch(submitted != Err(Full) || self.queue.limiters().next().is_some());
            match submitted {
                Ok(Submitted::Nothing) => self.ledger.nothing_to_do(cookie)?,
                Ok(submitted) => {
                    self.limiting.held += u64::from(submitted == Submitted::Held);
                    if bio.operation.is_mergeable() {
                        self.submissions.last = bio;
                    }
                }
                Err(Full) => self.ledger.withdrawn(cookie),
            }
            self.starvation.observe(&mut self.queue)?;
        }
        if let Some(plug) = plug.filter(|_| self.random.chance(1, 2)) {
            self.attention.touch(!self.plugs[plug].is_empty());
            self.queue.unplug(&mut self.plugs[plug], self.now);
        }
        Ok(())
    }

    /// A bio adjacent to the last one, or an unrelated one.
    fn draw_bio(&mut self) -> Bio {
        if self.random.chance(self.intensity.adjacent_percent, 100) {
            let mut bio = self.submissions.last;
            if self.random.chance(1, 4) {
                bio.flags = self.draw_flags(bio.operation);
            }
            bio.segments = 1 + u16_below(&mut self.random, 3);
            bio.extent = self.draw_neighbour(bio.operation);
            if !self.leaving[bio.context.0 as usize] {
                return bio;
            }
        }
        let operation = self.draw_operation();
        let random = &mut self.random;
        let mut bio = Bio::new(operation, Extent::new(0, 0));
        bio.context = (0..8)
            .map(|_| ContextId(u32_below(random, CONTEXTS - 1)))
            .find(|context| !self.leaving[context.0 as usize])
            .unwrap_or(LASTING_CONTEXT);
        bio.group = GroupId(u32_below(random, GROUPS));
        bio.software_queue = SoftwareQueue(u16_below(random, SOFTWARE_QUEUES));
        bio.hardware_queue = HardwareQueue(u16_below(random, self.intensity.hardware_queues));
        bio.device = u32::from(random.chance(1, 20));
        if random.chance(3, 10) {
            let class = [Class::RealTime, Class::BestEffort, Class::Idle][below(random, 3)];
            bio.priority = Priority::new(class, u8::try_from(random.below(8)).unwrap_or(0));
        }
        bio.flags = self.draw_flags(operation);
        bio.segments = 1 + u16_below(&mut self.random, 3);
        if operation != Operation::Flush {
            let sectors = self.draw_sectors(operation);
            let first_sector = self.random.below(CAPACITY_SECTORS / 8) * 8;
            bio.extent = self.fit(first_sector, sectors);
        }
        bio
    }

    fn draw_operation(&mut self) -> Operation {
        match self.random.below(100) {
            roll if roll < self.intensity.flush_percent / 2 => Operation::Flush,
            96..98 => Operation::Discard,
            98 => Operation::WriteZeroes,
            99 => Operation::Passthrough,
            _ if self.random.chance(self.intensity.read_percent, 100) => Operation::Read,
            _ => Operation::Write,
        }
    }

    fn draw_flags(&mut self, operation: Operation) -> Flags {
        let random = &mut self.random;
        let mut flags = if random.chance(1, 2) { Flags::SYNC } else { Flags::NONE };
        let mut perhaps = |flag, percent| {
            if random.chance(percent, 100) {
                flags = flags.with(flag);
            }
        };
        perhaps(Flags::NOMERGE, 3);
        perhaps(Flags::META, 5);
        match operation {
            Operation::Read => perhaps(Flags::READAHEAD, 10),
            Operation::Write => {
                perhaps(Flags::FUA, self.intensity.flush_percent);
                perhaps(Flags::PREFLUSH, self.intensity.flush_percent);
                perhaps(Flags::BACKGROUND, 20);
            }
            _ => {}
        }
        flags
    }

    fn draw_sectors(&mut self, operation: Operation) -> u32 {
        let random = &mut self.random;
        let longest = self.limits.max_sectors_of(operation).min(256);
        match random.below(10) {
            0 => 1 + u32_below(random, longest),
            1 => longest,
            roll => 8 << (roll % 3),
        }
    }

    /// An extent directly after or before the last one.
    fn draw_neighbour(&mut self, operation: Operation) -> Extent {
        let sectors = self.draw_sectors(operation);
        let last = self.submissions.last.extent;
        if self.random.chance(2, 3) {
            return self.fit(last.end(), sectors);
        }
        let sectors = sectors.min(u32::try_from(last.first_sector).unwrap_or(u32::MAX)).max(1);
        self.fit(last.first_sector.saturating_sub(u64::from(sectors)), sectors)
    }

    /// The part of an extent that device and chunk boundaries allow.
    fn fit(&self, first_sector: u64, sectors: u32) -> Extent {
        let first_sector = first_sector % CAPACITY_SECTORS;
        let mut room = CAPACITY_SECTORS - first_sector;
        if let Some(into_chunk) = first_sector.checked_rem(u64::from(self.limits.chunk_sectors)) {
            room = room.min(u64::from(self.limits.chunk_sectors) - into_chunk);
        }
        Extent::new(first_sector, u32::try_from(room).unwrap_or(u32::MAX).min(sectors))
    }
}
