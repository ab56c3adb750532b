//! The runs of a test: simulated ones in parallel on all CPUs, real ones one after the other.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use hoistway_experiment::measurement::Flag;
use hoistway_experiment::{Experiment, Host, LiveFigures, Measurement, Progress, RunError};
use hoistway_workload::trace::Tracer;
use hoistway_workload::trace::blktrace::Writer;

use super::tracing;
use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::progress::{Display, Live};
use hoistway::plan::check::name_of;

/// How runs are executed.
#[derive(Copy, Clone)]
pub struct RunSettings<'a> {
    /// Creates a host for one worker.
    pub host: &'a (dyn Fn() -> Box<dyn Host> + Sync),
    /// Number of concurrent runs, at least 1.
    pub workers: usize,
    /// Idle time between two runs of a worker.
    pub cooldown: Duration,
    /// Checked between and during runs.
    pub interrupt: &'a Interrupt,
    /// The base name of traces, if they are wanted.
    pub trace_out: Option<&'a Path>,
    /// How many dispatches the measurement of a run records, for the page.
    pub dispatches: &'a (dyn Fn(&Experiment) -> usize + Sync),
}

enum Event {
    Started(usize),
    Advanced(usize, Live),
    Finished(usize, Box<Result<Measurement, Error>>),
    Cancelled,
}

/// Receives the progress of one run and forwards it.
struct Listener<'a> {
    index: usize,
    events: &'a Sender<Event>,
    interrupt: &'a Interrupt,
    is_over: &'a AtomicBool,
    trace: Option<Writer>,
    dispatches: usize,
}

impl Progress for Listener<'_> {
    fn started(&mut self, _experiment: &Experiment) {
        // If the receiver is gone, it has an error, and `cancelled` ends this run.
        let _ = self.events.send(Event::Started(self.index));
    }

    fn advanced(&mut self, figures: &LiveFigures<'_>) {
        let live = Live { elapsed_ns: figures.elapsed_ns, groups: figures.groups.to_vec() };
        let _ = self.events.send(Event::Advanced(self.index, live));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_asked() || self.is_over.load(Ordering::Relaxed)
    }

    fn wanted_dispatches(&self) -> usize {
        self.dispatches
    }

    fn tracer(&mut self) -> Option<&mut dyn Tracer> {
        self.trace.as_mut().map(|writer| writer as &mut dyn Tracer)
    }
}

impl RunSettings<'_> {
    /// Makes all runs. `store` gets each as it finishes, in any order, except those interrupted by
    /// a signal.
    ///
    /// # Errors
    /// The first run that failed, or the error of `store`; then no further run is started.
    pub fn run(
        &self,
        experiments: &[Experiment],
        display: &mut Display,
        store: &mut dyn FnMut(Measurement) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let workers = self.workers.clamp(1, experiments.len().max(1));
        let (events, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let events = events.clone();
                let (next, is_over) = (&next, &is_over);
                scope.spawn(move || self.work(experiments, next, is_over, &events));
            }
            drop(events);
            let mut outcome = Ok(());
            // Ends when the last worker has dropped its sender.
            for event in heard {
                let result = match event {
                    Event::Started(index) => {
                        display.started(&experiments[index]);
                        Ok(())
                    }
                    Event::Advanced(index, live) => {
                        display.advanced(&experiments[index], &live);
                        Ok(())
                    }
                    Event::Finished(index, result) => match *result {
                        Ok(measurement) => {
                            display.finished(&measurement);
                            store(measurement)
                        }
                        Err(error) => Err(error.at(name_of(&experiments[index]))),
                    },
                    Event::Cancelled => Ok(()),
                };
                if result.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                    outcome = outcome.and(result);
                }
            }
            outcome
        })
    }

    fn work(&self, experiments: &[Experiment], next: &AtomicUsize, is_over: &AtomicBool, events: &Sender<Event>) {
        let mut host = (self.host)();
        let mut is_first = true;
        while !self.interrupt.is_asked() && !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(experiment) = experiments.get(index) else { break };
            if !is_first {
                self.interrupt.rest(self.cooldown);
            }
            is_first = false;
            let event = match self.carry_out(host.as_mut(), experiment, (index, is_over), events) {
                Ok(None) => Event::Cancelled,
                Ok(Some(measurement)) => Event::Finished(index, Box::new(Ok(measurement))),
                Err(error) => Event::Finished(index, Box::new(Err(error))),
            };
            if events.send(event).is_err() {
                break;
            }
        }
    }

    /// One run with its trace; none if it was cancelled.
    fn carry_out(
        &self,
        host: &mut dyn Host,
        experiment: &Experiment,
        (index, is_over): (usize, &AtomicBool),
        events: &Sender<Event>,
    ) -> Result<Option<Measurement>, Error> {
        let trace = self.trace_out.map(|base| tracing::begin(base, experiment)).transpose()?;
        let dispatches = (self.dispatches)(experiment);
        let mut listener = Listener { index, events, interrupt: self.interrupt, is_over, trace, dispatches };
        let mut result = host.run(experiment, &mut listener);
        if matches!(&result, Ok(measurement) if measurement.flags.contains(&Flag::Disturbed)) {
            // Other processes used the device, so the run is made once more; the second result
            // counts in any case.
            result = host.run(experiment, &mut listener);
        }
        if let (Some(writer), Some(base)) = (listener.trace.take(), self.trace_out) {
            tracing::end(writer, base, experiment)?;
        }
        match result {
            Ok(measurement) => Ok(Some(measurement)),
            Err(RunError::Cancelled) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
