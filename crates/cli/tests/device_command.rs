//! `hoistway device`: files to copy, figures to compare, and calibration of a model for an unknown
//! disk.

mod program;

use std::fs;
use std::path::Path;

use program::{Said, entries, hoistway};
use serde_json::Value;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[track_caller]
fn done(directory: &Path, arguments: &[&str]) -> Said {
    let said = hoistway(directory, arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.stdout, said.stderr);
    said
}

/// The value of a parameter in a model's file.
#[track_caller]
fn value(file: &Path, key: &str) -> f64 {
    let text = fs::read_to_string(file).expect("a model's file");
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let value = &table[key];
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).expect("a number")
}

#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

#[test]
fn a_shown_model_is_a_file_that_can_be_changed_and_tested() {
    let directory = directory();
    let shown = done(directory.path(), &["device", "show", "raid5x12"]).stdout;
    assert!(shown.starts_with("# ") && shown.contains("[disk]") && shown.contains("[[anchor]]"), "{shown}");
    let mine = shown.replace("chunk_kib = 1024", "chunk_kib = 256");
    fs::write(directory.path().join("mine.toml"), mine).unwrap();
    let test = ["test", "model:./mine.toml,disk.rpm=5400", "-s", "noop", "--runtime", "200ms", "--ramp", "0s"];
    let said = done(directory.path(), &[&test[..], &["--no-store", "--quiet"]].concat());
    assert!(said.stdout.contains("mine.toml"), "{}", said.stdout);
    let written = done(directory.path(), &["device", "show", "./mine.toml,disk.rpm=5400"]).stdout;
    fs::write(directory.path().join("again.toml"), &written).unwrap();
    assert_eq!(done(directory.path(), &["device", "show", "./again.toml"]).stdout, written);
    assert!(written.contains("chunk_kib = 256 ") && written.contains("rpm = 5400 "), "{written}");
}

#[test]
fn models_are_listed_with_what_was_published_of_them() {
    let directory = directory();
    let text = done(directory.path(), &["list", "devices"]).stdout;
    for line in ["published: 2 dd readers: 18.7 MB/s", "wd2500js", "disk.seek_avg_ms"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json: Value = serde_json::from_str(&done(directory.path(), &["list", "devices", "--json"]).stdout).unwrap();
    let lsi = json.as_array().unwrap().iter().find(|model| model["name"] == "ssd-lsi").unwrap();
    assert_eq!(lsi["anchors"][0]["published"], serde_json::json!([29.0, 29.0]));
}

/// The page's table is made by a command that takes a while; this test detects missing and outdated
/// rows without it.
#[test]
fn every_published_figure_is_in_the_table_of_the_page() {
    let directory = directory();
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/devices.md")).expect("docs/devices.md");
    let table = page.split("<!-- hoistway device fit --markdown -->").nth(1).expect("the first mark");
    let table = table.split("<!-- end -->").next().expect("the second mark");
    let json: Value = serde_json::from_str(&done(directory.path(), &["list", "devices", "--json"]).stdout).unwrap();
    let mut rows = 0;
    for model in json.as_array().unwrap() {
        for anchor in model["anchors"].as_array().unwrap() {
            let published: Vec<String> = anchor["published"]
                .as_array()
                .unwrap()
                .iter()
                .map(|value| value.as_f64().unwrap().to_string())
                .collect();
            let mark = if anchor["provisional"] == Value::Bool(true) { " (provisional)" } else { "" };
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (model, name, unit) = (text(&model["name"]), text(&anchor["name"]), text(&anchor["unit"]));
            let start = format!("| {model} | {name}{mark} | {} {unit} | ", published.join(" : "));
            assert!(table.contains(&start), "the page lacks a row '{start}': hoistway device fit --markdown");
            rows += 1;
        }
    }
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), rows + 2, "rows of models that are gone");
}

#[test]
fn the_ssd_of_2016_fits_and_one_with_a_slow_link_does_not() {
    let directory = directory();
    let arguments = ["device", "fit", "ssd-lsi", "--json", "--quiet"];
    let fit: Value = serde_json::from_str(&done(directory.path(), &arguments).stdout).unwrap();
    assert_eq!((fit["rows"].as_array().unwrap().len(), &fit["ok"]), (4, &Value::Bool(true)));
    let slow = hoistway(directory.path(), &["device", "fit", "ssd-lsi,link_MBps=300", "--quiet"]);
    assert_eq!(slow.code, 4, "{}{}", slow.stdout, slow.stderr);
    assert!(slow.stdout.contains("2 of 4 rows within 12 %"), "{}", slow.stdout);
    let table = done(directory.path(), &["device", "fit", "ssd-plextor", "--markdown", "--quiet"]).stdout;
    assert!(table.starts_with("| model | measurement |") && table.contains("| 73900 1/s | 74"), "{table}");
}

/// The measurement published in 2008, with CFQ as in the kernel of that time.
#[test]
fn t52_the_totals_of_2008_come_out_under_their_cfq() {
    let directory = directory();
    let fit = done(directory.path(), &["device", "fit", "wd2500js", "--tolerance", "10%", "--json", "--quiet"]);
    let fit: Value = serde_json::from_str(&fit.stdout).unwrap();
    assert_eq!((fit["rows"].as_array().unwrap().len(), &fit["ok"]), (4, &Value::Bool(true)), "{fit}");
}

/// Rows computed from a model with other parameters: calibration finds those parameters.
#[test]
fn a_changed_ssd_is_found_again_from_its_figures() {
    let directory = directory();
    let row = |name: &str, depth: u32, bs: &str| {
        format!(
            "[[anchor]]\nname = \"{name}\"\nfigure = \"iops\"\npublished = 1\nunit = \"1/s\"\nscheduler = \"none\"\n\
             job = \"\"\"\n[j]\nfilename=d\nrw=randread\nbs={bs}\ndirect=1\nioengine=libaio\niodepth={depth}\nnorandommap\nruntime=100ms\ntime_based\n\"\"\"\n"
        )
    };
    let rows = [row("one", 1, "4k"), row("eight", 8, "4k"), row("deep", 32, "4k"), row("wide", 8, "128k")].concat();
    // The disk that is "measured": the figures of the rows are computed from a model of it.
    let real = "ssd-lsi,t_read_us=85,link_MBps=400";
    fs::write(
        directory.path().join("real.toml"),
        format!("base = \"ssd-lsi\"\nt_read_us = 85\nlink_MBps = 400\n{rows}"),
    )
    .unwrap();
    let fit = hoistway(directory.path(), &["device", "fit", "./real.toml", "--json", "--quiet"]);
    assert_eq!(fit.code, 4, "published values of 1 are not met: {}", fit.stderr);
    let fit: Value = serde_json::from_str(&fit.stdout).unwrap();
    let mut measured = rows;
    for row in fit["rows"].as_array().unwrap() {
        let figure = row["modelled"][0].as_f64().unwrap();
        measured = measured.replacen("published = 1\n", &format!("published = {figure:.1}\n"), 1);
    }
    fs::write(directory.path().join("rows.toml"), measured).unwrap();

    let calibrate = ["device", "calibrate", "ssd-lsi", "--rows", "rows.toml", "--free", "t_read_us,link_MBps"];
    let said = done(directory.path(), &[&calibrate[..], &["-o", "mine.toml", "--json", "--quiet"]].concat());
    let mine = directory.path().join("mine.toml");
    assert_near("cell time", value(&mine, "t_read_us"), 85.0, 0.02);
    assert_near("link", value(&mine, "link_MBps"), 400.0, 0.02);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["parameters"][0]["before"].as_f64(), Some(60.0), "{json}");
    for row in json["after"].as_array().unwrap() {
        assert!(row["error"].as_f64().unwrap().abs() < 0.01, "{real}: {row}");
    }
    // The file contains its rows, so that its fit can be checked.
    done(directory.path(), &["device", "fit", "./mine.toml", "--tolerance", "1%", "--quiet"]);
    // The same rows and the same model give the same file.
    done(directory.path(), &[&calibrate[..], &["-o", "again.toml", "--quiet"]].concat());
    assert_eq!(fs::read(&mine).unwrap(), fs::read(directory.path().join("again.toml")).unwrap());
    continues_after_a_kill(directory.path(), &calibrate, &mine);
}

/// A calibration that is killed after some trials, and started again, gives the file `expected`.
fn continues_after_a_kill(directory: &Path, calibrate: &[&str], expected: &Path) {
    let arguments = [calibrate, &["-o", "killed.toml"]].concat();
    let mut process = program::command(directory, &arguments);
    let mut process = process.stderr(std::process::Stdio::null()).spawn().unwrap();
    let trials = directory.join("killed.toml.trials");
    let lines = || fs::read_to_string(&trials).map_or(0, |text| text.lines().count());
    while lines() < 4 {
        assert!(process.try_wait().unwrap().is_none(), "it ended before three trials");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(!directory.join("killed.toml").exists());
    let said = done(directory, &arguments);
    assert!(said.stderr.contains("continues after ") && said.stderr.contains(" minutes;"), "{}", said.stderr);
    assert_eq!(fs::read(expected).unwrap(), fs::read(directory.join("killed.toml")).unwrap());
    assert!(!trials.exists(), "nothing is left to continue");
}

/// fio 3's output for a job of two threads that are not reported as one: texts for options, a
/// device that does not exist here.
fn result_of_fio() -> String {
    let thread = "{\"jobname\":\"j\",\"error\":0,\"job options\":{\"name\":\"j\",\"rw\":\"randread\",\"numjobs\":\"2\"},\
         \"read\":{\"iops\":5000.0,\"bw_bytes\":20480000,\"total_ios\":1000},\
         \"write\":{\"iops\":0.0,\"bw_bytes\":0,\"total_ios\":0}}";
    format!(
        "{{\n\"fio version\":\"fio-3.33\",\"global options\":{{\"filename\":\"/dev/sdx\",\"bs\":\"4k\",\"direct\":\"1\",\
         \"ioengine\":\"libaio\",\"iodepth\":\"1\",\"runtime\":\"200ms\",\"time_based\":\"\",\"norandommap\":\"\"}},\
         \"jobs\":[{thread},{thread}]}}\n"
    )
}

/// Calibrates with `file` and checks that the model becomes as fast.
fn calibrates(directory: &Path, file: &str, more: &[&str]) {
    let usual = ["device", "calibrate", "null", "--rows", file, "-o", "mine.toml", "--quiet"];
    done(directory, &[&usual[..], more].concat());
    // 5,000 per second and thread: 200 us, less the 4.5 us of the simulated host.
    let latency_us = value(&directory.join("mine.toml"), "latency_us");
    assert!((193.0..199.0).contains(&latency_us), "{file}: {latency_us}");
    done(directory, &["device", "fit", "./mine.toml", "--tolerance", "1%", "--quiet"]);
    fs::remove_file(directory.join("mine.toml")).unwrap();
}

#[test]
fn a_result_of_fio_is_enough_to_calibrate_with() {
    let directory = directory();
    fs::write(directory.path().join("fio.json"), result_of_fio()).unwrap();
    calibrates(directory.path(), "fio.json", &[]);
}

/// The forms that `compare` accepts: notes before the JSON, the human-readable report after it,
/// terse lines. The last do not contain the job's options.
#[test]
fn every_form_of_fios_results_is_enough_to_calibrate_with() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    let notes = "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1\n";
    let report = "\nj: (groupid=0, jobs=1): err= 0: pid=1: Fri Nov 20 09:50:12 2026\n  read: IOPS=5000\n";
    fs::write(path("notes.json"), [notes, &result_of_fio(), report].concat()).unwrap();
    calibrates(directory.path(), "notes.json", &[]);
    // Version, fio, job, group, error; then for each direction KiB, KiB/s, IOPS, ms and 37 figures
    // of latency and bandwidth.
    let direction = |iops: u32| format!("{};{};{iops};200{}", iops * 4 / 5, iops * 4, ";0".repeat(37));
    let line = format!("3;fio-3.33;j;0;0;{};{}\n", direction(5_000), direction(0));
    fs::write(path("terse.txt"), [notes, &line, &line].concat()).unwrap();
    let said = hoistway(directory.path(), &["device", "calibrate", "null", "--rows", "terse.txt"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("does not say what the jobs were") && said.stderr.contains("--job-file"),
        "{}",
        said.stderr
    );
    let job = "[global]\nfilename=/dev/sdx\nbs=4k\ndirect=1\nioengine=libaio\nruntime=200ms\ntime_based\nnorandommap\n\
               [j]\nrw=randread\nnumjobs=2\n";
    fs::write(path("j.fio"), job).unwrap();
    calibrates(directory.path(), "terse.txt", &["--job-file", "j.fio"]);
}

/// fio wrote the figures, so they count; an option that no simulated job has is named and left out.
#[test]
fn options_that_nothing_here_has_do_not_stop_a_calibration() {
    let directory = directory();
    for option in ["\"zonemode\":\"zbd\"", "\"of_fio_4\":\"x\"", "\"max_open_zones\":\"5\",\"zonemode\":\"zbd\""] {
        let result = result_of_fio().replace("\"numjobs\":\"2\"", &format!("\"numjobs\":\"2\",{option}"));
        fs::write(directory.path().join("fio.json"), result).unwrap();
        calibrates(directory.path(), "fio.json", &[]);
        let calibrate = ["device", "calibrate", "null", "--rows", "fio.json", "--max-trials", "1"];
        let said = done(directory.path(), &calibrate);
        let name = option.split('"').nth(1).unwrap();
        assert!(said.stderr.contains("left out: ") && said.stderr.contains(name), "{}", said.stderr);
    }
}

#[test]
fn phases_of_fio_are_rows_of_their_own() {
    let directory = directory();
    let thread = |group: u32| {
        format!(
            "{{\"jobname\":\"j{group}\",\"groupid\":{group},\"error\":0,\"job options\":{{\"rw\":\"randread\"}},\
             \"read\":{{\"iops\":5000.0,\"bw_bytes\":20480000,\"total_ios\":1000}},\
             \"write\":{{\"iops\":0.0,\"bw_bytes\":0,\"total_ios\":0}}}}"
        )
    };
    let options = "{\"filename\":\"/dev/sdx\",\"bs\":\"4k\",\"direct\":\"1\",\"ioengine\":\"libaio\",\"iodepth\":\"1\",\
                   \"runtime\":\"200ms\",\"time_based\":\"\",\"norandommap\":\"\"}";
    let text = format!(
        "{{\"fio version\":\"fio-3.33\",\"global options\":{options},\"jobs\":[{},{}]}}\n",
        thread(0),
        thread(1)
    );
    fs::write(directory.path().join("phases.json"), text).unwrap();
    // A device that takes one command at a time: beside one another, both jobs could have 5,000
    // requests a second only at half the latency.
    let model = "null,queue_depth=1";
    done(directory.path(), &["device", "calibrate", model, "--rows", "phases.json", "-o", "mine.toml", "--quiet"]);
    let latency_us = value(&directory.path().join("mine.toml"), "latency_us");
    assert!((193.0..199.0).contains(&latency_us), "{latency_us}");
    let calibrate = ["device", "calibrate", "null", "--rows", "phases.json", "--quiet", "--job-file", "j.fio"];
    let said = hoistway(directory.path(), &calibrate);
    assert!(said.code == 2 && said.stderr.contains("has 2 reporting groups of fio"), "{}", said.stderr);
}

#[test]
fn a_stored_test_is_enough_to_calibrate_with() {
    let directory = directory();
    let test = ["test", "model:null,latency_us=350", "-w", "drr:bs=4k,iodepth=2", "-s", "noop", "--sets", "2"];
    done(directory.path(), &[&test[..], &["--runtime", "500ms", "-o", "result", "--quiet"]].concat());
    let calibrate = ["device", "calibrate", "null,queue_depth=32", "--rows", "result", "-o", "mine.toml", "--quiet"];
    let said = done(directory.path(), &calibrate);
    let mine = directory.path().join("mine.toml");
    assert_near("latency", value(&mine, "latency_us"), 350.0, 0.01);
    assert!(said.stdout.contains("latency_us") && said.stdout.contains("before"), "{}", said.stdout);
    // The test's job can be written as a job file, so the model's file contains its anchor.
    assert!(fs::read_to_string(&mine).unwrap().contains("[[anchor]]"));
    done(directory.path(), &["device", "fit", "./mine.toml", "--tolerance", "1%", "--quiet"]);
}

#[test]
fn without_a_file_the_model_goes_to_stdout_and_the_tables_to_stderr() {
    let directory = directory();
    fs::write(
        directory.path().join("rows.toml"),
        "[[anchor]]\nname = \"x\"\nfigure = \"latency_mean\"\npublished = 0.5\nunit = \"ms\"\nscheduler = \"none\"\n\
         job = \"[j]\\nrw=randread\\nsize=64m\\nfilename=d\\ndirect=1\\nruntime=200ms\\ntime_based=1\"\n",
    )
    .unwrap();
    let said = done(directory.path(), &["device", "calibrate", "null", "--rows", "rows.toml"]);
    assert_eq!(entries(directory.path()), ["rows.toml"]);
    let table: toml::Table = said.stdout.parse().expect("TOML on stdout");
    assert_near(
        "latency",
        table["latency_us"].as_float().or(table["latency_us"].as_integer().map(|us| us as f64)).unwrap(),
        495.5,
        0.01,
    );
    assert!(said.stderr.contains("trials of 1 rows") && said.stderr.contains("latency_us"), "{}", said.stderr);
}
