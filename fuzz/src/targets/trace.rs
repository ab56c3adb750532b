//! Fuzzes traces: arbitrary bytes as a file of each format, the items read from it, and their
//! replay.

use std::io::Cursor;
use std::sync::Arc;

use hoistway_block::Operation;
use hoistway_workload::replay::{Fit, Pace, Recording};
use hoistway_workload::trace::recording::{Builder, GroupBy, Selection};
use hoistway_workload::trace::{
    Format, Item, MAX_READ_ERRORS, Options, Reading, Source, Wait, blkparse, csv, detect, format_of_name, iolog,
};
use hoistway_workload::{Issuer, Next, Replay};

use crate::target::{Seen, Target};

const PROMISE: &str =
    "no panic; errors have places; times in order, whole sectors; what is replayed stays inside the target";

/// A target for the reader of a format.
const fn reader(
    name: &'static str,
    run: fn(&[u8]) -> Seen,
    corpus: fn() -> Vec<Vec<u8>>,
    tokens: &'static [&'static [u8]],
) -> Target {
    Target { name, promise: PROMISE, run, corpus, tokens, longest_bytes: 8 * 1_024 }
}

macro_rules! readers {
    ($($constant:ident, $target:literal, $format:literal, [$($sample:literal),*], $tokens:expr;)*) => {
        $(
            #[doc = concat!("Reader of the format ", $format, ".")]
            pub const $constant: Target = reader(
                $target,
                |bytes| read(format_of_name($format), bytes),
                || vec![$(include_bytes!(concat!("../../../crates/workload/tests/traces/", $sample)).to_vec()),*],
                $tokens,
            );
        )*
    };
}

const LINES: &[&[u8]] =
    &[b"\n", b",", b" ", b"0", b"1", b"-1", b"512", b"18446744073709551615", b"R", b"W", b".", b"\xff"];

readers! {
    BLKPARSE, "trace-blkparse", "blkparse", ["blkparse.txt"], &[b"\n", b"[", b"]", b" + ", b" <- (8,33) ", b"8,32 0 1 0.0 7 ", b"Q R ", b"C FN ", b" m N ", b"UT N [a] ", b"X W 8 / 9 [a]", b"(null)", b"CPU0 ("];
    BIOSNOOP, "trace-biosnoop", "biosnoop", ["biosnoop.txt"], &[b"\n", b"TIME(s) ", b"STARTs ", b"ENDs ", b"COMM ", b"PID ", b"DISK ", b"T ", b"SECTOR ", b"BYTES ", b"LAT(ms)", b" QUE(ms)", b" R ", b" WS ", b" F 0 0 ", b"0.000004 "];
    IOLOG, "trace-iolog", "iolog", ["v3.iolog", "v2.iolog"], &[b"fio version 3 iolog\n", b"fio version 2 iolog\n", b" add\n", b" open\n", b" close\n", b" read ", b" write ", b" sync 0 0\n", b" trim ", b" wait ", b"18446744073709551615"];
    IOLOG_1, "trace-iolog1", "iolog1", ["v1.iolog"], LINES;
    CSV, "trace-csv", "csv", ["own.csv"], &[b"\n", b",", b"\"", b"\"\"", b"8:0", b"read", b"write", b"discard", b"flush", b"write-zeroes", b"PFASMI", b"18446744073709551615"];
    MSR, "trace-msr", "msr", ["msr.csv"], &[b"\n", b",", b"Read", b"Write", b"116444736000000000", b"18446744073709551615"];
    ALIBABA, "trace-alibaba", "alibaba", ["alibaba.csv"], LINES;
    TENCENT, "trace-tencent", "tencent", ["tencent.csv"], LINES;
    SPC, "trace-spc", "spc", ["spc.csv"], LINES;
    SYSTOR17, "trace-systor17", "systor17", ["systor17.csv"], LINES;
    CLOUDPHYSICS, "trace-cloudphysics", "cloudphysics-csv", ["cloudphysics.csv"], LINES;
    START_UP, "trace-start-up", "start-up", ["start_up.trace"], &[b"\n", b" ", b"Seq", b"Rand", b"RA", b"RM", b"WS", b"-7 ", b"."];
    DISKSIM, "trace-disksim", "disksim", ["disksim.trace"], LINES;
    MQSIM, "trace-mqsim", "mqsim", ["mqsim.trace"], LINES;
    VSCSI, "trace-vscsi", "vscsi", ["vscsi1.bin", "vscsi2.bin"], &[b"\x00\x01", b"\x00\x02", b"\x28\x00", b"\x35\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff"];
}

/// The reader of blktrace's files. The input is split at a byte that it selects, as the files of
/// two CPUs.
pub const BLKTRACE: Target = reader(
    "trace-blktrace",
    blktrace,
    blktrace_corpus,
    &[
        b"\x07\x74\x61\x65",
        b"\x65\x61\x74\x07",
        b"\x01\x00\x11\x00",
        b"\x08\x00\x81\x01",
        b"\x0c\x01\x11\x01",
        b"\x00\x00\x00\x04",
        b"\x02\x00\x00\x04",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
);

/// The format is detected from the content.
pub const DETECTED: Target = reader("trace-detected", |bytes| read(detect(bytes), bytes), detected_corpus, LINES);

fn blktrace(bytes: &[u8]) -> Seen {
    let Some(format) = format_of_name("blktrace") else { return Seen::NOTHING };
    let cut = bytes.len().min(bytes.get(4).map_or(0, |byte| usize::from(*byte) * 8));
    read_files(format, &[&bytes[..cut], &bytes[cut..]])
}

fn read(format: Option<&'static Format>, bytes: &[u8]) -> Seen {
    format.map_or(Seen::NOTHING.and(b"unknown"), |format| read_files(format, &[bytes]))
}

fn read_files(format: &'static Format, files: &[&[u8]]) -> Seen {
    let source = |bytes: &&[u8]| Source { name: "f".to_owned(), content: Box::new(Cursor::new(bytes.to_vec())) };
    // Files of an even length are read with damaged records skipped.
    let skip_damaged = files.iter().map(|bytes| bytes.len()).sum::<usize>().is_multiple_of(2);
    let options = Options { ps_per_tick: 1_000_000, wait: Wait::AsFio, skip_damaged };
    let mut reading = Reading::new(format, files.iter().map(source).collect(), options);
    let selection = Selection { by: GroupBy::Comm, own_threads: true, is_start_up: true, ..Selection::default() };
    let (mut builder, mut writers) = (Builder::new(selection), Writers::default());
    let (mut last_ns, mut seen, mut text) = (0, Seen::NOTHING, String::new());
    loop {
        match reading.next_item() {
            Ok(Some(item)) => {
                if let Some(at_ns) = item.at_ns() {
                    assert!(at_ns >= last_ns, "{at_ns} behind {last_ns}");
                    last_ns = at_ns;
                }
                check_item(&item, format);
                writers.put(&item);
                if builder.add(item).is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                assert!((1..=MAX_READ_ERRORS + 1).contains(&error.errors.len()), "{error}");
                let message = &error.errors[error.errors.len() - 1].message;
                assert!(!message.is_empty() && message.len() < 1_024 && !message.contains('\n'), "{message}");
                text.clone_from(message);
                break;
            }
        }
    }
    let tally = reading.tally();
    assert!(tally.errors.len() <= MAX_READ_ERRORS && tally.skipped.len() <= 65, "{tally:?}");
    for reason in tally.skipped.keys().take(4) {
        seen = seen.and_message(reason, &String::from_utf8_lossy(files[0]));
    }
    seen = seen.and_message(&text, &String::from_utf8_lossy(files[0])).and_count(tally.errors.len());
    match builder.finish() {
        Ok(recorded) => {
            recorded.groups.iter().take(3).for_each(|(_, recording)| replay(recording));
            seen.and_count(recorded.groups.len()).and_count(usize::try_from(recorded.steps).unwrap_or(0))
        }
        Err(_) => seen,
    }
}

fn check_item(item: &Item, format: &Format) {
    let Item::Record(record) = item else { return };
    if !format.has_stages && record.operation != Operation::Flush {
        assert!(record.length_bytes > 0 && record.length_bytes.is_multiple_of(512), "{record:?}");
        assert!(record.offset_bytes.is_multiple_of(512), "{record:?}");
        assert!(record.offset_bytes.checked_add(record.length_bytes).is_some(), "{record:?}");
    }
}

/// The writers of traces, which must accept every item.
#[derive(Default)]
struct Writers {
    printer: blkparse::Printer,
    log: Option<iolog::Writer>,
}

impl Writers {
    fn put(&mut self, item: &Item) {
        let mut line = Vec::new();
        self.printer.put_line(item, &mut line);
        assert!(line.is_empty() || line.ends_with(b"\n"));
        if let Item::Record(record) = item {
            let log = self.log.get_or_insert_with(|| iolog::Writer::since(None));
            let _ = (log.line(record, "f"), csv::line(record, csv::LineNames::default()));
        }
    }
}

/// Size in bytes of the target of the replay.
const AREA_BYTES: u64 = 10 << 20;
/// Number of I/Os that are requested from a thread.
const DRAWS: usize = 200;

fn replay(recording: &Arc<Recording>) {
    assert_eq!(Recording::from_bytes(&recording.to_bytes()).as_ref(), Ok(recording.as_ref()), "sent and received");
    for (_, pace) in Pace::ALL {
        for fit in [Fit::Wrap, Fit::Scale, Fit::Strict] {
            let replay = Replay { pace, fit, repeats: 2, ..Replay::new("f", Arc::clone(recording)) };
            let job = replay.job("f", 4);
            // The first and the last thread suffice.
            for thread in [0, job.threads - 1] {
                let Ok(mut issuer) = Issuer::new(&job, thread, AREA_BYTES, 1) else { continue };
                let all = 2 * recording.parts[thread as usize].steps.len();
                let issued = draw(&mut issuer);
                assert!(issued == all || issued >= DRAWS, "{issued} of {all} I/Os at the pace {pace:?}");
            }
        }
    }
}

/// Requests I/Os from the issuer, and completes the oldest when it has none to issue; returns their
/// number.
fn draw(issuer: &mut Issuer) -> usize {
    let (mut now, mut in_flight, mut issued) = (0, Vec::new(), 0);
    while issued < DRAWS {
        match issuer.next(now) {
            Next::Issue(io) => {
                let end_bytes = io.offset_bytes.checked_add(u64::from(io.length_bytes));
                assert!(end_bytes.is_some_and(|end_bytes| end_bytes <= AREA_BYTES), "{io:?}");
                assert!(io.token < issuer.depth() && !in_flight.contains(&io.token), "token of {io:?}");
                assert!(io.actor < issuer.actors(), "{io:?}");
                in_flight.push(io.token);
                issued += 1;
            }
            Next::NotBefore(at) => {
                assert!(at > now, "not before {at}, asked at {now}");
                now = at;
            }
            Next::Busy => {
                assert!(!in_flight.is_empty(), "busy with nothing in flight");
                issuer.completed(in_flight.remove(0), true);
            }
            Next::Finished => break,
        }
    }
    issued
}

/// A record in little-endian order.
fn record(time: u64, sector: u64, (bytes, action): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(0x6561_7407_u32.to_le_bytes());
    record.extend(1_u32.to_le_bytes());
    record.extend(time.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20, 0] {
        record.extend(word.to_le_bytes());
    }
    record.extend(0_u16.to_le_bytes());
    record.extend(u16::try_from(payload.len()).unwrap_or(0).to_le_bytes());
    record.extend(payload);
    record
}

fn blktrace_corpus() -> Vec<Vec<u8>> {
    let all = [
        record(0, 0, (0, 0x0400_0001), &[1, 0, 0, 0, 2, 0, 0, 0]),
        record(1, 0, (0, 0x0400_0000), b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        record(10, 8, (4_096, 0x0011_0001), &[]),
        record(11, 8, (4_096, 0x0011_0004), &[]),
        record(12, 8, (4_096, 0x0111_010c), &[9; 8]),
        record(13, 8, (4_096, 0x0141_0007), &[]),
        record(14, 0, (0, 0x0010_000a), &[0, 0, 0, 0, 0, 0, 0, 3]),
        record(15, 16, (8_192, 0x0002_000d), &[0, 0, 0, 0, 0, 0, 0, 24]),
        record(16, 16, (8_192, 0x0012_000f), &[0; 16]),
        record(17, 0, (0, 0x0016_0001), &[]),
        record(20, 8, (4_096, 0x0181_0008), &[]),
        record(21, 0, (0, 0x0084_0008), &[]),
        record(22, 0, (0, 0x0400_0002), b"cfq7S x"),
    ]
    .concat();
    let swapped: Vec<u8> = record(10, 8, (4_096, 0x0011_0001), &[]);
    let mut at = 0;
    let mut turned = swapped.clone();
    for width in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2] {
        turned[at..at + width].reverse();
        at += width;
    }
    vec![all, turned]
}

fn detected_corpus() -> Vec<Vec<u8>> {
    let readers = [
        BLKPARSE,
        BIOSNOOP,
        IOLOG,
        IOLOG_1,
        CSV,
        MSR,
        ALIBABA,
        TENCENT,
        SPC,
        SYSTOR17,
        CLOUDPHYSICS,
        START_UP,
        DISKSIM,
        MQSIM,
        VSCSI,
    ];
    readers.iter().flat_map(|target| (target.corpus)()).chain(blktrace_corpus()).collect()
}
