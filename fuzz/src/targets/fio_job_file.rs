//! Fuzzes fio job files with arbitrary bytes, and runs the I/O of the accepted ones.

use crate::target::{Seen, Target};
use hoistway_workload::fio::{Diagnostic, MAX_ERRORS, MAX_IN_FLIGHT, MAX_THREADS, Severity, Surroundings, parse, show};
use hoistway_workload::{Issuer, Job, Next};

pub const TARGET: Target = Target {
    name: "fio-job-file",
    promise: "no panic; errors are bounded and have places; jobs are shown as a file that parses to them; I/O stays inside",
    run,
    corpus,
    tokens: TOKENS,
    longest_bytes: 16 * 1_024,
};

const TOKENS: &[&[u8]] = &[
    b"[global]\n",
    b"[a]\n",
    b"=",
    b"\n",
    b":",
    b",",
    b"-",
    b"/",
    b"%",
    b"k",
    b"m",
    b"g",
    b"t",
    b"ki",
    b"0x",
    b"us",
    b"ms",
    b"s",
    b";",
    b"#",
    b";# hoistway: ",
    b"group=",
    b"weight=",
    b"include a\n",
    b"include b\n",
    b"${HOME}",
    b"${LOOP}",
    b"$pagesize",
    b"$mb_memory",
    b"$ncpus",
    b"*",
    b"(",
    b")",
    b"rw=",
    b"read",
    b"write",
    b"randread",
    b"randrw",
    b"trim",
    b"randtrimwrite",
    b"rewrite",
    b"program=",
    b"dbench:files=2",
    b"startup:app=",
    b"video:frame=4k",
    b"bs=",
    b"bsrange=",
    b"bssplit=",
    b"blockalign=",
    b"size=",
    b"io_size=",
    b"offset=",
    b"numjobs=",
    b"offset_increment=",
    b"iodepth=",
    b"iodepth_low=",
    b"iodepth_batch=",
    b"ioengine=",
    b"libaio",
    b"sync",
    b"direct=1",
    b"runtime=",
    b"time_based",
    b"ramp_time=",
    b"startdelay=",
    b"rate=",
    b"rate_iops=",
    b"rate_process=poisson",
    b"thinktime=",
    b"thinktime_blocks=",
    b"fsync=",
    b"fdatasync=",
    b"norandommap",
    b"random_distribution=",
    b"zipf:1.2",
    b"pareto:0.9",
    b"zoned_abs:",
    b"zoned:50/5:50/95",
    b"normal:50",
    b"percentage_random=",
    b"randseed=",
    b"stonewall",
    b"wait_for=",
    b"loops=",
    b"number_ios=",
    b"prio=",
    b"prioclass=",
    b"cgroup=",
    b"cgroup_weight=",
    b"filename=",
    b"directory=",
    b"rwmixread=",
    b"rwmixwrite=",
    b"nice=",
    b"exitall",
    b"group_reporting",
    b"description=",
    b"rate_min=",
    b"rate_iops_min=",
    b"rate_cycle=",
    b"max_latency=",
    b"latency_target=",
    b"latency_window=",
    b"latency_percentile=",
    b"latency_run=1",
    b"steadystate=iops_slope:0.3%",
    b"ss=bw:",
    b"ss_dur=",
    b"ss_ramp=",
    b"flow=",
    b"flow_id=",
    b"ignore_error=",
    b"EIO",
    b"cpus_allowed=0,2-3",
    b"cpumask=",
    b"write_lat_log",
    b"log_avg_msec=",
    b"write_iolog=",
    b"read_iolog=",
    b"replay_skip=",
];

/// Area sizes for the jobs, in bytes: one with room for a single block or none, and one with room
/// for many.
const AREAS: [u64; 2] = [64 << 10, 3 << 20];
/// Number of I/Os that are requested from a thread.
const DRAWS: u32 = 48;
/// Number of jobs of a file that are run; further ones differ only in their numbers.
const TRIED: usize = 3;
/// Jobs of a greater depth are parsed but not run: a slot per I/O would cost more than it is worth.
const DEEPEST: u32 = 4_096;

fn run(bytes: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(bytes);
    let surroundings = Surroundings {
        read_include: &include,
        variable: &|name| match name {
            "HOME" => Some("/tmp".into()),
            "LOOP" => Some("${LOOP}${LOOP}".into()),
            _ => None,
        },
        ..Surroundings::none()
    };
    match parse("jobs.fio", bytes, &surroundings) {
        Ok(parsed) => {
            check_places(&parsed.notes, Severity::Note);
            check_bounds(&parsed.jobs);
            check_shown(&parsed.jobs);
            let seen =
                parsed.notes.iter().take(3).fold(Seen::NOTHING, |seen, note| seen.and_message(&note.message, &text));
            parsed.jobs.iter().take(TRIED).fold(seen, |seen, job| try_job(job, seen))
        }
        Err(diagnostics) => {
            check_places(&diagnostics, Severity::Error);
            let errors = diagnostics.iter().filter(|it| it.severity == Severity::Error);
            assert!((1..=MAX_ERRORS).contains(&errors.clone().count()), "between one and {MAX_ERRORS} errors");
            errors.take(3).fold(Seen::NOTHING, |seen, error| seen.and_message(&error.message, &text))
        }
    }
}

/// `a` is valid, `b` includes itself, every other file is missing.
fn include(path: &str) -> Result<Vec<u8>, String> {
    match path {
        "a" => Ok(b"bs=8k\n".to_vec()),
        "b" => Ok(b"include b\ninclude b\n".to_vec()),
        _ => Err("no such file".into()),
    }
}

fn check_places(diagnostics: &[Diagnostic], first: Severity) {
    assert!(
        first != Severity::Error || diagnostics.first().is_some_and(|it| it.severity == first),
        "errors come first"
    );
    for diagnostic in diagnostics {
        assert!(diagnostic.place.line >= 1 && diagnostic.place.column >= 1, "{diagnostic:?}");
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
        assert!(diagnostic.to_string().len() < 256 * 1_024, "a message of unbounded length");
    }
}

fn check_bounds(jobs: &[Job]) {
    assert!(!jobs.is_empty(), "a file without a job is refused");
    let threads: u64 = jobs.iter().map(|job| u64::from(job.threads)).sum();
    let in_flight: u64 = jobs.iter().map(|job| u64::from(job.threads) * u64::from(job.effective_depth())).sum();
    assert!(
        threads <= u64::from(MAX_THREADS) && in_flight <= MAX_IN_FLIGHT,
        "{threads} threads, {in_flight} in flight"
    );
}

fn check_shown(jobs: &[Job]) {
    let shown = show(jobs);
    match parse("shown.fio", shown.as_bytes(), &Surroundings::none()) {
        Ok(again) => assert_eq!(again.jobs, jobs, "what is shown parses to the same jobs:\n{shown}"),
        Err(errors) => {
            panic!("what is shown is refused: {}\n{shown}", errors.first().map_or(String::new(), ToString::to_string))
        }
    }
}

/// Checks that every I/O is inside the area and completes with tokens in range.
fn try_job(job: &Job, mut seen: Seen) -> Seen {
    if job.effective_depth() > DEEPEST {
        return seen.and(b"deep");
    }
    for area_bytes in AREAS {
        for thread in [0, job.threads - 1] {
            let Ok(mut issuer) = Issuer::new(job, thread, area_bytes, 1) else {
                seen = seen.and(b"unsuitable");
                continue;
            };
            seen = draw(&mut issuer, area_bytes, seen);
        }
    }
    seen
}

fn draw(issuer: &mut Issuer, area_bytes: u64, mut seen: Seen) -> Seen {
    let mut now = 0;
    let mut in_flight = Vec::new();
    for _ in 0..DRAWS {
        match issuer.next(now) {
            Next::Issue(io) => {
                let end = io.offset_bytes.checked_add(u64::from(io.length_bytes));
                assert!(end.is_some_and(|end| end <= area_bytes), "{io:?} in an area of {area_bytes} bytes");
                assert!(io.token < issuer.depth() && !in_flight.contains(&io.token), "token of {io:?}");
                in_flight.push(io.token);
                seen = seen.and(&[io.operation as u8, u8::from(io.length_bytes == 0)]);
            }
            Next::NotBefore(at) => {
                assert!(at > now, "not before {at}, asked at {now}");
                now = at;
                seen = seen.and(b"later");
            }
            Next::Busy => {
                assert!(!in_flight.is_empty(), "busy with nothing in flight");
                // Some I/Os complete late or with an error, so that latency goals are missed.
                now += 1_000_000;
                let token = in_flight.remove(0);
                issuer.ended(token, (now % 7_000_000 == 0).then_some(5), now);
            }
            Next::Finished => break,
        }
    }
    seen
}

fn corpus() -> Vec<Vec<u8>> {
    [
        "[global]\nioengine=libaio\ndirect=1\nbs=4k\nsize=1m\n[a]\nrw=randread\niodepth=32\n[b]\nrw=write\nstonewall\n",
        "[db]\nrw=randrw\nrwmixread=70\nbssplit=4k/60:8k/40\nrandom_distribution=zipf:1.2\nnumjobs=2\nruntime=10s\ntime_based\n",
        "[log]\nrw=write\nbs=16k\nfsync=1\nthinktime=2ms\nthinktime_blocks=4\nrate_iops=200,100\nsize=50%\n",
        "[x]\nrw=read:4k\noffset=$pagesize*4\nsize=${HOME}\nfilename=a\\:b\ninclude a\n;# hoistway: weight=300\n",
        "[t]\nrw=randtrim\nbsrange=512-64k\nblockalign=512\nnorandommap\niodepth=8\niodepth_low=2\nloops=3\nnumber_ios=40\n",
        "[v]\nprogram=video:frame=4k\n[d]\nprogram=dbench:files=3,flush=2\nloops=2\n[w]\nrw=rewrite\nioengine=libaio\ndirect=1\niodepth=4\n",
        "[z]\nrw=randread:3\nrandom_distribution=zoned:50/5:50/95\npercentage_random=50\nrandseed=7\nstartdelay=1-2\n",
        "[m]\nrate_min=1m,64k\nrate_iops_min=5\nrate_cycle=250\nmax_latency=20ms\nignore_error=EIO:110,ENOSPC\niodepth=8\nioengine=io_uring\n",
        "[s]\nlatency_target=2ms\nlatency_window=5s\nlatency_percentile=99.95\nioengine=libaio\ndirect=1\niodepth=16\nrw=randread\n",
        "[y]\nsteadystate=bw_slope:0.5%\nss_dur=10\nss_ramp=1\nruntime=60\ntime_based\n[f]\nflow=3\nflow_id=1\nflow_sleep=100\n",
        "[l]\nwrite_bw_log=p\nwrite_lat_log\nwrite_hist_log=h\nlog_hist_msec=100\nlog_avg_msec=50\nlog_offset=1\nper_job_logs=0\ncpus_allowed=0,2-3\n",
        "[r]\nread_iolog=t.log\nreplay_no_stall=1\nreplay_time_scale=50\nreplay_scale=2\nreplay_align=4k\nreplay_skip=write,trim\nwrite_iolog=o\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
