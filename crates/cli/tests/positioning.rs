//! A device that reports that it is rotational: this is believed if random reads take as long as on
//! a disk, or if the user says so.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;
#[path = "program/rig.rs"]
#[expect(dead_code, reason = "other tests look at what is left behind")]
mod rig;
mod served;

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use program::hoistway;
use rig::{Rig, possible};
use served::{Served, directory, pattern};

const MIB: usize = 1 << 20;

/// A device of 64 MiB; its first bytes are data, the rest was never written.
fn device(model: &str, written_mib: usize) -> Rig {
    let rig = Rig::create(&[model, "--size", "64M", "--memory", "128M"]);
    rig.set("rotational", "1");
    let mut file = File::options().write(true).open(&rig.node).expect("the device");
    file.write_all(&pattern(written_mib * MIB)).unwrap();
    file.sync_all().unwrap();
    rig
}

/// Whether clients are told that it is rotational, its queue depth, and the standard error output.
fn served_as(rig: &Rig, more: &[&str]) -> (bool, u64, String) {
    let directory = directory();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let mut command = served::hoistway();
    command.args(["serve", "--nbd", &format!("unix:{}", place("nbd.sock")), "--control", &place("control.sock")]);
    command.args(["--export", &format!("x={}", rig.node)]).args(more);
    let said = place("stderr");
    command.stderr(Stdio::from(File::create(&said).unwrap()));
    let served = Served::start(directory, command, 1);
    let status = served.status();
    let rotates = status["exports"][0]["rotational"].as_bool().expect("a boolean");
    let depth = status["devices"][0]["queue_depth"].as_u64().expect("a number");
    // Beside what a server says of every start, nothing but notes about the device is expected.
    let start = format!("hoistway: note: hoistway {} serves 1 export on 1 device\n", env!("CARGO_PKG_VERSION"));
    let said = fs::read_to_string(said).unwrap();
    assert_eq!(said.matches(&start).count(), 1, "{said:?}");
    let said = said.replace(&start, "");
    assert_eq!(served.terminate(), Some(0));
    (rotates, depth, said)
}

#[test]
fn the_system_is_corrected_where_reads_contradict_it() {
    let Some(_alone) = possible("devices that say they rotate") else { return };
    let flash = device("null,latency_us=100", 64);
    // While other processes use the CPUs, a read may take as long as on a disk.
    let mut found = (0..10).map(|_| served_as(&flash, &[]));
    let (_, depth, said) = found.find(|(rotates, ..)| !rotates).expect("once in ten times reads are quick");
    assert_eq!(depth, 128);
    for part in ["note: device 'default': the system reports it as rotational", "us (median)", "rotational = \"yes\""] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    // With an explicit `--rotational` the server does not measure.
    assert_eq!(served_as(&flash, &["--rotational", "yes"]), (true, 32, String::new()));
    assert_eq!(served_as(&flash, &["--rotational", "no"]), (false, 128, String::new()));
    let disk = device("sata", 64);
    assert_eq!(served_as(&disk, &[]), (true, 32, String::new()));
    assert_eq!(served_as(&disk, &["--rotational", "no"]), (false, 128, String::new()));
}

#[test]
fn an_unwritten_device_keeps_the_flag_of_the_system() {
    let Some(_alone) = possible("a device that is empty") else { return };
    assert_eq!(served_as(&device("null,latency_us=100", 2), &[]), (true, 32, String::new()));
}
