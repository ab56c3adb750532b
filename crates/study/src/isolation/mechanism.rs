//! Mechanisms, and how a cell's tenants are told to each: weights, priority classes, limits,
//! latency targets.

use hoistway_block::Nanos;
use hoistway_experiment::{Group, SchedulerSpec, Weight};

use super::calibration::{CostModel, Known};
use super::cell::Cell;
use super::desideratum::Desideratum;
use super::format::MechanismText;
use hoistway::Error;
use hoistway::plan::groups::priority;

/// The least limit in bytes per second that the kernel accepts.
const LEAST_LIMIT: f64 = 2.0;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Mechanism {
    /// Its name.
    pub name: String,
    scheduler: SchedulerSpec,
    limiter: Option<SchedulerSpec>,
    shares_as_limits: bool,
    cost_model: bool,
    priority_ramp_ns: Nanos,
    /// The setting under which its overhead is measured.
    pub overhead: Setting,
    /// The setting that prefers the first tenant most.
    pub important: Setting,
    /// The settings tried for priority.
    pub knob: Vec<Setting>,
}

/// How the tenants of a cell are treated: `weight=800`, `class=rt/4,others=idle`, `limit=50%`,
/// `target=2x`, `read_lat_nsec=2x`. A number with `x` is a multiple of the first tenant's 99th
/// percentile alone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Setting {
    /// As it is written.
    pub text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Debug)]
enum Part {
    /// Weight of the first tenant.
    Weight(Weight),
    /// I/O priority of the first tenant.
    Class(u16),
    /// I/O priority of all others.
    Others(u16),
    /// Limit of all others together, as a part of the throughput under `none`.
    Limit(f64),
    /// Limit of the first tenant, as such a part.
    OwnLimit(f64),
    /// Latency target of the first tenant.
    Target(f64),
    /// A tunable of the limiter, or of the scheduler if there is none, as written.
    Tunable(String, String),
    /// A tunable as a multiple of the latency alone.
    Multiple(String, f64),
}

impl Setting {
    /// Parses it.
    ///
    /// # Errors
    /// A part that is not `key=value`, or a value that the key does not take.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parts = parts.map(Part::parse).collect::<Result<_, _>>().map_err(|error: Error| error.at(text))?;
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, Error> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Error::usage(format!("'{text}' has no '='"), "write weight=800, or a tunable"))?;
        let number = |ending: &str| -> Result<f64, Error> {
            let number = value.strip_suffix(ending).and_then(|number| number.parse::<f64>().ok());
            number.filter(|number| *number > 0.0).ok_or_else(|| {
                Error::usage(
                    format!("{key}={value} is not a number with '{ending}'"),
                    format!("write {key}=50{ending}"),
                )
            })
        };
        Ok(match key {
            "weight" => Self::Weight(value.parse()?),
            "class" => Self::Class(priority(value)?.0),
            "others" => Self::Others(priority(value)?.0),
            "limit" => Self::Limit(number("%")? / 100.0),
            "own_limit" => Self::OwnLimit(number("%")? / 100.0),
            "target" => Self::Target(number("x")?),
            _ if value.ends_with('x') => Self::Multiple(key.to_owned(), number("x")?),
            _ => Self::Tunable(key.to_owned(), value.to_owned()),
        })
    }
}

/// A cell's tenants under a mechanism.
#[derive(Clone, Debug)]
pub struct Told {
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// The limiters above it.
    pub limiters: Vec<SchedulerSpec>,
    /// The tenants.
    pub groups: Vec<Group>,
    /// Time before the window.
    pub ramp_ns: Nanos,
}

impl Mechanism {
    /// Reads it for a host.
    ///
    /// # Errors
    /// A specification or a setting that cannot be parsed.
    pub fn read(text: &MechanismText, is_native: bool) -> Result<Self, Error> {
        let inside = |error: Error| error.inside(&format!("mechanism {}", text.name));
        let setting = |text: &str| Setting::parse(text).map_err(inside);
        let spec = |text: &str| text.parse::<SchedulerSpec>().map_err(|wrong| inside(Error::from(wrong)));
        let native = text.native.as_deref().filter(|_| is_native);
        Ok(Self {
            name: text.name.clone(),
            scheduler: spec(native.unwrap_or(&text.sched))?,
            limiter: text.limiter.as_deref().filter(|_| native.is_none()).map(spec).transpose()?,
            shares_as_limits: text.shares_as_limits,
            cost_model: text.cost_model,
            priority_ramp_ns: text.priority_ramp.map_or(0, |time| time.0),
            overhead: setting(&text.overhead)?,
            important: setting(&text.important)?,
            knob: text.knob.iter().map(|text| setting(text)).collect::<Result<_, _>>()?,
        })
    }

    /// The settings with which a cell is run.
    pub fn settings(&self, cell: &Cell) -> Vec<Setting> {
        use Desideratum as D;
        match cell.desideratum {
            D::LowOverhead => vec![self.overhead.clone()],
            D::EqualRequests | D::UnequalRequests | D::ReadsBesideWrites => vec![Setting::default()],
            D::Bursts | D::Delta | D::WorkConservation => vec![self.important.clone()],
            D::Priority if self.knob.is_empty() => vec![self.important.clone()],
            D::Priority => self.knob.clone(),
        }
    }

    /// Tells it the tenants of a cell; `index` is that of the cell.
    pub fn told(&self, cell: &Cell, index: usize, setting: &Setting, known: &Known) -> Told {
        let mut groups = cell.groups.clone();
        let (mut scheduler, mut limiter) = (self.scheduler.clone(), self.limiter.clone());
        if self.cost_model {
            let spec = limiter.as_mut().unwrap_or(&mut scheduler);
            *spec = with_model(spec.clone(), known.cost_of(cell));
        }
        if self.shares_as_limits && cell.desideratum.is_about_shares() {
            limit_to_shares(&mut groups, cell, index, known);
        }
        let capacity = known.none_bytes_per_s(index);
        let others = groups.len().saturating_sub(1).max(1) as f64;
        for part in &setting.parts {
            match part {
                Part::Weight(weight) => groups[0].weight = *weight,
                Part::Class(bits) => groups[0].priority = Some(*bits),
                Part::Others(bits) => groups.iter_mut().skip(1).for_each(|group| group.priority = Some(*bits)),
                Part::Limit(part) => {
                    groups.iter_mut().skip(1).for_each(|group| limit(group, capacity * part / others));
                }
                Part::OwnLimit(part) => limit(&mut groups[0], capacity * part),
                Part::Target(factor) => {
                    groups[0].limits.latency_target_us = whole(known.latency_ns(index) * factor / 1e3);
                }
                Part::Tunable(key, value) => {
                    let spec = limiter.as_mut().unwrap_or(&mut scheduler);
                    *spec = spec.clone().with(key, value);
                }
                Part::Multiple(key, factor) => {
                    let unit_ns = if key.ends_with("_nsec") { 1.0 } else { 1e3 };
                    let value = whole(known.latency_ns(index) * factor / unit_ns).to_string();
                    let spec = limiter.as_mut().unwrap_or(&mut scheduler);
                    *spec = spec.clone().with(key, &value);
                }
            }
        }
        let is_priority = cell.desideratum == Desideratum::Priority;
        let ramp_ns = if is_priority { cell.ramp_ns.max(self.priority_ramp_ns) } else { cell.ramp_ns };
        Told { scheduler, limiters: limiter.into_iter().collect(), groups, ramp_ns }
    }

    /// Whether the coefficients of a cost model have to be measured for it.
    pub const fn has_cost_model(&self) -> bool {
        self.cost_model
    }

    /// Its scheduler, limiter and strongest setting in one line.
    pub fn describe(&self) -> String {
        let limiter = self.limiter.as_ref().map_or_else(String::new, |limiter| format!(" under {limiter}"));
        let important = if self.important.text.is_empty() { "-" } else { &self.important.text };
        format!("{}{limiter}; important tenant: {important}", self.scheduler)
    }
}

/// The measured coefficients and latencies of io.cost.
fn with_model(spec: SchedulerSpec, cost: &CostModel) -> SchedulerSpec {
    cost.lines().into_iter().fold(spec, |spec, (key, value)| spec.with(key, &value.to_string()))
}

/// Gives each tenant its share as a limit: of the throughput under `none` where all ask for the
/// same, of its own throughput alone where they differ.
fn limit_to_shares(groups: &mut [Group], cell: &Cell, index: usize, known: &Known) {
    let weights: f64 = cell.groups.iter().map(|group| f64::from(group.weight.get())).sum();
    for (tenant, group) in groups.iter_mut().enumerate() {
        let share = f64::from(group.weight.get()) / weights;
        let whole = known.alone(index, tenant).map_or_else(|| known.none_bytes_per_s(index), |it| it.bytes_per_s);
        limit(group, whole * share);
    }
}

fn limit(group: &mut Group, bytes_per_s: f64) {
    let bytes_per_s = Some(whole(bytes_per_s.max(LEAST_LIMIT)));
    (group.limits.read_bytes_per_s, group.limits.write_bytes_per_s) = (bytes_per_s, bytes_per_s);
}

/// A positive number of bytes or of units of time, rounded, at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and `as` saturates")]
fn whole(value: f64) -> u64 {
    (value.round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::cell::tests::cell_of;

    fn mechanism(sched: &str, limiter: Option<&str>, is_limits: bool) -> Mechanism {
        let text = MechanismText {
            name: sched.to_owned(),
            sched: sched.to_owned(),
            limiter: limiter.map(str::to_owned),
            native: None,
            shares_as_limits: is_limits,
            cost_model: false,
            priority_ramp: None,
            overhead: String::new(),
            important: String::new(),
            knob: Vec::new(),
        };
        Mechanism::read(&text, false).unwrap()
    }

    fn told(mechanism: &Mechanism, setting: &str) -> Told {
        // Two tenants of weights 100 and 300; 80 MB/s under none, and 200 us at the 99th percentile.
        let known = Known::example(80e6, 200_000.0);
        mechanism.told(&cell_of(&[100, 300]), 0, &Setting::parse(setting).unwrap(), &known)
    }

    #[test]
    fn a_setting_reaches_the_tenants_it_is_meant_for() {
        let none = mechanism("none", None, false);
        let told_by = told(&none, "weight=800,class=rt/4,others=idle");
        assert_eq!(told_by.groups[0].weight.get(), 800);
        let priorities = told_by.groups.iter().map(|group| group.priority).collect::<Vec<_>>();
        assert_eq!(priorities, [Some(priority("rt/4").unwrap().0), Some(priority("idle").unwrap().0)]);
        let limited = told(&none, "limit=25%,target=2x");
        let limits = |index: usize| limited.groups[index].limits;
        assert_eq!((limits(0).read_bytes_per_s, limits(0).latency_target_us), (None, 400));
        assert_eq!((limits(1).read_bytes_per_s, limits(1).write_bytes_per_s), (Some(20_000_000), Some(20_000_000)));
    }

    #[test]
    fn a_tunable_is_the_limiters_if_there_is_one() {
        let scheduler = told(&mechanism("kyber", None, false), "read_lat_nsec=1.5x");
        assert_eq!(scheduler.scheduler.to_string(), "kyber:read_lat_nsec=300000");
        let both = told(&mechanism("none", Some("io.cost:min=50"), false), "rlat=1x,max=150");
        assert_eq!((both.scheduler.to_string(), both.limiters[0].to_string()), {
            ("none".to_owned(), "io.cost:min=50,rlat=200,max=150".to_owned())
        });
    }

    #[test]
    fn shares_become_limits_where_there_are_no_weights() {
        let told = told(&mechanism("none", None, true), "");
        let limits: Vec<_> = told.groups.iter().map(|group| group.limits.read_bytes_per_s.unwrap()).collect();
        assert_eq!(limits, [20_000_000, 60_000_000]);
    }

    #[test]
    fn a_wrong_part_of_a_setting_is_named() {
        for (text, what) in
            [("weight", "no '='"), ("limit=50", "with '%'"), ("target=-1x", "with 'x'"), ("class=z", "'z'")]
        {
            let error = Setting::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
