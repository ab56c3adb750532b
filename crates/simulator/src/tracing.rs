//! Forwards the queue's trace to the run's tracer, in the form of the kernel's block layer, and
//! records the first dispatches of the measured window.

use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::Elevator;
use hoistway_experiment::{DispatchRecorder, Dispatches, Progress};
use hoistway_queue::{RequestQueue, TraceEvent, TraceItem, TraceKind, TraceMessage};
use hoistway_workload::trace::Names;

/// The consumers of the queue's trace: the run's tracer and the recorder of dispatches.
pub(crate) struct TraceSinks {
    is_traced: bool,
    recorder: Option<DispatchRecorder>,
    /// The recorder after it became full, kept apart so that the queue no longer traces for it.
    recorded: Option<DispatchRecorder>,
}

impl TraceSinks {
    /// Sets up the tracer, if the run has one, and announces the names of the processes to it.
    pub(crate) fn of(queue: &mut RequestQueue<impl Elevator>, names: &Names, progress: &mut dyn Progress) -> Self {
        let tracer = progress.tracer();
        let is_traced = tracer.is_some();
        if let Some(tracer) = tracer {
            queue.set_tracing(true);
            names.introduce(0, tracer);
        }
        Self { is_traced, recorder: None, recorded: None }
    }

    /// Records the first `room` dispatches from now on.
    pub(crate) fn record(&mut self, queue: &mut RequestQueue<impl Elevator>, room: usize, begin_ns: Nanos) {
        if room > 0 {
            queue.set_tracing(true);
            self.recorder = Some(DispatchRecorder::new(room, begin_ns));
        }
    }

    /// Whether anything consumes the trace.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_traced || self.recorder.is_some()
    }

    /// Drains the queue's trace into every consumer.
    pub(crate) fn drain(
        &mut self,
        queue: &mut RequestQueue<impl Elevator>,
        names: &Names,
        progress: &mut dyn Progress,
    ) {
        let mut tracer = progress.tracer();
        while let Some(told) = queue.take_item() {
            let event = match told {
                TraceItem::Event(event) => event,
                TraceItem::Message(TraceMessage { limiter, message }) => {
                    if let Some(tracer) = &mut tracer {
                        tracer.message(message.at_ns, &hoistway_experiment::trace::line(names, limiter, &message));
                    }
                    continue;
                }
            };
            if let Some(tracer) = &mut tracer {
                let when = (event.at_ns, event.attributes.hardware_queue.0);
                hoistway_experiment::trace::emit_event(
                    *tracer,
                    event.kind.letter(),
                    when,
                    &event.attributes,
                    event.status,
                );
            }
            if let Some(recorder) = &mut self.recorder {
                note(recorder, &event);
            }
        }
        if self.recorder.as_ref().is_some_and(DispatchRecorder::is_full) {
            self.recorded = self.recorder.take();
            queue.set_tracing(self.is_traced);
        }
    }

    /// The dispatches recorded until `end_ns`; `groups` are the ids of the experiment's groups.
    pub(crate) fn dispatches(self, end_ns: Nanos, reasons: &[&str], groups: &[GroupId]) -> Option<Dispatches> {
        let recorder = self.recorded.or(self.recorder)?;
        recorder.finish(end_ns, reasons, |id| groups.iter().position(|known| *known == id))
    }
}

fn note(recorder: &mut DispatchRecorder, event: &TraceEvent) {
    match event.kind {
        TraceKind::Chosen => recorder.chosen(event.id, event.reason),
        TraceKind::Started => recorder.started(event.id, event.at_ns, &event.attributes),
        TraceKind::Completed => recorder.completed(event.id, event.at_ns),
        TraceKind::Held => {
            if let Some(reason) = event.reason {
                recorder.held(event.at_ns, reason);
            }
        }
        _ => {}
    }
}
