//! The promise of paternoster: the oldest best-effort request goes out of turn once it has waited
//! for long enough. Between two such requests the device completes a number of others, and a run of
//! real-time requests may precede it. Requests that arrived before it may precede it in any case.

use hoistway_block::{Class, Nanos, RequestId};

use super::{Queued, Waiting};
use crate::invariants::Broken;

/// The bounds of the promise.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bounds {
    pub after_ns: Nanos,
    /// Completions between two overdue requests.
    pub completions: u64,
    /// Real-time requests in a row.
    pub run: u64,
}

/// The overdue request that is passed over.
#[derive(Debug)]
pub(super) struct Aged {
    bounds: Bounds,
    oldest: Option<RequestId>,
    /// Completions since it was first passed over.
    completions: u64,
    /// Choices that passed it over after enough completions.
    passed: u64,
}

impl Aged {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, oldest: None, completions: 0, passed: 0 }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.bounds);
    }

    pub(super) fn completed(&mut self) {
        self.completions += 1;
    }

    pub(super) fn chosen(&mut self, chosen: &Waiting, waiting: &Queued, now: Nanos) -> Result<u64, Broken> {
        let of_class = waiting.values().filter(|other| other.attributes.class() == Class::BestEffort);
        let oldest = of_class.min_by_key(|other| other.order).filter(|oldest| {
            oldest.order < chosen.order && now.saturating_sub(oldest.inserted_ns) >= self.bounds.after_ns
        });
        let Some(oldest) = oldest else {
            self.oldest = None;
            return Ok(0);
        };
        if self.oldest != Some(oldest.id) {
            (self.oldest, self.completions, self.passed) = (Some(oldest.id), 0, 0);
        }
        self.passed += u64::from(self.completions >= self.bounds.completions);
        if self.passed <= self.bounds.run {
            return Ok(1);
        }
        let (slot, by, since) = (oldest.id.slot(), chosen.id.slot(), oldest.inserted_ns);
        Err(format!("P7: #{slot} has waited since {since} and is overdue; #{by} is one too many that goes before it"))
    }
}
