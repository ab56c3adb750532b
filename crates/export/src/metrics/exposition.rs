//! The status as OpenMetrics text. Names, units and meanings: docs/reference/metrics.md.

use std::fmt::Error;

use hoistway_engine::counters::{Counted, GroupCounters, Sums, TimeHistogram};
use hoistway_engine::{GroupShare, GroupStatus, ShardStatus, ShareMiss, VolumeStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::process::Process;
use crate::server::devices::report::{ListenerReport, SilenceReport};

/// Upper bounds of the latency buckets in seconds: 1, 2 and 5 in each decade.
const BOUNDS_S: [f64; 19] = [
    10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0,
];

pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;
/// Name, meaning, unit and value of a figure of a device.
type Figure = (&'static str, &'static str, Option<Unit>, fn(&ShardStatus) -> u64);
/// A value with its labels.
pub(super) type Sample<'a, T> = (Labels<'a>, T);

/// The state of a server at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whether it is shutting down.
    pub is_draining: bool,
    /// The listening sockets.
    pub listeners: Vec<ListenerReport>,
    /// The devices.
    pub devices: Vec<ShardStatus>,
    /// The devices that do not answer; those that cannot be looked at are not among `devices`.
    pub silent: Vec<SilenceReport>,
}

impl Snapshot {
    /// The exposition.
    ///
    /// # Errors
    /// None in practice: writing to a text does not fail.
    pub fn encode(self) -> Result<String, Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process::read()));
        registry.sub_registry_with_prefix("hoistway").register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut writer = Writer(encoder);
        self.server(&mut writer)?;
        self.devices(&mut writer)?;
        self.exports(&mut writer)?;
        self.groups(&mut writer)
    }
}

impl Snapshot {
    fn server(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        writer.gauge("build_info", "Version of the server; always 1", None, [(version, 1_i64)])?;
        writer.gauge(
            "draining",
            "Whether the server is shutting down",
            None,
            [(vec![], i64::from(self.is_draining))],
        )?;
        let of = |value: fn(&ListenerReport) -> u64| {
            self.listeners.iter().map(move |listener| (vec![("listener", listener.address.as_str())], value(listener)))
        };
        writer.gauge(
            "listener_connections",
            "Connections open now",
            None,
            of(|it| it.connections as u64).map(|(labels, value)| (labels, signed(value))),
        )?;
        writer.counter("listener_accepted", "Connections accepted", None, of(|it| it.accepted))?;
        writer.counter(
            "listener_refused",
            "Connections refused because too many were open",
            None,
            of(|it| it.refused),
        )?;
        writer.counter("listener_expired", "Handshakes that timed out", None, of(|it| it.expired))
    }

    fn devices(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let info = self
            .devices
            .iter()
            .map(|it| (vec![("device", it.name.as_str()), ("scheduler", it.scheduling.scheduler)], 1_i64));
        writer.gauge("device_scheduler_info", "The active scheduler; always 1", None, info)?;
        let answering = self.devices.iter().filter(|device| !self.silent.iter().any(|it| it.device == device.name));
        let silence = answering.map(|device| (device.name.as_str(), 0.0));
        let silence = silence.chain(self.silent.iter().map(|it| (it.device.as_str(), it.since_s)));
        let silence = silence.map(|(device, since_s)| (vec![("device", device)], since_s));
        let help = "For how long the device has not answered; 0 while it does";
        writer.gauge("device_silent", help, Some(Unit::Seconds), silence)?;
        let of = |value: fn(&ShardStatus) -> u64| {
            self.devices.iter().map(move |device| (vec![("device", device.name.as_str())], value(device)))
        };
        let gauges: [Figure; 9] = [
            ("device_threads", "Threads that serve the device", None, |it| it.threads as u64),
            ("device_requests_in_flight", "Requests not yet answered and sent", None, |it| {
                it.requests_in_flight as u64
            }),
            ("device_ios_in_flight", "I/Os in flight on the device", None, |it| it.ios_in_flight.into()),
            ("device_queue_depth", "I/Os that the device may be given at a time now", None, |it| {
                it.device_depth.into()
            }),
            ("device_queue_depth_max", "The largest value of the queue depth", None, |it| it.most_device_depth.into()),
            ("device_saturated", "1 if more I/Os in flight would not make the device faster", None, |it| {
                it.saturation.is_saturated.into()
            }),
            ("device_held_by_limiters", "Parts of requests that limiters hold now", None, |it| {
                it.scheduling.held_by_limiters.into()
            }),
            ("device_memory_used", "Memory for payloads in use", Some(Unit::Bytes), |it| it.memory_bytes.0),
            ("device_memory", "Memory for payloads", Some(Unit::Bytes), |it| it.memory_bytes.1),
        ];
        for (name, help, unit, value) in gauges {
            writer.gauge(name, help, unit, of(value).map(|(labels, value)| (labels, signed(value))))?;
        }
        let counters: [Figure; 6] = [
            ("device_ios_started", "I/Os started on the device", None, |it| it.loop_counters.started_ios),
            ("device_syncs", "fsyncs started", None, |it| it.loop_counters.syncs),
            ("device_memory_refusals", "Requests for memory that were refused", None, |it| it.memory_refusals),
            ("device_ring_full", "Times the submission queue of io_uring was full", None, |it| {
                it.loop_counters.full_submits
            }),
            ("device_ring_overflows", "Completions that did not fit the completion queue", None, |it| {
                it.loop_counters.completion_overflows
            }),
            ("device_inconsistencies", "Internal inconsistencies; above 0 is a defect", None, |it| it.violations),
        ];
        for (name, help, unit, value) in counters {
            writer.counter(name, help, unit, of(value))?;
        }
        let asleep = of(|it| it.loop_counters.asleep_ns).map(|(labels, ns)| (labels, seconds(ns)));
        writer.counter("device_asleep", "Time that the device's threads slept", Some(Unit::Seconds), asleep)?;
        let reasons = self.devices.iter().flat_map(|device| {
            let of = device.scheduling.reasons.iter();
            of.map(|(reason, count)| (vec![("device", device.name.as_str()), ("reason", *reason)], *count))
        });
        writer.counter("device_dispatches", "Dispatches by the reason that the scheduler gave", None, reasons)
    }

    fn exports(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let volumes = || {
            self.devices.iter().flat_map(|device| {
                device.volumes.iter().map(move |volume| {
                    (vec![("device", device.name.as_str()), ("export", volume.facts.name.as_str())], volume)
                })
            })
        };
        let size = volumes().map(|(labels, volume)| (labels, signed(volume.facts.size_bytes)));
        writer.gauge("export_size", "Size of the export", Some(Unit::Bytes), size)?;
        let damaged = volumes().map(|(labels, volume)| (labels, i64::from(volume.damage.is_some())));
        let help = "1 after a durable operation failed or the backing was truncated";
        writer.gauge("export_damaged", help, None, damaged)?;
        let unanswered = |volume: &VolumeStatus| volume.unanswered.map_or(0.0, |it| seconds(it.oldest_ns));
        let waits = volumes().map(|(labels, volume)| (labels, unanswered(volume)));
        let help = "Age of the oldest I/O, if the backing has not answered for 2 s; else 0";
        writer.gauge("export_unanswered", help, Some(Unit::Seconds), waits)?;
        let sums: Vec<Sample<'_, &Sums>> = volumes().map(|(labels, volume)| (labels, &volume.sums)).collect();
        tallies(writer, "export", &sums)
    }

    fn groups(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let groups: Vec<Sample<'_, &GroupStatus>> = self
            .devices
            .iter()
            .flat_map(|device| device.groups.iter().map(move |group| (device, group)))
            .filter(|(_, group)| !group.path.is_empty())
            .map(|(device, group)| (vec![("device", device.name.as_str()), ("group", group.path.as_str())], group))
            .collect();
        let of =
            |value: fn(&GroupStatus) -> u64| groups.iter().map(move |(labels, it)| (labels.clone(), signed(value(it))));
        writer.gauge("group_weight", "Weight of the group", None, of(|it| it.weight.into()))?;
        writer.gauge("group_connections", "Connections of the group", None, of(|it| it.connections.into()))?;
        writer.gauge("group_memory", "Memory that the group holds", Some(Unit::Bytes), of(|it| it.memory_bytes))?;
        let throttled = groups.iter().map(|(labels, it)| (labels.clone(), seconds(it.throttled_ns)));
        let help = "Time in which limiters held requests of the group";
        writer.counter("group_throttled", help, Some(Unit::Seconds), throttled)?;
        let sums: Vec<Sample<'_, &Sums>> =
            groups.iter().map(|(labels, it)| (labels.clone(), &it.counters.sums)).collect();
        tallies(writer, "group", &sums)?;
        self.shares(writer)?;
        histograms(writer, &groups)
    }

    fn shares(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let shares: Vec<Sample<'_, &GroupShare>> = self
            .devices
            .iter()
            .flat_map(|device| device.saturation.groups.iter().map(move |share| (device, share)))
            .map(|(device, share)| (vec![("device", device.name.as_str()), ("group", share.path.as_str())], share))
            .collect();
        let of = |value: fn(&GroupShare) -> f64| shares.iter().map(move |(labels, it)| (labels.clone(), value(it)));
        let due = "Part of the service that the group is entitled to: by weight, at most what it can use";
        writer.gauge("group_share_due", due, Some(Unit::Ratios), of(|it| it.due))?;
        writer.gauge(
            "group_share_got",
            "Part of the service that the group got",
            Some(Unit::Ratios),
            of(|it| it.got),
        )?;
        let isolation = "Got / due, at most 1";
        writer.gauge("group_isolation", isolation, Some(Unit::Ratios), of(GroupShare::isolation))?;
        writer.gauge("group_outstanding", "Mean number of unanswered requests", None, of(|it| it.outstanding))?;
        let causes = shares.iter().flat_map(|(labels, share)| {
            ShareMiss::ALL.map(|miss| {
                let mut labels = labels.clone();
                labels.push(("cause", miss.word()));
                (labels, i64::from(share.miss == Some(miss)))
            })
        });
        writer.gauge("group_share_missed", "1 for the cause why the share is not kept now", None, causes)
    }
}

/// Requests, bytes and errors by operation; every operation has a series, also before its first
/// request.
fn tallies(writer: &mut Writer<'_>, of: &str, sums: &[Sample<'_, &Sums>]) -> Result<(), Error> {
    let by_kind = |value: fn(&Sums, Counted) -> u64| {
        sums.iter().flat_map(move |(labels, sums)| {
            Counted::ALL.map(|kind| {
                let mut labels = labels.clone();
                labels.push(("operation", kind.name()));
                (labels, value(sums, kind))
            })
        })
    };
    let (requests, errors) = (format!("{of}_requests"), format!("{of}_request_errors"));
    writer.counter(&requests, "Requests answered, errors included", None, by_kind(|it, kind| it.of(kind).requests))?;
    writer.counter(&errors, "Requests answered with an error", None, by_kind(|it, kind| it.of(kind).errors))?;
    let moved = format!("{of}_transferred");
    writer.counter(&moved, "Bytes of successful requests", Some(Unit::Bytes), by_kind(|it, kind| it.of(kind).bytes))
}

/// The times of requests by operation, for operations that occurred.
fn histograms(writer: &mut Writer<'_>, groups: &[Sample<'_, &GroupStatus>]) -> Result<(), Error> {
    type Of = fn(&GroupCounters, Counted) -> (&TimeHistogram, u64);
    let kinds: [(&str, &str, Of); 3] = [
        ("group_request", "Time from arrival to the end of the reply", |it, kind| {
            (&it.times[kind as usize].total, it.sums.of(kind).total_ns)
        }),
        ("group_queue", "Time from arrival to the first start on the device", |it, kind| {
            (&it.times[kind as usize].queue, it.sums.of(kind).queue_ns)
        }),
        ("group_service", "Time from the first start on the device to the end of the last part", |it, kind| {
            (&it.times[kind as usize].service, it.sums.of(kind).service_ns)
        }),
    ];
    for (name, help, of) in kinds {
        let mut metric = writer.metric(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, group) in groups {
            for kind in Counted::ALL {
                let (times, sum_ns) = of(&group.counters, kind);
                if times.count() == 0 {
                    continue;
                }
                let mut labels = labels.clone();
                labels.push(("operation", kind.name()));
                let buckets = buckets(times);
                let mut family = metric.encode_family(&labels)?;
                family.encode_histogram::<NoLabelSet>(seconds(sum_ns), times.count(), &buckets, None)?;
            }
        }
    }
    Ok(())
}

/// The counts of each bucket. A step of the histogram, 1.6 % wide, counts where its lower end lies.
fn buckets(times: &TimeHistogram) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = BOUNDS_S.iter().map(|bound| (*bound, 0)).chain([(f64::INFINITY, 0)]).collect();
    for (lower_ns, count) in times.buckets() {
        let lower_s = seconds(lower_ns);
        if let Some((_, sum)) = buckets.iter_mut().find(|(bound, _)| lower_s < *bound) {
            *sum += count;
        }
    }
    buckets
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        fn one<T>(value: Option<T>) -> impl Iterator<Item = Sample<'static, T>> {
            value.map(|value| (Vec::new(), value)).into_iter()
        }
        let mut writer = Writer(encoder);
        writer.counter("process_cpu", "Time on a processor", Some(Unit::Seconds), one(self.cpu_s))?;
        let gauges = [
            ("process_resident_memory", "Memory in use", Some(Unit::Bytes), self.resident_bytes),
            ("process_virtual_memory", "Address space", Some(Unit::Bytes), self.virtual_bytes),
            ("process_open_fds", "Open files", None, self.open_files),
            ("process_max_fds", "Limit of open files", None, self.max_files),
            ("process_threads", "Threads", None, self.threads),
        ];
        for (name, help, unit, value) in gauges {
            writer.gauge(name, help, unit, one(value.map(signed)))?;
        }
        let help = "Start of the process since 1970";
        writer.gauge("process_start_time", help, Some(Unit::Seconds), one(self.start_s))
    }
}

/// Writes one metric after the other.
pub(super) struct Writer<'a>(pub(super) DescriptorEncoder<'a>);

impl Writer<'_> {
    pub(super) fn metric<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        metric_type: MetricType,
    ) -> Result<MetricEncoder<'s>, Error> {
        self.0.encode_descriptor(name, help, unit, metric_type)
    }

    pub(super) fn gauge<'l, T: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = Sample<'l, T>>,
    ) -> Result<(), Error> {
        let mut metric = self.metric(name, help, unit.as_ref(), MetricType::Gauge)?;
        samples.into_iter().try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
    }

    pub(super) fn counter<'l, T: prometheus_client::encoding::EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = Sample<'l, T>>,
    ) -> Result<(), Error> {
        let mut metric = self.metric(name, help, unit.as_ref(), MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, value)| {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, T, u64>(&value, None)
        })
    }
}
