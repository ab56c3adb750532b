//! The parameters of a hard disk. Source: docs/specifications/devices.md, section 4.1.
use crate::parameter::{COMMAND_SECTORS, DEPTH, LINK, MICROSECONDS, MILLISECONDS, Row, SECTORS, SWITCH, rows};

/// When the drive chooses its next command: at the start or at the end of the transfer before it.
pub(crate) const COMMITS: &[&str] = &["transfer_start", "transfer_end"];

/// Settings of a hard disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskParameters {
    /// Where the sectors are, and how fast they pass the heads.
    pub layout: DiskLayout,
    /// How long the arm takes.
    pub seeks: DiskSeeks,
    /// What a command costs besides the media, and the limits of commands.
    pub firmware: DiskFirmware,
    /// Which command is served next.
    pub order: DiskOrder,
    /// The read cache and read-ahead.
    pub reading: DiskReading,
    /// The write cache.
    pub writing: DiskWriting,
}

/// Where the sectors are, and how fast they pass the heads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskLayout {
    /// Usable sectors; in sectors.
    pub capacity_sectors: u64,
    /// Revolutions per minute.
    pub rpm: u64,
    /// Surfaces.
    pub heads: u64,
    /// Arms that move independently; each has an equal share of the sectors, surfaces and caches.
    pub actuators: u64,
    /// Zones of equal cylinder count.
    pub zones: u64,
    /// Sectors per track of the first zone; in sectors.
    pub spt_outer: u64,
    /// Sectors per track of the last zone; linear in between; in sectors.
    pub spt_inner: u64,
    /// Time of a switch to the next track during a sequential transfer; also defines the skew; in
    /// nanoseconds.
    pub head_switch_ns: u64,
    /// Time of a switch to the next cylinder during a sequential transfer; also defines the skew;
    /// in nanoseconds.
    pub cyl_switch_ns: u64,
    /// A target that the head passed less than this time ago counts as under the head; in
    /// nanoseconds.
    pub rot_slack_ns: u64,
}

/// How long the arm takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskSeeks {
    /// Seek to the next cylinder; in nanoseconds.
    pub seek_track_ns: u64,
    /// Mean seek over random pairs of cylinders; in nanoseconds.
    pub seek_avg_ns: u64,
    /// Seek over the whole disk; in nanoseconds.
    pub seek_full_ns: u64,
    /// Width of the uniform jitter of every seek; in nanoseconds.
    pub seek_jitter_ns: u64,
    /// Added to a seek or head switch before a write; in nanoseconds.
    pub write_settle_ns: u64,
    /// Measured seek times as (cylinders, nanoseconds), ascending, linear in between; empty = the
    /// formula of Lee & Katz.
    pub seek_table: Vec<(u64, u64)>,
}

/// What a command costs besides the media, and the limits of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFirmware {
    /// Firmware time before a command that misses the cache; in nanoseconds.
    pub cmd_overhead_ns: u64,
    /// Firmware time before a cache hit or a cached write; in nanoseconds.
    pub hit_overhead_ns: u64,
    /// Rate of the interface, one transfer at a time; in kB/s.
    pub link_kb_per_s: u64,
    /// Commands in flight; 1 = no NCQ.
    pub depth: u64,
    /// Longest command; in sectors.
    pub max_sectors: u64,
}

/// Which command is served next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskOrder {
    /// Whether the command with the shortest positioning time is served next: 0 = no (order of
    /// arrival), 1 = yes.
    pub reorder: u64,
    /// When the next command is chosen; an index into `COMMITS`.
    pub commit: u64,
    /// A read waits for the waiting read that ends where it begins; 0 = no, 1 = yes.
    pub coalesce: u64,
    /// Reduction of a command's positioning cost for each unit of time that it has
    /// waited; in millionths.
    pub age_weight_millionths: u64,
    /// A read, or a write or flush that waits for the media, goes next when it is older than this;
    /// in nanoseconds.
    pub max_age_ns: u64,
}

/// The read cache and read-ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskReading {
    /// Segments of the read cache.
    pub segments: u64,
    /// Length of a segment; in KiB.
    pub segment_kib: u64,
    /// How far the drive reads on when it has nothing else to do; in KiB.
    pub readahead_kib: u64,
}

/// The write cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskWriting {
    /// Volatile write-back cache; 0 = no, 1 = yes.
    pub write_cache: u64,
    /// Dirty extents the cache holds.
    pub wc_entries: u64,
    /// Dirty data the cache holds; in KiB.
    pub wc_kib: u64,
    /// Largest extent formed by appending; in KiB.
    pub wc_extent_kib: u64,
}

impl Default for DiskParameters {
    /// A 250 GB SATA disk of 7,200 rpm with NCQ, 2009: 63 to 44 MB/s, 9 ms average seek.
    fn default() -> Self {
        Self {
            layout: DiskLayout {
                capacity_sectors: 488_282_256,
                rpm: 7_200,
                heads: 6,
                actuators: 1,
                zones: 16,
                spt_outer: 1_157,
                spt_inner: 800,
                head_switch_ns: 900_000,
                cyl_switch_ns: 1_500_000,
                rot_slack_ns: 20_000,
            },
            seeks: DiskSeeks {
                seek_track_ns: 2_000_000,
                seek_avg_ns: 9_000_000,
                seek_full_ns: 17_400_000,
                seek_jitter_ns: 1_000_000,
                write_settle_ns: 500_000,
                seek_table: Vec::new(),
            },
            firmware: DiskFirmware {
                cmd_overhead_ns: 200_000,
                hit_overhead_ns: 60_000,
                link_kb_per_s: 250_000,
                depth: 32,
                max_sectors: 2_560,
            },
            order: DiskOrder {
                reorder: 1,
                commit: 0,
                coalesce: 1,
                age_weight_millionths: 0,
                max_age_ns: 2_000_000_000,
            },
            reading: DiskReading { segments: 16, segment_kib: 512, readahead_kib: 512 },
            writing: DiskWriting { write_cache: 1, wc_entries: 32, wc_kib: 8_192, wc_extent_kib: 1_024 },
        }
    }
}

impl DiskParameters {
    /// These settings with other values.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// Every parameter with its unit, range and field.
pub(crate) const DISK: &[Row<DiskParameters>] = rows! { DiskParameters:
    "capacity_sectors", Sectors, SECTORS, layout.capacity_sectors, "Usable sectors.";
    "rpm", Count, (60..=100_000), layout.rpm, "Revolutions per minute.";
    "heads", Count, (1..=64), layout.heads, "Surfaces.";
    "actuators", Count, (1..=16), layout.actuators, "Actuators that move independently; each has an equal share of \
        sectors, surfaces and caches.";
    "zones", Count, (1..=256), layout.zones, "Zones of equal cylinder count.";
    "spt_outer", Sectors, (8..=100_000), layout.spt_outer, "Sectors per track of the first zone.";
    "spt_inner", Sectors, (8..=100_000), layout.spt_inner, "Sectors per track of the last zone; linear in between.";
    "seek_track_ms", Milliseconds, MILLISECONDS, seeks.seek_track_ns, "Seek to the next cylinder.";
    "seek_avg_ms", Milliseconds, MILLISECONDS, seeks.seek_avg_ns, "Mean seek over random pairs of cylinders.";
    "seek_full_ms", Milliseconds, MILLISECONDS, seeks.seek_full_ns, "Seek over the whole disk.";
    "seek_jitter_ms", Milliseconds, MILLISECONDS, seeks.seek_jitter_ns, "Width of the uniform jitter of every seek.";
    "write_settle_ms", Milliseconds, MILLISECONDS, seeks.write_settle_ns, "Added to a positioning that ends in a write.";
    "head_switch_ms", Milliseconds, MILLISECONDS, layout.head_switch_ns, "Sequential track switch; also defines the skew.";
    "cyl_switch_ms", Milliseconds, MILLISECONDS, layout.cyl_switch_ns, "Sequential cylinder switch; also defines the skew.";
    "rot_slack_us", Microseconds, MICROSECONDS, layout.rot_slack_ns, "A target that the head passed less than this time \
        ago counts as under the head.";
    "cmd_overhead_us", Microseconds, MICROSECONDS, firmware.cmd_overhead_ns, "Firmware time before a command that misses the cache.";
    "hit_overhead_us", Microseconds, MICROSECONDS, firmware.hit_overhead_ns, "Firmware time before a cache hit or a cached write.";
    "link_MBps", MegabytesPerSecond, LINK, firmware.link_kb_per_s, "Interface, one transfer at a time.";
    "queue_depth" | "qd", Count, DEPTH, firmware.depth, "Commands in flight; 1 = no NCQ.";
    "reorder" | "ncq", Switch, SWITCH, order.reorder, "Serves the command with the shortest positioning time; off = order \
        of arrival.";
    "commit", Choice(COMMITS), (0..=1), order.commit, "When the next command is chosen.";
    "coalesce", Switch, SWITCH, order.coalesce, "A read waits for the waiting read that ends where it begins.";
    "age_weight", Ratio, (0..=1_000), order.age_weight_millionths, "Reduction of the positioning cost per time waited.";
    "max_age_ms", Milliseconds, MILLISECONDS, order.max_age_ns, "A waiting command older than this is served next.";
    "segments", Count, (1..=1_024), reading.segments, "Segments of the read cache.";
    "segment_kib", Kibibytes, (4..=1_048_576), reading.segment_kib, "Length of a segment.";
    "readahead_kib", Kibibytes, (0..=1_048_576), reading.readahead_kib, "How far the drive reads on when it has nothing else to do.";
    "write_cache", Switch, SWITCH, writing.write_cache, "Volatile write-back cache.";
    "wc_entries", Count, (1..=4_096), writing.wc_entries, "Dirty extents the cache holds.";
    "wc_kib", Kibibytes, (4..=1_048_576), writing.wc_kib, "Dirty data the cache holds.";
    "wc_extent_kib", Kibibytes, (4..=1_048_576), writing.wc_extent_kib, "Largest extent formed by appending.";
    "max_sectors", Sectors, COMMAND_SECTORS, firmware.max_sectors, "Longest command.";
};
