//! Numbers as users type them: sizes, rates, times. All flags, the file of `serve`, the limits of
//! `ctl` and the Python package use this grammar; docs/reference/units.md explains it. Source:
//! docs/specifications/harness.md, section 1.2.
//!
//! `k`, `K`, `Ki` and `KiB` are 1,024 (systemd, fio, Kubernetes), `kB` is 1,000. `kb` means 1,024 to
//! fio and 1,000 to others, so it is refused. Times without a unit are seconds. Job files of fio have
//! fio's own grammar (`hoistway_workload::fio`).

use hoistway_block::Nanos;

use crate::Diagnostic;

/// A decimal number in three parts: the digits as one integer, the number of decimals, the suffix.
struct Number<'a> {
    digits: u128,
    decimals: u32,
    suffix: &'a str,
}

impl<'a> Number<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || number.ends_with('.') || number.len() > 24 {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, decimals: u32::try_from(fraction.len()).ok()?, suffix: suffix.trim_start() })
    }

    /// The number times `unit`, rounded down.
    fn times(&self, unit: u64) -> Option<u64> {
        let scaled = self.digits.checked_mul(u128::from(unit))? / 10_u128.pow(self.decimals);
        u64::try_from(scaled).ok()
    }
}

/// `'-1' is not a rate: it is negative`; `is_too_large`: it is valid except for its size.
/// The refusal of a text that is no `noun`.
pub fn refused(text: &str, noun: &str, is_too_large: bool, help: &str) -> Diagnostic {
    let is_negative = text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let reason = match (is_negative, is_too_large) {
        (true, _) => ": it is negative",
        (_, true) => ": it does not fit into 64 bits",
        _ => "",
    };
    Diagnostic::new(format!("'{text}' is not a {noun}{reason}"), help)
}

/// The error is true for a size that does not fit into 64 bits, and false for a text that is no
/// size.
/// # Errors
pub fn bytes(text: &str) -> Result<u64, bool> {
    let number = Number::split(text).ok_or(is_long(text))?;
    let unit = match number.suffix {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        suffix => binary_unit(&suffix.to_ascii_lowercase()).ok_or(false)?,
    };
    let bytes = number.times(unit).ok_or(true)?;
    Ok(if number.decimals > 0 { bytes / 512 * 512 } else { bytes })
}

/// The unit of `k`, `ki`, `kib` and so on.
fn binary_unit(suffix: &str) -> Option<u64> {
    let shift = match suffix.strip_suffix("ib").or_else(|| suffix.strip_suffix('i')).unwrap_or(suffix) {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    Some(1 << shift)
}

/// Whether a text is a number with more digits than are parsed.
fn is_long(text: &str) -> bool {
    text.len() > 24 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Bytes per second: a size, `/s` optional.
///
/// # Errors
/// What is wrong with the text.
pub fn rate(text: &str) -> Result<u64, Diagnostic> {
    let help =
        "write bytes, or a number with k, M, G, T (1024-based; also KiB) or kB, MB, GB, TB (1000-based), /s may follow";
    bytes(text.strip_suffix("/s").unwrap_or(text)).map_err(|is_too_large| refused(text, "rate", is_too_large, help))
}

/// I/Os per second: `1000`, `20k`, `1M` (1000-based), `/s` optional.
///
/// # Errors
/// What is wrong with the text.
pub fn ios_per_s(text: &str) -> Result<u64, Diagnostic> {
    let value = Number::split(text.strip_suffix("/s").unwrap_or(text)).ok_or(is_long(text)).and_then(|number| {
        let unit = match number.suffix {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            _ => return Err(false),
        };
        number.times(unit).ok_or(true)
    });
    let help = "write 1000, 20k or 1M (1000-based)";
    value.map_err(|is_too_large| refused(text, "number of I/Os per second", is_too_large, help))
}

/// Largest time in nanoseconds: 31 years.
const LONGEST_NS: Nanos = 1_000_000_000_000_000_000;

/// A time in nanoseconds: `30` = seconds, `500ms`, `1.5s`, `2m` or `2min`, `1h`, `1d`; several parts with
/// units are added up: `1h30m`, `1min 30s`.
///
/// # Errors
/// What is wrong with the text.
pub fn time(text: &str) -> Result<Nanos, Diagnostic> {
    let wrong = || {
        Diagnostic::new(
            format!("'{text}' is not a time"),
            "write seconds, or a number with us, ms, s, m or min (minutes), h or d; 1h30m is both together",
        )
    };
    let mut rest = text;
    let mut all_ns: Nanos = 0;
    loop {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let number_end = rest.find(|letter| !is_digit(letter)).unwrap_or(rest.len());
        let end = rest[number_end..].find(is_digit).map_or(rest.len(), |length| number_end + length);
        let (part, behind) = rest.split_at(end);
        let is_only = end == text.len();
        let part_ns = part_of_time(part.trim_end(), is_only).ok_or_else(wrong)?;
        all_ns = all_ns.checked_add(part_ns).filter(|ns| *ns <= LONGEST_NS).ok_or_else(wrong)?;
        if behind.is_empty() {
            return Ok(all_ns);
        }
        rest = behind;
    }
}

/// One number with its unit, which may be missing if there is nothing else.
fn part_of_time(text: &str, is_only: bool) -> Option<Nanos> {
    let number = Number::split(text)?;
    let unit = match number.suffix {
        "" if is_only => 1_000_000_000,
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return None,
    };
    number.times(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        let times = ["30", "1.5s", "500ms", "20us", "2m", "1h"].map(|text| time(text).unwrap());
        assert_eq!(times, [30_000_000_000, 1_500_000_000, 500_000_000, 20_000, 120_000_000_000, 3_600_000_000_000]);
        // As systemd.time and fio's manual write them.
        let times = ["5min", "5 min", "1h30m", "1min 30s", "2d", "30 s", "250 msec"].map(|text| time(text).unwrap());
        let seconds = [300, 300, 5_400, 90, 172_800, 30].map(|seconds| seconds * 1_000_000_000);
        assert_eq!((&times[..6], times[6]), (&seconds[..], 250_000_000));
        for text in ["", "s", "1,5s", "-1s", "400000000000h", "1h30", "30 1h", "1x", "1..5s", "1.s", "5 5s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_those_of_systemd_fio_and_kubernetes_where_they_agree() {
        for (text, size) in [
            ("1g", 1_u64 << 30),
            ("1G", 1 << 30),
            ("1Gi", 1 << 30),
            ("1GiB", 1 << 30),
            ("1gib", 1 << 30),
            ("4 KiB", 4096),
            ("64m", 64 << 20),
            ("2p", 2 << 50),
            ("1MB", 1_000_000),
            ("512B", 512),
            ("1.5g", 3 << 29),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["4kb", "4KB", "4mb", "4kk", "4x", "", "k", "1.", "-1", "0x10", "1e3"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_may_say_per_second() {
        assert_eq!((rate("10M/s").unwrap(), rate("10M").unwrap()), (10 << 20, 10 << 20));
        assert_eq!((ios_per_s("20k").unwrap(), ios_per_s("1M").unwrap()), (20_000, 1_000_000));
    }
}
