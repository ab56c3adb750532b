//! Which policies the module offers, under which names, and what the glue must do for each.

use elevator::registry::{ENTRIES, Entry};
use elevator::{Limits, Traits};

/// A name of an elevator in the kernel has at most this many bytes.
pub const NAME_MAX_BYTES: usize = 15;
/// What stands before the registry's name.
pub const PREFIX: &str = "hw-";

/// The policy wants to know of every request's group.
pub const WANTS_GROUPS: u32 = 1 << 0;
/// The policy wants to know of every request's issuer.
pub const WANTS_CONTEXTS: u32 = 1 << 1;
/// Each hardware queue has queues of its own: what waits for one cannot go to another.
pub const PER_QUEUE: u32 = 1 << 2;
/// A group's share of the tags is counted from the time that a tag is taken: [`elevator::Elevator::allocated`] means something,
/// for requests of other groups than the root.
pub const CHARGES_GROUPS: u32 = 1 << 3;
/// Reads may be told to wait for a tag.
pub const LIMITS_READS: u32 = 1 << 4;
/// Writes may be.
pub const LIMITS_WRITES: u32 = 1 << 5;

/// Time in ticks of the kernel is fine enough for what this policy measures.
pub const TICKS_DO: u32 = 1 << 6;
/// The policy schedules what nobody waits for by itself: blk-mq's throttling of writeback stands aside, as for the kernel's bfq.
pub const SCHEDULES_WRITES: u32 = 1 << 7;

/// One elevator type of the module.
#[derive(Copy, Clone, Debug)]
pub struct Offer {
    /// The registry's entry.
    pub entry: &'static Entry,
    /// `WANTS_GROUPS` and its like.
    pub wants: u32,
}

fn is_offered(entry: &Entry) -> bool {
    PREFIX.len() + entry.name.len() <= NAME_MAX_BYTES && entry.traits.is_elevator
}

/// All of them, in the registry's order.
pub fn offers() -> impl Iterator<Item = Offer> {
    ENTRIES.iter().filter(|entry| is_offered(entry)).map(|entry| Offer { entry, wants: wants(&entry.traits) })
}

fn wants(traits: &Traits) -> u32 {
    let flags = [
        (traits.uses_groups, WANTS_GROUPS),
        (traits.uses_contexts, WANTS_CONTEXTS),
        (traits.is_per_queue, PER_QUEUE),
        (traits.counts_tags, CHARGES_GROUPS),
        (traits.limits == Limits::All, LIMITS_READS),
        (traits.limits != Limits::Nothing, LIMITS_WRITES),
        (traits.ticks_suffice, TICKS_DO),
        (traits.schedules_writeback, SCHEDULES_WRITES),
    ];
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |sum, (_, flag)| sum | flag)
}

/// The one with this number.
pub fn offer(index: u32) -> Option<Offer> {
    offers().nth(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_fits_together() {
        for offer in offers() {
            let wants = |what: u32| offer.wants & what != 0;
            // The glue looks for groups to charge where it counts tags, and counts tags where it knows issuers.
            assert!(!wants(CHARGES_GROUPS) || wants(LIMITS_READS), "{}", offer.entry.name);
            assert!(!wants(LIMITS_READS) || wants(WANTS_CONTEXTS), "{}", offer.entry.name);
            // A policy that counts in ticks chooses for all hardware queues.
            assert!(!(wants(TICKS_DO) && wants(PER_QUEUE)), "{}", offer.entry.name);
        }
    }

    #[test]
    fn short_names_of_elevators_are_offered() {
        assert!(offers().count() >= 10);
        for name in ["noop", "mq-deadline", "anticipatory", "bfq", "cfq", "kyber", "wfq"] {
            assert!(offers().any(|offer| offer.entry.name == name), "{name}");
        }
        assert!(!offers().any(|offer| ["none", "read-latency2"].contains(&offer.entry.name)));
    }

    #[test]
    fn every_policy_that_counts_tags_by_group_does_so_in_the_kernel() {
        for name in ["wfq", "paternoster", "sfq", "sfq-d2", "mqfq"] {
            let offer = offers().find(|offer| offer.entry.name == name).unwrap();
            assert_eq!(offer.wants & (CHARGES_GROUPS | LIMITS_READS), CHARGES_GROUPS | LIMITS_READS, "{name}");
        }
    }
}
