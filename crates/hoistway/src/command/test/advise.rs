//! Warnings about conditions under which shares are not meaningful.

use elevator::limiters::PROPORTIONAL;
use elevator::registry;
use experiment::{Exit, IssuerPlace, Matrix, Measurement};
use workload::verify::REMARK;

use crate::command::exit::{Error, Reporter};

/// Warns if both the limiter and the scheduler would share the device by weights.
pub fn two_shares(matrix: &Matrix, reporter: Reporter) {
    for limiter in matrix.limiters.iter().filter(|limiter| PROPORTIONAL.contains(&limiter.name.as_str())) {
        let shares = |name: &str| registry::find(name).is_some_and(|entry| entry.traits.has_shares);
        for scheduler in matrix.schedulers.iter().filter(|scheduler| shares(&scheduler.name)) {
            let (limiter, scheduler) = (&limiter.name, &scheduler.name);
            reporter.note(format!(
                "{limiter} above {scheduler}: both divide the device by the groups' weights, each in its own unit; the results show their combined effect"
            ));
        }
    }
}

/// Warns if weights could not act, because all requests together fitted into the device. Source:
/// docs/specifications/harness.md, section 3.5, and section 14, trap T5.
pub fn idle_weights(measurements: &[Measurement], reporter: Reporter) {
    let mut said: Vec<String> = Vec::new();
    for measurement in measurements {
        let experiment = &measurement.experiment;
        let weights: Vec<u32> = experiment.groups.iter().map(|group| group.weight.get()).collect();
        let has_shares = measurement.scheduler.has_shares && weights.iter().any(|weight| *weight != weights[0]);
        let depth = experiment.device_depth.unwrap_or(measurement.target.queue_depth);
        let backlog: u32 = experiment.issuers().map(|place| place.job.effective_depth()).sum();
        let is_direct = experiment.issuers().all(|place| place.job.direct);
        if has_shares && is_direct && backlog <= depth && !follows_weights(measurement) {
            let (workload, threads) = (&experiment.workload, experiment.threads);
            let issuers = u32::try_from(experiment.issuers().count()).unwrap_or(u32::MAX);
            let remedy = remedy(issuers, depth, measurement.host == "native");
            let text = format!(
                "{workload} nr={threads}: all {backlog} requests fit into the device's queue of {depth}, so weights have no effect; {remedy}"
            );
            if !said.contains(&text) {
                reporter.note(&text);
                said.push(text);
            }
        }
    }
}

/// How to make weights act: twice as many requests as the device takes, or a device that takes
/// fewer.
fn remedy(issuers: u32, depth: u32, is_native: bool) -> String {
    let each = (u64::from(depth) * 2).div_ceil(u64::from(issuers.max(1))).next_power_of_two();
    let deeper = format!("iodepth={each} behind the workload");
    let deeper = if each <= DEEPEST { format!("try {deeper}") } else { format!("it would take {deeper}") };
    // The depth of the kernel's devices cannot be changed here.
    if is_native { deeper } else { format!("{deeper}, or --device-depth 1") }
}

/// The largest reasonable number of requests of one thread.
const DEEPEST: u64 = 1024;

/// Prints the notes that hosts wrote into their measurements for the user, each once.
pub fn notes_of_hosts(measurements: &[Measurement], reporter: Reporter) {
    let mut said: Vec<String> = Vec::new();
    for measurement in measurements {
        let notes = measurement.target.notes.iter().filter(|(key, _)| key.starts_with("note "));
        for (_, text) in notes {
            let text = format!("{}: {text}", measurement.experiment.scheduler);
            if !said.contains(&text) {
                reporter.note(&text);
                said.push(text);
            }
        }
    }
}

/// Reports threads that ended early, or the errors that they found, each once.
pub fn endings(measurements: &[Measurement], reporter: Reporter) {
    let mut said: Vec<String> = Vec::new();
    for measurement in measurements {
        let threads = measurement.groups.iter().flat_map(|group| group.threads.iter().map(move |it| (group, it)));
        for (group, thread) in threads.filter(|(_, thread)| !thread.ending.is_empty()) {
            let text =
                format!("{}: {} of {}: {}", measurement.experiment.scheduler, thread.name, group.path, thread.ending);
            if !said.contains(&text) {
                reporter.note(&text);
                said.push(text);
            }
        }
    }
}

/// If jobs follow one another, reports those that the end of the run interrupted and those that had
/// not begun by then; once for each run.
pub fn cut_off(measurements: &[Measurement], reporter: Reporter) {
    const NAMES: usize = 4;
    let mut said: Vec<String> = Vec::new();
    for measurement in measurements {
        let follows = |place: IssuerPlace<'_>| place.job.phase > 0 || !place.job.wait_for.is_empty();
        if !measurement.experiment.issuers().any(follows) {
            continue;
        }
        let threads = measurement.groups.iter().flat_map(|group| &group.threads).filter(|thread| thread.is_cut_off);
        let names: Vec<&str> = threads.map(|thread| thread.name.as_str()).collect();
        let more = names.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!(
            "{}: the end of the run cut off {}{more}: a longer --runtime lets them finish",
            measurement.experiment.scheduler,
            names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", "),
        );
        if !names.is_empty() && !said.contains(&text) {
            reporter.note(&text);
            said.push(text);
        }
    }
}

/// An error if a job that verifies found a block with wrong contents: the first one.
pub fn damage(measurements: &[Measurement]) -> Option<Error> {
    let threads = |it: &'_ Measurement| it.groups.iter().flat_map(|group| group.threads.clone()).collect::<Vec<_>>();
    let found = measurements.iter().find_map(|measurement| {
        let thread = threads(measurement).into_iter().find(|thread| thread.ending.starts_with(REMARK))?;
        Some((measurement.experiment.scheduler.to_string(), thread))
    });
    let (scheduler, thread) = found?;
    let what = format!("{scheduler}: {} has read damaged data: {}", thread.name, thread.ending);
    Some(Error::new(Exit::Failed, what, "the block on the target is not the block that was written there"))
}

/// Whether the weights have acted nevertheless: a scheduler that idles for groups keeps the others
/// out of the device.
fn follows_weights(measurement: &Measurement) -> bool {
    let weights: u64 = measurement.groups.iter().map(|group| u64::from(group.weight)).sum();
    let bytes: u64 = measurement.groups.iter().map(experiment::measurement::GroupMeasurement::bytes).sum();
    measurement.groups.iter().all(|group| {
        let due = u128::from(bytes) * u128::from(group.weight) / u128::from(weights.max(1));
        u128::from(group.bytes()).abs_diff(due) <= due / 4
    })
}

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn the_depth_that_is_advised_is_more_than_the_device_takes() {
        // Two threads on a device with depth 128: a depth of 32 would be less than the device
        // takes.
        assert_eq!(remedy(2, 128, false), "try iodepth=128 behind the workload, or --device-depth 1");
        assert_eq!(remedy(8, 31, false), "try iodepth=8 behind the workload, or --device-depth 1");
        assert_eq!(remedy(2, 128, true), "try iodepth=128 behind the workload");
        assert!(
            remedy(2, 16_368, false).starts_with("it would take iodepth=16384 behind"),
            "{}",
            remedy(2, 16_368, false)
        );
    }
}
