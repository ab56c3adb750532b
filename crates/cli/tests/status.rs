//! `hoistway ctl status`: its options, and that its figures are those of `hoistway top`.

mod served;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;

use serde_json::{Value, json};
use served::{Served, directory, hoistway, run_command};

/// Answers every connection to a control socket with the two answers in turn.
fn fake_server(directory: &Path) -> PathBuf {
    let path = directory.join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answers = [include_str!("status/before.json"), include_str!("status/now.json")]
        .map(|text| json!({"ok": serde_json::from_str::<Value>(text).unwrap()}));
    thread::spawn(move || {
        for (stream, answer) in listener.incoming().zip(answers.iter().cycle()) {
            let Ok(mut stream) = stream else { return };
            let mut request = String::new();
            let _ = BufReader::new(&stream).read_line(&mut request);
            let _ = stream.write_all(format!("{answer}\n").as_bytes());
        }
    });
    path
}

fn output(arguments: &[&str], columns: &str) -> Output {
    run_command(hoistway().args(arguments).env("COLUMNS", columns))
}

#[track_caller]
fn printed(arguments: &[&str], columns: &str) -> String {
    let output = output(arguments, columns);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The cells of the row that begins with `name`, under the headings of its table.
fn row(text: &str, name: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let at =
        lines.iter().position(|line| line.split_whitespace().next() == Some(name)).unwrap_or_else(|| panic!("{text}"));
    let head = lines[..at].iter().rposition(|line| line.starts_with("GROUP")).unwrap_or_else(|| panic!("{text}"));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    words(lines[head]).into_iter().zip(words(lines[at])).collect()
}

fn cell(text: &str, name: &str, column: &str) -> String {
    row(text, name)
        .into_iter()
        .find(|(head, _)| head == column)
        .unwrap_or_else(|| panic!("{column} of {name}:\n{text}"))
        .1
}

#[test]
fn the_figures_are_those_of_top() {
    let directory = directory();
    let socket = fake_server(directory.path()).display().to_string();
    let status = printed(&["ctl", "status", "--control", &socket, "--interval", "100ms"], "132");
    let top = printed(&["top", "--control", &socket, "-b", "-n", "1", "-d", "100ms"], "132");
    for group in ["tenants", "db", "web", "ci"] {
        // The rates depend on when the two programs asked.
        for column in ["WEIGHT", "DUE%", "GOT%", "p50ms", "p99ms"] {
            assert_eq!(
                cell(&status, group, column),
                cell(&top, group, column),
                "{column} of {group}:\n{status}\n{top}"
            );
        }
    }
    assert_eq!(cell(&top, "tenants", "GOT%"), "50.0", "a parent has the sum of the groups below it");
    for text in [&status, &top] {
        assert!(text.contains("tenants/db keeps 4 requests outstanding"), "{text}");
        assert!(text.contains("saturated by 32 requests"), "{text}");
    }
    let line: Value = serde_json::from_str(&printed(
        &["top", "--control", &socket, "-n", "1", "-d", "100ms", "--format", "json"],
        "80",
    ))
    .unwrap();
    let db =
        line["devices"][0]["groups"].as_array().unwrap().iter().find(|group| group["group"] == "tenants/db").unwrap();
    assert_eq!((&db["due_pct"], &db["got_pct"]), (&json!(60.0), &json!(20.0)));
    // Isolation is got / due wherever it is shown.
    assert_eq!((&db["isolation_pct"], cell(&top, "db", "ISOL%").as_str()), (&json!(33.333), "33.3"));
}

#[test]
fn the_tables_fit_the_columns_from_80_to_200() {
    let directory = directory();
    let socket = fake_server(directory.path()).display().to_string();
    for (columns, width) in [("40", 80), ("80", 80), ("100", 100), ("132", 132), ("500", 200), ("no number", 80)] {
        let text = printed(&["ctl", "status", "--control", &socket, "--interval", "10ms"], columns);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{columns}: {longest}\n{text}");
        let has_reasons_beside = text.lines().any(|line| line.ends_with("QUEUED  WHY"));
        assert_eq!(has_reasons_beside, width >= 132, "{text}");
    }
}

#[test]
fn options_may_follow_the_subcommand() {
    let served = Served::file(1 << 20);
    let socket = served.path("control.sock").display().to_string();
    let text = printed(&["ctl", "status", "--control", &socket, "--interval", "20ms"], "80");
    assert!(text.starts_with("default: paternoster, queue depth "), "{text}");
    assert!(text.contains("\nEXPORT  DEVICE    SIZE  INFL  ERRORS\nx       default  1 MiB     0       0\n"), "{text}");
    for arguments in [
        ["ctl", "status", "--control", &socket, "--json"],
        ["ctl", "--control", &socket, "--json", "status"],
        ["ctl", "--json", "status", "--control", &socket],
    ] {
        let answer: Value = serde_json::from_str(&printed(&arguments, "80")).unwrap();
        assert_eq!(answer["ok"]["exports"][0]["name"], "x", "{answer}");
        assert!(answer["ok"]["devices"][0]["loop"]["turns"].is_u64(), "nothing is left out: {answer}");
    }
    let all = printed(&["ctl", "status", "--all", "--control", &socket], "80");
    assert!(all.contains("backing") && all.contains("loop(") && all.contains("listeners:"), "{all}");
    let evicted = output(&["ctl", "evict", "--export", "y", "--control", &socket, "--json"], "80");
    assert_eq!(evicted.status.code(), Some(2));
    let short = output(&["ctl", "status", "--control", &socket, "--interval", "1ms"], "80");
    assert_eq!(short.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&short.stderr).contains("shorter than 10 ms"));
}
