//! Names of the scheduler and of processes and groups, which queues and schedulers know by number.

use std::fmt::Display;

use hoistway_block::{ContextId, GroupId};

use super::Tracer;

/// Number of the first process.
const FIRST_PID: u32 = 1_000;

/// The queue of a context that a message is about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct QueueName {
    /// The context.
    pub context: ContextId,
    /// Whether it is the context's sync queue.
    pub is_sync: bool,
    /// Whether the scheduler does not idle for it; `None` if the scheduler's messages do not say
    /// so.
    pub is_no_idle: Option<bool>,
}

/// The names of a run.
#[derive(Clone, Debug)]
pub struct Names {
    scheduler: String,
    /// Names of processes by context; empty for an unused context.
    processes: Vec<String>,
    /// Paths of groups by id.
    groups: Vec<String>,
}

impl Names {
    /// `processes` is indexed by context, `groups` by id; the root group is `/`.
    pub fn new(scheduler: &str, processes: Vec<String>, groups: Vec<String>) -> Self {
        Self { scheduler: scheduler.to_owned(), processes, groups }
    }

    /// Paths of the groups, by id.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The process id that a trace shows for a context.
    pub const fn pid_of(context: ContextId) -> u32 {
        FIRST_PID + context.0
    }

    /// Names all processes; called before the first event.
    pub fn introduce(&self, at_ns: hoistway_block::Nanos, tracer: &mut dyn Tracer) {
        for (context, name) in (0..).map(ContextId).zip(&self.processes) {
            if !name.is_empty() {
                tracer.process(at_ns, Self::pid_of(context), name);
            }
        }
    }

    /// A message with its prefix.
    ///
    /// - A scheduler's message about a queue starts as CFQ wrote it: name, process id, `S` or `A`
    ///   for sync or async, then the group: `cfq19226S /cgrp7 `. In 4.20 a mark follows for a queue
    ///   that is not idled for, `cfq19226SN `. Since 4.14 the kernel attaches the group to the
    ///   event instead, but blkparse cannot read that, so it stays in the text here.
    /// - A message about a group starts with the group, `/cgrp7 `; any other message of a scheduler
    ///   with its name, `cfq `.
    /// - A limiter's message starts with the limiter's name; for blk-throttle that is `throtl `, as
    ///   in the kernel.
    pub fn message(
        &self,
        limiter: Option<&str>,
        queue: Option<QueueName>,
        group: Option<GroupId>,
        text: impl Display,
    ) -> String {
        let scheduler = &self.scheduler;
        if let Some(limiter) = limiter {
            let name = if limiter == "throttle" { "throtl" } else { limiter };
            let group = group.map_or_else(String::new, |group| format!("{} ", self.path(group)));
            return format!("{name} {group}{text}");
        }
        let path = |group: GroupId| self.path(group);
        match (queue, group) {
            (Some(QueueName { context, is_sync, is_no_idle }), group) => {
                let kind = if is_sync { 'S' } else { 'A' };
                let mark = is_no_idle.map_or("", |is_no_idle| if is_no_idle { "N" } else { " " });
                let group = group.map_or_else(String::new, |group| format!("{} ", path(group)));
                format!("{scheduler}{}{kind}{mark} {group}{text}", Self::pid_of(context))
            }
            (None, Some(group)) => format!("{} {text}", path(group)),
            (None, None) => format!("{scheduler} {text}"),
        }
    }

    fn path(&self, group: GroupId) -> &str {
        self.groups.get(group.0 as usize).map_or("/", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_as_those_of_2010() {
        let groups = ["/", "/cgrp7"].map(str::to_owned).to_vec();
        let names = Names::new("cfq", vec![String::new(), "fio".to_owned()], groups);
        let text = "sl_used=3 disp=1 charge=1 iops=1 sect=8";
        let of = |is_sync, is_no_idle| Some(QueueName { context: ContextId(1), is_sync, is_no_idle });
        let queue = of(true, None);
        assert_eq!(names.message(None, queue, Some(GroupId(1)), text), format!("cfq1001S /cgrp7 {text}"));
        assert_eq!(names.message(None, queue, None, "x"), "cfq1001S x");
        assert_eq!(names.message(None, of(false, None), Some(GroupId(0)), "x"), "cfq1001A / x");
        assert_eq!(names.message(None, of(true, Some(true)), Some(GroupId(1)), "x"), "cfq1001SN /cgrp7 x");
        assert_eq!(names.message(None, of(true, Some(false)), Some(GroupId(1)), "x"), "cfq1001S  /cgrp7 x");
        assert_eq!(names.message(None, None, Some(GroupId(1)), "x"), "/cgrp7 x");
        assert_eq!(names.message(None, None, None, "x"), "cfq x");
        assert_eq!(names.message(Some("throttle"), None, Some(GroupId(1)), "x"), "throtl /cgrp7 x");
        assert_eq!(names.message(Some("wbt"), None, None, "x"), "wbt x");
    }
}
