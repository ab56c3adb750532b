//! Converts a scheduler specification of the user to a policy with its tunables set, and back to
//! the settings in force.

use hoistway_elevator::registry::{self, BuildError, Entry};
use hoistway_elevator::tunable::{OutOfRange, SettingError, Tunable};
use hoistway_elevator::{Any, Configuration, Elevator, Traits, Version};
use hoistway_experiment::diagnostic::nearest;
use hoistway_experiment::measurement::{SchedulerInForce, TunableInForce};
use hoistway_experiment::{Refusal, SchedulerSpec};

use crate::processors::Locking;

/// A scheduler whose name, version and tunables exist.
#[derive(Debug)]
pub(crate) struct Scheduler {
    entry: &'static Entry,
    version: Option<Version>,
    version_text: Option<String>,
    /// Index of the tunable's row, and the value in its unit.
    settings: Vec<(usize, i64)>,
}

impl Scheduler {
    /// Resolves name, version, tunables and values; an error names the first that is wrong.
    pub(crate) fn resolve(spec: &SchedulerSpec) -> Result<Self, Refusal> {
        let entry = registry::find(&spec.name).ok_or_else(|| unknown_name(spec))?;
        let version = match &spec.version {
            None => None,
            Some(text) => Some(registry::parse_version(text).ok_or_else(|| {
                let message = format!("scheduler '{spec}': '{text}' is no kernel version");
                Refusal::usage(message, format!("write {}@6.1, for example; {}", entry.name, versions(entry)))
            })?),
        };
        let mut found = Self { entry, version, version_text: spec.version.clone(), settings: Vec::new() };
        let policy = found.build(&Configuration::default())?;
        for setting in &spec.settings {
            let value = (setting.key.as_str(), setting.value.as_str());
            found.settings.push(find_row(spec, policy.tunables(), value)?);
        }
        Ok(found)
    }

    /// Whether it is `none`: then the device's own tags are the only limit.
    pub(crate) fn is_none(&self) -> bool {
        self.entry.name == "none"
    }

    /// What the policy declares about itself.
    pub(crate) fn traits(&self) -> &'static Traits {
        &self.entry.traits
    }

    /// What the policy costs the processors inside Linux.
    pub(crate) fn locking(&self) -> Locking {
        Locking::of(self.entry.name)
    }

    /// The policy with its tunables set.
    pub(crate) fn build(&self, configuration: &Configuration) -> Result<Any, Refusal> {
        let name = self.entry.name;
        let mut policy = registry::build(name, self.version, configuration).map_err(|error| match error {
            BuildError::TooOld { first } => Refusal::usage(
                format!("{name} did not exist at version {}", self.version_text.as_deref().unwrap_or("0")),
                format!("the first is {name}@{}", show(first)),
            ),
            BuildError::UnknownName | BuildError::NoMemory => {
                Refusal::usage(format!("{name} cannot be built: out of memory"), "ask for a smaller --queue-requests")
            }
        })?;
        for &(row, value) in &self.settings {
            policy.set(row, value).map_err(|error| {
                let row = policy.tunables().get(row).map_or("", |row| row.name);
                Refusal::usage(format!("{name} refuses {row}={value}: {error}"), "see: hoistway list schedulers")
            })?;
        }
        Ok(policy)
    }

    /// The scheduler with its settings in force, read back from the policy.
    pub(crate) fn in_force(&self, policy: &impl Elevator) -> SchedulerInForce {
        let rows = policy.tunables().iter().enumerate();
        let tunables = rows.filter_map(|(index, row)| {
            let value = policy.setting(index)?;
            let was_set = self.settings.iter().any(|(set, _)| *set == index);
            Some(TunableInForce::read_back(row.name, row.unit.text(), value, row.default, was_set))
        });
        SchedulerInForce {
            name: self.entry.name.to_owned(),
            version: self.version_text.clone(),
            has_shares: self.entry.traits.has_shares,
            tunables: tunables.collect(),
        }
    }
}

fn unknown_name(spec: &SchedulerSpec) -> Refusal {
    let names: Vec<_> = registry::entries().map(|entry| entry.name).collect();
    let meant =
        nearest(&spec.name, names.iter().copied()).map_or_else(String::new, |name| format!("nearest: {name}; "));
    let message = format!("the simulator has no scheduler '{}'", spec.name);
    Refusal::usage(message, format!("{meant}all of them: {}", names.join(", ")))
}

fn find_row(spec: &SchedulerSpec, rows: &[Tunable], (key, text): (&str, &str)) -> Result<(usize, i64), Refusal> {
    let Some((index, row)) = rows.iter().enumerate().find(|(_, row)| row.name == key) else {
        let meant = nearest(key, rows.iter().map(|row| row.name));
        let help = match meant.and_then(|name| rows.iter().find(|row| row.name == name)) {
            Some(row) => format!("nearest: {} ({}). All of them: hoistway list {}", row.name, allowed(row), spec.name),
            None if rows.is_empty() => format!("{} has no tunables", spec.name),
            None => format!("all of them: hoistway list {}", spec.name),
        };
        return Err(Refusal::usage(format!("{} has no tunable '{key}'", spec.name), help));
    };
    let wrong = |error: SettingError| {
        Refusal::usage(format!("{} {key}={text}: {error}", spec.name), format!("allowed: {}", allowed(row)))
    };
    let value = row.parse(text).map_err(wrong)?;
    // The kernel clamps silently; on a command line that would hide a mistyped unit.
    if value < row.min || value > row.max {
        return Err(wrong(SettingError::Range));
    }
    Ok((index, value))
}

fn allowed(row: &Tunable) -> String {
    let clamps = if row.out_of_range == OutOfRange::Clamp { "" } else { ", nothing else" };
    let default = row.default.map_or_else(String::new, |default| match row.word(default) {
        Some(word) => format!(", default {word}"),
        None => format!(", default {default}"),
    });
    format!("{}{default}{clamps}", row.allowed())
}

fn versions(entry: &Entry) -> String {
    let all: Vec<_> = entry.versions.iter().map(|version| show(*version)).collect();
    format!("its behaviour changed at {}", all.join(", "))
}

fn show(Version(major, minor, patch): Version) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}
