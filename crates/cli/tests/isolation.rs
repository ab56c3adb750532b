//! `hoistway test --scenario isolation`: verdicts on mechanisms that are known to meet a desideratum
//! or to miss it, on the simulator and on the engine.

#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;

use program::{Said, hoistway};
use serde_json::Value;

fn isolation(arguments: &[&str]) -> Said {
    let directory = tempfile::tempdir().expect("a directory");
    let all = ["test", "--quiet", "--progress", "none"];
    hoistway(directory.path(), &[&all[..], arguments].concat())
}

fn document(said: &Said) -> Value {
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    serde_json::from_str(&said.stdout).expect("one JSON document")
}

/// The verdict on a mechanism.
fn verdict<'a>(document: &'a Value, mechanism: &str, desideratum: &str) -> &'a Value {
    let row = document["mechanisms"].as_array().expect("rows").iter().find(|row| row["name"] == mechanism);
    let verdicts = row.unwrap_or_else(|| panic!("no {mechanism} in {document:#}"))["verdicts"].as_array();
    verdicts.expect("verdicts").iter().find(|one| one["desideratum"] == desideratum).expect("the desideratum")
}

fn score<'a>(document: &'a Value, mechanism: &str, desideratum: &str) -> &'a Value {
    &verdict(document, mechanism, desideratum)["score"]
}

/// Asserts that a document conforms to the published schema.
fn conforms(document: &Value) {
    let said = hoistway(std::path::Path::new("/"), &["schema", "isolation"]);
    let schema: Value = serde_json::from_str(&said.stdout).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<String> = validator.iter_errors(document).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0], "{document:#}");
}

#[test]
fn the_quick_form_judges_every_desideratum() {
    let quick = ["--scenario", "isolation:quick", "-s", "mqfq", "-s", "io.max", "--sets", "2", "--format", "json"];
    let said = isolation(&quick);
    let json = document(&said);
    conforms(&json);
    assert_eq!((json["complete"].clone(), json["repetitions"].clone()), (Value::Bool(true), 2.into()));
    assert_eq!(json["desiderata"].as_array().map(Vec::len), Some(8));
    let preconditioning = json["preconditioning"].as_str().expect("words");
    assert!(preconditioning.contains("overwritten at random"), "{preconditioning}");
    // Without a scheduler weights have no effect: an important tenant that comes back never has
    // its due.
    assert_eq!(score(&json, "none", "equal-requests"), "not");
    let never = verdict(&json, "none", "bursts");
    assert_eq!((&never["score"], &never["figure"]["is_lower_bound"]), (&"not".into(), &Value::Bool(true)), "{never:#}");
    // Start-time fair queueing divides by weight; limits do too, but leave the device idle.
    assert_eq!(score(&json, "mqfq", "equal-requests"), "met");
    assert_eq!(score(&json, "mqfq", "bursts"), "met");
    // Soon is not the same as kept: delta is the longest time below its due, whenever that is.
    assert_eq!(score(&json, "mqfq", "delta"), "met");
    let never = verdict(&json, "none", "delta");
    assert_eq!((&never["score"], &never["figure"]["is_lower_bound"]), (&"not".into(), &Value::Bool(true)), "{never:#}");
    assert_eq!(score(&json, "mqfq", "work-conservation"), "met");
    assert_eq!(score(&json, "io.max", "equal-requests"), "met");
    let idle = verdict(&json, "io.max", "work-conservation");
    assert_eq!(idle["score"], "not");
    let loss = idle["figure"]["mean"].as_f64().expect("a figure");
    assert!((85.0..92.0).contains(&loss), "the other tenant may use 11 %: {idle:#}");
    // Every figure has an interval, and says in how many runs the steady state was reached.
    for cell in json["cells"].as_array().expect("cells") {
        for setting in
            cell["results"].as_array().expect("results").iter().flat_map(|it| it["settings"].as_array()).flatten()
        {
            for figure in setting["figures"].as_array().expect("figures") {
                assert!(figure["ci95"].is_number() && figure["n"] == 2 && figure["steady"].is_number(), "{figure:#}");
            }
        }
    }
}

const BRIEF: [&str; 9] =
    ["--scenario", "isolation-fairness:quick", "--cells", "16 groups", "-s", "mqfq", "--sets", "2", "--seed"];

#[test]
fn results_depend_on_the_seed_and_not_on_the_number_of_workers() {
    let run = |seed: &str, workers: &str| {
        isolation(&[&BRIEF[..], &[seed, "--workers", workers, "--format", "json"]].concat())
    };
    let first = run("7", "2");
    assert_eq!(document(&first)["cells"].as_array().map(Vec::len), Some(1));
    assert!(first.stdout == run("7", "1").stdout, "results depend on --workers");
    assert!(document(&first)["cells"] != document(&run("8", "2"))["cells"], "another seed is another load");
}

#[test]
fn the_page_has_the_table_and_the_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "test",
        "--quiet",
        "--progress",
        "none",
        "--scenario",
        "isolation-priority:quick",
        "-s",
        "mq-deadline",
        "--sets",
        "2",
        "--cells",
        "beside 4k reads",
        "--format",
        "text",
        "--format",
        "html=a.html",
    ];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    let page = fs::read_to_string(directory.path().join("a.html")).expect("written");
    // A mark for `none`, one for each of the two settings of mq-deadline, and the legend's.
    assert_eq!(page.matches("<title>mq-deadline ").count(), 2, "{page}");
    assert!(page.contains("<svg") && page.contains("priority at full use"), "{page}");
    let row = said.stdout.lines().find(|line| line.starts_with("mq-deadline")).expect("a row");
    assert!(row.contains("/1, ") && row.contains('±'), "{row}");
}

#[test]
fn the_engine_measures_as_well_and_names_what_it_cannot_run() {
    let all =
        ["--scenario", "isolation-overhead:quick", "memory:512MiB", "-s", "mqfq", "--sets", "2", "--format", "json"];
    let json = document(&isolation(&all));
    conforms(&json);
    assert_eq!((json["host"].clone(), json["cells"].as_array().map(Vec::len)), ("engine".into(), Some(1)));
    assert!(verdict(&json, "mqfq", "low-overhead")["figure"]["mean"].is_number(), "{json:#}");
    // An existing file is only read: cells that write are refused, with the reason, and the rest
    // runs.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("disk");
    fs::write(&file, vec![1; 256 << 20]).expect("a file");
    let reads =
        ["test", "--scenario", "isolation-fairness", "--dry-run", &file.display().to_string()].map(str::to_owned);
    let said = hoistway(directory.path(), &reads.iter().map(String::as_str).collect::<Vec<_>>());
    let none = said.stdout.lines().find(|line| line.starts_with("none ")).expect("the row of none");
    assert!(said.code == 0 && none.contains("not everywhere: the workload writes"), "{}{}", said.stdout, said.stderr);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |arguments: &[&str], what: &str| {
        let said = isolation(&[&["--scenario", "isolation:quick"][..], arguments].concat());
        assert!(said.code == 2 && said.stderr.contains(what), "{}", said.stderr);
    };
    refused(&["-s", "cfq"], "no mechanism 'cfq'");
    refused(&["--cells", "nothing"], "there is no cell to run");
    refused(&["--weights", "1,2"], "--weights");
    refused(&["--format", "csv"], "have no format 'csv'");
    refused(&["--host", "native"], "native");
}
