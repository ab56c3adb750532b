//! Real I/O through the in-process client: every kind of backing, every command.
#![allow(clippy::cast_possible_truncation, reason = "patterns and small sizes")]

use std::time::{Duration, Instant};

use hoistway_engine::protocol::{Command, Failure};
use hoistway_engine::{
    Backing, ClientError, Damage, GroupHandle, ShardHandle, ShardSettings, VolumeSettings, counters::Counted, start,
};
use hoistway_experiment::SchedulerSpec;

fn settings(scheduler: &str) -> ShardSettings {
    ShardSettings { scheduler: SchedulerSpec::named(scheduler), memory_bytes: 64 << 20, ..ShardSettings::default() }
}

fn shard_on(backing: &str) -> ShardHandle {
    let volume = VolumeSettings::new("v", Backing::parse(backing).expect("a backing"));
    start(settings("noop"), &[volume]).expect("a shard")
}

fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut stream = hoistway_block::random::Stream::new(seed);
    (0..bytes).map(|_| stream.next().to_le_bytes()[0]).collect()
}

/// A file of this size on the disk that holds the build, or on tmpfs.
fn file(directory: &tempfile::TempDir, bytes: u64) -> String {
    let path = directory.path().join("disk.img");
    std::fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
    path.display().to_string()
}

fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Random writes, zeroings, trims and reads of every alignment, compared with a copy in memory.
fn torture(shard: &ShardHandle, size_bytes: u64, rounds: u32, seed: u64) {
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let mut stream = hoistway_block::random::Stream::new(seed);
    let mut copy = vec![0_u8; usize::try_from(size_bytes).expect("small")];
    for round in 0..rounds {
        let longest = if stream.chance(1, 8) { 3 << 20 } else { 20_000 };
        let mut offset = stream.below(size_bytes);
        let mut length = 1 + stream.below(longest).min(size_bytes - offset - 1);
        if stream.chance(1, 2) {
            offset -= offset % 4_096;
            length = length.next_multiple_of(4_096).min(size_bytes - offset);
        }
        let (start, end) = (offset as usize, (offset + length) as usize);
        match stream.below(6) {
            0 | 1 => {
                let data = pattern(end - start, u64::from(round));
                let is_durable = stream.chance(1, 4);
                client.submit(Command::Write, offset, length, is_durable, data.clone()).wait().expect("written");
                copy[start..end].copy_from_slice(&data);
            }
            2 => {
                client.write_zeroes(offset, length).expect("zeroed");
                copy[start..end].fill(0);
            }
            3 => client.flush().expect("flushed"),
            _ => {
                let data = client.read(offset, length).expect("read");
                let differs = data.iter().zip(&copy[start..end]).position(|(got, want)| got != want);
                assert_eq!(differs, None, "round {round}: {offset}+{length}, seed {seed}");
            }
        }
    }
    assert!(client.read(0, size_bytes).expect("read") == copy, "the whole volume, seed {seed}");
}

#[test]
fn data_comes_back_as_written_from_a_direct_file() {
    let directory = on_disk();
    let shard = shard_on(&file(&directory, 16 << 20));
    torture(&shard, 16 << 20, 300, 1);
    assert_eq!(shard.status().expect("status").violations, 0);
}

#[test]
fn data_comes_back_as_written_through_the_page_cache() {
    let directory = on_disk();
    let backing = Backing::parse(&file(&directory, 8 << 20)).expect("a backing");
    let volume = VolumeSettings { uses_page_cache: true, ..VolumeSettings::new("v", backing) };
    let shard = start(settings("mq-deadline"), &[volume]).expect("a shard");
    torture(&shard, 8 << 20, 300, 2);
}

#[test]
fn data_comes_back_as_written_from_memory() {
    let shard = shard_on("memory:16MiB");
    torture(&shard, 16 << 20, 500, 3);
    assert!(shard.status().expect("status").loop_counters.inline_ios > 0);
}

#[test]
fn data_comes_back_as_written_behind_a_device_model() {
    let directory = on_disk();
    let shard = shard_on(&format!("model:null,latency_us=50,{}", file(&directory, 4 << 20)));
    torture(&shard, 4 << 20, 200, 4);
}

#[test]
fn test_14_requests_of_length_zero_succeed_without_touching_the_disk() {
    let shard = shard_on("memory:1MiB");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    for command in [Command::Read, Command::Write, Command::Trim, Command::WriteZeroes] {
        assert_eq!(client.submit(command, 4_096, 0, false, Vec::new()).wait(), Ok(Vec::new()), "{command:?}");
    }
    assert_eq!(shard.status().expect("status").loop_counters.started_ios, 0);
}

#[test]
fn tests_12_and_13_requests_past_the_end_are_refused_each_in_its_way() {
    let shard = shard_on("memory:1MiB");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let asked = |command, offset| client.submit(command, offset, 4_096, false, vec![1; 4_096]).wait();
    for offset in [(1 << 20) - 512, u64::MAX - 511] {
        assert_eq!(asked(Command::Read, offset), Err(ClientError::Failed(Failure::Invalid)));
        assert_eq!(asked(Command::Write, offset), Err(ClientError::Failed(Failure::NoSpace)));
        assert_eq!(asked(Command::Trim, offset), Err(ClientError::Failed(Failure::Invalid)));
        assert_eq!(asked(Command::WriteZeroes, offset), Err(ClientError::Failed(Failure::NoSpace)));
    }
    assert!(client.read((1 << 20) - 512, 512).is_ok());
}

#[test]
fn test_23_a_read_only_volume_refuses_to_be_changed() {
    let directory = on_disk();
    let backing = Backing::parse(&file(&directory, 1 << 20)).expect("a backing");
    let volume = VolumeSettings { is_read_only: true, ..VolumeSettings::new("v", backing) };
    let shard = start(settings("noop"), &[volume]).expect("a shard");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
        let answer = client.submit(command, 0, 512, false, vec![1; 512]).wait();
        assert_eq!(answer, Err(ClientError::Failed(Failure::NotPermitted)), "{command:?}");
    }
    assert_eq!(client.read(0, 512), Ok(vec![0; 512]));
}

#[test]
fn test_30_a_file_truncated_behind_our_back_is_an_error_and_shows_as_damage() {
    let directory = on_disk();
    let path = file(&directory, 1 << 20);
    let shard = shard_on(&path);
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4_096)).expect("truncated");
    assert_eq!(client.read(512 << 10, 4_096), Err(ClientError::Failed(Failure::Io)));
    assert!(client.read(0, 4_096).is_ok());
    assert_eq!(shard.status().expect("status").volumes[0].damage, Some(Damage::Truncated { intact_bytes: 4_096 }));
}

#[test]
fn test_48_adjacent_writes_of_one_file_are_one_transfer_and_of_two_files_never() {
    let volumes = ["memory:1MiB", "memory:1MiB"]
        .map(|backing| VolumeSettings::new("v", Backing::parse(backing).expect("a backing")));
    let one = ShardSettings { queue_depth: 1, inline_max_bytes: 0, ..settings("noop") };
    let shard = start(one, &volumes).expect("a shard");
    let clients: Vec<_> =
        shard.volumes().iter().map(|&volume| shard.client(volume, GroupHandle::ROOT).expect("a client")).collect();
    let tickets: Vec<_> = (0..256)
        .map(|index| clients[index % 2].submit(Command::Write, index as u64 / 2 * 4_096, 4_096, false, vec![1; 4_096]))
        .collect();
    for ticket in tickets {
        ticket.wait().expect("written");
    }
    let status = shard.status().expect("status");
    assert_eq!(
        status.volumes.iter().map(|volume| volume.sums.of(Counted::Write).requests).collect::<Vec<_>>(),
        [128, 128]
    );
    let loop_counters = status.loop_counters;
    assert!(loop_counters.merged_ios > 0 && loop_counters.started_ios < 256, "{loop_counters:?}");
    for client in clients {
        assert!(client.read(0, 512 << 10).expect("read").iter().all(|&byte| byte == 1));
    }
}

#[test]
fn test_44_a_switch_under_load_loses_nothing() {
    let shard = shard_on("model:null,latency_us=200,memory:4MiB");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let names: Vec<&str> = hoistway_elevator::registry::ENTRIES.iter().map(|entry| entry.name).collect();
    for round in 0..20_u64 {
        let tickets: Vec<_> = (0..64_u64)
            .map(|index| client.submit(Command::Write, index * 65_536, 4_096, false, vec![round as u8; 4_096]))
            .collect();
        let name = names[round as usize % names.len()];
        // A switch waits for the device to become empty; until then another one is refused, which
        // is not a failure here.
        let _ = shard.switch_scheduler(&SchedulerSpec::named(name));
        for ticket in tickets {
            ticket.wait().expect("written");
        }
        assert!((0..64).all(|index| client.read(index * 65_536, 4_096) == Ok(vec![round as u8; 4_096])), "{name}");
    }
    let status = shard.status().expect("status");
    assert_eq!((status.violations, status.requests_in_flight), (0, 0));
}

#[test]
fn test_58_a_drain_answers_requests_in_flight_and_refuses_new_ones() {
    // Long enough for it to be seen in flight on a busy machine.
    let shard = shard_on("model:null,latency_us=3000000,memory:1MiB");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let ticket = client.submit(Command::Write, 0, 4_096, false, vec![1; 4_096]);
    // The write is submitted in the turn of the loop that follows its arrival.
    let end = Instant::now() + Duration::from_secs(60);
    while shard.status().expect("status").requests_in_flight == 0 {
        assert!(Instant::now() < end, "it never is in flight");
    }
    let report = shard.drain(Duration::from_secs(60)).expect("drained");
    assert_eq!((report.abandoned_requests, report.failed_syncs), (0, 0));
    assert_eq!(ticket.wait(), Ok(Vec::new()));
    assert_eq!(client.read(0, 512), Err(ClientError::Stopped));
}

#[test]
fn test_60_the_same_file_twice_is_one_clear_error() {
    let directory = on_disk();
    let path = file(&directory, 1 << 20);
    let _first = shard_on(&path);
    let volume = VolumeSettings::new("again", Backing::parse(&path).expect("a backing"));
    let error = start(settings("noop"), &[volume]).expect_err("locked");
    assert!(error.message.contains("volume 'again'") && error.message.contains("already open for writing"), "{error}");
}

#[test]
fn an_unknown_scheduler_is_refused_with_the_names_there_are() {
    let volume = VolumeSettings::new("v", Backing::parse("memory:1MiB").expect("a backing"));
    let error = start(settings("noopp"), &[volume]).expect_err("unknown");
    assert!(error.message.contains("did you mean 'noop'?"), "{error}");
}

#[test]
fn test_22_neighbours_inside_one_block_do_not_lose_each_others_data() {
    let directory = on_disk();
    let shard = shard_on(&file(&directory, 1 << 20));
    let block = u64::from(shard.facts(shard.volumes()[0]).expect("facts").block_bytes);
    if block == 1 {
        println!("skipped: no direct I/O on this file system, so no block is ever read and written back");
        return;
    }
    let slot = block / 16;
    let workers: Vec<_> = (0..16_u64)
        .map(|worker| {
            let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
            std::thread::spawn(move || {
                for round in 0..200_u8 {
                    client.write(worker * slot, &vec![round ^ worker as u8; slot as usize]).expect("written");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker");
    }
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    let data = client.read(0, block).expect("read");
    for (worker, part) in data.chunks(slot as usize).enumerate() {
        assert!(part.iter().all(|&byte| byte == 199 ^ worker as u8), "worker {worker}: {part:?}");
    }
}

/// The memory of a write holds bytes of earlier requests until it is filled, so a write without all of its
/// data is not made.
#[test]
fn a_write_without_all_of_its_data_writes_nothing() {
    let shard = shard_on("memory:8MiB");
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT).expect("a client");
    for _ in 0..4 {
        client.write(4 << 20, &[7; 1 << 20]).expect("written");
        for given in [0, 100, 8_191] {
            let short = client.submit(Command::Write, 4_096, 8_192, false, vec![9; given]).wait();
            assert_eq!(short, Err(ClientError::Failed(Failure::Invalid)), "{given} bytes");
        }
        // The second of its parts has not all of its data.
        let long = client.submit(Command::Write, 1 << 20, 2 << 20, false, vec![9; (1 << 20) + 5]).wait();
        assert_eq!(long, Err(ClientError::Failed(Failure::Invalid)));
        assert!(client.read(0, 1 << 20).expect("read").iter().all(|byte| *byte == 0));
        assert!(client.read(2 << 20, 1 << 20).expect("read").iter().all(|byte| *byte == 0));
    }
}
