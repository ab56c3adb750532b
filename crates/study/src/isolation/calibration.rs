//! What is measured before the mechanisms: what each cell delivers under `none`, what tenants get
//! alone, and the cost model of io.cost.
//!
//! Limits, latency targets and models are set from these figures, as an operator would. They come
//! from one run each; the figures of the table come from other runs.

use std::collections::BTreeMap;

use hoistway_experiment::{Experiment, Group, Measurement, SchedulerSpec, Weight};

use super::cell::{Cell, Run};
use super::desideratum::Desideratum;
use super::mechanism::Told;
use super::rounds::Sample;
use hoistway::Error;
use hoistway::plan::workloads;

/// A latency for mechanisms that need one before any was measured, in nanoseconds.
const ASSUMED_NS: f64 = 1e6;
/// A throughput for the same purpose.
const ASSUMED_BYTES_PER_S: f64 = 1e8;

/// A tenant that runs alone.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Alone {
    /// Its throughput.
    pub bytes_per_s: f64,
    /// 99th percentile of its latency, if it was logged.
    pub p99_ns: Option<f64>,
}

/// Everything that was measured before.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Known {
    none_bytes_per_s: BTreeMap<usize, f64>,
    alone: BTreeMap<(usize, usize), Alone>,
    /// The cost model.
    pub cost: CostModel,
    /// That of the device of the overhead, if it is another one.
    pub overhead_cost: CostModel,
}

impl Known {
    /// Notes a cell under `none`.
    pub fn add_none(&mut self, cell: usize, sample: &Sample) {
        self.none_bytes_per_s.insert(cell, sample.total_bytes_per_s());
    }

    /// Notes a tenant that ran alone.
    pub fn add_alone(&mut self, cell: usize, tenant: usize, sample: &Sample) {
        let bytes_per_s = sample.bytes_per_s.get(tenant).copied().unwrap_or(0.0);
        self.alone.insert((cell, tenant), Alone { bytes_per_s, p99_ns: sample.latency_ns.map(|(_, p99_ns)| p99_ns) });
    }

    /// Throughput of a cell under `none`.
    pub fn none_bytes_per_s(&self, cell: usize) -> f64 {
        self.none_bytes_per_s.get(&cell).copied().unwrap_or(ASSUMED_BYTES_PER_S)
    }

    /// What a tenant gets alone, if that was measured.
    pub fn alone(&self, cell: usize, tenant: usize) -> Option<Alone> {
        self.alone.get(&(cell, tenant)).copied()
    }

    /// 99th percentile of the first tenant alone; that of another cell's if this one has none,
    /// since targets are set for the device.
    pub fn latency_ns(&self, cell: usize) -> f64 {
        let own = self.alone(cell, 0).and_then(|alone| alone.p99_ns);
        own.or_else(|| self.alone.values().find_map(|alone| alone.p99_ns)).unwrap_or(ASSUMED_NS)
    }

    /// The cost model of the device that a cell runs on.
    pub fn cost_of(&self, cell: &Cell) -> &CostModel {
        match cell.desideratum {
            Desideratum::LowOverhead if !self.overhead_cost.values.is_empty() => &self.overhead_cost,
            _ => &self.cost,
        }
    }

    /// For tests: one cell with this throughput and latency.
    #[cfg(test)]
    pub fn example(none_bytes_per_s: f64, p99_ns: f64) -> Self {
        let alone = Alone { bytes_per_s: none_bytes_per_s, p99_ns: Some(p99_ns) };
        let latency = BTreeMap::from([((1, 0), alone)]);
        Self { none_bytes_per_s: [(0, none_bytes_per_s)].into(), alone: latency, ..Self::default() }
    }
}

/// The coefficients of io.cost, and the latencies at which its clock is to slow down.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    values: BTreeMap<&'static str, u64>,
}

/// What a probe of the cost model determines.
#[derive(Copy, Clone, Debug)]
pub struct Probe {
    /// The coefficient.
    key: &'static str,
    /// The key of the 99th percentile, for the probes that also set a latency.
    latency_key: Option<&'static str>,
    workload: &'static str,
    is_in_bytes: bool,
}

/// As `iocost_coef_gen.py` of the kernel's tools measures them: a full queue of large or small
/// requests, sequential or random, of each direction.
pub const PROBES: [Probe; 6] = [
    Probe { key: "rbps", latency_key: None, workload: "dsr:bs=128k,iodepth=64", is_in_bytes: true },
    Probe { key: "rseqiops", latency_key: None, workload: "dsr:bs=4k,iodepth=128", is_in_bytes: false },
    Probe { key: "rrandiops", latency_key: Some("rlat"), workload: "drr:bs=4k,iodepth=128", is_in_bytes: false },
    Probe { key: "wbps", latency_key: None, workload: "dsw:bs=128k,iodepth=64", is_in_bytes: true },
    Probe { key: "wseqiops", latency_key: None, workload: "dsw:bs=4k,iodepth=128", is_in_bytes: false },
    Probe { key: "wrandiops", latency_key: Some("wlat"), workload: "drw:bs=4k,iodepth=128", is_in_bytes: false },
];

impl Probe {
    /// The coefficient that it determines.
    pub const fn name(&self) -> &'static str {
        self.key
    }

    /// Whether it writes.
    pub fn has_writes(&self) -> bool {
        self.key.starts_with('w')
    }

    /// Its run, with the times of `like`.
    pub fn experiment(&self, like: &Cell, run: &Run<'_>) -> Result<Experiment, Error> {
        let mut jobs = workloads::of_name(self.workload, &[])?.1;
        let usual = like.groups.iter().flat_map(|group| &group.jobs).next();
        for job in &mut jobs {
            if let Some(usual) = usual {
                job.area.file.clone_from(&usual.area.file);
                job.area.size = usual.area.size;
            }
        }
        let groups = vec![Group::new("probe", Weight::DEFAULT, jobs)];
        let told =
            Told { scheduler: SchedulerSpec::named("none"), limiters: Vec::new(), groups, ramp_ns: like.ramp_ns };
        Ok(Experiment { machine: hoistway_experiment::Machine::default(), ..like.experiment(told, run) })
    }
}

impl CostModel {
    /// Notes a probe's run.
    pub fn add(&mut self, probe: &Probe, measurement: &Measurement) {
        let per_s = if probe.is_in_bytes { measurement.bytes_per_s() } else { measurement.ios_per_s() };
        self.values.insert(probe.key, whole(per_s));
        if let Some(key) = probe.latency_key {
            let p99_us = measurement.latency().percentile_ns(99.0) as f64 / 1e3;
            self.values.insert(key, whole(p99_us));
        }
    }

    /// All keys with their values; those of writes, where writing was not allowed, are those of
    /// reads.
    pub fn lines(&self) -> Vec<(&'static str, u64)> {
        let of_reads = |key: &'static str| {
            let read = PROBES.iter().flat_map(|probe| [Some(probe.key), probe.latency_key]).flatten();
            read.filter(|read| read.starts_with('r')).find(|read| read[1..] == key[1..]).unwrap_or(key)
        };
        let keys = PROBES.iter().flat_map(|probe| [Some(probe.key), probe.latency_key]).flatten();
        keys.filter_map(|key| {
            let value = self.values.get(key).or_else(|| self.values.get(of_reads(key)))?;
            Some((key, *value))
        })
        .collect()
    }
}

/// A positive number, rounded, at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and `as` saturates")]
fn whole(value: f64) -> u64 {
    (value.round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_were_not_measured_cost_what_reads_cost() {
        let mut cost = CostModel::default();
        assert_eq!(cost.lines(), [], "the class of the device decides");
        cost.values = [("rbps", 3_000), ("rseqiops", 20), ("rrandiops", 10), ("rlat", 400), ("wbps", 1_000)].into();
        let lines = cost.lines();
        let value = |wanted: &str| lines.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        assert_eq!(["wbps", "wseqiops", "wrandiops", "wlat"].map(value), [Some(1_000), Some(20), Some(10), Some(400)]);
    }
}
