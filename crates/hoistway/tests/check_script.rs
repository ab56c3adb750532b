//! `./check`: what ran out of time is told apart from what failed, and `--again` goes on where a run stopped.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs commands with the functions of `check`, its logs below a directory; returns the exit code and the output.
fn with_functions(logs: &Path, commands: &str) -> (i32, String) {
    let script = format!("source ./check\n{commands}");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(root()).env("CARGO_TARGET_DIR", logs);
    let output = command.output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("it ends by itself"), said)
}

/// Three steps instead of the real ones, and what a run does with them.
const RUN: &str = "
step_good() { echo fine; }
step_bad() { echo 'error: broken'; false; }
step_slow() { limited 1 sleep 600 || { echo 'LATE: sleep'; return 124; }; }
sources() { echo \"$SOURCES\"; }
begin_run
for name in $STEPS; do run_step $name; done
summary
";

fn run(logs: &Path, steps: &str, sources: &str, again: &str) -> String {
    let settings = format!("SOURCES={sources} STEPS='{steps}' again={again}\n");
    with_functions(logs, &format!("{settings}{RUN}")).1
}

#[test]
fn a_step_that_fails_and_one_that_runs_out_of_time_differ() {
    let logs = tempfile::tempdir().expect("a directory");
    let said = run(logs.path(), "good bad slow", "1", "no");
    assert!(said.contains("good            ok "), "{said}");
    assert!(said.contains("bad             FAILED ") && said.contains("| error: broken"), "{said}");
    assert!(said.contains("slow            OUT OF TIME after ") && said.contains("  | LATE: sleep"), "{said}");
    assert!(said.contains("steps: 1 ok, 1 failed (bad), 1 out of time (slow)"), "{said}");
    let (code, said) = with_functions(logs.path(), "worse 0 124; worse 124 1; worse 1 124; worse 0 0");
    assert_eq!((code, said.as_str()), (0, "124\n1\n1\n0\n"));
}

/// What CI prints of a failed run is all that others see of it.
#[test]
fn a_failed_test_is_named_first_however_much_its_neighbours_print() {
    let logs = tempfile::tempdir().expect("a directory");
    let commands = "
mkdir -p \"$logs\"
step_bad() {
    for n in $(seq 200); do echo \"thread 'fine$n' panicked at src/fine.rs:$n\"; done
    printf 'test odd ... FAILED\\n\\nfailures:\\n\\n---- odd stdout ----\\nthe left side is 7\\n\\nfailures:\\n    odd\\n\\n'
    echo 'test result: FAILED. 0 passed; 1 failed'
    seq 100; false
}
run_step bad";
    let (_, said) = with_functions(logs.path(), commands);
    let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(place("201:test odd ... FAILED") < place("| the left side is 7"), "{said}");
    assert!(place("| the left side is 7") < place("| 100\n"), "{said}");
    assert!(!said.contains("panicked at src/fine.rs"), "{said}");
}

#[test]
fn a_limit_is_longer_on_a_busy_machine() {
    let logs = tempfile::tempdir().expect("a directory");
    let limited = |slowness: u32, command: &str| {
        let commands = format!("mkdir -p \"$logs\"; slowness() {{ echo {slowness}; }}; limited 1 {command}");
        with_functions(logs.path(), &commands).0
    };
    assert_eq!(limited(100, "sleep 600"), 124);
    assert_eq!(limited(100_000, "sleep 3"), 0, "a thousand times slower");
    assert_eq!(limited(100, "true"), 0);
    assert_eq!(limited(100, "false"), 1, "a failure in time");
    let (_, said) = with_functions(logs.path(), "slowness");
    assert!(said.trim().parse::<u32>().is_ok_and(|per_cent| per_cent >= 100), "{said}");
}

#[test]
fn again_runs_what_has_not_passed_of_the_same_sources() {
    let logs = tempfile::tempdir().expect("a directory");
    run(logs.path(), "good bad", "1", "no");
    let said = run(logs.path(), "good bad", "1", "yes");
    assert!(said.contains("good            ok       before") && said.contains("bad             FAILED "), "{said}");
    assert!(said.contains("steps: 1 ok, 1 failed (bad);"), "{said}");
    let said = run(logs.path(), "good bad", "2", "yes");
    assert!(said.contains("the sources differ") && !said.contains("before"), "{said}");
    let said = run(logs.path(), "good bad", "2", "no");
    assert!(!said.contains("before"), "a run of its own: {said}");
}

#[test]
fn of_a_program_that_is_late_the_tests_under_way_are_named() {
    let logs = tempfile::tempdir().expect("a directory");
    let log = logs.path().join("log");
    let text = "test a ... ok\ntest b has been running for over 60 seconds\ntest c has been running for over 60 seconds\ntest b ... ok\n";
    std::fs::write(&log, text).expect("a file");
    assert_eq!(with_functions(logs.path(), &format!("unfinished {}", log.display())), (0, "c\n".into()));
}
