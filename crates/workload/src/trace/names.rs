//! Names for what queues and schedulers know by number: processes, groups, the scheduler itself.

use std::fmt::Display;

use block::{ContextId, GroupId};

use super::Tracer;

/// Processes are numbered from here on.
const FIRST_PID: u32 = 1_000;

/// Which of an issuer's queues a message is about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct QueueName {
    /// The issuer.
    pub context: ContextId,
    /// Whether it is its sync one.
    pub is_sync: bool,
    /// Whether it is one that is not idled for, where the scheduler's messages say so.
    pub is_no_idle: Option<bool>,
}

/// The names of a run.
#[derive(Clone, Debug)]
pub struct Names {
    scheduler: String,
    /// By context; "" for one that nobody uses.
    processes: Vec<String>,
    /// By group.
    groups: Vec<String>,
}

impl Names {
    /// `processes` are named by context, `groups` by id, the root `/`.
    pub fn new(scheduler: &str, processes: Vec<String>, groups: Vec<String>) -> Self {
        Self { scheduler: scheduler.to_owned(), processes, groups }
    }

    /// Of the groups, by id.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The number that a trace shows for a context.
    pub const fn pid_of(context: ContextId) -> u32 {
        FIRST_PID + context.0
    }

    /// Names all processes, before the first of them does anything.
    pub fn introduce(&self, at_ns: block::Nanos, tracer: &mut dyn Tracer) {
        for (context, name) in (0..).map(ContextId).zip(&self.processes) {
            if !name.is_empty() {
                tracer.process(at_ns, Self::pid_of(context), name);
            }
        }
    }

    /// A message with its prefix. A scheduler's as CFQ wrote it: whose queue and whether it is the sync one
    /// (`cfq19226S /cgrp7 `; in 4.20 with a mark for one that is not idled for, `cfq19226SN `, and the group, which the
    /// kernel's tracer attaches to the event since 4.14, behind it as before: blkparse cannot read the attached ones), else which group (`/cgrp7 `), else the scheduler alone (`cfq `). A limiter's begins with its
    /// name, blk-throttle's with the `throtl ` that the kernel writes.
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
