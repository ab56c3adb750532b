//! Descriptions of the schedulers' reasons, one line each; `crates/hoistway/tests/page.rs` checks
//! that none is missing.

use super::svg::escaped;

/// Reasons as policies name them. If two policies use the same name, it has the same meaning.
const REASONS: &[(&str, &str)] = &[
    ("oldest", "it has waited longest"),
    ("head of the list", "the list is sorted at insertion, and its first request is dispatched"),
    ("next in order", "it is the next by sector in the current direction"),
    ("overdue", "its deadline has passed"),
    ("new batch", "the previous batch ended, and a batch of reads or of writes starts"),
    ("put in front", "it was inserted at the head"),
    ("batch goes on", "the batch of reads or of writes continues with the next by sector"),
    ("start at oldest", "a batch starts with the request that has waited longest"),
    ("start at lowest sector", "no request is ahead, and the sweep starts again at the lowest sector"),
    ("aged", "it has a lower priority and its aging time has expired"),
    ("dispatch list head", "it was inserted at the head of its priority"),
    ("its kind's batch goes on", "the batch of its kind (reads, writes, discards or others) continues"),
    ("turn of its kind", "the batch of the previous kind ended; reads, writes, discards and others take turns"),
    ("flushed with all that waited", "the device had room, and all waiting requests are dispatched in order"),
    ("turn of its software queue", "the device was busy; the queues of the processors take turns, one request each"),
    ("turn goes on", "its queue is in service and has not used up its budget"),
    ("next turn", "the queue in service expired, and its queue is the next by virtual time"),
    ("let into another's turn", "the queue in service is empty for now, and it is injected meanwhile"),
    ("slice goes on", "its queue is in service and has not used up its slice"),
    ("next queue", "the previous slice ended, and its queue is the next"),
    ("next group", "the previous group expired, and its group is the next"),
    ("of the round", "its queue was already chosen for a batch, and it belongs to that batch"),
    (
        "waits for the queue",
        "the device idles briefly, because the queue in service is expected to issue another request",
    ),
    (
        "waits for the group",
        "the device idles briefly, because the group in service is expected to issue another request",
    ),
    (
        "waits for the last reader",
        "the device idles briefly, because the last reader is expected to issue a request near by",
    ),
    ("smallest start tag", "its group has received the least service for its weight"),
    ("nobody else waits", "no other group has a request"),
    ("waits for one that is behind", "requests are held back for a group that has received less than its share"),
    ("first in order", "its group has received the least service for its weight"),
    ("leader let in", "its group is ahead of its share, but the device would otherwise be underused"),
    ("real time", "it is of the real-time class, which is served before all others"),
    ("nobody else", "it is of the idle class, which is served when no other has a request"),
    ("waits for a laggard", "requests are held back for a group that has received less than its share"),
    ("in its slice", "its group has its turn, during which it has the disk to itself"),
    (super::dispatches::NOT_CHOSEN, "the scheduler was bypassed (for a flush), or drained for a switch"),
];

/// Description of a reason; `None` if it has none.
pub fn gloss(reason: &str) -> Option<&'static str> {
    REASONS.iter().find(|(known, _)| *known == reason).map(|(_, gloss)| *gloss)
}

/// A list of the reasons that occur, each once with its description; empty without reasons.
pub(super) fn list<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let names: std::collections::BTreeSet<&str> = reasons.collect();
    let entry = |name: &str| Some(format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(gloss(name)?)));
    let entries: String = names.into_iter().filter_map(entry).collect();
    if entries.is_empty() { entries } else { format!("<dl class=\"gloss\">\n{entries}</dl>\n") }
}
