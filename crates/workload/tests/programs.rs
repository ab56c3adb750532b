//! Programs: docs/specifications/devices.md, section 9 (process model and standard workloads), and
//! docs/specifications/bfq.md, section 21 (replayed start-up, video).

use std::collections::VecDeque;

use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{Nanos, Operation};
use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::job::{Amount, BlockSize, Engine, Mix, Pattern, PerDirection, Placement, Think};
use hoistway_workload::name::{self, BadName};
use hoistway_workload::program::{ALL, App, Dbench, StartUp, Video};
use hoistway_workload::{Call, Io, Issuer, Job, Next, Program, Unsuitable};

const MIB: u64 = 1 << 20;

/// One I/O as seen by the host of these tests.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Issued {
    issued_ns: Nanos,
    done_ns: Nanos,
    io: Io,
}

/// Runs an issuer to its end or until `limit` I/Os. Each takes the time that `latency` returns, on
/// a device that serves them in parallel.
fn run(issuer: &mut Issuer, limit: usize, mut latency: impl FnMut(usize, &Io) -> Nanos) -> Vec<Issued> {
    let (mut now, mut seen, mut in_flight) = (0, Vec::<Issued>::new(), Vec::<(Nanos, u32)>::new());
    loop {
        let first = in_flight.iter().map(|(done_ns, _)| *done_ns).min();
        let wake = match (issuer.next(now), first) {
            (Next::Issue(io), _) => {
                assert!(io.token < issuer.depth() && in_flight.iter().all(|(_, token)| *token != io.token), "{io:?}");
                assert!(io.actor < issuer.actors(), "{io:?} of {} actors", issuer.actors());
                let done_ns = now + latency(seen.len(), &io);
                seen.push(Issued { issued_ns: now, done_ns, io });
                in_flight.push((done_ns, io.token));
                assert_eq!(issuer.in_flight() as usize, in_flight.len());
                if seen.len() == limit {
                    return seen;
                }
                continue;
            }
            (Next::NotBefore(at), first) => {
                assert!(at > now, "not before {at} at {now}");
                first.map_or(at, |done| at.min(done))
            }
            (Next::Busy | Next::Finished, Some(done)) => done,
            (Next::Busy, None) => panic!("busy with nothing in flight"),
            (Next::Finished, None) => return seen,
        };
        now = wake;
        in_flight.retain(|(done_ns, token)| {
            let is_flying = *done_ns > now;
            if !is_flying {
                issuer.completed(*token, true);
            }
            is_flying
        });
    }
}

fn issuer(job: &Job, area_bytes: u64) -> Issuer {
    Issuer::new(job, 0, area_bytes, 1).expect("the area is large enough")
}

fn parse(text: &str) -> Vec<Job> {
    fio::parse("t.fio", text.as_bytes(), &Surroundings::none())
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
        .jobs
}

fn named(text: &str) -> Vec<Job> {
    name::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).jobs
}

// ---- docs/specifications/devices.md, section 9.1: closed and open loop

#[test]
fn t09_1_a_full_thread_takes_all_completions_and_refills_one_at_a_time() {
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 4;
        job.submission.direct = true;
    });
    let mut issuer = issuer(&job, MIB);
    let first: Vec<u32> = (0..4)
        .map(|_| match issuer.next(0) {
            Next::Issue(io) => io.token,
            other => panic!("{other:?} below the depth"),
        })
        .collect();
    assert_eq!(issuer.next(0), Next::Busy);
    // Three have completed: all are taken, three are issued, and then it waits for another one.
    for token in &first[..3] {
        issuer.completed(*token, true);
    }
    for _ in 0..3 {
        assert!(matches!(issuer.next(9), Next::Issue(_)));
    }
    assert_eq!((issuer.next(9), issuer.in_flight()), (Next::Busy, 4));
}

#[test]
fn t09_1_psync_has_one_call_and_so_has_buffered_libaio() {
    for (text, depth) in [
        ("ioengine=psync\niodepth=8\ndirect=1", 1),
        ("ioengine=libaio\niodepth=8", 1),
        ("ioengine=libaio\niodepth=8\ndirect=1", 8),
        ("ioengine=io_uring\niodepth=8\ndirect=1", 8),
    ] {
        let job = &parse(&format!("[j]\nsize=1m\n{text}\n"))[0];
        let mut issuer = issuer(job, MIB);
        let at_once = (0..20).take_while(|_| matches!(issuer.next(0), Next::Issue(_))).count();
        assert_eq!(at_once, depth, "{text}");
    }
}

#[test]
fn t09_1_think_time_follows_the_completion_of_each_block() {
    let think = Think { time_ns: 7 * MILLISECOND, blocks: 1, counts_issued: false, io_time_ns: 0 };
    let seen = run(&mut issuer(&Job::default().with(|job| job.pacing.think = think), MIB), 20, |_, _| 100);
    assert!(seen.windows(2).all(|pair| pair[1].issued_ns == pair[0].done_ns + 7 * MILLISECOND));
}

#[test]
fn t09_1_a_rate_in_bytes_sets_the_time_of_each_call_at_any_latency() {
    // 64 KiB at 1 MiB/s: one call every 62.5 ms.
    let job = Job::default().with(|job| {
        job.pacing.rate_bytes_per_s = PerDirection::all(MIB);
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(64 << 10));
    });
    let seen =
        run(&mut issuer(&job, 8 * MIB), 100, |index, _| if index == 10 { 200 * MILLISECOND } else { MILLISECOND });
    let due = |index: usize| index as u64 * SECOND / 16;
    assert!(
        (0..=10).chain(15..100).all(|index| seen[index].issued_ns == due(index)),
        "on schedule but after the stall"
    );
    // The stall of 200 ms covers three slots; those calls are issued back to back.
    assert_eq!(seen[11].issued_ns, due(10) + 200 * MILLISECOND);
    assert!((12..14).all(|index| seen[index].issued_ns == seen[index - 1].done_ns));
}

#[test]
fn t09_1_the_backlog_of_a_rate_is_cut_to_one_second() {
    let rate = PerDirection { read: 100_u32, ..PerDirection::all(0) };
    let job = Job::default().with(|job| {
        job.pacing.rate_ios_per_s = rate;
        job.times.time_based = true;
        job.times.runtime_ns = Some(20 * SECOND);
    });
    // The fifth call takes ten seconds; afterwards one second's worth is caught up, nine seconds'
    // worth is dropped.
    let seen = run(&mut issuer(&job, MIB), usize::MAX, |index, _| if index == 4 { 10 * SECOND } else { MICROSECOND });
    let after =
        |from: Nanos, span: Nanos| seen.iter().filter(|one| (from..from + span).contains(&one.issued_ns)).count();
    let resumed_ns = seen[5].issued_ns;
    assert_eq!(after(resumed_ns, 5 * MILLISECOND), 102);
    assert_eq!(after(resumed_ns + 5 * MILLISECOND, SECOND), 100);
}

#[test]
fn t09_1_clones_have_seeds_of_their_own_and_random_blocks_may_repeat() {
    let pattern = Pattern::Random { run: 1, repeat_offset: false };
    let job = Job::default().with(|job| {
        job.threads = 4;
        job.shape.pattern = pattern;
        job.shape.random_map = false;
        job.area.number_ios = Some(256);
    });
    let offsets = |thread| -> Vec<u64> {
        let mut issuer = Issuer::new(&job, thread, MIB, 1).expect("it fits");
        run(&mut issuer, usize::MAX, |_, _| 1).iter().map(|seen| seen.io.offset_bytes).collect()
    };
    let all: Vec<_> = (0..4).map(offsets).collect();
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other != one));
        let mut distinct = one.clone();
        distinct.sort_unstable();
        distinct.dedup();
        // 256 draws among 256 blocks hit 1 - 1/e of them: 162, with a tolerance of 25 (5 standard
        // deviations).
        assert!(distinct.len().abs_diff(162) < 26, "{}", distinct.len());
    }
}

// ---- rewriting, dd, bonnie

#[test]
fn t09_2_a_rewrite_reads_each_block_and_writes_it_back() {
    let job = Job::default().with(|job| {
        job.shape.mix = Mix::Rewrite;
        job.submission.end_fsync = true;
    });
    let seen = run(&mut issuer(&job, MIB), usize::MAX, |_, _| 10);
    assert_eq!(seen.len(), 2 * 256 + 1);
    for (index, pair) in seen.chunks_exact(2).enumerate() {
        assert_eq!((pair[0].io.operation, pair[1].io.operation), (Operation::Read, Operation::Write));
        assert_eq!([pair[0].io.offset_bytes, pair[1].io.offset_bytes], [4096 * index as u64; 2]);
        assert_eq!(pair[1].issued_ns, pair[0].done_ns);
    }
    assert_eq!(seen[512].io.operation, Operation::Flush);
}

#[test]
fn t09_2_a_deep_rewrite_writes_no_block_before_it_has_come() {
    let pattern = Pattern::Random { run: 1, repeat_offset: false };
    for (loops, pattern) in [(1, Pattern::default()), (2, pattern)] {
        let job = Job::default().with(|job| {
            job.shape.mix = Mix::Rewrite;
            job.submission.engine = Engine::Async;
            job.submission.iodepth = 8;
            job.submission.direct = true;
            job.area.loops = loops;
            job.shape.pattern = pattern;
        });
        // Every third I/O is slow, so that blocks complete out of order.
        let seen = run(&mut issuer(&job, MIB), usize::MAX, |index, _| if index % 3 == 0 { 95 } else { 10 });
        let of = |operation| seen.iter().filter(move |one| one.io.operation == operation);
        assert_eq!(
            (of(Operation::Read).count(), of(Operation::Write).count()),
            (256 * loops as usize, 256 * loops as usize)
        );
        for write in of(Operation::Write) {
            let reads = of(Operation::Read).filter(|read| read.io.offset_bytes == write.io.offset_bytes);
            let came = reads.filter(|read| read.done_ns <= write.issued_ns).count();
            let earlier = of(Operation::Write).filter(|other| other.io.offset_bytes == write.io.offset_bytes);
            let written = earlier.filter(|other| other.issued_ns < write.issued_ns).count();
            assert!(came > written, "{write:?}");
        }
    }
}

#[test]
fn t09_2_a_block_that_cannot_be_read_is_left_as_it_is() {
    let continue_on_error = PerDirection { read: true, ..PerDirection::all(false) };
    let mut issuer = issuer(
        &Job::default().with(|job| {
            job.shape.mix = Mix::Rewrite;
            job.checks.continue_on_error = continue_on_error;
        }),
        8192,
    );
    let (mut seen, mut in_flight) = (Vec::new(), VecDeque::new());
    loop {
        match issuer.next(0) {
            Next::Issue(io) => {
                seen.push((io.operation, io.offset_bytes));
                in_flight.push_back(io);
            }
            Next::Busy => {
                let io = in_flight.pop_front().expect("something is in flight");
                issuer.completed(io.token, io.offset_bytes > 0);
            }
            Next::NotBefore(at) => panic!("a pause until {at}"),
            Next::Finished => break,
        }
    }
    assert_eq!(seen, [(Operation::Read, 0), (Operation::Read, 4096), (Operation::Write, 4096)]);
}

#[test]
fn t09_2_a_rewrite_is_a_word_of_job_files() {
    let text = "[j]\nnumjobs=1\nsize=1048576\nrw=randrewrite\nbs=4096\niodepth=1\nioengine=psync\n";
    let jobs = parse(text);
    assert_eq!(jobs[0].shape.mix, Mix::Rewrite);
    assert_eq!(fio::show(&jobs), text);
}

#[test]
fn t09_2_dd_reads_its_part_once_through_the_cache() {
    let jobs = named("dd:size=4m,numjobs=2");
    assert_eq!((jobs.len(), jobs[0].submission.direct, jobs[0].wanted_area_bytes()), (1, false, Some(8 * MIB)));
    let mut second = Issuer::new(&jobs[0], 1, 8 * MIB, 1).expect("it fits");
    let offsets: Vec<u64> =
        run(&mut second, usize::MAX, |_, _| 5).iter().map(|seen| seen.io.offset_bytes / MIB).collect();
    assert_eq!(offsets, [4, 5, 6, 7]);
    assert_eq!(named("dd:rw=write")[0].shape.mix, Mix::Write);
}

#[test]
fn t09_2_bonnie_is_three_jobs_over_one_file_that_wait_for_each_other() {
    let mut jobs = named("bonnie:size=64k,bs=8k");
    for job in &mut jobs {
        job.group = "a".to_owned();
    }
    let waits: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.course.wait_for.as_str())).collect();
    let (write, rewrite) = ("bonnie:size=64k,bs=8k.write", "bonnie:size=64k,bs=8k.rewrite");
    assert_eq!(waits, [(write, ""), (rewrite, write), ("bonnie:size=64k,bs=8k.read", rewrite)]);
    assert!(
        jobs.iter().all(|job| job.area_name(0) == jobs[0].area_name(0) && job.area.size == Some(Amount::Bytes(65_536)))
    );
    let operations = |job: &Job| -> String {
        let seen = run(&mut issuer(job, MIB), usize::MAX, |_, _| 10);
        seen.iter().map(|seen| format!("{:?}", seen.io.operation).remove(0)).collect()
    };
    assert_eq!(jobs.iter().map(operations).collect::<Vec<_>>(), ["WWWWWWWWF", "RWRWRWRWRWRWRWRWF", "RRRRRRRR"]);
    let refused = name::parse("bonnie:rw=read").expect_err("its directions are its own");
    assert!(matches!(&refused, BadName::Overrides(errors) if errors[0].message.contains("rw")), "{refused}");
}

// ---- dbench

fn dbench(text: &str, area_bytes: u64) -> (Job, Vec<Io>) {
    let job = named(text).remove(0);
    let seen = run(&mut issuer(&job, area_bytes), usize::MAX, |_, _| 100);
    (job, seen.into_iter().map(|seen| seen.io).collect())
}

#[test]
fn t09_2_dbench_has_the_ratios_of_its_recipe() {
    // 4000 files, about 28,000 writes.
    let (job, ios) = dbench("dbench:files=4000", 4000 << 19);
    assert_eq!((job.submission.direct, job.wanted_area_bytes()), (false, Some(4000 << 19)));
    let count = |call, operation| ios.iter().filter(|io| (io.call, io.operation) == (call, operation)).count() as u64;
    let writes = count(Call::Append, Operation::Write);
    let per_1000 = |count: u64| count * 1000 / writes;
    let near = |value: u64, expected: u64| value.abs_diff(expected) * 100 <= expected * 5;
    let (creates, ends) =
        (count(Call::Create, Operation::Write), [Call::Unlink, Call::Rename].map(|call| count(call, Operation::Write)));
    assert_eq!((creates, ends[0] + ends[1]), (4000, 4000));
    assert!(near(writes, 7 * creates), "{writes} writes of {creates} files");
    assert!(near(per_1000(count(Call::Data, Operation::Read)), 3100), "reads");
    assert!(near(per_1000(count(Call::Data, Operation::Flush)), 143), "flushes");
    // 85 of 485 files end with a rename: 701, four standard deviations are 96.
    assert!(ends[1].abs_diff(701) < 97, "{} renames", ends[1]);
    let bytes = ios.iter().filter(|io| io.call == Call::Append).map(|io| u64::from(io.length_bytes)).sum::<u64>();
    assert!(near(bytes / writes, 28 << 10), "mean write of {} bytes", bytes / writes);
    let lengths = || ios.iter().filter(|io| io.call == Call::Append).map(|io| io.length_bytes);
    assert_eq!((lengths().min(), lengths().max()), (Some(4 << 10), Some(64 << 10)));
}

#[test]
fn t09_2_a_dbench_file_is_made_filled_in_order_and_given_up() {
    let (_, ios) = dbench("dbench:files=20,loops=4", 20 << 19);
    let (mut begin, mut end, mut filled) = (0, 0, 0);
    let mut renamed = std::collections::BTreeMap::new();
    for io in &ios {
        assert!(begin == end || (begin..end).contains(&io.offset_bytes), "outside of the open file: {io:?}");
        match (io.call, io.operation) {
            (Call::Create, _) => {
                assert!(begin == end && io.offset_bytes.is_multiple_of(512 << 10), "{io:?}");
                assert!(!renamed.contains_key(&io.offset_bytes), "the slot still holds a renamed file: {io:?}");
                (begin, end, filled) = (io.offset_bytes, io.offset_bytes + u64::from(io.length_bytes), io.offset_bytes);
            }
            (Call::Append, _) => {
                assert_eq!(io.offset_bytes, filled);
                filled += u64::from(io.length_bytes);
            }
            (Call::Data, Operation::Read) => {
                assert!(io.offset_bytes + u64::from(io.length_bytes) <= filled, "reads what is not written: {io:?}");
            }
            (Call::Data, _) => assert_eq!((io.offset_bytes, u64::from(io.length_bytes)), (begin, filled - begin)),
            (Call::Unlink, _) if begin == end => {
                assert_eq!(renamed.remove(&io.offset_bytes), Some(io.length_bytes), "{io:?}");
            }
            (Call::Unlink | Call::Rename, _) => {
                assert_eq!((begin, end, filled), (io.offset_bytes, io.offset_bytes + u64::from(io.length_bytes), end));
                if io.call == Call::Rename {
                    renamed.insert(begin, io.length_bytes);
                }
                (begin, end) = (0, 0);
            }
        }
    }
    assert!(begin == end && ios.iter().filter(|io| io.call == Call::Create).count() == 80);
    assert!(ios.iter().any(|io| io.call == Call::Rename));
}

#[test]
fn t09_2_clients_of_one_job_have_parts_of_their_own() {
    let job = named("dbench:files=4,loops=2").remove(0).with(|job| job.threads = 3);
    for thread in 0..3 {
        let mut issuer = Issuer::new(&job, thread, job.wanted_area_bytes().expect("a size"), 1).expect("it fits");
        let part = u64::from(thread) * (2 << 20)..=u64::from(thread + 1) * (2 << 20);
        let seen = run(&mut issuer, usize::MAX, |_, _| 1);
        assert!(seen.iter().all(|one| part.contains(&one.io.offset_bytes)), "client {thread}");
        assert!(seen.iter().all(|one| part.contains(&(one.io.offset_bytes + u64::from(one.io.length_bytes)))));
    }
}

// ---- replayed start-up

fn start_up(app: App, latency: impl FnMut(usize, &Io) -> Nanos) -> Vec<Issued> {
    let job = Job::of(Program::StartUp(StartUp { app, ..StartUp::USUAL }));
    let area_bytes = job.wanted_area_bytes().expect("it knows its files");
    run(&mut issuer(&job, area_bytes), usize::MAX, latency)
}

#[test]
fn t21_replays_have_the_totals_of_the_suite() {
    // Requests, sectors, requests per process.
    let table: [(App, usize, u64, &[usize]); 3] = [
        (App::Xterm, 718, 12_072, &[632, 86]),
        (App::GnomeTerminal, 2781, 41_120, &[1087, 852, 667, 100, 40, 33, 2]),
        (App::Lowriter, 1268, 94_968, &[643, 389, 164, 72]),
    ];
    for (app, requests, sectors, of_processes) in table {
        let seen = start_up(app, |_, _| 100);
        assert_eq!(seen.len(), requests, "{app:?}");
        assert_eq!(seen.iter().map(|one| u64::from(one.io.length_bytes) / 512).sum::<u64>(), sectors, "{app:?}");
        assert!(seen.iter().all(|one| one.io.operation == Operation::Read && one.io.call == Call::Data));
        for (actor, expected) in of_processes.iter().enumerate() {
            let own: Vec<_> = seen.iter().filter(|one| usize::from(one.io.actor) == actor).collect();
            assert_eq!(own.len(), *expected, "{app:?}, process {actor}");
            let file = actor as u64 * 20_000_768..actor as u64 * 20_000_768 + 20_000_000;
            assert!(own.iter().all(|one| {
                file.contains(&one.io.offset_bytes) && one.io.offset_bytes + u64::from(one.io.length_bytes) <= file.end
            }));
        }
    }
}

#[test]
fn t21_a_replay_goes_on_where_it_was_or_somewhere_else_as_often_as_the_trace() {
    for (app, random) in [(App::Xterm, 109), (App::GnomeTerminal, 404), (App::Lowriter, 343)] {
        let seen = start_up(app, |_, _| 100);
        let mut ends = [0_u64; 8].map(|_| None::<u64>);
        let mut jumps = 0;
        for Issued { io, .. } in seen {
            let begin_of_file = u64::from(io.actor) * 20_000_768;
            let end = ends[usize::from(io.actor)].replace(io.offset_bytes + u64::from(io.length_bytes));
            jumps += usize::from(io.offset_bytes != end.unwrap_or(begin_of_file));
        }
        // A sequential read at the end of the file wraps, which looks like a jump too; a random
        // read may hit the sequential position.
        assert!((random - 2..=random + 4).contains(&jumps), "{app:?}: {jumps} jumps");
    }
}

#[test]
fn t21_read_aheads_are_not_waited_for_but_before_anything_else() {
    // Uneven, so that read-aheads complete out of order and after the end of the turn.
    let seen = start_up(App::GnomeTerminal, |index, _| 1000 + (index as u64 * 7919) % 50_000);
    let mut awaited = 0;
    for (index, one) in seen.iter().enumerate().take(seen.len() - 1) {
        let next = seen[index + 1];
        if next.issued_ns < one.done_ns {
            // The process does not wait for it: a read-ahead, one page long.
            assert_eq!(one.io.length_bytes, 4096);
        } else {
            awaited += 1;
        }
        assert!(next.issued_ns >= one.issued_ns);
    }
    // The process waits for everything except read-aheads: 2781 - 1992, and for some read-aheads
    // that happen to be complete.
    assert!((788..1400).contains(&awaited), "{awaited}");
    for (index, one) in seen.iter().enumerate() {
        let is_blocking = seen.get(index + 1).is_none_or(|next| next.issued_ns >= one.done_ns);
        let own = |other: &&Issued| other.io.actor == one.io.actor && other.done_ns > one.issued_ns;
        let outstanding = seen[..index].iter().filter(own).count();
        assert!(!is_blocking || one.io.length_bytes == 4096 || outstanding == 0, "{index}: {one:?}");
    }
}

#[test]
fn t21_a_replay_takes_its_blocking_reads_one_after_the_other() {
    // With equal latencies, the total time counts the awaited requests: 164 reads, and the
    // read-aheads that they wait for.
    let seen = start_up(App::Xterm, |_, _| MILLISECOND);
    let total_ns = seen.last().expect("it issues").done_ns;
    let sweeps = 24; // 554 read-aheads in runs of 24 on average
    assert!((164..=164 + 3 * sweeps).contains(&(total_ns / MILLISECOND)), "{} ms", total_ns / MILLISECOND);
}

#[test]
fn t21_a_replay_may_be_repeated_and_aligned() {
    let job = named("startup:align=4096,loops=2").remove(0);
    let seen = run(&mut issuer(&job, job.wanted_area_bytes().expect("a size")), usize::MAX, |_, _| 10);
    assert_eq!(seen.len(), 2 * 718);
    assert!(seen.iter().all(|one| one.io.offset_bytes.is_multiple_of(4096)));
    let lengths = |half: &[Issued]| half.iter().map(|one| (one.io.actor, one.io.length_bytes)).collect::<Vec<_>>();
    assert_eq!(lengths(&seen[..718]), lengths(&seen[718..]));
    assert_ne!(seen[..718], seen[718..]);
    // The second loop starts when the first is complete.
    assert!(seen[..718].iter().all(|one| one.done_ns <= seen[718].issued_ns));
}

#[test]
fn t21_an_area_below_the_files_is_refused_with_its_figures() {
    let job = Job::of(Program::StartUp(StartUp { app: App::Lowriter, ..StartUp::USUAL }));
    let error = Issuer::new(&job, 0, 64 * MIB, 1).map(|_| ()).expect_err("four files do not fit");
    assert!(matches!(error, Unsuitable::ProgramTooLarge { needed_bytes: 80_003_072, .. }), "{error}");
    assert_eq!(named("startup:app=lowriter")[0].wanted_area_bytes(), Some(77 * MIB));
}

// ---- video

#[test]
fn t21_a_player_reads_a_frame_every_period_with_a_deadline() {
    let job = named("video").remove(0).with(|job| job.times.runtime_ns = Some(20 * SECOND));
    let seen = run(&mut issuer(&job, 1 << 30), usize::MAX, |_, _| 3 * MILLISECOND);
    assert_eq!(seen.len(), 500);
    for (index, one) in seen.iter().enumerate() {
        let due_ns = index as u64 * 40 * MILLISECOND;
        assert_eq!((one.issued_ns, one.io.deadline_ns), (due_ns, Some(due_ns + 40 * MILLISECOND)));
        assert_eq!((one.io.offset_bytes, one.io.length_bytes), (index as u64 * 65_536, 65_536));
    }
}

#[test]
fn t21_a_stall_drops_as_many_frames_as_it_lasts_and_the_player_catches_up() {
    let job = named("video").remove(0).with(|job| job.times.runtime_ns = Some(4 * SECOND));
    let stall = |index: usize, _: &Io| if index == 20 { 400 * MILLISECOND } else { MILLISECOND };
    let seen = run(&mut issuer(&job, 1 << 30), usize::MAX, stall);
    assert_eq!(seen.len(), 100);
    let late = |one: &&Issued| one.io.deadline_ns.is_some_and(|deadline_ns| one.done_ns > deadline_ns);
    let dropped: Vec<u64> = seen.iter().filter(late).map(|one| one.io.offset_bytes / 65_536).collect();
    // Frame 20 arrives at 1.2 s. Frame 29, which was due at 1.16 s, arrives 9 ms after frame 20 and
    // is late; frame 30 is not.
    assert_eq!(dropped, (20..=29).collect::<Vec<_>>());
    assert!(seen[40..].iter().enumerate().all(|(index, one)| one.issued_ns == (40 + index as u64) * 40 * MILLISECOND));
}

#[test]
fn t21_a_player_ends_with_its_file_unless_it_plays_on() {
    let job = named("video:frame=4k,period=1ms,size=64k").remove(0);
    let seen = run(&mut issuer(&job, MIB), usize::MAX, |_, _| 10);
    assert_eq!((seen.len(), seen[15].io.offset_bytes), (16, 61_440));
    let again = job.with(|job| {
        job.times.time_based = true;
        job.times.runtime_ns = Some(SECOND);
        job.times.start_delay_ns = (SECOND, SECOND);
    });
    let seen = run(&mut issuer(&again, MIB), usize::MAX, |_, _| 10);
    assert_eq!((seen.len(), seen[0].issued_ns, seen[16].io.offset_bytes), (1000, SECOND, 0));
    assert!(seen.windows(2).all(|pair| pair[1].issued_ns - pair[0].issued_ns == MILLISECOND));
}

// ---- all programs

#[test]
fn programs_replay_from_their_seed_and_differ_between_threads_where_chance_is_involved() {
    for program in ALL {
        let job = Job::of(program).with(|job| {
            job.threads = 2;
            job.area.placement = Placement::Shared;
        });
        let ios = |thread, seed| {
            let mut issuer = Issuer::new(&job, thread, 256 * MIB, seed).expect("it fits");
            run(&mut issuer, 400, |_, _| 10).iter().map(|one| one.io).collect::<Vec<_>>()
        };
        assert_eq!(ios(0, 1), ios(0, 1), "{program}");
        let has_chance = !matches!(program, Program::Video(_) | Program::Copy(_));
        assert_eq!((ios(0, 1) != ios(1, 1), ios(0, 1) != ios(0, 2)), (has_chance, has_chance), "{program}");
    }
}

#[test]
fn programs_stop_on_request_and_at_the_first_failure() {
    for program in ALL {
        for fails in [false, true] {
            let mut issuer = issuer(&Job::of(program), 256 * MIB);
            let Next::Issue(io) = issuer.next(0) else { panic!("{program} begins with an I/O") };
            if fails {
                issuer.completed(io.token, false);
            } else {
                issuer.stop();
                issuer.completed(io.token, true);
            }
            assert_eq!((issuer.next(1), issuer.in_flight()), (Next::Finished, 0), "{program}");
        }
    }
}

#[test]
fn programs_in_job_files_keep_what_still_counts_and_note_what_does_not() {
    let text = "[global]\nrw=randwrite\nbs=64k\n[c]\nprogram=dbench:files=8\nnumjobs=3\nruntime=5\ntime_based=1\nnice=19\n\
                [v]\nprogram=video:deadline=80ms\nstonewall\ndirect=1\nsize=8m\n[s]\nprogram=startup:app=lowriter\nloops=3\n";
    let parsed = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()).expect("a right file");
    let [client, player, replay] = &parsed.jobs[..] else { panic!("three jobs: {:?}", parsed.jobs) };
    let notes: Vec<_> = parsed.notes.iter().map(|note| note.message.as_str()).collect();
    assert!(notes.contains(&"option 'rw' has no effect on program=dbench"), "{notes:?}");
    assert_eq!(client.source.program, Some(Program::Dbench(Dbench { files: 8, ..Dbench::USUAL })));
    assert_eq!((client.threads, client.times.time_based, client.area.placement), (3, true, Placement::Own));
    assert_ne!(client.priorities.priority_bits, 0);
    assert_eq!(player.source.program, Some(Program::Video(Video { deadline_ns: 80 * MILLISECOND, ..Video::USUAL })));
    assert_eq!(
        (player.submission.direct, player.course.phase, player.area.size),
        (true, 1, Some(Amount::Bytes(8 * MIB)))
    );
    assert_eq!((replay.area.loops, replay.submission.direct, replay.effective_depth()), (3, true, 128));
    // The shown file parses to the same jobs.
    let again = fio::parse("shown.fio", fio::show(&parsed.jobs).as_bytes(), &Surroundings::none()).expect("it parses");
    assert_eq!(again.jobs, parsed.jobs);
    let json = serde_json::to_string(&parsed.jobs).expect("plain data");
    assert_eq!(serde_json::from_str::<Vec<Job>>(&json).expect("it is read back"), parsed.jobs);
}

#[test]
fn a_job_without_a_program_is_written_as_before() {
    let json = serde_json::to_string(&Job::default()).expect("plain data");
    assert!(!json.contains("program"), "stored fingerprints must not change: {json}");
}

#[test]
fn names_of_programs_are_refused_as_codes_are() {
    for (text, needed) in [
        ("dbnech", "did you mean 'dbench'?"),
        ("dbench:bs=4k", "option 'bs' has no effect on dbench"),
        ("dbench:file=9", "did you mean 'files'?"),
        ("startup:app=gnome", "xterm, gnome-terminal, lowriter"),
        ("video:period=0", "outside the allowed 1us to 1h"),
        ("drr:program=video", "a suffix cannot make a program"),
    ] {
        let message = name::parse(text).expect_err(text).to_string();
        assert!(message.contains(needed), "{text}: {message}");
    }
    assert!(name::parse("video").expect("a name").jobs.iter().all(|job| !job.submission.direct));
    assert!(named("video:direct=1")[0].submission.direct);
    let ends = |text| name::parse(text).expect("a name").ends;
    assert_eq!(
        ["drr", "dd", "bonnie", "startup", "dbench", "video"].map(ends),
        [false, true, true, true, false, false]
    );
}
