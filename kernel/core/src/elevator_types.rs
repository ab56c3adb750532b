//! The policies that the module offers, their names, and what the glue (the C files of
//! kernel/module) must do for each.

use hoistway_elevator::registry::{ENTRIES, Entry};
use hoistway_elevator::{Limits, Traits};

/// The longest name of an elevator in the kernel, in bytes.
pub const NAME_MAX_BYTES: usize = 15;
/// The prefix before the registry's name.
pub const PREFIX: &str = "hw-";

/// The policy needs every request's group.
pub const WANTS_GROUPS: u32 = 1 << 0;
/// The policy needs every request's issuer.
pub const WANTS_CONTEXTS: u32 = 1 << 1;
/// The policy has separate queues for each hardware queue: a request that waits for one hardware
/// queue cannot be dispatched to another.
pub const PER_QUEUE: u32 = 1 << 2;
/// A group's share of the tags is counted from the time that a tag is taken: the policy implements
/// [`hoistway_elevator::Elevator::allocated`], for requests of groups other than the root.
pub const CHARGES_GROUPS: u32 = 1 << 3;
/// The policy may limit the tags of reads.
pub const LIMITS_READS: u32 = 1 << 4;
/// The policy may limit the tags of writes.
pub const LIMITS_WRITES: u32 = 1 << 5;

/// The resolution of kernel ticks is sufficient for the times that this policy measures.
pub const TICK_RESOLUTION: u32 = 1 << 6;
/// The policy schedules background writes itself: blk-mq's writeback throttling is disabled, as for
/// the kernel's bfq.
pub const SCHEDULES_WRITES: u32 = 1 << 7;

/// One elevator type of the module.
#[derive(Copy, Clone, Debug)]
pub struct ElevatorType {
    /// The registry's entry.
    pub entry: &'static Entry,
    /// Bits: `WANTS_GROUPS` and the others.
    pub wants: u32,
}

fn is_registrable(entry: &Entry) -> bool {
    PREFIX.len() + entry.name.len() <= NAME_MAX_BYTES && entry.traits.is_elevator
}

/// All elevators, in the registry's order.
pub fn elevator_types() -> impl Iterator<Item = ElevatorType> {
    ENTRIES
        .iter()
        .filter(|entry| is_registrable(entry))
        .map(|entry| ElevatorType { entry, wants: wants(&entry.traits) })
}

fn wants(traits: &Traits) -> u32 {
    let flags = [
        (traits.uses_groups, WANTS_GROUPS),
        (traits.uses_contexts, WANTS_CONTEXTS),
        (traits.is_per_queue, PER_QUEUE),
        (traits.counts_tags, CHARGES_GROUPS),
        (traits.limits == Limits::All, LIMITS_READS),
        (traits.limits != Limits::Nothing, LIMITS_WRITES),
        (traits.ticks_suffice, TICK_RESOLUTION),
        (traits.schedules_writeback, SCHEDULES_WRITES),
    ];
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |sum, (_, flag)| sum | flag)
}

/// The elevator with this number.
pub fn elevator_type(index: u32) -> Option<ElevatorType> {
    elevator_types().nth(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requirements_of_each_policy_are_consistent() {
        for elevator_type in elevator_types() {
            let wants = |what: u32| elevator_type.wants & what != 0;
            // The glue charges groups only for policies for which it counts tags, and counts tags
            // only for policies for which it determines issuers.
            assert!(!wants(CHARGES_GROUPS) || wants(LIMITS_READS), "{}", elevator_type.entry.name);
            assert!(!wants(LIMITS_READS) || wants(WANTS_CONTEXTS), "{}", elevator_type.entry.name);
            // A policy that counts in ticks chooses for all hardware queues.
            assert!(!(wants(TICK_RESOLUTION) && wants(PER_QUEUE)), "{}", elevator_type.entry.name);
        }
    }

    #[test]
    fn elevators_with_short_names_are_registrable() {
        assert!(elevator_types().count() >= 10);
        for name in ["noop", "mq-deadline", "anticipatory", "bfq", "cfq", "kyber", "wfq"] {
            assert!(elevator_types().any(|elevator_type| elevator_type.entry.name == name), "{name}");
        }
        assert!(!elevator_types().any(|elevator_type| ["none", "read-latency2"].contains(&elevator_type.entry.name)));
    }

    #[test]
    fn every_policy_that_counts_tags_by_group_does_so_in_the_kernel() {
        for name in ["wfq", "paternoster", "sfq", "sfq-d2", "mqfq"] {
            let elevator_type = elevator_types().find(|elevator_type| elevator_type.entry.name == name).unwrap();
            assert_eq!(elevator_type.wants & (CHARGES_GROUPS | LIMITS_READS), CHARGES_GROUPS | LIMITS_READS, "{name}");
        }
    }
}
