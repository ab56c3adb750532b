//! The calls made for every request, compiled for each policy's own type.
//!
//! Each function is one call of the glue; [`crate::Carried`] selects the policy.

use crate::books::Books;
use crate::values::{ATTEND, Action, Ask, DISPATCH, EMPTY, Effect, HOLD, NONE, THROTTLED, WITHHELD};
use block::{HardwareQueue, Nanos, RequestId};
use core::sync::atomic::Ordering::Relaxed;
use elevator::{Attributes, Dispatch, Elevator, Hint, Merge, Place, Position, Side, Wake};

/// Insert position: before all other requests.
pub const AT_HEAD: u32 = 1;
/// Insert position: where the policy sorts the request. Any other code is counted as a fault and
/// does the same.
const SORTED: u32 = 0;
/// [`crate::values::Shared::search`]: the policy searches merge candidates in lists of its own.
const OWN_SEARCH: u32 = 2;

/// A tag was taken. `None` when all slots are in use.
#[inline(always)]
pub(crate) fn allocate<E: Elevator>(
    books: &mut Books,
    policy: &mut E,
    attributes: Attributes,
    now: Nanos,
) -> Option<RequestId> {
    let id = books.requests.allocate(attributes, now)?;
    books.hold::<E>(&attributes);
    policy.allocated(&books.requests, id, now);
    Some(id)
}

/// See [`crate::Carried::insert`]. The frequent case comes first: a new request that the policy
/// sorts.
#[inline(always)]
pub(crate) fn insert<E: Elevator>(
    books: &mut Books,
    policy: &mut E,
    known: u32,
    ask: &Ask,
    at: u32,
    now: Nanos,
) -> u32 {
    if known != NONE || at != SORTED || books.shared.search.load(Relaxed) == OWN_SEARCH {
        return insert_elsewhere(books, policy, known, ask, at, now);
    }
    sort_in_apart(books, policy, ask, now)
}

/// A separate function, because the glue inserts new requests through a table: this path is for
/// replays, and must not deepen the stack of the others.
#[inline(never)]
fn sort_in_apart<E: Elevator>(books: &mut Books, policy: &mut E, ask: &Ask, now: Nanos) -> u32 {
    id_in(sort_in(books, policy, &ask.attributes(), now))
}

/// The id in the answer of [`sort_in`].
#[inline(always)]
pub(crate) fn id_in(told: i64) -> u32 {
    let [a, b, c, d, ..] = told.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Inserts a new request that the policy sorts. Returns its id or [`NONE`] in the lower half; the
/// value is negative if the glue must check [`crate::values::Shared::attention`].
#[inline(always)]
pub(crate) fn sort_in<E: Elevator>(books: &mut Books, policy: &mut E, attributes: &Attributes, now: Nanos) -> i64 {
    let Some(id) = books.requests.allocate_queued(*attributes, now) else { return i64::from(NONE) | i64::MIN };
    books.hold::<E>(attributes);
    policy.allocated(&books.requests, id, now);
    count_insertion(books);
    // blk-mq runs the queue in any case.
    let _wake = policy.insert_newcomer(&books.requests, id, attributes, now);
    let told = i64::from(id.raw());
    if books.after_insertion(policy) { told | i64::MIN } else { told }
}

/// Inserts a request whose tag was charged, that goes before all others, or that was requeued; and
/// every request of a policy that keeps lists.
#[inline(never)]
fn insert_elsewhere<E: Elevator>(books: &mut Books, policy: &mut E, known: u32, ask: &Ask, at: u32, now: Nanos) -> u32 {
    let mut is_returning = false;
    let id = if known == NONE {
        match allocate(books, policy, ask.attributes(), now) {
            Some(id) => id,
            None => return NONE,
        }
    } else {
        let id = RequestId::from_raw(known);
        is_returning = take_attributes(books, policy, id, ask, now);
        id
    };
    if at != SORTED && at != AT_HEAD {
        books.requests.complain();
    }
    let position = if is_returning {
        Position::Requeue
    } else if at == AT_HEAD {
        Position::Head
    } else if at == SORTED && books.shared.search.load(Relaxed) == OWN_SEARCH {
        Position::Sorted(list_hint(books, policy, ask, now))
    } else {
        Position::Sorted(Hint::None)
    };
    books.requests.move_to(id, Place::Queued);
    put(books, policy, id, position, now)
}

#[inline(always)]
fn count_insertion(books: &mut Books) {
    books.one_more_queued();
    // The new request may be the one for which the policy was throttled, and blk-mq dispatches
    // after an insertion.
    books.shared.stalled.store(0, Relaxed);
}

fn put<E: Elevator>(books: &mut Books, policy: &mut E, id: RequestId, at: Position, now: Nanos) -> u32 {
    count_insertion(books);
    let _wake = policy.insert(&books.requests, id, at, now);
    books.after_insertion(policy);
    id.raw()
}

/// Stores what was unknown when the tag was taken: the extent, and the real issuer and group.
/// Returns true if the driver had the request already.
#[inline(never)]
fn take_attributes<E: Elevator>(books: &mut Books, policy: &mut E, id: RequestId, ask: &Ask, now: Nanos) -> bool {
    let attributes = ask.attributes();
    let before = *books.requests.attributes(id);
    let is_moved = before.group != attributes.group || before.context != attributes.context;
    if is_moved {
        policy.freed(&books.requests, id, now);
    }
    let mut is_returning = false;
    if let Some(request) = books.requests.live_mut(id) {
        request.attributes = attributes;
        is_returning = request.issued_ns != 0;
    }
    if is_moved {
        books.hold::<E>(&attributes);
        // The glue checks for attention after every insertion of this kind.
        books.let_go(before.group.0, before.context.0);
        policy.allocated(&books.requests, id, now);
    }
    is_returning
}

/// The position that a policy with lists of its own chooses for the request.
#[inline(never)]
fn list_hint<E: Elevator>(books: &mut Books, policy: &mut E, ask: &Ask, now: Nanos) -> Hint {
    match policy.merge(&books.requests, &ask.attributes(), now) {
        Merge::No(hint) => hint,
        Merge::Into(id, Side::Back | Side::Discard) => Hint::After(id),
        Merge::Into(id, Side::Front) => policy.former(&books.requests, id).map_or(Hint::AtFront, Hint::After),
    }
}

/// See [`crate::Carried::dispatch`].
#[inline(always)]
pub(crate) fn dispatch<E: Elevator>(books: &mut Books, policy: &mut E, queue: u16, now: Nanos) -> Action {
    let queue = HardwareQueue(queue);
    if !policy.has_work(queue) {
        return books.refuse(EMPTY, 0);
    }
    let (kind, until_ns) = match policy.choose(&books.requests, queue, now) {
        Dispatch::Request { id, reason } => {
            books.count_reason(reason.0);
            if !books.requests.start(id, now) {
                // The policy chose an invalid request, which was counted as a fault.
                return books.refuse(EMPTY, 0);
            }
            books.one_less_queued();
            books.stats.dispatched = books.stats.dispatched.wrapping_add(1);
            let wake = policy.started(&books.requests, id, now);
            let attend = books.after_choice(policy, wake);
            return Action { kind: DISPATCH | attend, id: id.raw(), until_ns: 0 };
        }
        Dispatch::Hold { until, reason } => {
            books.count_reason(reason.0);
            books.stats.holds = books.stats.holds.wrapping_add(1);
            (HOLD, until)
        }
        Dispatch::Throttled => {
            books.stats.throttled = books.stats.throttled.wrapping_add(1);
            books.shared.becomes(THROTTLED);
            (WITHHELD, 0)
        }
        Dispatch::Empty => (EMPTY, 0),
    };
    let action = books.refuse(kind, until_ns);
    let attend = books.after(policy, Wake::No) & ATTEND;
    Action { kind: kind | attend, ..action }
}

/// See [`crate::Carried::requeue`].
#[inline(never)]
pub(crate) fn requeue<E: Elevator>(books: &mut Books, policy: &mut E, id: u32, now: Nanos) -> Effect {
    let id = RequestId::from_raw(id);
    if books.requests.take_back(id, Place::Plugged).is_none() {
        return books.fault();
    }
    books.stats.requeued = books.stats.requeued.wrapping_add(1);
    let wake = policy.requeued(&books.requests, id, now);
    books.after(policy, wake)
}

/// See [`crate::Carried::finish`].
#[inline(always)]
pub(crate) fn finish<E: Elevator>(books: &mut Books, policy: &mut E, id: u32, now: Nanos) -> Effect {
    let id = RequestId::from_raw(id);
    if books.requests.take_back(id, Place::Complete).is_none() {
        return finish_unserved(books, policy, id, now);
    }
    books.stats.finished = books.stats.finished.wrapping_add(1);
    let wake = policy.completed_and_released(&books.requests, id, now);
    policy.freed(&books.requests, id, now);
    forget(books, policy, id, wake)
}

/// Ends a request that the device does not have, as far as the policy knows: absorbed, never
/// inserted, or requeued and then sent to the device without the policy's knowledge.
#[cold]
#[inline(never)]
fn finish_unserved<E: Elevator>(books: &mut Books, policy: &mut E, id: RequestId, now: Nanos) -> Effect {
    if !books.requests.is_live(id) {
        return books.fault();
    }
    let request = books.requests.at(id);
    let mut wake = Wake::No;
    match request.place {
        Place::Plugged if request.issued_ns != 0 => {
            books.requests.move_to(id, Place::Dispatched);
            books.requests.move_to(id, Place::Started);
            let started = policy.started(&books.requests, id, now);
            books.requests.move_to(id, Place::Complete);
            books.stats.finished = books.stats.finished.wrapping_add(1);
            books.tallies.finished_behind = books.tallies.finished_behind.wrapping_add(1);
            wake = started.and(policy.completed_and_released(&books.requests, id, now));
        }
        Place::Plugged | Place::Complete => {}
        Place::Queued | Place::Dispatched | Place::Started | Place::Free => return books.fault(),
    }
    policy.freed(&books.requests, id, now);
    forget(books, policy, id, wake)
}

#[inline(always)]
fn forget<E: Elevator>(books: &mut Books, policy: &mut E, id: RequestId, wake: Wake) -> Effect {
    let attend = if books.forget::<E>(id) { ATTEND } else { 0 };
    books.after(policy, wake) | attend
}

/// See [`crate::Carried::absorbed`].
#[inline(never)]
pub(crate) fn absorbed<E: Elevator>(
    books: &mut Books,
    policy: &mut E,
    keep: u32,
    sectors: u32,
    gone: u32,
    now: Nanos,
) -> Effect {
    let (keep, gone) = (RequestId::from_raw(keep), RequestId::from_raw(gone));
    if !books.requests.is_live(keep) || !books.requests.is_live(gone) {
        return books.fault();
    }
    let absorbed = books.requests.at(gone).clone();
    if let Some(request) = books.requests.live_mut(keep) {
        request.attributes.extent.sectors = sectors;
        request.start_ns = request.start_ns.min(absorbed.start_ns);
    }
    policy.requests_merged(&books.requests, keep, gone, now);
    let mut wake = Wake::No;
    if absorbed.place == Place::Queued || absorbed.issued_ns != 0 {
        wake = policy.released(&books.requests, gone, now);
    }
    books.requests.move_to(gone, Place::Complete);
    books.stats.absorbed = books.stats.absorbed.wrapping_add(1);
    if absorbed.place == Place::Queued {
        books.one_less_queued();
        books.tallies.absorbed_queued = books.tallies.absorbed_queued.wrapping_add(1);
    }
    books.after(policy, wake)
}
