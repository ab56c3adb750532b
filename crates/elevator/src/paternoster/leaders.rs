//! Which queues get more than the order gives them while no tenant is held back: these lead. The others
//! lag; only they gain when leaders are held. On a disk in slices a queue leads until its slice shows that
//! it seeks: there requests of streams go in order by the dozen.

use crate::structures::{Array, NoMemory};

/// A queue counts as one that leads until this many of its requests in a row went in order.
const IN_ORDER: u8 = 16;

#[derive(Debug)]
pub struct Leaders {
    /// By queue: requests in order until it no longer leads.
    left: Array<u8>,
}

impl Leaders {
    pub fn try_new(queues: u32) -> Result<Self, NoMemory> {
        Ok(Self { left: Array::try_new(queues, 0)? })
    }

    /// In a reference epoch a request of this queue was dispatched, in order or beyond it.
    #[inline]
    pub fn note(&mut self, queue: u32, is_in_order: bool) {
        let left = self.left.at_mut(queue);
        *left = if is_in_order { left.saturating_sub(1) } else { IN_ORDER };
    }

    /// An issuer that seeks lags wherever others do not seek.
    pub fn forget(&mut self, queue: u32) {
        *self.left.at_mut(queue) = 0;
    }

    #[inline]
    pub fn has(&self, queue: u32) -> bool {
        *self.left.at(queue) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_leads_until_sixteen_requests_went_in_order() {
        let mut leaders = Leaders::try_new(2).unwrap();
        leaders.note(1, false);
        for _ in 0..15 {
            leaders.note(1, true);
            assert!(leaders.has(1) && !leaders.has(0));
        }
        leaders.note(1, true);
        assert!(!leaders.has(1));
        leaders.note(1, false);
        leaders.forget(1);
        assert!(!leaders.has(1));
    }
}
