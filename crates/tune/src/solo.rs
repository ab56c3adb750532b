//! The solo runs of the user's load: what each of its groups can claim beside the others.
//!
//! The runs and the yardstick are those of `hoistway test` ([`hoistway_experiment::solo`] and
//! [`hoistway_experiment::entitlement`]). Source: docs/concepts/entitlement.md.

use hoistway_experiment::measurement::{GroupMeasurement, SoloRates};
use hoistway_experiment::solo::{alone, is_judged, nameless};
use hoistway_experiment::{Group, Measurement};

use crate::probe::Probe;

/// The device's work in a run whose groups' solo rates are known.
pub(crate) fn work_of(run: &Measurement) -> f64 {
    let of_group = |(group, rates): (&GroupMeasurement, &SoloRates)| {
        let amount = if rates.counts_ios() { group.ios() } else { group.bytes() };
        let (alone_per_s, full_per_s) = rates.claimed();
        run.per_s(amount) / full_per_s.max(alone_per_s).max(f64::MIN_POSITIVE)
    };
    let busy = run.groups.iter().zip(&run.solo_rates).filter(|(_, rates)| rates.is_full_known());
    busy.map(of_group).sum()
}

/// The solo rates of each of these groups, from the runs of the device without a scheduler; empty if
/// one is missing.
pub(crate) fn rates(measurements: &[Measurement], groups: &[Group]) -> Vec<SoloRates> {
    let means = |group: usize, of_kind: u32| -> Option<SoloRates> {
        if groups[group].jobs.is_empty() {
            return Some(SoloRates::default());
        }
        let runs = |is_full: bool| {
            let name = Probe::Solo { group: of_kind, is_full }.name();
            measurements.iter().filter(move |run| run.experiment.workload == name)
        };
        let pairs: Vec<SoloRates> =
            runs(false).zip(runs(true)).map(|(alone, full)| SoloRates::of(alone, full)).collect();
        let mean = |figure: fn(&SoloRates) -> f64| pairs.iter().map(figure).sum::<f64>() / pairs.len() as f64;
        (!pairs.is_empty()).then(|| SoloRates {
            bytes_per_s: mean(|it| it.bytes_per_s),
            ios_per_s: mean(|it| it.ios_per_s),
            device_ns_per_s: mean(|it| it.device_ns_per_s),
            full_bytes_per_s: mean(|it| it.full_bytes_per_s),
            full_ios_per_s: mean(|it| it.full_ios_per_s),
        })
    };
    kinds(groups)
        .into_iter()
        .enumerate()
        .map(|(group, kind)| means(group, kind))
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// For each group the first one that has the same solo runs. Empty if groups alone tell nothing.
pub(crate) fn kinds(groups: &[Group]) -> Vec<u32> {
    if !is_judged(groups) {
        return Vec::new();
    }
    let kinds: Vec<Vec<Group>> = (0..groups.len()).map(|index| nameless(alone(groups, index))).collect();
    let first = |kind: &Vec<Group>| kinds.iter().position(|other| other == kind).unwrap_or(0);
    kinds.iter().map(|kind| u32::try_from(first(kind)).unwrap_or(u32::MAX)).collect()
}
