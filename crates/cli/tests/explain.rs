//! `test --explain` and `--format figure`: the attainable rates, and the cost of shares.

#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use program::hoistway;

const SHALLOW: &str =
    "test model:ssd-lsi --weights 60,20 -w drr:bs=4k,iodepth=4 --runtime 300ms --ramp 500ms --no-store --quiet";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn an_unattainable_share_is_explained() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [words(SHALLOW), words("-s none -s paternoster:give=100 --format explain")].concat();
    let result = hoistway(directory.path(), &arguments);
    assert_eq!(result.code, 0, "{}", result.stderr);
    let blocks: Vec<&str> = result.stdout.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "a block for each scheduler: {}", result.stdout);
    // With weights 60 and 20 and 4 requests outstanding each, shares are exact with at most 4 /
    // 0.75 = 5.3 in flight, less those that the host is handling.
    assert!(result.stdout.contains("(N*)") && result.stdout.contains("would cost"), "{}", result.stdout);
    // Without weights both keep four in flight, which is nearly the attainable result here.
    assert!(blocks[0].contains("all its 4 requests are in flight at once"), "{}", blocks[0]);
    assert!(blocks[1].contains("exact shares at any cost"), "{}", blocks[1]);
    assert!(blocks[1].lines().filter(|line| line.contains("and it got that")).count() == 2, "{}", blocks[1]);
}

#[test]
fn explain_states_that_a_scheduler_ignores_weights() {
    let directory = tempfile::tempdir().expect("a directory");
    let deep = SHALLOW.replace("iodepth=4", "iodepth=24");
    let result = hoistway(directory.path(), &[words(&deep), words("-s none --format explain")].concat());
    assert_eq!(result.code, 0, "{}", result.stderr);
    assert!(result.stdout.contains("this scheduler ignores weights"), "{}", result.stdout);
}

#[test]
fn where_nothing_can_be_said_that_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let mixed = "test model:ssd --no-store --quiet -s none --runtime 100ms --ramp 0 --explain \
        --group name=a,weight=100,workload=drr:bs=4k --group name=b,weight=100,workload=drr:bs=64k";
    let result = hoistway(directory.path(), &words(mixed));
    assert_eq!(result.code, 0, "{}", result.stderr);
    assert!(
        result.stdout.contains("the attainable rates are not known: the groups issue different kinds"),
        "{}",
        result.stdout
    );
}

#[test]
fn the_figure_is_written_and_give_is_a_curve() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        words(SHALLOW),
        words(
            "-s none -s wfq -s paternoster:give=0 -s paternoster:give=30 -s paternoster:give=100 --format figure=f.svg",
        ),
    ]
    .concat();
    let result = hoistway(directory.path(), &arguments);
    assert_eq!(result.code, 0, "{}", result.stderr);
    let svg = std::fs::read_to_string(directory.path().join("f.svg")).expect("the figure");
    assert!(svg.contains("<title>paternoster 30: ") && svg.contains("curve"), "{svg}");
    assert!(svg.contains("3 values"));
}

#[test]
fn one_group_has_no_share_to_draw() {
    let directory = tempfile::tempdir().expect("a directory");
    let one = "test model:ssd --no-store --quiet -s none --runtime 100ms --ramp 0 --group name=a,workload=drr --format figure=f.svg";
    let result = hoistway(directory.path(), &words(one));
    assert_ne!(result.code, 0);
    assert!(result.stderr.contains("no run has two groups"), "{}", result.stderr);
}

/// The device takes 16,368 requests in 16 queues; the groups ask for 16.
#[test]
fn a_device_of_many_queues_has_attainable_rates() {
    let directory = tempfile::tempdir().expect("a directory");
    let load =
        "test model:nvme --weights 100,800 -w drr:iodepth=8 --runtime 20ms --ramp 10ms --no-store -s paternoster";
    let result = hoistway(directory.path(), &words(&format!("{load} --explain")));
    assert_eq!(result.code, 0, "{}", result.stderr);
    assert!(result.stdout.contains("requests in flight (N*)"), "{}", result.stdout);
    assert!(!result.stdout.contains("not known"), "{}", result.stdout);
    let isolation = result.stdout.lines().find(|line| line.starts_with("  isolation ") && line.contains("cgrp2 got "));
    assert!(isolation.is_some(), "{}", result.stdout);
    // The advice is one that can be typed, and is not given where the shares are exact.
    let equal = hoistway(directory.path(), &words(&load.replace("paternoster", "paternoster:give=0")));
    assert!(equal.stderr.contains("queue of 16368") && !equal.stderr.contains("iodepth=16384"), "{}", equal.stderr);
    let exact = hoistway(directory.path(), &words(&load.replace("paternoster", "paternoster:give=100 -s mqfq")));
    assert!(!exact.stderr.contains("the device's queue"), "{} {}", exact.stdout, exact.stderr);
}

/// The rates that the groups of a test are entitled to, in MiB/s, by scheduler; and the whole output.
fn entitled(options: &str) -> (Vec<f64>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let result = hoistway(
        directory.path(),
        &[words("test model:ssd -s none --runtime 300ms --no-store --quiet"), words(options)].concat(),
    );
    assert_eq!(result.code, 0, "{}", result.stderr);
    let row =
        result.stdout.lines().find(|line| line.starts_with("entitled")).unwrap_or_else(|| panic!("{}", result.stdout));
    (words(row)[2..].iter().map(|rate| rate.parse().expect("a rate")).collect(), result.stdout)
}

#[test]
fn a_tenant_is_entitled_to_what_it_achieves_without_the_limiter_but_not_beyond_its_own_limit() {
    let pair = "--weights 100,400 -w randread:bs=4k,iodepth=32";
    let (free, _) = entitled(pair);
    // io.cost's model lets this device do a quarter of what it can; that is not what the tenants can claim.
    let (modelled, table) = entitled(&format!("--limiter io.cost {pair}"));
    assert!(free.iter().zip(&modelled).all(|(a, b)| (a - b).abs() < 0.01 * a), "{free:?} {modelled:?}");
    let isolation = table
        .lines()
        .find(|line| line.starts_with("none"))
        .map(words)
        .and_then(|row| row[6].strip_suffix('%')?.parse::<f64>().ok());
    assert!(isolation.is_some_and(|percent| percent < 40.0), "{table}");
    let capped =
        "--group name=a,rbps=20M,workload=randread:bs=4k,iodepth=32 --group name=b,workload=randread:bs=4k,iodepth=32";
    for limiter in ["", "--limiter rate ", "--limiter throttle "] {
        let (rates, table) = entitled(&format!("{limiter}{capped}"));
        assert!((rates[0] - 20.0).abs() < 0.5 && rates[1] > 140.0, "{limiter}: {table}");
    }
}

/// README's first example: bfq gives each group its entitlement, so no note and no explanation may say otherwise.
#[test]
fn notes_and_explanations_do_not_contradict_the_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = words(
        "test model:nvme --runtime 300ms -s none -s bfq -s paternoster --group name=db,weight=800,workload=randread:bs=4k,iodepth=128 \
         --group name=batch,weight=100,workload=randread:bs=4k,iodepth=512 --explain --no-store --progress none",
    );
    let result = hoistway(directory.path(), &arguments);
    assert_eq!(result.code, 0, "{}", result.stderr);
    assert!(!result.stderr.contains("nothing to divide"), "{}", result.stderr);
    let (_, bfq) = result.stdout.split_once("randread bfq nr=1").expect("a block");
    let (bfq, paternoster) = bfq.split_once("randread paternoster nr=1").expect("a block");
    for block in [bfq, paternoster] {
        assert!(!block.contains("others more") && !block.contains("others less"), "{block}");
    }
    // The rates are in the unit of the table.
    assert!(!result.stdout.contains("MB/s"), "{}", result.stdout);
}
