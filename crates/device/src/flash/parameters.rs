//! The parameters of a flash SSD. Source: docs/specifications/devices.md, section 6.1.
use super::layout::Sizes;
use super::write_buffer::MOST_UNITS;
use crate::parameter::{COMMAND_SECTORS, DEPTH, LINK, MBPS, MICROSECONDS, QUEUES, Row, SECTORS, SWITCH, rows};

/// In this order: a read waits for all page programs of its die, only for the running one, or
/// suspends that one.
pub(crate) const READ_PRIORITIES: &[&str] = &["none", "residual", "suspend"];
/// In this order: nothing is mapped; everything was written once in order; then also overwritten at
/// random.
pub(crate) const PRECONDITIONS: &[&str] = &["none", "fill", "random"];

/// Settings of a flash SSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashParameters {
    /// Pages and blocks, and the spare ones.
    pub layout: FlashLayout,
    /// What dies and channels take, and how they treat reads.
    pub dies: FlashDies,
    /// The cache of blocks that hold one bit per cell.
    pub slc: FlashSlc,
    /// What a command costs besides the dies, and the limits of commands.
    pub controller: FlashController,
    /// The write buffer.
    pub buffer: FlashBuffer,
    /// What was written before the start.
    pub history: FlashHistory,
}

/// Pages and blocks, and the spare ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashLayout {
    /// Capacity that the host sees, in sectors; `simulated_mib` may simulate less.
    pub capacity_sectors: u64,
    /// Channels between controller and dies.
    pub channels: u64,
    /// Dies on each channel.
    pub dies_per_channel: u64,
    /// Planes of a die, programmed together.
    pub planes: u64,
    /// Size of a flash page of one plane; in KiB.
    pub page_kib: u64,
    /// Pages of an erase block. Blocks are halved until there are 500 superblocks, which are one
    /// block of every plane of every die, but not to fewer than 8 pages.
    pub pages_per_block: u64,
    /// Physical over logical capacity, less 1; reserve blocks not counted; in millionths.
    pub overprovision_millionths: u64,
    /// Free superblocks at which garbage collection begins.
    pub gc_low: u64,
    /// Free superblocks at which writes of the host wait for garbage collection.
    pub gc_reserve: u64,
    /// The page mapping is simulated for this capacity, in MiB. Higher addresses are taken modulo this
    /// capacity.
    pub simulated_mib: u64,
}

/// What dies and channels take, and how they treat reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashDies {
    /// Cell time of a page read; in nanoseconds.
    pub read_ns: u64,
    /// A random time up to this, uniformly distributed, is added to each page read; in nanoseconds.
    pub read_jitter_ns: u64,
    /// Time of a multi-plane program; in nanoseconds.
    pub program_ns: u64,
    /// Time of an erase; in nanoseconds.
    pub erase_ns: u64,
    /// Rate of a channel, one transfer at a time; in kB/s.
    pub channel_kb_per_s: u64,
    /// What a read does if its die is programming or erasing; an index into `READ_PRIORITIES`.
    pub read_priority: u64,
    /// Time to suspend a program; in nanoseconds.
    pub suspend_ns: u64,
    /// A die stays busy until its data has left over the channel; 0 = no, 1 = yes.
    pub die_hold: u64,
}

/// The cache of blocks that hold one bit per cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashSlc {
    /// Cache of blocks that hold one bit per cell; in MiB. 0 = none.
    pub slc_mib: u64,
    /// Time of a multi-plane program of that cache; in nanoseconds.
    pub slc_program_ns: u64,
    /// Rate at which the firmware moves data out of the cache; in kB/s. 0 = as fast as the dies.
    pub slc_fold_kb_per_s: u64,
    /// Bits per cell outside the cache.
    pub cell_bits: u64,
}

/// What a command costs besides the dies, and the limits of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashController {
    /// Host link, one transfer at a time; in kB/s.
    pub link_kb_per_s: u64,
    /// The link carries both directions at a time; 0 = no, 1 = yes.
    pub duplex: u64,
    /// Fixed latency of a read, flush or discard, pipelined; in nanoseconds.
    pub command_ns: u64,
    /// Fixed latency of a write once its data is in the buffer; in nanoseconds.
    pub write_ack_ns: u64,
    /// Firmware time per command, one at a time; in nanoseconds.
    pub serial_ns: u64,
    /// Commands in flight per hardware queue.
    pub depth: u64,
    /// Submission queues.
    pub hardware_queues: u64,
    /// Longest command; in sectors.
    pub max_sectors: u64,
}

/// The write buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashBuffer {
    /// Write buffer; in KiB.
    pub write_buffer_kib: u64,
    /// Programs in flight or queued in the back end.
    pub max_programs: u64,
    /// The write buffer survives a power loss: a flush waits for no program; 0 = no, 1 = yes.
    pub power_loss_protection: u64,
}

/// What was written before the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashHistory {
    /// State at the start: none mapped, filled once, or filled and overwritten at random; an index
    /// into `PRECONDITIONS`.
    pub precondition: u64,
    /// Random overwrites of precondition=random, in multiples of the capacity; in millionths.
    pub random_mult_millionths: u64,
}

impl FlashHistory {
    /// Whether the initial state is that after random overwrites.
    pub(crate) fn is_overwritten(&self) -> bool {
        PRECONDITIONS.get(usize::try_from(self.precondition).unwrap_or(usize::MAX)) == Some(&"random")
    }
}

impl Default for FlashParameters {
    /// A SATA-II MLC SSD of 2010: 270 MB/s, depth 31.
    fn default() -> Self {
        Self {
            layout: FlashLayout {
                capacity_sectors: 500_118_192,
                channels: 8,
                dies_per_channel: 4,
                planes: 1,
                page_kib: 4,
                pages_per_block: 128,
                overprovision_millionths: 70_000,
                gc_low: 3,
                gc_reserve: 2,
                simulated_mib: 8_192,
            },
            dies: FlashDies {
                read_ns: 50_000,
                read_jitter_ns: 10_000,
                program_ns: 900_000,
                erase_ns: 2_000_000,
                channel_kb_per_s: 32_000,
                read_priority: 0,
                suspend_ns: 50_000,
                die_hold: 0,
            },
            slc: FlashSlc { slc_mib: 0, slc_program_ns: 200_000, slc_fold_kb_per_s: 0, cell_bits: 3 },
            controller: FlashController {
                link_kb_per_s: 270_000,
                duplex: 0,
                command_ns: 60_000,
                write_ack_ns: 40_000,
                serial_ns: 5_000,
                depth: 31,
                hardware_queues: 1,
                max_sectors: 2_560,
            },
            buffer: FlashBuffer { write_buffer_kib: 256, max_programs: 32, power_loss_protection: 0 },
            history: FlashHistory { precondition: 1, random_mult_millionths: 4_000_000 },
        }
    }
}

impl FlashParameters {
    /// These settings with other values.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Smallest number of stripes (programs on every die) that the simulated capacity must hold.
const LEAST_STRIPES: u64 = 16;

impl FlashParameters {
    /// The first violated constraint between parameters: the key to change, what is wrong with it
    /// and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if !self.layout.page_kib.is_multiple_of(4) {
            return Err((
                "page_kib",
                format!("{} is no multiple of 4 KiB, the unit of the mapping", self.layout.page_kib),
            ));
        }
        if self.layout.gc_reserve >= self.layout.gc_low {
            let (reserve, low) = (self.layout.gc_reserve, self.layout.gc_low);
            return Err(("gc_reserve", format!("{reserve} is not below gc_low = {low}, where collection begins")));
        }
        let sizes = Sizes::of(&self.layout);
        if sizes.logical_units / sizes.stripe_units < LEAST_STRIPES {
            let (stripe, simulated) = (sizes.stripe_units * 4, sizes.logical_units * 4);
            let most = simulated / LEAST_STRIPES;
            return Err((
                "channels",
                format!(
                    "channels x dies_per_channel x planes x page_kib = {stripe} KiB; a capacity of {simulated} KiB \
                     (capacity_sectors, sim_mib) allows at most {most} KiB"
                ),
            ));
        }
        if sizes.superblocks.saturating_mul(sizes.superblock_units) >= u64::from(u32::MAX) {
            return Err((
                "sim_mib",
                "with overprovision more than 16 TiB of flash; at most 2^32 pages of 4 KiB".to_owned(),
            ));
        }
        let (buffered, program) = (self.buffer.write_buffer_kib / 4, sizes.program_units);
        if buffered < program || buffered > MOST_UNITS {
            let (least, most) = (program * 4, MOST_UNITS * 4);
            return Err((
                "write_buffer_kib",
                format!("{} is not in {least} (planes x page_kib) to {most}", self.buffer.write_buffer_kib),
            ));
        }
        Ok(())
    }
}

/// Every parameter with its unit, range and field.
pub(crate) const FLASH: &[Row<FlashParameters>] = rows! { FlashParameters:
    "capacity_sectors", Sectors, SECTORS, layout.capacity_sectors, "Capacity that the host sees; sim_mib may simulate less.";
    "channels", Count, (1..=1_024), layout.channels, "Channels between controller and dies.";
    "dies_per_channel", Count, (1..=64), layout.dies_per_channel, "Dies on each channel.";
    "planes", Count, (1..=8), layout.planes, "Planes of a die, programmed together.";
    "page_kib", Kibibytes, (4..=64), layout.page_kib, "Flash page of one plane.";
    "pages_per_block", Count, (4..=4_096), layout.pages_per_block, "Pages of an erase block; reduced, to 8 at least, until there are 500 superblocks (one block of every plane of every die).";
    "t_read_us", Microseconds, MICROSECONDS, dies.read_ns, "Cell time of a page read.";
    "t_read_jitter_us", Microseconds, MICROSECONDS, dies.read_jitter_ns, "A random time up to this, uniformly distributed, is added to each page read.";
    "t_prog_us", Microseconds, MICROSECONDS, dies.program_ns, "Time of a multi-plane program.";
    "t_erase_us", Microseconds, MICROSECONDS, dies.erase_ns, "Time of an erase.";
    "slc_mib", Mebibytes, (0..=16_777_216), slc.slc_mib, "Cache of blocks with one bit per cell; 0 = none.";
    "t_prog_slc_us", Microseconds, MICROSECONDS, slc.slc_program_ns, "Time of a multi-plane program of the cache.";
    "slc_fold_MBps", MegabytesPerSecond, MBPS, slc.slc_fold_kb_per_s, "Rate at which data moves out of the cache; 0 = as fast as the dies.";
    "cell_bits", Count, (1..=5), slc.cell_bits, "Bits per cell outside the cache, whose blocks hold one.";
    "channel_MBps", MegabytesPerSecond, LINK, dies.channel_kb_per_s, "Rate of a channel, one transfer at a time.";
    "link_MBps", MegabytesPerSecond, LINK, controller.link_kb_per_s, "Host link, one transfer at a time.";
    "duplex", Switch, SWITCH, controller.duplex, "The link carries both directions at a time.";
    "cmd_us", Microseconds, MICROSECONDS, controller.command_ns, "Fixed latency of a read, flush or discard, pipelined.";
    "write_ack_us", Microseconds, MICROSECONDS, controller.write_ack_ns, "Fixed latency of a write once its data is in the buffer.";
    "serial_us", Microseconds, MICROSECONDS, controller.serial_ns, "Firmware time per command, one at a time.";
    "write_buffer_kib", Kibibytes, (4..=16_777_216), buffer.write_buffer_kib, "Write buffer.";
    "overprovision", Ratio, (0..=10), layout.overprovision_millionths, "Physical over logical capacity, less 1; reserve blocks not counted.";
    "gc_low", Count, (1..=64), layout.gc_low, "Free superblocks at which garbage collection begins.";
    "gc_reserve", Count, (1..=64), layout.gc_reserve, "Free superblocks at which the host waits for garbage collection.";
    "max_programs", Count, (1..=65_536), buffer.max_programs, "Programs in flight or queued in the back end.";
    "read_priority", Choice(READ_PRIORITIES), (0..=2), dies.read_priority, "Behaviour of a read whose die is programming \
        or erasing.";
    "t_suspend_us", Microseconds, MICROSECONDS, dies.suspend_ns, "Time to suspend a program.";
    "die_hold", Switch, SWITCH, dies.die_hold, "A die stays busy until its data has left over the channel.";
    "queue_depth" | "qd", Count, DEPTH, controller.depth, "Commands in flight per hardware queue.";
    "hw_queues", Count, QUEUES, controller.hardware_queues, "Submission queues.";
    "plp", Switch, SWITCH, buffer.power_loss_protection, "The write buffer survives a power loss: a flush writes nothing.";
    "sim_mib", Mebibytes, (16..=1_048_576), layout.simulated_mib, "Capacity whose page mapping is simulated; higher addresses use it again from its start.";
    "precondition", Choice(PRECONDITIONS), (0..=2), history.precondition, "State at the start: none mapped, filled once, or filled and overwritten at random.";
    "random_mult", Ratio, (0..=100), history.random_mult_millionths, "Random overwrites of precondition=random, in multiples of the capacity.";
    "max_sectors", Sectors, COMMAND_SECTORS, controller.max_sectors, "Longest command.";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_contradict_each_other_are_named() {
        let default = FlashParameters::default();
        assert_eq!(default.check(), Ok(()));
        for (parameters, key) in [
            (default.clone().with(|flash| flash.layout.page_kib = 6), "page_kib"),
            (default.clone().with(|flash| flash.layout.gc_reserve = 3), "gc_reserve"),
            (
                default.clone().with(|flash| {
                    flash.layout.channels = 1_024;
                    flash.layout.dies_per_channel = 64;
                    flash.layout.simulated_mib = 1_024;
                }),
                "channels",
            ),
            (default.clone().with(|flash| flash.layout.capacity_sectors = 8), "channels"),
            (
                default.clone().with(|flash| {
                    flash.layout.capacity_sectors = 1 << 34;
                    flash.layout.simulated_mib = 1 << 23;
                    flash.layout.overprovision_millionths = 10_000_000;
                }),
                "sim_mib",
            ),
            (
                default.clone().with(|flash| {
                    flash.layout.planes = 8;
                    flash.layout.page_kib = 64;
                }),
                "write_buffer_kib",
            ),
            (default.clone().with(|flash| flash.buffer.write_buffer_kib = 1 << 20), "write_buffer_kib"),
        ] {
            let (named, text) = parameters.check().expect_err(key);
            assert_eq!(named, key, "{text}");
        }
    }
}
