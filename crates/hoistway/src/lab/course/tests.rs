//! Courses that are changed, repeated from their changes, and stepped.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A clock that stands: no call runs out of time.
const fn still() -> Duration {
    Duration::ZERO
}

fn state(schedulers: &[&str]) -> State {
    let schedulers: Vec<String> = schedulers.iter().map(|name| (*name).to_owned()).collect();
    let mut state = State::first("ssd", &schedulers).unwrap();
    state.length_ms = 120;
    state
}

/// Runs to the end; returns the figures of each lane.
fn finish(course: &mut Course) -> Vec<String> {
    course.carry_out(Order::Pace(-1.0)).unwrap();
    while !course.is_over() {
        course.advance(MS, &still);
    }
    let frame = course.frame();
    assert!(frame.over && frame.planned == 0);
    let result = |lane: &LaneFrame| serde_json::to_string(lane.result.as_ref().expect("figures")).unwrap();
    frame.lanes.iter().map(result).collect()
}

#[test]
fn the_changes_of_a_course_repeat_it() {
    let state = state(&["none", "paternoster"]);
    let mut course = Course::start(state.clone()).unwrap();
    let change = |what: What| Order::Change(what);
    course.carry_out(Order::Pace(1e9)).unwrap();
    let orders = [
        What::Weight { tenant: 2, weight: 900 },
        What::Load { tenant: 0, depth: 4, block: 16_384, read: 60, random: false },
        What::On { tenant: 1, on: false },
        What::Load { tenant: 0, depth: 100, block: 512, read: 100, random: true },
        What::Tunable { lane: 1, name: "give".to_owned(), value: "20".to_owned() },
        What::On { tenant: 1, on: true },
    ];
    for what in orders {
        course.advance(9 * MS, &still);
        // Of two changes at the same time the last counts.
        if let What::Load { tenant, .. } = what {
            let first = What::Load { tenant, depth: 7, block: 8_192, read: 0, random: true };
            course.carry_out(change(first)).unwrap();
        }
        course.carry_out(change(what)).unwrap();
    }
    let made = course.frame().changes.unwrap().to_vec();
    assert_eq!(made.len(), 6);
    assert!(made[0].at_ns > 0 && made.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
    let first = finish(&mut course);
    let mut repeated = Course::start(State { changes: made.clone(), ..state.clone() }).unwrap();
    assert_eq!(finish(&mut repeated), first);
    assert_eq!(repeated.frame().changes, None);
    assert_eq!(repeated.made, made);
    assert_ne!(finish(&mut Course::start(state).unwrap()), first);
}

#[test]
fn a_change_of_ones_own_ends_those_of_a_link() {
    let planned = Change { at_ns: 50_000_000, what: What::Weight { tenant: 0, weight: 1 } };
    let mut course = Course::start(State { changes: vec![planned], ..state(&["wfq"]) }).unwrap();
    assert_eq!(course.frame().planned, 1);
    course.carry_out(Order::Pace(1e9)).unwrap();
    course.advance(5 * MS, &still);
    course.carry_out(Order::Change(What::Weight { tenant: 1, weight: 700 })).unwrap();
    finish(&mut course);
    assert_eq!(course.made.len(), 1);
    let late = course.carry_out(Order::Change(What::Weight { tenant: 1, weight: 2 })).unwrap_err();
    assert!(late.to_string().contains("the run is over"), "{late}");
}

#[test]
fn an_order_after_the_end_is_answered_by_the_same_figures() {
    let mut course = Course::start(state(&["none"])).unwrap();
    course.carry_out(Order::Pace(-1.0)).unwrap();
    course.advance(MS, &still);
    let told = |frame: &Frame| {
        let groups = frame.lanes[0].groups.iter();
        groups.map(|it| (it.ios, it.bytes, it.latencies.len())).collect::<Vec<_>>()
    };
    let first = told(&course.frame());
    assert!(first.len() == 3 && first.iter().all(|(ios, _, latencies)| *ios > 0 && *latencies > 0), "{first:?}");
    assert!(!course.advance(MS, &still), "there is no news");
    // A page that has not read the end yet may still ask for another pace.
    course.carry_out(Order::Pace(0.0)).unwrap();
    assert!(course.advance(MS, &still));
    let again = told(&course.frame());
    assert_eq!(again, first.iter().map(|(ios, bytes, _)| (*ios, *bytes, 0)).collect::<Vec<_>>());
}

#[test]
fn a_step_shows_one_more_dispatch_in_the_first_lane() {
    let mut course = Course::start(state(&["paternoster", "none"])).unwrap();
    let mut numbers = Vec::new();
    for _ in 0..40 {
        course.carry_out(Order::Step).unwrap();
        let frame = course.frame();
        assert!(frame.lanes[1].failed.is_none());
        numbers.extend(frame.lanes[0].dispatches.iter().map(|row| row.0));
    }
    assert!(numbers.len() >= 40 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
}

#[test]
fn what_cannot_be_changed_is_refused_and_changes_nothing() {
    let mut course = Course::start(state(&["paternoster"])).unwrap();
    for what in [
        What::Weight { tenant: 9, weight: 5 },
        What::Weight { tenant: 0, weight: 0 },
        What::Load { tenant: 0, depth: 0, block: 4_096, read: 100, random: true },
        What::Tunable { lane: 0, name: "no_such".to_owned(), value: "1".to_owned() },
    ] {
        assert!(course.carry_out(Order::Change(what.clone())).is_err(), "{what:?}");
    }
    assert_eq!(course.made, []);
    assert!(serde_json::from_str::<Order>("{\"pace\":1,\"step\":2}").is_err());
    assert_eq!(serde_json::from_str::<Order>("\"step\"").unwrap(), Order::Step);
}
