//! Models as real block devices: created quickly, accurate, and removed completely however they
//! end.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;
#[path = "program/quiet.rs"]
mod quiet;
#[path = "program/rig.rs"]
mod rig;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use program::{command, hoistway};
use quiet::undisturbed;
use rig::{Rig, becomes, left_behind, left_since, possible};
use serde_json::Value;

fn listed(node: &str) -> Value {
    let said = hoistway(Path::new("/"), &["device", "list", "--json"]);
    let rigs: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let number: u64 = node.trim_start_matches("/dev/loop").parse().expect("a loop device");
    rigs.as_array().expect("a list").iter().find(|rig| rig["number"] == number).cloned().unwrap_or(Value::Null)
}

fn pid(rig: &Value, who: &str) -> String {
    rig[who]["pid"].as_i64().expect("a process").to_string()
}

/// Direct random reads for some seconds, by one process with 16 in flight.
fn reader(node: &str, seconds: &str) -> Child {
    let arguments = ["--name=r", "--direct=1", "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16"];
    let time = [format!("--runtime={seconds}"), "--time_based".to_owned(), format!("--filename={node}")];
    let mut fio = Command::new("fio");
    fio.args(arguments).args(time).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("fio")
}

#[test]
fn a_device_looks_like_its_model_and_starts_at_once() {
    let Some(_alone) = possible("a device") else { return };
    let before = left_behind();
    // Whatever its size: this would take hours if a device were written or held in memory.
    let huge = Rig::create(&["sata-disk", "--size", "8T"]);
    drop(huge);
    let sata = Rig::create(&["sata-disk", "--size", "8G"]);
    let sectors = fs::read_to_string(sata.queue("../size")).unwrap();
    assert_eq!((sectors.trim(), sata.get("rotational").as_str()), ("16777216", "1"));
    assert_eq!((sata.get("nr_requests").as_str(), sata.get("write_cache").as_str()), ("32", "write back"));
    assert_eq!(sata.get("max_sectors_kb"), "1024");
    let second = Rig::create(&["null,queue_depth=8", "--size", "1G"]);
    assert_ne!(second.node, sata.node);
    assert_eq!((second.get("rotational").as_str(), second.get("write_cache").as_str()), ("0", "write through"));
    assert_eq!(listed(&second.node)["depth"], 8);
    drop((sata, second));
    assert_eq!(left_since(&before), [""; 0]);
}

#[test]
fn what_was_written_is_read_again_and_memory_is_bounded() {
    let Some(_alone) = possible("data") else { return };
    let rig = Rig::create(&["null,latency_us=50", "--size", "1G", "--memory", "1M"]);
    let mut file = File::options().read(true).write(true).open(&rig.node).expect("the device");
    let pattern: Vec<u8> = (0..600_000_u32).map(|byte| (byte % 251).to_le_bytes()[0]).collect();
    for at in [0, 500_000_003] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&pattern[..300_000]).unwrap();
    }
    file.sync_all().unwrap();
    // Read back with direct I/O, by another process.
    let read = |skip_mib: u64| {
        let input = [format!("if={}", rig.node), format!("skip={skip_mib}"), "bs=1M".into(), "count=1".into()];
        Command::new("dd").args(input).arg("iflag=direct").stderr(Stdio::null()).output().expect("dd").stdout
    };
    assert_eq!(read(0)[..300_000], pattern[..300_000]);
    let within = 500_000_003 % (1 << 20);
    assert_eq!(read(500_000_003 >> 20)[within..within + 100_000], pattern[..100_000]);
    assert!(read(900).iter().all(|byte| *byte == 0));
    // Only 1 MiB of memory is allowed for written data, so a write of 4 MiB fails.
    file.seek(SeekFrom::Start(0)).unwrap();
    let outcome = file.write_all(&[1; 4 << 20]).and_then(|()| file.sync_all());
    assert!(outcome.is_err(), "more was kept than allowed");
    let mut byte = [0];
    file.seek(SeekFrom::Start(100)).unwrap();
    file.read_exact(&mut byte).unwrap();
}

/// Half of the completions are at most 128 us late on any quiet machine that this runs on; the exact
/// figures are in docs/devices.md.
#[test]
fn the_model_keeps_its_time() {
    let Some(_alone) = possible("timing") else { return };
    let rig = Rig::create(&["null,latency_us=2000", "--size", "1G"]);
    let mut file = File::open(&rig.node).expect("the device");
    let read_all = || {
        let read = |round: u64| {
            // Always at another place, which is not in the page cache.
            file.seek(SeekFrom::Start(round * (4 << 20))).unwrap();
            let begin = Instant::now();
            file.read_exact(&mut [0; 512]).unwrap();
            begin.elapsed()
        };
        let mut latencies: Vec<Duration> = (0..200).map(read).collect();
        latencies.sort();
        assert!(latencies[0] >= Duration::from_micros(2_000), "faster than the model: {:?}", latencies[0]);
        latencies
    };
    let Some(latencies) = undisturbed("timing", read_all) else { return };
    let counts = || -> Vec<u64> {
        let counts = listed(&rig.node)["lateness"]["counts"].clone();
        counts.as_array().expect("counts").iter().filter_map(Value::as_u64).collect()
    };
    assert!(becomes(|| counts().iter().sum::<u64>() >= 200), "{:?}", counts());
    assert!(latencies[20] < Duration::from_micros(2_600), "{:?}", &latencies[..21]);
    let counts = counts();
    let (all, early): (u64, u64) = (counts.iter().sum(), counts.iter().take(8).sum());
    assert!(early * 2 > all, "{counts:?}");
}

/// The driver accepts as many commands as the model, under every scheduler: requests beyond that
/// stay in the scheduler, which can order them.
#[test]
fn the_block_device_is_as_deep_as_the_model() {
    let Some(_alone) = possible("depth") else { return };
    let rig = Rig::create(&["null,latency_us=20000,queue_depth=6", "--size", "1G"]);
    for scheduler in ["bfq", "mq-deadline", "none"] {
        rig.set("scheduler", scheduler);
        reader(&rig.node, "1").wait().expect("fio");
    }
    let seen = || ["most_in_service", "most_arrived"].map(|name| listed(&rig.node)[name].as_u64());
    becomes(|| seen() >= [Some(6); 2]);
    assert_eq!(seen(), [Some(6); 2]);
}

#[test]
fn nothing_is_left_after_any_process_is_killed() {
    let Some(_alone) = possible("kill") else { return };
    let before = left_behind();
    for victims in [&["server"][..], &["keeper"], &["server", "keeper"]] {
        let rig = Rig::create(&["sata", "--size", "4G"]);
        let processes = listed(&rig.node);
        let mut reader = reader(&rig.node, "1");
        std::thread::sleep(Duration::from_millis(300));
        for victim in victims {
            let killed = Command::new("kill").args(["-KILL", &pid(&processes, victim)]).status();
            assert!(killed.is_ok_and(|status| status.success()), "{victim}");
        }
        reader.wait().expect("fio ends, with errors or without");
        let mut seen = String::new();
        if victims.len() == 2 {
            // Records the state that the next command finds, for the message if the test fails: a
            // killed process may still be exiting.
            for victim in victims {
                let stat = format!("/proc/{}/stat", pid(&processes, victim));
                seen +=
                    &format!("{victim}: {}; ", std::fs::read_to_string(stat).unwrap_or_else(|error| error.to_string()));
            }
            // No process is left that could clean up; the next command that lists the devices does
            // it.
            let begin = Instant::now();
            let said = hoistway(Path::new("/"), &["device", "list"]);
            seen += &format!("device list took {:?}: {}{}", begin.elapsed(), said.stdout, said.stderr);
        }
        assert_eq!(left_since(&before), [""; 0], "after {victims:?}; {seen}");
    }
}

#[test]
fn in_the_foreground_it_lives_as_long_as_the_command() {
    let Some(_alone) = possible("foreground") else { return };
    let before = left_behind();
    for signal in ["-INT", "-TERM", "-KILL"] {
        let arguments = ["device", "create", "--model", "sata", "--size", "1G", "--foreground"];
        let mut child = command(Path::new("/"), &arguments).stdout(Stdio::piped()).spawn().expect("the program");
        let mut node = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut node).expect("a line");
        assert!(Path::new(node.trim()).exists(), "{node}");
        Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
        let status = child.wait().expect("the end");
        let expected = match signal {
            "-INT" => Some(130),
            "-TERM" => Some(143),
            _ => None,
        };
        assert_eq!(status.code(), expected);
        assert_eq!(left_since(&before), [""; 0], "after {signal}");
    }
}

#[test]
fn a_device_in_use_is_not_deleted() {
    let Some(_alone) = possible("delete") else { return };
    let rig = Rig::create(&["null", "--size", "64M"]);
    let claim = rustix_exclusive(&rig.node);
    let said = hoistway(Path::new("/"), &["device", "delete", &rig.node]);
    assert!(said.code == 3 && said.stderr.contains("is in use"), "{}", said.stderr);
    assert_ne!(listed(&rig.node), Value::Null);
    drop(claim);
    let said = hoistway(Path::new("/"), &["device", "delete", &rig.node]);
    assert_eq!((said.code, listed(&rig.node)), (0, Value::Null), "{}", said.stderr);
}

/// Opened exclusively, as a mount does.
fn rustix_exclusive(node: &str) -> File {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_EXCL).open(node).expect("no other process has it open")
}
