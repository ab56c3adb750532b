//! The rule on clocks in tests: no test may fail because the machine is busy.

use crate::source::{Finding, Source, expect_lines, expect_none, has_word, sources};

/// What ends a wait, or fails a test, by the clock. A time that must have passed (`elapsed() >=`) is not one.
const BOUNDS: [&str; 7] = [
    "elapsed() <",
    "elapsed().as_secs() <",
    "elapsed() >",
    "Instant::now() +",
    "recv_timeout(",
    "set_read_timeout(",
    "set_write_timeout(",
];
/// A machine with many times more work than processors has done what takes a moment; a test that fails takes no longer
/// than a minute.
const LEAST_S: f64 = 60.0;
/// Files with a short time in which nothing may happen.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("crates/engine/src/shard/calls.rs", "a call that must not be made while others hang"),
    ("crates/export/src/control/socket.rs", "connections until as many wait as may"),
    ("crates/export/tests/live.rs", "no answer may come before the request was sent as a whole"),
];

/// The seconds of the first `Duration` that is made from a number on this line.
fn seconds(line: &str) -> Option<f64> {
    let (_, behind) = line.split_once("Duration::from_")?;
    let (unit, behind) = behind.split_once('(')?;
    let number = behind.split(')').next()?.replace('_', "").parse::<f64>().ok()?;
    Some(
        number
            * match unit {
                "hours" => 3_600.0,
                "mins" => 60.0,
                "secs" | "secs_f64" => 1.0,
                "millis" => 1e-3,
                "micros" => 1e-6,
                _ => 1e-9,
            },
    )
}

/// A bound of whole seconds: `elapsed().as_secs() < 10`.
fn whole_seconds(line: &str) -> Option<f64> {
    let digits = line.split_once("as_secs() < ")?.1;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn short_bounds(source: &Source) -> Vec<Finding> {
    let code = source.code();
    let constant = |line: &str| {
        let name = line.split_once("const ")?.1.split(':').next()?.to_owned();
        (seconds(line)? < LEAST_S).then_some(name)
    };
    let short: Vec<String> = code.iter().filter_map(|(_, line)| constant(line)).collect();
    let is_test = source.path.split('/').any(|part| part == "tests");
    let first = code.iter().position(|(_, line)| is_test || line.contains("cfg(test)")).unwrap_or(code.len());
    let is_short = |line: &str| {
        let behind = BOUNDS.iter().find_map(|bound| Some(&line[line.find(bound)?..]));
        behind.is_some_and(|behind| {
            !behind.starts_with("elapsed() >=")
                && (seconds(behind).or_else(|| whole_seconds(behind)).is_some_and(|bound| bound < LEAST_S)
                    || short.iter().any(|name| has_word(behind, name)))
        })
    };
    let remedy =
        "count or order events; or compare with how long the fault lasts, made long; or wait for 60 s and more";
    let breaches = code[first..].iter().filter(|(_, line)| is_short(line));
    breaches
        .map(|(number, line)| source.finding(*number, format!("a busy machine fails: {}", line.trim()), remedy))
        .collect()
}

#[test]
fn no_test_bounds_time_below_a_minute() {
    let is_excepted = |source: &Source| EXCEPTIONS.iter().any(|(path, _)| *path == source.path);
    let all = sources(".rs");
    let findings: Vec<Finding> = all.iter().filter(|source| !is_excepted(source)).flat_map(short_bounds).collect();
    expect_none(&findings);
    for (path, why) in EXCEPTIONS {
        let source = all.iter().find(|source| source.path == path);
        assert!(source.is_some_and(|source| !short_bounds(source).is_empty()), "{path} needs no exception: {why}");
    }
}

#[test]
fn short_bounds_in_tests_are_found() {
    let text = "const SHORT: Duration = Duration::from_secs(20);\n#[cfg(test)]\nmod tests {\n\
        assert!(start.elapsed() < Duration::from_millis(1_500));\n\
        assert!(start.elapsed() < SHORT + MORE);\n\
        assert!(start.elapsed() >= Duration::from_secs(1));\n\
        assert!(start.elapsed().as_secs() < 10, \"slow\");\n\
        let end = Instant::now() + Duration::from_secs(60);\n\
        stream.set_read_timeout(Some(Duration::from_secs(5)));\n}\n";
    expect_lines(short_bounds, "crates/x/src/lib.rs", text, &[4, 5, 7, 9]);
    expect_lines(short_bounds, "crates/x/src/lib.rs", &text.replace("#[cfg(test)]", ""), &[]);
    expect_lines(
        short_bounds,
        "crates/x/tests/a.rs",
        "    while x.recv_timeout(Duration::from_secs(20)).is_ok() {}\n",
        &[1],
    );
}
