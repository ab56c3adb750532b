//! Delta of delta-fairness: the longest time for which a tenant stayed below what it is entitled to.
//!
//! Isolation is a mean over the whole window, in which a second without service at a tenant's return
//! does not show. Delta is that second. Source: docs/concepts/entitlement.md.

use hoistway_block::Nanos;

use crate::entitlement;
use crate::measurement::{GroupMeasurement, Measurement, Sample, SoloRates, Tally};

/// The part of its entitlement that a tenant must have. That it has nearly all of it is a matter of
/// isolation.
const HAS_ITS_DUE: f64 = 0.9;

/// The longest time in nanoseconds for which the group at `index` got less than 90 % of what it was
/// entitled to, moment by moment; whole samples, of a second each. `None` without solo runs or samples.
pub fn delta_ns(run: &Measurement, index: usize) -> Option<Nanos> {
    let (group, rates) = (run.groups.get(index)?, run.solo_rates.get(index)?);
    // A group that starves may have no samples of its own.
    let tallies = run.groups.iter().flat_map(|group| [&group.read, &group.write, &group.trim]);
    let times: &Vec<Sample> = tallies.map(|tally| &tally.samples).max_by_key(|samples| samples.len())?;
    if times.is_empty() {
        return None;
    }
    let ramp_ns = run.experiment.ramp_ns;
    let (mut longest_ns, mut below_ns) = (0, 0);
    for (at, time) in times.iter().enumerate().filter(|(_, time)| time.length_ns > 0) {
        let from_ns = ramp_ns + time.at_ns;
        let window = (from_ns, from_ns + time.length_ns);
        let due_per_s = *entitlement::of_groups(&run.experiment.groups, &run.solo_rates, window)?.get(index)?;
        let got = amount(group, at, rates) * 1e9 / time.length_ns as f64;
        below_ns = if got < HAS_ITS_DUE * due_per_s { below_ns + time.length_ns } else { 0 };
        longest_ns = longest_ns.max(below_ns);
    }
    Some(longest_ns)
}

/// What the group got in the sample `at`, in the unit of its rates.
fn amount(group: &GroupMeasurement, at: usize, rates: &SoloRates) -> f64 {
    let of_sample = |sample: &Sample| if rates.counts_ios() { sample.ios } else { sample.bytes };
    let of_tally = |tally: &Tally| tally.samples.get(at).map_or(0, of_sample);
    let total = if rates.counts_ios() {
        of_tally(&group.read) + of_tally(&group.write) + of_tally(&group.trim)
    } else {
        of_tally(&group.read) + of_tally(&group.write)
    };
    total as f64
}
