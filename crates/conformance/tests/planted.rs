//! Planted bugs that the checks must find, and the policy without them, which must pass.

use std::panic::catch_unwind;

use hoistway_block::random::Stream;
use hoistway_block::{Class, HardwareQueue, Nanos, RequestId, time::MILLISECOND};
use hoistway_conformance::{self as conformance, Counting, Part};
use hoistway_elevator::structures::{Array, Links, List, NoMemory};
use hoistway_elevator::{
    Attributes, Configuration, Dispatch, Elevator, Form, Hint, Passing, Policy, Position, Reason, Requests, Traits,
    Version, Wake, registry,
};
use hoistway_simulator::Storm;
use hoistway_testbed::drive_policy;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NO_BUG: u8 = 0;
/// One request in a hundred is taken and never given to the device.
const LOSES: u8 = 1;
/// Best-effort requests wait for as long as there are real-time ones, against the promise.
const STARVES: u8 = 2;
/// It allocates for one request in a hundred.
const ALLOCATES: u8 = 3;
/// It keeps a request that the host takes back.
const KEEPS: u8 = 4;
/// Its own `insert_new` forgets one request in a hundred.
const FORGETS_NEW: u8 = 5;
/// Its own `completed_and_released` does not do what `released` does.
const RELEASES_NOT: u8 = 6;

/// Longest wait before class no longer matters.
const AGE_NS: Nanos = 500 * MILLISECOND;

/// Real time before the rest, with ageing.
#[derive(Debug)]
struct TwoClasses<const BUG: u8> {
    links: Links,
    since_ns: Array<(Nanos, u64)>,
    /// Put in front, real time, the rest.
    lists: [List; 3],
    arrived: u64,
    kept: Vec<RequestId>,
    /// By slot: whether its request was inserted and not yet released.
    is_present: Array<bool>,
    violations: u32,
}

impl<const BUG: u8> Policy for TwoClasses<BUG> {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(0, 0, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        Ok(Self {
            links: Links::try_new(configuration.slots)?,
            since_ns: Array::try_new(configuration.slots, (0, 0))?,
            lists: [List::EMPTY; 3],
            arrived: 0,
            kept: Vec::new(),
            is_present: Array::try_new(configuration.slots, false)?,
            violations: 0,
        })
    }
}

impl<const BUG: u8> TwoClasses<BUG> {
    fn next(&self, now: Nanos) -> Option<u32> {
        let [front, real_time, rest] = &self.lists;
        let oldest =
            [real_time.first(), rest.first()].into_iter().flatten().min_by_key(|slot| self.since_ns.at(*slot).1);
        let is_overdue = |slot: &u32| now.saturating_sub(self.since_ns.at(*slot).0) >= AGE_NS;
        let overdue = oldest.filter(is_overdue).filter(|_| BUG != STARVES);
        front.first().or(overdue).or(real_time.first()).or(rest.first())
    }

    fn take(&mut self, slot: u32) {
        let holder = self.lists.iter_mut().find(|list| list.iter(&self.links).any(|queued| queued == slot));
        if !holder.is_some_and(|list| list.remove(&mut self.links, slot)) {
            self.violations += 1;
        }
    }
}

impl<const BUG: u8> Elevator for TwoClasses<BUG> {
    const TRAITS: Traits =
        Traits { passing: Passing::Aged { after_ns: AGE_NS, completions: 0, run: 0 }, ..Traits::PLAIN };

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        if self.links.is_linked(gone.slot()) {
            self.take(gone.slot());
        }
    }

    fn withdrawn(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) {
        if BUG != KEEPS {
            self.take(id.slot());
        }
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        self.arrived += 1;
        if self.arrived % 100 == 99 {
            if BUG == LOSES {
                return Wake::All;
            }
            if BUG == ALLOCATES {
                self.kept = vec![id];
            }
        }
        *self.since_ns.at_mut(id.slot()) = (now, self.arrived);
        let in_front = !matches!(at, Position::Sorted(_));
        let index = if in_front { 0 } else { 1 + usize::from(requests.attributes(id).class() != Class::RealTime) };
        let list = &mut self.lists[index];
        let is_in = match in_front {
            true => list.push_front(&mut self.links, id.slot()),
            false => list.push_back(&mut self.links, id.slot()),
        };
        // A requeued request was not released.
        let was_present = std::mem::replace(self.is_present.at_mut(id.slot()), true) && !in_front;
        if !is_in || was_present {
            self.violations += 1;
        }
        Wake::All
    }

    fn insert_new(&mut self, requests: &Requests, id: RequestId, _attributes: &Attributes, now: Nanos) -> Wake {
        if BUG == FORGETS_NEW && self.arrived % 100 == 99 {
            self.arrived += 1;
            return Wake::All;
        }
        self.insert(requests, id, Position::Sorted(Hint::None), now)
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        *self.is_present.at_mut(id.slot()) = false;
        Wake::No
    }

    fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        if BUG == RELEASES_NOT { Wake::No } else { self.released(requests, id, now) }
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        let chosen = self.drain(requests, now);
        chosen.map_or(Dispatch::Empty, |id| Dispatch::Request { id, reason: Reason(0) })
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        let slot = self.next(now)?;
        self.take(slot);
        requests.id_of(slot)
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.lists.iter().any(|list| !list.is_empty())
    }

    fn reasons(&self) -> &'static [&'static str] {
        &["next"]
    }

    fn violations(&self) -> u32 {
        self.violations
    }
}

/// The failure, which one seed alone shows again.
#[track_caller]
fn found<const BUG: u8>() -> conformance::Failure {
    let failure = *conformance::check::<TwoClasses<BUG>>().expect_err("the bug is found");
    let again = *conformance::check_seeds::<TwoClasses<BUG>>([failure.seed]).expect_err("the seed shows it again");
    assert_eq!((again.part, &again.what, &again.events), (failure.part, &failure.what, &failure.events));
    let text = failure.to_string();
    assert!(text.contains(&format!("([{}])", failure.seed)) && text.contains("TwoClasses"), "{text}");
    failure
}

#[test]
fn a_policy_without_a_bug_passes() {
    let report = conformance::check::<TwoClasses<NO_BUG>>().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.bios > 50_000 && report.calls > 10_000 && report.requests > 50_000, "{report:?}");
    assert!(report.passed_over > 100, "the promise was put to the test: {report:?}");
}

#[test]
fn a_lost_request_is_found() {
    let failure = found::<LOSES>();
    assert!(failure.part == Part::Storm, "{failure}");
}

#[test]
fn a_starved_request_is_found() {
    let failure = found::<STARVES>();
    assert!(failure.part == Part::Storm && failure.what.contains("P7"), "{failure}");
}

#[test]
fn a_request_that_stays_when_it_is_taken_back_is_found() {
    let failure = found::<KEEPS>();
    assert!(matches!(failure.part, Part::Storm | Part::RandomCalls), "{failure}");
}

#[test]
fn an_allocation_is_found() {
    let failure = found::<ALLOCATES>();
    assert!(failure.part == Part::Allocations && failure.what.contains("allocations"), "{failure}");
}

/// The combined calls are tested by the storm, by the calls that bytes describe (the fuzzer's), and by the whole check,
/// each of which chooses between the spellings by its seed.
#[track_caller]
fn found_everywhere<const BUG: u8>(name: &'static str) {
    let failure = found::<BUG>();
    assert!(matches!(failure.part, Part::Storm | Part::RandomCalls), "{failure}");

    registry::register::<TwoClasses<BUG>>(name, "with a bug in a combined call").expect("a free name");
    let storm = |seed: &u64| Storm { policy: name.to_owned(), seed: *seed, bios: 1_500 }.run().is_err();
    let failing: Vec<u64> = (0..10).filter(storm).collect();
    assert!((2..=8).contains(&failing.len()), "about half of the storms combine calls: {failing:?} fail");

    let driven = |seed: &u64| {
        let mut random = Stream::of(*seed, "planted/calls");
        let bytes: Vec<u8> = (0..256).flat_map(|_| random.next().to_le_bytes()).collect();
        catch_unwind(|| drive_policy(name, &bytes).map(|(calls, _)| calls.0.len())).is_err()
    };
    let failing: Vec<u64> = (0..40).filter(driven).collect();
    assert!(failing.len() >= 4, "arbitrary calls combine some: {failing:?} fail");
}

#[test]
fn an_insertion_that_only_the_combined_call_forgets_is_found() {
    found_everywhere::<FORGETS_NEW>("forgets-new");
}

#[test]
fn a_release_that_only_the_combined_call_forgets_is_found() {
    found_everywhere::<RELEASES_NOT>("releases-not");
}
