//! The candidates of each class, for the kernel and for `hoistway serve`.
//!
//! Source: docs/specifications/harness.md, section 8.6.

use hoistway_experiment::SchedulerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::device::{Device, HostKind};

/// Where a scheduler would run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunsIn {
    /// The kernel: the running one, or, where the measurement runs in the simulator or the engine,
    /// one that has the same schedulers.
    Kernel,
    /// `hoistway serve`.
    Serve,
}

/// A scheduler that is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Scheduler and settings.
    pub spec: SchedulerSpec,
    /// Where it would run.
    pub runs_in: RunsIn,
    /// A control shows the cost of a feature and cannot win; only streams are measured under it.
    pub is_control: bool,
}

/// BFQ that idles for every reader.
pub(crate) const BFQ_IDLING: &str = "bfq:low_latency=0";
/// BFQ without idling.
pub(crate) const BFQ_NO_IDLING: &str = "bfq:low_latency=0,slice_idle=0";
/// Our own with no bound on what exact shares may cost.
pub(crate) const PATERNOSTER_EXACT: &str = "paternoster:give=100";
/// CFQ that idles for groups only.
pub(crate) const CFQ_BY_GROUP: &str = "cfq:slice_idle=0,quantum=32";

/// The kernel's schedulers in order of preference, then the controls.
fn of_kernel(behaves: Class, class: Class) -> (&'static [&'static str], &'static [&'static str]) {
    match (class, behaves) {
        (_, Class::SeekBound) => (&[BFQ_IDLING, "bfq", "mq-deadline"], &["none", BFQ_NO_IDLING]),
        (_, Class::Array) => (&["mq-deadline", "none", BFQ_NO_IDLING], &[BFQ_IDLING]),
        (Class::Virtual, _) => (&["none", "mq-deadline", "bfq"], &[]),
        (_, Class::FlashSq) => (&["mq-deadline", "none", "bfq", BFQ_NO_IDLING, "kyber"], &[]),
        (_, Class::FlashMq) => (&["none", "kyber", "mq-deadline", "io.cost", BFQ_NO_IDLING], &[]),
        _ => (&[], &[]),
    }
}

/// Elevators of the Hoistway kernel module, tried after the kernel's own where it is loaded.
fn of_module(behaves: Class) -> &'static [&'static str] {
    match behaves {
        Class::SeekBound => &["hw-paternoster", "hw-cfq"],
        Class::Array | Class::FlashSq | Class::FlashMq => &["hw-paternoster"],
        _ => &[],
    }
}

/// The policies of `hoistway serve` in order of preference: its default first, then policies with
/// weights, because a server has several clients, and one without weights last.
fn of_serve(behaves: Class) -> &'static [&'static str] {
    match behaves {
        Class::SeekBound => &["paternoster", "cfq", BFQ_IDLING, "mqfq", "wfq", "mq-deadline"],
        Class::Array => &["paternoster", CFQ_BY_GROUP, BFQ_IDLING, "mqfq", "wfq", "mq-deadline"],
        Class::FlashSq | Class::FlashMq => {
            &["paternoster", PATERNOSTER_EXACT, "mqfq", "wfq", CFQ_BY_GROUP, BFQ_NO_IDLING, "none"]
        }
        _ => &[],
    }
}

/// What is measured on a device of this class: the kernel's candidates, the server's, then
/// controls, each in order of preference. The current scheduler is always among the kernel's
/// candidates. If `only` is not empty, it replaces all of these; the current scheduler is measured
/// in addition.
pub fn short_list(device: &Device, class: Class, behaves: Class, only: &[SchedulerSpec]) -> Vec<Candidate> {
    let (kernel, controls) = of_kernel(behaves, class);
    let mut list: Vec<Candidate> = Vec::new();
    let mut add = |text: &str, runs_in: RunsIn, is_control: bool| {
        // A text is a constant of this file, all of which a test parses, or was written by
        // `SchedulerSpec` itself.
        let Ok(spec) = text.parse::<SchedulerSpec>() else { return };
        let is_known = list.iter().any(|known| known.spec == spec && (known.runs_in == runs_in || is_control));
        if device.offers(&spec.name) && !is_known {
            list.push(Candidate { spec, runs_in, is_control });
        }
    };
    let only: Vec<String> = only.iter().map(SchedulerSpec::to_string).collect();
    let chosen = only.iter().map(String::as_str);
    for text in chosen.chain(kernel.iter().chain(of_module(behaves)).copied().filter(|_| only.is_empty())) {
        add(text, RunsIn::Kernel, false);
    }
    add(&device.current.to_string(), RunsIn::Kernel, false);
    if device.host != HostKind::Native && only.is_empty() {
        for text in of_serve(behaves) {
            add(text, RunsIn::Serve, false);
        }
    }
    for text in controls.iter().filter(|_| only.is_empty()) {
        add(text, RunsIn::Kernel, true);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::tests::device;

    fn texts(device: &Device, class: Class) -> Vec<String> {
        short_list(device, class, class, &[]).iter().map(|candidate| candidate.spec.to_string()).collect()
    }

    #[test]
    fn every_text_of_the_lists_is_a_scheduler() {
        for behaves in [Class::SeekBound, Class::Array, Class::FlashSq, Class::FlashMq] {
            for class in [behaves, Class::Virtual] {
                let (kernel, controls) = of_kernel(behaves, class);
                for text in kernel.iter().chain(controls).chain(of_serve(behaves)).chain(of_module(behaves)) {
                    assert!(text.parse::<SchedulerSpec>().is_ok(), "{text}");
                }
            }
        }
    }

    #[test]
    fn only_what_the_kernel_offers_is_tried_and_what_is_set_always() {
        let mut device = device(1);
        device.schedulers = vec!["none".into(), "mq-deadline".into()];
        assert_eq!(texts(&device, Class::SeekBound), ["mq-deadline", "none"]);
        device.current = "mq-deadline:fifo_batch=1".parse().unwrap();
        assert_eq!(texts(&device, Class::FlashMq), ["none", "mq-deadline", "mq-deadline:fifo_batch=1"]);
        device.schedulers.push("hw-paternoster".into());
        let with_module = ["none", "mq-deadline", "hw-paternoster", "mq-deadline:fifo_batch=1"];
        assert_eq!(texts(&device, Class::FlashMq), with_module);
    }

    #[test]
    fn the_users_own_list_replaces_ours() {
        let only = ["kyber".parse().unwrap(), "bfq:slice_idle=0".parse().unwrap()];
        let list = short_list(&device(1), Class::Array, Class::Array, &only);
        let texts: Vec<String> = list.iter().map(|it| it.spec.to_string()).collect();
        assert_eq!(texts, ["kyber", "bfq:slice_idle=0", "mq-deadline"]);
    }

    #[test]
    fn a_disk_with_one_arm_is_never_offered_none_and_never_kyber() {
        let list = short_list(&device(1), Class::SeekBound, Class::SeekBound, &[]);
        let tried: Vec<_> = list.iter().filter(|it| !it.is_control).map(|it| it.spec.name.as_str()).collect();
        assert_eq!(tried, ["bfq", "bfq", "mq-deadline"]);
    }

    #[test]
    fn the_server_has_a_list_of_its_own_where_it_can_be_measured() {
        let mut device = Device { host: HostKind::Simulator, ..device(1) };
        device.schedulers.extend(["cfq", "wfq", "mqfq", "paternoster"].map(str::to_owned));
        let of_serve = |device: &Device| {
            let list = short_list(device, Class::Array, Class::Array, &[]);
            let own = list.into_iter().filter(|it| it.runs_in == RunsIn::Serve);
            own.map(|it| it.spec.to_string()).collect::<Vec<_>>()
        };
        let all = ["paternoster", CFQ_BY_GROUP, BFQ_IDLING, "mqfq", "wfq", "mq-deadline"];
        assert_eq!(of_serve(&device), all);
        device.host = HostKind::Native;
        assert!(of_serve(&device).is_empty());
    }
}
