//! Devices that do not answer: all are asked at the same time, none is waited for longer than for its deadline, and
//! what concerns one is refused before anything is changed.

use std::thread;

use engine::ShardHandle;

use super::report::SilenceReport;
use super::{Devices, Names, Shard, lock};
use crate::configuration::{Place, Problem};
use crate::control::Refusal;
use crate::server::reload::Change;

impl Devices {
    /// Asks all devices at the same time; the answers are in the order of the devices.
    pub(super) fn each<T: Send>(&self, ask: impl Fn(&ShardHandle) -> T + Sync) -> Vec<T> {
        let Some((first, others)) = self.shards.split_first() else { return Vec::new() };
        thread::scope(|scope| {
            let asked: Vec<_> = others
                .iter()
                .map(|shard| {
                    let ask = &ask;
                    // Without a thread it is asked here, after the others.
                    (shard, thread::Builder::new().spawn_scoped(scope, move || ask(&shard.handle)).ok())
                })
                .collect();
            let mut answers = vec![ask(&first.handle)];
            for (shard, thread) in asked {
                let answer = thread.and_then(|thread| thread.join().ok());
                answers.push(answer.unwrap_or_else(|| ask(&shard.handle)));
            }
            answers
        })
    }

    /// The devices that have not answered for a while.
    pub fn silent(&self) -> Vec<SilenceReport> {
        let report = |shard: &Shard| {
            let since_s = shard.handle.silent_for()?.as_secs_f64();
            let (device, oldest_export) = (shard.handle.name().to_owned(), shard.handle.oldest_volume());
            Some(SilenceReport { device, since_s: (since_s * 10.0).round() / 10.0, oldest_export })
        };
        self.shards.iter().filter_map(report).collect()
    }

    /// The exports whose backings have not answered for a while, with the time in seconds.
    pub fn unanswered(&self) -> Vec<(String, u64)> {
        self.each(|handle| handle.unanswered().unwrap_or_default()).concat()
    }

    /// Checks that the devices with a group answer, so that a change of it is made on all or none.
    ///
    /// # Errors
    /// One does not.
    pub(super) fn check_group(&self, group: &str) -> Result<(), Refusal> {
        for shard in self.shards.iter().filter(|shard| lock(&shard.names).has_group(group)) {
            shard.handle.check_answers().map_err(|error| {
                Refusal::new("group", format!("{}; the group was changed on no device", error.message))
            })?;
        }
        Ok(())
    }

    /// Checks that the devices that a reload changes answer, so that it changes everything or nothing.
    ///
    /// # Errors
    /// Those that do not.
    pub fn check_changes(&self, changes: &[Change]) -> Result<(), Vec<Problem>> {
        let concerned = self.shards.iter().filter(|shard| changes.iter().any(|change| shard.is_concerned_by(change)));
        let silent = concerned.filter_map(|shard| shard.handle.check_answers().err());
        let problem = |error: engine::EngineError| Problem::new(&Place::default(), error.message, error.help);
        let problems: Vec<Problem> = silent.map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

impl Names {
    fn has_group(&self, path: &str) -> bool {
        self.groups.paths().any(|known| known == path)
    }
}

impl Shard {
    fn is_concerned_by(&self, change: &Change) -> bool {
        let names = lock(&self.names);
        match change {
            Change::Added { device, .. } | Change::Removed { device, .. } | Change::Scheduler { device, .. } => {
                device == self.handle.name()
            }
            Change::Weight { group, .. }
            | Change::LeafWeight { group, .. }
            | Change::Priority { group, .. }
            | Change::Limits { group, .. } => names.has_group(group),
        }
    }
}
