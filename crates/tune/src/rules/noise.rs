//! Finds the noisy figures that the decision depends on.
//!
//! - A figure of the winner counts if the goal is about it, because the user wants to know what a
//!   change gains.
//! - A figure of the current scheduler counts if the goal is about it and the advice would change
//!   with that figure two standard deviations better or worse.
//! - A figure of the device alone always counts, because it decides the class.
//!
//! Source: docs/specifications/harness.md, section 8.4.

use super::{Case, not_worth_it};
use crate::candidates::RunsIn;
use crate::findings::{CandidateFindings, Findings, Noisy};
use crate::score::Scores;

/// At this many standard deviations, a value lies outside the range of three repetitions.
const DEVIATIONS: f64 = 2.0;

/// A message for each noisy figure that the decision depends on; empty if the decision stands.
pub(crate) fn decisive_noise(case: &Case<'_>, scores: &Scores) -> Vec<String> {
    let (winner, current) = (scores.best().spec.to_string(), case.device.current.to_string());
    let decides = |noisy: &&Noisy| {
        let is_asked_for = || case.goal.is_about(&noisy.probe);
        !noisy.is_candidates
            || (noisy.spec == winner && is_asked_for())
            || (noisy.spec == current && is_asked_for() && !is_robust(case, scores, noisy))
    };
    let found = case.findings.noisy.iter().filter(decides);
    found
        .map(|noisy| {
            let percent = noisy.variation * 100.0;
            format!("R-NOISE: {} under {} varies by {percent:.0} % between repetitions", noisy.probe, noisy.spec)
        })
        .collect()
}

/// Whether the advice stays the same within the uncertainty of the figure.
fn is_robust(case: &Case<'_>, scores: &Scores, noisy: &Noisy) -> bool {
    let off = DEVIATIONS * noisy.variation;
    off < 1.0 && [1.0 - off, 1.0 + off].into_iter().all(|factor| is_same(case, scores, noisy, factor) == Some(true))
}

/// Whether the advice stays the same with the figure multiplied by `factor`; `None` if the figure
/// cannot be varied on its own.
fn is_same(case: &Case<'_>, scores: &Scores, noisy: &Noisy, factor: f64) -> Option<bool> {
    let at = case.findings.candidates.iter().position(|candidate| candidate.spec == noisy.spec)?;
    let mut candidates = case.findings.candidates.clone();
    scale(&mut candidates[at], &noisy.probe, factor)?;
    let findings = Findings { candidates, ..case.findings.clone() };
    let other = Case { findings: &findings, ..*case };
    let others = other.scores(RunsIn::Kernel)?;
    let is_kept = |case: &Case<'_>, scores: &Scores| not_worth_it(case, scores).is_some();
    Some(others.best().spec == scores.best().spec && is_kept(&other, &others) == is_kept(case, scores))
}

/// Multiplies the main figure of a probe by `factor`.
fn scale(candidate: &mut CandidateFindings, probe: &str, factor: f64) -> Option<()> {
    let (kind, number) = probe.rsplit_once('-')?;
    let number = || number.parse::<u32>().ok();
    let figure = match kind {
        "streams" => &mut candidate.streams.iter_mut().find(|step| Some(step.count) == number())?.bytes_per_s,
        "random" => &mut candidate.depths.iter_mut().find(|step| Some(step.depth) == number())?.ios_per_s,
        _ if probe == "reader-among-readers" => &mut candidate.among_readers.as_mut()?.p99_ns,
        _ if probe == "reader-among-writers" => &mut candidate.among_writers.as_mut()?.p99_ns,
        _ => return None,
    };
    figure.mean *= factor;
    Some(())
}
