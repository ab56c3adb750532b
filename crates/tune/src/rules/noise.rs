//! Which of the figures that vary too much the decision hangs on (specification: harness 8.4).
//!
//! The winner's own always: who changes to it wants to know what it gives. One of what is set now only if the advice would
//! be another with that figure two standard deviations better or worse. One of the device decides its class.

use super::{Case, not_worth_it};
use crate::candidates::Carrier;
use crate::findings::{CandidateFindings, Findings, Noisy};
use crate::score::Scores;

/// So many standard deviations off, a figure of three repetitions is beyond all three.
const DEVIATIONS: f64 = 2.0;

/// What to say of each figure that the decision hangs on; empty: it stands.
pub(crate) fn hinges(case: &Case<'_>, scores: &Scores) -> Vec<String> {
    let (winner, current) = (scores.best().spec.to_string(), case.device.current.to_string());
    let decides = |noisy: &&Noisy| {
        let is_asked_for = || case.goal.is_about(&noisy.probe);
        !noisy.is_candidates
            || (noisy.spec == winner && is_asked_for())
            || (noisy.spec == current && is_asked_for() && !stands(case, scores, noisy))
    };
    let found = case.findings.noisy.iter().filter(decides);
    found
        .map(|noisy| {
            let percent = noisy.variation * 100.0;
            format!("R-NOISE: {} under {} varies by {percent:.0} % between repetitions", noisy.probe, noisy.spec)
        })
        .collect()
}

/// Whether the advice is the same wherever the figure really is.
fn stands(case: &Case<'_>, scores: &Scores, noisy: &Noisy) -> bool {
    let off = DEVIATIONS * noisy.variation;
    off < 1.0 && [1.0 - off, 1.0 + off].into_iter().all(|factor| is_same(case, scores, noisy, factor) == Some(true))
}

/// None: not a figure that could be another by itself.
fn is_same(case: &Case<'_>, scores: &Scores, noisy: &Noisy, factor: f64) -> Option<bool> {
    let at = case.findings.candidates.iter().position(|candidate| candidate.spec == noisy.spec)?;
    let mut candidates = case.findings.candidates.clone();
    scale(&mut candidates[at], &noisy.probe, factor)?;
    let findings = Findings { candidates, ..case.findings.clone() };
    let other = Case { findings: &findings, ..*case };
    let others = other.scores(Carrier::Kernel)?;
    let is_kept = |case: &Case<'_>, scores: &Scores| not_worth_it(case, scores).is_some();
    Some(others.best().spec == scores.best().spec && is_kept(&other, &others) == is_kept(case, scores))
}

/// The figure that a probe is about, so many times what it was.
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
