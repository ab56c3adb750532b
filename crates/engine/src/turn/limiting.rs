//! Changes of group limits and of limiters while the engine runs.

use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::limiters::LimiterError;
use hoistway_elevator::tunable::SettingError;
use hoistway_elevator::{Any, GroupSettings, Limiter};
use hoistway_experiment::{EXACT_LIMITER, GROUP_LIMITER, Limits, SchedulerSpec, Setting};
use hoistway_queue::RequestQueue;

use super::{Turn, TurnSettings};
use crate::error::{describe_limiter, describe_setting};

impl Turn {
    /// Changes a group's limits; the first limit installs the limiters that enforce it. False if
    /// there is no such group.
    ///
    /// # Errors
    /// When there is no memory for a limiter.
    pub fn set_limits(&mut self, group: u32, limits: &Limits, now: Nanos) -> Result<bool, String> {
        let Some(Some(state)) = self.groups.get_mut(group as usize) else { return Ok(false) };
        // A drain has lifted the limits, so nothing may be held any more.
        let is_draining = self.is_draining;
        let rates_by = if self.is_throttle_named { GROUP_LIMITER } else { EXACT_LIMITER };
        for name in limits.limiters(rates_by).filter(|_| !is_draining) {
            add_limiter(&mut self.queue, &SchedulerSpec::named(name), now)?;
        }
        state.limits = *limits;
        let id = state.id;
        self.queue.set_limits(id, &limits.io_limits(rates_by), now);
        let latency_target_ns = limits.latency_target_ns();
        let before = *self.queue.groups().settings(id);
        if before.latency_target_ns != latency_target_ns {
            self.queue.change_group(id, &GroupSettings { latency_target_ns, ..before }, now);
        }
        Ok(true)
    }

    /// Installs a limiter with its settings; if it is installed already, only changes the settings.
    ///
    /// # Errors
    /// Unknown limiter, tunable or value, as a sentence for the user.
    pub fn add_limiter(&mut self, spec: &SchedulerSpec, now: Nanos) -> Result<(), String> {
        if self.is_draining {
            return Ok(());
        }
        // Who names the kernel's limiter wants the kernel's behaviour.
        self.is_throttle_named |= spec.name == GROUP_LIMITER;
        add_limiter(&mut self.queue, spec, now)
    }

    /// Removes the limiters. Requests that they hold at the end of a run go on at once, because the
    /// tightest limit could delay them for long.
    pub fn lift_limits(&mut self, now: Nanos) {
        self.queue.remove_limiters(now);
        self.is_throttle_named = false;
    }

    /// The installed limiters, in order, with their settings:
    /// `throttle:throttle_sample_time=20,hierarchy=1`.
    pub fn limiters(&self) -> Vec<String> {
        let names = self.queue.limiters().map(hoistway_elevator::limiters::AnyLimiter::name);
        let in_force = |name: &'static str| {
            let settings = self.queue.limiter_settings(name).map(|(row, value)| Setting {
                key: row.name.to_owned(),
                value: row.word(value).map_or_else(|| value.to_string(), str::to_owned),
            });
            SchedulerSpec { settings: settings.collect(), ..SchedulerSpec::named(name) }.to_string()
        };
        names.map(in_force).collect()
    }

    /// The time during which limiters kept at least one bio of a group waiting.
    pub fn throttled_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.queue.throttled_ns(group, now)
    }

    /// Bios that limiters hold.
    pub fn held_by_limiters(&self) -> u32 {
        self.queue.held_by_limiters()
    }
}

/// Checks that a limiter with these tunables and values exists.
///
/// # Errors
/// The problem, as a sentence for the user.
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
        // A value that would be clamped silently is refused, as with schedulers.
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

#[cfg(test)]
mod tests {
    use hoistway_elevator::Rates;

    use super::*;

    /// Other tests run whole experiments; this one checks the settings that the queue and its
    /// limiters get, and when.
    #[test]
    fn a_limit_installs_its_limiter_and_a_latency_target_survives_other_changes() {
        let settings = TurnSettings { groups: 4, scheduler: "noop".to_owned(), ..TurnSettings::probe() };
        let mut turn = Turn::new(&settings, settings.arena().expect("memory")).expect("a turn");
        let group = turn.add_group("g", 0, 300, 0).expect("a group");
        let of_queue = |turn: &Turn| *turn.queue.groups().settings(GroupId(group));
        assert_eq!(turn.set_limits(group, &Limits::NONE, 0), Ok(true));
        assert_eq!(turn.limiters(), [""; 0]);

        let target = Limits { latency_target_us: 500, ..Limits::NONE };
        assert_eq!(turn.set_limits(group, &target, 1), Ok(true));
        assert_eq!((turn.limiters(), of_queue(&turn).weight), (vec!["io.latency".to_owned()], 300));
        assert_eq!(of_queue(&turn).latency_target_ns, 500_000);
        assert!(turn.set_weight(group, 200, 2));
        assert_eq!(of_queue(&turn).latency_target_ns, 500_000);

        let both = Limits { read_bytes_per_s: Some(5_000), ..target };
        assert_eq!(turn.set_limits(group, &both, 3), Ok(true));
        assert_eq!(turn.limiters().len(), 2, "{:?}", turn.limiters());
        let in_force = |turn: &Turn| *turn.queue.limits_of(GroupId(group));
        assert_eq!((in_force(&turn).ceilings.read.bytes_per_s, in_force(&turn).max), (5_000, Rates::UNLIMITED));
        assert_eq!(turn.set_limits(group, &Limits::NONE, 4), Ok(true));
        assert_eq!((of_queue(&turn).latency_target_ns, of_queue(&turn).weight), (0, 200));
        assert_eq!(turn.set_limits(3, &target, 5), Ok(false));
    }
}
