//! Threads that follow a pattern: depth, rates, pauses, sizes, passes and syncs.

use super::*;
use crate::Issuer;
use crate::job::{Engine, Pattern, PerDirection, Placement, PrioritySplit, Think};
use hoistway_block::Priority;
use hoistway_block::time::{MILLISECOND, SECOND};

const AREA: u64 = 1 << 20;

fn issuer(job: &Job) -> Issuer {
    Issuer::new(job, 0, AREA, 1).expect("the area is large enough")
}

/// Runs with every I/O completing after `latency_ns`, in order; returns (time, io) of all issued.
fn run(issuer: &mut Issuer, latency_ns: Nanos, limit: usize) -> Vec<(Nanos, Io)> {
    let (mut now, mut issued, mut in_flight) = (0, Vec::new(), std::collections::VecDeque::new());
    while issued.len() < limit {
        let first: Option<(Nanos, u32)> = in_flight.front().copied();
        let wake = match (issuer.next(now), first) {
            (Next::Issue(io), _) => {
                issued.push((now, io));
                in_flight.push_back((now + latency_ns, io.token));
                continue;
            }
            (Next::NotBefore(at), Some((done, _))) => at.min(done),
            (Next::NotBefore(at), None) => at,
            (Next::Busy | Next::Finished, Some((done, _))) => done,
            (Next::Busy, None) => panic!("busy with nothing in flight"),
            (Next::Finished, None) => break,
        };
        assert!(wake > now || latency_ns == 0, "time stands still at {now}");
        now = wake;
        while let Some((_, token)) = in_flight.pop_front_if(|(done, _)| *done <= now) {
            issuer.completed(token, true);
        }
    }
    issued
}

#[test]
fn a_closed_loop_keeps_its_depth_and_transfers_its_size() {
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 4;
    });
    let issued = run(&mut issuer(&job), 100, usize::MAX);
    assert_eq!(issued.len(), 256);
    let times: Vec<_> = issued.iter().take(8).map(|(now, _)| *now).collect();
    assert_eq!(times, [0, 0, 0, 0, 100, 100, 100, 100]);
}

#[test]
fn a_synchronous_engine_has_one_io_in_flight_at_any_iodepth() {
    let issued = run(&mut issuer(&Job::default().with(|job| job.submission.iodepth = 8)), 100, 3);
    assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 100, 200]);
}

#[test]
fn a_low_mark_lets_the_depth_run_down_before_it_refills() {
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 4;
        job.submission.iodepth_low = Some(1);
    });
    let mut issuer = issuer(&job);
    for _ in 0..4 {
        assert!(matches!(issuer.next(0), Next::Issue(_)));
    }
    assert_eq!(issuer.next(0), Next::Busy);
    for token in 0..2 {
        issuer.completed(token, true);
        assert_eq!(issuer.next(0), Next::Busy);
    }
    issuer.completed(2, true);
    assert!(matches!(issuer.next(0), Next::Issue(_)));
}

#[test]
fn a_rate_spaces_the_ios_evenly_without_drift() {
    let rate = PerDirection { read: 3_u32, ..PerDirection::all(0) };
    let issued = run(&mut issuer(&Job::default().with(|job| job.pacing.rate_ios_per_s = rate)), 100, 7);
    // The third I/O after the first is due exactly one second later, although a third of a second
    // is not an integer of ns.
    assert_eq!(issued[3].0, SECOND);
    assert_eq!(issued[6].0, 2 * SECOND);
}

#[test]
fn a_thread_behind_its_rate_catches_up_one_second_at_most() {
    let rate = PerDirection { read: 10_u32, ..PerDirection::all(0) };
    let mut issuer = issuer(&Job::default().with(|job| {
        job.pacing.rate_ios_per_s = rate;
        job.submission.engine = Engine::Null;
        job.submission.iodepth = 64;
    }));
    assert!(matches!(issuer.next(0), Next::Issue(_)));
    let late = 60 * SECOND;
    let burst = (0..60).take_while(|_| matches!(issuer.next(late), Next::Issue(_))).count();
    // After the first late I/O, the schedule starts again one second ago. The ten I/Os that are due
    // from 59.0 to 59.9 s follow, then the one that is due now.
    assert_eq!(burst, 12);
}

#[test]
fn a_pause_begins_when_everything_issued_has_completed() {
    let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: true, io_time_ns: 0 };
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 8;
        job.pacing.think = think;
    });
    let issued = run(&mut issuer(&job), 100, 4);
    assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 0, MILLISECOND + 100, MILLISECOND + 100]);
}

#[test]
fn a_pause_that_counts_completions_lets_the_depth_fill_first() {
    let think = Think { time_ns: MILLISECOND, blocks: 2, counts_issued: false, io_time_ns: 0 };
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 3;
        job.pacing.think = think;
    });
    let issued = run(&mut issuer(&job), 100, 6);
    // Three are issued at once; the second completion starts the pause, and the third I/O has to
    // complete first.
    let again = MILLISECOND + 100;
    assert_eq!(issued.iter().map(|(now, _)| *now).collect::<Vec<_>>(), [0, 0, 0, again, again, again]);
}

#[test]
fn a_pause_after_a_time_of_io_does_not_count() {
    let think = Think { time_ns: MILLISECOND, blocks: 0, counts_issued: false, io_time_ns: 250 };
    let issued = run(&mut issuer(&Job::default().with(|job| job.pacing.think = think)), 100, 8);
    // Four I/Os (at 0, 100, 200 and 300 ns) until 250 ns have passed, then a pause that begins at
    // 400 ns.
    let times: Vec<_> = issued.iter().map(|(now, _)| *now).collect();
    let again = MILLISECOND + 400;
    assert_eq!(times, [0, 100, 200, 300, again, again + 100, again + 200, again + 300]);
}

#[test]
fn a_share_of_one_size_has_another_priority() {
    let split = PrioritySplit { bytes: 4096, percent: 40, priority_bits: 1 << 13 };
    let entry = |bytes| crate::job::SplitEntry { bytes, weight: 5_000 };
    let job = Job::default().with(|job| {
        job.priorities.priority_splits = PerDirection { read: vec![split], ..PerDirection::default() };
        job.shape.block_sizes = PerDirection::all(crate::job::BlockSize::Split(vec![entry(4096), entry(8192)]));
        job.shape.pattern = crate::job::Pattern::Random { run: 1, repeat_offset: false }; // With a random map, some of the longer ones would be trimmed to the shorter size.
        job.shape.random_map = false;
        job.area.number_ios = Some(20_000);
        job.times.time_based = true;
        job.times.runtime_ns = Some(SECOND);
    });
    let issued = run(&mut issuer(&job), 1, usize::MAX);
    let count = |bytes: u32, bits: u16| {
        issued.iter().filter(|(_, io)| io.length_bytes == bytes && io.priority == Priority(bits)).count()
    };
    assert_eq!((issued.len(), count(8192, 1 << 13)), (20_000, 0));
    // 40 % of the half that has this size; four standard deviations are 226.
    assert!(count(4096, 1 << 13).abs_diff(4_000) < 300, "{}", count(4096, 1 << 13));
}

#[test]
fn each_direction_of_a_mix_keeps_its_own_rate() {
    let rate = PerDirection { read: 900_u32, write: 100, trim: 0 };
    let mix = Mix::ReadWrite { read_percent: 50 };
    let job = Job::default().with(|job| {
        job.shape.mix = mix;
        job.pacing.rate_ios_per_s = rate;
        job.times.runtime_ns = Some(SECOND);
        job.times.time_based = true;
    });
    let issued = run(&mut issuer(&job), 1000, usize::MAX);
    let reads = issued.iter().filter(|(_, io)| io.operation == Operation::Read).count();
    assert_eq!((reads, issued.len() - reads), (900, 100));
}

#[test]
fn a_direction_without_a_rate_does_not_wait_for_the_other() {
    // fio 3.33, rw=randrw, rwmixread=70, rate=,1m: 61 MB/s of reads, 1 MB/s of writes.
    let rate = PerDirection { read: 0_u32, write: 100, trim: 0 };
    let issued = |read_percent| {
        let mix = Mix::ReadWrite { read_percent };
        let job = Job::default().with(|job| {
            job.shape.mix = mix;
            job.pacing.rate_ios_per_s = rate;
            job.times.runtime_ns = Some(SECOND);
            job.times.time_based = true;
        });
        let issued = run(&mut issuer(&job), 100_000, 5_000);
        let writes = issued.iter().filter(|(_, io)| io.operation == Operation::Write).count();
        (issued.len() - writes, writes)
    };
    let (reads, writes) = issued(70);
    assert!(reads > 4_000 && (40..=101).contains(&writes), "{reads} reads, {writes} writes");
    // A job of writes alone has nothing to switch to.
    assert_eq!(issued(0).0, 0);
}

#[test]
fn poisson_arrivals_have_the_rate_and_irregular_gaps() {
    let rate = PerDirection { read: 1000_u32, ..PerDirection::all(0) };
    let job = Job::default().with(|job| {
        job.pacing.rate_ios_per_s = rate;
        job.pacing.rate_process = crate::job::RateProcess::Poisson;
        job.times.runtime_ns = Some(60 * SECOND);
        job.times.time_based = true;
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 64;
    });
    let issued = run(&mut issuer(&job), 1000, usize::MAX);
    // 60,000 expected; four standard deviations of a Poisson count are 980.
    assert!(issued.len().abs_diff(60_000) < 980, "{}", issued.len());
    let long = issued.windows(2).filter(|pair| pair[1].0 - pair[0].0 > 2 * MILLISECOND).count();
    // e^-2 = 13.5 % of the gaps are longer than two means.
    assert!(long.abs_diff(8120) < 400, "{long}");
}

#[test]
fn a_seed_means_the_same_offsets_for_ever_and_others_for_each_thread() {
    let pattern = crate::job::Pattern::Random { run: 1, repeat_offset: false };
    let job = Job::default().with(|job| {
        job.group = "db".into();
        job.shape.pattern = pattern;
        job.shape.random_map = false;
    });
    let offsets = |thread| -> Vec<u64> {
        let mut issuer = Issuer::new(&job, thread, 1 << 30, 42).expect("fits");
        run(&mut issuer, 1, 3).iter().map(|(_, io)| io.offset_bytes / 4096).collect()
    };
    // Computed independently of this code: xoshiro256** of splitmix64, seeded by 42 ^
    // FNV-1a("proc/db/0"). If this changes, stored seeds no longer replay.
    assert_eq!(offsets(0), PINNED);
    assert_ne!(offsets(1), PINNED);
}

const PINNED: [u64; 3] = [19_868, 28_419, 126_967];

#[test]
fn writes_are_followed_by_their_syncs_and_the_final_one() {
    let job = Job::default().with(|job| {
        job.shape.mix = Mix::Write;
        job.submission.fsync_every = 2;
        job.submission.end_fsync = true;
        job.area.number_ios = Some(5);
    });
    let issued = run(&mut issuer(&job), 100, usize::MAX);
    let text: String = issued.iter().map(|(_, io)| if io.operation == Operation::Flush { 'F' } else { 'W' }).collect();
    assert_eq!(text, "WWFWWFWF");
}

#[test]
fn a_time_based_job_starts_over_until_its_runtime_is_done() {
    let runtime_ns = Some(SECOND);
    let job = Job::default().with(|job| {
        job.times.runtime_ns = runtime_ns;
        job.times.time_based = true;
        job.times.ramp_ns = SECOND;
    });
    let issued = run(&mut issuer(&job), MILLISECOND, usize::MAX);
    assert_eq!(issued.len(), 2000);
    assert_eq!(issued[256].1.offset_bytes, 0);
}

#[test]
fn threads_of_a_split_area_never_meet() {
    let job = Job::default().with(|job| {
        job.threads = 3;
        job.area.placement = Placement::Split;
    });
    for thread in 0..3 {
        let mut issuer = Issuer::new(&job, thread, 10 << 20, 1).expect("fits");
        let issued = run(&mut issuer, 1, usize::MAX);
        let part = u64::from(thread) * (3 << 20)..u64::from(thread + 1) * (3 << 20);
        let large =
            job.clone().with(|job| job.shape.block_sizes = PerDirection::all(crate::job::BlockSize::Fixed(12 << 10)));
        let mut issuer = Issuer::new(&large, thread, 10 << 20, 1).expect("fits");
        let inside = |io: &Io| part.contains(&io.offset_bytes) && io.offset_bytes + (12 << 10) <= part.end;
        assert!(run(&mut issuer, 1, usize::MAX).iter().all(|(_, io)| inside(io)), "thread {thread}");
        assert!(issued.iter().all(|(_, io)| part.contains(&io.offset_bytes)), "thread {thread}");
        assert_eq!(issued.len(), 768);
    }
}

#[test]
fn a_discard_is_followed_by_the_write_of_its_block() {
    let job = Job::default().with(|job| {
        job.shape.mix = Mix::TrimWrite;
        job.shape.pattern = crate::job::Pattern::Random { run: 1, repeat_offset: false };
        job.area.number_ios = Some(8);
    });
    let issued = run(&mut issuer(&job), 100, usize::MAX);
    for pair in issued.chunks(2) {
        assert_eq!((pair[0].1.operation, pair[1].1.operation), (Operation::Discard, Operation::Write));
        assert_eq!(pair[0].1.offset_bytes, pair[1].1.offset_bytes);
    }
}

#[test]
fn a_failure_ends_the_thread_unless_the_job_continues_on_errors() {
    for (continues, expected) in [(false, true), (true, false)] {
        let job = Job::default().with(|job| job.checks.continue_on_error = PerDirection::all(continues));
        let mut issuer = issuer(&job);
        let Next::Issue(io) = issuer.next(0) else { panic!("an I/O is due") };
        issuer.completed(io.token, false);
        assert_eq!(issuer.next(0) == Next::Finished, expected);
    }
}

#[test]
fn an_area_below_one_block_is_refused_with_its_figures() {
    let error = Issuer::new(&Job::default().with(|job| job.name = "db".into()), 0, 4095, 1).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("4095 bytes"), "{error}");
}

#[test]
fn what_begins_in_the_part_may_end_behind_it_in_the_file() {
    let dense = Job::default().with(|job| {
        job.area.size = Some(crate::job::Amount::Bytes(168 << 10));
        job.shape.block_sizes = PerDirection::all(crate::job::BlockSize::Fixed(16 << 10));
    });
    let random = dense.clone().with(|job| job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false });
    let stride = dense.clone().with(|job| job.shape.pattern = Pattern::Sequential { skip_bytes: 16 << 10 });
    let counted = |job: &Job| run(&mut issuer(job), 1, usize::MAX).len();
    // The figures are those of fio 3.33 on a file of 2 MiB.
    assert_eq!(counted(&dense), 11);
    assert_eq!(counted(&dense.clone().with(|job| job.area.loops = 3)), 32);
    assert_eq!(counted(&dense.with(|job| job.area.io_size = Some(crate::job::Amount::Bytes(400 << 10)))), 25);
    assert_eq!(counted(&random), 10);
    assert_eq!(counted(&random.with(|job| job.shape.random_map = false)), 11);
    assert_eq!(counted(&stride), 6);
}

#[test]
fn who_is_ahead_of_its_flow_sleeps_when_everything_has_completed() {
    let flow = goal::Flow { id: 0, weight: 1, sleep_ns: MILLISECOND };
    let goals = goal::Goals { flow: Some(flow), ..goal::Goals::default() };
    let job = Job::default().with(|job| {
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 4;
        job.goals = goals;
    });
    let mut flows = Flows::default();
    let (mut ahead, mut idle) = (issuer(&job), issuer(&job));
    ahead.join(&mut flows);
    idle.join(&mut flows);
    let Next::Issue(io) = ahead.next(0) else { panic!("an I/O is due") };
    // Every thread of a flow starts with a count of one, so `ahead` now has two of three I/Os,
    // which is more than its half.
    assert_eq!(ahead.next(0), Next::Busy);
    ahead.completed(io.token, true);
    assert_eq!(ahead.next(5 * MILLISECOND), Next::NotBefore(6 * MILLISECOND));
    idle.stop();
    assert!(matches!(ahead.next(6 * MILLISECOND), Next::Issue(_)));
}
