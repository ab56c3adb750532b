//! What the system says about this process, under the names of Prometheus' own clients.

use rustix::process::{Resource, getrlimit};

/// Facts about this process. A fact that cannot be read, for want of a descriptor or of `/proc`, is none.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Time on a processor, in user and in system mode, in seconds.
    pub cpu_s: Option<f64>,
    /// Memory that is in use, in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Start, in seconds since 1970.
    pub start_s: Option<f64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Limit of open files; none if there is no limit.
    pub max_files: Option<u64>,
}

impl Process {
    /// Reads the facts.
    pub fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        // The listing itself has one descriptor.
        let files = std::fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1));
        let process = Self { open_files: files, max_files: getrlimit(Resource::Nofile).current, ..Self::default() };
        process.with_stat(&text("/proc/self/stat"), &text("/proc/stat"))
    }

    /// Takes over what `/proc/self/stat` and `/proc/stat` say (proc(5)).
    fn with_stat(self, own: &str, of_system: &str) -> Self {
        // The program's name, in parentheses, may have spaces. The field behind it has number 3.
        let rest = own.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let field = |number: usize| rest.split_whitespace().nth(number - 3)?.parse::<u64>().ok();
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second;
        let boot_s = of_system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        Self {
            cpu_s: field(14).zip(field(15)).map(|(user, system)| seconds(user + system)),
            threads: field(20),
            start_s: field(22).zip(boot_s).map(|(after_boot, boot_s)| boot_s as f64 + seconds(after_boot)),
            virtual_bytes: field(23),
            resident_bytes: field(24).map(|pages| pages * rustix::param::page_size() as u64),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_proc() {
        let own = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 6000 1048576 3 18446744073709551615";
        let read = Process::default().with_stat(own, "cpu 1 2\nbtime 1000\n");
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!((read.cpu_s, read.threads, read.virtual_bytes), (Some(300.0 / ticks), Some(9), Some(1_048_576)));
        assert_eq!(read.start_s, Some(1_000.0 + 6_000.0 / ticks));
        assert_eq!(read.resident_bytes, Some(3 * rustix::param::page_size() as u64));
        let nothing = Process::default().with_stat("", "");
        assert!(nothing.cpu_s.is_none() && nothing.start_s.is_none());
    }

    #[test]
    fn this_process_has_all_facts() {
        let read = Process::read();
        assert!(
            read.cpu_s.is_some_and(|s| s >= 0.0) && read.threads >= Some(1) && read.open_files >= Some(3),
            "{read:?}"
        );
        assert!(read.resident_bytes > Some(1 << 20) && read.virtual_bytes > read.resident_bytes, "{read:?}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(read.start_s.is_some_and(|start| (0.0..3_600.0 * 24.0).contains(&(now - start + 2.0))), "{read:?}");
    }
}
