//! Values with a grammar of their own: directions, triples, block size splits, distributions.

use super::units::{self, Base, Number};
use crate::job::{Amount, BlockSize, Distribution, Mix, Pattern, PerDirection, SplitEntry, ZoneShare};

/// Parses the numbers of one job and remembers a suffix that deserves a note.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The meaning of suffixes.
    pub base: Base,
    /// The last text with a `kib`-style suffix, and its value.
    pub ib_suffix: Option<(String, u64)>,
    /// What the last value deserves a warning for.
    pub remark: Option<String>,
}

impl Numbers {
    /// Parses one number.
    pub fn read(&mut self, text: &str) -> Result<u64, String> {
        let Number { value, has_ib_suffix } = units::number(text, self.base)?;
        if has_ib_suffix {
            self.ib_suffix = Some((text.trim().to_owned(), value));
        }
        Ok(value)
    }

    /// Parses a number within limits.
    pub fn within(&mut self, text: &str, min: u64, max: u64) -> Result<u64, String> {
        let value = self.read(text)?;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("{value} is outside the allowed {min} to {max}"))
        }
    }

    /// Parses a number that may be negative.
    pub fn signed(&mut self, text: &str, min: i64, max: i64) -> Result<i64, String> {
        let (digits, sign) = text.trim().strip_prefix('-').map_or((text.trim(), 1), |digits| (digits, -1));
        let value = i64::try_from(self.read(digits)?).map_err(|_| format!("'{text}' is above 2^63 - 1"))? * sign;
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("{value} is outside the allowed {min} to {max}"))
        }
    }

    /// Parses bytes or a percentage.
    pub fn amount(&mut self, text: &str) -> Result<Amount, String> {
        // fio cuts the number at the first percent sign; some files have two, as in a format string.
        match text.trim().strip_suffix('%').map(|text| text.trim_end_matches('%')) {
            Some(percent) if percent.ends_with([' ', '\t']) => {
                Err(format!("'{text}' has a blank before '%', where fio ends the number; write {}%", percent.trim()))
            }
            Some(percent) => {
                let percent = self.within(percent, 0, 100)?;
                Ok(Amount::Percent(u8::try_from(percent).unwrap_or(100)))
            }
            None => self.read(text).map(Amount::Bytes),
        }
    }

    /// Parses `read,write,trim`. Empty ones are `None`; the last one given also applies to those
    /// after it.
    pub fn triple(&mut self, text: &str, min: u64, max: u64) -> Result<PerDirection<Option<u64>>, String> {
        // Without a comma, fio takes the first colon or else dash between the values of reads and
        // writes.
        let text = match units::split_range(text) {
            Some((read, write)) if !text.contains(',') => &format!("{read},{write}"),
            _ => text,
        };
        per_direction(text, |part| self.within(part, min, max))
    }

    /// Parses `low-high` or `low:high` per direction, which `,` or `/` separates.
    pub fn ranges(&mut self, text: &str) -> Result<PerDirection<Option<BlockSize>>, String> {
        if let Some((first, _)) = text.split_once('/') {
            let what = "as fio's manual says; fio 3.33 ignores what follows '/'; write ','";
            self.remark = Some(format!("'{first}' is the range of reads and what follows '/' that of writes, {what}"));
        }
        per_direction(&text.replace('/', ","), |part| {
            let range = part.split_once('-').or_else(|| part.split_once(':'));
            let (low, high) = range.ok_or_else(|| format!("'{part}' is not a range such as 4k-64k"))?;
            let (low, high) = (self.block(low)?, self.block(high)?);
            Ok(BlockSize::Range { min: low.min(high), max: low.max(high) })
        })
    }

    /// Parses a size of at least 512 bytes, or a range of them in any of fio's spellings.
    pub fn file_sizes(&mut self, text: &str) -> Result<(u64, u64), String> {
        let (low, high) = units::split_range(text).unwrap_or((text, text));
        let (low, high) = (self.within(low, 512, u64::MAX)?, self.within(high, 512, u64::MAX)?);
        Ok((low.min(high), low.max(high)))
    }

    /// Parses a block size.
    pub fn block(&mut self, text: &str) -> Result<u32, String> {
        let bytes = self.within(text, 1, MAX_BLOCK_BYTES)?;
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Parses `size/percent:size/percent,...` per direction.
    ///
    /// As in fio, the sizes are taken in the order of their percentages. What exceeds 100 is cut
    /// off, and what is missing goes to the last size; both are worth a remark. A percentage above
    /// 100 counts as 100; sizes without one, or with 0, share the rest equally.
    pub fn split(&mut self, text: &str) -> Result<PerDirection<Option<BlockSize>>, String> {
        let mut is_uneven = false;
        let sizes = per_direction(text, |part| {
            let mut entries = Vec::new();
            for entry in part.split(':') {
                let (bytes, percent) = entry.split_once('/').unwrap_or((entry, ""));
                let percent = match percent.trim() {
                    "" => None,
                    given => Some(self.read(given)?.min(100)).filter(|percent| *percent > 0),
                };
                entries.push((self.block(bytes)?, percent));
            }
            if entries.len() > MAX_SPLITS {
                return Err(format!("more than {MAX_SPLITS} sizes in one split"));
            }
            let given: u64 = entries.iter().filter_map(|(_, percent)| *percent).sum();
            let open = entries.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
            if given > 100 && open > 0 {
                return Err(format!("'{part}': the percentages come to {given}, nothing is left for the others"));
            }
            is_uneven |= given > 100 || (open == 0 && given != 100);
            let share = 100_u64.saturating_sub(given).checked_div(open).unwrap_or(0);
            let mut entries: Vec<_> =
                entries.into_iter().map(|(bytes, percent)| (bytes, percent.unwrap_or(share))).collect();
            entries.sort_by_key(|(_, percent)| *percent);
            Ok(BlockSize::Split(cut_at_100(&entries)))
        })?;
        if is_uneven {
            let what = "as in fio the rest is cut off, or goes to the last size in order of percentage";
            self.remark = Some(format!("the percentages of '{text}' do not come to 100; {what}"));
        }
        Ok(sizes)
    }

    /// Parses `60/10:30/20:...`: shares of the I/Os and of the area, the latter in percent or as
    /// sizes; omitted ones share the rest.
    fn zones(&mut self, text: &str, is_absolute: bool) -> Result<Vec<ZoneShare>, String> {
        let mut zones = Vec::new();
        for entry in text.split(':') {
            let (share, size) = entry.split_once('/').ok_or_else(|| format!("'{entry}' is not SHARE/SIZE"))?;
            let percent = |numbers: &mut Self, text: &str| match text.trim().trim_end_matches('%') {
                "" => Ok(None),
                given => numbers.within(given, 0, 100).map(Some),
            };
            let share = percent(self, share)?;
            let size = if is_absolute { Some(self.read(size)?) } else { percent(self, size)? };
            zones.push((share, size));
        }
        if zones.len() > MAX_SPLITS {
            return Err(format!("more than {MAX_SPLITS} zones"));
        }
        fill(zones.iter_mut().map(|zone| &mut zone.0), "the shares of the I/Os")?;
        if !is_absolute {
            fill(zones.iter_mut().map(|zone| &mut zone.1), "the sizes")?;
        }
        let zone = |(share, size): (Option<u64>, Option<u64>)| ZoneShare {
            percent: narrow(share.unwrap_or(0)),
            size: match size.unwrap_or(0) {
                bytes if is_absolute => Amount::Bytes(bytes),
                percent => Amount::Percent(narrow(percent)),
            },
        };
        Ok(zones.into_iter().map(zone).collect())
    }

    /// Parses `4k/40/1/3:64k/10:8k/5/2/0/1` per direction, for reads and writes.
    pub fn priority_splits(&mut self, text: &str) -> Result<PerDirection<Vec<SizePriority>>, String> {
        let splits = per_direction(text, |part| {
            let entries = part.split(':').map(|entry| {
                let parts: Vec<&str> = entry.split('/').map(str::trim).collect();
                let priority = match parts[..] {
                    [_, _] => None,
                    [_, _, class, level, ref hint @ ..] if hint.len() <= 1 => {
                        let hint = hint.first().map_or(Ok(0), |hint| self.within(hint, 0, MAX_HINT))?;
                        let (class, level) = (narrow(self.within(class, 0, 3)?), narrow(self.within(level, 0, 7)?));
                        Some((class, level, u16::try_from(hint).unwrap_or(0)))
                    }
                    _ => return Err(format!("'{entry}' is not SIZE/PERCENT or SIZE/PERCENT/CLASS/LEVEL[/HINT]")),
                };
                let percent = narrow(self.within(parts[1], 0, 100)?);
                Ok(SizePriority { bytes: self.block(parts[0])?, percent, priority })
            });
            entries.collect::<Result<Vec<_>, String>>()
        })?;
        let [read, write] = [splits.read, splits.write].map(Option::unwrap_or_default);
        Ok(PerDirection { read, write, trim: Vec::new() })
    }

    /// Parses `rw=`: the directions, whether offsets are random, and the pattern that its suffix
    /// selects.
    pub fn direction(&mut self, text: &str) -> Result<(Mix, Pattern), String> {
        let (word, suffix) = text.split_once(':').map_or((text, None), |(word, suffix)| (word.trim(), Some(suffix)));
        let half = Mix::ReadWrite { read_percent: 50 };
        let (mix, is_random) = match word {
            "read" => (Mix::Read, false),
            "write" => (Mix::Write, false),
            "trim" => (Mix::Trim, false),
            "rw" | "readwrite" => (half, false),
            "trimwrite" => (Mix::TrimWrite, false),
            "rewrite" => (Mix::Rewrite, false),
            "randread" => (Mix::Read, true),
            "randwrite" => (Mix::Write, true),
            "randtrim" => (Mix::Trim, true),
            "randrw" => (half, true),
            "randtrimwrite" => (Mix::TrimWrite, true),
            "randrewrite" => (Mix::Rewrite, true),
            _ => return Err(not_one_of(word, DIRECTIONS)),
        };
        let pattern = if is_random {
            let run = suffix.map_or(Ok(1), |suffix| self.within(suffix, 1, u64::from(u32::MAX)))?;
            Pattern::Random { run: u32::try_from(run).unwrap_or(1), repeat_offset: false }
        } else {
            let limit = i64::MAX / 4;
            Pattern::Sequential { skip_bytes: suffix.map_or(Ok(0), |suffix| self.signed(suffix, -limit, limit))? }
        };
        Ok((mix, pattern))
    }
}

/// Entries whose percentages come to 100; those that are left without any are omitted.
fn cut_at_100(entries: &[(u32, u64)]) -> Vec<SplitEntry> {
    let (mut left, last) = (100, entries.len() - 1);
    let mut kept = Vec::new();
    for (index, (bytes, percent)) in entries.iter().enumerate() {
        let percent = if index == last { left } else { (*percent).min(left) };
        left -= percent;
        if percent > 0 {
            kept.push(SplitEntry { bytes: *bytes, weight: u32::from(narrow(percent)) * 100 });
        }
    }
    // What was cut is in another order now; the same split given in full must be equal.
    kept.sort_by_key(|entry| entry.weight);
    kept
}

/// Maximum block size in bytes.
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// Maximum hint of an I/O priority in Linux.
const MAX_HINT: u64 = 1023;
/// Maximum number of entries of a split; fio's own limit.
const MAX_SPLITS: usize = 64;

const DIRECTIONS: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
    "rewrite",
    "randrewrite",
];

/// "'x' is not one of a, b, c", with the nearest one suggested.
pub fn not_one_of(given: &str, allowed: &[&str]) -> String {
    let hint = crate::suggest::nearest(given, allowed.iter().copied());
    let hint = hint.map_or(String::new(), |name| format!("; did you mean '{name}'?"));
    format!("'{given}' is not one of {}{hint}", allowed.join(", "))
}

/// Gives omitted percentages equal parts of the rest; an error if the sum is not 100 then.
fn fill<'a>(percents: impl Iterator<Item = &'a mut Option<u64>>, what: &str) -> Result<(), String> {
    let percents: Vec<&mut Option<u64>> = percents.collect();
    let given: u64 = percents.iter().filter_map(|percent| **percent).sum();
    let mut open: Vec<&mut Option<u64>> = percents.into_iter().filter(|percent| percent.is_none()).collect();
    if given > 100 || (open.is_empty() && given != 100) {
        return Err(format!("{what} come to {given} %; they must come to 100"));
    }
    let (count, rest) = (open.len() as u64, 100 - given);
    for (index, percent) in open.iter_mut().enumerate() {
        let index = index as u64;
        **percent = Some((index + 1) * rest / count - index * rest / count);
    }
    Ok(())
}

/// Converts a number that is known to fit.
fn narrow(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn per_direction<T: Clone>(
    text: &str,
    mut read: impl FnMut(&str) -> Result<T, String>,
) -> Result<PerDirection<Option<T>>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err(format!("'{text}' has more than three parts; they are read,write,trim"));
    }
    let mut values = Vec::new();
    for part in parts {
        values.push(if part.is_empty() { None } else { Some(read(part)?) });
    }
    let last_given = values.iter().rposition(Option::is_some).ok_or_else(|| format!("'{text}' has no value"))?;
    let at = |index: usize| values[index.min(last_given)].clone();
    Ok(PerDirection { read: at(0), write: at(1), trim: at(2) })
}

/// Parses `random_distribution=`: the distribution, and the position of its hottest block if given.
pub fn distribution(numbers: &mut Numbers, text: &str) -> Result<(Distribution, Option<u32>), String> {
    let (word, parameters) = text.split_once(':').unwrap_or((text, ""));
    let is_absolute = match word.trim() {
        "zoned" => Some(false),
        "zoned_abs" => Some(true),
        _ => None,
    };
    if let Some(is_absolute) = is_absolute {
        let zones = per_direction(parameters, |part| numbers.zones(part, is_absolute))?;
        let [read, write, trim] = [zones.read, zones.write, zones.trim].map(Option::unwrap_or_default);
        return Ok((Distribution::Zoned(PerDirection { read, write, trim }), None));
    }
    // fio accepts a second colon before the centre.
    let (parameter, centre) = parameters.split_once([':', ',']).unwrap_or((parameters, ""));
    let parameter = parameter.trim();
    let centre = match centre.trim() {
        "" => None,
        given => {
            let centre = millionths(given).filter(|centre| *centre <= 1_000_000);
            Some(centre.ok_or_else(|| format!("the centre '{given}' is outside the allowed 0 to 1"))?)
        }
    };
    let or = |default: u32, max: u32| match parameter {
        "" => Ok(default),
        given => millionths(given)
            .filter(|value| (1..=max).contains(value))
            .ok_or_else(|| format!("'{given}' is outside the allowed 0.000001 to {}", max / 1_000_000)),
    };
    let distribution = match word.trim() {
        "random" => Distribution::Uniform,
        "zipf" => Distribution::Zipf { theta_millionths: or(1_100_000, 100_000_000)? },
        "pareto" => Distribution::Pareto { h_millionths: or(200_000, 999_999)? },
        // Given in percent of the area.
        "normal" | "gauss" => {
            Distribution::Normal { deviation_millionths: (or(10_000_000, 100_000_000)? / 100).max(1) }
        }
        _ => return Err(not_one_of(word, &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"])),
    };
    Ok((distribution, centre))
}

/// Another priority for I/Os of one size, as in `cmdprio_bssplit`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SizePriority {
    /// The size in bytes.
    pub bytes: u32,
    /// Percent of the I/Os of that size.
    pub percent: u8,
    /// Class, level and hint, if given.
    pub priority: Option<(u8, u8, u16)>,
}

/// Parses a decimal number into millionths; at most six decimals are permitted.
pub fn millionths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let fraction: u32 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}
