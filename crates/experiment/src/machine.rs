//! The simulated computer between the processes and the device: kernel era, memory, caches, costs.
//!
//! Only the simulator uses it; the other hosts run on a real machine and refuse anything but the
//! default. Omitted values are those of the era. Source: docs/specifications/devices.md, section 8.

use std::fmt;

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

use crate::Diagnostic;
use crate::diagnostic::nearest;

/// The kernel whose rules apply above the elevator.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum KernelEra {
    /// 2.4.20: split free lists, queue plug, bdflush.
    #[serde(rename = "2.4")]
    Linux24,
    /// 2.6.18 to 2.6.38: limits per direction, queue plug, writers that write back themselves.
    #[serde(rename = "2.6")]
    Linux26,
    /// 2.6.39 to 4.20, single queue: task plug, dirty throttling by pauses.
    #[serde(rename = "3")]
    Linux3,
    /// blk-mq.
    #[default]
    #[serde(rename = "mq")]
    Mq,
}

/// The mapping of files to blocks.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The raw device.
    #[default]
    None,
    /// Block maps: the first access of a process to each 4 MiB of a file reads one additional
    /// block.
    Ext3,
    /// Extents; no additional reads.
    Ext4,
    /// Extents; no additional reads.
    Xfs,
}

/// The placement of files.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileLayout {
    /// Each file is contiguous.
    #[default]
    Plain,
    /// Eight files share a region, with alternating extents of 8 MB.
    Aged,
}

macro_rules! machine {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:tt = $default:expr, $low:expr, $high:expr;)*) => {
        /// The computer. `None` means the era's default.
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Machine {
            $($(#[doc = $doc])+ pub $name: machine!(@type $kind),)*
        }

        impl Default for Machine {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Name, permitted values and meaning of every key, in order.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            allowed: machine!(@allowed $kind, $low, $high),
            doc: concat!($($doc),+),
        },)*];

        impl Machine {
            fn set_key(&mut self, key: &str, value: &str) -> Option<bool> {
                match key {
                    $(stringify!($name) => Some(machine!(@parse $kind, self.$name, value, $low, $high)),)*
                    _ => None,
                }
            }

            fn show_key(&self, key: &str) -> Option<String> {
                match key {
                    $(stringify!($name) => machine!(@show $kind, self.$name),)*
                    _ => None,
                }
            }
        }
    };
    (@type number) => { u64 };
    (@type maybe) => { Option<u64> };
    (@type switch) => { bool };
    (@type era) => { KernelEra };
    (@type fs) => { FileSystem };
    (@type layout) => { FileLayout };
    (@allowed number, $low:expr, $high:expr) => { Allowed::Range($low, $high) };
    (@allowed maybe, $low:expr, $high:expr) => { Allowed::Range($low, $high) };
    (@allowed switch, $low:expr, $high:expr) => { Allowed::Words(&["0", "1"]) };
    (@allowed $words:tt, $low:expr, $high:expr) => { Allowed::Words(machine!(@words $words)) };
    (@words era) => { &["2.4", "2.6", "3", "mq"] };
    (@words fs) => { &["none", "ext3", "ext4", "xfs"] };
    (@words layout) => { &["plain", "aged"] };
    (@parse number, $field:expr, $value:expr, $low:expr, $high:expr) => {
        within($value, $low, $high).map(|value| $field = value).is_some()
    };
    (@parse maybe, $field:expr, $value:expr, $low:expr, $high:expr) => {
        within($value, $low, $high).map(|value| $field = Some(value)).is_some()
    };
    (@parse switch, $field:expr, $value:expr, $low:expr, $high:expr) => {
        match $value {
            "1" | "true" | "yes" | "on" => { $field = true; true }
            "0" | "false" | "no" | "off" => { $field = false; true }
            _ => false,
        }
    };
    (@parse $words:tt, $field:expr, $value:expr, $low:expr, $high:expr) => {
        word($value).map(|value| $field = value).is_some()
    };
    (@show number, $field:expr) => { Some($field.to_string()) };
    (@show maybe, $field:expr) => { $field.map(|value| value.to_string()) };
    (@show switch, $field:expr) => { Some(u8::from($field).to_string()) };
    (@show $words:tt, $field:expr) => { serde_json::to_value($field).ok().and_then(|value| value.as_str().map(str::to_owned)) };
}

machine! {
    /// Kernel era whose rules apply: 2.4, 2.6, 3 or mq.
    era: era = KernelEra::Mq, 0, 0;
    /// Number of processors; process i runs on processor i modulo this number.
    cpus: number = 4, 1, 1_024;
    /// Memory in MiB; nine tenths of it can hold file pages.
    memory_mib: number = 4_096, 16, 1 << 24;
    /// Largest read-ahead window in KiB; 0 = no read-ahead.
    read_ahead_kib: number = 128, 0, 1 << 20;
    /// Largest request in KiB, at most the device's limit [default: 128 in 2.4; 512 in 2.6 and 3; 1280 in mq].
    max_request_kib: maybe = None, 4, 1 << 16;
    /// CPU time to submit a bio, in ns.
    submit_ns: maybe = None, 0, 1_000_000_000;
    /// Time from the device's completion until the process continues, in ns.
    complete_ns: maybe = None, 0, 1_000_000_000;
    /// CPU time of a read or write call through the page cache, in ns.
    call_ns: number = 300, 0, 1_000_000_000;
    /// Speed of copying to and from the page cache, in MB/s.
    copy_mb_per_s: maybe = None, 1, 1_000_000;
    /// Timer ticks per second (HZ): times that schedulers count in ticks are rounded to them (250: to 4 ms); 0 = not
    /// rounded.
    hz: number = 0, 0, 10_000;
    /// Time over which completions are collected for one interrupt, in ns; 0 = one interrupt each.
    irq_coalesce_ns: number = 0, 0, 1_000_000_000;
    /// Time that an insertion, a dispatch or a completion holds the scheduler's lock, in ns.
    sched_ns_per_op: number = 0, 0, 1_000_000_000;
    /// Whether processes on the same processor wait for each other.
    cpu_limit: switch = false, 0, 0;
    /// 1: processors do one thing at a time, and the locks of schedulers and limiters are queues: each part of a
    /// request's way takes their time, and processors wait for a lock in turn. Direct I/O with era=mq only.
    contention: switch = false, 0, 0;
    /// With contention=1: time in which a lock, with the data under it, moves from one processor to another, in ns.
    lock_transfer_ns: number = 200, 0, 1_000_000;
    /// With contention=1: time of one of the instructions that a scheduler or limiter is known to take, in picoseconds.
    instruction_ps: number = 420, 1, 1_000_000;
    /// With contention=1, what another design would change: 1 lets processors keep new requests in lists of their own,
    /// which the dispatching processor takes over under the lock; 2 the ends of requests as well.
    processor_lists: number = 0, 0, 2;
    /// File system of the jobs' files: none, ext3, ext4 or xfs.
    fs: fs = FileSystem::None, 0, 0;
    /// Layout of the files: plain (each contiguous) or aged (alternating extents of 8 MB).
    layout: layout = FileLayout::Plain, 0, 0;
    /// Position of the first file on the device, in MiB.
    files_at_mib: number = 0, 0, 1 << 30;
    /// 1: files have their full length from the start; 0: they start empty, and writes beyond their end change
    /// metadata.
    files_exist: switch = true, 0, 0;
    /// Whether the file system has an ordered journal (ext3, ext4) with its thread and commits.
    journal: switch = false, 0, 0;
    /// Size of the journal in MiB.
    journal_mib: number = 128, 1, 1 << 20;
    /// Weight of the group of the journal thread [default: it runs in the root group].
    journal_weight: maybe = None, 1, 10_000;
    /// Best-effort I/O priority of the journal thread, 0 is highest; ext4 uses 3 [default: none].
    journal_ioprio: maybe = None, 0, 7;
    /// Whether the page cache contains the jobs' data at the start.
    warm: switch = false, 0, 0;
    /// Percentage of dirty memory at which background write-back starts.
    dirty_background_ratio: maybe = None, 0, 100;
    /// Percentage of dirty memory at which writers are throttled.
    dirty_ratio: maybe = None, 1, 100;
    /// Interval of periodic write-back, in ms.
    dirty_writeback_ms: number = 5_000, 1, 1_000_000;
    /// Age at which dirty data is written back, in ms.
    dirty_expire_ms: number = 30_000, 1, 1_000_000;
    /// 1: write-back is charged to the group that dirtied the data (Linux 4.2 and later with cgroup v2); 0: to the root
    /// group.
    cgroup_writeback: maybe = None, 0, 1;
    /// Whether read-ahead windows end at the boundaries of large folios, as in Linux 6.x.
    folio_rounding: switch = false, 0, 0;
    /// Whether raw devices are read by bios of 4 KiB, as before Linux 2.6.39.
    raw_4k_bios: switch = false, 0, 0;
}

/// Permitted values of a key.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// An integer in this range, both ends included.
    Range(u64, u64),
    /// One of these words.
    Words(&'static [&'static str]),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Range(low, high) => write!(f, "{low} to {high}"),
            Allowed::Words(words) => write!(f, "{}", words.join(", ")),
        }
    }
}

/// One key of a machine.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its permitted values.
    pub allowed: Allowed,
    /// Its meaning.
    pub doc: &'static str,
}

impl Machine {
    /// Parses `key=value[,key=value...]`; all other values are defaults.
    ///
    /// # Errors
    /// Which part is wrong, what is permitted, and the nearest key.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let mut machine = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim(), value.trim());
            let known = KEYS.iter().find(|known| known.name == key);
            let Some(known) = known else {
                let near = nearest(key, KEYS.iter().map(|key| key.name)).unwrap_or("era");
                let all: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                let message = format!("--machine has no key '{key}'; nearest: {near}");
                return Err(Diagnostic::new(message, format!("the keys are {}", all.join(", "))));
            };
            if machine.set_key(key, value) != Some(true) {
                let message = format!("machine: {key} cannot be '{value}'");
                return Err(Diagnostic::new(message, format!("allowed: {}", known.allowed)));
            }
        }
        Ok(machine)
    }

    /// Whether all values are defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The differences from the default in the format of [`Machine::parse`]; empty for the default.
    pub fn text(&self) -> String {
        let default = Self::default();
        let differs = |key: &&Key| self.show_key(key.name) != default.show_key(key.name);
        let parts = KEYS.iter().filter(differs).filter_map(|key| {
            let value = self.show_key(key.name)?;
            Some(format!("{}={value}", key.name))
        });
        parts.collect::<Vec<_>>().join(",")
    }

    /// CPU time per bio in ns, or the era's default.
    pub fn submit_ns_in_force(&self) -> Nanos {
        self.submit_ns.unwrap_or(if self.era == KernelEra::Mq { 1_500 } else { 5_000 })
    }

    /// Time from the device's completion until the process runs, in ns, or the era's default.
    pub fn complete_ns_in_force(&self) -> Nanos {
        self.complete_ns.unwrap_or(if self.era == KernelEra::Mq { 3_000 } else { 15_000 })
    }

    /// Copy rate in MB/s, or the era's default.
    pub fn copy_mb_per_s_in_force(&self) -> u64 {
        self.copy_mb_per_s.unwrap_or(match self.era {
            KernelEra::Linux24 => 250,
            KernelEra::Linux26 => 1_800,
            KernelEra::Linux3 | KernelEra::Mq => 5_000,
        })
    }

    /// Largest request in KiB, or the era's default.
    pub fn max_request_kib_in_force(&self) -> u64 {
        self.max_request_kib.unwrap_or(match self.era {
            KernelEra::Linux24 => 128,
            KernelEra::Linux26 | KernelEra::Linux3 => 512,
            KernelEra::Mq => 1_280,
        })
    }

    /// Dirty ratios in percent (background, limit), or the era's defaults.
    pub fn dirty_ratios_in_force(&self) -> (u64, u64) {
        let (background, limit) = match self.era {
            KernelEra::Linux24 => (30, 60),
            KernelEra::Linux26 | KernelEra::Linux3 | KernelEra::Mq => (10, 20),
        };
        (self.dirty_background_ratio.unwrap_or(background), self.dirty_ratio.unwrap_or(limit))
    }
}

fn within(value: &str, low: u64, high: u64) -> Option<u64> {
    value.parse().ok().filter(|number| (low..=high).contains(number))
}

fn word<T: serde::de::DeserializeOwned>(value: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(value.to_owned())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_machine_are_the_same_thing() {
        let text = "era=2.6,read_ahead_kib=256,complete_ns=15000,fs=ext3,layout=aged,journal=1";
        let machine = Machine::parse(text).unwrap();
        assert_eq!((machine.era, machine.fs), (KernelEra::Linux26, FileSystem::Ext3));
        assert_eq!(machine.text(), text);
        assert_eq!(Machine::parse("").unwrap(), Machine::default());
        assert_eq!(Machine::default().text(), "");
    }

    #[test]
    fn a_wrong_key_or_value_is_reported_with_the_permitted_ones() {
        let error = Machine::parse("read_ahead_kb=128").unwrap_err();
        assert!(error.to_string().contains("nearest: read_ahead_kib"), "{error}");
        let error = Machine::parse("era=2.5").unwrap_err();
        assert!(error.to_string().contains("2.4, 2.6, 3, mq"), "{error}");
        for text in ["cpus=0", "cpus=-1", "cpus", "warm=2", "memory_mib=1e3"] {
            assert!(Machine::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_follows_the_era() {
        let old = Machine::parse("era=2.6").unwrap();
        assert_eq!((old.submit_ns_in_force(), old.complete_ns_in_force()), (5_000, 15_000));
        assert_eq!(Machine::parse("era=2.6,submit_ns=0").unwrap().submit_ns_in_force(), 0);
    }
}
