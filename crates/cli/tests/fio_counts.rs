//! Random job files whose jobs are bounded by size or number: on the simulator and the engine, and
//! with `--generator fio`, hoistway counts the same bytes and I/Os as fio itself. Without fio the
//! test is skipped with a message.
//!
//! `HOISTWAY_FILES=200` tries that many files, `HOISTWAY_SEED=7` only the one of seed 7.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use hoistway_block::random::Stream;
use program::hoistway;
use serde_json::Value;
use tempfile::TempDir;

/// Default number of files.
const FILES: u64 = 40;

/// Bytes and I/Os of all jobs and directions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Counts {
    bytes: u64,
    ios: u64,
}

/// A random job file, and which of its counts do not depend on chance.
struct File {
    text: String,
    has_fixed_ios: bool,
    /// Whether the counts depend on where the file ends. `--generator fio` puts the areas of all
    /// threads in one larger file, so it is then not compared.
    depends_on_file_end: bool,
}

/// The order of a job's blocks: one after the other; with a fixed distance; random; or runs of a
/// few successive blocks at random places.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Kind {
    Dense,
    Stride,
    Random,
    Run,
}

/// The options of a section so far.
struct Section<'a> {
    random: &'a mut Stream,
    lines: Vec<String>,
    kind: Kind,
    is_mix: bool,
    block_kib: u64,
    size_kib: u64,
    /// Whether a map of visited blocks ensures that each block is visited once per pass.
    has_map: bool,
    has_one_size: bool,
    is_bounded_by_number: bool,
    has_own_file_size: bool,
    /// Whether all sections use one file.
    is_shared: bool,
}

/// Up to three sections; sizes are small, so that a file takes a moment.
fn file(random: &mut Stream) -> File {
    let is_shared = random.chance(1, 4);
    let mut file = File { text: String::new(), has_fixed_ios: true, depends_on_file_end: is_shared };
    let last = random.below(3);
    for number in 0..=last {
        let mut section = Section::draw(random, is_shared);
        // A section behind it may make the file larger, which fio's job does not see; the simulator's does.
        if number > 0 && number == last {
            section.leave_out_the_size();
        }
        let _ = writeln!(file.text, "[job{number}]\n{}", section.lines.join("\n"));
        file.has_fixed_ios &= section.has_one_size;
        file.depends_on_file_end |= matches!(section.kind, Kind::Stride | Kind::Run);
        // If block sizes are random, the last block of an area may exceed it where the file
        // continues after the area.
        file.depends_on_file_end |= !section.has_one_size && section.kind == Kind::Dense;
        file.depends_on_file_end |= section.has_own_file_size;
    }
    file
}

impl<'a> Section<'a> {
    fn draw(random: &'a mut Stream, is_shared: bool) -> Self {
        let kinds = [Kind::Dense, Kind::Dense, Kind::Random, Kind::Random, Kind::Stride, Kind::Run];
        // Strides and runs depend on where the file ends, which is another section's in a shared one.
        let kind = kinds[index(random, if is_shared { 4 } else { kinds.len() })];
        let is_mix = matches!(kind, Kind::Dense | Kind::Random) && random.chance(1, 3);
        let mut section = Section {
            random,
            lines: Vec::new(),
            kind,
            is_mix,
            block_kib: 0,
            size_kib: 0,
            has_map: false,
            has_one_size: true,
            is_bounded_by_number: false,
            has_own_file_size: false,
            is_shared,
        };
        if is_shared {
            section.lines.push("filename=shared.bin".to_owned());
        }
        section.place();
        section.sizes();
        section.extent();
        section.amount();
        section.check();
        section.rest();
        section
    }

    /// Lets a job have the size of the file that the first section lays out.
    fn leave_out_the_size(&mut self) {
        let is_plain = matches!(self.kind, Kind::Dense | Kind::Random) && !self.is_mix && self.has_one_size;
        let has_bounds_of_its_own = self.has_own_file_size
            || self.lines.iter().any(|line| line.starts_with("offset") || line.starts_with("io_size"));
        if self.is_shared && is_plain && !has_bounds_of_its_own && self.chance(40) {
            self.lines.retain(|line| !line.starts_with("size="));
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.chance(percent, 100)
    }

    fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[index(self.random, choices.len())]
    }

    /// Chooses operations and placement.
    fn place(&mut self) {
        let way = if self.is_mix { "rw" } else { self.one(&["read", "write"]) };
        let way = match self.kind {
            Kind::Dense => way.to_owned(),
            Kind::Random => format!("rand{way}"),
            Kind::Stride => format!("{way}:{}", self.one(&["4k", "8k", "16k", "-4k", "-8k", "-64k"])),
            Kind::Run => format!("rand{way}:{}", self.one(&[2, 4, 8])),
        };
        self.lines.push(format!("rw={way}"));
        if matches!(self.kind, Kind::Random | Kind::Run) {
            self.has_map = self.chance(60);
            if !self.has_map {
                self.lines.push("norandommap=1".to_owned());
            }
        }
        if self.is_mix {
            let percent = 20 + 10 * self.random.below(7);
            self.lines.push(format!("rwmixread={percent}"));
        }
    }

    /// Chooses block sizes and the amount of data.
    fn sizes(&mut self) {
        self.is_bounded_by_number = self.chance(40);
        let visits_once = self.has_map && self.kind == Kind::Random || self.kind == Kind::Dense && !self.is_mix;
        // Where blocks may repeat, chance determines how much the last blocks of different sizes
        // transfer.
        if visits_once && !self.is_bounded_by_number && !self.is_shared && self.chance(20) {
            self.has_one_size = false;
            let sizes = self.one(&["bsrange=4k-32k", "bssplit=4k/50:8k/30:64k/20"]);
            self.lines.push(sizes.to_owned());
            self.block_kib = 64;
        } else {
            self.block_kib = self.one(&[4, 8, 12, 16, 64]);
            self.lines.push(format!("bs={}k", self.block_kib));
        }
        let blocks = 1 + self.random.below(1_600 / self.block_kib);
        // No partial block at the end of the file in two cases: fio ends a pass at the partial
        // block, and chance determines when a run first reaches it; in a short mix of reads and
        // writes, chance determines whether both directions reach it.
        let has_no_rest = self.kind == Kind::Run || self.kind == Kind::Dense && self.is_mix && blocks < 50;
        let rest_kib = if has_no_rest || self.chance(50) { 0 } else { 4 * self.random.below(self.block_kib / 4) };
        self.size_kib = self.block_kib * blocks + rest_kib;
        self.lines.push(format!("size={}k", self.size_kib));
    }

    /// Chooses the threads and the part of the file that each of them uses. If the file has a size
    /// of its own, that part extends to the end of the file, and `size` is the amount alone.
    fn extent(&mut self) {
        // fio continues at twice the offset where a stride longer than the offset jumps over the
        // end of the file.
        let smallest_offset_kib = if self.kind == Kind::Stride { 16 } else { 4 };
        let mut begin_kib = 0;
        if self.chance(20) {
            begin_kib = smallest_offset_kib + 4 * self.random.below(100);
            self.lines.push(format!("offset={begin_kib}k"));
        }
        if self.chance(30) {
            let threads = 2 + self.random.below(2);
            self.lines.push(format!("numjobs={threads}"));
            if self.chance(40) {
                let increment_kib = 4 * (4 + self.random.below(60));
                self.lines.push(format!("offset_increment={increment_kib}k"));
                begin_kib += increment_kib * (threads - 1);
            }
        }
        // With block sizes by chance, it is chance where the amount is reached.
        // The increments of a run would leave rests at the end, where fio ends a pass by chance.
        let is_run_of_threads = self.kind == Kind::Run && begin_kib > 0;
        if self.has_one_size && !is_run_of_threads && self.chance(40) {
            // Without a rest where there is none without a size of the file.
            let unit_kib = if self.size_kib.is_multiple_of(self.block_kib) { self.block_kib } else { 4 };
            let more_kib = unit_kib * self.random.below(3 * self.size_kib / unit_kib + 1);
            self.lines.push(format!("filesize={}k", begin_kib + self.block_kib + more_kib));
            self.has_own_file_size = true;
        }
    }

    /// Chooses the job's other bounds.
    fn amount(&mut self) {
        if self.is_bounded_by_number {
            let number = 1 + self.random.below(300);
            self.lines.push(format!("number_ios={number}"));
        }
        let is_dense_mix = self.kind == Kind::Dense && self.is_mix;
        let has_rest = !self.size_kib.is_multiple_of(self.block_kib);
        if self.chance(20) && !(is_dense_mix && has_rest) {
            let loops = 2 + self.random.below(3);
            self.lines.push(format!("loops={loops}"));
        } else if self.chance(30) && self.has_one_size && !(is_dense_mix && has_rest) {
            // After the first pass of a mix or of runs with a map, chance determines how much a
            // pass transfers.
            let passes = if is_dense_mix || self.kind == Kind::Run && self.has_map { 1 } else { 2 };
            let unit_kib = if is_dense_mix { self.block_kib } else { 4 };
            let io_size_kib = unit_kib * (1 + self.random.below(passes * self.size_kib / unit_kib));
            self.lines.push(format!("io_size={io_size_kib}k"));
        }
    }

    /// Lets writes be read back, where no other write may overlap them.
    fn check(&mut self) {
        let visits_once = self.kind == Kind::Dense || self.kind == Kind::Random && self.has_map;
        let writes = self.lines.iter().any(|line| line == "rw=write" || line == "rw=randwrite");
        if visits_once && writes && !self.is_shared && self.chance(30) {
            let check = self.one(&["crc32c", "md5", "xxhash"]);
            self.lines.push(format!("verify={check}"));
        }
    }

    /// Chooses options that should not change the counts, or change them in the same way for each
    /// thread.
    fn rest(&mut self) {
        if self.chance(60) {
            let depth = 1 + self.random.below(16);
            self.lines.push(format!("direct=1\nioengine=libaio\niodepth={depth}"));
        }
        if self.chance(20) {
            let writes = 64 + self.random.below(64);
            self.lines.push(format!("fsync={writes}"));
        }
        if !self.is_bounded_by_number && self.chance(20) {
            // The ramp is 0 or longer than the job. Otherwise the part of the job that it excludes
            // would depend on the speed of the disk. (In fio a number counts from the end of the
            // ramp, and a job that ends by its size before that does more than its number.)
            let ramp = self.one(&["0", "30"]);
            self.lines.push(format!("ramp_time={ramp}\nruntime=60"));
        }
    }
}

fn index(random: &mut Stream, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("few")
}

/// The sums of fio's JSON, or of ours in its layout.
fn sums(text: &str) -> Counts {
    let result: Value = serde_json::from_str(&text[text.find("{\n").expect("a document")..]).expect("JSON");
    let jobs = result["jobs"].as_array().expect("jobs");
    let sum = |key: &str| -> u64 {
        let directions = jobs.iter().flat_map(|job| ["read", "write", "trim"].map(|direction| &job[direction][key]));
        directions.map(|value| value.as_u64().expect("a count")).sum()
    };
    Counts { bytes: sum("io_bytes"), ios: sum("total_ios") }
}

fn of_fio(directory: &Path) -> Counts {
    let mut fio = Command::new("fio");
    let output = fio.args(["--output-format=json", "j.fio"]).current_dir(directory).output().expect("fio starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    sums(&text)
}

fn of_ours(directory: &Path, arguments: &[&str]) -> Counts {
    let usual = ["-w", "j.fio", "--no-store", "--quiet", "--cooldown", "0", "--format", "fio-json"];
    let said = hoistway(directory, &[&["test"], arguments, &usual].concat());
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{arguments:?}");
    sums(&said.stdout)
}

/// A directory in memory where that supports direct I/O; else the default one.
fn directory() -> TempDir {
    const O_DIRECT: i32 = libc::O_DIRECT;
    let takes_direct = |directory: &TempDir| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(O_DIRECT);
        options.open(directory.path().join("direct")).is_ok()
    };
    let in_memory = tempfile::tempdir_in("/dev/shm").ok().filter(takes_direct);
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

/// The difference for one file, if there is one.
fn difference(seed: u64) -> Option<String> {
    let directory = directory();
    let file = file(&mut Stream::of(seed, "fio_counts"));
    fs::write(directory.path().join("j.fio"), &file.text).expect("written");
    let outcome = std::panic::catch_unwind(|| {
        let theirs = of_fio(directory.path());
        let mut ours = vec![
            ("the simulator", of_ours(directory.path(), &["model:ssd", "-s", "none"])),
            ("the engine", of_ours(directory.path(), &[".", "-s", "none"])),
        ];
        if !file.depends_on_file_end {
            ours.push(("--generator fio", of_ours(directory.path(), &[".", "--generator", "fio"])));
        }
        let comparable = |counts: Counts| (counts.bytes, if file.has_fixed_ios { counts.ios } else { 0 });
        let differs = ours.iter().filter(|(_, counts)| comparable(*counts) != comparable(theirs));
        let differs: Vec<String> = differs.map(|(name, counts)| format!("{name} {counts:?}")).collect();
        (!differs.is_empty()).then(|| format!("fio {theirs:?}, {}", differs.join(", ")))
    });
    let what = outcome.unwrap_or_else(|_| Some("it did not run".to_owned()))?;
    Some(format!("HOISTWAY_SEED={seed}: {what}\n{}", file.text))
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

#[test]
fn bytes_and_ios_of_bounded_jobs_are_those_that_fio_counts() {
    if Command::new("fio").arg("--version").output().is_err() {
        let _ = writeln!(io::stderr(), "skipped: fio is not installed (apt-get install fio)");
        return;
    }
    let count = number_from("HOISTWAY_FILES").unwrap_or(FILES);
    let seeds = number_from("HOISTWAY_SEED").map_or(0..count, |seed| seed..seed + 1);
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let taken = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| seeds.contains(seed));
        std::iter::from_fn(taken).filter_map(difference).collect::<Vec<_>>()
    };
    let found: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    let tried = seeds.end - seeds.start;
    assert!(found.is_empty(), "{} of {tried} files differ\n{}", found.len(), found.join("\n"));
}
