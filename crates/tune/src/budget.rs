//! Fits a batch into the remaining time by reducing repetitions first, then candidates.

use hoistway_experiment::SchedulerSpec;

/// Descriptions of what was requested but not measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut(Vec<String>);

impl LeftOut {
    /// Adds a description unless it is already listed.
    pub fn note(&mut self, what: String) {
        if !self.0.contains(&what) {
            self.0.push(what);
        }
    }

    /// All descriptions, in the order in which they were added.
    pub fn list(&self) -> &[String] {
        &self.0
    }
}

/// The part of a batch that is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fit {
    /// Repetitions, at least one.
    pub repeats: u32,
    /// Whether each question is kept, by its index in the batch.
    pub is_kept: Vec<bool>,
}

/// Selects what fits into `left_ns` from questions that take `lengths_ns`, `repeats` times each. If
/// not even one repetition fits, whole schedulers are dropped from the end of the list, because a
/// candidate with missing answers cannot be compared; `first` is dropped last. Returns `None` if no
/// time is left or not even `first` fits.
pub(crate) fn fit(
    questions: &[(&SchedulerSpec, u64)],
    repeats: u32,
    first: &SchedulerSpec,
    left_ns: u64,
) -> Option<Fit> {
    if left_ns == 0 {
        return None;
    }
    let once_ns: u64 = questions.iter().map(|(_, length_ns)| length_ns).sum();
    if once_ns <= left_ns {
        let most = left_ns / once_ns.max(1);
        let repeats = u32::try_from(most).unwrap_or(u32::MAX).min(repeats);
        return Some(Fit { repeats, is_kept: vec![true; questions.len()] });
    }
    let mut specs: Vec<&SchedulerSpec> = Vec::new();
    for (spec, _) in questions {
        if !specs.contains(spec) {
            specs.push(spec);
        }
    }
    if let [_] = specs[..] {
        // With a single scheduler, questions are dropped from the end instead; the first is always
        // kept.
        let mut used_ns = 0;
        let is_kept = questions.iter().enumerate().map(|(index, (_, length_ns))| {
            used_ns += length_ns;
            index == 0 || used_ns <= left_ns
        });
        return Some(Fit { repeats: 1, is_kept: is_kept.collect() });
    }
    specs.sort_by_key(|spec| *spec != first);
    let length_of = |spec: &SchedulerSpec| {
        questions.iter().filter(|(of, _)| *of == spec).map(|(_, length_ns)| length_ns).sum::<u64>()
    };
    let mut used_ns = 0;
    let fitting = specs.into_iter().take_while(|spec| {
        used_ns += length_of(spec);
        used_ns <= left_ns
    });
    let kept: Vec<&SchedulerSpec> = fitting.collect();
    (!kept.is_empty())
        .then(|| Fit { repeats: 1, is_kept: questions.iter().map(|(spec, _)| kept.contains(spec)).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lengths: &[(&str, u64)], repeats: u32, first: &str, left_ns: u64) -> Option<(u32, Vec<bool>)> {
        let specs: Vec<SchedulerSpec> = lengths.iter().map(|(name, _)| SchedulerSpec::named(*name)).collect();
        let questions: Vec<(&SchedulerSpec, u64)> =
            specs.iter().zip(lengths).map(|(spec, (_, ns))| (spec, *ns)).collect();
        fit(&questions, repeats, &SchedulerSpec::named(first), left_ns).map(|fit| (fit.repeats, fit.is_kept))
    }

    #[test]
    fn repetitions_go_first_then_whole_schedulers_and_never_the_one_that_is_set() {
        let asked = [("none", 3), ("bfq", 3), ("bfq", 2), ("kyber", 4)];
        assert_eq!(kept(&asked, 3, "kyber", 36), Some((3, vec![true; 4])));
        assert_eq!(kept(&asked, 3, "kyber", 35), Some((2, vec![true; 4])));
        assert_eq!(kept(&asked, 3, "kyber", 12), Some((1, vec![true; 4])));
        assert_eq!(kept(&asked, 3, "kyber", 11), Some((1, vec![true, false, false, true])));
        assert_eq!(kept(&asked, 3, "kyber", 3), None);
        assert_eq!(kept(&asked, 3, "kyber", 0), None);
    }

    #[test]
    fn of_one_scheduler_the_last_questions_go() {
        let asked = [("none", 3), ("none", 3), ("none", 3)];
        assert_eq!(kept(&asked, 2, "none", 7), Some((1, vec![true, true, false])));
        assert_eq!(kept(&asked, 2, "none", 1), Some((1, vec![true, false, false])), "at most one measurement more");
    }
}
