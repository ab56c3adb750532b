//! Cases of docs/specifications/engine.md, section 10: the events given to a [`Turn`], and the
//! actions that it returns. The number in a test's name is the number of the case.

use hoistway_block::{Nanos, Priority, RequestId};

use super::{
    Action, Actions, ConnectionBounds, OVERDUE_NS, Piece, Positions, Turn, TurnSettings, Verdict, VolumeAbilities,
    Waits,
};
use crate::damage::Damage;
use crate::protocol::{ClientRequest, Command, Failure};
use hoistway_experiment::Limits;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::Emptying;

pub(super) const MIB: u64 = 1 << 20;

pub(super) struct Bench {
    pub(super) turn: Turn,
    pub(super) actions: Actions,
    pub(super) connection: u32,
    seen: Vec<Action>,
    pub(super) now: Nanos,
}

impl Bench {
    pub(super) fn new(alignment_bytes: u32, size_bytes: u64) -> Self {
        Self::with_depth(64, alignment_bytes, size_bytes)
    }

    /// With a volume whose abilities are changed.
    pub(super) fn with(alignment_bytes: u32, size_bytes: u64, change: impl FnOnce(&mut VolumeAbilities)) -> Self {
        let mut bench = Self::with_depth(64, alignment_bytes, size_bytes);
        let mut abilities = abilities(alignment_bytes, size_bytes);
        change(&mut abilities);
        bench.turn.repair(0, &abilities);
        bench
    }

    fn with_depth(device_depth: u32, alignment_bytes: u32, size_bytes: u64) -> Self {
        Self::scheduled("noop", device_depth, alignment_bytes, size_bytes)
    }

    pub(super) fn scheduled(scheduler: &str, device_depth: u32, alignment_bytes: u32, size_bytes: u64) -> Self {
        let settings = TurnSettings {
            connections: 200,
            groups: 8,
            device_depth,
            scheduler: scheduler.to_owned(),
            ..TurnSettings::probe()
        };
        let turn = Turn::new(&settings, settings.arena().expect("memory")).expect("a turn");
        let mut bench = Self { turn, actions: Actions::default(), connection: 0, seen: Vec::new(), now: 2 };
        bench.connection = bench.add_volume(alignment_bytes, size_bytes);
        bench
    }

    /// Adds a volume; returns a connection to it.
    fn add_volume(&mut self, alignment_bytes: u32, size_bytes: u64) -> u32 {
        let volume = self.turn.add_volume(abilities(alignment_bytes, size_bytes));
        self.connect(volume)
    }

    pub(super) fn connect(&mut self, volume: u32) -> u32 {
        self.turn.open(volume, 0, ConnectionBounds::default(), Priority::NONE).expect("a connection")
    }

    /// Lets time pass, with what the turn does at its deadlines.
    pub(super) fn wait(&mut self, time_ns: Nanos) -> Vec<Action> {
        let end = self.now + time_ns;
        let mut all = Vec::new();
        while let Some(at) = self.turn.next_deadline().filter(|at| *at <= end) {
            self.now = at;
            self.turn.expire(at);
            all.extend(self.settle());
        }
        self.now = end;
        all
    }

    /// Submits a request, reports its payload as received as often as the turn asks for data, and
    /// dispatches; returns the resulting actions.
    pub(super) fn asks(&mut self, asked: ClientRequest) -> Vec<Action> {
        let mut verdict = self.turn.submit(self.connection, asked, self.now, &mut self.actions);
        while let Verdict::Fill(_) = verdict {
            verdict = self.turn.filled(self.connection, self.now, &mut self.actions);
        }
        self.settle()
    }

    pub(super) fn ends(&mut self, io: RequestId, result: i32) -> Vec<Action> {
        self.turn.completed(io, result, self.now, &mut self.actions);
        self.settle()
    }

    /// Keeps nothing of what was returned so far.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
        self.actions.clear();
    }

    pub(super) fn syncs(&mut self, is_ok: bool) -> Vec<Action> {
        self.turn.synced(0, is_ok, 3, &mut self.actions);
        self.settle()
    }

    pub(super) fn settle(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        self.turn.begin_turn(self.now);
        loop {
            self.turn.dispatch(self.now, &mut self.actions);
            if self.actions.list.is_empty() {
                self.seen.extend(&all);
                return all;
            }
            all.append(&mut self.actions.list);
        }
    }
}

fn abilities(alignment_bytes: u32, size_bytes: u64) -> VolumeAbilities {
    VolumeAbilities {
        size_bytes,
        is_read_only: false,
        alignment_bytes,
        emptying_alignment_bytes: alignment_bytes,
        trimming: Some(Emptying::PunchHole),
        can_punch: true,
        can_zero: false,
        uses_page_cache: true,
        is_null: false,
        has_unsafe_flush: false,
        priority: Priority::NONE,
        positions: Positions::linear(0),
    }
}

pub(super) fn asked(command: Command, offset_bytes: u64, length_bytes: u64) -> ClientRequest {
    ClientRequest {
        cookie: 0,
        offset_bytes,
        length_bytes,
        payload_bytes: if command == Command::Write { u32::try_from(length_bytes).unwrap_or(0) } else { 0 },
        command,
        fua: false,
        no_hole: false,
        fast_zero: false,
        one_piece: false,
        is_direct: false,
        one_extent: false,
        tag: 0,
    }
}

/// I/O, bytes and durability of every `Start`.
pub(super) fn starts(actions: &[Action]) -> Vec<(RequestId, u32, bool)> {
    let start = |action: &Action| match *action {
        Action::Start { io, bytes, is_durable, .. } => Some((io, bytes, is_durable)),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

pub(super) fn pieces(actions: &[Action]) -> Vec<Piece> {
    let piece = |action: &Action| match *action {
        Action::Reply { piece, .. } => Some(piece),
        _ => None,
    };
    actions.iter().filter_map(piece).collect()
}

pub(super) fn syncs(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Sync { .. })).count()
}

#[test]
fn test_20_a_long_trim_is_cut_into_parts_of_a_gibibyte() {
    let mut bench = Bench::new(1, 4 << 30);
    let actions = bench.asks(asked(Command::Trim, 0, 3 << 30));
    let lengths: Vec<u64> = actions
        .iter()
        .filter_map(|action| match *action {
            Action::Empty { length_bytes, .. } => Some(length_bytes),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [1 << 30; 3]);
}

#[test]
fn test_25_a_failing_part_of_a_read_in_one_piece_fails_all_of_it_without_data() {
    let mut bench = Bench::new(1, 64 * MIB);
    let actions = bench.asks(ClientRequest { one_piece: true, ..asked(Command::Read, 0, 8 * MIB) });
    let mut replies = Vec::new();
    for (number, (io, bytes, _)) in starts(&actions).into_iter().enumerate() {
        let result = if number == 5 { -5 } else { i32::try_from(bytes).expect("small") };
        replies.extend(pieces(&bench.ends(io, result)));
    }
    assert_eq!(replies, [Piece::Failed { failure: Failure::Io, offset_bytes: None, last: true }]);
}

#[test]
fn test_25_a_failing_part_of_a_chunked_read_says_where_and_the_others_are_delivered() {
    let mut bench = Bench::new(1, 64 * MIB);
    let actions = bench.asks(asked(Command::Read, 0, 3 * MIB));
    let ios = starts(&actions);
    assert_eq!(ios.len(), 3);
    let all = i32::try_from(MIB).expect("small");
    assert!(matches!(pieces(&bench.ends(ios[0].0, all))[..], [Piece::Data { last: false, .. }]));
    let failed = Piece::Failed { failure: Failure::Io, offset_bytes: Some(MIB), last: false };
    assert_eq!(pieces(&bench.ends(ios[1].0, -5)), [failed]);
    assert!(matches!(pieces(&bench.ends(ios[2].0, all))[..], [Piece::Data { last: true, .. }]));
}

/// The spans of a `Start` action.
fn spans_of(bench: &Bench, action: Action) -> Vec<(u64, u32)> {
    let Action::Start { first_span, spans, .. } = action else { panic!("{action:?}") };
    let spans = &bench.actions.spans[first_span as usize..(first_span + spans) as usize];
    spans.iter().map(|span| (span.offset_bytes, span.length_bytes)).collect()
}

#[test]
fn a_direct_request_uses_the_clients_memory_and_none_of_the_engine() {
    const PAGE: u32 = 4_096;
    for command in [Command::Read, Command::Write] {
        let mut bench = Bench::new(PAGE, 64 * MIB);
        let free = bench.turn.memory_bytes().0;
        // 1 MiB and 8 KiB in three pieces, cut at 1 MiB.
        let lengths = [2 * PAGE, 256 * PAGE - 3 * PAGE, 3 * PAGE];
        let memory = [1 << 40, 2 << 40, 3 << 40].into_iter().zip(lengths);
        let memory: Vec<Span> =
            memory.map(|(offset_bytes, length_bytes)| Span { offset_bytes, length_bytes }).collect();
        let asked = asked(command, 0, MIB + 8_192);
        let verdict = bench.turn.submit_direct(bench.connection, asked, &memory, 1, &mut bench.actions);
        assert_eq!(verdict, Verdict::Go);
        let actions = bench.settle();
        assert_eq!(bench.turn.memory_bytes().0, free);
        let ios = starts(&actions);
        assert_eq!((ios[0].1, ios[1].1), (256 * PAGE, 2 * PAGE));
        assert_eq!(spans_of(&bench, actions[0]), [(1 << 40, 2 * PAGE), (2 << 40, 253 * PAGE), (3 << 40, PAGE)]);
        assert_eq!(spans_of(&bench, actions[1]), [((3 << 40) + u64::from(PAGE), 2 * PAGE)]);
        // A short transfer goes on with the rest.
        let actions = bench.ends(ios[0].0, i32::try_from(5 * PAGE).expect("small"));
        let rest = [((2 << 40) + 3 * u64::from(PAGE), 250 * PAGE), (3 << 40, PAGE)];
        assert_eq!(spans_of(&bench, actions[0]), rest);
        bench.ends(ios[1].0, i32::try_from(2 * PAGE).expect("small"));
        let answers = pieces(&bench.ends(ios[0].0, i32::try_from(251 * PAGE).expect("small")));
        assert!(answers.last().is_some_and(|piece| piece.is_last()), "{answers:?}");
    }
}

#[test]
fn test_27_fua_writes_are_durable_and_others_are_not() {
    let mut bench = Bench::new(1, 64 * MIB);
    assert!(!starts(&bench.asks(asked(Command::Write, 0, 4_096)))[0].2);
    let actions = bench.asks(ClientRequest { fua: true, ..asked(Command::Write, 65_536, 4_096) });
    assert!(starts(&actions)[0].2);
    assert_eq!(syncs(&bench.seen), 0);
}

#[test]
fn test_27_fua_zeroing_is_followed_by_an_fsync_before_its_answer() {
    let mut bench = Bench::new(1, 64 * MIB);
    let actions = bench.asks(ClientRequest { fua: true, ..asked(Command::WriteZeroes, 0, MIB) });
    let [Action::Empty { io, .. }] = actions[..] else { panic!("{actions:?}") };
    let after = bench.ends(io, 0);
    assert_eq!((syncs(&after), pieces(&after)), (1, Vec::new()));
    assert_eq!(pieces(&bench.syncs(true)), [Piece::Done]);
}

#[test]
fn test_27_a_flush_is_answered_by_an_fsync_that_began_after_it() {
    let mut bench = Bench::new(1, 64 * MIB);
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    for _ in 0..10 {
        assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 0);
    }
    let first = bench.syncs(true);
    assert_eq!((syncs(&first), pieces(&first).len()), (1, 1));
    let second = bench.syncs(true);
    assert_eq!((syncs(&second), pieces(&second).len()), (0, 10));
}

#[test]
fn test_28_after_a_failed_fsync_flushes_fail_and_reads_do_not() {
    let mut bench = Bench::new(1, 64 * MIB);
    bench.asks(asked(Command::Flush, 0, 0));
    let failed = Piece::Failed { failure: Failure::Io, offset_bytes: None, last: true };
    assert_eq!(pieces(&bench.syncs(false)), [failed]);
    assert_eq!(pieces(&bench.asks(asked(Command::Flush, 0, 0))), [failed]);
    assert_eq!(bench.turn.volume(0).and_then(|(_, damage, _)| damage), Some(Damage::NotDurable));
    assert_eq!(starts(&bench.asks(asked(Command::Read, 0, 512))).len(), 1);
}

#[test]
fn test_22_a_second_change_of_a_block_waits_for_the_first() {
    let mut bench = Bench::new(4_096, 64 * MIB);
    let first = starts(&bench.asks(asked(Command::Write, 100, 200)));
    let second = starts(&bench.asks(asked(Command::Write, 300, 200)));
    assert_eq!((first.len(), second.len()), (1, 0), "the second waits, the first reads its block");
    let write = starts(&bench.ends(first[0].0, 4_096));
    assert_eq!(write.len(), 1, "the block is written back");
    let after = bench.ends(write[0].0, 4_096);
    assert_eq!((pieces(&after), starts(&after).len()), (vec![Piece::Done], 1), "now the second reads the block");
}

#[test]
fn test_33_short_and_interrupted_transfers_are_continued() {
    let mut bench = Bench::new(1, 64 * MIB);
    let (io, _, _) = starts(&bench.asks(asked(Command::Read, 0, 65_536)))[0];
    assert_eq!(starts(&bench.ends(io, -11)), [(io, 65_536, false)], "EAGAIN: all of it again");
    assert_eq!(starts(&bench.ends(io, 4_096)), [(io, 61_440, false)], "short: the rest");
    assert!(matches!(pieces(&bench.ends(io, 61_440))[..], [Piece::Data { last: true, .. }]));
}

#[test]
fn four_parts_of_a_long_write_are_under_way_at_once_and_no_more() {
    let mut bench = Bench::new(1, 64 * MIB);
    let actions = bench.asks(asked(Command::Write, 0, 32 * MIB));
    assert_eq!(starts(&actions).len(), 4);
    let (io, bytes, _) = starts(&actions)[0];
    let after = bench.ends(io, i32::try_from(bytes).expect("small"));
    assert!(after.iter().any(|action| matches!(action, Action::Continue { verdict: Verdict::Fill(_), .. })));
}

#[test]
fn a_refused_write_has_its_payload_skipped() {
    let mut bench = Bench::new(1, MIB);
    let verdict = bench.turn.submit(bench.connection, asked(Command::Write, MIB - 512, 4_096), 1, &mut bench.actions);
    assert_eq!((verdict, bench.actions.list.len()), (Verdict::Skip(4_096), 0), "no answer before its payload");
    assert_eq!(bench.turn.skipped(bench.connection, 1, &mut bench.actions), Verdict::Go);
    let failed = Piece::Failed { failure: Failure::NoSpace, offset_bytes: None, last: true };
    assert_eq!(pieces(&bench.settle()), [failed]);
}

/// The volume may grow between a client's handshake and the opening of its connection.
#[test]
fn a_client_uses_no_more_of_a_volume_than_it_was_told() {
    let mut bench = Bench::new(1, 4 * MIB);
    let bounds = ConnectionBounds { visible_bytes: MIB, ..ConnectionBounds::default() };
    bench.connection = bench.turn.open(0, 0, bounds, Priority::NONE).expect("a connection");
    assert_eq!(starts(&bench.asks(asked(Command::Read, MIB - 512, 512))).len(), 1);
    let failed = Piece::Failed { failure: Failure::Invalid, offset_bytes: None, last: true };
    assert_eq!(pieces(&bench.asks(asked(Command::Read, MIB - 512, 1_024))), [failed]);
}

#[test]
fn fast_zeroing_is_refused_where_zeroes_would_have_to_be_written() {
    let mut bench = Bench::new(1, MIB);
    let no_hole = ClientRequest { fast_zero: true, no_hole: true, ..asked(Command::WriteZeroes, 0, 4_096) };
    let refused = Piece::Failed { failure: Failure::NotSupported, offset_bytes: None, last: true };
    assert_eq!(pieces(&bench.asks(no_hole)), [refused]);
    let actions = bench.asks(ClientRequest { fast_zero: false, ..no_hole });
    assert_eq!(starts(&actions).len(), 1, "zeroes are written instead");
}

#[test]
fn a_drain_releases_throttled_requests_and_installs_no_more_limiters() {
    let mut bench = Bench::new(512, MIB);
    let slow = Limits { write_bytes_per_s: Some(2), ..Limits::NONE };
    assert_eq!(bench.turn.set_limits(0, &slow, 1), Ok(true));
    // The first goes at once, and is owed.
    let first = starts(&bench.asks(asked(Command::Write, 65_536, 4_096)));
    assert_eq!(pieces(&bench.ends(first[0].0, 4_096)), [Piece::Done]);
    for at in 0..3 {
        assert_eq!(starts(&bench.asks(asked(Command::Write, at * 8_192, 4_096))), []);
    }
    assert_eq!(bench.turn.held_by_limiters(), 3);
    bench.turn.drain(2);
    let started = bench.settle();
    assert_eq!((starts(&started).len(), bench.turn.held_by_limiters()), (3, 0));
    assert_eq!(bench.turn.set_limits(0, &slow, 3), Ok(true));
    assert!(bench.turn.limiters().is_empty(), "{:?}", bench.turn.limiters());
    for (io, bytes, _) in starts(&started) {
        assert_eq!(pieces(&bench.ends(io, i32::try_from(bytes).expect("small"))), [Piece::Done]);
    }
    assert_eq!(bench.turn.counters().violations, 0);
}

#[test]
fn a_volume_that_does_not_answer_gives_the_depth_back_to_the_others() {
    let mut bench = Bench::with_depth(4, 1, 64 * MIB);
    let (hung, other) = (bench.connection, bench.add_volume(1, 64 * MIB));
    let mut started = Vec::new();
    (0..10).for_each(|at| started.extend(starts(&bench.asks(asked(Command::Read, at * 8_192, 4_096)))));
    assert_eq!(started.len(), 4, "the depth");
    bench.connection = other;
    for at in 0..3 {
        assert_eq!(starts(&bench.asks(asked(Command::Read, at * 8_192, 4_096))), [], "no room");
    }
    // Nothing ends for a while. The first choice of the scheduler is of the volume that does not answer.
    let later = starts(&bench.wait(OVERDUE_NS + OVERDUE_NS / 2));
    assert_eq!(later.len(), 3, "the other volume's: {later:?}");
    assert_eq!(bench.turn.unanswered(bench.now), [(0, Waits { since_ns: 2, ios: 4 })]);
    for (io, bytes, _) in later {
        assert_eq!(pieces(&bench.ends(io, i32::try_from(bytes).expect("small"))).len(), 1);
    }
    // The others go on at full depth, and what comes for the hung one is held back.
    bench.connection = hung;
    assert_eq!(starts(&bench.asks(asked(Command::Read, MIB, 4_096))), []);
    bench.connection = other;
    let full: Vec<_> = (0..6).flat_map(|at| starts(&bench.asks(asked(Command::Read, at * 8_192, 4_096)))).collect();
    assert_eq!(full.len(), 4);
    let mut answered = 0;
    let mut open = full;
    while let Some((io, bytes, _)) = open.pop() {
        let after = bench.ends(io, i32::try_from(bytes).expect("small"));
        answered += pieces(&after).len();
        open.extend(starts(&after));
    }
    assert_eq!(answered, 6);
    // It answers: everything that was held back is done.
    let mut answered = 0;
    let mut open = started;
    while let Some((io, bytes, _)) = open.pop() {
        let after = bench.ends(io, i32::try_from(bytes).expect("small"));
        answered += pieces(&after).len();
        open.extend(starts(&after));
    }
    assert_eq!((answered, bench.turn.ios_in_flight(), bench.turn.counters().violations), (11, 0, 0));
    assert_eq!(bench.turn.unanswered(bench.now), []);
    bench.turn.check().expect("sound");
}

#[test]
fn one_slow_request_of_a_volume_does_not_hold_back_its_others() {
    let mut bench = Bench::with_depth(4, 1, 4 << 30);
    let trim = bench.asks(asked(Command::Trim, 0, 1 << 30));
    assert!(matches!(trim[..], [Action::Empty { .. }]), "{trim:?}");
    let mut reads: Vec<_> =
        (0..8).flat_map(|at| starts(&bench.asks(asked(Command::Read, at * 8_192, 4_096)))).collect();
    assert_eq!(reads.len(), 3);
    bench.wait(OVERDUE_NS / 2);
    let mut ended = 0;
    while let Some((io, bytes, _)) = reads.pop() {
        bench.now += OVERDUE_NS / 4;
        ended += 1;
        reads.extend(starts(&bench.ends(io, i32::try_from(bytes).expect("small"))));
        reads.extend(starts(&bench.wait(0)));
    }
    assert_eq!(ended, 8);
    let Action::Empty { io, .. } = trim[0] else { unreachable!() };
    assert_eq!(pieces(&bench.ends(io, 0)), [Piece::Done]);
    assert_eq!((bench.turn.ios_in_flight(), bench.turn.counters().violations), (0, 0));
}

#[test]
fn a_fsync_that_does_not_end_is_named_and_holds_only_its_own_volume() {
    let mut bench = Bench::new(1, 64 * MIB);
    let other = bench.add_volume(1, 64 * MIB);
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    bench.wait(OVERDUE_NS);
    assert_eq!(bench.turn.unanswered(bench.now), [(0, Waits { since_ns: 2, ios: 1 })]);
    bench.connection = other;
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    bench.turn.synced(1, true, bench.now, &mut bench.actions);
    assert_eq!(pieces(&bench.settle()), [Piece::Done]);
    assert_eq!(bench.turn.requests_by_volume(), [(0, 1), (1, 1)], "the second waits to be sent");
}

/// 190 clients with 128 requests each are more than the table of requests holds.
#[test]
fn a_volume_that_does_not_answer_leaves_requests_and_parts_to_the_others() {
    let mut bench = Bench::with_depth(4, 1, 64 * MIB);
    let other = bench.add_volume(1, 64 * MIB);
    for _ in 0..190 {
        bench.connection = bench.connect(0);
        for at in 0..128 {
            let verdict = bench.turn.submit(
                bench.connection,
                asked(Command::WriteZeroes, at * 8_192, 4_096),
                bench.now,
                &mut bench.actions,
            );
            if verdict == Verdict::Wait {
                break;
            }
        }
    }
    bench.settle();
    bench.connection = other;
    let mut started = bench.asks(asked(Command::WriteZeroes, 0, 4_096));
    started.extend(bench.wait(2 * OVERDUE_NS));
    let [Action::Empty { io, volume: 1, .. }] = started[..] else {
        panic!("admitted, and started in the end: {started:?}")
    };
    assert_eq!(pieces(&bench.ends(io, 0)), [Piece::Done]);
}

#[test]
fn a_payload_that_could_not_be_copied_is_not_written_nor_what_follows_it() {
    let mut bench = Bench::new(1, 64 * MIB);
    let free = bench.turn.memory_bytes().0;
    let (mut actions, now) = (Actions::default(), bench.now);
    let verdict = bench.turn.submit(bench.connection, asked(Command::Write, 0, 3 * MIB), now, &mut actions);
    assert!(matches!(verdict, Verdict::Fill(_)));
    assert!(matches!(bench.turn.filled(bench.connection, now, &mut actions), Verdict::Fill(_)));
    assert_eq!(bench.turn.unfilled(bench.connection, Failure::Io, now, &mut actions), Verdict::Go);
    let started = starts(&bench.settle());
    assert_eq!(started.len(), 1, "only the part that has its payload");
    // The stream goes on with the next request.
    let next = starts(&bench.asks(asked(Command::Write, 8 * MIB, 4_096)));
    let failed = Piece::Failed { failure: Failure::Io, offset_bytes: None, last: true };
    let after = bench.ends(started[0].0, i32::try_from(MIB).expect("small"));
    assert_eq!((pieces(&after), starts(&after).len()), (vec![failed], 0));
    assert_eq!(pieces(&bench.ends(next[0].0, 4_096)), [Piece::Done]);
    for action in bench.seen.clone() {
        if let Action::Reply { request, piece, .. } = action {
            bench.turn.sent(request, piece, now, &mut actions);
        }
    }
    assert_eq!((bench.turn.memory_bytes().0, bench.turn.requests_in_flight()), (free, 0));
    assert_eq!(bench.turn.counters().violations, 0);
}

/// Three tenants stop reading with as many replies as they may have; a fourth comes. It gets its part of the
/// memory at once, without waiting for theirs.
#[test]
fn tenants_that_do_not_read_leave_a_fourth_its_part_of_the_memory() {
    for length in [512 << 10, 64 << 10, 4 << 10] {
        let mut bench = Bench::with_depth(4_096, 1, 64 * MIB);
        let now = bench.now;
        let groups: Vec<u32> =
            ["a", "b", "c", "d"].iter().map(|name| bench.turn.add_group(name, 0, 100, now).expect("a group")).collect();
        // A tenth of the memory for data, but for the reserves of five groups.
        let part_bytes = (48 - 5) * MIB / 10;
        for (place, group) in groups.into_iter().enumerate() {
            let is_last = place == 3;
            let bounds = ConnectionBounds { requests: 2_000, ..ConnectionBounds::default() };
            let opened = bench.add_volume(1, 64 * MIB);
            let volume = bench.turn.connection(opened).map_or(0, |(_, volume, _)| volume);
            bench.connection = bench.turn.open(volume, group, bounds, Priority::NONE).expect("a connection");
            let mut read_bytes = 0;
            for _ in 0..if is_last { part_bytes / length } else { 128 * (512 << 10) / length }.min(2_000) {
                let before = bench.seen.len();
                let verdict =
                    bench.turn.submit(bench.connection, asked(Command::Read, 0, length), now, &mut bench.actions);
                bench.settle();
                for (io, bytes, _) in starts(&bench.seen[before..]) {
                    read_bytes += u64::from(bytes);
                    // The reply is handed over, and never sent.
                    bench.ends(io, i32::try_from(bytes).expect("small"));
                }
                if verdict == Verdict::Wait {
                    break;
                }
            }
            // A slot may be twice as long as its data.
            let wanted = if is_last { part_bytes.min(2_000 * length) / 2 } else { MIB };
            assert!(read_bytes >= wanted, "tenant {place} has read {read_bytes} of {wanted} bytes by {length}");
        }
        assert_eq!(bench.turn.counters().violations, 0);
    }
}

/// Ends every I/O at once, as long as the turn starts more; returns when requests were answered.
fn answers_of(bench: &mut Bench, actions: Vec<Action>, for_ns: Nanos) -> Vec<Nanos> {
    let end = bench.now + for_ns;
    let (mut todo, mut answered) = (actions, Vec::new());
    loop {
        answered.extend(pieces(&todo).iter().filter(|piece| piece.is_last()).map(|_| bench.now));
        let mut next = Vec::new();
        for action in &todo {
            match *action {
                Action::Start { io, bytes, .. } => next.extend(bench.ends(io, i32::try_from(bytes).expect("small"))),
                Action::Reply { request, piece, .. } => {
                    bench.turn.sent(request, piece, bench.now, &mut bench.actions);
                    next.extend(bench.settle());
                }
                Action::Continue { verdict, connection } => {
                    let mut verdict = verdict;
                    while let Verdict::Fill(_) = verdict {
                        verdict = bench.turn.filled(connection, bench.now, &mut bench.actions);
                    }
                    next.extend(bench.settle());
                }
                _ => {}
            }
        }
        while next.is_empty() {
            let Some(at) = bench.turn.next_deadline().filter(|at| *at <= end) else {
                bench.now = end;
                return answered;
            };
            bench.now = at;
            bench.turn.expire(at);
            next = bench.settle();
        }
        todo = next;
    }
}

#[test]
fn a_request_is_one_io_whatever_parts_it_is_cut_into() {
    for command in [Command::Read, Command::Write] {
        let mut bench = Bench::new(4_096, 64 * MIB);
        let limits = Limits { read_ios_per_s: Some(1), write_ios_per_s: Some(1), ..Limits::NONE };
        assert_eq!(bench.turn.set_limits(0, &limits, 1), Ok(true));
        // 32 parts, and for the write blocks at both ends that are read first.
        let actions = bench.asks(asked(command, 100, 32 * MIB));
        let begin = bench.now;
        assert_eq!(answers_of(&mut bench, actions, 500_000_000), [begin]);
        let actions = bench.asks(asked(command, 0, 512));
        let second = answers_of(&mut bench, actions, 10_000_000_000);
        // The burst reaches back to the beginning of time.
        assert_eq!(second, [1_000_000_000]);
    }
}

/// Rates, sizes and arrivals at random: the bytes and requests that pass in any time are within rate x
/// (time + burst) and a request, and a busy client gets the rate.
#[test]
fn requests_pass_at_the_rate_of_each_limit() {
    for seed in 0..40 {
        let mut stream = hoistway_block::random::Stream::new(seed);
        let rate = 1 + stream.below(40);
        let bytes = stream.chance(1, 2).then(|| MIB + stream.below(16 * MIB));
        let is_total = stream.chance(1, 2);
        let mut limits = Limits { burst_ms: Some(1), ..Limits::NONE };
        let (ios, by_bytes) = if is_total {
            (&mut limits.total_ios_per_s, &mut limits.total_bytes_per_s)
        } else {
            (&mut limits.read_ios_per_s, &mut limits.read_bytes_per_s)
        };
        (*ios, *by_bytes) = if bytes.is_some() { (None, bytes) } else { (Some(rate), None) };
        let mut bench = Bench::new(1, 64 * MIB);
        let group = bench.turn.add_group("a", 0, 100, 1).expect("a group");
        let below = bench.turn.add_group("a/b", group, 100, 1).expect("a group");
        let bounds = ConnectionBounds::default();
        bench.connection = bench.turn.open(0, below, bounds, Priority::NONE).expect("a connection");
        let limited = if stream.chance(1, 2) { group } else { below };
        assert_eq!(bench.turn.set_limits(limited, &limits, 1), Ok(true));
        let begin = bench.now;
        let (mut all, mut sum) = (Vec::new(), 0);
        while bench.now < begin + 20_000_000_000 {
            let length = 1 + stream.below(2 * MIB);
            let command = if is_total && stream.chance(1, 2) { Command::Write } else { Command::Read };
            let actions = bench.asks(asked(command, stream.below(32) * MIB, length));
            // One request at a time, so the next one is there as soon as the last one passed.
            let before = all.len();
            let mut pending = actions;
            while all.len() == before {
                let step = bench.turn.next_deadline().map_or(1, |at| at.saturating_sub(bench.now).max(1));
                all.extend(answers_of(&mut bench, std::mem::take(&mut pending), step));
            }
            sum += if bytes.is_some() { length } else { 1 };
        }
        let rate = bytes.unwrap_or(rate);
        let most_of_one = if bytes.is_some() { 2 * MIB } else { 1 };
        let due = u128::from(bench.now - begin) * u128::from(rate) / 1_000_000_000;
        let burst = u128::from(rate) / 1_000 + 1;
        let sum = u128::from(sum);
        assert!(sum <= due + burst + u128::from(most_of_one), "{sum} of {due}, seed {seed}");
        assert!(sum + u128::from(most_of_one) + burst >= due, "{sum} of {due}, seed {seed}");
    }
}
