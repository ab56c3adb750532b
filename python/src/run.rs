//! Runs an experiment on a thread of its own, while the caller's thread listens for signals and reports progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use hoistway::{Error, Watch};
use pyo3::prelude::*;

use crate::error::exception;
use crate::experiment::Question;
use crate::policy;

/// How long Ctrl-C waits at most until it is seen.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// What the thread that runs the experiment reports.
#[expect(clippy::large_enum_variant, reason = "the large one is sent once per experiment")]
enum Event {
    /// Runs that are complete, of all.
    Finished(usize, usize),
    /// The end, and the exception of a policy in Python that led to it.
    Ended(Result<hoistway::Outcome, Error>, Option<PyErr>),
}

/// Passes progress on, and cancels the runs after a signal or an exception in a policy.
struct Follower<'a> {
    is_cancelled: &'a AtomicBool,
    /// Whether it runs a policy in Python.
    has_policy: bool,
    events: Sender<Event>,
}

impl Watch for Follower<'_> {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || (self.has_policy && policy::has_failed())
    }

    fn finished(&self, done: usize, total: usize) {
        // The receiver is there until the thread ends.
        let _ = self.events.send(Event::Finished(done, total));
    }
}

/// The results of an experiment.
#[pyclass(frozen, module = "hoistway._hoistway")]
pub struct Outcome(pub hoistway::Outcome);

#[pymethods]
impl Outcome {
    /// The text of `hoistway test --format json`.
    fn json(&self) -> String {
        self.0.json()
    }

    /// The table of `hoistway test`.
    fn table(&self) -> String {
        self.0.table()
    }

    /// The text of `hoistway test --format csv`.
    fn csv(&self, percentiles: Vec<f64>) -> String {
        self.0.csv(&percentiles)
    }

    /// What to know before the figures are believed.
    fn notes(&self) -> Vec<String> {
        self.0.notes()
    }

    /// The workload, scheduler, thread count and set of each run, with the samples of each second as CSV.
    fn samples(&self) -> Vec<(String, String, u32, u32, String)> {
        let runs = self.0.measurements().iter().map(|run| &run.experiment).enumerate();
        runs.map(|(index, it)| {
            let samples = self.0.samples(index).unwrap_or_default();
            (it.workload.clone(), it.scheduler.to_string(), it.threads, it.set, samples)
        })
        .collect()
    }

    /// The page of `hoistway test --format html`.
    fn html(&self) -> String {
        self.0.html()
    }
}

/// The fields of the Python dataclass `Plan`; a dict in Python.
#[derive(IntoPyObject)]
pub struct Plan {
    runs: usize,
    workloads: Vec<String>,
    schedulers: Vec<String>,
    groups: Vec<(String, u32)>,
    runtime_s: f64,
    ramp_s: f64,
}

/// Checks an experiment without running it.
#[pyfunction]
pub fn plan(py: Python<'_>, question: Question) -> PyResult<Plan> {
    let matrix = question.build().and_then(|experiment| experiment.plan()).map_err(|error| exception(py, &error))?;
    let groups = matrix.workloads.iter().flat_map(|plan| plan.groups.iter());
    let mut named: Vec<(String, u32)> = Vec::new();
    for group in groups.map(|group| (group.path.clone(), group.weight.get())) {
        if !named.contains(&group) {
            named.push(group);
        }
    }
    Ok(Plan {
        runs: matrix.experiments().len(),
        workloads: matrix.workloads.iter().map(|plan| plan.name.clone()).collect(),
        schedulers: matrix.schedulers.iter().map(ToString::to_string).collect(),
        groups: named,
        runtime_s: Duration::from_nanos(matrix.runtime_ns).as_secs_f64(),
        ramp_s: Duration::from_nanos(matrix.ramp_ns).as_secs_f64(),
    })
}

/// Runs an experiment; `progress(done, total)` is called after each run.
#[pyfunction]
#[pyo3(signature = (question, progress=None))]
pub fn run(py: Python<'_>, question: Question, progress: Option<Bound<'_, PyAny>>) -> PyResult<Outcome> {
    let experiment = question.build().map_err(|error| exception(py, &error))?;
    let has_policy = policy::names_one(question.scheduler_names());
    let is_cancelled = &AtomicBool::new(false);
    let (sender, mut events) = channel();
    let follower = Follower { is_cancelled, has_policy, events: sender };
    let ended = thread::scope(|scope| {
        scope.spawn(move || {
            // An exception in a policy ends the run that uses it, so there is one such run at a time.
            let turn = has_policy.then(policy::turn);
            let result = experiment.run_watched(&follower);
            let failure = turn.and_then(|_turn| policy::take_failure());
            // The receiver is there until the thread ends.
            let _ = follower.events.send(Event::Ended(result, failure));
        });
        let ended = follow(py, &mut events, progress.as_ref());
        if ended.is_err() {
            is_cancelled.store(true, Ordering::Relaxed);
            let events = &mut events;
            // Until the runs have ended: a policy in Python needs the interpreter for that.
            py.detach(move || while events.recv().is_ok() {});
        }
        ended
    });
    let (result, failure) = ended?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    result.map(Outcome).map_err(|error| exception(py, &error))
}

/// Waits for the end; the error is the exception of a signal handler or of `progress`.
fn follow(
    py: Python<'_>,
    events: &mut Receiver<Event>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Result<hoistway::Outcome, Error>, Option<PyErr>)> {
    loop {
        let receiver = &mut *events;
        match py.detach(move || receiver.recv_timeout(CHECK_INTERVAL)) {
            Ok(Event::Ended(result, failure)) => return Ok((result, failure)),
            Ok(Event::Finished(done, total)) => {
                if let Some(progress) = progress {
                    progress.call1((done, total))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Only a panic ends the thread without a result, and leaving the scope passes it on.
            Err(RecvTimeoutError::Disconnected) => {
                return Ok((Err(Error::failed("the run ended without a result", "")), None));
            }
        }
        py.check_signals()?;
    }
}
