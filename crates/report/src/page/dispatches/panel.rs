//! One scheduler's chart: position over time, then a lane per group with its requests in the
//! device.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::dispatches::DispatchedRequest;

use super::super::scale::{Linear, Stretch};
use super::super::svg::{Anchor, Point, Svg, escaped, group_class};
use super::super::throughput::shortened;
use super::{Frame, PanelRange, distance, holds, moment, reason};
use crate::quantity::{scheduler, size};

const WIDTH: f64 = 500.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = WIDTH - 8.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 216.0;
/// Distance and thickness of lanes.
const LANE: f64 = 17.0;
const LANE_THICK: f64 = 11.0;
/// Maximum number of holds that are drawn; the shortest are omitted.
const HOLDS: usize = 400;

/// A chart under construction.
pub(super) struct Panel<'a> {
    one: &'a PanelRange<'a>,
    frame: &'a Frame,
    requests: &'a [DispatchedRequest],
    time: Linear,
    place: Stretch,
    lanes: usize,
    /// The most frequent reason.
    usual: Option<u8>,
    svg: Svg,
}

impl<'a> Panel<'a> {
    pub(super) fn new(one: &'a PanelRange<'a>, frame: &'a Frame) -> Self {
        let requests = one.requests(frame);
        let has_system = requests.iter().any(|request| lane_of(one.cell, request).is_none());
        let lanes = one.cell.groups.len() + usize::from(has_system);
        let height = BOTTOM + 12.0 + LANE * lanes as f64 + 26.0;
        let title = format!("Requests of {} to the device: position over time, by group", scheduler(one.cell));
        let time = Linear::up_to(frame.length_ns as f64);
        let place = Stretch::over(frame.low_bytes, frame.high_bytes);
        let svg = Svg::new(WIDTH, height, &title);
        Self { one, frame, requests, time, place, lanes, usual: usual(requests), svg }
    }

    /// The panel without the end of its box, because a line of text follows.
    pub(super) fn draw(mut self) -> String {
        self.axes();
        self.holds();
        self.head();
        self.lanes();
        self.marks();
        self.svg.finish_panel()
    }

    /// The information of the marks as text, for use without a pointer.
    pub(super) fn list(&self) -> String {
        let name = |request: &DispatchedRequest| {
            let lane = lane_of(self.one.cell, request);
            lane.and_then(|lane| self.one.cell.groups.get(lane)).map_or("system", |group| group.path)
        };
        let lines = self.requests.iter().map(|request| self.hint(request, name(request)) + "\n");
        format!(
            "<details><summary>These {} requests as a list</summary><pre tabindex=\"0\">{}</pre></details>\n",
            self.requests.len(),
            lines.collect::<String>()
        )
    }

    fn x(&self, ns: u64) -> f64 {
        LEFT + ns as f64 / self.frame.length_ns as f64 * (RIGHT - LEFT)
    }

    fn y(&self, request: &DispatchedRequest) -> f64 {
        let middle = request.extent.first_sector as f64 * 512.0 + f64::from(request.extent.sectors) * 256.0;
        BOTTOM - self.place.part(middle) * (BOTTOM - TOP)
    }

    fn lane_y(&self, lane: usize) -> f64 {
        BOTTOM + 14.0 + LANE * lane as f64
    }

    fn axes(&mut self) {
        let name = shortened(&scheduler(self.one.cell), 30);
        self.svg.text("name", Anchor::Start, (0.0, 15.0), &name);
        let summary = self.summary();
        self.svg.text("tick", Anchor::End, (RIGHT, 15.0), &summary);
        for tick in self.place.ticks() {
            let y = BOTTOM - self.place.part(tick) * (BOTTOM - TOP);
            self.svg.line("grid", (LEFT, y), (RIGHT, y));
            self.svg.text("tick", Anchor::End, (LEFT - 8.0, y + 4.0), &self.place.label(tick));
        }
        let end = self.lane_y(self.lanes);
        for tick in self.time.ticks().into_iter().filter(|tick| *tick <= self.frame.length_ns as f64) {
            #[expect(clippy::cast_possible_truncation, reason = "a tick of an axis of u64 nanoseconds")]
            let x = self.x(tick as u64);
            self.svg.line("grid", (x, TOP), (x, end - 4.0));
            let label = if tick == 0.0 { "0".to_owned() } else { moment_of_tick(tick) };
            self.svg.text("tick", Anchor::Middle, (x, end + 12.0), &label);
        }
        self.svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    }

    /// The rate in the whole window, as in the totals, and movement in the time that is drawn: the
    /// distance of head movements on a disk, otherwise the number of requests in flight.
    fn summary(&self) -> String {
        let seconds = self.frame.length_ns.min(self.one.end_ns).max(1) as f64 / 1e9;
        let rate = self.one.cell.ios_per_s.mean;
        if self.frame.is_rotational {
            let jump = |pair: &[DispatchedRequest]| {
                let end = pair[0].extent.first_sector + u64::from(pair[0].extent.sectors);
                end.abs_diff(pair[1].extent.first_sector) as f64 * 512.0
            };
            let jumps: f64 = self.requests.windows(2).map(jump).sum();
            let mean = jumps / self.requests.len().saturating_sub(1).max(1) as f64;
            return format!("{rate:.0} I/Os/s; here: mean seek {}", distance(mean));
        }
        let busy: f64 = self.requests.iter().map(|request| request.service_ns as f64 / 1e9).sum();
        format!("{rate:.0} I/Os/s; here: {:.1} in the device", busy / seconds)
    }

    /// Times in which the policy held back requests.
    fn holds(&mut self) {
        let mut shown: Vec<_> = holds(self.one, self.frame).collect();
        shown.sort_by_key(|hold| std::cmp::Reverse(hold.length_ns));
        shown.truncate(HOLDS);
        let bottom = self.lane_y(self.lanes) - 4.0;
        for hold in shown {
            let (from, to) = (self.x(hold.at_ns), self.x(hold.at_ns + hold.length_ns));
            let why = reason(self.one.record, Some(hold.reason));
            let hint = format!("held requests back for {}: {why}", moment(hold.length_ns));
            // Drawn in true width: many short holds are as dark as a long one of the same total
            // time.
            self.svg.raw(&format!(
                "<rect class=\"hold\" x=\"{from:.2}\" y=\"{TOP}\" width=\"{:.2}\" height=\"{:.1}\"><title>{}</title></rect>\n",
                to - from,
                bottom - TOP,
                escaped(&hint)
            ));
        }
    }

    /// The path of a disk's head.
    fn head(&mut self) {
        if !self.frame.is_rotational {
            return;
        }
        let mut path = String::new();
        for (index, request) in self.requests.iter().filter(|request| request.extent.sectors > 0).enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", self.x(request.at_ns), self.y(request));
        }
        self.svg.raw(&format!("<path class=\"head\" d=\"{path}\"/>\n"));
    }

    /// Number of requests of each group in the device over time; full height is the maximum over
    /// all groups.
    fn lanes(&mut self) {
        let steps: Vec<Vec<(u64, u32)>> = (0..self.lanes).map(|lane| self.in_device(lane)).collect();
        let most = steps.iter().flatten().map(|step| step.1).max().unwrap_or(1).max(1);
        for (lane, steps) in steps.iter().enumerate() {
            let group = self.one.cell.groups.get(lane);
            let class = group.map_or_else(|| "sys".to_owned(), |_| group_class(lane));
            let floor = self.lane_y(lane) + LANE_THICK;
            let mut path = format!("M{LEFT} {floor:.1}");
            for (at_ns, count) in steps {
                let height = LANE_THICK * f64::from(*count) / f64::from(most);
                let _ = write!(path, "H{:.1}V{:.1}", self.x(*at_ns), floor - height);
            }
            let _ = write!(path, "V{floor:.1}z");
            self.svg.line("lane", (LEFT, floor), (RIGHT, floor));
            self.svg.raw(&format!("<path class=\"{class} service\" d=\"{path}\"/>\n"));
            let label = shortened(group.map_or("system", |group| group.path), 9);
            let at = (6.0, floor - LANE_THICK / 2.0);
            self.svg.raw(&format!("<g class=\"{class} m\">{}</g>\n", shape(lane, at, "", group.is_none(), "")));
            self.svg.text(&format!("{class} label"), Anchor::Start, (15.0, floor - 1.0), &label);
        }
    }

    /// Number of requests of a lane in the device, from each change on.
    fn in_device(&self, lane: usize) -> Vec<(u64, u32)> {
        let end_ns = self.frame.length_ns;
        let of_lane = self.requests.iter().filter(|one| self.lane_of(one) == lane);
        let changes = of_lane.flat_map(|one| [(one.at_ns, 1_i32), ((one.at_ns + one.service_ns).min(end_ns), -1)]);
        let mut changes: Vec<(u64, i32)> = changes.collect();
        changes.sort_unstable();
        let mut steps: Vec<(u64, u32)> = Vec::new();
        for (at_ns, change) in changes {
            let count = steps.last().map_or(0, |step| step.1).saturating_add_signed(change);
            match steps.last_mut() {
                Some(step) if step.0 == at_ns => step.1 = count,
                _ => steps.push((at_ns, count)),
            }
        }
        steps
    }

    fn lane_of(&self, request: &DispatchedRequest) -> usize {
        lane_of(self.one.cell, request).unwrap_or(self.lanes - 1)
    }

    /// A mark per request in the colour and shape of its group, hollow for writes.
    fn marks(&mut self) {
        for lane in 0..self.lanes {
            let group = self.one.cell.groups.get(lane);
            let class = group.map_or_else(|| "sys".to_owned(), |_| group_class(lane));
            let mut marks = format!("<g class=\"{class} m\">\n");
            let of_lane = |one: &&DispatchedRequest| self.lane_of(one) == lane;
            for request in self.requests.iter().filter(of_lane).filter(|one| one.extent.sectors > 0) {
                let at = (self.x(request.at_ns), self.y(request));
                let hint = self.hint(request, group.map_or("system", |group| group.path));
                let class = match (request.kind == 'R', request.reason == self.usual) {
                    (true, true) => "",
                    (true, false) => " class=\"u\"",
                    (false, true) => " class=\"w\"",
                    (false, false) => " class=\"w u\"",
                };
                marks.push_str(&shape(lane, at, class, group.is_none(), &hint));
                marks.push('\n');
            }
            marks.push_str("</g>\n");
            self.svg.raw(&marks);
        }
    }

    fn hint(&self, request: &DispatchedRequest, group: &str) -> String {
        let what = match request.kind {
            'R' => "read",
            'W' => "write",
            'D' => "discard",
            _ => "flush",
        };
        let bytes = size(u64::from(request.extent.sectors) * 512);
        let place = distance(request.extent.first_sector as f64 * 512.0);
        let (at, service) = (moment(request.at_ns), moment(request.service_ns));
        let why = reason(self.one.record, request.reason);
        escaped(&format!("{group}, {at}: {what} {bytes} at {place}, took {service}. {why}"))
    }
}

fn usual(requests: &[DispatchedRequest]) -> Option<u8> {
    let count = |reason: Option<u8>| requests.iter().filter(|request| request.reason == reason).count();
    let reasons: std::collections::BTreeSet<Option<u8>> = requests.iter().map(|request| request.reason).collect();
    reasons.into_iter().max_by_key(|reason| count(*reason)).flatten()
}

/// The lane of a request; `None` for the system's own I/O.
fn lane_of(cell: &Cell<'_>, request: &DispatchedRequest) -> Option<usize> {
    let index = usize::from(request.group?);
    cell.groups.iter().position(|group| group.index == index)
}

/// A mark whose shape identifies the group; `open` contains its attributes, `hint` is safe markup.
fn shape(lane: usize, (x, y): Point, open: &str, is_system: bool, hint: &str) -> String {
    let title = if hint.is_empty() { String::new() } else { format!("<title>{hint}</title>") };
    let path =
        |steps: &str, (dx, dy): Point| format!("<path{open} d=\"M{:.1} {:.1}{steps}z\">{title}</path>", x + dx, y + dy);
    match lane % 6 {
        _ if is_system => format!("<circle{open} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\">{title}</circle>"),
        0 => format!("<circle{open} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\">{title}</circle>"),
        1 => path("h4.8v4.8h-4.8", (-2.4, -2.4)),
        2 => path("l3.2 5.6h-6.4", (0.0, -3.4)),
        3 => path("l3.4 3.4-3.4 3.4-3.4-3.4", (0.0, -3.4)),
        4 => path("l3.2-5.6h-6.4", (0.0, 3.4)),
        _ => path("h6.4v2.4h-6.4", (-3.2, -1.2)),
    }
}

/// A tick in the largest unit in which it is an integer.
fn moment_of_tick(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", (ns / 1e7).round() / 100.0),
        ns if ns >= 1e6 => format!("{} ms", (ns / 1e4).round() / 100.0),
        ns => format!("{} us", (ns / 1e1).round() / 100.0),
    }
}
