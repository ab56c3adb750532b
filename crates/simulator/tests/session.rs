//! A session: a run in pieces that can be changed meanwhile.

mod experiments;

use experiments::{KIB, MS, experiment, random_reads};
use hoistway_experiment::{Experiment, Host, Measurement, Reweigh, Unattended, Weight};
use hoistway_simulator::{Session, Simulator};
use hoistway_workload::Job;
use hoistway_workload::job::{BlockSize, Mix, PerDirection};

fn whole(question: &Experiment) -> Measurement {
    Simulator::default().run(question, &mut Unattended).unwrap()
}

fn mixed(depth: u32) -> Job {
    random_reads(depth).with(|job| job.shape.mix = Mix::ReadWrite { read_percent: 70 })
}

/// Two groups of weights 100 and 300 for 300 ms.
fn two(device: &str, scheduler: &str, jobs: [Job; 2]) -> Experiment {
    let [a, b] = jobs;
    let mut question = experiment(device, scheduler, vec![("a", 100, a), ("b", 300, b)]);
    (question.ramp_ns, question.runtime_ns) = (0, 300 * MS);
    question
}

/// Advances by pieces of a length that divides nothing.
fn in_pieces(session: &mut Session, to_ns: u64) {
    while session.now_ns() < to_ns {
        let next_ns = (session.now_ns() + 777_777).min(to_ns);
        session.advance(next_ns).unwrap();
        session.take_dispatches();
    }
}

fn bytes(session: &Session) -> Vec<u64> {
    session.figures().groups.iter().map(|group| group.bytes).collect()
}

/// The part of group 0 in the bytes since `before`.
fn part(session: &Session, before: &[u64]) -> f64 {
    let got: Vec<u64> = bytes(session).iter().zip(before).map(|(now, before)| now - before).collect();
    got[0] as f64 / got.iter().sum::<u64>() as f64
}

#[test]
fn a_session_without_changes_measures_what_the_simulator_measures() {
    for (device, scheduler) in [
        ("ssd", "none"),
        ("ssd", "paternoster"),
        ("ssd-lsi", "bfq"),
        ("sata", "cfq@4.12"),
        ("sata", "mq-deadline"),
        ("raid5x12", "wfq"),
        ("nvme", "kyber"),
    ] {
        for ramp_ns in [0, 20 * MS] {
            let question = Experiment { ramp_ns, ..two(device, scheduler, [random_reads(8), mixed(16)]) };
            let mut session = Session::start(&question, &[]).unwrap();
            let end_ns = session.end_ns();
            in_pieces(&mut session, end_ns);
            assert!(session.is_over());
            assert_eq!(session.finish().unwrap(), whole(&question), "{scheduler} on {device}, ramp {ramp_ns}");
        }
    }
}

#[test]
fn a_weight_that_changes_gives_what_a_planned_change_gives() {
    let question = two("ssd", "paternoster", [random_reads(32), random_reads(32)]);
    let mut session = Session::start(&question, &[]).unwrap();
    in_pieces(&mut session, 100 * MS);
    let before = bytes(&session);
    assert!((part(&session, &[0, 0]) - 0.25).abs() < 0.03);
    session.set_weight(0, Weight::new(900).unwrap());
    assert_eq!(session.figures().groups[0].weight, 900);
    in_pieces(&mut session, 300 * MS);
    assert!((part(&session, &before) - 0.75).abs() < 0.03, "{}", part(&session, &before));
    let mut groups: Vec<_> = question.groups.iter().cloned().collect();
    groups[0].reweigh = Some(Reweigh { at_ns: 100 * MS, weight: Weight::new(900).unwrap() });
    let planned = whole(&Experiment { groups: groups.into(), ..question });
    let changed = session.finish().unwrap();
    let rates = |of: &Measurement| of.groups.iter().map(|group| (group.bytes(), group.latency())).collect::<Vec<_>>();
    assert_eq!(rates(&changed), rates(&planned));
}

#[test]
fn a_deeper_load_with_larger_blocks_takes_the_place_of_the_first_one() {
    let question = two("ssd", "none", [random_reads(1), random_reads(1)]);
    let mut session = Session::start(&question, &[]).unwrap();
    in_pieces(&mut session, 50 * MS);
    assert_eq!(session.figures().groups[0].outstanding, 1);
    let large = mixed(200).with(|job| job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(64 * KIB)));
    session.set_load(0, &[large]).unwrap();
    in_pieces(&mut session, 100 * MS);
    let figures = session.figures();
    assert_eq!((figures.groups[0].outstanding, figures.groups[1].outstanding), (200, 1));
    assert!(figures.groups[0].in_device > 20 && figures.groups[0].in_device <= 200, "{figures:?}");
    session.take_dispatches();
    in_pieces(&mut session, 101 * MS);
    session.set_load(0, &[random_reads(2)]).unwrap();
    in_pieces(&mut session, 290 * MS);
    assert_eq!(session.figures().groups[0].outstanding, 2);
    session.advance(295 * MS).unwrap();
    let kinds: Vec<(char, u32)> = session.take_dispatches().iter().map(|it| (it.kind, it.extent.sectors)).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|it| *it == ('R', 8)), "{kinds:?}");
    session.finish().unwrap();
}

#[test]
fn a_group_rests_and_goes_on() {
    for (device, scheduler) in [("ssd", "paternoster"), ("sata", "bfq"), ("sata", "cfq@4.12")] {
        // On a disk it takes a scheduler a while to serve what is left of a group that has stopped.
        let question = Experiment { runtime_ns: 5_000 * MS, ..two(device, scheduler, [random_reads(8), mixed(8)]) };
        let mut session = Session::start(&question, &[1]).unwrap();
        session.advance(1_000 * MS).unwrap();
        let first = bytes(&session);
        assert!(first[0] > 0 && first[1] == 0, "{first:?}");
        session.resume(1).unwrap();
        session.stop(0);
        session.advance(3_000 * MS).unwrap();
        let figures = session.figures();
        assert_eq!((figures.groups[0].outstanding, figures.groups[0].is_resting), (0, true), "{scheduler}");
        assert_eq!(figures.groups[1].outstanding, 8, "{scheduler}");
        session.stop(1);
        session.advance(4_500 * MS).unwrap();
        let idle = bytes(&session);
        assert_eq!(session.figures().groups[1].outstanding, 0, "{scheduler}");
        session.resume(0).unwrap();
        session.advance(4_999 * MS).unwrap();
        let last = bytes(&session);
        assert!(last[0] > idle[0] && last[1] == idle[1], "{scheduler}: {idle:?} {last:?}");
        session.finish().unwrap();
    }
}

#[test]
fn the_same_changes_at_the_same_times_give_the_same_measurement() {
    let changed = |piece_ns: u64| {
        let mut session = Session::start(&two("ssd", "bfq", [mixed(4), random_reads(4)]), &[]).unwrap();
        let advance = |session: &mut Session, to_ns: u64| {
            while session.now_ns() < to_ns {
                session.advance((session.now_ns() + piece_ns).min(to_ns)).unwrap();
            }
        };
        advance(&mut session, 30 * MS);
        session.set_load(1, &[mixed(40)]).unwrap();
        advance(&mut session, 60 * MS);
        session.stop(0);
        session.set_tunable("low_latency", "0").unwrap();
        advance(&mut session, 90 * MS);
        session.resume(0).unwrap();
        session.finish().unwrap()
    };
    let first = changed(7_000_003);
    assert_eq!(first, changed(123_457));
    assert_ne!(first, whole(&two("ssd", "bfq", [mixed(4), random_reads(4)])));
}

#[test]
fn a_step_goes_to_the_next_dispatch() {
    let question = Experiment { runtime_ns: 2_000 * MS, ..two("sata", "noop", [random_reads(1), random_reads(1)]) };
    let mut session = Session::start(&question, &[]).unwrap();
    let (mut numbers, mut served) = (Vec::new(), 0);
    for _ in 0..40 {
        session.advance_to_dispatch(2_000 * MS).unwrap();
        let dispatches = session.take_dispatches();
        let latest = dispatches.last().expect("a step ends with a dispatch");
        assert_eq!(latest.at_ns + 1, session.now_ns());
        numbers.extend(dispatches.iter().map(|it| it.number));
        served += session.take_served().len();
    }
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]) && numbers[0] == 0, "{numbers:?}");
    assert_eq!(served + 2, numbers.len(), "both readers have a request in the device");
}

#[test]
fn a_scheduler_that_waits_says_for_what() {
    let think = hoistway_workload::job::Think { time_ns: 2 * MS, ..Default::default() };
    let pattern = hoistway_workload::job::Pattern::Sequential { skip_bytes: 0 };
    let reader = random_reads(1).with(|job| {
        job.pacing.think = think;
        job.shape.pattern = pattern;
    });
    let mut session = Session::start(&two("sata", "cfq@4.12", [reader.clone(), reader]), &[]).unwrap();
    let mut reasons = std::collections::BTreeSet::new();
    while !session.is_over() {
        session.advance(session.now_ns() + MS / 2).unwrap();
        reasons.extend(session.figures().held.map(|reason| session.reasons()[usize::from(reason)]));
    }
    assert!(reasons.iter().any(|reason| reason.starts_with("waits for")), "{reasons:?}");
}

#[test]
fn what_a_session_cannot_do_is_refused() {
    let mut question = two("ssd", "wfq", [random_reads(1), random_reads(1).with(|job| job.submission.direct = false)]);
    let mut session = Session::start(&question, &[]).unwrap();
    assert!(session.set_load(1, &[random_reads(2)]).is_err(), "through the page cache");
    assert!(session.set_load(0, &[random_reads(2).with(|job| job.threads = 2)]).is_err(), "more threads");
    let tiny = random_reads(1).with(|job| job.area.size = Some(hoistway_workload::job::Amount::Bytes(1_000)));
    assert!(session.set_load(0, &[tiny]).is_err(), "an area smaller than a block");
    assert!(session.set_tunable("no_such", "1").is_err());
    question.limiters = vec!["throttle".parse().unwrap()];
    assert!(Session::start(&question, &[]).is_err(), "limiters");
}

#[test]
fn the_parts_of_a_device_are_seen_at_work() {
    use hoistway_device::{Activity, DieActivity};
    // For each model: disks, or channels and dies; and whether each part was seen at work.
    let seen = |model: &str, job: fn(u32) -> Job| {
        let mut session = Session::start(&two(model, "none", [job(16), job(16)]), &[]).unwrap();
        let mut parts: Vec<bool> = Vec::new();
        while !session.is_over() {
            session.advance(session.now_ns() + MS / 5).unwrap();
            let works: Vec<bool> = match session.activity() {
                Activity::Whole => Vec::new(),
                Activity::Disks(disks) => disks.iter().map(|disk| disk.works_at.is_some()).collect(),
                Activity::Flash { channels, dies } => {
                    channels.into_iter().chain(dies.iter().map(|die| *die != DieActivity::Idle)).collect()
                }
            };
            parts.resize(works.len(), false);
            parts.iter_mut().zip(works).for_each(|(part, works)| *part |= works);
        }
        parts
    };
    assert_eq!(seen("sata", random_reads), [true]);
    assert_eq!(seen("sata,actuators=2", mixed).len(), 2);
    assert_eq!(seen("raid5x12", random_reads), [true; 12]);
    assert_eq!(seen("ssd", mixed), [true; 8 + 32]);
}
