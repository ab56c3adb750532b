//! Warnings about conditions under which shares are not meaningful.

use hoistway_elevator::limiters::PROPORTIONAL;
use hoistway_elevator::registry;
use hoistway_experiment::cell::Cell;
use hoistway_experiment::{Exit, IssuerPlace, Matrix, Measurement};
use hoistway_workload::verify::REMARK;

use crate::exit::{Error, Reporter};

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

/// Says why the weights are not seen where all requests together fitted into the device: none
/// waited, or the scheduler held none back. Source: docs/specifications/harness.md, section 3.5, and
/// section 14, trap T5.
pub fn idle_weights(cells: &[Cell<'_>], reporter: Reporter) {
    let mut said: Vec<String> = Vec::new();
    for cell in cells {
        let (measurement, experiment) = (cell.runs[0], &cell.runs[0].experiment);
        let has_shares = cell.scheduler.has_shares && cell.groups.iter().any(|it| it.weight != cell.groups[0].weight);
        // Who got its part by weight, although it could use more, has seen the weights act.
        let has_acted = is_content(cell) && !has_what_it_can_use(cell);
        // A disk's scheduler that waits for a group keeps the others out of it.
        let has_held =
            cell.runs.iter().filter_map(|run| run.dispatches.as_ref()).any(|record| !record.holds.is_empty());
        if has_acted || has_held {
            continue;
        }
        let depth = experiment.device_depth.unwrap_or(measurement.target.queue_depth);
        let backlog: u32 = experiment.issuers().map(|place| place.job.effective_depth()).sum();
        let is_direct = experiment.issuers().all(|place| place.job.submission.direct);
        if has_shares && is_direct && backlog <= depth && !follows_weights(measurement) {
            let issuers = u32::try_from(experiment.issuers().count()).unwrap_or(u32::MAX);
            let remedy = remedy(issuers, depth, measurement.host == "native");
            let why = if is_content(cell) {
                "each group gets what it can claim, and weights have nothing to divide; to see them act"
            } else {
                "this scheduler holds none back for the weights;"
            };
            let (workload, threads, scheduler) = (cell.workload, cell.threads, &cell.scheduler.name);
            let text = format!(
                "{workload} nr={threads} {scheduler}: all {backlog} requests fit into the device's queue of {depth}: {why} {remedy}"
            );
            if !said.contains(&text) {
                reporter.note(&text);
                said.push(text);
            }
        }
    }
}

/// Whether every group got what it is entitled to, or nearly.
fn is_content(cell: &Cell<'_>) -> bool {
    cell.entitlement.as_ref().is_some_and(|it| it.isolation >= CONTENT)
}

/// Whether each group is entitled to most of what it achieves alone, so that little is left to the weights.
fn has_what_it_can_use(cell: &Cell<'_>) -> bool {
    let Some(entitlement) = &cell.entitlement else { return false };
    cell.groups.iter().zip(&entitlement.entitled_per_s).all(|(group, entitled)| {
        let alone = cell.runs[0].solo_rates.get(group.index).map_or(0.0, |rates| rates.claimed().0);
        *entitled >= HELD_BACK * alone
    })
}

/// How to make weights act: twice as many requests as the device takes, or a device that takes
/// fewer.
fn remedy(issuers: u32, depth: u32, is_native: bool) -> String {
    let each = (u64::from(depth) * 2).div_ceil(u64::from(issuers.max(1))).next_power_of_two();
    // The depth of the kernel's devices cannot be changed here.
    match (each <= DEEPEST, is_native) {
        (true, true) => format!("try iodepth={each} behind the workload"),
        (true, false) => format!("try iodepth={each} behind the workload, or --device-depth 1"),
        (false, true) => "no usual load fills such a queue: see paternoster's give=100, and io.cost".to_owned(),
        (false, false) => "no usual load fills such a queue: try paternoster:give=100, or --device-depth 64".to_owned(),
    }
}

/// The largest reasonable number of requests of one thread.
const DEEPEST: u64 = 1024;
/// Isolation from which on no group misses anything of its own.
const CONTENT: f64 = 0.9;
/// A group that is due less than this part of what it achieves alone is visibly held back by its weight.
const HELD_BACK: f64 = 0.5;

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
        let follows = |place: IssuerPlace<'_>| place.job.course.phase > 0 || !place.job.course.wait_for.is_empty();
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
    let bytes: u64 = measurement.groups.iter().map(hoistway_experiment::measurement::GroupMeasurement::bytes).sum();
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
        assert!(remedy(2, 16_368, false).starts_with("no usual load fills such a queue"));
    }
}
