//! Information about the machine, for the environment of results.

use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// CPUs that this process may use, at least 1.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory in MiB; 1024 if the system does not report it.
pub fn memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(1024, |kib| kib >> 10)
}

/// Milliseconds since 1970.
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time as `20261120-095012`, UTC.
pub fn stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Year, month and day from a number of days since 1970 (Gregorian calendar): counted in eras of
/// 400 years that begin on the first of March, so that the leap day is the last day of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Host name, kernel, CPUs, command line.
pub fn environment() -> BTreeMap<String, String> {
    let line = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()));
    let command: Vec<String> = std::env::args_os().map(|word| quoted(&word.to_string_lossy())).collect();
    let known = [
        ("hostname", line("/proc/sys/kernel/hostname")),
        ("kernel", line("/proc/sys/kernel/osrelease")),
        ("cpus", Some(cpus().to_string())),
        ("cpu", model),
        ("memory_mib", Some(memory_mib().to_string())),
        ("command", Some(command.join(" "))),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Quotes a word of the command line for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_stamps() {
        // 2024-02-29 is day 19782; 2026-11-20 day 20777.
        assert_eq!(stamp(19_782 * 86_400_000), "20240229-000000");
        assert_eq!(stamp((20_777 * 86_400 + 9 * 3600 + 50 * 60 + 12) * 1000), "20261120-095012");
    }

    #[test]
    fn words_are_quoted_when_a_shell_would_change_them() {
        assert_eq!(quoted("share_error_max <= 5% @ sched=wfq"), "'share_error_max <= 5% @ sched=wfq'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("model:ssd,qd=8"), "model:ssd,qd=8");
    }
}
