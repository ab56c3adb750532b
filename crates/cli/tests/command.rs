//! The program as users run it. Case numbers are those of docs/specifications/harness.md,
//! section 13.

mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use program::{command, entries, hoistway};
use serde_json::Value;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON document")
}

/// A short test on the simulator, as JSON.
fn quick(directory: &Path, more: &[&str]) -> Value {
    let mut arguments = vec!["test", "--quiet", "--no-store", "--runtime", "200ms", "--ramp", "0", "--format", "json"];
    arguments.extend(more);
    let said = hoistway(directory, &arguments);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{arguments:?}");
    json(&said.stdout)
}

fn column<'a>(result: &'a Value, key: &str) -> Vec<&'a Value> {
    result["cells"].as_array().expect("cells").iter().map(|cell| &cell[key]).collect()
}

#[test]
fn case_1_without_arguments_four_schedulers_are_shown_and_a_result_is_stored() {
    let directory = directory();
    let said = hoistway(directory.path(), &["test"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rows = said.stdout.lines().skip_while(|line| !line.starts_with("sched")).skip(1);
    let rows: Vec<&str> = rows.take_while(|line| !line.starts_with(' ')).map(first_word).collect();
    assert_eq!(rows, ["entitled", "none", "mq-deadline", "bfq", "paternoster"], "{}", said.stdout);
    assert!(said.stdout.contains("weight 100:200:300:400") && said.stdout.contains("model:sata"), "{}", said.stdout);
    // Not into the directory where the user stands.
    assert_eq!(entries(directory.path()), ["state"]);
    let state = directory.path().join("state/hoistway");
    let stored = entries(&state);
    assert!(stored.len() == 1 && stored[0].starts_with("hoistway-test-20"), "{stored:?}");
    let stored = state.join(&stored[0]);
    assert!(said.stderr.contains(&format!("results are in {}", stored.display())), "{}", said.stderr);
    let files = ["env.json", "journal.jsonl", "plan.json", "report.html", "report.txt", "result.json", "runs"];
    assert_eq!(entries(&stored), files);
    assert_eq!(entries(&stored.join("runs/read/bfq/nr1")), ["set1.json", "set1.samples.csv"]);
    assert_eq!(fs::read_to_string(stored.join("report.txt")).unwrap(), said.stdout);
}

#[test]
fn help_of_a_subcommand_is_found_by_either_word() {
    let directory = directory();
    for words in [&["test"][..], &["ctl", "limit"], &[]] {
        let before = hoistway(directory.path(), &[&["help"], words].concat());
        let behind = hoistway(directory.path(), &[words, &["--help"]].concat());
        assert_eq!((before.code, &before.stdout), (0, &behind.stdout), "{}", before.stderr);
        assert!(before.stdout.contains("Usage: hoistway"), "{}", before.stdout);
    }
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or("")
}

/// The load of the first run is one in which weights act: schedulers that support weights keep
/// them, the others are far from them.
#[test]
fn case_1_without_arguments_weights_have_an_effect_and_no_warning_is_printed() {
    let directory = directory();
    let said = hoistway(directory.path(), &["test", "--no-store", "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!said.stderr.contains("weights cannot act"), "{}", said.stderr);
    let result = json(&said.stdout);
    let cells = result["cells"].as_array().expect("cells");
    let error = |scheduler: &str| {
        let cell = cells.iter().find(|cell| cell["sched"] == scheduler).expect("a cell");
        cell["share_error_max"].as_f64().expect("an error")
    };
    assert!(["bfq", "paternoster"].iter().all(|scheduler| error(scheduler) < 0.1), "{}", said.stdout);
    assert!(["none", "mq-deadline"].iter().all(|scheduler| error(scheduler) > 0.5), "{}", said.stdout);
}

#[test]
fn all_is_every_scheduler_there_is() {
    let directory = directory();
    let every = quick(directory.path(), &["-s", "all", "model:null"]);
    let count = column(&every, "sched").len();
    let mut named: Vec<&str> = column(&every, "sched").into_iter().filter_map(Value::as_str).collect();
    named.sort_unstable();
    named.dedup();
    assert!(named.len() == count && count > 15 && ["noop", "cfq", "kyber"].iter().all(|name| named.contains(name)));
    let twice = hoistway(directory.path(), &["test", "-s", "all", "-s", "bfq"]);
    assert!(twice.code == 2 && twice.stderr.contains("scheduler 'bfq' is given twice"), "{}", twice.stderr);
}

#[test]
fn case_1_the_same_seed_gives_the_same_bytes_but_for_start_and_environment() {
    let directory = directory();
    let run = |seed: &str, more: &[&str]| {
        let arguments = ["test", "model:ssd", "--quiet", "--no-store", "--format", "json", "--runtime", "500ms", "-c"];
        let said = hoistway(directory.path(), &[&arguments[..], &["--sets", "3", "--seed", seed], more].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let begin = said.stdout.find("\"started\"").expect("a start");
        let started_end = begin + said.stdout[begin..].find('\n').expect("a line");
        let environment = said.stdout.find("\"environment\"").expect("an environment");
        let environment_end = environment + said.stdout[environment..].find('}').expect("its end");
        format!(
            "{}{}{}",
            &said.stdout[..begin],
            &said.stdout[started_end..environment],
            &said.stdout[environment_end..]
        )
    };
    let first = run("7", &[]);
    assert!(first == run("7", &["--workers", "1"]), "one worker");
    assert!(first == run("7", &["--workers", "2"]), "two workers");
    assert!(first != run("8", &[]), "another seed");
}

#[test]
fn workers_are_for_the_simulator() {
    let directory = directory();
    let said = hoistway(directory.path(), &["test", "--host", "engine", "model:ssd", "--workers", "2"]);
    assert!(said.code == 2 && said.stderr.contains("2 real runs at a time"), "{}", said.stderr);
    let said = hoistway(directory.path(), &["test", "model:ssd", "--workers", "0"]);
    assert!(said.code == 2 && said.stderr.contains("--workers"), "{}", said.stderr);
}

#[test]
fn case_2_thread_counts_double_or_are_listed() {
    let directory = directory();
    let counts = |more: &[&str]| {
        let result = quick(directory.path(), &[&["model:ssd", "-s", "noop"], more].concat());
        column(&result, "nr").into_iter().map(|nr| nr.as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(counts(&["-m", "8"]), [1, 2, 4, 8]);
    assert_eq!(counts(&["-m", "6"]), [1, 2, 4, 6]);
    assert_eq!(counts(&["--threads", "3,6"]), [3, 6]);
}

#[test]
fn case_3_the_case_of_a_code_does_not_count() {
    let directory = directory();
    let result = quick(directory.path(), &["model:ssd", "-w", "BSR", "-s", "noop"]);
    assert_eq!(column(&result, "workload"), ["bsr"]);
}

#[test]
fn case_4_the_command_line_of_iostest_is_understood() {
    let directory = directory();
    let arguments =
        ["test", "model:sata", "-G", "-w", "bsr", "-m", "8", "-c", "--nrgrp", "8", "--total", "-I", "0", "--dry-run"];
    let arguments = [&arguments[..], &["-s", "all"]].concat();
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("8 groups: cgrp1 100,") && said.stdout.contains("cgrp8 800\n"), "{}", said.stdout);
    assert!(said.stdout.contains("threads per group: 1, 2, 4, 8\n"), "{}", said.stdout);
    // cfq has slice_idle; it had group_isolation until 2.6.37. A setting without effect is
    // reported.
    assert!(said.stdout.contains("cfq:slice_idle=0") && !said.stderr.contains("--slice-idle"), "{}", said.stdout);
    assert!(said.stderr.contains("-G has no effect"), "{}", said.stderr);
    let old = hoistway(directory.path(), &[&arguments[..], &["-s", "cfq@2.6.36"]].concat());
    assert!(old.stdout.contains("group_isolation=1") && !old.stderr.contains("no effect"), "{}", old.stderr);
    assert_eq!(entries(directory.path()).len(), 0, "a dry run leaves nothing");
}

/// The report's own spelling, without a scheduler: CFQ of that kernel, the table with totals, and
/// the same table from the stored result.
#[test]
fn the_command_line_of_iostest_tests_cfq_of_its_kernel() {
    let directory = directory();
    let spelled = ["test", "model:sata", "-G", "-w", "bsr", "-m", "2", "-c", "--nrgrp", "2", "--total", "-I", "0"];
    let said = hoistway(directory.path(), &[&spelled[..], &["--runtime", "1s", "-o", "r", "--quiet"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!said.stderr.contains("no effect"), "{}", said.stderr);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].ends_with(" Kernel=2.6(simulated)"), "{}", said.stdout);
    assert!(
        said.stdout.contains("Workload=bsr iosched=cfq ") && said.stdout.contains("\ngroup_isolation=1 slice_idle=0 ")
    );
    assert!(lines.contains(&"job Set NR   cgrp1   cgrp2   total"), "{}", said.stdout);
    assert_eq!(hoistway(directory.path(), &["test", "-R", "r"]).stdout, said.stdout);
}

/// One process keeps 256 reads in flight on a device that answers at once: its processor is busy, the
/// other one is not. At depth 1 it mostly waits for the device.
#[test]
fn the_table_says_when_the_processors_were_the_limit() {
    let directory = directory();
    let line = |iodepth: u32, latency_us: u32| {
        let target = format!("model:null,latency_us={latency_us},queue_depth=1024");
        let workload = format!("randread:bs=4k,iodepth={iodepth}");
        let test = ["test", &target, "-w", &workload, "-s", "none", "--machine", "contention=1,cpus=2", "--quiet"];
        let said = hoistway(directory.path(), &[&test[..], &["--runtime", "50ms", "--no-store"]].concat());
        said.stdout.lines().find(|line| line.starts_with("processors: ")).expect("the line").to_owned()
    };
    assert!(line(256, 10).ends_with("% busy: they were the limit, not the device"), "{}", line(256, 10));
    assert!(line(1, 100).ends_with("% busy"), "{}", line(1, 100));
}

#[test]
fn case_5_the_classic_table_has_its_layout_and_its_chatter() {
    let directory = directory();
    let arguments =
        ["test", "-c", "-w", "drr", "-s", "noop", "--no-store", "--format", "classic", "--total", "--runtime", "5s"];
    let said = hoistway(directory.path(), &arguments);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let header = lines.iter().position(|line| line.starts_with("job Set NR")).expect("a header");
    assert_eq!(lines[header], "job Set NR   cgrp1   cgrp2   cgrp3   cgrp4   total");
    assert_eq!(lines[header + 1], format!("--- --- -- {}", "-".repeat(35)));
    assert!(lines[header + 2].starts_with("drr   1  1 "), "{}", lines[header + 2]);
    assert!(
        said.stderr.contains("Starting test for [drr] with set=1 numjobs=1 filesz=- bs=32k runtime=5\n"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("Finished test for workload [drr]\n"), "{}", said.stderr);
}

#[test]
fn case_9_one_set_has_no_interval_and_three_have_one() {
    let directory = directory();
    let interval = |sets: &str| {
        let result = quick(directory.path(), &["model:sata", "-s", "noop", "--sets", sets]);
        result["cells"][0]["total"]["bw_bytes"]["ci95"].clone()
    };
    assert_eq!(interval("1"), Value::Null);
    assert!(interval("3").as_f64().expect("a number") > 0.0);
}

/// Two groups that keep an SSD busy: only wfq can hold shares.
const BUSY: [&str; 8] = ["test", "model:ssd", "-w", "drr:iodepth=64", "--weights", "100,300", "--runtime", "500ms"];
/// The same without the options that `quick` adds.
const BUSY_QUICK: [&str; 5] = ["model:ssd", "-w", "drr:iodepth=64", "--weights", "100,300"];

#[test]
fn case_10_assertions_decide_the_exit_code() {
    let directory = directory();
    let code = |assertion: &str| {
        let more = ["-s", "wfq", "-s", "noop", "--no-store", "--quiet", "--assert", assertion];
        let said = hoistway(directory.path(), &[&BUSY[..], &more].concat());
        (said.code, said.stderr)
    };
    assert_eq!(code("share_error_max<=5%@sched=wfq").0, 0);
    assert_eq!(code("share_error_max<=5%@sched=noop").0, 4);
    assert_eq!(code("total_bw >= 0.95*total_bw@sched=noop").0, 0);
    let (exit, message) = code("jain >= 0@sched=typo");
    assert!(exit == 2 && message.contains("no run matches sched=typo"), "{message}");
    let (exit, message) = code("total_bw>=");
    assert!(exit == 2 && message.contains("total_bw>=\n            ^"), "{message}");
}

#[test]
fn weights_hold_where_the_device_is_the_bottleneck() {
    let directory = directory();
    let result = quick(directory.path(), &[&BUSY_QUICK[..], &["-s", "wfq"]].concat());
    let share = |group: usize| result["cells"][0]["groups"][group]["share"].as_f64().unwrap();
    assert!((share(0) - 0.25).abs() < 0.01 && (share(1) - 0.75).abs() < 0.01, "{} {}", share(0), share(1));
}

#[test]
fn case_11_an_interrupted_test_is_stored_and_resumed() {
    let directory = directory();
    let test =
        ["test", "model:ssd", "-w", "drr:iodepth=32", "-s", "noop", "-s", "wfq", "--sets", "5", "--runtime", "60s"];
    let mut child = command(directory.path(), &[&test[..], &["-o", "result"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let third = lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line.contains("[ 3/10]")));
    assert!(third.is_some(), "the third run was never finished");
    let interrupted =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    lines.for_each(drop);
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    let stored =
        |key: &str| json(&fs::read_to_string(directory.path().join("result/result.json")).unwrap())[key].clone();
    assert_eq!(stored("complete"), Value::Bool(false));
    let journal = || fs::read_to_string(directory.path().join("result/journal.jsonl")).unwrap().lines().count() - 1;
    // There are two workers, so a run that was concurrent with the third may have finished as well.
    let done = journal();
    assert!((3..10).contains(&done), "{done}");
    let said = hoistway(directory.path(), &[&test[..], &["--resume", "result"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let made_now = said.stderr.lines().filter(|line| line.starts_with('[')).count();
    assert_eq!((done + made_now, journal()), (10, 10));
    assert_eq!(stored("complete"), Value::Bool(true));
    let other = hoistway(directory.path(), &[&test[..], &["--seed", "2", "--resume", "result"]].concat());
    assert!(other.code == 2 && other.stderr.contains("belongs to another plan"), "{}", other.stderr);
}

/// An assertion within the noise neither holds nor fails: exit 5, and the table says so.
#[test]
fn case_10_an_assertion_within_the_noise_is_inconclusive() {
    let directory = directory();
    let usual = ["test", "-w", "drr", "-s", "noop", "--runtime", "1s", "--no-store", "--quiet"];
    let run = |more: &[&str]| hoistway(directory.path(), &[&usual[..], more].concat());
    let measured = json(&run(&["--sets", "3", "--format", "json"]).stdout);
    let total = &measured["cells"][0]["total"]["bw_bytes"];
    let [mean, ci95] = ["mean", "ci95"].map(|key| total[key].as_f64().expect("a figure"));
    assert!(ci95 > 0.002 * mean, "a disk has noise: {total}");
    let asserted = |limit: f64, precision: &str| {
        let assertion = format!("total_bw >= {limit:.0}");
        run(&["--sets", "3", "--max-sets", "3", "--precision", precision, "--assert", &assertion])
    };
    let near = asserted(mean - ci95 / 2.0, "0.1%");
    assert_eq!(near.code, 5, "{}{}", near.stdout, near.stderr);
    assert!(near.stdout.contains("INCONCLUSIVE: total_bw >="), "{}", near.stdout);
    assert_eq!(asserted(mean - ci95 / 2.0, "90%").code, 0, "precise enough for a lower limit");
    assert_eq!((asserted(mean / 2.0, "0.1%").code, asserted(mean * 2.0, "0.1%").code), (0, 4));
}

#[test]
fn case_12_equal_results_compare_as_equal() {
    let directory = directory();
    for name in ["a", "b"] {
        let more = ["-s", "wfq", "--sets", "3", "--quiet", "-o", name];
        assert_eq!(hoistway(directory.path(), &[&BUSY[..], &more].concat()).code, 0);
    }
    let said = hoistway(directory.path(), &["test", "compare", "a", "b", "--max-regression", "5%"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rows: Vec<&str> = said.stdout.lines().skip(1).collect();
    // Throughput, p99 of each of two groups, share error.
    assert!(rows.len() == 4 && rows.iter().all(|row| row.trim_end().ends_with('~')), "{}", said.stdout);
}

#[test]
fn case_12_a_regression_beyond_the_limit_is_exit_4() {
    let directory = directory();
    for (name, channels) in [("a", "model:ssd,channels=4"), ("b", "model:ssd,channels=3")] {
        let arguments =
            ["test", channels, "-w", "drr:iodepth=64,bs=4k", "-s", "noop", "--sets", "3", "--runtime", "200ms"];
        assert_eq!(hoistway(directory.path(), &[&arguments[..], &["--quiet", "-o", name]].concat()).code, 0);
    }
    let compare =
        |old, new| hoistway(directory.path(), &["test", "compare", old, new, "--max-regression", "5%@total_bw"]);
    assert_eq!(compare("a", "b").code, 4);
    assert_eq!(compare("b", "a").code, 0);
}

#[test]
fn case_13_the_page_is_one_file_with_plots_and_nothing_from_outside() {
    let directory = directory();
    let said =
        hoistway(directory.path(), &[&BUSY[..], &["--no-store", "--quiet", "--format", "html=page.html"]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{}", said.stderr);
    let page = fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(
        page.contains("<svg") && !page.contains("<script") && !page.contains("http://www.w3.org/1999"),
        "svg inline"
    );
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http") && !page.contains("@import"));
    assert_eq!(entries(directory.path()), ["page.html"]);
}

#[test]
fn a_stored_result_is_printed_again_byte_for_byte() {
    let directory = directory();
    let first = hoistway(directory.path(), &[&BUSY[..], &["--quiet", "-o", "result"]].concat());
    let again = hoistway(directory.path(), &["test", "report", "result"]);
    assert_eq!(first.stdout, again.stdout);
    let classic = hoistway(directory.path(), &["test", "-R", "result", "--format", "classic"]);
    assert!(classic.stdout.contains("AVERAGE[drr:iodepth=64] [bw in KB/s]"), "{}", classic.stdout);
}

#[test]
fn formats_go_where_they_are_sent() {
    let directory = directory();
    let formats = ["--format", "text", "--format", "json=r.json", "--format", "csv=r.csv", "--format", "markdown=r.md"];
    let said = hoistway(directory.path(), &[&BUSY[..], &["--no-store", "--quiet"], &formats].concat());
    assert!(said.stdout.starts_with("drr:iodepth=64 "), "{}", said.stdout);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(json(&read("r.json"))["complete"], Value::Bool(true));
    assert!(read("r.csv").starts_with("run_id,") && read("r.md").starts_with("**drr"));
}

#[test]
fn groups_may_differ_and_a_sweep_makes_variants() {
    let directory = directory();
    let groups =
        ["--group", "name=a,weight=300,workload=drr:bs=4k,iodepth=32", "--group", "name=b,workload=dsw:iodepth=32"];
    let result = quick(
        directory.path(),
        &[&["model:ssd", "-s", "mq-deadline", "-s", "noop", "--sweep", "fifo_batch=1,16"], &groups[..]].concat(),
    );
    assert_eq!(column(&result, "spec"), ["mq-deadline:fifo_batch=1", "mq-deadline:fifo_batch=16", "noop"]);
    let names: Vec<&Value> = result["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(result["cells"][0]["groups"][1]["lat_ns"]["write"]["n"].as_u64().unwrap() > 0);
}

#[test]
fn a_job_file_brings_its_groups_and_its_times() {
    let directory = directory();
    let file = "[global]\ndirect=1\nioengine=libaio\niodepth=32\nrw=randread\ntime_based\nruntime=500ms\nsize=64m\n\
                [db]\ncgroup=db\ncgroup_weight=300\n[log]\ncgroup=log\n";
    fs::write(directory.path().join("two.fio"), file).unwrap();
    let arguments = ["test", "model:ssd", "-w", "two.fio", "-s", "wfq", "--no-store", "--quiet", "--format", "json"];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let result = json(&said.stdout);
    assert_eq!(column(&result, "workload"), ["two"]);
    let share = result["cells"][0]["groups"][0]["share"].as_f64().unwrap();
    assert!((share - 0.75).abs() < 0.02, "{share}");
    let shown = hoistway(directory.path(), &["test", "--show-jobs", "two.fio"]);
    assert!(
        shown.code == 0 && shown.stdout.contains("[db]\n") && shown.stdout.contains("cgroup_weight=300"),
        "{}",
        shown.stdout
    );
    fs::write(directory.path().join("again.fio"), &shown.stdout).unwrap();
    assert_eq!(hoistway(directory.path(), &["test", "--show-jobs", "again.fio"]).stdout, shown.stdout);
}

#[test]
fn more_sets_are_made_until_the_figures_are_precise() {
    let directory = directory();
    let runs = |precision: &str| {
        let more = ["model:sata", "-s", "noop", "--max-sets", "6", "--precision", precision];
        column(&quick(directory.path(), &more), "sets")[0].as_u64().unwrap()
    };
    assert_eq!(runs("50%"), 2);
    let said = hoistway(
        directory.path(),
        &[
            "test",
            "model:sata",
            "-s",
            "noop",
            "--max-sets",
            "4",
            "--precision",
            "0.000001%",
            "--no-store",
            "--runtime",
            "1s",
        ],
    );
    assert!(
        said.code == 0 && said.stderr.contains("note: noisy: ") && said.stderr.contains("after 4 sets"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_scenario_runs_its_steps_and_takes_what_the_user_adds() {
    let directory = directory();
    let said = hoistway(
        directory.path(),
        &["test", "--scenario", "write-bomb", "--runtime", "2s", "--outdir", "out", "--quiet"],
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let headings = said.stdout.lines().filter(|line| line.starts_with("2.4: ") || line.starts_with("today: ")).count();
    assert_eq!((headings, said.stdout.matches("write-bomb  ").count()), (2, 2), "{}", said.stdout);
    assert_eq!(entries(&directory.path().join("out")), ["2.4", "today"]);

    // A user's own file, with a job file beside it.
    fs::create_dir(directory.path().join("mine")).unwrap();
    let step = "[[step]]\nname = \"a\"\ntest = \"model:ssd -w mine.fio -s noop -s wfq\"\n";
    fs::write(directory.path().join("mine/mine.toml"), format!("title = \"mine\"\n{step}")).unwrap();
    fs::write(
        directory.path().join("mine/mine.fio"),
        "[j]\nfilename=f\nrw=randread\nsize=1g\nruntime=1\ntime_based=1\n",
    )
    .unwrap();
    let result = quick(directory.path(), &["--scenario", "mine/mine.toml", "-s", "mq-deadline"]);
    assert_eq!(column(&result, "workload"), ["mine"]);
    assert_eq!(column(&result, "spec"), ["mq-deadline"]);
}

#[test]
fn lists_name_everything_that_can_be_asked_for() {
    let directory = directory();
    let text = |arguments: &[&str]| hoistway(directory.path(), arguments).stdout;
    let overview = text(&["list"]);
    for name in ["noop", "wfq", "none", "mq-deadline", "nvme", "sata", "drr"] {
        assert!(overview.contains(name), "{name}: {overview}");
    }
    let tunables = text(&["list", "mq-deadline"]);
    assert!(
        tunables.contains("fifo_batch") && tunables.contains("default 16") && tunables.contains("@6.1"),
        "{tunables}"
    );
    assert!(text(&["list", "devices"]).contains("t_read_us"));
    let options = json(&text(&["list", "options", "--json"]));
    let class =
        |name: &str| options.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()["class"].clone();
    assert_eq!([class("iodepth"), class("thread"), class("lockfile")], ["honoured", "no_effect", "not_yet"]);
    assert!(text(&["list", "options"]).contains("iodepth  "));
    let all = json(&text(&["list", "--json"]));
    let first = &all["schedulers"][0];
    assert_eq!(first["name"], "noop");
    let tunable = json(&text(&["list", "mq-deadline", "--json"]))["tunables"][0].clone();
    assert_eq!(
        (&tunable["name"], &tunable["unit"], &tunable["default"]),
        (&"read_expire".into(), &"ms".into(), &"500".into())
    );
}

#[test]
fn completions_and_manual_pages_are_made_from_the_definitions() {
    let directory = directory();
    let script = hoistway(directory.path(), &["completions", "bash"]).stdout;
    assert!(script.contains("--weights") && script.contains("completions"), "bash");
    assert!(hoistway(directory.path(), &["man"]).stdout.contains(".TH hoistway 1"));
    assert_eq!(hoistway(directory.path(), &["man", "."]).code, 0);
    for (page, sections) in [
        ("hoistway-ctl-set-group.1", &["EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"][..]),
        ("serve.toml.5", &["KEYS", "FILES"]),
    ] {
        let text = fs::read_to_string(directory.path().join(page)).unwrap();
        assert!(sections.iter().all(|section| text.contains(&format!(".SH {section}\n"))), "{page}");
    }
    assert!(entries(directory.path()).contains(&"hoistway-test.1".to_owned()));
}

/// Two screens of 50 lines: what a first comparison needs. `--help` has everything, by sections.
#[test]
fn the_short_help_of_test_fits_two_screens() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = |flag: &str| hoistway(directory.path(), &["test", flag]).stdout;
    let (short, long) = (said("-h"), said("--help"));
    assert!(short.lines().count() <= 100, "{} lines", short.lines().count());
    for option in ["--sched", "--group", "--scenario", "--weights", "--explain"] {
        assert!(short.contains(option), "{option}");
    }
    for option in ["--trace-format", "--max-sets", "--no-solo", "rbps=..", "Replay:", "Groups:"] {
        assert!(long.contains(option), "{option}");
    }
    assert!(!short.contains("--trace-format"), "{short}");
}

#[test]
fn help_is_no_error_and_has_examples() {
    let directory = directory();
    for subcommand in ["test", "list", "serve", "ctl", "demo", "completions", "man"] {
        let said = hoistway(directory.path(), &[subcommand, "--help"]);
        assert!(said.code == 0 && said.stdout.contains("Examples:"), "{subcommand}: {}", said.stdout);
    }
    assert_eq!(hoistway(directory.path(), &["--version"]).code, 0);
}

#[test]
fn a_scheduler_is_listed_in_the_version_asked_for() {
    let directory = directory();
    let shown = |what: &str| hoistway(directory.path(), &["list", what]).stdout;
    assert!(shown("mq-deadline@6.1").starts_with("mq-deadline@6.1\n"));
    assert!(shown("mq-deadline").starts_with("mq-deadline\n"));
}

#[test]
fn the_simulated_half_of_the_demo_shows_who_gets_what_and_writes_its_page() {
    let directory = directory();
    let said = hoistway(directory.path(), &["demo", "--no-file", "--quiet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for word in ["none", "mq-deadline", "paternoster", "database", "57.1%", "hoistway-demo.html"] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
    assert_eq!(entries(directory.path()), ["hoistway-demo.html"]);
}
