//! One row per device parameter: name, unit, range, meaning. The parser, the errors and `hoistway
//! list devices` use it.

use crate::delay::DelayParameters;
use crate::fault::FaultParameters;
use crate::limit::LimitParameters;
use crate::null::NullParameters;

/// The unit in which people write a parameter; models store nanoseconds for both units of time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Sectors of 512 bytes.
    Sectors,
    /// Microseconds, decimals allowed.
    Microseconds,
    /// Milliseconds, decimals allowed.
    Milliseconds,
    /// 10^6 bytes per second, decimals allowed; models store kB/s.
    MegabytesPerSecond,
    /// 2^10 bytes.
    Kibibytes,
    /// 2^20 bytes.
    Mebibytes,
    /// A plain ratio, decimals allowed; models store millionths.
    Ratio,
    /// One of these words; models store its index.
    Choice(&'static [&'static str]),
    /// Events per second.
    PerSecond,
    /// Parts per million.
    PartsPerMillion,
    /// Off (`0`, `false`, `no`, `off`) or on (`1`, `true`, `yes`, `on`).
    Switch,
}

impl Unit {
    /// The label printed after a value; empty for bare numbers.
    pub const fn label(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Sectors => "sectors",
            Unit::Microseconds => "us",
            Unit::Milliseconds => "ms",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Kibibytes => "KiB",
            Unit::Mebibytes => "MiB",
            Unit::Ratio | Unit::Choice(_) => "",
            Unit::PerSecond => "1/s",
            Unit::PartsPerMillion => "ppm",
            Unit::Switch => "0 or 1",
        }
    }

    /// Stored units per written unit, and the number of decimals that this allows.
    const fn scale(self) -> (u64, u32) {
        match self {
            Unit::Microseconds | Unit::MegabytesPerSecond => (1_000, 3),
            Unit::Ratio => (1_000_000, 6),
            Unit::Milliseconds => (1_000_000, 6),
            _ => (1, 0),
        }
    }

    /// The number of decimals that a written value may have.
    pub const fn decimals(self) -> u32 {
        self.scale().1
    }

    /// The stored value of a written one; `None` if it cannot be parsed.
    pub(crate) fn parse(self, text: &str) -> Option<u64> {
        if self == Unit::Switch {
            return match text {
                "1" | "true" | "yes" | "on" => Some(1),
                "0" | "false" | "no" | "off" => Some(0),
                _ => None,
            };
        }
        if let Unit::Choice(words) = self {
            return words.iter().position(|word| *word == text).and_then(|index| u64::try_from(index).ok());
        }
        let (scale, decimals) = self.scale();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = u32::try_from(fraction.len()).ok()?;
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits > decimals {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        whole.checked_mul(scale)?.checked_add(fraction * 10_u64.pow(decimals - digits))
    }

    /// A stored value as people write it, without trailing zeros.
    pub fn show(self, stored: u64) -> String {
        if let Unit::Choice(words) = self {
            let word = usize::try_from(stored).ok().and_then(|index| words.get(index));
            return word.map_or_else(|| stored.to_string(), |word| (*word).to_owned());
        }
        let (scale, decimals) = self.scale();
        let (whole, fraction) = (stored / scale, stored % scale);
        if fraction == 0 {
            return whole.to_string();
        }
        let text = format!("{whole}.{fraction:0width$}", width = decimals as usize);
        text.trim_end_matches('0').to_owned()
    }
}

/// The description of a parameter, independent of its model.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The key in `model:NAME,key=value`.
    pub name: &'static str,
    /// A second name, or the empty string.
    pub alias: &'static str,
    /// The unit of the written value.
    pub unit: Unit,
    /// Smallest value, in the written unit.
    pub minimum: u64,
    /// Largest value, in the written unit.
    pub maximum: u64,
    /// Its meaning, in one sentence.
    pub doc: &'static str,
}

impl Parameter {
    /// Unit and range, in the form of errors and listings.
    pub fn allowed(&self) -> String {
        match self.unit {
            Unit::Switch => self.unit.label().to_owned(),
            Unit::Choice(words) => words.join(" or "),
            Unit::Count | Unit::Ratio => format!("{} to {}", self.minimum, self.maximum),
            unit => format!("{} to {} {}", self.minimum, self.maximum, unit.label()),
        }
    }

    /// The stored value of a written one, if it can be parsed and is within the range.
    pub(crate) fn parse(&self, text: &str) -> Option<u64> {
        let stored = self.unit.parse(text)?;
        let (scale, _) = self.unit.scale();
        (self.minimum * scale <= stored && stored <= self.maximum * scale).then_some(stored)
    }
}

/// A parameter and the field that it sets.
pub(crate) struct Row<P: 'static> {
    pub(crate) parameter: Parameter,
    pub(crate) field: fn(&mut P) -> &mut u64,
}

macro_rules! rows {
    ($parameters:ty: $($name:literal $(| $alias:literal)?, $unit:ident $(($words:ident))?, $range:expr, $($field:ident).+, $doc:literal;)*) => {
        &[$($crate::parameter::Row {
            parameter: $crate::parameter::Parameter {
                name: $name,
                alias: concat!($($alias)?),
                unit: $crate::parameter::Unit::$unit $(($words))?,
                minimum: *$range.start(),
                maximum: *$range.end(),
                doc: $doc,
            },
            field: |parameters: &mut $parameters| &mut parameters.$($field).+,
        }),*]
    };
}

pub(crate) const SECTORS: std::ops::RangeInclusive<u64> = 8..=1 << 45;
pub(crate) const SWITCH: std::ops::RangeInclusive<u64> = 0..=1;
pub(crate) const MILLISECONDS: std::ops::RangeInclusive<u64> = 0..=100_000;
pub(crate) const MICROSECONDS: std::ops::RangeInclusive<u64> = 0..=100_000_000;
pub(crate) const PPM: std::ops::RangeInclusive<u64> = 0..=1_000_000;
pub(crate) const MBPS: std::ops::RangeInclusive<u64> = 0..=1_000_000;
/// The range of a rate in MB/s that may not be 0. A rate of 0 means that transfers take no time.
pub(crate) const LINK: std::ops::RangeInclusive<u64> = 1..=1_000_000;
pub(crate) const DEPTH: std::ops::RangeInclusive<u64> = 1..=4_096;
pub(crate) const QUEUES: std::ops::RangeInclusive<u64> = 1..=128;
pub(crate) const COMMAND_SECTORS: std::ops::RangeInclusive<u64> = 8..=65_536;

pub(crate) use rows;

pub(crate) const NULL: &[Row<NullParameters>] = rows! { NullParameters:
    "capacity_sectors", Sectors, SECTORS, capacity_sectors, "Capacity.";
    "latency_us", Microseconds, MICROSECONDS, latency_ns, "Time from start of service to completion.";
    "servers", Count, (0..=65_536), servers, "Requests served at a time; 0 = all.";
    "queue_depth" | "qd", Count, DEPTH, depth, "Commands in flight per hardware queue.";
    "hw_queues", Count, QUEUES, hardware_queues, "Submission queues.";
    "mbps", MegabytesPerSecond, MBPS, kb_per_s, "Cap on bandwidth; 0 = none.";
    "iops", PerSecond, (0..=100_000_000), iops, "Cap on requests; 0 = none.";
    "inline", Switch, SWITCH, inline, "Completes at the time of submission.";
    "max_sectors", Sectors, COMMAND_SECTORS, max_sectors, "Longest command.";
    "volatile_cache", Switch, SWITCH, volatile_cache, "Writes need a flush to be durable.";
    "fua", Switch, SWITCH, fua, "Honours FUA.";
};

pub(crate) const DELAY: &[Row<DelayParameters>] = rows! { DelayParameters:
    "read_delay_us", Microseconds, MICROSECONDS, read_ns, "Added to every read.";
    "write_delay_us", Microseconds, MICROSECONDS, write_ns, "Added to every write, discard and zeroing write.";
    "flush_delay_us", Microseconds, MICROSECONDS, flush_ns, "Added to every flush.";
    "delay_jitter_us", Microseconds, MICROSECONDS, jitter_ns, "Width of the uniform jitter of these delays.";
};

pub(crate) const LIMIT: &[Row<LimitParameters>] = rows! { LimitParameters:
    "cap_iops", PerSecond, (0..=100_000_000), requests_per_s, "Cap on requests, sustained; 0 = none.";
    "cap_burst_iops", PerSecond, (0..=100_000_000), burst_requests_per_s, "Cap on requests while there is credit; 0 = none.";
    "cap_burst_ios", Count, (0..=1_000_000_000), burst_requests, "Credit: requests above the sustained cap, full at the start.";
    "cap_write_cost", Ratio, (0..=1_000), write_cost_millionths, "Requests that a write counts for in these caps.";
    "cap_MBps", MegabytesPerSecond, MBPS, kb_per_s, "Cap on bandwidth, sustained; 0 = none.";
    "cap_burst_MBps", MegabytesPerSecond, MBPS, burst_kb_per_s, "Cap on bandwidth while there is credit; 0 = none.";
    "cap_burst_mib", Mebibytes, (0..=1_048_576), burst_mib, "Credit: data above the sustained cap, full at the start.";
};

pub(crate) const FAULT: &[Row<FaultParameters>] = rows! { FaultParameters:
    "error_ppm", PartsPerMillion, PPM, error_ppm, "Commands that end with an I/O error.";
    "bad_first_sector", Sectors, (0..=1 << 45), bad_first_sector, "Start of a range that cannot be read or written.";
    "bad_sectors", Sectors, (0..=1 << 45), bad_sectors, "Length of that range; 0 = none.";
    "slow_first_sector", Sectors, (0..=1 << 45), slow_first_sector, "Start of a range that is slow to read and write.";
    "slow_sectors", Sectors, (0..=1 << 45), slow_sectors, "Length of that range; 0 = none.";
    "slow_ms", Milliseconds, MILLISECONDS, slow_ns, "Added to a command that touches the slow range.";
    "stall_ppm", PartsPerMillion, PPM, stall_ppm, "Commands at which the device stalls.";
    "stall_ms", Milliseconds, MILLISECONDS, stall_ns, "Length of a stall.";
    "hiccup_every_ms", Milliseconds, MILLISECONDS, hiccup_every_ns, "From the end of a firmware hiccup to the next, on average; at random half to one and a half times as long; 0 = none.";
    "hiccup_ms", Milliseconds, MILLISECONDS, hiccup_ns, "Length of a hiccup: the device does nothing.";
    "reset_ppm", PartsPerMillion, PPM, reset_ppm, "Commands at which the device is reset and loses what is in flight.";
    "reset_ms", Milliseconds, MILLISECONDS, reset_ns, "Length of a reset.";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_nanoseconds_once() {
        assert_eq!(Unit::Milliseconds.parse("8.333333"), Some(8_333_333));
        assert_eq!(Unit::Microseconds.parse("12.5"), Some(12_500));
        assert_eq!(Unit::Microseconds.parse("12.5000"), None);
        assert_eq!(Unit::Count.parse("12.5"), None);
        assert_eq!(Unit::Count.parse("-1"), None);
        assert_eq!(Unit::Count.parse(""), None);
    }

    #[test]
    fn a_value_shown_parses_to_itself() {
        for stored in [0, 1, 999, 1_000, 1_500_000, 123_456_789] {
            for unit in [Unit::Microseconds, Unit::Milliseconds, Unit::Count] {
                assert_eq!(unit.parse(&unit.show(stored)), Some(stored));
            }
        }
    }
}
