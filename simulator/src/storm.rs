//! Storms: from a seed to a random workload with everything that can go wrong, and every invariant after every step.
//!
//! A storm submits bios that provoke merges, holds some in plugs, lets the device fail, stall and reset, has the driver
//! give requests back, lets groups and contexts come and go, turns tunables and depths, and switches policies under
//! load. It ends by draining everything. A failure names the seed, what broke, the last events and the command that
//! replays it.

#[cfg(test)]
mod canaries;
mod limiting;

use std::collections::VecDeque;
use std::fmt;

use block::random::Stream;
use block::{
    Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId, SoftwareQueue,
    Status,
};
use device::{AnyDevice, Command, Completion, Device, Model, NEVER, Submit};
use elevator::registry::{self, ENTRIES};
use elevator::{Any, Bio, Configuration, Depth, Elevator, GroupPriority, GroupSettings, GroupState, Version};
use queue::{Era, Full, Handover, Limits, Merging, Next, Plug, RequestQueue, Settings, Submitted};

use crate::invariants::{Broken, Ledger};
use crate::starvation::{Starvation, Terms};
use limiting::Limiting;

const CAPACITY_SECTORS: u64 = 1 << 17;
const GROUPS: u32 = 12;
const CONTEXTS: u32 = 24;
/// A context that never exits.
const LASTING_CONTEXT: ContextId = ContextId(CONTEXTS - 1);
const SOFTWARE_QUEUES: u16 = 4;
const PLUGS: usize = 3;
/// Changes from outside that a failure shows.
const SHOWN_CHANGES: usize = 16;
/// Steps without any answered bio after which the drain at the end is taken to be stuck.
const DRAIN_STEPS: u64 = 1_000_000;

/// What a storm is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Storm {
    /// The policy it begins with, and comes back to after switches: a name of the registry, with `@VERSION` in that form;
    /// `+NAME` behind it for each limiter above it. Without, the seed may choose some.
    pub policy: String,
    /// Seed of everything in it.
    pub seed: u64,
    /// Bios to submit.
    pub bios: u64,
}

/// What a storm did.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct StormReport {
    /// Bios submitted and answered.
    pub bios: u64,
    /// Requests that went to the device.
    pub requests: u64,
    /// Those of more than one bio.
    pub merged: u64,
    /// Requests the driver gave back.
    pub requeued: u64,
    /// Changes of policy completed.
    pub switches: u64,
    /// Groups added.
    pub groups: u64,
    /// Requests that the device ended with an error.
    pub failed: u64,
    /// Requests that it lost in a reset.
    pub lost: u64,
    /// Bios that limiters held.
    pub held: u64,
    /// Changes of limits, of limiters and of their tunables.
    pub limit_changes: u64,
    /// Times that a waiting request was passed over, as the policy's promise against starvation allows.
    pub passed_over: u64,
    /// FNV-1a over time, cookie and status of every answer: equal for equal storms.
    pub checksum: u64,
}

/// A storm that broke something.
#[derive(Clone, Debug)]
pub struct StormFailure {
    /// The storm.
    pub storm: Storm,
    /// Step at which it showed.
    pub step: u64,
    /// What should hold and did not.
    pub what: String,
    /// The last trace events, oldest first.
    pub events: Vec<String>,
}

impl fmt::Display for StormFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Storm { policy, seed, bios } = &self.storm;
        writeln!(formatter, "storm over {policy} with seed {seed}, step {}: {}", self.step, self.what)?;
        for event in &self.events {
            writeln!(formatter, "  {event}")?;
        }
        write!(formatter, "replay: cargo run -p hoistway-simulator --example storm -- {policy} {seed} {bios}")
    }
}

impl std::error::Error for StormFailure {}

impl Storm {
    /// Runs it.
    ///
    /// # Errors
    /// The first invariant that did not hold, or an unknown policy.
    pub fn run(&self) -> Result<StormReport, Box<StormFailure>> {
        let mut weather = Weather::new(self).map_err(|what| self.failure(0, what, Vec::new()))?;
        match weather.blow(self.bios) {
            Ok(()) => Ok(weather.report()),
            Err(what) => Err(self.failure(weather.step, what, weather.last_events())),
        }
    }

    fn failure(&self, step: u64, what: String, events: Vec<String>) -> Box<StormFailure> {
        Box::new(StormFailure { storm: self.clone(), step, what, events })
    }
}

/// How rough a storm is: drawn once per seed, so that seeds differ in kind.
#[derive(Copy, Clone, Debug)]
struct Temper {
    submit_per_mille: u64,
    churn_per_mille: u64,
    read_percent: u64,
    adjacent_percent: u64,
    requeue_per_mille: u64,
    refuse_per_mille: u64,
    plug_percent: u64,
    flush_percent: u64,
    switches: bool,
    hardware_queues: u16,
}

impl Temper {
    fn draw(random: &mut Stream) -> Self {
        let mut among = |choices: &[u64]| choices[below(random, choices.len())];
        Self {
            submit_per_mille: among(&[300, 500, 700, 900]),
            churn_per_mille: among(&[0, 5, 20, 60]),
            read_percent: among(&[5, 30, 60, 95]),
            adjacent_percent: among(&[0, 30, 60, 90]),
            requeue_per_mille: among(&[0, 5, 50, 300]),
            refuse_per_mille: among(&[0, 5, 50]),
            plug_percent: among(&[0, 20, 60]),
            flush_percent: among(&[0, 2, 10]),
            switches: among(&[0, 0, 1]) == 1,
            hardware_queues: u16::try_from(among(&[1, 1, 1, 2, 4])).unwrap_or(1),
        }
    }
}

struct Weather {
    policy: String,
    temper: Temper,
    random: Stream,
    queue: RequestQueue<Any>,
    configuration: Configuration,
    device: AnyDevice,
    ledger: Ledger,
    starvation: Starvation,
    limiting: Limiting,
    limits: Limits,
    plugs: [Plug; PLUGS],
    /// Contexts that have exited and still have bios inside.
    leaving: Vec<bool>,
    /// The bio submitted last: neighbours of it are its kin.
    last: Bio,
    now: Nanos,
    step: u64,
    cookie: u64,
    completions: Vec<Completion>,
    /// The last changes of groups, contexts, tunables, depths and policies.
    changes: VecDeque<String>,
    checksum: u64,
    requeued: u64,
    switches: u64,
    groups: u64,
    failed: u64,
    lost: u64,
}

impl Weather {
    fn new(storm: &Storm) -> Result<Self, Broken> {
        let mut random = Stream::of(storm.seed, "storm");
        let (policy, version, limiters) = split(&storm.policy)?;
        let limiting = Limiting::draw(storm.seed, &limiters)?;
        let temper = Temper::draw(&mut random);
        let device = device(&mut random, temper.hardware_queues)?;
        let info = device.info();
        let limits = Limits {
            max_sectors: info.max_sectors,
            max_discard_sectors: 512,
            max_write_zeroes_sectors: 256,
            max_segments: [4, 16, 128][below(&mut random, 3)],
            max_discard_segments: 1,
            chunk_sectors: [0, 0, 1_024][below(&mut random, 3)],
            volatile_cache: info.volatile_cache,
            fua: info.fua,
        };
        let queues = u32::from(temper.hardware_queues);
        // A small table on purpose: slots are used again at once.
        let requests = [4, 16, 64][below(&mut random, 3)];
        let configuration = Configuration {
            slots: 64 + queues,
            groups: GROUPS,
            contexts: CONTEXTS,
            depth: Depth { requests, device: info.depth },
            hardware_queues: temper.hardware_queues,
            software_queues: SOFTWARE_QUEUES,
            rotational: random.chance(1, 2),
            queueing: info.depth > 1,
            max_sectors: limits.max_sectors,
            capacity_sectors: CAPACITY_SECTORS,
            tick_ns: [0, 0, 4_000_000][below(&mut random, 3)],
            seed: storm.seed,
        };
        let era = if random.chance(1, 2) { Era::BLK_MQ } else { Era::ENGINE };
        let merging = [Merging::Full, Merging::Full, Merging::OneHit, Merging::Never][below(&mut random, 4)];
        let settings = Settings { configuration, limits, era, merging, bios: 192 };
        let mut queue = RequestQueue::build(policy, version, &settings)
            .map_err(|error| format!("policy '{policy}' cannot be built: {error:?}"))?;
        set_tunables(&mut queue, &storm.policy)?;
        queue.set_tracing(true);
        let starvation = starvation(policy, version, &configuration, &queue);
        let mut weather = Self {
            policy: policy.to_owned(),
            temper,
            random,
            queue,
            configuration,
            device,
            ledger: Ledger::new(limits, CONTEXTS),
            starvation,
            limiting,
            limits,
            plugs: std::array::from_fn(|_| Plug::default()),
            leaving: vec![false; CONTEXTS as usize],
            last: Bio::new(Operation::Read, Extent::new(0, 8)),
            now: 0,
            step: 0,
            cookie: 0,
            completions: Vec::new(),
            changes: VecDeque::with_capacity(SHOWN_CHANGES),
            checksum: block::random::fnv1a64(b""),
            requeued: 0,
            switches: 0,
            groups: 0,
            failed: 0,
            lost: 0,
        };
        weather.begin_limiting()?;
        Ok(weather)
    }

    fn report(&self) -> StormReport {
        StormReport {
            bios: self.ledger.answered,
            requests: self.ledger.started,
            merged: self.ledger.merged,
            requeued: self.requeued,
            switches: self.switches,
            groups: self.groups,
            failed: self.failed,
            lost: self.lost,
            held: self.limiting.held,
            limit_changes: self.limiting.changes,
            passed_over: self.starvation.passed_over,
            checksum: self.checksum,
        }
    }

    fn last_events(&self) -> Vec<String> {
        let untaken = self.queue.events().iter();
        let events = self.starvation.last_events().chain(untaken).map(ToString::to_string);
        let policy = self.queue.elevator();
        let state = format!(
            "in force: {}; violations: {} in all, {} in the request table, {} in the policy",
            policy.name(),
            self.queue.violations(),
            self.queue.requests().violations(),
            policy.violations()
        );
        let head = self.changes.iter().cloned().chain([state]);
        head.chain(events).collect()
    }

    fn note(&mut self, change: String) {
        if self.changes.len() == SHOWN_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(format!("{:>14} step {}: {change}", self.now, self.step));
    }

    fn blow(&mut self, bios: u64) -> Result<(), Broken> {
        while self.ledger.submitted < bios {
            self.step += 1;
            self.turn_limits()?;
            let roll = self.random.below(1_000);
            if roll < self.temper.churn_per_mille {
                self.churn()?;
            } else if roll < self.temper.churn_per_mille + self.temper.submit_per_mille {
                self.submit_some()?;
            } else {
                self.pass_time()?;
            }
            self.settle()?;
        }
        self.drain()
    }

    /// Dispatches what may go and looks at every invariant.
    fn settle(&mut self) -> Result<(), Broken> {
        self.dispatch()?;
        self.held_comes_out()?;
        if self.queue.retired().is_some() {
            self.switches += 1;
        }
        self.queue.check().map_err(|violation| format!("{} ({})", violation.what, violation.at))
    }

    /// Nothing new any more: everything inside must come out by itself.
    fn drain(&mut self) -> Result<(), Broken> {
        self.lift_tight_limits();
        let mut idle_steps = 0_u64;
        while self.ledger.open() > 0 {
            self.step += 1;
            idle_steps += 1;
            let open = self.ledger.open();
            for index in 0..PLUGS {
                self.queue.unplug(&mut self.plugs[index], self.now);
            }
            self.settle()?;
            self.pass_time()?;
            self.settle()?;
            if self.ledger.open() < open {
                idle_steps = 0;
            }
            // A limiter's ticks must not keep the storm from reaching a timer that is far away: up to years, after
            // `read_expire` was lowered from its largest value (mq-deadline counts the age back from the deadline).
            self.now += idle_steps.saturating_sub(1_000) * 10_000_000;
            if idle_steps > DRAIN_STEPS {
                return Err(format!("P6: {open} bios are never answered"));
            }
        }
        let tags = self.queue.tags().in_use();
        let requests = self.queue.requests().in_use();
        let (inside, counters) = (self.queue.bios_inside(), self.queue.counters());
        let in_flight = counters.directions[0].in_flight + counters.directions[1].in_flight;
        if tags + requests + inside + in_flight > 0 {
            let what = format!("{tags} tags, {requests} requests, {inside} bios, {in_flight} counted in flight");
            return Err(format!("P1: left when all is answered: {what}"));
        }
        let held: u32 = (0..GROUPS).map(|group| self.queue.groups().requests(GroupId(group))).sum();
        (held == 0).then_some(()).ok_or_else(|| format!("groups hold {held} requests when all is answered"))
    }

    // ---- submission ----

    fn submit_some(&mut self) -> Result<(), Broken> {
        let plug = self.random.chance(self.temper.plug_percent, 100).then(|| below(&mut self.random, PLUGS));
        for _ in 0..=self.random.below(4) {
            let bio = self.draw_bio();
            self.cookie += 1;
            let cookie = self.cookie;
            self.ledger.submitted(cookie, &bio);
            let submitted = match plug {
                Some(plug) => self.queue.submit_plugged(&bio, cookie, &mut self.plugs[plug], self.now),
                None => self.queue.submit(&bio, cookie, self.now),
            };
            match submitted {
                Ok(Submitted::Nothing) => self.ledger.nothing_to_do(cookie)?,
                Ok(submitted) => {
                    self.limiting.held += u64::from(submitted == Submitted::Held);
                    if bio.operation.is_mergeable() {
                        self.last = bio;
                    }
                }
                Err(Full) => self.ledger.withdrawn(cookie),
            }
            self.starvation.observe(&mut self.queue)?;
        }
        if let Some(plug) = plug.filter(|_| self.random.chance(1, 2)) {
            self.queue.unplug(&mut self.plugs[plug], self.now);
        }
        Ok(())
    }

    /// A neighbour of the last bio, or something entirely new.
    fn draw_bio(&mut self) -> Bio {
        if self.random.chance(self.temper.adjacent_percent, 100) {
            let mut bio = self.last;
            if self.random.chance(1, 4) {
                bio.flags = self.draw_flags(bio.operation);
            }
            bio.segments = 1 + u16_below(&mut self.random, 3);
            bio.extent = self.draw_neighbour(bio.operation);
            if !self.leaving[bio.context.0 as usize] {
                return bio;
            }
        }
        let operation = self.draw_operation();
        let random = &mut self.random;
        let mut bio = Bio::new(operation, Extent::new(0, 0));
        bio.context = (0..8)
            .map(|_| ContextId(u32_below(random, CONTEXTS - 1)))
            .find(|context| !self.leaving[context.0 as usize])
            .unwrap_or(LASTING_CONTEXT);
        bio.group = GroupId(u32_below(random, GROUPS));
        bio.software_queue = SoftwareQueue(u16_below(random, SOFTWARE_QUEUES));
        bio.hardware_queue = HardwareQueue(u16_below(random, self.temper.hardware_queues));
        bio.device = u32::from(random.chance(1, 20));
        if random.chance(3, 10) {
            let class = [Class::RealTime, Class::BestEffort, Class::Idle][below(random, 3)];
            bio.priority = Priority::new(class, u8::try_from(random.below(8)).unwrap_or(0));
        }
        bio.flags = self.draw_flags(operation);
        bio.segments = 1 + u16_below(&mut self.random, 3);
        if operation != Operation::Flush {
            let sectors = self.draw_sectors(operation);
            let first_sector = self.random.below(CAPACITY_SECTORS / 8) * 8;
            bio.extent = self.fit(first_sector, sectors);
        }
        bio
    }

    fn draw_operation(&mut self) -> Operation {
        match self.random.below(100) {
            roll if roll < self.temper.flush_percent / 2 => Operation::Flush,
            96..98 => Operation::Discard,
            98 => Operation::WriteZeroes,
            99 => Operation::Passthrough,
            _ if self.random.chance(self.temper.read_percent, 100) => Operation::Read,
            _ => Operation::Write,
        }
    }

    fn draw_flags(&mut self, operation: Operation) -> Flags {
        let random = &mut self.random;
        let mut flags = if random.chance(1, 2) { Flags::SYNC } else { Flags::NONE };
        let mut perhaps = |flag, percent| {
            if random.chance(percent, 100) {
                flags = flags.with(flag);
            }
        };
        perhaps(Flags::NOMERGE, 3);
        perhaps(Flags::META, 5);
        match operation {
            Operation::Read => perhaps(Flags::READAHEAD, 10),
            Operation::Write => {
                perhaps(Flags::FUA, self.temper.flush_percent);
                perhaps(Flags::PREFLUSH, self.temper.flush_percent);
                perhaps(Flags::BACKGROUND, 20);
            }
            _ => {}
        }
        flags
    }

    fn draw_sectors(&mut self, operation: Operation) -> u32 {
        let random = &mut self.random;
        let longest = self.limits.max_sectors_of(operation).min(256);
        match random.below(10) {
            0 => 1 + u32_below(random, longest),
            1 => longest,
            roll => 8 << (roll % 3),
        }
    }

    /// An extent behind or before the last one.
    fn draw_neighbour(&mut self, operation: Operation) -> Extent {
        let sectors = self.draw_sectors(operation);
        let last = self.last.extent;
        if self.random.chance(2, 3) {
            return self.fit(last.end(), sectors);
        }
        let sectors = sectors.min(u32::try_from(last.first_sector).unwrap_or(u32::MAX)).max(1);
        self.fit(last.first_sector.saturating_sub(u64::from(sectors)), sectors)
    }

    /// As much of an extent as device and chunk boundaries leave.
    fn fit(&self, first_sector: u64, sectors: u32) -> Extent {
        let first_sector = first_sector % CAPACITY_SECTORS;
        let mut room = CAPACITY_SECTORS - first_sector;
        if let Some(into_chunk) = first_sector.checked_rem(u64::from(self.limits.chunk_sectors)) {
            room = room.min(u64::from(self.limits.chunk_sectors) - into_chunk);
        }
        Extent::new(first_sector, u32::try_from(room).unwrap_or(u32::MAX).min(sectors))
    }

    // ---- the device ----

    fn dispatch(&mut self) -> Result<(), Broken> {
        for queue in 0..self.temper.hardware_queues {
            let hardware_queue = HardwareQueue(queue);
            loop {
                let next = self.queue.dispatch(hardware_queue, self.now);
                self.starvation.observe(&mut self.queue)?;
                let Next::Start { id, .. } = next else {
                    self.ledger.progress(&self.queue, hardware_queue, next)?;
                    self.starvation.pauses(next)?;
                    break;
                };
                self.ledger.start(&self.queue, id)?;
                if self.random.chance(self.temper.requeue_per_mille, 1_000) {
                    self.requeued += 1;
                    self.ledger.leave(&self.queue, id, None)?;
                    self.queue.requeue(id, self.now);
                } else if self.random.chance(self.temper.refuse_per_mille, 1_000) || !self.hand_over(id) {
                    self.ledger.leave(&self.queue, id, None)?;
                    self.queue.refuse(id, self.now);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives a request to the device; false if it has no room.
    fn hand_over(&mut self, id: RequestId) -> bool {
        let attributes = self.queue.requests().attributes(id);
        let command = Command {
            tag: id.raw(),
            operation: attributes.operation,
            flags: attributes.flags,
            extent: attributes.extent,
            hardware_queue: attributes.hardware_queue,
        };
        self.device.submit(self.now, &command) == Submit::Accepted
    }

    /// Goes to the next event, or some way towards it.
    fn pass_time(&mut self) -> Result<(), Broken> {
        let next = self.device.next_event().min(self.queue.next_timer().unwrap_or(NEVER));
        self.now = match next {
            NEVER => self.now + 1 + self.random.below(1_000_000),
            _ if next > self.now && self.random.chance(1, 8) => self.now + self.random.below(next - self.now + 1),
            _ => next.max(self.now),
        };
        if self.device.is_idle() && self.queue.next_timer().is_none() && self.queue.in_device() > 0 {
            return Err("P1: the queue waits for a request that the device does not have".to_owned());
        }
        self.device.advance(self.now, &mut self.completions);
        let completions = std::mem::take(&mut self.completions);
        for completion in &completions {
            self.complete(completion)?;
        }
        self.completions = completions;
        self.completions.clear();
        if self.queue.next_timer().is_some_and(|at| at <= self.now) {
            self.queue.timer(self.now);
            self.starvation.observe(&mut self.queue)?;
        }
        Ok(())
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), Broken> {
        let id = RequestId::from_raw(completion.tag);
        self.ledger.leave(&self.queue, id, Some(completion.status))?;
        match completion.status {
            Status::Ok => {}
            Status::Timeout => self.lost += 1,
            _ => self.failed += 1,
        }
        let mut outcome = Ok(());
        let (ledger, checksum, now) = (&mut self.ledger, &mut self.checksum, self.now);
        self.queue.complete(id, completion.status, now, |done| {
            for bytes in [now, done.cookie, done.status as u64] {
                *checksum = block::random::fnv1a64_continued(*checksum, &bytes.to_le_bytes());
            }
            let answered = ledger.done(&done);
            if outcome.is_ok() {
                outcome = answered;
            }
        });
        outcome?;
        self.starvation.observe(&mut self.queue)
    }

    // ---- churn ----

    fn churn(&mut self) -> Result<(), Broken> {
        match self.random.below(7) {
            0 => self.add_group(),
            1 => {
                let group = GroupId(u32_below(&mut self.random, GROUPS));
                self.lift_tight_limits_of(group);
                if self.queue.remove_group(group, self.now) {
                    self.note(format!("group {} removed", group.0));
                }
            }
            2 => {
                let group = GroupId(u32_below(&mut self.random, GROUPS));
                let weight = self.draw_weight();
                let (leaf_weight, priority) = beside(weight);
                let settings = GroupSettings { weight, leaf_weight, priority, ..*self.queue.groups().settings(group) };
                if self.queue.change_group(group, &settings, self.now) {
                    self.note(format!("group {} has weight {weight}", group.0));
                }
            }
            3 => self.exit_context(),
            4 => self.turn_tunable(),
            5 => {
                let requests = 1 + u32_below(&mut self.random, 64);
                let device = 1 + u32_below(&mut self.random, self.device.info().depth);
                self.queue.set_depth(Depth { requests, device }, self.now);
                self.note(format!("depths {requests} and {device}"));
            }
            _ => self.switch_policy()?,
        }
        for context in 0..CONTEXTS {
            if self.leaving[context as usize] && self.ledger.open_of(ContextId(context)) == 0 {
                self.leaving[context as usize] = false;
            }
        }
        Ok(())
    }

    fn draw_weight(&mut self) -> u32 {
        [1, 100, 10_000, 1 + u32_below(&mut self.random, 10_000)][below(&mut self.random, 4)]
    }

    fn add_group(&mut self) {
        let group = GroupId(1 + u32_below(&mut self.random, GROUPS - 1));
        let above = GroupId(u32_below(&mut self.random, GROUPS));
        let is_online = self.queue.groups().state(above) == GroupState::Online;
        let parent = if is_online && self.random.chance(1, 3) { above } else { GroupId::ROOT };
        let weight = self.draw_weight();
        let latency_target_ns = self.limiting.draw_target_ns();
        let (leaf_weight, priority) = beside(weight);
        let settings = GroupSettings { parent, weight, latency_target_ns, leaf_weight, priority };
        if self.queue.add_group(group, &settings, self.now) {
            self.groups += 1;
            self.note(format!("group {} below {} of weight {weight} added", group.0, parent.0));
        }
    }

    fn exit_context(&mut self) {
        let context = ContextId(u32_below(&mut self.random, CONTEXTS - 1));
        if !self.leaving[context.0 as usize] {
            self.leaving[context.0 as usize] = true;
            self.queue.context_exited(context, self.now);
            self.note(format!("context {} exited", context.0));
        }
    }

    fn turn_tunable(&mut self) {
        let rows = self.queue.elevator().tunables();
        if rows.is_empty() {
            return;
        }
        if rows.iter().any(|row| row.name == "slice_idle") && self.random.chance(1, 3) {
            return self.flip_idling();
        }
        let row = &rows[below(&mut self.random, rows.len())];
        let near = row.default.unwrap_or(row.min).saturating_add(i64::from(u32_below(&mut self.random, 20)) - 10);
        let value = [row.min, row.max, row.default.unwrap_or(row.max), near][below(&mut self.random, 4)];
        // Out of range is refused or clamped by the row; both are allowed to happen here.
        let outcome = self.queue.set(row.name, &value.to_string());
        self.starvation.tuned(&self.queue);
        self.note(format!("{} = {value}: {outcome:?}", row.name));
    }

    /// CFQ counts time while it waits for issuers, and requests while it does not: both at the same load.
    fn flip_idling(&mut self) {
        let is_waiting = self.queue.settings().any(|(row, value)| row.name == "slice_idle" && value > 0);
        let value = if is_waiting { "0" } else { "8" };
        let outcome = self.queue.set("slice_idle", value);
        self.starvation.tuned(&self.queue);
        self.note(format!("slice_idle = {value}: {outcome:?}"));
    }

    fn switch_policy(&mut self) -> Result<(), Broken> {
        if !self.temper.switches || self.queue.is_switching() {
            return Ok(());
        }
        let own = ENTRIES.iter().position(|entry| entry.name == self.policy).unwrap_or(0);
        let index = if self.random.chance(1, 2) { own } else { below(&mut self.random, ENTRIES.len()) };
        let versions = ENTRIES[index].versions;
        let version = versions[below(&mut self.random, versions.len())];
        let next = registry::build(ENTRIES[index].name, Some(version), &self.configuration)
            .map_err(|error| format!("{} cannot be built: {error:?}", ENTRIES[index].name))?;
        let handover = if self.random.chance(1, 2) { Handover::Drain } else { Handover::Carry };
        self.note(format!("switch to {}@{version:?}, {handover:?}", ENTRIES[index].name));
        self.starvation.will_switch(Some(version));
        let outcome = self.queue.switch(next, handover, self.now);
        outcome.map_err(|_| "a switch was refused although none is under way".to_owned())?;
        self.starvation.observe(&mut self.queue)
    }
}

fn starvation(
    policy: &str,
    version: Option<Version>,
    configuration: &Configuration,
    queue: &RequestQueue,
) -> Starvation {
    let mut starvation = Starvation::new(Terms {
        name: policy.to_owned(),
        version,
        tick_ns: configuration.tick_ns,
        software_queues: u64::from(configuration.software_queues),
        ..Terms::default()
    });
    starvation.tuned(queue);
    starvation
}

/// What may be wrong with a device, each for itself.
const FAULTS: [&str; 6] = [
    ",error_ppm=5000",
    ",bad_first_sector=5000,bad_sectors=800",
    ",slow_first_sector=20000,slow_sectors=30000,slow_ms=2.5",
    ",stall_ppm=2000,stall_ms=20",
    ",hiccup_every_ms=9,hiccup_ms=4",
    ",reset_ppm=2000,reset_ms=40",
];

/// A device that is small, so that extents meet, and unreliable to a degree that the seed decides.
fn device(random: &mut Stream, hardware_queues: u16) -> Result<AnyDevice, Broken> {
    let mut among = |choices: &[&'static str]| choices[below(random, choices.len())];
    let model = among(&["ssd,sim_mib=64", "ssd,channels=2,sim_mib=64", "null", "null,servers=1"]);
    let depth = among(&["1", "2", "8", "32"]);
    let max_sectors = among(&["128", "256", "2560"]);
    // An SSD's cache is volatile unless its power lasts.
    let caches = ["volatile_cache=0", "volatile_cache=1,fua=0", "volatile_cache=1,fua=1"];
    let cache = if model.starts_with("null") { among(&caches) } else { among(&["plp=0", "plp=1"]) };
    let mut text = format!(
        "{model},capacity_sectors={CAPACITY_SECTORS},qd={depth},hw_queues={hardware_queues},max_sectors={max_sectors},{cache}"
    );
    // A third of the devices is sound; the others have each fault in every second case.
    if random.chance(2, 3) {
        for fault in FAULTS {
            if random.chance(1, 2) {
                text.push_str(fault);
            }
        }
    }
    let model = Model::parse(&text).map_err(|error| error.to_string())?;
    Ok(model.build(random.next(), "dev0"))
}

fn below(random: &mut Stream, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

fn u32_below(random: &mut Stream, bound: u32) -> u32 {
    u32::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

fn u16_below(random: &mut Stream, bound: u16) -> u16 {
    u16::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

/// The tunables that a policy begins with: `tarasov:mapping=openvz`.
fn set_tunables(queue: &mut RequestQueue, text: &str) -> Result<(), Broken> {
    let policy = text.split('+').next().unwrap_or_default();
    for row in policy.split_once(':').into_iter().flat_map(|(_, rows)| rows.split(',')) {
        let (row, value) = row.split_once('=').ok_or_else(|| format!("'{row}' sets nothing"))?;
        queue.set(row, value).map_err(|error| format!("{row}={value}: {error:?}"))?;
    }
    Ok(())
}

/// Name and version of the policy, names of the limiters: `mq-deadline@6.1+throttle`; `tarasov:mapping=openvz` begins with
/// that.
fn split(text: &str) -> Result<(&str, Option<Version>, Vec<&str>), Broken> {
    let mut names = text.split('+');
    let policy = names.next().unwrap_or_default();
    let policy = policy.split_once(':').map_or(policy, |(policy, _)| policy);
    let (policy, version) = policy.split_once('@').map_or((policy, None), |(name, version)| (name, Some(version)));
    let version = match version.map(registry::parse_version) {
        Some(None) => return Err(format!("policy '{text}' has no version")),
        known => known.flatten(),
    };
    Ok((policy, version, names.collect()))
}

/// A level that goes with a weight; one in nine has none.
fn beside(weight: u32) -> (Option<u32>, Option<GroupPriority>) {
    let leaf_weight = weight.is_multiple_of(3).then_some(1 + weight / 7);
    (leaf_weight, GroupPriority::new(weight % 9).ok())
}
