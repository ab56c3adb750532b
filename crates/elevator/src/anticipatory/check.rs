//! Checks every invariant of anticipatory.

use super::{Anticipatory, Held, Kind};
use crate::interface::Violation;
use crate::request::Requests;
use crate::structures::NIL;

impl Anticipatory {
    pub(super) fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        let mut held = self.head.len();
        for kind in [Kind::Sync, Kind::Async] {
            let class = self.class(kind);
            held = held.wrapping_add(class.fifo.len());
            if class.sorted.len() != class.fifo.len() {
                return Err(Violation { what: "the sorted tree and the fifo hold the same requests", at: held });
            }
            if (class.next == NIL) != class.fifo.is_empty() {
                return Err(Violation { what: "there is a next request while any request is queued", at: class.next });
            }
            for slot in class.sorted.iter(&self.sorted).take(self.slots.len() as usize) {
                let entry = self.slots.at(slot);
                let key = self.sorted.key(slot).unwrap_or(0);
                if (entry.held, entry.kind) != (Held::Sorted, kind) || key != self.first_sector(requests, slot) {
                    return Err(Violation { what: "a request is sorted by its first sector in its class", at: slot });
                }
            }
        }
        let in_device = self.slots.iter().filter(|entry| entry.held == Held::Dispatched).count();
        if u32::try_from(in_device) != Ok(self.dispatched) {
            return Err(Violation { what: "requests dispatched and not completed are counted", at: self.dispatched });
        }
        if held != self.held {
            return Err(Violation { what: "the lists hold as many requests as are counted", at: held });
        }
        Ok(())
    }
}
