//! The parameters of a RAID array. Source: docs/specifications/devices.md, section 5.1.
use crate::parameter::{COMMAND_SECTORS, DEPTH, LINK, MICROSECONDS, MILLISECONDS, Row, SWITCH, rows};

/// RAID levels, written as numbers: 5 has one parity chunk per row, 0 has none.
pub(crate) const LEVELS: &[&str] = &["5", "0"];

/// Settings of an array behind a controller; those of its member disks are
/// [`crate::DiskParameters`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayParameters {
    /// Member disks, all identical, each with its own random stream.
    pub disks: u64,
    /// RAID level; an index into `LEVELS`.
    pub level: u64,
    /// Contiguous data per disk (stripe unit); in KiB.
    pub chunk_kib: u64,
    /// Controller latency, half on the way in and half out, pipelined; in nanoseconds.
    pub ctl_latency_ns: u64,
    /// Controller time per command, one at a time; in nanoseconds.
    pub ctl_serial_ns: u64,
    /// Host link, one transfer at a time; in kB/s.
    pub link_kb_per_s: u64,
    /// Commands the host may have in flight.
    pub lun_depth: u64,
    /// Commands the controller keeps at one disk.
    pub disk_depth: u64,
    /// Controller read-ahead; 0 = off; in KiB.
    pub prefetch_kib: u64,
    /// Reads that must have continued a stream before it is read ahead.
    pub prefetch_trigger: u64,
    /// Line of the controller's read cache; in KiB.
    pub prefetch_line_kib: u64,
    /// Read cache of the controller; in MiB.
    pub read_cache_mib: u64,
    /// Whether the battery-backed write cache is used: 0 = no (write-through), 1 = yes.
    pub write_back: u64,
    /// Size of the write cache; in MiB.
    pub write_cache_mib: u64,
    /// Rows written to the disks at a time.
    pub destage_parallel: u64,
    /// Dirty share of the write cache above which any row is destaged; in millionths.
    pub destage_low_millionths: u64,
    /// Dirty share above which destaging goes before reads; in millionths.
    pub destage_high_millionths: u64,
    /// A dirty row older than this may be destaged at any time; in nanoseconds.
    pub destage_age_ns: u64,
    /// Longest command; in sectors.
    pub max_sectors: u64,
}

impl Default for ArrayParameters {
    /// A mid-range fibre-channel array of 12 disks in RAID 5.
    fn default() -> Self {
        Self {
            disks: 12,
            level: 0,
            chunk_kib: 1_024,
            ctl_latency_ns: 1_500_000,
            ctl_serial_ns: 20_000,
            link_kb_per_s: 380_000,
            lun_depth: 32,
            disk_depth: 32,
            prefetch_kib: 0,
            prefetch_trigger: 2,
            prefetch_line_kib: 256,
            read_cache_mib: 256,
            write_back: 1,
            write_cache_mib: 512,
            destage_parallel: 16,
            destage_low_millionths: 250_000,
            destage_high_millionths: 750_000,
            destage_age_ns: 500_000_000,
            max_sectors: 2_560,
        }
    }
}

impl ArrayParameters {
    /// Whether each row has a parity chunk.
    pub fn has_parity(&self) -> bool {
        self.level == 0
    }

    /// Constraints between parameters: the key at fault, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let write_cache_sectors = self.write_cache_mib * 2_048;
        let read_cache_kib = self.read_cache_mib * 1_024;
        let ahead_kib = self.prefetch_kib + self.prefetch_line_kib;
        if self.has_parity() && self.disks < 3 {
            let disks = self.disks;
            return Err(("disks", format!("level 5 takes at least 3 disks, not {disks}")));
        }
        if self.destage_low_millionths > self.destage_high_millionths {
            return Err(("destage_low", "must not lie above destage_high".to_owned()));
        }
        if self.write_back != 0 && write_cache_sectors < self.max_sectors {
            let longest = self.max_sectors;
            return Err(("write_cache_mib", format!("a command of max_sectors ({longest}) does not fit")));
        }
        if self.prefetch_kib > 0 && read_cache_kib < ahead_kib {
            return Err(("read_cache_mib", format!("one stream's read-ahead alone needs {ahead_kib} KiB")));
        }
        Ok(())
    }
}

/// Every parameter with its unit, range and field.
pub(crate) const ARRAY: &[Row<ArrayParameters>] = rows! { ArrayParameters:
    "disks", Count, (2..=64), disks, "Member disks, all alike, each with random numbers of its own.";
    "level", Choice(LEVELS), (0..=1), level, "RAID level.";
    "chunk_kib", Kibibytes, (4..=65_536), chunk_kib, "Contiguous data per disk (stripe unit).";
    "ctl_latency_us", Microseconds, MICROSECONDS, ctl_latency_ns, "Controller latency, half on the way in and half out, pipelined.";
    "ctl_serial_us", Microseconds, MICROSECONDS, ctl_serial_ns, "Controller time per command, one at a time.";
    "link_MBps", MegabytesPerSecond, LINK, link_kb_per_s, "Host link, one transfer at a time.";
    "lun_depth" | "qd", Count, DEPTH, lun_depth, "Commands the host may have in flight.";
    "disk_depth", Count, DEPTH, disk_depth, "Commands the controller keeps at one disk.";
    "prefetch_kib", Kibibytes, (0..=1_048_576), prefetch_kib, "Controller read-ahead; 0 = off.";
    "prefetch_trigger", Count, (1..=1_000), prefetch_trigger, "Reads that continue a stream before it is read ahead.";
    "prefetch_line_kib", Kibibytes, (4..=65_536), prefetch_line_kib, "Line of the controller's read cache.";
    "read_cache_mib", Mebibytes, (1..=1_048_576), read_cache_mib, "Read cache of the controller.";
    "write_back", Switch, SWITCH, write_back, "Battery-backed write cache; off = write-through.";
    "write_cache_mib", Mebibytes, (1..=1_048_576), write_cache_mib, "Size of the write cache.";
    "destage_parallel", Count, (1..=1_024), destage_parallel, "Rows written to the disks at a time.";
    "destage_low", Ratio, (0..=1), destage_low_millionths, "Dirty share of the write cache above which any row is destaged.";
    "destage_high", Ratio, (0..=1), destage_high_millionths, "Dirty share above which destaging has priority over \
        reads.";
    "destage_age_ms", Milliseconds, MILLISECONDS, destage_age_ns, "A dirty row older than this may be destaged at any time.";
    "max_sectors", Sectors, COMMAND_SECTORS, max_sectors, "Longest command.";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_contradict_each_other_are_refused_by_name() {
        let blamed = |change: fn(&mut ArrayParameters)| {
            let mut parameters = ArrayParameters::default();
            change(&mut parameters);
            parameters.check().err().map(|(key, _)| key)
        };
        assert_eq!(blamed(|_| {}), None);
        assert_eq!(blamed(|p| p.disks = 2), Some("disks"));
        assert_eq!(blamed(|p| (p.disks, p.level) = (2, 1)), None);
        assert_eq!(blamed(|p| p.destage_low_millionths = 800_000), Some("destage_low"));
        assert_eq!(blamed(|p| p.write_cache_mib = 1), Some("write_cache_mib"));
        assert_eq!(blamed(|p| (p.write_cache_mib, p.write_back) = (1, 0)), None);
        assert_eq!(blamed(|p| (p.prefetch_kib, p.read_cache_mib) = (4_096, 4)), Some("read_cache_mib"));
        assert_eq!(blamed(|p| (p.prefetch_kib, p.read_cache_mib) = (4_096, 5)), None);
    }
}
