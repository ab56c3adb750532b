//! Numbers in job files: fio's suffixes, whose meaning is the opposite of that in the standards.
//!
//! With `kb_base=1024` (the default) `k`, `kb`, `m`, ... are powers of 1024 and `kib`, `mib`, ...
//! powers of **1000**; with `kb_base=1000` it is the other way round. Suffixes are
//! case-insensitive. Texts that fio misreads (`1.5m` = 1, `2*1m` = 2) are refused with a hint.

use block::Nanos;

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
/// (optionally followed by `b` or `ib`).
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
        "" | "b" => false,
        "ib" => true,
        _ => return Err(stray(text, &suffix)),
    };
    let unit: u64 = if has_ib_suffix == (base == Base::Binary) { 1000 } else { 1024 };
    let value = digits.checked_mul(unit.pow(power)).ok_or_else(|| format!("'{text}' is above 2^64 - 1"))?;
    Ok(Number { value, has_ib_suffix })
}

/// Parses a time; without a suffix it counts in `bare_unit_ns`. Suffixes: d h m s ms us (and fio's
/// min, sec, msec, usec).
///
/// # Errors
/// As [`number`].
pub fn time(text: &str, bare_unit_ns: Nanos) -> Result<Nanos, String> {
    let text = text.trim();
    let (digits, suffix) = split_digits(text)?;
    let unit_ns = match suffix.to_ascii_lowercase().as_str() {
        "" => bare_unit_ns,
        "d" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" | "min" => 60_000_000_000,
        "s" | "sec" => 1_000_000_000,
        "ms" | "msec" => 1_000_000,
        "us" | "usec" => 1_000,
        _ => return Err(format!("'{text}' is not a time: after the number comes d, h, m (minutes), s, ms or us")),
    };
    digits.checked_mul(unit_ns).ok_or_else(|| format!("'{text}' is more than 584 years"))
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
    format!("'{text}' has the unknown suffix '{suffix}'; allowed are k, m, g, t, p, optionally with b or ib")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_characters_are_never_ignored() {
        for text in ["2*1m", "1.5m", "4kx", "4k 8", "", "k", "-1", "0x", "0x-1", "99999999999999999999", "16384p"] {
            assert!(number(text, Base::Binary).is_err(), "{text}");
        }
    }
}
