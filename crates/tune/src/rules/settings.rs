//! Settings of the winner: which to try, whether they paid off, and the items that result.

use hoistway_experiment::SchedulerSpec;
use hoistway_experiment::statistics::Estimate;

use super::evidence::megabytes;
use super::{Case, item};
use crate::class::{Class, ms};
use crate::device::HostKind;
use crate::findings::CandidateFindings;
use crate::probe::Probe;
use crate::recommendation::Item;
use crate::score::{Goal, STREAMS};

/// Minimum gain of streams, as a factor, for a change of BFQ's idling.
pub(crate) const PAYS: f64 = 1.2;
/// A variant pays off if a reader's p99 beside other jobs falls below this fraction of the
/// winner's.
const BETTER_LATENCY: f64 = 0.8;
/// Fraction of their rate that the other jobs must keep meanwhile.
const WRITES_KEPT: f64 = 0.9;
/// A remedy is tried if a reader's p99 beside writers is more than this many times that of a reader
/// alone.
const DISTURBED: f64 = 3.0;
/// The same for mq-deadline's own settings.
const STARVED: f64 = 10.0;
/// Maximum of `nr_requests`.
const MOST_REQUESTS: u32 = 1024;
/// Minimum gain of the rate, as a factor, for a change of nr_requests.
const MORE_REQUESTS_PAY: f64 = 1.05;
/// The kernel's defaults of the write-back throttling target, for flash and for mechanical devices.
const WBT_US: (u64, u64) = (2_000, 75_000);

/// A variant of a scheduler and the probes to run under it.
pub(crate) struct Trial {
    pub spec: SchedulerSpec,
    pub probes: Vec<Probe>,
}

/// The variants worth trying on this scheduler, given the findings.
pub(crate) fn trials(case: &Case<'_>, winner: &SchedulerSpec) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |spec: SchedulerSpec, probes: Vec<Probe>| {
        let is_known = |probe: &Probe| {
            let found = case.findings.of(&spec);
            found.is_some_and(|found| match probe {
                Probe::Streams(count) => found.streams_of(*count).is_some(),
                Probe::AmongWriters => found.among_writers.is_some(),
                Probe::AmongReaders => found.among_readers.is_some(),
                Probe::Depth(depth) => found.random_at(*depth).is_some(),
                _ => false,
            })
        };
        let probes: Vec<Probe> = probes.into_iter().filter(|probe| !is_known(probe)).collect();
        if !probes.is_empty() {
            trials.push(Trial { spec, probes });
        }
    };
    if winner.name == "bfq" {
        for (key, value) in [("slice_idle", "0"), ("low_latency", "0")] {
            if winner.setting(key).is_none() {
                add(winner.clone().with(key, value), vec![Probe::Streams(STREAMS)]);
            }
        }
    }
    let Some(found) = case.findings.of(winner) else { return trials };
    let is_flash = matches!(case.class.behaves, Class::FlashSq | Class::FlashMq);
    let beside_writers = found.among_writers.as_ref().map_or(0.0, |among| among.p99_ns.mean);
    let alone = alone_p99_ns(case);
    if winner.name == "mq-deadline" && is_flash && beside_writers > STARVED * alone {
        add(starving_writers(winner), vec![Probe::AmongWriters]);
    }
    if winner.name != "bfq" && beside_writers > DISTURBED * alone {
        for wbt_us in wbt_values(case) {
            add(winner.clone().with("wbt_lat_usec", &wbt_us.to_string()), vec![Probe::AmongWriters]);
        }
    }
    if let Some(spec) = kyber_with_relaxed_targets(case, winner, found) {
        add(spec, vec![Probe::Streams(STREAMS), Probe::AmongReaders]);
    }
    if let Some((spec, depth)) = more_requests(case, winner) {
        add(winner.clone(), vec![Probe::Depth(depth)]);
        add(spec, vec![Probe::Depth(depth)]);
    }
    trials
}

fn alone_p99_ns(case: &Case<'_>) -> f64 {
    case.findings.depths.iter().find(|step| step.depth == 1).map_or(f64::INFINITY, |step| step.p99_ns)
}

fn starving_writers(winner: &SchedulerSpec) -> SchedulerSpec {
    winner.clone().with("writes_starved", "4").with("fifo_batch", "8")
}

/// Targets of write-back throttling to try: the kernel's default if it is off, otherwise half and
/// double.
fn wbt_values(case: &Case<'_>) -> Vec<u64> {
    let is_flash = matches!(case.class.behaves, Class::FlashSq | Class::FlashMq);
    match case.device.wbt_lat_us {
        None => Vec::new(),
        Some(_) if case.device.host != HostKind::Native => Vec::new(),
        Some(0) => vec![if is_flash { WBT_US.0 } else { WBT_US.1 }],
        Some(now) => vec![now / 2, now * 2],
    }
}

/// Kyber with targets that this device can meet: twice the p99 of a read under load.
fn kyber_with_relaxed_targets(
    case: &Case<'_>,
    winner: &SchedulerSpec,
    found: &CandidateFindings,
) -> Option<SchedulerSpec> {
    const STEP_NS: f64 = 100_000.0;
    let p99_ns = found.random_at(case.findings.knee())?.p99_ns;
    let read_ns = (2.0 * p99_ns / STEP_NS).ceil() * STEP_NS;
    let is_kyber = winner.name == "kyber" && winner.setting("read_lat_nsec").is_none();
    is_kyber.then(|| {
        let text = |ns: f64| format!("{ns:.0}");
        winner.clone().with("read_lat_nsec", &text(read_ns)).with("write_lat_nsec", &text(5.0 * read_ns))
    })
}

/// The winner with twice the requests, and the depth at which the effect shows; `None` unless the
/// rate still rises at the present number of requests.
fn more_requests(case: &Case<'_>, winner: &SchedulerSpec) -> Option<(SchedulerSpec, u32)> {
    let now = case.device.nr_requests.filter(|now| case.class.behaves == Class::Array && *now < MOST_REQUESTS)?;
    let at = |depth: u32| case.findings.depths.iter().rfind(|step| step.depth <= depth);
    let rises = at(now)?.ios_per_s.mean > MORE_REQUESTS_PAY * at(now / 2)?.ios_per_s.mean;
    let wanted = (2 * now).min(MOST_REQUESTS);
    // Another scheduler starts with its own `nr_requests`, which is unknown until it is chosen.
    let is_known = winner.name == case.device.current.name && winner.setting("nr_requests").is_none();
    let is_native = case.device.host == HostKind::Native && is_known;
    (rises && is_native).then(|| (winner.clone().with("nr_requests", &wanted.to_string()), wanted))
}

/// The winner with the settings that paid off, and those that were tried in vain.
pub(crate) fn settle(case: &Case<'_>, winner: &SchedulerSpec) -> (SchedulerSpec, Vec<String>) {
    let (mut spec, mut left) = (winner.clone(), Vec::new());
    if winner.name == "bfq" {
        for (key, value) in [("low_latency", "0"), ("slice_idle", "0")] {
            let without = spec.clone();
            let with = spec.clone().with(key, value);
            if spec.setting(key).is_some() || (key == "low_latency" && case.goal == Goal::Latency) {
                continue;
            }
            let (Some(old), Some(new)) = (case.streams(&without), case.streams(&with)) else { continue };
            if new > PAYS * old {
                spec = with;
            } else {
                let now = if key == "slice_idle" { 8 } else { 1 };
                left.push(format!("{key}={now} ({value} would give {} for {})", megabytes(new), megabytes(old)));
            }
        }
    }
    let Some(found) = case.findings.of(winner) else { return (spec, left) };
    if let Some(requests) = requests_of_shares(case, winner, found) {
        spec = spec.with("nr_requests", &requests.to_string());
    }
    for variant in variants(case, winner, found) {
        let Some(tried) = case.findings.of(&variant) else { continue };
        match verdict(found, tried) {
            Some((true, _)) => {
                for setting in &variant.settings {
                    spec = spec.with(&setting.key, &setting.value);
                }
            }
            Some((false, text)) => left.push(format!("{}: {text}", changed(winner, &variant))),
            None => {}
        }
    }
    (spec, left)
}

/// The `nr_requests` with which the winner's shares were measured, if the scheduler reported that
/// it needs more than its default and the device does not have as many already.
fn requests_of_shares(case: &Case<'_>, winner: &SchedulerSpec, found: &CandidateFindings) -> Option<u32> {
    let requests = found.shares.as_ref()?.requests?;
    let is_enough =
        case.device.current.name == winner.name && case.device.nr_requests.is_some_and(|now| now >= requests);
    (!is_enough).then_some(requests)
}

/// The variants of [`trials`] other than those of BFQ's idling.
fn variants(case: &Case<'_>, winner: &SchedulerSpec, found: &CandidateFindings) -> Vec<SchedulerSpec> {
    let mut variants = Vec::new();
    if winner.name == "mq-deadline" {
        variants.push(starving_writers(winner));
    }
    variants.extend(wbt_values(case).into_iter().map(|us| winner.clone().with("wbt_lat_usec", &us.to_string())));
    variants.extend(kyber_with_relaxed_targets(case, winner, found));
    variants.extend(more_requests(case, winner).map(|(spec, _)| spec));
    variants
}

/// The settings of a variant beyond the winner's, such as `writes_starved=4,fifo_batch=8`.
fn changed(winner: &SchedulerSpec, variant: &SchedulerSpec) -> String {
    let new = variant.settings.iter().filter(|setting| winner.setting(&setting.key).is_none());
    new.map(|setting| format!("{}={}", setting.key, setting.value)).collect::<Vec<_>>().join(",")
}

/// Whether a variant is better in the probe that it was tried with, and the figures.
fn verdict(old: &CandidateFindings, new: &CandidateFindings) -> Option<(bool, String)> {
    if let (Some(old), Some(new)) = (&old.among_writers, &new.among_writers) {
        let (before, after) = (old.p99_ns.mean, new.p99_ns.mean);
        let kept = new.others_bytes_per_s.mean >= WRITES_KEPT * old.others_bytes_per_s.mean;
        let (was, is) = (megabytes(old.others_bytes_per_s.mean), megabytes(new.others_bytes_per_s.mean));
        let text = format!("reader beside writers {} -> {}, writers {was} -> {is}", ms(before), ms(after));
        return Some((after < BETTER_LATENCY * before && kept, text));
    }
    if let (Some(old), Some(new)) = (&old.among_readers, &new.among_readers) {
        let (before, after) = (old.p99_ns.mean, new.p99_ns.mean);
        let kept = new.others_bytes_per_s.mean >= WRITES_KEPT * old.others_bytes_per_s.mean;
        let text = format!("reader beside readers {} -> {}", ms(before), ms(after));
        return Some((after < BETTER_LATENCY * before && kept, text));
    }
    let new = new.depths.first()?;
    let old = old.random_at(new.depth)?;
    let text = format!("{:.0} -> {:.0} random reads a second", old.ios_per_s.mean, new.ios_per_s.mean);
    Some((new.ios_per_s.mean > MORE_REQUESTS_PAY * old.ios_per_s.mean, text))
}

/// The items that lead from one scheduler to another: the scheduler, then its settings, then those
/// of the queue.
pub(crate) fn items(
    case: &Case<'_>,
    current: &SchedulerSpec,
    target: &SchedulerSpec,
    rule: &str,
    evidence: &str,
) -> Vec<Item> {
    let mut items = Vec::new();
    if current.name != target.name {
        items.push(item("scheduler", &current.name, &target.name, rule, evidence));
    }
    for setting in &target.settings {
        // A switch resets the previous scheduler's settings; even one of the same name is set anew.
        let is_same = current.name == target.name && current.setting(&setting.key) == Some(setting.value.as_str());
        if !is_same {
            let old = old_value(case, current, target, &setting.key);
            let (rule, evidence) = reason(case, target, &setting.key, rule, evidence);
            items.push(item(&place_of(target, &setting.key), &old, &setting.value, rule, evidence));
        }
    }
    if current.name == target.name {
        for setting in current.settings.iter().filter(|setting| target.setting(&setting.key).is_none()) {
            if let Some(default) = default_of(&target.name, &setting.key) {
                items.push(item(&place_of(target, &setting.key), &setting.value, default, rule, evidence));
            }
        }
    }
    items
}

/// Path of a setting below the device's `queue/`; for io.cost, the key of the device's lines.
fn place_of(scheduler: &SchedulerSpec, key: &str) -> String {
    match key {
        "nr_requests" | "wbt_lat_usec" | "rotational" | "nomerges" | "read_ahead_kb" => key.to_owned(),
        _ if scheduler.name == "io.cost" => format!("io.cost/{key}"),
        _ => format!("iosched/{key}"),
    }
}

fn old_value(case: &Case<'_>, current: &SchedulerSpec, target: &SchedulerSpec, key: &str) -> String {
    let kept = (current.name == target.name).then(|| current.setting(key)).flatten();
    let of_queue = match key {
        "wbt_lat_usec" => case.device.wbt_lat_us.map(|us| us.to_string()),
        "nr_requests" => case.device.nr_requests.map(|requests| requests.to_string()),
        _ => None,
    };
    kept.map(str::to_owned).or(of_queue).unwrap_or_else(|| default_of(&target.name, key).unwrap_or("").to_owned())
}

/// The kernel's defaults of all settings that are ever set here. Source:
/// docs/specifications/harness.md, section 4.
fn default_of(scheduler: &str, key: &str) -> Option<&'static str> {
    Some(match (scheduler, key) {
        ("bfq" | "cfq", "slice_idle") => "8",
        ("bfq" | "cfq", "low_latency") => "1",
        ("bfq", "strict_guarantees") => "0",
        ("bfq", "timeout_sync") => "125",
        ("cfq", "quantum") => "8",
        ("mq-deadline", "fifo_batch") => "16",
        ("mq-deadline", "writes_starved") => "2",
        ("mq-deadline", "read_expire") => "500",
        ("mq-deadline", "write_expire") => "5000",
        ("mq-deadline", "front_merges") => "1",
        ("kyber", "read_lat_nsec") => "2000000",
        ("kyber", "write_lat_nsec") => "10000000",
        _ => return None,
    })
}

/// The rule and the figures behind one setting.
fn reason<'a>(case: &Case<'_>, target: &SchedulerSpec, key: &str, rule: &'a str, evidence: &str) -> (&'a str, String) {
    let mut without = target.clone();
    without.settings.retain(|setting| setting.key != key);
    let streams = || Some((case.streams(&without)?, case.streams(target)?));
    let of_shares = || {
        let shares = case.findings.of(&without)?.shares.as_ref()?;
        (shares.requests?.to_string() == target.setting(key)?).then_some(shares)
    };
    match key {
        "low_latency" | "slice_idle" => {
            let (rule, why) = match key {
                "low_latency" => {
                    ("R-LL", "by default bfq does not idle for any reader while all of them count as interactive")
                }
                _ => ("R-IDLE", "idling for one reader leaves the device unused"),
            };
            let text = streams().map_or_else(
                || why.to_owned(),
                |(old, new)| format!("8 streams {} -> {}: {why}", megabytes(old), megabytes(new)),
            );
            (rule, text)
        }
        "nr_requests" if of_shares().is_some() => {
            let ratio = of_shares().map_or(0.0, |shares| shares.ratio.mean);
            let why = "with fewer, processes wait to allocate a request, and a scheduler can divide only requests that it has";
            ("R-GROUP", format!("1:8 resulted in 1:{ratio:.1} with this number: {why}"))
        }
        "writes_starved" | "fifo_batch" | "wbt_lat_usec" | "read_lat_nsec" | "write_lat_nsec" | "nr_requests" => {
            let rule = match key {
                "writes_starved" | "fifo_batch" => "R-READS",
                "wbt_lat_usec" => "R-WBT",
                "nr_requests" => "R-REQS",
                _ => "R-KYBER",
            };
            (rule, tried_text(case, target, key).unwrap_or_else(|| evidence.to_owned()))
        }
        _ => (rule, evidence.to_owned()),
    }
}

/// The figures of the trial behind a setting.
fn tried_text(case: &Case<'_>, target: &SchedulerSpec, key: &str) -> Option<String> {
    let plain = SchedulerSpec::named(target.name.clone());
    let tried = case.findings.candidates.iter().find(|candidate| {
        let spec: Option<SchedulerSpec> = candidate.spec.parse().ok();
        spec.is_some_and(|spec| spec.name == target.name && spec.setting(key) == target.setting(key))
    })?;
    Some(verdict(case.findings.of(&plain)?, tried)?.1)
}

/// The settings of a policy of `hoistway serve`, with reasons.
pub(crate) fn of_server(case: &Case<'_>, winner: &SchedulerSpec) -> Vec<Item> {
    let item_of = |key: &str, value: &str| {
        let old = default_of(&winner.name, key).unwrap_or("");
        let (rule, evidence) = match (winner.name.as_str(), key) {
            ("cfq", "slice_idle") => ("R-GROUP", "no idling for readers; group_idle=8 enforces the groups' shares"),
            ("cfq", "quantum") => ("R-GROUP", "a group must fill the device: more requests in flight of one reader"),
            (_, "low_latency") => ("R-LL", "idles for every reader"),
            (_, "slice_idle") => ("R-IDLE", "no idling for readers"),
            _ => ("R-SERVE", ""),
        };
        let figures = streams_text(case, winner);
        item(&format!("iosched/{key}"), old, value, rule, [evidence, &figures].join("; "))
    };
    winner.settings.iter().map(|setting| item_of(&setting.key, &setting.value)).collect()
}

fn streams_text(case: &Case<'_>, spec: &SchedulerSpec) -> String {
    let found: Option<Estimate> = case.findings.of(spec).and_then(|it| it.streams_of(STREAMS).copied());
    found.map_or_else(String::new, |streams| format!("8 streams {}", megabytes(streams.mean)))
}
