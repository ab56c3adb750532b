//! Every shipped scenario, step by step: all of it is accepted, and all of it runs.

#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use program::hoistway;

/// Names of the scenarios with the names of their steps.
fn shipped() -> Vec<(String, Vec<String>)> {
    let directory = tempfile::tempdir().expect("a directory");
    let said = hoistway(directory.path(), &["list", "scenarios", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).expect("one JSON document");
    let name = |value: &serde_json::Value| value["name"].as_str().expect("a name").to_owned();
    let rows = list.as_array().expect("a list");
    rows.iter().map(|row| (name(row), row["steps"].as_array().expect("steps").iter().map(name).collect())).collect()
}

/// Asserts that every part of a scenario, and the scenario as a whole, is accepted.
fn is_accepted(scenario: &str) {
    let all = shipped();
    let (_, parts) = all.iter().find(|(name, _)| name == scenario).expect("a shipped scenario");
    let directory = tempfile::tempdir().expect("a directory");
    for name in parts.iter().map(|part| format!("{scenario}:{part}")).chain([scenario.to_owned()]) {
        let said = hoistway(directory.path(), &["test", "--quiet", "--scenario", &name, "--dry-run"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}");
        assert!(said.stdout.lines().count() > 10, "{name}: {}", said.stdout);
    }
}

/// Asserts that every step of a scenario is accepted with its own schedulers, and that every step
/// runs briefly.
fn is_sound(scenario: &str) {
    if ["everyday", "isolation"].contains(&scenario) {
        // Their results are tested in `everyday.rs` and `isolation.rs`.
        return is_accepted(scenario);
    }
    let all = shipped();
    let (_, steps) = all.iter().find(|(name, _)| name == scenario).expect("a shipped scenario");
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["test", "--quiet", "--no-store", "--progress", "none", "--scenario", scenario, "--sets", "1"];
    let said = hoistway(directory.path(), &[&arguments[..], &["--dry-run"]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{scenario}");
    let moment = ["--runtime", "50ms", "--ramp", "0", "-s", "bfq"];
    let said = hoistway(directory.path(), &[&arguments[..], &moment[..]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{scenario}");
    // A scenario with a single step has no headings.
    for step in steps.iter().filter(|_| steps.len() > 1) {
        assert!(said.stdout.lines().any(|line| line.starts_with(&format!("{step}: "))), "{scenario}:{step}");
    }
    let rows = said.stdout.lines().filter(|line| line.starts_with("bfq ")).count();
    assert!(rows >= steps.len(), "{scenario}: {rows} rows of {} steps", steps.len());
}

macro_rules! sound {
    ($($test:ident: $scenario:literal;)*) => {
        $(#[test]
        fn $test() {
            is_sound($scenario);
        })*

        #[test]
        fn all_shipped_ones_are_here() {
            let shipped = shipped();
            assert!(shipped.iter().map(|(name, _)| name.as_str()).eq([$($scenario),*]), "{shipped:?}");
        }
    };
}

sound! {
    cgroups_2008: "cgroups-2008";
    dbench_2019: "dbench-2019";
    everyday: "everyday";
    four_groups_2016: "four-groups-2016";
    groups_2010: "groups-2010";
    idling_2016: "idling-2016";
    isolation: "isolation";
    readers_2010: "readers-2010";
    s_bandwidth_latency: "s-bandwidth-latency";
    s_copy: "s-copy";
    s_equal_weights: "s-equal-weights";
    s_fairness: "s-fairness";
    s_interleaved: "s-interleaved";
    s_kernel_development: "s-kernel-development";
    s_latency: "s-latency";
    s_startup: "s-startup";
    s_throughput: "s-throughput";
    s_video: "s-video";
    shares: "shares";
    write_bomb: "write-bomb";
    write_bomb_direct: "write-bomb-direct";
}

/// The replay ends by itself, and its figure is its duration: 718 reads on an idle SSD take about
/// 0.1 s.
#[test]
fn a_start_up_ends_and_its_time_is_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let step = "s-startup:ssd-idle-xterm";
    let said = hoistway(directory.path(), &["test", "--quiet", "--no-store", "--scenario", step]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let mut lines = said.stdout.lines();
    assert_eq!(lines.next().map(|line| line.split_whitespace().collect::<Vec<_>>()), Some(vec!["sched", "time(app)"]));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    let schedulers: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(schedulers, ["bfq", "mq-deadline", "kyber", "none"]);
    for row in &rows {
        let time_ms: f64 = row[1].strip_suffix("ms").expect("milliseconds").parse().expect("a number");
        assert!((20.0..500.0).contains(&time_ms), "{row:?}");
    }
}

/// Groups that exist only in reports have no weights, and a figure of an unknown group is refused.
#[test]
fn figures_are_of_groups_that_there_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let base = ["test", "model:null", "--quiet", "--no-store", "--runtime", "50ms", "-s", "bfq", "-w", "drr"];
    let groups = ["--group", "name=a,cgroup=root,weight=100", "--group", "name=b,cgroup=root,weight=900"];
    let figures =
        |list: &'static str| hoistway(directory.path(), &[&base[..], &groups[..], &["--figures", list]].concat());
    let said = figures("iops(a),iops(b)");
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let row: Vec<&str> = said.stdout.lines().nth(1).expect("a row").split_whitespace().collect();
    let [a, b] = [row[1], row[2]].map(|count| count.parse::<f64>().expect("a number"));
    assert!(a > 0.0 && (b / a - 1.0).abs() < 0.1, "{row:?}");
    let said = figures("iops(c)");
    assert!(said.code == 2 && said.stderr.contains("there is no group 'c'"), "{}", said.stderr);
    let said = figures("lat_mx(a)");
    assert!(said.code == 2 && said.stderr.contains("did you mean 'lat_max'"), "{}", said.stderr);
}
