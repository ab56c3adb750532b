//! Where the areas of an experiment lie on the device: one behind the other, in the order in which jobs name them.

use block::SECTOR_BYTES;
use experiment::{Experiment, Refusal};
use workload::Job;

/// Areas begin on a multiple of this.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// A contiguous part of the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Area {
    pub first_byte: u64,
    pub bytes: u64,
}

/// All areas of an experiment by name.
#[derive(Debug)]
pub(crate) struct Areas {
    placed: Vec<(String, Area)>,
}

impl Areas {
    /// Lays the areas out. Those whose jobs name a size get it, the others share the rest in equal parts.
    pub(crate) fn lay_out(experiment: &Experiment, capacity_sectors: u64) -> Result<Self, Refusal> {
        let capacity_bytes = capacity_sectors * SECTOR_BYTES;
        let mut wanted: Vec<(String, Option<u64>)> = Vec::new();
        for place in experiment.issuers() {
            let (name, bytes) = (place.job.area_name(place.thread), place.job.wanted_area_bytes());
            match wanted.iter_mut().find(|(known, _)| *known == name) {
                Some((_, largest)) => *largest = (*largest).max(bytes),
                None => wanted.push((name, bytes)),
            }
        }
        let sized_bytes: u64 = wanted.iter().filter_map(|(_, bytes)| *bytes).map(round_up).sum();
        let unsized_areas = wanted.iter().filter(|(_, bytes)| bytes.is_none()).count() as u64;
        let rest_bytes = capacity_bytes.saturating_sub(sized_bytes);
        let share_bytes = rest_bytes.checked_div(unsized_areas).unwrap_or(0) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        if sized_bytes > capacity_bytes || (unsized_areas > 0 && share_bytes == 0) {
            return Err(Refusal::usage(
                format!(
                    "{} areas of {sized_bytes} bytes in all do not fit on {} of {capacity_bytes} bytes",
                    wanted.len(),
                    experiment.target
                ),
                "give the jobs a smaller size, or the model a larger capacity_sectors",
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

    /// The area of a job's thread.
    pub(crate) fn of(&self, job: &Job, thread: u32) -> Area {
        let name = job.area_name(thread);
        let found = self.placed.iter().find(|(known, _)| *known == name);
        found.map_or(Area { first_byte: 0, bytes: 0 }, |(_, area)| *area)
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT_BYTES) * ALIGNMENT_BYTES
}
