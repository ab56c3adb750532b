//! `hoistway test --scenario everyday`: verdicts on schedulers known to be good or bad, on cells
//! given by the user.

#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;

use program::{Said, hoistway};
use serde_json::Value;

/// A short judgement, with these arguments after those common to all tests here.
fn judged(arguments: &[&str]) -> Said {
    let directory = tempfile::tempdir().expect("a directory");
    let all = ["test", "--quiet", "--progress", "none", "--scenario", "everyday"];
    hoistway(directory.path(), &[&all[..], arguments].concat())
}

fn document(said: &Said) -> Value {
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    serde_json::from_str(&said.stdout).expect("one JSON document")
}

/// The result of a scheduler in a cell of a document.
fn result<'a>(document: &'a Value, cell: &str, scheduler: &str) -> &'a Value {
    let cells = document["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|one| one["name"] == cell).unwrap_or_else(|| panic!("no {cell} in {document:#}"));
    let results = cell["results"].as_array().expect("results");
    results.iter().find(|one| one["scheduler"] == scheduler).expect("the scheduler")
}

/// 32 reads of each tenant are far more than the device needs, so that exact shares are free; with
/// one of each they would cost more than 3 %, and the attainable shares are close to `none`'s.
const MOMENT: [&str; 10] = [
    "model:ssd-lsi",
    "-w",
    "drr:bs=4k,iodepth=32",
    "-w",
    "drr:bs=4k",
    "--seeds",
    "1,2",
    "--ramp",
    "500ms",
    "--format=json",
];

#[test]
fn a_scheduler_that_ignores_weights_is_dominated_where_exactness_is_free() {
    let arguments =
        [&MOMENT[..], &["--runtime", "1s", "--weights", "100,800", "-s", "none", "--against", "mqfq"]].concat();
    let said = judged(&arguments);
    let json = document(&said);
    assert_eq!(
        (json["judged"].clone(), json["seeds"].clone()),
        (serde_json::json!(["none"]), serde_json::json!([1, 2]))
    );
    let deep = "ssd-lsi drr:bs=4k,iodepth=32 100,800";
    let none = result(&json, deep, "none");
    assert_eq!(
        (none["verdict"].as_str(), none["dominated_by"].as_str()),
        (Some("dominated"), Some("mqfq")),
        "{none:#}"
    );
    assert_eq!(result(&json, deep, "mqfq")["verdict"], "exact");
    // `none` divides the device half and half, where a ninth and eight ninths were due.
    assert!((none["share_error_max"].as_f64().unwrap() - 3.5).abs() < 0.1, "{none:#}");
    let shallow = "ssd-lsi drr:bs=4k 100,800";
    assert_eq!(result(&json, shallow, "mqfq")["verdict"], "lost", "exact, at half the throughput");
    let can = result(&json, shallow, "none");
    assert_eq!((can["can_is_formula"].clone(), can["verdict"].as_str()), (Value::Bool(true), Some("bound")), "{can:#}");
    // Formula (4) (docs/specifications/paternoster.md, section 3.2): the throughput that exact
    // shares cost is taken from the light tenant.
    let (light, heavy) = (can["can_bytes_per_s"][0].as_f64().unwrap(), can["can_bytes_per_s"][1].as_f64().unwrap());
    assert!(light < heavy && light + heavy < can["bytes_per_s"].as_f64().unwrap(), "{can:#}");
    // The results are equal, not only similar: runs do not depend on the number that run
    // concurrently.
    let again = judged(&[&arguments[..], &["--workers", "1"]].concat());
    assert!(again.stdout == said.stdout, "results depend on --workers");
}

/// Different tenants, and one that arrives during the run.
const OWN: &str = r#"
title = "Mine"
[judge]
schedulers = ["mqfq"]
against = ["wfq"]
seeds = [3]
flash = { ramp = "500ms", writes_ramp = "500ms", runtime = "4s" }
[[cell]]
name = "levels"
devices = ["ssd"]
groups = [
    "name=a,weight=300,workload=none", "name=a/x,weight=100,workload=drr:bs=4k,iodepth=16",
    "name=a/y,weight=200,workload=drr:bs=4k,iodepth=16", "name=b,weight=100,workload=drr:bs=4k,iodepth=16",
]
[[cell]]
name = "classes"
devices = ["ssd"]
groups = [
    "name=a,cgroup=root,ioprio=be/4,workload=drr:bs=4k,iodepth=32",
    "name=b,cgroup=root,ioprio=idle,workload=drr:bs=4k,iodepth=32",
]
[[cell]]
name = "reweighed"
devices = ["ssd"]
changes = ["5s"]
groups = ["name=a,weight=100,reweigh=5s:900,workload=drr:bs=4k,iodepth=32", "name=b,weight=300,workload=drr:bs=4k,iodepth=32"]
[[cell]]
name = "comes"
devices = ["ssd"]
changes = ["5s"]
groups = ["name=a,weight=100,workload=drr:bs=4k,iodepth=32", "name=b,weight=300,workload=drr:bs=4k,iodepth=32,start=5s"]
"#;

#[test]
fn a_file_of_ones_own_has_tenants_that_differ_and_come() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("own.toml"), OWN).expect("a file");
    let arguments = ["test", "--quiet", "--progress", "none", "--scenario", "own.toml", "--format", "json"];
    let json = document(&hoistway(directory.path(), &arguments));
    let dues = |name: &str| {
        let cells = json["cells"].as_array().expect("cells");
        let cell = cells.iter().find(|cell| cell["name"] == name).expect("the cell");
        cell["due"].as_array().expect("shares").iter().map(|due| due.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let near = |got: &[f64], wanted: &[f64]| got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 0.01);
    // Three quarters as 1 : 2; an idle-class tenant is due nothing while another can use
    // everything.
    assert!(near(&dues("ssd levels"), &[0.25, 0.5, 0.25]), "{:?}", dues("ssd levels"));
    assert!(near(&dues("ssd classes"), &[1.0, 0.0]), "{:?}", dues("ssd classes"));
    assert_eq!(result(&json, "ssd levels", "mqfq")["verdict"], "exact");
    assert!(result(&json, "ssd levels", "none")["share_error_max"].as_f64().unwrap() > 0.3);
    assert!(near(&dues("ssd reweighed"), &[0.75, 0.25]), "{:?}", dues("ssd reweighed"));
    assert_eq!(result(&json, "ssd reweighed", "mqfq")["verdict"], "exact", "the simulator has changed the weight");
    // There are two phases: from the start, with one tenant alone, and from the arrival of the
    // other.
    let settled = result(&json, "ssd comes", "mqfq")["settled"].as_array().expect("a list").clone();
    assert_eq!(settled.len(), 2, "{settled:?}");
    assert!(settled.iter().all(|one| one["after_s"] == 1.0), "{settled:?}");
}

#[test]
fn a_picture_and_a_page_show_every_cell() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    let (page, figure) =
        (format!("html={}", place("a.html").display()), format!("figure={}", place("a.svg").display()));
    let moment = ["model:sata", "-w", "dsr,drr", "--weights", "100,300", "--weights", "100,100", "--seeds", "1"];
    let times = ["--ramp", "0", "--runtime", "2s", "-s", "wfq", "--against", "none"];
    let said = judged(&[&moment[..], &times, &["--format", "text", "--format", &page, "--format", &figure]].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let [page, figure] = ["a.html", "a.svg"].map(|name| fs::read_to_string(place(name)).expect("written"));
    for cell in ["sata dsr 100,300", "sata dsr 100,100", "sata drr 100,300", "sata drr 100,100"] {
        assert!(said.stdout.lines().any(|line| line.starts_with(cell)), "{cell}: {}", said.stdout);
        assert!(
            figure.matches(&format!("<title>{cell}: ")).count() == 1 && page.contains(&format!(">{cell}</td>")),
            "{cell}"
        );
    }
    assert!(said.stdout.contains("disks and arrays, grid: 4 cells"), "{}", said.stdout);
}

#[test]
fn tenants_given_on_the_command_line_are_a_cell() {
    let groups = ["--group", "name=a,weight=100,workload=drr:bs=4k", "--group", "name=b,weight=800,workload=drr:bs=4k"];
    let said = judged(&[&["--device", "ssd", "--device", "model:ssd-lsi", "--dry-run"][..], &groups].concat());
    let cells: Vec<&str> = said.stdout.lines().filter(|line| line.contains(" given ")).collect();
    assert_eq!((said.code, cells.len()), (0, 2), "{}{}", said.stdout, said.stderr);
}

/// Tenants of unequal sizes: `none` lets the large requests keep the small ones away.
#[test]
fn unequal_tenants_are_judged_by_isolation_and_speedup() {
    let judge = ["--cells", "ssd-lsi database-beside-backup", "--ramp", "2s", "--runtime", "1s", "--seed", "5"];
    let arguments = [&judge[..], &["-s", "none", "-s", "paternoster", "--against", "mqfq"]].concat();
    let json = document(&judged(&[&arguments[..], &["--format=json"]].concat()));
    let cell = "ssd-lsi database-beside-backup";
    let [none, ours] = ["none", "paternoster"].map(|name| result(&json, cell, name));
    let figure = |result: &Value, name: &str| result[name].as_f64().unwrap_or_else(|| panic!("{name}: {result:#}"));
    assert!(figure(none, "isolation") < 0.1, "{none:#}");
    assert!((figure(none, "weighted_speedup") - 1.0).abs() < 0.05, "{none:#}");
    assert!(figure(ours, "isolation") > 0.4 && figure(ours, "weighted_speedup") > 1.2, "{ours:#}");
    let said = judged(&arguments).stdout;
    let isolation = format!("isolation {:.0} %", figure(ours, "isolation") * 100.0);
    assert!(said.contains("flash, isolation and speedup: 1 cells") && said.contains(&isolation), "{said}");
}
