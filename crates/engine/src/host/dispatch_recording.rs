//! Records the first dispatches of a run's window for a diagram: listens from the window's start
//! until there are enough.

use std::sync::mpsc::{self, Receiver};

use hoistway_block::{GroupId, Nanos};
use hoistway_experiment::{DispatchRecorder, Dispatches};
use hoistway_queue::{TraceEvent, TraceKind};

use crate::error::EngineError;
use crate::shard::Traced;
use crate::volume::{GroupHandle, ShardHandle};

/// Records the shard's trace events.
pub(super) struct DispatchRecording {
    recorder: DispatchRecorder,
    window_begin_ns: Nanos,
    /// Receives the events that the shard sends only for the diagram; `None` while nothing is
    /// recorded, or if a tracer receives the events anyway.
    events: Option<Receiver<Vec<Traced>>>,
    shares_tracer: bool,
    has_begun: bool,
}

impl DispatchRecording {
    /// A recorder of at most `room` dispatches; `None` if `room` is 0. With `shares_tracer` it gets
    /// its events by [`DispatchRecording::record`] only.
    pub(super) fn new(room: usize, window_begin_ns: Nanos, shares_tracer: bool) -> Option<Self> {
        let recorder = DispatchRecorder::new(room, window_begin_ns);
        (room > 0).then_some(Self { recorder, window_begin_ns, events: None, shares_tracer, has_begun: false })
    }

    /// Starts and stops recording when it is time. Called a few times per second.
    pub(super) fn poll(&mut self, shard: &ShardHandle) -> Result<(), EngineError> {
        if self.shares_tracer {
            return Ok(());
        }
        if !self.has_begun && hoistway_linux::thread::monotonic_ns() >= self.window_begin_ns {
            self.has_begun = true;
            let (sender, events) = mpsc::channel();
            shard.set_trace_sink(Some(Box::new(move |traced| drop(sender.send(traced)))))?;
            // The recorder has not seen the requests that were queued before the events began, so
            // it starts now and not at the window's start.
            self.recorder.begin_at(hoistway_linux::thread::monotonic_ns());
            self.events = Some(events);
        }
        self.drain();
        if self.events.is_some() && self.recorder.is_full() {
            return self.end(shard);
        }
        Ok(())
    }

    /// Stops recording.
    pub(super) fn end(&mut self, shard: &ShardHandle) -> Result<(), EngineError> {
        if self.events.is_some() {
            shard.set_trace_sink(None)?;
            self.drain();
            self.events = None;
        }
        Ok(())
    }

    fn drain(&mut self) {
        let batches: Vec<Vec<Traced>> = self.events.iter().flat_map(Receiver::try_iter).collect();
        batches.iter().for_each(|batch| self.record(batch));
    }

    /// Records events.
    pub(super) fn record(&mut self, traced: &[Traced]) {
        for item in traced {
            if let Traced::Event(event) = item {
                note(&mut self.recorder, event);
            }
        }
    }

    /// The recorded dispatches; `groups` are those of the experiment.
    pub(super) fn dispatches(self, reasons: &[&str], groups: &[GroupHandle]) -> Option<Dispatches> {
        let group_of = |id: GroupId| groups.iter().position(|known| known.0 == id.0);
        self.recorder.finish(hoistway_linux::thread::monotonic_ns(), reasons, group_of)
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
