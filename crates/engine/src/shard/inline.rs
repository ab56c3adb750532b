//! I/O that a worker does itself instead of giving it to the ring: what waits for the next turn of
//! the loop, and what came out.

use hoistway_block::RequestId;
use hoistway_linux::buffer::Span;

use super::disk::{INLINE_SPANS, Transfer};

/// A transfer that waits for the next turn, because the number of inline I/Os of this one is used
/// up.
#[derive(Copy, Clone, Debug)]
pub(super) struct InlineIo {
    pub transfer: Transfer,
    spans: [Span; INLINE_SPANS],
    count: usize,
}

impl InlineIo {
    /// The memory of the transfer.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans[..self.count]
    }
}

/// What was done inline, or will be. Each I/O has one result, which is taken in the same turn.
#[derive(Debug, Default)]
pub(super) struct Inline {
    /// I/Os that exceeded the inline budget of a turn.
    deferred: Vec<InlineIo>,
    done: Vec<(RequestId, i32)>,
    /// Volumes in memory: their fsync is done at once, and is reported with the other results.
    synced: Vec<u32>,
    /// A write was behind the end of these volumes' files; how many bytes each volume still has.
    cut: Vec<(u32, u64)>,
}

impl Inline {
    /// Leaves a transfer of at most [`INLINE_SPANS`] spans for the next turn.
    pub(super) fn defer(&mut self, transfer: Transfer, spans: &[Span]) {
        let mut kept = [Span::default(); INLINE_SPANS];
        kept[..spans.len()].copy_from_slice(spans);
        self.deferred.push(InlineIo { transfer, spans: kept, count: spans.len() });
    }

    /// The result of an I/O, as in io_uring: bytes, or a negative errno.
    #[inline]
    pub(super) fn done(&mut self, io: RequestId, result: i32) {
        self.done.push((io, result));
    }

    /// An fsync of the volume had nothing to do.
    pub(super) fn synced(&mut self, volume: u32) {
        self.synced.push(volume);
    }

    /// A volume's file ends too early for a write; it has this many bytes left.
    pub(super) fn cut(&mut self, volume: u32, left_bytes: u64) {
        self.cut.push((volume, left_bytes));
    }

    /// Whether there are results to take.
    #[inline]
    pub(super) fn has_results(&self) -> bool {
        !self.done.is_empty() || !self.synced.is_empty()
    }

    /// Whether transfers wait for the next turn.
    #[inline]
    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Takes the transfers that waited; [`Inline::reuse_deferred`] gives the memory back.
    pub(super) fn take_deferred(&mut self) -> Vec<InlineIo> {
        std::mem::take(&mut self.deferred)
    }

    pub(super) fn reuse_deferred(&mut self, mut deferred: Vec<InlineIo>) {
        deferred.clear();
        self.deferred = deferred;
    }

    /// Takes the volumes that were cut.
    pub(super) fn take_cut(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.cut)
    }

    /// Takes the results of I/Os; [`Inline::reuse_done`] gives the memory back.
    pub(super) fn take_done(&mut self) -> Vec<(RequestId, i32)> {
        std::mem::take(&mut self.done)
    }

    /// Results that came meanwhile stay.
    pub(super) fn reuse_done(&mut self, mut done: Vec<(RequestId, i32)>) {
        done.clear();
        done.append(&mut self.done);
        self.done = done;
    }

    /// Takes the next volume whose fsync has finished, so that the caller reports it.
    pub(super) fn next_synced(&mut self) -> Option<u32> {
        self.synced.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deferred_keeps_its_memory_and_what_is_done_its_order() {
        let transfer = |slot| Transfer {
            io: RequestId::from_raw(slot),
            volume: 0,
            is_of_base: false,
            is_write: false,
            position_bytes: 0,
            bytes: 512,
            is_durable: false,
        };
        let mut inline = Inline::default();
        inline.defer(transfer(1), &[Span::default(); 2]);
        assert!(inline.has_deferred() && !inline.has_results());
        let deferred = inline.take_deferred();
        assert_eq!((deferred.len(), deferred[0].spans().len()), (1, 2));
        inline.reuse_deferred(deferred);
        inline.done(RequestId::from_raw(1), 512);
        inline.done(RequestId::from_raw(2), -5);
        assert!(inline.has_results() && !inline.has_deferred());
        let done = inline.take_done();
        inline.done(RequestId::from_raw(3), 0);
        assert_eq!(done.iter().map(|(_, result)| *result).collect::<Vec<_>>(), [512, -5]);
        inline.reuse_done(done);
        assert_eq!(inline.take_done(), [(RequestId::from_raw(3), 0)]);
    }
}
