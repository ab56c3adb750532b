//! The placement of a unit: superblock, die, page and channel, as arithmetic on physical unit
//! numbers.
//!
//! A *unit* is 4 KiB, the granularity of the mapping. A *program unit* is what one multi-plane
//! program writes. A *superblock* is one erase block of every plane of every die; its program units
//! rotate over the dies, and the dies over the channels, so that consecutive data spreads over
//! channels first.

use hoistway_block::Sector;

use super::parameters::FlashLayout;

/// Sectors per unit.
pub(super) const UNIT_SECTORS: u32 = 8;
/// Blocks are made smaller until the simulated capacity has this many superblocks: with fewer, the
/// superblocks that are kept free are a large part of the spare capacity, and write amplification
/// is too high.
const SUPERBLOCKS_WANTED: u64 = 500;
/// Lower bound of the pages of a block that is made smaller: an erase takes the same time for any
/// block size, so the fewer pages a block has, the larger is the part of its time that a drive
/// spends on erases. The NVMe preset reaches the bound, with 256 superblocks in 8 GiB.
const LEAST_PAGES: u64 = 8;

/// Division by a number known only at construction, without the divide instruction.
#[derive(Copy, Clone, Debug)]
pub(super) struct Divisor {
    divisor: u32,
    reciprocal: u64,
}

impl Divisor {
    fn new(divisor: u32) -> Self {
        let divisor = divisor.max(1);
        Self { divisor, reciprocal: u64::MAX / u64::from(divisor) }
    }

    /// `number / divisor`. With r = floor((2^64 - 1) / d), (n + 1) r / 2^64 lies below (n + 1) / d
    /// by less than 1 / d for all n below 2^32 and d up to 2^31, so its integer part is that of n /
    /// d.
    #[inline]
    pub(super) fn quotient(self, number: u32) -> u32 {
        let product = u128::from(self.reciprocal) * (u128::from(number) + 1);
        // At most `number`.
        u32::try_from(product >> 64).unwrap_or(u32::MAX)
    }

    /// `number % divisor`.
    #[inline]
    pub(super) fn remainder(self, number: u32) -> u32 {
        number - self.quotient(number) * self.divisor
    }
}

/// The sizes, and the mapping from a unit to its place.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Units to which the host's addresses are mapped; addresses beyond wrap.
    pub(super) logical_units: u32,
    pub(super) physical_units: u32,
    pub(super) superblocks: u32,
    pub(super) superblock_units: u32,
    /// Units per flash page, which one read senses.
    pub(super) page_units: u32,
    /// Units per multi-plane program.
    pub(super) program_units: u32,
    pub(super) dies: u32,
    pub(super) channels: u32,
    by_page: Divisor,
    by_program: Divisor,
    by_dies: Divisor,
    by_channels: Divisor,
    by_superblock: Divisor,
}

impl Layout {
    /// The layout for these parameters, which have passed [`crate::FlashParameters::check`]; values out of
    /// range are clamped.
    pub(super) fn new(parameters: &FlashLayout) -> Self {
        let sizes = Sizes::of(parameters);
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let (dies, channels) = (narrow(sizes.dies), narrow(parameters.channels.max(1)));
        let (page_units, program_units) = (narrow(sizes.page_units), narrow(sizes.program_units));
        let superblock_units = narrow(sizes.superblock_units);
        Self {
            logical_units: narrow(sizes.logical_units),
            physical_units: narrow(sizes.superblocks * sizes.superblock_units),
            superblocks: narrow(sizes.superblocks),
            superblock_units,
            page_units,
            program_units,
            dies,
            channels,
            by_page: Divisor::new(page_units),
            by_program: Divisor::new(program_units),
            by_dies: Divisor::new(dies),
            by_channels: Divisor::new(channels),
            by_superblock: Divisor::new(superblock_units),
        }
    }

    /// The unit of a sector. Distances are preserved; addresses beyond the simulated capacity wrap.
    #[inline]
    pub(super) fn unit_of(&self, sector: Sector) -> u32 {
        let unit = sector / u64::from(UNIT_SECTORS);
        let units = u64::from(self.logical_units);
        let wrapped = if units.is_power_of_two() { unit & (units - 1) } else { unit % units };
        u32::try_from(wrapped).unwrap_or(0)
    }

    /// The unit after `unit`.
    #[inline]
    pub(super) fn following(&self, unit: u32) -> u32 {
        if unit + 1 == self.logical_units { 0 } else { unit + 1 }
    }

    #[inline]
    pub(super) fn page_of(&self, physical: u32) -> u32 {
        self.by_page.quotient(physical)
    }

    /// Whether a program unit begins at a place.
    #[inline]
    pub(super) fn begins_program(&self, physical: u32) -> bool {
        self.by_program.remainder(physical) == 0
    }

    /// A superblock contains a whole number of rounds over the dies, so its number does not matter.
    #[inline]
    pub(super) fn die_of(&self, physical: u32) -> u32 {
        self.by_dies.remainder(self.by_program.quotient(physical))
    }

    #[inline]
    pub(super) fn channel_of(&self, die: u32) -> u32 {
        self.by_channels.remainder(die)
    }

    #[inline]
    pub(super) fn superblock_of(&self, physical: u32) -> u32 {
        self.by_superblock.quotient(physical)
    }

    /// Units of one program on every die.
    pub(super) fn stripe_units(&self) -> u32 {
        self.dies * self.program_units
    }
}

/// The sizes of a [`Layout`] in 64 bits, before they are known to fit into 32;
/// [`crate::FlashParameters::check`] uses them too.
pub(super) struct Sizes {
    pub(super) logical_units: u64,
    pub(super) superblocks: u64,
    pub(super) superblock_units: u64,
    pub(super) stripe_units: u64,
    pub(super) program_units: u64,
    page_units: u64,
    dies: u64,
}

impl Sizes {
    pub(super) fn of(parameters: &FlashLayout) -> Self {
        let capacity_units = parameters.capacity_sectors / u64::from(UNIT_SECTORS);
        let logical_units = capacity_units.min(parameters.simulated_mib * 256).max(1);
        let page_units = (parameters.page_kib / 4).max(1);
        let program_units = page_units * parameters.planes.max(1);
        let dies = parameters.channels.max(1) * parameters.dies_per_channel.max(1);
        let stripe_units = program_units * dies;
        // Halved, rounding down, as often as needed and allowed.
        let mut pages = parameters.pages_per_block.max(1);
        while pages >= 2 * LEAST_PAGES && logical_units / (stripe_units * pages) < SUPERBLOCKS_WANTED {
            pages /= 2;
        }
        let superblock_units = stripe_units * pages;
        let spare = u128::from(logical_units) * u128::from(parameters.overprovision_millionths) / 1_000_000;
        let units = logical_units + u64::try_from(spare).unwrap_or(u64::MAX / 2);
        // Superblocks beyond the stated capacity: those that are free when collection starts, and
        // the two open ones.
        let superblocks = units.div_ceil(superblock_units) + parameters.gc_low + 2;
        Self { logical_units, superblocks, superblock_units, stripe_units, program_units, page_units, dies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlashParameters;
    use hoistway_block::random::Stream;

    #[test]
    fn a_reciprocal_divides_exactly() {
        let mut stream = Stream::new(1);
        let mut narrow = |bound: u64| u32::try_from(stream.below(bound)).unwrap();
        for _ in 0..200_000 {
            let divisor = match narrow(3) {
                0 => 1 + narrow(20),
                1 => 1 << narrow(31),
                _ => 1 + narrow(1 << 30),
            };
            let near = (1 + narrow(1 << 10)).saturating_mul(divisor);
            for number in [0, 1, near - 1, near, near.saturating_add(1), narrow(1 << 32), u32::MAX] {
                let by = Divisor::new(divisor);
                assert_eq!(by.quotient(number), number / divisor, "{number} / {divisor}");
                assert_eq!(by.remainder(number), number % divisor, "{number} % {divisor}");
            }
        }
    }

    #[test]
    fn blocks_are_halved_until_there_are_500_superblocks_or_8_pages_in_a_block() {
        // 32 dies x 1 unit x 128 pages = 16 MiB: 512 of them in 8 GiB, plus 7 % and 5 more.
        let layout = Layout::new(&FlashParameters::default().layout);
        assert_eq!((layout.superblock_units, layout.superblocks), (4_096, 548 + 5));
        // Programs of 4 planes x 16 KiB on 64 dies: 4 MiB per page, so 256 pages would have to
        // become 4.
        let nvme = FlashParameters::default().with(|flash| {
            flash.layout.channels = 16;
            flash.layout.planes = 4;
            flash.layout.page_kib = 16;
            flash.layout.pages_per_block = 256;
        });
        assert_eq!(Layout::new(&nvme.layout).superblock_units, 1_024 * 8);
        let one_gib = FlashParameters::default().with(|flash| {
            flash.layout.simulated_mib = 1_024;
            flash.layout.pages_per_block = 24;
        });
        assert_eq!(Layout::new(&one_gib.layout).superblock_units, 32 * 12, "24 pages become 12: 682 superblocks");
    }

    #[test]
    fn consecutive_units_go_over_channels_first() {
        let parameters = FlashParameters::default().with(|flash| {
            flash.layout.planes = 2;
            flash.layout.page_kib = 8;
        });
        let layout = Layout::new(&parameters.layout);
        let dies: Vec<u32> = (0..6).map(|program| layout.die_of(program * 4)).collect();
        assert_eq!(dies, [0, 1, 2, 3, 4, 5]);
        assert_eq!((layout.channel_of(7), layout.channel_of(8), layout.channel_of(31)), (7, 0, 7));
        assert_eq!((layout.page_of(3), layout.page_of(4)), (1, 2));
        assert_eq!(layout.die_of(layout.superblock_units), 0, "every superblock begins on die 0");
    }

    #[test]
    fn addresses_wrap_at_the_simulated_capacity() {
        let layout = Layout::new(&FlashParameters::default().with(|flash| flash.layout.simulated_mib = 48).layout);
        assert_eq!(layout.unit_of(48 * 2_048 + 17), 2);
        assert_eq!(layout.following(48 * 256 - 1), 0);
    }
}
