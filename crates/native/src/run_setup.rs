//! Everything that is set up for a run and restored after it: lock, journal, watcher, scheduler,
//! cgroups.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_experiment::measurement::{SchedulerInForce, TunableInForce};
use hoistway_experiment::{Experiment, Group, Refusal, RunError, SchedulerSpec};
use hoistway_linux::block_queue::BlockQueue;
use hoistway_linux::cgroup::{BFQ_WEIGHT_MAX, COST_WEIGHT, COST_WEIGHT_MAX, HOIST_WEIGHT_MAX, Hierarchy, Rates, Tree};
use hoistway_linux::setting::{Journal, Restored, Watcher};
use rustix::fs::FlockOperation;

use crate::io_cost::{self, Lines, MODEL_FILE, QOS_FILE};
use crate::target::Target;
use crate::tunables::{self, CURRENT};
use crate::weights::Scaled;

/// Settings that the kernel resets when the scheduler changes, besides the scheduler's own
/// tunables.
const RESET_BY_SWITCH: [&str; 2] = ["nr_requests", "wbt_lat_usec"];

/// The system settings and groups that are in force for a run.
pub struct RunSetup {
    pub queue: BlockQueue,
    pub scheduler: SchedulerInForce,
    /// Directory of each group of the experiment, in order; none for groups that exist in reports
    /// only. Empty if the run does not use cgroups.
    pub cgroups: Vec<Option<PathBuf>>,
    /// Weight of each group in the kernel; none where weights have no effect.
    pub effective_weights: Option<Vec<u32>>,
    /// The mechanism that divides the device, for users.
    pub mechanism: String,
    /// Notes for readers of the figures.
    pub notes: Vec<String>,
    journal: Journal,
    watcher: Option<Watcher>,
    _lock: File,
}

/// A failure with its place.
fn failed(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> RunError {
    let message = what.to_string();
    move |error| RunError::Failed { message, source: Some(error) }
}

/// The journal in words of messages.
fn journal_place() -> String {
    format!("the journal in {}", hoistway_linux::run_directory::path().display())
}

impl RunSetup {
    /// Sets up everything for a run. `watcher` makes the command that calls
    /// [`hoistway_linux::setting::watch`] for a journal.
    ///
    /// # Errors
    /// The setting that failed; the settings made before are restored.
    pub fn apply(experiment: &Experiment, watcher: &dyn Fn(&Path) -> Command) -> Result<Self, RunError> {
        let queue = Target::of(&experiment.target)?.queue()?;
        let lock = lock(&queue)?;
        let mut journal = Journal::begin("").map_err(failed(journal_place()))?;
        let started = Watcher::start(watcher(journal.path())).map_err(failed("the watcher"))?;
        let process = started.process().map_err(failed("the watcher"))?;
        journal.watched_by(process).map_err(failed(journal_place()))?;
        let mut setup = Self {
            queue,
            scheduler: SchedulerInForce::default(),
            cgroups: Vec::new(),
            effective_weights: None,
            mechanism: String::new(),
            notes: Vec::new(),
            journal,
            watcher: Some(started),
            _lock: lock,
        };
        let outcome = setup.choose_scheduler(experiment).and_then(|()| setup.make_groups(experiment));
        match outcome {
            Ok(()) => Ok(setup),
            Err(error) => {
                // The user gets the first failure, unless the second one leaves settings behind.
                setup.teardown().and(Err(error))
            }
        }
    }

    /// Restores everything; returns the settings that another program had changed meanwhile.
    ///
    /// # Errors
    /// The settings that could not be restored.
    pub fn teardown(mut self) -> Result<Vec<String>, RunError> {
        let Restored { foreign, failed, .. } = self.journal.restore();
        if !failed.is_empty() {
            // The watcher would fail in the same way; `hoistway restore` may succeed later.
            let what = format!("these settings could not be restored: {}; try `hoistway restore`", failed.join("; "));
            self.dismiss();
            return Err(RunError::NotRestored(what));
        }
        self.dismiss();
        Ok(foreign)
    }

    fn dismiss(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.dismiss();
        }
    }

    /// Switches to the scheduler with the kernel's defaults, then applies the given settings.
    fn choose_scheduler(&mut self, experiment: &Experiment) -> Result<(), RunError> {
        let spec = &experiment.scheduler;
        let before = self.queue.schedulers();
        let path = self.queue.attribute_path("scheduler");
        let active = before.map_or_else(|| "none".to_owned(), |schedulers| schedulers.active);
        let name = if spec.name == CURRENT { active.clone() } else { tunables::scheduler_of(&spec.name).to_owned() };
        let keep = |journal: &mut Journal, path: &Path, scheduler: Option<&str>| {
            journal.keep(path, scheduler).map_err(failed(path.display()))
        };
        for (tunable, _) in self.queue.tunables() {
            keep(&mut self.journal, &self.queue.tunable_path(&tunable), Some(&active))?;
        }
        for attribute in RESET_BY_SWITCH.iter().filter(|name| self.queue.attribute(name).is_some()) {
            keep(&mut self.journal, &self.queue.attribute_path(attribute), None)?;
        }
        if spec.name != CURRENT {
            // Only a switch resets the tunables: writing the name of the active scheduler changes
            // nothing.
            if active == name && name != "none" {
                self.journal.set(&path, "none").map_err(failed(path.display()))?;
            }
            self.switch(&path, &name)?;
        }
        let defaults = self.queue.tunables();
        let defaults_of_queue = RESET_BY_SWITCH.map(|attribute| (attribute, self.queue.attribute(attribute)));
        if let Some(requests) = experiment.queue_requests {
            self.set_attribute("nr_requests", &self.queue.attribute_path("nr_requests"), &requests.to_string())?;
        } else if spec.name != CURRENT && spec.setting("nr_requests").is_none() {
            self.raise_nr_requests(&name, &experiment.groups)?;
        }
        let is_cost = spec.name == io_cost::NAME;
        for setting in spec.settings.iter().filter(|setting| !(is_cost && io_cost::is_key(&setting.key))) {
            let path = self.path_of(&name, &setting.key)?;
            self.set_attribute(&setting.key, &path, &setting.value)?;
        }
        let controller = if is_cost { self.enable_cost_control(spec)? } else { Vec::new() };
        self.journal.refresh().map_err(failed(journal_place()))?;
        self.scheduler = self.in_force(&name, spec, &defaults, &defaults_of_queue);
        if is_cost {
            io_cost::NAME.clone_into(&mut self.scheduler.name);
            self.scheduler.tunables.splice(0..0, controller);
        }
        Ok(())
    }

    /// Raises `nr_requests` to the value that our module advises where groups share the device by
    /// weight: with fewer, processes wait for tags, which no policy controls.
    fn raise_nr_requests(&mut self, scheduler: &str, groups: &[Group]) -> Result<(), RunError> {
        let is_shared = groups.iter().filter(|group| !group.is_in_root).nth(1).is_some();
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u32>().ok());
        let advised = number(self.queue.attribute("iosched/nr_requests_advised"));
        let (Some(advised), Some(now)) = (advised, number(self.queue.attribute("nr_requests"))) else { return Ok(()) };
        if is_shared && tunables::has_shares(scheduler) && now < advised {
            let path = self.queue.attribute_path("nr_requests");
            self.set_attribute("nr_requests", &path, &advised.to_string())?;
            self.notes.push(format!(
                "nr_requests raised from {now} to {advised}, as {scheduler} advises for shares (to keep {now}: --queue-requests {now})"
            ));
        }
        Ok(())
    }

    /// Writes the controller's lines, and returns their content afterwards.
    fn enable_cost_control(&mut self, spec: &SchedulerSpec) -> Result<Vec<TunableInForce>, RunError> {
        let Lines { model, qos } = Lines::of(spec)?;
        let number = self.queue.number();
        let Some(hierarchy) = Hierarchy::find() else { return Ok(Vec::new()) };
        let mut in_force = Vec::new();
        for (file, text) in [(MODEL_FILE, model), (QOS_FILE, qos)] {
            let (path, line) = (hierarchy.mount.join(file), io_cost::line_of(&number, file));
            let stored = self.journal.set_line(&path, &line, &text);
            let stored = stored.map_err(failed(format!("{number} {text} ({})", path.display())))?;
            let pairs = stored.split_ascii_whitespace().filter_map(|word| word.split_once('='));
            in_force.extend(pairs.filter(|(key, _)| io_cost::is_key(key)).map(|(key, value)| TunableInForce {
                name: key.to_owned(),
                value: value.to_owned(),
                unit: String::new(),
                is_default: spec.setting(key).is_none(),
            }));
        }
        Ok(in_force)
    }

    fn switch(&mut self, path: &Path, name: &str) -> Result<(), RunError> {
        let is_now = match self.journal.set(path, name) {
            Ok(is_now) => is_now,
            Err(error) if error.raw_os_error() == Some(22) => {
                let known = self.queue.schedulers().map_or_else(Vec::new, |schedulers| schedulers.names);
                let help = format!("this kernel offers {} for {}", known.join(", "), self.queue.name());
                return Err(Refusal::usage(format!("scheduler '{name}' is not available in this kernel"), help).into());
            }
            Err(error) => return Err(failed(path.display())(error)),
        };
        if is_now != name {
            let message = format!("{} holds {is_now} after {name} was written", path.display());
            return Err(RunError::Failed { message, source: None });
        }
        Ok(())
    }

    /// The path of a tunable: the scheduler's own take precedence.
    fn path_of(&self, scheduler: &str, key: &str) -> Result<PathBuf, RunError> {
        let own = self.queue.tunable_path(key);
        let of_queue = self.queue.attribute_path(key);
        let is_of_queue = tunables::known("none").any(|tunable| tunable.name == key) && of_queue.exists();
        match (own.exists(), is_of_queue) {
            (true, _) => Ok(own),
            (false, true) => Ok(of_queue),
            (false, false) => {
                let names: Vec<String> = self.queue.tunables().into_iter().map(|(name, _)| name).collect();
                Err(no_such_tunable(scheduler, key, names.iter().map(String::as_str)).into())
            }
        }
    }

    fn set_attribute(&mut self, key: &str, path: &Path, value: &str) -> Result<(), RunError> {
        let stored = self.journal.set(path, value).map_err(failed(format!("{key}={value} ({})", path.display())))?;
        if stored != value {
            self.notes.push(format!("{key}: the kernel stored {stored} instead of {value}"));
        }
        Ok(())
    }

    /// `defaults` are those of the scheduler, `defaults_of_queue` the queue's own values after the
    /// switch.
    fn in_force(
        &self,
        name: &str,
        spec: &SchedulerSpec,
        defaults: &[(String, String)],
        defaults_of_queue: &[(&str, Option<String>)],
    ) -> SchedulerInForce {
        let is_kept = spec.name == CURRENT;
        let own = self.queue.tunables().into_iter().map(|(tunable, value)| {
            let default = defaults.iter().find(|(known, _)| *known == tunable);
            let is_default = !is_kept && default.is_some_and(|(_, default)| *default == value);
            TunableInForce { unit: tunables::unit(name, &tunable).to_owned(), name: tunable, value, is_default }
        });
        let of_queue = RESET_BY_SWITCH.iter().chain(&["nomerges"]).filter_map(|attribute| {
            let value = self.queue.attribute(attribute)?;
            let default = defaults_of_queue.iter().find(|(known, _)| known == attribute);
            let is_as_switched = default.is_none_or(|(_, default)| default.as_deref() == Some(&*value));
            let is_default = spec.setting(attribute).is_none() && is_as_switched;
            let unit = tunables::unit(name, attribute).to_owned();
            Some(TunableInForce { name: (*attribute).to_owned(), value, unit, is_default })
        });
        SchedulerInForce {
            name: name.to_owned(),
            version: None,
            has_shares: tunables::has_shares(name),
            tunables: own.chain(of_queue).collect(),
        }
    }

    fn make_groups(&mut self, experiment: &Experiment) -> Result<(), RunError> {
        let Some(hierarchy) = Hierarchy::find().filter(|_| rustix::process::geteuid().is_root()) else {
            // `check` has made sure that cgroups are not needed.
            "none: no cgroups".clone_into(&mut self.mechanism);
            return Ok(());
        };
        let has_cost = hierarchy.has_cost_control(&self.queue.number());
        let own = hierarchy.weight_file(&self.scheduler.name);
        // A scheduler's own weights act in addition to those of io.cost; a user who names the
        // scheduler means its own.
        let weight_file = own.or(has_cost.then_some(COST_WEIGHT));
        let (place, is_cost) = (hierarchy.text(), own.is_none() && has_cost);
        let tree = Tree::make(hierarchy, &mut self.journal).map_err(failed("a cgroup"))?;
        for group in &experiment.groups {
            if group.is_in_root {
                // Its processes stay in the group in which this process was started.
                self.cgroups.push(None);
                continue;
            }
            let directory =
                tree.group(&group.path, &mut self.journal).map_err(failed(format!("group {}", group.path)))?;
            let rates = rates_of(group);
            if rates != Rates::default() {
                let number = self.queue.number();
                tree.set_rates(&directory, &number, &rates).map_err(failed(format!("limits of {}", group.path)))?;
            }
            self.cgroups.push(Some(directory));
        }
        let Some(file) = weight_file else {
            self.mechanism = format!("no proportional-share mechanism is active for {}", self.scheduler.name);
            return Ok(());
        };
        self.mechanism = format!("{file} ({place})");
        let asked: Vec<u32> = experiment.groups.iter().map(|group| group.weight.get()).collect();
        let most = match is_cost {
            true => COST_WEIGHT_MAX,
            false if tunables::is_of_our_module(&self.scheduler.name) => HOIST_WEIGHT_MAX,
            false => BFQ_WEIGHT_MAX,
        };
        let scaled = Scaled::into_range(&asked, most);
        self.notes.extend(scaled.warning(&asked, most));
        self.scheduler.has_shares = true;
        let mut effective = Vec::new();
        for ((group, directory), weight) in experiment.groups.iter().zip(&self.cgroups).zip(&scaled.weights) {
            let Some(directory) = directory else {
                effective.push(group.weight.get());
                continue;
            };
            let place = format!("weight {weight} of {} ({file})", group.path);
            let written = match is_cost {
                true => tree.set_cost_weight(directory, *weight),
                false => tree.set_weight(directory, &self.scheduler.name, *weight),
            };
            effective.push(written.map_err(failed(place))?);
        }
        self.effective_weights = Some(effective);
        Ok(())
    }
}

/// The hard limits of a group; the other limits have no mechanism here.
fn rates_of(group: &Group) -> Rates {
    Rates {
        read_bytes_per_s: group.limits.read_bytes_per_s,
        write_bytes_per_s: group.limits.write_bytes_per_s,
        read_ios_per_s: group.limits.read_ios_per_s,
        write_ios_per_s: group.limits.write_ios_per_s,
    }
}

/// The refusal of a tunable that a scheduler does not have; `names` are those that it has.
pub fn no_such_tunable<'a>(scheduler: &str, key: &str, names: impl Iterator<Item = &'a str> + Clone) -> Refusal {
    let meant = did_you_mean(key, names.clone());
    let available = names.collect::<Vec<_>>().join(", ");
    Refusal::usage(format!("{scheduler} has no tunable '{key}'"), format!("{meant}(available: {available})"))
}

/// Locks the device for the run, because two runs would change each other's settings.
fn lock(queue: &BlockQueue) -> Result<File, RunError> {
    let directory = hoistway_linux::run_directory::path().join("lock");
    hoistway_linux::run_directory::make(&directory).map_err(failed(directory.display()))?;
    let path = directory.join(queue.number());
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open().map_err(failed(path.display()))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let owner = fs::read_to_string(&path).unwrap_or_default();
        let message = format!("{} is being measured already, by process {}", queue.name(), owner.trim());
        return Err(RunError::Failed { message, source: None });
    }
    // The content is for the error message of a second run.
    let write = |file: &mut File| {
        file.set_len(0)?;
        io::Write::write_all(file, std::process::id().to_string().as_bytes())
    };
    write(&mut file).map_err(failed(path.display()))?;
    Ok(file)
}

impl Drop for RunSetup {
    /// After a panic or an early return everything is restored before the watcher ends. Settings
    /// that `teardown` could not restore stay as they are.
    fn drop(&mut self) {
        if self.watcher.is_some() {
            self.journal.restore();
        }
        self.dismiss();
    }
}
