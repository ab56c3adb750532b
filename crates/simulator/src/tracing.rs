//! What the queue traces, as the kernel's block layer would have told it, and the first dispatches of a window.

use block::{GroupId, Nanos};
use elevator::Elevator;
use experiment::{DispatchRecorder, Dispatches, Progress};
use queue::{RequestQueue, Said, Told, TraceEvent, TraceKind};
use workload::trace::Names;

/// Those who hear what the queue tells.
pub(crate) struct Audience {
    is_traced: bool,
    recorder: Option<DispatchRecorder>,
    /// The recorder when it has enough: the queue then tells nothing for its sake.
    recorded: Option<DispatchRecorder>,
}

impl Audience {
    /// Whoever hears the whole run. Its processes are introduced.
    pub(crate) fn of(queue: &mut RequestQueue<impl Elevator>, names: &Names, progress: &mut dyn Progress) -> Self {
        let tracer = progress.tracer();
        let is_traced = tracer.is_some();
        if let Some(tracer) = tracer {
            queue.set_tracing(true);
            names.introduce(0, tracer);
        }
        Self { is_traced, recorder: None, recorded: None }
    }

    /// From here on the first `room` dispatches are recorded.
    pub(crate) fn record(&mut self, queue: &mut RequestQueue<impl Elevator>, room: usize, begin_ns: Nanos) {
        if room > 0 {
            queue.set_tracing(true);
            self.recorder = Some(DispatchRecorder::new(room, begin_ns));
        }
    }

    /// Whether there is anybody.
    #[inline]
    pub(crate) fn listens(&self) -> bool {
        self.is_traced || self.recorder.is_some()
    }

    /// Empties the queue's trace to all of them.
    pub(crate) fn hear(&mut self, queue: &mut RequestQueue<impl Elevator>, names: &Names, progress: &mut dyn Progress) {
        let mut tracer = progress.tracer();
        while let Some(told) = queue.take_told() {
            let event = match told {
                Told::Event(event) => event,
                Told::Message(Said { limiter, message }) => {
                    if let Some(tracer) = &mut tracer {
                        tracer.message(message.at_ns, &experiment::trace::line(names, limiter, &message));
                    }
                    continue;
                }
            };
            if let Some(tracer) = &mut tracer {
                let when = (event.at_ns, event.attributes.hardware_queue.0);
                experiment::trace::tell(*tracer, event.kind.letter(), when, &event.attributes, event.status);
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

    /// The dispatches that were recorded until `end_ns`; `groups` are the ids of the experiment's groups.
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
