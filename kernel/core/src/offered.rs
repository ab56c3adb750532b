//! Which policies the module offers, under which names, and what the glue must do for each.

use elevator::registry::{ENTRIES, Entry};

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

/// Policies that look at issuers.
const OF_CONTEXTS: &[&str] =
    &["wfq", "anticipatory", "cfq", "uchida", "tarasov", "bfq", "paternoster", "sfq", "sfq-d2", "mqfq"];
/// Policies whose groups count, although weights mean nothing to them.
const OF_GROUPS: &[&str] = &["uchida", "tarasov"];
/// Policies with queues per hardware queue.
const OF_QUEUES: &[&str] = &["kyber"];
/// Policies that count tags by groups.
const OF_TAGS: &[&str] = &["wfq", "paternoster"];
/// Policies whose `admit` limits reads as well as writes. CFQ and the anticipatory elevator only answer with "must", which
/// means nothing here: scheduler tags are not handed out by the policy.
const OF_READS: &[&str] = &["wfq", "bfq", "paternoster"];
/// Policies whose `admit` limits writes alone.
const OF_WRITES: &[&str] = &["mq-deadline", "kyber"];
/// Policies whose times are milliseconds: the kernel's own forms of them count in ticks.
const OF_TICKS: &[&str] = &["noop", "linus", "nas", "deadline", "mq-deadline"];
/// Policies that share out or hold back asynchronous writes.
const OF_WRITEBACK: &[&str] = &["cfq", "uchida", "tarasov", "bfq", "paternoster"];
/// What the kernel has under `none` is no elevator at all.
const NOT_OFFERED: &[&str] = &["none"];

/// One elevator type of the module.
#[derive(Copy, Clone, Debug)]
pub struct Offer {
    /// The registry's entry.
    pub entry: &'static Entry,
    /// `WANTS_GROUPS` and its like.
    pub wants: u32,
}

fn is_offered(entry: &Entry) -> bool {
    PREFIX.len() + entry.name.len() <= NAME_MAX_BYTES && !NOT_OFFERED.contains(&entry.name)
}

/// All of them, in the registry's order.
pub fn offers() -> impl Iterator<Item = Offer> {
    ENTRIES.iter().filter(|entry| is_offered(entry)).map(|entry| {
        let mut wants = 0;
        if entry.has_shares || OF_GROUPS.contains(&entry.name) {
            wants |= WANTS_GROUPS;
        }
        if OF_CONTEXTS.contains(&entry.name) {
            wants |= WANTS_CONTEXTS;
        }
        if OF_QUEUES.contains(&entry.name) {
            wants |= PER_QUEUE;
        }
        if OF_TAGS.contains(&entry.name) {
            wants |= CHARGES_GROUPS;
        }
        if OF_READS.contains(&entry.name) {
            wants |= LIMITS_READS | LIMITS_WRITES;
        }
        if OF_WRITES.contains(&entry.name) {
            wants |= LIMITS_WRITES;
        }
        if OF_TICKS.contains(&entry.name) {
            wants |= TICKS_DO;
        }
        if OF_WRITEBACK.contains(&entry.name) {
            wants |= SCHEDULES_WRITES;
        }
        Offer { entry, wants }
    })
}

/// The one with this number.
pub fn offer(index: u32) -> Option<Offer> {
    offers().nth(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use elevator::Elevator;
    use elevator::registry::{Visitor, build};

    struct SaysItself;

    impl Visitor for SaysItself {
        type Answer = (bool, bool);

        fn visit<E: Elevator>(self, _policy: &mut E) -> (bool, bool) {
            (E::KNOWS_HOLDERS, E::IS_PER_QUEUE)
        }
    }

    #[test]
    fn what_is_wanted_fits_together() {
        for offer in offers() {
            let config = Config { slots: 8, requests: 8, device: 4, ..Config::default() };
            let mut policy = build(offer.entry.name, None, &config.configuration()).unwrap();
            let wants = |what: u32| offer.wants & what != 0;
            // The books go by what the policy says of itself, the glue by the offer.
            let offered = (wants(WANTS_GROUPS | WANTS_CONTEXTS), wants(PER_QUEUE));
            assert_eq!(policy.visited_by(SaysItself), offered, "{}", offer.entry.name);
            // The glue looks for groups to charge where it counts tags, and counts tags where it knows issuers.
            assert!(!wants(CHARGES_GROUPS) || wants(LIMITS_READS), "{}", offer.entry.name);
            assert!(!wants(LIMITS_READS) || wants(WANTS_CONTEXTS), "{}", offer.entry.name);
            // Who counts in ticks chooses for all hardware queues.
            assert!(!(wants(TICKS_DO) && wants(PER_QUEUE)), "{}", offer.entry.name);
        }
    }

    #[test]
    fn names_fit_and_exceptions_exist() {
        assert!(offers().count() >= 10);
        for name in ["noop", "mq-deadline", "anticipatory", "bfq", "cfq", "kyber", "wfq"] {
            assert!(offers().any(|offer| offer.entry.name == name), "{name}");
        }
        let lists =
            [OF_CONTEXTS, OF_GROUPS, OF_QUEUES, OF_TAGS, OF_READS, OF_WRITES, OF_TICKS, OF_WRITEBACK, NOT_OFFERED];
        for name in lists.concat() {
            assert!(ENTRIES.iter().any(|entry| entry.name == name), "{name} is no policy any more");
        }
    }
}
