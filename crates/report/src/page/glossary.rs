//! Descriptions of the schedulers' reasons, one line each; `crates/cli/tests/page.rs` checks
//! that none is missing.

use super::svg::escaped;

/// Reasons as policies name them. If two policies use the same name, it has the same meaning.
const REASONS: &[(&str, &str)] = &[
    ("oldest", "it has waited longest"),
    ("head of the list", "the list is sorted on insertion, and its first request is dispatched"),
    ("next in order", "it is the next one by sector in the direction of those before"),
    ("overdue", "its deadline has passed"),
    ("new batch", "the previous batch was over, and a batch of reads or of writes begins"),
    ("put in front", "it was inserted ahead of all others"),
    ("batch goes on", "the batch of reads or of writes continues with the next one by sector"),
    ("start at oldest", "a batch begins with the request that has waited longest"),
    ("start at lowest sector", "nothing lies ahead, and the sweep begins again at the lowest sector"),
    ("aged", "it has a lower priority and has waited longer than the limit for aged requests"),
    ("dispatch list head", "it was inserted ahead of all others of its priority"),
    ("its kind's batch goes on", "the batch of its kind (reads, writes, discards or others) is not over"),
    ("turn of its kind", "the batch of the previous kind was over; reads, writes, discards and others take turns"),
    (
        "flushed with all waiting requests",
        "the device had room, and all waiting requests are dispatched in order of arrival",
    ),
    ("turn of its software queue", "the device was busy; the queues of the processors take turns, one request each"),
    ("turn goes on", "its queue is in service and has not used up its budget"),
    ("next turn", "the queue in service was done, and its queue is the next by virtual time"),
    (
        "injected into another turn",
        "the queue in service has no request at the moment, and a request of another queue is injected",
    ),
    ("slice goes on", "its queue is in service and its slice of time is not over"),
    ("next queue", "the previous slice was over, and its queue is the next"),
    ("next group", "the previous group was done, and its group is the next"),
    ("part of the round", "it was moved to the dispatch list in one round with other requests of its queue"),
    ("waits for the queue", "the device is idled for a short time: the queue in service is expected to submit again"),
    ("waits for the group", "the device is idled for a short time: the group in service is expected to submit again"),
    (
        "waits for the last reader",
        "the device is idled for a short time: the last reader is expected to submit a request near by",
    ),
    ("smallest start tag", "its group has received the least service for its weight"),
    ("no other group waits", "no other group has a request"),
    (
        "waits for a lagging group",
        "no request is dispatched, because a group that has received less than its share is expected to submit one",
    ),
    ("first in order", "its group has received the least service for its weight"),
    (
        "leader, to fill the device",
        "its group is ahead of its share, but too few requests would be in flight without it",
    ),
    ("real time", "it is of the real-time class, which goes before all others"),
    ("only idle class left", "it is of the idle class, which is served when no other class has a request"),
    ("in its slice", "its group has the disk to itself for a time slice"),
    (super::dispatches::NOT_CHOSEN, "the scheduler was bypassed, as for flushes, or drained for a switch"),
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
