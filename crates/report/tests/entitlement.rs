//! One yardstick: for every kind of cell, isolation is 100 % where each group gets what it is
//! entitled to and near 0 where one starves, and every view shows the same figure.
//! Source: docs/concepts/entitlement.md.

mod example;

use example::Example;
use hoistway_block::random::Stream;
use hoistway_experiment::assertion::Assertion;
use hoistway_experiment::cell::{Cell, cells};
use hoistway_experiment::entitlement::of_groups;
use hoistway_experiment::job::Job;
use hoistway_experiment::measurement::{GroupMeasurement, Sample, SoloRates, Tally};
use hoistway_experiment::metric::Metric;
use hoistway_experiment::{Group, Limits, Measurement, SchedulerSpec, Weight};
use hoistway_report::table::{TextOptions, text};
use hoistway_report::{Results, csv, json, markdown, page};

/// Kinds of cells that are tried.
const CELLS: u64 = 80;
const SECOND_NS: u64 = 1_000_000_000;
const RAMP_NS: u64 = SECOND_NS;
const WINDOW_NS: u64 = 20 * SECOND_NS;

/// Random groups: weights far apart, children under limits, comings and goings; some alone fill the
/// device, some use a thousandth of it.
fn groups(random: &mut Stream) -> (Vec<Group>, Vec<SoloRates>) {
    let mut groups = Vec::new();
    let mut rates = Vec::new();
    let count = 2 + random.below(5);
    for index in 0..count {
        let weight = Weight::new(1 + u32::try_from(random.below(10_000)).unwrap()).unwrap();
        let is_child = random.below(3) == 0;
        let path = if is_child { format!("p/g{index}") } else { format!("g{index}") };
        let mut group = Group::new(path, weight, vec![Job::default().with(|job| job.name = "drr".into())]);
        if random.below(4) == 0 {
            group.start_ns = random.below(15) * SECOND_NS;
            group.stop_ns = Some(group.start_ns + (2 + random.below(20)) * SECOND_NS);
        }
        let full = 1e6 * (1 + random.below(3000)) as f64;
        let most = if random.chance(1, 2) { 2 } else { 1000 };
        let alone = full / (1 + random.below(most)) as f64;
        rates.push(if random.below(5) == 0 {
            SoloRates { ios_per_s: alone, full_ios_per_s: full, ..SoloRates::default() }
        } else {
            SoloRates { bytes_per_s: alone, full_bytes_per_s: full, ..SoloRates::default() }
        });
        groups.push(group);
    }
    if random.below(2) == 0 {
        let limits = Limits { read_bytes_per_s: Some(100_000 + random.below(1 << 30)), ..Limits::default() };
        groups.push(Group { limits, ..Group::new("p", Weight::DEFAULT, Vec::new()) });
        rates.push(SoloRates::default());
    }
    (groups, rates)
}

/// The run `like` with other results: each group got `per_s`, in bytes or I/Os as its rates count.
fn run(like: &Measurement, groups: &[Group], rates: &[SoloRates], per_s: &[f64]) -> Measurement {
    let mut run = like.clone();
    let zero = |group: &GroupMeasurement| GroupMeasurement {
        read: Tally::default(),
        write: Tally::default(),
        trim: Tally::default(),
        ..group.clone()
    };
    let got = |((group, rates), per_s): ((&Group, &SoloRates), &f64)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded below 2^53")]
        let amount = (per_s * (WINDOW_NS / SECOND_NS) as f64).round() as u64;
        let mut measured = zero(&like.groups[0]);
        measured.path.clone_from(&group.path);
        measured.weight = group.weight.get();
        measured.effective_weight = group.weight.get();
        if rates.counts_ios() {
            measured.trim.ios = amount;
        } else {
            (measured.read.bytes, measured.read.ios) = (amount, amount / 4096 + 1);
        }
        measured
    };
    run.groups = groups.iter().zip(rates).zip(per_s).map(got).collect();
    run.solo_rates = rates.to_vec();
    run.window_ns = WINDOW_NS;
    run.experiment.groups = groups.to_vec().into();
    (run.experiment.runtime_ns, run.experiment.ramp_ns) = (WINDOW_NS, RAMP_NS);
    run
}

/// The isolation of the only cell in every view, each as the view writes it.
fn agreed(example: &Example, run: &Measurement) -> f64 {
    let measurements = [run.clone()];
    let results = Results { measurements: &measurements, ..example.results() };
    let cells = results.cells();
    let [cell] = &cells[..] else { panic!("{} cells", cells.len()) };
    let isolation = cell.entitlement.as_ref().expect("an entitlement").isolation;
    let percent = format!("{:.1}%", isolation * 100.0);
    let options = TextOptions { per_group_latency: true, ..TextOptions::default() };
    let table = text(&results, &options);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).expect("a row").to_owned();
    assert!(row("none ").contains(&percent), "{percent} {table}");
    for (index, group) in cell.groups.iter().enumerate() {
        let part = cell.entitlement.as_ref().unwrap().fulfilled[index];
        let part = part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}%", part.min(1.0) * 100.0));
        let row = row(&format!("  {} ", group.path));
        assert!(row.split_whitespace().any(|word| word == part), "{part} {row}");
    }
    assert!(markdown::table(&results, &[50.0]).contains(&format!("| {percent} |")), "{percent}");
    let page = page::html(&results);
    assert!(page.matches(&percent).count() >= 2, "{percent} in picture and table of the page");
    // The picture has the same yardstick, unless a group counts I/Os, which are no part of a bar of bytes.
    if cell.groups.iter().all(|group| !run.solo_rates[group.index].counts_ios()) {
        let entitled = &cell.entitlement.as_ref().unwrap().entitled_per_s;
        for (group, per_s) in cell.groups.iter().zip(entitled) {
            let part = 100.0 * per_s / entitled.iter().sum::<f64>();
            let hint = format!("{} (weight {}): {part:.1}%", group.path, group.weight);
            assert!(page.contains(&hint) && page.contains("what each is entitled to"), "{hint}");
        }
    } else {
        assert!(page.contains("show the division by weight"));
    }
    let document: serde_json::Value = serde_json::from_str(&json::result(&results).document()).expect("json");
    let shown = document["cells"][0]["isolation"].as_f64().expect("a number");
    assert!((shown - isolation).abs() < 1e-5, "{shown} {isolation}");
    let lines = csv::table(&results, &[50.0]);
    let column = lines.lines().next().unwrap().split(',').position(|name| name == "isolation").unwrap();
    let total = lines.lines().find(|line| line.contains(",total,")).expect("a total");
    let digits: f64 = total.split(',').nth(column).unwrap().parse().expect("a number");
    assert!((digits - isolation).abs() < 1e-6, "{digits} {isolation}");
    let asserted = Assertion::parse(&format!("isolation >= {}%", isolation * 100.0 - 0.001)).unwrap();
    assert!(asserted.evaluate(&cells, &[]).unwrap().ok);
    isolation
}

fn like(example: &Example) -> Measurement {
    example.results().measurements[0].clone()
}

#[test]
fn every_kind_of_cell_is_judged_by_one_figure() {
    let example = Example::new(1, &[1], 1);
    let like = like(&example);
    let mut random = Stream::new(51);
    let mut starved = 0;
    for _ in 0..CELLS {
        let (groups, rates) = groups(&mut random);
        let entitled = of_groups(&groups, &rates, (RAMP_NS, RAMP_NS + WINDOW_NS)).expect("rates of all");
        let is_judged = |entitled: &f64| *entitled * 20.0 > 1e4;
        if !entitled.iter().zip(&groups).all(|(it, group)| group.jobs.is_empty() || is_judged(it)) {
            // Amounts are whole bytes, which are no exact part of a few hundred of them.
            continue;
        }
        let exact = agreed(&example, &run(&like, &groups, &rates, &entitled));
        assert!((exact - 1.0).abs() < 1e-3, "{exact} {groups:?} {rates:?}");
        let victim = usize::try_from(random.below(groups.len() as u64)).unwrap();
        let mut got = entitled.clone();
        got[victim] *= 1e-3;
        let unfair = agreed(&example, &run(&like, &groups, &rates, &got));
        if groups[victim].jobs.is_empty() {
            continue;
        }
        starved += 1;
        assert!(unfair < 0.002, "{unfair}");
        // More for one at the others' cost is no more than all of it.
        let shifted: Vec<f64> = entitled.iter().map(|rate| rate * (0.2 + random.below(30) as f64 / 10.0)).collect();
        let between = agreed(&example, &run(&like, &groups, &rates, &shifted));
        assert!((0.19..=1.0).contains(&between), "{between}");
    }
    assert!(starved > CELLS / 2, "{starved} of {CELLS} cells had a victim");
}

/// The shares of two groups of equal weight, second by second: one is late, and starves for two seconds
/// after its return and for one later; the other for three before it comes, which are seconds of all it can.
#[test]
fn delta_is_the_longest_time_below_what_a_group_was_entitled_to_then() {
    let example = Example::new(1, &[1], 1);
    let job = || vec![Job::default().with(|job| job.name = "drr".into())];
    let early = Group::new("early", Weight::DEFAULT, job());
    let late = Group { start_ns: RAMP_NS + 10 * SECOND_NS, ..Group::new("late", Weight::DEFAULT, job()) };
    let (groups, rates) =
        ([early, late], [SoloRates { bytes_per_s: 1e6, full_bytes_per_s: 1e6, ..SoloRates::default() }; 2]);
    let mut run = run(&like(&example), &groups, &rates, &[5e5, 2e5]);
    let samples = |per_s: &dyn Fn(u64) -> u64| {
        let sample = |second| Sample {
            at_ns: second * SECOND_NS,
            length_ns: SECOND_NS,
            bytes: per_s(second),
            ..Sample::default()
        };
        (0..20).map(sample).collect::<Vec<_>>()
    };
    run.groups[0].read.samples = samples(&|second| match second {
        4..7 => 500_000,
        0..10 => 1_000_000,
        _ => 500_000,
    });
    run.groups[1].read.samples = samples(&|second| match second {
        0..12 | 15 => 0,
        // Nearly all of it is all of it.
        _ => 460_000,
    });
    let delta = |run: &Measurement| {
        let all = [run.clone()];
        let specs: [SchedulerSpec; 1] = ["none".parse().unwrap()];
        let cells = cells(&all, &specs);
        [Some(0), Some(1), None].map(|group| Metric::Delta.of(&cells[0], group, None).map(|it| it.mean / 1e9))
    };
    assert_eq!(delta(&run), [Some(3.0), Some(2.0), Some(3.0)]);
    // One that never got anything has no samples.
    run.groups[1].read.samples.clear();
    assert_eq!(delta(&run), [Some(3.0), Some(10.0), Some(10.0)]);
    run.solo_rates.clear();
    assert_eq!(delta(&run), [None; 3]);
}

#[test]
fn results_of_older_versions_stay_readable_and_have_no_isolation() {
    let example = Example::new(1, &[1], 1);
    let mut old = like(&example);
    // What --calibrate stored: rates alone without those of the full device.
    let alone = "{\"bytes_per_s\":1000.0,\"ios_per_s\":10.0,\"device_ns_per_s\":5.0}";
    let alone: SoloRates = serde_json::from_str(alone).expect("the old form");
    old.solo_rates = vec![alone; old.groups.len()];
    let all = [old];
    let specs: [SchedulerSpec; 1] = ["none".parse().unwrap()];
    let before: Vec<Cell<'_>> = cells(&all, &specs);
    assert!(before[0].entitlement.is_none() && before[0].fairness.is_some());
    let table = text(&Results { measurements: &all, ..example.results() }, &TextOptions::default());
    assert!(table.contains("share error") && !table.contains("isolation"), "{table}");
    // Old and new are compared by what both have.
    let mut new = all[0].clone();
    let rates = SoloRates { bytes_per_s: 1e8, full_bytes_per_s: 1e8, ..SoloRates::default() };
    (new.solo_rates, new.scheduler.has_shares) = (vec![rates; new.groups.len()], true);
    let mut had = all[0].clone();
    had.scheduler.has_shares = true;
    let (had, new) = ([had], [new]);
    let names = |old: &[Measurement], new: &[Measurement]| {
        let changes = hoistway_report::compare::changes(&cells(old, &specs), &cells(new, &specs));
        changes.iter().map(|change| change.name()).filter(|name| !name.starts_with("lat_")).collect::<Vec<_>>()
    };
    assert_eq!(names(&had, &new), ["total_bw", "share_error_max"]);
    assert_eq!(names(&new, &new), ["total_bw", "isolation"]);
}
