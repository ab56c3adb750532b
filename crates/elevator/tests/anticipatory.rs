//! anticipatory: the cases of docs/specifications/classic-elevators.md, section 9.9, on a device
//! with one command at a time.

use hoistway_block::{Nanos, Status};
use hoistway_testbed::notation::bio;
use hoistway_testbed::queue::Next;
use hoistway_testbed::{Testbed, check_tunables_table};

const MS: Nanos = 1_000_000;

fn one_command(spec: &str) -> Testbed {
    let mut settings = Testbed::settings();
    settings.configuration.depth.device = 1;
    Testbed::with(spec, &settings)
}

/// A process that reads sequentially and sends each read `think_ns` after the previous one
/// completed.
struct Reader {
    context: u32,
    sector: u64,
    think_ns: Nanos,
    next_at: Option<Nanos>,
}

impl Reader {
    fn new(context: u32, sector: u64, think_ns: Nanos, now: Nanos) -> Self {
        Self { context, sector, think_ns, next_at: Some(now) }
    }
}

/// The result of a run: which context was served when, and how often the device was idled.
#[derive(Default)]
struct Run {
    served: Vec<(Nanos, u32)>,
    holds: Vec<Nanos>,
}

/// Runs readers for `span_ns`; each read takes `service_ns` in the device.
fn run(testbed: &mut Testbed, readers: &mut [Reader], service_ns: Nanos, span_ns: Nanos) -> Run {
    let mut run = Run::default();
    let end = testbed.now() + span_ns;
    let mut in_device: Option<(Nanos, u32)> = None;
    while testbed.now() < end {
        let now = testbed.now();
        for reader in readers.iter_mut().filter(|reader| reader.next_at.is_some_and(|at| at <= now)) {
            reader.next_at = None;
            testbed.submit(&bio(&format!("R{}@{}", reader.sector, reader.context)));
            reader.sector += 8;
        }
        if in_device.is_none() {
            match testbed.dispatch() {
                Next::Start { .. } => {
                    let text = &testbed.started().last().expect("just started").text;
                    let context = text.split('@').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
                    run.served.push((testbed.now(), context));
                    in_device = Some((testbed.now() + service_ns, context));
                }
                Next::Hold { .. } => run.holds.push(testbed.now()),
                _ => {}
            }
        }
        let wake = readers.iter().filter_map(|reader| reader.next_at);
        let next = wake.chain(in_device.map(|(at, _)| at)).chain(testbed.queue().next_timer()).min().unwrap_or(end);
        let now = testbed.now();
        testbed.pass(next.clamp(now, end) - now);
        if let Some((_, context)) = in_device.filter(|(at, _)| *at <= testbed.now()) {
            in_device = None;
            testbed.complete(0, Status::Ok);
            let now = testbed.now();
            if let Some(reader) = readers.iter_mut().find(|reader| reader.context == context) {
                reader.next_at = Some(now + reader.think_ns);
            }
        }
    }
    run
}

#[test]
fn as1_async_writes_alone_go_in_one_way_order() {
    let mut testbed = one_command("anticipatory");
    testbed.given("W1000 W5000 W3000 W500 W4000");
    testbed.when("rest");
    // In ascending order from sector 0, where the head is at the start.
    testbed.then("W500 W1000 W3000 W4000 W5000");
}

#[test]
fn as2_two_readers_far_apart_change_over_by_time_only() {
    let mut testbed = one_command("anticipatory");
    let now = testbed.now();
    let mut readers = [Reader::new(1, 0, MS, now), Reader::new(2, 100_000_000, MS, now)];
    let run = run(&mut testbed, &mut readers, MS, 10_000 * MS);
    let changes: Vec<Nanos> =
        run.served.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0).collect();
    // The first change does not count, because it comes before any think time has been measured.
    let gaps: Vec<u64> = changes.windows(2).skip(1).map(|pair| (pair[1] - pair[0]) / MS).collect();
    assert!(gaps.iter().all(|gap| *gap + 2 >= 125), "{gaps:?} ms");
    assert!(gaps.len() > 20, "both are served in turn: {gaps:?}");
}

#[test]
fn as3_waiting_ends_for_a_reader_that_thinks_too_long() {
    let mut testbed = one_command("anticipatory");
    let now = testbed.now();
    let mut readers = [Reader::new(1, 0, 8 * MS, now), Reader::new(2, 100_000_000, 8 * MS, now)];
    let run = run(&mut testbed, &mut readers, MS, 5_000 * MS);
    assert!(!run.holds.is_empty(), "at first it waits");
    let last = run.holds.last().expect("some") - now;
    assert!(last < 1_000 * MS, "it still waited after {} ms", last / MS);
}

#[test]
fn as4_without_patience_it_never_waits() {
    let mut testbed = one_command("anticipatory:antic_expire=0");
    let now = testbed.now();
    let mut readers = [Reader::new(1, 0, MS, now), Reader::new(2, 100_000_000, MS, now)];
    let run = run(&mut testbed, &mut readers, MS, 2_000 * MS);
    assert!(run.holds.is_empty() && run.served.len() > 900, "{} served", run.served.len());
}

/// A reader with a known history whose read has just completed, and another issuer with a request
/// far away.
fn waiting() -> Testbed {
    let mut testbed = one_command("anticipatory");
    for n in 0..20 {
        testbed.given(&format!("R{}@1 d t+1", n * 8));
        testbed.complete(0, Status::Ok);
        testbed.given("t+1");
    }
    testbed.given("R160@1 d R100000000@2 t+1");
    testbed.complete(0, Status::Ok);
    assert!(matches!(testbed.dispatch(), Next::Hold { .. }));
    testbed
}

#[test]
fn it_waits_for_the_process_and_serves_it_first() {
    let mut testbed = waiting();
    testbed.given("t+2 R168@1");
    let Next::Start { .. } = testbed.dispatch() else { panic!("the awaited read goes") };
    assert_eq!(testbed.started().last().map(|started| started.text.as_str()), Some("R168@1"));
}

#[test]
fn the_wait_ends_with_its_timer() {
    let mut testbed = waiting();
    testbed.given("t+5");
    assert!(!matches!(testbed.dispatch(), Next::Start { .. }));
    testbed.given("t+1");
    assert!(matches!(testbed.dispatch(), Next::Start { .. }), "6 ms after the completion");
}

#[test]
fn as5_a_write_of_the_awaited_process_ends_the_wait() {
    let mut testbed = waiting();
    testbed.given("W900000@1");
    assert!(matches!(testbed.dispatch(), Next::Start { .. }));
}

#[test]
fn as6_after_a_few_exits_exited_processes_are_not_waited_for() {
    let mut testbed = one_command("anticipatory");
    let mut held = Vec::new();
    for n in 0_u32..24 {
        // A process reads once and exits; another process has a request queued far away.
        let context = 10 + n;
        testbed.given(&format!("R{}@{context} d R{}@2", n * 50_000, 100_000_000 + n * 100_000));
        testbed.complete(0, Status::Ok);
        testbed.exit(context);
        held.push(matches!(testbed.dispatch(), Next::Hold { .. }));
        testbed.given("t+20 rest t+20");
    }
    assert!(held[0], "the first is waited for");
    assert!(!held[20..].contains(&true), "{held:?}");
}

#[test]
fn as7_kinds_never_share_the_device_and_reads_have_their_time() {
    let mut settings = Testbed::settings();
    settings.configuration.depth.device = 4;
    let mut testbed = Testbed::with("anticipatory", &settings);
    let mut inside: Vec<(Nanos, char)> = Vec::new();
    let (mut read_at, mut write_at) = (0_u64, 500_000_000_u64);
    let mut order: Vec<(Nanos, char)> = Vec::new();
    let end = testbed.now() + 4_000 * MS;
    while testbed.now() < end {
        // Both kinds backlogged: reads of many processes, far apart.
        let served = |kind: char| order.iter().filter(|(_, other)| *other == kind).count() as u64;
        while read_at / 1_000 < served('R') + 40 {
            testbed.submit(&bio(&format!("R{}@{}", read_at, 1 + read_at / 1_000 % 30)));
            read_at += 1_000;
        }
        while (write_at - 500_000_000) / 1_000 < served('W') + 40 {
            testbed.submit(&bio(&format!("W{write_at}")));
            write_at += 1_000;
        }
        while inside.len() < 4 {
            let Next::Start { .. } = testbed.dispatch() else { break };
            let kind = testbed.started().last().expect("started").text.chars().next().expect("a letter");
            assert!(inside.iter().all(|(_, other)| *other == kind), "{kind} beside the other");
            inside.push((testbed.now() + 2 * MS, kind));
            order.push((testbed.now(), kind));
        }
        testbed.pass(MS);
        while inside.first().is_some_and(|(at, _)| *at <= testbed.now()) {
            inside.remove(0);
            testbed.complete(0, Status::Ok);
        }
    }
    let mut spans: Vec<(char, Nanos)> = Vec::new();
    let mut begin = order[0];
    for pair in order.windows(2) {
        if pair[0].1 != pair[1].1 {
            spans.push((begin.1, pair[1].0 - begin.0));
            begin = pair[1];
        }
    }
    let reads: Vec<u64> = spans.iter().filter(|(kind, _)| *kind == 'R').map(|(_, span)| span / MS).collect();
    assert!(reads.len() >= 4 && reads.iter().skip(1).all(|span| *span >= 500), "{reads:?}");
}

/// docs/specifications/classic-elevators.md, section 9.4, step 5: the time of a batch of writes
/// begins with its first dispatch. If it began earlier, and the driver did not ask for a request
/// for a long time, the batch would end before its first write; if that happened repeatedly, writes
/// would starve.
#[test]
fn s9_4_an_unused_batch_does_not_count_as_passing_over() {
    let mut settings = Testbed::settings();
    settings.configuration.depth.device = 4;
    let mut testbed = Testbed::with("anticipatory:antic_expire=0", &settings);
    testbed.submit(&bio("R0@1"));
    assert!(matches!(testbed.dispatch(), Next::Start { .. }));
    testbed.submit(&bio("W5000@2"));
    assert!(
        !matches!(testbed.dispatch(), Next::Start { .. }),
        "the writes' turn comes when the read is out of the device"
    );
    testbed.submit(&bio("R1000@3"));
    testbed.complete(0, Status::Ok);
    testbed.pass(200 * MS);
    assert!(matches!(testbed.dispatch(), Next::Start { .. }));
    assert_eq!(testbed.started().last().expect("started").text, "W5000@2");
}

/// docs/specifications/classic-elevators.md, section 9.4, steps 2 and 5: an overdue read begins its
/// batch like any other, so the batch ends 500 ms after its first completion, however many overdue
/// reads follow.
#[test]
fn s9_4_overdue_reads_do_not_prolong_their_batch() {
    let mut testbed = one_command("anticipatory:read_expire=0");
    testbed.submit(&bio("W5000"));
    assert!(matches!(testbed.dispatch(), Next::Start { .. }));
    let mut order = Vec::new();
    for next in 0_u64..200 {
        testbed.submit(&bio(&format!("R{}@1", next * 1_000)));
        testbed.submit(&bio(&format!("W{}@2", 500_000_000 + next * 1_000)));
        testbed.pass(10 * MS);
        testbed.complete(0, Status::Ok);
        while !matches!(testbed.dispatch(), Next::Start { .. }) {
            testbed.pass(MS);
        }
        order.push((testbed.now(), testbed.started().last().expect("started").text.starts_with('R')));
    }
    let first_read = order.iter().find(|(_, is_read)| *is_read).expect("reads go").0;
    let write = order.iter().find(|(at, is_read)| *at > first_read && !is_read).expect("writes go again").0;
    assert!(write - first_read <= 530 * MS, "{} ms", (write - first_read) / MS);
}

#[test]
fn as8_a_drain_empties_reads_then_writes_whatever_it_waits_for() {
    use hoistway_elevator::{Configuration, Elevator, Hint, Position, Requests, registry};
    let configuration = Configuration::default();
    let mut policy = registry::build("anticipatory", None, &configuration).expect("registered");
    let mut requests = Requests::try_new(configuration.slots).expect("memory");
    for text in ["W100", "R5000", "W50", "R4000", "R9000"] {
        let id = requests.allocate(bio(text), 0).expect("a slot");
        let _ = policy.insert(&requests, id, Position::Sorted(Hint::None), 0);
    }
    let order: Vec<u64> = std::iter::from_fn(|| policy.drain(&requests, 0))
        .map(|id| requests.attributes(id).extent.first_sector)
        .collect();
    assert_eq!(order, [4000, 5000, 9000, 50, 100]);
}

#[test]
fn the_page_lists_the_tunables() {
    check_tunables_table("anticipatory");
}
