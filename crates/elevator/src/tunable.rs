//! Tunables, one row each. The parser, help, sysfs names, documentation, JSON and the control
//! socket all read that row.

use core::fmt;

/// The unit in which users write a tunable. Policies keep times in ns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// A plain number.
    Count,
    /// 0 or 1.
    Boolean,
    /// 512-byte sectors.
    Sectors,
    /// KiB.
    Kibibytes,
    /// Per cent.
    Percent,
    /// One of these words; the stored value is its index.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// Short text for tables: "ms", "us", ...; empty for counts and booleans, whose range is
    /// enough.
    pub const fn text(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
            Unit::Nanoseconds => "ns",
            Unit::Count | Unit::Boolean | Unit::Choice(_) => "",
            Unit::Sectors => "sectors",
            Unit::Kibibytes => "KiB",
            Unit::Percent => "%",
        }
    }

    /// How many base units (ns for times) one written unit is.
    pub const fn scale(self) -> i64 {
        match self {
            Unit::Milliseconds => 1_000_000,
            Unit::Microseconds => 1_000,
            _ => 1,
        }
    }
}

/// What happens to a written value outside the range.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum OutOfRange {
    /// The nearest end of the range is stored, as most of the kernel's `iosched` files do.
    Clamp,
    /// The value is refused.
    Refuse,
}

/// One tunable of a policy.
#[derive(Copy, Clone, Debug)]
pub struct Tunable {
    /// The name; the kernel's sysfs name where there is one.
    pub name: &'static str,
    /// Unit of the written value.
    pub unit: Unit,
    /// Smallest stored value, in the unit.
    pub min: i64,
    /// Largest stored value, in the unit.
    pub max: i64,
    /// Default, in the unit; `None` where it is derived from the configuration (`async_depth`).
    pub default: Option<i64>,
    /// What happens outside the range.
    pub out_of_range: OutOfRange,
    /// One sentence for help and documentation.
    pub doc: &'static str,
}

impl Tunable {
    /// Parses a written value, without checking its range: a word or its index where the row has
    /// words, an unsigned decimal number for nanoseconds (as kyber's files require), otherwise as
    /// [`parse_value`].
    ///
    /// ```
    /// use hoistway_elevator::tunable::SettingError;
    /// use hoistway_elevator::{Configuration, Elevator, registry};
    ///
    /// let mut deadline = registry::build("mq-deadline", None, &Configuration::default()).unwrap();
    /// let index = deadline.tunables().iter().position(|row| row.name == "read_expire").unwrap();
    /// let value = deadline.tunables()[index].parse("250\n").unwrap();
    /// deadline.set(index, value).unwrap();
    /// assert_eq!(deadline.setting(index), Some(250), "in milliseconds, the unit of the row");
    /// assert_eq!(deadline.tunables()[index].parse("fast"), Err(SettingError::NotANumber));
    /// ```
    ///
    /// # Errors
    /// [`SettingError::NotANumber`] or [`SettingError::Range`].
    pub fn parse(&self, text: &str) -> Result<i64, SettingError> {
        let text = text.trim_end_matches(['\n', ' ']);
        match self.unit {
            Unit::Choice(words) => match words.iter().position(|word| *word == text) {
                Some(index) => i64::try_from(index).map_err(|_| SettingError::Range),
                None => parse_value(text),
            },
            Unit::Nanoseconds if !text.bytes().all(|byte| byte.is_ascii_digit()) => Err(SettingError::NotANumber),
            Unit::Nanoseconds if !text.is_empty() => text.parse().map_err(|_| SettingError::Range),
            _ => parse_value(text),
        }
    }

    /// The accepted values, as errors and lists show them: `0 to 100 ms`, or the words.
    pub const fn allowed(&self) -> Allowed<'_> {
        Allowed(self)
    }

    /// The word for a stored value, where the row has words.
    pub fn word(&self, value: i64) -> Option<&'static str> {
        match self.unit {
            Unit::Choice(words) => words.get(usize::try_from(value).ok()?).copied(),
            _ => None,
        }
    }

    /// The value that is stored for a written one.
    ///
    /// # Errors
    /// [`SettingError::Range`] if it lies outside the range and the row refuses such values.
    pub const fn admit(&self, value: i64) -> Result<i64, SettingError> {
        if value >= self.min && value <= self.max {
            return Ok(value);
        }
        match self.out_of_range {
            OutOfRange::Refuse => Err(SettingError::Range),
            OutOfRange::Clamp if value < self.min => Ok(self.min),
            OutOfRange::Clamp => Ok(self.max),
        }
    }
}

/// The range of a row as text.
#[derive(Copy, Clone, Debug)]
pub struct Allowed<'a>(&'a Tunable);

impl fmt::Display for Allowed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Allowed(row) = self;
        if let Unit::Choice(words) = row.unit {
            for (index, word) in words.iter().enumerate() {
                write!(f, "{}{word}", if index == 0 { "" } else { " or " })?;
            }
            return Ok(());
        }
        write!(f, "{} to {}", row.min, row.max)?;
        match row.unit.text() {
            "" => Ok(()),
            unit => write!(f, " {unit}"),
        }
    }
}

/// Parses a number as the kernel's `kstrtoint` does with base 0: decimal, `0x` hexadecimal, or
/// octal after a leading 0. Newlines and blanks at the end are ignored.
///
/// # Errors
/// [`SettingError::NotANumber`]; [`SettingError::Range`] beyond 64 bits.
pub fn parse_value(text: &str) -> Result<i64, SettingError> {
    let text = text.trim_end_matches(['\n', ' ']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (radix, digits) = match hexadecimal {
        Some(rest) => (16, rest),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(SettingError::NotANumber);
    }
    let magnitude = i64::from_str_radix(digits, radix).map_err(|_| SettingError::Range)?;
    Ok(if negative { -magnitude } else { magnitude })
}

/// Why a setting was refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingError {
    /// No such tunable (EINVAL).
    Unknown,
    /// Not a number (EINVAL).
    NotANumber,
    /// Outside the range (ERANGE).
    Range,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettingError::Unknown => "there is no such tunable",
            SettingError::NotANumber => "not a whole number (decimal, 0x hexadecimal or 0 octal)",
            SettingError::Range => "outside the range",
        })
    }
}

impl core::error::Error for SettingError {}

/// Declares a policy's tunables once. Generates the rows, the struct of values, and access by row.
///
/// Every field is an `i64` in base units (times in ns). No function pointers: the kernel build
/// forbids indirect calls.
///
/// ```
/// use hoistway_elevator::tunable::{OutOfRange, Unit};
/// hoistway_elevator::tunables! {
///     /// What the example reads.
///     pub struct Settings {
///         /// A read older than this goes first.
///         read_expire_ns: "read_expire", Unit::Milliseconds, 0..=1000, 500, OutOfRange::Clamp,
///             "A read older than this goes first.";
///     }
/// }
/// let mut settings = Settings::DEFAULT;
/// assert_eq!(settings.read_expire_ns, 500_000_000);
/// settings.set(0, 2000).unwrap();
/// assert_eq!(settings.get(0), Some(1000));
/// ```
#[macro_export]
macro_rules! tunables {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$row:meta])* $field:ident : $text:literal, $unit:expr, $min:literal ..= $max:literal, $default:literal, $outside:expr,
            $doc:literal;)+
    }) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Debug)]
        $vis struct $name { $($(#[$row])* pub $field: i64,)+ }

        impl $name {
            /// The rows.
            pub const ROWS: &'static [$crate::tunable::Tunable] = &[$($crate::tunable::Tunable {
                name: $text, unit: $unit, min: $min, max: $max, default: Some($default), out_of_range: $outside, doc: $doc,
            },)+];

            /// The default of every row.
            pub const DEFAULT: $name = $name { $($field: i64::saturating_mul($default, ($unit).scale()),)+ };

            /// The value of a row, in its unit.
            pub fn get(&self, index: usize) -> Option<i64> {
                let mut row = 0;
                $(
                    if row == index {
                        return Some(self.$field / const { ($unit).scale() });
                    }
                    row += 1;
                )+
                let _ = row;
                None
            }

            /// Sets a row from a value in its unit.
            ///
            /// # Errors
            /// As [`hoistway_elevator::Elevator::set`](trait@$crate::Elevator).
            pub fn set(&mut self, index: usize, value: i64) -> Result<(), $crate::tunable::SettingError> {
                let mut row = 0;
                $(
                    if row == index {
                        const ROW: $crate::tunable::Tunable = $crate::tunable::Tunable {
                            name: $text, unit: $unit, min: $min, max: $max, default: None, out_of_range: $outside, doc: $doc,
                        };
                        self.$field = ROW.admit(value)?.saturating_mul(const { ($unit).scale() });
                        return Ok(());
                    }
                    row += 1;
                )+
                let _ = row;
                Err($crate::tunable::SettingError::Unknown)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_kstrtoint_does() {
        assert_eq!(parse_value("0x10"), Ok(16));
        assert_eq!(parse_value("010"), Ok(8));
        assert_eq!(parse_value("-3\n"), Ok(-3));
        assert_eq!(parse_value("0"), Ok(0));
        for bad in ["", "-", "0x", "1M", "4.5", "08", "- 3"] {
            assert_eq!(parse_value(bad), Err(SettingError::NotANumber), "{bad:?}");
        }
        assert_eq!(parse_value("99999999999999999999"), Err(SettingError::Range));
    }

    #[test]
    fn a_row_reads_words_and_decimals_its_own_way() {
        let row = |unit| Tunable {
            name: "row",
            unit,
            min: 0,
            max: 9,
            default: None,
            out_of_range: OutOfRange::Refuse,
            doc: "",
        };
        let order = row(Unit::Choice(&["nearest", "posted"]));
        assert_eq!((order.parse("posted\n"), order.parse("1"), order.word(1)), (Ok(1), Ok(1), Some("posted")));
        assert_eq!(order.parse("furthest"), Err(SettingError::NotANumber));
        let target = row(Unit::Nanoseconds);
        assert_eq!((target.parse("010"), target.parse("0x10")), (Ok(10), Err(SettingError::NotANumber)));
        assert_eq!(
            (target.parse(""), target.parse("-1")),
            (Err(SettingError::NotANumber), Err(SettingError::NotANumber))
        );
    }
}
