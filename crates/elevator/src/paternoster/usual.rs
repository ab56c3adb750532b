//! What reference epochs usually look like, to see that load or device have changed.

use super::epoch::Epoch;

/// Load or device have changed after this many consecutive reference epochs that differ from the usual
/// ones.
const ODD_REFERENCES: u8 = 2;

/// What reference epochs usually look like.
#[derive(Copy, Clone, Debug)]
pub struct Usual {
    rate: i64,
    window_bytes: u32,
    tenants: u32,
    odd: u8,
}

impl Usual {
    pub const UNKNOWN: Usual = Usual { rate: 0, window_bytes: 0, tenants: 0, odd: 0 };

    /// Whether load or device have changed: [`ODD_REFERENCES`] reference epochs in a row differ
    /// from the usual ones in rate, work in flight or tenants.
    pub fn is_another(&mut self, rate: i64, epoch: Epoch, request_bytes: u32) -> bool {
        if self.rate == 0 {
            *self = Usual { rate, window_bytes: epoch.window_bytes, tenants: epoch.tenants, odd: 0 };
            return false;
        }
        let (slow, fast) = (self.rate.min(rate), self.rate.max(rate));
        let is_odd = fast.saturating_mul(5) > slow.saturating_mul(9)
            || epoch.window_bytes.abs_diff(self.window_bytes) > self.window_bytes / 4 + request_bytes / 2
            || epoch.tenants != self.tenants;
        if is_odd {
            self.odd = self.odd.saturating_add(1);
            return self.odd >= ODD_REFERENCES;
        }
        self.odd = 0;
        self.rate = self.rate.saturating_add(rate.saturating_sub(self.rate) / 4);
        self.window_bytes =
            self.window_bytes.saturating_sub(self.window_bytes / 4).saturating_add(epoch.window_bytes / 4);
        false
    }
}
