//! The runs of an [`Experiment`](crate::Experiment): simulated ones on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hoistway_experiment::{Exit, Experiment, Host, LiveFigures, Measurement, Progress, RunError};

use crate::error::Error;
use crate::plan::check::name_of;

/// Follows the runs of an experiment. The methods are called from several threads.
pub trait Watch: Sync {
    /// Asked at least twice a second of wall time: whether the runs are to end at once.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// A run is complete: `done` of `total` are.
    fn finished(&self, _done: usize, _total: usize) {}
}

/// Runs without an observer.
#[derive(Copy, Clone, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// One run's progress, which ends it if the user or another run's failure does.
struct Listener<'a> {
    watch: &'a dyn Watch,
    is_over: &'a AtomicBool,
}

impl Progress for Listener<'_> {
    fn started(&mut self, _experiment: &Experiment) {}

    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}

    fn cancelled(&self) -> bool {
        self.watch.is_cancelled() || self.is_over.load(Ordering::Relaxed)
    }
}

/// Makes the runs, and returns their measurements in the order of `experiments`.
pub(crate) fn make(
    experiments: &[Experiment],
    open: &(dyn Fn() -> Result<Box<dyn Host>, Error> + Sync),
    workers: usize,
    watch: &dyn Watch,
) -> Result<Vec<Measurement>, Error> {
    let (next, done, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<Measurement>>> = Mutex::new(vec![None; experiments.len()]);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let work = || -> Result<(), Error> {
        let mut host = open()?;
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(experiment) = experiments.get(index) else { break };
            let measured = host.run(experiment, &mut Listener { watch, is_over: &is_over });
            let measurement = match measured {
                Ok(measurement) => measurement,
                Err(RunError::Cancelled) => return Err(Error { messages: Vec::new(), exit: Exit::Interrupted }),
                Err(error) => return Err(Error::from(error).at(name_of(experiment))),
            };
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = Some(measurement);
            watch.finished(done.fetch_add(1, Ordering::Relaxed) + 1, experiments.len());
        }
        Ok(())
    };
    let guarded = || {
        if let Err(error) = work() {
            is_over.store(true, Ordering::Relaxed);
            // The first failure is the cause; the runs that it cancelled fail after it.
            failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers.clamp(1, experiments.len().max(1)) {
            scope.spawn(guarded);
        }
        guarded();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(results.into_iter().flatten().collect())
}
