//! The statistics in the format of the kernel's files.

use std::fmt::Write;

use hoistway_block::time::MILLISECOND;
use hoistway_block::{DeviceNumber, Nanos};

use super::{ByType, Generation, Statistics};

/// The value that a file shows for a group on a device.
#[derive(Copy, Clone)]
enum Content {
    One(fn(&Statistics) -> u64),
    Types(fn(&Statistics) -> ByType),
}

/// A statistics file.
#[derive(Copy, Clone)]
pub struct File {
    /// Its name in the group's directory.
    pub name: &'static str,
    /// Whether 4.20 has a variant `NAME_recursive` that includes descendants.
    pub has_recursive: bool,
    /// Whether only 4.20 has it.
    pub is_late: bool,
    content: Content,
}

const fn one(name: &'static str, has_recursive: bool, value: fn(&Statistics) -> u64) -> File {
    File { name, has_recursive, is_late: false, content: Content::One(value) }
}

const fn types(name: &'static str, value: fn(&Statistics) -> ByType) -> File {
    File { name, has_recursive: true, is_late: false, content: Content::Types(value) }
}

/// All files. Times are in ns, except for `blkio.time`: it is documented in ms and shows ms here,
/// while Linux 2.6.36 printed ticks and 4.20 ns.
pub const FILES: [File; 14] = [
    one("blkio.time", true, |it| in_ms(it.time_ns)),
    one("blkio.sectors", true, |it| it.sectors),
    types("blkio.io_service_bytes", |it| it.io_service_bytes),
    types("blkio.io_serviced", |it| it.io_serviced),
    types("blkio.io_service_time", |it| it.io_service_time_ns),
    types("blkio.io_wait_time", |it| it.io_wait_time_ns),
    types("blkio.io_merged", |it| it.io_merged),
    types("blkio.io_queued", |it| it.io_queued),
    one("blkio.avg_queue_size", false, Statistics::avg_queue_size),
    one("blkio.group_wait_time", false, |it| it.group_wait_time_ns),
    one("blkio.idle_time", false, |it| it.idle_time_ns),
    one("blkio.empty_time", false, |it| it.empty_time_ns),
    one("blkio.dequeue", false, |it| it.dequeue),
    File { is_late: true, ..one("blkio.unaccounted_time", false, |it| it.unaccounted_time_ns) },
];

const fn in_ms(ns: Nanos) -> u64 {
    ns / MILLISECOND
}

/// The content of a group's file: its devices, in the given order.
pub fn statistics_file(file: &File, generation: Generation, devices: &[(DeviceNumber, Statistics)]) -> String {
    let mut text = String::new();
    let mut sum = 0;
    for (device, statistics) in devices {
        match file.content {
            Content::One(value) => line(&mut text, &format!("{device} {}", value(statistics))),
            Content::Types(value) => {
                let value = value(statistics);
                // Before discards had a column of their own, they counted as writes.
                let written = if generation == Generation::Tree { value.write } else { value.write + value.discard };
                let kinds = [("Read", value.read), ("Write", written), ("Sync", value.sync)];
                for (kind, number) in kinds.into_iter().chain([("Async", value.asynchronous)]) {
                    line(&mut text, &format!("{device} {kind} {number}"));
                }
                if generation == Generation::Tree {
                    line(&mut text, &format!("{device} Discard {}", value.discard));
                }
                line(&mut text, &format!("{device} Total {}", value.total()));
                sum += value.total();
            }
        }
    }
    if matches!(file.content, Content::Types(_)) {
        line(&mut text, &format!("Total {sum}"));
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

    fn file(name: &str) -> &'static File {
        FILES.iter().find(|file| file.name == name).expect("a file")
    }

    fn read_32() -> Statistics {
        let all = |number| ByType { read: number, sync: number, ..ByType::default() };
        Statistics {
            time_ns: 33_999_999,
            sectors: 256,
            io_service_bytes: all(131_072),
            io_serviced: all(32),
            queue_samples: 3,
            queue_sampled_requests: 8,
            ..Statistics::default()
        }
    }

    #[test]
    fn t53_the_files_of_32_reads_of_4_kib() {
        let devices = [(SDB, read_32())];
        let shows = |name: &str, generation| statistics_file(file(name), generation, &devices);
        assert_eq!(
            shows("blkio.io_service_bytes", Generation::Flat),
            "8:16 Read 131072\n8:16 Write 0\n8:16 Sync 131072\n8:16 Async 0\n8:16 Total 131072\nTotal 131072\n"
        );
        assert_eq!(shows("blkio.sectors", Generation::Flat), "8:16 256\n");
        assert_eq!(shows("blkio.time", Generation::Flat), "8:16 33\n");
        assert_eq!(shows("blkio.avg_queue_size", Generation::Flat), "8:16 2\n");
        let tree = shows("blkio.io_serviced", Generation::Tree);
        assert_eq!(tree.lines().nth(4), Some("8:16 Discard 0"), "{tree}");
    }

    #[test]
    fn discards_have_a_line_of_their_own_or_are_writes() {
        let io_serviced = ByType { read: 1, write: 2, discard: 4, sync: 1, asynchronous: 6 };
        let devices = [(SDB, Statistics { io_serviced, ..Statistics::default() })];
        let shows = |generation| statistics_file(file("blkio.io_serviced"), generation, &devices);
        let flat = "8:16 Read 1\n8:16 Write 6\n8:16 Sync 1\n8:16 Async 6\n8:16 Total 7\nTotal 7\n";
        let tree = "8:16 Read 1\n8:16 Write 2\n8:16 Sync 1\n8:16 Async 6\n8:16 Discard 4\n8:16 Total 7\nTotal 7\n";
        assert_eq!((shows(Generation::Flat).as_str(), shows(Generation::Tree).as_str()), (flat, tree));
    }

    #[test]
    fn several_devices_have_one_total() {
        let other = DeviceNumber { major: 8, minor: 32 };
        let shown =
            statistics_file(file("blkio.io_serviced"), Generation::Flat, &[(SDB, read_32()), (other, read_32())]);
        assert_eq!(shown.lines().filter(|line| line.starts_with("8:32 ")).count(), 5);
        assert!(shown.ends_with("8:32 Total 32\nTotal 64\n"), "{shown}");
        assert_eq!(statistics_file(file("blkio.io_serviced"), Generation::Flat, &[]), "Total 0\n");
        assert_eq!(statistics_file(file("blkio.sectors"), Generation::Flat, &[]), "");
    }
}
