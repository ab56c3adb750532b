//! `hoistway ctl status` for people: a table per device, and one of the exports. Two answers of the
//! server make an interval, as in `hoistway top`, whose functions compute the figures; what is due and
//! the reasons are the server's own, as in its metrics.

mod exports;
mod grid;

use std::env;
use std::io;

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;
use hoistway_experiment::{Diagnostic, printable};
use serde_json::Value;

use crate::top::sample::{DeviceSample, Interval, Sample};
use crate::top::table::{self, Line, Sort, count, known, mib, milliseconds, wrapped};
use crate::top::{server, tree};
use crate::units;
use grid::Grid;

/// The narrowest and the widest table. Longer lines are hard to read.
const WIDTHS: (usize, usize) = (80, 200);
/// The shortest interval; in a shorter one, rates are noise.
const SHORTEST_NS: Nanos = 10 * MILLISECOND;
/// The columns of the groups that a narrow terminal does not show, the first to go first.
const OMITTED: [&str; 4] = ["WEIGHT", "QUEUED", "p50ms", "INFL"];
/// Columns that a reason needs to stand beside its group instead of below it.
const REASON_WIDTH: usize = 40;

/// The width of the tables: that of the terminal; elsewhere COLUMNS, or else 80.
pub fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let given = || env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    terminal.or_else(given).unwrap_or(WIDTHS.0).clamp(WIDTHS.0, WIDTHS.1)
}

/// Reads the length of an interval.
pub fn interval(text: &str) -> Result<Nanos, Diagnostic> {
    let too_short = || Diagnostic::new(format!("'{text}' is shorter than 10 ms"), "write 1s");
    units::time(text).and_then(|length_ns| if length_ns < SHORTEST_NS { Err(too_short()) } else { Ok(length_ns) })
}

/// The status. `before` and `now` are answers to `status` with histograms, `length_ns` apart.
pub fn text(before: &Value, now: &Value, length_ns: Nanos, width: usize) -> String {
    let sample = |at_ns, answer| Sample { at_ns, devices: server::devices(answer) };
    let interval = Interval::between(&sample(0, before), &sample(length_ns, now));
    let mut paragraphs = Vec::new();
    if now["draining"] == true {
        paragraphs.push(vec!["The server is shutting down: no new clients are accepted.".to_owned()]);
    }
    for (device, report) in interval.devices.iter().zip(list(now, "devices")) {
        let mut lines = wrapped(&headline(report), width);
        lines.extend(wrapped(&words(&report["saturation"]["text"]), width));
        paragraphs.push(lines);
        paragraphs.push(groups(device, interval.seconds(), width));
    }
    paragraphs.extend(list(now, "not_answering").iter().map(|silent| wrapped(&silence(silent), width)));
    paragraphs.push(exports::lines(now, width));
    paragraphs.push(wrapped(&source(interval.seconds()), width));
    paragraphs.iter().map(|lines| lines.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

/// A device that does not answer.
fn silence(silent: &Value) -> String {
    let (device, seconds) = (words(&silent["device"]), silent["since_s"].as_f64().unwrap_or(0.0));
    let oldest = silent["oldest_export"].as_str().map(|export| format!("; the oldest I/O is of {export}"));
    format!("{device} has not answered for {seconds:.0} s{}", oldest.unwrap_or_default())
}

/// A device with its scheduler and its depth.
fn headline(report: &Value) -> String {
    let [name, scheduler] = ["name", "scheduler"].map(|field| words(&report[field]));
    let (depth, most) = (&report["queue_depth"], &report["queue_depth_most"]);
    let most = if depth == most { String::new() } else { format!(" of at most {most}") };
    let why = match report["saturation"]["depth"].as_str() {
        Some("given") => ", as configured",
        Some("learned") => ", learned",
        Some("learning") => ", being learned",
        Some("full") => ", no smaller one is enough",
        _ => ", not learned yet",
    };
    let switching = if report["switching"] == true { " (being replaced)" } else { "" };
    format!("{name}: {scheduler}{switching}, queue depth {depth}{most}{why}; in flight {}", report["ios_in_flight"])
}

fn groups(device: &DeviceSample, seconds: f64, width: usize) -> Vec<String> {
    let lines = tree::lines(device, seconds, Sort::Name);
    let mut header = vec!["GROUP", "WEIGHT", "DUE%", "GOT%", "IOPS", "MiB/s", "p50ms", "p99ms", "INFL", "QUEUED"];
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    table::fit(&mut header, &mut rows, width, &OMITTED);
    let reasons = lines.iter().map(|line| printable(line.why.as_deref().unwrap_or_default()).into_owned()).collect();
    Grid { header, rows, last: ("WHY", reasons) }.lines(REASON_WIDTH, width)
}

fn cells(line: &Line) -> Vec<String> {
    vec![
        line.label.clone(),
        line.weight.to_string(),
        format!("{:.1}", line.share.due_percent),
        format!("{:.1}", line.share.got_percent),
        count(line.ios_per_s.iter().sum()),
        mib(line.bytes_per_s.iter().sum()),
        milliseconds(line.latency_ns[0]),
        milliseconds(line.latency_ns[1]),
        known(line.in_flight),
        known(line.queued),
    ]
}

/// The times that the figures are of.
fn source(seconds: f64) -> String {
    format!(
        "GOT%, IOPS, MiB/s, latencies, INFL and QUEUED are of {seconds:.1} s (--interval). DUE%, WHY and saturation are \
         the server's means over its last second or longer. --all and --json have all counters."
    )
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::time::SECOND;

    fn answers() -> [Value; 2] {
        [include_str!("../../tests/status/before.json"), include_str!("../../tests/status/now.json")]
            .map(|text| serde_json::from_str(text).expect("JSON"))
    }

    fn at(width: usize) -> String {
        let [before, now] = answers();
        text(&before, &now, SECOND, width)
    }

    #[test]
    fn a_device_that_does_not_answer_is_named() {
        let [before, mut now] = answers();
        now["not_answering"] = serde_json::json!([{"device": "ssd1", "since_s": 12.3, "oldest_export": "ci"}]);
        let text = text(&before, &now, SECOND, 80);
        assert!(text.contains("\nssd1 has not answered for 12 s; the oldest I/O is of ci\n"), "{text}");
    }

    #[test]
    fn a_status_of_80_columns() {
        assert_eq!(at(80), include_str!("../../tests/status/80.txt"));
    }

    #[test]
    fn a_status_of_132_columns_has_the_reasons_beside_the_groups() {
        assert_eq!(at(132), include_str!("../../tests/status/132.txt"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 80..=200 {
            let text = at(width);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}:\n{text}");
            assert!(text.contains("GROUP") && text.contains("p99ms") && text.contains("EXPORT"), "{text}");
        }
    }

    #[test]
    fn a_draining_server_says_so() {
        let [before, mut now] = answers();
        now["draining"] = true.into();
        assert!(text(&before, &now, SECOND, 80).starts_with("The server is shutting down"));
    }
}
