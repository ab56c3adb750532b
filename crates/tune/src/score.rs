//! Scores the candidates by a goal.
//!
//! Six figures count: A streams, B random reads, L latency of a reader among others, F isolation,
//! C CPU time, T the device's work in the mixed steps. All but F are relative to the best
//! candidate's. A figure that could not be measured is left out, and the remaining weights are
//! scaled up.
//!
//! A short latency is no merit of a candidate that lets the device idle for it: T counts what was
//! done in the same steps, and F what the group that is worst off got of its entitlement, which is a
//! rate. Measuring knows no goal; only the weights of this file do. Source:
//! docs/specifications/harness.md, section 8.6, and docs/reference/tune.md.

use std::fmt;
use std::str::FromStr;

use hoistway_experiment::statistics::Estimate;
use hoistway_experiment::{Diagnostic, SchedulerSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::findings::{CandidateFindings, Findings};
use crate::mixed::MixedSteps;

/// Figures of a score.
const FIGURES: usize = 6;
/// Place of F, which is a fraction of what is due already.
const ISOLATION: usize = 3;
/// Number of readers whose total rate counts.
pub(crate) const STREAMS: u32 = 8;
/// Scores that differ by less than this are equal.
const TIE: f64 = 0.03;
/// A difference above this counts, however noisy the figures are.
const WIDEST_TIE: f64 = 0.05;
/// Fraction of the best throughput that a candidate must reach, and the fraction that suffices if
/// the goal is latency.
const FLOOR: f64 = 0.80;
const FLOOR_FOR_LATENCY: f64 = 0.60;
/// The same for the device's work in the mixed steps. It is that of latency for each goal, because a
/// disk that lets a random reader in pays for it by seeks. With shares for a goal there is none:
/// isolation counts work already.
const FLOOR_OF_MIXED: f64 = FLOOR_FOR_LATENCY;
/// The fraction of the best rate of random reads that bfq must reach on flash with several hardware
/// queues.
const FLOOR_OF_FLASH_MQ: f64 = 0.90;

/// What the user wants most.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// A mixture of all goals.
    #[default]
    Balanced,
    /// Bytes and requests per second.
    Throughput,
    /// Low latency beside other load.
    Latency,
    /// Shares by weight.
    Fairness,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Goal::Balanced => "balanced",
            Goal::Throughput => "throughput",
            Goal::Latency => "latency",
            Goal::Fairness => "fairness",
        })
    }
}

impl FromStr for Goal {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        const NAMES: [&str; 4] = ["balanced", "throughput", "latency", "fairness"];
        match text {
            "balanced" => Ok(Goal::Balanced),
            "throughput" => Ok(Goal::Throughput),
            "latency" => Ok(Goal::Latency),
            "fairness" => Ok(Goal::Fairness),
            _ => {
                let meant = hoistway_experiment::diagnostic::did_you_mean(text, NAMES);
                Err(Diagnostic::new(
                    format!("there is no goal '{text}'"),
                    format!("{meant}goals: {}", NAMES.join(", ")),
                ))
            }
        }
    }
}

impl Goal {
    /// All of them.
    pub(crate) const ALL: [Goal; 4] = [Goal::Balanced, Goal::Throughput, Goal::Latency, Goal::Fairness];

    /// Weights of A, B, L, F, C and T. Streams, random reads and mixed steps are three views of
    /// throughput, so T takes its weight from A and B.
    const fn weights(self) -> [f64; FIGURES] {
        match self {
            Goal::Throughput => [0.4, 0.2, 0.1, 0.0, 0.1, 0.2],
            Goal::Latency => [0.1, 0.1, 0.6, 0.0, 0.1, 0.1],
            Goal::Fairness => [0.15, 0.05, 0.2, 0.4, 0.1, 0.1],
            Goal::Balanced => [0.2, 0.15, 0.3, 0.1, 0.1, 0.15],
        }
    }

    /// Weights of the figures that a change must improve: those that the goal is about.
    const fn main_weights(self) -> [f64; FIGURES] {
        match self {
            Goal::Throughput => [0.4, 0.2, 0.0, 0.0, 0.0, 0.2],
            Goal::Latency => [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            Goal::Fairness => [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            Goal::Balanced => self.weights(),
        }
    }

    /// Whether a candidate's figure of this probe matters for the goal; noise in other figures
    /// decides nothing.
    pub(crate) fn is_about(self, probe: &str) -> bool {
        let [streams, random, latency, isolation, ..] = self.main_weights();
        let kind = probe.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        match kind {
            "streams" => streams > 0.0,
            "random" => random > 0.0,
            "reader-among-readers" | "reader-among-writers" => latency > 0.0,
            "shares" => isolation > 0.0,
            _ => true,
        }
    }
}

/// A figure as a fraction of the best one, with its uncertainty.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// From 0 to 1.
    pub value: f64,
    /// Half width of its confidence interval.
    pub noise: f64,
}

/// Score of one candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// The candidate.
    pub spec: SchedulerSpec,
    /// A, B, L, F, C, T; `None` if not measured.
    pub parts: [Option<Part>; FIGURES],
    /// The weighted sum, 0 to 1.
    pub total: f64,
    /// Half width of its confidence interval.
    pub noise: f64,
    /// The weighted sum of the figures that the goal is about.
    pub main: f64,
    /// Half width of its confidence interval.
    pub main_noise: f64,
    /// Why the candidate is excluded, in words: its throughput is below the minimum or it is unfit
    /// for the device.
    pub dropped: Option<String>,
}

/// Scores of all candidates, and the winner.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Scores {
    /// In order of preference.
    pub scores: Vec<Score>,
    /// Index of the winner.
    pub winner: usize,
    /// Whether another candidate was tied with it, so that the order of preference decided.
    pub by_preference: bool,
}

impl Scores {
    /// Score of the winner.
    pub fn best(&self) -> &Score {
        &self.scores[self.winner]
    }

    /// Score of a scheduler.
    pub fn of(&self, spec: &SchedulerSpec) -> Option<&Score> {
        self.scores.iter().find(|score| score.spec == *spec)
    }
}

/// Figures of one candidate that are compared: A, B, L, F, C, T, not yet relative to the best.
type Raw = [Option<Estimate>; FIGURES];

/// Scores the candidates of `list`, which is in order of preference. `None` if no candidate was
/// measured.
pub fn score(findings: &Findings, list: &[SchedulerSpec], behaves: Class, goal: Goal) -> Option<Scores> {
    let knee = findings.knee();
    // The total throughput of a mixed load depends on which of its jobs get the device, so it is no
    // criterion where the goal is shares or latency.
    let has_load = list.iter().filter_map(|spec| findings.of(spec)).any(|candidate| candidate.load.is_some());
    let has_floors = !(has_load && matches!(goal, Goal::Fairness | Goal::Latency));
    let found: Vec<(&SchedulerSpec, &CandidateFindings, MixedSteps)> = list
        .iter()
        .filter_map(|spec| findings.of(spec).map(|candidate| (spec, candidate, findings.mixed(candidate))))
        .collect();
    let most_work = most_work(found.iter().map(|(.., mixed)| *mixed));
    let measured: Vec<(&SchedulerSpec, Raw)> =
        found.iter().map(|(spec, candidate, mixed)| (*spec, raw(candidate, *mixed, most_work, knee))).collect();
    let raws: Vec<Raw> = measured.iter().map(|(_, raw)| *raw).collect();
    if raws.iter().all(|raw| raw.iter().all(Option::is_none)) {
        return None;
    }
    let mut scores: Vec<Score> = measured
        .iter()
        .map(|(spec, own)| {
            let parts = parts(own, &raws);
            let (total, noise) = weighted(&parts, goal.weights());
            let (main, main_noise) = weighted(&parts, goal.main_weights());
            let dropped = unsuitable(&parts, behaves, spec, goal).filter(|_| has_floors);
            Score { spec: (*spec).clone(), parts, total, noise, main, main_noise, dropped }
        })
        .collect();
    if scores.iter().all(|score| score.dropped.is_some()) {
        // If no candidate reaches both floors, the floors are beyond what the device offers.
        scores.iter_mut().for_each(|score| score.dropped = None);
    }
    let standing = || scores.iter().enumerate().filter(|(_, score)| score.dropped.is_none());
    let (top, best) = standing().max_by(|(_, a), (_, b)| a.total.total_cmp(&b.total))?;
    let is_tie = |score: &Score| best.total - score.total < TIE.max((best.noise.hypot(score.noise)).min(WIDEST_TIE));
    let winner = standing().find(|(_, score)| is_tie(score)).map_or(top, |(index, _)| index);
    let by_preference = standing().any(|(index, score)| {
        let chosen = &scores[winner];
        let noise = chosen.noise.hypot(score.noise).min(WIDEST_TIE);
        index != winner && (chosen.total - score.total).abs() < TIE.max(noise)
    });
    Some(Scores { scores, winner, by_preference })
}

fn raw(candidate: &CandidateFindings, mixed: MixedSteps, most_work: [f64; 3], knee: u32) -> Raw {
    if let Some(load) = &candidate.load {
        // The bytes of unlike groups tell who was served, and the work how much was done.
        let bytes = Some(load.bytes_per_s).filter(|_| load.work.is_none());
        return [bytes, None, Some(inverse(load.p99_ns)), load.isolation, None, load.work];
    }
    let among = [&candidate.among_readers, &candidate.among_writers];
    let latencies: Vec<Estimate> = among.into_iter().flatten().map(|among| inverse(among.p99_ns)).collect();
    [
        candidate.streams_of(STREAMS).copied(),
        candidate.random_at(knee).map(|step| step.ios_per_s),
        geometric_mean(&latencies),
        mixed.isolation().map(|isolation| with_noise_of(isolation, candidate)),
        candidate.cpu_ns_per_io.map(inverse),
        work(mixed, most_work).map(|work| with_noise_of(work, candidate)),
    ]
}

/// A mean of mixed steps, with the relative noise of the most variable of them.
fn with_noise_of(mean: f64, candidate: &CandidateFindings) -> Estimate {
    let among = [&candidate.among_readers, &candidate.among_writers].into_iter().flatten();
    let others = among.flat_map(|among| [Some(among.others_bytes_per_s), among.reader_ios_per_s]);
    let shares = candidate.shares.as_ref().map(|shares| shares.ratio);
    let noise = others.chain([shares]).flatten().map(|figure| relative(&figure)).fold(0.0, f64::max);
    Estimate { mean, sd: 0.0, ci95: Some(mean * noise.min(1.0)), n: 1 }
}

/// The most work that any candidate got out of the device, per mixed step.
fn most_work(steps: impl Iterator<Item = MixedSteps>) -> [f64; 3] {
    steps.map(work_of).fold([0.0; 3], |most, own| std::array::from_fn(|at| most[at].max(own[at].unwrap_or(0.0))))
}

fn work_of(mixed: MixedSteps) -> [Option<f64>; 3] {
    [mixed.among_readers, mixed.among_writers, mixed.shares].map(|step| Some(step?.work))
}

/// Mean work of the mixed steps, each relative to the most that any candidate got done.
fn work(mixed: MixedSteps, most_work: [f64; 3]) -> Option<f64> {
    let parts: Vec<f64> = work_of(mixed)
        .into_iter()
        .zip(most_work)
        .filter_map(|(work, most)| work.map(|work| if most > 0.0 { work / most } else { 1.0 }))
        .collect();
    (!parts.is_empty()).then(|| parts.iter().sum::<f64>() / parts.len() as f64)
}

/// The reciprocal of a figure for which smaller is better, with the same relative spread.
fn inverse(estimate: Estimate) -> Estimate {
    if estimate.mean <= 0.0 {
        return Estimate { mean: 0.0, sd: 0.0, ci95: None, n: estimate.n };
    }
    let scale = 1.0 / (estimate.mean * estimate.mean);
    Estimate {
        mean: 1.0 / estimate.mean,
        sd: estimate.sd * scale,
        ci95: estimate.ci95.map(|half| half * scale),
        n: estimate.n,
    }
}

/// Combines latencies beside readers and beside writers, so that a bad one is not hidden by a good
/// one.
fn geometric_mean(values: &[Estimate]) -> Option<Estimate> {
    let first = values.first()?;
    let power = 1.0 / values.len() as f64;
    let mean = values.iter().map(|value| value.mean.max(f64::MIN_POSITIVE).ln() * power).sum::<f64>().exp();
    let spread = values.iter().map(|value| relative(value).powi(2)).sum::<f64>().sqrt() * power;
    Some(Estimate { mean, sd: 0.0, ci95: Some(mean * spread), n: first.n })
}

fn relative(estimate: &Estimate) -> f64 {
    estimate.relative_half_width().unwrap_or(0.0)
}

/// Figures as fractions of the best. Isolation is a fraction of what is due already.
fn parts(own: &Raw, all: &[Raw]) -> [Option<Part>; FIGURES] {
    let mut parts = [None; FIGURES];
    for (index, part) in parts.iter_mut().enumerate() {
        let best = all.iter().filter_map(|raw| raw[index]).map(|estimate| estimate.mean).fold(0.0, f64::max);
        let scale = if index == ISOLATION || best <= 0.0 { 1.0 } else { best };
        *part = own[index]
            .map(|estimate| Part { value: estimate.mean / scale, noise: estimate.ci95.unwrap_or(0.0) / scale });
    }
    parts
}

/// The weighted mean of the figures that were measured, and its noise.
fn weighted(parts: &[Option<Part>; FIGURES], weights: [f64; FIGURES]) -> (f64, f64) {
    let there = || parts.iter().zip(weights).filter_map(|(part, weight)| Some((part.as_ref()?, weight)));
    let sum: f64 = there().map(|(_, weight)| weight).sum();
    if sum <= 0.0 {
        return (0.0, 0.0);
    }
    let total = there().map(|(part, weight)| part.value * weight).sum::<f64>() / sum;
    let noise = there().map(|(part, weight)| (part.noise * weight).powi(2)).sum::<f64>().sqrt() / sum;
    (total, noise)
}

/// Why a candidate is unsuitable for this device regardless of its score.
fn unsuitable(parts: &[Option<Part>; FIGURES], behaves: Class, spec: &SchedulerSpec, goal: Goal) -> Option<String> {
    let is_flash = matches!(behaves, Class::FlashSq | Class::FlashMq);
    let waits = spec.name == "bfq" && spec.setting("slice_idle").is_none_or(|value| value != "0");
    if is_flash && waits && goal != Goal::Fairness {
        return Some("idles for readers on a device that does not seek, which only shares would justify".to_owned());
    }
    too_slow(parts, behaves, &spec.name, goal)
}

fn too_slow(parts: &[Option<Part>; FIGURES], behaves: Class, name: &str, goal: Goal) -> Option<String> {
    let floor = if goal == Goal::Latency { FLOOR_FOR_LATENCY } else { FLOOR };
    let for_random = if behaves == Class::FlashMq && name == "bfq" { FLOOR_OF_FLASH_MQ } else { floor };
    let below = |part: Option<Part>, floor: f64, what: &str| {
        let value = part?.value;
        (value < floor).then(|| format!("{what} {:.0} % of the best, below {:.0} %", value * 100.0, floor * 100.0))
    };
    let mixed = if goal == Goal::Fairness { 0.0 } else { FLOOR_OF_MIXED };
    below(parts[0], floor, "streams")
        .or_else(|| below(parts[1], for_random, "random reads"))
        .or_else(|| below(parts[5], mixed, "work of mixed loads"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{depths, exact};
    use crate::findings::{Among, LoadFigures, Shares, StreamStep};

    fn spec(text: &str) -> SchedulerSpec {
        text.parse().unwrap()
    }

    /// Streams in MB/s, random reads per second, the reader's p99 in ms, shares as x in 1:x.
    fn candidate(text: &str, streams: f64, random: f64, p99_ms: f64, share: Option<f64>) -> CandidateFindings {
        let mut random_step = depths(1e6, 1.0).remove(0);
        random_step.ios_per_s = exact(random);
        CandidateFindings {
            spec: text.to_owned(),
            streams: vec![StreamStep { count: STREAMS, bytes_per_s: exact(streams * 1e6), each_bytes_per_s: vec![] }],
            depths: vec![random_step],
            among_readers: Some(Among {
                p99_ns: exact(p99_ms * 1e6),
                others_bytes_per_s: exact(1.0),
                reader_ios_per_s: None,
                reads: None,
            }),
            shares: share.map(|ratio| Shares {
                ratio: exact(ratio),
                error: exact(0.0),
                has_mechanism: true,
                ios_per_s: exact(random),
                requests: None,
            }),
            ..CandidateFindings::default()
        }
    }

    fn won(candidates: Vec<CandidateFindings>, goal: Goal) -> String {
        let list: Vec<SchedulerSpec> = candidates.iter().map(|it| spec(&it.spec)).collect();
        let findings = Findings { candidates, ..Findings::default() };
        score(&findings, &list, Class::SeekBound, goal).unwrap().best().spec.to_string()
    }

    fn disk() -> Vec<CandidateFindings> {
        vec![
            candidate("bfq:low_latency=0", 61.2, 101.0, 131.0, Some(7.8)),
            candidate("bfq", 11.8, 94.0, 118.0, Some(6.9)),
            candidate("mq-deadline", 11.4, 97.0, 365.0, None),
        ]
    }

    #[test]
    fn on_a_disk_throughput_decides_for_every_goal() {
        for goal in [Goal::Balanced, Goal::Throughput, Goal::Fairness, Goal::Latency] {
            assert_eq!(won(disk(), goal), "bfq:low_latency=0", "{goal}");
        }
    }

    #[test]
    fn differences_below_three_in_a_hundred_are_none() {
        let mut close =
            vec![candidate("mq-deadline", 100.0, 1000.0, 10.0, None), candidate("none", 102.0, 1010.0, 9.9, None)];
        assert_eq!(won(close.clone(), Goal::Balanced), "mq-deadline");
        close[1] = candidate("none", 125.0, 1300.0, 8.0, None);
        assert_eq!(won(close, Goal::Balanced), "none");
    }

    #[test]
    fn on_flash_idling_is_accepted_only_for_shares() {
        let two = vec![candidate("bfq", 100.0, 1000.0, 5.0, Some(7.8)), candidate("none", 95.0, 950.0, 9.0, None)];
        let won = |goal| {
            let findings = Findings { candidates: two.clone(), ..Findings::default() };
            let list: Vec<SchedulerSpec> = two.iter().map(|it| spec(&it.spec)).collect();
            score(&findings, &list, Class::FlashSq, goal).unwrap().best().spec.to_string()
        };
        assert_eq!(
            (won(Goal::Balanced), won(Goal::Latency), won(Goal::Fairness)),
            ("none".into(), "none".into(), "bfq".into())
        );
    }

    #[test]
    fn shares_that_idle_the_device_are_worth_less() {
        let with = |text: &str, ratio: Option<f64>, ios_per_s: f64| {
            let mut one = candidate(text, 100.0, 700.0, 5.0, ratio);
            one.shares.iter_mut().for_each(|shares| shares.ios_per_s = exact(ios_per_s));
            one
        };
        let candidates = vec![with("cfq", Some(9.0), 430.0), with("mqfq", Some(8.0), 680.0), with("none", None, 700.0)];
        let list: Vec<SchedulerSpec> = candidates.iter().map(|it| spec(&it.spec)).collect();
        let findings = Findings { candidates, ..Findings::default() };
        let scores = score(&findings, &list, Class::FlashMq, Goal::Fairness).unwrap();
        let f: Vec<f64> =
            scores.scores.iter().map(|score| (score.parts[ISOLATION].unwrap().value * 100.0).round()).collect();
        assert_eq!(f, [55.0, 97.0, 56.0]);
    }

    #[test]
    fn who_reaches_no_floor_is_dropped_unless_everybody_is() {
        let findings = Findings { candidates: disk(), ..Findings::default() };
        let list: Vec<SchedulerSpec> = findings.candidates.iter().map(|it| spec(&it.spec)).collect();
        let scores = score(&findings, &list, Class::SeekBound, Goal::Balanced).unwrap();
        let dropped: Vec<bool> = scores.scores.iter().map(|it| it.dropped.is_some()).collect();
        assert_eq!(dropped, [false, true, true]);
        assert!(scores.scores[1].dropped.as_ref().unwrap().starts_with("streams 19 % of the best"));
        let torn = vec![candidate("a", 100.0, 10.0, 1.0, None), candidate("b", 10.0, 100.0, 1.0, None)];
        assert_eq!(won(torn, Goal::Throughput), "a");
    }

    /// The random part of this load adds few bytes, so a scheduler that serves it better must not
    /// be dropped as too slow.
    #[test]
    fn the_users_load_has_no_floor_where_it_is_about_shares() {
        let did = |text: &str, mb: f64, isolation: f64, work: f64| CandidateFindings {
            spec: text.to_owned(),
            load: Some(LoadFigures {
                bytes_per_s: exact(mb * 1e6),
                p99_ns: exact(1e6),
                isolation: Some(exact(isolation)),
                work: Some(exact(work)),
                share_error: None,
            }),
            ..CandidateFindings::default()
        };
        let two = vec![did("mq-deadline", 50.0, 0.1, 1.0), did("bfq", 10.0, 0.9, 0.5)];
        assert_eq!(won(two.clone(), Goal::Fairness), "bfq");
        assert_eq!(won(two, Goal::Throughput), "mq-deadline");
        // Fewer bytes, because the small requests are served as well, are not less work.
        let two = vec![did("none", 50.0, 0.1, 0.9), did("mqfq", 30.0, 1.0, 0.95)];
        assert_eq!(won(two, Goal::Balanced), "mqfq");
    }

    #[test]
    fn shares_count_where_they_are_the_goal() {
        let two = vec![candidate("none", 100.0, 1000.0, 10.0, None), candidate("bfq", 90.0, 900.0, 11.0, Some(7.8))];
        assert_eq!(won(two.clone(), Goal::Fairness), "bfq");
        assert_eq!(won(two, Goal::Throughput), "none");
    }

    #[test]
    fn what_was_not_measured_does_not_count() {
        let parts = [Some(Part { value: 0.5, noise: 0.0 }), None, None, None, None, None];
        assert_eq!(weighted(&parts, Goal::Balanced.weights()), (0.5, 0.0));
        assert_eq!(
            "balnced".parse::<Goal>().unwrap_err().help,
            "did you mean 'balanced'? goals: balanced, throughput, latency, fairness"
        );
    }
}
