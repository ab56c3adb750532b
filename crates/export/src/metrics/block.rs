//! Block devices of the kernel and their control groups as OpenMetrics text. Names, units and meanings:
//! docs/reference/metrics.md.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::exposition::{Labels, Sample, Writer, seconds, signed};
use super::process::Process;

/// The operations, in the order of the arrays below.
pub const OPERATIONS: [&str; 2] = ["read", "write"];

/// The block devices at one time.
#[derive(Clone, Debug, Default)]
pub struct BlockSnapshot {
    /// The devices.
    pub devices: Vec<BlockDevice>,
}

/// A block device.
#[derive(Clone, Debug, Default)]
pub struct BlockDevice {
    /// Its name in sysfs.
    pub name: String,
    /// The active scheduler.
    pub scheduler: String,
    /// Commands that the driver takes; 0 = not known.
    pub queue_depth: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: u64,
    /// Reads and writes.
    pub flows: [BlockFlow; 2],
    /// Time of all reads and all writes in the queue and the device, added up, in nanoseconds.
    pub request_ns: [u64; 2],
    /// Whether io.cost is on for it.
    pub has_cost_control: bool,
    /// The coefficients of io.cost's model, by the kernel's name; empty if io.cost is off.
    pub cost_model: Vec<(String, f64)>,
    /// Whether the times of its requests are recorded, and how many events were lost.
    pub trace: Option<u64>,
    /// Its groups.
    pub groups: Vec<BlockGroup>,
    /// Groups that are not among them, because they are too many.
    pub groups_left_out: u64,
}

/// Completed requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockFlow {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A control group on a device.
#[derive(Clone, Debug, Default)]
pub struct BlockGroup {
    /// Its path.
    pub path: String,
    /// The weight in force; none if weights have no effect.
    pub weight: Option<u32>,
    /// Reads and writes; none for what only the recorded times know, as a group that is gone.
    pub flows: Option<[BlockFlow; 2]>,
    /// What it was due and got of the bytes, 0 to 1, and the cause if it got less than 95 % of it; none without
    /// requests in the last interval.
    pub share: Option<(f64, f64, Option<&'static str>)>,
    /// The times in the device of its reads and of its writes; none without any.
    pub service: [Option<BlockTimes>; 2],
}

/// A histogram of times.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockTimes {
    /// Requests by upper bound in seconds; the last bound is infinity.
    pub buckets: Vec<(f64, u64)>,
    /// Sum of their times, in seconds.
    pub sum_s: f64,
}

/// Why a share was not kept.
pub const CAUSES: [&str; 4] = ["ignores_weights", "limit", "not_saturated", "not_known"];

impl BlockSnapshot {
    /// The exposition.
    ///
    /// # Errors
    /// None in practice: writing to a text does not fail.
    pub fn encode(self) -> Result<String, Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::read()));
        registry.sub_registry_with_prefix("hoistway_block").register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn devices(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let info = self.devices.iter().map(|it| {
            let labels = vec![("device", it.name.as_str()), ("scheduler", it.scheduler.as_str())];
            (labels, 1_i64)
        });
        writer.gauge("device_scheduler_info", "The active scheduler; always 1", None, info)?;
        type Figure = (&'static str, &'static str, fn(&BlockDevice) -> u64);
        let of = |value: fn(&BlockDevice) -> u64| {
            self.devices.iter().map(move |it| (vec![("device", it.name.as_str())], value(it)))
        };
        let gauges: [Figure; 5] = [
            ("device_queue_depth", "Commands that the driver takes; 0 if it does not say", |it| it.queue_depth),
            ("device_requests_in_flight", "Requests in flight now", |it| it.in_flight),
            ("device_cost_enabled", "Whether io.cost is on for the device", |it| it.has_cost_control.into()),
            ("device_latency_recorded", "Whether the times of its requests are recorded", |it| {
                it.trace.is_some().into()
            }),
            ("device_groups_left_out", "Groups without series, because they are too many", |it| it.groups_left_out),
        ];
        for (name, help, value) in gauges {
            writer.gauge(name, help, None, of(value).map(|(labels, value)| (labels, signed(value))))?;
        }
        let busy = of(|it| it.busy_ns).map(|(labels, ns)| (labels, seconds(ns)));
        writer.counter("device_busy", "Time with requests in flight", Some(Unit::Seconds), busy)?;
        let lost = self.devices.iter().filter_map(|it| Some((vec![("device", it.name.as_str())], it.trace?)));
        writer.counter("device_latency_events_lost", "Events that are missing in the times", None, lost)?;
        let model = self.devices.iter().flat_map(|it| {
            let coefficients = it.cost_model.iter();
            coefficients
                .map(|(name, value)| (vec![("device", it.name.as_str()), ("coefficient", name.as_str())], *value))
        });
        writer.gauge("device_cost_model", "Coefficients of io.cost's model, by the kernel's name", None, model)?;
        let flows: Vec<Sample<'_, [BlockFlow; 2]>> =
            self.devices.iter().map(|it| (vec![("device", it.name.as_str())], it.flows)).collect();
        tallies(writer, "device", &flows)?;
        let times = self.devices.iter().flat_map(|it| {
            let both = OPERATIONS.iter().zip(it.request_ns);
            both.map(|(operation, ns)| (vec![("device", it.name.as_str()), ("operation", *operation)], seconds(ns)))
        });
        let help = "Time of all requests in queue and device, added up";
        writer.counter("device_request", help, Some(Unit::Seconds), times)
    }

    fn groups(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let all: Vec<Sample<'_, &BlockGroup>> = self
            .devices
            .iter()
            .flat_map(|device| device.groups.iter().map(move |group| (device, group)))
            .map(|(device, group)| (vec![("device", device.name.as_str()), ("group", group.path.as_str())], group))
            .collect();
        let weights = all.iter().filter_map(|(labels, it)| Some((labels.clone(), i64::from(it.weight?))));
        writer.gauge("group_weight", "The weight in force", None, weights)?;
        let flows: Vec<Sample<'_, [BlockFlow; 2]>> =
            all.iter().filter_map(|(labels, it)| Some((labels.clone(), it.flows?))).collect();
        tallies(writer, "group", &flows)?;
        let shares = || all.iter().filter_map(|(labels, it)| Some((labels.clone(), it.share?)));
        let due = shares().map(|(labels, (due, ..))| (labels, due));
        let help = "Part of the device's bytes that the group is due by weight, among the groups with requests";
        writer.gauge("group_share_due", help, Some(Unit::Ratios), due)?;
        let got = shares().map(|(labels, (_, got, _))| (labels, got));
        writer.gauge("group_share_got", "Part of the device's bytes that the group got", Some(Unit::Ratios), got)?;
        let causes = shares().flat_map(|(labels, (.., cause))| {
            CAUSES.map(|known| {
                let mut labels = labels.clone();
                labels.push(("cause", known));
                (labels, i64::from(cause == Some(known)))
            })
        });
        writer.gauge("group_share_missed", "1 for the cause why the share was not kept", None, causes)?;
        let help = "Time from the issue to the device to the completion";
        let mut metric = writer.metric("group_service", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, group) in &all {
            for (operation, service) in OPERATIONS.iter().zip(&group.service) {
                let Some(BlockTimes { buckets, sum_s }) = service else { continue };
                let mut labels: Labels<'_> = labels.clone();
                labels.push(("operation", operation));
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(*sum_s, count, buckets, None)?;
            }
        }
        Ok(())
    }
}

impl Collector for BlockSnapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut writer = Writer(encoder);
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        writer.gauge("build_info", "Version of the exporter; always 1", None, [(version, 1_i64)])?;
        self.devices(&mut writer)?;
        self.groups(&mut writer)
    }
}

fn tallies(writer: &mut Writer<'_>, of: &str, flows: &[Sample<'_, [BlockFlow; 2]>]) -> Result<(), Error> {
    let by_operation = |value: fn(&BlockFlow) -> u64| {
        flows.iter().flat_map(move |(labels, flows)| {
            OPERATIONS.iter().zip(flows).map(move |(operation, flow)| {
                let mut labels = labels.clone();
                labels.push(("operation", operation));
                (labels, value(flow))
            })
        })
    };
    writer.counter(&format!("{of}_requests"), "Requests completed", None, by_operation(|it| it.requests))?;
    let moved = format!("{of}_transferred");
    writer.counter(&moved, "Bytes of completed requests", Some(Unit::Bytes), by_operation(|it| it.bytes))
}
