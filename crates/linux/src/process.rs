//! Identifies a process by number and start time, because a number alone may have been reused.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process of this boot.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its process ID.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_time_ticks: u64,
}

impl Process {
    /// The current process.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn this() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// The process that has this number now.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn of(pid: i32) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        start_time_ticks(&text)
            .map(|start_time_ticks| Self { pid, start_time_ticks })
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat cannot be read")))
    }

    /// Whether it still runs; a zombie does not.
    pub fn is_alive(self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        start_time_ticks(&text) == Some(self.start_time_ticks) && !is_over(&text)
    }

    /// Whether it still runs and has no pending SIGKILL: a killed process may wait in the kernel
    /// for I/O and ends after that.
    pub fn is_running(self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        start_time_ticks(&text) == Some(self.start_time_ticks) && !is_over(&text) && !is_killed(&text)
    }

    /// Asks it to end (SIGTERM). It may have ended already.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Ends it (SIGKILL). It may have ended already.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // It may end between the two calls.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// The fields behind the command's name, which may contain any character.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

/// Field 22 of `/proc/PID/stat`.
fn start_time_ticks(stat: &str) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

fn is_over(stat: &str) -> bool {
    matches!(fields(stat).next(), Some("Z" | "X"))
}

/// Whether field 31 of `/proc/PID/stat`, the pending signals with the lowest bit for signal 1,
/// contains SIGKILL.
fn is_killed(stat: &str) -> bool {
    let pending: u64 = fields(stat).nth(28).and_then(|field| field.parse().ok()).unwrap_or(0);
    pending & 1 << (Signal::KILL.as_raw() - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_confuse() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_time_ticks(stat), Some(4_711));
        assert!(!is_over(stat) && is_over("12 (a) Z 1 2"));
    }

    #[test]
    fn a_killed_process_that_waits_for_a_device_is_not_running() {
        // As a kernel wrote it for a process that had a device open whose server had ended.
        let before = "21798 (exe) D 1 21798 21798 0 -1 4718592 411 0 0 0 0 0 0 0 20 0 1 0 5226694 18583552 1864 18446744073709551615 \
             94819072513040 94819082457392 140736544944320 0 0";
        assert!(is_killed(&format!("{before} 256 0 4096 1088 1 0 0 17")));
        assert!(!is_killed(&format!("{before} 0 0 4096 1088 1 0 0 17")));
        assert!(!is_killed(&format!("{before} 512 0 4096 1088 1 0 0 17")), "SIGUSR1 alone");
    }

    #[test]
    fn a_process_is_known_while_it_runs_and_not_after() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.is_alive() && process.is_running());
        assert!(!Process { start_time_ticks: process.start_time_ticks + 1, ..process }.is_alive());
        process.kill();
        child.wait().unwrap();
        assert!(!process.is_alive() && !process.is_running());
        process.kill();
    }
}
