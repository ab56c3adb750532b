//! Converts the events of a queue to those of the block layer for a tracer; used by the hosts that
//! trace, simulator and engine.

use hoistway_block::{Nanos, Status};
use hoistway_elevator::{Attributes, Message};
use hoistway_workload::trace::{Action, Event, Names, QueueName, Tracer};

/// The message as a line, with the prefix that names the queue, group or limiter.
pub fn line(names: &Names, limiter: Option<&str>, message: &Message) -> String {
    let queue = message.queue.map(|(context, is_sync)| QueueName { context, is_sync, is_no_idle: message.is_no_idle });
    names.message(limiter, queue, message.group, message)
}

/// Emits an event of this letter; nothing for events that the kernel does not trace.
pub fn emit_event(
    tracer: &mut dyn Tracer,
    letter: Option<char>,
    (at_ns, cpu): (Nanos, u16),
    attributes: &Attributes,
    status: Status,
) {
    let Some(action) = letter.and_then(Action::of_letter) else { return };
    // Completions come from an interrupt, which belongs to no process.
    let pid = if matches!(action, Action::Completed) { 0 } else { Names::pid_of(attributes.context) };
    tracer.event(&Event {
        at_ns,
        cpu,
        pid,
        action,
        operation: attributes.operation,
        flags: attributes.flags,
        extent: attributes.extent,
        error: status.errno(),
    });
}
