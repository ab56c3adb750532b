//! Clients and servers that die, live: overlapping writers over NBD whose sockets close in the middle of
//! their requests and who come again, while the scheduler changes, limits come and go, clients are evicted
//! and the server is killed. Every answered read and write fits one register per word
//! (`crates/engine/src/shard/register.rs`), and nothing of a connection takes effect once its successor has
//! got its first answer. A read beside a write of the same block may find a part of each, as in any file in memory, so
//! the first and the last word of a block are registers of their own. More rounds: `HOISTWAY_ROUNDS=50 cargo test -p hoistway-cli --test ends_live`, or
//! `bench/ends/run`.

#[path = "../../engine/src/shard/register.rs"]
mod register;
mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hoistway_block::random::Stream;
use register::{Access, End, Registers};
use served::{Served, await_that, directory, hoistway, sparse_file, wait_for_exit};

const BLOCK_BYTES: usize = 4_096;
/// Few, so that the writers overlap.
const BLOCKS: u64 = 24;
const WRITERS: u64 = 4;
/// Unanswered requests of a writer.
const DEPTH: usize = 8;
/// Blocks of one write at most.
const LONGEST_BLOCKS: u64 = 3;
/// A server that does not answer for so long hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The first and the last word of a block, as the volumes of [`Registers`].
const ENDS_OF_BLOCK: [u32; 2] = [0, 1];
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// A connection with simple replies. Every error means that it has ended.
struct Nbd {
    stream: UnixStream,
    /// What was asked and not answered: the command and the blocks, by cookie.
    open: BTreeMap<u64, (u16, std::ops::Range<u64>)>,
}

/// The values of a block's words.
type Words = Vec<u64>;

/// An answer: the cookie, the command, the blocks and what was read.
type Answer = (u64, u16, std::ops::Range<u64>, Vec<Words>);

/// Between fork and exec, a process that the test starts has a copy of every descriptor, and a connection lasts as long as
/// any copy is open. Only this ends it at once.
impl Drop for Nbd {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Nbd {
    fn connect(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        // Fixed newstyle without padding, then NBD_OPT_EXPORT_NAME.
        let option = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &1_u32.to_be_bytes(), b"x"];
        stream.write_all(&option.concat())?;
        let mut told = [0; 10];
        stream.read_exact(&mut told)?;
        Ok(Self { stream, open: BTreeMap::new() })
    }

    fn send(&mut self, cookie: u64, command: u16, blocks: std::ops::Range<u64>, payload: &[u8]) -> io::Result<()> {
        let (offset, length) = (blocks.start * BLOCK_BYTES as u64, (blocks.end - blocks.start) * BLOCK_BYTES as u64);
        let head = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &0_u16.to_be_bytes(),
            &command.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &u32::try_from(length).expect("short").to_be_bytes(),
            payload,
        ];
        self.open.insert(cookie, (command, blocks));
        self.stream.write_all(&head.concat())
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((word(0), word(4)), (0x6744_6698, 0), "a simple reply without an error");
        let cookie = u64::from(word(8)) << 32 | u64::from(word(12));
        let (command, blocks) = self.open.get(&cookie).cloned().expect("it was asked");
        let mut data = vec![
            0;
            if command == READ { usize::try_from(blocks.end - blocks.start).expect("few") } else { 0 }
                * BLOCK_BYTES
        ];
        self.stream.read_exact(&mut data)?;
        self.open.remove(&cookie);
        Ok((cookie, command, blocks, data.chunks(BLOCK_BYTES).map(words_of).collect()))
    }
}

fn block_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

fn words_of(block: &[u8]) -> Words {
    block.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// What all writers share.
struct Load {
    path: PathBuf,
    /// Two for each block: its first word and its last.
    registers: Mutex<Registers>,
    /// Blocks and the values that they were to get.
    written: Mutex<BTreeSet<(u64, u64)>>,
    next_cookie: AtomicU64,
    /// The server is about to be killed, or the test ends.
    stops: AtomicBool,
    deaths: AtomicU64,
    answered: AtomicU64,
}

impl Load {
    fn registers(&self) -> MutexGuard<'_, Registers> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self, command: u16, blocks: std::ops::Range<u64>) -> u64 {
        let cookie = self.next_cookie.fetch_add(1, Ordering::Relaxed);
        let access = if command == WRITE { Access::Write(cookie) } else { Access::Read };
        if command == WRITE {
            self.written().extend(blocks.clone().map(|block| (block, cookie)));
        }
        let mut registers = self.registers();
        for block in blocks {
            ENDS_OF_BLOCK.iter().for_each(|end| registers.at(*end, block).called(cookie, access));
        }
        cookie
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<(u64, u64)>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, (cookie, command, blocks, read): Answer) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let mut registers = self.registers();
        for (index, block) in blocks.enumerate() {
            let ends = if command == WRITE {
                [End::Wrote; 2]
            } else {
                let (words, written) = (&read[index], self.written());
                assert!(words.iter().all(|word| written.contains(&(block, *word))), "foreign data in block {block}");
                [End::Read(words[0]), End::Read(words[words.len() - 1])]
            };
            ENDS_OF_BLOCK.iter().zip(ends).for_each(|(at, end)| registers.at(*at, block).ended(cookie, end));
        }
    }

    fn lost(&self, lost: BTreeMap<u64, (u16, std::ops::Range<u64>)>) {
        let mut registers = self.registers();
        for (cookie, (_, blocks)) in lost {
            for block in blocks {
                ENDS_OF_BLOCK.iter().for_each(|end| registers.at(*end, block).ended(cookie, End::Unanswered));
            }
        }
    }

    /// Connects and waits for the first answer: from here on nothing of `lost` takes effect.
    fn connect(&self, lost: &mut BTreeMap<u64, (u16, std::ops::Range<u64>)>) -> io::Result<Nbd> {
        let mut nbd = Nbd::connect(&self.path)?;
        nbd.send(self.called(FLUSH, 0..0), FLUSH, 0..0, &[])?;
        nbd.answer()?;
        self.lost(std::mem::take(lost));
        Ok(nbd)
    }

    /// One connection's life: until it dies by its own hand or the server's.
    fn live(&self, nbd: &mut Nbd, random: &mut Stream) -> io::Result<()> {
        let dies_after = 1 + random.below(120);
        for _ in 0..dies_after {
            if self.stops.load(Ordering::Relaxed) {
                break;
            }
            while nbd.open.len() >= DEPTH {
                let answer = nbd.answer()?;
                self.answered(answer);
            }
            let first = random.below(BLOCKS);
            let blocks = first..(first + 1 + random.below(LONGEST_BLOCKS)).min(BLOCKS);
            let (command, blocks) = match random.below(20) {
                0 => (FLUSH, 0..0),
                1..=12 => (WRITE, blocks),
                _ => (READ, blocks),
            };
            let cookie = self.called(command, blocks.clone());
            let count = if command == WRITE { usize::try_from(blocks.end - blocks.start).expect("few") } else { 0 };
            nbd.send(cookie, command, blocks, &block_of(cookie).repeat(count))?;
        }
        Ok(())
    }

    /// A writer until the load stops; what it has lost without an answer.
    fn write(
        &self,
        number: u64,
        mut lost: BTreeMap<u64, (u16, std::ops::Range<u64>)>,
    ) -> BTreeMap<u64, (u16, std::ops::Range<u64>)> {
        let mut random = Stream::of(number, "writers");
        while !self.stops.load(Ordering::Relaxed) {
            let Ok(mut nbd) = self.connect(&mut lost) else { continue };
            let _ = self.live(&mut nbd, &mut random);
            self.deaths.fetch_add(1, Ordering::Relaxed);
            lost.append(&mut nbd.open);
        }
        lost
    }
}

/// Serves a file, or an overlay if there is one.
fn serve(directory: tempfile::TempDir) -> Served {
    let place = directory.path().display().to_string();
    let mut command = hoistway();
    command.args(["serve", "--nbd", &format!("unix:{place}/nbd.sock"), "--control", &format!("{place}/control.sock")]);
    let backing = match directory.path().join("x.ov").exists() {
        true => format!("base={place}/x.img,overlay={place}/x.ov"),
        false => format!("{place}/x.img"),
    };
    command.args(["--memory", "64MiB", "--export", &format!("x={backing}")]);
    Served::start(directory, command, 1)
}

/// What operators do while the load runs; none of it may disturb anyone but the evicted.
fn operate(served: &Served, random: &mut Stream) {
    const SCHEDULERS: [&str; 6] = ["wfq", "bfq", "mq-deadline", "kyber", "none", "paternoster"];
    for _ in 0..6 {
        let scheduler = SCHEDULERS[usize::try_from(random.below(6)).expect("few")];
        match random.below(4) {
            0 => _ = served.ctl(&["scheduler", scheduler]),
            1 => assert_eq!(served.ctl(&["limit", "x", "io.max", "wiops=150"]).1, Some(0)),
            2 => assert_eq!(served.ctl(&["limit", "x", "io.max", "wiops=max"]).1, Some(0)),
            // There may be none just now.
            _ => _ = served.ctl(&["evict", "--export", "x"]),
        }
    }
}

#[test]
fn answered_data_survives_clients_that_die_and_a_server_that_is_killed() {
    let place = directory();
    sparse_file(&place.path().join("x.img"), BLOCKS * BLOCK_BYTES as u64);
    live_and_die(place);
}

#[test]
fn answered_data_on_an_overlay_survives_clients_that_die_and_a_server_that_is_killed() {
    let place = directory();
    sparse_file(&place.path().join("x.img"), BLOCKS * BLOCK_BYTES as u64);
    let [base, overlay] = ["x.img", "x.ov"].map(|name| place.path().join(name));
    let made = hoistway().args(["image", "create", "--base"]).args([base, overlay]).output().expect("it runs");
    assert!(made.status.success(), "{made:?}");
    live_and_die(place);
}

fn live_and_die(place: tempfile::TempDir) {
    let rounds = std::env::var("HOISTWAY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut random = Stream::of(1, "operators");
    let load = Load {
        path: place.path().join("nbd.sock"),
        registers: Mutex::default(),
        written: Mutex::new((0..BLOCKS).map(|block| (block, 0)).collect()),
        next_cookie: AtomicU64::new(1),
        stops: AtomicBool::new(false),
        deaths: AtomicU64::new(0),
        answered: AtomicU64::new(0),
    };
    let mut served = serve(place);
    let mut lost: Vec<BTreeMap<u64, (u16, std::ops::Range<u64>)>> = (0..WRITERS).map(|_| BTreeMap::new()).collect();
    for round in 0..rounds {
        load.stops.store(false, Ordering::Relaxed);
        let before = load.answered.load(Ordering::Relaxed);
        lost = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .zip(lost)
                .map(|(writer, lost)| {
                    scope.spawn({
                        let load = &load;
                        move || load.write(round * WRITERS + writer, lost)
                    })
                })
                .collect();
            operate(&served, &mut random);
            await_that("the writers get on", || load.answered.load(Ordering::Relaxed) > before + 400);
            served.child.kill().expect("it runs");
            wait_for_exit(&mut served.child);
            load.stops.store(true, Ordering::Relaxed);
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
        });
        let place = std::mem::replace(&mut served.directory, directory());
        drop(served);
        std::fs::remove_file(place.path().join("nbd.sock")).expect("the killed server's");
        served = serve(place);
    }
    // The last look: nothing of the past takes effect any more, and all answered data is there.
    let mut nbd = load.connect(&mut lost.into_iter().flatten().collect()).expect("served");
    nbd.send(load.called(READ, 0..BLOCKS), READ, 0..BLOCKS, &[]).expect("sent");
    let answer = nbd.answer().expect("read");
    load.answered(answer);
    load.registers().check().unwrap_or_else(|what| panic!("no order explains it: {what}"));
    let (deaths, answered) = (load.deaths.into_inner(), load.answered.into_inner());
    println!("{rounds} servers killed, {deaths} clients died, {answered} requests answered");
    assert!(deaths > 5 * rounds, "{deaths} deaths, {answered} answers");
    assert_eq!(served.terminate(), Some(0));
}

/// The report of issue 48: a client queues 120 writes and dies, a second one writes 15 of the same blocks.
#[test]
fn what_a_client_had_queued_does_not_come_back_over_newer_data() {
    for limit in [None, Some("wiops=2")] {
        // So slow that most of them are still queued when a busy machine comes to look.
        let arguments = ["--export", "x=model:null,latency_us=100000,servers=1,queue_depth=1,memory:64MiB"];
        let served = Served::flags(directory(), &arguments);
        if let Some(limit) = limit {
            assert_eq!(served.ctl(&["limit", "x", "io.max", limit]).1, Some(0));
        }
        let spread = |block: u64| block * 97 % 16_000;
        let mut dying = Nbd::connect(&served.path("nbd.sock")).expect("served");
        for block in 0..120 {
            let at = spread(block);
            dying.send(block, WRITE, at..at + 1, &block_of(1)).expect("sent");
        }
        await_that("they are queued", || served.status()["devices"][0]["requests_in_flight"].as_u64() > Some(60));
        drop(dying);
        let mut next = Nbd::connect(&served.path("nbd.sock")).expect("served");
        if limit.is_some() {
            assert_eq!(served.ctl(&["limit", "x", "io.max", "wiops=max"]).1, Some(0));
        }
        let rewritten: Vec<u64> = (0..15).map(|block| spread(8 * block)).collect();
        for at in &rewritten {
            next.send(*at, WRITE, *at..*at + 1, &block_of(2)).expect("sent");
        }
        rewritten.iter().for_each(|_| _ = next.answer().expect("written"));
        next.send(0, FLUSH, 0..0, &[]).expect("sent");
        next.answer().expect("flushed");
        await_that("nothing is left", || served.status()["devices"][0]["requests_in_flight"] == 0);
        for at in rewritten {
            next.send(at, READ, at..at + 1, &[]).expect("sent");
            assert_eq!(next.answer().expect("read").3, [vec![2; BLOCK_BYTES / 8]], "block {at}, limit {limit:?}");
        }
    }
}
