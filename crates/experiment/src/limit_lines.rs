//! The kernel's lines for limits: `io.max` and `io.low` of cgroup v2, `blkio.throttle.*_device` of
//! v1; parsed and formatted.
//!
//! What the kernel refuses is refused with its error's name and a remedy. What it would
//! misinterpret is refused as well: for v1, `1M` is 1 byte per second. A line is applied as a whole
//! or not at all. Source: Linux 6.1, block/blk-throttle.c; docs/specifications/throttle.md, section
//! 2.1.

use hoistway_block::DeviceNumber;

use crate::Diagnostic;
use crate::diagnostic::nearest;
use crate::group::{Limits, LowLimits};

/// The four files of v1.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum V1File {
    /// `blkio.throttle.read_bps_device`.
    ReadBytes,
    /// `blkio.throttle.write_bps_device`.
    WriteBytes,
    /// `blkio.throttle.read_iops_device`.
    ReadIos,
    /// `blkio.throttle.write_iops_device`.
    WriteIos,
}

impl V1File {
    /// All four.
    pub const ALL: [V1File; 4] = [V1File::ReadBytes, V1File::WriteBytes, V1File::ReadIos, V1File::WriteIos];

    /// Its name in the group's directory.
    pub const fn name(self) -> &'static str {
        match self {
            V1File::ReadBytes => "blkio.throttle.read_bps_device",
            V1File::WriteBytes => "blkio.throttle.write_bps_device",
            V1File::ReadIos => "blkio.throttle.read_iops_device",
            V1File::WriteIos => "blkio.throttle.write_iops_device",
        }
    }

    fn of(self, limits: &Limits) -> Option<u64> {
        match self {
            V1File::ReadBytes => limits.read_bytes_per_s,
            V1File::WriteBytes => limits.write_bytes_per_s,
            V1File::ReadIos => limits.read_ios_per_s,
            V1File::WriteIos => limits.write_ios_per_s,
        }
    }

    fn of_mut(self, limits: &mut Limits) -> &mut Option<u64> {
        match self {
            V1File::ReadBytes => &mut limits.read_bytes_per_s,
            V1File::WriteBytes => &mut limits.write_bytes_per_s,
            V1File::ReadIos => &mut limits.read_ios_per_s,
            V1File::WriteIos => &mut limits.write_ios_per_s,
        }
    }
}

/// Writes a line to one of v1's files: `8:0 1048576`; 0 removes the limit.
///
/// # Errors
/// What is wrong with the line; nothing is changed.
pub fn write_v1(file: V1File, line: &str, limits: &mut Limits) -> Result<DeviceNumber, Diagnostic> {
    let (device, rest) = split_device(line)?;
    let rest = rest.trim();
    let value: u64 = rest.parse().map_err(|_| v1_value(rest, file))?;
    let is_ios = matches!(file, V1File::ReadIos | V1File::WriteIos);
    if is_ios && value > u64::from(u32::MAX) {
        let message = format!("{value} I/Os per second are more than {} (ERANGE)", u32::MAX);
        return Err(Diagnostic::new(message, "write 0 for no limit"));
    }
    *file.of_mut(limits) = (value > 0).then_some(value);
    Ok(device)
}

/// The content of v1's file for one device; `None` without a limit.
pub fn read_v1(file: V1File, device: DeviceNumber, limits: &Limits) -> Option<String> {
    file.of(limits).map(|value| format!("{device} {value}"))
}

fn v1_value(text: &str, file: V1File) -> Diagnostic {
    let leading: String = text.chars().take_while(char::is_ascii_digit).collect();
    let name = file.name();
    if leading.is_empty() {
        let message = format!("'{text}' is not a value for {name} (EINVAL)");
        return Diagnostic::new(message, "write MAJ:MIN and a whole number, 0 for no limit: 8:0 1048576");
    }
    let meant = with_suffix(text).map_or_else(String::new, |meant| format!("; {meant} would be '{text}'"));
    let message = format!("'{text}' is not a whole number: {name} takes no units, the kernel would read {leading}");
    Diagnostic::new(message, format!("write the number in full{meant}"))
}

/// The number that is probably meant by `1M` or `512k`, in powers of 1,024.
fn with_suffix(text: &str) -> Option<u64> {
    let (digits, suffix) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let shift = match suffix {
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Keys of `io.max`.
const MAX_KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];
/// Keys of `io.low`.
const LOW_KEYS: [&str; 6] = ["rbps", "wbps", "riops", "wiops", "idle", "latency"];

/// Writes a line to `io.max`: `8:0 rbps=1048576 wiops=max`; omitted keys keep their values.
///
/// # Errors
/// What is wrong with the line; nothing is changed.
pub fn write_io_max(line: &str, limits: &mut Limits) -> Result<DeviceNumber, Diagnostic> {
    let (device, rest) = split_device(line)?;
    let mut new = *limits;
    for word in rest.split_whitespace() {
        let (key, value) = pair(word, "io.max", &MAX_KEYS)?;
        let value = number(key, value)?;
        let place = match key {
            "rbps" => &mut new.read_bytes_per_s,
            "wbps" => &mut new.write_bytes_per_s,
            "riops" => &mut new.read_ios_per_s,
            _ => &mut new.write_ios_per_s,
        };
        *place = match value {
            Some(0) => {
                let message = format!("{key}=0 would stop the group (ERANGE)");
                return Err(Diagnostic::new(message, format!("write {key}=max for no limit, or at least 2")));
            }
            Some(1) => {
                let message = format!("{key}=1 is too small (EINVAL)");
                return Err(Diagnostic::new(message, "limits are at least 2"));
            }
            Some(value) if key.ends_with("iops") => Some(value.min(u64::from(u32::MAX))),
            value => value,
        };
    }
    *limits = new;
    Ok(device)
}

/// Keys of [`write_ceilings`].
const CEILING_KEYS: [&str; 7] = ["rbps", "wbps", "riops", "wiops", "tbps", "tiops", "burst_ms"];
/// Valid times for which a group may save up what it does not use, in ms.
pub const BURSTS_MS: std::ops::RangeInclusive<u64> = 1..=3_600_000;

/// Writes a line of `io.max` with the keys that only our own limiter knows: `tbps` and `tiops` for reads and
/// writes together, and `burst_ms`. Rates are 1 and more. `max` takes a value away; omitted keys keep theirs.
///
/// # Errors
/// What is wrong with the line; nothing is changed.
pub fn write_ceilings(line: &str, limits: &mut Limits) -> Result<DeviceNumber, Diagnostic> {
    let (device, rest) = split_device(line)?;
    let mut new = *limits;
    for word in rest.split_whitespace() {
        let (key, value) = pair(word, "io.max", &CEILING_KEYS)?;
        let value = number(key, value)?;
        let place = match key {
            "rbps" => &mut new.read_bytes_per_s,
            "wbps" => &mut new.write_bytes_per_s,
            "riops" => &mut new.read_ios_per_s,
            "wiops" => &mut new.write_ios_per_s,
            "tbps" => &mut new.total_bytes_per_s,
            "tiops" => &mut new.total_ios_per_s,
            _ => &mut new.burst_ms,
        };
        *place = match value {
            Some(value) if key == "burst_ms" && !BURSTS_MS.contains(&value) => {
                let message = format!("burst_ms={value} is outside {} to {}", BURSTS_MS.start(), BURSTS_MS.end());
                return Err(Diagnostic::new(message, "write burst_ms=max for the default, 100"));
            }
            Some(0) => {
                let message = format!("{key}=0 would stop the group (ERANGE)");
                return Err(Diagnostic::new(message, format!("write {key}=max for no limit, or at least 1")));
            }
            Some(value) if key.ends_with("iops") => Some(value.min(u64::from(u32::MAX))),
            value => value,
        };
    }
    *limits = new;
    Ok(device)
}

/// The line that [`write_ceilings`] would take for these limits; `None` without one.
pub fn read_ceilings(device: DeviceNumber, limits: &Limits) -> Option<String> {
    let of_kernel = read_io_max(device, limits);
    let own = [("tbps", limits.total_bytes_per_s), ("tiops", limits.total_ios_per_s), ("burst_ms", limits.burst_ms)];
    let own: Vec<String> = own.iter().filter_map(|(key, value)| Some(format!("{key}={}", (*value)?))).collect();
    match (of_kernel, own.is_empty()) {
        (line, true) => line,
        (Some(line), false) => Some(format!("{line} {}", own.join(" "))),
        (None, false) => Some(format!("{device} {}", own.join(" "))),
    }
}

/// The content of `io.max` for one device; `None` without a limit.
pub fn read_io_max(device: DeviceNumber, limits: &Limits) -> Option<String> {
    let values = [limits.read_bytes_per_s, limits.write_bytes_per_s, limits.read_ios_per_s, limits.write_ios_per_s];
    if values.iter().all(Option::is_none) {
        return None;
    }
    let shown = MAX_KEYS.iter().zip(values).map(|(key, value)| format!("{key}={}", or_max(value)));
    Some(format!("{device} {}", shown.collect::<Vec<_>>().join(" ")))
}

/// Writes a line to `io.low`: `8:0 rbps=10485760 idle=2000 latency=100` (times in us); omitted keys
/// keep their values. A best-effort limit has an effect only with both times.
///
/// # Errors
/// What is wrong with the line; nothing is changed.
pub fn write_io_low(line: &str, limits: &mut Limits) -> Result<DeviceNumber, Diagnostic> {
    let (device, rest) = split_device(line)?;
    let mut new = limits.low;
    for word in rest.split_whitespace() {
        let (key, value) = pair(word, "io.low", &LOW_KEYS)?;
        let value = number(key, value)?;
        if value == Some(0) && !matches!(key, "idle" | "latency") {
            let message = format!("{key}=0 is not a valid limit (ERANGE)");
            return Err(Diagnostic::new(message, "leave the key out: without it nothing is promised"));
        }
        let rate = value.unwrap_or(u64::MAX);
        match key {
            "rbps" => new.read_bytes_per_s = rate,
            "wbps" => new.write_bytes_per_s = rate,
            "riops" => new.read_ios_per_s = rate.min(u64::from(u32::MAX)),
            "wiops" => new.write_ios_per_s = rate.min(u64::from(u32::MAX)),
            "idle" => new.idle_us = rate,
            _ => new.latency_us = value,
        }
    }
    limits.low = new;
    Ok(device)
}

/// The content of `io.low` for one device; `None` if all values are defaults.
pub fn read_io_low(device: DeviceNumber, limits: &Limits) -> Option<String> {
    let low = &limits.low;
    if *low == LowLimits::NONE {
        return None;
    }
    let rates = [low.read_bytes_per_s, low.write_bytes_per_s, low.read_ios_per_s, low.write_ios_per_s];
    let most = [u64::MAX, u64::MAX, u64::from(u32::MAX), u64::from(u32::MAX)];
    let shown = MAX_KEYS
        .iter()
        .zip(rates.into_iter().zip(most))
        .map(|(key, (rate, most))| if rate == most { format!("{key}=max") } else { format!("{key}={rate}") });
    let idle = if low.idle_us == u64::MAX { "max".to_owned() } else { low.idle_us.to_string() };
    let rates = shown.collect::<Vec<_>>().join(" ");
    Some(format!("{device} {rates} idle={idle} latency={}", or_max(low.latency_us)))
}

fn or_max(value: Option<u64>) -> String {
    value.map_or_else(|| "max".to_owned(), |value| value.to_string())
}

pub(crate) fn split_device(line: &str) -> Result<(DeviceNumber, &str), Diagnostic> {
    let line = line.trim();
    let (device, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let wrong = || {
        Diagnostic::new(
            format!("'{device}' is not a device number (EINVAL)"),
            "begin the line with MAJ:MIN, as in 'lsblk -o NAME,MAJ:MIN'",
        )
    };
    let (major, minor) = device.split_once(':').ok_or_else(wrong)?;
    let (major, minor) = (major.parse().map_err(|_| wrong())?, minor.parse().map_err(|_| wrong())?);
    Ok((DeviceNumber { major, minor }, rest))
}

pub(crate) fn pair<'a>(word: &'a str, file: &str, keys: &[&'static str]) -> Result<(&'a str, &'a str), Diagnostic> {
    let Some((key, value)) = word.split_once('=') else {
        let message = format!("'{word}' is not of the form key=value (EINVAL)");
        return Err(Diagnostic::new(message, format!("{file} takes {}", keys.join(", "))));
    };
    if keys.contains(&key) {
        return Ok((key, value));
    }
    let near = nearest(key, keys.iter().copied()).map_or_else(String::new, |near| format!("did you mean {near}? "));
    Err(Diagnostic::new(format!("{file} has no '{key}' (EINVAL)"), format!("{near}{file} takes {}", keys.join(", "))))
}

/// Parses a number; `None` for `max`.
pub(crate) fn number(key: &str, value: &str) -> Result<Option<u64>, Diagnostic> {
    if value == "max" {
        return Ok(None);
    }
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value.parse() {
        Ok(number) if digits => Ok(Some(number)),
        _ if digits => {
            let message = format!("{key}={value} does not fit into 64 bits (EINVAL)");
            Err(Diagnostic::new(message, format!("write {key}=max for no limit")))
        }
        _ => {
            let help = match with_suffix(value) {
                Some(meant) => format!("the kernel takes no units here: write {key}={meant}"),
                None => format!("write a whole number, or {key}=max for no limit"),
            };
            Err(Diagnostic::new(format!("{key}={value} is not a whole number (EINVAL)"), help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    fn max(line: &str) -> Result<Limits, String> {
        let mut limits = Limits::NONE;
        write_io_max(line, &mut limits).map(|_| limits).map_err(|error| error.to_string())
    }

    /// Case 19 of docs/specifications/throttle.md, section 10.
    #[test]
    fn t19_io_max_refuses_what_the_kernel_refuses() {
        assert!(max("8:0 rbps=1").unwrap_err().contains("EINVAL"));
        assert!(max("8:0 rbps=0").unwrap_err().contains("ERANGE"));
        assert!(max("8:0 foo=1").unwrap_err().contains("io.max has no 'foo' (EINVAL)"));
        assert!(max("8:0 rbs=100").unwrap_err().contains("did you mean rbps?"));
        assert_eq!(max("8:0 riops=max").unwrap(), Limits::NONE);
        assert_eq!(max("8:0 wiops=5000000000").unwrap().write_ios_per_s, Some(u64::from(u32::MAX)));
        assert_eq!(read_io_max(SDA, &Limits::NONE), None);
    }

    #[test]
    fn nothing_is_applied_by_halves() {
        let mut limits = Limits { read_bytes_per_s: Some(7), ..Limits::NONE };
        let error = write_io_max("8:0 rbps=100 wbps=1M", &mut limits).unwrap_err().to_string();
        assert!(error.contains("wbps=1M is not a whole number") && error.contains("write wbps=1048576"), "{error}");
        assert_eq!(limits.read_bytes_per_s, Some(7));
        for line in
            ["sda rbps=100", "8 rbps=100", "8:0 rbps", "8:0 rbps=-5", "8:0 rbps=", "8:0 rbps=99999999999999999999"]
        {
            assert!(write_io_max(line, &mut limits).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_written_is_shown() {
        let mut limits = Limits::NONE;
        assert_eq!(write_io_max("8:0 rbps=1048576 wiops=120", &mut limits).unwrap(), SDA);
        write_io_max("8:0 wiops=max", &mut limits).unwrap();
        assert_eq!(read_io_max(SDA, &limits).unwrap(), "8:0 rbps=1048576 wbps=max riops=max wiops=max");
        write_io_low("8:0 rbps=500 idle=2000 latency=100", &mut limits).unwrap();
        let shown = read_io_low(SDA, &limits).unwrap();
        assert_eq!(shown, "8:0 rbps=500 wbps=0 riops=0 wiops=0 idle=2000 latency=100");
        let mut again = limits;
        write_io_low("8:0 latency=max idle=max", &mut again).unwrap();
        assert!(read_io_low(SDA, &again).unwrap().ends_with("idle=max latency=max"));
    }

    #[test]
    fn ceilings_are_of_reads_writes_and_both_from_one_per_second_up() {
        let mut limits = Limits::NONE;
        write_ceilings("8:0 rbps=1 tiops=1 burst_ms=2000", &mut limits).unwrap();
        assert_eq!((limits.read_bytes_per_s, limits.total_ios_per_s, limits.burst_ms), (Some(1), Some(1), Some(2_000)));
        let line = read_ceilings(SDA, &limits).unwrap();
        assert_eq!(line, "8:0 rbps=1 wbps=max riops=max wiops=max tiops=1 burst_ms=2000");
        let mut again = Limits::NONE;
        write_ceilings(&line, &mut again).unwrap();
        assert_eq!(again, limits);
        for (line, what) in [
            ("8:0 tbps=0", "tbps=0 would stop the group"),
            ("8:0 burst_ms=0", "outside 1 to 3600000"),
            ("8:0 tiopss=5", "did you mean tiops?"),
        ] {
            let error = write_ceilings(line, &mut again).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(again, limits);
        write_ceilings("8:0 rbps=max tiops=max burst_ms=max", &mut again).unwrap();
        assert_eq!((again, read_ceilings(SDA, &again)), (Limits::NONE, None));
    }

    #[test]
    fn v1_takes_whole_numbers_only() {
        let mut limits = Limits::NONE;
        write_v1(V1File::ReadBytes, "8:0 1048576", &mut limits).unwrap();
        assert_eq!(read_v1(V1File::ReadBytes, SDA, &limits).unwrap(), "8:0 1048576");
        let error = write_v1(V1File::ReadBytes, "8:0 1M", &mut limits).unwrap_err().to_string();
        assert!(error.contains("the kernel would read 1") && error.contains("1048576 would be '1M'"), "{error}");
        assert_eq!(limits.read_bytes_per_s, Some(1_048_576), "unchanged");
        write_v1(V1File::ReadBytes, "8:0 0", &mut limits).unwrap();
        assert_eq!(read_v1(V1File::ReadBytes, SDA, &limits), None);
        assert!(write_v1(V1File::WriteIos, "8:0 4294967296", &mut limits).is_err());
    }
}
