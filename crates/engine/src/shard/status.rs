//! A shard's status report.

use std::convert::Infallible;
use std::sync::mpsc;

use hoistway_block::Nanos;
use hoistway_elevator::GroupPriority;
use hoistway_experiment::blkio::Statistics;

use super::Worker;
use super::end::EndReason;
use super::shared::{Core, Route};
use crate::backing::VolumeFacts;
use crate::counters::{GroupCounters, LoopCounters, Sums};
use crate::damage::Damage;
use crate::saturation::Saturation;
use crate::turn::Waits;
use crate::turn::Window;

/// A snapshot of a shard.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    /// The device's name.
    pub name: String,
    /// Its scheduler and limiters.
    pub scheduling: SchedulingStatus,
    /// The number of commands that may be in flight on the device now.
    pub device_depth: u32,
    /// The largest number of commands that may ever be in flight on it.
    pub most_device_depth: u32,
    /// For how long its thread has not come to what it was asked, in nanoseconds; 0 = it answers.
    pub silent_ns: Nanos,
    /// Threads that serve its clients.
    pub threads: usize,
    /// Whether it is saturated, and which shares are not kept.
    pub saturation: Saturation,
    /// Requests not yet answered and sent.
    pub requests_in_flight: usize,
    /// Commands in flight on the device.
    pub ios_in_flight: u32,
    /// Bytes of memory in use, and total.
    pub memory_bytes: (u64, u64),
    /// The number of requests for memory that were refused.
    pub memory_refusals: u64,
    /// The counters that iostat would show.
    pub queue: hoistway_queue::Counters,
    /// Counters of the loop.
    pub loop_counters: LoopCounters,
    /// Internal inconsistencies that were detected and survived; above 0 is a defect.
    pub violations: u64,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
    /// The groups.
    pub groups: Vec<GroupStatus>,
    /// The clients.
    pub connections: Vec<ConnectionStatus>,
}

/// What decides on the order of a shard's requests.
#[derive(Clone, Debug)]
pub struct SchedulingStatus {
    /// The active scheduler.
    pub scheduler: &'static str,
    /// Whether another scheduler is about to replace it.
    pub is_switching: bool,
    /// Its tunables.
    pub tunables: Vec<TunableStatus>,
    /// Its limiters, in order, each with its settings: `throttle:throttle_sample_time=20`.
    pub limiters: Vec<String>,
    /// Parts of requests that limiters hold.
    pub held_by_limiters: u32,
    /// The number of times that the scheduler gave each reason.
    pub reasons: Vec<(&'static str, u64)>,
}

/// A tunable of the active scheduler.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TunableStatus {
    /// Its name.
    pub name: &'static str,
    /// The unit of its values; empty for plain numbers.
    pub unit: &'static str,
    /// The current value.
    pub value: i64,
    /// The default value; `None` where it follows from the device.
    pub default: Option<i64>,
}

/// A snapshot of a volume.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its number.
    pub volume: u32,
    /// What clients can learn about it.
    pub facts: VolumeFacts,
    /// Whether flushes are answered without flushing.
    pub has_unsafe_flush: bool,
    /// What it has lost since it was opened, if anything.
    pub damage: Option<Damage>,
    /// What it waits for, if its backing has not answered for 2 s.
    pub unanswered: Option<Unanswered>,
    /// Its counters.
    pub sums: Sums,
}

/// I/O that a backing does not answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Unanswered {
    /// The age of the oldest, in nanoseconds.
    pub oldest_ns: Nanos,
    /// I/Os and fsyncs in flight.
    pub ios: u32,
}

/// A snapshot of a group.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// Its number.
    pub group: u32,
    /// Its path; empty for the root.
    pub path: String,
    /// Its weight.
    pub weight: u32,
    /// The weight of its own queues among the groups below it, if set.
    pub leaf_weight: Option<u32>,
    /// Its priority level, if set.
    pub priority: Option<u8>,
    /// Its limits.
    pub limits: hoistway_experiment::Limits,
    /// The number of its connections.
    pub connections: u32,
    /// Bytes of memory that it holds.
    pub memory_bytes: u64,
    /// Its counters.
    pub counters: GroupCounters,
    /// Time during which limiters kept at least one of its requests waiting, in nanoseconds.
    pub throttled_ns: Nanos,
    /// What it did over at least the last second.
    pub window: Window,
    /// The scheduler's statistics of its service, if it keeps any.
    pub blkio: Option<Statistics>,
}

/// A snapshot of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its number.
    pub connection: u32,
    /// The client's description.
    pub label: String,
    /// Its volume's number.
    pub volume: u32,
    /// Its group's number.
    pub group: u32,
    /// Requests not yet answered and sent.
    pub requests_in_flight: u32,
    /// Its counters.
    pub sums: Sums,
}

impl Core {
    /// A snapshot of everything; `name` is the device's.
    pub fn status(&mut self, name: &str) -> ShardStatus {
        let counters = self.turn.counters();
        let mut loop_counters = LoopCounters::default();
        self.workers.iter().for_each(|worker| loop_counters.add(&worker.counters));
        loop_counters.started_ios = counters.started_ios;
        loop_counters.merged_ios = counters.merged_ios;
        loop_counters.pauses_for_credit = counters.pauses_for_credit;
        loop_counters.pauses_for_memory = counters.pauses_for_memory;
        let (free, total) = self.turn.memory_bytes();
        let tunables = self.turn.tunables().into_iter().map(|(row, value)| TunableStatus {
            name: row.name,
            unit: row.unit.text(),
            value,
            default: row.default,
        });
        let (device_depth, most_device_depth) = self.turn.device_depth();
        ShardStatus {
            name: name.to_owned(),
            scheduling: SchedulingStatus {
                scheduler: self.turn.scheduler(),
                is_switching: self.turn.is_switching(),
                tunables: tunables.collect(),
                limiters: self.turn.limiters(),
                held_by_limiters: self.turn.held_by_limiters(),
                reasons: self.turn.reasons(),
            },
            device_depth,
            most_device_depth,
            silent_ns: 0,
            threads: self.workers.len(),
            saturation: self.turn.saturation(hoistway_linux::thread::monotonic_ns()),
            requests_in_flight: self.turn.requests_in_flight(),
            ios_in_flight: self.turn.ios_in_flight(),
            memory_bytes: (total - free, total),
            memory_refusals: self.turn.memory_refusals(),
            queue: self.turn.queue_counters(),
            loop_counters,
            violations: counters.violations,
            volumes: self.volume_statuses(),
            groups: self.group_statuses(),
            connections: self.connection_statuses(),
        }
    }

    /// The volumes whose backings do not answer, and the age of the oldest I/O in seconds.
    pub fn unanswered(&self) -> Vec<(String, u64)> {
        let now = hoistway_linux::thread::monotonic_ns();
        let age_s = |waits: Waits| now.saturating_sub(waits.since_ns) / hoistway_block::time::SECOND;
        let waiting = self.turn.unanswered(now).into_iter();
        waiting.map(|(volume, waits)| (self.volume_name(volume).to_owned(), age_s(waits))).collect()
    }

    fn volume_statuses(&self) -> Vec<VolumeStatus> {
        let now = hoistway_linux::thread::monotonic_ns();
        let waits = self.turn.unanswered(now);
        let numbered = (0_u32..).zip(&self.volumes);
        numbered
            .filter_map(|(volume, file)| {
                let (abilities, damage, sums) = self.turn.volume(volume)?;
                let facts = file.as_ref()?.facts.clone();
                let has_unsafe_flush = abilities.has_unsafe_flush && !abilities.is_null;
                let unanswered = waits.iter().find(|(of, _)| *of == volume).map(|(_, waits)| {
                    let Waits { since_ns, ios } = *waits;
                    Unanswered { oldest_ns: now.saturating_sub(since_ns), ios }
                });
                let sums = sums.clone();
                Some(VolumeStatus { volume, facts, has_unsafe_flush, damage, unanswered, sums })
            })
            .collect()
    }

    fn group_statuses(&self) -> Vec<GroupStatus> {
        let now = hoistway_linux::thread::monotonic_ns();
        let groups = self.turn.groups();
        groups
            .map(|(group, state, memory_bytes)| GroupStatus {
                group,
                path: state.name.clone(),
                weight: state.weight,
                leaf_weight: self.turn.settings_of(state.id).leaf_weight,
                priority: self.turn.settings_of(state.id).priority.map(GroupPriority::level),
                limits: state.limits,
                connections: state.connections,
                memory_bytes,
                counters: state.counters.clone(),
                throttled_ns: self.turn.throttled_ns(state.id, now),
                window: state.usage.window(),
                blkio: self.turn.account(state.id),
            })
            .collect()
    }

    fn connection_statuses(&self) -> Vec<ConnectionStatus> {
        let labelled = (0_u32..).zip(&self.labels);
        labelled
            .filter_map(|(connection, label)| {
                let label = label.as_ref()?;
                let (sums, volume, group) = self.turn.connection(connection)?;
                Some(ConnectionStatus {
                    connection,
                    label: label.clone(),
                    volume,
                    group,
                    requests_in_flight: self.turn.connection_requests(connection),
                    sums: sums.clone(),
                })
            })
            .collect()
    }

    /// Closes a socket's connection; `None` if there is none. The receiver's sender is dropped when nothing
    /// of the connection can reach the device any more.
    pub fn evict(&mut self, connection: u32) -> Option<mpsc::Receiver<Infallible>> {
        let Route::Socket { worker, socket } = self.route(connection) else { return None };
        let is_posted = self.workers[worker].mailbox.post(Box::new(move |worker, core| {
            let is_same = core.route(connection) == Route::Socket { worker: worker.number, socket };
            if is_same {
                worker.close_connection(core, socket, EndReason::Evicted, hoistway_linux::thread::monotonic_ns());
            }
        }));
        let (sender, receiver) = mpsc::channel();
        self.awaited_ends.push((connection, sender));
        is_posted.then_some(receiver)
    }

    /// Nothing of a connection is left: tells those who wait for it.
    pub(super) fn connection_ended(&mut self, connection: u32) {
        self.awaited_ends.retain(|(awaited, _)| *awaited != connection);
    }
}

impl Worker {
    /// Publishes the counters of the loop for [`Core::status`].
    pub(super) fn note_counters(&mut self, core: &mut Core) {
        self.counters.full_submits = self.ring.full_submits();
        self.counters.completion_overflows = u64::from(self.ring.completion_overflows());
        core.workers[self.number].counters.clone_from(&self.counters);
    }
}
