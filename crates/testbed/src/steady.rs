//! Every operation of a host, without an allocation of its own.

use hoistway_block::random::Stream;
use hoistway_block::{
    Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId, SoftwareQueue,
    Status,
};
use hoistway_elevator::{Bio, Configuration, Depth, Elevator, GroupSettings, Version};
use hoistway_queue::{Era, Next, Plug, RequestQueue, Settings};

/// A host that performs every permitted operation on a request queue, at random, and needs no memory
/// for that beyond what it has from the start: what is allocated meanwhile, the queue or its policy
/// has allocated.
#[derive(Debug)]
pub struct SteadyHost {
    configuration: Configuration,
    queue: RequestQueue,
    random: Stream,
    plug: Plug,
    in_device: Vec<RequestId>,
    now: u64,
    cookie: u64,
    started: u64,
    ended: u64,
}

impl SteadyHost {
    /// A host of this policy; its operations are drawn from the seed.
    ///
    /// # Panics
    /// If there is no such policy or version.
    pub fn new(name: &str, version: Option<Version>, settings: &Settings, seed: u64) -> Self {
        let mut queue = RequestQueue::build(name, version, settings).expect("registered");
        queue.combine_calls(Stream::of(seed, "steady/calls").chance(1, 2));
        let held = settings.configuration.slots as usize;
        Self {
            configuration: settings.configuration,
            queue,
            random: Stream::of(seed, name),
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

    /// The queue.
    pub fn queue_mut(&mut self) -> &mut RequestQueue {
        &mut self.queue
    }

    /// The present time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Requests given to the device so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Bios completed so far.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// One operation.
    pub fn step(&mut self) {
        let configuration = &self.configuration.clone();
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

impl SteadyHost {
    /// Queues that differ in depth, hardware queues and era.
    pub fn kinds_of_queue() -> [Settings; 5] {
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
}
