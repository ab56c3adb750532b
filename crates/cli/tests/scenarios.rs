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
    bonnie_2003: "bonnie-2003";
    cgroups_2008: "cgroups-2008";
    contest_2003: "contest-2003";
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

/// The report of 2008 has I/O counts with per cent, and single runs in its appendix.
#[test]
fn counts_have_per_cent_and_each_repetition_its_row() {
    let directory = tempfile::tempdir().expect("a directory");
    let step = ["test", "--quiet", "--no-store", "--scenario", "cgroups-2008:r-native", "--runtime", "2s"];
    let more = ["--sets", "2", "--per-set", "--rates", "kib"];
    let figures = ["--figures", "ios(high),ios_share(high),ios_share(middle),ios_share(low),bw(high)"];
    let said = hoistway(directory.path(), &[&step[..], &more[..], &figures[..]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = said.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].last(), Some(&"KiB/s"), "{}", said.stdout);
    assert_eq!(rows[1..].iter().map(|row| row[1]).collect::<Vec<_>>(), ["1", "2", "all"], "{}", said.stdout);
    let number = |text: &str| text.trim_end_matches('%').parse::<f64>().expect("a number");
    for row in &rows[1..] {
        assert!((row[3..6].iter().map(|part| number(part)).sum::<f64>() - 100.0).abs() < 0.05, "{row:?}");
        // 4 KiB each, in two seconds.
        assert!((number(row[6]) - number(row[2]) * 2.0).abs() <= 2.0, "{row:?}");
    }
    let counts: Vec<f64> = rows[1..].iter().map(|row| number(row[2])).collect();
    assert!(counts[0] != counts[1] && (counts[2] - (counts[0] + counts[1]) / 2.0).abs() <= 1.0, "{counts:?}");
}

/// Each phase has its rate and the processor time that the model charges for it.
#[test]
fn bonnie_has_its_own_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let test = ["test", "model:ide2003", "--machine", "era=2.4,memory_mib=128", "-w", "bonnie:size=256m"];
    let said = hoistway(
        directory.path(),
        &[&test[..], &["-s", "linus", "--no-store", "--quiet", "--format", "bonnie"]].concat(),
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let row: Vec<&str> = said.stdout.lines().nth(3).expect("a row").split_whitespace().collect();
    assert_eq!(row[..2], ["linus", "256M"], "{}", said.stdout);
    let figures: Vec<f64> = row[2..].iter().map(|text| text.parse().expect("a number")).collect();
    let [write, write_used, rewrite, rewrite_used, read, read_used] = figures[..] else { panic!("{row:?}") };
    // The disk's rows are 34 to 35 MB/s; rewriting reads and writes each byte.
    assert!((20_000.0..40_000.0).contains(&write) && (20_000.0..40_000.0).contains(&read), "{row:?}");
    assert!((5_000.0..20_000.0).contains(&rewrite), "{row:?}");
    assert!([write_used, rewrite_used, read_used].iter().all(|used| (1.0..50.0).contains(used)), "{row:?}");
}

/// A device of 2.7 million requests a second waits for a single process, which a line says.
#[test]
fn a_line_tells_when_the_processes_were_the_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let under = |threads: &str, device: &str| {
        let test =
            ["test", device, "-w", "randread:bs=4k,iodepth=256", "-s", "none", "--runtime", "20ms", "--ramp", "5ms"];
        let said = hoistway(directory.path(), &[&test[..], &["--threads", threads, "--no-store", "--quiet"]].concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        said.stdout.contains("they were the limit, not the device")
    };
    assert!(under("1", "model:nvme-tcp"), "666,667 requests a second at 1.5 us each");
    assert!(!under("8", "model:nvme-tcp") && !under("1", "model:ssd"), "the device is the limit");
}
