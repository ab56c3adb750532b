//! The record of a run's first dispatches, which a report shows as a picture: complete, in order,
//! and without an effect on the run.

mod experiments;

use experiments::{MS, experiment, random_reads};
use hoistway_experiment::{Experiment, Group, Host, LiveFigures, Measurement, Progress, Unattended, Weight};
use hoistway_simulator::Simulator;
use hoistway_workload::Job;

/// Progress that asks for this many dispatches.
struct Wanting(usize);

impl Progress for Wanting {
    fn started(&mut self, _experiment: &Experiment) {}
    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}
    fn wanted_dispatches(&self) -> usize {
        self.0
    }
}

fn run(experiment: &Experiment, progress: &mut dyn Progress) -> Measurement {
    Simulator::default().logging().run(experiment, progress).unwrap()
}

/// One sequential reader per group, with its own area, that pauses 1 ms between two reads.
fn sequential_readers(scheduler: &str) -> Experiment {
    let reader = || {
        Job::default().with(|job| {
            job.name = "reader".into();
            job.submission.direct = true;
            job.shape.block_sizes =
                hoistway_workload::job::PerDirection::all(hoistway_workload::job::BlockSize::Fixed(32 << 10));
            job.pacing.think =
                hoistway_workload::job::Think { time_ns: MS, ..hoistway_workload::job::Think::default() };
            job.times.time_based = true;
            job.times.runtime_ns = Some(1 << 50);
        })
    };
    let mut experiment = experiment("sata", scheduler, vec![("a", 100, reader()), ("b", 300, reader())]);
    experiment.runtime_ns = 2_000 * MS;
    experiment
}

#[test]
fn the_first_dispatches_are_recorded_in_order_and_the_run_is_the_same() {
    for scheduler in ["none", "mq-deadline", "wfq", "bfq"] {
        let asked = experiment("ssd", scheduler, vec![("a", 100, random_reads(8)), ("b", 300, random_reads(8))]);
        let (plain, told) = (run(&asked, &mut Unattended), run(&asked, &mut Wanting(200)));
        let dispatches = told.dispatches.clone().unwrap();
        assert_eq!(Measurement { dispatches: None, ..told }, plain, "{scheduler}: looking changes nothing");
        let requests = &dispatches.requests;
        assert_eq!(requests.len(), 200, "{scheduler}");
        assert!(requests.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns), "{scheduler}");
        assert_eq!(dispatches.length_ns, requests[199].at_ns, "{scheduler}");
        for request in requests {
            assert!(request.service_ns > 0 && request.extent.sectors == 8 && request.kind == 'R', "{request:?}");
            assert!(request.group.is_some_and(|group| group < 2), "{scheduler}: {request:?}");
            assert!(request.reason.is_none_or(|reason| usize::from(reason) < dispatches.reasons.len()));
        }
        // All except those in flight when the record began.
        let chosen = requests.iter().filter(|request| request.reason.is_some()).count();
        assert!(chosen > 150, "{scheduler}: {chosen} of 200 have a reason");
        // bfq lets one group use the device for longer than this record.
        for group in (0..2).filter(|_| scheduler != "bfq") {
            assert!(requests.iter().filter(|request| request.group == Some(group)).count() > 20, "{scheduler}");
        }
    }
}

#[test]
fn waiting_for_a_reader_is_recorded_as_a_hold() {
    let told = run(&sequential_readers("cfq"), &mut Wanting(300)).dispatches.unwrap();
    assert!(told.holds.len() > 50, "{} holds", told.holds.len());
    let held_ns: u64 = told.holds.iter().map(|hold| hold.length_ns).sum();
    // The readers think for a millisecond after each block, so that the device idles for a good
    // part of the time.
    assert!(held_ns > told.length_ns / 10, "{held_ns} of {}", told.length_ns);
    assert!(told.holds.windows(2).all(|pair| pair[0].at_ns + pair[0].length_ns <= pair[1].at_ns));
    assert!(told.holds.iter().all(|hold| usize::from(hold.reason) < told.reasons.len()));
    let fifo = run(&sequential_readers("noop"), &mut Wanting(300)).dispatches.unwrap();
    assert!(fifo.holds.is_empty(), "noop never holds");
}

#[test]
fn a_run_with_fewer_dispatches_records_all_of_them() {
    let asked = sequential_readers("noop");
    let told = run(&asked, &mut Wanting(100_000));
    let dispatches = told.dispatches.as_ref().unwrap();
    assert!((dispatches.requests.len() as u64).abs_diff(told.device.read.ios) <= 2);
    assert_eq!(dispatches.length_ns, asked.runtime_ns);
    let group = Group::new("c", Weight::DEFAULT, vec![random_reads(1)]);
    let without = Experiment { groups: vec![group].into(), ..asked };
    assert_eq!(run(&without, &mut Unattended).dispatches, None);
}
