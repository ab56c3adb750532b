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
    fn words_are_quoted_when_a_shell_would_change_them() {
        assert_eq!(quoted("share_error_max <= 5% @ sched=wfq"), "'share_error_max <= 5% @ sched=wfq'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("model:ssd,qd=8"), "model:ssd,qd=8");
    }
}
