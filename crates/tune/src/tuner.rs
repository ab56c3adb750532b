//! The main loop: asks questions, takes the answers, repeats what was too noisy, and recommends.
//!
//! ```text
//! device (streams, depths, zones) -> candidates (all of them, interleaved) -> trials (settings of the winner) -> io.cost
//! ```
//! It has no clock: the cost of a batch is the sum of its experiments' lengths, unless the caller
//! reports the elapsed time. Steps are shortened to fit the budget; what still does not fit is left
//! out and reported.

use hoistway_experiment::{Experiment, Group, Measurement, SchedulerSpec};

use crate::budget::{LeftOut, fit};
use crate::candidates::{RunsIn, short_list};
use crate::class::{Class, classify};
use crate::device::{Device, HostKind};
use crate::findings::{FIRST_SET_OF_CANDIDATES, Findings, cut_short, gather, noisy, spec_of};
use crate::probe::{Cost, Probe, Timing};
use crate::recommendation::Recommendation;
use crate::rules::settings::trials;
use crate::rules::{Case, recommend};
use crate::score::{Goal, STREAMS};
use crate::solo;

const SECOND_NS: u64 = 1_000_000_000;
/// Numbers of parallel streams that are measured.
const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];
/// Depths of random reads that are measured.
const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Positions at which zones are read, in percent of the device.
const ZONES: [u8; 5] = [0, 25, 50, 75, 98];
/// Fractions of the budget for the device alone and for the candidates; the rest is for trials and
/// repetitions. The same for each goal, so that figures do not depend on it.
const PARTS: [f64; 2] = [0.25, 0.60];
/// Latency of a random read, in nanoseconds, from which on one step has too few reads for a 99th
/// percentile.
const SLOW_READ_NS: f64 = 2e6;
/// Number of steps that a latency probe of such a slow device lasts.
const STEPS_OF_A_WAIT: u64 = 4;
/// Unmeasured time before a candidate's figures on a simulated device, whose time costs nothing: the
/// schedulers that adapt to the device have done so by then (docs/reference/tune.md).
const SETTLING_NS: u64 = 2 * SECOND_NS;
/// Shortest useful step.
const SHORTEST_STEP_NS: u64 = 300_000_000;
/// Number of times that noisy steps are repeated, each time for twice as long.
const TRIES: u32 = 2;
/// Schedulers that are known to ignore weights, so that shares are not measured under them.
const WITHOUT_SHARES: [&str; 6] = ["none", "noop", "mq-deadline", "deadline", "kyber", "current"];

/// Durations and repetitions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Measured time per run, in nanoseconds.
    pub step_ns: u64,
    /// Unmeasured time before it, in nanoseconds.
    pub ramp_ns: u64,
    /// Number of repetitions.
    pub repeats: u32,
    /// Measured time per coefficient of io.cost, in nanoseconds.
    pub cost_step_ns: u64,
    /// Time for everything but io.cost, in nanoseconds; `None` means unlimited.
    pub budget_ns: Option<u64>,
}

/// The user's request.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// What matters most.
    pub goal: Goal,
    /// Durations and repetitions.
    pub pace: Pace,
    /// Candidates that replace the class's own; empty means those of the class.
    pub only: Vec<SchedulerSpec>,
    /// The user's own load, which then decides instead of the built-in probes; empty means none.
    pub load: Vec<Group>,
    /// Length of that load in nanoseconds. A run lasts as long if the budget permits; `None` if the
    /// load is endless.
    pub load_ns: Option<u64>,
    /// Whether to measure the coefficients of io.cost as well.
    pub with_cost: bool,
    /// Whether to decide without measuring.
    pub by_facts: bool,
}

/// What is to be measured next, in this order.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// A short description.
    pub title: String,
    /// What the batch does to the device, in words.
    pub what: Vec<String>,
    /// The runs.
    pub experiments: Vec<Experiment>,
    /// Whether the batch ends with the budget; batches of io.cost take as long as they need.
    pub is_bounded: bool,
}

/// The next step.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Measure this batch and pass the answers to [`Tuner::record_answers`].
    Measure(Box<Batch>),
    /// The recommendation; there is nothing more to measure.
    Done(Box<Recommendation>),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    Device,
    Candidates,
    Trials,
    Cost,
    Paced,
    Over,
}

#[derive(Clone, PartialEq, Debug)]
struct Question {
    probe: Probe,
    spec: SchedulerSpec,
}

/// Asks questions and takes the answers.
#[derive(Clone, Debug)]
pub struct Tuner {
    device: Device,
    request: Request,
    measurements: Vec<Measurement>,
    stage: Stage,
    /// The questions of the last batch.
    pending: Vec<Question>,
    timing: Timing,
    /// How often the last batch was repeated.
    tries: u32,
    spent_ns: u64,
    left_out: LeftOut,
}

impl Tuner {
    /// A tuner that knows the properties of the device only.
    pub fn new(device: Device, request: Request) -> Self {
        let timing = Timing { ramp_ns: 0, step_ns: 0, repeats: 1, first_set: 1 };
        let stage = if request.by_facts { Stage::Over } else { Stage::Device };
        Self {
            device,
            request,
            measurements: Vec::new(),
            stage,
            pending: Vec::new(),
            timing,
            tries: 0,
            spent_ns: 0,
            left_out: LeftOut::default(),
        }
    }

    /// The device under test.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The user's request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// All answers, except those that a longer run has replaced.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// Takes the answers to the last batch. If an answer of a scheduler is missing because time ran
    /// out, its other answers are discarded as well, because a candidate with missing answers
    /// cannot be compared.
    pub fn record_answers(&mut self, answers: Vec<Measurement>) {
        let is_of_candidates = self.timing.first_set >= FIRST_SET_OF_CANDIDATES;
        let is_answered = |question: &Question| {
            let is_of = |run: &Measurement| {
                (run.experiment.set >= FIRST_SET_OF_CANDIDATES) == is_of_candidates
                    && run.experiment.workload == question.probe.name()
                    && spec_of(run) == question.spec
            };
            answers.iter().chain(&self.measurements).any(is_of)
        };
        let unanswered: Vec<&Question> = self.pending.iter().filter(|question| !is_answered(question)).collect();
        let mut missing: Vec<SchedulerSpec> = Vec::new();
        for question in unanswered {
            if is_of_candidates {
                missing.push(question.spec.clone());
            } else {
                self.left_out.note(question.probe.name());
            }
        }
        for spec in &missing {
            self.left_out.note(spec.to_string());
        }
        self.pending.retain(|question| !missing.contains(&question.spec));
        // If this batch was a longer repetition, the shorter runs were removed already.
        self.measurements
            .retain(|run| run.experiment.set < FIRST_SET_OF_CANDIDATES || !missing.contains(&spec_of(run)));
        let rates = solo::rates(&self.measurements, &self.request.load);
        let rated = |mut run: Measurement| {
            if run.experiment.workload == Probe::Load.name() {
                run.solo_rates.clone_from(&rates);
            }
            run
        };
        self.measurements.extend(answers.into_iter().filter(|run| !missing.contains(&spec_of(run))).map(rated));
    }

    /// Sets the time that has passed since the beginning by a real clock, which replaces the sum of
    /// the experiments' lengths.
    pub fn set_elapsed(&mut self, spent_ns: u64) {
        self.spent_ns = spent_ns;
    }

    /// Remaining time of the budget in nanoseconds; `None` if there is no budget.
    pub fn left_ns(&self) -> Option<u64> {
        Some(self.request.pace.budget_ns?.saturating_sub(self.spent_ns))
    }

    /// What was not measured, to stay within the budget.
    pub fn left_out(&self) -> &[String] {
        self.left_out.list()
    }

    /// The findings so far.
    pub fn findings(&self) -> Findings {
        let mut specs: Vec<SchedulerSpec> = self.list().into_iter().map(|(spec, _)| spec).collect();
        for run in self.measurements.iter().filter(|run| run.experiment.set >= FIRST_SET_OF_CANDIDATES) {
            let spec = spec_of(run);
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        gather(&self.measurements, &self.reference_scheduler(), &specs)
    }

    /// The next batch, or the recommendation.
    pub fn next_step(&mut self) -> Step {
        if let Some(batch) = self.again() {
            return Step::Measure(Box::new(batch));
        }
        while self.stage != Stage::Over {
            let stage = self.stage;
            let (title, questions) = self.questions(stage);
            self.stage = following(stage);
            if questions.is_empty() {
                continue;
            }
            self.tries = 0;
            self.timing = self.timing_of(stage, &questions);
            if let Some(questions) = self.fitting(stage, title, questions) {
                return Step::Measure(Box::new(self.batch(title, questions)));
            }
        }
        let recommendation = recommend(&self.device, &self.findings(), self.request.goal, &self.request.only);
        Step::Done(Box::new(recommendation))
    }

    /// The scheduler under which the device itself is measured: `none`, or the current one if
    /// `none` is not offered.
    fn reference_scheduler(&self) -> SchedulerSpec {
        if self.device.offers("none") { SchedulerSpec::named("none") } else { self.device.current.clone() }
    }

    /// The class and the class that the device behaves like, from measurements of the device alone.
    fn class(&self) -> (Class, Class) {
        let classified = classify(&self.device, &gather(&self.measurements, &self.reference_scheduler(), &[]));
        (classified.class, classified.behaves)
    }

    /// All candidates without duplicates, and whether each is only a control.
    fn list(&self) -> Vec<(SchedulerSpec, bool)> {
        let (class, behaves) = self.class();
        let mut list: Vec<(SchedulerSpec, bool)> = Vec::new();
        for candidate in short_list(&self.device, class, behaves, &self.request.only) {
            match list.iter_mut().find(|(spec, _)| *spec == candidate.spec) {
                Some((_, is_control)) => *is_control &= candidate.is_control,
                None => list.push((candidate.spec, candidate.is_control)),
            }
        }
        list
    }

    fn questions(&self, stage: Stage) -> (&'static str, Vec<Question>) {
        if !self.class().0.is_measured() {
            return ("", Vec::new());
        }
        match stage {
            Stage::Device => ("the device without a scheduler", self.of_device()),
            Stage::Candidates => ("the candidates", self.of_candidates()),
            Stage::Trials => ("settings of the best", self.of_trials()),
            Stage::Cost => ("coefficients of io.cost", self.of_cost()),
            Stage::Paced => ("latencies for io.cost", self.of_paced()),
            Stage::Over => ("", Vec::new()),
        }
    }

    fn of_device(&self) -> Vec<Question> {
        let mut probes: Vec<Probe> = COUNTS.map(Probe::Streams).to_vec();
        probes.extend(DEPTHS.map(Probe::Depth));
        probes.extend([Probe::Bandwidth, Probe::Others { write: false }]);
        probes.extend(self.device.may_write.then_some(Probe::Others { write: true }));
        if self.device.is_rotational && self.device.host != HostKind::Engine {
            probes.extend(ZONES.map(Probe::Zone));
        }
        let of_load = |(index, kind): (u32, u32)| {
            let is_first = index == kind && !self.request.load[index as usize].jobs.is_empty();
            is_first.then(|| [false, true].map(|is_full| Probe::Solo { group: index, is_full }))
        };
        probes.extend((0..).zip(solo::kinds(&self.request.load)).filter_map(of_load).flatten());
        self.under_bare(probes)
    }

    fn under_bare(&self, probes: Vec<Probe>) -> Vec<Question> {
        let spec = self.reference_scheduler();
        probes.into_iter().map(|probe| Question { probe, spec: spec.clone() }).collect()
    }

    fn of_candidates(&self) -> Vec<Question> {
        let findings = self.findings();
        let mut questions = Vec::new();
        for (spec, is_control) in self.list() {
            let mut probes = vec![Probe::Streams(STREAMS)];
            if !self.request.load.is_empty() {
                probes = if is_control { Vec::new() } else { vec![Probe::Load] };
            } else if !is_control {
                probes.extend([Probe::Depth(findings.knee()), Probe::AmongReaders]);
                if self.device.may_write {
                    probes.push(Probe::AmongWriters);
                }
                if self.device.has_groups && !WITHOUT_SHARES.contains(&spec.name.as_str()) {
                    probes.push(Probe::Shares(findings.backlog()));
                }
            }
            questions.extend(probes.into_iter().map(|probe| Question { probe, spec: spec.clone() }));
        }
        questions
    }

    /// Settings worth trying on the winner of any goal: what is measured does not depend on the
    /// goal.
    fn of_trials(&self) -> Vec<Question> {
        if !self.request.load.is_empty() {
            return Vec::new();
        }
        let findings = self.findings();
        let class = classify(&self.device, &findings);
        let mut questions: Vec<Question> = Vec::new();
        for goal in Goal::ALL {
            let only = &self.request.only;
            let case = Case { device: &self.device, findings: &findings, class: &class, goal, only };
            let Some(scores) = case.scores(RunsIn::Kernel) else { continue };
            for trial in trials(&case, &scores.best().spec) {
                let asked = trial.probes.into_iter().map(|probe| Question { probe, spec: trial.spec.clone() });
                for question in asked {
                    if !questions.contains(&question) {
                        questions.push(question);
                    }
                }
            }
        }
        questions
    }

    /// Questions for io.cost. Writes come first, so that reads find written data.
    fn of_cost(&self) -> Vec<Question> {
        if !self.request.with_cost {
            return Vec::new();
        }
        let depth = self.findings().knee().max(64);
        let ways = if self.device.may_write { &[true, false][..] } else { &[false] };
        let mut probes = Vec::new();
        probes.extend(ways.iter().map(|&write| Probe::Cost(Cost::Bytes { write })));
        probes.extend(ways.iter().map(|&write| Probe::Cost(Cost::Sequential { write, depth })));
        probes.extend(ways.iter().map(|&write| Probe::Cost(Cost::Random { write, depth })));
        self.under_bare(probes)
    }

    fn of_paced(&self) -> Vec<Question> {
        let Some(cost) = self.findings().cost else { return Vec::new() };
        let paced = |write: bool, random_per_s: f64| Probe::Cost(Cost::Paced { write, ios_per_s: paced(random_per_s) });
        let mut probes = vec![paced(false, cost.read[2])];
        probes.extend(cost.write.map(|write| paced(true, write[2])));
        self.under_bare(probes)
    }

    fn timing_of(&self, stage: Stage, questions: &[Question]) -> Timing {
        let pace = self.request.pace;
        let mut timing = Timing { ramp_ns: pace.ramp_ns, step_ns: pace.step_ns, repeats: pace.repeats, first_set: 1 };
        let part = Self::part(stage);
        match stage {
            Stage::Cost | Stage::Paced => {
                timing.repeats = 1;
                timing.step_ns = pace.cost_step_ns;
            }
            Stage::Device => {}
            _ => {
                timing.first_set = FIRST_SET_OF_CANDIDATES;
                if self.device.host == HostKind::Simulator {
                    timing.ramp_ns = timing.ramp_ns.max(SETTLING_NS);
                }
            }
        }
        let load_ns = self.request.load_ns.filter(|_| stage == Stage::Candidates);
        if let Some(load_ns) = load_ns {
            // The start of the user's load belongs to the measurement.
            (timing.step_ns, timing.ramp_ns) = (load_ns.max(timing.step_ns), 0);
        } else if self.device.host == HostKind::Simulator && !self.device.is_rotational {
            // Flash completes many more requests per second than a disk, so shorter steps suffice.
            timing.step_ns = (timing.step_ns / 3).max(SHORTEST_STEP_NS);
        }
        let is_cost = matches!(stage, Stage::Cost | Stage::Paced);
        if let Some(budget_ns) = pace.budget_ns.filter(|_| !is_cost) {
            let share_ns = fraction(budget_ns, part).min(budget_ns.saturating_sub(self.spent_ns));
            let beside_ns = questions.len() as u64 * (timing.ramp_ns + self.overhead_ns());
            let once_ns = (share_ns / u64::from(timing.repeats)).saturating_sub(beside_ns);
            let longest_ns = once_ns / self.steps_of(questions).max(1);
            timing.step_ns = timing.step_ns.min(longest_ns).max(SHORTEST_STEP_NS);
        }
        timing
    }

    /// The questions that fit into the remaining time; io.cost has its own time.
    fn fitting(&mut self, stage: Stage, title: &str, questions: Vec<Question>) -> Option<Vec<Question>> {
        let left_ns = self.left_ns().filter(|_| !matches!(stage, Stage::Cost | Stage::Paced));
        let Some(left_ns) = left_ns else { return Some(questions) };
        let beside_ns = self.timing.ramp_ns + self.overhead_ns();
        let length_ns = |question: &Question| self.timing.step_ns * self.steps(question.probe) + beside_ns;
        let lengths: Vec<(&SchedulerSpec, u64)> = questions.iter().map(|it| (&it.spec, length_ns(it))).collect();
        let Some(fit) = fit(&lengths, self.timing.repeats, &self.device.current, left_ns) else {
            self.left_out.note(title.to_owned());
            return None;
        };
        // Limits the repetitions of a stage to its part of the budget, because later stages need
        // theirs.
        let once_ns: u64 = lengths.iter().zip(&fit.is_kept).filter(|(_, kept)| **kept).map(|((_, ns), _)| ns).sum();
        let part_ns = fraction(self.request.pace.budget_ns.unwrap_or(left_ns), Self::part(stage));
        let in_part = u32::try_from(part_ns / once_ns.max(1)).unwrap_or(u32::MAX).max(1);
        let (repeats, wanted) = (fit.repeats.min(in_part), self.timing.repeats);
        if repeats < wanted {
            self.left_out.note(format!("{} of {wanted} repetitions of {title}", wanted - repeats));
            self.timing.repeats = repeats;
        }
        let is_about_device = stage == Stage::Device;
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (question, is_kept) in questions.into_iter().zip(fit.is_kept) {
            if is_kept { kept.push(question) } else { dropped.push(question) }
        }
        for question in dropped {
            let what = if is_about_device { question.probe.name() } else { question.spec.to_string() };
            self.left_out.note(what);
        }
        Some(kept)
    }

    /// A stage's part of the budget.
    fn part(stage: Stage) -> f64 {
        let [for_device, for_candidates] = PARTS;
        match stage {
            Stage::Device => for_device,
            Stage::Candidates => for_candidates,
            _ => 1.0 - for_device - for_candidates,
        }
    }

    /// Length of a run of this probe, in steps.
    fn steps(&self, probe: Probe) -> u64 {
        let is_wait = matches!(probe, Probe::AmongReaders | Probe::AmongWriters);
        let is_slow = || self.findings().random_read_p50_ns().is_some_and(|p50_ns| p50_ns >= SLOW_READ_NS);
        if is_wait && is_slow() { STEPS_OF_A_WAIT } else { 1 }
    }

    fn steps_of(&self, questions: &[Question]) -> u64 {
        questions.iter().map(|question| self.steps(question.probe)).sum()
    }

    /// Time that a run takes beyond its own length.
    fn overhead_ns(&self) -> u64 {
        match self.device.host {
            HostKind::Simulator => 0,
            HostKind::Engine => SECOND_NS / 10,
            HostKind::Native => SECOND_NS / 4,
        }
    }

    fn batch(&mut self, title: &str, questions: Vec<Question>) -> Batch {
        let Timing { repeats, step_ns, .. } = self.timing;
        let timed: Vec<(&Question, Timing)> = questions
            .iter()
            .map(|question| (question, Timing { step_ns: step_ns * self.steps(question.probe), ..self.timing }))
            .collect();
        let mut experiments = Vec::new();
        for set in 0..repeats {
            // Each repetition starts at another question and every second one runs backwards, so
            // that drift becomes noise instead of bias.
            let mut order: Vec<&(&Question, Timing)> = timed.iter().collect();
            let shift = set as usize * questions.len() / repeats.max(1) as usize;
            order.rotate_left(shift);
            if set % 2 == 1 {
                order.reverse();
            }
            experiments.extend(order.into_iter().map(|(question, timing)| {
                question.probe.experiment(&self.device, &question.spec, &self.request.load, *timing, set)
            }));
        }
        let lengths_ns: u64 = experiments.iter().map(Experiment::length_ns).sum();
        self.spent_ns += lengths_ns + experiments.len() as u64 * self.overhead_ns();
        let is_bounded = !questions.iter().any(|question| matches!(question.probe, Probe::Cost(_)));
        let mut what = what_of(questions.iter().map(|question| question.probe));
        let is_load = questions.iter().any(|question| question.probe == Probe::Load);
        if let Some(load_ns) = self.request.load_ns.filter(|load_ns| is_load && *load_ns > step_ns) {
            let [part, whole] = [step_ns, load_ns].map(|ns| ns as f64 / SECOND_NS as f64);
            what.push(format!(
                "only the first {part:.1} s of its {whole:.0} s, to keep the time limit: --budget or --thorough"
            ));
        }
        self.pending = questions;
        Batch { title: title.to_owned(), what, experiments, is_bounded }
    }

    /// Questions of the last batch that were too noisy, asked again for twice as long, if that fits
    /// the budget.
    fn again(&mut self) -> Option<Batch> {
        let pending = std::mem::take(&mut self.pending);
        let is_of_candidates = self.timing.first_set >= FIRST_SET_OF_CANDIDATES;
        let mut found = noisy(&self.measurements);
        found.extend(cut_short(&self.measurements));
        let is_noisy = |question: &Question| {
            found.iter().any(|noisy| {
                noisy.is_candidates == is_of_candidates
                    && noisy.probe == question.probe.name()
                    && noisy.spec == question.spec.to_string()
            })
        };
        let questions: Vec<Question> = pending.into_iter().filter(is_noisy).collect();
        if questions.is_empty() || self.tries >= TRIES || self.timing.repeats < 2 {
            return None;
        }
        let timing = self.affordable(&questions)?;
        self.measurements.retain(|run| {
            let own = run.experiment.set >= FIRST_SET_OF_CANDIDATES;
            let is_replaced = questions
                .iter()
                .any(|question| question.probe.name() == run.experiment.workload && question.spec == spec_of(run));
            own != is_of_candidates || !is_replaced
        });
        self.tries += 1;
        self.timing = timing;
        Some(self.batch("again, twice as long: runs that varied too much or had long waits", questions))
    }

    /// Timing with steps twice as long and as many repetitions as fit; `None` if not even two do.
    fn affordable(&self, questions: &[Question]) -> Option<Timing> {
        let step_ns = self.timing.step_ns * 2;
        let first_set = self.timing.first_set + self.timing.repeats;
        let beside_ns = questions.len() as u64 * (self.timing.ramp_ns + self.overhead_ns());
        let once_ns = self.steps_of(questions) * step_ns + beside_ns;
        // Repeating noisy device probes must not use up the time of the candidates.
        let is_device = self.timing.first_set < FIRST_SET_OF_CANDIDATES;
        let [_, for_candidates] = PARTS;
        let reserved = if is_device { for_candidates } else { 0.0 };
        let left_ns = self
            .request
            .pace
            .budget_ns
            .map(|budget_ns| budget_ns.saturating_sub(self.spent_ns).saturating_sub(fraction(budget_ns, reserved)));
        let fits = |repeats: &u32| left_ns.is_none_or(|left_ns| u64::from(*repeats) * once_ns <= left_ns);
        let repeats = (2..=self.timing.repeats).rev().find(fits)?;
        Some(Timing { step_ns, first_set, repeats, ..self.timing })
    }
}

/// One line per kind of probe, such as `random 4 KiB reads, number in flight: 1/2/4`.
fn what_of(probes: impl Iterator<Item = Probe>) -> Vec<String> {
    let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
    for (text, number) in probes.map(Probe::what) {
        let at = kinds.iter().position(|(known, _)| *known == text).unwrap_or_else(|| {
            kinds.push((text, Vec::new()));
            kinds.len() - 1
        });
        let number = number.map(|number| number.to_string()).filter(|number| !kinds[at].1.contains(number));
        kinds[at].1.extend(number);
    }
    let line = |(text, numbers): (&str, Vec<String>)| match numbers.is_empty() {
        true => text.to_owned(),
        false => format!("{text}: {}", numbers.join("/")),
    };
    kinds.into_iter().map(line).collect()
}

/// The batch of iostune: 1, 2, 4 and 8 readers under each scheduler.
pub fn classic_batch(device: &Device, specs: &[SchedulerSpec], pace: Pace) -> Batch {
    let timing = Timing {
        ramp_ns: pace.ramp_ns,
        step_ns: pace.step_ns,
        repeats: pace.repeats,
        first_set: FIRST_SET_OF_CANDIDATES,
    };
    let counts = || COUNTS.into_iter().filter(|count| *count <= STREAMS);
    let one_set = |set: u32| {
        specs.iter().flat_map(move |spec| {
            counts().map(move |count| Probe::Streams(count).experiment(device, spec, &[], timing, set))
        })
    };
    Batch {
        title: "parallel sequential readers".to_owned(),
        what: what_of(counts().map(Probe::Streams)),
        experiments: (0..timing.repeats).flat_map(one_set).collect(),
        is_bounded: true,
    }
}

const fn following(stage: Stage) -> Stage {
    match stage {
        Stage::Device => Stage::Candidates,
        Stage::Candidates => Stage::Trials,
        Stage::Trials => Stage::Cost,
        Stage::Cost => Stage::Paced,
        Stage::Paced | Stage::Over => Stage::Over,
    }
}

/// 0.9 times the random rate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "requests a second, below 2^32")]
fn paced(random_per_s: f64) -> u32 {
    (0.9 * random_per_s).clamp(1.0, f64::from(u32::MAX)) as u32
}

/// A fraction of a duration.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "smaller than the time")]
fn fraction(whole_ns: u64, part: f64) -> u64 {
    (whole_ns as f64 * part) as u64
}
