//! Formatting of figures: three significant digits, followed by the unit.

use hoistway_experiment::cell::Cell;
use hoistway_experiment::job::Job;
use hoistway_experiment::job::{BlockSize, Mix, Pattern};
use hoistway_experiment::metric::Quantity;
use hoistway_experiment::statistics::Estimate;

/// A time in the largest unit that leaves a digit before the point: `85us`, `9.8ms`, `182ms`,
/// `1.2s`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    // "ns" has no fraction; other units have one decimal below ten.
    if value < 9.95 && unit != "ns" { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// A size as in job files, exact or rounded down: `512`, `32k`, `512M`, `3G`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..0x10_0000 => format!("{}k", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{}G", bytes >> 30),
    }
}

/// Bytes per second in MiB/s.
pub fn mib(bytes_per_s: f64) -> f64 {
    bytes_per_s / f64::from(1 << 20)
}

/// Number of decimals that shows about three digits of a number of this size.
pub fn decimals(largest: f64) -> usize {
    match largest {
        largest if largest < 100.0 => 2,
        largest if largest < 1000.0 => 1,
        _ => 0,
    }
}

/// A ratio in percent with one decimal: `2.4%`.
pub fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// The isolation of a cell, or of one of its groups; `-` if what they are entitled to is not known.
pub fn isolation(cell: &Cell<'_>, group: Option<usize>) -> String {
    let estimate = hoistway_experiment::metric::Metric::Isolation.of(cell, group, None);
    estimate.map_or_else(|| "-".to_owned(), |isolation| percent(isolation.mean))
}

/// A figure of an assertion or comparison in its own unit.
pub fn amount(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::BytesPerSecond => format!("{:.*} MiB/s", decimals(mib(value)), mib(value)),
        Quantity::Time => time(value),
        Quantity::Ratio => format!("{:.2}%", value * 100.0),
        Quantity::Count => format!("{value:.0}"),
    }
}

/// Half width of an interval, or `-` for a single repetition.
pub fn half_width(estimate: &Estimate, scale: f64, decimals: usize) -> String {
    estimate.ci95.map_or_else(|| "-".to_owned(), |ci95| format!("{:.decimals$}", ci95 * scale))
}

/// The name of a percentile: 99.9 -> `p99.9`, 100 -> `max`.
pub fn percentile_name(percent: f64) -> String {
    if percent >= 100.0 { "max".to_owned() } else { format!("p{percent}") }
}

/// The name of a percentile in tables, with `worst` if it is that of the slowest of several groups.
pub fn percentile_of(cell: &Cell<'_>, percent: f64) -> String {
    let name = percentile_name(percent);
    if cell.groups.len() > 1 { format!("worst {name}") } else { name }
}

/// The scheduler of a cell in tables: its actual name, and the requested version and settings.
pub fn scheduler(cell: &Cell<'_>) -> String {
    let mut label = cell.scheduler.name.clone();
    if let Some(version) = &cell.spec.version {
        label = format!("{label}@{version}");
    }
    for setting in &cell.spec.settings {
        label = format!("{label} {}={}", setting.key, setting.value);
    }
    label
}

/// All tunables in force of a cell, such as `slice_idle=8ms`; those that are not defaults have a
/// star.
pub fn tunables(cell: &Cell<'_>) -> Vec<String> {
    let tunables = cell.scheduler.tunables.iter();
    tunables.map(|t| format!("{}={}{}{}", t.name, t.value, t.unit, if t.is_default { "" } else { "*" })).collect()
}

/// The weights of a cell's groups: `100:200:400`.
pub fn weights(cell: &Cell<'_>) -> String {
    let weights: Vec<String> = cell.groups.iter().map(|group| group.weight.to_string()).collect();
    weights.join(":")
}

/// A job in words: `direct random read, bs 32k`, with its depth if above 1; a program by its name
/// and settings.
pub fn job(job: &Job) -> String {
    if let Some(program) = &job.source.program {
        return program.to_string();
    }
    if let Some(replay) = &job.source.replay {
        return trace(replay);
    }
    let access = if job.submission.direct { "direct" } else { "buffered" };
    let pattern = match job.shape.pattern {
        Pattern::Sequential { .. } => "sequential",
        Pattern::Random { .. } => "random",
    };
    let mix = match job.shape.mix {
        Mix::Read => "read".to_owned(),
        Mix::Write => "write".to_owned(),
        Mix::Trim => "trim".to_owned(),
        Mix::ReadWrite { read_percent } => format!("mix of {read_percent} % reads"),
        Mix::TrimWrite => "trim and write".to_owned(),
        Mix::Rewrite => "rewrite".to_owned(),
    };
    let depth = job.effective_depth();
    let depth = if depth > 1 { format!(", depth {depth}") } else { String::new() };
    format!("{access} {pattern} {mix}, bs {}{depth}", block_size(job))
}

/// A replay in words: `trace web_0, as recorded`, `trace web_0 at 2.5 times its speed`.
fn trace(replay: &hoistway_experiment::job::Replay) -> String {
    use hoistway_experiment::job::Pace;
    let pace = match (replay.pace, replay.speed_permille) {
        (Pace::AsRecorded, 1_000) => ", as recorded".to_owned(),
        (Pace::AsRecorded, permille) => format!(" at {} times its speed", f64::from(permille) / 1_000.0),
        (Pace::Closed, _) => ", closed".to_owned(),
        (Pace::Dependent, _) => ", dependent".to_owned(),
    };
    let repeats = if replay.repeats > 1 { format!(", {} times", replay.repeats) } else { String::new() };
    format!("trace {}{pace}{repeats}", replay.trace)
}

/// The block size of a job's main direction: `32k`, `4k-64k`, `mixed`.
pub fn block_size(job: &Job) -> String {
    let sizes = match job.shape.mix {
        Mix::Read | Mix::ReadWrite { .. } | Mix::Rewrite => &job.shape.block_sizes.read,
        Mix::Write | Mix::TrimWrite => &job.shape.block_sizes.write,
        Mix::Trim => &job.shape.block_sizes.trim,
    };
    match sizes {
        BlockSize::Fixed(bytes) => size(u64::from(*bytes)),
        BlockSize::Range { min, max } => format!("{}-{}", size(u64::from(*min)), size(u64::from(*max))),
        BlockSize::Split(_) => "mixed".to_owned(),
    }
}

/// The jobs of a cell's groups in words; `different jobs` if they are not the same.
pub fn jobs(cell: &Cell<'_>) -> String {
    let mut words: Vec<String> = cell.plan_groups().flat_map(|group| &group.jobs).map(job).collect();
    words.dedup();
    match &words[..] {
        [one] => one.clone(),
        [] => "no jobs".to_owned(),
        _ => "different jobs".to_owned(),
    }
}

/// A duration as in options: `30s`, `500ms`.
pub fn span(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) { format!("{}s", ns / 1_000_000_000) } else { time(ns as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_two_or_three_digits() {
        let shown: Vec<String> = [0.0, 850.0, 9_800_000.0, 9_960_000.0, 182_400_000.0, 1.25e9].map(time).into();
        assert_eq!(shown, ["0ns", "850ns", "9.8ms", "10ms", "182ms", "1.2s"]);
    }

    #[test]
    fn sizes_are_written_as_in_job_files() {
        assert_eq!([512, 4096, 32 << 10, 512 << 20, 3 << 30].map(size), ["512", "4k", "32k", "512M", "3G"]);
    }
}
