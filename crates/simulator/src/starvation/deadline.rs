//! The promise of deadline and mq-deadline: batches, and classes that age.
//!
//! mq-deadline's classes share one batch. When it examines a class, it changes the batch before it
//! checks the age of the candidate: if the candidate is too young (a "fruitless look"), direction,
//! length and the count of passed-over batches stay as that class set them. The promise within a
//! class therefore holds between fruitless looks, and starts again after each. A fruitless look is
//! possible only while requests of two classes are in the policy or the device and a lower class
//! has a queued request that has not aged. While this continues, there is no bound within a class
//! at all: see the starvation test
//! `a_young_request_of_a_lower_class_suspends_the_bound_of_a_higher_class`.

use std::collections::BTreeMap;

use hoistway_block::{Class, Direction, Nanos, RequestId};
use hoistway_elevator::{Attributes, Passing, Version};

use super::{Queued, Terms, Waiting};
use crate::invariants::Broken;

/// Classes whose age is checked.
const LOWER_CLASSES: [Class; 2] = [Class::BestEffort, Class::Idle];

fn has_classes(terms: &Terms) -> bool {
    terms.passing == Passing::Batches { has_classes: true }
}

/// Without classes all requests have the same one.
fn class_of(terms: &Terms, attributes: &Attributes) -> Class {
    if has_classes(terms) { attributes.class() } else { Class::BestEffort }
}

/// The class and direction of a request.
pub(super) fn lane(terms: &Terms, waiting: &Waiting) -> (Class, Direction) {
    (class_of(terms, &waiting.attributes), waiting.attributes.direction())
}

/// Whether it is old enough to precede higher classes.
fn is_aged(waiting: &Waiting, terms: &Terms, now: Nanos) -> bool {
    let expire_ns = terms.expire_ns(waiting.attributes.direction() == Direction::Read);
    now >= waiting.due_ns.saturating_sub(expire_ns).saturating_add(terms.ms("prio_aging_expire"))
}

/// Counts the lower classes that a choice passed over. mq-deadline checks the age of a class's next
/// request, not of its oldest; once all requests of a class are old enough, the next one is too.
fn passes_aged(chosen: Class, waiting: &Queued, terms: &Terms, now: Nanos) -> Result<u64, Broken> {
    let aging_ns = terms.ms("prio_aging_expire");
    let mut passed = 0;
    for lower in LOWER_CLASSES.into_iter().take_while(|lower| *lower != chosen) {
        let mut of_class = waiting.values().filter(|other| other.attributes.class() == lower).peekable();
        if of_class.peek().is_some() && of_class.all(|other| is_aged(other, terms, now)) {
            return Err(format!("P7: all of class {lower:?} are older than {aging_ns} ns, and one of {chosen:?} went"));
        }
        passed += u64::from(waiting.values().any(|other| other.attributes.class() == lower));
    }
    Ok(passed)
}

/// The passes counted for the class chosen last.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// The requests in the policy or the device, with their class.
    inside: BTreeMap<RequestId, Class>,
    /// The class that the counts refer to.
    class: Option<Class>,
    /// Whether a fruitless look is possible since the last choice.
    is_moved: bool,
    /// By direction: choices of the other direction since its own last one.
    passed: [u64; 2],
    /// By direction: the oldest request if it is overdue, and the number of younger ones of its
    /// direction chosen since it was both.
    overdue: BTreeMap<u8, (RequestId, u64)>,
}

impl Batches {
    /// Resets the counts, but not the requests in the policy or the device.
    pub(super) fn reset(&mut self) {
        let inside = std::mem::take(&mut self.inside);
        *self = Self { inside, is_moved: true, ..Self::default() };
    }

    /// A request was inserted, in any position; `waiting` may include it.
    pub(super) fn entered(
        &mut self,
        id: RequestId,
        attributes: &Attributes,
        waiting: &Queued,
        terms: &Terms,
        now: Nanos,
    ) {
        self.inside.insert(id, class_of(terms, attributes));
        // A fruitless look becomes possible only with an insertion, or remains possible after a
        // choice: age, choices and completions only make it less likely.
        self.is_moved |= self.has_fruitless_look(waiting, terms, now);
    }

    /// It completed, or was absorbed by another request.
    pub(super) fn left(&mut self, id: RequestId) {
        self.inside.remove(&id);
    }

    /// Whether a dispatch from now on may examine a request that is too young.
    fn has_fruitless_look(&self, waiting: &Queued, terms: &Terms, now: Nanos) -> bool {
        let mut inside = self.inside.values();
        let first = inside.next();
        let is_one = inside.all(|other| Some(other) == first);
        let is_young = |other: &Waiting| LOWER_CLASSES.contains(&lane(terms, other).0) && !is_aged(other, terms, now);
        !is_one && waiting.values().any(is_young)
    }

    /// Checks a choice. If `may_be_held_up` is set, requests that were inserted in front, which the
    /// ledger does not track, may hold their class back, so that the age of classes is not checked.
    pub(super) fn chosen(
        &mut self,
        chosen: &Waiting,
        waiting: &Queued,
        terms: &Terms,
        (now, may_be_held_up): (Nanos, bool),
    ) -> Result<u64, Broken> {
        let (class, direction) = lane(terms, chosen);
        let will_be_moved = self.has_fruitless_look(waiting, terms, now);
        let was_moved = std::mem::replace(&mut self.is_moved, will_be_moved);
        let has_others = waiting.values().any(|other| lane(terms, other).0 != class);
        let aged = if has_others && !may_be_held_up { passes_aged(class, waiting, terms, now)? } else { 0 };
        if was_moved || self.class != Some(class) {
            self.class = Some(class);
            self.passed = [0; 2];
            self.overdue.clear();
            return Ok(aged);
        }
        let own: Vec<&Waiting> = waiting.values().filter(|other| lane(terms, other).0 == class).collect();
        let batch = terms.count("fifo_batch").max(1);
        let passed = self.passes_other(direction, &own, terms, batch)?;
        Ok(aged + passed + self.passes_oldest(chosen, direction, &own, terms, now)?)
    }

    /// Checks the direction that was not chosen.
    fn passes_other(
        &mut self,
        direction: Direction,
        own: &[&Waiting],
        terms: &Terms,
        batch: u64,
    ) -> Result<u64, Broken> {
        let other = if direction == Direction::Read { Direction::Write } else { Direction::Read };
        self.passed[direction as usize] = 0;
        let passed = &mut self.passed[other as usize];
        if !own.iter().any(|request| request.attributes.direction() == other) {
            *passed = 0;
            return Ok(0);
        }
        *passed += 1;
        let starved = terms.value("writes_starved");
        // The running batch, and those that may follow. mq-deadline compares as unsigned: a
        // negative limit is unlimited.
        let batches = match (other, u64::try_from(starved)) {
            (Direction::Read, Ok(1..)) => 2,
            (Direction::Read, Err(_)) if has_classes(terms) => 2,
            (Direction::Write, Ok(starved)) => starved.saturating_add(1),
            (Direction::Write, Err(_)) if !has_classes(terms) => 1,
            _ => return Ok(0),
        };
        let allowed = batch.saturating_mul(batches);
        if *passed <= allowed {
            return Ok(1);
        }
        Err(format!("P7: {other:?}s were passed over {passed} times running, {allowed} are allowed"))
    }

    /// Checks the oldest request of the chosen direction, if it is overdue and was not chosen.
    fn passes_oldest(
        &mut self,
        chosen: &Waiting,
        direction: Direction,
        own: &[&Waiting],
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let of_direction = own.iter().filter(|other| other.attributes.direction() == direction);
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
        // docs/specifications/classic-elevators.md, section 12, allows the 6.5 version one batch
        // more.
        let batches = if has_classes(terms) && terms.is_since(Version(6, 5, 0)) { 2 } else { 1 };
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
