//! Whether a run was long enough for its scheduler to settle: one that learns the device while it serves
//! it divides otherwise in its first second.

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::{Experiment, Measurement};

/// The scheduler that learns.
const LEARNER: &str = "paternoster";
/// On flash its figures are those of a long run after this time (`model:ssd`, 800:100 with 4 and 64
/// outstanding: 12 % off after 0.2 s, less than 1 % after 0.5 s).
const FLASH_RAMP_NS: Nanos = 500 * MILLISECOND;
/// On a rotating disk it compares three ways of serving in rounds of 2.3 s, and few loads need more than
/// four; a shorter window has more of one than of the others (docs/elevators/paternoster.md).
const DISK_RUN_NS: Nanos = 9 * SECOND;

/// What to say of a measurement whose window is too short, or too early, for its scheduler; with the remedy.
pub fn note(measurement: &Measurement) -> Option<String> {
    let Experiment { ramp_ns, runtime_ns, scheduler, groups, .. } = &measurement.experiment;
    let busy = groups.iter().filter(|group| !group.jobs.is_empty()).count();
    if scheduler.name != LEARNER || *runtime_ns >= Experiment::UNTIL_DONE_NS || busy < 2 {
        return None;
    }
    if measurement.target.rotational {
        let is_short = *runtime_ns < DISK_RUN_NS;
        return is_short.then(|| {
            format!(
                "{scheduler} takes turns of up to 9 s on a rotating disk, and a shorter window sees a part of them: --runtime 10s or more"
            )
        });
    }
    (*ramp_ns < FLASH_RAMP_NS).then(|| {
        format!("{scheduler} learns the device in its first half second, which is measured here: --ramp 500ms or more")
    })
}

/// What is to be said of several measurements, each thing once.
pub fn notes(measurements: &[Measurement]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for text in measurements.iter().filter_map(note) {
        if !said.contains(&text) {
            said.push(text);
        }
    }
    said
}
