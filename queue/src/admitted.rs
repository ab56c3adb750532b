//! Whose wait for a request is over: the host hears of it here and lets the submitter run again.

use elevator::structures::{Array, NoMemory};

/// Cookies of bios that waited and have been let in, oldest first. A host that never asks loses the surplus.
#[derive(Debug)]
pub(crate) struct Admitted {
    cookies: Array<u64>,
    first: u32,
    len: u32,
}

impl Admitted {
    pub(crate) fn try_new(count: u32) -> Result<Self, NoMemory> {
        Ok(Self { cookies: Array::try_new(count.max(1), 0)?, first: 0, len: 0 })
    }

    #[inline]
    pub(crate) fn push(&mut self, cookie: u64) {
        let capacity = self.cookies.len();
        if self.len < capacity {
            *self.cookies.at_mut((self.first + self.len) % capacity) = cookie;
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let cookie = *self.cookies.at(self.first);
        self.first = (self.first + 1) % self.cookies.len();
        self.len -= 1;
        Some(cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_come_out_in_order_and_the_surplus_is_lost() {
        let mut admitted = Admitted::try_new(2).unwrap();
        for cookie in [7, 8, 9] {
            admitted.push(cookie);
        }
        assert_eq!((admitted.pop(), admitted.pop(), admitted.pop()), (Some(7), Some(8), None));
        admitted.push(10);
        assert_eq!(admitted.pop(), Some(10));
    }
}
