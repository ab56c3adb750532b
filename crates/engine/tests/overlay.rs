//! Overlays over real files: what is read is what was written or else the base, whatever ends the server.
#![allow(clippy::cast_possible_truncation, reason = "patterns and small sizes")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hoistway_block::random::Stream;
use hoistway_engine::overlay::format::{BLOCK_BYTES, Layout, PAGE_BYTES};
use hoistway_engine::overlay::image;
use hoistway_engine::protocol::Command;
use hoistway_engine::{
    Backing, Client, EngineError, ErrorKind, GroupHandle, ShardHandle, ShardSettings, VolumeSettings, start,
};
use hoistway_experiment::SchedulerSpec;

const MIB: u64 = 1 << 20;

struct Files {
    directory: tempfile::TempDir,
    base: PathBuf,
    bytes: Vec<u8>,
}

impl Files {
    /// A base of this size, all of whose blocks differ, below a directory.
    fn new(below: &str, size_bytes: u64) -> Self {
        let directory = tempfile::tempdir_in(below).expect("a directory");
        let mut stream = Stream::new(size_bytes);
        let bytes: Vec<u8> = (0..size_bytes).map(|_| 1 | stream.next().to_le_bytes()[0]).collect();
        let base = directory.path().join("base.img");
        fs::write(&base, &bytes).expect("a base");
        Self { directory, base, bytes }
    }

    fn on_disk(size_bytes: u64) -> Self {
        Self::new(env!("CARGO_TARGET_TMPDIR"), size_bytes)
    }

    fn overlay(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.directory.path().join(name);
        image::create(&self.base, &path, size_bytes).expect("an overlay");
        path
    }

    fn settings(&self, overlay: &Path) -> VolumeSettings {
        let text = format!("base={},overlay={}", self.base.display(), overlay.display());
        VolumeSettings::new("v", Backing::parse(&text).expect("a backing"))
    }

    /// What an overlay of this size has at the beginning.
    fn copy(&self, size_bytes: u64) -> Vec<u8> {
        let mut copy = self.bytes.clone();
        copy.resize(size_bytes as usize, 0);
        copy
    }
}

fn serve(volumes: &[VolumeSettings]) -> Result<ShardHandle, EngineError> {
    let settings =
        ShardSettings { scheduler: SchedulerSpec::named("noop"), memory_bytes: 64 << 20, ..ShardSettings::default() };
    start(settings, volumes)
}

fn client(shard: &ShardHandle, volume: usize) -> Client {
    shard.client(shard.volumes()[volume], GroupHandle::ROOT).expect("a client")
}

fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut stream = Stream::new(seed);
    (0..bytes).map(|_| stream.next().to_le_bytes()[0]).collect()
}

/// Random requests of every alignment, some of them many at once in the same blocks, compared with a copy in memory.
fn torture(client: &Client, copy: &mut [u8], rounds: u32, seed: u64) {
    let (mut stream, size_bytes) = (Stream::new(seed), copy.len() as u64);
    for round in 0..rounds {
        let longest = if stream.chance(1, 8) { 3 << 20 } else { 90_000 };
        let mut offset = stream.below(size_bytes);
        let mut length = 1 + stream.below(longest).min(size_bytes - offset - 1);
        if stream.chance(1, 2) {
            offset -= offset % 4_096;
            length = length.next_multiple_of(4_096).min(size_bytes - offset);
        }
        let (start, end) = (offset as usize, (offset + length) as usize);
        match stream.below(8) {
            0 | 1 => {
                let data = pattern(end - start, u64::from(round));
                let is_durable = stream.chance(1, 4);
                client.submit(Command::Write, offset, length, is_durable, data.clone()).wait().expect("written");
                copy[start..end].copy_from_slice(&data);
            }
            2 => {
                // Pieces that share blocks, all at once.
                let piece = 1 + length / 16;
                let tickets: Vec<_> = (offset..offset + length)
                    .step_by(piece as usize)
                    .map(|at| {
                        let bytes = piece.min(offset + length - at);
                        let data = pattern(bytes as usize, seed ^ at);
                        copy[at as usize..(at + bytes) as usize].copy_from_slice(&data);
                        client.submit(Command::Write, at, bytes, false, data)
                    })
                    .collect();
                tickets.into_iter().for_each(|ticket| _ = ticket.wait().expect("written"));
            }
            3 => {
                client.write_zeroes(offset, length).expect("zeroed");
                copy[start..end].fill(0);
            }
            4 => {
                client.trim(offset, length).expect("trimmed");
                let data = client.read(offset, length).expect("read");
                let odd = data.iter().zip(&copy[start..end]).position(|(got, want)| *got != 0 && got != want);
                assert_eq!(odd, None, "trim {round}: {offset}+{length}, seed {seed}");
                // Whole blocks are empty, those of the base too.
                let blocks = offset.next_multiple_of(BLOCK_BYTES)..(offset + length) / BLOCK_BYTES * BLOCK_BYTES;
                for at in blocks {
                    assert_eq!(data[(at - offset) as usize], 0, "byte {at}, seed {seed}");
                }
                copy[start..end].copy_from_slice(&data);
            }
            5 => client.flush().expect("flushed"),
            _ => {
                let data = client.read(offset, length).expect("read");
                let differs = data.iter().zip(&copy[start..end]).position(|(got, want)| got != want);
                assert_eq!(differs, None, "round {round}: {offset}+{length}, seed {seed}");
            }
        }
    }
    assert!(client.read(0, size_bytes).expect("read") == copy, "the whole volume, seed {seed}");
}

/// The machine is started again: the open slots of the bitmap count no more, and a flush was the last thing that
/// certainly reached the disk.
fn other_boot(files: &Files, overlay: &Path) {
    let layout = Layout::of(files.bytes.len() as u64);
    let file = fs::File::options().write(true).open(overlay).expect("it");
    for page in 0..layout.pages {
        for slot in 2..4 {
            file.write_all_at(&[0; PAGE_BYTES], layout.slot_bytes(page, slot)).expect("written");
        }
    }
}

#[test]
fn what_is_read_is_what_was_written_or_the_base_on_every_kind_of_file() {
    for (seed, (below, base_bytes, size_bytes, is_cached)) in [
        (env!("CARGO_TARGET_TMPDIR"), 8 * MIB, 8 * MIB, false),
        (env!("CARGO_TARGET_TMPDIR"), 8 * MIB, 11 * MIB, true),
        // No whole block of direct I/O at the end.
        (env!("CARGO_TARGET_TMPDIR"), 5 * MIB + 12_345, 5 * MIB + 12_345, false),
        (env!("CARGO_TARGET_TMPDIR"), 5 * MIB + 12_345, 7 * MIB, false),
        (env!("CARGO_TARGET_TMPDIR"), 700, 2 * MIB, false),
        ("/dev/shm", 6 * MIB, 7 * MIB, false),
    ]
    .into_iter()
    .enumerate()
    {
        let files = Files::new(below, base_bytes);
        let overlay = files.overlay("a.ov", size_bytes);
        let mut copy = files.copy(size_bytes);
        for round in 0..3 {
            let volume = VolumeSettings { uses_page_cache: is_cached, ..files.settings(&overlay) };
            let shard = serve(&[volume]).expect("a shard");
            assert_eq!(shard.facts(shard.volumes()[0]).expect("facts").size_bytes, size_bytes);
            let client = client(&shard, 0);
            assert!(client.read(0, size_bytes).expect("read") == copy, "opened again, file {seed}");
            torture(&client, &mut copy, 60, seed as u64 * 10 + round);
            assert_eq!(shard.status().expect("status").violations, 0);
            let report = shard.drain(Duration::from_secs(20)).expect("drained");
            assert_eq!((report.failed_syncs, report.losses), (0, Vec::<String>::new()));
            // A drain leaves nothing to the open slots, but for files that no boot survives.
            if below != "/dev/shm" {
                other_boot(&files, &overlay);
            }
        }
        assert!(fs::read(&files.base).expect("the base") == files.bytes, "the base was written");
        assert!(image::check(&overlay, None).is_ok());
    }
}

#[test]
fn what_was_answered_survives_the_end_of_the_server_and_what_was_flushed_that_of_the_machine() {
    let files = Files::on_disk(8 * MIB);
    let overlay = files.overlay("a.ov", 0);
    let mut copy = files.copy(8 * MIB);
    for round in 0..8 {
        let shard = serve(&[files.settings(&overlay)]).expect("a shard");
        let client = client(&shard, 0);
        torture(&client, &mut copy, 10, 900 + round);
        client.flush().expect("flushed");
        let flushed = copy.clone();
        // A durable write needs no flush.
        let at = (round * 600_000 + 300) as usize;
        let data = pattern(5_000, round);
        client.submit(Command::Write, at as u64, 5_000, true, data.clone()).wait().expect("written");
        copy[at..at + 5_000].copy_from_slice(&data);
        torture(&client, &mut copy, 10, 950 + round);
        shard.stop().expect("stopped at once");
        drop(client);
        drop(shard);
        let is_other_boot = round % 2 == 1;
        if is_other_boot {
            other_boot(&files, &overlay);
        }
        let shard = serve(&[files.settings(&overlay)]).expect("a shard");
        let found = self::client(&shard, 0).read(0, 8 * MIB).expect("read");
        if is_other_boot {
            // Each byte is that of the flush, of a later write, or empty; the rest of a block that was
            // copied is never anything else.
            let odd = (0..found.len()).find(|&at| ![flushed[at], copy[at], 0].contains(&found[at]));
            // Bytes of writes that were overwritten later are left out: they are neither.
            let is_written_over = odd.is_some_and(|at| found[at] != files.bytes[at]);
            assert!(odd.is_none() || is_written_over, "byte {odd:?}, round {round}");
            assert!(found[at..at + 5_000] == data || copy[at..at + 5_000] != data, "a durable write, round {round}");
            copy = found;
        } else {
            assert!(found == copy, "round {round}");
        }
        shard.stop().expect("stopped");
    }
}

#[test]
fn many_overlays_over_one_base_have_each_its_own_bytes() {
    let files = Files::on_disk(4 * MIB);
    let overlays: Vec<PathBuf> = (0..12).map(|number| files.overlay(&format!("{number}.ov"), 0)).collect();
    let volumes: Vec<VolumeSettings> = overlays.iter().map(|overlay| files.settings(overlay)).collect();
    let shard = serve(&volumes).expect("a shard");
    std::thread::scope(|scope| {
        for number in 0..overlays.len() {
            let (shard, files) = (&shard, &files);
            scope.spawn(move || {
                let client = client(shard, number);
                let mut copy = files.copy(4 * MIB);
                torture(&client, &mut copy, 60, 40 + number as u64);
            });
        }
    });
    shard.drain(Duration::from_secs(20)).expect("drained");
    assert!(fs::read(&files.base).expect("the base") == files.bytes, "the base was written");
    for overlay in &overlays {
        assert!(image::check(overlay, None).expect("whole").own_blocks > 0);
    }
}

#[test]
fn an_overlay_takes_space_for_what_is_written_and_one_block_for_a_byte() {
    let files = Files::on_disk(16 * MIB);
    let overlay = files.overlay("a.ov", 64 * MIB);
    let before = image::info(&overlay).expect("it");
    let shard = serve(&[files.settings(&overlay)]).expect("a shard");
    let client = client(&shard, 0);
    client.write(5 * MIB + 7, b"x").expect("written");
    client.read(0, 16 * MIB).expect("read");
    client.flush().expect("flushed");
    let after = image::info(&overlay).expect("it");
    assert_eq!((before.own_blocks, after.own_blocks), (0, 1));
    assert!(after.allocated_bytes - before.allocated_bytes <= BLOCK_BYTES + 32_768, "{before:?} {after:?}");
    client.trim(0, 16 * MIB).expect("trimmed");
    client.flush().expect("flushed");
    let trimmed = image::info(&overlay).expect("it");
    assert_eq!(trimmed.own_blocks, 256);
    assert!(trimmed.allocated_bytes <= after.allocated_bytes, "{trimmed:?}");
    assert!(client.read(0, 16 * MIB).expect("read").iter().all(|byte| *byte == 0), "the base shows");
}

#[test]
fn a_second_server_a_changed_base_and_a_writer_of_the_base_are_refused() {
    let files = Files::on_disk(MIB);
    let (one, other) = (files.overlay("a.ov", 0), files.overlay("b.ov", 0));
    let shard = serve(&[files.settings(&one)]).expect("a shard");
    let refused = |volume: VolumeSettings, kind: ErrorKind, words: &[&str]| {
        let error = serve(&[volume]).expect_err("refused");
        let text = error.to_string();
        assert!(error.kind == kind && words.iter().all(|word| text.contains(word)), "{error:?}");
    };
    refused(files.settings(&one), ErrorKind::Unsafe, &["volume 'v'", "a.ov", "other server"]);
    refused(VolumeSettings { is_read_only: true, ..files.settings(&one) }, ErrorKind::Unsafe, &["a.ov"]);
    let base = VolumeSettings::new("v", Backing::parse(&files.base.display().to_string()).expect("a backing"));
    refused(base.clone(), ErrorKind::Unsafe, &["base.img"]);
    let reader = serve(&[VolumeSettings { is_read_only: true, ..base }]).expect("the base for reading");
    let second = serve(&[files.settings(&other)]).expect("another overlay on the base");
    [shard, reader, second].into_iter().for_each(|shard| _ = shard.stop());
    fs::File::options().write(true).open(&files.base).and_then(|base| base.write_all_at(b"?", 0)).expect("changed");
    refused(files.settings(&one), ErrorKind::Usage, &["base.img", "has changed", "touch -d @"]);
}

#[test]
fn an_overlay_that_is_made_longer_grows_and_reads_as_empty_there() {
    let files = Files::on_disk(MIB);
    let overlay = files.overlay("a.ov", 0);
    let shard = serve(&[files.settings(&overlay)]).expect("a shard");
    let length = fs::metadata(&overlay).expect("it").len();
    fs::File::options().write(true).open(&overlay).and_then(|file| file.set_len(length + MIB)).expect("longer");
    let growth = shard.grow_volume(shard.volumes()[0], Instant::now() + Duration::from_secs(60)).expect("grown");
    assert_eq!((growth.before_bytes, growth.now_bytes), (MIB, 2 * MIB));
    let client = client(&shard, 0);
    assert!(client.read(MIB, MIB).expect("read").iter().all(|byte| *byte == 0));
    client.write(MIB - 100, &[9; 200]).expect("written");
    assert_eq!(client.read(MIB - 101, 202).expect("read")[1..201], [9; 200]);
}
