//! Nothing is allocated after construction: every policy in every form, alone and inside a request
//! queue.
//!
//! The same code runs under a spinlock in the kernel, where an allocation must not sleep.
//! `kernel/gate/run` proves from the object file that no event method of a policy reaches the
//! allocator. This test counts allocations, and also covers the request queue, which
//! `kernel/gate/run` does not examine.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

use block::random::Stream;
use block::{
    Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Operation, Priority, RequestId, SoftwareQueue, Status,
};
use hoistway_elevator::{Bio, Configuration, Depth, Elevator, GroupSettings, Version, registry};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use testbed::queue::{Era, Handover, Next, Plug, RequestQueue, Settings};

/// Random operations per policy and kind of queue.
const OPERATIONS: u32 = 100_000;

struct Counting;

thread_local! {
    /// Allocations on this thread while it is watched; per thread, so that parallel tests do not
    /// interfere.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes requested by those allocations.
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

fn count(bytes: usize) {
    // On an exiting thread the thread-locals are gone and the access fails. Such a thread is not
    // watched, so its allocations need not be counted.
    let _ = IS_WATCHED.try_with(|watched| {
        if watched.get() {
            let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
            let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
        }
    });
}

// SAFETY: every call goes to the system allocator unchanged; counting accesses only two cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of allocations while `act` runs.
fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    IS_WATCHED.set(true);
    act();
    IS_WATCHED.set(false);
    ALLOCATIONS.get() - before
}

/// A host that performs every permitted operation on a request queue, and needs no memory for that
/// beyond what it has from the start.
struct Host {
    queue: RequestQueue,
    random: Stream,
    plug: Plug,
    in_device: Vec<RequestId>,
    now: u64,
    cookie: u64,
    started: u64,
    ended: u64,
}

impl Host {
    fn new(name: &str, version: Version, settings: &Settings) -> Self {
        let queue = RequestQueue::build(name, Some(version), settings).expect("registered");
        let held = settings.configuration.slots as usize;
        Self {
            queue,
            random: Stream::of(1, name),
            plug: Plug::default(),
            in_device: Vec::with_capacity(held),
            now: 1_000_000_000,
            cookie: 0,
            started: 0,
            ended: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u32 {
        u32::try_from(self.random.below(bound)).unwrap_or(0)
    }

    fn step(&mut self, configuration: &Configuration) {
        self.now += self.random.below(200_000);
        match self.random.below(100) {
            0..40 => self.submit(configuration),
            40..70 => self.dispatch(configuration),
            70..90 => self.end_one(),
            90..93 => self.queue.unplug(&mut self.plug, self.now),
            93..95 => self.timer(),
            95..97 => self.change_groups(configuration),
            97 => self.change_depth(configuration),
            98 => self.change_setting(),
            _ => {
                let context = ContextId(self.below(u64::from(configuration.contexts)));
                self.queue.context_exited(context, self.now);
            }
        }
        let _ = self.queue.take_wake();
        while self.queue.take_message().is_some() {}
    }

    fn submit(&mut self, configuration: &Configuration) {
        let (operation, flags) = match self.random.below(16) {
            0..8 => (Operation::Read, Flags::NONE),
            8..12 => (Operation::Write, Flags::NONE),
            12 => (Operation::Write, Flags::SYNC.with(Flags::FUA)),
            13 => (Operation::Write, Flags::PREFLUSH),
            14 => (Operation::Discard, Flags::NONE),
            _ => (Operation::Flush, Flags::PREFLUSH),
        };
        let sectors = if operation == Operation::Flush { 0 } else { (self.below(4) + 1) * 8 };
        // The sectors are in a small range, so that adjacent bios occur and merge.
        let mut bio = Bio::new(operation, Extent::new(self.random.below(512) * 8, sectors));
        bio.flags = flags;
        bio.priority = [Priority::NONE, Priority::new(Class::RealTime, 4), Priority::new(Class::Idle, 4)]
            [usize::from(self.random.chance(1, 8)) + usize::from(self.random.chance(1, 8))];
        bio.context = ContextId(self.below(u64::from(configuration.contexts)));
        bio.group = GroupId(self.below(u64::from(configuration.groups)));
        bio.software_queue =
            SoftwareQueue(u16::try_from(self.below(u64::from(configuration.software_queues))).unwrap_or(0));
        bio.hardware_queue = HardwareQueue(bio.software_queue.0 % configuration.hardware_queues);
        self.cookie += 1;
        let _ = if self.random.chance(1, 4) {
            self.queue.submit_plugged(&bio, self.cookie, &mut self.plug, self.now)
        } else {
            self.queue.submit(&bio, self.cookie, self.now)
        };
    }

    fn dispatch(&mut self, configuration: &Configuration) {
        let queue = HardwareQueue(u16::try_from(self.below(u64::from(configuration.hardware_queues))).unwrap_or(0));
        if let Next::Start { id, .. } = self.queue.dispatch(queue, self.now) {
            self.in_device.push(id);
            self.started += 1;
        }
    }

    fn end_one(&mut self) {
        if self.in_device.is_empty() {
            return;
        }
        let at = self.below(self.in_device.len() as u64) as usize;
        let id = self.in_device.swap_remove(at);
        match self.random.below(20) {
            0 => self.queue.requeue(id, self.now),
            1 => self.queue.refuse(id, self.now),
            n => {
                let status = if n == 2 { Status::IoError } else { Status::Ok };
                let ended = &mut self.ended;
                self.queue.complete(id, status, self.now, |_| *ended += 1);
            }
        }
    }

    fn timer(&mut self) {
        if let Some(at) = self.queue.next_timer() {
            self.now = self.now.max(at);
            self.queue.timer(self.now);
        }
    }

    fn change_groups(&mut self, configuration: &Configuration) {
        let group = GroupId(self.below(u64::from(configuration.groups)));
        let settings = GroupSettings::with_weight(self.below(10_000) + 1);
        let _ = match self.random.below(3) {
            0 => self.queue.add_group(group, &settings, self.now),
            1 => self.queue.change_group(group, &settings, self.now),
            _ => self.queue.remove_group(group, self.now),
        };
    }

    fn change_depth(&mut self, configuration: &Configuration) {
        let depth = Depth { requests: self.below(u64::from(configuration.slots)) + 1, device: self.below(64) + 1 };
        self.queue.set_depth(depth, self.now);
    }

    fn change_setting(&mut self) {
        let rows = self.queue.elevator().tunables();
        let Some(row) = rows.get(self.below(rows.len() as u64) as usize) else { return };
        // The value is a constant text, for which the host allocates nothing; so only allocations
        // by the queue are counted.
        let _ = self.queue.set(row.name, if row.min <= 3 { "3" } else { "100" });
    }
}

fn kinds_of_queue() -> [Settings; 5] {
    let kind = |requests, device, queues: u16, era| {
        let configuration = Configuration {
            slots: requests + u32::from(queues),
            groups: 16,
            contexts: 32,
            depth: Depth { requests, device },
            hardware_queues: queues,
            software_queues: queues * 2,
            rotational: device == 1,
            ..Configuration::default()
        };
        Settings { configuration, era, bios: 1024, ..Settings::default() }
    };
    [
        kind(256, 32, 1, Era::ENGINE),
        kind(64, 1, 1, Era::BLK_MQ),
        kind(128, 8, 4, Era::BLK_MQ),
        kind(64, 1, 1, Era::LINUX_2_4),
        kind(64, 8, 1, Era::LINUX_2_6),
    ]
}

fn forms() -> impl Iterator<Item = (&'static str, Version)> + Clone {
    registry::ENTRIES.iter().flat_map(|entry| entry.versions.iter().map(|version| (entry.name, *version)))
}

#[test]
fn no_operation_of_a_queue_allocates_whatever_its_policy() {
    for (name, version) in forms() {
        for settings in kinds_of_queue() {
            let mut host = Host::new(name, version, &settings);
            for tracing in [false, true] {
                host.queue.set_tracing(tracing);
                let allocations = allocations_of(|| {
                    for _ in 0..OPERATIONS / 2 {
                        host.step(&settings.configuration);
                    }
                });
                assert_eq!(allocations, 0, "{name} {version:?}, tracing {tracing}");
            }
            // Policies that idle the device need more operations to start and end 10,000 requests.
            let allocations = allocations_of(|| {
                for _ in 0..4 * OPERATIONS {
                    if host.started.min(host.ended) > 10_000 {
                        break;
                    }
                    host.step(&settings.configuration);
                }
            });
            assert_eq!(allocations, 0, "{name} {version:?}");
            assert!(host.started > 10_000 && host.ended > 10_000, "{name} {version:?}: {} started", host.started);
            assert_eq!(host.queue.violations(), 0, "{name} {version:?}");
        }
    }
}

#[test]
fn a_switch_allocates_nothing_but_the_new_policy_itself() {
    for settings in kinds_of_queue() {
        let mut host = Host::new("noop", Version(6, 12, 0), &settings);
        for (turn, (name, version)) in forms().cycle().take(24).enumerate() {
            let next = registry::build(name, Some(version), &settings.configuration).expect("registered");
            let handover = if turn % 2 == 0 { Handover::Drain } else { Handover::Carry };
            let mut retired = Vec::with_capacity(2);
            let allocations = allocations_of(|| {
                assert!(host.queue.switch(next, handover, host.now).is_ok(), "no switch is under way");
                for _ in 0..2_000 {
                    host.step(&settings.configuration);
                    if !host.queue.is_switching() {
                        break;
                    }
                }
                // The host frees the old policy when it may sleep.
                retired.extend(host.queue.retired());
            });
            assert_eq!(allocations, 0, "to {name} {version:?}, {handover:?}");
            while host.queue.is_switching() {
                host.step(&settings.configuration);
            }
            assert_eq!(host.queue.elevator().name(), name);
        }
    }
}

#[test]
fn an_allocation_is_counted() {
    let mut kept = Vec::new();
    assert_eq!(allocations_of(|| kept.push(1_u8)), 1);
    assert_eq!(allocations_of(|| kept.reserve(1_000)), 1);
    assert_eq!(allocations_of(|| drop(std::hint::black_box(std::mem::take(&mut kept)))), 0);
}

/// Memory allocated by a policy at construction, in bytes.
fn memory_of(name: &str, slots: u32, groups: u32) -> usize {
    let configuration = Configuration { slots, groups, ..Configuration::default() };
    let before = BYTES.get();
    let mut built = None;
    allocations_of(|| built = Some(registry::build(name, None, &configuration).expect("registered")));
    BYTES.get() - before
}

/// In uchida and tarasov each group has a CFQ of its own, but all of these share their tables. So
/// the memory for a slot of the request table does not depend on the number of groups, nor the
/// memory for a group on the number of slots.
#[test]
fn engines_of_groups_share_their_tables() {
    for name in ["uchida", "tarasov"] {
        let per_slot = |groups| (memory_of(name, 4_096, groups) - memory_of(name, 512, groups)) / (4_096 - 512);
        assert_eq!(per_slot(256), per_slot(1), "{name}");
        let per_group = (memory_of(name, 512, 257) - memory_of(name, 512, 1)) / 256;
        // Most of the memory is for the 17 async queues that a group may have.
        assert!(per_group < 6_000, "{name}: {per_group} bytes a group");
    }
}
