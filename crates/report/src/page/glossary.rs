//! Descriptions of the schedulers' reasons, one line each; `crates/hoistway/tests/page.rs` checks
//! that none is missing.

use super::svg::escaped;

/// Reasons as policies name them. If two policies use the same name, it has the same meaning.
const REASONS: &[(&str, &str)] = &[
    ("oldest", "it has waited longest"),
    ("head of the list", "the list is kept in order when requests are added, and its first request goes"),
    ("next in order", "it is the next one by sector in the direction of those before"),
    ("overdue", "its deadline has passed"),
    ("new batch", "the batch before was over, and one of reads or of writes begins"),
    ("put in front", "it was inserted ahead of all others"),
    ("batch goes on", "the batch of reads or of writes goes on to the next one by sector"),
    ("start at oldest", "a batch begins with the request that has waited longest"),
    ("start at lowest sector", "nothing lies ahead, and the sweep begins again at the lowest sector"),
    ("aged", "it has a lower priority and has waited so long that it is let through"),
    ("dispatch list head", "it was inserted ahead of all others of its priority"),
    ("its kind's batch goes on", "the batch of its kind (reads, writes, discards or others) is not over"),
    ("turn of its kind", "the batch of the kind before was over; reads, writes, discards and others take turns"),
    ("flushed with all that waited", "the device had room, and all that waited is handed over in its order"),
    ("turn of its software queue", "the device was busy; the queues of the processors take turns, one request each"),
    ("turn goes on", "its queue is in service and has not used up its budget"),
    ("next turn", "the queue in service was done, and its queue is the next by virtual time"),
    ("let into another's turn", "the queue in service has nothing at the moment, and it is let in meanwhile"),
    ("slice goes on", "its queue is in service and its slice of time is not over"),
    ("next queue", "the slice before was over, and its queue is the next"),
    ("next group", "the group before was done, and its group is the next"),
    ("of the round", "its queue's round was settled before, and it is a part of that"),
    ("waits for the queue", "the device is kept free for a moment: the queue in service is expected to ask again"),
    ("waits for the group", "the device is kept free for a moment: the group in service is expected to ask again"),
    (
        "waits for the last reader",
        "the device is kept free for a moment: the last reader is expected to ask again near by",
    ),
    ("smallest start tag", "its group has had least service for its weight"),
    ("nobody else waits", "no other group has a request"),
    ("waits for one that is behind", "requests are kept back for a group that has had less than its weight is worth"),
    ("first in order", "its group has had least service for its weight"),
    ("leader let in", "its group is ahead of its share, and the device would be too empty without it"),
    ("real time", "it is of the real-time class, which goes before all others"),
    ("nobody else", "it is of the idle class, which goes when no other has a request"),
    ("waits for a laggard", "requests are kept back for a group that has had less than its weight is worth"),
    ("in its slice", "it is the turn of its group, which has the disk to itself for a while"),
    (super::dispatches::NOT_CHOSEN, "the scheduler was passed by, as for flushes, or emptied for a change"),
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
