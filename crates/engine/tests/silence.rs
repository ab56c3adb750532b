//! A device whose thread is stuck: what is asked of it is answered in time, and what was refused is
//! not done later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hoistway_block::Priority;
use hoistway_engine::protocol::{Command, Failure};
use hoistway_engine::{
    Answer, Backing, ClientContext, ConnectionBounds, GroupHandle, LocalClient, LocalClientId, LocalConnection,
    LocalRequest, Payload, ShardHandle, ShardSettings, VolumeSettings, start,
};
use hoistway_experiment::SchedulerSpec;

/// For an answer that does not wait for what is stuck, which would never come. No bound of performance: the machine may
/// be busy.
const ANSWERED: Duration = Duration::from_secs(60);

/// Something to be stuck in.
#[derive(Default)]
struct Trap {
    is_set: AtomicBool,
    holds: Mutex<bool>,
    changed: Condvar,
}

impl Trap {
    fn set(&self) {
        *self.holds.lock().unwrap() = true;
        self.is_set.store(true, Ordering::Relaxed);
    }

    fn release(&self) {
        *self.holds.lock().unwrap() = false;
        self.changed.notify_all();
    }

    fn stay(&self) {
        let holds = self.holds.lock().unwrap();
        drop(self.changed.wait_while(holds, |holds| *holds).unwrap());
    }
}

/// A client that is stuck in its turn, or in the data of a write, when the device's lock is
/// released.
struct Stuck {
    trap: Arc<Trap>,
    in_its_data: bool,
}

impl LocalClient for Stuck {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        if !self.trap.is_set.swap(false, Ordering::Relaxed) {
            return;
        }
        if !self.in_its_data {
            return self.trap.stay();
        }
        let (command, length_bytes) = (Command::Write, 4_096);
        let request = LocalRequest {
            cookie: 1,
            command,
            offset_bytes: 0,
            length_bytes,
            is_durable: false,
            keeps_space: false,
            actor: 0,
            is_held: false,
        };
        context.submit(0, request, &mut |_, _| {
            self.trap.stay();
            Ok(())
        });
    }

    fn fill(&mut self, _: usize, _: u64, _: u64, _: Payload<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn answered(&mut self, _: Answer) {}
}

fn shard(threads: u32) -> ShardHandle {
    let volume = VolumeSettings::new("v", Backing::parse("memory:16MiB").expect("a backing"));
    let settings = ShardSettings {
        name: "dev".to_owned(),
        scheduler: SchedulerSpec::named("wfq"),
        memory_bytes: 64 << 20,
        threads,
        ..ShardSettings::default()
    };
    start(settings, &[volume]).expect("a shard")
}

fn add_stuck(shard: &ShardHandle, in_its_data: bool) -> (LocalClientId, Arc<Trap>) {
    let trap = Arc::new(Trap::default());
    let client = Stuck { trap: Arc::clone(&trap), in_its_data };
    let (volume, group) = (shard.volumes()[0], GroupHandle::ROOT);
    let connection = LocalConnection { volume, group, bounds: ConnectionBounds::default(), priority: Priority::NONE };
    (shard.add_local_client(Box::new(client), vec![connection]).expect("a client"), trap)
}

fn in_time<T>(what: &str, ask: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let answer = ask();
    assert!(start.elapsed() < ANSWERED, "{what}: {:?}", start.elapsed());
    answer
}

fn wait_until(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < ANSWERED, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_device_stuck_under_its_lock_refuses_in_time_and_does_nothing_of_it_later() {
    let shard = shard(1);
    let group = shard.add_group("g", 300).expect("a group");
    let (client, trap) = add_stuck(&shard, false);
    trap.set();
    shard.wake(client);
    wait_until("it is stuck", || !trap.is_set.load(Ordering::Relaxed));
    let error = in_time("weight", || shard.set_weight(group, 100)).expect_err("no answer");
    assert!(error.message.starts_with("device 'dev' has not answered for "), "{error}");
    assert!(shard.silent_for().is_some());
    // From now on it is known, and no caller waits: 30 that did would wait for 5 s each.
    let start = Instant::now();
    for _ in 0..10 {
        assert!(shard.set_weight(group, 50).is_err() && shard.status().is_err());
        assert!(shard.open_volume(&VolumeSettings::new("w", Backing::parse("memory:1MiB").expect("one"))).is_err());
    }
    assert!(start.elapsed() < ANSWERED, "{:?}", start.elapsed());
    let drained = in_time("drain", || shard.drain(Duration::from_secs(1))).expect_err("no answer");
    assert!(drained.message.contains("'dev' has not answered"), "{drained}");
    trap.release();
    wait_until("it answers", || shard.check_answers().is_ok());
    let status = shard.status().expect("status");
    assert_eq!((status.groups[1].weight, status.volumes.len(), status.silent_ns), (300, 1, 0), "nothing was done");
    assert_eq!(shard.drain(ANSWERED).expect("drained").abandoned_requests, 0);
}

#[test]
fn a_worker_stuck_without_the_lock_is_named_and_control_goes_on() {
    let shard = shard(2);
    let group = shard.add_group("g", 300).expect("a group");
    let (client, trap) = add_stuck(&shard, true);
    // Another client is served by another thread, which does not wait for the first.
    let other = shard.client(shard.volumes()[0], group).expect("a client");
    other.write(8_192, b"before").expect("written");
    trap.set();
    shard.wake(client);
    wait_until("it is stuck", || !trap.is_set.load(Ordering::Relaxed));
    in_time("weight", || shard.set_weight(group, 100)).expect("done under the lock");
    let status = in_time("status", || shard.status()).expect("a status");
    assert!(status.silent_ns > 0 && status.groups[1].weight == 100, "{}", status.silent_ns);
    other.write(8_192, b"meanwhile").expect("written");
    assert_eq!(other.read(8_192, 9).expect("read"), b"meanwhile");
    let report = in_time("drain", || shard.drain(Duration::from_secs(1))).expect("drained");
    assert_eq!((report.abandoned_requests, report.failed_syncs), (1, 0));
    assert_eq!(report.losses, ["v: 1 requests were not answered"]);
    trap.release();
}
