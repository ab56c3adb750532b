//! mq-deadline: the numbered cases of docs/specifications/classic-elevators.md, section 7.8, in the
//! form of 6.1 and in that of 6.5 and later.

use hoistway_block::random::Stream;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Class, HardwareQueue, Nanos, Priority, RequestId};
use hoistway_elevator::{Any, Configuration, Depth, Dispatch, Elevator, Hint, Position, Requests, registry};
use hoistway_testbed::notation::{bio, show};
use hoistway_testbed::{Calls, Testbed, check_tunables_table};

const FORMS: [&str; 2] = ["mq-deadline@6.1", "mq-deadline@6.5"];

/// Runs a script in both forms and compares the dispatched requests. The form of 6.1 remembers the
/// next request of a batch, and must dispatch `next_request`; the form of 6.5 remembers the
/// position at which it stopped, and must dispatch `position`.
#[track_caller]
fn orders(settings: &str, script: &str, next_request: &str, position: &str) {
    for (form, expected) in FORMS.into_iter().zip([next_request, position]) {
        let mut testbed = Testbed::new(&format!("{form}:{settings}"));
        testbed.when(script);
        testbed.then(expected);
    }
}

#[test]
fn mq1_a_fresh_queue_begins_with_writes_only_where_the_position_is_remembered() {
    orders("", "W100 W200 R5000 R4000 rest", "R5000 R4000 W100 W200", "W100 W200 R4000 R5000");
}

#[test]
fn mq2_a_first_batch_begins_at_the_oldest_or_at_the_lowest() {
    orders("", "W500 W700 W100 W300 W600 rest", "W500 W600 W700 W100 W300", "W100 W300 W500 W600 W700");
}

#[test]
fn mq3_writes_go_after_two_batches_of_one_read() {
    orders(
        "fifo_batch=1",
        "R100 R200 R300 R400 R500 R600 R700 W1 W2000 W3000 rest",
        "R100 R200 W1 R300 R400 W2000 R500 R600 W3000 R700",
        "W1 R100 R200 W2000 R300 R400 W3000 R500 R600 R700",
    );
}

#[test]
fn mq4_batches_of_two() {
    orders(
        "fifo_batch=2",
        "R100 R200 R300 R400 R500 R600 R700 R800 W10 W20 W30 W40 rest",
        "R100 R200 R300 R400 W10 W20 R500 R600 R700 R800 W30 W40",
        "W10 W20 R100 R200 R300 R400 W30 W40 R500 R600 R700 R800",
    );
}

#[test]
fn mq5_a_newcomer_ahead_of_the_head_is_seen_only_where_the_position_is_remembered() {
    orders("", "R100 R300 d1 R200 rest", "R100 R300 R200", "R100 R200 R300");
    orders("", "R100 R300 d1 R100 R50 rest", "R100 R300 R100 R50", "R100 R100 R300 R50");
    orders("", "R100 R500 d1 R300 d1 R200 rest", "R100 R500 R300 R200", "R100 R300 R500 R200");
}

#[test]
fn mq6_both_directions_of_a_class_go_before_the_next_class() {
    let expected = "R300rt W50rt R100 R400 R200idle";
    orders("", "R100 R200idle R300rt R400 W50rt rest", expected, expected);
}

#[test]
fn mq7_a_class_in_the_device_keeps_the_lower_ones_back() {
    for form in FORMS {
        let mut testbed = Testbed::new(form);
        testbed.given("R100rt R200 R300idle");
        testbed.when("d d d");
        testbed.then("R100rt");
        testbed.when("c:R100 d d");
        testbed.then("R200");
        testbed.when("c:R200 d");
        testbed.then("R300idle");
    }
}

#[test]
fn mq8_a_request_of_a_lower_class_goes_first_when_it_is_exactly_old_enough() {
    let aged = "R5000 R100rt R200rt R300rt";
    orders("", "R5000 t+10000 R100rt R200rt R300rt rest", aged, aged);
    let young = "R100rt R200rt R300rt R5000";
    orders("", "R5000 t+9999 R100rt R200rt R300rt rest", young, young);
}

#[test]
fn mq8_the_reason_is_its_age() {
    // All classes share one batch. In the form of 6.5 the position of the real-time class is still
    // 0, so its first read counts as a continuation of the batch.
    for (form, reason_of_the_next) in FORMS.into_iter().zip(["start at oldest", "batch goes on"]) {
        let mut testbed = Testbed::new(form);
        testbed.when("R5000 t+10000 R100rt rest");
        testbed.then_reason("R5000", "aged");
        testbed.then_reason("R100rt", reason_of_the_next);
    }
}

#[test]
fn mq9_ageing_goes_on_while_the_choice_of_the_class_is_old() {
    let expected = "R5000 R6000 R1rt R2rt R100";
    orders("", "R5000 R6000 t+9000 R100 t+1500 R1rt R2rt rest", expected, expected);
}

#[test]
fn mq9_ageing_looks_at_the_choice_and_not_at_the_oldest() {
    orders("", "R5500 d1 R5000 t+9000 R6000 t+1500 R1rt rest", "R5500 R5000 R1rt R6000", "R5500 R1rt R6000 R5000");
}

#[test]
fn mq10_head_inserts_go_first_the_latest_before_the_others() {
    for form in FORMS {
        let mut bare = Bare::new(form);
        bare.insert("R100", SORTED);
        bare.insert("R200", SORTED);
        bare.insert("R900", Position::Head);
        bare.insert("W800", Position::Head);
        assert_eq!(bare.rest(), "W800 R900 R100 R200", "{form}");
    }
}

#[test]
fn mq11_the_batch_survives_idle_times_only_where_the_position_is_remembered() {
    for (form, first, second) in
        [(FORMS[0], "R100 R300 W6000 W4000", "R50 R200 W7000"), (FORMS[1], "W6000 R100 R300 W4000", "W7000 R50 R200")]
    {
        let mut testbed = Testbed::new(form);
        testbed.when("W5000 rest");
        testbed.then("W5000");
        testbed.when("{R100 W6000 W4000 R300} rest");
        testbed.then(first);
        testbed.when("{R50 W7000 R200} rest");
        testbed.then(second);
    }
}

#[test]
fn mq12_a_batch_merges_behind_what_it_follows() {
    orders("", "{R1000 R5000 R1008} rest", "R1000+16 R5000", "R1000+16 R5000");
}

#[test]
fn mq12_an_insert_merge_counts_once() {
    for form in FORMS {
        let mut testbed = Testbed::new(form);
        testbed.when("{R1000 R5000 R1008}");
        assert_eq!(testbed.queue().counters().of(hoistway_block::Operation::Read).merges, 1);
        testbed.when("rest");
    }
}

#[test]
fn mq12_a_batch_does_not_merge_before_what_it_precedes() {
    orders("", "{R1008 R5000 R1000} rest", "R1008 R5000 R1000", "R1000 R1008 R5000");
}

#[test]
fn mq12_classes_do_not_merge() {
    orders("", "{R1000 R1008idle} rest", "R1000 R1008idle", "R1000 R1008idle");
}

#[test]
fn mq13_writes_are_limited_and_reads_are_not() {
    for form in FORMS {
        let mut settings = Testbed::settings();
        settings.configuration.depth = Depth { requests: 64, device: 64 };
        let mut testbed = Testbed::with(&format!("{form}:async_depth=16"), &settings);
        let far_apart =
            |letter: char, count: u64| (0..count).map(move |n| format!("{letter}{} ", n * 100)).collect::<String>();
        testbed.when(&far_apart('W', 17));
        assert_eq!((testbed.waiting(), testbed.queue().tags().in_use()), (1, 16));
        testbed.when(&far_apart('R', 48));
        assert_eq!((testbed.waiting(), testbed.queue().tags().in_use()), (1, 64));
    }
}

#[test]
fn mq13_async_depth_follows_the_number_of_tags() {
    for (form, from_100) in [("mq-deadline@6.1", 75), ("mq-deadline@6.5", 75), ("mq-deadline", 100)] {
        let depth = |requests| Depth { requests, device: 8 };
        let configuration = Configuration { depth: depth(64), ..Configuration::default() };
        let (name, version) = split(form);
        let mut policy = registry::build(name, version, &configuration).expect("registered");
        let row = policy.tunables().iter().position(|row| row.name == "async_depth").expect("a row");
        policy.set(row, 16).expect("in range");
        assert_eq!(policy.setting(row), Some(16));
        policy.depth_changed(depth(100));
        assert_eq!(policy.setting(row), Some(from_100), "{form}");
    }
}

#[test]
fn mq14_after_any_run_what_was_inserted_is_completed_and_merged_or_dispatched() {
    for form in FORMS {
        for seed in 0..20 {
            let mut testbed = Testbed::new(form);
            // `drive` makes random calls and checks the counters of every class after each. At its
            // end no request is queued or in flight, so the numbers of inserted and completed
            // requests must be equal.
            testbed.drive(&Calls::random(seed, 400).without_switches());
            assert_eq!((testbed.queue().bios_in_flight(), testbed.queue().check()), (0, Ok(())), "{form}, seed {seed}");
        }
    }
}

#[test]
fn mq15_without_starvation_all_writes_go_first() {
    let script = "R100 W900 R200 W800 R300 W700 rest";
    for form in FORMS {
        let mut testbed = Testbed::new(&format!("{form}:fifo_batch=1,writes_starved=0"));
        testbed.when(script);
        let directions: String = testbed.started().iter().filter_map(|started| started.text.chars().next()).collect();
        assert_eq!(directions, "WWWRRR", "{form}");
    }
}

// ---- properties ----

#[test]
fn p7_an_overdue_read_at_the_head_waits_for_a_batch_of_reads_and_one_of_writes() {
    // The bound of P7 in docs/specifications/classic-elevators.md, section 12: the rest of a batch
    // of reads and a batch of writes, 15 + 16. In the form of 6.5 one more batch, of 16.
    starvation_is_bounded('R', 500, [31, 47]);
}

#[test]
fn p7_an_overdue_write_at_the_head_waits_for_the_reads_it_may_be_passed_by() {
    // The bound of P7 in docs/specifications/classic-elevators.md, section 12: `writes_starved`
    // batches of reads and two more, 2 x 16 + 2 x 16. In the form of 6.5 one more batch, of 16.
    starvation_is_bounded('W', 5000, [64, 80]);
}

/// Keeps 100 requests of both directions outstanding. While the oldest request of the direction
/// `letter` is overdue, at most this many others are dispatched before it.
fn starvation_is_bounded(letter: char, expire_ms: u64, bounds: [usize; 2]) {
    for (form, bound) in FORMS.into_iter().zip(bounds) {
        for seed in 0..3 {
            let mut random = Stream::new(seed);
            let mut testbed = Testbed::new(form);
            let mut queue: Vec<(String, Nanos)> = Vec::new();
            let mut passed = 0;
            for n in 0..4000_u64 {
                while testbed.queue().bios_in_flight() < 100 {
                    // No two are adjacent, so that nothing merges; every sector is used once.
                    let text = format!("{}{}", if random.chance(1, 2) { 'R' } else { 'W' }, random.below(1 << 40) * 16);
                    testbed.when(&text);
                    if text.starts_with(letter) {
                        queue.push((text, testbed.now()));
                    }
                }
                let oldest = queue.first().cloned();
                let overdue = oldest.iter().any(|(_, at)| at + expire_ms * MILLISECOND <= testbed.now());
                testbed.when("d");
                let sent = testbed.started().last().expect("something is queued").text.clone();
                passed = if !overdue || oldest.iter().any(|(text, _)| *text == sent) { 0 } else { passed + 1 };
                assert!(passed <= bound, "{form}, seed {seed}, turn {n}: {oldest:?} was passed by {passed}");
                queue.retain(|(text, _)| *text != sent);
                testbed.when(&format!("c:{sent} t+{}", random.below(3 * expire_ms / 50)));
            }
        }
    }
}

#[test]
fn p7_a_lower_class_waits_no_longer_than_the_age_under_a_flood() {
    for form in FORMS {
        let mut testbed = Testbed::new(form);
        testbed.when("R5000 R1rt");
        let begin = testbed.now();
        for n in 1..2000 {
            testbed.when(&format!("R{}rt d", n * 100));
            let sent = testbed.started().last().expect("something is queued").text.clone();
            if sent == "R5000" {
                break;
            }
            testbed.when(&format!("c:{sent} t+10"));
        }
        let waited_ns = testbed.now() - begin;
        assert!((10 * SECOND..=10 * SECOND + 10 * MILLISECOND).contains(&waited_ns), "{form}: {waited_ns} ns");
    }
}

#[test]
fn p13_reads_that_are_overdue_at_once_go_in_order_of_arrival() {
    for form in FORMS {
        let mut random = Stream::new(7);
        let script: Vec<_> = (0..100).map(|_| format!("R{}", random.below(1 << 30) * 16)).collect();
        let script = script.join(" ");
        let mut testbed = Testbed::new(&format!("{form}:fifo_batch=1,read_expire=0"));
        testbed.given(&script);
        testbed.when("rest");
        testbed.then(&script);
    }
}

// ---- additional cases ----

#[test]
fn a_lower_class_ages_even_while_a_higher_one_stays_in_the_device() {
    for form in FORMS {
        let mut testbed = Testbed::new(form);
        testbed.given("R100rt R200 d");
        testbed.then("R100rt");
        testbed.when("d t+9999 d");
        testbed.then("");
        assert_eq!(testbed.queue().next_timer(), Some(testbed.now() + MILLISECOND));
        testbed.when("t+1 d");
        testbed.then("R200");
        testbed.then_reason("R200", "aged");
    }
}

#[test]
fn a_merge_with_an_older_request_inherits_its_deadline() {
    // R108 fills the gap between two reads; the merged request has the deadline of its older part,
    // R116.
    orders(
        "fifo_batch=1",
        "R2000 d R116 t+300 R3000 R100 R108 t+200 rest",
        "R2000 R100+24 R3000",
        "R2000 R100+24 R3000",
    );
}

#[test]
fn front_merges_happen_only_when_sought() {
    // The request queue tries its most recent merge candidate first, in both directions. That is
    // R5000 here, so R1008 is found only by a search for front merges.
    orders("", "R5000 R1008 R1000 rest", "R5000 R1000+16", "R1000+16 R5000");
    orders("front_merges=0", "R5000 R1008 R1000 rest", "R5000 R1008 R1000", "R1000 R1008 R5000");
}

#[test]
fn tunables_are_clamped_as_the_kernel_clamps_them() {
    let mut testbed = Testbed::new("mq-deadline");
    for (written, read) in [
        ("front_merges=5", 1),
        ("fifo_batch=-3", 0),
        ("read_expire=-1", 0),
        ("writes_starved=-5", -5),
        ("async_depth=0", 1),
        ("async_depth=100000", 100_000),
        ("fifo_batch=0x10", 16),
    ] {
        testbed.when(written);
        let (name, _) = written.split_once('=').expect("name=value");
        let value = testbed.queue().settings().find(|(row, _)| row.name == name).map(|(_, value)| value);
        assert_eq!(value, Some(read), "{written}");
    }
}

#[test]
fn spans_are_rounded_up_to_ticks() {
    // HZ = 250: 3 ms read back as 4, 7 as 8 (observed on 6.18).
    let mut settings = Testbed::settings();
    settings.configuration.tick_ns = 4 * MILLISECOND;
    let mut testbed = Testbed::with("mq-deadline:read_expire=3,write_expire=7", &settings);
    testbed.when("prio_aging_expire=0");
    let values: Vec<_> = testbed.queue().settings().map(|(row, value)| (row.name, value)).collect();
    for expected in [("read_expire", 4), ("write_expire", 8), ("prio_aging_expire", 0)] {
        assert!(values.contains(&expected), "{expected:?} in {values:?}");
    }
}

#[test]
fn the_document_has_the_rows() {
    check_tunables_table("mq-deadline");
}

// ---- the policy without a queue ----

const SORTED: Position = Position::Sorted(Hint::None);

/// The policy alone, for calls that no queue makes by itself (head inserts of reads).
struct Bare {
    policy: Any,
    requests: Requests,
}

fn split(form: &str) -> (&str, Option<hoistway_elevator::Version>) {
    match form.split_once('@') {
        Some((name, version)) => (name, registry::parse_version(version)),
        None => (form, None),
    }
}

impl Bare {
    fn new(form: &str) -> Self {
        let (name, version) = split(form);
        let configuration = Configuration::default();
        let policy = registry::build(name, version, &configuration).expect("registered");
        Self { policy, requests: Requests::try_new(configuration.slots).expect("memory") }
    }

    fn insert(&mut self, text: &str, at: Position) -> RequestId {
        let id = self.requests.allocate(bio(text), 0).expect("a free slot");
        let _ = self.policy.insert(&self.requests, id, at, 0);
        id
    }

    fn rest(&mut self) -> String {
        let mut order = Vec::new();
        while let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), 0) {
            order.push(show(self.requests.attributes(id)));
            let _ = self.policy.released(&self.requests, id, 0);
            self.requests.free(id);
        }
        order.join(" ")
    }
}

#[test]
fn a_request_inserted_twice_is_counted_as_a_violation_and_served_once() {
    let mut bare = Bare::new("mq-deadline");
    let id = bare.insert("R100", SORTED);
    let _ = bare.policy.insert(&bare.requests, id, SORTED, 0);
    assert_eq!(bare.policy.violations(), 1);
    assert_eq!(bare.rest(), "R100");
}

#[test]
fn reserved_priority_values_count_as_best_effort() {
    let mut bare = Bare::new("mq-deadline");
    let odd = bare.insert("R100", SORTED);
    if let Some(request) = bare.requests.live_mut(odd) {
        request.attributes.priority = Priority(7 << 13);
    }
    assert_eq!(bare.requests.attributes(odd).class(), Class::BestEffort);
    assert_eq!(bare.rest(), "R100be0", "as the notation shows the class");
}
