//! The cost of an I/O: a part for positioning and a part for size, from six numbers that describe a
//! device.

use super::clock::{VTIME_PER_S, Vtime};
use crate::request::Bio;
use crate::throttle::Pair;
use hoistway_block::{Direction, Operation, Sector};

/// A page, in sectors.
const PAGE_SECTORS: u64 = 8;
const PAGE_BYTES: u64 = 4_096;
/// Beyond this distance from the end of a group's last I/O (16 MiB) the next one counts as random.
const RANDOM_DISTANCE_SECTORS: u64 = 4_096 * PAGE_SECTORS;
/// No single I/O costs more than this (1,024 s), so that even a model of one byte a second cannot
/// stop a group for ever.
pub const MOST: Vtime = (1 << 47) - 1;

/// The origin of a set of parameters.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// From the class of the device.
    Auto,
    /// From the user.
    User,
}

/// What a device can do in one direction.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Speeds {
    /// Bytes per second of large sequential I/O; 0 = size costs nothing.
    pub bytes_per_s: u64,
    /// Sequential I/Os of 4 KiB per second; 0 = positioning costs nothing.
    pub sequential_ios_per_s: u64,
    /// Random I/Os of 4 KiB per second; 0 = positioning costs nothing.
    pub random_ios_per_s: u64,
}

/// The linear model (`io.cost.model`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// Where these numbers come from.
    pub control: Control,
    /// Speeds of reads.
    pub read: Speeds,
    /// Speeds of writes.
    pub write: Speeds,
}

/// Latency targets and bounds of the clock (`io.cost.qos`). One per cent is 10,000 ppm.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Qos {
    /// Whether groups are limited at all.
    pub is_enabled: bool,
    /// Where these numbers come from.
    pub control: Control,
    /// Share of reads that must meet `read_latency_us`; 0 = reads are not watched.
    pub read_ppm: u32,
    /// Latency target of reads.
    pub read_latency_us: u64,
    /// Share of writes that must meet `write_latency_us`; 0 = writes are not watched.
    pub write_ppm: u32,
    /// Latency target of writes.
    pub write_latency_us: u64,
    /// Slowest rate of the device's clock.
    pub min_ppm: u32,
    /// Fastest rate of the device's clock.
    pub max_ppm: u32,
}

/// One per cent.
pub const PERCENT_PPM: u32 = 10_000;
/// The range of `min_ppm` and `max_ppm`: 1 % to 10000 %.
pub const RATE_PPM: core::ops::RangeInclusive<u32> = PERCENT_PPM..=10_000 * PERCENT_PPM;

/// A kind of device, with default parameters for users who have measured nothing.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// A disk.
    Disk,
    /// Flash with a queue depth of 1.
    FlashDepth1,
    /// Flash.
    Flash,
    /// Flash on a fast bus.
    FlashFast,
}

const fn speeds(bytes_per_s: u64, sequential_ios_per_s: u64, random_ios_per_s: u64) -> Speeds {
    Speeds { bytes_per_s, sequential_ios_per_s, random_ios_per_s }
}

impl Class {
    /// The default model of a device of this class.
    pub const fn model(self) -> Model {
        let (read, write) = match self {
            Class::Disk => (speeds(174_019_176, 41_708, 370), speeds(178_075_866, 42_705, 378)),
            Class::FlashDepth1 => (speeds(245_855_193, 61_575, 6_946), speeds(141_365_009, 33_716, 26_796)),
            Class::Flash => (speeds(488_636_629, 8_932, 8_518), speeds(427_891_549, 28_755, 21_940)),
            Class::FlashFast => (speeds(3_102_524_156, 724_816, 778_122), speeds(1_742_780_862, 425_702, 443_193)),
        };
        Model { control: Control::Auto, read, write }
    }

    /// The default targets. The share of requests that must meet them is 0, so the clock only
    /// becomes slower if bios wait for requests.
    pub const fn qos(self) -> Qos {
        let latency_us = match self {
            Class::Disk => 250_000,
            Class::FlashDepth1 | Class::Flash => 25_000,
            Class::FlashFast => 5_000,
        };
        Qos {
            is_enabled: true,
            control: Control::Auto,
            read_ppm: 0,
            read_latency_us: latency_us,
            write_ppm: 0,
            write_latency_us: latency_us,
            min_ppm: *RATE_PPM.start(),
            max_ppm: *RATE_PPM.end(),
        }
    }
}

/// Device time of the parts of an I/O, for one direction.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Coefficients {
    /// For each 4 KiB.
    pub page: Vtime,
    /// For positioning of an I/O near the last one.
    pub sequential: Vtime,
    /// For positioning of any other I/O.
    pub random: Vtime,
}

impl Coefficients {
    /// Computes the coefficients from the device's speeds.
    pub fn of(speeds: &Speeds) -> Self {
        let share = |count: u64| if count == 0 { 0 } else { VTIME_PER_S.div_ceil(count) };
        let page = share(speeds.bytes_per_s.div_ceil(PAGE_BYTES));
        Self {
            page,
            sequential: share(speeds.sequential_ios_per_s).saturating_sub(page),
            random: share(speeds.random_ios_per_s).saturating_sub(page),
        }
    }
}

/// An I/O's device time, by its parts.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// For positioning; refunded if the bio is merged into a request.
    pub place: Vtime,
    /// For the data.
    pub size: Vtime,
}

impl Cost {
    /// Both parts.
    #[inline]
    pub const fn total(self) -> Vtime {
        let total = self.place.saturating_add(self.size);
        if total > MOST { MOST } else { total }
    }
}

/// The model in the form used for calculation.
#[derive(Clone, Debug)]
pub struct Prices(Pair<Coefficients>);

impl Prices {
    pub fn of(model: &Model) -> Self {
        Self(Pair { read: Coefficients::of(&model.read), write: Coefficients::of(&model.write) })
    }

    /// The cost of a bio for a group whose last one ended at `cursor` (0 = none yet). Only reads
    /// and writes of data cost anything.
    #[inline]
    pub fn cost(&self, bio: &Bio, cursor: Sector) -> Cost {
        let Some(direction) = charged_direction(bio.operation) else { return Cost::default() };
        if bio.extent.sectors == 0 {
            return Cost::default();
        }
        let prices = self.0.of(direction);
        let is_random = cursor != 0 && bio.extent.first_sector.abs_diff(cursor) > RANDOM_DISTANCE_SECTORS;
        let place = if is_random { prices.random } else { prices.sequential };
        Cost { place: place.min(MOST), size: self.size(direction, bio.extent.sectors) }
    }

    /// The device time of a request's data, without positioning.
    #[inline]
    pub fn size(&self, direction: Direction, sectors: u32) -> Vtime {
        let pages = (u64::from(sectors) / PAGE_SECTORS).max(1);
        pages.saturating_mul(self.0.of(direction).page).min(MOST)
    }
}

/// The direction of reads and writes of data; other commands cost nothing and never wait.
#[inline]
pub const fn charged_direction(operation: Operation) -> Option<Direction> {
    match operation {
        Operation::Read => Some(Direction::Read),
        Operation::Write => Some(Direction::Write),
        _ => None,
    }
}
