//! What presses: queued requests, busy sync queues, and how long ago a sync request was late.

/// The load of all queues together.
///
/// Invariant: a request counts while it is queued, a queue while it has the mark `ON_RR`.
#[derive(Debug, Default)]
pub struct Load {
    requests: u32,
    sync_queues: u32,
    last_late_sync_ticks: u64,
}

impl Load {
    /// Queued requests.
    #[inline]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    #[inline]
    pub fn add_request(&mut self) {
        self.requests = self.requests.wrapping_add(1);
    }

    #[inline]
    pub fn remove_request(&mut self) {
        self.requests = self.requests.wrapping_sub(1);
    }

    /// Busy sync queues.
    #[inline]
    pub fn sync_queues(&self) -> u32 {
        self.sync_queues
    }

    #[inline]
    pub fn add_queue(&mut self, is_sync: bool) {
        self.sync_queues = self.sync_queues.wrapping_add(u32::from(is_sync));
    }

    #[inline]
    pub fn remove_queue(&mut self, is_sync: bool) {
        self.sync_queues = self.sync_queues.wrapping_sub(u32::from(is_sync));
    }

    /// A sync request was late at this time.
    #[inline]
    pub fn sync_was_late(&mut self, now_ticks: u64) {
        self.last_late_sync_ticks = now_ticks;
    }

    /// How long ago that was.
    #[inline]
    pub fn since_late_sync(&self, now_ticks: u64) -> u64 {
        now_ticks.wrapping_sub(self.last_late_sync_ticks)
    }

    /// For tests.
    #[cfg(test)]
    pub fn hold(&mut self, requests: u32) {
        self.requests = requests;
    }
}
