//! Which request of a kind is next in order: the one with the shorter seek from the last one's end.
//! Source: Linux 2.6.16 block/as-iosched.c, as_choose_req.

use super::{Anticipatory, Kind};
use crate::request::Requests;
use crate::structures::NIL;

/// Longest backward seek, and the factor applied to its cost compared with a forward one.
const MOST_BACK_SECTORS: u64 = 1 << 20;
const BACK_PENALTY: u64 = 2;

impl Anticipatory {
    /// The lowest request of a kind; `None` if that is the request in this slot.
    pub(super) fn first_but(&self, kind: Kind, slot: u32) -> Option<u32> {
        self.class(kind).sorted.first(&self.sorted).filter(|first| *first != slot)
    }

    /// The best request after this one: the next higher (or the lowest), or one a little behind.
    pub(super) fn best_neighbour(&self, requests: &Requests, slot: u32) -> u32 {
        let kind = self.slots.at(slot).kind;
        let on = self.sorted.next(slot).or_else(|| self.first_but(kind, slot)).unwrap_or(NIL);
        let back = self.sorted.prev(slot).unwrap_or(NIL);
        self.better(requests, kind, on, back)
    }

    /// Of two slots the one whose request needs the shorter seek. NIL stands for no request.
    pub(super) fn better(&self, requests: &Requests, kind: Kind, one: u32, other: u32) -> u32 {
        if one == NIL || one == other {
            return other;
        }
        if other == NIL {
            return one;
        }
        let last = self.class(kind).last_end;
        let (a, b) = (self.first_sector(requests, one), self.first_sector(requests, other));
        match (distance(last, a), distance(last, b)) {
            (Some(_), None) => one,
            (None, Some(_)) => other,
            (None, None) => {
                if a <= b {
                    one
                } else {
                    other
                }
            }
            (Some(x), Some(y)) if x == y => {
                if a >= b {
                    one
                } else {
                    other
                }
            }
            (Some(x), Some(y)) => {
                if x < y {
                    one
                } else {
                    other
                }
            }
        }
    }
}

/// The seek distance, with backward seeks counted twice; `None` if the head has to wrap around.
fn distance(last: u64, first_sector: u64) -> Option<u64> {
    if first_sector >= last {
        return Some(first_sector.wrapping_sub(last));
    }
    let back = last.wrapping_sub(first_sector);
    (back <= MOST_BACK_SECTORS).then_some(back.saturating_mul(BACK_PENALTY))
}
