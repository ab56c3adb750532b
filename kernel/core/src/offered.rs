//! The policies that the module offers, their names, and what the glue must do for each.

use elevator::registry::{ENTRIES, Entry};
use elevator::{Limits, Traits};

/// The longest name of an elevator in the kernel, in bytes.
pub const NAME_MAX_BYTES: usize = 15;
/// The prefix before the registry's name.
pub const PREFIX: &str = "hw-";

/// The policy needs every request's group.
pub const WANTS_GROUPS: u32 = 1 << 0;
/// The policy needs every request's issuer.
pub const WANTS_CONTEXTS: u32 = 1 << 1;
/// Each hardware queue has queues of its own: a request that waits for one cannot be dispatched to
/// another.
pub const PER_QUEUE: u32 = 1 << 2;
/// A group's share of the tags is counted from the time that a tag is taken: the policy implements
/// [`elevator::Elevator::allocated`], for requests of groups other than the root.
pub const CHARGES_GROUPS: u32 = 1 << 3;
/// The policy may limit the tags of reads.
pub const LIMITS_READS: u32 = 1 << 4;
/// The policy may limit the tags of writes.
pub const LIMITS_WRITES: u32 = 1 << 5;

/// The resolution of kernel ticks is sufficient for the times that this policy measures.
pub const TICKS_DO: u32 = 1 << 6;
/// The policy schedules background writes itself: blk-mq's writeback throttling is disabled, as for
/// the kernel's bfq.
pub const SCHEDULES_WRITES: u32 = 1 << 7;

/// One elevator type of the module.
#[derive(Copy, Clone, Debug)]
pub struct Offer {
    /// The registry's entry.
    pub entry: &'static Entry,
    /// Bits: `WANTS_GROUPS` and the others.
    pub wants: u32,
}

fn is_offered(entry: &Entry) -> bool {
    PREFIX.len() + entry.name.len() <= NAME_MAX_BYTES && entry.traits.is_elevator
}

/// All elevators, in the registry's order.
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

/// The elevator with this number.
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
            // The glue determines groups to charge where it counts tags, and counts tags where it
            // knows issuers.
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
