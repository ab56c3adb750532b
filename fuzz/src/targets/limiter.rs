//! The shared driver of all limiters' targets: converts bytes to the calls of a correct host, and
//! after each call compares the limiter's answers with the host's state.

use crate::target::Seen;
use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation, Status};
use hoistway_elevator::{
    Bio, BioId, Depth, GroupSettings, GroupState, GroupTree, IoLimits, LimiterConfiguration, LimiterPolicy, Rates,
    RequestEnd, Verdict,
};

/// Longest input: about 1,000 calls.
pub const LONGEST_BYTES: usize = 4_096;

/// First bytes of each kind of call, so that mutations change the kind on purpose.
pub const TOKENS: &[&[u8]] = &[
    &[0, 1, 0, 8],
    &[1, 2, 64, 255],
    &[2, 1, 4, 1],
    &[60, 0],
    &[90, 0],
    &[110, 0],
    &[160, 0],
    &[170, 0],
    &[180, 1],
    &[180, 3],
    &[200, 0, 3, 5],
    &[208, 1, 0],
    &[212, 1, 0, 16],
    &[220, 1, 3, 7, 0],
    &[232, 1],
    &[238, 1],
    &[242, 4, 2],
    &[246, 0, 1],
    &[252],
    &[254, 0, 3],
    &[254, 9, 0],
];

const BIOS: u32 = 96;
const GROUPS: u32 = 6;
/// More timer expiries than this at one time mean that a timer never stops.
const MOST_FIRINGS: u32 = 4_096;

/// The state of a bio in the host.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Where {
    Free,
    Held,
    /// It became a request that is not in the device.
    Queued,
    InDevice {
        issued_ns: Nanos,
    },
    /// It belongs to the request of this bio and completes with it.
    Merged(u32),
}

#[derive(Copy, Clone, Debug)]
struct Entry {
    place: Where,
    bio: Bio,
    submitted_ns: Nanos,
}

struct Host<L> {
    limiter: L,
    now: Nanos,
    bios: Vec<Entry>,
    groups: GroupTree,
    held: u32,
    /// Groups of bios that were taken back; they lose the bio's reference when the limiter was asked for
    /// what it releases.
    unheld: Vec<GroupId>,
    seen: Seen,
}

/// Makes the calls on the limiter. A violated property panics.
pub fn drive<L: LimiterPolicy>(bytes: &[u8]) -> Seen {
    let Some((shape, bytes)) = bytes.split_first() else { return Seen::NOTHING };
    let mut host = Host::<L>::new(*shape);
    let mut bytes = bytes.iter().copied();
    while let Some(kind) = bytes.next() {
        host.call(kind, &mut || bytes.next().unwrap_or(0));
    }
    host.finish()
}

impl<L: LimiterPolicy> Host<L> {
    /// A host whose device is deep or shallow and a disk or flash, and whose clock is coarse or
    /// exact, as the bits of `shape` say.
    fn new(shape: u8) -> Self {
        let configuration = LimiterConfiguration {
            bios: BIOS,
            groups: GROUPS,
            depth: depth(shape & 3, shape >> 2 & 3),
            rotational: shape & 0x10 != 0,
            volatile_cache: shape & 0x20 != 0,
            tick_ns: if shape & 0x40 == 0 { 0 } else { 4_000_000 },
        };
        let mut limiter = L::build(&configuration).expect("memory");
        limiter.trace(true);
        let free = Entry { place: Where::Free, bio: Bio::new(Operation::Read, Extent::default()), submitted_ns: 0 };
        let groups = GroupTree::try_new(GROUPS).expect("memory");
        let bios = vec![free; BIOS as usize];
        let mut host = Self {
            limiter,
            now: 1_000_000,
            bios,
            groups,
            held: 0,
            unheld: Vec::new(),
            seen: Seen::NOTHING.and(&[shape & 0x7f]),
        };
        for group in 1..=2 {
            host.add_group(group, 0, if shape & 0x80 == 0 { 0 } else { 4 });
        }
        host
    }

    fn call(&mut self, kind: u8, next: &mut impl FnMut() -> u8) {
        match kind {
            0..=59 => self.submit(kind, next()),
            60..=89 => self.with_one(next(), |place| place == Where::Queued, Self::issue),
            90..=159 => self.with_one(next(), has_request, Self::end),
            160..=165 => self.with_one(next(), |place| matches!(place, Where::InDevice { .. }), Self::requeue),
            166..=173 => {
                let into = next();
                self.with_one(into, |place| place == Where::Queued, Self::merge);
            }
            174..=199 => self.pass(next()),
            200..=207 => self.add_group(u32::from(next()), u32::from(next()), next()),
            208..=211 => self.change_group(group_of(next()), next()),
            212..=231 => self.limit(group_of(next()), next(), next()),
            232..=237 => self.set_offline(group_of(next())),
            238..=241 => self.limiter.waited_for_request(u64::from(next()) << 10),
            242..=245 => self.limiter.depth_changed(depth(next() & 3, next() & 3)),
            246..=251 => self.set(next(), next()),
            252..=253 => self.limiter.drain(self.now),
            254..=255 => self.withdraw(next(), next()),
        }
        self.collect(kind / 4);
    }

    // ---- bios ----

    fn submit(&mut self, kind: u8, sizes: u8) {
        const FLAGS: [Flags; 8] = [
            Flags::NONE,
            Flags::SYNC,
            Flags(Flags::SYNC.0 | Flags::IDLE.0),
            Flags::BACKGROUND,
            Flags::SWAP,
            Flags::META,
            Flags::BYTES_CHARGED,
            Flags::NONE,
        ];
        const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Write, Operation::Discard];
        let Some(id) = self.bios.iter().position(|entry| entry.place == Where::Free) else { return };
        let group = GroupId(u32::from(sizes >> 4) % GROUPS);
        if self.groups.state(group) != GroupState::Online {
            return;
        }
        let flags = FLAGS[usize::from(kind >> 2 & 7)];
        let extent = Extent::new(u64::from(sizes) << 8, 8 << (sizes & 7));
        let bio = Bio { group, flags, ..Bio::new(OPERATIONS[usize::from(kind & 3)], extent) };
        let number = u32::try_from(id).expect("few");
        let place = match self.limiter.submit(BioId(number), &bio, self.now) {
            Verdict::Pass => Where::Queued,
            Verdict::Held => {
                self.held += 1;
                Where::Held
            }
        };
        self.groups.add_request(group);
        self.bios[id] = Entry { place, bio, submitted_ns: self.now };
    }

    /// Calls `act` with one of the bios for which `is_one` is true, if there is any.
    fn with_one(&mut self, which: u8, is_one: impl Fn(Where) -> bool, act: impl Fn(&mut Self, u32)) {
        let fitting: Vec<u32> = (0..BIOS).filter(|id| is_one(self.place(*id))).collect();
        if let Some(id) = fitting.get(usize::from(which) % fitting.len().max(1)) {
            act(self, *id);
        }
    }

    fn place(&self, id: u32) -> Where {
        self.bios[id as usize].place
    }

    /// Takes back several held bios in a row.
    fn withdraw(&mut self, which: u8, count: u8) {
        for _ in 0..=count % 4 {
            self.with_one(
                which,
                |place| place == Where::Held,
                |host, id| {
                    host.limiter.withdrawn(BioId(id), host.now);
                    host.held -= 1;
                    host.bios[id as usize].place = Where::Free;
                    host.unheld.push(host.bios[id as usize].bio.group);
                },
            );
        }
    }

    fn issue(&mut self, id: u32) {
        let entry = &mut self.bios[id as usize];
        entry.place = Where::InDevice { issued_ns: self.now };
        self.limiter.issued(&entry.bio, self.now);
    }

    fn requeue(&mut self, id: u32) {
        let entry = &mut self.bios[id as usize];
        entry.place = Where::Queued;
        self.limiter.requeued(&entry.bio, self.now);
    }

    /// Merges a request into the first other waiting one.
    fn merge(&mut self, id: u32) {
        let Some(into) = (0..BIOS).find(|other| *other != id && self.place(*other) == Where::Queued) else { return };
        for other in 0..BIOS {
            if self.place(other) == Where::Merged(id) {
                self.bios[other as usize].place = Where::Merged(into);
            }
        }
        self.bios[id as usize].place = Where::Merged(into);
        let bio = self.bios[id as usize].bio;
        self.limiter.merged(BioId(id), &bio, self.now);
    }

    /// A request completes, with all its bios.
    fn end(&mut self, id: u32) {
        let Entry { bio, submitted_ns, place } = self.bios[id as usize];
        let issued_ns = if let Where::InDevice { issued_ns } = place { issued_ns } else { 0 };
        let end = RequestEnd { attributes: bio, start_ns: submitted_ns, issued_ns, status: Status::Ok };
        self.limiter.request_ended(&end, self.now);
        self.collect(60);
        for part in 0..BIOS {
            if part != id && self.place(part) != Where::Merged(id) {
                continue;
            }
            let Entry { bio, submitted_ns, .. } = self.bios[part as usize];
            self.bios[part as usize].place = Where::Free;
            self.limiter.bio_ended(BioId(part), &bio, submitted_ns, self.now);
            self.collect(61);
            self.remove_request(bio.group);
        }
    }

    // ---- time ----

    fn pass(&mut self, scale: u8) {
        const STEPS: [Nanos; 8] =
            [0, 1_000, 300_000, 1_000_000, 20_000_000, 101_000_000, 1_000_000_000, 60_000_000_000];
        self.now += STEPS[usize::from(scale & 7)] * u64::from(scale >> 3).max(1);
        self.fire();
    }

    fn fire(&mut self) {
        for _ in 0..MOST_FIRINGS {
            if self.limiter.next_timer().is_none_or(|at| at > self.now) {
                return;
            }
            self.limiter.timer(self.now);
            self.collect(62);
        }
        panic!("a timer fires without end at {}", self.now);
    }

    // ---- groups and settings ----

    fn add_group(&mut self, group: u32, parent: u32, target: u8) {
        let (group, parent) = (GroupId(group % GROUPS), GroupId(parent % GROUPS));
        let settings = GroupSettings { parent, ..settings(target) };
        if self.groups.add(group, &settings) {
            self.limiter.group_added(group, &settings, self.now);
        }
    }

    fn change_group(&mut self, group: GroupId, target: u8) {
        let settings = GroupSettings { parent: self.groups.settings(group).parent, ..settings(target) };
        if group != GroupId::ROOT && self.groups.change(group, &settings) {
            self.limiter.group_changed(group, &settings, self.now);
        }
    }

    fn limit(&mut self, group: GroupId, which: u8, size: u8) {
        if self.groups.state(group) != GroupState::Online {
            return;
        }
        let mut limits = IoLimits::NONE;
        let direction = usize::from(which & 1);
        let rates = if which & 8 == 0 { &mut limits.max } else { &mut limits.low };
        if which & 2 == 0 {
            rates.bytes_per_s[direction] = 2u64 << (size & 31);
        }
        if which & 4 == 0 {
            rates.ios_per_s[direction] = 2u32 << (size & 15);
        }
        if which & 16 == 0 {
            limits.max = Rates { ios_per_s: [u32::from(size) + 2; 2], ..limits.max };
        }
        (limits.idle_us, limits.latency_us) = (u64::from(which >> 5) * 500, u64::from(which >> 4) * 50);
        self.limiter.limits_changed(group, &limits, self.now);
    }

    fn set_offline(&mut self, group: GroupId) {
        if self.groups.set_offline(group) {
            self.limiter.group_offline(group, self.now);
            self.collect(63);
            self.remove_if_unused(group);
        }
    }

    fn remove_request(&mut self, group: GroupId) {
        if self.groups.remove_request(group) {
            self.remove_if_unused(group);
        }
    }

    fn remove_if_unused(&mut self, group: GroupId) {
        if self.groups.remove_if_unused(group) {
            self.limiter.group_removed(group, self.now);
            self.collect(64);
        }
    }

    fn set(&mut self, row: u8, value: u8) {
        let rows = self.limiter.tunables();
        let Some(row_index) = usize::from(row).checked_rem(rows.len()) else { return };
        let row = &rows[row_index];
        let value =
            if value < 128 { row.min.saturating_add(i64::from(value)) } else { row.max.min(i64::from(value) << 7) };
        let outcome = self.limiter.set(row_index, value, self.now);
        assert_eq!(outcome.is_ok(), row.admit(value).is_ok(), "{} = {value}", row.name);
        self.seen = self.seen.and(row.name.as_bytes());
    }

    // ---- checks ----

    /// Collects the released bios, and checks everything.
    fn collect(&mut self, event: u8) {
        let mut released = 0;
        while let Some(BioId(id)) = self.limiter.next_released(self.now) {
            assert_eq!(self.place(id), Where::Held, "bio {id} was released");
            self.bios[id as usize].place = Where::Queued;
            self.held -= 1;
            released += 1;
        }
        for group in std::mem::take(&mut self.unheld) {
            self.remove_request(group);
        }
        assert_eq!(self.limiter.held(), self.held, "bios held, as the limiter and as the host counts");
        assert_eq!(self.limiter.check(), Ok(()));
        assert_eq!(self.limiter.violations(), 0, "violations counted");
        if released > 0 {
            self.seen = self.seen.and(&[event]).and_count(released);
        }
        while let Some(message) = self.limiter.take_message() {
            assert!(!message.to_string().contains('{'), "{message}");
            self.seen = self.seen.and(message.text.as_bytes());
        }
    }

    /// Ends the run: completes the bios in flight and drains the limiter. Every bio must be
    /// released then, whatever calls were made.
    fn finish(mut self) -> Seen {
        self.limiter.drain(self.now);
        self.collect(65);
        for _ in 0..4 * BIOS {
            self.now += 10_000_000;
            self.fire();
            self.with_one(0, has_request, Self::end);
        }
        assert_eq!(self.held, 0, "bios left");
        self.seen
    }
}

fn has_request(place: Where) -> bool {
    matches!(place, Where::Queued | Where::InDevice { .. })
}

fn group_of(byte: u8) -> GroupId {
    GroupId(u32::from(byte) % GROUPS)
}

fn depth(requests: u8, device: u8) -> Depth {
    Depth { requests: [1, 4, 16, 128][usize::from(requests & 3)], device: [0, 1, 2, 32][usize::from(device & 3)] }
}

/// A weight, and a target of 0 to 31 ms or, as in the kernel, none.
fn settings(target: u8) -> GroupSettings {
    let latency_target_ns = if target == u8::MAX { u64::MAX } else { u64::from(target & 31) * 1_000_000 };
    GroupSettings { latency_target_ns, ..GroupSettings::with_weight(u32::from(target) * 8 + 1) }
}

/// Initial inputs: a few of every shape.
pub fn corpus() -> Vec<Vec<u8>> {
    let input = |seed: u8| {
        let mut random = hoistway_block::random::Stream::of(u64::from(seed), "fuzz/limiter");
        let mut bytes = vec![seed];
        bytes.extend((0..96).flat_map(|_| random.next().to_le_bytes()));
        bytes
    };
    (0..=255).step_by(5).map(input).collect()
}
