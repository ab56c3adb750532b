//! Determines which of the device's sources of events has the next event.
//!
//! Most events come from queues whose times only rise, so each source is represented by the time of
//! its first event. Time and source share one number, with the source in the lowest bits: the
//! smallest number is the first event, found without a branch. The sources that only writes have
//! are compared when one of them changes, so that reads alone cost four comparisons per event.
//! Times are therefore limited to 2^61 ns, 73 years.

use hoistway_block::Nanos;

use crate::interface::NEVER;

/// The sources of events. At equal times the first of these comes first.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A read has crossed the link.
    ReadDone,
    /// A write is acknowledged.
    Acknowledged,
    /// Pages sensed, programs completed.
    Operation,
    /// The firmware takes the next queued command.
    Fetch,
    /// The transfer of a write's data over the link begins.
    Transfer,
    /// A write's data has crossed the link.
    Arrived,
    /// A read, discard, flush or rejected command begins.
    Start,
    /// No write has arrived for a while.
    WritesIdle,
}

const SOURCES: [Source; 8] = [
    Source::ReadDone,
    Source::Acknowledged,
    Source::Operation,
    Source::Fetch,
    Source::Transfer,
    Source::Arrived,
    Source::Start,
    Source::WritesIdle,
];

/// The time of the next event of each source.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    due: [u64; SOURCES.len()],
    /// The smallest number of the write sources.
    first_of_writes: u64,
    first: u64,
}

impl Agenda {
    const SOURCE_BITS: u32 = SOURCES.len().trailing_zeros();
    /// The latest time of an event: the largest that fits into a number beside the source and is
    /// below NEVER.
    const LATEST: Nanos = (NEVER >> Self::SOURCE_BITS) - 1;

    pub(super) fn new() -> Self {
        Self { due: [NEVER; SOURCES.len()], first_of_writes: NEVER, first: NEVER }
    }

    /// Sets the time of the source's next event.
    #[inline]
    pub(super) fn set(&mut self, source: Source, at: Nanos) {
        let due = if at == NEVER { NEVER } else { (at << Self::SOURCE_BITS) | source as u64 };
        self.due[source as usize] = due;
    }

    /// Sets the time of the next event of a source that only writes have.
    #[inline]
    pub(super) fn set_of_writes(&mut self, source: Source, at: Nanos) {
        self.set(source, at);
        let [_, acknowledged, _, _, transfer, arrived, _, idle] = self.due;
        self.first_of_writes = acknowledged.min(transfer).min(arrived.min(idle));
    }

    /// Finds the first event, after all changes have been set.
    #[inline]
    pub(super) fn settle(&mut self) {
        let [read_done, _, operation, fetch, _, _, start, _] = self.due;
        self.first = self.first_of_writes.min(read_done).min(operation.min(fetch).min(start));
    }

    #[inline]
    pub(super) fn first_at(&self) -> Nanos {
        if self.first == NEVER { NEVER } else { self.first >> Self::SOURCE_BITS }
    }

    /// The first event, if it is not after `latest`.
    #[inline]
    pub(super) fn first_until(&self, latest: Nanos) -> Option<(Nanos, Source)> {
        // NEVER itself is later than every time.
        let latest = (latest.min(Self::LATEST) << Self::SOURCE_BITS) | (SOURCES.len() as u64 - 1);
        if self.first > latest {
            return None;
        }
        let source = SOURCES[usize::try_from(self.first % SOURCES.len() as u64).unwrap_or(0)];
        Some((self.first >> Self::SOURCE_BITS, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_source_is_first_and_of_equal_ones_the_first_in_order() {
        let mut agenda = Agenda::new();
        agenda.settle();
        assert_eq!(agenda.first_at(), NEVER);
        for (source, at) in [(Source::Start, 70), (Source::Operation, 50), (Source::Fetch, 90)] {
            agenda.set(source, at);
        }
        agenda.set_of_writes(Source::WritesIdle, 50);
        let mut order = Vec::new();
        loop {
            agenda.settle();
            let Some((at, source)) = agenda.first_until(90) else { break };
            assert_eq!((agenda.first_at(), agenda.first_until(at - 1)), (at, None));
            order.push((at, source));
            agenda.set_of_writes(source, NEVER);
        }
        assert_eq!((agenda.first_at(), agenda.first_until(NEVER)), (NEVER, None));
        let expected = [(50, Source::Operation), (50, Source::WritesIdle), (70, Source::Start), (90, Source::Fetch)];
        assert_eq!(order, expected);
    }

    /// A limiter with absurd costs may hold a bio for half a century.
    #[test]
    fn events_come_up_to_the_latest_time_that_fits() {
        for at in [Agenda::LATEST / 2 - 1, Agenda::LATEST / 2 + 1, Agenda::LATEST] {
            let mut agenda = Agenda::new();
            agenda.set(Source::ReadDone, at);
            agenda.settle();
            assert_eq!(agenda.first_until(at - 1), None);
            assert_eq!(agenda.first_until(at), Some((at, Source::ReadDone)));
            assert_eq!(agenda.first_until(NEVER), Some((at, Source::ReadDone)));
        }
    }
}
