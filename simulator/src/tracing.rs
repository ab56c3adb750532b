//! What the queue traces, as the kernel's block layer would have told it: numbers and names instead of ids.

use block::{ContextId, GroupId};
use elevator::{Any, Message};
use queue::{RequestQueue, TraceEvent};
use workload::trace::{Action, Event, Tracer};

use crate::groups::GroupPlan;

/// Processes are numbered from here on.
const FIRST_PID: u32 = 1_000;

/// The names of a run.
#[derive(Debug)]
pub(crate) struct Names {
    scheduler: String,
    /// By context.
    processes: Vec<String>,
    /// By group; the root's is `/`.
    groups: Vec<String>,
}

impl Names {
    /// `processes` are the names by context; contexts beyond them are the journal's.
    pub(crate) fn new(scheduler: &str, mut processes: Vec<String>, contexts: u32, plan: &GroupPlan) -> Self {
        processes.resize(contexts as usize, "jbd".to_owned());
        let groups = std::iter::once("/".to_owned()).chain(plan.paths().map(|path| format!("/{path}"))).collect();
        Self { scheduler: scheduler.to_owned(), processes, groups }
    }

    /// Names all processes, before the first of them does anything.
    pub(crate) fn introduce(&self, tracer: &mut dyn Tracer) {
        for (context, name) in (0..).zip(&self.processes) {
            tracer.process(0, FIRST_PID + context, name);
        }
    }

    /// Empties the queue's trace into the tracer.
    pub(crate) fn pass_on(&self, queue: &mut RequestQueue<Any>, tracer: &mut dyn Tracer) {
        while let Some(message) = queue.take_message() {
            tracer.message(message.at_ns, &self.text_of(&message));
        }
        while let Some(event) = queue.take_event() {
            if let Some(action) = event.kind.letter().and_then(Action::of_letter) {
                tracer.event(&event_of(&event, action));
            }
        }
    }

    /// With its prefix: whose queue (`cfq19226S `), whose group (`/cgrp7 `), or the scheduler's name alone.
    fn text_of(&self, message: &Message) -> String {
        let path = |group: GroupId| self.groups.get(group.0 as usize).map_or("/", String::as_str);
        let scheduler = &self.scheduler;
        match (message.queue, message.group) {
            (Some((context, is_sync)), group) => {
                let kind = if is_sync { 'S' } else { 'A' };
                let group = group.map_or_else(String::new, |group| format!("{} ", path(group)));
                format!("{scheduler}{}{kind} {group}{message}", pid_of(context))
            }
            (None, Some(group)) => format!("{} {message}", path(group)),
            (None, None) => format!("{scheduler} {message}"),
        }
    }
}

fn pid_of(context: ContextId) -> u32 {
    FIRST_PID + context.0
}

fn event_of(event: &TraceEvent, action: Action) -> Event {
    let attributes = &event.attributes;
    // Completions come by interrupt, which is nobody's.
    let pid = if matches!(action, Action::Completed) { 0 } else { pid_of(attributes.context) };
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
