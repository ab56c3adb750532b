//! Requests outside the fair order: direct ones, which go in front of everything, and those of the
//! real-time and idle classes.

use crate::structures::{Links, List};
use hoistway_block::Class;

/// Real-time requests in a row before one of another class.
pub const REAL_TIME_RUN_COUNT: u32 = 16;

/// Three lists, the oldest request first.
#[derive(Debug)]
pub struct Classes {
    links: Links,
    direct: List,
    real_time: List,
    real_time_run: u32,
    idle: List,
}

impl Classes {
    /// Empty lists over these links.
    pub const fn new(links: Links) -> Self {
        Self { links, direct: List::EMPTY, real_time: List::EMPTY, real_time_run: 0, idle: List::EMPTY }
    }

    /// Number of requests of the two classes.
    pub const fn len(&self) -> u32 {
        self.real_time.len().wrapping_add(self.idle.len())
    }

    /// Whether a request waits that goes before all of the fair order.
    pub const fn go_first(&self) -> bool {
        self.has_direct() || self.real_time.first().is_some()
    }

    pub const fn real_time(&self) -> Option<u32> {
        self.real_time.first()
    }

    pub const fn idle(&self) -> Option<u32> {
        self.idle.first()
    }

    /// The next real-time request; `None` after each full run if others wait.
    pub const fn next_real_time(&mut self, others_wait: bool) -> Option<u32> {
        let Some(first) = self.real_time.first() else { return None };
        if others_wait && self.real_time_run >= REAL_TIME_RUN_COUNT {
            self.real_time_run = 0;
            return None;
        }
        self.real_time_run = self.real_time_run.wrapping_add(1);
        Some(first)
    }

    /// False if the request is in a list already.
    pub fn push(&mut self, class: Class, slot: u32) -> bool {
        let list = if class == Class::RealTime { &mut self.real_time } else { &mut self.idle };
        list.push_back(&mut self.links, slot)
    }

    /// False if the request is not there.
    pub fn remove(&mut self, class: Class, slot: u32) -> bool {
        let list = if class == Class::RealTime { &mut self.real_time } else { &mut self.idle };
        list.remove(&mut self.links, slot)
    }

    pub const fn has_direct(&self) -> bool {
        !self.direct.is_empty()
    }

    /// Puts a request in front of everything. False if it is in a list already.
    pub fn push_direct(&mut self, slot: u32) -> bool {
        self.direct.push_front(&mut self.links, slot)
    }

    pub fn pop_direct(&mut self) -> Option<u32> {
        self.direct.pop_front(&mut self.links)
    }

    /// False if the request is not there.
    pub fn remove_direct(&mut self, slot: u32) -> bool {
        self.direct.remove(&mut self.links, slot)
    }
}
