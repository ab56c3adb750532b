//! The loop: asks, hears, asks again what was too noisy, and recommends.
//!
//! ```text
//! device (streams, depths, zones) -> candidates (all of them, interleaved) -> trials (settings of the winner) -> io.cost
//! ```
//! It has no clock: what a batch costs is what its experiments say, unless it is told what they took. Steps are shortened to fit
//! the budget; what does not fit then is left out, and said to be.

use experiment::{Experiment, Group, Measurement, SchedulerSpec};

use crate::budget::{LeftOut, fit};
use crate::candidates::{Carrier, short_list};
use crate::class::{Class, classify};
use crate::device::{Device, HostKind};
use crate::findings::{FIRST_SET_OF_CANDIDATES, Findings, cut_short, gather, noisy, spec_of};
use crate::probe::{Cost, Probe, Timing};
use crate::recommendation::Recommendation;
use crate::rules::settings::trials;
use crate::rules::{Case, recommend};
use crate::score::{Goal, STREAMS};

const SECOND_NS: u64 = 1_000_000_000;
/// Streams of the staircase.
const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];
/// Depths of random reads.
const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Where zones are read, in percent.
const ZONES: [u8; 5] = [0, 25, 50, 75, 98];
/// Parts of the budget: what the device alone, and what the candidates may take; the rest is for trials and noise.
const PARTS: [f64; 2] = [0.35, 0.45];
/// The same where waits decide, which take longer to know than rates.
const PARTS_FOR_LATENCY: [f64; 2] = [0.25, 0.60];
/// A random read that takes as long, in nanoseconds, leaves a step with too few of them for a 99th percentile,
const SLOW_READ_NS: f64 = 2e6;
/// so that a wait is then looked at for so many steps, if it is what matters.
const STEPS_OF_A_WAIT: u64 = 4;
/// Nothing shorter says anything.
const SHORTEST_STEP_NS: u64 = 300_000_000;
/// Noisy steps are repeated so often, each time twice as long.
const TRIES: u32 = 2;
/// Schedulers that are known to hold no shares: nobody needs to look.
const WITHOUT_SHARES: [&str; 6] = ["none", "noop", "mq-deadline", "deadline", "kyber", "current"];

/// How long and how often.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Measured per run, in nanoseconds.
    pub step_ns: u64,
    /// Not measured before it, in nanoseconds.
    pub ramp_ns: u64,
    /// Repetitions.
    pub repeats: u32,
    /// Measured per coefficient of io.cost, in nanoseconds.
    pub cost_step_ns: u64,
    /// For everything but io.cost, in nanoseconds; none = as long as it takes.
    pub budget_ns: Option<u64>,
}

/// What the user wants.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// What matters most.
    pub goal: Goal,
    /// How long.
    pub pace: Pace,
    /// Candidates instead of the class's own; empty = those.
    pub only: Vec<SchedulerSpec>,
    /// The user's own load, which then decides instead of ours; empty = none.
    pub load: Vec<Group>,
    /// How long that takes by itself, in nanoseconds: a run lasts as long, if the budget allows; none = it has no end.
    pub load_ns: Option<u64>,
    /// Coefficients of io.cost as well.
    pub with_cost: bool,
    /// Nothing is measured.
    pub by_facts: bool,
}

/// What is to be measured next, in this order.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// In words.
    pub title: String,
    /// What it does to the device.
    pub what: Vec<String>,
    /// The runs.
    pub experiments: Vec<Experiment>,
    /// They are over when the budget is; those of io.cost take what they need.
    pub is_bounded: bool,
}

/// What comes next.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Measure this and tell.
    Measure(Box<Batch>),
    /// That is all.
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

/// Asks and hears.
#[derive(Clone, Debug)]
pub struct Tuner {
    device: Device,
    request: Request,
    measurements: Vec<Measurement>,
    stage: Stage,
    /// Asked last.
    pending: Vec<Question>,
    timing: Timing,
    /// How often it was asked again.
    tries: u32,
    spent_ns: u64,
    left_out: LeftOut,
}

impl Tuner {
    /// Nothing is known beyond the facts.
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

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What was asked for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Everything heard, except what was replaced by a longer look.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// Takes the answers to the last batch. What was asked under a scheduler and has no answer, because the time was over,
    /// takes the scheduler's other answers along: half a candidate cannot be compared.
    pub fn hear(&mut self, answers: Vec<Measurement>) {
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
        // Of a longer look the shorter one is gone already.
        self.measurements
            .retain(|run| run.experiment.set < FIRST_SET_OF_CANDIDATES || !missing.contains(&spec_of(run)));
        self.measurements.extend(answers.into_iter().filter(|run| !missing.contains(&spec_of(run))));
    }

    /// So much time is gone by a real clock since the beginning, whatever the experiments say.
    pub fn spent(&mut self, spent_ns: u64) {
        self.spent_ns = spent_ns;
    }

    /// Time that is left of the budget, in nanoseconds; none = there is none to keep.
    pub fn left_ns(&self) -> Option<u64> {
        Some(self.request.pace.budget_ns?.saturating_sub(self.spent_ns))
    }

    /// What was not measured, to keep the budget.
    pub fn left_out(&self) -> &[String] {
        self.left_out.list()
    }

    /// What has been found so far.
    pub fn findings(&self) -> Findings {
        let mut specs: Vec<SchedulerSpec> = self.list().into_iter().map(|(spec, _)| spec).collect();
        for run in self.measurements.iter().filter(|run| run.experiment.set >= FIRST_SET_OF_CANDIDATES) {
            let spec = spec_of(run);
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        gather(&self.measurements, &self.bare(), &specs)
    }

    /// What to measure next, or the recommendation.
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

    /// The scheduler that leaves the device alone.
    fn bare(&self) -> SchedulerSpec {
        if self.device.offers("none") { SchedulerSpec::named("none") } else { self.device.current.clone() }
    }

    /// Class by what the device alone has shown.
    fn class(&self) -> (Class, Class) {
        let classified = classify(&self.device, &gather(&self.measurements, &self.bare(), &[]));
        (classified.class, classified.behaves)
    }

    /// All candidates once, and whether each is a control only.
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
        probes.push(Probe::Bandwidth);
        if self.device.is_rotational && self.device.host != HostKind::Engine {
            probes.extend(ZONES.map(Probe::Zone));
        }
        self.under_bare(probes)
    }

    fn under_bare(&self, probes: Vec<Probe>) -> Vec<Question> {
        let spec = self.bare();
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

    /// Settings worth trying on the winner, and on what is set now if that may be kept.
    fn of_trials(&self) -> Vec<Question> {
        if !self.request.load.is_empty() {
            return Vec::new();
        }
        let findings = self.findings();
        let class = classify(&self.device, &findings);
        let Request { goal, only, .. } = &self.request;
        let case = Case { device: &self.device, findings: &findings, class: &class, goal: *goal, only };
        let Some(scores) = case.scores(Carrier::Kernel) else { return Vec::new() };
        let found = trials(&case, &scores.best().spec).into_iter();
        found
            .flat_map(|trial| {
                let spec = trial.spec;
                trial.probes.into_iter().map(move |probe| Question { probe, spec: spec.clone() })
            })
            .collect()
    }

    /// Writes first, so that reads find what was written.
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
        let part = self.part(stage);
        match stage {
            Stage::Cost | Stage::Paced => {
                timing.repeats = 1;
                timing.step_ns = pace.cost_step_ns;
            }
            Stage::Device => {}
            _ => timing.first_set = FIRST_SET_OF_CANDIDATES,
        }
        let load_ns = self.request.load_ns.filter(|_| stage == Stage::Candidates);
        if let Some(load_ns) = load_ns {
            // What it begins with belongs to it.
            (timing.step_ns, timing.ramp_ns) = (load_ns.max(timing.step_ns), 0);
        } else if self.device.host == HostKind::Simulator && !self.device.is_rotational {
            // A second of flash has as many requests as an hour of a disk.
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

    /// What of the questions fits into the time that is left; io.cost has its own.
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
        // Of a stage's repetitions only those that its part of the budget has room for: later stages need theirs.
        let once_ns: u64 = lengths.iter().zip(&fit.is_kept).filter(|(_, kept)| **kept).map(|((_, ns), _)| ns).sum();
        let part_ns = fraction(self.request.pace.budget_ns.unwrap_or(left_ns), self.part(stage));
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
    fn part(&self, stage: Stage) -> f64 {
        let [for_device, for_candidates] = self.parts();
        match stage {
            Stage::Device => for_device,
            Stage::Candidates => for_candidates,
            _ => 1.0 - for_device - for_candidates,
        }
    }

    const fn parts(&self) -> [f64; 2] {
        if matches!(self.request.goal, Goal::Latency) { PARTS_FOR_LATENCY } else { PARTS }
    }

    /// How many steps long a run of this is.
    fn steps(&self, probe: Probe) -> u64 {
        let is_wait = matches!(probe, Probe::AmongReaders | Probe::AmongWriters);
        let is_slow = || self.findings().random_read_p50_ns().is_some_and(|p50_ns| p50_ns >= SLOW_READ_NS);
        if is_wait && self.request.goal == Goal::Latency && is_slow() { STEPS_OF_A_WAIT } else { 1 }
    }

    fn steps_of(&self, questions: &[Question]) -> u64 {
        questions.iter().map(|question| self.steps(question.probe)).sum()
    }

    /// What a run costs beside its own time.
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
            // Each repetition begins elsewhere and every other one goes backwards: drift becomes noise, not bias.
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
                "of its {whole:.0} s only the first {part:.1} s, to fit the budget: --budget or --thorough"
            ));
        }
        self.pending = questions;
        Batch { title: title.to_owned(), what, experiments, is_bounded }
    }

    /// What was asked last and came out too noisy, once more and twice as long, while that fits.
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
        Some(self.batch("again, twice as long: what varied or waited too much", questions))
    }

    /// Twice as long, as often as that fits, at least twice.
    fn affordable(&self, questions: &[Question]) -> Option<Timing> {
        let step_ns = self.timing.step_ns * 2;
        let first_set = self.timing.first_set + self.timing.repeats;
        let beside_ns = questions.len() as u64 * (self.timing.ramp_ns + self.overhead_ns());
        let once_ns = self.steps_of(questions) * step_ns + beside_ns;
        // Noise of the device alone must not cost the candidates their time.
        let is_device = self.timing.first_set < FIRST_SET_OF_CANDIDATES;
        let [_, for_candidates] = self.parts();
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

/// One line per kind of probe: `random 4 KiB reads, at a time: 1/2/4`.
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

/// iostune's question: 1, 2, 4 and 8 readers under each scheduler.
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

/// 0.9 times the rate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "requests a second, below 2^32")]
fn paced(random_per_s: f64) -> u32 {
    (0.9 * random_per_s).clamp(1.0, f64::from(u32::MAX)) as u32
}

/// A part of a time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "smaller than the time")]
fn fraction(whole_ns: u64, part: f64) -> u64 {
    (whole_ns as f64 * part) as u64
}
