//! Which part of the target each job works on: areas lie one behind the other, in the order in which jobs name them.

use experiment::{Experiment, Refusal};
use workload::Job;

const ALIGNMENT_BYTES: u64 = 1 << 20;

/// Areas by name: first byte and length.
#[derive(Debug)]
pub(super) struct Areas(Vec<(String, u64, u64)>);

impl Areas {
    /// Places the areas on a target of `size_bytes`: those whose jobs say how large get that, the rest share what is left.
    pub fn place(experiment: &Experiment, size_bytes: u64) -> Result<Self, Refusal> {
        let mut wishes: Vec<(String, Option<u64>)> = Vec::new();
        for place in experiment.issuers() {
            let (name, wish) = (place.job.area_name(place.thread), place.job.wanted_area_bytes());
            if let Some((_, known)) = wishes.iter_mut().find(|(other, _)| *other == name) {
                *known = (*known).max(wish);
            } else {
                wishes.push((name, wish));
            }
        }
        if let [(name, None)] = wishes.as_slice() {
            return Ok(Self(vec![(name.clone(), 0, size_bytes)]));
        }
        let rounded = |bytes: u64| bytes.next_multiple_of(ALIGNMENT_BYTES);
        // The last area may end with the target, wherever that is.
        let fixed_bytes: u64 = wishes.iter().filter_map(|(_, wish)| *wish).map(rounded).sum();
        let sharers = wishes.iter().filter(|(_, wish)| wish.is_none()).count() as u64;
        let left_bytes = size_bytes.saturating_sub(fixed_bytes);
        let share_bytes = left_bytes.checked_div(sharers).unwrap_or(0) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let unrounded_bytes = fixed_bytes - last_slack(&wishes);
        if unrounded_bytes > size_bytes || (sharers > 0 && share_bytes == 0) {
            let count = wishes.len();
            return Err(Refusal::usage(
                format!(
                    "{count} areas of {fixed_bytes} bytes in all do not fit into the {size_bytes} bytes of {}",
                    experiment.target
                ),
                "give the jobs a smaller --size, or use a larger target",
            ));
        }
        let mut next = 0;
        let placed = wishes.into_iter().map(|(name, wish)| {
            let (first, bytes) = (next, wish.unwrap_or(share_bytes));
            next += rounded(bytes);
            (name, first, bytes)
        });
        Ok(Self(placed.collect()))
    }

    /// First byte and length of the area of a job's thread.
    pub fn of(&self, job: &Job, thread: u32) -> (u64, u64) {
        let name = job.area_name(thread);
        self.0.iter().find(|(known, _, _)| *known == name).map_or((0, 0), |&(_, first, bytes)| (first, bytes))
    }
}

/// How much rounding added to the last area.
fn last_slack(wishes: &[(String, Option<u64>)]) -> u64 {
    match wishes.last() {
        Some((_, Some(bytes))) => bytes.next_multiple_of(ALIGNMENT_BYTES) - bytes,
        _ => 0,
    }
}
