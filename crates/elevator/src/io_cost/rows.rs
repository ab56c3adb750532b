//! The parameters as tunables. Shares and bounds are whole per cent here; the line format of
//! `io.cost.qos` allows finer ones.

use super::IoCost;
use super::model::{Control, Model, PERCENT_PPM, Qos};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::Nanos;

/// A tunable whose default follows from the device's class.
const fn by_class(name: &'static str, unit: Unit, max: i64, doc: &'static str) -> Tunable {
    Tunable { name, unit, min: 0, max, default: None, out_of_range: OutOfRange::Refuse, doc }
}

const fn fixed(name: &'static str, unit: Unit, max: i64, default: i64, doc: &'static str) -> Tunable {
    Tunable { default: Some(default), ..by_class(name, unit, max, doc) }
}

/// A tunable for a bound of the clock's rate. Its value is clamped to its range, as in the kernel.
const fn bound(name: &'static str, default: i64, doc: &'static str) -> Tunable {
    Tunable { min: 1, out_of_range: OutOfRange::Clamp, ..fixed(name, Unit::Percent, 10_000, default, doc) }
}

const LONGEST_US: i64 = 1_000_000_000_000;

/// The tunables, in the order in which [`IoCost::row`] reads them.
pub const ROWS: &[Tunable] = &[
    fixed("enable", Unit::Boolean, 1, 1, "Whether groups are throttled."),
    fixed("qos_ctrl", Unit::Boolean, 1, 0, "0: targets and bounds of the device's class; 1: those that were set."),
    fixed("rpct", Unit::Percent, 100, 0, "Share of reads that has to meet rlat; 0: reads do not slow the clock."),
    by_class("rlat", Unit::Microseconds, LONGEST_US, "Target of reads."),
    fixed("wpct", Unit::Percent, 100, 0, "Share of writes that has to meet wlat; 0: writes do not slow the clock."),
    by_class("wlat", Unit::Microseconds, LONGEST_US, "Target of writes."),
    bound("min", 1, "Slowest device clock."),
    bound("max", 10_000, "Fastest device clock."),
    fixed("model_ctrl", Unit::Boolean, 1, 0, "0: model of the device's class; 1: the one that was set."),
    by_class("rbps", Unit::Count, i64::MAX, "Bytes per second of large sequential reads."),
    by_class("rseqiops", Unit::Count, i64::MAX, "Sequential reads of 4 KiB per second."),
    by_class("rrandiops", Unit::Count, i64::MAX, "Random reads of 4 KiB per second."),
    by_class("wbps", Unit::Count, i64::MAX, "Bytes per second of large sequential writes."),
    by_class("wseqiops", Unit::Count, i64::MAX, "Sequential writes of 4 KiB per second."),
    by_class("wrandiops", Unit::Count, i64::MAX, "Random writes of 4 KiB per second."),
    fixed("rules_of_2026", Unit::Boolean, 1, 0, "0: rules of Linux 6.12; 1: its corrections of 2026."),
];

/// The row that belongs to no file.
const RULES: usize = 15;

const fn control_of(value: i64) -> Control {
    if value == 0 { Control::Auto } else { Control::User }
}

fn percent_of(ppm: u32) -> u64 {
    u64::from(ppm / PERCENT_PPM)
}

/// The number of the model that is the tunable with this index.
fn speed_mut(model: &mut Model, index: usize) -> Option<&mut u64> {
    Some(match index {
        9 => &mut model.read.bytes_per_s,
        10 => &mut model.read.sequential_ios_per_s,
        11 => &mut model.read.random_ios_per_s,
        12 => &mut model.write.bytes_per_s,
        13 => &mut model.write.sequential_ios_per_s,
        14 => &mut model.write.random_ios_per_s,
        _ => return None,
    })
}

impl IoCost {
    pub(super) fn row(&self, index: usize) -> Option<i64> {
        let qos = &self.qos;
        let value = match index {
            0 => u64::from(qos.is_enabled),
            1 => u64::from(qos.control == Control::User),
            2 => percent_of(qos.read_ppm),
            3 => qos.read_latency_us,
            4 => percent_of(qos.write_ppm),
            5 => qos.write_latency_us,
            6 => percent_of(qos.min_ppm),
            7 => percent_of(qos.max_ppm),
            8 => u64::from(self.model.control == Control::User),
            RULES => u64::from(self.has_rules_of_2026),
            _ => *speed_mut(&mut self.model(), index)?,
        };
        Some(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Sets a tunable. This makes the whole file that it belongs to (`io.cost.qos` or
    /// `io.cost.model`) user-controlled; the other numbers of the file keep their values.
    pub(super) fn set_row(&mut self, index: usize, value: i64, now: Nanos) -> Result<(), SettingError> {
        let value = ROWS.get(index).ok_or(SettingError::Unknown)?.admit(value)?;
        let number = value.unsigned_abs();
        let ppm = u32::try_from(number).unwrap_or(u32::MAX).saturating_mul(PERCENT_PPM);
        let (qos, user) = (self.qos, Control::User);
        let qos = match index {
            0 => Qos { is_enabled: value != 0, ..qos },
            1 => Qos { control: control_of(value), ..qos },
            2 => Qos { read_ppm: ppm, control: user, ..qos },
            3 => Qos { read_latency_us: number, control: user, ..qos },
            4 => Qos { write_ppm: ppm, control: user, ..qos },
            5 => Qos { write_latency_us: number, control: user, ..qos },
            6 => Qos { min_ppm: ppm, control: user, ..qos },
            7 => Qos { max_ppm: ppm, control: user, ..qos },
            RULES => {
                self.has_rules_of_2026 = value != 0;
                return Ok(());
            }
            _ => {
                let mut model = self.model;
                match speed_mut(&mut model, index) {
                    Some(place) => (*place, model.control) = (number, user),
                    None => model.control = control_of(value),
                }
                self.set_model(&model);
                return Ok(());
            }
        };
        self.set_qos(&qos, now)
    }
}
