//! The oracle of storms: whether what clients wrote and read fits one register per sector.
//!
//! Each operation takes effect at one moment between its call and its answer (linearizability, Herlihy
//! and Wing 1990). A write without an answer takes effect before its client's end, or not at all (strict
//! linearizability, Aguilera and Frølund 2003); a write that failed, before its answer, or not at all.
//! The check walks over the calls and answers in order and keeps every state that they allow: the value,
//! and which of the pending operations have taken effect.

use std::collections::{BTreeMap, BTreeSet};

/// The last events that a failure shows.
const SHOWN_EVENTS: usize = 40;

/// What an operation does to the register.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// Stores this value.
    Write(u64),
    /// Returns a value, known when it is answered.
    Read,
}

/// How an operation ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The write was answered.
    Wrote,
    /// The read was answered with this value.
    Read(u64),
    /// No client got an answer, or it was a failure: it may have taken effect, and does not later.
    Unanswered,
}

#[derive(Copy, Clone, Debug)]
enum Event {
    Call(u64, Access),
    End(u64, End),
}

/// One register: what happened to it, in order.
#[derive(Clone, Debug, Default)]
pub struct Register(Vec<Event>);

/// A pending operation, with what its read will return.
#[derive(Copy, Clone, Debug)]
enum Pending {
    Write(u64),
    Read(u64),
    /// A read whose value no client learned.
    Ignored,
}

/// The value, and the pending operations that have taken effect, one bit each.
type State = (u64, u32);

impl Register {
    /// An operation is called; each has a number of its own.
    pub fn called(&mut self, id: u64, access: Access) {
        self.0.push(Event::Call(id, access));
    }

    /// An operation ends.
    pub fn ended(&mut self, id: u64, end: End) {
        self.0.push(Event::End(id, end));
    }

    /// Checks everything that happened, from the value 0 on.
    ///
    /// # Errors
    /// The last events before the one that nothing explains.
    pub fn check(&self) -> Result<(), String> {
        let returned: BTreeMap<u64, u64> = self.0.iter().filter_map(returned).collect();
        let mut pending: Vec<Option<(u64, Pending)>> = Vec::new();
        let mut states: BTreeSet<State> = BTreeSet::from([(0, 0)]);
        for (index, event) in self.0.iter().enumerate() {
            match *event {
                Event::Call(id, access) => {
                    let operation = match (access, returned.get(&id)) {
                        (Access::Write(value), _) => Pending::Write(value),
                        (Access::Read, Some(value)) => Pending::Read(*value),
                        (Access::Read, None) => Pending::Ignored,
                    };
                    let free = pending.iter().position(Option::is_none).unwrap_or(pending.len());
                    pending.resize(pending.len().max(free + 1), None);
                    pending[free] = Some((id, operation));
                }
                Event::End(id, end) => {
                    let at = pending.iter().position(|it| it.is_some_and(|(other, _)| other == id));
                    let at = at.expect("an operation ends after it was called");
                    let bit = 1 << at;
                    let all = reachable(&states, &pending).into_iter();
                    let fitting = all.filter(|(_, done)| end == End::Unanswered || done & bit != 0);
                    states = fitting.map(|(value, done)| (value, done & !bit)).collect();
                    pending[at] = None;
                }
            }
            if states.is_empty() {
                let shown = &self.0[index.saturating_sub(SHOWN_EVENTS)..=index];
                return Err(shown.iter().map(|event| format!("  {event:?}\n")).collect());
            }
        }
        Ok(())
    }
}

fn returned(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::End(id, End::Read(value)) => Some((*id, *value)),
        _ => None,
    }
}

/// All states that follow when pending operations take effect, in any order.
fn reachable(states: &BTreeSet<State>, pending: &[Option<(u64, Pending)>]) -> BTreeSet<State> {
    // A read changes nothing, so it takes effect as soon as the value is right.
    let with_reads = |(value, mut done): State| {
        for (at, place) in pending.iter().enumerate() {
            let is_seen = matches!(place, Some((_, Pending::Read(wanted))) if *wanted == value);
            done |= u32::from(is_seen) << at;
        }
        (value, done)
    };
    let mut all: BTreeSet<State> = states.iter().copied().map(with_reads).collect();
    let mut new: Vec<State> = all.iter().copied().collect();
    while let Some((_, done)) = new.pop() {
        for (at, place) in pending.iter().enumerate() {
            if let Some((_, Pending::Write(value))) = place
                && done & (1 << at) == 0
            {
                let next = with_reads((*value, done | 1 << at));
                if all.insert(next) {
                    new.push(next);
                }
            }
        }
    }
    all
}

/// The registers of a storm, by volume and sector.
#[derive(Default, Debug)]
pub struct Registers(BTreeMap<(u32, u64), Register>);

impl Registers {
    /// The register of a sector.
    pub fn at(&mut self, volume: u32, sector: u64) -> &mut Register {
        self.0.entry((volume, sector)).or_default()
    }

    /// Checks all of them.
    ///
    /// # Errors
    /// The first that does not fit.
    pub fn check(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|((volume, sector), register)| {
            register.check().map_err(|events| format!("volume {volume}, sector {sector}:\n{events}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the calls and ends, in this order, fit a register.
    fn fits(events: &[Event]) -> bool {
        Register(events.to_vec()).check().is_ok()
    }

    fn write(id: u64) -> Event {
        Event::Call(id, Access::Write(id))
    }

    fn wrote(id: u64) -> Event {
        Event::End(id, End::Wrote)
    }

    fn gone(id: u64) -> Event {
        Event::End(id, End::Unanswered)
    }

    fn read(id: u64, value: u64) -> [Event; 2] {
        [Event::Call(id, Access::Read), Event::End(id, End::Read(value))]
    }

    #[test]
    fn an_answered_write_is_read_until_the_next_one() {
        let [call, seen] = read(9, 1);
        assert!(fits(&[write(1), wrote(1), call, seen]));
        let [call, unseen] = read(9, 0);
        assert!(!fits(&[write(1), wrote(1), call, unseen]));
        assert!(fits(&[write(1), call, wrote(1), unseen]), "the read began before the write was answered");
    }

    #[test]
    fn overlapping_writes_go_in_one_order_for_every_reader() {
        let [first, first_sees] = read(8, 1);
        let [second, second_sees] = read(9, 2);
        let both = [write(1), write(2), wrote(1), wrote(2)];
        assert!(fits(&[&both[..], &[first, first_sees]].concat()));
        assert!(fits(&[&both[..], &[second, second_sees]].concat()));
        assert!(!fits(&[&both[..], &[first, first_sees, second, second_sees]].concat()));
        assert!(fits(&[&[first, second][..], &both, &[first_sees, second_sees]].concat()));
    }

    #[test]
    fn a_write_of_a_client_that_is_gone_takes_effect_before_its_end_or_never() {
        let [call, unseen] = read(8, 0);
        let [again, seen] = read(9, 1);
        assert!(fits(&[write(1), gone(1), again, seen]) && fits(&[write(1), gone(1), call, unseen]));
        assert!(!fits(&[write(1), gone(1), call, unseen, again, seen]), "it appears later");
        assert!(!fits(&[write(1), gone(1), write(2), wrote(2), again, seen]), "it is back, over a newer one");
        assert!(fits(&[write(1), write(2), gone(1), wrote(2), again, seen]), "the newer one began before the end");
    }
}
