//! fio job files: cases 14 to 20 of docs/specifications/harness.md, section 13, by their numbers.

mod any_file;

use std::collections::VecDeque;

use hoistway_block::Operation;
use hoistway_workload::fio::{self, Diagnostic, Severity, Surroundings};
use hoistway_workload::job::{Amount, BlockSize, Direction, Distribution, SplitEntry, ZoneShare};
use hoistway_workload::verify::Kind;
use hoistway_workload::{Io, Issuer, Job, Next};

fn parsed(text: &str) -> fio::Parsed {
    fio::parse("t.fio", text.as_bytes(), &Surroundings::none())
        .unwrap_or_else(|errors| panic!("{text}: {}", all(&errors)))
}

fn jobs(text: &str) -> Vec<Job> {
    parsed(text).jobs
}

#[test]
fn fill_device_ends_at_the_size_that_is_given() {
    let size = |text: &str| jobs(&format!("[a]\nfill_device=1\n{text}")).remove(0).area.size;
    assert_eq!(size("size=1m\n"), Some(Amount::Bytes(1 << 20)));
    assert_eq!(size(""), None);
}

fn job(text: &str) -> Job {
    let mut jobs = jobs(&format!("[j]\n{text}\n"));
    assert_eq!(jobs.len(), 1, "{text}");
    jobs.remove(0)
}

fn errors(text: &str) -> String {
    let result = fio::parse("t.fio", text.as_bytes(), &Surroundings::none());
    all(&result.expect_err(&format!("{text} must be refused")))
}

fn all(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// All I/Os of one thread, each completing before the next is requested.
fn ios(job: &Job, thread: u32, area_bytes: u64) -> Vec<Io> {
    let mut issuer = Issuer::new(job, thread, area_bytes, 1).expect("the area is large enough");
    let (mut now, mut issued, mut in_flight) = (0, Vec::new(), VecDeque::new());
    loop {
        match issuer.next(now) {
            Next::Issue(io) => {
                issued.push(io);
                in_flight.push_back(io.token);
            }
            Next::NotBefore(at) => now = at,
            Next::Busy => issuer.completed(in_flight.pop_front().expect("busy only with I/Os in flight"), true),
            Next::Finished => return issued,
        }
    }
}

fn offsets(job: &Job, area_bytes: u64, count: usize) -> Vec<u64> {
    ios(job, 0, area_bytes).iter().take(count).map(|io| io.offset_bytes).collect()
}

// ---- 14: lexical rules

#[test]
fn t14_comments_behind_values_are_cut() {
    assert_eq!(job("numjobs=2 ; x").threads, 2);
    assert_eq!(job("numjobs=2 # x").threads, 2);
}

#[test]
fn t14_a_key_before_the_first_section_is_an_error_at_its_line() {
    let message = errors("\nrw=read\n[j]\n");
    assert!(message.contains("t.fio:2:1: option <rw=read> outside of [] job section"), "{message}");
}

#[test]
fn t14_an_open_bracket_without_its_end_is_an_error() {
    assert!(errors("[j\nrw=read\n").contains("t.fio:1:1: '[' without ']'"));
}

#[test]
fn t14_an_upper_case_key_is_an_error_with_a_suggestion() {
    let message = errors("[j]\nIOENGINE=null\n");
    assert!(message.contains("unknown option 'IOENGINE'") && message.contains("did you mean 'ioengine'?"), "{message}");
}

#[test]
fn t14_the_last_of_two_equal_keys_wins() {
    assert_eq!(job("iodepth=4\niodepth=8\nioengine=io_uring").submission.iodepth, 8);
}

#[test]
fn t14_a_later_global_section_affects_only_later_jobs() {
    let jobs = jobs("[a]\n[global]\nnumjobs=3\n[b]\n[global]\nloops=2\n[c]\n");
    let figures: Vec<_> = jobs.iter().map(|job| (job.threads, job.area.loops)).collect();
    assert_eq!(figures, [(1, 1), (3, 1), (3, 2)]);
}

#[test]
fn t14_the_same_section_name_twice_makes_two_jobs() {
    let jobs = jobs("[a]\n[a]\nrw=write\n");
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "a"]);
    assert_eq!(jobs.iter().map(|job| job.first_thread).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn t14_crlf_blanks_and_a_missing_final_newline_are_fine() {
    let jobs = jobs("\u{feff}[ my job ]\r\n  rw = randread \r\n\tiodepth=2");
    assert_eq!((jobs[0].name.as_str(), jobs[0].submission.iodepth), (" my job ", 2));
}

#[test]
fn t14_integers_need_a_value_and_booleans_take_0_and_1_only() {
    assert!(errors("[j]\ndirect\n").contains("it needs a value"));
    assert!(errors("[j]\ndirect=yes\n").contains("'yes' is not one of 0, 1"));
    assert!(job("time_based=7\nruntime=1").times.time_based);
}

#[test]
fn t14_includes_are_relative_to_their_file_and_must_not_include_themselves() {
    let read_include = |path: &str| match path {
        "dir/common.inc" => Ok(b"iodepth=7\ninclude deep.inc\n".to_vec()),
        "dir/deep.inc" => Ok(b"numjobs=2\n".to_vec()),
        "dir/circle.inc" => Ok(b"include circle.inc\n".to_vec()),
        _ => Err("no such file".to_owned()),
    };
    let surroundings = Surroundings { read_include: &read_include, ..Surroundings::none() };
    let parsed = fio::parse("dir/a.fio", b"[j]\nioengine=null\ninclude common.inc\n", &surroundings).expect("right");
    assert_eq!((parsed.jobs[0].submission.iodepth, parsed.jobs[0].threads), (7, 2));
    let circle = fio::parse("dir/a.fio", b"[j]\ninclude circle.inc\n", &surroundings).expect_err("a circle");
    assert!(all(&circle).contains("'dir/circle.inc' includes itself"));
    let missing = fio::parse("dir/a.fio", b"[j]\ninclude x.inc\n", &surroundings).expect_err("missing");
    assert!(all(&missing).contains("dir/a.fio:2:1: cannot read the included file 'dir/x.inc': no such file"));
}

#[test]
fn t14_variables_and_keywords_are_replaced() {
    let variable = |name: &str| (name == "DEPTH").then(|| "9".to_owned());
    let surroundings = Surroundings { variable: &variable, memory_mib: 100, ..Surroundings::none() };
    let text = b"[j]\nioengine=null\niodepth=${DEPTH}\nsize=8*$mb_memory+1\ndescription=a${NONE}b\n";
    let job = fio::parse("t.fio", text, &surroundings).expect("right").jobs.remove(0);
    assert_eq!(
        (job.submission.iodepth, job.area.size, job.description.as_str()),
        (9, Some(hoistway_workload::job::Amount::Bytes(801)), "ab")
    );
}

#[test]
fn t14_at_most_twenty_problems_are_shown_and_the_rest_is_counted() {
    let text = format!("[j]\n{}", "bogus=1\n".repeat(30));
    let problems = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()).expect_err("all wrong");
    assert_eq!(problems.len(), 20);
    assert!(all(&problems).ends_with("10 more errors are not shown"));
}

// ---- 15: units

fn size_of(text: &str) -> u64 {
    job(text).wanted_area_bytes().expect("a size in bytes")
}

#[test]
fn t15_suffixes_mean_what_they_mean_in_fio() {
    let with = |size: &str| size_of(&format!("size={size}"));
    assert_eq!(
        ["4k", "4kb", "4kib", "1m", "1MiB", "0x1000", "1g"].map(with),
        [4096, 4096, 4000, 1_048_576, 1_000_000, 4096, 1 << 30]
    );
}

#[test]
fn t15_kb_base_1000_swaps_kb_and_kib_at_any_place_in_the_section() {
    assert_eq!(size_of("size=1m\nkb_base=1000"), 1_000_000);
    assert_eq!(size_of("kb_base=1000\nsize=1mib"), 1_048_576);
}

#[test]
fn t15_a_kib_suffix_is_noted_with_its_meaning() {
    let notes = all(&parsed("[j]\nbs=4kib\n").notes);
    assert!(notes.contains("note: t.fio:2:1: in fio files '4kib' means 4000 bytes (kb_base=1024)"), "{notes}");
}

#[test]
fn t15_fractions_and_expressions_are_refused_with_a_hint() {
    assert!(errors("[j]\nsize=1.5m\n").contains("fio cuts off (it reads 1)"));
    assert!(errors("[j]\nsize=2*1m\n").contains("is an expression"));
}

#[test]
fn t15_times_are_seconds_without_a_suffix() {
    let runtime = |text: &str| job(&format!("runtime={text}")).times.runtime_ns;
    assert_eq!(["1m", "500ms", "30"].map(runtime), [Some(60_000_000_000), Some(500_000_000), Some(30_000_000_000)]);
    assert_eq!(job("thinktime=250").pacing.think.time_ns, 250_000);
}

// ---- 16: block sizes

fn fixed(job: &Job) -> [u32; 3] {
    Direction::ALL.map(|direction| match job.shape.block_sizes.of(direction) {
        BlockSize::Fixed(bytes) => *bytes,
        other => panic!("{other:?} is not fixed"),
    })
}

#[test]
fn t16_two_sizes_are_for_reads_and_for_writes_with_trims() {
    assert_eq!(fixed(&job("rw=rw\nbs=4k,16k")), [4096, 16_384, 16_384]);
    assert_eq!(fixed(&job("rw=rw\nbs=,16k")), [4096, 16_384, 16_384]);
    for io in ios(&job("rw=rw\nbs=4k,16k"), 0, 1 << 20) {
        assert_eq!(io.length_bytes, if io.operation == Operation::Read { 4096 } else { 16_384 });
    }
}

#[test]
fn t16_an_empty_percentage_takes_the_rest() {
    let entries = vec![SplitEntry { bytes: 4096, weight: 5000 }, SplitEntry { bytes: 8192, weight: 5000 }];
    assert_eq!(job("bssplit=4k/50:8k/").shape.block_sizes.read, BlockSize::Split(entries));
}

#[test]
fn t16_percentages_are_cut_at_100_with_a_warning_and_what_is_missing_goes_to_the_last() {
    // The shares are those of iologs of fio 3.33, which sorts the sizes by percentage.
    for (text, expected) in [
        ("4k/90:8k/90", vec![(8192, 10), (4096, 90)]),
        ("4k/60:64k/60", vec![(65_536, 40), (4096, 60)]),
        ("4k/30:8k/30", vec![(4096, 30), (8192, 70)]),
        ("4k/10:8k/10:16k/10", vec![(4096, 10), (8192, 10), (16_384, 80)]),
        ("4k/60:8k/30:16k/30", vec![(8192, 30), (16_384, 30), (4096, 40)]),
        ("4k/100:8k/50", vec![(8192, 50), (4096, 50)]),
    ] {
        let parsed = parsed(&format!("[j]\nbssplit={text}\nsize=64m\n"));
        assert!(parsed.notes.iter().any(|note| note.severity == Severity::Warning && note.message.contains("100")));
        let BlockSize::Split(entries) = &parsed.jobs[0].shape.block_sizes.read else { panic!("{text} is a split") };
        let entries: Vec<_> = entries.iter().map(|entry| (entry.bytes, entry.weight / 100)).collect();
        assert_eq!(entries, expected, "{text}");
    }
    assert_eq!(job("bssplit=4k:8k/100").shape.block_sizes.read, BlockSize::Fixed(8192));
    assert!(fio::parse("j.fio", b"[j]\nbssplit=4k/60:8k/60:16k\n", &Surroundings::none()).is_err());
}

#[test]
fn t16_ranges_and_pairs_in_all_spellings_of_fio() {
    let range = |min, max| BlockSize::Range { min, max };
    let sizes = |text: &str| job(&format!("rw=randrw\n{text}")).shape.block_sizes;
    for text in ["bsrange=1k-4k", "bsrange=1k:4k", "bsrange=4k-1k", "bsrange=1Ki-4Ki"] {
        assert_eq!((sizes(text).read, sizes(text).write), (range(1024, 4096), range(1024, 4096)), "{text}");
    }
    for text in ["bsrange=1k:4k/8k:32k", "bsrange=1k-4k/8k-32k", "bsrange=1k-4k,8k-32k"] {
        assert_eq!((sizes(text).read, sizes(text).write), (range(1024, 4096), range(8192, 32_768)), "{text}");
    }
    for text in ["bs=4k:8k", "bs=4k-8k", "bs=4k,8k"] {
        assert_eq!(fixed(&job(text)), [4096, 8192, 8192], "{text}");
    }
    for text in ["filesize=4k-64k", "filesize=64k:4k", "filesize=4k,64k"] {
        assert_eq!((job(text).area.least_file_bytes, job(text).area.file_bytes), (Some(4096), Some(65_536)), "{text}");
    }
    let amount = |text: &str| job(text).area.size;
    assert_eq!((amount("size=100%%"), amount("size=50%")), (Some(Amount::Percent(100)), Some(Amount::Percent(50))));
    assert_eq!(job("nr_files=4\nsize=1m").area.files, 4);
}

#[test]
fn t16_a_unit_that_fio_drops_behind_a_blank_has_a_warning() {
    let warned = |line: &str| {
        let text = format!("[j]\nrw=read\nsize=1m\n{line}\n");
        parsed(&text).notes.iter().any(|note| note.message.contains("because of the blank in front of it"))
    };
    for line in ["size = 1m", "bs = 4k", "bs=4k, 8k", "rate=\t1m", "thinktime = 5ms", "number_ios= 1k", "offset= 50%"] {
        assert!(warned(line), "{line}");
    }
    for line in
        ["size =1m", "bs=4k,8k", "iodepth = 8", "direct = 0", "description = 5 men", "randseed= 0x10", "rw = read"]
    {
        assert!(!warned(line), "{line}");
    }
    assert_eq!(job("size = 1m").area.size, Some(Amount::Bytes(1 << 20)));
}

#[test]
fn t16_options_newer_than_3_33_are_taken_where_they_change_nothing() {
    let harmless = [
        "comm=db",
        "end_syncfs=0",
        "gpu_dev_id=0",
        "data_placement=none",
        "write_zone_remainder=0",
        "num_range=1",
        "libaio_vectored=1",
        "log_issue_time=1",
        "job_start_clock_id=1",
        "log_window_value=avg",
    ];
    for line in harmless {
        assert_eq!(job(&format!("size=1m\n{line}")).area.size, Some(Amount::Bytes(1 << 20)), "{line}");
    }
    for (line, is_largest) in [("log_window_value=max", true), ("log_max_value=1", true), ("log_max_value=avg", false)]
    {
        assert_eq!(job(line).output.largest, is_largest, "{line}");
    }
    // What is not an option of any fio is unknown, what does I/O of another kind is refused by name.
    for (line, expected) in [
        ("verify_header_interval=512", "unknown option"),
        ("log_window_value=both", "'both' is not supported"),
        ("end_syncfs=1", "end_fsync is supported"),
        ("fdp_pli=1,2", "newer than fio 3.33"),
        ("spr_cs=1g", "newer than fio 3.33"),
        ("write_zone_remainder=1", "zoned devices are not supported"),
    ] {
        let errors = fio::parse("j.fio", format!("[j]\n{line}\n").as_bytes(), &Surroundings::none()).unwrap_err();
        assert!(errors[0].to_string().contains(expected), "{}", errors[0]);
    }
}

#[test]
fn t16_names_of_an_engine_and_a_newer_option_are_known() {
    let shown = |text: &str| fio::show(&[job(text)]);
    for name in ["aio", "linuxaio", "libaio"] {
        let shown = shown(&format!("ioengine={name}\ndirect=1\niodepth=4\nsize=1m"));
        assert!(shown.contains("ioengine=libaio\n") && shown.contains("\niodepth=4\n"), "{shown}");
    }
    let all = shown("size=1m");
    for line in ["bs=4096", "iodepth=1", "numjobs=1", "ioengine=psync"] {
        assert!(all.contains(&format!("\n{line}\n")), "{line} is missing in\n{all}");
    }
    assert!(job("fsync_on_close=1\nrw=write").submission.fsync_on_close && job("thinkcycles=5\nfdp=0").area.files == 1);
    let errors = fio::parse("j.fio", b"[j]\nsprandom=1\n", &Surroundings::none()).unwrap_err();
    assert!(errors[0].to_string().contains("newer than fio 3.33"), "{}", errors[0]);
    let parsed = parsed("[j]\nsize=1m\ndescription=a${NOWHERE}b\n");
    assert!(parsed.notes.iter().any(|note| note.message.contains("NOWHERE is not set")), "{:?}", parsed.notes);
}

// ---- 17: patterns

#[test]
fn t17_a_negative_skip_goes_backwards_block_by_block() {
    let offsets = offsets(&job("rw=read:-8k\nbs=4k"), 1 << 20, 100);
    // fio 3.33 starts at the beginning of the file and then continues from its end, as its iolog
    // shows.
    assert_eq!(offsets[..2], [0, (1 << 20) - 8192]);
    assert!(offsets[1..].windows(2).all(|pair| pair[1] + 4096 == pair[0]), "{offsets:?}");
}

#[test]
fn t17_a_run_of_eight_is_eight_consecutive_blocks() {
    let offsets = offsets(&job("rw=randread:8\nbs=4k"), 1 << 30, 800);
    let follows = |pair: &[u64]| pair[1] == pair[0] + 4096;
    for run in offsets.chunks(8) {
        assert!(run.windows(2).all(follows), "{run:?}");
    }
    let joined = offsets.chunks(8).zip(offsets.chunks(8).skip(1)).filter(|(a, b)| b[0] == a[7] + 4096).count();
    // A run starts directly after the previous one with a probability of 1 in 262,144.
    assert!(joined <= 1, "{joined} of 99 runs join the one before");
}

#[test]
fn t17_identical_repeats_the_drawn_offset() {
    let offsets = offsets(&job("rw=randread:4\nrw_sequencer=identical"), 1 << 30, 40);
    assert!(offsets.chunks(4).all(|run| run.iter().all(|offset| *offset == run[0])), "{offsets:?}");
}

// ---- 18: order and reporting

#[test]
fn t18_a_stonewall_begins_a_phase_and_a_reporting_group() {
    let jobs = jobs("[a]\n[b]\nstonewall\n[c]\n");
    let figures: Vec<_> =
        jobs.iter().map(|job| (job.name.as_str(), job.course.phase, job.reporting.report_group)).collect();
    assert_eq!(figures, [("a", 0, 0), ("b", 1, 1), ("c", 1, 1)]);
}

#[test]
fn t18_clones_report_together_and_do_three_times_the_io() {
    let job = job("numjobs=3\ngroup_reporting\nsize=1m");
    assert!(job.reporting.group_reporting);
    let total: usize = (0..job.threads).map(|thread| ios(&job, thread, 1 << 20).len()).sum();
    assert_eq!(total, 3 * 256);
}

#[test]
fn t18_wait_for_needs_an_earlier_job_of_that_name() {
    assert_eq!(jobs("[prepare]\n[go]\nwait_for=prepare\n")[1].course.wait_for, "prepare");
    let message = errors("[prepare]\n[go]\nwait_for=prepaer\n");
    assert!(message.contains("t.fio:3:1:") && message.contains("did you mean 'prepare'?"), "{message}");
}

// ---- 19: options that are applied, noted or refused

#[test]
fn t19_zoned_devices_are_refused_with_file_line_option_and_quoted_line() {
    let message = errors("[j]\nrw=write\nzonemode=zbd\n");
    let expected = "error: t.fio:3:1: option 'zonemode': zoned devices are not supported: no host tracks write pointers or \
                    resets zones\n   3 | zonemode=zbd\n  help: zonemode: Division of the area into zones: none, strided; \
                    zbd needs fio itself: hoistway test TARGET --generator fio.";
    assert_eq!(message, expected);
    assert!(errors("[j]\nmax_open_zones=3\n").contains("no host tracks write pointers"));
}

#[test]
fn t19_all_kinds_of_verify_are_parsed_and_headers_must_fit_into_blocks() {
    for (name, kind) in Kind::NAMES {
        let verify = job(&format!("rw=write\nverify={name}\nverify_pattern=0xff")).checks.verify.expect("it verifies");
        assert_eq!((verify.kind, verify.reads_back), (kind, true));
    }
    let verify = |text: &str| job(text).checks.verify.expect("it verifies");
    assert_eq!(verify("verify=crc32c-intel").kind, Kind::Crc32c);
    assert!(job("verify=0\nverify_interval=512").checks.verify.is_none());
    // The interval becomes the largest one that divides all sizes, as in fio.
    assert_eq!(verify("rw=write\nbsrange=4k-16k\nverify=md5").interval_bytes, 4096);
    assert_eq!(verify("rw=write\nbs=6k\nverify=md5\nverify_interval=4k").interval_bytes, 6144);
    assert_eq!(verify("rw=write\nbs=16k\nverify=md5\nverify_interval=512").interval_bytes, 512);
    assert!(verify("verify=md5\ncontinue_on_error=verify").continues);
    assert!(verify("verify=md5\nignore_error=,,EILSEQ").continues);
    let message = errors("[j]\nrw=write\nbs=128\nverify=sha512\n");
    assert!(message.contains("a part of 128 bytes does not hold the header of 168 bytes"), "{message}");
    assert!(errors("[j]\nverify=pattern\n").contains("verify=pattern needs a verify_pattern"));
    assert!(errors("[j]\nverify=md5\nverify_offset=40\n").contains("write 56 to 4040"));
    assert!(errors("[j]\nverify=crc33\n").contains("did you mean 'crc32'?"));
}

#[test]
fn t19_priorities_have_hints() {
    let split = |text: &str| job(text).priorities.priority_splits.read[0].priority_bits;
    assert_eq!(split("cmdprio_bssplit=64k/25/1/3/5"), 1 << 13 | 5 << 3 | 3);
    assert_eq!(split("cmdprio_bssplit=64k/25/1/3"), 1 << 13 | 3);
    assert_eq!(split("cmdprio_bssplit=64k/25\ncmdprio_class=2\ncmdprio_hint=7"), 2 << 13 | 7 << 3);
    assert_eq!(job("prioclass=2\nprio=4\npriohint=6").priorities.priority_bits, 2 << 13 | 6 << 3 | 4);
}

#[test]
fn t19_verify_0_and_flow_sleep_are_accepted() {
    job("verify=0\ndo_verify=0\nflow_sleep=1000");
}

#[test]
fn t19_an_unsupported_engine_is_refused_by_name() {
    // The engine's own options produce no message; the engine is the reason, and it is reported
    // once.
    let message = errors("[global]\nioengine=cpuio\ncpuload=50\n[j]\ncpumode=qsort\n[k]\n[l]\nioengine=psync\n");
    let expected = "error: t.fio:2:1: engine 'cpuio' is not supported\n   2 | ioengine=cpuio\n  help: ";
    assert!(message.starts_with(expected) && message.matches("error: ").count() == 1, "{message}");
    assert!(errors("[j]\nioengine=net\nport=1\n").contains("engine 'net' is not supported"));
    for name in ["mmap", "splice", "io_uring_cmd\ncmd_type=nvme"] {
        assert_eq!(jobs(&format!("[j]\nioengine={name}\nthreads=1\n")).len(), 1);
    }
    assert!(job("ioengine=io_uring_cmd").submission.direct && !job("ioengine=mmap\ndirect=1").submission.direct);
}

#[test]
fn invalidate_0_has_no_effect_and_gets_a_note() {
    let notes = all(&parsed("[j]\ninvalidate=0\n").notes);
    assert!(notes.contains("note: t.fio:2:1: option 'invalidate' has no effect here"), "{notes}");
    assert!(parsed("[j]\ninvalidate=1\n").notes.is_empty());
}

#[test]
fn t19_a_synchronous_engine_caps_its_depth_with_a_note() {
    let parsed = parsed("[j]\nioengine=psync\niodepth=4\n");
    assert_eq!(parsed.jobs[0].effective_depth(), 1);
    assert!(all(&parsed.notes).contains("queue depth will be capped at 1"));
}

#[test]
fn t19_buffered_libaio_is_limited_to_one_unless_asked_otherwise() {
    let text = b"[j]\nioengine=libaio\niodepth=8\n";
    assert_eq!(parsed("[j]\nioengine=libaio\niodepth=8\n").jobs[0].effective_depth(), 1);
    assert_eq!(job("ioengine=libaio\niodepth=8\ndirect=1").effective_depth(), 8);
    let asked = Surroundings { buffered_async: true, ..Surroundings::none() };
    assert_eq!(fio::parse("t.fio", text, &asked).expect("right").jobs[0].effective_depth(), 8);
}

#[test]
fn t19_options_that_no_host_supports_are_refused_and_never_ignored() {
    for option in ["lockfile=exclusive", "uid=7", "file_append=1", "stats=0", "nowait=1", "pre_read=1"] {
        assert!(errors(&format!("[j]\n{option}\n")).contains("is not supported yet"), "{option}");
    }
}

#[test]
fn t19_two_weights_for_one_group_are_an_error() {
    let message = errors("[a]\ncgroup=g\ncgroup_weight=100\n[b]\ncgroup=g\ncgroup_weight=200\n");
    assert!(message.contains("t.fio:6:1: group 'g' has the weight 200 here"), "{message}");
}

#[test]
fn t19_pragmas_carry_group_settings() {
    let group_settings =
        job(";# hoistway: weight=800\n;# hoistway: wbps=10m\n;# hoistway: priority=7\ncgroup=db").group_settings;
    assert_eq!(
        (group_settings.weight, group_settings.write_bytes_per_s, group_settings.priority),
        (Some(800), Some(10 << 20), Some(7))
    );
    assert!(errors("[j]\n;# hoistway: priority=8\n").contains("pragma 'priority'"));
    assert!(errors("[j]\n;# hoistway: wieght=1\n").contains("did you mean 'weight'?"));
}

// ---- several files, zones, shares of the area

#[test]
fn t20_files_are_parts_of_one_area_and_size_is_of_all_together() {
    let three = job("nrfiles=3\nsize=64k\n");
    assert_eq!((three.area.files, three.wanted_area_bytes()), (3, Some(3 * 24_576)));
    assert_eq!(job("nrfiles=3\nfilesize=100k\n").wanted_area_bytes(), Some(3 * 102_400));
    let named = job("filename=a:b\\:c\nsize=8k\n");
    assert_eq!((named.area.files, named.area_name(0), named.wanted_area_bytes()), (2, "a:b\\:c".into(), Some(8192)));
    assert_eq!(offsets(&named, 8192, 2), [0, 4096]);
    let shared = job("filename_format=$jobname.$filenum\nnrfiles=2\nnumjobs=4\n");
    assert_eq!((shared.area_name(0), shared.area_name(3)), ("j.0:j.1".into(), "j.0:j.1".into()));
    assert!(errors("[j]\nfilename=a:b\nnrfiles=3\n").contains("nrfiles=3 and 2 names in filename contradict"));
    assert!(errors("[j]\nfilename=a:b\n[k]\nfilename=b\n").contains("jobs 'j' and 'k' share some of their files"));
    parsed("[j]\nfilename=a:b\n[k]\nfilename=a:b\n[l]\nfilename=c\n");
}

#[test]
fn t20_random_files_are_all_used_and_each_block_once() {
    let job = job("rw=randread\nnrfiles=4\nsize=1m\nfile_service_type=random\n");
    let mut seen = offsets(&job, 1 << 20, 256);
    let files = |part: &[u64]| part.iter().map(|at| at >> 18).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(files(&seen[..32]), 4);
    seen.sort_unstable();
    assert!(seen.iter().enumerate().all(|(block, at)| *at == 4096 * block as u64));
}

#[test]
fn t20_random_zones_keep_to_their_zone_until_enough_is_done() {
    let job = job("rw=randread\nsize=1m\nzonemode=strided\nzonesize=32k\nzonerange=128k\nzoneskip=128k\n");
    let seen = offsets(&job, 1 << 20, 64);
    for (index, part) in seen.chunks(8).enumerate() {
        // Eight blocks in 0..128k, eight in 256k..384k, ... and from the start again.
        let begin = (index as u64 % 4) * (256 << 10);
        assert!(part.iter().all(|at| (begin..begin + (128 << 10)).contains(at)), "{index}: {part:?}");
    }
    assert!(errors("[j]\nzonemode=strided\n").contains("needs a zonesize"));
    assert!(errors("[j]\nbs=64k\nzonemode=strided\nzonesize=4k\n").contains("does not hold a block of 65536"));
    assert!(errors("[j]\nzonemode=zbd\n").contains("zoned devices are not supported"));
}

#[test]
fn t20_shares_of_the_area_are_read_as_fio_reads_them() {
    let zones = |text: &str| match job(&format!("rw=randread\nrandom_distribution={text}\n")).shape.distribution {
        Distribution::Zoned(zones) => zones.read,
        other => panic!("{other:?}"),
    };
    let percent = |share, size| ZoneShare { percent: share, size: Amount::Percent(size) };
    assert_eq!(
        zones("zoned:60/10:30/20:8/30:2/40"),
        [percent(60, 10), percent(30, 20), percent(8, 30), percent(2, 40)]
    );
    assert_eq!(zones("zoned:60/10:/20:/"), [percent(60, 10), percent(20, 20), percent(20, 70)]);
    assert_eq!(zones("zoned_abs:95/50g:5/1t")[1], ZoneShare { percent: 5, size: Amount::Bytes(1 << 40) });
    let message = |text: &str| errors(&format!("[j]\nrw=randread\nrandom_distribution={text}\n"));
    assert!(message("zoned:60/10:30/20").contains("come to 90 %"));
    assert!(message("zoned:60/80:40/30").contains("the sizes come to 110 %"));
    assert!(message("zipf:1.2:1.5").contains("the centre '1.5' is outside"));
}

// ---- --show-jobs: docs/specifications/harness.md, section 6.6

const EVERYTHING: &str = "[global]\nioengine=libaio\ndirect=1\niodepth=16\nruntime=90\ntime_based\nramp_time=500ms\n\
    [ one ]\nrw=randrw:4\nrwmixread=70\nbs=4k,8k\nfilename=/dev/x\\:y\nrandom_distribution=zipf:1.2\nnorandommap\n\
    cgroup=db\ncgroup_weight=800\n;# hoistway: riops=500\n;# hoistway: priority=2\nprio=3\ncmdprio_percentage=10\nrate_iops=100,,5\n\
    [two]\nstonewall\nrw=write:-8k\nbssplit=4k/:8k/:64k/\nfsync=8\nend_fsync=1\nthinktime=2ms\nthinktime_blocks=4\n\
    startdelay=1-3\nnumjobs=4\nsize=50%\noffset=1m\nsync=dsync\nwait_for= one\n\
    [two]\nnew_group\nrw=randtrimwrite\nbsrange=4k-64k,8k-32k\nrandom_distribution=normal:12.5\nrate_process=poisson\n\
    max_latency=1s\nrate_iops_min=2,3\nsteadystate=bw:5%\nss_dur=20\nflow=2\nwrite_lat_log\nlog_avg_msec=50\nignore_error=EIO\n\
    continue_on_error=io\niodepth_low=4\nnice=-7\nrandseed=5\nexitall\nio_size=3g\npercentage_random=50\n";

#[test]
fn show_jobs_prints_a_file_that_parses_to_the_same_jobs() {
    let text = EVERYTHING.replace("wait_for= one\n", "");
    let jobs = jobs(&text);
    let shown = fio::show(&jobs);
    assert_eq!(self::jobs(&shown), jobs, "{shown}");
    assert_eq!(fio::show(&self::jobs(&shown)), shown);
}

#[test]
fn jobs_are_plain_data_that_survives_json() {
    for job in jobs(&EVERYTHING.replace("wait_for= one\n", "")) {
        let text = serde_json::to_string(&job).expect("serialisable");
        assert_eq!(serde_json::from_str::<Job>(&text).expect("readable"), job);
    }
}

// ---- limits

/// A file that is as wrong, as long or as deeply nested as possible is refused at once.
#[test]
fn hostile_files_are_refused_at_a_bound() {
    let unknown = format!("[j]\n{}", "bogus_option_name=1\n".repeat(50_000));
    let many = "[j]\n".repeat(20_000);
    let clones = "[j]\nnumjobs=10000\nioengine=null\niodepth=65536\n".to_owned();
    let long = format!("[j]\ndescription={}\n", "x".repeat(70_000));
    let text = format!("[global]\ndescription={}\n", "x".repeat(5_000));
    let large = " ".repeat(fio::MAX_FILE_BYTES + 1);
    for (file, expected) in [
        (unknown, "1000 more errors are not shown"),
        (many, "more than 10000 threads"),
        (clones, "655360000 I/Os in flight"),
        (long, "the line is longer than 65536 bytes"),
        (text, "at most 4096 are allowed"),
        (large, "at most 1048576 are read"),
    ] {
        assert!(errors(&file).contains(expected), "{expected}");
    }
    let branching = |_: &str| Ok(b"include a\ninclude b\n".to_vec());
    let surroundings = Surroundings { read_include: &branching, ..Surroundings::none() };
    let refused = fio::parse("top", b"[j]\ninclude a\n", &surroundings).expect_err("branches without end");
    assert!(all(&refused).contains("includes itself"));
    let depth = std::cell::Cell::new(0);
    let deeper = |_: &str| {
        depth.set(depth.get() + 1);
        Ok(format!("include f{}\n", depth.get()).into_bytes())
    };
    let surroundings = Surroundings { read_include: &deeper, ..Surroundings::none() };
    let refused = fio::parse("top", b"[j]\ninclude f0\n", &surroundings).expect_err("no end");
    assert!(all(&refused).contains("nested deeper than 16") && depth.get() == 16, "{}", depth.get());
}
