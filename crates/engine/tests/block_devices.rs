//! Volumes on block devices that lose data, that cannot discard or zero, and that can: loop devices over
//! file systems in memory, and zram. They need root; without it the tests are skipped with a message.
#![allow(clippy::cast_possible_truncation, reason = "small sizes")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use hoistway_engine::protocol::{Command, Failure};
use hoistway_engine::{
    Backing, Client, ClientError, Damage, GroupHandle, ShardHandle, ShardSettings, VolumeFacts, VolumeSettings, start,
};
use hoistway_experiment::SchedulerSpec;
use hoistway_linux::loop_device::{self, LoopDevice};

const MIB: u64 = 1 << 20;
const FAILED: ClientError = ClientError::Failed(Failure::Io);

/// A loop device on a file of a file system in memory.
struct Device {
    node: PathBuf,
    number: u32,
    device: Option<LoopDevice>,
    mounted: tempfile::TempDir,
}

impl Device {
    /// On a file of `bytes` on a file system of this kind; `None`, with a message, where the test may not.
    fn on(test: &str, kind: &str, options: &str, bytes: u64) -> Option<Self> {
        let mounted = tempfile::tempdir().expect("a directory");
        let mount = Program::new("mount").args(["-t", kind, "-o", options, kind]).arg(mounted.path()).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            println!("SKIPPED {test}: a {kind} cannot be mounted (root only)");
            return None;
        }
        let path = mounted.path().join("disk.img");
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
        file.set_len(bytes).expect("a size");
        match LoopDevice::attach(file.as_fd(), 512, "hoistway-test") {
            Ok(device) => {
                let number = device.number();
                Some(Self { node: loop_device::node(number), number, device: Some(device), mounted })
            }
            Err(error) => {
                println!("SKIPPED {test}: no loop device: {error}");
                unmount(mounted.path());
                None
            }
        }
    }

    fn queue(&self, attribute: &str) -> u64 {
        let path = format!("/sys/block/loop{}/queue/{attribute}", self.number);
        fs::read_to_string(path).expect("sysfs").trim().parse().expect("a number")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.device.take());
        loop_device::remove(self.number);
        unmount(self.mounted.path());
    }
}

fn unmount(path: &Path) {
    let _ = Program::new("umount").arg("-l").arg(path).status();
}

fn volume_on(path: &Path, uses_page_cache: bool) -> (ShardHandle, Client, VolumeFacts) {
    let backing = Backing::parse(&path.display().to_string()).expect("a backing");
    let volume = VolumeSettings { uses_page_cache, ..VolumeSettings::new("v", backing) };
    let settings = ShardSettings {
        scheduler: SchedulerSpec::named("noop"),
        memory_bytes: 64 << 20,
        threads: 1,
        ..ShardSettings::default()
    };
    let shard = start(settings, &[volume]).expect("a shard");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let facts = shard.facts(shard.volumes()[0]).expect("facts");
    (shard, client, facts)
}

/// The device is full, but the page cache takes 32 MiB of writes: the failure of the write-back is
/// reported once.
#[test]
fn a_failed_fua_write_does_not_hide_what_the_page_cache_lost() {
    let name = "a_failed_fua_write_does_not_hide_what_the_page_cache_lost";
    let Some(device) = Device::on(name, "tmpfs", "size=8m", 64 * MIB) else { return };
    let (shard, client, _) = volume_on(&device.node, true);
    for at in 0..32 {
        client.write(at * MIB, &vec![5; MIB as usize]).expect("answered");
    }
    let durable = |offset| client.submit(Command::Write, offset, 4_096, true, vec![6; 4_096]).wait();
    // The kernel writes back, as it does after a while, and reports the failure to each description.
    let other = File::open(&device.node).expect("the device");
    assert!(other.sync_all().is_err());
    assert_eq!(durable(40 * MIB), Err(FAILED));
    for _ in 0..3 {
        assert_eq!(client.flush(), Err(FAILED));
        assert_eq!(durable(0), Err(FAILED));
    }
    assert_eq!(shard.status().expect("status").volumes[0].damage, Some(Damage::NotDurable));
    drop(client);
    assert_eq!(shard.drain(Duration::from_secs(60)).expect("drained").failed_syncs, 1);
}

/// Every command for emptying, on a device whose blocks were written before.
fn empty_all(shard: &ShardHandle, client: &Client) {
    client.write(0, &vec![9; 8 * MIB as usize]).expect("written");
    assert_eq!(client.submit(Command::Trim, 5 * MIB + MIB / 2, MIB, true, Vec::new()).wait(), Ok(Vec::new()));
    for (offset, length) in [(2 * MIB, MIB), (4 * MIB + 100, MIB + 1), (7 * MIB - 1, 2)] {
        client.submit(Command::WriteZeroes, offset, length, true, Vec::new()).wait().expect("zeroed");
        assert!(client.read(offset, length).expect("read").iter().all(|&byte| byte == 0), "{offset}+{length}");
        assert_eq!(client.read(offset - 1, 1), Ok(vec![9]));
        assert_eq!(client.read(offset + length, 1), Ok(vec![9]));
    }
    client.flush().expect("flushed");
    let status = shard.status().expect("status");
    assert_eq!((status.volumes[0].damage, status.violations), (None, 0));
}

#[test]
fn a_device_without_offloads_is_zeroed_by_writing_and_trims_have_no_effect() {
    let name = "a_device_without_offloads_is_zeroed_by_writing_and_trims_have_no_effect";
    let Some(device) = Device::on(name, "ramfs", "mode=700", 64 * MIB) else { return };
    assert_eq!((device.queue("write_zeroes_max_bytes"), device.queue("discard_max_bytes")), (0, 0));
    for uses_page_cache in [false, true] {
        let (shard, client, facts) = volume_on(&device.node, uses_page_cache);
        assert!(!facts.can_trim && !facts.can_zero_fast, "{facts:?}");
        empty_all(&shard, &client);
        assert_eq!(client.read(6 * MIB, 1), Ok(vec![9]), "the trim had no effect");
    }
}

#[test]
fn a_device_with_offloads_uses_them() {
    let Some(device) = Device::on("a_device_with_offloads_uses_them", "tmpfs", "size=64m", 64 * MIB) else { return };
    assert!(device.queue("write_zeroes_max_bytes") > 0 && device.queue("discard_max_bytes") > 0);
    let (shard, client, facts) = volume_on(&device.node, false);
    assert!(facts.can_trim && facts.can_zero_fast, "{facts:?}");
    empty_all(&shard, &client);
    assert_eq!(client.read(6 * MIB, 1), Ok(vec![0]), "a discarded block of a loop device is a hole");
}

/// A zram device, which counts what it stores.
struct Zram(String);

impl Drop for Zram {
    /// The device's file is closed a moment after the shard has ended.
    fn drop(&mut self) {
        let is_removed = || fs::write("/sys/class/zram-control/hot_remove", &self.0).is_ok();
        let _ = (0..6_000).any(|_| is_removed() || pause());
    }
}

fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(10));
    false
}

#[test]
fn a_trim_gives_a_devices_memory_back() {
    let added = fs::read_to_string("/sys/class/zram-control/hot_add");
    let Ok(number) = added.map(|number| number.trim().to_owned()) else {
        println!("SKIPPED a_trim_gives_a_devices_memory_back: no zram (root and its module are needed)");
        return;
    };
    let zram = Zram(number);
    let sysfs = format!("/sys/block/zram{}", zram.0);
    fs::write(format!("{sysfs}/disksize"), "64M").expect("a size");
    let node = PathBuf::from(format!("/dev/zram{}", zram.0));
    let stored = || {
        let text = fs::read_to_string(format!("{sysfs}/mm_stat")).expect("sysfs");
        text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    let (shard, client, facts) = volume_on(&node, false);
    assert!(facts.can_trim, "{facts:?}");
    let random: Vec<u8> = (0..4 * MIB).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    client.write(16 * MIB, &random).expect("written");
    let before = stored();
    client.submit(Command::Trim, 16 * MIB, 4 * MIB, false, Vec::new()).wait().expect("trimmed");
    // Before Linux 6.12 a hole does the same for zram.
    assert!(stored() + 3 * MIB < before, "{before} bytes were stored, and {} still are", stored());
    empty_all(&shard, &client);
}
