//! Random opens, closes, requests, completions in any order, errors, lost data, withdrawn abilities,
//! switches, changes of weights and limits, groups and limiters that come and go, and a drain, over the
//! whole turn with a fake device and
//! three workers that act in any order and give each other actions. Each request is answered exactly
//! once or its connection was closed, no tenant gets or writes bytes of another, and nothing is left at
//! the end.
//! Source: docs/specifications/engine.md, section 10 (test 63).

mod bytes;
mod client;
mod overlays;

use std::collections::BTreeMap;
use std::sync::Arc;

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Priority, RequestId};
use hoistway_elevator::limiters::LIMITERS;
use hoistway_elevator::registry::ENTRIES;
use hoistway_experiment::group::LowLimits;
use hoistway_experiment::{Limits, SchedulerSpec};
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::{Emptying, RequestBuffer, is_request_memory};

use self::bytes::{Bytes, CLIENT_MEMORY};
use self::client::Client;
use super::Mailbox;
use super::shared::{Core, Route};
use crate::protocol::{ClientRequest, Command, Failure};
use crate::turn::{
    Action, Actions, ConnectionBounds, OVERDUE_NS, Piece, Positions, Turn, TurnSettings, Verdict, VolumeAbilities,
};

const VOLUME_BYTES: u64 = 64 << 20;
const WORKERS: usize = 3;
const GROUPS: u32 = 8;

/// An I/O in flight.
struct Io {
    id: RequestId,
    bytes: u32,
    is_emptying: bool,
    worker: usize,
    /// The volume and the memory of a read.
    reads: Option<(u32, Vec<Span>)>,
}

/// How often what the storm is for has happened.
#[derive(Default)]
struct Seen {
    answered: u64,
    switches: u64,
    /// The number of steps after which a limiter held a bio.
    held: u64,
    /// The number of damaged volumes that were repaired.
    damaged: u64,
    /// The number of hangs with I/O in flight.
    hung: u64,
    /// I/Os with memory that only one worker's ring knows.
    bound: u64,
}

struct Storm {
    stream: Stream,
    core: Core,
    volumes: [VolumeAbilities; 3],
    bytes: Bytes,
    /// The worker that acts in this step, and the actions that each has not performed yet.
    worker: usize,
    actions: [Actions; WORKERS],
    now: Nanos,
    clients: BTreeMap<u32, Client>,
    ios: Vec<Io>,
    syncs: Vec<u32>,
    /// Overlays whose bitmap is being written.
    stores: Vec<u32>,
    statuses: Vec<u32>,
    groups: Vec<u32>,
    next_cookie: u64,
    seen: Seen,
    seed: u64,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let settings = TurnSettings {
            connections: 24,
            groups: GROUPS,
            device_depth: 16,
            max_part_bytes: 64 << 10,
            scheduler: ENTRIES[0].name.to_owned(),
            ..TurnSettings::probe()
        };
        let arena = settings.arena().expect("memory");
        let mut turn = Turn::new(&settings, Arc::clone(&arena)).expect("a turn");
        let bytes = Bytes::new(arena, &mut turn);
        let volume = |alignment_bytes, can_punch: bool, can_zero, base_bytes| VolumeAbilities {
            size_bytes: VOLUME_BYTES,
            is_read_only: false,
            alignment_bytes,
            emptying_alignment_bytes: alignment_bytes,
            trimming: can_punch.then_some(Emptying::PunchHole),
            can_punch,
            can_zero,
            uses_page_cache: alignment_bytes == 1,
            is_null: false,
            has_unsafe_flush: false,
            priority: Priority::NONE,
            positions: Positions::linear(base_bytes),
        };
        let volumes =
            [volume(1, true, false, 0), volume(4_096, true, true, 1 << 30), volume(512, false, false, 2 << 30)];
        for abilities in &volumes {
            turn.add_volume(abilities.clone());
        }
        overlays::put_over_base(&mut turn, seed);
        let mut groups = vec![0];
        groups.extend(["a", "b", "c"].into_iter().filter_map(|name| turn.add_group(name, 0, 100, 0)));
        let mut core = Core::new(turn, settings, None);
        for _ in 0..WORKERS {
            core.add_worker(Arc::new(Mailbox::new().expect("an event")));
        }
        Self {
            stream: Stream::new(seed),
            core,
            volumes,
            bytes,
            worker: 0,
            actions: Default::default(),
            now: 1,
            clients: BTreeMap::new(),
            ios: Vec::new(),
            syncs: Vec::new(),
            stores: Vec::new(),
            statuses: Vec::new(),
            groups,
            next_cookie: 0,
            seen: Seen::default(),
            seed,
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.stream.below(from.len() as u64);
        from.get(usize::try_from(index).unwrap_or(0)).copied()
    }

    /// A client that fits; its worker acts from here on.
    fn pick_client(&mut self, may: impl Fn(&Client) -> bool) -> Option<u32> {
        let fitting: Vec<u32> = self.clients.iter().filter(|(_, client)| may(client)).map(|(&id, _)| id).collect();
        let picked = self.pick(&fitting)?;
        self.act_as(worker_of(picked));
        Some(picked)
    }

    fn act_as(&mut self, worker: usize) {
        self.worker = worker;
        self.core.workers[worker].is_asleep = false;
    }

    /// The next worker acts, after which it sleeps or not.
    fn take_turns(&mut self) {
        self.core.workers[self.worker].is_asleep = self.stream.chance(1, 2);
        let worker = usize::try_from(self.stream.below(WORKERS as u64)).unwrap_or(0);
        self.act_as(worker);
    }

    fn step(&mut self) {
        self.take_turns();
        self.now += self.stream.below(200_000);
        match self.stream.below(1_000) {
            0..2 => self.open(),
            2..4 => self.close(),
            4 => self.switch(),
            5..7 => self.weigh(),
            7 => self.limit(),
            8 if self.stream.chance(1, 2) => self.repair(),
            8 => self.regroup(),
            9..15 => self.sync_done(),
            15..20 => self.store_done(),
            20..30 => self.status_done(),
            30..330 => self.submit(),
            330..480 => self.fill(),
            480..760 => self.complete(),
            760..960 => self.send(),
            960 => self.hang(),
            _ => self.core.turn.expire(self.now),
        }
        self.settle();
        self.seen.held += u64::from(self.core.turn.held_by_limiters() > 0);
    }

    /// Dispatches, and performs the actions of the worker.
    fn settle(&mut self) {
        self.core.turn.begin_turn(self.now);
        loop {
            let mut actions = std::mem::take(&mut self.actions[self.worker]);
            self.core.turn.dispatch(self.now, &mut actions);
            self.core.exchange(self.worker, &mut actions, &mut Vec::new());
            if actions.list.is_empty() {
                return;
            }
            for action in &actions.list {
                self.note(*action, &actions);
            }
        }
    }

    fn note(&mut self, action: Action, of: &Actions) {
        let worker = self.worker;
        match action {
            Action::Start { io: id, bytes, spans, first_span, volume, is_write, .. } => {
                let spans = &of.spans[first_span as usize..(first_span + spans) as usize];
                assert_eq!(spans.iter().map(|span| span.length_bytes).sum::<u32>(), bytes, "seed {}", self.seed);
                let is_own = !is_write || spans.iter().all(|&span| self.bytes.is_own(volume, span));
                assert!(is_own, "others' bytes are written to volume {volume}, seed {}", self.seed);
                if spans.iter().any(|&span| is_request_memory(span)) {
                    let owner = worker_of(self.core.turn.connection_of(id));
                    assert_eq!((spans.len(), worker), (1, owner), "memory of one ring, seed {}", self.seed);
                    self.seen.bound += 1;
                }
                let reads = (!is_write).then(|| (volume, spans.to_vec()));
                self.ios.push(Io { id, bytes, is_emptying: false, worker, reads });
            }
            Action::Empty { io: id, .. } => {
                self.ios.push(Io { id, bytes: 0, is_emptying: true, worker, reads: None });
            }
            Action::Sync { volume } => {
                assert!(!self.syncs.contains(&volume), "two fsyncs at once, seed {}", self.seed);
                self.syncs.push(volume);
            }
            Action::Store { volume, .. } => self.store_begins(volume),
            Action::Reply { connection, request, piece } => {
                let cookie = self.core.turn.asked(request).cookie;
                assert_eq!(worker_of(connection), worker, "seed {}", self.seed);
                let client = self.clients.get_mut(&connection).expect("a client that exists");
                if client.is_closed {
                    let (turn, actions) = (&mut self.core.turn, &mut self.actions[worker]);
                    return turn.sent(request, piece, self.now, actions);
                }
                if piece.is_last() {
                    let was_open = client.open.remove(&cookie).is_some();
                    assert!(was_open, "request {cookie} was answered twice, seed {}", self.seed);
                    self.seen.answered += 1;
                } else {
                    assert!(client.open.contains_key(&cookie), "a piece behind the last, seed {}", self.seed);
                }
                client.output.push_back((request, piece));
                let volume = client.volume;
                self.check_reply(volume, request, piece);
            }
            Action::Continue { connection, verdict } => {
                // The client may have gone since.
                let Some(client) = self.clients.get_mut(&connection).filter(|client| !client.is_closed) else { return };
                assert!(client.waits && verdict != Verdict::Wait, "seed {}", self.seed);
                client.apply(verdict);
            }
            Action::Status { request, .. } => self.statuses.push(request),
            Action::Finished { connection } => {
                let client = self.clients.remove(&connection).expect("finished once");
                assert!(client.is_closed && client.output.is_empty(), "seed {}", self.seed);
                self.core.routes[connection as usize] = Route::None;
                self.core.turn.retire(connection);
            }
        }
    }

    /// What a client gets was read for it.
    fn check_reply(&mut self, volume: u32, request: u32, piece: Piece) {
        let turn = &self.core.turn;
        let mut parts = match piece {
            Piece::Data { part, .. } if !turn.asked(request).is_direct => vec![part],
            Piece::Whole => turn.parts_of(request).collect(),
            _ => Vec::new(),
        };
        assert!(
            parts.drain(..).all(|part| self.bytes.is_own(volume, turn.data_of(part))),
            "others' bytes are sent to a client of volume {volume}, seed {}",
            self.seed
        );
    }

    fn open(&mut self) {
        let groups = self.groups.clone();
        let (Some(group), volume) = (self.pick(&groups), self.stream.below(3)) else { return };
        let bounds = ConnectionBounds { requests: 16, bytes: 4 << 20, ..ConnectionBounds::default() };
        let volume = u32::try_from(volume).unwrap_or(0);
        if let Some(connection) = self.core.turn.open(volume, group, bounds, Priority::NONE) {
            assert!(
                self.clients.insert(connection, Client { volume, ..Client::default() }).is_none(),
                "seed {}",
                self.seed
            );
            self.core.routes[connection as usize] = Route::Socket { worker: worker_of(connection), socket: 0 };
        }
    }

    fn close(&mut self) {
        if let Some(connection) = self.pick_client(|client| !client.is_closed) {
            self.close_one(connection);
        }
    }

    fn close_one(&mut self, connection: u32) {
        self.act_as(worker_of(connection));
        while self.enter_aside(connection) {}
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.is_closed = true;
        client.open.clear();
        let output = std::mem::take(&mut client.output);
        self.core.turn.close(connection, self.now, &mut self.actions[self.worker]);
        for (request, piece) in output {
            self.core.turn.sent(request, piece, self.now, &mut self.actions[self.worker]);
        }
    }

    fn switch(&mut self) {
        let entry = ENTRIES[usize::try_from(self.stream.below(ENTRIES.len() as u64)).unwrap_or(0)];
        let spec = SchedulerSpec::named(entry.name);
        self.seen.switches += u64::from(self.core.turn.switch(&spec, None, &self.core.turn_settings, self.now).is_ok());
    }

    fn weigh(&mut self) {
        let groups = self.groups.clone();
        if let Some(group) = self.pick(&groups) {
            let weight = 1 + u32::try_from(self.stream.below(10_000)).unwrap_or(0);
            self.core.turn.set_weight(group, weight, self.now);
        }
    }

    /// Adds a group below a random one, or removes one, which must succeed exactly if nothing uses it.
    fn regroup(&mut self) {
        let groups = self.groups.clone();
        let Some(group) = self.pick(&groups) else { return };
        if self.stream.chance(1, 2) {
            let weight = 1 + u32::try_from(self.stream.below(1_000)).unwrap_or(0);
            let added = self.core.turn.add_group("g", group, weight, self.now);
            assert_eq!(added.is_some(), groups.len() < GROUPS as usize, "seed {}", self.seed);
            self.groups.extend(added);
        } else {
            let is_used = self.core.turn.groups().any(|(id, state, _)| id == group && state.connections > 0);
            let is_parent = groups.iter().any(|&other| {
                other != 0
                    && self.core.turn.settings_of(hoistway_block::GroupId(other)).parent
                        == hoistway_block::GroupId(group)
            });
            let is_removed = self.core.turn.remove_group(group, self.now);
            assert_eq!(is_removed, group != 0 && !is_used && !is_parent, "group {group}, seed {}", self.seed);
            self.groups.retain(|&other| !is_removed || other != group);
        }
    }

    /// Removes every group when no client is left.
    fn remove_groups(&mut self) {
        let is_left = |storm: &Self| storm.groups.len() > 1;
        for _ in 0..GROUPS {
            for group in self.groups.clone() {
                let is_removed = self.core.turn.remove_group(group, self.now);
                self.groups.retain(|&other| !is_removed || other != group);
            }
        }
        assert!(!is_left(self), "groups {:?} cannot be removed, seed {}", self.groups, self.seed);
        assert_eq!(self.core.turn.groups().count(), 1, "seed {}", self.seed);
    }

    /// Changes the limits of a group, mostly so that they hold bios; sometimes adds a limiter or
    /// removes all.
    fn limit(&mut self) {
        let groups = self.groups.clone();
        let Some(group) = self.pick(&groups) else { return };
        let rate = |stream: &mut Stream| {
            let most = 1 << stream.below(24);
            stream.chance(1, 2).then(|| 2 + stream.below(most))
        };
        let limits = Limits {
            read_bytes_per_s: rate(&mut self.stream),
            write_bytes_per_s: rate(&mut self.stream),
            read_ios_per_s: rate(&mut self.stream),
            write_ios_per_s: rate(&mut self.stream),
            total_bytes_per_s: rate(&mut self.stream),
            total_ios_per_s: rate(&mut self.stream),
            burst_ms: rate(&mut self.stream),
            low: LowLimits {
                read_bytes_per_s: rate(&mut self.stream).unwrap_or(0),
                idle_us: 2_000,
                latency_us: Some(100),
                ..LowLimits::default()
            },
            latency_target_us: rate(&mut self.stream).unwrap_or(0),
        };
        // Limits of groups above hold bios as well.
        let limits = if self.stream.chance(1, 6) { limits } else { Limits::NONE };
        assert_eq!(self.core.turn.set_limits(group, &limits, self.now), Ok(true), "seed {}", self.seed);
        match self.stream.below(8) {
            0 => self.core.turn.lift_limits(self.now),
            1 => {
                let entry = &LIMITERS[usize::try_from(self.stream.below(LIMITERS.len() as u64)).unwrap_or(0)];
                let added = self.core.turn.add_limiter(&SchedulerSpec::named(entry.name), self.now);
                assert_eq!(added, Ok(()), "seed {}", self.seed);
            }
            _ => {}
        }
    }

    fn sync_done(&mut self) {
        if self.syncs.is_empty() {
            return;
        }
        let index = usize::try_from(self.stream.below(self.syncs.len() as u64)).unwrap_or(0);
        let volume = self.syncs.swap_remove(index);
        let is_ok = !self.stream.chance(1, 2_000);
        self.core.turn.synced(volume, is_ok, self.now, &mut self.actions[self.worker]);
    }

    fn status_done(&mut self) {
        if let Some(request) = self.statuses.pop() {
            let is_ok = !self.stream.chance(1, 10);
            self.core.turn.status_found(request, is_ok, self.now, &mut self.actions[self.worker]);
        }
    }

    fn submit(&mut self) {
        let Some(connection) =
            self.pick_client(|client| !client.is_closed && !client.waits && client.fills.is_none() && !client.skips)
        else {
            return;
        };
        let commands = [
            (Command::Read, 40),
            (Command::Write, 40),
            (Command::Flush, 4),
            (Command::Trim, 4),
            (Command::WriteZeroes, 6),
            (Command::Cache, 1),
            (Command::BlockStatus, 2),
        ];
        let mut draw = self.stream.below(commands.iter().map(|(_, weight)| weight).sum());
        let command = commands.iter().find(|(_, weight)| {
            let is_it = draw < *weight;
            draw = draw.saturating_sub(*weight);
            is_it
        });
        let command = command.map_or(Command::Read, |(command, _)| *command);
        let unit = if self.stream.chance(1, 3) { 1 } else { 4_096 };
        let longest = if self.stream.chance(1, 30) { 1_000_000 / unit } else { 40_000 / unit };
        let mut length_bytes = self.stream.below(longest) * unit;
        // In a small region, so that requests share blocks, and sometimes past the end.
        let region = if self.stream.chance(1, 2) { 64 << 10 } else { VOLUME_BYTES };
        let offset_bytes = self.stream.below(region / unit) * unit;
        if command == Command::Flush {
            length_bytes = 0;
        }
        let asked = ClientRequest {
            cookie: self.next_cookie,
            offset_bytes,
            length_bytes,
            payload_bytes: if command == Command::Write { u32::try_from(length_bytes).unwrap_or(0) } else { 0 },
            command,
            fua: self.stream.chance(1, 10),
            no_hole: self.stream.chance(1, 2),
            fast_zero: self.stream.chance(1, 8),
            one_piece: self.stream.chance(1, 2),
            is_direct: false,
            one_extent: false,
            tag: 0,
        };
        self.next_cookie += 1;
        if let Some(client) = self.clients.get_mut(&connection) {
            client.open.insert(asked.cookie, command);
        }
        let verdict = if self.stream.chance(1, 50) {
            let failure = self.stream.chance(1, 2).then_some(Failure::Invalid);
            let verdict =
                self.core.turn.submit_answered(connection, asked, failure, self.now, &mut self.actions[self.worker]);
            if verdict == Verdict::Wait
                && let Some(client) = self.clients.get_mut(&connection)
            {
                // The shard would submit the request again after [`Action::Continue`]; this test
                // drops it.
                client.open.remove(&asked.cookie);
            }
            verdict
        } else if let Some(memory) = self.client_memory(connection, &asked) {
            let asked = ClientRequest { one_piece: false, ..asked };
            self.core.turn.submit_direct(connection, asked, &memory, self.now, &mut self.actions[self.worker])
        } else {
            self.core.turn.submit(connection, asked, self.now, &mut self.actions[self.worker])
        };
        if let Some(client) = self.clients.get_mut(&connection) {
            client.apply(verdict);
        }
    }

    /// Memory of the client for one in four reads and writes that are aligned: in pieces of random lengths, or of a
    /// ring.
    fn client_memory(&mut self, connection: u32, asked: &ClientRequest) -> Option<Vec<Span>> {
        let alignment = u64::from(self.core.turn.direct_alignment(connection)?);
        let is_transfer = matches!(asked.command, Command::Read | Command::Write);
        let is_aligned = (asked.offset_bytes | asked.length_bytes).is_multiple_of(alignment);
        let copies = self.core.turn.copies(connection, asked.offset_bytes, asked.length_bytes);
        if copies || !is_transfer || !is_aligned || asked.length_bytes == 0 || self.stream.chance(3, 4) {
            return None;
        }
        if self.stream.chance(1, 3) {
            // As a request of a ublk device: only the ring of its own worker knows its memory.
            return Some(vec![RequestBuffer::NONE.span(u32::try_from(asked.length_bytes).ok()?)]);
        }
        let mut left = asked.length_bytes;
        let mut spans = Vec::new();
        while left > 0 {
            let length = ((1 + self.stream.below(100_000 / alignment)) * alignment).min(left);
            let offset_bytes = CLIENT_MEMORY + self.stream.below(1 << 20) * alignment;
            spans.push(Span { offset_bytes, length_bytes: u32::try_from(length).unwrap_or(u32::MAX) });
            left -= length;
        }
        Some(spans)
    }

    fn fill(&mut self) {
        let waits_for_bytes = |client: &Client| client.fills.is_some() || client.skips || !client.aside.is_empty();
        let Some(connection) = self.pick_client(|client| !client.is_closed && waits_for_bytes(client)) else { return };
        let needs_bytes = self.clients.get(&connection).is_some_and(|client| client.fills.is_some() || client.skips);
        if (!needs_bytes || self.stream.chance(1, 2)) && self.enter_aside(connection) {
            return;
        }
        // One in ten of the payloads cannot be copied.
        let comes = !self.stream.chance(1, 10);
        let Some(&Client { volume, fills, .. }) = self.clients.get(&connection) else { return };
        if let Some(span) = fills.filter(|_| comes) {
            self.bytes.supply(volume, &[span], span.length_bytes);
        }
        let (turn, actions) = (&mut self.core.turn, &mut self.actions[self.worker]);
        let verdict = match fills {
            None => turn.skipped(connection, self.now, actions),
            Some(_) if comes && self.stream.chance(1, 2) => {
                let (part, verdict) = turn.set_aside(connection, self.now, actions);
                self.clients.entry(connection).and_modify(|client| client.aside.extend(part));
                verdict
            }
            Some(_) if comes => turn.filled(connection, self.now, actions),
            Some(_) => turn.unfilled(connection, Failure::Io, self.now, actions),
        };
        if let Some(client) = self.clients.get_mut(&connection) {
            client.apply(verdict);
        }
    }

    /// Bytes that a stream had left aside are there; false if there are none.
    fn enter_aside(&mut self, connection: u32) -> bool {
        let part = self.clients.get_mut(&connection).and_then(|client| client.aside.pop());
        part.is_some_and(|part| {
            self.core.turn.enter_filled(part, self.now, &mut self.actions[self.worker]);
            true
        })
    }

    /// A volume is as new, so that the storm does not end with three damaged ones.
    fn repair(&mut self) {
        let volume = self.stream.below(3);
        self.seen.damaged += u64::from(
            self.core.turn.volume(u32::try_from(volume).expect("small")).is_some_and(|(_, damage, _)| damage.is_some()),
        );
        self.core
            .turn
            .repair(u32::try_from(volume).expect("small"), &self.volumes[usize::try_from(volume).expect("small")]);
    }

    fn complete(&mut self) {
        if self.ios.is_empty() {
            return;
        }
        let index = usize::try_from(self.stream.below(self.ios.len() as u64)).unwrap_or(0);
        self.act_as(self.ios[index].worker);
        let Io { id: io, bytes, is_emptying, reads, .. } = self.ios.swap_remove(index);
        let all = i32::try_from(bytes).unwrap_or(i32::MAX);
        let result = match self.stream.below(100) {
            0 => -5,
            1 => -11,
            2 => -28,
            3..8 if is_emptying => -95,
            3 | 4 if !is_emptying => 0,
            5..10 if !is_emptying => i32::try_from(self.stream.below(u64::from(bytes) + 1)).unwrap_or(all),
            _ => all,
        };
        if let (Some((volume, spans)), Ok(moved)) = (reads, u32::try_from(result)) {
            self.bytes.supply(volume, &spans, moved);
        }
        self.core.turn.completed(io, result, self.now, &mut self.actions[self.worker]);
    }

    fn send(&mut self) {
        let Some(connection) = self.pick_client(|client| !client.output.is_empty()) else { return };
        let piece = self.clients.get_mut(&connection).and_then(|client| client.output.pop_front());
        if let Some((request, piece)) = piece {
            self.core.turn.sent(request, piece, self.now, &mut self.actions[self.worker]);
        }
    }

    /// Nothing completes for so long that all I/Os in flight are overdue.
    fn hang(&mut self) {
        for _ in 0..6 {
            self.now += OVERDUE_NS / 4;
            self.core.turn.expire(self.now);
            self.settle();
        }
        self.seen.hung += u64::from(!self.core.turn.unanswered(self.now).is_empty());
        self.core.turn.check().unwrap_or_else(|violation| panic!("{violation:?}, seed {}", self.seed));
    }

    /// Completes everything in flight, and lifts limits that would hold bios for days.
    fn calm(&mut self) {
        let tight = Limits { read_bytes_per_s: Some(2), write_bytes_per_s: Some(2), ..Limits::NONE };
        for group in self.groups.clone() {
            assert_eq!(self.core.turn.set_limits(group, &tight, self.now), Ok(true), "seed {}", self.seed);
        }
        let holds = (0..100_000).any(|_| {
            self.step();
            self.core.turn.held_by_limiters() > 0
        });
        assert!(holds, "seed {}", self.seed);
        self.core.turn.drain(self.now);
        assert_eq!(self.core.turn.held_by_limiters(), 0, "seed {}", self.seed);
        for _ in 0..200_000 {
            self.take_turns();
            self.now += 1_000_000;
            // A worker passes its actions on before another one acts.
            for act in [Self::complete, Self::sync_done, Self::store_done, Self::status_done, Self::fill, Self::send] {
                act(self);
                self.settle();
            }
            self.core.turn.expire(self.now);
            self.settle();
            self.core.turn.take_incidents(&mut Vec::new());
            let is_quiet =
                self.ios.is_empty() && self.syncs.is_empty() && self.stores.is_empty() && self.statuses.is_empty();
            let is_sent =
                self.clients.values().all(|client| client.output.is_empty() && client.fills.is_none() && !client.skips);
            if is_quiet && is_sent && self.core.turn.ios_in_flight() == 0 && self.core.turn.requests_in_flight() == 0 {
                return;
            }
        }
        let stuck = self.core.turn.requests_in_flight();
        panic!("{stuck} requests never end, {:?}, seed {}", self.core.turn.scheduler(), self.seed);
    }
}

/// The worker that has a connection.
fn worker_of(connection: u32) -> usize {
    connection as usize % WORKERS
}

fn storm(seed: u64, events: u32) {
    let mut storm = Storm::new(seed);
    let (free_bytes, _) = storm.core.turn.memory_bytes();
    let reserved_bytes = (storm.groups.len() as u64 - 1) << 20;
    for event in 0..events {
        storm.step();
        if event % 8_192 == 0 {
            storm.core.turn.check().unwrap_or_else(|violation| panic!("{violation:?} at event {event}, seed {seed}"));
        }
    }
    storm.calm();
    for client in storm.clients.values() {
        assert!(client.open.is_empty(), "requests without answer: {:?}, seed {seed}", client.open);
    }
    let open: Vec<u32> = storm.clients.iter().filter(|(_, client)| !client.is_closed).map(|(&id, _)| id).collect();
    for connection in open {
        storm.close_one(connection);
    }
    for worker in (0..WORKERS).chain(0..WORKERS) {
        storm.worker = worker;
        storm.settle();
    }
    assert!(storm.clients.is_empty(), "connections left: {:?}, seed {seed}", storm.clients);
    storm.remove_groups();
    assert_eq!(storm.core.turn.memory_bytes().0, free_bytes + reserved_bytes, "memory was lost, seed {seed}");
    assert_eq!(storm.core.turn.counters().violations, 0, "seed {seed}");
    let Seen { answered, switches, held, damaged, hung, bound } = storm.seen;
    let is_wild = answered > u64::from(events) / 10 && switches > 10 && held > u64::from(events) / 20;
    assert!(
        is_wild && damaged > 100 && hung > 100 && bound > 100,
        "a calm: {answered} answers, {switches} switches, {held} steps with something held, {damaged} damages, {hung} hangs, \
         {bound} bound"
    );
}

#[test]
fn test_63_a_storm_leaves_nothing_behind_with_seed_1() {
    storm(1, 1_000_000);
}

#[test]
fn test_63_a_storm_leaves_nothing_behind_with_seed_2() {
    storm(2, 1_000_000);
}
