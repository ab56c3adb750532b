//! A request that cannot be fulfilled gives one message with its remedy and the right exit code,
//! and changes nothing. Source: docs/specifications/harness.md, section 1.5.

mod program;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use program::{entries, hoistway};

/// Runs the program and expects: the code, one `hoistway: error:` with all the words, a help line,
/// an unchanged directory.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    refused_in(directory.path(), arguments, code, words);
}

fn refused_in(directory: &Path, arguments: &[&str], code: i32, words: &[&str]) {
    let before = entries(directory);
    let said = hoistway(directory, arguments);
    assert_eq!(said.code, code, "{arguments:?}: {}{}", said.stdout, said.stderr);
    assert_eq!(said.stdout, "", "{arguments:?}");
    let errors = said.stderr.lines().filter(|line| line.starts_with("hoistway: error: ")).count();
    assert_eq!(errors, 1, "{arguments:?}: {}", said.stderr);
    assert!(said.stderr.lines().any(|line| line.starts_with("  help: ")), "{arguments:?}: {}", said.stderr);
    for word in words {
        assert!(said.stderr.contains(word), "{arguments:?}: no '{word}' in: {}", said.stderr);
    }
    assert_eq!(entries(directory), before, "{arguments:?}");
}

#[test]
fn an_unknown_scheduler() {
    refused(
        &["test", "-s", "mq-deadlin"],
        2,
        &["no scheduler 'mq-deadlin'", "(--sched mq-deadlin)", "nearest: mq-deadline"],
    );
}

#[test]
fn a_scheduler_that_is_no_name() {
    refused(&["test", "-s", "wfq:"], 2, &["(--sched wfq:)", "NAME[@VERSION]"]);
}

#[test]
fn a_version_that_never_was() {
    refused(&["test", "-s", "mq-deadline@x"], 2, &["'x' is no kernel version", "6.1"]);
}

#[test]
fn an_unknown_tunable() {
    let arguments = ["test", "-s", "mq-deadline:fifo_bach=1"];
    refused(&arguments, 2, &["no tunable 'fifo_bach'", "(--sched mq-deadline:fifo_bach=1)", "nearest: fifo_batch"]);
}

#[test]
fn a_tunable_out_of_range() {
    refused(&["test", "-s", "mq-deadline:front_merges=2"], 2, &["front_merges=2", "0 to 1"]);
}

#[test]
fn a_sweep_of_an_unknown_tunable() {
    refused(&["test", "--sweep", "fifo_bach=1,2"], 2, &["tunable 'fifo_bach'", "did you mean 'fifo_batch'"]);
}

#[test]
fn case_3_an_unknown_workload_gets_the_list_and_the_nearest() {
    let codes = ["bsr", "bsw", "bsm", "brr", "brw", "brm", "dsr", "dsw", "dsm", "drr", "drw", "drm"];
    refused(&["test", "-w", "bxr"], 2, &[&codes[..], &["did you mean 'bsr'"]].concat());
}

#[test]
fn an_unknown_key_behind_a_workload() {
    refused(&["test", "-w", "drr:iodpeth=4"], 2, &["'iodpeth'", "did you mean 'iodepth'"]);
}

#[test]
fn units_that_do_not_exist() {
    refused(&["test", "--runtime", "3x"], 2, &["'3x' is not a time", "(--runtime 3x)", "ms"]);
    refused(&["test", "--bs", "4q"], 2, &["'4q' is not a size", "(--bs 4q)", "KiB"]);
    refused(&["test", "--max-sets", "3", "--precision", "5pct"], 2, &["'5pct' is not a percentage"]);
    refused(&["test", "--percentiles", "50,101"], 2, &["'50,101'", "up to 100"]);
    refused(&["test", "--threads", "1,0"], 2, &["'1,0'", "1 to 4096"]);
}

#[test]
fn weights_outside_their_range() {
    for weights in ["0,100", "100,10001", "100..10001", "x"] {
        refused(&["test", "-c", "--weights", weights], 2, &["weight", "10000", &format!("(--weights {weights})")]);
    }
    let group = "name=a,weight=10001";
    refused(&["test", "--group", group], 2, &["weight 10001 is outside 1 to 10000", "(--group name=a,weight=10001)"]);
}

#[test]
fn more_groups_than_the_usual_weights_reach() {
    refused(&["test", "--nrgrp", "101"], 2, &["101 groups", "--weights"]);
}

#[test]
fn an_unknown_option_and_an_unknown_subcommand() {
    refused(&["test", "--wieghts", "1,2"], 2, &["'--wieghts'", "'--weights'"]);
    refused(&["tset"], 2, &["'tset'", "'test'"]);
}

#[test]
fn an_unknown_model_and_an_unknown_parameter_of_one() {
    refused(&["test", "model:sdd"], 2, &["no device model 'sdd'", "nearest: ssd"]);
    refused(&["test", "model:raid5x12,disk.sgments=4"], 2, &["'disk.sgments'", "nearest: disk.segments"]);
    refused(&["test", "model:ssd,chanels=4"], 2, &["'chanels'", "nearest: channels"]);
    refused(&["test", "model:ssd,channels=0"], 2, &["channels cannot be '0'", "1 to 1024"]);
}

#[test]
fn a_mistake_in_a_models_file_is_reported_with_line_value_range_and_nearest_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused_file = |text: &str, words: &[&str]| {
        fs::write(directory.path().join("my.toml"), text).unwrap();
        refused_in(directory.path(), &["test", "model:./my.toml"], 2, words);
        refused_in(directory.path(), &["device", "fit", "my.toml"], 2, words);
    };
    refused_file("type = \"flash\"\nchanels = 4\n", &["my.toml:2:1: ", "'chanels'", "nearest: channels (1 to 1024)"]);
    refused_file(
        "type = \"flash\"\nt_read = 50\n",
        &["my.toml:2:1: ", "lacks its unit", "t_read_us (0 to 100000000 us)"],
    );
    refused_file("type = \"hdd\"\nseek_avg_ms = \"9 ms\"\n", &["my.toml:2:15: ", "\"9 ms\"", "a bare number of ms"]);
    refused_file("type = \"hdd\"\nrpm = -5400\n", &["my.toml:2:7: ", "rpm cannot be '-5400'", "60 to 100000"]);
    refused_file("type = \"hdd\"\nheads = 1000000\n", &["my.toml:2:9: ", "'1000000'", "1 to 64"]);
    let dies = "base = \"ssd\"\ncapacity_sectors = 65536\nchannels = 256\ndies_per_channel = 64\n";
    refused_file(dies, &["my.toml:3:1: channels: ", "channels x dies_per_channel", "at most"]);
    refused_file("base = \"sata\"\nseek_avg_ms = 30\n", &["my.toml:2:1: seek_full_ms: ", "seek_avg_ms = 30"]);
    refused_file("type = \"hdd\"\nrpm = \n", &["my.toml:2:", "not TOML"]);
    refused_file("[[anchor]]\n", &["my.toml:1:1: ", "neither type"]);
    refused_in(directory.path(), &["device", "show", "./none.toml"], 2, &["cannot be read", "No such file"]);
    refused_in(directory.path(), &["device", "show", "sata,rmp=1"], 2, &["'rmp'", "nearest: rpm"]);
}

#[test]
fn rows_that_cannot_be_calibrated_with() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused_rows = |name: &str, text: &str, more: &[&str], words: &[&str]| {
        fs::write(directory.path().join(name), text).unwrap();
        let arguments = [&["device", "calibrate", "ssd", "--rows", name], more].concat();
        refused_in(directory.path(), &arguments, 2, words);
    };
    let row = "[[anchor]]\nname = \"x\"\nfigure = \"iops\"\npublished = 5\nunit = \"1/s\"\nscheduler = \"none\"\n";
    let job = "job = \"[j]\\nrw=randread\"\n";
    refused_rows("r.toml", "", &[], &["no row to calibrate with", "(--rows r.toml)"]);
    refused_rows("r.toml", row, &[], &["r.toml:1:", "needs job"]);
    refused_rows("r.toml", &format!("{row}job = \"[j]\\nrw=x\"\n"), &[], &["x:2:", "rw"]);
    refused_rows("r.toml", &format!("{row}{job}wrong = 1\n"), &[], &["r.toml:8:1: ", "an anchor has no 'wrong'"]);
    let unit = format!("{row}{job}").replace("1/s", "MB");
    refused_rows("r.toml", &unit, &[], &["r.toml:5:8: ", "unit = \"MB\"", "allowed: 1/s"]);
    let sound = format!("{row}{job}");
    refused_rows("r.toml", &sound, &["--free", "t_raed_us"], &["'t_raed_us'", "did you mean 't_read_us'"]);
    refused_rows("r.toml", &sound, &["--free", "read_priority"], &["is not a number"]);
    refused_rows("r.toml", &sound, &["--free", "error_ppm"], &["error_ppm is 0", "MODEL,error_ppm=1"]);
    refused_rows("r.toml", &sound.replace("none", "nine"), &[], &["no scheduler 'nine'"]);
    refused_rows("r.json", "{\"jobs\": [", &[], &["fio output ends at byte 10", "(--rows r.json)"]);
    refused_rows("r.json", "{}", &[], &["fio output has no jobs[]"]);
    refused_in(directory.path(), &["device", "calibrate", "ssd", "--rows", "none.toml"], 2, &["cannot read none.toml"]);
}

#[test]
fn hosts_that_do_not_exist_or_cannot_use_the_target() {
    refused(
        &["test", "--host", "kernel"],
        2,
        &["needs a block device, a file or a directory, and 'model:sata' is not one", "(--host)"],
    );
    refused(&["test", "--host", "native", "memory:1MiB"], 2, &["a file or a directory, and 'memory:1MiB' is not one"]);
    refused(&["test", "--host", "native", "Cargo.toml"], 2, &["does not exist"]);
    refused(&["test", "--host", "engin"], 2, &["no host 'engin'", "did you mean 'engine'"]);
    refused(&["test", "--host", "sim", "/tmp"], 2, &["the simulator has no target '/tmp'"]);
}

#[test]
fn options_of_later_issues_are_refused_not_ignored() {
    refused(&["test", "--trace", "x.blk"], 2, &["there is no trace x.blk, nor x.blk.blktrace.0"]);
    refused(&["test", "--generator", "fio"], 2, &["(--generator fio)", "the simulator has none"]);
    refused(&["test", "--group", "name=a,low_rbps=1M"], 2, &["no effect", "idle=", "latency="]);
}

#[test]
fn writing_needs_the_device_named_twice() {
    refused(&["test", "--destructive"], 2, &["--destructive <DEVICE>"]);
    refused(&["test", "--destructive", "/dev/sdx", "-w", "drw"], 2, &["/dev/sdx is not the target", "(--destructive)"]);
    refused(&["test", "--overwrite-signature"], 2, &["--destructive <DEVICE>"]);
}

#[test]
fn models_that_cannot_become_devices() {
    refused(&["device", "create", "--model", "sat"], 2, &["nearest: sata"]);
    refused(&["device", "create", "--model", "sata", "--size", "5000"], 2, &["5000 bytes", "(--size)"]);
    refused(&["device", "create"], 2, &["--model <MODEL>"]);
    refused(&["device", "delete", "/dev/loop9999"], 2, &["/dev/loop9999 is not a device of `hoistway device create`"]);
}

#[test]
fn limits_and_limiters_that_cannot_be() {
    refused(&["test", "--group", "name=a,rbps=1"], 2, &["rbps=1 is too small", "at least 2"]);
    refused(&["test", "--limiter", "trottle"], 2, &["no limiter 'trottle'", "throttle"]);
    refused(&["test", "--limiter", "throttle:high=2"], 2, &["high=2", "allowed: 0 to 1"]);
    refused(&["test", "--limiter", "throttle:hihg=1"], 2, &["no tunable 'hihg'", "high"]);
    refused(&["test", "--limiter", "throttle", "--limiter", "throttle"], 2, &["'throttle' is given twice"]);
}

#[test]
fn formats_and_files_that_cannot_be() {
    refused(&["test", "--format", "jsn"], 2, &["no format 'jsn'", "did you mean 'json'"]);
    refused(&["test", "--format", "json", "--format", "text"], 2, &["cannot share stdout"]);
    refused(&["test", "--format", "json=nowhere/x.json"], 1, &["no directory nowhere"]);
    refused(&["test", "--output", "/"], 1, &["it is a directory"]);
}

#[test]
fn a_result_directory_that_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("result")).unwrap();
    fs::write(directory.path().join("result/precious"), "x").unwrap();
    let said = hoistway(directory.path(), &["test", "-o", "result", "--quiet"]);
    assert!(said.code == 2 && said.stderr.contains("is not empty (--outdir)"), "{}", said.stderr);
    assert_eq!(entries(&directory.path().join("result")), ["precious"]);
}

#[test]
fn results_that_are_none() {
    let directory = tempfile::tempdir().expect("a directory");
    refused_in(directory.path(), &["test", "report", "."], 2, &["not a result directory", "plan.json"]);
    refused_in(
        directory.path(),
        &["test", "--assert", "total_bw >= 1*baseline"],
        2,
        &["needs a stored result", "--baseline"],
    );
}

#[test]
fn job_files_with_mistakes_are_quoted_at_their_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = "[j]\nrw=randread\nzonemode=zbd\n";
    fs::write(directory.path().join("bad.fio"), file).unwrap();
    refused_in(directory.path(), &["test", "-w", "bad.fio"], 2, &["bad.fio:3:1: ", "   3 | zonemode=zbd"]);
    refused_in(directory.path(), &["test", "-w", "none.fio"], 2, &["cannot read the job file none.fio"]);
    refused_in(directory.path(), &["test", "--bs", "4k", "-w", "bad.fio"], 2, &["contradict"]);
}

#[test]
fn case_24_a_mistyped_device_is_refused_and_not_created() {
    // A name that is mistyped is no danger, whatever it should have named.
    refused(&["test", "/dev/doesnotexist0"], 2, &["/dev/doesnotexist0 does not exist", "lsblk"]);
    refused(&["tune", "--from-fio", "no.json"], 2, &["cannot read no.json", "name an existing file"]);
    refused(&["compare", "no.json", "no.json"], 2, &["no.json"]);
    assert!(!Path::new("/dev/doesnotexist0").exists());
    refused(&["test", "--file", "/dev/doesnotexist0"], 3, &["/dev", "memory"]);
    assert!(!Path::new("/dev/doesnotexist0").exists());
}

#[test]
fn case_24_a_regular_file_in_dev_is_refused_with_the_reason() {
    let path = format!("/dev/hoistway-bad-input-{}", std::process::id());
    if fs::write(&path, [7; 4096]).is_err() {
        eprintln!("skipped: a file in /dev needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let said = hoistway(directory.path(), &["test", &path]);
    fs::remove_file(&path).expect("our own file");
    assert!(said.code == 3 && said.stderr.contains("memory: not a disk"), "{} {}", said.code, said.stderr);
}

#[test]
fn targets_that_are_no_disks() {
    refused(&["test", "/dev/null"], 3, &["a character device"]);
    refused(&["test", "no/such/file"], 2, &["does not exist"]);
}

#[test]
fn files_that_are_not_ours_are_not_written() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("precious"), vec![7; 1 << 20]).unwrap();
    refused_in(directory.path(), &["test", "precious", "-w", "drw"], 3, &["may not be written to"]);
    refused_in(directory.path(), &["test", "--file", "precious"], 3, &["was not created by hoistway as a test file"]);
    assert_eq!(fs::read(directory.path().join("precious")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn a_sparse_file_measures_memory_and_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::File::create(directory.path().join("sparse")).unwrap().set_len(64 << 20).unwrap();
    let said = hoistway(directory.path(), &["test", "sparse", "--no-store", "-s", "noop"]);
    assert!(said.code == 2 && said.stderr.contains("has a hole at byte 0"), "{} {}", said.code, said.stderr);
}

#[test]
fn a_file_that_may_not_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("secret");
    fs::write(&path, vec![7; 8192]).unwrap();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set_mode(&path, 0o000);
    set_mode(directory.path(), 0o755);
    let mut program = program::command(directory.path(), &["test", "secret"]);
    if fs::read(&path).is_ok() {
        // Root can read everything; the user 65534 cannot.
        program.uid(65_534).gid(65_534);
    }
    let output = match program.output() {
        Ok(output) => program::Said::from(output),
        Err(error) => {
            eprintln!("skipped: the program cannot be started as user 65534: {error}");
            return;
        }
    };
    assert!(
        output.code == 1 && output.stderr.contains("secret: Permission denied"),
        "{} {}",
        output.code,
        output.stderr
    );
    assert!(output.stderr.contains("  help: get read permission"), "{}", output.stderr);
}

#[test]
fn precision_alone_and_other_options_without_effect() {
    refused(&["test", "--precision", "1%"], 2, &["--max-sets"]);
    refused(&["test", "--max-sets", "2", "--sets", "3"], 2, &["below"]);
    refused(&["test", "--exclusive"], 2, &["--exclusive has no meaning"]);
    refused(&["test", "--keep"], 2, &["--keep needs a directory as the target"]);
}

#[test]
fn lists_of_nothing() {
    refused(&["list", "mq-deadline@1.0"], 2, &["no mq-deadline of version '1.0'", "6.1"]);
    refused(&["list", "devcies"], 2, &["no list of 'devcies'", "did you mean 'devices'"]);
}

#[test]
fn judged_cells_say_what_they_do_not_have() {
    let refused_of =
        |more: &[&str], words: &[&str]| refused(&[&["test", "--scenario", "everyday"], more].concat(), 2, words);
    refused_of(&["--device", "sdd"], &["sdd", "model:sdd"]);
    refused_of(&["/tmp"], &["'/tmp' is not one", "model:NAME"]);
    refused_of(&["--seeds", "1,x"], &["'1,x' is not a list of seeds", "--seeds"]);
    refused_of(&["--seeds", "1,1"], &["'1,1' is not a list of seeds"]);
    refused_of(&["--cells", "floppy"], &["no cell has 'floppy' in its name", "--dry-run"]);
    refused_of(&["--against", "mqfk"], &["mqfk", "nearest: mqfq"]);
    refused_of(&["--weights", "100,0"], &["weight 0 is outside 1 to 10000"]);
    refused_of(&["-w", "drrr"], &["unknown workload 'drrr'"]);
    refused_of(&["--format", "csv"], &["no format 'csv'", "text, json, html, figure"]);
    refused_of(&["--sets", "3"], &["(--sets)", "--seeds"]);
    refused_of(&["--host", "native"], &["(--host)"]);
    refused(&["test", "--scenario", "everyday:quik"], 2, &["no part 'quik'", "did you mean 'quick'?"]);
    refused(&["test", "--scenario", "shares", "--weights", "1,2"], 2, &["(--weights)", "everyday"]);
    refused(&["test", "--weights", "1,2", "--weights", "2,1"], 2, &["--weights is given 2 times", "everyday"]);
    refused(&["test", "--seeds", "1,2"], 2, &["--scenario"]);
}

/// The initial state of this drive takes minutes; the limit is of processor time.
#[test]
fn what_is_refused_or_only_planned_is_so_before_a_drive_is_overwritten() {
    let aged = "model:ssd,precondition=random,random_mult=100";
    let plans: [(&[&str], i32); 6] = [
        (&["-s", "noop", "-s", "wfq", "--dry-run"], 0),
        (&["-s", "noop", "-s", "wfqq"], 2),
        (&["--host", "engine", "--dry-run"], 0),
        (&["--scenario", "everyday", "--dry-run"], 0),
        (&["--scenario", "everyday", "--cells", "floppy"], 2),
        (&["--scenario", "isolation", "--dry-run"], 0),
    ];
    for (arguments, code) in plans {
        let directory = tempfile::tempdir().expect("a directory");
        let command = program::command(directory.path(), &[&["test", aged], arguments].concat());
        let mut limited = std::process::Command::new("bash");
        limited.args(["-c", "ulimit -t 20; exec \"$@\"", "bash"]).arg(command.get_program()).args(command.get_args());
        limited.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let said = limited.current_dir(directory.path()).output().expect("bash");
        assert_eq!(said.status.code(), Some(code), "{arguments:?}: {said:?}");
    }
}

#[test]
fn a_mistake_in_a_scenario_of_cells_is_reported_with_its_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |text: &str, words: &[&str]| {
        fs::write(directory.path().join("own.toml"), text).expect("a file");
        refused_in(directory.path(), &["test", "--scenario", "own.toml"], 2, words);
    };
    let grid = "title = \"t\"\n[grid]\ndevices = [\"ssd\"]\nworkloads = [\"drr\"]\nweights = [\"1,2\"]\n";
    refused(&format!("{grid}seeds = [1]\n"), &["own.toml:6: ", "seeds"]);
    refused(
        &format!("{grid}[judge]\nflash = {{ ramp = \"3x\", writes_ramp = \"3s\", runtime = \"3s\" }}\n"),
        &["own.toml:7: '3x'"],
    );
    refused(&format!("{grid}[[step]]\nname = \"a\"\ntest = \"\"\n"), &["steps and cells"]);
    let cell = "title = \"t\"\n[[cell]]\nname = \"c\"\ndevices = [\"ssd\"]\ngroups = [\"name=a,wieght=3\"]\n";
    refused(cell, &["'wieght'", "cell c"]);
    refused(
        &cell.replace("wieght=3", "workload=drr").replace("groups", "changes = [\"3s\", \"2s\"]\ngroups"),
        &["changes are not in order"],
    );
}

/// Commands that read a user's file: an endless device, a pipe without a writer and a gigabyte of
/// zeros are errors, with little memory. Without bounds these tests would be killed by the memory
/// limit, or hang.
#[test]
fn files_without_end_are_refused_with_little_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let sparse = fs::File::create(directory.path().join("sparse")).and_then(|file| file.set_len(1 << 30));
    sparse.expect("a sparse file");
    let made = std::process::Command::new("mkfifo").arg(directory.path().join("fifo")).status();
    assert!(made.expect("mkfifo").success());
    fs::write(
        directory.path().join("t.csv"),
        "time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n0,8:0,read,0,4096,,1,w,0,,\n",
    )
    .expect("written");
    let readers: [&[&str]; 18] = [
        &["test", "--show-jobs", "FILE"],
        &["test", "--job", "FILE"],
        &["test", "-w", "./FILE"],
        &["test", "--scenario", "./FILE"],
        &["device", "calibrate", "ssd", "--rows", "FILE"],
        &["device", "show", "./FILE"],
        &["compare", "FILE", "FILE"],
        &["tune", "--from", "FILE"],
        &["tune", "model:null", "--from-fio", "FILE"],
        &["tune", "model:null", "--load", "FILE"],
        &["serve", "FILE"],
        &["serve", "FILE", "--check"],
        &["trace", "info", "FILE"],
        &["trace", "cat", "FILE"],
        &["trace", "cat", "--format", "blkparse", "FILE"],
        &["trace", "cat", "--format", "vscsi", "FILE"],
        &["replay", "FILE", "--no-store"],
        &["trace", "convert", "t.csv", "--to", "csv", "--out", "o", "--groups-by", "file=FILE"],
    ];
    for reader in readers {
        for file in ["/dev/zero", "fifo", "sparse"] {
            let arguments: Vec<String> = reader.iter().map(|argument| argument.replace("FILE", file)).collect();
            let limited = "ulimit -v 1500000; exec timeout 60 \"$@\"";
            let output = std::process::Command::new("sh")
                .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_hoistway")])
                .args(&arguments)
                .current_dir(directory.path())
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(code == Some(1) || code == Some(2), "{arguments:?}: {code:?}: {said}");
            assert!(said.contains("error: ") && !said.contains("memory allocation"), "{arguments:?}: {said}");
        }
    }
    assert!(!directory.path().join("o").exists());
}

/// A device is named in the same way for all commands, and options are accepted in any position.
#[test]
fn arguments_stand_where_people_write_them() {
    refused(&["trace", "record", "/dev/none", "--out", "x"], 1, &["/dev/none"]);
    refused(&["trace", "record", "--device", "/dev/none", "--out", "x"], 1, &["/dev/none"]);
    refused(&["trace", "record", "--out", "x"], 2, &["<DEVICE>"]);
    for arguments in [["ctl", "--control", "/none.sock", "status"], ["ctl", "status", "--control", "/none.sock"]] {
        refused(&arguments, 1, &["no answer from the control socket /none.sock"]);
    }
    refused(&["ctl", "set", "group", "a", "5", "--json", "--control", "/none.sock"], 1, &["/none.sock"]);
}

/// The destination of a page is checked before the runs, not after them.
#[test]
fn what_cannot_be_written_is_said_before_the_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["demo", "--output", "/proc/none.html"];
    let said = hoistway(directory.path(), &arguments);
    assert!(said.code == 1 && said.stderr.contains("cannot write /proc/none.html"), "{}", said.stderr);
    assert!(said.stdout.is_empty(), "it has begun: {}", said.stdout);
}

#[test]
fn a_socket_path_that_is_too_long() {
    let long = format!("/tmp/{}", "x".repeat(120));
    let socket = format!("unix:{long}");
    for (flag, arguments) in [
        ("--nbd", vec!["--nbd", &socket]),
        ("--control", vec!["--nbd", "unix:nbd.sock", "--control", &long]),
        ("--vhost-user", vec!["--vhost-user", &socket]),
    ] {
        let arguments = [&["serve", "--memory", "64MiB", "--export", "a=memory:1MiB"], &arguments[..]].concat();
        refused(&arguments, 2, &[&format!("{flag}: cannot make the socket /tmp/xx"), "at most 107 bytes"]);
    }
}

#[test]
fn a_kernel_without_ublk() {
    if Path::new("/dev/ublk-control").exists() {
        println!("skipped: this kernel has the ublk driver");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
                [[device.export]]\nname = \"b\"\nbacking = \"memory:1MiB\"\nublk = true\n";
    fs::write(directory.path().join("serve.toml"), text).expect("written");
    let words = ["serve.toml:8:8: export 'b': the kernel has no ublk driver", "help: modprobe ublk_drv"];
    refused_in(directory.path(), &["serve", "serve.toml"], 1, &words);
}
