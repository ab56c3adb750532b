//! What a turn does after a backing has lost data, or cannot do what it had said.

use hoistway_block::RequestId;
use hoistway_linux::ring::Emptying;

use super::cases::{Bench, MIB, asked, pieces, starts, syncs};
use super::incidents::EFAULT;
use super::{Action, Incident, Piece, Verdict};
use crate::damage::Damage;
use crate::protocol::{ClientRequest, Command, Failure};

const EIO: i32 = -5;
const ENOSPC: i32 = -28;
const EOPNOTSUPP: i32 = -95;
const FAILED: Piece = Piece::Failed { failure: Failure::Io, offset_bytes: None, last: true };

fn fua(command: Command, offset_bytes: u64, length_bytes: u64) -> ClientRequest {
    ClientRequest { fua: true, ..asked(command, offset_bytes, length_bytes) }
}

fn whole(bytes: u32) -> i32 {
    i32::try_from(bytes).expect("small")
}

impl Bench {
    fn damage(&self) -> Option<Damage> {
        self.turn.volume(0).and_then(|(_, damage, _)| damage)
    }

    /// Submits a request that is refused, with its payload.
    fn is_refused(&mut self, asked: ClientRequest) -> bool {
        let mut verdict = self.turn.submit(self.connection, asked, 1, &mut self.actions);
        if let Verdict::Skip(bytes) = verdict {
            assert_eq!((bytes, self.actions.list.len()), (asked.payload_bytes, 0), "no answer before its payload");
            verdict = self.turn.skipped(self.connection, 1, &mut self.actions);
        }
        assert_eq!(verdict, Verdict::Go);
        pieces(&self.settle()) == [FAILED]
    }

    fn emptyings(&mut self, asked: ClientRequest) -> Vec<(RequestId, Emptying)> {
        let emptying = |action: &Action| match *action {
            Action::Empty { io, how, .. } => Some((io, how)),
            _ => None,
        };
        self.asks(asked).iter().filter_map(emptying).collect()
    }

    /// Ends everything that is in flight, and what follows; returns the pieces of answers, and the
    /// bytes that were written.
    fn runs(&mut self, actions: Vec<Action>) -> (Vec<Piece>, Vec<u32>) {
        let (mut answers, mut written, mut next) = (Vec::new(), Vec::new(), actions);
        while !next.is_empty() {
            answers.extend(pieces(&next));
            let ios = starts(&next);
            next = Vec::new();
            for (io, bytes, _) in ios {
                written.push(bytes);
                next.extend(self.ends(io, whole(bytes)));
            }
        }
        (answers, written)
    }
}

#[test]
fn after_a_failed_fua_write_nothing_durable_is_promised_any_more() {
    let mut bench = Bench::new(1, 64 * MIB);
    let (io, ..) = starts(&bench.asks(fua(Command::Write, 0, 4_096)))[0];
    assert_eq!(pieces(&bench.ends(io, EIO)), [FAILED]);
    assert_eq!(bench.damage(), Some(Damage::NotDurable));
    for _ in 0..2 {
        let flush = bench.asks(asked(Command::Flush, 0, 0));
        assert_eq!((pieces(&flush), syncs(&flush)), (vec![FAILED], 0));
    }
    for command in [Command::Write, Command::WriteZeroes, Command::Trim] {
        assert!(bench.is_refused(fua(command, MIB, 4_096)), "{command:?}");
    }
    // What promises nothing goes on.
    let write = starts(&bench.asks(asked(Command::Write, 0, 4_096)));
    assert_eq!(pieces(&bench.ends(write[0].0, 4_096)), [Piece::Done]);
    assert_eq!(starts(&bench.asks(fua(Command::Read, 0, 512))).len(), 1);
}

#[test]
fn a_client_whose_memory_is_gone_damages_no_volume() {
    let mut bench = Bench::new(1, 64 * MIB);
    for command in [Command::Write, Command::Read] {
        let (io, ..) = starts(&bench.asks(fua(command, 0, 4_096)))[0];
        bench.ends(io, -EFAULT);
        assert_eq!(bench.damage(), None, "{command:?}");
    }
    // Nor does the rest of a write of which a part was transferred.
    let (io, ..) = starts(&bench.asks(fua(Command::Write, 0, 8_192)))[0];
    assert_eq!(starts(&bench.ends(io, 4_096)).len(), 1, "the rest is asked for");
    assert_eq!(pieces(&bench.ends(io, -EFAULT)), [FAILED]);
    assert_eq!(bench.damage(), None);
    let (io, ..) = starts(&bench.asks(fua(Command::Write, 0, 4_096)))[0];
    assert_eq!(pieces(&bench.ends(io, 4_096)), [Piece::Done], "durable requests go on");
}

#[test]
fn a_failed_durable_operation_takes_those_in_flight_with_it() {
    let mut bench = Bench::new(1, 64 * MIB);
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    let first = starts(&bench.asks(fua(Command::Write, 0, 4_096)))[0].0;
    let second = starts(&bench.asks(fua(Command::Write, MIB, 4_096)))[0].0;
    bench.ends(first, EIO);
    assert_eq!(pieces(&bench.ends(second, 4_096)), [FAILED], "its own success says nothing");
    assert_eq!(pieces(&bench.syncs(true)), [FAILED], "nor does that of the fsync");
}

#[test]
fn durable_trims_and_zeroes_lose_data_as_writes_do() {
    for command in [Command::WriteZeroes, Command::Trim] {
        let mut bench = Bench::new(1, 64 * MIB);
        let emptied = bench.emptyings(fua(command, 0, MIB));
        bench.ends(emptied[0].0, 0);
        assert_eq!(pieces(&bench.syncs(false)), [FAILED]);
        assert_eq!(bench.damage(), Some(Damage::NotDurable), "{command:?}: the flush failed");
        let mut bench = Bench::new(1, 64 * MIB);
        let emptied = bench.emptyings(fua(command, 0, MIB));
        assert_eq!(pieces(&bench.ends(emptied[0].0, EIO)), [FAILED]);
        assert_eq!(bench.damage(), Some(Damage::NotDurable), "{command:?}: it failed itself");
    }
}

#[test]
fn a_lack_of_space_is_no_loss_unless_the_page_cache_reports_it() {
    for uses_page_cache in [false, true] {
        let mut bench = Bench::with(1, 64 * MIB, |abilities| abilities.uses_page_cache = uses_page_cache);
        let (io, ..) = starts(&bench.asks(fua(Command::Write, 0, 4_096)))[0];
        let no_space = Piece::Failed { failure: Failure::NoSpace, offset_bytes: None, last: true };
        assert_eq!(pieces(&bench.ends(io, ENOSPC)), [no_space]);
        assert_eq!(bench.damage(), uses_page_cache.then_some(Damage::NotDurable));
    }
}

#[test]
fn failures_that_promise_nothing_are_no_loss() {
    let mut bench = Bench::new(1, 64 * MIB);
    for request in [asked(Command::Write, 0, 4_096), fua(Command::Read, 0, 4_096)] {
        let (io, ..) = starts(&bench.asks(request))[0];
        bench.ends(io, EIO);
    }
    assert_eq!(bench.damage(), None);
    let mut bench = Bench::with(1, 64 * MIB, |abilities| abilities.has_unsafe_flush = true);
    let (io, ..) = starts(&bench.asks(fua(Command::Write, 0, 4_096)))[0];
    bench.ends(io, EIO);
    assert_eq!(bench.damage(), None);
}

#[test]
fn a_range_that_cannot_be_emptied_is_written_with_zeroes() {
    let mut bench = Bench::new(1, 64 * MIB);
    let emptied = bench.emptyings(asked(Command::WriteZeroes, 512, 3 * MIB + 100));
    assert_eq!(emptied.iter().map(|(_, how)| *how).collect::<Vec<_>>(), [Emptying::PunchHole]);
    let after = bench.ends(emptied[0].0, EOPNOTSUPP);
    let mib = u32::try_from(MIB).expect("small");
    assert_eq!(bench.runs(after), (vec![Piece::Done], vec![mib, mib, mib, 100]));
    let mut incidents = Vec::new();
    bench.turn.take_incidents(&mut incidents);
    assert_eq!(incidents, [Incident::Withdrawn { volume: 0, how: Emptying::PunchHole }]);
    // The ability is gone: later zeroes are written at once, and none are fast.
    assert_eq!(starts(&bench.asks(asked(Command::WriteZeroes, 0, 4_096))).len(), 1);
    let fast = ClientRequest { fast_zero: true, ..asked(Command::WriteZeroes, 0, 4_096) };
    let refused = Piece::Failed { failure: Failure::NotSupported, offset_bytes: None, last: true };
    assert_eq!(pieces(&bench.asks(fast)), [refused]);
    assert_eq!(bench.turn.counters().violations, 0);
}

#[test]
fn the_other_way_to_empty_a_range_is_tried_before_zeroes_are_written() {
    let mut bench = Bench::with(1, 64 * MIB, |abilities| abilities.can_zero = true);
    let emptied = bench.emptyings(asked(Command::WriteZeroes, 0, MIB));
    let again = bench.ends(emptied[0].0, EOPNOTSUPP);
    let [Action::Empty { io, how: Emptying::ZeroRange, .. }] = again[..] else { panic!("{again:?}") };
    let after = bench.ends(io, EOPNOTSUPP);
    assert_eq!(bench.runs(after).0, [Piece::Done]);
}

#[test]
fn fast_zeroing_that_turns_out_slow_is_not_supported_and_no_failure() {
    let mut bench = Bench::new(1, 4 << 30);
    let fast = ClientRequest { fast_zero: true, ..asked(Command::WriteZeroes, 0, 4 << 30) };
    let emptied = bench.emptyings(fast);
    let refused = Piece::Failed { failure: Failure::NotSupported, offset_bytes: None, last: true };
    let answers: Vec<Piece> = emptied
        .into_iter()
        .flat_map(|(io, _)| bench.ends(io, EOPNOTSUPP))
        .filter_map(|it| pieces(&[it]).pop())
        .collect();
    assert_eq!(answers, [refused]);
    assert_eq!(bench.damage(), None);
}

#[test]
fn a_trim_without_effect_succeeds_and_a_discard_gives_way_to_a_hole() {
    let mut bench = Bench::with(1, 64 * MIB, |abilities| abilities.trimming = Some(Emptying::Discard));
    for how in [Emptying::Discard, Emptying::PunchHole] {
        let emptied = bench.emptyings(asked(Command::Trim, 0, MIB));
        assert_eq!(emptied[0].1, how);
        assert_eq!(pieces(&bench.ends(emptied[0].0, EOPNOTSUPP)), [Piece::Done]);
    }
    assert_eq!(bench.asks(asked(Command::Trim, 0, MIB)).len(), 1, "only an answer");
}

#[test]
fn zeroes_of_a_direct_file_are_written_in_whole_blocks_where_emptying_failed() {
    let mut bench = Bench::new(4_096, 64 * MIB);
    // Two edges that are read, patched and written; between them whole blocks.
    let actions = bench.asks(asked(Command::WriteZeroes, 100, 3 * MIB));
    let emptied = actions.iter().find_map(|action| match *action {
        Action::Empty { io, position_bytes, length_bytes, .. } => Some((io, position_bytes, length_bytes)),
        _ => None,
    });
    let (io, position_bytes, length_bytes) = emptied.expect("the blocks between the edges");
    assert_eq!((position_bytes % 4_096, length_bytes % 4_096), (0, 0));
    let mut next = bench.ends(io, EOPNOTSUPP);
    next.extend(actions);
    let (answers, moved) = bench.runs(next);
    assert_eq!(answers, [Piece::Done]);
    assert!(moved.iter().all(|bytes| bytes.is_multiple_of(4_096)), "{moved:?}");
    assert_eq!(bench.turn.counters().violations, 0);
}

#[test]
fn behind_the_end_of_a_truncated_file_everything_is_refused() {
    let mut bench = Bench::new(1, 64 * MIB);
    let (io, ..) = starts(&bench.asks(asked(Command::Read, 2 * MIB, 8_192)))[0];
    bench.ends(io, 4_096);
    bench.ends(io, 0);
    bench.ends(io, 0);
    let intact_bytes = 2 * MIB + 4_096;
    assert_eq!(bench.damage(), Some(Damage::Truncated { intact_bytes }));
    for command in [Command::Read, Command::Write, Command::WriteZeroes, Command::Trim, Command::BlockStatus] {
        assert!(bench.is_refused(asked(command, intact_bytes - 1, 2)), "{command:?}");
    }
    assert!(bench.is_refused(asked(Command::Flush, 0, 0)));
    assert_eq!(starts(&bench.asks(asked(Command::Write, intact_bytes - 2, 2))).len(), 1);
}

#[test]
fn a_read_that_ends_inside_a_block_of_direct_io_has_met_the_end() {
    let mut bench = Bench::new(4_096, 64 * MIB);
    let (io, ..) = starts(&bench.asks(asked(Command::Read, 0, 16_384)))[0];
    let failed = Piece::Failed { failure: Failure::Io, offset_bytes: Some(0), last: true };
    assert_eq!(pieces(&bench.ends(io, 5_000)), [failed], "the rest of the block cannot be asked for");
    assert_eq!(bench.damage(), Some(Damage::Truncated { intact_bytes: 5_000 }));
}
