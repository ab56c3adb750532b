//! The promises of cfq and bfq: a queue's turn ends. The beginning of a turn is taken from the
//! policy's message about it, because requests of one issuer may be in several queues, and requests
//! of several issuers in one. What the turn then dispatches, and when, is taken from the trace.
//!
//! cfq: the slice begins with the first completion of the turn. After the slice the queue
//! dispatches nothing, except for one request for which cfq idled. bfq: a turn dispatches at most
//! its budget. After its time it dispatches at most a third of the budget: a queue for which bfq
//! idles may continue if less than that is left.

use std::collections::BTreeSet;

use hoistway_block::time::MILLISECOND;
use hoistway_block::{Nanos, RequestId};
use hoistway_elevator::{Attributes, Message};

use super::Terms;
use crate::invariants::Broken;

/// Reasons of choices in a turn.
const REASONS: [&str; 5] = ["slice goes on", "next queue", "overdue", "turn goes on", "next turn"];
/// The longest slice, that of the highest priority level of cfq, in fifths of the base slice.
const LONGEST_FIFTHS: u64 = 9;
/// The largest factor that bfq raises a queue's weight by; the time of its turn grows likewise.
const RAISING_MAX: u64 = 30;

/// The turn in progress.
#[derive(Debug)]
struct Turn {
    began_ns: Nanos,
    /// bfq: the sectors that it may dispatch.
    budget_sectors: u64,
    sent_sectors: u64,
    /// Sectors and requests dispatched after its time.
    late_sectors: u64,
    late_requests: u32,
    /// Its requests in the device, until the first completes.
    first_ones: BTreeSet<RequestId>,
    /// When the first of them completed.
    completed_ns: Option<Nanos>,
}

/// The observed turn; None if its beginning was not seen.
#[derive(Debug, Default)]
pub(super) struct Slices {
    turn: Option<Turn>,
}

impl Slices {
    /// The present turn may have its length from earlier terms.
    pub(super) fn reset(&mut self) {
        self.turn = None;
    }

    pub(super) fn heard(&mut self, message: &Message) {
        let is_of_cfq = message.text.starts_with("set_active ");
        if is_of_cfq || message.text.starts_with("set_in_service_queue, cur-budget") {
            self.turn = Some(Turn {
                began_ns: message.at_ns,
                budget_sectors: message.numbers[0],
                sent_sectors: 0,
                late_sectors: 0,
                late_requests: 0,
                first_ones: BTreeSet::new(),
                completed_ns: None,
            });
        }
    }

    pub(super) fn left_device(&mut self, id: RequestId, now: Nanos) {
        if let Some(turn) = &mut self.turn
            && turn.completed_ns.is_none()
            && turn.first_ones.contains(&id)
        {
            turn.completed_ns = Some(now);
            turn.first_ones.clear();
        }
    }

    /// A choice of cfq.
    pub(super) fn chosen_in_slice(
        &mut self,
        id: RequestId,
        attributes: &Attributes,
        reason: &str,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let Some(turn) = self.turn.as_mut().filter(|_| REASONS.contains(&reason)) else { return Ok(0) };
        let Some(completed_ns) = turn.completed_ns else {
            turn.first_ones.insert(id);
            return Ok(0);
        };
        let base_ns = if attributes.is_sync() { us_or_ms(terms, "slice_sync") } else { us_or_ms(terms, "slice_async") };
        let slice_ns = (base_ns / 5).saturating_mul(LONGEST_FIFTHS);
        let until = completed_ns.saturating_add(slice_ns).saturating_add(rounding_ns(terms));
        if now <= until {
            return Ok(1);
        }
        turn.late_requests += 1;
        if turn.late_requests == 1 {
            return Ok(1);
        }
        let (began_ns, slot) = (turn.began_ns, id.slot());
        Err(format!(
            "P7: #{slot} goes in the slice that was given at {began_ns} and ended at {until}, and is not the first"
        ))
    }

    /// A choice of bfq.
    pub(super) fn chosen_in_budget(
        &mut self,
        id: RequestId,
        attributes: &Attributes,
        reason: &str,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let Some(turn) = self.turn.as_mut().filter(|_| REASONS.contains(&reason)) else { return Ok(0) };
        let (began_ns, budget, slot) = (turn.began_ns, turn.budget_sectors, id.slot());
        turn.sent_sectors += u64::from(attributes.extent.sectors);
        if turn.sent_sectors > budget {
            let sent = turn.sent_sectors;
            return Err(format!(
                "P7: with #{slot} the turn of {began_ns} has sent {sent} sectors, its budget is {budget}"
            ));
        }
        let time_ns = terms.ms("timeout_sync").saturating_mul(RAISING_MAX);
        let until = began_ns.saturating_add(time_ns).saturating_add(rounding_ns(terms));
        if now <= until {
            return Ok(1);
        }
        turn.late_sectors += u64::from(attributes.extent.sectors);
        if turn.late_sectors <= budget / 3 {
            return Ok(1);
        }
        let late = turn.late_sectors;
        Err(format!(
            "P7: with #{slot} the turn of {began_ns} has sent {late} of {budget} sectors after its time, {until}"
        ))
    }
}

/// Two ticks of the policy's clock: one for the beginning and one for the end.
fn rounding_ns(terms: &Terms) -> Nanos {
    2 * terms.tick_ns.max(MILLISECOND)
}

/// A tunable that newer versions also have in microseconds.
fn us_or_ms(terms: &Terms, tunable: &str) -> Nanos {
    let fine = format!("{tunable}_us");
    terms.tunables.get(fine.as_str()).map_or(terms.ms(tunable), |us| us.unsigned_abs().saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Flags, Operation};

    const READ: Attributes = Attributes::new(Operation::Read, Extent::new(0, 8));

    fn id(number: u32) -> RequestId {
        RequestId::new(number, 0)
    }

    #[test]
    fn a_slice_ends() {
        let terms = Terms { tunables: [("slice_sync", 10), ("slice_async", 5)].into(), ..Terms::of("cfq") };
        let mut slices = Slices::default();
        let choose = |slices: &mut Slices, number, attributes: &Attributes, ms| {
            slices.chosen_in_slice(id(number), attributes, "slice goes on", &terms, ms * MILLISECOND)
        };
        // Before a turn is announced, and before its first completion, nothing is known.
        assert_eq!(choose(&mut slices, 0, &READ, 900), Ok(0));
        slices.heard(&Message::new(900 * MILLISECOND, "set_active wl_class:{0} wl_type:{1}", [1, 2]));
        assert_eq!(choose(&mut slices, 1, &READ, 1_000), Ok(0));
        slices.left_device(id(1), 1_000 * MILLISECOND);
        // The longest slice is 18 ms; then the request that was waited for may go.
        assert_eq!(choose(&mut slices, 2, &READ, 1_020), Ok(1));
        assert_eq!(choose(&mut slices, 3, &READ, 1_021), Ok(1));
        let what = choose(&mut slices, 4, &READ, 1_021).unwrap_err();
        assert!(what.contains("#4 goes in the slice"), "{what}");
        slices.heard(&Message::new(1_021 * MILLISECOND, "set_active wl_class:{0} wl_type:{1}", [1, 0]));
        assert_eq!(choose(&mut slices, 5, &READ, 1_022), Ok(0));
        slices.left_device(id(5), 1_022 * MILLISECOND);
        let write = Attributes { flags: Flags::NONE, ..Attributes::new(Operation::Write, Extent::new(0, 8)) };
        assert_eq!(choose(&mut slices, 6, &write, 1_034), Ok(1), "late, of a slice of 9 ms");
        assert!(choose(&mut slices, 7, &write, 1_034).is_err());
    }

    #[test]
    fn a_budget_ends() {
        let terms = Terms { tunables: [("timeout_sync", 1)].into(), ..Terms::of("bfq") };
        let mut slices = Slices::default();
        let choose =
            |slices: &mut Slices, reason, ms| slices.chosen_in_budget(id(1), &READ, reason, &terms, ms * MILLISECOND);
        let begin = |ms| Message::new(ms * MILLISECOND, "set_in_service_queue, cur-budget = {0}", [24]);
        slices.heard(&begin(0));
        assert_eq!(choose(&mut slices, "next turn", 0), Ok(1));
        assert_eq!(choose(&mut slices, "let into another's turn", 0), Ok(0));
        assert_eq!([1, 2].map(|ms| choose(&mut slices, "turn goes on", ms)), [Ok(1), Ok(1)]);
        let what = choose(&mut slices, "turn goes on", 3).unwrap_err();
        assert!(what.contains("has sent 32 sectors"), "{what}");
        slices.heard(&begin(100));
        assert_eq!([100, 133].map(|ms| choose(&mut slices, "turn goes on", ms)), [Ok(1), Ok(1)]);
        let what = choose(&mut slices, "turn goes on", 133).unwrap_err();
        assert!(what.contains("after its time"), "{what}");
    }
}
