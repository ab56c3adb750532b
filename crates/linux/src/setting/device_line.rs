//! A setting that is one device's line in a file shared by many devices: `io.cost.qos`,
//! `io.cost.model`.
//!
//! Reading such a file gives a line for every device that was ever set, `MAJOR:MINOR` first;
//! writing replaces one line and keeps the others. A line is never removed, and its parameters
//! outlive being disabled (Linux 6.1 block/blk-iocost.c).

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file;

/// The device of a line, and the text that stands for a missing line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceLine {
    /// `MAJOR:MINOR`.
    pub device: String,
    /// The text to write if the device had no line before: `enable=0 ctrl=auto`.
    pub absent: String,
}

impl DeviceLine {
    /// The line without the device; empty if there is no line.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn read(&self, path: &Path) -> io::Result<String> {
        let text = file::read(path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(&self.device)?.strip_prefix(' '));
        Ok(line.map_or_else(String::new, |line| line.trim().to_owned()))
    }

    /// Writes a line in the form in which it was read.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn write(&self, path: &Path, line: &str) -> io::Result<()> {
        let words = if line.is_empty() { self.absent.clone() } else { as_set(line) };
        file::write(path, &format!("{} {words}\n", self.device))
    }

    /// Whether a line has the same effect as an old one. A line that did not exist before cannot be
    /// removed; it only has to be disabled.
    pub fn is_restored(&self, now: &str, old: &str) -> bool {
        let has = |word: &str| now.split_ascii_whitespace().any(|known| known == word);
        now == old || (old.is_empty() && self.absent.split_ascii_whitespace().all(has))
    }
}

/// The words of a line to write back. Parameters that the kernel chose by itself (`ctrl=auto`) are
/// left out, because written back they would count as the user's.
fn as_set(line: &str) -> String {
    let words = line.split_ascii_whitespace();
    if !words.clone().any(|word| word == "ctrl=auto") {
        return line.to_owned();
    }
    let is_kept = |word: &&str| word.starts_with("enable=") || word.starts_with("ctrl=");
    words.filter(is_kept).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn qos() -> DeviceLine {
        DeviceLine { device: "8:1".to_owned(), absent: "enable=0 ctrl=auto".to_owned() }
    }

    #[test]
    fn a_device_s_line_is_found_among_those_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io.cost.qos");
        fs::write(&path, "8:16 enable=1 ctrl=auto rpct=0.00\n8:1 enable=0 ctrl=user rpct=95.00\n").unwrap();
        assert_eq!(qos().read(&path).unwrap(), "enable=0 ctrl=user rpct=95.00");
        fs::write(&path, "8:16 enable=1\n").unwrap();
        assert_eq!(qos().read(&path).unwrap(), "");
    }

    #[test]
    fn the_kernel_s_own_parameters_are_not_written_back_as_the_user_s() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io.cost.qos");
        for (line, written) in [
            ("enable=1 ctrl=auto rpct=0.00 min=1.00 max=10000.00", "8:1 enable=1 ctrl=auto\n"),
            ("enable=1 ctrl=user rpct=95.00 min=50.00", "8:1 enable=1 ctrl=user rpct=95.00 min=50.00\n"),
            ("", "8:1 enable=0 ctrl=auto\n"),
        ] {
            fs::write(&path, "").unwrap();
            qos().write(&path, line).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), written);
        }
    }

    #[test]
    fn a_line_that_did_not_exist_is_restored_when_it_has_no_effect() {
        assert!(qos().is_restored("enable=0 ctrl=auto rpct=0.00", "") && qos().is_restored("", ""));
        assert!(!qos().is_restored("enable=1 ctrl=auto rpct=0.00", ""));
        assert!(qos().is_restored("enable=1 ctrl=user", "enable=1 ctrl=user"));
        assert!(!qos().is_restored("enable=0 ctrl=auto", "enable=1 ctrl=user"));
    }
}
