//! A request that has waited for half a minute is dispatched out of order.

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation};
use hoistway_elevator::{
    Any, Attributes, Configuration, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};

const LIGHT: u32 = 1;
const HEAVY: u32 = 2;
const ORDER_WAITS_NS: Nanos = 30 * SECOND;
/// Completions between two requests dispatched out of order.
const OVERDUE_EVERY: u64 = 16;
const REQUEST_NS: Nanos = 10 * MILLISECOND;

fn ask(policy: &mut Any, requests: &mut Requests, context: u32, group: u32, now: Nanos) {
    let mut bio = Attributes::new(Operation::Read, Extent::new(u64::from(context) << 20, 8));
    (bio.context, bio.group) = (ContextId(context), GroupId(group));
    let id = requests.allocate(bio, now).expect("a slot");
    policy.allocated(requests, id, now);
    requests.move_to(id, Place::Queued);
    let _ = policy.insert(requests, id, Position::Sorted(Hint::None), now);
}

/// The device completes one request in 10 ms, so by weight a group of weight 1 beside one of weight
/// 10,000 would be served once in 100 s. The first of its 39 requests is dispatched in the order of
/// weights. The others wait for 30 s; then one in 16 completions is theirs, in order of arrival.
#[test]
fn no_request_waits_much_longer_than_half_a_minute() {
    let configuration = Configuration { slots: 1000, contexts: 400, groups: 3, ..Configuration::default() };
    let mut policy = registry::build("paternoster", None, &configuration).expect("registered");
    for (group, weight) in [(LIGHT, 1), (HEAVY, 10_000)] {
        policy.group_added(GroupId(group), &GroupSettings::with_weight(weight), 0);
    }
    let overdue = policy.reasons().iter().position(|name| *name == "overdue").expect("a reason");
    let mut requests = Requests::try_new(1000).expect("memory");
    let mut now = SECOND;
    for context in 1..400 {
        ask(&mut policy, &mut requests, context, HEAVY, now);
        if context % 10 == 0 {
            ask(&mut policy, &mut requests, 0, LIGHT, now);
        }
    }
    let (mut done_overdue, mut light) = (0, Vec::new());
    for _ in 0..4_500 {
        now += REQUEST_NS;
        let Dispatch::Request { id, reason } = policy.choose(&requests, HardwareQueue(0), now) else {
            panic!("queued")
        };
        requests.move_to(id, Place::Dispatched);
        requests.move_to(id, Place::Started);
        let _ = policy.started(&requests, id, now);
        let (context, waited_ns) = (requests.attributes(id).context.0, now - requests.at(id).start_ns);
        if usize::from(reason.0) == overdue {
            assert!(waited_ns >= ORDER_WAITS_NS, "{waited_ns}");
            done_overdue += 1;
        }
        assert!(waited_ns <= ORDER_WAITS_NS + 39 * (OVERDUE_EVERY + 1) * REQUEST_NS, "{waited_ns}");
        requests.move_to(id, Place::Complete);
        let _ = policy.completed(&requests, id, now);
        let _ = policy.released(&requests, id, now);
        policy.freed(&requests, id, now);
        requests.free(id);
        if context == 0 {
            light.push(id.slot());
        } else {
            ask(&mut policy, &mut requests, context, HEAVY, now);
        }
    }
    assert_eq!((light.len(), done_overdue), (39, 38));
    assert!(light.is_sorted(), "{light:?}");
    policy.check(&requests).expect("in order");
    assert_eq!((policy.violations(), requests.violations()), (0, 0));
}
