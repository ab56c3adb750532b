//! `hoistway top --metrics`: block devices and their control groups for Prometheus.
//!
//! ```text
//! sysfs, cgroup files -> sample -> interval of a second or more -> shares, causes \
//! blktrace -> times in the device, by cgroup                                      } -> OpenMetrics at the door
//! ```
//!
//! Promise  a scrape reads what the kernel counts; nothing is sampled between scrapes but the trace. What was
//!          switched on is switched off at the end, however this process ends.
//! Cost     of a scrape: a few files for each device and each of its groups.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use hoistway_experiment::Exit;
use hoistway_export::configuration::{Problem, Sourced, flags};
use hoistway_export::http::{Answer, Door};
use hoistway_export::metrics::block::{BlockDevice, BlockFlow, BlockGroup, BlockSnapshot, BlockTimes};
use hoistway_export::metrics::respond;
use hoistway_export::server::socket::listen;
use hoistway_linux::block_trace::{BOUNDS_NS, Direction, Times};

use super::kernel::Kernel;
use super::sample::{DeviceSample, Flow, GroupSample, Interval, Sample};
use super::shares::{self, Share};
use super::trace::Tracer;
use crate::exit::{Error, Outcome, Reporter};
use crate::interrupt::Interrupt;

/// Shares are those of at least this time: a second scraper does not shorten the first one's.
const INTERVAL_NS: u64 = 1_000_000_000;
/// A wait that a signal may miss, if another thread got it.
const TURN: Duration = Duration::from_secs(1);
/// Groups of a device with series: those with most requests. Prometheus advises against more series.
const GROUPS_MAX: usize = 1_000;
/// A share is missed below this part of what is due, as in the server's metrics.
const MISSED: f64 = 0.95;
/// A device that is idle for more than this part of the time is not saturated.
const IDLE: f64 = 0.05;
/// The label of requests if their cgroup was removed, or the kernel did not say which one it was.
const GONE: &str = "(gone)";

/// Serves until a signal.
pub fn run(address: &str, target: Option<&PathBuf>, reporter: Reporter) -> Outcome {
    let address = flags::metrics_address(address).map_err(|problems| usage(&problems))?;
    let interrupt = Interrupt::install()?;
    let mut exporter = Exporter::new(target, reporter)?;
    let listening = listen(&Sourced::new(address.value, &address.place)).map_err(|problem| usage(&[problem]))?;
    // A socket's file is removed when this is dropped.
    let place = listening.address.to_string();
    let (mut listening, mut file) = (listening, None);
    std::mem::swap(&mut listening.file, &mut file);
    let mut door = Door::new(listening, 0);
    reporter.note(format!("metrics at {place}"));
    let exit = loop {
        if let Some(exit) = interrupt.exit() {
            break exit;
        }
        door.turn(Some(TURN), &mut |request| {
            let text = || exporter.snapshot()?.encode().map_err(|_| "the metrics cannot be written down".to_owned());
            Answer::Response(respond(request, text))
        });
    };
    drop(file);
    exporter.tracer.end()?;
    // Its end by a signal is how it is meant to end.
    Ok(if exit == Exit::Interrupted || exit == Exit::Terminated { Exit::Done } else { exit })
}

fn usage(problems: &[Problem]) -> Error {
    let whats: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
    let help = problems.first().map_or(String::new(), |problem| problem.help.clone());
    Error::usage(whats.join("; "), help).at("--metrics")
}

/// The devices that are watched.
struct Exporter {
    /// The one that was asked for; none: all with a request queue.
    chosen: Option<PathBuf>,
    devices: BTreeMap<String, Watched>,
    tracer: Tracer,
}

/// A device, and its last interval.
struct Watched {
    kernel: Kernel,
    before: Sample,
    shares: BTreeMap<String, (f64, f64, Option<&'static str>)>,
}

impl Exporter {
    fn new(target: Option<&PathBuf>, reporter: Reporter) -> Result<Self, Error> {
        let mut exporter = Self { chosen: target.cloned(), devices: BTreeMap::new(), tracer: Tracer::new(reporter) };
        if let Some(path) = target {
            Kernel::new(path)?.note().into_iter().for_each(|note| reporter.note(note));
        }
        exporter.look()?;
        Ok(exporter)
    }

    /// Takes up devices that are new, and forgets those that are gone.
    fn look(&mut self) -> Result<(), Error> {
        let kernels = match &self.chosen {
            Some(path) => vec![Kernel::new(path)?],
            None => Kernel::all(),
        };
        let names: Vec<String> = kernels.iter().map(Kernel::name).collect();
        self.devices.retain(|name, _| names.contains(name));
        self.tracer.forget(&names);
        for (name, kernel) in names.into_iter().zip(kernels) {
            if !self.devices.contains_key(&name)
                && let Ok(before) = kernel.sample()
            {
                self.tracer.trace(&name);
                self.devices.insert(name, Watched { kernel, before, shares: BTreeMap::new() });
            }
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<BlockSnapshot, String> {
        self.look().map_err(|error| error.to_string())?;
        let mut snapshot = BlockSnapshot::default();
        for (name, watched) in &mut self.devices {
            // One that has gone just now.
            let Ok(sample) = watched.kernel.sample() else { continue };
            let times = self.tracer.times(name);
            snapshot.devices.extend(watched.device(sample, times));
        }
        Ok(snapshot)
    }
}

/// The times of a device by the inode of a cgroup, and how many events were lost.
pub type DeviceTimes = (Vec<(u64, Direction, Times)>, u64);

impl Watched {
    fn device(&mut self, sample: Sample, times: Option<DeviceTimes>) -> Option<BlockDevice> {
        let (has_cost_control, cost_model) = self.kernel.cost();
        let mut sample = sample;
        if let (Some((times, _)), Some(device)) = (&times, sample.devices.first_mut()) {
            self.add_times(device, times);
        }
        if sample.at_ns.saturating_sub(self.before.at_ns) >= INTERVAL_NS {
            let mut interval = Interval::between(&self.before, &sample);
            let seconds = interval.seconds();
            for group in interval.devices.iter_mut().flat_map(|device| &mut device.groups) {
                // Who has hardly a request in the device wants no more.
                group.waiting = shares::in_device(group, seconds);
            }
            self.shares = missed(&interval, has_cost_control);
            self.before = sample.clone();
        }
        let mut device = sample.devices.into_iter().next()?;
        let has_weights = has_cost_control || hoistway_linux::cgroup::has_weights(&device.scheduler);
        let all = device.groups.len();
        device.groups.sort_by_key(|group| std::cmp::Reverse(group.flows.iter().map(|flow| flow.ios).sum::<u64>()));
        device.groups.truncate(GROUPS_MAX);
        let flows = device.flows.clone().unwrap_or_default();
        let lost = times.as_ref().map(|(_, lost)| *lost);
        let mut groups: Vec<BlockGroup> = device
            .groups
            .iter()
            .map(|group| BlockGroup {
                path: group.path.clone(),
                weight: has_weights.then_some(group.weight),
                flows: Some([&group.flows[0], &group.flows[1]].map(flow)),
                share: self.shares.get(&group.path).copied(),
                service: [None, None],
            })
            .collect();
        if let Some((times, _)) = times {
            attribute(&mut groups, &times, |path| self.kernel.group_inode(path));
        }
        Some(BlockDevice {
            queue_depth: device.depth,
            in_flight: device.in_flight,
            busy_ns: device.busy_ns.unwrap_or(0),
            flows: [&flows[0], &flows[1]].map(flow),
            request_ns: [&flows[0], &flows[1]].map(|flow| flow.service_ns.unwrap_or(0)),
            has_cost_control,
            cost_model,
            trace: lost,
            groups_left_out: (all - device.groups.len()) as u64,
            groups,
            name: device.name,
            scheduler: device.scheduler,
        })
    }
}

impl Watched {
    /// Adds the times in the device to the groups' counts.
    fn add_times(&self, device: &mut DeviceSample, times: &[(u64, Direction, Times)]) {
        for group in &mut device.groups {
            let inode = self.kernel.group_inode(&group.path);
            for (at, direction) in [Direction::Read, Direction::Write].into_iter().enumerate() {
                let own = times.iter().find(|(it, of, _)| Some(*it) == inode && *of == direction);
                group.flows[at].service_ns = Some(own.map_or(0, |(.., times)| times.sum_ns));
            }
        }
    }
}

fn flow(flow: &Flow) -> BlockFlow {
    BlockFlow { requests: flow.ios, bytes: flow.bytes }
}

/// What each group with requests was due and got, and why it got less.
fn missed(interval: &Interval, has_cost_control: bool) -> BTreeMap<String, (f64, f64, Option<&'static str>)> {
    let Some(device) = interval.devices.first() else { return BTreeMap::new() };
    let shares = shares::of(device, interval.seconds());
    let busy = device.busy_ns.unwrap_or(0) as f64 / interval.length_ns as f64;
    let with_requests = device.groups.iter().zip(shares).filter(|(group, _)| shares::bytes(group) > 0);
    with_requests
        .map(|(group, share)| {
            let cause = cause(device, group, share, (busy, has_cost_control));
            (group.path.clone(), (share.due_percent / 100.0, share.got_percent / 100.0, cause))
        })
        .collect()
}

/// Why a group got less than its due; none if it did not. The kernel does not count the requests that wait, so a
/// group that asks for little cannot be told from one that is kept short.
fn cause(
    device: &DeviceSample,
    group: &GroupSample,
    share: Share,
    (busy, has_cost_control): (f64, bool),
) -> Option<&'static str> {
    if share.got_percent >= MISSED * share.due_percent {
        return None;
    }
    Some(if !has_cost_control && !hoistway_linux::cgroup::has_weights(&device.scheduler) {
        "ignores_weights"
    } else if !group.limit.is_empty() {
        "limit"
    } else if busy < 1.0 - IDLE {
        "not_saturated"
    } else {
        "not_known"
    })
}

/// Gives the times to the groups with their inodes; those of others, to a group of their own.
fn attribute(groups: &mut Vec<BlockGroup>, times: &[(u64, Direction, Times)], inode: impl Fn(&str) -> Option<u64>) {
    let by_inode: BTreeMap<u64, usize> =
        groups.iter().enumerate().filter_map(|(at, group)| Some((inode(&group.path)?, at))).collect();
    let mut sums: BTreeMap<(usize, Direction), Times> = BTreeMap::new();
    let gone = groups.len();
    for (group, direction, times) in times {
        let at = by_inode.get(group).copied().unwrap_or(gone);
        sums.entry((at, *direction)).or_default().merge(times);
    }
    if sums.keys().any(|(at, _)| *at == gone) {
        groups.push(BlockGroup { path: GONE.to_owned(), ..BlockGroup::default() });
    }
    for ((at, direction), times) in sums {
        let bounds = BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
        let buckets = bounds.zip(times.buckets).collect();
        groups[at].service[direction as usize] = Some(BlockTimes { buckets, sum_s: times.sum_ns as f64 / 1e9 });
    }
}

impl Kernel {
    /// All disks with a request queue and a size.
    fn all() -> Vec<Self> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let disks = entries.filter(|entry| {
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            entry.path().join("queue/scheduler").exists() && read("size").trim() != "0"
        });
        // In the names of sysfs a slash is an exclamation mark.
        let path = |entry: fs::DirEntry| format!("/dev/{}", entry.file_name().to_string_lossy().replace('!', "/"));
        disks.filter_map(|entry| Self::new(path(entry).as_ref()).ok()).collect()
    }

    /// The inode of a group's directory.
    fn group_inode(&self, path: &str) -> Option<u64> {
        let hierarchy = self.hierarchy()?;
        let below = if path == super::kernel::ROOT { "" } else { path };
        Some(fs::metadata(hierarchy.mount.join(below)).ok()?.ino())
    }

    /// Whether io.cost is on, and the numbers of its model.
    fn cost(&self) -> (bool, Vec<(String, f64)>) {
        let Some(hierarchy) = self.hierarchy().filter(|it| it.has_cost_control(&self.number())) else {
            return (false, Vec::new());
        };
        let text = fs::read_to_string(hierarchy.mount.join("io.cost.model")).unwrap_or_default();
        (true, coefficients(&text, &self.number()))
    }
}

/// The numbers in a device's line: `8:0 ctrl=user model=linear rbps=1000 ...`.
fn coefficients(text: &str, device: &str) -> Vec<(String, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' ')).unwrap_or("");
    let pairs = line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str, weight: u32, bytes: u64, limit: &str) -> GroupSample {
        let flows = [Flow { ios: bytes / 4096, bytes, ..Flow::default() }, Flow::default()];
        GroupSample { path: path.into(), weight, flows, limit: limit.into(), ..GroupSample::default() }
    }

    fn causes(scheduler: &str, busy_ns: u64, groups: Vec<GroupSample>) -> Vec<Option<&'static str>> {
        let device =
            DeviceSample { scheduler: scheduler.into(), busy_ns: Some(busy_ns), groups, ..DeviceSample::default() };
        let interval = Interval { length_ns: 1_000_000_000, devices: vec![device] };
        missed(&interval, false).into_values().map(|(.., cause)| cause).collect()
    }

    #[test]
    fn a_missed_share_has_the_cause_that_the_kernel_shows() {
        let even = || vec![group("a", 300, 4_096_000, ""), group("b", 100, 4_096_000, "")];
        assert_eq!(causes("mq-deadline", 1_000_000_000, even()), [Some("ignores_weights"), None]);
        assert_eq!(causes("bfq", 1_000_000_000, even()), [Some("not_known"), None]);
        assert_eq!(causes("bfq", 500_000_000, even()), [Some("not_saturated"), None]);
        let kept = vec![group("a", 300, 12_288_000, ""), group("b", 100, 4_096_000, ""), group("c", 900, 0, "")];
        assert_eq!(causes("bfq", 1_000_000_000, kept), [None, None], "a group without requests has no share");
    }

    #[test]
    fn times_of_groups_that_are_gone_are_not_lost() {
        let mut groups = vec![BlockGroup { path: "a".into(), ..BlockGroup::default() }];
        let mut times = Times::default();
        times.add(15_000);
        let all =
            [(7, Direction::Read, times.clone()), (8, Direction::Read, times.clone()), (0, Direction::Read, times)];
        attribute(&mut groups, &all, |_| Some(7));
        let counts: Vec<(&str, u64)> = groups
            .iter()
            .map(|it| (it.path.as_str(), it.service[0].as_ref().unwrap().buckets.iter().map(|(_, count)| count).sum()))
            .collect();
        assert_eq!(counts, [("a", 1), (GONE, 2)]);
    }

    #[test]
    fn coefficients_are_the_numbers_of_the_devices_line() {
        let text = "7:0 ctrl=user model=linear rbps=1\n8:0 ctrl=auto model=linear rbps=174019176 rseqiops=41708\n";
        let expected = [("rbps".to_owned(), 174_019_176.0), ("rseqiops".to_owned(), 41_708.0)];
        assert_eq!(coefficients(text, "8:0"), expected);
        assert_eq!(coefficients(text, "8:1"), []);
    }
}
