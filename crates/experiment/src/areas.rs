//! The part of the target that each job uses: areas are laid out one after another, in the order in
//! which jobs name them.

use std::collections::BTreeMap;

use hoistway_workload::Job;

use crate::{Diagnostic, Experiment};

/// Alignment of areas.
pub const ALIGNMENT_BYTES: u64 = 1 << 20;

/// A contiguous part of the target.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Area {
    /// Start on the target, in bytes; a multiple of [`ALIGNMENT_BYTES`].
    pub first_byte: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// All areas of an experiment by name.
#[derive(Clone, Debug)]
pub struct Areas {
    placed: BTreeMap<String, Area>,
}

impl Areas {
    /// Lays out the areas on a target of `size_bytes`: areas whose jobs give a size get that, the
    /// others share the rest in equal parts. A single area without a size is the whole target; the
    /// last area may end at the target's unaligned end.
    ///
    /// # Errors
    /// The areas do not fit. The help of the message is general; a host may replace it with one
    /// that fits its target.
    pub fn lay_out(experiment: &Experiment, size_bytes: u64) -> Result<Self, Diagnostic> {
        let wanted = wanted(experiment);
        if let ([(name, None)], 1..) = (wanted.as_slice(), size_bytes) {
            return Ok(Self { placed: [(name.clone(), Area { first_byte: 0, bytes: size_bytes })].into() });
        }
        let sized_bytes: u64 = wanted.iter().filter_map(|(_, bytes)| *bytes).map(round_up).sum();
        let unsized_areas = wanted.iter().filter(|(_, bytes)| bytes.is_none()).count() as u64;
        let rest_bytes = size_bytes.saturating_sub(sized_bytes);
        let share_bytes = rest_bytes.checked_div(unsized_areas).unwrap_or(0) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let last_slack = wanted.last().and_then(|(_, bytes)| *bytes).map_or(0, |bytes| round_up(bytes) - bytes);
        if sized_bytes - last_slack > size_bytes || (unsized_areas > 0 && share_bytes == 0) {
            let (count, target) = (wanted.len(), &experiment.target);
            return Err(Diagnostic::new(
                format!(
                    "{count} areas of {sized_bytes} bytes in all do not fit into the {size_bytes} bytes of {target}"
                ),
                "give the jobs a smaller --size, or use a larger target",
            ));
        }
        let mut first_byte = 0;
        let place = |(name, bytes): (String, Option<u64>)| {
            let area = Area { first_byte, bytes: bytes.unwrap_or(share_bytes) };
            first_byte += round_up(area.bytes);
            (name, area)
        };
        Ok(Self { placed: wanted.into_iter().map(place).collect() })
    }

    /// The area of a job's thread; empty for a job that is not part of the experiment.
    pub fn of(&self, job: &Job, thread: u32) -> Area {
        self.placed.get(&job.area_name(thread)).copied().unwrap_or_default()
    }
}

/// The areas in the order in which they are first named, with the largest size that any job gives.
fn wanted(experiment: &Experiment) -> Vec<(String, Option<u64>)> {
    let mut wanted: Vec<(String, Option<u64>)> = Vec::new();
    let mut places = BTreeMap::new();
    for place in experiment.issuers() {
        let (name, bytes) = (place.job.area_name(place.thread), place.job.wanted_area_bytes());
        match places.get(&name) {
            Some(at) => {
                let (_, largest): &mut (String, Option<u64>) = &mut wanted[*at];
                *largest = (*largest).max(bytes);
            }
            None => {
                places.insert(name.clone(), wanted.len());
                wanted.push((name, bytes));
            }
        }
    }
    wanted
}

fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use hoistway_workload::job::Amount;

    use super::*;
    use crate::{Group, Weight};

    const MIB: u64 = 1 << 20;

    /// An experiment with one job per size, each in a file of its own.
    fn experiment(sizes: &[Option<u64>]) -> Experiment {
        let job = |(index, size): (usize, &Option<u64>)| {
            let mut job = Job::default().with(|job| {
                job.name = format!("j{index}");
                job.area.file = format!("f{index}");
            });
            job.area.size = size.map(Amount::Bytes);
            job
        };
        let jobs = sizes.iter().enumerate().map(job).collect();
        crate::schedule::tests::experiment_of(vec![Group::new("a", Weight::DEFAULT, jobs)])
    }

    fn placed(sizes: &[Option<u64>], size_bytes: u64) -> Result<Vec<(u64, u64)>, Diagnostic> {
        let experiment = experiment(sizes);
        let areas = Areas::lay_out(&experiment, size_bytes)?;
        let area = |place: crate::IssuerPlace<'_>| areas.of(place.job, place.thread);
        Ok(experiment.issuers().map(area).map(|area| (area.first_byte, area.bytes)).collect())
    }

    #[test]
    fn areas_without_size_share_what_the_others_leave() {
        let areas = placed(&[Some(3 * MIB + 1), None, None], 11 * MIB).unwrap();
        assert_eq!(areas, [(0, 3 * MIB + 1), (4 * MIB, 3 * MIB), (7 * MIB, 3 * MIB)]);
    }

    #[test]
    fn an_only_area_is_the_whole_target_and_the_last_one_may_end_with_it() {
        assert_eq!(placed(&[None], MIB / 2).unwrap(), [(0, MIB / 2)]);
        assert_eq!(placed(&[Some(MIB), Some(512)], MIB + 512).unwrap(), [(0, MIB), (MIB, 512)]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_figures() {
        let error = placed(&[Some(MIB), Some(512)], MIB + 511).unwrap_err().to_string();
        assert!(error.contains("2 areas of 2097152 bytes in all do not fit into the 1049087 bytes of t"), "{error}");
        assert!(placed(&[None, None], 2 * MIB - 1).is_err());
        assert!(placed(&[None], 0).is_err());
    }
}
