//! Evidence as text: two figures and what they measure.

use hoistway_experiment::SchedulerSpec;
use hoistway_experiment::statistics::Estimate;

use super::Case;
use crate::class::{Class, ms};
use crate::findings::{CandidateFindings, Shares, due_ratio};
use crate::score::{Goal, STREAMS};

/// Formats bytes per second for users.
pub fn megabytes(bytes_per_s: f64) -> String {
    let mb = bytes_per_s / 1e6;
    if mb < 99.95 { format!("{mb:.1} MB/s") } else { format!("{mb:.0} MB/s") }
}

/// Why devices of this class are scheduled as they are.
pub fn reason_of(case: &Case<'_>) -> &'static str {
    match case.class.behaves {
        Class::SeekBound => "one arm, which loses throughput by seeking between streams: sort, or idle for each reader",
        Class::Array => "several arms: idling for one reader leaves the others unused, so no idling for readers",
        Class::FlashSq | Class::FlashMq => "no arm: idling is useless, and sorting brings little",
        _ => "the device below schedules again",
    }
}

/// The goal's figures under both schedulers, such as `8 streams 38 MB/s -> 196 MB/s (+-4)`.
pub fn against(case: &Case<'_>, old: &SchedulerSpec, new: &SchedulerSpec) -> String {
    let (Some(before), Some(after)) = (case.findings.of(old), case.findings.of(new)) else {
        return reason_of(case).to_owned();
    };
    let mut texts = Vec::new();
    if before.load.is_some() && after.load.is_some() {
        texts.extend(of_load(before, after));
    }
    let streams = |it: &CandidateFindings| it.streams_of(STREAMS).copied();
    let latency = |it: &CandidateFindings| it.among_readers.as_ref().map(|among| among.p99_ns);
    let beside_writers = |it: &CandidateFindings| it.among_writers.as_ref().map(|among| among.p99_ns);
    let knee = case.findings.knee();
    let random = |it: &CandidateFindings| it.random_at(knee).map(|step| step.ios_per_s);
    let ios = |value: f64| format!("{value:.0}/s");
    if case.goal == Goal::Fairness && after.load.is_none() {
        texts.push(of_shares(before.shares.as_ref(), after.shares.as_ref(), old == new));
    }
    let mut add =
        |what: &str, figure: &dyn Fn(&CandidateFindings) -> Option<Estimate>, show: &dyn Fn(f64) -> String| {
            if let (Some(one), Some(two)) = (figure(before), figure(after)) {
                texts.push(pair(what, &one, &two, old == new, show));
            }
        };
    if case.goal != Goal::Latency {
        add("8 streams", &streams, &megabytes);
    }
    if case.goal == Goal::Throughput {
        add("random reads", &random, &ios);
    }
    if matches!(case.goal, Goal::Latency | Goal::Balanced) {
        add("reader's p99 beside readers", &latency, &ms);
        add("beside writers", &beside_writers, &ms);
    }
    texts.join(", ")
}

/// Isolation and work of the mixed steps under both schedulers, such as `isolation 12 % -> 44 %, work
/// of mixed loads 100 % -> 93 %`; `None` if they were not measured.
pub fn mixed_figures(case: &Case<'_>, old: &SchedulerSpec, new: &SchedulerSpec) -> Option<String> {
    // Of the user's load `against` tells both.
    let candidate = |spec: &SchedulerSpec| case.findings.of(spec).filter(|it| it.load.is_none());
    let of = |spec: &SchedulerSpec| Some(case.findings.mixed(candidate(spec)?));
    let (before, after) = (of(old)?, of(new)?);
    let isolation = format!("isolation {} -> {}", percent(before.isolation()?), percent(after.isolation()?));
    let work = format!("work of mixed loads {} -> {}", percent(before.work()?), percent(after.work()?));
    Some(format!("{isolation}, {work} of the device"))
}

/// Shares before and after, such as `shares none -> 1:7.8, due 1:8`.
fn of_shares(before: Option<&Shares>, after: Option<&Shares>, is_same: bool) -> String {
    let text = |shares: Option<&Shares>| match shares.filter(|shares| shares.has_mechanism) {
        Some(shares) => format!("1:{:.1}", shares.ratio.mean),
        None => "none".to_owned(),
    };
    let due = due_ratio();
    match is_same {
        true => format!("shares {}, due 1:{due:.0}", text(after)),
        false => format!("shares {} -> {}, due 1:{due:.0}", text(before), text(after)),
    }
}

fn of_load(before: &CandidateFindings, after: &CandidateFindings) -> Vec<String> {
    let (Some(old), Some(new)) = (&before.load, &after.load) else { return Vec::new() };
    let is_same = before.spec == after.spec;
    let mut texts = vec![
        pair("your load", &old.bytes_per_s, &new.bytes_per_s, is_same, &megabytes),
        pair("its p99", &old.p99_ns, &new.p99_ns, is_same, &ms),
    ];
    let parts = [("isolation", old.isolation, new.isolation), ("work", old.work, new.work)];
    let known = parts.iter().filter_map(|(what, old, new)| Some((what, old.as_ref()?, new.as_ref()?)));
    texts.extend(known.map(|(what, old, new)| pair(what, old, new, is_same, &percent)));
    texts
}

/// Formats a part for users.
fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn pair(what: &str, old: &Estimate, new: &Estimate, is_same: bool, show: &dyn Fn(f64) -> String) -> String {
    let spread = match new.ci95 {
        Some(half) if half > 0.0 && new.mean > 0.0 => format!(" (+-{:.0} %)", half / new.mean * 100.0),
        _ => String::new(),
    };
    if is_same {
        return format!("{what} {}{spread}", show(new.mean));
    }
    format!("{what} {} -> {}{spread}", show(old.mean), show(new.mean))
}
