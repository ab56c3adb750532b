//! Trace formats: cases 34 to 38 of docs/specifications/harness.md, section 13, a sample of each
//! format, and malformed files.

use std::io::Cursor;

use hoistway_block::{DeviceNumber, Flags, Operation};
use hoistway_workload::trace::{
    Action, Detail, FORMATS, Format, Item, Options, Reading, Record, Source, Tally, TraceError, Wait, blkparse,
    blktrace, csv, detect, format_of_name, iolog,
};

fn source(name: &str, bytes: &[u8]) -> Source {
    Source { name: name.to_owned(), content: Box::new(Cursor::new(bytes.to_vec())) }
}

type Read = Result<(Vec<Item>, Tally), TraceError>;

fn read_all(format: &'static Format, files: &[&[u8]], options: Options) -> Read {
    let sources = files.iter().enumerate().map(|(number, bytes)| source(&format!("f{number}"), bytes)).collect();
    let mut reading = Reading::new(format, sources, options);
    let mut items = Vec::new();
    while let Some(item) = reading.next_item()? {
        items.push(item);
    }
    Ok((items, reading.tally().clone()))
}

fn read_as(name: &str, bytes: &[u8]) -> Read {
    read_all(format_of_name(name).expect("a format"), &[bytes], Options::default())
}

fn records(items: &[Item]) -> Vec<Record> {
    items.iter().filter_map(|item| if let Item::Record(record) = item { Some(*record) } else { None }).collect()
}

fn records_of(name: &str, bytes: &[u8]) -> Vec<Record> {
    records(&read_as(name, bytes).unwrap_or_else(|error| panic!("{error}")).0)
}

/// The lines of blkparse.
fn printed(items: &[Item]) -> Vec<String> {
    let (mut printer, mut text) = (blkparse::Printer::default(), Vec::new());
    items.iter().for_each(|item| printer.put_line(item, &mut text));
    String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
}

/// File, format, expected number of I/Os and of skipped records.
const SAMPLES: [(&str, &str, usize, u64); 17] = [
    ("biosnoop.txt", "biosnoop", 5, 0),
    ("msr.csv", "msr", 3, 0),
    ("alibaba.csv", "alibaba", 2, 0),
    ("tencent.csv", "tencent", 5, 0),
    ("spc.csv", "spc", 2, 0),
    ("systor17.csv", "systor17", 2, 0),
    ("cloudphysics.csv", "cloudphysics-csv", 2, 1),
    ("disksim.trace", "disksim", 2, 0),
    ("mqsim.trace", "mqsim", 2, 0),
    ("start_up.trace", "start-up", 6, 0),
    ("blkparse.txt", "blkparse", 10, 0),
    ("v3.iolog", "iolog", 3, 0),
    ("v2.iolog", "iolog", 2, 0),
    ("v1.iolog", "iolog1", 2, 0),
    ("own.csv", "csv", 2, 0),
    ("vscsi1.bin", "vscsi", 2, 1),
    ("vscsi2.bin", "vscsi", 3, 0),
];

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_sample_is_recognised_and_read() {
    for (file, format, ios, skipped) in SAMPLES {
        let bytes = sample(file);
        let detected = detect(&bytes).unwrap_or_else(|| panic!("{file} is not recognised"));
        assert_eq!(detected.name, format, "{file}");
        let (items, tally) = read_as(format, &bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!((records(&items).len(), tally.skipped_records()), (ios, skipped), "{file}: {tally:?}");
        assert_eq!(tally.errors, [], "{file}");
    }
    for format in FORMATS {
        let has_sample = SAMPLES.iter().any(|(_, name, ..)| *name == format.name);
        assert!(has_sample || format.name == "blktrace", "{} has no sample", format.name);
    }
}

const DEVICE: DeviceNumber = DeviceNumber { major: 8, minor: 32 };

/// A record of blktrace in little-endian order.
fn blk(time: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(0x6561_7407_u32.to_le_bytes());
    record.extend(1_u32.to_le_bytes());
    record.extend(time.to_le_bytes());
    record.extend(sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 32, 0] {
        record.extend(word.to_le_bytes());
    }
    record.extend(0_u16.to_le_bytes());
    record.extend(u16::try_from(payload.len()).unwrap().to_le_bytes());
    record.extend(payload);
    record
}

/// The same with all words of the header byte-swapped, and those of payloads that are in the host's
/// byte order.
fn turned(record: &[u8], payload_words: &[usize]) -> Vec<u8> {
    let mut all = record.to_vec();
    let mut at = 0;
    for width in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2].iter().chain(payload_words) {
        all[at..at + width].reverse();
        at += width;
    }
    all
}

#[test]
fn t34_blktrace_groups_splits_and_both_byte_orders() {
    let group = 4_711_u64.to_le_bytes();
    let inserted = blk(10, 8, 4096, 0x0111_010c, &group);
    let split = blk(20, 6144, 1 << 20, 0x0002_000d, &[0, 0, 0, 0, 0, 0, 0x20, 0]);
    let native = [inserted.clone(), split.clone()].concat();
    let swapped = [turned(&inserted, &[8]), turned(&split, &[])].concat();
    let items = read_as("blktrace", &native).expect("reads").0;
    let [first, second] = records(&items)[..] else { panic!("{items:?}") };
    assert_eq!((first.action, first.operation, first.group), (Action::Inserted, Operation::Read, 4_711));
    assert_eq!((first.sector(), first.sectors(), first.pid, first.device), (8, 8, 77, DEVICE));
    assert_eq!((second.action, second.operation), (Action::Split, Operation::Write));
    assert_eq!(second.detail, Detail::NextSector(8_192));
    assert_eq!(read_as("blktrace", &swapped).expect("reads").0, items);
    assert_eq!(detect(&swapped).map(|format| format.name), Some("blktrace"));
}

#[test]
fn t33_a_message_is_printed_as_blkparse_prints_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let base = directory.path().join("t");
    let device = DeviceNumber { major: 253, minor: 0 };
    let mut writer = blktrace::Writer::create(&base, device, 0).expect("a file");
    use hoistway_workload::trace::Tracer;
    let text = "cfq19226S /cgrp7 sl_used=3 disp=1 charge=1 iops=1 sect=8";
    // The record with the wall clock has time 0 already, and blkparse does not count it.
    writer.message(1, "begin");
    writer.message(14_157_614, text);
    writer.finish().expect("written");
    let bytes = std::fs::read(blktrace::Writer::path_of(&base, 0)).expect("read");
    let lines = printed(&read_as("blktrace", &bytes).expect("reads").0);
    assert_eq!(lines[1], format!("253,0    0        0     0.014157613     0  m   N {text}"));
}

#[test]
fn t35_iolog_times_and_waits() {
    assert_eq!(records_of("iolog", &sample("v3.iolog"))[0].at_ns, 10_374_000);
    let with = |wait| {
        let format = format_of_name("iolog").expect("a format");
        let read = read_all(format, &[&sample("v2.iolog")], Options { wait, ..Options::default() });
        let (items, tally) = read.expect("reads");
        assert_eq!(tally.notes.len(), 1, "a note about waits: {tally:?}");
        records(&items)[1].at_ns
    };
    assert_eq!(with(Wait::Documented), 500_000_000);
    assert_eq!(with(Wait::AsFio), 500_000_000_000);
}

#[test]
fn t36_units_of_public_formats() {
    let first = |format: &str, file: &str| records_of(format, &sample(file))[0];
    // 2007-02-22T17:00:00.3061629Z is 1,172,163,600 s after 1970.
    let msr = first("msr", "msr.csv");
    assert_eq!(msr.at_ns, 1_172_163_600_306_162_900);
    assert_eq!((msr.operation, msr.offset_bytes, msr.length_bytes), (Operation::Read, 7_014_609_920, 24_576));
    assert_eq!(msr.latency_ns, Some(4_128_600));
    let spc = first("spc", "spc.csv");
    assert_eq!((spc.at_ns, spc.offset_bytes, spc.length_bytes), (774_000, 11_131_756_544, 24_576));
    let mqsim = read_as("mqsim", &sample("mqsim.trace")).expect("reads").0;
    assert_eq!(mqsim[0], Item::Device { device: DeviceNumber { major: 0, minor: 0 }, name: "2".to_owned() });
    let io = records(&mqsim)[0];
    assert_eq!((io.at_ns, io.operation), (1_500_000, Operation::Write));
    assert_eq!((io.offset_bytes, io.length_bytes), (1_024_000_000, 8_192));
    let disksim = first("disksim", "disksim.trace");
    assert_eq!((disksim.at_ns, disksim.operation, disksim.offset_bytes), (4_851_300, Operation::Read, 524_288 * 512));
    let alibaba = first("alibaba", "alibaba.csv");
    assert_eq!((alibaba.at_ns, alibaba.operation), (1_577_808_000_000_046_000, Operation::Write));
}

#[test]
fn records_of_one_second_are_spread_over_it() {
    let times: Vec<u64> =
        records_of("tencent", &sample("tencent.csv")).iter().map(|io| io.at_ns - 1_538_323_200_000_000_000).collect();
    assert_eq!(times, [0, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000]);
}

#[test]
fn t37_vscsi_of_both_versions() {
    let first = records_of("vscsi", &sample("vscsi1.bin"));
    assert_eq!((first[0].operation, first[0].length_bytes), (Operation::Read, 65_536));
    assert_eq!((first[0].sector(), first[0].offset_bytes), (123_456_789, 63_209_875_968));
    assert_eq!(first[0].at_ns, 1_500_000_250_000);
    // The single record of case 37.
    assert_eq!(records_of("vscsi", &sample("vscsi1.bin")[..32]), first[..1]);
    let second = records_of("vscsi", &sample("vscsi2.bin"));
    assert_eq!(second.iter().map(|io| io.latency_ns).collect::<Vec<_>>(), [250_000, 300_000, 900_000].map(Some));
    assert_eq!(second[2].operation, Operation::Flush);
}

#[test]
fn t38_blkparse_text_with_all_its_oddities() {
    let (items, tally) = read_as("blkparse", &sample("blkparse.txt")).expect("reads");
    assert_eq!((tally.records, tally.skipped_records(), tally.errors.len()), (10, 0, 0));
    let all = records(&items);
    let from = Detail::From { device: DeviceNumber { major: 8, minor: 33 }, sector: 4_096_000 };
    assert_eq!((all[0].action, all[0].sector(), all[0].detail), (Action::Remapped, 4_096_034, from));
    let named = |pid: u32| {
        items.iter().find_map(|item| match item {
            Item::Process { pid: known, name } if *known == pid => Some(name.as_str()),
            _ => None,
        })
    };
    assert_eq!(
        (named(20_111), named(114), named(2_077)),
        (Some("Web Content"), Some("flush-8:16"), Some("kworker/u8:1"))
    );
    let journal = all.iter().find(|io| io.pid == 2_082).expect("the journal's write");
    assert_eq!(journal.operation, Operation::Write);
    assert!(journal.flags.contains(Flags::PREFLUSH.with(Flags::FUA).with(Flags::SYNC).with(Flags::META)));
    assert!(
        items.iter().any(|item| matches!(item, Item::Message { text, .. } if text.starts_with("cfq19226S /cgrp7")))
    );
    // Parsed lines are printed unchanged, except for names of pids and values that records do not
    // contain.
    let lines = printed(&items);
    let text = String::from_utf8(sample("blkparse.txt")).expect("text");
    let expected: Vec<&str> = text.lines().take_while(|line| !line.starts_with("CPU")).collect();
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line == expected || line.contains("kworker") || line.contains(" U "), "{line}\n{expected}");
    }
    assert_eq!(lines.len(), expected.len());
}

#[test]
fn t38_ten_wrong_lines_are_reported_and_the_eleventh_ends_it() {
    let good = "8,0 0 1 0.000000001 7 Q R 8 + 8 [a]\n".repeat(30);
    let with = |wrong: usize| read_as("blkparse", [good.as_str(), &"8,0 garbage\n".repeat(wrong)].concat().as_bytes());
    let (items, tally) = with(10).expect("ten are tolerated");
    assert_eq!((records(&items).len(), tally.errors.len()), (30, 10));
    let error = with(11).expect_err("eleven are not");
    assert_eq!(error.errors.len(), 11);
    let text = error.to_string();
    assert!(text.contains("f0:31: ") && text.contains("f0:41: ") && text.contains("'8,0 garbage'"), "{text}");
}

#[test]
fn an_inconsistent_file_is_reported_in_one_line_with_its_position() {
    let good = blk(10, 8, 4096, 0x0011_0001, &[]);
    let lies_about_length = |payload: u16| {
        let mut record = good.clone();
        record[46..48].copy_from_slice(&payload.to_le_bytes());
        record
    };
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("blktrace", [lies_about_length(8), good.repeat(3)].concat(), "f0:byte 56: bad magic"),
        (
            "blktrace",
            [good.clone(), turned(&good, &[])].concat(),
            "f0:byte 48: bad magic 0x07746165, not 0x65617407; it looks byte-swapped",
        ),
        (
            "blktrace",
            [good.clone(), b"  8,32   5        1     0.000000000 20111  A   R 4096034 + 256".to_vec()].concat(),
            "looks like text",
        ),
        (
            "blktrace",
            {
                let mut other = good.clone();
                other[0] = 9;
                other
            },
            "f0:byte 0: a record of version 9; known is 7",
        ),
        (
            "vscsi",
            sample("vscsi1.bin")
                .chunks(32)
                .flat_map(|it| {
                    let mut it = it.to_vec();
                    it[14..16].reverse();
                    it
                })
                .collect(),
            "f0:byte 0: neither a record of version 1 (32 bytes) nor of version 2 (40 bytes); it looks byte-swapped",
        ),
        ("vscsi", [&sample("vscsi1.bin")[..64], &[0xff; 32]].concat(), "f0:byte 64: not a record of version 1"),
        ("spc", b"0,8,4096,R,10.0\n0,8,4096,R,8.9\n".to_vec(), "f0:2: time goes back by 1100 ms"),
    ];
    for (format, bytes, expected) in cases {
        let error = read_as(format, &bytes).expect_err(expected);
        assert_eq!(error.errors.len(), 1);
        let line = error.errors[0].to_string();
        assert!(line.contains(expected) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_cut_last_record_is_left_out_with_a_word() {
    let good = blk(10, 8, 4096, 0x0011_0001, &[1; 8]);
    for cut in 1..good.len() {
        let bytes = [&good[..], &good[..cut]].concat();
        let (items, tally) = read_as("blktrace", &bytes).expect("reads");
        assert_eq!((records(&items).len(), tally.notes.len()), (1, 1), "{cut}");
    }
    let (items, tally) = read_as("vscsi", &sample("vscsi1.bin")[..70]).expect("reads");
    assert_eq!((records(&items).len(), tally.notes.len()), (2, 1));
}

#[test]
fn small_steps_back_are_sorted_and_unaligned_sizes_rounded_outward() {
    let times: Vec<u64> =
        records_of("spc", b"0,0,512,R,1.5\n0,8,512,R,0.6\n0,16,512,R,2.0\n").iter().map(|io| io.at_ns).collect();
    assert_eq!(times, [600_000_000, 1_500_000_000, 2_000_000_000]);
    let (items, tally) = read_as("alibaba", b"1,R,1000,1000,1\n1,W,512,512,2\n1,R,512,0,3\n").expect("reads");
    let sizes: Vec<_> = records(&items).iter().map(|io| (io.offset_bytes, io.length_bytes)).collect();
    assert_eq!(sizes, [(512, 1_536), (512, 512)]);
    assert_eq!((tally.rounded, tally.skipped.get("length 0")), (1, Some(&1)));
}

#[test]
fn files_of_processors_are_merged_by_time() {
    let at = |time: u64, sector: u64| blk(time, sector, 512, 0x0011_0001, &[]);
    // A name is the first record of the first file, as in all files of Hoistway; it does not take
    // part in the order.
    let name = blk(1, 0, 0, 0x0400_0000, b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let files = [[name, at(10, 1), at(30, 2)].concat(), [at(5, 3), at(10, 4), at(30, 5)].concat()];
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let format = format_of_name("blktrace").expect("a format");
    let (items, _) = read_all(format, &files, Options::default()).expect("reads");
    assert_eq!(records(&items).iter().map(|io| io.at_ns).collect::<Vec<_>>(), [5, 10, 10, 30, 30]);
    // Among equal times, the record of the file that was read last comes first, as in blkparse
    // 1.2.0.
    assert_eq!(records(&items).iter().map(|io| io.sector()).collect::<Vec<_>>(), [3, 4, 1, 2, 5]);
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let (items, _) = read_as("csv", &sample("own.csv")).expect("reads");
    let names = csv::LineNames { device: "8:0", process: "fio, the \"tool\"", group: "tenants/db" };
    let line = csv::line(&records(&items)[0], names).expect("a line");
    let text = String::from_utf8(sample("own.csv")).expect("text");
    assert_eq!(Some(line.trim_end()), text.lines().nth(1));
    let mut writer = iolog::Writer::since(None);
    let records = records_of("iolog", &sample("v3.iolog"));
    let lines: String = records.iter().filter_map(|record| writer.line(record, "f")).collect();
    let again = records_of("iolog", [iolog::Writer::BEGIN, &lines, &writer.end()].concat().as_bytes());
    let begin_ns = records[0].at_ns;
    assert_eq!(again, records.iter().map(|io| Record { at_ns: io.at_ns - begin_ns, ..*io }).collect::<Vec<_>>());
}

/// Rwbs fields with every letter that blkparse and the kernel have printed; the barrier of old
/// kernels is a write between flushes.
#[test]
fn every_kind_of_io_since_2_6_16_is_read() {
    let cases: [(&str, Operation, Flags, &str); 15] = [
        ("R", Operation::Read, Flags::NONE, "R"),
        ("RA", Operation::Read, Flags::READAHEAD, "RA"),
        ("RAM", Operation::Read, Flags::READAHEAD.with(Flags::META), "RAM"),
        ("WBS", Operation::Write, Flags::SYNC.with(Flags::PREFLUSH).with(Flags::FUA), "FWFS"),
        ("WB", Operation::Write, Flags::PREFLUSH.with(Flags::FUA), "FWF"),
        ("WBSM", Operation::Write, Flags::SYNC.with(Flags::PREFLUSH).with(Flags::FUA).with(Flags::META), "FWFSM"),
        ("FWFS", Operation::Write, Flags::SYNC.with(Flags::PREFLUSH).with(Flags::FUA), "FWFS"),
        ("DE", Operation::Discard, Flags::NONE, "D"),
        ("DSE", Operation::Discard, Flags::SYNC, "DS"),
        ("WSE", Operation::Discard, Flags::SYNC, "DS"),
        ("DB", Operation::Discard, Flags::PREFLUSH.with(Flags::FUA), "FDF"),
        ("WSU", Operation::Write, Flags::SYNC, "WS"),
        ("ZAS", Operation::Write, Flags::SYNC, "WS"),
        ("WFSM", Operation::Write, Flags::SYNC.with(Flags::FUA).with(Flags::META), "WFSM"),
        ("D", Operation::Discard, Flags::NONE, "D"),
    ];
    for (kind, operation, flags, shown) in cases {
        let line = format!("  8,0    1        1     0.000000000   379  Q {kind:>3} 8 + 8 [kjournald]\n");
        let (items, tally) = read_as("blkparse", line.as_bytes()).expect("reads");
        let all = records(&items);
        assert_eq!((all.len(), tally.skipped_records()), (1, 0), "{kind}: {:?}", tally.skipped);
        assert_eq!((all[0].operation, all[0].flags), (operation, flags), "{kind}");
        assert!(printed(&items)[0].contains(&format!(" Q {shown:>3} 8 + 8 ")), "{kind}: {}", printed(&items)[0]);
    }
    let timer = "  8,0    1        1     0.000000000     0 UT   N [swapper] 1\n".replace("UT", " T");
    assert_eq!(records_of("blkparse", timer.as_bytes())[0].action, Action::UnpluggedByTimer);
}

/// Damaged records are skipped and counted if requested, and the following records are read.
#[test]
fn damaged_records_are_skipped_and_counted() {
    let options = Options { skip_damaged: true, ..Options::default() };
    let read = |format: &str, bytes: &[u8]| {
        let (items, tally) = read_all(format_of_name(format).expect("a format"), &[bytes], options).expect("reads on");
        let sectors: Vec<u64> = records(&items).iter().map(Record::sector).collect();
        (sectors, tally.skipped.get("damaged").copied().unwrap_or(0), tally.errors.len())
    };
    let good = |sector: u64| blk(sector, sector, 4096, 0x0011_0001, &[]);
    let mut without_magic = good(2);
    without_magic[0] = 0x55;
    assert_eq!(read("blktrace", &[good(1), without_magic.clone(), good(3), good(4)].concat()), (vec![1, 3, 4], 1, 1));
    // The very first record, a wrong payload length, rubbish in between, rubbish at the end.
    assert_eq!(read("blktrace", &[without_magic, good(3)].concat()), (vec![3], 1, 1));
    let mut long = good(2);
    long[46..48].copy_from_slice(&60_000_u16.to_le_bytes());
    assert_eq!(read("blktrace", &[good(1), long, good(3)].concat()), (vec![1, 3], 1, 1));
    // A plausible payload that would reach beyond the end; what it would contain are records.
    for payload in [100_u16, 300, 4_000, 4_096, 60_000] {
        let mut beyond = good(2);
        beyond[46..48].copy_from_slice(&payload.to_le_bytes());
        let bytes = [good(1), beyond, good(3), good(4)].concat();
        assert_eq!(read("blktrace", &bytes), (vec![1, 3, 4], 1, 1), "{payload}");
        let error = read_as("blktrace", &bytes).expect_err("damaged").to_string();
        assert!(error.starts_with(&format!("f0:byte 48: a payload of {payload} bytes")), "{error}");
    }
    assert_eq!(read("blktrace", &[good(1), vec![7; 1_000], good(3), vec![7; 99]].concat()), (vec![1, 3], 2, 2));
    let mut no_processor = good(2);
    no_processor[40..44].copy_from_slice(&70_000_u32.to_le_bytes());
    assert_eq!(read("blktrace", &[good(1), no_processor, good(3)].concat()), (vec![1, 3], 1, 1));
    let line = |sector: u64| format!("8,0 0 1 0.{sector:09} 7 Q R {sector} + 8 [a]\n");
    let text = [line(1), "rubbish\n".repeat(30), "x".repeat(200_000), "\n".to_owned(), line(2)].concat();
    assert_eq!(read("blkparse", text.as_bytes()), (vec![1, 2], 31, 10));
    // The first two records determine the version, so a file whose second record is damaged is not
    // recognised.
    let vscsi = [&sample("vscsi1.bin")[..64], &[0xff; 32], &sample("vscsi1.bin")[64..]].concat();
    assert_eq!(read("vscsi", &vscsi).1, 1);
    assert_eq!(read("spc", b"0,8,4096,R,10.0\n0,16,4096,R,8.9\n0,24,4096,R,10.1\n").0, [8, 24]);
}

/// Lines of 100 I/Os of one process at random times, as blkparse prints them: queued, issued,
/// completed.
fn blkparse_lines(random: &mut hoistway_block::random::Stream) -> Vec<(i64, String)> {
    let mut lines = Vec::new();
    for number in 0..100_i64 {
        let begin_ns = number * 100_000 - 2_000_000 + i64::try_from(random.below(50_000)).unwrap();
        let (sector, cpu) = (8 * random.below(1 << 30), random.below(8));
        for (at_ns, what) in [(0, "Q"), (2_000, "D"), (40_000, "C")] {
            let at_ns = begin_ns + at_ns;
            let bracket = if what == "C" { "0" } else { "dd" };
            lines.push((at_ns, format!("{cpu} 1 TIME 700 {what} R {sector} + 8 [{bracket}]")));
        }
    }
    lines.sort_by_key(|(at_ns, _)| *at_ns);
    lines
}

/// A time as blkparse prints it: differences modulo 2^64 ns, of which it prints the seconds modulo
/// 2^34.
fn printed_time(at_ns: i64) -> String {
    let ns = at_ns.cast_unsigned();
    format!("{}.{:09}", (ns / 1_000_000_000) % (1 << 34), ns % 1_000_000_000)
}

#[test]
fn times_before_the_first_event_are_read_as_such_wherever_they_stand() {
    assert_eq!(printed_time(-101_031), "1266874889.709450585");
    for seed in 0..20 {
        let mut random = hoistway_block::random::Stream::of(seed, "blkparse_lines");
        let mut lines = blkparse_lines(&mut random);
        let duration_ns = lines[lines.len() - 1].0 - lines[0].0;
        // A line may come a few ms after its time.
        for _ in 0..random.below(40) {
            let from = usize::try_from(random.below(200)).unwrap();
            let line = lines.remove(from);
            lines.insert(from + usize::try_from(random.below(90)).unwrap(), line);
        }
        let text: String =
            lines.iter().map(|(at, line)| format!("8,16 {}\n", line.replace("TIME", &printed_time(*at)))).collect();
        let (items, tally) = read_as("blkparse", text.as_bytes()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let records = records(&items);
        assert_eq!((records.len(), tally.errors.len(), tally.skipped_records()), (300, 0, 0), "{seed}");
        assert_eq!(records[299].at_ns - records[0].at_ns, duration_ns.cast_unsigned(), "{seed}");
        assert!(tally.notes.iter().any(|note| note.contains("before the first event")), "{:?}", tally.notes);
    }
}

#[test]
fn elapsed_times_of_blkparse_are_no_passthrough() {
    let text = "7,0 1 5 0.000005966 6775 I RS 51199 + 1 (    3817) [blktst]\n\
                7,0 1 6 0.000007563 6775 D RS 51199 + 1 ( 1597) [blktst]\n\
                7,0 2 1 0.000055590 6695 C RS 51199 + 1 (   48027) [0]\n\
                7,0 1 7 0.000075693 6775 D FN (  123456789) [blktst]\n\
                7,0 2 2 0.000085590 0 C FN 0 (   48027) [0]\n\
                7,0 1 8 0.000095693 6775 D R 36 (12 00 00 00 24 00 ..) [x]\n\
                7,0 1 9 0.000095694 6775 D R 0 (12) [x]\n";
    let (items, tally) = read_as("blkparse", text.as_bytes()).expect("right");
    let places: Vec<(u64, u64)> = records(&items).iter().map(|record| (record.sector(), record.sectors())).collect();
    assert_eq!(places, [(51_199, 1), (51_199, 1), (51_199, 1), (0, 0), (0, 0)]);
    assert_eq!(tally.skipped.get("passthrough"), Some(&2));
}

#[test]
fn what_blkparse_prints_around_the_events_is_not_taken_for_events() {
    let added: String = (0..64).map(|cpu| format!("Input file sda.blktrace.{cpu} added\n")).collect();
    let line = "8,0 0 1 0.000000001 7 Q R 8 + 8 [a]\n";
    let program =
        "my (old) program (6775)\n Reads Queued:         768,      384KiB\t Writes Queued:    0,        0KiB\n";
    let text = format!("\u{feff}{added}{}{program}kworker/0:1 (12, ...)\n Reads Queued: 1\n", line.repeat(3));
    assert_eq!(detect(text.as_bytes()).map(|format| format.name), Some("blkparse"));
    let (items, tally) = read_as("blkparse", text.as_bytes()).expect("right");
    assert_eq!((records(&items).len(), tally.errors.len()), (3, 0), "{tally:?}");
    let marked = format!("\u{feff}{line}");
    assert_eq!(records_of("blkparse", marked.as_bytes()).len(), 1);
}

#[test]
fn lines_of_biosnoop_and_iosnoop_begin_at_the_issue() {
    let records = records_of("biosnoop", &sample("biosnoop.txt"));
    // The slow write of 1.2 s completes at 1.000559 s, before the trace by its issue.
    let begins: Vec<u64> = records.iter().map(|record| record.at_ns / 1_000).collect();
    assert_eq!(begins, [0, 198_705, 199_009, 1_199_365, 1_201_341]);
    let last = records[4];
    assert_eq!((last.operation, last.pid, records[3].latency_ns), (Operation::Flush, 27, Some(500_000)));
    let queued = "0.5 dd 7 sda R 80 4096 0.25 1.50\n1.5 dd 7 sda RA 88 4096 0.25 1.50\n";
    assert_eq!(records_of("biosnoop", queued.as_bytes())[1].latency_ns, Some(1_500_000));
    // Requests without a sector, and what the terminal echoes.
    let passed = "0.5 dd 7 sda R 80 4096 1.50\n0.6 smartctl 9 sda R -1 512 0.20\n\
                  0.7 ? 0 sda R 18446744073709551615 0 0.20\n^C\n0.8 dd 7 sda W 96 4096 1.50\n";
    let sectors: Vec<u64> = records_of("biosnoop", passed.as_bytes()).iter().map(|record| record.sector()).collect();
    assert_eq!(sectors, [80, 96]);
    let iosnoop = "Tracing block I/O. Ctrl-C to end.\n\
                   STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                   5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62\n";
    assert_eq!(detect(iosnoop.as_bytes()).map(|format| format.name), Some("biosnoop"));
    let records = records_of("biosnoop", iosnoop.as_bytes());
    assert_eq!((records[0].at_ns, records[0].latency_ns), (5_982_800_302_061_000, Some(620_000)));
    assert_eq!((records[0].sector(), records[0].length_bytes, records[0].pid), (17_039_600, 4096, 1809));
}
