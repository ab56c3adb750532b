//! bfq on an ideal device: the table of docs/specifications/bfq.md, section 20.4 (cases 43 to 50),
//! and the golden trace (case 52). In the table two sides, A and B, compete; each is one process or
//! several.
//!
//! `cargo test -p hoistway-elevator --test bfq_table -- --nocapture` prints the table next to that
//! of Linux 6.1.192.

mod device;

use device::{Device, Process, Setup, Side};
use hoistway_block::random::Stream;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Class, Nanos, Priority};

const BE: Class = Class::BestEffort;

fn process(side: usize, level: u8) -> Process {
    let priority = Priority::new(BE, level);
    Process { side, group: 0, priority, depth: 1, sectors: 8, think_ns: 0, begins_ns: 0 }
}

/// Side A at level 2 and B at level 6: weights 60 and 20. Each side has `jobs` processes; they
/// start alternately, `apart_ns` apart.
fn two_to_six(depth: u32, jobs: usize, apart_ns: Nanos) -> Vec<Process> {
    let levels = [2, 6];
    let job = |job: usize, side: usize| Process {
        depth,
        begins_ns: apart_ns * (2 * job + side) as Nanos,
        ..process(side, levels[side])
    };
    (0..jobs).flat_map(|number| (0..2).map(move |side| job(number, side))).collect()
}

/// One process for each side. They begin 30 ms apart, so that their commands do not start at the
/// same instant.
fn pair(depth: u32) -> Vec<Process> {
    two_to_six(depth, 1, 30 * MILLISECOND)
}

fn level(level: u8, processes: Vec<Process>) -> Vec<Process> {
    let priority = Priority::new(BE, level);
    processes.into_iter().map(|process| Process { priority, ..process }).collect()
}

fn parallel(scheduler: &'static str, processes: Vec<Process>) -> Setup {
    Setup {
        scheduler,
        device_depth: 32,
        rotational: false,
        groups: Vec::new(),
        processes,
        warm_up_ns: 2_500 * MILLISECOND,
        measured_ns: 20 * SECOND,
    }
}

fn serial(scheduler: &'static str, processes: Vec<Process>) -> Setup {
    Setup { device_depth: 1, ..parallel(scheduler, processes) }
}

/// The sides are groups of these weights.
fn in_groups(weights: [u32; 2], setup: Setup) -> Setup {
    let of_group = |process: Process| Process {
        priority: Priority::NONE,
        group: u32::try_from(process.side).unwrap() + 1,
        ..process
    };
    let processes = setup.processes.into_iter().map(of_group).collect();
    Setup { groups: weights.to_vec(), processes, ..setup }
}

/// I/Os a second of each side.
fn rates(setup: &Setup) -> ([f64; 2], [Side; 2]) {
    let run = Device::new(setup).run();
    let seconds = setup.measured_ns as f64 / 1e9;
    let sides: [Side; 2] = run.sides.try_into().expect("two sides");
    (sides.map(|side| side.ios as f64 / seconds), sides)
}

/// A row of the table, with the results of Linux 6.1.192.
struct Row {
    name: &'static str,
    setup: Setup,
    linux: [f64; 2],
    /// Permitted deviation of our results, as a fraction.
    bands: [f64; 2],
    why: &'static str,
}

fn row(name: &'static str, setup: Setup, linux: [f64; 2]) -> Row {
    Row { name, setup, linux, bands: [0.05; 2], why: "" }
}

impl Row {
    fn within(self, bands: [f64; 2], why: &'static str) -> Row {
        Row { bands, why, ..self }
    }
}

const PLAIN: &str = "bfq@6.1:low_latency=0";
const NO_IDLE: &str = "bfq@6.1:low_latency=0,slice_idle=0";
const BUDGET_8: &str = "bfq@6.1:low_latency=0,max_budget=8";
const STRICT: &str = "bfq@6.1:low_latency=0,strict_guarantees=1";
const PHASE: &str = "hangs on which of two events some us apart comes first";

fn shallow_rows() -> Vec<Row> {
    let with = |scheduler| parallel(scheduler, pair(1));
    vec![
        row("1, 1x1", parallel(PLAIN, level(4, pair(1))), [982.5, 982.5]),
        row("1, 8x1", parallel(PLAIN, level(4, pair(8))), [7839.0, 7839.0]),
        row("1, 1x8", parallel(PLAIN, level(4, two_to_six(1, 8, 0))), [7838.0, 7838.0]),
        row("2", with(PLAIN), [981.0, 16.0]).within([0.05, 0.125], "16 +- 2"),
        row("3", parallel(PLAIN, pair(8)), [7846.0, 128.0]).within([0.05, 0.3], "B has some 50 samples a second"),
        row("5", parallel(PLAIN, two_to_six(1, 4, 300 * MILLISECOND)), [2773.0, 2428.0]).within([0.2, 0.25], PHASE),
        row("6", with("bfq@6.1:low_latency=0,timeout_sync=16"), [979.0, 125.0]),
        row("7", with("bfq@6.1:low_latency=0,timeout_sync=4"), [977.0, 250.0]).within([0.05, 0.4], PHASE),
        row("8", with("bfq@6.1:low_latency=0,max_budget=512"), [980.0, 271.0]).within([0.05, 0.9], PHASE),
        row("9", with(BUDGET_8), [972.0, 324.0]),
        row("10", parallel(BUDGET_8, pair(8)), [7778.0, 2593.0]),
        row("11", parallel("bfq@6.1:low_latency=0,max_budget=64", pair(8)), [7409.0, 2469.0]),
        row("12", parallel(BUDGET_8, two_to_six(1, 4, 300 * MILLISECOND)), [971.0, 323.0]),
        row("14, 1x1", with(NO_IDLE), [975.0, 975.0]),
        row("14, 8x1", parallel(NO_IDLE, pair(8)), [7821.0, 7820.0]),
        row("15", with("bfq@6.1:low_latency=0,slice_idle=0,max_budget=8"), [975.0, 975.0]),
        row("16", with("bfq@6.1:low_latency=0,slice_idle_us=1100"), [981.0, 16.0]).within([0.05, 0.125], "as row 2"),
        row("17, 1x1", with(STRICT), [739.0, 243.0]),
        row("17, 8x1", parallel(STRICT, pair(8)), [744.0, 245.0]),
    ]
}

fn group_rows() -> Vec<Row> {
    let three_to_one = |setup| in_groups([300, 100], setup);
    vec![
        row("18, 1x1", three_to_one(parallel(PLAIN, pair(1))), [729.0, 252.0]),
        row("18, 8x1", three_to_one(parallel(PLAIN, pair(8))), [5840.0, 2008.0]),
        row("19", three_to_one(parallel(BUDGET_8, pair(8))), [7764.0, 2588.0]),
        row("20", three_to_one(parallel(NO_IDLE, pair(8))), [7820.0, 7820.0]),
        row("21, 1x1", in_groups([100, 100], parallel(PLAIN, pair(1))), [495.0, 485.0]),
        row("21, 8x1", in_groups([100, 100], parallel(PLAIN, pair(8))), [3890.0, 3959.0]),
        row("22", in_groups([1000, 1], parallel(PLAIN, pair(1))), [981.0, 0.0]),
        row("22, budget 8", in_groups([1000, 1], parallel(BUDGET_8, pair(1))), [981.0, 0.0]),
    ]
}

fn other_rows() -> Vec<Row> {
    let depths = || vec![process(0, 4), Process { depth: 8, ..process(1, 4) }];
    let apart = || vec![process(0, 4), Process { depth: 8, begins_ns: 700 * MILLISECOND, ..process(1, 4) }];
    let large = Process { sectors: 256, ..process(0, 4) };
    let real_time = Process { priority: Priority::new(Class::RealTime, 4), ..process(0, 4) };
    let idle = Process { priority: Priority::new(Class::Idle, 7), ..process(1, 4) };
    let thinker = Process { think_ns: 5 * MILLISECOND, ..process(0, 2) };
    vec![
        row("23", parallel(PLAIN, vec![large, process(1, 4)]), [961.0, 983.0]),
        row("24", serial(PLAIN, pair(8)), [746.0, 246.0]),
        row("25", serial(PLAIN, pair(1)), [957.0, 24.0]),
        row("26", serial(BUDGET_8, pair(1)), [733.0, 244.0]),
        // Processes that start together share a queue, so each gets service in proportion to its
        // depth: 1 : 8.
        row("27", serial(PLAIN, depths()), [123.0, 867.0])
            .within([0.15, 0.05], "the case says 1:7, by depths it is 1:8"),
        row("28", Setup { rotational: true, ..serial(PLAIN, apart()) }, [496.0, 491.0]),
        row("29", parallel(PLAIN, vec![real_time, process(1, 4)]), [981.0, 0.0]),
        row("30", parallel(PLAIN, vec![process(0, 4), idle]), [980.0, 721.0]).within([0.05, 1.0], PHASE),
        row(
            "31",
            parallel(PLAIN, vec![Process { depth: 8, ..process(0, 4) }, Process { depth: 8, ..idle }]),
            [7789.0, 4.0],
        )
        .within([0.05, 0.25], "4 is a whole number"),
        row("34", parallel(PLAIN, vec![thinker, Process { depth: 8, ..process(1, 6) }]), [165.0, 7466.0]),
    ]
}

fn compare(rows: Vec<Row>) {
    let mut missed = Vec::new();
    for row in rows {
        let (ours, sides) = rates(&row.setup);
        let [a, b] = ours;
        let longest_ms = sides[1].longest_ns as f64 / 1e6;
        let [linux_a, linux_b] = row.linux;
        let line = format!(
            "{:13} A {a:6.0} ({linux_a:6.0})  B {b:6.0} ({linux_b:6.0})  longest of B {longest_ms:7.1} ms  {}",
            row.name, row.why
        );
        println!("{line}");
        for (side, (ours, linux)) in ours.into_iter().zip(row.linux).enumerate() {
            // A deviation of less than one I/O in three seconds is always permitted.
            if (ours - linux).abs() > (linux * row.bands[side]).max(0.34) {
                missed.push(line.clone());
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn t43_to_t45_one_and_eight_requests_a_process() {
    compare(shallow_rows());
}

/// Row 4: 16 processes begin together. BFQ merges queues of one level that are created one after the
/// other, so the result depends on the order of creation, which was not recorded on Linux. Linux's
/// figures must lie among those of random orders.
#[test]
fn t43_row_4_is_among_the_results_of_other_orders() {
    let mut stream = Stream::of(1, "bfq/order of processes");
    let results = (0..24).map(|_| {
        let mut processes = two_to_six(1, 8, 0);
        for place in (1..processes.len()).rev() {
            let other = usize::try_from(stream.below(place as u64 + 1)).unwrap();
            processes.swap(place, other);
        }
        rates(&parallel(PLAIN, processes)).0
    });
    let results: Vec<[f64; 2]> = results.collect();
    for (side, linux) in [2750.0, 1995.0].into_iter().enumerate() {
        let (lower, higher): (Vec<f64>, _) = results.iter().map(|rates| rates[side]).partition(|rate| *rate < linux);
        println!("4             side {side}: {linux}; {} results below, {} above", lower.len(), higher.len());
        assert!(lower.len() >= 4 && higher.len() >= 4, "side {side}: {lower:?}, {higher:?}");
    }
}

#[test]
fn t46_t47_groups() {
    compare(group_rows());
}

#[test]
fn t48_t49_serial_devices_classes_and_thinkers() {
    compare(other_rows());
}

#[test]
fn t44_b_waits_for_the_whole_turn_of_a() {
    let (_, [_, b]) = rates(&parallel(PLAIN, pair(1)));
    assert!((120.0..=128.0).contains(&(b.longest_ns as f64 / 1e6)), "{b:?}");
}

#[test]
fn row_13_one_shared_queue_may_starve() {
    let scheduler = "bfq@6.1:low_latency=0,max_budget=64";
    let (together, [_, b]) = rates(&parallel(scheduler, two_to_six(1, 4, MILLISECOND)));
    println!(
        "13            A {:.0} (1164, 1521)  B {:.0} (0, 723)  longest of B {} ms",
        together[0],
        together[1],
        b.longest_ns / MILLISECOND
    );
    assert!(together[0] > together[1], "{together:?}");
}

/// O (the old process) with 8 requests outstanding has been running; N (the new one) starts with
/// one. With `low_latency`, BFQ raises N: it multiplies N's weight for some seconds. During that
/// time O gets no service.
#[test]
fn t50_a_raised_new_queue_stops_all_others() {
    let processes = || vec![Process { depth: 8, ..process(0, 4) }, Process { begins_ns: 6 * SECOND, ..process(1, 4) }];
    let measure = |scheduler| {
        let setup =
            Setup { warm_up_ns: 5_900 * MILLISECOND, measured_ns: 6 * SECOND, ..parallel(scheduler, processes()) };
        let (_, sides) = rates(&setup);
        sides
    };
    let [o, n] = measure("bfq@6.1");
    let stalled_ms = o.longest_ns / MILLISECOND;
    println!("32            O stalls {stalled_ms} ms (3752), N's mean latency {:.2} ms (1.02)", n.mean_latency_ms());
    assert!((3_570..=3_940).contains(&stalled_ms), "{stalled_ms}");
    assert!(n.mean_latency_ms() < 1.1, "{n:?}");
    let [o, _] = measure(PLAIN);
    assert!(o.longest_ns < 130 * MILLISECOND, "without raising O goes on: {o:?}");
}

/// The same on a device with one command at a time; O is still raised itself when N arrives,
/// because it is only 2.6 s old. The row's figures for the scheduler `none` are not compared:
/// there, both processes share one tag and take turns in sleeping for it, so no scheduler is
/// involved.
#[test]
fn row_33_a_newcomer_on_a_serial_device() {
    let begins_ns = 2_600 * MILLISECOND;
    let processes = || vec![Process { depth: 8, ..process(0, 4) }, Process { begins_ns, ..process(1, 4) }];
    let newcomer =
        |scheduler| Setup { warm_up_ns: begins_ns, measured_ns: 3_500 * MILLISECOND, ..serial(scheduler, processes()) };
    let by_depth = "by depths it is an eighth of what O has";
    compare(vec![
        row("33, raised", newcomer("bfq@6.1"), [267.0, 717.0]).within([0.3, 0.2], PHASE),
        row("33, not", newcomer(PLAIN), [593.0, 396.0]).within([0.15, 0.2], PHASE),
        row("33, deadline", newcomer("mq-deadline"), [865.0, 125.0]).within([0.05, 0.15], by_depth),
    ]);
}

/// The turns (the time from a queue's selection until it expires) in row 2 in steady state, from
/// the policy's own messages.
#[test]
fn t52_the_golden_trace_of_row_2() {
    let run = Device::new(&Setup { measured_ns: 2 * SECOND, ..parallel(PLAIN, pair(1)) }).trace().run();
    let turns: Vec<(u32, &str)> = run
        .lines
        .iter()
        .filter(|line| line.text.starts_with("expire") || line.text.starts_with("set_in_service"))
        .filter_map(|line| Some((line.context?, line.text.as_str())))
        .collect();
    let ends: Vec<(u32, char)> = turns
        .iter()
        .filter_map(|(context, text)| Some((*context, text.strip_prefix("expire (")?.chars().next()?)))
        .collect();
    let begin = ends.iter().position(|end| *end == (0, '1')).expect("A's time runs out");
    let period = [(0, '1'), (1, '3'), (0, '4'), (1, '3')];
    let whole = ends[begin..].chunks_exact(4);
    assert!(whole.len() > 12, "{}", whole.len());
    for turn in whole {
        assert_eq!(turn, period);
    }
    let budgets: Vec<&str> = turns
        .iter()
        .filter(|(context, text)| *context == 1 && text.starts_with("set"))
        .map(|(_, text)| *text)
        .collect();
    for pair in budgets.chunks_exact(2) {
        let first = usize::from(pair[0].ends_with(" 248"));
        assert_eq!(pair[first], "set_in_service_queue, cur-budget = 512");
        assert_eq!(pair[1 - first], "set_in_service_queue, cur-budget = 248");
    }
    // B is charged for the time of its turn: `max_budget`, 16384 sectors, stands for the timeout of
    // 124 ms, so 2 ms cost 264, which is 256 more than the 8 of its request.
    let charges =
        run.lines.iter().filter(|line| line.context == Some(1) && line.text == "bfqq_served 256 secs").count();
    assert!(charges >= 24, "{charges}");
}

const REPAIRS: &str = "bounded_hold=1,eligible_injection=1,real_time_charge=1,repoll_on_completion=1";

/// The options that fix the kernel's quirks, one at a time and all together, with A at level 2 and
/// B at level 6. The exact ratio of their shares is 3.00.
#[test]
fn options_that_repair_quirks_on_the_rows_of_2_to_6() {
    let options = ["", "bounded_hold=1", "eligible_injection=1", "real_time_charge=1", "repoll_on_completion=1"];
    let all = [REPAIRS.to_owned(), format!("{REPAIRS},max_budget=64")];
    for option in options.map(str::to_owned).into_iter().chain(all) {
        let scheduler: &'static str = format!("bfq:low_latency=0,{option}").leak();
        for (shape, setup) in [
            ("1x1", parallel(scheduler, pair(1))),
            ("8x1", parallel(scheduler, pair(8))),
            ("1x8", parallel(scheduler, two_to_six(1, 8, 0))),
            ("1x1 serial", serial(scheduler, pair(1))),
        ] {
            let ([a, b], [_, of_b]) = rates(&setup);
            let longest_ms = of_b.longest_ns as f64 / 1e6;
            println!(
                "{option:100} {shape:10} A {a:6.0}  B {b:6.0}  ratio {:6.2}  longest of B {longest_ms:6.1} ms",
                a / b
            );
            if option.contains("max_budget") {
                // The shares are exact, at the highest throughput at which exact shares are
                // possible (docs/specifications/bfq.md, section 20.2), and without long waits.
                let alone =
                    981.0 * setup.processes.iter().filter(|of| of.side == 0).map(|of| f64::from(of.depth)).sum::<f64>();
                assert!((2.95..=3.05).contains(&(a / b)), "{shape}: {a} : {b}");
                assert!(setup.device_depth == 1 || a + b > 0.99 * alone * 4.0 / 3.0, "{shape}: {a} + {b}");
                assert!(longest_ms < 40.0, "{shape}: {longest_ms}");
            }
        }
    }
}
