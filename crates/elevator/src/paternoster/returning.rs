//! Requests that are about to return: an issuer with all its requests in flight usually sends the
//! next one as soon as one of them completes. Expected requests count as in flight, so that no
//! leader takes the place of a tenant that lags and returns within microseconds.

use super::epoch::Work;
use hoistway_block::Nanos;
use hoistway_block::time::MICROSECOND;

/// Minimum time that an issuer takes to return, however fast the device is.
const LEAST_NS: Nanos = 20 * MICROSECOND;

/// Recent completions that were not yet followed by a request of an issuer that had none queued.
#[derive(Clone, Debug)]
pub struct Returning {
    present: Work,
    past: Work,
    ends_ns: Nanos,
    /// Moving average of how long a request stays in the device.
    residence_ns: Nanos,
}

impl Returning {
    pub const NONE: Returning = Returning { present: Work::NONE, past: Work::NONE, ends_ns: 0, residence_ns: 0 };

    pub const fn residence_ns(&self) -> Nanos {
        self.residence_ns
    }

    /// What is expected. A completion counts for half a residence time to a whole
    /// one, or until the request comes.
    pub fn count(&mut self, now: Nanos) -> Work {
        self.roll(now);
        self.expected()
    }

    /// What was expected when this was last counted.
    pub fn expected(&self) -> Work {
        let mut all = self.present;
        all.add(self.past);
        all
    }

    /// Until when the count may stay unchanged.
    pub const fn until_ns(&self) -> Nanos {
        self.ends_ns
    }

    fn roll(&mut self, now: Nanos) {
        if now >= self.ends_ns {
            let span_ns = (self.residence_ns / 2).max(LEAST_NS);
            let is_recent = now < self.ends_ns.saturating_add(span_ns);
            (self.past, self.present) = (if is_recent { self.present } else { Work::NONE }, Work::NONE);
            self.ends_ns = now.saturating_add(span_ns);
        }
    }

    /// A request completed after `stayed_ns`; its issuer sends another like it, if it has none queued.
    pub fn completed(&mut self, now: Nanos, stayed_ns: Nanos, comes_back: Option<Work>) {
        let (before, stayed) = (self.residence_ns.cast_signed(), stayed_ns.cast_signed());
        let next = if before == 0 { stayed } else { before.saturating_add(stayed.saturating_sub(before) / 64) };
        self.residence_ns = next.unsigned_abs();
        if let Some(work) = comes_back {
            self.roll(now);
            self.present.add(work);
        }
    }

    /// A request arrived from an issuer that had none queued.
    pub fn came(&mut self) {
        let from = if self.past.requests > 0 { &mut self.past } else { &mut self.present };
        let mean = from.sectors.checked_div(from.requests).unwrap_or(0);
        from.sectors = from.sectors.saturating_sub(mean);
        from.requests = from.requests.saturating_sub(1);
    }
}
