//! The input of views: the measurements of a test and its environment.

use std::collections::BTreeMap;

use hoistway_experiment::assertion::Verdict;
use hoistway_experiment::cell::{Cell, cells};
use hoistway_experiment::{Matrix, Measurement};

/// The results of one test.
#[derive(Copy, Clone, Debug)]
pub struct Results<'a> {
    /// Version of the program that performed the test.
    pub version: &'a str,
    /// Start of the test, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether every planned run was completed.
    pub complete: bool,
    /// The host's name.
    pub host: &'a str,
    /// The plan.
    pub matrix: &'a Matrix,
    /// The completed runs, in any order.
    pub measurements: &'a [Measurement],
    /// The machine: `hostname`, `kernel`, `cpus`, `command` and others. Values may contain any
    /// characters.
    pub environment: &'a BTreeMap<String, String>,
    /// Assertions and their results.
    pub verdicts: &'a [Verdict],
}

impl<'a> Results<'a> {
    /// The measurements as cells, schedulers in the plan's order.
    pub fn cells(&self) -> Vec<Cell<'a>> {
        cells(self.measurements, &self.matrix.schedulers)
    }

    /// An entry of the environment, or `-`.
    pub(crate) fn environment(&self, key: &str) -> &'a str {
        self.environment.get(key).map_or("-", String::as_str)
    }

    /// The start of the test, as `2026-11-20T09:50:12Z`.
    pub fn started(&self) -> String {
        let (days, seconds) = (self.started_unix_ms / 86_400_000, self.started_unix_ms / 1000 % 86_400);
        let (year, month, day) = civil(days);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
    }

    /// The start of the test as fio writes it, in UTC: `Fri Nov 20 09:50:12 2026`.
    pub(crate) fn started_like_ctime(&self) -> String {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (days, seconds) = (self.started_unix_ms / 86_400_000, self.started_unix_ms / 1000 % 86_400);
        let (year, month, day) = civil(days);
        let name = |names: &[&'static str], index: u64| names[usize::try_from(index).unwrap_or(0) % names.len()];
        let (weekday, month) = (name(&DAYS, days % 7), name(&MONTHS, month - 1));
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        format!("{weekday} {month} {day:2} {hours:02}:{minutes:02}:{:02} {year}", seconds % 60)
    }
}

/// Year, month (1 to 12) and day of a number of days since 1970-01-01 in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    // A few dozen iterations for dates of measurements; bounded by the type at some 500 million
    // years.
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        // 2024-02-29 and the day after; 2026-11-20 is day 20777.
        assert_eq!((civil(19_782), civil(19_783)), ((2024, 2, 29), (2024, 3, 1)));
        assert_eq!(civil(20_777), (2026, 11, 20));
    }
}
