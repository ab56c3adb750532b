//! Limits of groups, and limiters in general, while the engine runs.

use block::Nanos;
use elevator::limiters::LimiterError;
use elevator::tunable::SettingError;
use elevator::{Any, IoLimits, Limiter, Rates};
use experiment::{GROUP_LIMITER, Limits, SchedulerSpec, Setting};
use queue::RequestQueue;

use super::{Turn, TurnSettings};
use crate::error::{describe_limiter, describe_setting};

impl Turn {
    /// Changes a group's limits; the limiter that knows them comes with the first. False without such a group.
    ///
    /// # Errors
    /// When there is no memory for the limiter.
    pub fn set_limits(&mut self, group: u32, limits: &Limits, now: Nanos) -> Result<bool, String> {
        let Some(Some(state)) = self.groups.get_mut(group as usize) else { return Ok(false) };
        let is_missing = !self.queue.limiters().any(|limiter| limiter.name() == GROUP_LIMITER);
        if is_missing && *limits != Limits::NONE && !self.is_draining {
            self.queue.add_limiter(GROUP_LIMITER, now).map_err(|error| describe_limiter(GROUP_LIMITER, error))?;
        }
        state.limits = *limits;
        let id = state.id;
        self.queue.set_limits(id, &io_limits(limits), now);
        Ok(true)
    }

    /// Puts a limiter in place, with its settings; one that is there already only gets the settings.
    ///
    /// # Errors
    /// Unknown limiter, tunable or value, as a sentence for the user.
    pub fn add_limiter(&mut self, spec: &SchedulerSpec, now: Nanos) -> Result<(), String> {
        if self.is_draining {
            return Ok(());
        }
        add_limiter(&mut self.queue, spec, now)
    }

    /// Takes the limiters away: an end must not wait as long as the tightest limit asks for.
    pub fn lift_limits(&mut self, now: Nanos) {
        self.queue.remove_limiters(now);
    }

    /// The limiters in place, in order, with what is in force: `throttle:throttle_sample_time=20,hierarchy=1`.
    pub fn limiters(&self) -> Vec<String> {
        let names = self.queue.limiters().map(elevator::limiters::AnyLimiter::name);
        let in_force = |name: &'static str| {
            let settings = self.queue.limiter_settings(name).map(|(row, value)| Setting {
                key: row.name.to_owned(),
                value: row.word(value).map_or_else(|| value.to_string(), str::to_owned),
            });
            SchedulerSpec { settings: settings.collect(), ..SchedulerSpec::named(name) }.to_string()
        };
        names.map(in_force).collect()
    }

    /// Bios that limiters hold.
    pub fn held_by_limiters(&self) -> u32 {
        self.queue.held_by_limiters()
    }
}

/// Whether a limiter exists with these tunables and values.
///
/// # Errors
/// What is wrong, as a sentence for the user.
pub(crate) fn check_limiter(spec: &SchedulerSpec, settings: &TurnSettings) -> Result<(), String> {
    let mut queue = RequestQueue::build("noop", None, &settings.queue_settings())
        .map_err(|error| crate::error::describe_build("noop", error))?;
    add_limiter(&mut queue, spec, 0)
}

fn add_limiter(queue: &mut RequestQueue<Any>, spec: &SchedulerSpec, now: Nanos) -> Result<(), String> {
    let name = &spec.name;
    match queue.add_limiter(name, now) {
        Ok(()) | Err(LimiterError::InPlace) => {}
        Err(error) => return Err(describe_limiter(name, error)),
    }
    for Setting { key, value } in &spec.settings {
        let limiter = queue.limiters().find(|limiter| limiter.name() == name);
        let rows = limiter.map_or(&[][..], Limiter::tunables);
        // A value that would be cut to its range silently is refused, as with schedulers.
        let row = rows.iter().find(|row| row.name == key).ok_or(SettingError::Unknown);
        let in_range = row.and_then(|row| row.parse(value).map(|value| (row.min..=row.max).contains(&value)));
        let set = match in_range {
            Ok(true) => queue.set_limiter(name, key, value, now).map(|_| ()),
            Ok(false) => Err(SettingError::Range),
            Err(error) => Err(error),
        };
        set.map_err(|error| describe_setting(name, key, value, rows, error))?;
    }
    Ok(())
}

/// Limits as the queue knows them.
fn io_limits(limits: &Limits) -> IoLimits {
    IoLimits {
        max: Rates { bytes_per_s: limits.bytes_per_s(), ios_per_s: limits.ios_per_s() },
        low: Rates { bytes_per_s: limits.low.bytes_per_s(), ios_per_s: limits.low.ios_per_s() },
        idle_us: limits.low.idle_us,
        latency_us: limits.low.latency_us.unwrap_or(u64::MAX),
    }
}
