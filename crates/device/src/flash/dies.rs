//! Dies and channels as serial resources (each serves one use at a time): when an operation ends,
//! and how a read interacts with a program in its way.
//!
//! Reservation instead of simulation: a resource is represented by the time at which it becomes
//! free, and a use moves that time. A use is reserved when it becomes possible, not before: a read
//! stuck behind a program must not reserve the channel a millisecond ahead and thereby delay reads
//! of idle dies.

use hoistway_block::Nanos;
use hoistway_block::random::Stream;

use super::layout::{Layout, UNIT_SECTORS};
use super::parameters::FlashDies;
use crate::activity::{Activity, DieActivity};
use crate::rate::Rate;

/// What a read does when its die has a program or erase.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum ReadPriority {
    /// Waits behind all programs; programs wait behind reads.
    None,
    /// Overtakes the queued programs and waits for the running one.
    Residual,
    /// Suspends the running one.
    Suspend,
}

#[derive(Copy, Clone, Debug, Default)]
struct Die {
    /// End of the reads reserved on it.
    read_free: Nanos,
    /// End of the programs and erases reserved on it.
    program_free: Nanos,
    /// Length of the last program.
    program_ns: Nanos,
}

/// All dies and channels.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    dies: Vec<Die>,
    channel_free: Vec<Nanos>,
    channel_rate: Rate,
    priority: ReadPriority,
    read_ns: Nanos,
    jitter_ns: Nanos,
    program_ns: Nanos,
    erase_ns: Nanos,
    suspend_ns: Nanos,
    stream: Stream,
}

impl Dies {
    pub(super) fn new(dies: &FlashDies, layout: &Layout, stream: Stream) -> Self {
        Self {
            dies: vec![Die { program_ns: dies.program_ns, ..Die::default() }; layout.dies as usize],
            channel_free: vec![0; layout.channels as usize],
            channel_rate: Rate::of_kb_per_s(dies.channel_kb_per_s),
            priority: match dies.read_priority {
                0 => ReadPriority::None,
                1 => ReadPriority::Residual,
                _ => ReadPriority::Suspend,
            },
            read_ns: dies.read_ns,
            jitter_ns: dies.read_jitter_ns,
            program_ns: dies.program_ns,
            erase_ns: dies.erase_ns,
            suspend_ns: dies.suspend_ns,
            stream,
        }
    }

    /// What channels and dies do at `now`.
    pub(super) fn activity(&self, now: Nanos) -> Activity {
        let die = |die: &Die| match () {
            () if die.read_free > now => DieActivity::Reads,
            () if die.program_free > now => DieActivity::Programs,
            () => DieActivity::Idle,
        };
        Activity::Flash {
            channels: self.channel_free.iter().map(|free| *free > now).collect(),
            dies: self.dies.iter().map(die).collect(),
        }
    }

    /// Reserves the sensing of a page that can begin at `now`; returns its end.
    #[inline]
    pub(super) fn sense(&mut self, now: Nanos, die: u32) -> Nanos {
        let read_ns = self.read_ns + self.stream.below(self.jitter_ns);
        let die = &mut self.dies[die as usize];
        let mut start = now.max(die.read_free);
        if die.program_free > now {
            match self.priority {
                ReadPriority::None => start = start.max(die.program_free),
                ReadPriority::Residual => {
                    let residual_ns = (die.program_free - now) % die.program_ns.max(1);
                    start = start.max(now + residual_ns);
                    die.program_free += read_ns;
                }
                ReadPriority::Suspend => {
                    if die.read_free <= now {
                        start += self.suspend_ns;
                    }
                    die.program_free += read_ns + self.suspend_ns;
                }
            }
        }
        die.read_free = start + read_ns;
        die.read_free
    }

    /// When a die is free of reads, if it will have no program or erase left at `at`.
    #[inline]
    pub(super) fn read_free_if_idle(&self, die: u32, at: Nanos) -> Option<Nanos> {
        let die = &self.dies[die as usize];
        (die.program_free <= at).then_some(die.read_free)
    }

    /// A copy of the random stream, with which [`Dies::restore`] can return to this state.
    #[inline]
    pub(super) fn stream(&self) -> Stream {
        self.stream.clone()
    }

    /// Cancels the reservation of a sensing: restores the die's time and the random stream from
    /// before it.
    pub(super) fn restore(&mut self, die: u32, read_free: Nanos, stream: &Stream) {
        self.dies[die as usize].read_free = read_free;
        self.stream = stream.clone();
    }

    /// Keeps the die occupied until `until`, because it has no register for the sensed page.
    #[inline]
    pub(super) fn hold(&mut self, die: u32, until: Nanos) {
        let die = &mut self.dies[die as usize];
        die.read_free = die.read_free.max(until);
    }

    /// Reserves the channel of `die` for some units; returns the end of the transfer.
    #[inline]
    pub(super) fn transfer(&mut self, now: Nanos, die: u32, units: u32, layout: &Layout) -> Nanos {
        let free = &mut self.channel_free[layout.channel_of(die) as usize];
        *free = now.max(*free) + self.channel_rate.transfer_ns(units * UNIT_SECTORS);
        *free
    }

    /// Time of a program in multi-level cells.
    #[inline]
    pub(super) fn program_ns(&self) -> Nanos {
        self.program_ns
    }

    /// Reserves transfer and program of one program unit; returns the end of the program.
    #[inline]
    pub(super) fn program(&mut self, now: Nanos, die: u32, service_ns: Nanos, layout: &Layout) -> Nanos {
        let transferred = self.transfer(now, die, layout.program_units, layout);
        self.dies[die as usize].program_ns = service_ns;
        self.occupy(transferred, die, service_ns)
    }

    /// Reserves an erase on every die.
    pub(super) fn erase_all(&mut self, now: Nanos) {
        for die in 0..u32::try_from(self.dies.len()).unwrap_or(u32::MAX) {
            self.occupy(now, die, self.erase_ns);
        }
    }

    #[inline]
    fn occupy(&mut self, ready: Nanos, die: u32, service_ns: Nanos) -> Nanos {
        let die = &mut self.dies[die as usize];
        let mut start = ready.max(die.program_free);
        if self.priority == ReadPriority::None {
            start = start.max(die.read_free);
        }
        die.program_free = start + service_ns;
        die.program_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlashParameters;

    fn dies(read_priority: u64) -> (Dies, Layout) {
        let parameters = FlashParameters::default().with(|flash| {
            flash.dies.read_ns = 50_000;
            flash.dies.read_jitter_ns = 0;
            flash.dies.program_ns = 1_000_000;
            flash.dies.erase_ns = 2_000_000;
            flash.dies.suspend_ns = 20_000;
            flash.dies.channel_kb_per_s = 512_000;
            flash.dies.read_priority = read_priority;
        });
        let layout = Layout::new(&parameters.layout);
        (Dies::new(&parameters.dies, &layout, Stream::new(1)), layout)
    }

    /// Two programs on die 0 end at 1,008 and 2,008 us (a unit takes 8 us on the channel); a read
    /// arrives at 300 us.
    #[test]
    fn a_read_that_meets_programs() {
        for (priority, sensed, next_program) in [
            // After both programs; the next program waits for it.
            (0, 2_058_000, 3_058_000),
            // (2,008 - 300) mod 1,000 = 708 us are left of the running one.
            (1, 1_058_000, 3_058_000),
            // Begins when the program is suspended; both times are added to the programs.
            (2, 370_000, 3_078_000),
        ] {
            let (mut dies, layout) = dies(priority);
            assert_eq!(dies.program(0, 0, 1_000_000, &layout), 1_008_000);
            assert_eq!(dies.program(0, 0, 1_000_000, &layout), 2_008_000);
            assert_eq!(dies.sense(300_000, 0), sensed, "priority {priority}");
            assert_eq!(dies.program(300_000, 0, 1_000_000, &layout), next_program, "priority {priority}");
            assert_eq!(dies.sense(300_000, 1), 350_000, "another die is idle");
        }
    }

    #[test]
    fn an_active_read_is_not_suspended_twice() {
        let (mut dies, layout) = dies(2);
        dies.program(0, 0, 1_000_000, &layout);
        assert_eq!(dies.sense(100_000, 0), 170_000);
        assert_eq!(dies.sense(110_000, 0), 220_000);
    }

    #[test]
    fn an_erase_occupies_every_die() {
        let (mut dies, _) = dies(0);
        dies.erase_all(1_000);
        assert_eq!((dies.sense(0, 0), dies.sense(0, 31)), (2_051_000, 2_051_000));
    }
}
