//! Numbers in the format of the command line: sizes, times, rates. Source:
//! docs/specifications/harness.md, section 1.2.
//!
//! `k` and `KiB` are 1,024, `kB` is 1,000; times without a suffix are seconds. Job files have
//! other, older units (`workload::fio`).

use block::Nanos;
use experiment::Diagnostic;

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
pub(crate) fn refused(text: &str, noun: &str, is_too_large: bool, help: &str) -> Diagnostic {
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
pub(crate) fn bytes(text: &str) -> Result<u64, bool> {
    let number = Number::split(text).ok_or(is_long(text))?;
    let unit = match number.suffix {
        "" | "B" => 1,
        "k" | "K" | "Ki" | "KiB" => 1 << 10,
        "M" | "Mi" | "MiB" => 1 << 20,
        "G" | "Gi" | "GiB" => 1 << 30,
        "T" | "Ti" | "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(false),
    };
    let bytes = number.times(unit).ok_or(true)?;
    Ok(if number.decimals > 0 { bytes / 512 * 512 } else { bytes })
}

/// Whether a text is a number with more digits than are parsed.
fn is_long(text: &str) -> bool {
    text.len() > 24 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Bytes per second: a size, `/s` optional.
pub fn rate(text: &str) -> Result<u64, Diagnostic> {
    let help =
        "write bytes, or a number with k, M, G, T (1024-based; also KiB) or kB, MB, GB, TB (1000-based), /s may follow";
    bytes(text.strip_suffix("/s").unwrap_or(text)).map_err(|is_too_large| refused(text, "rate", is_too_large, help))
}

/// I/Os per second: `1000`, `20k`, `1M` (1000-based).
pub fn ios_per_s(text: &str) -> Result<u64, Diagnostic> {
    let value = Number::split(text).ok_or(is_long(text)).and_then(|number| {
        let unit = match number.suffix {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            _ => return Err(false),
        };
        number.times(unit).ok_or(true)
    });
    let help = "write 1000, 20k or 1M (1000-based)";
    value.map_err(|is_too_large| refused(text, "number of I/Os per second", is_too_large, help))
}

/// A time in nanoseconds: `30` = seconds, `500ms`, `1.5s`, `2m`, `1h`.
pub fn time(text: &str) -> Result<Nanos, Diagnostic> {
    let wrong = || {
        Diagnostic::new(
            format!("'{text}' is not a time"),
            "write seconds, or a number with us, ms, s, m (minutes) or h",
        )
    };
    let number = Number::split(text).ok_or_else(wrong)?;
    let unit = match number.suffix {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wrong()),
    };
    number.times(unit).filter(|ns| *ns <= 1_000_000_000_000_000_000).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        let times = ["30", "1.5s", "500ms", "20us", "2m", "1h"].map(|text| time(text).unwrap());
        assert_eq!(times, [30_000_000_000, 1_500_000_000, 500_000_000, 20_000, 120_000_000_000, 3_600_000_000_000]);
    }

    #[test]
    fn rates_may_say_per_second() {
        assert_eq!((rate("10M/s").unwrap(), rate("10M").unwrap()), (10 << 20, 10 << 20));
        assert_eq!((ios_per_s("20k").unwrap(), ios_per_s("1M").unwrap()), (20_000, 1_000_000));
    }
}
