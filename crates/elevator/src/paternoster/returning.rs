//! Requests that are about to return: an issuer with all its requests in flight usually sends the
//! next one as soon as one of them completes. Expected requests count as in flight, so that no
//! leader takes the place of a tenant that lags and returns within microseconds.

use hoistway_block::Nanos;
use hoistway_block::time::MICROSECOND;

/// Minimum time that an issuer takes to return, however fast the device is.
const LEAST_NS: Nanos = 20 * MICROSECOND;

/// Recent completions that were not yet followed by a request of an issuer that had none queued.
#[derive(Clone, Debug)]
pub struct Returning {
    present: u32,
    past: u32,
    ends_ns: Nanos,
    /// Moving average of how long a request stays in the device.
    residence_ns: Nanos,
}

impl Returning {
    pub const NONE: Returning = Returning { present: 0, past: 0, ends_ns: 0, residence_ns: 0 };

    pub const fn residence_ns(&self) -> Nanos {
        self.residence_ns
    }

    /// How many requests are expected. A completion counts for half a residence time to a whole
    /// one, or until the request comes.
    pub fn count(&mut self, now: Nanos) -> u32 {
        self.roll(now);
        self.expected()
    }

    /// How many requests were expected when this was last counted.
    pub const fn expected(&self) -> u32 {
        self.present.wrapping_add(self.past)
    }

    /// Until when the count may stay unchanged.
    pub const fn until_ns(&self) -> Nanos {
        self.ends_ns
    }

    fn roll(&mut self, now: Nanos) {
        if now >= self.ends_ns {
            let span_ns = (self.residence_ns / 2).max(LEAST_NS);
            let is_recent = now < self.ends_ns.saturating_add(span_ns);
            (self.past, self.present) = (if is_recent { self.present } else { 0 }, 0);
            self.ends_ns = now.saturating_add(span_ns);
        }
    }

    /// A request completed after `stayed_ns`; `comes_back` if its issuer has none queued.
    pub fn completed(&mut self, now: Nanos, stayed_ns: Nanos, comes_back: bool) {
        let (before, stayed) = (self.residence_ns.cast_signed(), stayed_ns.cast_signed());
        let next = if before == 0 { stayed } else { before.saturating_add(stayed.saturating_sub(before) / 64) };
        self.residence_ns = next.unsigned_abs();
        if comes_back {
            self.roll(now);
            self.present = self.present.wrapping_add(1);
        }
    }

    /// A request arrived from an issuer that had none queued.
    pub const fn came(&mut self) {
        if self.past > 0 {
            self.past = self.past.wrapping_sub(1);
        } else {
            self.present = self.present.saturating_sub(1);
        }
    }
}
