//! Which of the device's sources of events is next.
//!
//! Most events come from queues whose times only rise, so each source is known by the time of its first one. Time and
//! source stand in one number, the source in the lowest bits: the smallest number says what comes first, for seven
//! comparisons without a branch. Times so stay below 2^61 ns, 73 years.

use block::Nanos;

use crate::interface::NEVER;

/// Where the next event may come from. At one time, the first of these goes first.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A read has passed the link.
    ReadDone,
    /// A write is acknowledged.
    Acknowledged,
    /// Pages sensed, programs ended.
    Calendar,
    /// The firmware takes up the next queued command.
    Fetch,
    /// A write's data begins to pass the link.
    Transfer,
    /// A write's data has come over the link.
    Arrived,
    /// A read, discard or flush begins.
    Start,
    /// No write has come for a while.
    WritesIdle,
}

const SOURCES: [Source; 8] = [
    Source::ReadDone,
    Source::Acknowledged,
    Source::Calendar,
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
    first: u64,
}

impl Agenda {
    const SOURCE_BITS: u32 = SOURCES.len().trailing_zeros();

    pub(super) fn new() -> Self {
        Self { due: [NEVER; SOURCES.len()], first: NEVER }
    }

    /// Says when the source's next event is.
    #[inline]
    pub(super) fn set(&mut self, source: Source, at: Nanos) {
        let due = if at == NEVER { NEVER } else { (at << Self::SOURCE_BITS) | source as u64 };
        self.due[source as usize] = due;
    }

    /// Finds the first event, when all that has changed is said.
    #[inline]
    pub(super) fn settle(&mut self) {
        let [a, b, c, d, e, f, g, h] = self.due;
        self.first = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
    }

    #[inline]
    pub(super) fn first_at(&self) -> Nanos {
        if self.first == NEVER { NEVER } else { self.first >> Self::SOURCE_BITS }
    }

    #[inline]
    pub(super) fn first_source(&self) -> Source {
        SOURCES[usize::try_from(self.first % SOURCES.len() as u64).unwrap_or(0)]
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
        for (source, at) in [(Source::Start, 70), (Source::WritesIdle, 50), (Source::Calendar, 50), (Source::Fetch, 90)]
        {
            agenda.set(source, at);
        }
        let mut order = Vec::new();
        loop {
            agenda.settle();
            if agenda.first_at() == NEVER {
                break;
            }
            order.push((agenda.first_at(), agenda.first_source()));
            agenda.set(agenda.first_source(), NEVER);
        }
        let expected = [(50, Source::Calendar), (50, Source::WritesIdle), (70, Source::Start), (90, Source::Fetch)];
        assert_eq!(order, expected);
    }
}
