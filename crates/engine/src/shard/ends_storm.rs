//! Clients that come, overlap, and vanish under load, over the whole turn and a device that stores what
//! it is given: every answered read and write must fit one register per sector ([`super::register`]), and
//! nothing of a client that is gone takes effect later than its end. Limits, plugs, switches of the
//! scheduler, short and failed transfers, blocks that are read and modified, and a drain take part.

mod overlays;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Priority, RequestId};
use hoistway_elevator::registry::ENTRIES;
use hoistway_experiment::{Limits, SchedulerSpec};
use hoistway_linux::buffer::{Arena, Span};
use hoistway_linux::ring::Emptying;

use self::overlays::Overlays;
use super::register::{Access, End, Registers};
use crate::protocol::{ClientRequest, Command};
use crate::turn::{
    Action, Actions, ConnectionBounds, OVERDUE_NS, Piece, Positions, Turn, TurnSettings, Verdict, VolumeAbilities,
};

const SECTOR_BYTES: u64 = 512;
/// Sectors that clients use of each volume: few, so that they overlap.
const SECTORS: u64 = 128;
const LONGEST_SECTORS: u64 = 24;
/// The volume that cannot be trimmed.
const CANNOT_PUNCH: u32 = 2;
const CLIENTS: usize = 9;
/// Unanswered requests of a client. More would make the check slow, not the storm wilder.
const MOST_OPEN: usize = 5;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;

/// A request without its last piece.
#[derive(Clone, Debug)]
struct Open {
    command: Command,
    sectors: Range<u64>,
    /// Sectors whose read has been answered.
    answered: Vec<u64>,
}

struct Client {
    volume: u32,
    /// Whether its stream waits for the turn.
    waits: bool,
    fills: Option<Span>,
    /// The request whose payload is supplied, and the bytes supplied.
    supplying: (u64, u64),
    open: BTreeMap<u64, Open>,
    output: Vec<(u32, Piece)>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
    Empty,
}

/// A command in the device.
struct Io {
    id: RequestId,
    volume: u32,
    /// Whether it reads the base below the volume.
    is_of_base: bool,
    kind: Kind,
    position_bytes: u64,
    spans: Vec<Span>,
    length_bytes: u64,
    /// How much of it the device has done.
    done_bytes: u64,
}

/// What the storm saw, so that a calm one fails.
#[derive(Copy, Clone, Debug, Default)]
struct Seen {
    answered: u64,
    died_with_requests: u64,
    switches: u64,
    held: u64,
    withdrawn: u64,
    kept_back: u64,
    /// How often all clients and the server were killed at once, and the writes of a bitmap that were torn by it.
    killed: u64,
    torn: u64,
}

struct Storm {
    random: Stream,
    settings: TurnSettings,
    turn: Turn,
    arena: Arc<Arena>,
    actions: Actions,
    now: Nanos,
    clients: BTreeMap<u32, Client>,
    groups: Vec<u32>,
    ios: Vec<Io>,
    syncs: Vec<u32>,
    /// The values on the device, by volume and sector.
    stored: BTreeMap<(u32, u64), u64>,
    registers: Registers,
    volumes: [VolumeAbilities; 3],
    overlays: Option<Overlays>,
    /// The first sector of each volume that clients use.
    first: u64,
    next_cookie: u64,
    seen: Seen,
    seed: u64,
}

impl Storm {
    fn new(seed: u64, is_over_base: bool) -> Self {
        let settings = TurnSettings {
            connections: 24,
            groups: 8,
            device_depth: 6,
            max_part_bytes: if is_over_base { 64 << 10 } else { 4 << 10 },
            scheduler: ENTRIES[0].name.to_owned(),
            ..TurnSettings::probe()
        };
        let arena = settings.arena().expect("memory");
        let mut turn = Turn::new(&settings, Arc::clone(&arena)).expect("a turn");
        let volumes = [(1, true), (4_096, true), (512, false)].map(|(alignment_bytes, can_punch)| VolumeAbilities {
            size_bytes: if is_over_base { overlays::SECTORS } else { SECTORS } * SECTOR_BYTES,
            is_read_only: false,
            alignment_bytes,
            emptying_alignment_bytes: alignment_bytes,
            trimming: can_punch.then_some(Emptying::PunchHole),
            can_punch,
            can_zero: false,
            is_null: false,
            uses_page_cache: false,
            has_unsafe_flush: false,
            priority: Priority::NONE,
            positions: Positions::linear(0),
        });
        for abilities in &volumes {
            turn.add_volume(abilities.clone());
        }
        let mut groups = vec![0];
        groups.extend(["a", "b"].into_iter().filter_map(|name| turn.add_group(name, 0, 100, 0)));
        let mut storm = Self {
            random: Stream::of(seed, "ends"),
            settings,
            turn,
            arena,
            actions: Actions::default(),
            now: 1,
            clients: BTreeMap::new(),
            groups,
            ios: Vec::new(),
            syncs: Vec::new(),
            stored: BTreeMap::new(),
            registers: Registers::default(),
            volumes,
            overlays: None,
            first: 0,
            next_cookie: 1,
            seen: Seen::default(),
            seed,
        };
        if is_over_base {
            storm.put_over_base();
        }
        storm
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn index_below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap_or(0)
    }

    fn pick_client(&mut self, may: impl Fn(&Client) -> bool) -> Option<u32> {
        let fitting: Vec<u32> = self.clients.iter().filter(|(_, client)| may(client)).map(|(&id, _)| id).collect();
        if fitting.is_empty() { None } else { Some(fitting[self.index_below(fitting.len())]) }
    }

    fn step(&mut self) {
        // Now and then the device does not answer for so long that its I/Os are overdue.
        self.now += if self.random.chance(1, 2_000) { 2 * OVERDUE_NS } else { self.below(100_000) };
        match self.below(1_000) {
            0..20 => self.connect(),
            20..35 => self.die(),
            35..38 => self.switch(),
            38..42 => self.limit(),
            42..44 => self.repair(),
            44..48 => self.die_all(),
            48..60 => self.sync_done(),
            60..400 => self.submit(),
            400..600 => self.fill(),
            600..700 => self.store(),
            700..850 if self.random.chance(1, 5) && self.overlays.is_some() => self.store_done(),
            700..850 => self.complete(),
            850..980 => self.send(),
            _ => self.turn.expire(self.now),
        }
        self.settle();
        self.seen.held += u64::from(self.turn.held_by_limiters() > 0);
    }

    fn settle(&mut self) {
        self.turn.begin_turn(self.now);
        loop {
            self.turn.dispatch(self.now, &mut self.actions);
            if self.actions.list.is_empty() {
                return;
            }
            let actions = std::mem::take(&mut self.actions);
            for action in &actions.list {
                self.perform(*action, &actions.spans);
            }
        }
    }

    fn perform(&mut self, action: Action, spans: &[Span]) {
        match action {
            Action::Start {
                io: id,
                volume,
                is_of_base,
                is_write,
                position_bytes,
                first_span,
                spans: count,
                bytes,
                ..
            } => {
                let spans = spans[first_span as usize..(first_span + count) as usize].to_vec();
                let kind = if is_write { Kind::Write } else { Kind::Read };
                let length_bytes = u64::from(bytes);
                self.ios.push(Io { id, volume, is_of_base, kind, position_bytes, spans, length_bytes, done_bytes: 0 });
            }
            Action::Empty { io: id, volume, position_bytes, length_bytes, .. } => {
                let (kind, spans, is_of_base) = (Kind::Empty, Vec::new(), false);
                self.ios.push(Io { id, volume, is_of_base, kind, position_bytes, spans, length_bytes, done_bytes: 0 });
            }
            Action::Sync { volume } => self.syncs.push(volume),
            Action::Store { volume, position_bytes, span } => self.store_begins(volume, position_bytes, span),
            Action::Reply { connection, request, piece } => self.answered(connection, request, piece),
            Action::Continue { connection, verdict } => {
                if let Some(client) = self.clients.get_mut(&connection) {
                    apply(client, verdict);
                }
            }
            Action::Status { .. } => panic!("no client asks for it"),
            Action::Finished { connection } => {
                assert!(!self.clients.contains_key(&connection), "seed {}", self.seed);
                let has_io = self.ios.iter().any(|io| self.turn.connection_of(io.id) == connection);
                assert!(!has_io, "finished while a command is in the device, seed {}", self.seed);
                self.turn.retire(connection);
            }
        }
    }

    // ---- clients ----

    fn connect(&mut self) {
        if self.clients.len() >= CLIENTS {
            return;
        }
        let (volume, group) = (self.below(3), self.index_below(self.groups.len()));
        let (volume, group) = (u32::try_from(volume).unwrap_or(0), self.groups[group]);
        if let Some(connection) = self.turn.open(volume, group, ConnectionBounds::default(), Priority::NONE) {
            let (open, output) = (BTreeMap::new(), Vec::new());
            let client = Client { volume, waits: false, fills: None, supplying: (0, 0), open, output };
            self.clients.insert(connection, client);
        }
    }

    fn die(&mut self) {
        if let Some(connection) = self.pick_client(|_| true) {
            self.kill(connection);
        }
    }

    fn kill(&mut self, connection: u32) {
        let Some(client) = self.clients.remove(&connection) else { return };
        self.seen.died_with_requests += u64::from(!client.open.is_empty());
        for (cookie, open) in &client.open {
            for sector in open.sectors.clone().filter(|sector| !open.answered.contains(sector)) {
                self.registers.at(client.volume, sector).ended(*cookie, End::Unanswered);
            }
        }
        // The receive of a payload may outlive the client for a while.
        if client.fills.is_some() && self.random.chance(1, 2) {
            self.turn.close_while_receiving(connection, self.now, &mut self.actions);
            for _ in 0..self.below(3) {
                self.settle();
                self.complete();
            }
            self.turn.payload_ended(connection, self.now, &mut self.actions);
        } else {
            self.turn.close(connection, self.now, &mut self.actions);
        }
        for (request, piece) in client.output {
            self.turn.sent(request, piece, self.now, &mut self.actions);
        }
    }

    fn submit(&mut self) {
        let may = |client: &Client| !client.waits && client.fills.is_none() && client.open.len() < MOST_OPEN;
        let Some(connection) = self.pick_client(may) else { return };
        let command = match self.below(100) {
            0..40 => Command::Write,
            40..80 => Command::Read,
            80..88 => Command::WriteZeroes,
            88..92 => Command::Trim,
            _ => Command::Flush,
        };
        let longest = if self.random.chance(1, 8) { LONGEST_SECTORS } else { 8 };
        let first = self.below(SECTORS);
        let sectors = first..(first + 1 + self.below(longest)).min(SECTORS);
        // A trim may leave alone what the device cannot empty, so only whole blocks are trimmed here.
        let volume = self.clients[&connection].volume;
        let sectors = match command {
            Command::Flush => 0..0,
            // Of a part of a block of the base, nothing.
            Command::Trim if volume == CANNOT_PUNCH || self.overlays.is_some() => 0..0,
            Command::Trim => first - first % 8..first - first % 8 + 8,
            _ => sectors,
        };
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let length_bytes = (sectors.end - sectors.start) * SECTOR_BYTES;
        let asked = ClientRequest {
            cookie,
            offset_bytes: (self.first + sectors.start) * SECTOR_BYTES,
            length_bytes,
            payload_bytes: if command == Command::Write { u32::try_from(length_bytes).unwrap_or(0) } else { 0 },
            command,
            fua: self.random.chance(1, 10),
            no_hole: self.random.chance(1, 2),
            fast_zero: false,
            one_piece: self.random.chance(1, 2),
            is_direct: false,
            one_extent: false,
            tag: 0,
        };
        let access = match command {
            Command::Write => Access::Write(cookie),
            Command::WriteZeroes | Command::Trim => Access::Write(0),
            _ => Access::Read,
        };
        for sector in sectors.clone() {
            self.registers.at(volume, sector).called(cookie, access);
        }
        let is_plugged = self.random.chance(1, 6);
        self.turn.plug(connection, 0, is_plugged);
        let verdict = self.turn.submit(connection, asked, self.now, &mut self.actions);
        self.turn.end_plug(is_plugged && verdict == Verdict::Go, self.now);
        if let Some(client) = self.clients.get_mut(&connection) {
            client.open.insert(cookie, Open { command, sectors, answered: Vec::new() });
            client.supplying = (cookie, 0);
            apply(client, verdict);
        }
    }

    fn fill(&mut self) {
        let Some(connection) = self.pick_client(|client| client.fills.is_some()) else {
            // Some process of each client waits now and then.
            if let Some(connection) = self.pick_client(|_| true) {
                self.turn.unplug_all(connection, self.now);
            }
            return;
        };
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let Some(span) = client.fills.take() else { return };
        let (cookie, done) = &mut client.supplying;
        *done += u64::from(span.length_bytes);
        let payload: Vec<u8> = sector_of(*cookie).repeat(span.length_bytes as usize / 512);
        self.arena.copy_in(span, &payload);
        let verdict = match span.length_bytes {
            0 => self.turn.skipped(connection, self.now, &mut self.actions),
            _ => self.turn.filled(connection, self.now, &mut self.actions),
        };
        if let Some(client) = self.clients.get_mut(&connection) {
            apply(client, verdict);
        }
    }

    fn answered(&mut self, connection: u32, request: u32, piece: Piece) {
        let cookie = self.turn.asked(request).cookie;
        let Some(client) = self.clients.get(&connection) else {
            return self.turn.sent(request, piece, self.now, &mut self.actions);
        };
        let volume = client.volume;
        let mut read = Vec::new();
        match piece {
            Piece::Data { part, .. } => read.push(part),
            Piece::Whole => read.extend(self.turn.parts_of(request)),
            _ => {}
        }
        let read: Vec<(u64, u64)> = read.into_iter().flat_map(|part| self.sectors_of(part)).collect();
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.output.push((request, piece));
        let open = client.open.get_mut(&cookie).expect("a request is answered once");
        for (sector, value) in read {
            open.answered.push(sector);
            self.registers.at(volume, sector).ended(cookie, End::Read(value));
        }
        if !piece.is_last() {
            return;
        }
        self.seen.answered += 1;
        let open = client.open.remove(&cookie).expect("found above");
        let is_written = open.command != Command::Read && piece == Piece::Done;
        let end = if is_written { End::Wrote } else { End::Unanswered };
        for sector in open.sectors.filter(|sector| !open.answered.contains(sector)) {
            self.registers.at(volume, sector).ended(cookie, end);
        }
    }

    /// The sectors of a read part, with what was read.
    fn sectors_of(&self, part: u32) -> Vec<(u64, u64)> {
        let span = self.turn.data_of(part);
        let mut bytes = vec![0; span.length_bytes as usize];
        self.arena.copy_out(span, &mut bytes);
        let first = self.turn.offset_of(part) / SECTOR_BYTES - self.first;
        (first..).zip(bytes.chunks(512).map(|sector| value_of(sector, self.seed))).collect()
    }

    fn send(&mut self) {
        let Some(connection) = self.pick_client(|client| !client.output.is_empty()) else { return };
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let (request, piece) = client.output.remove(0);
        self.turn.sent(request, piece, self.now, &mut self.actions);
    }

    // ---- the device ----

    /// A command does its next sectors, at once or a part of them.
    fn store(&mut self) {
        if self.ios.is_empty() {
            return;
        }
        let index = self.index_below(self.ios.len());
        let left = self.ios[index].length_bytes - self.ios[index].done_bytes;
        let sectors = 1 + self.below(left.div_ceil(SECTOR_BYTES).max(1));
        self.advance(index, sectors * SECTOR_BYTES);
    }

    /// Moves the next `bytes` of a command.
    fn advance(&mut self, index: usize, bytes: u64) {
        let io = &mut self.ios[index];
        let end = (io.done_bytes + bytes).min(io.length_bytes);
        while io.done_bytes < end {
            let sector = (io.position_bytes + io.done_bytes) / SECTOR_BYTES;
            let place = match &mut self.overlays {
                Some(overlays) if io.is_of_base => overlays.base.get_mut(&sector).expect("a sector of the base"),
                _ => self.stored.entry((io.volume, sector)).or_default(),
            };
            let memory = memory_at(&io.spans, io.done_bytes);
            match (io.kind, memory) {
                (Kind::Empty, _) => *place = 0,
                (Kind::Write, Some(memory)) => {
                    let mut bytes = [0; 512];
                    self.arena.copy_out(memory, &mut bytes);
                    *place = value_of(&bytes, self.seed);
                }
                (Kind::Read, Some(memory)) => self.arena.copy_in(memory, &sector_of(*place)),
                (_, None) => panic!("a command without memory, seed {}", self.seed),
            }
            io.done_bytes += SECTOR_BYTES;
        }
    }

    fn complete(&mut self) {
        if self.ios.is_empty() {
            return;
        }
        let index = self.index_below(self.ios.len());
        let result = match self.below(40) {
            0 => Some(-EIO),
            1 | 2 if self.ios[index].done_bytes == 0 => Some(-EAGAIN),
            3..7 if self.ios[index].kind != Kind::Empty => None,
            _ => {
                self.advance(index, u64::MAX >> 1);
                None
            }
        };
        let io = self.ios.swap_remove(index);
        let result = result.unwrap_or_else(|| i32::try_from(io.done_bytes).unwrap_or(i32::MAX));
        self.turn.completed(io.id, result, self.now, &mut self.actions);
    }

    fn sync_done(&mut self) {
        if let Some(volume) = self.syncs.pop() {
            self.turn.synced(volume, true, self.now, &mut self.actions);
        }
    }

    // ---- operators ----

    /// A volume that was damaged by a failed I/O is as new.
    fn repair(&mut self) {
        let volume = self.index_below(self.volumes.len());
        self.turn.repair(u32::try_from(volume).unwrap_or(0), &self.volumes[volume]);
    }

    fn switch(&mut self) {
        let entry = ENTRIES[self.index_below(ENTRIES.len())];
        let spec = SchedulerSpec::named(entry.name);
        self.seen.switches += u64::from(self.turn.switch(&spec, None, &self.settings, self.now).is_ok());
    }

    fn limit(&mut self) {
        let group = self.index_below(self.groups.len());
        let group = self.groups[group];
        let rate = 2 << self.below(12);
        let limits = match self.below(4) {
            0 => Limits { write_ios_per_s: Some(rate), ..Limits::NONE },
            1 => Limits { write_bytes_per_s: Some(rate << 8), read_ios_per_s: Some(rate), ..Limits::NONE },
            2 => Limits { latency_target_us: 50, ..Limits::NONE },
            _ => Limits::NONE,
        };
        assert_eq!(self.turn.set_limits(group, &limits, self.now), Ok(true), "seed {}", self.seed);
        match self.below(12) {
            0 => self.turn.lift_limits(self.now),
            1 => assert_eq!(self.turn.add_limiter(&SchedulerSpec::named("io.cost"), self.now), Ok(())),
            2 => assert_eq!(self.turn.add_limiter(&SchedulerSpec::named("wbt"), self.now), Ok(())),
            _ => {}
        }
    }

    /// A drain while clients die: nothing more is submitted, and nothing is left.
    fn drain(&mut self) {
        self.turn.drain(self.now);
        for round in 0..200_000 {
            self.now += 1_000_000;
            if round % 50 == 0 && round < 1_000 {
                self.die();
            }
            self.fill();
            self.store();
            self.complete();
            self.sync_done();
            self.store_done();
            self.send();
            self.turn.expire(self.now);
            self.settle();
            let is_stored = self.overlays.as_ref().is_none_or(|overlays| overlays.stores.is_empty());
            if round > 1_000 && is_stored && self.ios.is_empty() && self.turn.requests_in_flight() == 0 {
                return;
            }
        }
        panic!("{} requests never end, seed {}", self.turn.requests_in_flight(), self.seed);
    }
}

fn apply(client: &mut Client, verdict: Verdict) {
    client.waits = verdict == Verdict::Wait;
    client.fills = match verdict {
        Verdict::Fill(span) => Some(span),
        // The payload of a refused write goes nowhere.
        Verdict::Skip(_) => Some(Span::default()),
        _ => None,
    };
}

/// A sector that holds a value.
fn sector_of(value: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    bytes
}

/// The value of a sector, all of whose words are equal.
fn value_of(sector: &[u8], seed: u64) -> u64 {
    let words = || sector.chunks(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    let value = words().next().unwrap_or(0);
    assert!(words().all(|word| word == value), "a sector of two values, seed {seed}");
    value
}

/// The memory of the sector at `offset_bytes` of a command.
fn memory_at(spans: &[Span], offset_bytes: u64) -> Option<Span> {
    let mut before = 0;
    spans.iter().find_map(|span| {
        let into = offset_bytes.checked_sub(before);
        before += u64::from(span.length_bytes);
        let into = u32::try_from(into?).ok().filter(|into| *into < span.length_bytes)?;
        Some(Span { length_bytes: 512, ..span.behind(into) })
    })
}

/// Runs a storm; what it saw, and what the turn counted.
fn storm(seed: u64, steps: u32) -> Seen {
    run(Storm::new(seed, false), seed, steps)
}

fn run(mut storm: Storm, seed: u64, steps: u32) -> Seen {
    let (free_bytes, _) = storm.turn.memory_bytes();
    for step in 0..steps {
        storm.step();
        if step % 4_096 == 0 {
            storm.turn.check().unwrap_or_else(|violation| panic!("{violation:?} at step {step}, seed {seed}"));
        }
    }
    storm.drain();
    let clients: Vec<u32> = storm.clients.keys().copied().collect();
    clients.into_iter().for_each(|connection| storm.kill(connection));
    storm.settle();
    assert_eq!(storm.turn.memory_bytes().0, free_bytes, "memory was lost, seed {seed}");
    let counters = storm.turn.counters();
    assert_eq!(counters.violations, 0, "seed {seed}");
    storm.registers.check().unwrap_or_else(|what| panic!("no order explains seed {seed}: {what}"));
    storm.check_copies();
    Seen { withdrawn: counters.withdrawn_parts, kept_back: counters.kept_back_ios, ..storm.seen }
}

/// Storms must have exercised what they are meant to.
fn assert_wild(seen: &Seen, steps: u64) {
    let is_wild = seen.answered > steps / 20
        && seen.died_with_requests > steps / 500
        && seen.switches > steps / 2_000
        && seen.held > steps / 50
        && seen.withdrawn > steps / 500
        && seen.kept_back > steps / 10_000;
    assert!(is_wild, "the storm was a calm: {seen:?}");
}

#[test]
fn what_clients_that_die_leave_behind_fits_a_register() {
    assert_wild(&storm(1, 200_000), 200_000);
}

/// Many short storms: each begins with another device, other limits and another scheduler.
#[test]
fn what_clients_that_die_leave_behind_fits_a_register_in_short_storms() {
    let count = std::env::var("HOISTWAY_STORMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut all = Seen::default();
    for seen in (100..100 + count).map(|seed| storm(seed, 5_000)) {
        all.answered += seen.answered;
        all.died_with_requests += seen.died_with_requests;
        all.switches += seen.switches;
        all.held += seen.held;
        all.withdrawn += seen.withdrawn;
        all.kept_back += seen.kept_back;
    }
    assert_wild(&all, 5_000 * count);
}
