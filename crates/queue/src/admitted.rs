//! Submitters whose wait for a request is over: the host reads them here and lets them run again.

use alloc::collections::VecDeque;

use hoistway_elevator::structures::NoMemory;

/// Cookies (the values that the host submitted with them) of bios that waited and have been
/// admitted, oldest first. If the host never reads them, those beyond the capacity are dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    cookies: VecDeque<u64>,
    most: usize,
}

impl Admitted {
    /// Room for `most` cookies; memory for `reserved` of them is allocated at once.
    pub(crate) fn try_new(most: u32, reserved: u32) -> Result<Self, NoMemory> {
        let mut cookies = VecDeque::new();
        cookies.try_reserve_exact(reserved.min(most) as usize).map_err(|_| NoMemory)?;
        Ok(Self { cookies, most: most as usize })
    }

    #[inline]
    pub(crate) fn push(&mut self, cookie: u64) {
        if self.cookies.len() < self.most && self.cookies.try_reserve(1).is_ok() {
            self.cookies.push_back(cookie);
        }
    }

    /// Removes those whose submitter is gone.
    pub(crate) fn forget(&mut self, of: &impl Fn(u64) -> bool) {
        self.cookies.retain(|cookie| !of(*cookie));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.cookies.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_come_out_in_order_and_the_surplus_is_lost() {
        let mut admitted = Admitted::try_new(2, 1).unwrap();
        for cookie in [7, 8, 9] {
            admitted.push(cookie);
        }
        assert_eq!((admitted.pop(), admitted.pop(), admitted.pop()), (Some(7), Some(8), None));
        admitted.push(10);
        assert_eq!(admitted.pop(), Some(10));
    }
}
