//! The decision of mq-deadline inside a class: which direction, and which request. A pure function
//! of plain values.

use crate::tunable::{OutOfRange, Tunable, Unit};
use hoistway_block::time::is_due;
use hoistway_block::{Direction, Nanos};

crate::tunables! {
    /// The tunables, under the kernel's names.
    pub struct Settings {
        /// Age at which a read becomes overdue.
        read_expire_ns: "read_expire", Unit::Milliseconds, 0..=2_147_483_647, 500, OutOfRange::Clamp,
            "A read older than this goes first when the next batch is chosen.";
        /// Age at which a write becomes overdue.
        write_expire_ns: "write_expire", Unit::Milliseconds, 0..=2_147_483_647, 5000, OutOfRange::Clamp,
            "A write older than this goes first when the next batch of writes is chosen.";
        /// How many batches of reads are chosen while writes wait.
        writes_starved: "writes_starved", Unit::Count, -2_147_483_648..=2_147_483_647, 2, OutOfRange::Clamp,
            "Batches of reads that may be chosen while writes wait; a negative value lets writes wait for all reads.";
        /// Whether bios may be merged at the front of a request.
        front_merges: "front_merges", Unit::Boolean, 0..=1, 1, OutOfRange::Clamp,
            "Whether front merges are searched; 0 saves the search.";
        /// Tags that async requests and sync writes may use.
        async_depth: "async_depth", Unit::Count, 1..=2_147_483_647, 1, OutOfRange::Clamp,
            "Scheduler tags that writes may hold at one time; follows nr_requests until it is set, and again when that changes.";
        /// Requests per batch.
        fifo_batch: "fifo_batch", Unit::Count, 0..=2_147_483_647, 16, OutOfRange::Clamp,
            "Requests dispatched in ascending order before deadlines are checked again; 0 counts as 1.";
        /// Age at which a request of a lower class goes before the higher classes.
        prio_aging_expire_ns: "prio_aging_expire", Unit::Milliseconds, 0..=2_147_483_647, 10_000, OutOfRange::Clamp,
            "A request of a lower class that is next in its class goes before higher classes at this age.";
    }
}

/// The rows as users see them: `async_depth` has no fixed default.
pub const ROWS: &[Tunable] = {
    let [read_expire, write_expire, writes_starved, front_merges, async_depth, fifo_batch, prio_aging_expire] =
        Settings::ROWS
    else {
        unreachable!()
    };
    &[
        *read_expire,
        *write_expire,
        *writes_starved,
        *front_merges,
        Tunable { default: None, ..*async_depth },
        *fifo_batch,
        *prio_aging_expire,
    ]
};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why {
        BatchGoesOn = "batch goes on",
        Overdue = "overdue",
        NextInOrder = "next in order",
        StartAtOldest = "start at oldest",
        Aged = "aged",
        DispatchListHead = "dispatch list head",
    }
}

/// The input of the rule for one direction of a class: two facts, no containers.
#[derive(Copy, Clone, Debug)]
pub struct Lane {
    /// Where the direction would continue.
    pub next: Option<u32>,
    /// The oldest queued request, and the time at which it becomes overdue.
    pub oldest: Option<(u32, Nanos)>,
}

/// The batch in progress. All classes share it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    pub direction: Direction,
    /// Requests sent in it.
    pub served: u32,
    /// Batches of reads chosen since writes began to wait.
    pub starved: u32,
}

impl Batch {
    /// Writes first, as in the kernel: on a new queue the position form
    /// (`Remembers::SectorPosition`) begins with them.
    pub const FRESH: Batch = Batch { direction: Direction::Write, served: 0, starved: 0 };
}

/// The request, the reason, and the batch it belongs to.
#[derive(Copy, Clone, Debug)]
pub struct Choice {
    pub slot: u32,
    pub why: Why,
    pub batch: Batch,
}

/// The rule inside a class; `None` when nothing is queued there.
#[inline]
pub fn choose(now: Nanos, lane_of: impl Fn(Direction) -> Lane, batch: Batch, settings: &Settings) -> Option<Choice> {
    // A batch is not broken for an overdue request, because that would cost two seeks, there and
    // back.
    if i64::from(batch.served) < settings.fifo_batch
        && let Some(slot) = lane_of(batch.direction).next
    {
        return Some(Choice { slot, why: Why::BatchGoesOn, batch });
    }
    let reads_wait = lane_of(Direction::Read).oldest.is_some();
    let writes_wait = lane_of(Direction::Write).oldest.is_some();
    let (direction, starved) = turn(reads_wait, writes_wait, batch.starved, settings);
    let Lane { next, oldest } = lane_of(direction);
    let (oldest, due) = oldest?;
    let (slot, why) = match next {
        None => (oldest, Why::StartAtOldest),
        Some(_) if is_due(now, due) => (oldest, Why::Overdue),
        Some(next) => (next, Why::NextInOrder),
    };
    Some(Choice { slot, why, batch: Batch { direction, served: 0, starved } })
}

/// The direction of the next batch, and how often writes have then been passed over.
#[inline]
pub fn turn(reads_wait: bool, writes_wait: bool, starved: u32, settings: &Settings) -> (Direction, u32) {
    // The kernel compares unsigned numbers, so a negative limit is never reached.
    let limit = u32::try_from(settings.writes_starved).unwrap_or(u32::MAX);
    match (reads_wait, writes_wait) {
        (true, true) if starved < limit => (Direction::Read, starved.saturating_add(1)),
        (true, false) => (Direction::Read, starved),
        _ => (Direction::Write, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Lane = Lane { next: None, oldest: None };
    const READ: Direction = Direction::Read;
    const WRITE: Direction = Direction::Write;

    /// Continues at slot 1; slot 2 is the oldest, overdue from 100 on.
    const LANE: Lane = Lane { next: Some(1), oldest: Some((2, 100)) };

    const fn batch(direction: Direction, served: u32, starved: u32) -> Batch {
        Batch { direction, served, starved }
    }

    #[track_caller]
    fn chooses(now: Nanos, lanes: [Lane; 2], before: Batch, expected: (u32, Why, Batch)) {
        let [read, write] = lanes;
        let lane_of = |direction| if direction == READ { read } else { write };
        let choice = choose(now, lane_of, before, &Settings::DEFAULT).map(|c| (c.slot, c.why, c.batch));
        assert_eq!(choice, Some(expected));
    }

    #[test]
    fn a_batch_goes_on_though_the_oldest_is_overdue() {
        chooses(1000, [LANE, NOTHING], batch(READ, 15, 0), (1, Why::BatchGoesOn, batch(READ, 15, 0)));
    }

    #[test]
    fn a_new_batch_begins_at_the_overdue() {
        chooses(100, [LANE, NOTHING], batch(READ, 16, 0), (2, Why::Overdue, batch(READ, 0, 0)));
    }

    #[test]
    fn a_new_batch_goes_on_in_order_while_nothing_is_overdue() {
        chooses(99, [LANE, NOTHING], batch(READ, 16, 0), (1, Why::NextInOrder, batch(READ, 0, 0)));
    }

    #[test]
    fn a_new_batch_begins_at_the_oldest_when_nothing_lies_ahead() {
        let lane = Lane { next: None, ..LANE };
        chooses(0, [lane, NOTHING], batch(READ, 3, 0), (2, Why::StartAtOldest, batch(READ, 0, 0)));
    }

    #[test]
    fn writes_are_passed_over_twice() {
        chooses(0, [LANE, LANE], batch(READ, 16, 1), (1, Why::NextInOrder, batch(READ, 0, 2)));
        chooses(0, [LANE, LANE], batch(READ, 16, 2), (1, Why::NextInOrder, batch(WRITE, 0, 0)));
    }

    #[test]
    fn reads_alone_do_not_count_as_passing_over() {
        chooses(0, [LANE, NOTHING], batch(WRITE, 16, 1), (1, Why::NextInOrder, batch(READ, 0, 1)));
    }

    #[test]
    fn an_empty_class_has_no_request() {
        assert!(choose(0, |_| NOTHING, Batch::FRESH, &Settings::DEFAULT).is_none());
    }
}
