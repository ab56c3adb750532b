//! An interval as text: a line for the device, a header, a line per group. Source:
//! docs/specifications/harness.md, section 10.3.

use std::cmp::Ordering;
use std::collections::HashMap;

use hoistway_block::Nanos;
use hoistway_experiment::printable;

use super::sample::{DeviceSample, Flow, GroupSample, Interval, quantile_of};
use super::shares::{self, Share};

/// The order of the groups.
#[derive(clap::ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Largest share first
    Share,
    /// Most requests per second first
    Iops,
    /// Most bytes per second first
    Bw,
    /// Highest 99th percentile of latency first
    P99,
    /// By path
    Name,
}

impl Sort {
    /// The next one, cyclically.
    pub const fn next(self) -> Self {
        match self {
            Sort::Share => Sort::Iops,
            Sort::Iops => Sort::Bw,
            Sort::Bw => Sort::P99,
            Sort::P99 => Sort::Name,
            Sort::Name => Sort::Share,
        }
    }

    /// The name on the command line.
    pub const fn text(self) -> &'static str {
        match self {
            Sort::Share => "share",
            Sort::Iops => "iops",
            Sort::Bw => "bw",
            Sort::P99 => "p99",
            Sort::Name => "name",
        }
    }
}

/// A backlogged group is marked when it differs from its due share by more than this, in percentage
/// points.
const FAR: f64 = 5.0;
/// Number of intervals kept for the last column.
const REMEMBERED: usize = 30;
/// Spaces between two columns.
pub const GAP: usize = 2;
/// The columns that a narrow terminal does not show, the first to go first.
const OMITTED: [&str; 8] = ["HIST", "LIMIT", "QUEUED", "THR%", "WEIGHT", "INFL", "p50ms", "ISOL%"];
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A group of an interval.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its path.
    pub group: String,
    /// Its name in the tree of groups, indented by its depth; elsewhere the path.
    pub label: String,
    /// Its weight.
    pub weight: u32,
    /// Due and actual share.
    pub share: Share,
    /// Bytes per second, reads and writes.
    pub bytes_per_s: [f64; 2],
    /// Requests per second, reads and writes.
    pub ios_per_s: [f64; 2],
    /// Mean number in the device; none if not counted.
    pub in_flight: Option<f64>,
    /// Mean number that wait for it.
    pub queued: Option<f64>,
    /// Median and 99th percentile of latency, in nanoseconds.
    pub latency_ns: [Option<Nanos>; 2],
    /// Part of the interval in which it had work but a limit held it, in per cent; none if not
    /// counted.
    pub throttled_percent: Option<f64>,
    /// Its limits.
    pub limit: String,
    /// Why its share was not kept, if known.
    pub why: Option<String>,
}

impl Line {
    /// A group with the increases of an interval of `seconds`.
    pub fn new(group: &GroupSample, share: Share, seconds: f64) -> Self {
        Line {
            group: group.path.clone(),
            label: group.path.clone(),
            weight: group.weight,
            share,
            bytes_per_s: [0, 1].map(|at| group.flows[at].bytes as f64 / seconds),
            ios_per_s: [0, 1].map(|at| group.flows[at].ios as f64 / seconds),
            in_flight: shares::in_device(group, seconds),
            queued: shares::queued(group, seconds),
            latency_ns: [0.5, 0.99].map(|part| quantile_of(&group.flows, part)),
            throttled_percent: group.throttled_ns.map(|ns| (ns as f64 / 1e7 / seconds).min(100.0)),
            limit: group.limit.clone(),
            why: group.why.clone(),
        }
    }

    /// Percentage points above its due share; none for a group that wants no more.
    pub fn difference(&self) -> Option<f64> {
        self.share.is_backlogged.then_some(self.share.got_percent - self.share.due_percent)
    }

    /// Whether its share is far from the due one.
    pub fn is_far(&self) -> bool {
        self.difference().is_some_and(|points| points.abs() > FAR)
    }
}

/// The groups of a device, each with its own requests only, sorted.
pub fn lines(device: &DeviceSample, seconds: f64, sort: Sort) -> Vec<Line> {
    let groups = device.groups.iter().zip(shares::of(device, seconds));
    let mut lines: Vec<Line> = groups.map(|(group, share)| Line::new(group, share, seconds)).collect();
    lines.sort_by(|one, other| compare(one, other, sort));
    lines
}

/// The order of two groups.
pub fn compare(one: &Line, other: &Line, sort: Sort) -> Ordering {
    let descending = |value: &dyn Fn(&Line) -> f64| value(other).total_cmp(&value(one));
    match sort {
        Sort::Share => descending(&|line| line.share.got_percent),
        Sort::Iops => descending(&|line| line.ios_per_s.iter().sum()),
        Sort::Bw => descending(&|line| line.bytes_per_s.iter().sum()),
        Sort::P99 => other.latency_ns[1].cmp(&one.latency_ns[1]),
        Sort::Name => one.group.cmp(&other.group),
    }
}

/// Which columns are shown.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Whether reads and writes are separate.
    pub split: bool,
    /// Width of the terminal in columns; without one nothing is omitted.
    pub width: Option<usize>,
}

/// Each group's actual shares in the last intervals, in per cent.
#[derive(Debug, Default)]
pub struct History(HashMap<(String, String), Vec<f64>>);

impl History {
    /// Adds an interval.
    pub fn add(&mut self, device: &str, lines: &[Line]) {
        for line in lines {
            let past = self.0.entry((device.to_owned(), line.group.clone())).or_default();
            past.push(line.share.got_percent);
            if past.len() > REMEMBERED {
                past.remove(0);
            }
        }
    }

    /// The last eight values as bars, full = 100 %.
    fn bars(&self, device: &str, group: &str) -> String {
        let past = self.0.get(&(device.to_owned(), group.to_owned())).map(Vec::as_slice).unwrap_or_default();
        let bar = |&percent: &f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
            let step = (percent / 100.0 * 8.0).clamp(0.0, 7.0) as usize;
            BARS[step]
        };
        past[past.len().saturating_sub(8)..].iter().map(bar).collect()
    }
}

/// Header and cells; columns that do not fit are omitted, beginning with those of
/// docs/specifications/harness.md, section 10.3.
pub fn cells(device: &str, lines: &[Line], shown: Shown, history: &History) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let split = if shown.split { vec!["rMiB/s", "wMiB/s", "rIOPS", "wIOPS"] } else { vec!["MiB/s", "IOPS"] };
    let mut header = vec!["GROUP", "WEIGHT", "DUE%", "GOT%", "DIFF", "ISOL%"];
    header.extend(split);
    header.extend(["INFL", "QUEUED", "p50ms", "p99ms", "THR%", "LIMIT", "HIST"]);
    let cell = |line: &Line, column: &&'static str| match *column {
        "GROUP" => line.label.clone(),
        "WEIGHT" => line.weight.to_string(),
        "DUE%" => format!("{:.1}", line.share.due_percent),
        "GOT%" => format!("{:.1}", line.share.got_percent),
        "DIFF" => line
            .difference()
            .map_or("-".to_owned(), |points| format!("{points:+.1}{}", if line.is_far() { "!" } else { "" })),
        "ISOL%" => line.share.isolation_percent().map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        "MiB/s" => mib(line.bytes_per_s.iter().sum()),
        "rMiB/s" => mib(line.bytes_per_s[0]),
        "wMiB/s" => mib(line.bytes_per_s[1]),
        "IOPS" => count(line.ios_per_s.iter().sum()),
        "rIOPS" => count(line.ios_per_s[0]),
        "wIOPS" => count(line.ios_per_s[1]),
        "INFL" => known(line.in_flight),
        "QUEUED" => known(line.queued),
        "p50ms" => milliseconds(line.latency_ns[0]),
        "p99ms" => milliseconds(line.latency_ns[1]),
        "THR%" => line.throttled_percent.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        "LIMIT" => {
            if line.limit.is_empty() {
                "-".to_owned()
            } else {
                line.limit.clone()
            }
        }
        _ => history.bars(device, &line.group),
    };
    let mut rows: Vec<Vec<String>> =
        lines.iter().map(|line| header.iter().map(|column| cell(line, column)).collect()).collect();
    if let Some(width) = shown.width {
        fit(&mut header, &mut rows, width, &OMITTED);
    }
    (header, rows)
}

/// Makes a table fit `width`: omits columns in the order of `omitted`, then cuts the names in the first
/// column. A heading is never cut.
pub fn fit(header: &mut Vec<&'static str>, rows: &mut [Vec<String>], width: usize, omitted: &[&str]) {
    let total = |header: &[&str], rows: &[Vec<String>]| -> usize {
        let columns = widths(header, rows);
        columns.iter().sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    for column in omitted {
        if total(header, rows) <= width {
            return;
        }
        if let Some(at) = header.iter().position(|it| it == column) {
            header.remove(at);
            rows.iter_mut().for_each(|row| _ = row.remove(at));
        }
    }
    let excess = total(header, rows).saturating_sub(width);
    let longest = widths(header, rows).first().map_or(0, |own| own.saturating_sub(excess)).max(header[0].len());
    rows.iter_mut().for_each(|row| shorten(&mut row[0], longest));
}

/// Cuts a name to `characters`, with a mark.
fn shorten(name: &mut String, characters: usize) {
    if name.chars().count() > characters {
        *name = name.chars().take(characters.saturating_sub(1)).chain(['…']).collect();
    }
}

/// The width of each column.
pub fn widths(header: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let cells = |at: usize| rows.iter().map(move |row| row[at].chars().count());
    (0..header.len()).map(|at| cells(at).chain([header[at].len()]).max().unwrap_or(0)).collect()
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word is a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The device's own line.
pub fn device_line(device: &DeviceSample, interval: &Interval) -> String {
    let seconds = interval.seconds();
    let sums = || [0, 1].map(|at| sum_of(device.groups.iter().map(|group| &group.flows[at])));
    let flows = device.flows.clone().unwrap_or_else(sums);
    let busy = device.busy_ns.map_or(String::new(), |busy_ns| {
        format!("  util {:.0}%", (100.0 * busy_ns as f64 / interval.length_ns as f64).min(100.0))
    });
    let depth = if device.depth == 0 { String::new() } else { format!("/{}", device.depth) };
    let [read, write] = [0, 1].map(|at| {
        format!("{} MiB/s {}/s", mib(flows[at].bytes as f64 / seconds), count(flows[at].ios as f64 / seconds))
    });
    let slowest = |at: usize| {
        let flows: Vec<Flow> = device.groups.iter().map(|group| group.flows[at].clone()).collect();
        quantile_of(&flows, 0.99).map(|ns| format!("{}ms", milliseconds(Some(ns))))
    };
    let latency = match [slowest(0), slowest(1)] {
        [None, None] => String::new(),
        [read, write] => {
            format!("   p99 r {} w {}", read.as_deref().unwrap_or("-"), write.as_deref().unwrap_or("-"))
        }
    };
    let (name, scheduler, in_flight) = (printable(&device.name), printable(&device.scheduler), device.in_flight);
    format!("{name}  {scheduler}{busy}  in flight {in_flight}{depth}  r {read}  w {write}{latency}")
}

fn sum_of<'a>(flows: impl Iterator<Item = &'a Flow>) -> Flow {
    flows.fold(Flow::default(), |sum, flow| Flow { ios: sum.ios + flow.ios, bytes: sum.bytes + flow.bytes, ..sum })
}

/// Aligns columns: texts to the left, numbers to the right.
pub fn text(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let widths = widths(header, rows);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).zip(header).map(|((cell, &width), column)| match is_left(column) {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let mut lines = vec![line(&mut header.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines
}

/// Whether a column is text.
pub fn is_left(column: &str) -> bool {
    matches!(column, "GROUP" | "LIMIT" | "HIST" | "EXPORT" | "DEVICE" | "NODE" | "STATE" | "CLIENTS")
}

/// A rate in MiB/s.
pub fn mib(bytes_per_s: f64) -> String {
    let mib = bytes_per_s / 1_048_576.0;
    if mib >= 100.0 { format!("{mib:.0}") } else { format!("{mib:.1}") }
}

/// A rate of requests.
pub fn count(per_s: f64) -> String {
    if per_s >= 10_000.0 { format!("{:.1}k", per_s / 1_000.0) } else { format!("{per_s:.0}") }
}

/// A mean number of requests; `-` if not counted.
pub fn known(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") })
}

/// A time in ms; `-` if not counted.
pub fn milliseconds(ns: Option<Nanos>) -> String {
    ns.map_or("-".to_owned(), |ns| {
        let ms = ns as f64 / 1e6;
        if ms >= 100.0 {
            format!("{ms:.0}")
        } else if ms >= 1.0 {
            format!("{ms:.1}")
        } else {
            format!("{ms:.2}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str, weight: u32, ios: u64) -> GroupSample {
        let flow =
            Flow { ios, bytes: ios * 4096, service_ns: Some(ios * 1_000_000), latency: [(2_000_000, ios)].into() };
        let none = Flow { service_ns: Some(0), ..Flow::default() };
        let throttled_ns = Some(ios * 155_000);
        let (path, flows) = (path.into(), [flow, none]);
        GroupSample { path, weight, flows, outstanding: Some(64), throttled_ns, ..GroupSample::default() }
    }

    #[test]
    fn a_device_is_a_line_and_a_table() {
        let groups = vec![group("db", 800, 800), group("batch", 100, 800)];
        let device = DeviceSample {
            name: "ssd0".into(),
            scheduler: "wfq".into(),
            depth: 32,
            in_flight: 7,
            groups,
            ..DeviceSample::default()
        };
        let lines = lines(&device, 1.0, Sort::Name);
        let mut history = History::default();
        history.add("ssd0", &lines);
        let shown = Shown { split: false, width: None };
        let (header, rows) = cells("ssd0", &lines, shown, &history);
        let text = text(&header, &rows);
        assert_eq!(
            text,
            [
                "GROUP  WEIGHT  DUE%  GOT%    DIFF  ISOL%  MiB/s  IOPS  INFL  QUEUED  p50ms  p99ms  THR%  LIMIT  HIST",
                "batch     100  11.1  50.0  +38.9!  100.0    3.1   800   0.8      63    2.0    2.0  12.4  -      ▅",
                "db        800  88.9  50.0  -38.9!   56.2    3.1   800   0.8      63    2.0    2.0  12.4  -      ▅",
            ]
        );
        let interval = Interval { length_ns: 1_000_000_000, devices: Vec::new() };
        assert_eq!(
            device_line(&device, &interval),
            "ssd0  wfq  in flight 7/32  r 6.2 MiB/s 1600/s  w 0.0 MiB/s 0/s   p99 r 2.0ms w -"
        );
    }

    #[test]
    fn what_does_not_fit_is_omitted_and_no_heading_is_cut() {
        let groups = vec![group("tenants", 300, 0), group("tenants/a-rather-long-name-of-a-database", 800, 800)];
        let device = DeviceSample { name: "ssd0".into(), groups, ..DeviceSample::default() };
        let lines = super::super::tree::lines(&device, 1.0, Sort::Name);
        let history = History::default();
        for split in [false, true] {
            for width in [80, 100, 132, 200] {
                let (header, rows) = cells("ssd0", &lines, Shown { split, width: Some(width) }, &history);
                let text = text(&header, &rows);
                let longest = text.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(longest <= width, "{width}:\n{}", text.join("\n"));
                assert_eq!(text[0].split_whitespace().collect::<Vec<_>>(), header);
                for column in ["GROUP", "DUE%", "GOT%", "DIFF", "p99ms"] {
                    assert!(header.contains(&column), "{width}: {header:?}");
                }
                assert_eq!(header.contains(&"HIST"), width >= if split { 200 } else { 132 }, "{width}: {header:?}");
            }
        }
    }
}
