//! The scheduler's decisions: the position on the device, the group and the reason of each
//! dispatched request.
//!
//! There is one small chart per scheduler, all over the same time and the same part of the device,
//! so that they can be compared. It is omitted if the host recorded nothing
//! ([`hoistway_experiment::Dispatches`]).

mod panel;

use hoistway_experiment::Dispatches;
use hoistway_experiment::cell::Cell;
use hoistway_experiment::dispatches::DispatchedRequest;

use super::glossary;
use super::svg::escaped;
use crate::quantity::{percent, scheduler, time};
use panel::Panel;

/// Maximum number of requests over all charts, which keeps the browser responsive and the file
/// small enough to mail.
const MARKS: usize = 6_000;
/// Minimum number of requests per chart, regardless of the number of charts.
const FEWEST: usize = 300;
/// Number of requests of the slowest scheduler that the shown time must contain, even if the
/// fastest one's record ends earlier.
const ENOUGH: usize = 40;

/// What the charts share.
struct Frame {
    /// Shown time in ns.
    length_ns: u64,
    /// First and last byte of the device that is accessed in it.
    low_bytes: f64,
    high_bytes: f64,
    is_rotational: bool,
}

/// A scheduler's dispatches and the cell that they belong to.
struct PanelRange<'a> {
    cell: &'a Cell<'a>,
    record: &'a Dispatches,
    /// End of its record in ns.
    end_ns: u64,
}

impl PanelRange<'_> {
    /// The requests within the frame.
    fn requests<'a>(&'a self, frame: &Frame) -> &'a [DispatchedRequest] {
        let end_ns = frame.length_ns.min(self.end_ns);
        let count = self.record.requests.partition_point(|request| request.at_ns <= end_ns);
        &self.record.requests[..count]
    }
}

/// The charts for one cell per scheduler; `None` if no run recorded dispatches.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let record = |cell: &&Cell<'_>| cell.runs.iter().any(|run| run.dispatches.is_some());
    let room = (MARKS / cells.iter().filter(|cell| record(cell)).count().max(1)).clamp(FEWEST, super::DISPATCHES);
    let shown: Vec<PanelRange<'_>> = cells.iter().filter_map(|cell| shown(cell, room)).collect();
    let frame = frame(&shown)?;
    let (kept, same) = without_repeats(&shown, &frame);
    let panels = kept.iter().map(|one| {
        let panel = Panel::new(one, &frame);
        let list = panel.list();
        panel.draw() + &why(one, &frame) + &list + "</div>\n"
    });
    let of_requests = |one: &PanelRange<'_>| -> Vec<String> {
        let requests = one.requests(&frame).iter().map(|request| reason(one.record, request.reason).to_owned());
        requests.chain(holds(one, &frame).map(|hold| reason(one.record, Some(hold.reason)).to_owned())).collect()
    };
    let reasons: Vec<String> = kept.iter().flat_map(|one| of_requests(one)).collect();
    let meanings = glossary::list(reasons.iter().map(String::as_str));
    Some(format!("<div class=\"panels\">\n{}</div>\n{same}{meanings}", panels.collect::<String>()))
}

/// Removes schedulers that behaved exactly as a previous one; a sentence names them instead.
fn without_repeats<'a, 'b>(shown: &'b [PanelRange<'a>], frame: &Frame) -> (Vec<&'b PanelRange<'a>>, String) {
    let mut kept: Vec<(&PanelRange<'_>, Vec<String>)> = Vec::new();
    let same = |one: &PanelRange<'_>, other: &PanelRange<'_>| {
        let place = |request: &DispatchedRequest| (request.at_ns, request.extent, request.group);
        one.requests(frame).iter().map(place).eq(other.requests(frame).iter().map(place))
    };
    for one in shown {
        match kept.iter_mut().find(|(other, _)| same(one, other)) {
            Some((_, names)) => names.push(escaped(&scheduler(one.cell))),
            None => kept.push((one, Vec::new())),
        }
    }
    let sentence = |(first, names): &(&PanelRange<'_>, Vec<String>)| {
        let (first, names) = (escaped(&scheduler(first.cell)), names.join(", "));
        format!(
            "<p class=\"why\">Exactly the same sequence as under {first} was dispatched under: <b>{names}</b>.</p>\n"
        )
    };
    let sentences = kept.iter().filter(|(_, names)| !names.is_empty()).map(sentence).collect();
    (kept.iter().map(|(one, _)| *one).collect(), sentences)
}

fn shown<'a>(cell: &'a Cell<'a>, room: usize) -> Option<PanelRange<'a>> {
    let record = cell.runs.iter().find_map(|run| run.dispatches.as_ref())?;
    let end_ns =
        record.requests.get(room).map_or(record.length_ns, |first_left_out| first_left_out.at_ns.saturating_sub(1));
    Some(PanelRange { cell, record, end_ns })
}

/// The frame of all charts: the time that all records cover or, if that is longer, the time of the
/// first [`ENOUGH`] requests of the slowest scheduler, and the part of the device that is accessed
/// in it.
fn frame(shown: &[PanelRange<'_>]) -> Option<Frame> {
    let common_ns = shown.iter().map(|one| one.end_ns).min()?;
    let enough_ns = |one: &PanelRange<'_>| one.record.requests.get(ENOUGH).map_or(one.end_ns, |request| request.at_ns);
    let length_ns = shown.iter().map(enough_ns).fold(common_ns, u64::max).max(1);
    let is_rotational = shown.iter().any(|one| one.cell.runs[0].target.rotational);
    let mut frame = Frame { length_ns, low_bytes: f64::INFINITY, high_bytes: 0.0, is_rotational };
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for request in shown.iter().flat_map(|one| one.requests(&frame)).filter(|request| request.extent.sectors > 0) {
        low = low.min(request.extent.first_sector as f64 * 512.0);
        high = high.max((request.extent.first_sector + u64::from(request.extent.sectors)) as f64 * 512.0);
    }
    (frame.low_bytes, frame.high_bytes) = (low, high);
    (low < high).then_some(frame)
}

/// The reasons in words, the most frequent first, and the time for which requests were held back.
fn why(one: &PanelRange<'_>, frame: &Frame) -> String {
    let requests = one.requests(frame);
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for request in requests {
        let name = reason(one.record, request.reason);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let of_all = |count: usize| percent(count as f64 / requests.len().max(1) as f64);
    let parts = counts.iter().take(5).map(|(name, count)| format!("{} <b>{}</b>", escaped(name), of_all(*count)));
    let mut parts: Vec<String> = parts.collect();
    let held_ns: u64 = holds(one, frame).map(|hold| hold.length_ns).sum();
    let held = held_ns as f64 / frame.length_ns.min(one.end_ns).max(1) as f64;
    if held >= 0.0005 {
        let part = percent(held);
        parts.push(format!("held requests back <b>{part}</b> of the time"));
    }
    format!("<p class=\"why\">{}</p>", parts.join(" · "))
}

/// The holds within the frame.
fn holds<'a>(
    one: &'a PanelRange<'_>,
    frame: &Frame,
) -> impl Iterator<Item = hoistway_experiment::dispatches::Hold> + use<'a> {
    let end_ns = frame.length_ns.min(one.end_ns);
    one.record.holds.iter().filter(move |hold| hold.at_ns < end_ns).map(move |hold| {
        let length_ns = hold.length_ns.min(end_ns - hold.at_ns);
        hoistway_experiment::dispatches::Hold { length_ns, ..*hold }
    })
}

/// Text for a request that no policy chose.
pub(super) const NOT_CHOSEN: &str = "not chosen by the scheduler";

/// The name of a reason.
fn reason(record: &Dispatches, index: Option<u8>) -> &str {
    index.and_then(|index| record.reasons.get(usize::from(index))).map_or(NOT_CHOSEN, String::as_str)
}

/// A position or distance on the device.
fn distance(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes < 1e11 => format!("{:.2} GB", bytes / 1e9),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// A time in the chart.
fn moment(ns: u64) -> String {
    time(ns as f64)
}
