//! The limiters of an experiment, and the groups' limits.

use block::{GroupId, Nanos};
use elevator::limiters::{AnyLimiter, LIMITERS, LimiterError};
use elevator::tunable::SettingError;
use elevator::{Ceiling, Ceilings, Elevator, IoLimits, Limiter, Rates};
use experiment::diagnostic::nearest;
use experiment::{Experiment, GROUP_LIMITER, Limits, Refusal, SchedulerSpec, Setting};
use queue::RequestQueue;

/// Adds the limiters that an experiment names or needs and sets the groups' limits; `ids` are the
/// ids of its groups.
pub(crate) fn put_in_place(
    queue: &mut RequestQueue<impl Elevator>,
    experiment: &Experiment,
    ids: &[GroupId],
) -> Result<(), Refusal> {
    for spec in &experiment.limiters_needed() {
        queue.add_limiter(&spec.name, 0).map_err(|error| refused(spec, error))?;
        for Setting { key, value } in &spec.settings {
            set(queue, spec, key, value)?;
        }
    }
    for (group, id) in experiment.groups.iter().zip(ids).filter(|(group, _)| group.limits != Limits::NONE) {
        queue.set_limits(*id, &io_limits(&group.limits, experiment.rates_by()), 0);
    }
    Ok(())
}

/// How long limits held at least one bio of a group, second by second.
#[derive(Debug)]
pub(crate) struct Throttled {
    group: GroupId,
    /// The total at the end of the last second.
    before_ns: Nanos,
    /// The time held in each second so far.
    pub seconds_ns: Vec<Nanos>,
}

impl Throttled {
    /// Starts sampling now.
    pub(crate) fn new(group: GroupId, queue: &RequestQueue<impl Elevator>, now: Nanos) -> Self {
        Self { group, before_ns: queue.throttled_ns(group, now), seconds_ns: Vec::new() }
    }

    /// Samples at the end of a second.
    pub(crate) fn see(&mut self, queue: &RequestQueue<impl Elevator>, now: Nanos) {
        let all_ns = queue.throttled_ns(self.group, now);
        self.seconds_ns.push(all_ns.saturating_sub(self.before_ns));
        self.before_ns = all_ns;
    }
}

/// The limiters with their tunables in force, as text; empty if there are none.
pub(crate) fn in_force(queue: &RequestQueue<impl Elevator>) -> Option<String> {
    let text = |name: &'static str| {
        let settings = queue.limiter_settings(name).map(|(row, value)| Setting {
            key: row.name.to_owned(),
            value: row.word(value).map_or_else(|| value.to_string(), str::to_owned),
        });
        SchedulerSpec { settings: settings.collect(), ..SchedulerSpec::named(name) }.to_string()
    };
    let all: Vec<String> = queue.limiters().map(AnyLimiter::name).map(text).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn set(queue: &mut RequestQueue<impl Elevator>, spec: &SchedulerSpec, key: &str, value: &str) -> Result<(), Refusal> {
    let name = &spec.name;
    let rows = queue.limiters().find(|limiter| limiter.name() == name).map_or(&[][..], Limiter::tunables);
    let Some(row) = rows.iter().find(|row| row.name == key) else {
        let meant = nearest(key, rows.iter().map(|row| row.name));
        let meant = meant.map_or_else(String::new, |meant| format!("nearest: {meant}; "));
        let all = rows.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        return Err(Refusal::usage(format!("{name} has no tunable '{key}'"), format!("{meant}all of them: {all}")));
    };
    // As with schedulers, a value that the tunable would silently clamp is refused.
    let set = match row.parse(value) {
        Ok(number) if !(row.min..=row.max).contains(&number) => Err(SettingError::Range),
        Ok(_) => queue.set_limiter(name, key, value, 0).map(|_| ()),
        Err(error) => Err(error),
    };
    set.map_err(|error| Refusal::usage(format!("{name} {key}={value}: {error}"), format!("allowed: {}", row.allowed())))
}

fn refused(spec: &SchedulerSpec, error: LimiterError) -> Refusal {
    let name = &spec.name;
    match error {
        LimiterError::UnknownName => {
            let names: Vec<_> = LIMITERS.iter().map(|entry| entry.name).collect();
            let meant = nearest(name, names.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!("nearest: {meant}; "));
            let help = format!("{meant}all of them: {}", names.join(", "));
            Refusal::usage(format!("there is no limiter '{name}'"), help)
        }
        LimiterError::InPlace => Refusal::usage(format!("limiter '{name}' is given twice"), "give it once"),
        LimiterError::NoMemory => Refusal::usage(
            format!("limiter {name} does not fit into memory"),
            "ask for fewer groups or a smaller depth",
        ),
    }
}

/// Converts an experiment's limits to the queue's, for the limiter that enforces the maximum rates.
fn io_limits(limits: &Limits, rates_by: &str) -> IoLimits {
    let by_throttle = IoLimits {
        max: Rates { bytes_per_s: limits.bytes_per_s(), ios_per_s: limits.ios_per_s() },
        low: Rates { bytes_per_s: limits.low.bytes_per_s(), ios_per_s: limits.low.ios_per_s() },
        idle_us: limits.low.idle_us,
        latency_us: limits.low.latency_us.unwrap_or(u64::MAX),
        ..IoLimits::NONE
    };
    if rates_by == GROUP_LIMITER {
        return by_throttle;
    }
    let ceiling = |bytes_per_s: Option<u64>, ios_per_s: Option<u64>| Ceiling {
        bytes_per_s: bytes_per_s.unwrap_or(u64::MAX).max(1),
        ios_per_s: ios_per_s.unwrap_or(u64::MAX).max(1),
    };
    let ceilings = Ceilings {
        read: ceiling(limits.read_bytes_per_s, limits.read_ios_per_s),
        write: ceiling(limits.write_bytes_per_s, limits.write_ios_per_s),
        total: ceiling(limits.total_bytes_per_s, limits.total_ios_per_s),
        burst_ns: limits.burst_ms.map_or(Ceilings::NONE.burst_ns, |ms| ms.saturating_mul(block::time::MILLISECOND)),
    };
    IoLimits { ceilings, max: Rates::UNLIMITED, ..by_throttle }
}
