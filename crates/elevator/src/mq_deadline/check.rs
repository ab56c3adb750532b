//! Checks every invariant of mq-deadline.

use super::profile::Remembers;
use super::state::Held;
use super::{CLASSES, MqDeadline};
use crate::interface::Violation;
use crate::request::Requests;
use crate::structures::NIL;
use hoistway_block::{Class, Direction};

impl MqDeadline {
    pub(super) fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        let mut held = self.shared_dispatch_list.len();
        for class in CLASSES {
            let level = self.level(class);
            held = held.wrapping_add(level.dispatch_list.len());
            for direction in [Direction::Read, Direction::Write] {
                held = held.wrapping_add(level.queue(direction).fifo.len());
                self.check_queue(requests, class, direction)?;
            }
            self.check_counters(requests, class)?;
        }
        if held != self.held {
            return Err(Violation { what: "the lists hold as many requests as are counted", at: held });
        }
        Ok(())
    }

    fn check_queue(&self, requests: &Requests, class: Class, direction: Direction) -> Result<(), Violation> {
        let queue = self.level(class).queue(direction);
        if queue.sorted.len() != queue.fifo.len() {
            return Err(Violation {
                what: "the sorted tree and the fifo hold the same requests",
                at: queue.fifo.len(),
            });
        }
        let mut before = 0;
        for slot in queue.sorted.iter(&self.sorted).take(self.slots.len() as usize) {
            let entry = self.slots.at(slot);
            if (entry.held(), entry.queue()) != (Held::Sorted, (class, direction)) {
                return Err(Violation { what: "a sorted request is in the tree of its class and direction", at: slot });
            }
            let key = self.sorted.key(slot).unwrap_or(0);
            let id = entry.id(slot);
            if !requests.is_live(id) || key != requests.at(id).first_sector() {
                return Err(Violation { what: "a request is sorted by its first sector", at: slot });
            }
            if key < before {
                return Err(Violation { what: "the sorted tree ascends", at: slot });
            }
            before = key;
        }
        let next = (queue.next != NIL).then_some(queue.next);
        let is_right = match self.profile.remembers {
            Remembers::SectorPosition => {
                next == queue.sorted.lower_bound(&self.sorted, queue.position_sectors)
                    && next.is_none_or(|slot| self.sorted.key(slot) == Some(queue.next_sector))
            }
            Remembers::NextRequest => next.is_none_or(|slot| {
                let entry = self.slots.at(slot);
                (entry.held(), entry.queue()) == (Held::Sorted, (class, direction))
            }),
        };
        if is_right {
            Ok(())
        } else {
            Err(Violation { what: "a direction continues at a request of its own tree", at: queue.next })
        }
    }

    fn check_counters(&self, requests: &Requests, class: Class) -> Result<(), Violation> {
        let level = self.level(class);
        let (mut held, mut counted) = (0u32, 0u32);
        let known =
            (0..).zip(self.slots.iter()).filter(|(_, entry)| entry.held() != Held::Free && entry.class() == class);
        for (slot, entry) in known {
            counted = counted.wrapping_add(1);
            held = held.wrapping_add(u32::from(entry.held().is_on_list()));
            if !requests.is_live(entry.id(slot)) {
                return Err(Violation { what: "a counted request is released before it is freed", at: slot });
            }
        }
        if level.unfinished() != counted {
            return Err(Violation { what: "inserted minus completed is the number not yet released", at: counted });
        }
        if level.inserted.wrapping_sub(level.merged).wrapping_sub(level.dispatched) != held {
            return Err(Violation { what: "inserted minus merged minus dispatched is the number queued", at: held });
        }
        Ok(())
    }
}
