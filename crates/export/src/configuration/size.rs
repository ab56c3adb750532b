//! Sizes with units: `256MiB`, in the grammar of [`hoistway_experiment::units`].

use std::fmt;

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A number of bytes, shown in the largest unit that divides it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Size(pub u64);

impl Size {
    /// Parses `4096`, `64KiB`, `1GiB`, `1g` and so on.
    pub fn parse(text: &str) -> Option<Self> {
        hoistway_experiment::units::bytes(text).ok().map(Self)
    }

    /// As [`Size::parse`], per second: `50MiB/s` as well.
    pub fn parse_rate(text: &str) -> Option<Self> {
        hoistway_experiment::units::rate(text).ok().map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(formatter, "{}{name}", self.0 / unit),
            None => write!(formatter, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_show_the_same() {
        for (text, bytes) in [("256MiB", 256 << 20), ("4KiB", 4096), ("1000", 1000), ("0", 0), ("2TiB", 2 << 40)] {
            assert_eq!(Size::parse(text), Some(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn text_that_is_not_exactly_a_size_is_refused() {
        for text in ["", "MiB", "-1", "+1", "1kb", "1 MiB 2", "99999999TiB"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }
}
