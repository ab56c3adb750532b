//! The promise of deadline and mq-deadline: batches, and classes that age.

use std::collections::BTreeMap;

use block::{Class, Direction, Nanos, RequestId};
use elevator::Version;

use super::{Queued, Terms, Waiting};
use crate::invariants::Broken;

/// Where a request waits: deadline knows no classes.
pub(super) fn lane(terms: &Terms, waiting: &Waiting) -> (Class, Direction) {
    let class = if terms.name == "deadline" { Class::BestEffort } else { waiting.attributes.class() };
    (class, waiting.attributes.direction())
}

/// Lower classes than the one that was chosen. mq-deadline looks at the request whose turn it is in a class, not at its
/// oldest; once all of a class are old enough, it is whichever it looks at.
fn passes_aged(chosen: Class, waiting: &Queued, terms: &Terms, now: Nanos) -> Result<u64, Broken> {
    let aging_ns = terms.ms("prio_aging_expire");
    let is_aged = |other: &Waiting| {
        let expire_ns = terms.expire_ns(other.attributes.direction() == Direction::Read);
        now >= other.due_ns.saturating_sub(expire_ns).saturating_add(aging_ns)
    };
    let mut passed = 0;
    for lower in [Class::BestEffort, Class::Idle].into_iter().take_while(|lower| *lower != chosen) {
        let mut of_class = waiting.values().filter(|other| other.attributes.class() == lower).peekable();
        if of_class.peek().is_some() && of_class.all(is_aged) {
            return Err(format!("P7: all of class {lower:?} are older than {aging_ns} ns, and one of {chosen:?} went"));
        }
        passed += u64::from(waiting.values().any(|other| other.attributes.class() == lower));
    }
    Ok(passed)
}

/// What has passed since when, while one class is queued.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// By direction: choices of the other one since its own last.
    passed: [u64; 2],
    /// By direction: the oldest, overdue, and the younger ones of its direction that went since it was both.
    overdue: BTreeMap<u8, (RequestId, u64)>,
}

impl Batches {
    /// `may_be_held_up`: heads that the ledger does not follow may keep their class back.
    pub(super) fn chosen(
        &mut self,
        chosen: &Waiting,
        waiting: &Queued,
        terms: &Terms,
        (now, may_be_held_up): (Nanos, bool),
    ) -> Result<u64, Broken> {
        let (class, direction) = lane(terms, chosen);
        if waiting.values().any(|other| lane(terms, other).0 != class) {
            // Another class, be it only looked at, begins the batch anew.
            *self = Self::default();
            return if may_be_held_up { Ok(0) } else { passes_aged(class, waiting, terms, now) };
        }
        let batch = terms.count("fifo_batch").max(1);
        let passed = self.passes_other(direction, waiting, terms, batch)?;
        Ok(passed + self.passes_oldest(chosen, direction, waiting, terms, now)?)
    }

    /// The direction that was not chosen.
    fn passes_other(
        &mut self,
        direction: Direction,
        waiting: &Queued,
        terms: &Terms,
        batch: u64,
    ) -> Result<u64, Broken> {
        let other = if direction == Direction::Read { Direction::Write } else { Direction::Read };
        self.passed[direction as usize] = 0;
        let passed = &mut self.passed[other as usize];
        if !waiting.values().any(|request| request.attributes.direction() == other) {
            *passed = 0;
            return Ok(0);
        }
        *passed += 1;
        let starved = terms.value("writes_starved");
        // The batch that runs, and those that may follow. mq-deadline compares as unsigned: a negative limit is endless.
        let batches = match (other, u64::try_from(starved)) {
            (Direction::Read, Ok(1..)) => 2,
            (Direction::Read, Err(_)) if terms.name == "mq-deadline" => 2,
            (Direction::Write, Ok(starved)) => starved.saturating_add(1),
            (Direction::Write, Err(_)) if terms.name == "deadline" => 1,
            _ => return Ok(0),
        };
        let allowed = batch.saturating_mul(batches);
        if *passed <= allowed {
            return Ok(1);
        }
        Err(format!("P7: {other:?}s were passed over {passed} times running, {allowed} are allowed"))
    }

    /// The oldest of the direction that was chosen, if it is overdue and was not the one.
    fn passes_oldest(
        &mut self,
        chosen: &Waiting,
        direction: Direction,
        waiting: &Queued,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let of_direction = waiting.values().filter(|other| other.attributes.direction() == direction);
        let oldest = of_direction.min_by_key(|other| other.order);
        let key = direction as u8;
        let Some(oldest) = oldest.filter(|oldest| oldest.order < chosen.order && oldest.due_ns < now) else {
            self.overdue.remove(&key);
            return Ok(0);
        };
        let entry = self.overdue.entry(key).or_insert((oldest.id, 0));
        if entry.0 != oldest.id {
            *entry = (oldest.id, 0);
        }
        entry.1 += 1;
        // The form of 6.5 looks for overdue ones only where a batch would go on in order.
        let batches = if terms.name == "mq-deadline" && terms.is_since(Version(6, 5, 0)) { 2 } else { 1 };
        let allowed = terms.count("fifo_batch").max(1).saturating_mul(batches);
        if entry.1 <= allowed {
            return Ok(1);
        }
        let slot = oldest.id.slot();
        Err(format!(
            "P7: #{slot}, the oldest {direction:?} and overdue, was passed over {} times, {allowed} are allowed",
            entry.1
        ))
    }
}
