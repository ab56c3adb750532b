//! The types of the answer to `status`: their JSON Schema is printed by `hoistway schema ctl`.

use std::collections::BTreeMap;

use hoistway_engine::counters::Tally;
use hoistway_experiment::blkio::Statistics;
use schemars::JsonSchema;
use serde::Serialize;

/// An answer of the control socket to `status`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatusAnswer {
    /// The status.
    pub ok: StatusReport,
}

/// The status of a server. Counters are since its start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatusReport {
    /// Whether it is shutting down.
    pub draining: bool,
    /// The sockets that NBD clients connect to.
    pub listeners: Vec<ListenerReport>,
    /// Devices, exports, groups and connections.
    #[serde(flatten)]
    pub devices: DevicesReport,
}

/// A listening socket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListenerReport {
    /// `unix:PATH` or `tcp:ADDRESS:PORT`.
    pub address: String,
    /// The exports that a client without an identity sees there.
    pub exports: Vec<String>,
    /// Connections open now.
    pub connections: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because too many were open.
    pub refused: u64,
    /// Handshakes that timed out.
    pub expired: u64,
}

/// The objects of all devices. Stopped devices are left out.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DevicesReport {
    /// The devices.
    pub devices: Vec<DeviceReport>,
    /// The exports.
    pub exports: Vec<ExportReport>,
    /// The groups, once per device.
    pub groups: Vec<GroupReport>,
    /// The connections.
    pub connections: Vec<ConnectionReport>,
    /// Devices that have not answered for a second or longer; of those that cannot be looked at, nothing else is here.
    pub not_answering: Vec<SilenceReport>,
}

/// A device that does not answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SilenceReport {
    /// Its name.
    pub device: String,
    /// For how long, in seconds.
    pub since_s: f64,
    /// The export with the oldest I/O that its backing does not answer, when the device was last looked at.
    pub oldest_export: Option<String>,
}

/// A device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// The active scheduler.
    pub scheduler: String,
    /// Whether another scheduler is about to replace it.
    pub switching: bool,
    /// The scheduler's tunables.
    pub tunables: BTreeMap<String, i64>,
    /// How often the scheduler gave each reason for a dispatch.
    pub reasons: BTreeMap<String, u64>,
    /// The limiters with their settings.
    pub limiters: Vec<String>,
    /// Parts of requests that limiters hold.
    pub held_by_limiters: u32,
    /// Commands that the device is given at a time now.
    pub queue_depth: u32,
    /// The most commands that it may be given at a time.
    pub queue_depth_most: u32,
    /// Whether it is saturated.
    pub saturation: SaturationReport,
    /// Requests not yet answered and sent.
    pub requests_in_flight: usize,
    /// Commands in flight on the device.
    pub ios_in_flight: u32,
    /// Bytes of memory in use.
    pub memory_used_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Requests for memory that were refused.
    pub memory_refusals: u64,
    /// Internal inconsistencies; above 0 is a defect.
    pub violations: u64,
    /// The fields of `/proc/diskstats` after the name, times in ms.
    pub diskstats: [u64; 17],
    /// Counters of the device's thread.
    #[serde(rename = "loop")]
    pub thread: LoopReport,
}

/// Counters of a device's thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoopReport {
    /// Turns of its loop.
    pub turns: u64,
    /// Completions handled.
    pub events: u64,
    /// I/Os done without io_uring.
    pub inline_ios: u64,
    /// I/Os started.
    pub started_ios: u64,
    /// Started I/Os that hold more than one part.
    pub merged_ios: u64,
    /// fsyncs started.
    pub syncs: u64,
    /// How often it went to sleep.
    pub sleeps: u64,
    /// Time asleep in ns.
    pub asleep_ns: u64,
    /// Busy polls that ended with an event.
    pub polls_fruitful: u64,
    /// Busy polls that ended without one.
    pub polls_fruitless: u64,
    /// How often the submission queue was full.
    pub full_submits: u64,
    /// Completions that did not fit the completion queue.
    pub completion_overflows: u64,
    /// How often a connection was paused by its own bounds.
    pub pauses_for_credit: u64,
    /// How often a connection was paused because memory was short.
    pub pauses_for_memory: u64,
    /// The longest turn in ns, without sleep.
    pub longest_turn_ns: u64,
}

/// The saturation of a device over at least the last second. Unknown values are null.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SaturationReport {
    /// The state as a sentence.
    pub text: String,
    /// How its depth is known: `idle`, `learning`, `learned`, `full` or `given`.
    pub depth: String,
    /// Whether more requests in flight would not make it faster.
    pub saturated: bool,
    /// Requests in flight that saturate it.
    pub requests_needed: Option<u32>,
    /// Requests in flight up to which shares can be exact.
    pub requests_exact: Option<f64>,
    /// Mean number of requests in flight.
    pub requests_in_flight: f64,
    /// Got / due in per cent of the group that is worst off, at most 100; null with fewer than two
    /// groups that ask for more.
    pub isolation_pct: Option<f64>,
}

/// An export.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportReport {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Its backing.
    pub backing: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Requests aligned to this need no read-modify-write.
    pub block_bytes: u32,
    /// Whether new clients may open it.
    pub served: bool,
    /// The node of its local block device, `/dev/ublkb0`; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How the kernel serves that device; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ublk: Option<UblkReport>,
    /// Whether answered writes may be lost, so that FLUSH and FUA fail until it is opened again.
    pub damaged: bool,
    /// Why it is damaged; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// What an operator should know of its backing, for example that it uses the page cache although
    /// direct I/O was asked for; usually absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What waits for its backing, if that has not answered for 2 s; absent else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<UnansweredReport>,
    /// Present and true if flushes are answered without flushing; in capitals, because readers must not
    /// overlook it.
    #[serde(rename = "UNSAFE_FLUSH", skip_serializing_if = "std::ops::Not::not")]
    pub unsafe_flush: bool,
    /// Sums by kind of request.
    #[serde(flatten)]
    pub sums: KindsReport<TallyReport>,
}

/// A local block device, as its node's driver serves it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UblkReport {
    /// Its hardware queues, which the server's threads share.
    pub queues: u16,
    /// The driver's features in force: `zero_copy` (the backing uses the memory of requests), `user_copy` (data
    /// is copied between that memory and the server's), `recovery` (requests wait for the next server),
    /// `unprivileged`. With neither of the first two the driver copies data into buffers of the server.
    pub features: Vec<String>,
}

/// A local block device of an export.
pub(super) struct BlockDeviceReport {
    pub node: String,
    pub ublk: UblkReport,
}

/// I/O that a backing does not answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnansweredReport {
    /// The age of the oldest in seconds.
    pub oldest_s: f64,
    /// I/Os and fsyncs in flight.
    pub ios: u32,
}

/// A group on one device.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GroupReport {
    /// Its path.
    pub path: String,
    /// The device.
    pub device: String,
    /// Its weight.
    pub weight: u32,
    /// Number of its connections.
    pub connections: u32,
    /// Bytes of memory that it holds.
    pub memory_bytes: u64,
    /// Time in ns during which limiters kept at least one of its requests waiting.
    pub throttled_ns: u64,
    /// Mean number of its requests that wait here, those in the device not counted, over at least the
    /// last second.
    pub waiting: f64,
    /// The weight of its own queues among the groups below it, if set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u32>,
    /// Its priority level, if set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Its maximum rates as a line of `io.max`; null without.
    #[serde(rename = "io.max")]
    pub io_max: Option<String>,
    /// Its best-effort limits as a line of `io.low`; null without.
    #[serde(rename = "io.low")]
    pub io_low: Option<String>,
    /// Its latency target as a line of `io.latency`; null without.
    #[serde(rename = "io.latency")]
    pub io_latency: Option<String>,
    /// The scheduler's statistics of its service, if it keeps any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blkio: Option<Statistics>,
    /// Sums by kind of request.
    #[serde(flatten)]
    pub sums: KindsReport<TallyReport>,
    /// Latencies in ns by kind of request.
    pub latency_ns: KindsReport<LatencyReport>,
    /// What was due to it and what it got; null if it asks for no more than it gets.
    pub share: Option<ShareReport>,
    /// Histograms of the total time by kind: lower bound in ns and count. Only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_buckets: Option<KindsReport<Vec<(u64, u64)>>>,
}

/// The service due to and received by a group over at least the last second.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShareReport {
    /// What it is entitled to, in per cent of the device's service: by weight, at most what it would do
    /// if none of its requests waited, and of what others leave.
    pub due_pct: f64,
    /// What it got, in per cent.
    pub got_pct: f64,
    /// Got / due in per cent, at most 100.
    pub isolation_pct: f64,
    /// Mean number of its unanswered requests.
    pub outstanding: f64,
    /// Why its share was not kept; null if it was.
    pub why: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConnectionReport {
    /// The client: `pid:123` or `127.0.0.1:5000`.
    pub client: String,
    /// Its device.
    pub device: String,
    /// Its export; null if that was removed.
    pub export: Option<String>,
    /// The group charged for its I/O.
    pub group: Option<String>,
    /// Requests not yet answered and sent.
    pub in_flight: u32,
    /// Sums by kind of request.
    #[serde(flatten)]
    pub sums: KindsReport<TallyReport>,
}

/// Values by kind of request; only the kinds that occurred are present.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KindsReport<T> {
    /// Of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<T>,
    /// Of writes of data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<T>,
    /// Of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<T>,
    /// Of trims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<T>,
    /// Of zeroing; the bytes are those asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<T>,
}

impl<T> KindsReport<T> {
    /// From values in the order of [`hoistway_engine::counters::Counted::ALL`].
    pub(super) fn of([read, write, flush, discard, write_zeroes]: [Option<T>; 5]) -> Self {
        Self { read, write, flush, discard, write_zeroes }
    }
}

/// The sums of one kind of request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TallyReport {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Bytes of successful requests.
    pub bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Sum of the times from arrival to start, in ns.
    pub queue_ns: u64,
    /// Sum of the times from start to the end of the last part, in ns.
    pub service_ns: u64,
    /// Sum of the times from arrival to the reply, in ns.
    pub total_ns: u64,
}

impl From<&Tally> for TallyReport {
    fn from(tally: &Tally) -> Self {
        let Tally { requests, bytes, errors, queue_ns, service_ns, total_ns } = *tally;
        Self { requests, bytes, errors, queue_ns, service_ns, total_ns }
    }
}

/// Latencies of one kind of request, in ns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// From arrival to start.
    pub queue: QuantilesReport,
    /// From start to the end of the last part.
    pub service: QuantilesReport,
    /// From arrival to the reply.
    pub total: QuantilesReport,
}

/// Quantiles in ns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuantilesReport {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: u64,
}
