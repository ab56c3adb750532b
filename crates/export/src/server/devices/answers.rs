//! Devices that do not answer: all are asked at the same time, none is waited for longer than for
//! its deadline, and what concerns one is refused before anything is changed.

use std::thread;

use hoistway_engine::ShardHandle;

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

    /// Checks that the devices that a reload changes answer, so that it changes everything or
    /// nothing.
    ///
    /// # Errors
    /// Those that do not.
    pub fn check_changes(&self, changes: &[Change]) -> Result<(), Vec<Problem>> {
        let concerned = self.shards.iter().filter(|shard| changes.iter().any(|change| shard.is_concerned_by(change)));
        let silent = concerned.filter_map(|shard| shard.handle.check_answers().err());
        let problem = |error: hoistway_engine::EngineError| Problem::new(&Place::default(), error.message, error.help);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};
    use std::time::{Duration, Instant};

    use hoistway_block::Priority;
    use hoistway_engine::protocol::Failure;
    use hoistway_engine::{
        Answer, ClientContext, ConnectionBounds, GroupHandle, LocalClient, LocalConnection, Payload,
    };

    use super::*;
    use crate::configuration::file;
    use crate::metrics::Snapshot;

    const TEXT: &str = r#"
[[device]]
name = "stuck"
memory = "64MiB"
[[device.export]]
name = "a"
backing = "memory:1MiB"
group = "both"
[[device]]
name = "well"
memory = "64MiB"
[[device.export]]
name = "b"
backing = "memory:1MiB"
group = "both"
[[device.export]]
name = "c"
backing = "memory:1MiB"
group = "own"
[[listen]]
unix = "/run/x.sock"
"#;

    /// Keeps the device's thread, with its lock, until the other end of the channel is dropped.
    struct Stuck(Option<Receiver<()>>);

    impl LocalClient for Stuck {
        fn turn(&mut self, _: &mut ClientContext<'_>) {
            if let Some(release) = self.0.take() {
                let _ = release.recv();
            }
        }

        fn fill(&mut self, _: usize, _: u64, _: u64, _: Payload<'_>) -> Result<(), Failure> {
            Ok(())
        }

        fn answered(&mut self, _: Answer) {}
    }

    #[test]
    fn a_device_that_does_not_answer_is_named_and_the_others_go_on() {
        let before = file::read("x", TEXT).unwrap();
        let devices = Devices::open(&before).unwrap_or_else(|failure| panic!("{:?}", failure.problems));
        let facts = devices.facts(&before, &[]);
        assert_eq!(facts.len(), 3);
        let handle = &devices.shard("stuck").unwrap().handle;
        let (release, held) = mpsc::channel();
        let (volume, group) = (handle.volumes()[0], GroupHandle::ROOT);
        let bounds = ConnectionBounds::default();
        let connection = LocalConnection { volume, group, bounds, priority: Priority::NONE };
        handle.add_local_client(Box::new(Stuck(Some(held))), vec![connection]).unwrap();
        let start = Instant::now();
        // A group of both is changed on neither, one of the other device alone at once.
        let refused = devices.set_weight("both", 300).unwrap_err().error;
        assert!(refused.contains("'stuck' has not answered") && refused.contains("on no device"), "{refused}");
        assert_eq!(devices.set_weight("own", 300).unwrap(), 1);
        let report = devices.status(false);
        let names: Vec<&str> = report.exports.iter().map(|export| export.name.as_str()).collect();
        assert_eq!((names, report.not_answering.len()), (vec!["b", "c"], 1));
        let weight = |path: &str| report.groups.iter().find(|group| group.path == path).map(|group| group.weight);
        assert_eq!((weight("both"), weight("own")), (Some(100), Some(300)));
        let snapshot = Snapshot {
            is_draining: false,
            listeners: Vec::new(),
            devices: devices.shard_statuses(),
            silent: devices.silent(),
        };
        let text = snapshot.encode().unwrap();
        assert!(text.contains("hoistway_device_silent_seconds{device=\"well\"} 0.0"), "{text}");
        assert!(text.contains("hoistway_device_silent_seconds{device=\"stuck\"} ") && text.contains("export=\"b\""));
        // A reload that concerns it is refused as a whole; new clients see its exports as before.
        let change = |group: &str| vec![Change::Weight { group: group.to_owned(), weight: 7 }];
        assert_eq!(devices.check_changes(&change("both")).unwrap_err().len(), 1);
        assert!(devices.check_changes(&change("own")).is_ok());
        assert_eq!(devices.facts(&before, &facts).len(), 3);
        // It is known now, and no question waits: 20 that did would wait for 5 s each.
        (0..20).for_each(|_| assert_eq!(devices.status(false).not_answering.len(), 1));
        let drained = devices.drain(Duration::from_secs(1));
        assert!(drained.failures.iter().any(|failure| failure.contains("'stuck' has not answered")), "{drained:?}");
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        drop(release);
    }
}
