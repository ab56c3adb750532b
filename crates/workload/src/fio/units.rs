//! Numbers in job files: fio's suffixes, whose meaning is the opposite of that in the standards.
//!
//! With `kb_base=1024` (the default) `k`, `kb`, `m`, ... are powers of 1024 and `kib`, `mib`, ...
//! powers of **1000**; with `kb_base=1000` it is the other way round. Suffixes are
//! case-insensitive; `Ki`, `Mi`, ... are `k`, `m`, ... Texts that fio misreads (`1.5m` = 1, `2*1m` = 2)
//! are refused with a hint. Times that fio 3.33 reads differently than they are written (`5min` is
//! 5 us) have fio's value and a remark. All this was determined with `fio --debug=parse`.

use hoistway_block::Nanos;

/// The meaning of suffixes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `kb_base=1024`: k = 1024, kib = 1000.
    Binary,
    /// `kb_base=1000`: k = 1000, kib = 1024.
    Decimal,
}

/// A number, and whether it had a `kib`-style suffix, which is worth a note.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The value with its suffix applied.
    pub value: u64,
    /// Whether a suffix with `i` was used.
    pub has_ib_suffix: bool,
}

/// Parses an integer, decimal or hexadecimal with `0x`, with an optional suffix k, m, g, t, p
/// (optionally followed by `b`, `i` or `ib`).
///
/// # Errors
/// One sentence that says what is wrong with the text and what would be right.
pub fn number(text: &str, base: Base) -> Result<Number, String> {
    let text = text.trim();
    let (digits, suffix) = split_digits(text)?;
    let suffix = suffix.to_ascii_lowercase();
    let (letter, tail) = suffix.split_at_checked(1).unwrap_or(("", ""));
    let power = match letter {
        "" => 0,
        "b" if tail.is_empty() => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(stray(text, &suffix)),
    };
    let has_ib_suffix = match tail {
        "" | "b" | "i" => false,
        "ib" => true,
        _ => return Err(stray(text, &suffix)),
    };
    let unit: u64 = if has_ib_suffix == (base == Base::Binary) { 1000 } else { 1024 };
    let value = digits.checked_mul(unit.pow(power)).ok_or_else(|| format!("'{text}' is above 2^64 - 1"))?;
    Ok(Number { value, has_ib_suffix })
}

/// A time, and what is worth a warning: the text says something else than fio reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// The value that fio reads, in nanoseconds.
    pub value_ns: Nanos,
    /// One sentence with the value and the spelling that fio understands.
    pub remark: Option<String>,
}

/// Words that mean a unit to people; fio knows the first letters d, h, m and s alone, and reads
/// every other word as microseconds.
const OTHER_UNITS: &[&str] = &[
    "ns", "nsec", "nsecs", "sec", "secs", "second", "seconds", "min", "mins", "minute", "minutes", "hr", "hrs", "hour",
    "hours", "day", "days",
];

/// Parses a time; without a suffix it counts in `bare_unit_ns`. Suffixes: d h m s ms us, and fio's
/// msec and usec. A unit behind a blank has no effect, as in fio.
///
/// # Errors
/// As [`number`].
pub fn time(text: &str, bare_unit_ns: Nanos) -> Result<Time, String> {
    let text = text.trim();
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let (digits, suffix) = split_digits(text)?;
    let (word, is_apart) = (suffix.trim_start().to_ascii_lowercase(), suffix.starts_with([' ', '\t']));
    let known_ns = match word.as_str() {
        "" => Some(bare_unit_ns),
        "d" => Some(86_400_000_000_000),
        "h" => Some(3_600_000_000_000),
        "m" => Some(60_000_000_000),
        "s" => Some(1_000_000_000),
        "ms" | "msec" | "msecs" => Some(1_000_000),
        "us" | "usec" | "usecs" => Some(1_000),
        word if OTHER_UNITS.contains(&word) => None,
        _ => return Err(format!("'{text}' is not a time: after the number comes d, h, m (minutes), s, ms or us")),
    };
    let unit_ns = match known_ns {
        _ if is_hexadecimal => 1_000,
        _ if is_apart => bare_unit_ns,
        Some(unit_ns) => unit_ns,
        None => 1_000,
    };
    let value_ns = digits.checked_mul(unit_ns).ok_or_else(|| format!("'{text}' is more than 584 years"))?;
    let remark = (known_ns != Some(unit_ns)).then(|| misread(text, value_ns));
    Ok(Time { value_ns, remark })
}

/// Parses two times between which one is drawn, separated by `,`, `:` or `-`, or one time.
///
/// # Errors
/// As [`number`].
pub fn time_range(text: &str, bare_unit_ns: Nanos) -> Result<(Time, Time), String> {
    let Some((low, high)) = split_range(text) else {
        let one = time(text, bare_unit_ns)?;
        return Ok((one.clone(), one));
    };
    let (mut low_time, high_time) = (time(low, bare_unit_ns)?, time(high, bare_unit_ns)?);
    let (digits, suffix) = split_digits(low.trim())?;
    if suffix.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        // fio takes all that follows the first number as its unit, which it does not know then.
        let value_ns = digits.saturating_mul(1_000);
        low_time = Time { value_ns, remark: Some(misread(low.trim(), value_ns)) };
    }
    Ok(if low_time.value_ns <= high_time.value_ns { (low_time, high_time) } else { (high_time, low_time) })
}

/// The two parts of a range in any of fio's spellings: `a,b`, `a:b` or `a-b`.
pub fn split_range(text: &str) -> Option<(&str, &str)> {
    [',', ':', '-'].into_iter().find_map(|separator| text.split_once(separator))
}

fn misread(text: &str, value_ns: Nanos) -> String {
    let (value, unit) =
        if value_ns.is_multiple_of(1_000_000_000) { (value_ns / 1_000_000_000, "s") } else { (value_ns / 1_000, "us") };
    format!("fio reads '{text}' as {value} {unit}, and so do we; units are d, h, m, s, ms and us, without a blank")
}

fn split_digits(text: &str) -> Result<(u64, &str), String> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let value = u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with(['+', '-']));
        return value.map(|value| (value, "")).ok_or_else(|| format!("'{text}' is not a hexadecimal number"));
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    if digits.is_empty() {
        return Err(format!("'{text}' is not a number"));
    }
    if suffix.starts_with('.') {
        return Err(format!("'{text}' has a fraction, which fio cuts off (it reads {digits}); write a whole number"));
    }
    let value = digits.parse().map_err(|_| format!("'{text}' is above 2^64 - 1"))?;
    Ok((value, suffix))
}

fn stray(text: &str, suffix: &str) -> String {
    if suffix.starts_with(['*', '+', '-', '/']) {
        return format!("'{text}' is an expression, which fio does not compute either; write the result");
    }
    format!("'{text}' has the unknown suffix '{suffix}'; allowed are k, m, g, t, p, optionally with b, i or ib")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_characters_are_never_ignored() {
        for text in
            ["2*1m", "4 k", "4e", "1.5m", "4kx", "4k 8", "", "k", "-1", "0x", "0x-1", "99999999999999999999", "16384p"]
        {
            assert!(number(text, Base::Binary).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_with_an_i_are_those_without_and_those_with_ib_are_not() {
        // The figures are those of `fio --parse-only --debug=parse`, version 3.33.
        for (text, value) in [("4Ki", 4096), ("4ki", 4096), ("2Mi", 2 << 20), ("1Gi", 1 << 30), ("4KiB", 4000)] {
            assert_eq!(number(text, Base::Binary).map(|it| it.value), Ok(value), "{text}");
        }
        assert_eq!(number("4Ki", Base::Decimal).map(|it| it.value), Ok(4000));
    }

    #[test]
    fn times_are_those_that_fio_reads() {
        // Seconds are the bare unit, as in runtime; the figures are those of fio 3.33.
        let second = 1_000_000_000;
        for (text, value_us, is_remarked) in [
            ("5", 5_000_000, false),
            ("5S", 5_000_000, false),
            ("5M", 300_000_000, false),
            ("5h", 18_000_000_000, false),
            ("5ms", 5_000, false),
            ("5usec", 5, false),
            ("30 s", 30_000_000, false),
            ("5 ms", 5_000_000, true),
            ("5 min", 5_000_000, true),
            ("5sec", 5, true),
            ("5min", 5, true),
            ("5ns", 5, true),
            ("0x10", 16, true),
        ] {
            let read = time(text, second).unwrap();
            assert_eq!((read.value_ns, read.remark.is_some()), (value_us * 1000, is_remarked), "{text}");
        }
        for (text, value_us) in [("1:5", 1_000_000), ("5-1", 1_000_000), ("1,5", 1_000_000), ("1s-5s", 1)] {
            let (low, high) = time_range(text, second).unwrap();
            assert_eq!((low.value_ns, high.value_ns), (value_us * 1000, 5 * second), "{text}");
        }
    }
}
