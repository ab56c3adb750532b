//! The library beside the command: the same experiment gives the same JSON and the same messages.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hoistway::{Exit, Experiment, Watch};

/// What the command prints on stdout and stderr.
fn command(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    let output = command.args(arguments).env("NO_COLOR", "1").output().expect("the command runs");
    (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8(output.stderr).expect("UTF-8"))
}

fn json_of(arguments: &[&str]) -> String {
    // The library makes no solo runs.
    let fixed =
        ["test", "--no-store", "--no-solo", "--quiet", "--format", "json", "--runtime", "200ms", "--ramp", "50ms"];
    let (stdout, stderr) = command(&[&fixed[..], arguments].concat());
    assert!(!stdout.is_empty(), "{stderr}");
    stdout
}

/// The text without the start and without the object `environment`, which describe the process.
fn without_surroundings(json: &str) -> String {
    let mut kept = Vec::new();
    let mut inside = false;
    for line in json.lines() {
        inside |= line.starts_with("  \"environment\": {");
        if !inside && !line.starts_with("  \"started\": ") {
            kept.push(line);
        }
        inside &= !line.starts_with("  }");
    }
    assert!(kept.len() + 5 < json.lines().count(), "start and environment are left out: {json}");
    kept.join("\n")
}

fn short(experiment: Experiment) -> Experiment {
    experiment.runtime(Duration::from_millis(200)).ramp(Duration::from_millis(50))
}

#[track_caller]
fn assert_same(experiment: Experiment, arguments: &[&str]) {
    let outcome = short(experiment).run().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(without_surroundings(&outcome.json()), without_surroundings(&json_of(arguments)));
}

#[test]
fn the_json_of_an_experiment_is_that_of_the_command() {
    assert_same(
        Experiment::on("model:ssd")
            .group("db", 800)
            .group("ci", 100)
            .workload("drr:iodepth=32")
            .scheduler("paternoster"),
        &[
            "model:ssd",
            "--group",
            "name=db,weight=800",
            "--group",
            "name=ci,weight=100",
            "-w",
            "drr:iodepth=32",
            "-s",
            "paternoster",
        ],
    );
    // Every default: one group, drr, four schedulers.
    assert_same(Experiment::on("model:ssd"), &["model:ssd"]);
    let spec = "name=slow,weight=50,rbps=5M,workload=drr:bs=4k,iodepth=4,threads=2";
    assert_same(
        Experiment::on("model:nvme,seed=7")
            .group_spec(spec)
            .group("ci", 100)
            .workload("drr:iodepth=8")
            .workload("dsr")
            .scheduler("bfq@5.4:slice_idle=0")
            .scheduler("none")
            .threads([2, 1])
            .sets(2)
            .seed(9)
            .device_depth(4)
            .queue_requests(64)
            .workers(1),
        &[
            "model:nvme,seed=7",
            "--group",
            spec,
            "--group",
            "name=ci,weight=100",
            "-w",
            "drr:iodepth=8",
            "-w",
            "dsr",
            "-s",
            "bfq@5.4:slice_idle=0",
            "-s",
            "none",
            "--threads",
            "2,1",
            "--sets",
            "2",
            "--seed",
            "9",
            "--device-depth",
            "4",
            "--queue-requests",
            "64",
        ],
    );
}

#[test]
fn sizes_rates_and_times_have_the_grammar_of_the_command() {
    // The Python package passes its texts on to these functions.
    let times = ["0.2", "200ms", "200 msec", "200000us"].map(|text| hoistway::duration(text).unwrap());
    assert_eq!(times, [Duration::from_millis(200); 4]);
    let message = hoistway::duration("5x").unwrap_err();
    assert!(message.to_string().contains("'5x' is not a time") && message.exit == Exit::Usage, "{message}");
    let json = |limit: &str| {
        let on = Experiment::on("model:ssd").group_spec(format!("name=db,{limit}"));
        let outcome = short(on.scheduler("none")).run().unwrap_or_else(|error| panic!("{error}"));
        without_surroundings(&outcome.json())
    };
    let plain = json("rbps=5242880");
    for limit in ["rbps=5M", "rbps=5MiB", "rbps=5Mi/s", "rbps=5m"] {
        assert_eq!(json(limit), plain, "{limit}");
    }
    assert_eq!(json("riops=2k"), json("riops=2000"));
}

#[test]
fn a_job_file_is_the_same_experiment_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("jobs.fio");
    std::fs::write(
        &file,
        "[a]\nrw=randread\nsize=4m\ncgroup=a\ncgroup_weight=300\n[b]\nrw=randread\nsize=4m\ncgroup=b\n",
    )
    .expect("written");
    let file = file.to_str().expect("UTF-8");
    assert_same(Experiment::on("model:sata").workload(file).scheduler("cfq"), &["model:sata", "-w", file, "-s", "cfq"]);
}

#[test]
fn an_error_is_the_message_of_the_command() {
    let same = |experiment: Experiment, arguments: &[&str]| {
        let error = short(experiment).run().expect_err("it is wrong");
        let fixed = ["test", "--no-store", "--quiet", "--runtime", "200ms", "--ramp", "50ms"];
        let (_, stderr) = command(&[&fixed[..], arguments].concat());
        assert_eq!(format!("{error}\n"), stderr);
        error
    };
    let ssd = || Experiment::on("model:ssd");
    assert_eq!(same(ssd().workload("drq"), &["model:ssd", "-w", "drq"]).exit, Exit::Usage);
    same(ssd().scheduler("bfqq"), &["model:ssd", "-s", "bfqq"]);
    same(ssd().scheduler("bfq:slice=1"), &["model:ssd", "-s", "bfq:slice=1"]);
    same(ssd().group_spec("name=a,wieght=1"), &["model:ssd", "--group", "name=a,wieght=1"]);
    same(ssd().machine("era=5"), &["model:ssd", "--machine", "era=5"]);
    same(ssd().workload("drr:iodepht=1"), &["model:ssd", "-w", "drr:iodepht=1"]);
    same(Experiment::on("model:sdd"), &["model:sdd"]);
    let refused = Experiment::on("/etc/hostname").workload("drw").plan().expect_err("it would be overwritten");
    assert_eq!(refused.exit, Exit::Refused);
    assert!(Path::new("/etc/hostname").exists() && refused.to_string().contains("may not be written to"), "{refused}");
}

#[test]
fn real_io_goes_through_the_engine() {
    let experiment = Experiment::on("memory:64MiB").group("a", 300).group("b", 100).workload("drr:iodepth=16");
    let outcome = short(experiment.scheduler("wfq")).run().unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.rows().iter().all(|row| row.ios_per_s > 100.0), "{}", outcome.table());
    assert!(outcome.json().contains("\"host\": \"engine\""));
}

#[test]
fn runs_are_followed_and_cancelled() {
    #[derive(Default)]
    struct Counting(AtomicUsize);
    impl Watch for Counting {
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
        fn finished(&self, done: usize, total: usize) {
            assert_eq!(total, 8);
            self.0.store(done, Ordering::Relaxed);
        }
    }
    let watch = Counting::default();
    let endless =
        Experiment::on("model:nvme").runtime(Duration::from_secs(1)).sets(2).workers(1).workload("drr:iodepth=32");
    let stopped = endless.run_watched(&watch).expect_err("the first finished run ends it");
    assert_eq!((stopped.exit, stopped.messages.len()), (Exit::Interrupted, 0));
    assert!(watch.0.load(Ordering::Relaxed) < 8);
}
