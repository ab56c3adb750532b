//! Which part of the target each job works on: areas lie one behind the other, in the order in which jobs name them.

use workload::Job;

use crate::{Diagnostic, Experiment};

/// Areas begin on a multiple of this.
pub const ALIGNMENT_BYTES: u64 = 1 << 20;

/// A contiguous part of the target.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Area {
    /// Where it begins on the target, in bytes; a multiple of [`ALIGNMENT_BYTES`].
    pub first_byte: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// All areas of an experiment by name.
#[derive(Clone, Debug)]
pub struct Areas {
    placed: Vec<(String, Area)>,
}

impl Areas {
    /// Lays the areas out on a target of `size_bytes`: those whose jobs say how large get that, the others share the rest
    /// in equal parts. An only area without a size is the whole target; the last one may end with it, wherever that is.
    ///
    /// # Errors
    /// The areas do not fit. The help speaks of targets in general, a host may know better.
    pub fn lay_out(experiment: &Experiment, size_bytes: u64) -> Result<Self, Diagnostic> {
        let wanted = wanted(experiment);
        if let ([(name, None)], 1..) = (wanted.as_slice(), size_bytes) {
            return Ok(Self { placed: vec![(name.clone(), Area { first_byte: 0, bytes: size_bytes })] });
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

    /// The area of a job's thread; empty for a job that is not of the experiment.
    pub fn of(&self, job: &Job, thread: u32) -> Area {
        let name = job.area_name(thread);
        let found = self.placed.iter().find(|(known, _)| *known == name);
        found.map_or_else(Area::default, |(_, area)| *area)
    }
}

/// The areas in the order in which they are first named, with the largest size that any job gives.
fn wanted(experiment: &Experiment) -> Vec<(String, Option<u64>)> {
    let mut wanted: Vec<(String, Option<u64>)> = Vec::new();
    for place in experiment.issuers() {
        let (name, bytes) = (place.job.area_name(place.thread), place.job.wanted_area_bytes());
        match wanted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, largest)) => *largest = (*largest).max(bytes),
            None => wanted.push((name, bytes)),
        }
    }
    wanted
}

fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT_BYTES)
}
