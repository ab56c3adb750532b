//! The mixed steps, in which groups compete: what each group is entitled to, and how much of the
//! device's work was done.
//!
//! The yardstick is that of every other view: [`hoistway_experiment::entitlement`]. Candidates that
//! ignore weights are on the same scale as those that know them. Source: docs/reference/tune.md.

use hoistway_experiment::entitlement::{Claim, Entitlement, entitled};

use crate::findings::{Among, CandidateFindings, Findings};
use crate::probe::WEIGHTS;

/// One mixed step under one candidate.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Mixed {
    /// What the group that is worst off got of its entitlement, 0 to 1.
    pub isolation: f64,
    /// The device's work that was done, 1 for a full device: the sum of `rate / rate of the device
    /// kept full with this kind of request`.
    pub work: f64,
}

impl Mixed {
    fn of(claims: &[Claim], got_per_s: Vec<f64>) -> Option<Self> {
        let work = claims.iter().zip(&got_per_s).map(|(claim, got)| got / claim.full_per_s).sum();
        let isolation = Entitlement::of(got_per_s, entitled(claims))?.isolation;
        Some(Self { isolation, work })
    }
}

/// The mixed steps of one candidate; `None` for one that was not measured or whose groups were not
/// measured alone.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct MixedSteps {
    /// One random reader beside sequential readers.
    pub among_readers: Option<Mixed>,
    /// The same beside sequential writers.
    pub among_writers: Option<Mixed>,
    /// Two groups of weights 100 and 800. For a candidate that ignores weights and was therefore not
    /// measured: equal parts of its rate of random reads.
    pub shares: Option<Mixed>,
    /// The user's own load, which replaces the others.
    pub load: Option<Mixed>,
}

impl MixedSteps {
    /// All that are known.
    pub fn known(&self) -> impl Iterator<Item = Mixed> {
        [self.among_readers, self.among_writers, self.shares, self.load].into_iter().flatten()
    }

    /// Mean isolation of the steps, 0 to 1.
    pub fn isolation(&self) -> Option<f64> {
        mean(self.known().map(|step| step.isolation))
    }

    /// Mean work of the steps, as a fraction of the full device.
    pub fn work(&self) -> Option<f64> {
        mean(self.known().map(|step| step.work))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

impl Findings {
    /// The mixed steps of a candidate of these findings.
    pub fn mixed(&self, candidate: &CandidateFindings) -> MixedSteps {
        let full_per_s = self.best_random_per_s();
        let beside = |among: &Option<Among>, alone: Option<f64>| {
            let among = among.as_ref()?;
            let alone_per_s = self.depths.iter().find(|step| step.depth == 1)?.ios_per_s.mean;
            let reader = Claim { weight: 1.0, alone_per_s, full_per_s: full_per_s.max(alone_per_s) };
            // The others keep as many requests outstanding alone as both groups do together, but
            // for one.
            let others = Claim { weight: 1.0, alone_per_s: alone?, full_per_s: alone? };
            Mixed::of(&[reader, others], vec![among.reader_ios_per_s?.mean, among.others_bytes_per_s.mean])
        };
        let alone = |rate: &Option<hoistway_experiment::statistics::Estimate>| rate.map(|rate| rate.mean);
        MixedSteps {
            among_readers: beside(&candidate.among_readers, alone(&self.readers_alone)),
            among_writers: beside(&candidate.among_writers, alone(&self.writers_alone)),
            shares: self.shares_step(candidate, full_per_s),
            load: candidate
                .load
                .as_ref()
                .and_then(|load| Some(Mixed { isolation: load.isolation?.mean, work: load.work?.mean })),
        }
    }

    fn shares_step(&self, candidate: &CandidateFindings, full_per_s: f64) -> Option<Mixed> {
        if full_per_s <= 0.0 || self.candidates.iter().all(|it| it.shares.is_none()) {
            return None;
        }
        let claims = WEIGHTS.map(|weight| Claim { weight: weight.into(), alone_per_s: full_per_s, full_per_s });
        let got = match &candidate.shares {
            Some(shares) => {
                let light = shares.ios_per_s.mean / (1.0 + shares.ratio.mean);
                [light, shares.ios_per_s.mean - light]
            }
            None => [candidate.random_at(self.knee())?.ios_per_s.mean / 2.0; 2],
        };
        Mixed::of(&claims, got.to_vec())
    }

    /// The best rate of random reads of any candidate: that of the device kept full with them.
    fn best_random_per_s(&self) -> f64 {
        let knee = self.knee();
        let of_candidate = |it: &CandidateFindings| {
            let random = it.random_at(knee).map_or(0.0, |step| step.ios_per_s.mean);
            it.shares.as_ref().map_or(0.0, |shares| shares.ios_per_s.mean).max(random)
        };
        let best = self.candidates.iter().map(of_candidate).fold(0.0, f64::max);
        if best > 0.0 { best } else { self.peak_ios_per_s() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{depths, exact};
    use crate::findings::{DepthStep, Shares};

    /// A device that does 1000 random reads a second, 100 of them one at a time, or 50 MB/s.
    fn findings(candidate: CandidateFindings) -> Findings {
        let full = CandidateFindings { shares: Some(shares(8.0, 1000.0)), ..CandidateFindings::default() };
        Findings {
            depths: depths(1e7, 10.0),
            readers_alone: Some(exact(50e6)),
            candidates: vec![candidate, full],
            ..Findings::default()
        }
    }

    fn shares(ratio: f64, ios_per_s: f64) -> Shares {
        Shares {
            ratio: exact(ratio),
            error: exact(0.0),
            has_mechanism: true,
            ios_per_s: exact(ios_per_s),
            requests: None,
        }
    }

    fn of(candidate: CandidateFindings) -> MixedSteps {
        let findings = findings(candidate);
        findings.mixed(&findings.candidates[0])
    }

    fn beside(reader_per_s: f64, others_mb_per_s: f64) -> Mixed {
        let among = Among {
            p99_ns: exact(1e6),
            others_bytes_per_s: exact(others_mb_per_s * 1e6),
            reader_ios_per_s: Some(exact(reader_per_s)),
            reads: Some(1000),
        };
        of(CandidateFindings { among_readers: Some(among), ..CandidateFindings::default() }).among_readers.unwrap()
    }

    #[test]
    fn a_reader_is_entitled_to_what_it_can_use_and_the_others_to_the_rest() {
        // Alone it uses a tenth of the device.
        assert_eq!(beside(100.0, 45.0), Mixed { isolation: 1.0, work: 1.0 });
        assert_eq!(beside(1.0, 50.0).isolation, 0.01);
        // All of the reader's for a tenth of the others' is a fifth of the device's work.
        let starved = beside(100.0, 4.5);
        assert_eq!(((starved.isolation * 100.0).round(), (starved.work * 100.0).round()), (10.0, 19.0));
    }

    #[test]
    fn shares_of_all_candidates_are_on_one_scale() {
        let known = |ratio, rate| {
            of(CandidateFindings { shares: Some(shares(ratio, rate)), ..CandidateFindings::default() }).shares.unwrap()
        };
        let hundredths = |mixed: Mixed| (mixed.isolation * 100.0).round();
        assert_eq!([known(8.0, 1000.0), known(8.0, 100.0), known(1.0, 1000.0)].map(hundredths), [100.0, 10.0, 56.0]);
        assert_eq!(known(300.0, 1000.0).isolation, 9.0 / 301.0);
        // One without weights divides equally.
        let step = DepthStep { depth: 32, ios_per_s: exact(1000.0), p50_ns: 1.0, p99_ns: 1.0 };
        let without = CandidateFindings { depths: vec![step], ..CandidateFindings::default() };
        assert_eq!(of(without).shares.map(hundredths), Some(56.0));
    }

    #[test]
    fn what_was_not_measured_alone_has_no_isolation() {
        let stored: Among = serde_json::from_str(r#"{"p99_ns":{"mean":1.0,"sd":0.0,"ci95":null,"n":1},"others_bytes_per_s":{"mean":1.0,"sd":0.0,"ci95":null,"n":1}}"#).unwrap();
        let steps = of(CandidateFindings { among_readers: Some(stored), ..CandidateFindings::default() });
        assert_eq!(steps.isolation(), None);
    }
}
