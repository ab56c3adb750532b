//! What clients are told after a backing has lost data, on real files and devices.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use hoistway_engine::protocol::{Command, Failure};
use hoistway_engine::{
    Backing, Client, ClientError, Damage, GroupHandle, ShardHandle, ShardSettings, VolumeSettings, start,
};
use hoistway_experiment::SchedulerSpec;

const MIB: u64 = 1 << 20;
const FAILED: ClientError = ClientError::Failed(Failure::Io);

fn file(bytes: u64) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("disk.img");
    std::fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
    let path = path.display().to_string();
    (directory, path)
}

/// A volume on the device or file at `path`.
fn volume_on(path: &str, uses_page_cache: bool) -> (ShardHandle, Client) {
    let backing = Backing::parse(path).expect("a backing");
    let volume = VolumeSettings { uses_page_cache, ..VolumeSettings::new("v", backing) };
    let settings = ShardSettings {
        scheduler: SchedulerSpec::named("noop"),
        memory_bytes: 64 << 20,
        threads: 1,
        ..ShardSettings::default()
    };
    let shard = start(settings, &[volume]).expect("a shard");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    (shard, client)
}

fn damage(shard: &ShardHandle) -> Option<Damage> {
    shard.status().expect("status").volumes[0].damage
}

fn truncate(path: &str, bytes: u64) {
    std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(bytes)).expect("truncated");
}

fn size(path: &str) -> u64 {
    Path::new(path).metadata().expect("metadata").len()
}

#[test]
fn a_write_does_not_extend_a_truncated_file() {
    for uses_page_cache in [false, true] {
        let (_directory, path) = file(64 * MIB);
        let (shard, client) = volume_on(&path, uses_page_cache);
        client.write(32 * MIB, &[7; 4_096]).expect("written");
        client.flush().expect("flushed");
        truncate(&path, 16 * MIB);
        let write =
            |offset, is_durable| client.submit(Command::Write, offset, 4_096, is_durable, vec![8; 4_096]).wait();
        assert_eq!(write(60 * MIB, false), Err(FAILED), "behind the new end");
        assert_eq!(size(&path), 16 * MIB, "what was answered must not become zeroes in between");
        assert_eq!(damage(&shard), Some(Damage::Truncated { intact_bytes: 16 * MIB }));
        assert_eq!(client.read(32 * MIB, 4_096), Err(FAILED), "its bytes are gone");
        assert_eq!(write(16 * MIB - 2_048, false), Err(FAILED), "across the end");
        assert_eq!(client.flush(), Err(FAILED));
        assert_eq!(write(0, true), Err(FAILED), "durable");
        assert_eq!(write(0, false), Ok(Vec::new()), "before the end, without a promise");
        assert_eq!(client.read(0, 4_096), Ok(vec![8; 4_096]));
        // Its old size does not bring back what it had.
        truncate(&path, 64 * MIB);
        assert_eq!(client.read(32 * MIB, 4_096), Err(FAILED));
        drop(client);
        assert_eq!(shard.drain(Duration::from_secs(60)).expect("drained").failed_syncs, 1);
    }
}

#[test]
fn a_flush_finds_a_file_that_was_truncated_inside_a_block() {
    let (_directory, path) = file(MIB);
    let (shard, client) = volume_on(&path, false);
    truncate(&path, 300_001);
    assert_eq!(client.flush(), Err(FAILED));
    assert_eq!(damage(&shard), Some(Damage::Truncated { intact_bytes: 300_001 }));
}

#[test]
fn reads_of_a_file_that_was_truncated_inside_a_block_fail_and_those_before_it_do_not() {
    let (_directory, path) = file(MIB);
    let (shard, client) = volume_on(&path, false);
    truncate(&path, 300_001);
    assert_eq!(client.read(0, MIB), Err(FAILED));
    assert_eq!(damage(&shard), Some(Damage::Truncated { intact_bytes: 300_001 }));
    assert_eq!(client.read(0, 4_096), Ok(vec![0; 4_096]));
}

#[test]
fn a_volume_of_any_size_keeps_every_byte() {
    for (text, bytes) in [("memory:1000001", 1_000_001), ("null:1000001", 1_000_001)] {
        let (shard, client) = volume_on(text, false);
        assert_eq!(shard.facts(shard.volumes()[0]).expect("facts").size_bytes, bytes);
        assert_eq!(client.read(bytes - 1, 1), Ok(vec![0]));
    }
    let (_directory, path) = file(1_000_001);
    let (shard, client) = volume_on(&path, false);
    let facts = shard.facts(shard.volumes()[0]).expect("facts");
    assert_eq!(facts.size_bytes, 1_000_001);
    client.write(999_999, b"zz").expect("the last bytes");
    assert_eq!(client.write(1_000_000, b"zz"), Err(ClientError::Failed(Failure::NoSpace)));
    client.write_zeroes(999_000, 1_000).expect("zeroed");
    client.flush().expect("flushed");
    assert_eq!(client.read(999_998, 3), Ok(b"\0\0z".to_vec()));
    assert_eq!(size(&path), 1_000_001);
    let mut last = [0; 2];
    std::fs::File::open(&path).and_then(|file| file.read_exact_at(&mut last, 999_999)).expect("read");
    assert_eq!(&last, b"\0z");
    // tmpfs and the like have no direct I/O to miss.
    if !facts.description.contains("in memory") {
        assert!(facts.note.is_some_and(|note| note.contains("1000001") && note.contains("page cache")));
    }
}
