//! Batches: requests of one kind are served for a while, then those of the other.

use super::Kind;
use hoistway_block::Nanos;

/// The batch in progress, and how long the next async one may be.
///
/// Invariants: at most one of `has_changed` and `is_new` is set; `write_count` is at least 1.
#[derive(Debug)]
pub struct Batch {
    kind: Kind,
    ends_ns: Nanos,
    /// The kind of the batch has changed, and requests of the other kind are still in flight.
    has_changed: bool,
    /// The sync batch is new: its time begins with its first completion.
    is_new: bool,
    /// Async requests per batch, and how many are left in the present one.
    write_count: u64,
    writes_left: u64,
    /// The async batch ran out of requests, so its duration does not tell how long a full batch
    /// takes.
    idled: bool,
}

impl Batch {
    /// A sync batch, and `write_count` requests in the first async one.
    pub const fn new(write_count: u64) -> Self {
        let kind = Kind::Sync;
        Self {
            kind,
            ends_ns: 0,
            has_changed: false,
            is_new: false,
            write_count,
            writes_left: write_count,
            idled: false,
        }
    }

    /// The kind of its requests.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether requests of the other kind may still be in flight.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Everything is drained: a sync batch.
    pub fn reset(&mut self) {
        self.kind = Kind::Sync;
        (self.has_changed, self.is_new) = (false, false);
    }

    /// Notes that an async batch has run out of requests, if it has; `syncs` and `asyncs` say which are queued.
    #[inline]
    pub fn note_idling(&mut self, syncs: bool, asyncs: bool) {
        if self.kind == Kind::Async && !syncs && (self.writes_left == 0 || !asyncs) {
            self.idled = true;
        }
    }

    /// Sets its end.
    #[inline]
    pub fn end_after(&mut self, now: Nanos, length_ns: Nanos) {
        self.ends_ns = now.saturating_add(length_ns);
    }

    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        if self.has_changed || self.is_new {
            return false;
        }
        now > self.ends_ns || (self.kind == Kind::Async && self.writes_left == 0)
    }

    /// A batch of this kind begins.
    #[inline]
    pub fn begin(&mut self, kind: Kind) {
        match kind {
            Kind::Sync => self.has_changed |= self.kind == Kind::Async,
            Kind::Async => {
                if self.kind == Kind::Sync {
                    self.has_changed = true;
                    // An async batch may begin before the first request of the sync batch has completed.
                    self.is_new = false;
                }
                (self.writes_left, self.idled) = (self.write_count, false);
            }
        }
        self.kind = kind;
    }

    /// No requests of the other kind are in flight. The batch's time starts here and not
    /// when the device became empty, otherwise a batch could expire before the driver asks
    /// for its first request. The time of a sync batch starts with its first completion;
    /// until then, its end is still that of the async batch before, and tells how
    /// long that batch took.
    #[inline]
    pub fn device_is_free(&mut self, now: Nanos, async_batch_ns: Nanos) {
        if self.kind == Kind::Async {
            self.end_after(now, async_batch_ns);
        }
        self.is_new = self.kind == Kind::Sync;
        self.has_changed = false;
    }

    /// An async request is dispatched.
    #[inline]
    pub fn count_write(&mut self) {
        self.writes_left = self.writes_left.saturating_sub(1);
    }

    /// A request of this kind has completed. The first of a sync batch starts the batch's time, and tells how long the
    /// async batch before took.
    #[inline]
    pub fn completed(&mut self, kind: Kind, now: Nanos, lengths_ns: impl FnOnce() -> (Nanos, Nanos)) {
        if self.is_new && self.kind == kind {
            let (sync_ns, async_ns) = lengths_ns();
            self.size_writes(now, async_ns);
            self.end_after(now, sync_ns);
            self.is_new = false;
        }
    }

    /// Adapts the number of async requests per batch to the time that the last batch took.
    fn size_writes(&mut self, now: Nanos, batch_ns: Nanos) {
        let took_ns = now.saturating_add(batch_ns).saturating_sub(self.ends_ns);
        if took_ns > batch_ns && !self.idled {
            let is_far_off = took_ns > batch_ns.saturating_mul(3);
            self.write_count = if is_far_off { self.write_count / 2 } else { self.write_count.saturating_sub(1) };
        } else if took_ns < batch_ns && self.writes_left == 0 {
            let is_far_off = batch_ns > took_ns.saturating_mul(3);
            self.write_count =
                if is_far_off { self.write_count.saturating_mul(2) } else { self.write_count.saturating_add(1) };
        }
        self.write_count = self.write_count.clamp(1, 1 << 20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the next async batch after one that took `took_ns` of 100.
    fn next_count(took_ns: Nanos, writes: u64, idles: bool) -> u64 {
        let mut batch = Batch::new(8);
        batch.begin(Kind::Async);
        batch.device_is_free(0, 100);
        (0..writes).for_each(|_| batch.count_write());
        batch.note_idling(!idles, true);
        batch.begin(Kind::Sync);
        batch.device_is_free(0, 100);
        batch.completed(Kind::Sync, took_ns, || (500, 100));
        assert!(!batch.is_over(took_ns + 500) && batch.is_over(took_ns + 501));
        batch.write_count
    }

    #[test]
    fn an_async_batch_grows_if_it_was_short_and_shrinks_if_it_was_long() {
        assert_eq!([50, 20, 100].map(|took_ns| next_count(took_ns, 8, false)), [9, 16, 8]);
        assert_eq!([200, 301].map(|took_ns| next_count(took_ns, 8, false)), [7, 4]);
        assert_eq!((next_count(50, 7, false), next_count(301, 8, true)), (8, 8), "not a full batch");
    }

    #[test]
    fn a_batch_is_not_over_before_its_first_completion() {
        let mut batch = Batch::new(8);
        batch.begin(Kind::Async);
        assert!(batch.has_changed() && !batch.is_over(1_000));
        batch.device_is_free(1_000, 100);
        assert!(!batch.is_over(1_100) && batch.is_over(1_101));
        batch.begin(Kind::Sync);
        batch.device_is_free(2_000, 100);
        assert!(!batch.is_over(9_000));
        batch.completed(Kind::Async, 9_000, || (500, 100));
        assert!(!batch.is_over(9_999), "of the other kind");
    }
}
