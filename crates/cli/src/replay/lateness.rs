//! The report after replays: how late I/Os were submitted, and how many of them were wrapped around
//! the end of the target.

use hoistway_experiment::{Histogram, Measurement};
use hoistway_workload::Replay;
use hoistway_workload::replay::Fit;

use crate::exit::Reporter;

/// If more than one I/O in a hundred is later than this, the target cannot keep the recorded pace.
const LATE_NS: u64 = 10_000_000;

/// Reports on every run that was a replay.
pub fn report(measurements: &[Measurement], reporter: Reporter) {
    for measurement in measurements {
        let issue_delay = Histogram::merged(measurement.groups.iter().map(|group| &group.issue_delay));
        if issue_delay.is_empty() {
            continue;
        }
        let run = hoistway::plan::check::name_of(&measurement.experiment);
        let [p50, p99, max] = [issue_delay.percentile_ns(50.0), issue_delay.percentile_ns(99.0), issue_delay.max_ns()]
            .map(|ns| ns as f64 / 1e6);
        let figures = format!("slip p50 {p50:.3} ms, p99 {p99:.3} ms, max {max:.3} ms ({} I/Os)", issue_delay.count());
        if issue_delay.percentile_ns(99.0) > LATE_NS {
            let what = format!("{run}: {figures}: the target cannot keep the recorded pace");
            reporter.warn(what, "replay slower (--speed 0.5), or as fast as the target can (--pace closed)");
        } else {
            reporter.note(format!("{run}: {figures}"));
        }
    }
    if let Some(first) = measurements.first() {
        say_folded(first, reporter);
    }
}

fn say_folded(measurement: &Measurement, reporter: Reporter) {
    let jobs = measurement.experiment.groups.iter().flat_map(|group| &group.jobs);
    let (mut all, mut beyond) = (0_u64, 0_u64);
    let size_bytes = measurement.target.size_bytes;
    for job in jobs {
        let Some(replay) = &job.source.replay else { continue };
        let area_bytes = job.wanted_area_bytes().unwrap_or(size_bytes).min(size_bytes.max(1));
        if replay.fit == Fit::Wrap {
            all += replay.steps;
            beyond += steps_beyond(replay, area_bytes);
        }
    }
    if beyond > 0 {
        let percent = beyond as f64 * 100.0 / all as f64;
        reporter.note(format!(
            "{percent:.1}% of the I/Os were beyond the end of the target and were wrapped around (--wrap); --scale scales all offsets"
        ));
    }
}

fn steps_beyond(replay: &Replay, area_bytes: u64) -> u64 {
    let steps = replay.recording.parts.iter().flat_map(|part| part.steps.iter());
    let is_beyond = |end_bytes: u64| end_bytes > area_bytes;
    steps.filter(|step| is_beyond(step.offset_bytes.saturating_add(u64::from(step.length_bytes)))).count() as u64
}
