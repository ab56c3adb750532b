//! Turns findings into advice: what to run and what to set, each with its reason.
//!
//! Source: docs/specifications/harness.md, section 8.6.
//!
//! | rule | says |
//! | --- | --- |
//! | R-SEEK, R-ARRAY, R-FLASH, R-FLASH-MQ, R-VIRTUAL | which scheduler, by the candidates' figures |
//! | R-LL, R-IDLE | BFQ's low latency and idling, by streams with and without them |
//! | R-READS, R-WBT, R-KYBER, R-REQS | settings that were tried on the winner and paid off |
//! | R-ROT | the `rotational` flag is wrong |
//! | R-GROUP | shares without idling for readers |
//! | R-KEEP, R-NOISE | why there is nothing to change |
//! | R-ZONED, R-STACK, R-STATIC | what follows from properties alone |

mod evidence;
mod noise;
pub(crate) mod settings;

use hoistway_experiment::SchedulerSpec;

use crate::candidates::{BFQ_IDLING, BFQ_NO_IDLING, RunsIn, short_list};
use crate::class::{Class, Classified, classify, static_choice};
use crate::device::Device;
use crate::findings::Findings;
use crate::iostune::{Idling, idling};
use crate::recommendation::{Advice, Confidence, Item, Recommendation, Verdict};
use crate::score::{Goal, STREAMS, Score, Scores, score};
use evidence::{against, megabytes, mixed_figures, reason_of};

/// Deviation of a share from which on a warning is given.
const SHARES_LOST: f64 = 0.25;

/// The input of all rules.
#[derive(Copy, Clone)]
pub(crate) struct Case<'a> {
    pub device: &'a Device,
    pub findings: &'a Findings,
    pub class: &'a Classified,
    pub goal: Goal,
    /// The user's own list of candidates, or empty.
    pub only: &'a [SchedulerSpec],
}

impl Case<'_> {
    /// The candidates for the kernel or for `hoistway serve` that may win, in order of preference.
    pub fn list(&self, runs_in: RunsIn) -> Vec<SchedulerSpec> {
        let all = short_list(self.device, self.class.class, self.class.behaves, self.only);
        all.into_iter().filter(|it| it.runs_in == runs_in && !it.is_control).map(|it| it.spec).collect()
    }

    pub fn scores(&self, runs_in: RunsIn) -> Option<Scores> {
        score(self.findings, &self.list(runs_in), self.class.behaves, self.goal)
    }

    /// Total rate of 8 streams under a scheduler, in bytes per second.
    pub fn streams(&self, spec: &SchedulerSpec) -> Option<f64> {
        Some(self.findings.of(spec)?.streams_of(STREAMS)?.mean)
    }
}

/// Decides. The same findings always give the same advice. `only` is the user's own list of
/// candidates, or empty.
pub fn recommend(device: &Device, findings: &Findings, goal: Goal, only: &[SchedulerSpec]) -> Recommendation {
    let class = classify(device, findings);
    let seeks = matches!(class.behaves, Class::SeekBound | Class::Array);
    let case = Case { device, findings, class: &class, goal, only };
    let kernel = for_kernel(&case);
    let serve = for_serve(&case);
    let notes = notes(&case, &kernel);
    let idling = class.class.is_measured().then(|| idling(&findings.streams, seeks)).flatten();
    Recommendation { goal, class, idling, kernel, serve, notes }
}

fn for_kernel(case: &Case<'_>) -> Advice {
    let class = case.class.class;
    if !class.is_measured() {
        return by_facts(case);
    }
    let Some(scores) = case.scores(RunsIn::Kernel) else {
        return unmeasured(case);
    };
    let mut advice = chosen(case, scores);
    if case.class.flag_is_wrong {
        let p50_us = case.findings.random_read_p50_ns().unwrap_or(0.0) / 1e3;
        let evidence = format!("a random read takes {p50_us:.0} us, which no rotating disk can do");
        advice.items.insert(0, Item { unless: String::new(), ..item("rotational", "1", "0", "R-ROT", evidence) });
        if advice.verdict == Verdict::Keep {
            advice.verdict = Verdict::Change;
        }
    }
    advice
}

/// An item of high confidence.
fn item(setting: &str, old: &str, new: &str, rule: &str, evidence: impl Into<String>) -> Item {
    Item {
        setting: setting.to_owned(),
        old: old.to_owned(),
        new: new.to_owned(),
        rule: rule.to_owned(),
        evidence: evidence.into(),
        unless: String::new(),
        confidence: Confidence::High,
    }
}

/// Advice to change nothing.
fn keep(case: &Case<'_>, verdict: Verdict, scores: Option<Scores>, left: Vec<String>) -> Advice {
    let spec = case.device.current.clone();
    Advice { runs_in: RunsIn::Kernel, verdict, spec, items: Vec::new(), left, scores }
}

/// Advice for classes that are not measured.
fn by_facts(case: &Case<'_>) -> Advice {
    let (device, class) = (case.device, case.class.class);
    let Some(spec) = static_choice(class, case.goal) else {
        return keep(case, Verdict::Nothing, None, vec![format!("R-STACK: {}", case.class.why)]);
    };
    if spec.name == device.current.name {
        return keep(case, Verdict::Keep, None, vec![format!("R-KEEP: {spec} is suitable: {}", case.class.why)]);
    }
    let rule = if class == Class::Zoned { "R-ZONED" } else { "R-STACK" };
    let items = vec![item("scheduler", &device.current.name, &spec.name, rule, case.class.why.clone())];
    Advice { runs_in: RunsIn::Kernel, verdict: Verdict::Change, spec, items, left: Vec::new(), scores: None }
}

/// Advice if no candidate was measured.
fn unmeasured(case: &Case<'_>) -> Advice {
    let wanted = static_choice(case.class.behaves, case.goal);
    let offered = wanted.filter(|spec| case.device.offers(&spec.name));
    let Some(spec) = offered else {
        return keep(case, Verdict::Keep, None, vec!["R-STATIC: the usual choice is not available".to_owned()]);
    };
    if spec == case.device.current {
        return keep(case, Verdict::Keep, None, vec![format!("R-STATIC: {spec} is the usual choice already")]);
    }
    let known = if case.findings.depths.is_empty() { "nothing was measured" } else { "no scheduler was tried" };
    let evidence = format!("{known}; the usual choice for {}: {}", case.class.class, case.class.why);
    let mut items = settings::items(case, &case.device.current, &spec, "R-STATIC", &evidence);
    items.iter_mut().for_each(|item| item.confidence = Confidence::Low);
    Advice { runs_in: RunsIn::Kernel, verdict: Verdict::Change, spec, items, left: Vec::new(), scores: None }
}

/// Advice to change to the winner, or the reason why it is not worth a change.
fn chosen(case: &Case<'_>, scores: Scores) -> Advice {
    let current = &case.device.current;
    let mut left = Vec::new();
    left.extend(idling_that_costs(case, &scores.best().spec));
    left.extend(scores.scores.iter().filter_map(|score| Some(format!("{}: {}", score.spec, score.dropped.as_ref()?))));
    let noisy = noise::decisive_noise(case, &scores);
    if !noisy.is_empty() {
        left.splice(0..0, noisy);
        return keep(case, Verdict::Inconclusive, Some(scores), left);
    }
    let winner = scores.best().spec.clone();
    let (settled, tried) = settings::settle(case, &winner);
    left.extend(tried);
    if let Some(why) = not_worth_it(case, &scores)
        && settled == winner
    {
        left.insert(0, why);
        return keep(case, Verdict::Keep, Some(scores), left);
    }
    // The current scheduler may be the best once a setting that was tried on it is applied.
    let base = if not_worth_it(case, &scores).is_some() { current.clone() } else { winner.clone() };
    let target = if base == winner { settled } else { settings::settle(case, &base).0 };
    let evidence = match scores.of(current) {
        Some(_) => against(case, current, &winner),
        None => against(case, &winner, &winner),
    };
    let evidence = format!("{}: {evidence}", reason_of(case));
    let rule = rule_of(case.class.class);
    let mut items = settings::items(case, current, &target, rule, &evidence);
    let most = if case.findings.is_short_of_cpu() { Confidence::Low } else { Confidence::High };
    let confidence = confidence(&scores, current).min(most);
    items.iter_mut().for_each(|item| item.confidence = item.confidence.min(confidence));
    if let Some(first) = items.first_mut()
        && first.setting == "scheduler"
    {
        first.unless = unless(case.goal);
    }
    let verdict = if items.is_empty() { Verdict::Keep } else { Verdict::Change };
    Advice { runs_in: RunsIn::Kernel, verdict, spec: target, items, left, scores: Some(scores) }
}

fn rule_of(class: Class) -> &'static str {
    match class {
        Class::SeekBound => "R-SEEK",
        Class::Array => "R-ARRAY",
        Class::FlashSq => "R-FLASH",
        Class::FlashMq => "R-FLASH-MQ",
        _ => "R-VIRTUAL",
    }
}

fn unless(goal: Goal) -> String {
    match goal {
        Goal::Latency => "if throughput matters more: --goal throughput",
        Goal::Fairness => "if this disk is not shared by weight: --goal balanced",
        _ => "if this disk also holds latency-critical data: --goal latency",
    }
    .to_owned()
}

/// Why the winner is not worth a change; `None` if it is.
fn not_worth_it(case: &Case<'_>, scores: &Scores) -> Option<String> {
    let (best, current) = (scores.best(), scores.of(&case.device.current)?);
    if best.spec == current.spec {
        return Some(format!("R-KEEP: {} is the best of the schedulers tried: {}", current.spec, reason_of(case)));
    }
    if current.dropped.is_some() && best.dropped.is_none() {
        return None;
    }
    if case.class.behaves == Class::SeekBound && case.class.class != Class::Virtual && current.spec.name == "none" {
        // A device with one arm always benefits from a sorting scheduler, even if these probes do
        // not show it.
        return None;
    }
    let gain = if current.main > 0.0 { best.main / current.main - 1.0 } else { f64::INFINITY };
    let margin = case.class.class.margin();
    (gain < margin).then(|| {
        let (gain, margin) = (gain * 100.0, margin * 100.0);
        format!("R-KEEP: {} would change the figures of the goal by {gain:+.1} %, less than the {margin:.0} % required for a change", best.spec)
    })
}

/// How clearly the winner is ahead of the current scheduler.
fn confidence(scores: &Scores, current: &SchedulerSpec) -> Confidence {
    let best = scores.best();
    let clear = |other: &Score| best.main - other.main > 2.0 * best.main_noise.hypot(other.main_noise);
    match scores.of(current) {
        Some(other) if clear(other) => Confidence::High,
        Some(_) => Confidence::Medium,
        None => Confidence::Low,
    }
}

/// Reports, with both figures, that BFQ's idling costs streams, whichever candidate won.
fn idling_that_costs(case: &Case<'_>, winner: &SchedulerSpec) -> Option<String> {
    let (idling_bfq, no_idling_bfq) = (BFQ_IDLING.parse().ok()?, BFQ_NO_IDLING.parse().ok()?);
    let (with, without) = (case.streams(&idling_bfq)?, case.streams(&no_idling_bfq)?);
    let best = case.streams(winner)?;
    (without > settings::PAYS * with && *winner != idling_bfq).then(|| {
        format!(
            "R-IDLE: bfq with slice_idle=8 reads {} in 8 streams, {} without idling, {winner} {}: no idling for readers",
            megabytes(with),
            megabytes(without),
            megabytes(best)
        )
    })
}

/// Advice for `hoistway serve`: the best of its policies, measured on the same device.
fn for_serve(case: &Case<'_>) -> Option<Advice> {
    let list = case.list(RunsIn::Serve);
    if list.is_empty() || !case.class.class.is_measured() {
        return None;
    }
    let scores = case.scores(RunsIn::Serve)?;
    let winner = scores.best().spec.clone();
    let best = &scores.best().spec;
    let evidence = format!("{}: {}", reason_of(case), against(case, best, best));
    let confidence = if scores.by_preference { Confidence::Medium } else { Confidence::High };
    let first = Item {
        confidence,
        unless: unless(case.goal),
        ..item("scheduler", "", &winner.name, rule_of(case.class.class), evidence)
    };
    let mut items = vec![first];
    items.extend(settings::of_server(case, &winner));
    let mut left: Vec<String> = against_default(case, &scores, &list[0]).into_iter().collect();
    left.extend(scores.scores.iter().filter_map(|score| Some(format!("{}: {}", score.spec, score.dropped.as_ref()?))));
    Some(Advice { runs_in: RunsIn::Serve, verdict: Verdict::Change, spec: winner, items, left, scores: Some(scores) })
}

/// Why another scheduler than `hoistway serve`'s default is recommended, with the figures of both;
/// `None` for the default itself.
fn against_default(case: &Case<'_>, scores: &Scores, default: &SchedulerSpec) -> Option<String> {
    let (best, own) = (scores.best(), scores.of(default)?);
    (best.spec != *default).then(|| {
        let figures = against(case, default, &best.spec);
        let mixed = mixed_figures(case, default, &best.spec).map_or_else(String::new, |text| format!(", {text}"));
        let (from, to) = (own.total, best.total);
        format!("{default}, the default of hoistway serve: score {from:.2} -> {to:.2}, {figures}{mixed}")
    })
}

fn notes(case: &Case<'_>, kernel: &Advice) -> Vec<String> {
    let mut notes = Vec::new();
    if let (short @ 1.., all) = case.findings.short_of_cpu {
        notes.push(format!(
            "the processor was saturated in {short} of {all} runs: their figures may be limited by the machine instead of the device"
        ));
    }
    if !case.device.below.is_empty() {
        notes.push(format!("below it: {}; tune these", case.device.below.join(", ")));
    }
    if let Some(ratio) = case.findings.zone_ratio() {
        notes.push(format!("the outer zone reads {ratio:.2} times as fast as the inner one"));
    }
    let parallelism = case.findings.parallelism();
    if parallelism >= 2.0 && case.device.has_groups {
        notes.push(format!(
            "weights affect only groups with more than {:.0} requests in flight, because the device serves that number at once",
            parallelism.ceil()
        ));
    }
    if let Some(shares) = case.findings.of(&kernel.spec).and_then(|found| found.shares.as_ref())
        && kernel.spec.setting("slice_idle") == Some("0")
        && shares.error.mean > SHARES_LOST
    {
        notes.push(format!(
            "R-GROUP: shares of 1:8 result in 1:{:.1} without idling for readers; at low depth only idling enforces them",
            shares.ratio.mean
        ));
    }
    if case.class.behaves == Class::Array
        && let Some((Idling::PerGroup, _)) = idling(&case.findings.streams, true)
    {
        notes.push("R-GROUP: enforce shares by idling for groups, not for readers: cfq (up to 4.20, and hoistway serve) has group_idle for this".to_owned());
    }
    notes
}
