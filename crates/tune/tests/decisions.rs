//! Acceptance cases about decisions of docs/specifications/harness.md, section 13: advice from
//! findings written by hand.

use hoistway_experiment::SchedulerSpec;
use hoistway_experiment::statistics::Estimate;
use hoistway_tune::{
    Advice, Among, Attachment, CandidateFindings, Class, Confidence, DepthStep, Device, Findings, Goal, HostKind,
    Idling, Noisy, Shares, StreamStep, Verdict, classify, recommend,
};

fn device(hw_queues: u32, is_rotational: bool) -> Device {
    Device {
        name: "/dev/sdx".into(),
        model: "TEST".into(),
        host: HostKind::Native,
        attachment: Attachment::Direct,
        size_bytes: 1 << 40,
        is_rotational,
        is_zoned: false,
        hw_queues,
        queue_depth: 32,
        nr_requests: Some(64),
        schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec(),
        current: Device::kernel_default(hw_queues),
        current_is_real: true,
        wbt_lat_us: Some(75_000),
        has_groups: true,
        may_write: false,
        below: Vec::new(),
    }
}

/// A figure of three repetitions with this relative half width.
fn about(mean: f64, relative: f64) -> Estimate {
    Estimate { mean, sd: mean * relative / 2.5, ci95: Some(mean * relative), n: 3 }
}

fn exact(mean: f64) -> Estimate {
    about(mean, 0.0)
}

/// Streams of 1, 2, 4 and 8 readers in MB/s; the median of a random read in ms and the gain by
/// depth.
fn found(streams: [f64; 4], p50_ms: f64, parallelism: f64) -> Findings {
    let step =
        |(count, rate): (u32, f64)| StreamStep { count, bytes_per_s: exact(rate * 1e6), each_bytes_per_s: vec![] };
    let depth =
        |depth: u32, rate: f64| DepthStep { depth, ios_per_s: exact(rate), p50_ns: p50_ms * 1e6, p99_ns: p50_ms * 2e6 };
    let one = 1e3 / p50_ms;
    Findings {
        streams: [1, 2, 4, 8].into_iter().zip(streams).map(step).collect(),
        depths: vec![depth(1, one), depth(32, one * parallelism)],
        ..Findings::default()
    }
}

/// A reader's p99 in ms beside others that transfer these MB/s.
fn among(p99_ms: f64, mb_per_s: f64) -> Option<Among> {
    Some(Among {
        p99_ns: exact(p99_ms * 1e6),
        others_bytes_per_s: exact(mb_per_s * 1e6),
        reader_ios_per_s: None,
        reads: None,
    })
}

/// Findings of a candidate: 8 streams in MB/s, random reads per second, a reader's p99 among others
/// in ms, and shares as x in 1:x.
fn did(spec: &str, streams: f64, random: f64, p99_ms: f64, ratio: Option<f64>) -> CandidateFindings {
    let error = |ratio: f64| ((1.0 / (1.0 + ratio)) / (1.0 / 9.0) - 1.0).abs();
    CandidateFindings {
        spec: spec.to_owned(),
        streams: vec![StreamStep { count: 8, bytes_per_s: about(streams * 1e6, 0.02), each_bytes_per_s: vec![] }],
        depths: vec![DepthStep { depth: 32, ios_per_s: exact(random), p50_ns: 1e6, p99_ns: 2e6 }],
        among_readers: among(p99_ms, 1.0),
        shares: ratio.map(|ratio| Shares {
            ratio: exact(ratio),
            error: exact(error(ratio)),
            has_mechanism: true,
            ios_per_s: exact(random),
            requests: None,
        }),
        ..CandidateFindings::default()
    }
}

fn only_streams(spec: &str, mb_per_s: f64) -> CandidateFindings {
    let streams = vec![StreamStep { count: 8, bytes_per_s: exact(mb_per_s * 1e6), each_bytes_per_s: vec![] }];
    CandidateFindings { spec: spec.to_owned(), streams, ..CandidateFindings::default() }
}

/// The disk of docs/specifications/harness.md, section 12.3.
fn disk() -> Findings {
    let mut findings = found([107.0, 14.0, 13.0, 10.2], 8.1, 2.1);
    findings.candidates = vec![
        did("bfq:low_latency=0", 61.2, 101.0, 131.0, Some(7.8)),
        did("bfq", 11.8, 94.0, 118.0, Some(6.9)),
        did("mq-deadline", 11.4, 97.0, 365.0, None),
        only_streams("none", 10.2),
        only_streams("bfq:low_latency=0,slice_idle=0", 12.6),
    ];
    findings
}

/// The 12-disk stripe of docs/specifications/harness.md, section 12.3.
fn array() -> Findings {
    let mut findings = found([53.0, 60.0, 64.0, 66.0], 6.0, 8.0);
    findings.candidates = vec![
        did("mq-deadline", 37.9, 565.0, 40.0, None),
        did("none", 37.4, 539.0, 45.0, None),
        did("bfq:low_latency=0,slice_idle=0", 36.3, 571.0, 60.0, Some(1.6)),
        only_streams("bfq:low_latency=0", 8.8),
    ];
    findings
}

fn advice(device: &Device, findings: &Findings, goal: Goal) -> Advice {
    recommend(device, findings, goal, &[]).kernel
}

fn text(advice: &Advice) -> String {
    advice.spec.to_string()
}

#[test]
fn t40_the_published_rows_are_classified_and_their_ratios_printed() {
    let rows = [
        ([63.3, 18.7, 21.6, 29.6], 8.0, true, Class::SeekBound, "delta 0.295, gamma 0.468"),
        ([62.5, 86.5, 98.7, 112.5], 6.0, true, Class::Array, "delta 1.384, gamma 1.800"),
        ([243.0, 231.0, 270.6, 262.9], 0.1, false, Class::FlashSq, "delta 0.951, gamma 1.114"),
    ];
    for (streams, p50_ms, rotational, class, ratios) in rows {
        let classified = classify(&device(1, rotational), &found(streams, p50_ms, 2.0));
        assert_eq!(classified.class, class, "{streams:?}");
        assert!(classified.why.starts_with(ratios), "{}", classified.why);
    }
}

/// The three conclusions of the mailing-list thread "IOPS mode and group_idle": keep idling for
/// each queue; idle for groups and not for queues; idling has no effect.
#[test]
fn t40_the_published_rows_give_the_threads_conclusions() {
    let conclusion = |streams, p50_ms, rotational| {
        let advice = recommend(&device(1, rotational), &found(streams, p50_ms, 2.0), Goal::Balanced, &[]);
        advice.idling.map(|(idling, _)| idling)
    };
    assert_eq!(conclusion([63.3, 18.7, 21.6, 29.6], 8.0, true), Some(Idling::PerQueue));
    assert_eq!(conclusion([62.5, 86.5, 98.7, 112.5], 6.0, true), Some(Idling::PerGroup));
    assert_eq!(conclusion([243.0, 231.0, 270.6, 262.9], 0.1, false), Some(Idling::Pointless));
}

#[test]
fn t41_a_disk_gets_bfq_that_waits_and_keeps_its_slice_idle() {
    let advice = advice(&device(1, true), &disk(), Goal::Balanced);
    assert_eq!((text(&advice).as_str(), advice.verdict), ("bfq:low_latency=0", Verdict::Change));
    let rules: Vec<&str> = advice.items.iter().map(|item| item.rule.as_str()).collect();
    assert_eq!(rules, ["R-SEEK", "R-LL"]);
    assert!(advice.items[1].evidence.starts_with("8 streams 11.8 MB/s -> 61.2 MB/s"), "{}", advice.items[1].evidence);
    assert!(
        advice.left.iter().any(|left| left.starts_with("slice_idle=8 (0 would give 12.6 MB/s")),
        "{:?}",
        advice.left
    );
    assert_eq!(advice.items[0].confidence, Confidence::High);
}

#[test]
fn t41_an_array_does_not_get_bfq_that_waits_and_both_figures_are_said() {
    let recommendation = recommend(&device(1, true), &array(), Goal::Balanced, &[]);
    let advice = recommendation.kernel;
    assert_eq!((text(&advice).as_str(), advice.verdict), ("mq-deadline", Verdict::Keep));
    let said = advice.left.iter().find(|left| left.starts_with("R-IDLE")).expect("the reason");
    assert!(said.contains("8.8 MB/s") && said.contains("36.3 MB/s") && said.contains("37.9 MB/s"), "{said}");
}

/// For shares, BFQ is chosen on the array if it holds any, but without idling for readers; the
/// advice states that shares suffer.
#[test]
fn an_array_for_fairness_gets_bfq_without_waiting() {
    // 1:1.6 instead of 1:8 is as good as no shares and justifies nothing.
    assert_eq!(text(&advice(&device(1, true), &array(), Goal::Fairness)), "mq-deadline");
    let mut findings = array();
    findings.candidates[2] = did("bfq:low_latency=0,slice_idle=0", 36.3, 571.0, 60.0, Some(5.0));
    let recommendation = recommend(&device(1, true), &findings, Goal::Fairness, &[]);
    assert_eq!(text(&recommendation.kernel), "bfq:low_latency=0,slice_idle=0");
    let idle = recommendation.kernel.items.iter().find(|item| item.setting == "iosched/slice_idle").expect("the item");
    assert_eq!((idle.old.as_str(), idle.new.as_str(), idle.rule.as_str()), ("8", "0", "R-IDLE"));
    assert!(idle.evidence.starts_with("8 streams 8.8 MB/s -> 36.3 MB/s"), "{}", idle.evidence);
    assert!(recommendation.notes.iter().any(|note| note.contains("1:5.0")), "{:?}", recommendation.notes);
}

/// The settings with which shares were measured are part of the advice, because the scheduler could
/// not hold them otherwise.
#[test]
fn the_requests_that_shares_needed_are_recommended_with_the_scheduler() {
    let mut findings = array();
    let mut ours = did("hw-paternoster", 37.9, 565.0, 40.0, Some(7.9));
    ours.shares.as_mut().expect("shares").requests = Some(256);
    findings.candidates.push(ours);
    let mut device = device(1, true);
    device.schedulers.push("hw-paternoster".into());
    let chosen = advice(&device, &findings, Goal::Fairness);
    assert_eq!(text(&chosen), "hw-paternoster:nr_requests=256");
    let item = chosen.items.iter().find(|item| item.setting == "nr_requests").expect("the item");
    assert_eq!((item.old.as_str(), item.new.as_str(), item.rule.as_str()), ("64", "256", "R-GROUP"));
    assert!(item.evidence.contains("1:7.9"), "{}", item.evidence);
    // Already set: nothing is left to do.
    device.current = "hw-paternoster".parse().unwrap();
    device.nr_requests = Some(256);
    let kept = advice(&device, &findings, Goal::Fairness);
    assert_eq!((text(&kept).as_str(), kept.verdict, kept.items.len()), ("hw-paternoster", Verdict::Keep, 0));
    // With fewer `nr_requests` than the shares need, one item is left to change.
    device.nr_requests = Some(8);
    assert_eq!(advice(&device, &findings, Goal::Fairness).items.len(), 1);
}

/// A scheduler that answers a reader at once because it lets the device idle for it has the shortest
/// waits of all, and is no choice for that.
#[test]
fn a_short_wait_does_not_pay_for_what_the_others_lose() {
    let mut findings = found([500.0, 500.0, 500.0, 500.0], 0.1, 20.0);
    (findings.readers_alone, findings.writers_alone) = (Some(exact(500e6)), Some(exact(300e6)));
    let beside = |p99_ms: f64, reads_per_s: f64, mb_per_s: f64| {
        Some(Among { reader_ios_per_s: Some(exact(reads_per_s)), reads: Some(9_000), ..among(p99_ms, mb_per_s)? })
    };
    let with = |spec: &str, readers, writers| CandidateFindings {
        among_readers: readers,
        among_writers: writers,
        ..did(spec, 500.0, 200e3, 1.0, Some(8.0))
    };
    for kept in [0.002, 0.12] {
        findings.candidates = vec![
            with("none", beside(4.0, 300.0, 490.0), beside(3.0, 300.0, 290.0)),
            with("bfq:slice_idle=0", beside(0.1, 10e3, 500.0 * kept), beside(0.1, 10e3, 300.0 * kept)),
        ];
        // Where shares are the goal the group that is worst off decides, and 12 % are more than the
        // reader's 3 % under none.
        let fairness = (kept < 0.03).then_some(Goal::Fairness);
        for goal in [Goal::Balanced, Goal::Throughput, Goal::Latency].into_iter().chain(fairness) {
            let device = Device { current: SchedulerSpec::named("none"), ..device(16, false) };
            let only: Vec<SchedulerSpec> = findings.candidates.iter().map(|it| it.spec.parse().unwrap()).collect();
            let advice = recommend(&device, &findings, goal, &only).kernel;
            assert_eq!((text(&advice).as_str(), advice.verdict), ("none", Verdict::Keep), "{goal}, {kept}");
        }
    }
}

#[test]
fn flash_is_left_as_the_kernel_has_it_where_nothing_is_won() {
    let mut findings = found([240.0, 240.0, 240.0, 240.0], 0.1, 20.0);
    findings.candidates = vec![
        did("mq-deadline", 500.0, 80e3, 0.3, None),
        did("none", 502.0, 81e3, 0.3, None),
        did("bfq", 480.0, 60e3, 0.4, Some(7.0)),
        did("bfq:low_latency=0,slice_idle=0", 490.0, 62e3, 0.4, Some(1.5)),
        did("kyber", 500.0, 80e3, 0.3, None),
    ];
    let kept = advice(&device(1, false), &findings, Goal::Balanced);
    assert_eq!((text(&kept).as_str(), kept.verdict), ("mq-deadline", Verdict::Keep));
    assert!(kept.left[0].starts_with("R-KEEP: mq-deadline is the best"), "{:?}", kept.left);
    let many = advice(&device(8, false), &findings, Goal::Balanced);
    assert_eq!((text(&many).as_str(), many.verdict), ("none", Verdict::Keep));
}

#[test]
fn a_gain_below_five_percent_is_no_reason_and_below_ten_none_on_virtual_disks() {
    let mut findings = found([240.0, 240.0, 240.0, 240.0], 0.1, 20.0);
    let set = |kyber: f64| {
        vec![did("none", 500.0, 80e3, 1.0, None), did("mq-deadline", 500.0 * kyber, 80e3 * kyber, 1.0, None)]
    };
    let gain = |attachment, kyber, findings: &mut Findings| {
        findings.candidates = set(kyber);
        let device = Device { current: SchedulerSpec::named("none"), attachment, ..device(1, false) };
        advice(&device, findings, Goal::Throughput).verdict
    };
    assert_eq!(gain(Attachment::Direct, 1.04, &mut findings), Verdict::Keep);
    assert_eq!(gain(Attachment::Direct, 1.08, &mut findings), Verdict::Change);
    assert_eq!(gain(Attachment::Virtual, 1.08, &mut findings), Verdict::Keep);
    assert_eq!(gain(Attachment::Virtual, 1.12, &mut findings), Verdict::Change);
}

#[test]
fn t45_noise_leaves_everything_as_it_is_and_is_named() {
    let mut findings = disk();
    findings.noisy.push(Noisy {
        probe: "streams-8".into(),
        spec: "bfq:low_latency=0".into(),
        is_candidates: true,
        variation: 0.25,
    });
    let advice = advice(&device(1, true), &findings, Goal::Balanced);
    assert_eq!((text(&advice).as_str(), advice.verdict), ("mq-deadline", Verdict::Inconclusive));
    assert!(advice.items.is_empty());
    assert_eq!(advice.left[0], "R-NOISE: streams-8 under bfq:low_latency=0 varies by 25 % between repetitions");
    // A figure that the goal is not about decides nothing, however noisy it is.
    findings.noisy[0].probe = "reader-among-readers".into();
    assert_eq!(recommend(&device(1, true), &findings, Goal::Throughput, &[]).kernel.verdict, Verdict::Change);
    assert_eq!(recommend(&device(1, true), &findings, Goal::Latency, &[]).kernel.verdict, Verdict::Inconclusive);
    // The noise of a candidate that would not be chosen does not matter.
    findings.noisy[0].probe = "streams-8".into();
    findings.noisy[0].spec = "bfq".into();
    assert_eq!(recommend(&device(1, true), &findings, Goal::Balanced, &[]).kernel.verdict, Verdict::Change);
}

#[test]
fn t45_a_noisy_figure_of_what_is_set_now_counts_if_it_could_change_the_advice() {
    let verdict = |goal, probe: &str, variation| {
        let mut findings = disk();
        findings.noisy.push(Noisy { probe: probe.into(), spec: "mq-deadline".into(), is_candidates: true, variation });
        recommend(&device(1, true), &findings, goal, &[]).kernel.verdict
    };
    // mq-deadline reads streams at 11 MB/s, the best candidate at 61. mq-deadline would not be the
    // choice with any rate of random reads, nor with 17 MB/s instead of 11.
    assert_eq!(verdict(Goal::Throughput, "random-32", 0.25), Verdict::Change);
    assert_eq!(verdict(Goal::Throughput, "streams-8", 0.25), Verdict::Change);
    // If a figure may have any value, no decision is possible.
    assert_eq!(verdict(Goal::Throughput, "streams-8", 0.5), Verdict::Inconclusive);
    // An array under none: a reader's p99 of 500 ms that varies by a third cannot be 110 ms, but
    // one of 160 ms could.
    let verdict = |p99_ms, variation| {
        let mut findings = found([62.5, 86.5, 98.7, 112.5], 6.0, 11.0);
        findings.candidates =
            vec![did("mq-deadline", 379.0, 1700.0, 110.0, None), did("none", 379.0, 1700.0, p99_ms, None)];
        findings.noisy.push(Noisy {
            probe: "reader-among-readers".into(),
            spec: "none".into(),
            is_candidates: true,
            variation,
        });
        let device = Device { current: SchedulerSpec::named("none"), ..device(1, true) };
        let advice = recommend(&device, &findings, Goal::Latency, &[]).kernel;
        (text(&advice), advice.verdict)
    };
    assert_eq!(verdict(500.0, 0.34), ("mq-deadline".to_owned(), Verdict::Change));
    assert_eq!(verdict(160.0, 0.34), ("none".to_owned(), Verdict::Inconclusive));
}

#[test]
fn a_disk_with_one_arm_never_keeps_none() {
    let mut findings = disk();
    findings.candidates =
        ["bfq:low_latency=0", "bfq", "mq-deadline", "none"].map(|spec| did(spec, 15.0, 200.0, 1300.0, None)).to_vec();
    let device = Device { current: SchedulerSpec::named("none"), ..device(1, true) };
    let advice = advice(&device, &findings, Goal::Balanced);
    assert_eq!((text(&advice).as_str(), advice.verdict), ("bfq:low_latency=0", Verdict::Change));
    assert_eq!(advice.items[0].confidence, Confidence::Medium);
}

#[test]
fn on_a_busy_machine_nothing_is_sure() {
    let mut findings = disk();
    findings.short_of_cpu = (3, 5);
    let recommendation = recommend(&device(1, true), &findings, Goal::Balanced, &[]);
    assert!(recommendation.kernel.items.iter().all(|item| item.confidence == Confidence::Low));
    assert!(
        recommendation.notes[0].starts_with("the processor was saturated in 3 of 5 runs"),
        "{:?}",
        recommendation.notes
    );
}

#[test]
fn t46_a_virtual_disk_that_claims_to_turn_is_corrected_apart() {
    let mut findings = found([240.0, 240.0, 240.0, 240.0], 0.2, 8.0);
    findings.candidates = vec![did("none", 500.0, 40e3, 1.0, None), did("mq-deadline", 499.0, 40e3, 1.0, None)];
    let device = Device { attachment: Attachment::Virtual, current: SchedulerSpec::named("none"), ..device(1, true) };
    let advice = advice(&device, &findings, Goal::Balanced);
    let first = &advice.items[0];
    assert_eq!((first.setting.as_str(), first.old.as_str(), first.new.as_str()), ("rotational", "1", "0"));
    assert_eq!((advice.items.len(), text(&advice).as_str()), (1, "none"));
}

#[test]
fn a_present_setting_that_costs_throughput_is_reverted() {
    let mut findings = disk();
    let device = Device { current: "bfq:slice_idle=0".parse().expect("a scheduler"), ..device(1, true) };
    findings.candidates.push(did("bfq:slice_idle=0", 12.0, 99.0, 300.0, Some(1.6)));
    let advice = advice(&device, &findings, Goal::Balanced);
    assert_eq!(text(&advice), "bfq:low_latency=0");
    let changes: Vec<(&str, &str, &str)> =
        advice.items.iter().map(|item| (item.setting.as_str(), item.old.as_str(), item.new.as_str())).collect();
    assert_eq!(changes, [("iosched/low_latency", "1", "0"), ("iosched/slice_idle", "0", "8")]);
}

#[test]
fn write_back_throttling_is_halved_where_that_pays() {
    let mut findings = found([200.0, 210.0, 220.0, 230.0], 6.0, 8.0);
    let mut winner = did("mq-deadline", 230.0, 565.0, 40.0, None);
    winner.among_writers = among(200.0, 100.0);
    let halved = CandidateFindings {
        spec: "mq-deadline:wbt_lat_usec=37500".into(),
        among_writers: among(100.0, 95.0),
        ..CandidateFindings::default()
    };
    findings.candidates = vec![winner, halved];
    let device = device(1, true);
    let changed = advice(&device, &findings, Goal::Balanced);
    assert_eq!(changed.verdict, Verdict::Change);
    let item = &changed.items[0];
    assert_eq!((item.setting.as_str(), item.old.as_str(), item.new.as_str()), ("wbt_lat_usec", "75000", "37500"));
    assert_eq!(item.evidence, "reader beside writers 200 ms -> 100 ms, writers 100 MB/s -> 95.0 MB/s");
    // The same gain at the cost of the writers' rate does not count.
    findings.candidates[1].among_writers = among(100.0, 80.0);
    let kept = advice(&device, &findings, Goal::Balanced);
    assert_eq!(kept.verdict, Verdict::Keep);
    assert!(kept.left.iter().any(|left| left.starts_with("wbt_lat_usec=37500: ")), "{:?}", kept.left);
}

#[test]
fn without_probes_the_usual_choice_is_given_with_low_confidence() {
    let advice = advice(&device(1, true), &Findings::default(), Goal::Balanced);
    assert_eq!((text(&advice).as_str(), advice.verdict), ("bfq:low_latency=0", Verdict::Change));
    assert!(advice.items.iter().all(|item| item.confidence == Confidence::Low && item.rule.starts_with("R-")));
}

#[test]
fn parts_of_stacks_get_none_and_stacks_nothing() {
    let of = |attachment| advice(&Device { attachment, ..device(1, true) }, &Findings::default(), Goal::Balanced);
    let component = of(Attachment::Component);
    assert_eq!((text(&component).as_str(), component.items[0].rule.as_str()), ("none", "R-STACK"));
    assert_eq!(of(Attachment::Stacked).verdict, Verdict::Nothing);
}

// ---- the loop ----

/// A host that answers by a formula: a fixed value per probe, with a spread if requested.
mod loop_of_questions {
    use std::collections::BTreeMap;

    use hoistway_experiment::measurement::{DeviceCounters, GroupMeasurement, Tally};
    use hoistway_experiment::{Experiment, Histogram, Measurement, SchedulerInForce, TargetFacts};
    use hoistway_tune::{Goal, Pace, Probe, Request, Step, Tuner, Verdict};

    const SECOND_NS: u64 = 1_000_000_000;

    fn group(path: &str, weight: u32, bytes_per_s: u64, latency_ns: u64, window_ns: u64) -> GroupMeasurement {
        let bytes = bytes_per_s * window_ns / SECOND_NS;
        let latency = Histogram::from_bins([(latency_ns, 100)]);
        let read = Tally { bytes, ios: bytes / 4096, latency, ..Tally::default() };
        GroupMeasurement {
            path: path.to_owned(),
            weight,
            effective_weight: weight,
            read,
            write: Tally::default(),
            trim: Tally::default(),
            sync: Tally::default(),
            late: 0,
            issue_delay: Histogram::default(),
            throttled_ns: Vec::new(),
            threads: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// One arm: streams lose under everything except BFQ, random reads take 8 ms. Every other set
    /// is `wobble_percent` higher.
    fn answer(experiment: &Experiment, wobble_percent: u64) -> Measurement {
        let waits = experiment.scheduler.name == "bfq" && experiment.scheduler.setting("slice_idle").is_none();
        let percent = if experiment.set % 2 == 1 { 100 + wobble_percent } else { 100 };
        let mb = |mb: u64| mb * percent * 10_000;
        let bytes_per_s = match experiment.workload.split_once('-') {
            Some(("streams", "1")) => mb(60),
            Some(("streams", _)) => mb(if waits { 50 } else { 12 }),
            Some(("random", _)) => 120 * 4096,
            _ => mb(40),
        };
        let window_ns = experiment.runtime_ns;
        let groups = experiment.groups.iter().map(|of| {
            let share = bytes_per_s / experiment.groups.len() as u64;
            group(&of.path, of.weight.get(), share, 8_000_000, window_ns)
        });
        Measurement {
            experiment: experiment.clone(),
            host: "test".into(),
            scheduler: SchedulerInForce { name: experiment.scheduler.name.clone(), ..SchedulerInForce::default() },
            target: TargetFacts::default(),
            window_ns,
            groups: groups.collect(),
            device: DeviceCounters::default(),
            dispatch_reasons: BTreeMap::new(),
            blkio: BTreeMap::new(),
            dispatches: None,
            solo_rates: Vec::new(),
            processors: None,
            flags: Vec::new(),
        }
    }

    fn request(budget_s: Option<u64>) -> Request {
        let budget_ns = budget_s.map(|seconds| seconds * SECOND_NS);
        let (step_ns, ramp_ns) = (3 * SECOND_NS, SECOND_NS / 4);
        let pace = Pace { step_ns, ramp_ns, repeats: 3, cost_step_ns: SECOND_NS, budget_ns };
        Request {
            goal: Goal::Balanced,
            pace,
            only: vec![],
            load: vec![],
            load_ns: None,
            with_cost: false,
            by_facts: false,
        }
    }

    /// Asks until the end; returns the titles of the batches, the time they took, and the
    /// recommendation's verdict and scheduler.
    fn asked(budget_s: Option<u64>, wobble_percent: u64) -> (Vec<String>, u64, Verdict, String) {
        let mut tuner = Tuner::new(super::device(1, true), request(budget_s));
        let (mut titles, mut spent_ns) = (Vec::new(), 0);
        loop {
            match tuner.next_step() {
                Step::Measure(batch) => {
                    titles.push(batch.title.split(',').next().unwrap_or_default().to_owned());
                    spent_ns += batch.experiments.iter().map(Experiment::length_ns).sum::<u64>();
                    tuner.record_answers(batch.experiments.iter().map(|it| answer(it, wobble_percent)).collect());
                }
                Step::Done(done) => {
                    return (titles, spent_ns / SECOND_NS, done.kernel.verdict, done.kernel.spec.to_string());
                }
            }
        }
    }

    /// All runs that are asked for, with this goal.
    fn runs(goal: Goal) -> Vec<Experiment> {
        let device = hoistway_tune::Device { may_write: true, ..super::device(1, true) };
        let mut tuner = Tuner::new(device, Request { goal, ..request(Some(600)) });
        let mut runs = Vec::new();
        while let Step::Measure(batch) = tuner.next_step() {
            tuner.record_answers(batch.experiments.iter().map(|it| answer(it, 40)).collect());
            runs.extend(batch.experiments);
        }
        runs
    }

    #[test]
    fn what_is_measured_does_not_depend_on_the_goal() {
        let balanced = runs(Goal::Balanced);
        assert!(balanced.iter().any(|run| run.workload == "others-write"), "the writers alone");
        for goal in [Goal::Throughput, Goal::Latency, Goal::Fairness] {
            assert!(runs(goal) == balanced, "{goal}");
        }
    }

    #[test]
    fn it_asks_about_the_device_then_the_candidates_and_recommends() {
        let (titles, _, verdict, spec) = asked(None, 0);
        assert_eq!(titles, ["the device without a scheduler", "the candidates"]);
        assert_eq!((verdict, spec.as_str()), (Verdict::Change, "bfq:low_latency=0"));
    }

    #[test]
    fn what_varies_is_asked_again_twice_and_then_given_up() {
        let (titles, _, verdict, spec) = asked(None, 40);
        let again = "again";
        assert_eq!(titles, ["the device without a scheduler", again, again, "the candidates", again, again]);
        assert_eq!((verdict, spec.as_str()), (Verdict::Inconclusive, "mq-deadline"));
    }

    /// The lengths of the runs of a load of `load_s` seconds, and the notes about them.
    fn runs_of_a_load(load_s: u64, budget_s: Option<u64>) -> (Vec<u64>, Vec<String>) {
        let streams = Probe::Streams(8).groups(&[]);
        let request = Request { load: streams, load_ns: Some(load_s * SECOND_NS), ..request(budget_s) };
        let mut tuner = Tuner::new(super::device(1, true), request);
        loop {
            let Step::Measure(batch) = tuner.next_step() else { panic!("no candidate was given the load") };
            if batch.title == "the candidates" {
                let of_load = batch.experiments.iter().filter(|experiment| experiment.workload == "load");
                return (of_load.map(Experiment::length_ns).collect(), batch.what);
            }
            tuner.record_answers(batch.experiments.iter().map(|it| answer(it, 0)).collect());
        }
    }

    #[test]
    fn a_load_with_an_end_is_run_to_it_or_as_far_as_the_budget_goes() {
        let (runs, what) = runs_of_a_load(40, None);
        assert!(!runs.is_empty() && runs.iter().all(|run| *run == 40 * SECOND_NS), "{runs:?}");
        assert_eq!(what, ["your load"]);
        let (runs, _) = runs_of_a_load(1, None);
        assert!(runs.iter().all(|run| *run == 3 * SECOND_NS), "a short one goes round: {runs:?}");
        let (runs, what) = runs_of_a_load(600, Some(270));
        let all_ns: u64 = runs.iter().sum();
        assert!((SECOND_NS..165 * SECOND_NS).contains(&all_ns), "{runs:?}");
        assert!(
            what.iter().any(|line| line.starts_with("only the first ") && line.contains("s of its 600 s, ")),
            "{what:?}"
        );
    }

    #[test]
    fn it_stays_within_its_budget() {
        for wobble_percent in [0, 40] {
            let (_, spent_s, ..) = asked(Some(270), wobble_percent);
            assert!((100..=270).contains(&spent_s), "{spent_s} s");
        }
    }

    /// The budget is too small even for the shortest steps: repetitions and candidates are left
    /// out, and named.
    #[test]
    fn a_small_budget_is_kept_and_what_is_left_out_is_said() {
        for budget_s in [1, 3, 6, 10, 20, 40] {
            let mut tuner = Tuner::new(super::device(1, true), request(Some(budget_s)));
            let (mut spent_ns, mut longest_ns) = (0, 0);
            while let Step::Measure(batch) = tuner.next_step() {
                let lengths = || batch.experiments.iter().map(Experiment::length_ns);
                spent_ns += lengths().sum::<u64>();
                longest_ns = lengths().max().unwrap_or(0).max(longest_ns);
                tuner.record_answers(batch.experiments.iter().map(|it| answer(it, 0)).collect());
            }
            assert!(spent_ns <= budget_s * SECOND_NS + longest_ns, "{budget_s} s: {spent_ns} ns");
            assert!(budget_s > 20 || !tuner.left_out().is_empty(), "{budget_s} s");
        }
    }

    /// The time reported by the host counts instead of the planned one; a candidate with missing
    /// answers is left out.
    #[test]
    fn elapsed_time_is_counted_and_half_a_candidate_is_left_out() {
        let mut tuner = Tuner::new(super::device(1, true), request(Some(270)));
        let Step::Measure(batch) = tuner.next_step() else { panic!("nothing is asked") };
        tuner.record_answers(batch.experiments.iter().map(|it| answer(it, 0)).collect());
        let Step::Measure(batch) = tuner.next_step() else { panic!("no candidate is asked about") };
        assert!(tuner.left_out().is_empty() && batch.is_bounded);
        let spec = |it: &Experiment| it.scheduler.to_string();
        let last = batch.experiments.iter().map(spec).next_back().expect("a run");
        let mut first = true;
        // Only the first run of one candidate has an answer.
        let there = batch.experiments.iter().filter(|it| spec(it) != last || std::mem::take(&mut first));
        tuner.record_answers(there.map(|it| answer(it, 0)).collect());
        assert_eq!(tuner.left_out(), std::slice::from_ref(&last));
        assert!(!tuner.measurements().iter().any(|run| run.experiment.set >= 100 && spec(&run.experiment) == last));
        tuner.set_elapsed(270 * SECOND_NS);
        assert_eq!(tuner.left_ns(), Some(0));
        assert!(matches!(tuner.next_step(), Step::Done(_)));
    }
}
