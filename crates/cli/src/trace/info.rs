//! `hoistway trace info`: the contents of a trace, in one pass and with bounded memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use hoistway_block::{DeviceNumber, Flags, Nanos, Operation};
use hoistway_experiment::{Exit, Histogram};
use hoistway_workload::trace::{Action, Item, Record};
use serde_json::{Value, json};

use super::open::{How, Opened};
use crate::exit::{Error, Outcome, Reporter, print};
use crate::trace::arguments::InfoArguments;

/// Largest number of processes, groups and devices counted; the others are left out.
const MAX_COUNTED: usize = 65_536;
/// Largest number of requests whose completion is awaited.
const MAX_OUTSTANDING: usize = 1 << 18;
/// Number of flags, devices, processes and groups in the text.
const SHOWN: usize = 8;

const FLAGS: [(&str, Flags); 6] = [
    ("preflush", Flags::PREFLUSH),
    ("fua", Flags::FUA),
    ("readahead", Flags::READAHEAD),
    ("sync", Flags::SYNC),
    ("meta", Flags::META),
    ("idle", Flags::IDLE),
];

/// Runs the subcommand.
pub fn run(arguments: &InfoArguments, reporter: Reporter) -> Outcome {
    let mut all = Vec::new();
    for (index, path) in arguments.files.iter().enumerate() {
        let mut trace = Opened::new(path, How::new(arguments.format.as_deref(), &arguments.reading))?;
        let mut content = Content::default();
        while let Some(item) = trace.next()? {
            content.add(item);
        }
        trace.conclude(reporter)?;
        if arguments.json {
            all.push(content.json(&trace, &path.display().to_string()));
        } else {
            let gap = if index == 0 { "" } else { "\n" };
            print(&format!("{gap}{}\n{}", trace.summary(), content.text()))?;
        }
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&Value::Array(all));
        print(&format!("{}\n", text.map_err(|error| Error::failed(error.to_string(), ""))?))?;
    }
    Ok(Exit::Done)
}

/// Counts by key, with a bound on the number of keys.
struct Counts<K>(BTreeMap<K, u64>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Counts<K> {
    fn add(&mut self, key: K) {
        if self.0.len() < MAX_COUNTED || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// The entries with the largest counts first.
    fn largest(&self) -> Vec<(&K, u64)> {
        let mut all: Vec<(&K, u64)> = self.0.iter().map(|(key, count)| (key, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

/// The I/Os at one stage.
#[derive(Default)]
struct Ios {
    operations: BTreeMap<&'static str, (u64, u64)>,
    flags: BTreeMap<&'static str, u64>,
    processes: Counts<u32>,
    groups: Counts<u64>,
    devices: Counts<DeviceNumber>,
    /// By power of two in bytes.
    sizes: BTreeMap<u64, u64>,
    gaps: Histogram,
    last_ns: Option<Nanos>,
    /// End of each device's last I/O.
    ends: BTreeMap<DeviceNumber, u64>,
    sequential: u64,
    count: u64,
    span_bytes: u64,
    waiting: Waiting,
}

/// The contents of a trace.
#[derive(Default)]
struct Content {
    actions: BTreeMap<&'static str, u64>,
    messages: u64,
    processes: BTreeMap<u32, String>,
    groups: BTreeMap<u64, String>,
    devices: BTreeMap<DeviceNumber, String>,
    queued: Ios,
    issued: Ios,
    /// Completions while nothing was queued or issued.
    completed: Ios,
    errors: u64,
}

impl Content {
    fn add(&mut self, item: Item) {
        match item {
            Item::Record(record) => self.record(&record),
            Item::Message { .. } => self.messages += 1,
            Item::Process { pid, name } => put(&mut self.processes, pid, name),
            Item::Group { group, name } => put(&mut self.groups, group, name),
            Item::Device { device, name } => put(&mut self.devices, device, name),
            Item::Clock { .. } => {}
        }
    }

    fn record(&mut self, record: &Record) {
        *self.actions.entry(record.action.text()).or_default() += 1;
        match record.action {
            Action::Queued => self.queued.begins(record),
            Action::Issued => self.issued.begins(record),
            Action::Completed => {
                self.errors += u64::from(record.error != 0);
                self.queued.waiting.completed(record);
                self.issued.waiting.completed(record);
                if self.queued.count == 0 && self.issued.count == 0 {
                    self.completed.counts(record);
                }
            }
            _ => {}
        }
    }

    /// The stage that counts as I/Os: queued; if that is missing, issued; else completed.
    fn ios(&self) -> (&Ios, &'static str) {
        match (self.queued.count, self.issued.count) {
            (1.., _) => (&self.queued, "Q"),
            (0, 1..) => (&self.issued, "D"),
            (0, 0) => (&self.completed, "C"),
        }
    }

    fn device_name(&self, device: DeviceNumber) -> String {
        self.devices.get(&device).cloned().unwrap_or_else(|| device.to_string())
    }

    fn group_name(&self, group: u64) -> String {
        self.groups.get(&group).cloned().unwrap_or_else(|| if group == 0 { "none".into() } else { group.to_string() })
    }

    fn text(&self) -> String {
        let (ios, stage) = self.ios();
        let mut text = String::new();
        let mut line = |name: &str, values: String| _ = writeln!(text, "  {name:<12}{values}");
        let pairs = |pairs: Vec<(String, u64)>| {
            let shown: Vec<String> = pairs.iter().take(SHOWN).map(|(name, count)| format!("{name} {count}")).collect();
            let more = pairs.len().saturating_sub(SHOWN);
            shown.join("  ") + &if more > 0 { format!("  and {more} more") } else { String::new() }
        };
        let actions = self.actions.iter().map(|(action, count)| format!("{action} {count}")).collect::<Vec<_>>();
        line("events", format!("{}  messages {}  failed {}", actions.join("  "), self.messages, self.errors));
        let operations =
            ios.operations.iter().map(|(name, (count, bytes))| format!("{name} {count} ({})", size(*bytes)));
        line("I/Os", format!("{} by {stage}: {}", ios.count, operations.collect::<Vec<_>>().join("  ")));
        line("flags", pairs(ios.flags.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()));
        let devices = ios.devices.largest().into_iter().map(|(device, count)| (self.device_name(*device), count));
        line("devices", format!("{}  up to {}", pairs(devices.collect()), size(ios.span_bytes)));
        let name = |pid: &u32| self.processes.get(pid).map_or_else(|| pid.to_string(), |name| format!("{name}[{pid}]"));
        line("processes", pairs(ios.processes.largest().into_iter().map(|(pid, count)| (name(pid), count)).collect()));
        if ios.groups.0.keys().any(|group| *group != 0) {
            let groups = ios.groups.largest().into_iter().map(|(group, count)| (self.group_name(*group), count));
            line("groups", pairs(groups.collect()));
        }
        let share = |count: u64| count as f64 * 100.0 / ios.count.max(1) as f64;
        let sizes = ios.sizes.iter().map(|(bytes, count)| format!("{} {:.1}%", size(*bytes), share(*count)));
        line("sizes from", sizes.collect::<Vec<_>>().join("  "));
        line("gaps", times(&ios.gaps));
        line("sequential", format!("{:.1}% begin where the device's last one ended", share(ios.sequential)));
        if !ios.waiting.latency.is_empty() {
            line("in flight", format!("{} at most", ios.waiting.most));
        }
        for (name, latency) in self.latencies() {
            line(name, times(latency));
        }
        text
    }

    fn latencies(&self) -> Vec<(&'static str, &Histogram)> {
        let all = [("q2c", &self.queued.waiting.latency), ("d2c", &self.issued.waiting.latency)];
        all.into_iter().filter(|(_, latency)| !latency.is_empty()).collect()
    }

    fn json(&self, trace: &Opened, name: &str) -> Value {
        let (ios, stage) = self.ios();
        let operations: BTreeMap<_, _> = ios
            .operations
            .iter()
            .map(|(name, (count, bytes))| (*name, json!({"count": count, "bytes": bytes})))
            .collect();
        let processes: Vec<Value> = ios
            .processes
            .largest()
            .into_iter()
            .map(|(pid, count)| json!({"pid": pid, "comm": self.processes.get(pid), "count": count}))
            .collect();
        let devices: Vec<Value> = ios
            .devices
            .largest()
            .into_iter()
            .map(|(device, count)| json!({"device": self.device_name(*device), "count": count}))
            .collect();
        let groups: Vec<Value> = ios
            .groups
            .largest()
            .into_iter()
            .map(|(group, count)| json!({"group": self.group_name(*group), "count": count}))
            .collect();
        let latencies: BTreeMap<_, _> = self.latencies().into_iter().map(|(name, it)| (name, figures(it))).collect();
        json!({
            "file": name,
            "format": trace.format().name,
            "duration_ns": trace.duration_ns(),
            "events": self.actions,
            "messages": self.messages,
            "failed": self.errors,
            "stage": stage,
            "ios": ios.count,
            "operations": operations,
            "flags": ios.flags,
            "devices": devices,
            "span_bytes": ios.span_bytes,
            "processes": processes,
            "groups": groups,
            "size_bytes": ios.sizes,
            "gap_ns": figures(&ios.gaps),
            "sequential_ios": ios.sequential,
            "in_flight_max": ios.waiting.most,
            "latency_ns": latencies,
        })
    }
}

fn put<K: Ord>(names: &mut BTreeMap<K, String>, key: K, name: String) {
    if names.len() < MAX_COUNTED || names.contains_key(&key) {
        names.insert(key, name);
    }
}

impl Ios {
    /// Counts an I/O that a completion will follow.
    fn begins(&mut self, record: &Record) {
        self.counts(record);
        self.waiting.begun(record);
    }

    fn counts(&mut self, record: &Record) {
        let (count, bytes) = self.operations.entry(name_of(record.operation)).or_default();
        (*count, *bytes) = (*count + 1, bytes.saturating_add(record.length_bytes));
        for (name, _) in FLAGS.iter().filter(|(_, flag)| record.flags.contains(*flag)) {
            *self.flags.entry(name).or_default() += 1;
        }
        self.processes.add(record.pid);
        self.groups.add(record.group);
        self.devices.add(record.device);
        if record.length_bytes > 0 {
            let power = 1_u64 << record.length_bytes.ilog2();
            *self.sizes.entry(power).or_default() += 1;
        }
        if let Some(last_ns) = self.last_ns.replace(record.at_ns) {
            self.gaps.add(record.at_ns - last_ns);
        }
        if record.operation != Operation::Flush && self.ends.len() < MAX_COUNTED {
            let end = self.ends.insert(record.device, record.end_bytes());
            self.sequential += u64::from(end == Some(record.offset_bytes));
        }
        self.count += 1;
        self.span_bytes = self.span_bytes.max(record.end_bytes());
    }
}

/// Device, whether it reads, first byte, and a running number that makes the key unique.
type Key = (DeviceNumber, bool, u64, u64);

/// I/Os that have begun and not completed.
#[derive(Default)]
struct Waiting {
    /// End and start time of each.
    all: BTreeMap<Key, (u64, Nanos)>,
    /// Completion times of I/Os whose record includes them.
    ends: std::collections::BinaryHeap<std::cmp::Reverse<Nanos>>,
    numbers: u64,
    most: usize,
    latency: Histogram,
}

impl Waiting {
    fn begun(&mut self, record: &Record) {
        while self.ends.peek().is_some_and(|end| end.0 <= record.at_ns) {
            self.ends.pop();
        }
        if let Some(latency_ns) = record.latency_ns {
            self.latency.add(latency_ns);
            self.ends.push(std::cmp::Reverse(record.at_ns.saturating_add(latency_ns)));
        } else {
            self.numbers += 1;
            let key = (record.device, record.operation == Operation::Read, record.offset_bytes, self.numbers);
            self.all.insert(key, (record.end_bytes(), record.at_ns));
        }
        // A trace without completions must not fill the memory.
        if self.all.len() > MAX_OUTSTANDING {
            self.all.clear();
        }
        if self.ends.len() > MAX_OUTSTANDING {
            self.ends.clear();
        }
        let in_flight = self.ends.len() + if self.latency.is_empty() { 0 } else { self.all.len() };
        self.most = self.most.max(in_flight);
    }

    fn completed(&mut self, record: &Record) {
        let is_read = record.operation == Operation::Read;
        let first = (record.device, is_read, record.offset_bytes, 0);
        // A flush has an empty range; the addition makes the range of keys contain it.
        let last = (record.device, is_read, record.end_bytes().max(record.offset_bytes + 1), 0);
        let inside = self.all.range(first..last).filter(|(_, (end, _))| *end <= record.end_bytes());
        for key in inside.map(|(key, _)| *key).collect::<Vec<_>>() {
            if self.latency.is_empty() {
                self.most = self.most.max(self.all.len());
            }
            if let Some((_, at_ns)) = self.all.remove(&key) {
                self.latency.add(record.at_ns.saturating_sub(at_ns));
            }
        }
    }
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write | Operation::ZoneAppend => "write",
        Operation::Discard | Operation::SecureErase => "discard",
        Operation::WriteZeroes => "write-zeroes",
        Operation::Flush => "flush",
        Operation::Passthrough => "passthrough",
    }
}

fn figures(times: &Histogram) -> Value {
    json!({
        "n": times.count(),
        "mean": times.mean_ns(),
        "p50": times.percentile_ns(50.0),
        "p99": times.percentile_ns(99.0),
        "max": times.max_ns(),
    })
}

fn times(times: &Histogram) -> String {
    if times.is_empty() {
        return "-".to_owned();
    }
    let [p50, p90, p99] = [50.0, 90.0, 99.0].map(|percent| times.percentile_ns(percent) as f64 / 1e6);
    let (mean, max) = (times.mean_ns() / 1e6, times.max_ns() as f64 / 1e6);
    format!("mean {mean:.3} ms  p50 {p50:.3}  p90 {p90:.3}  p99 {p99:.3}  max {max:.3}  n {}", times.count())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..10_737_418_240 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
