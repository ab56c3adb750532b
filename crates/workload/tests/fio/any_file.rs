//! Properties of job files that proptest makes of valid settings, arbitrary values and any bytes.

use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::{Issuer, Next};
use proptest::prelude::*;

use super::{all, parsed};

/// Valid settings of every honoured option.
const RIGHT: &[&str] = &[
    "description=a b",
    "name=other",
    "name=x]y",
    "filename=/dev/sda",
    "filename=a\\:b",
    "directory=/mnt",
    "filesize=1g",
    "rw=read",
    "rw=write:4k",
    "rw=read:-8k",
    "rw=randread",
    "rw=randread:8",
    "rw=rw",
    "rw=randrw",
    "rw=trim",
    "rw=randtrimwrite",
    "rw=trimwrite",
    "rw_sequencer=identical",
    "bs=8k",
    "bs=4k,16k",
    "bs=,16k",
    "bs=4k,,8k",
    "bsrange=4k-64k",
    "bsrange=,4k-64k",
    "bsrange=8k-8k,1k-2k",
    "bssplit=4k/50:8k/",
    "bssplit=4k/:8k/:16k/",
    "bssplit=,4k/90:8k/90",
    "bssplit=4k,8k/20:1k/",
    "bs_unaligned",
    "bs_is_seq_rand=1",
    "ba=1k",
    "ba=,512",
    "size=50%",
    "size=8m",
    "size=0",
    "io_size=64m",
    "io_size=10%",
    "offset=1m",
    "offset=20%",
    "offset_increment=1m",
    "offset_increment=12%",
    "number_ios=50",
    "loops=3",
    "rwmixread=70",
    "rwmixwrite=30",
    "norandommap",
    "percentage_random=50,20",
    "random_distribution=zipf:1.2",
    "random_distribution=pareto:0.3",
    "random_distribution=normal:10.25",
    "randseed=9",
    "ioengine=libaio",
    "ioengine=io_uring",
    "ioengine=null",
    "ioengine=sync",
    "iodepth=8",
    "iodepth_low=3",
    "iodepth_batch_complete_min=4",
    "direct=1",
    "buffered=1",
    "sync=dsync",
    "sync=1",
    "fsync=4",
    "fdatasync=3",
    "end_fsync=1",
    "invalidate=0",
    "numjobs=4",
    "group_reporting",
    "new_group",
    "stonewall",
    "startdelay=5",
    "startdelay=1-2500ms",
    "startdelay=1-3",
    "exitall",
    "runtime=30",
    "time_based",
    "ramp_time=5",
    "rate=1m,2m",
    "rate=,64k",
    "rate_iops=100",
    "rate_iops=,,5",
    "rate_process=poisson",
    "rate_ignore_thinktime=1",
    "thinktime=500",
    "thinktime_blocks=4",
    "thinktime_blocks_type=issue",
    "prio=3",
    "prioclass=3",
    "nice=-5",
    "cmdprio_percentage=10,20",
    "cmdprio=2",
    "cmdprio_class=2",
    "cgroup=db",
    "cgroup_weight=500",
    ";# hoistway: rbps=10m",
    ";# hoistway: weight=500",
    ";# hoistway: priority=0",
    ";# hoistway: sched=bfq:slice_idle=0",
    "continue_on_error=read",
    "kb_base=1000",
    "wait_for=x",
    "[a]",
    "[ b c ]",
    "[global]",
    "mem=malloc",
    "flow_sleep=1000",
    "verify=0",
    "nrfiles=3",
    "filename=a:b\\:c:d",
    "file_service_type=random:4",
    "file_service_type=sequential",
    "filename_format=$jobname.$filenum.x:y",
    "offset_align=64k",
    "offset=12%",
    "fill_device=1",
    "zonemode=strided\nzonesize=2m\nzoneskip=1m",
    "zonesize=2m\nzonerange=4m\nzoneskip=512k",
    "random_distribution=zoned:50/10:/30:20/",
    "random_distribution=zoned_abs:50/10m:50/1g,100/5m",
    "random_distribution=zipf:1.2:0.25",
    "random_distribution=normal:10,0.75",
    "cmdprio_bssplit=4k/30:8k/10/1/0",
    "cmdprio_bssplit=4k/30/1/2/9",
    "cmdprio_percentage=20\ncmdprio_hint=3",
    "priohint=5",
    "verify=crc32c",
    "verify=sha3-512\nverify_interval=2k\nverify_offset=200",
    "verify=pattern\nverify_pattern=0xaa%o\"x\"",
    "verify=meta\ndo_verify=0\nverify_only\nverify_write_sequence=0",
    "verify=md5\nverify_backlog=16\nverify_backlog_batch=4\nverify_fatal=1\ncontinue_on_error=all",
    "ioengine=mmap",
    "ioengine=io_uring_cmd\ncmd_type=nvme",
    "thinktime_iotime=1s",
    "exit_what=all",
    "rate_min=1m,64k",
    "rate_iops_min=5",
    "rate_cycle=250",
    "max_latency=20ms",
    "latency_target=2ms\nlatency_window=5s\nlatency_percentile=99.95",
    "latency_target=500\nlatency_window=1s\nlatency_run=1",
    "steadystate=iops:0.3%\nss_dur=30s\nss_ramp=2s",
    "ss=bw_slope:10m\nss_dur=10\nsteadystate_check_interval=500ms",
    "ss=lat:250\nss_dur=10",
    "flow=3\nflow_id=2\nflow_sleep=1000",
    "ignore_error=EIO:110,ENOSPC",
    "ignore_error=,5",
    "cpus_allowed=0,2-3",
    "cpumask=5\ncpus_allowed_policy=split",
    "write_bw_log",
    "write_lat_log=p\nlog_avg_msec=500\nlog_max_value=1",
    "write_iops_log=a/b\nlog_offset=1\nlog_prio=1\nper_job_logs=0",
    "write_hist_log=h\nlog_hist_msec=1000\nlog_hist_coarseness=3",
    "write_iolog=all.log",
    "read_iolog=t.log\nreplay_no_stall=1\nreplay_scale=2\nreplay_align=4k\nreplay_skip=write,flush",
    "read_iolog=t.log\nreplay_time_scale=50",
    "replay_no_stall=0",
];

/// Files of random valid settings. Some settings contradict each other, so not every file is accepted.
fn mostly_right() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(RIGHT), 0..16)
        .prop_map(|lines| format!("[global]\nruntime=9\n[x]\n{}", lines.join("\n")))
}

/// Files of option names with arbitrary values, most of them invalid.
fn mostly_wrong() -> impl Strategy<Value = String> {
    let names: Vec<_> = fio::options().map(|(name, _, _)| name).collect();
    let line = prop_oneof![
        (proptest::sample::select(names), "[a-z0-9:/,.%$*-]{0,12}").prop_map(|(name, value)| format!("{name}={value}")),
        proptest::sample::select(RIGHT).prop_map(str::to_owned),
        "\\PC{0,30}",
    ];
    proptest::collection::vec(line, 0..8).prop_map(|lines| format!("[x]\n{}", lines.join("\n")))
}

#[test]
fn every_setting_of_the_property_tests_is_accepted_alone() {
    for line in RIGHT {
        parsed(&format!("[x]\n[y]\nruntime=1\n{line}\n[z]\n"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = fio::parse("t.fio", &bytes, &Surroundings::none());
    }

    #[test]
    fn a_parsed_file_is_shown_as_a_file_that_parses_to_the_same(text in prop_oneof![3 => mostly_right(), 1 => mostly_wrong()]) {
        if let Ok(parsed) = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()) {
            let shown = fio::show(&parsed.jobs);
            let again = fio::parse("shown.fio", shown.as_bytes(), &Surroundings::none());
            let again = again.map_err(|errors| TestCaseError::fail(format!("{shown}\n{}", all(&errors))))?;
            prop_assert_eq!(again.jobs, parsed.jobs, "{}", shown);
        }
    }

    #[test]
    fn every_io_of_a_parsed_file_is_in_its_area(text in mostly_right(), area_kib in 1_u64..100_000, seed: u64) {
        if let Ok(parsed) = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()) {
            for job in &parsed.jobs {
                let area_bytes = area_kib << 10;
                let Ok(mut issuer) = Issuer::new(job, job.threads - 1, area_bytes, seed) else { continue };
                let mut now = 0;
                for _ in 0..200 {
                    match issuer.next(now) {
                        Next::Issue(io) => {
                            prop_assert!(io.offset_bytes + u64::from(io.length_bytes) <= area_bytes, "{:?} {:?}", io, job);
                            issuer.completed(io.token, true);
                        }
                        Next::NotBefore(at) => { prop_assert!(at > now); now = at; }
                        Next::Busy => prop_assert!(false, "busy with nothing in flight"),
                        Next::Finished => break,
                    }
                }
            }
        }
    }
}
