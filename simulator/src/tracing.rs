//! What the queue traces, as the kernel's block layer would have told it.

use elevator::Elevator;
use queue::{RequestQueue, Said};
use workload::trace::{Names, Tracer};

/// Empties the queue's trace into the tracer.
pub(crate) fn pass_on(queue: &mut RequestQueue<impl Elevator>, names: &Names, tracer: &mut dyn Tracer) {
    while let Some(Said { limiter, message }) = queue.take_message() {
        tracer.message(message.at_ns, &experiment::trace::line(names, limiter, &message));
    }
    while let Some(event) = queue.take_event() {
        let when = (event.at_ns, event.attributes.hardware_queue.0);
        experiment::trace::tell(tracer, event.kind.letter(), when, &event.attributes, event.status);
    }
}
