//! What the queue traces, as the kernel's block layer would have told it.

use elevator::Any;
use queue::{RequestQueue, Said, TraceEvent};
use workload::trace::{Action, Event, Names, Tracer};

/// Empties the queue's trace into the tracer.
pub(crate) fn pass_on(queue: &mut RequestQueue<Any>, names: &Names, tracer: &mut dyn Tracer) {
    while let Some(Said { limiter, message }) = queue.take_message() {
        tracer.message(message.at_ns, &names.message(limiter, message.queue, message.group, message));
    }
    while let Some(event) = queue.take_event() {
        if let Some(action) = event.kind.letter().and_then(Action::of_letter) {
            tracer.event(&event_of(&event, action));
        }
    }
}

fn event_of(event: &TraceEvent, action: Action) -> Event {
    let attributes = &event.attributes;
    // Completions come by interrupt, which is nobody's.
    let pid = if matches!(action, Action::Completed) { 0 } else { Names::pid_of(attributes.context) };
    Event {
        at_ns: event.at_ns,
        cpu: attributes.hardware_queue.0,
        pid,
        action,
        operation: attributes.operation,
        flags: attributes.flags,
        extent: attributes.extent,
        error: event.status.errno(),
    }
}
