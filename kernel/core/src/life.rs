//! The calls made for every request (its life from tag to end), compiled for each policy's own
//! type.
//!
//! Each function that [`crate::DevicePolicy`] or [`crate::abi`] calls is one call of the glue (the
//! C files of kernel/module); the caller selects the policy.

use crate::device_state::DeviceState;
use crate::values::{ATTEND, Action, Ask, DISPATCH, EMPTY, Effect, HOLD, NONE, THROTTLED, UNTIL_COMPLETION};
use core::sync::atomic::Ordering::Relaxed;
use hoistway_block::{HardwareQueue, Nanos, RequestId};
use hoistway_elevator::{Attributes, Dispatch, Elevator, Hint, Merge, Place, Position, Side, Wake};

/// Insert position: before all other requests.
pub const AT_HEAD: u32 = 1;
/// Insert position: where the policy sorts the request. Any other code is counted as a fault and
/// treated like this one.
const SORTED: u32 = 0;
/// [`crate::values::Shared::search`]: the policy searches merge candidates in lists of its own.
const OWN_SEARCH: u32 = 2;

/// Registers a request that has just got its tag; `None` when all slots are in use.
#[inline(always)]
pub(crate) fn allocate<E: Elevator>(
    state: &mut DeviceState,
    policy: &mut E,
    attributes: Attributes,
    now: Nanos,
) -> Option<RequestId> {
    let id = state.requests.allocate(attributes, now)?;
    state.get_ref::<E>(&attributes);
    policy.allocated(&state.requests, id, now);
    Some(id)
}

/// See [`crate::DevicePolicy::insert`]. [`insert_other`] names the requests that it inserts;
/// [`insert_sorted`] inserts all others.
#[inline(always)]
pub(crate) fn insert<E: Elevator>(
    state: &mut DeviceState,
    policy: &mut E,
    known: u32,
    ask: &Ask,
    at: u32,
    now: Nanos,
) -> u32 {
    if known != NONE || at != SORTED || state.shared.search.load(Relaxed) == OWN_SEARCH {
        return insert_other(state, policy, known, ask, at, now);
    }
    insert_sorted_outlined(state, policy, ask, now)
}

/// A separate function, so that it adds no stack to the other paths. Only replays take this path,
/// because the glue inserts new requests through a table of functions.
#[inline(never)]
fn insert_sorted_outlined<E: Elevator>(state: &mut DeviceState, policy: &mut E, ask: &Ask, now: Nanos) -> u32 {
    id_in(insert_sorted(state, policy, &ask.attributes(), now))
}

/// The id in the answer of [`insert_sorted`].
#[inline(always)]
pub(crate) fn id_in(encoded: i64) -> u32 {
    let [a, b, c, d, ..] = encoded.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Inserts a new request that the policy sorts. Returns its id or [`NONE`] in the lower half; the
/// value is negative if the glue must check [`crate::values::Shared::attention`].
#[inline(always)]
pub(crate) fn insert_sorted<E: Elevator>(
    state: &mut DeviceState,
    policy: &mut E,
    attributes: &Attributes,
    now: Nanos,
) -> i64 {
    let Some(id) = state.requests.allocate_queued(*attributes, now) else { return i64::from(NONE) | i64::MIN };
    state.get_ref::<E>(attributes);
    policy.allocated(&state.requests, id, now);
    count_insertion(state);
    // blk-mq runs the queue in any case.
    let _wake = policy.insert_new(&state.requests, id, attributes, now);
    let encoded = i64::from(id.raw());
    if state.after_insertion(policy) { encoded | i64::MIN } else { encoded }
}

/// Inserts a request that is known since it got its tag, that must precede all others, or that was
/// requeued; and every request of a policy that searches merge candidates in lists of its own.
#[inline(never)]
fn insert_other<E: Elevator>(
    state: &mut DeviceState,
    policy: &mut E,
    known: u32,
    ask: &Ask,
    at: u32,
    now: Nanos,
) -> u32 {
    let mut is_returning = false;
    let id = if known == NONE {
        match allocate(state, policy, ask.attributes(), now) {
            Some(id) => id,
            None => return NONE,
        }
    } else {
        let id = RequestId::from_raw(known);
        is_returning = take_attributes(state, policy, id, ask, now);
        id
    };
    if at != SORTED && at != AT_HEAD {
        state.requests.count_violation();
    }
    let position = if is_returning {
        Position::Requeue
    } else if at == AT_HEAD {
        Position::Head
    } else if at == SORTED && state.shared.search.load(Relaxed) == OWN_SEARCH {
        Position::Sorted(list_hint(state, policy, ask, now))
    } else {
        Position::Sorted(Hint::None)
    };
    state.requests.move_to(id, Place::Queued);
    insert_at(state, policy, id, position, now)
}

#[inline(always)]
fn count_insertion(state: &mut DeviceState) {
    state.one_more_queued();
    // `stalled` no longer holds: the policy may be able to dispatch the new request although none
    // of the others may be dispatched, for example if it waits for this issuer, or has tokens for
    // this kind of request. blk-mq dispatches after an insertion in any case.
    state.shared.stalled.store(0, Relaxed);
}

fn insert_at<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: RequestId, at: Position, now: Nanos) -> u32 {
    count_insertion(state);
    let _wake = policy.insert(&state.requests, id, at, now);
    state.after_insertion(policy);
    id.raw()
}

/// Stores the attributes that were unknown when the tag was taken: the extent and, if they have
/// changed, issuer and group. Returns true if the driver had the request already.
#[inline(never)]
fn take_attributes<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: RequestId, ask: &Ask, now: Nanos) -> bool {
    let attributes = ask.attributes();
    let before = *state.requests.attributes(id);
    let is_moved = before.group != attributes.group || before.context != attributes.context;
    if is_moved {
        policy.freed(&state.requests, id, now);
    }
    let mut is_returning = false;
    if let Some(request) = state.requests.live_mut(id) {
        request.attributes = attributes;
        is_returning = request.issued_ns != 0;
    }
    if is_moved {
        state.get_ref::<E>(&attributes);
        // The result is ignored, because the glue checks for a dying group after every such
        // insertion anyway.
        state.put_ref(before.group.0, before.context.0);
        policy.allocated(&state.requests, id, now);
    }
    is_returning
}

/// The position that a policy with lists of its own chooses for the request.
#[inline(never)]
fn list_hint<E: Elevator>(state: &mut DeviceState, policy: &mut E, ask: &Ask, now: Nanos) -> Hint {
    match policy.merge(&state.requests, &ask.attributes(), now) {
        Merge::No(hint) => hint,
        Merge::Into(id, Side::Back | Side::Discard) => Hint::After(id),
        Merge::Into(id, Side::Front) => policy.former(&state.requests, id).map_or(Hint::AtFront, Hint::After),
    }
}

/// See [`crate::DevicePolicy::dispatch`].
#[inline(always)]
pub(crate) fn dispatch<E: Elevator>(state: &mut DeviceState, policy: &mut E, queue: u16, now: Nanos) -> Action {
    let queue = HardwareQueue(queue);
    if !policy.has_work(queue) {
        return state.refuse(EMPTY, 0);
    }
    let (kind, until_ns) = match policy.choose(&state.requests, queue, now) {
        Dispatch::Request { id, reason } => {
            state.count_reason(reason.0);
            if !state.requests.start(id, now) {
                // The policy chose an invalid request, which was counted as a fault.
                return state.refuse(EMPTY, 0);
            }
            state.one_less_queued();
            state.stats.dispatched = state.stats.dispatched.wrapping_add(1);
            let wake = policy.started(&state.requests, id, now);
            let attend = state.after_choice(policy, wake);
            return Action { kind: DISPATCH | attend, id: id.raw(), until_ns: 0 };
        }
        Dispatch::Hold { until, reason } => {
            state.count_reason(reason.0);
            state.stats.holds = state.stats.holds.wrapping_add(1);
            (HOLD, until)
        }
        Dispatch::Throttled => {
            state.stats.throttled = state.stats.throttled.wrapping_add(1);
            state.shared.set_condition(THROTTLED);
            (UNTIL_COMPLETION, 0)
        }
        Dispatch::Empty => (EMPTY, 0),
    };
    let action = state.refuse(kind, until_ns);
    let attend = state.after(policy, Wake::No) & ATTEND;
    Action { kind: kind | attend, ..action }
}

/// See [`crate::DevicePolicy::requeue`].
#[inline(never)]
pub(crate) fn requeue<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: u32, now: Nanos) -> Effect {
    let id = RequestId::from_raw(id);
    if state.requests.take_back(id, Place::Plugged).is_none() {
        return state.fault();
    }
    state.stats.requeued = state.stats.requeued.wrapping_add(1);
    let wake = policy.requeued(&state.requests, id, now);
    state.after(policy, wake)
}

/// See [`crate::DevicePolicy::finish`].
#[inline(always)]
pub(crate) fn finish<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: u32, now: Nanos) -> Effect {
    let id = RequestId::from_raw(id);
    if state.requests.take_back(id, Place::Complete).is_none() {
        return finish_unserved(state, policy, id, now);
    }
    state.stats.finished = state.stats.finished.wrapping_add(1);
    let wake = policy.completed_and_released(&state.requests, id, now);
    policy.freed(&state.requests, id, now);
    forget(state, policy, id, wake)
}

/// Ends a request that is not in flight as far as the policy knows: it was absorbed, was never
/// inserted, or was requeued and then sent to the device without the policy's knowledge.
#[cold]
#[inline(never)]
fn finish_unserved<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: RequestId, now: Nanos) -> Effect {
    if !state.requests.is_live(id) {
        return state.fault();
    }
    let request = state.requests.at(id);
    let mut wake = Wake::No;
    match request.place {
        Place::Plugged if request.issued_ns != 0 => {
            state.requests.move_to(id, Place::Dispatched);
            state.requests.move_to(id, Place::Started);
            let started = policy.started(&state.requests, id, now);
            state.requests.move_to(id, Place::Complete);
            state.stats.finished = state.stats.finished.wrapping_add(1);
            state.tallies.finished_unknown = state.tallies.finished_unknown.wrapping_add(1);
            wake = started.and(policy.completed_and_released(&state.requests, id, now));
        }
        Place::Plugged | Place::Complete => {}
        Place::Queued | Place::Dispatched | Place::Started | Place::Free => return state.fault(),
    }
    policy.freed(&state.requests, id, now);
    forget(state, policy, id, wake)
}

#[inline(always)]
fn forget<E: Elevator>(state: &mut DeviceState, policy: &mut E, id: RequestId, wake: Wake) -> Effect {
    let attend = if state.forget::<E>(id) { ATTEND } else { 0 };
    state.after(policy, wake) | attend
}

/// See [`crate::DevicePolicy::absorbed`].
#[inline(never)]
pub(crate) fn absorbed<E: Elevator>(
    state: &mut DeviceState,
    policy: &mut E,
    keep: u32,
    sectors: u32,
    gone: u32,
    now: Nanos,
) -> Effect {
    let (keep, gone) = (RequestId::from_raw(keep), RequestId::from_raw(gone));
    if !state.requests.is_live(keep) || !state.requests.is_live(gone) {
        return state.fault();
    }
    let absorbed = state.requests.at(gone).clone();
    if let Some(request) = state.requests.live_mut(keep) {
        request.attributes.extent.sectors = sectors;
        request.start_ns = request.start_ns.min(absorbed.start_ns);
    }
    policy.requests_merged(&state.requests, keep, gone, now);
    let mut wake = Wake::No;
    if absorbed.place == Place::Queued || absorbed.issued_ns != 0 {
        wake = policy.released(&state.requests, gone, now);
    }
    state.requests.move_to(gone, Place::Complete);
    state.stats.absorbed = state.stats.absorbed.wrapping_add(1);
    if absorbed.place == Place::Queued {
        state.one_less_queued();
        state.tallies.absorbed_queued = state.tallies.absorbed_queued.wrapping_add(1);
    }
    state.after(policy, wake)
}
