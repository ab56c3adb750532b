//! The limiters of an experiment, and the groups' limits.

use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::limiters::{AnyLimiter, LIMITERS, LimiterError};
use hoistway_elevator::tunable::SettingError;
use hoistway_elevator::{Elevator, Limiter};
use hoistway_experiment::diagnostic::nearest;
use hoistway_experiment::{Experiment, Limits, Refusal, SchedulerSpec, Setting};
use hoistway_queue::RequestQueue;

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
        queue.set_limits(*id, &group.limits.io_limits(experiment.rates_by()), 0);
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
