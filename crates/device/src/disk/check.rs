//! Constraints between the parameters of a disk.

use super::geometry;
use super::parameters::{DiskLayout, DiskParameters, DiskSeeks};
use super::rotation::turn_ns;
use super::seek::SeekTable;

/// Largest number of cylinders: the seek table has an entry of 4 bytes for each.
const MOST_CYLINDERS: u64 = 4_000_000;

/// Largest number of sectors on the platters; it keeps every product of the geometry within 64
/// bits.
const MOST_SECTORS: u64 = 1 << 46;

/// Smallest `rot_slack`. The end of a transfer and the angle of a sector are rounded; without
/// slack, the next sector of a stream could count as just missed and cost a revolution.
const LEAST_SLACK_NS: u64 = 1_000;

/// The parameter at fault, and what it should be.
type Fault = (&'static str, String);

fn fail(key: &'static str, message: String) -> Result<(), Fault> {
    Err((key, message))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl DiskParameters {
    /// The first violated constraint: the key to change, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.layout.check_sectors()?;
        self.layout.check_times()?;
        self.seeks.check(u32::try_from(geometry::cylinders(&self.layout)).unwrap_or(u32::MAX))
    }
}

impl DiskLayout {
    fn check_sectors(&self) -> Result<(), Fault> {
        if self.spt_inner > self.spt_outer {
            let text =
                format!("{} sectors, but the outer tracks have {}: at most that", self.spt_inner, self.spt_outer);
            return fail("spt_inner", text);
        }
        if self.zones == 1 && self.spt_inner != self.spt_outer {
            let text = format!("one zone has tracks of one length: {} like spt_outer", self.spt_outer);
            return fail("spt_inner", text);
        }
        if !self.heads.is_multiple_of(self.actuators) {
            return fail("actuators", format!("{} surfaces cannot be shared out among {}", self.heads, self.actuators));
        }
        if self.capacity_sectors < self.actuators {
            return fail("actuators", format!("{} for {} sectors", self.actuators, self.capacity_sectors));
        }
        let cylinders = geometry::cylinders(self);
        if cylinders > MOST_CYLINDERS {
            let text = format!(
                "needs {cylinders} cylinders with {} heads and {} to {} sectors per track; at most {MOST_CYLINDERS}",
                self.heads, self.spt_inner, self.spt_outer
            );
            return fail("capacity_sectors", text);
        }
        if cylinders * self.heads * self.spt_outer > MOST_SECTORS {
            return fail("capacity_sectors", format!("the platters would have more than {MOST_SECTORS} sectors"));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Fault> {
        let turn = turn_ns(self.rpm);
        for (key, switch_ns) in [("head_switch_ms", self.head_switch_ns), ("cyl_switch_ms", self.cyl_switch_ns)] {
            if switch_ns >= turn {
                return fail(key, format!("{} ms is not below a revolution of {} ms", ms(switch_ns), ms(turn)));
            }
        }
        if self.rot_slack_ns < LEAST_SLACK_NS || self.rot_slack_ns >= turn / 2 {
            let text =
                format!("{} us: from 1 us to below half a revolution of {} ms", ms(self.rot_slack_ns) * 1e3, ms(turn));
            return fail("rot_slack_us", text);
        }
        Ok(())
    }
}

impl DiskSeeks {
    /// Checks the seeks of a disk with this many cylinders.
    fn check(&self, cylinders: u32) -> Result<(), Fault> {
        let longest = u64::from(u32::MAX) - self.seek_jitter_ns.min(u64::from(u32::MAX));
        if self.seek_table.is_empty() {
            if self.seek_avg_ns < self.seek_track_ns {
                let text = format!("{} ms, less than seek_track_ms = {}", ms(self.seek_avg_ns), ms(self.seek_track_ns));
                return fail("seek_avg_ms", text);
            }
            if self.seek_full_ns < self.seek_avg_ns {
                let text = format!("{} ms, less than seek_avg_ms = {}", ms(self.seek_full_ns), ms(self.seek_avg_ns));
                return fail("seek_full_ms", text);
            }
            if self.seek_full_ns > longest {
                return fail("seek_full_ms", format!("{} ms: at most 4294 with the jitter", ms(self.seek_full_ns)));
            }
        } else {
            self.check_points(longest)?;
        }
        match SeekTable::new(self, cylinders).first_decrease() {
            Some(distance) => fail(
                "seek_avg_ms",
                format!(
                    "{} ms between seek_track_ms = {} and seek_full_ms = {} makes a seek of {distance} cylinders \
                     faster than a shorter one; try nearer to half the full seek",
                    ms(self.seek_avg_ns),
                    ms(self.seek_track_ns),
                    ms(self.seek_full_ns)
                ),
            ),
            None => Ok(()),
        }
    }

    fn check_points(&self, longest: u64) -> Result<(), Fault> {
        for pair in self.seek_table.windows(2) {
            let ((d, ns), (next_d, next_ns)) = (pair[0], pair[1]);
            if next_d <= d || next_ns < ns {
                let text = format!("[{next_d}, {}] after [{d}, {}]: both must rise", ms(next_ns), ms(ns));
                return fail("seek_table", text);
            }
        }
        let last = self.seek_table.last().map_or(0, |point| point.1);
        if last > longest {
            return fail("seek_table", format!("{} ms: at most 4294 with the jitter", ms(last)));
        }
        if self.seek_table.first().is_some_and(|point| point.0 == 0) {
            return fail("seek_table", "a seek over 0 cylinders takes no time; begin with 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(change: impl FnOnce(&mut DiskParameters)) -> Option<&'static str> {
        let mut parameters = DiskParameters::default();
        change(&mut parameters);
        parameters.check().err().map(|(key, _)| key)
    }

    #[test]
    fn the_default_is_consistent() {
        assert_eq!(key(|_| {}), None);
        assert_eq!(key(|p| p.seeks.seek_table = vec![(1, 530_000), (36, 1_160_000), (29_000, 5_400_000)]), None);
    }

    #[test]
    fn contradictions_name_the_key() {
        assert_eq!(key(|p| p.layout.spt_inner = 2_000), Some("spt_inner"));
        assert_eq!(key(|p| p.layout.actuators = 4), Some("actuators"));
        assert_eq!(key(|p| p.layout.zones = 1), Some("spt_inner"));
        assert_eq!(key(|p| p.layout.capacity_sectors = 1 << 45), Some("capacity_sectors"));
        assert_eq!(key(|p| p.layout.head_switch_ns = 9_000_000), Some("head_switch_ms"));
        assert_eq!(key(|p| p.layout.rot_slack_ns = 0), Some("rot_slack_us"));
        assert_eq!(key(|p| p.seeks.seek_track_ns = 10_000_000), Some("seek_avg_ms"));
        assert_eq!(key(|p| p.seeks.seek_full_ns = 8_000_000), Some("seek_full_ms"));
        // Lee & Katz's curve decreases towards the end when the average is near the full stroke.
        assert_eq!(key(|p| p.seeks.seek_avg_ns = 16_000_000), Some("seek_avg_ms"));
        assert_eq!(key(|p| p.seeks.seek_table = vec![(1, 2_000_000), (9, 1_000_000)]), Some("seek_table"));
        assert_eq!(key(|p| p.seeks.seek_table = vec![(0, 2_000_000)]), Some("seek_table"));
    }
}
