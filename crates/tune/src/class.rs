//! Classifies a device by its measured behaviour rather than by its name.
//!
//! Source: docs/specifications/harness.md, section 8.5.

use std::fmt;

use hoistway_experiment::SchedulerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{Attachment, Device};
use crate::findings::Findings;
use crate::score::Goal;

/// If the total of parallel streams falls below this fraction of one stream's rate, they cost the
/// device its speed.
const DELTA_KEPT: f64 = 0.70;
/// From this multiple of one stream's rate on, one stream cannot keep the device busy.
const GAMMA_PARALLEL: f64 = 1.20;
/// Gain of random reads by depth that only a device with several arms reaches.
const PARALLELISM_OF_ARRAYS: f64 = 4.0;
/// Median latency of a random read at depth 1 from which a device counts as mechanical, in
/// nanoseconds.
const MECHANICAL_NS: f64 = 2e6;
/// Median latency below which a device that is flagged as rotational is not, in nanoseconds.
const NOT_ROTATING_NS: f64 = 1e6;

/// Classes of devices.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Its scheduler cannot be changed.
    Fixed,
    /// Its zones must be written in order, which mq-deadline ensures.
    Zoned,
    /// Part of a stack; only the top of the stack is tuned.
    StackedComponent,
    /// A loop device.
    Loop,
    /// One arm: parallel streams cost it most of its speed.
    SeekBound,
    /// Several arms behind one queue.
    Array,
    /// Flash with one hardware queue.
    FlashSq,
    /// Flash with several hardware queues.
    FlashMq,
    /// A disk whose host schedules again; tuned as its measured class, with a larger margin.
    Virtual,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Fixed => "fixed",
            Class::Zoned => "zoned",
            Class::StackedComponent => "stacked-component",
            Class::Loop => "loop",
            Class::SeekBound => "seek-bound",
            Class::Array => "array",
            Class::FlashSq => "flash-sq",
            Class::FlashMq => "flash-mq",
            Class::Virtual => "virtual",
        })
    }
}

impl Class {
    /// Whether devices of this class are measured.
    pub fn is_measured(self) -> bool {
        matches!(self, Class::SeekBound | Class::Array | Class::FlashSq | Class::FlashMq | Class::Virtual)
    }

    /// The gain over the current scheduler that a winner needs, as a fraction.
    pub fn margin(self) -> f64 {
        if self == Class::Virtual { 0.10 } else { 0.05 }
    }
}

/// A class and the reason for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Classified {
    /// The class.
    pub class: Class,
    /// The class that the device behaves like: equal to `class`, except for virtual disks.
    pub behaves: Class,
    /// The reason in words, with figures.
    pub why: String,
    /// The `rotational` flag contradicts the measurement.
    pub flag_is_wrong: bool,
}

impl Classified {
    fn of(class: Class, why: impl Into<String>) -> Self {
        Self { class, behaves: class, why: why.into(), flag_is_wrong: false }
    }
}

/// Classifies a device by its measurements, or by its properties alone if there are none.
pub fn classify(device: &Device, findings: &Findings) -> Classified {
    if let Some(classified) = by_facts(device) {
        return classified;
    }
    let (delta, gamma) = (findings.delta(), findings.gamma());
    let Some(p50_ns) = findings.random_read_p50_ns() else {
        return unmeasured(device);
    };
    let parallelism = findings.parallelism();
    let behaves = match (delta, gamma) {
        _ if p50_ns < MECHANICAL_NS && device.hw_queues > 1 => Class::FlashMq,
        _ if p50_ns < MECHANICAL_NS => Class::FlashSq,
        (Some(delta), _) if delta < DELTA_KEPT => Class::SeekBound,
        (_, Some(gamma)) if gamma >= GAMMA_PARALLEL => Class::Array,
        _ if parallelism >= PARALLELISM_OF_ARRAYS => Class::Array,
        // One arm whose large cache keeps the rate up under parallel streams is still one arm.
        _ => Class::SeekBound,
    };
    let mut why = format!("4 KiB random read p50 {}", ms(p50_ns));
    if let (Some(delta), Some(gamma)) = (delta, gamma) {
        why = format!("delta {delta:.3}, gamma {gamma:.3}, {why}");
    }
    why.push_str(&format!(", x{parallelism:.1} by depth, {} hardware queue(s)", device.hw_queues));
    let class = if device.attachment == Attachment::Virtual { Class::Virtual } else { behaves };
    let flag_is_wrong = device.is_rotational && p50_ns < NOT_ROTATING_NS;
    Classified { class, behaves, why, flag_is_wrong }
}

fn by_facts(device: &Device) -> Option<Classified> {
    match device.attachment {
        Attachment::Component => {
            return Some(Classified::of(Class::StackedComponent, "a part of the stack above it"));
        }
        Attachment::Stacked => {
            return Some(Classified::of(Class::Fixed, "it has no request queue of its own"));
        }
        _ => {}
    }
    if device.schedulers.is_empty() {
        return Some(Classified::of(Class::Fixed, "no scheduler can be chosen"));
    }
    if device.is_zoned {
        return Some(Classified::of(Class::Zoned, "its zones must be written in order"));
    }
    (device.attachment == Attachment::Loop)
        .then(|| Classified::of(Class::Loop, "the device below it schedules already"))
}

/// Classifies by the `rotational` flag and the number of hardware queues.
fn unmeasured(device: &Device) -> Classified {
    let behaves = match (device.is_rotational, device.hw_queues) {
        (true, _) => Class::SeekBound,
        (false, 0 | 1) => Class::FlashSq,
        (false, _) => Class::FlashMq,
    };
    let flag = u8::from(device.is_rotational);
    let why = format!("rotational {flag}, {} hardware queue(s); nothing was measured", device.hw_queues);
    let class = if device.attachment == Attachment::Virtual { Class::Virtual } else { behaves };
    Classified { class, behaves, why, flag_is_wrong: false }
}

/// The scheduler to use where nothing was measured. Source: docs/specifications/harness.md, section
/// 8.9.
pub fn static_choice(class: Class, goal: Goal) -> Option<SchedulerSpec> {
    let named = SchedulerSpec::named;
    match class {
        Class::SeekBound if goal == Goal::Latency => Some(named("bfq")),
        Class::SeekBound => Some(named("bfq").with("low_latency", "0")),
        Class::Array | Class::FlashSq | Class::Zoned => Some(named("mq-deadline")),
        Class::FlashMq | Class::Virtual | Class::Loop | Class::StackedComponent => Some(named("none")),
        Class::Fixed => None,
    }
}

/// Formats nanoseconds as milliseconds, or as microseconds below 1 ms.
pub(crate) fn ms(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.0} us", ns / 1e3),
        ..1e8 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::device::HostKind;

    pub(crate) fn device(hw_queues: u32) -> Device {
        Device {
            name: "/dev/sdx".into(),
            model: String::new(),
            host: HostKind::Native,
            attachment: Attachment::Direct,
            size_bytes: 1 << 40,
            is_rotational: false,
            is_zoned: false,
            hw_queues,
            queue_depth: 32,
            nr_requests: Some(64),
            schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec(),
            current: Device::kernel_default(hw_queues),
            current_is_real: true,
            wbt_lat_us: Some(2000),
            has_groups: true,
            may_write: false,
            below: Vec::new(),
        }
    }

    #[test]
    fn facts_come_before_figures() {
        let class = |change: &dyn Fn(&mut Device)| {
            let mut device = device(1);
            change(&mut device);
            classify(&device, &Findings::default()).class
        };
        assert_eq!(class(&|device| device.schedulers.clear()), Class::Fixed);
        assert_eq!(class(&|device| device.is_zoned = true), Class::Zoned);
        assert_eq!(class(&|device| device.attachment = Attachment::Component), Class::StackedComponent);
        assert_eq!(class(&|device| device.attachment = Attachment::Loop), Class::Loop);
        assert_eq!(class(&|device| device.attachment = Attachment::Virtual), Class::Virtual);
        assert_eq!(class(&|device| device.is_rotational = true), Class::SeekBound);
        assert_eq!(class(&|device| device.hw_queues = 8), Class::FlashMq);
        assert_eq!(class(&|_| {}), Class::FlashSq);
    }

    #[test]
    fn without_measurements_the_choice_is_the_one_of_the_class() {
        let text = |class, goal| static_choice(class, goal).map(|spec| spec.to_string());
        assert_eq!(text(Class::SeekBound, Goal::Balanced).as_deref(), Some("bfq:low_latency=0"));
        assert_eq!(text(Class::SeekBound, Goal::Latency).as_deref(), Some("bfq"));
        assert_eq!(text(Class::Array, Goal::Balanced).as_deref(), Some("mq-deadline"));
        assert_eq!(text(Class::FlashMq, Goal::Balanced).as_deref(), Some("none"));
        assert_eq!(text(Class::Fixed, Goal::Balanced), None);
    }
}
