//! The state of a page: device, tenants, schedulers, and the changes that were made while it ran.
//!
//! It comes from outside (a link may have been tampered with), so everything is checked: only names,
//! numbers within bounds, and options that touch no file and take no unusual memory.

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::{Experiment, Group};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Bounds of a page.
const TENANTS_MAX: usize = 8;
const LANES_MAX: usize = 3;
const CHANGES_MAX: usize = 200;
const DEPTH_MAX: u32 = 256;
const BLOCK_MAX_BYTES: u32 = 1 << 20;
const THREADS_MAX: u32 = 32;
const LENGTH_MAX_MS: u64 = 3_600_000;

/// Everything that determines what a page shows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The device: `model:NAME[,KEY=VALUE...]`.
    pub device: String,
    /// The simulated computer, as for `--machine`; empty for the usual one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Length of the run.
    pub length_ms: u64,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The scheduler of each lane.
    pub schedulers: Vec<String>,
    /// What was changed while it ran, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A tenant at the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its weight, 1 to 10,000.
    pub weight: u32,
    /// I/Os in flight, 1 to 256.
    pub depth: u32,
    /// Bytes of an I/O: a multiple of 512, up to 1 MiB.
    pub block: u32,
    /// Reads in percent.
    pub read: u8,
    /// Whether offsets are random.
    pub random: bool,
    /// Another load instead, in the notation of `workload=`; it cannot be changed during the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// Further keys of `--group`: `ioprio=be/2,threads=8`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub more: String,
    /// Whether it issues from the start.
    #[serde(default = "yes")]
    pub on: bool,
}

const fn yes() -> bool {
    true
}

/// Direct I/O by a pattern.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Load {
    depth: u32,
    block: u32,
    read: u8,
    random: bool,
}

/// A change during the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at_ns: Nanos,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What was changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum What {
    /// A tenant's weight.
    Weight {
        /// The tenant.
        tenant: usize,
        /// The weight.
        weight: u32,
    },
    /// A tenant's load.
    Load {
        /// The tenant.
        tenant: usize,
        /// I/Os in flight.
        depth: u32,
        /// Bytes of an I/O.
        block: u32,
        /// Reads in percent.
        read: u8,
        /// Whether offsets are random.
        random: bool,
    },
    /// Whether a tenant issues.
    On {
        /// The tenant.
        tenant: usize,
        /// Whether it does.
        on: bool,
    },
    /// A tunable of a lane's scheduler.
    Tunable {
        /// The lane.
        lane: usize,
        /// The tunable.
        name: String,
        /// Its value, in its unit.
        value: String,
    },
}

/// The options of a workload that a page may use: they touch no file.
const WORKLOAD_OPTIONS: &[&str] = &[
    "bs",
    "size",
    "iodepth",
    "rw",
    "rwmixread",
    "direct",
    "thinktime",
    "fsync",
    "offset_increment",
    "percentage_random",
];
/// The keys of a tenant's `more`.
const MORE: &[&str] = &["ioprio", "threads", "cgroup"];
/// The parameters of a model that a page may use: they take no memory.
const MODEL_PARAMETERS: &[&str] = &["queue_depth", "write_cache"];
/// The parameters of the computer that a page may use.
const MACHINE_PARAMETERS: &[&str] = &["era", "memory_mib", "read_ahead_kib", "complete_ns", "copy_mb_per_s"];

fn wrong(what: impl Into<String>, help: impl Into<String>) -> Error {
    Error::usage(what, help)
}

/// Checks `key=value,...`.
fn check_keys(place: &str, text: &str, allowed: &[&str]) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/:-".contains(c);
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !allowed.contains(&key) || value.is_empty() || value.len() > 32 || !value.chars().all(is_plain) {
            return Err(wrong(
                format!("{place}: '{pair}' is not possible here"),
                format!("allowed: {}", allowed.join(", ")),
            ));
        }
    }
    Ok(())
}

fn within(place: &str, value: u64, allowed: std::ops::RangeInclusive<u64>) -> Result<(), Error> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("{place}: {value} is outside {} to {}", allowed.start(), allowed.end()), ""))
}

impl Load {
    fn check(self, place: &str) -> Result<(), Error> {
        within(&format!("{place}: depth"), self.depth.into(), 1..=DEPTH_MAX.into())?;
        within(&format!("{place}: block"), self.block.into(), 512..=BLOCK_MAX_BYTES.into())?;
        within(&format!("{place}: read"), self.read.into(), 0..=100)?;
        if !self.block.is_multiple_of(512) {
            return Err(wrong(format!("{place}: a block of {} bytes", self.block), "write a multiple of 512"));
        }
        Ok(())
    }

    /// In the notation of `workload=`.
    fn workload(self) -> String {
        let pattern = if self.random { "rand" } else { "" };
        let (mix, share) = match self.read {
            100 => ("read", String::new()),
            0 => ("write", String::new()),
            read => ("rw", format!("rwmixread={read},")),
        };
        let block =
            if self.block.is_multiple_of(1_024) { format!("{}k", self.block / 1_024) } else { self.block.to_string() };
        format!("{pattern}{mix}:{share}bs={block},iodepth={}", self.depth)
    }
}

impl Tenant {
    const fn load(&self) -> Load {
        Load { depth: self.depth, block: self.block, read: self.read, random: self.random }
    }

    fn check(&self) -> Result<(), Error> {
        let place = format!("tenant '{}'", hoistway_experiment::diagnostic::shortened(&self.name));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > 24 || !self.name.chars().all(is_plain) {
            return Err(wrong(format!("{place} is no name"), "write 1 to 24 letters, digits, '-' and '_'"));
        }
        within(&format!("{place}: weight"), self.weight.into(), 1..=10_000)?;
        self.load().check(&place)?;
        if !self.workload.is_empty() {
            let (name, options) = self.workload.split_once(':').unwrap_or((&self.workload, ""));
            if !hoistway_workload::name::names().any(|known| known == name) {
                return Err(wrong(format!("{place}: there is no workload '{name}'"), "hoistway list workloads"));
            }
            check_keys(&place, options, WORKLOAD_OPTIONS)?;
        }
        check_keys(&place, &self.more, MORE)?;
        let threads = self.more.split(',').find_map(|pair| pair.strip_prefix("threads="));
        threads.map_or(Ok(()), |threads| {
            within(&format!("{place}: threads"), threads.parse().unwrap_or(0), 1..=THREADS_MAX.into())
        })
    }

    /// In the notation of `--group`.
    pub(super) fn spec(&self) -> String {
        let mut spec = format!("name={},weight={}", self.name, self.weight);
        let (before, threads): (Vec<&str>, Vec<&str>) =
            self.more.split(',').filter(|more| !more.is_empty()).partition(|more| !more.starts_with("threads="));
        before.iter().for_each(|more| spec.push_str(&format!(",{more}")));
        let workload = if self.workload.is_empty() { self.load().workload() } else { self.workload.clone() };
        spec.push_str(&format!(",workload={workload}"));
        threads.iter().for_each(|more| spec.push_str(&format!(",{more}")));
        spec
    }
}

impl State {
    /// The state with which a page begins.
    ///
    /// # Errors
    /// An unknown device or scheduler.
    pub fn first(model: &str, schedulers: &[String]) -> Result<Self, Error> {
        let tenant = |name: &str, weight, depth| Tenant {
            name: name.to_owned(),
            weight,
            depth,
            block: 4_096,
            read: 100,
            random: true,
            workload: String::new(),
            more: String::new(),
            on: true,
        };
        let usual = ["none", "paternoster"].map(str::to_owned);
        let state = Self {
            device: format!("model:{}", model.strip_prefix("model:").unwrap_or(model)),
            machine: String::new(),
            seed: 1,
            length_ms: 60_000,
            tenants: vec![tenant("db", 400, 32), tenant("web", 200, 32), tenant("batch", 100, 64)],
            schedulers: if schedulers.is_empty() { usual.to_vec() } else { schedulers.to_vec() },
            changes: Vec::new(),
        };
        // The user's own command line may name a file.
        state.check_apart_from_device()?;
        state.experiments()?;
        Ok(state)
    }

    /// Checks a state that came from a page; `own_device` is the one of the command line.
    ///
    /// # Errors
    /// The first thing that is not possible.
    pub fn check(&self, own_device: &str) -> Result<(), Error> {
        if self.device != own_device {
            let model = self.device.strip_prefix("model:").unwrap_or_default();
            let (name, parameters) = model.split_once(',').unwrap_or((model, ""));
            if !hoistway_device::MODELS.iter().any(|row| row.name == name) {
                let known: Vec<&str> = hoistway_device::MODELS.iter().map(|row| row.name).collect();
                return Err(wrong(
                    format!("there is no device '{}'", self.device),
                    format!("there are: {}", known.join(", ")),
                ));
            }
            check_keys("device", parameters, MODEL_PARAMETERS)?;
        }
        self.check_apart_from_device()
    }

    fn check_apart_from_device(&self) -> Result<(), Error> {
        check_keys("machine", &self.machine, MACHINE_PARAMETERS)?;
        if let Some(mib) = self.machine.split(',').find_map(|pair| pair.strip_prefix("memory_mib=")) {
            within("machine: memory_mib", mib.parse().unwrap_or(0), 16..=4_096)?;
        }
        within("length in ms", self.length_ms, 1..=LENGTH_MAX_MS)?;
        within("tenants", self.tenants.len() as u64, 1..=TENANTS_MAX as u64)?;
        within("lanes", self.schedulers.len() as u64, 1..=LANES_MAX as u64)?;
        within("changes", self.changes.len() as u64, 0..=CHANGES_MAX as u64)?;
        for scheduler in &self.schedulers {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "@.:,=_-".contains(c);
            if scheduler.len() > 120 || !scheduler.chars().all(is_plain) {
                return Err(wrong("that is no scheduler", "write NAME[@VERSION][:KEY=VALUE,...]"));
            }
        }
        for (index, tenant) in self.tenants.iter().enumerate() {
            tenant.check()?;
            if self.tenants[..index].iter().any(|other| other.name == tenant.name) {
                return Err(wrong(format!("tenant '{}' is there twice", tenant.name), "give each its own name"));
            }
        }
        if self.changes.windows(2).any(|pair| pair[0].at_ns > pair[1].at_ns) {
            return Err(wrong("the changes are not in the order of their times", ""));
        }
        self.changes.iter().try_for_each(|change| self.check_change(&change.what))
    }

    /// Checks a change.
    ///
    /// # Errors
    /// It names something that does not exist, or a value outside its bounds.
    pub fn check_change(&self, what: &What) -> Result<(), Error> {
        let tenant = |index: usize| {
            self.tenants.get(index).ok_or_else(|| wrong(format!("there is no tenant number {index}"), ""))
        };
        match what {
            What::Weight { tenant: index, weight } => {
                let it = tenant(*index)?;
                if it.more.contains("cgroup=root") {
                    let what = format!("{} is no group of its own and has no weight", it.name);
                    return Err(wrong(what, "change its ioprio and start again"));
                }
                within(&format!("weight of {}", it.name), (*weight).into(), 1..=10_000)
            }
            &What::Load { tenant: index, depth, block, read, random } => {
                let it = tenant(index)?;
                if !it.workload.is_empty() {
                    let what = format!("the load of {} cannot be changed while it runs", it.name);
                    return Err(wrong(what, "start again with another load"));
                }
                Load { depth, block, read, random }.check(&it.name)
            }
            What::On { tenant: index, .. } => tenant(*index).map(|_| ()),
            What::Tunable { lane, name, value } => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if *lane >= self.schedulers.len() {
                    return Err(wrong(format!("there is no lane {lane}"), ""));
                }
                let is_short = name.len() <= 40 && value.len() <= 20;
                if !is_short || !name.chars().chain(value.chars()).all(is_plain) {
                    return Err(wrong("that is no value of a tunable", ""));
                }
                Ok(())
            }
        }
    }

    /// The state with a change made to its start.
    pub fn make(&mut self, what: &What) {
        match what {
            What::Weight { tenant, weight } => self.tenants[*tenant].weight = *weight,
            &What::Load { tenant, depth, block, read, random } => {
                let at = &mut self.tenants[tenant];
                (at.depth, at.block, at.read, at.random) = (depth, block, read, random);
            }
            What::On { tenant, on } => self.tenants[*tenant].on = *on,
            What::Tunable { lane, name, value } => {
                let spec = &mut self.schedulers[*lane];
                let (kind, settings) = spec.split_once(':').unwrap_or((spec, ""));
                let is_other = |setting: &&str| setting.split('=').next() != Some(name) && !setting.is_empty();
                let mut settings: Vec<String> = settings.split(',').filter(is_other).map(str::to_owned).collect();
                settings.push(format!("{name}={value}"));
                *spec = format!("{kind}:{}", settings.join(","));
            }
        }
    }

    /// One experiment for each lane, with the tenants as they are at the start.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn experiments(&self) -> Result<Vec<Experiment>, Error> {
        let length = std::time::Duration::from_millis(self.length_ms);
        let mut asked =
            crate::Experiment::on(&self.device).seed(self.seed).runtime(length).ramp(std::time::Duration::ZERO);
        for tenant in &self.tenants {
            asked = asked.group_spec(tenant.spec());
        }
        for scheduler in &self.schedulers {
            asked = asked.scheduler(scheduler);
        }
        if !self.machine.is_empty() {
            asked = asked.machine(&self.machine);
        }
        let made = asked.plan()?.experiments();
        let lane = |scheduler: &String| {
            let spec = scheduler.parse().map_err(Error::from)?;
            made.iter().find(|it| it.scheduler == spec).cloned().ok_or_else(|| wrong("a lane is missing", ""))
        };
        self.schedulers.iter().map(lane).collect()
    }

    /// A tenant's group with its jobs, as they are at the start.
    ///
    /// # Errors
    /// Those of [`State::experiments`].
    pub fn group(&self, tenant: usize) -> Result<Group, Error> {
        let spec = self.tenants[tenant].spec();
        crate::plan::groups::describe(&spec)?.with_jobs(&[], &[])
    }

    /// The length of the run.
    pub const fn length_ns(&self) -> Nanos {
        self.length_ms * MILLISECOND
    }

    /// The equivalent command line, and whether it repeats this run exactly: a test runs with the
    /// same tenants from start to end. Of a run with changes it has the settings that they led to.
    pub fn command(&self) -> (String, bool) {
        let is_exact = self.changes.is_empty() && self.tenants.iter().all(|tenant| tenant.on);
        let mut shown = self.clone();
        for Change { what, .. } in &self.changes {
            shown.make(what);
        }
        let mut line = format!("hoistway test {}", shown.device);
        if !shown.machine.is_empty() {
            line.push_str(&format!(" --machine {}", shown.machine));
        }
        for tenant in shown.tenants.iter().filter(|tenant| tenant.on) {
            line.push_str(&format!(" --group {}", tenant.spec()));
        }
        for scheduler in &shown.schedulers {
            line.push_str(&format!(" -s {scheduler}"));
        }
        let length = match shown.length_ms {
            ms if u64::is_multiple_of(ms, SECOND / MILLISECOND) => format!("{}s", ms / 1_000),
            ms => format!("{ms}ms"),
        };
        line.push_str(&format!(" --seed {} --runtime {length} --ramp 0", shown.seed));
        (line, is_exact)
    }
}

#[cfg(test)]
mod tests;
