//! What the page gets sixty times a second: plain figures, from which it draws everything.

use hoistway_device::{Activity, DieActivity};
use hoistway_experiment::histogram::bucket_of;
use hoistway_experiment::{Histogram, Measurement};
use hoistway_simulator::{Dispatch, Served, Session};
use serde::Serialize;

/// Buckets of fio's histograms in one bucket of a frame: eight per power of two.
const FINE_PER_BUCKET: usize = 8;
/// Dispatches, and completions, in a frame: of more, the latest.
const DISPATCHES: usize = 512;

/// The state of all lanes at one time.
#[derive(Debug, Serialize)]
pub struct Frame<'a> {
    /// The time up to which all lanes have advanced.
    pub now_ns: u64,
    /// Virtual nanoseconds for each of the last second's nanoseconds.
    pub pace: f64,
    /// The lanes.
    pub lanes: Vec<LaneFrame>,
    /// Whether the run is over.
    pub over: bool,
    /// Changes of a link that are still to come.
    pub planned: usize,
    /// All changes so far, if there is a new one.
    pub changes: Option<&'a [super::state::Change]>,
}

/// Number, time, first sector, sectors, kind, tenant, reason.
type DispatchRow = (u64, u64, u64, u32, char, Option<u16>, Option<u8>);

/// One lane.
#[derive(Debug, Serialize)]
pub struct LaneFrame {
    /// The tenants.
    pub groups: Vec<GroupFrame>,
    /// How often each reason was given.
    pub reasons: Vec<u64>,
    /// Why requests are held at the moment, as an index of the reasons.
    pub held: Option<u8>,
    /// Requests that the device got.
    pub dispatches: Vec<DispatchRow>,
    /// Number, time in the device.
    pub served: Vec<(u64, u64)>,
    /// What the device did, at several times since the last frame.
    pub device: Vec<DeviceSample>,
    /// Why the lane cannot go on; usually nothing.
    pub failed: Option<String>,
    /// The figures of the whole run, once it is over.
    pub result: Option<LaneResult>,
}

/// One tenant in one lane.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupFrame {
    pub weight: u32,
    pub rests: bool,
    /// The bytes per second that it is entitled to, if that is known.
    pub due_bytes_per_s: Option<u64>,
    pub bytes: u64,
    pub ios: u64,
    pub outstanding: u32,
    pub in_device: u32,
    /// Latencies since the last frame: bucket, count. Bucket b begins at 2^(b/8 + 3) ns or so: see
    /// [`bucket_ns`].
    pub latencies: Vec<(u16, u64)>,
}

/// The parts of a device at one time.
#[derive(Debug, Serialize)]
pub struct DeviceSample {
    pub at_ns: u64,
    /// For each disk: 0 idle, 1 reads, 2 writes from its cache; and the sector of that work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<(u8, Option<u64>)>,
    /// For each channel `0` or `1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channels: String,
    /// For each die `0` idle, `1` reads, `2` programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dies: String,
}

/// The figures of a whole run, as `hoistway test` reports them.
#[derive(Debug, Serialize)]
pub struct LaneResult {
    pub window_ns: u64,
    pub groups: Vec<GroupResult>,
}

/// The figures of one tenant in a whole run.
#[derive(Debug, Serialize)]
pub struct GroupResult {
    pub bytes: u64,
    pub ios: u64,
    pub latency_ns_p50: u64,
    pub latency_ns_p99: u64,
    pub latency_ns_max: u64,
}

impl LaneResult {
    /// The figures of a measurement.
    pub fn of(measurement: &Measurement) -> Self {
        let group = |group: &hoistway_experiment::measurement::GroupMeasurement| {
            let latency = group.latency();
            GroupResult {
                bytes: group.bytes(),
                ios: group.ios(),
                latency_ns_p50: latency.percentile_ns(50.0),
                latency_ns_p99: latency.percentile_ns(99.0),
                latency_ns_max: latency.max_ns(),
            }
        };
        Self { window_ns: measurement.window_ns, groups: measurement.groups.iter().map(group).collect() }
    }
}

impl DeviceSample {
    /// What the device does now; nothing for a device without parts.
    pub fn of(session: &Session) -> Option<Self> {
        let at_ns = session.now_ns();
        let empty = Self { at_ns, disks: Vec::new(), channels: String::new(), dies: String::new() };
        match session.activity() {
            Activity::Whole => None,
            Activity::Disks(disks) => {
                let disk = |disk: &hoistway_device::DiskActivity| {
                    let does = if disk.works_at.is_none() { 0 } else { 1 + u8::from(disk.is_destaging) };
                    (does, disk.works_at)
                };
                Some(Self { disks: disks.iter().map(disk).collect(), ..empty })
            }
            Activity::Flash { channels, dies } => {
                let channel = |busy: &bool| if *busy { '1' } else { '0' };
                let die = |die: &DieActivity| match die {
                    DieActivity::Idle => '0',
                    DieActivity::Reads => '1',
                    DieActivity::Programs => '2',
                };
                let channels = channels.iter().map(channel).collect();
                Some(Self { channels, dies: dies.iter().map(die).collect(), ..empty })
            }
        }
    }
}

/// The latencies of one tenant by bucket, as far as they have been reported.
#[derive(Clone, Debug, Default)]
pub struct ReportedLatencies(Vec<u64>);

impl ReportedLatencies {
    /// The counts since the last call.
    pub fn since_last<'a>(&mut self, histograms: impl Iterator<Item = &'a Histogram>) -> Vec<(u16, u64)> {
        let mut counts = vec![0_u64; hoistway_experiment::histogram::BUCKETS / FINE_PER_BUCKET + 1];
        for (bucket, count) in histograms.flat_map(Histogram::bins) {
            counts[bucket / FINE_PER_BUCKET] += count;
        }
        self.0.resize(counts.len(), 0);
        let grown = (0_u16..).zip(counts.iter().zip(&self.0)).filter(|(_, (now, before))| now > before);
        let news = grown.map(|(bucket, (now, before))| (bucket, now - before)).collect();
        self.0 = counts;
        news
    }
}

/// The first latency of each bucket of a frame, for the page.
pub fn bucket_starts_ns() -> Vec<u64> {
    let all = hoistway_experiment::histogram::BUCKETS / FINE_PER_BUCKET;
    let mut starts: Vec<u64> = Vec::with_capacity(all);
    for bucket in 0..all {
        let from = starts.last().copied().unwrap_or(0);
        // The lower edge lies between the middle of the fine bucket before and its own.
        let own = hoistway_experiment::histogram::bucket_ns(bucket * FINE_PER_BUCKET);
        let mut low = from;
        let mut high = own;
        while low < high {
            let middle = low + (high - low) / 2;
            if bucket_of(middle) < bucket * FINE_PER_BUCKET { low = middle + 1 } else { high = middle }
        }
        starts.push(low);
    }
    starts
}

/// The latest dispatches, as rows.
pub fn rows(dispatches: &[Dispatch]) -> Vec<DispatchRow> {
    let row =
        |it: &Dispatch| (it.number, it.at_ns, it.extent.first_sector, it.extent.sectors, it.kind, it.group, it.reason);
    dispatches[dispatches.len().saturating_sub(DISPATCHES)..].iter().map(row).collect()
}

/// The latest completions, as rows.
pub fn completions(served: &[Served]) -> Vec<(u64, u64)> {
    let row = |it: &Served| (it.number, it.service_ns);
    served[served.len().saturating_sub(DISPATCHES)..].iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::State;

    /// A session on this device after 20 ms of its load.
    fn session(device: &str) -> Session {
        let mut state = State::first(device, &["none".to_owned()]).unwrap();
        state.length_ms = 40;
        state.tenants[0].read = 50;
        let mut session = Session::start(&state.experiments().unwrap()[0], &[]).unwrap();
        session.advance(20_000_000).unwrap();
        session
    }

    #[test]
    fn a_device_is_told_by_its_parts() {
        let array = DeviceSample::of(&session("raid5x12")).unwrap();
        assert_eq!((array.at_ns, array.disks.len()), (20_000_000, 12));
        assert_eq!((array.channels.as_str(), array.dies.as_str()), ("", ""));
        for (does, sector) in &array.disks {
            assert!(*does <= 2 && (*does == 0) == sector.is_none(), "{does} at {sector:?}");
        }
        assert!(array.disks.iter().any(|(does, _)| *does > 0), "100 requests are in flight");
        let flash = DeviceSample::of(&session("ssd")).unwrap();
        assert!(flash.disks.is_empty() && flash.channels.chars().all(|it| "01".contains(it)));
        assert!(flash.dies.len() > flash.channels.len() && flash.dies.chars().all(|it| "012".contains(it)));
        assert!(flash.dies.contains('1') && flash.dies.contains('2'), "reads and writes: {}", flash.dies);
        assert_eq!(serde_json::to_value(&flash).unwrap().as_object().unwrap().len(), 3, "no empty disks");
    }

    #[test]
    fn of_many_dispatches_the_latest_are_told() {
        let mut session = session("ssd");
        let (dispatches, served) = (session.take_dispatches(), session.take_served());
        assert!(dispatches.len() > DISPATCHES && served.len() > DISPATCHES, "{}", dispatches.len());
        let (told, ended) = (rows(&dispatches), completions(&served));
        assert_eq!((told.len(), ended.len()), (DISPATCHES, DISPATCHES));
        assert_eq!(told.last().unwrap().0, dispatches.last().unwrap().number);
        assert_eq!(ended.last(), Some(&(served.last().unwrap().number, served.last().unwrap().service_ns)));
        assert_eq!(rows(&dispatches[..3]).len(), 3);
    }

    #[test]
    fn the_result_adds_up_what_the_groups_did() {
        let mut session = session("ssd");
        session.advance(40_000_000).unwrap();
        let result = LaneResult::of(&session.finish().unwrap());
        assert_eq!((result.window_ns, result.groups.len()), (40_000_000, 3));
        for group in &result.groups {
            assert!(group.ios > 0 && group.bytes == group.ios * 4_096);
            assert!(group.latency_ns_p50 <= group.latency_ns_p99 && group.latency_ns_p99 <= group.latency_ns_max);
        }
    }

    #[test]
    fn buckets_begin_where_the_fine_ones_do() {
        let starts = bucket_starts_ns();
        assert_eq!(starts[..3], [0, 8, 16]);
        for (bucket, start) in starts.iter().enumerate() {
            assert_eq!(bucket_of(*start) / FINE_PER_BUCKET, bucket);
            assert!(bucket == 0 || bucket_of(start - 1) / FINE_PER_BUCKET == bucket - 1);
        }
    }

    #[test]
    fn latencies_are_reported_once() {
        let (mut reported, mut histogram) = (ReportedLatencies::default(), Histogram::new());
        histogram.add(100);
        assert_eq!(reported.since_last([&histogram].into_iter()).len(), 1);
        assert_eq!(reported.since_last([&histogram].into_iter()), []);
        histogram.add(100);
        histogram.add(1_000_000);
        let news = reported.since_last([&histogram].into_iter());
        assert_eq!(news.iter().map(|(_, count)| count).sum::<u64>(), 2);
    }
}
