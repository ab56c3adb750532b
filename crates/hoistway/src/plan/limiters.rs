//! The limiters above the scheduler: those of `--limiter`, and the one that `high=` of groups
//! requires.

use hoistway_experiment::group::LowLimits;
use hoistway_experiment::{Diagnostic, GROUP_LIMITER, Limits, SchedulerSpec, WorkloadPlan};

use crate::error::Error;

/// The tunable that selects between the two kinds of best-effort limits, and its value for
/// `io.high` of the kernel patches of 2016.
const HIGH: (&str, &str) = ("high", "1");

/// Best-effort limits as in the kernel patches of 2016 (`high=RATE`): for both directions, without
/// thresholds.
pub fn high(bytes_per_s: u64) -> LowLimits {
    LowLimits { read_bytes_per_s: bytes_per_s, write_bytes_per_s: bytes_per_s, ..LowLimits::NONE }
}

/// Parses `--limiter NAME[:KEY=VALUE,...]`, and adds the limiter or the setting that `high=` of
/// groups requires.
pub fn read(texts: &[String], workloads: &[WorkloadPlan]) -> Result<Vec<SchedulerSpec>, Error> {
    let mut limiters: Vec<SchedulerSpec> = Vec::new();
    for text in texts {
        let at = format!("--limiter {text}");
        // The notation is that of schedulers; the message must name limiters instead.
        let limiter = text.parse::<SchedulerSpec>().map_err(|wrong| {
            let message = wrong.message.replacen("scheduler ", "limiter ", 1);
            Error::from(Diagnostic { message, ..wrong }).at(&at)
        })?;
        limiters.push(limiter);
    }
    let limits = || workloads.iter().flat_map(|workload| &workload.groups).map(|group| group.limits);
    let (has_high, has_low) = (limits().any(|limits| is_high(&limits)), limits().any(|limits| is_low(&limits)));
    if has_high && has_low {
        let help =
            "give all groups high=, or all low_rbps= (or low_wbps=, low_riops=, low_wiops=) with idle= and latency=";
        return Err(Error::usage("a device can have only one kind of best-effort limits", help).at("--group"));
    }
    if has_high {
        let (key, value) = HIGH;
        match limiters.iter_mut().find(|limiter| limiter.name == GROUP_LIMITER) {
            Some(limiter) if limiter.setting(key).is_none() => *limiter = limiter.clone().with(key, value),
            Some(_) => {}
            None => limiters.push(SchedulerSpec::named(GROUP_LIMITER).with(key, value)),
        }
    }
    Ok(limiters)
}

/// Whether limits are of the kind of 2016: only under those rules have best-effort limits without
/// thresholds an effect.
fn is_high(limits: &Limits) -> bool {
    !limits.low.is_none() && limits.low.idle_us == 0
}

fn is_low(limits: &Limits) -> bool {
    limits.low.idle_us != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_experiment::{Group, Weight};

    fn workload(low: LowLimits) -> WorkloadPlan {
        let mut group = Group::new("a", Weight::DEFAULT, Vec::new());
        group.limits.low = low;
        WorkloadPlan { name: "w".to_owned(), groups: vec![group].into() }
    }

    fn texts(given: &[&str], low: &[LowLimits]) -> Vec<String> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        let workloads: Vec<WorkloadPlan> = low.iter().map(|low| workload(*low)).collect();
        read(&given, &workloads).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_of_2016_bring_their_rules() {
        let low = LowLimits { idle_us: 1, latency_us: Some(1), ..high(1 << 20) };
        assert_eq!(texts(&[], &[LowLimits::NONE]), [""; 0]);
        assert_eq!(texts(&[], &[low]), [""; 0]);
        assert_eq!(texts(&[], &[high(1 << 20)]), ["throttle:high=1"]);
        let given = "throttle:throttle_sample_time=50";
        assert_eq!(texts(&[given], &[high(1 << 20)]), ["throttle:throttle_sample_time=50,high=1"]);
        assert_eq!(texts(&["throttle:high=0"], &[high(1 << 20)]), ["throttle:high=0"]);
        assert!(read(&[], &[workload(low), workload(high(5))]).is_err());
    }

    #[test]
    fn a_limiter_is_not_called_a_scheduler() {
        let wrong = read(&["throttle:high".to_owned()], &[]).unwrap_err();
        assert!(wrong.messages[0].what.starts_with("limiter 'throttle:high'"), "{:?}", wrong.messages[0].what);
    }
}
