//! What a turn does with a volume that is an overlay: the order of copy, write, bitmap and answer, and whose I/O it is.

use hoistway_block::{Priority, RequestId};

use super::cases::{Bench, MIB, asked, pieces, starts, syncs};
use super::{Action, ConnectionBounds, Piece, Positions, Verdict};
use crate::overlay::format::{BLOCK_BYTES, Layout};
use crate::overlay::map::Map;
use crate::protocol::{ClientRequest, Command};

const KIB: u64 = 1 << 10;

impl Bench {
    /// A volume of which the first 16 MiB are in a base.
    fn over_base(scheduler: &str, device_depth: u32) -> Self {
        let mut bench = Self::scheduled(scheduler, device_depth, 4_096, 64 * MIB);
        bench.put_over_base(0);
        bench
    }

    fn put_over_base(&mut self, volume: u32) {
        let map = Map::new(Layout::of(16 * MIB), [1; 16]);
        assert!(self.turn.add_overlay(volume, map, Positions::linear(1 << 40)));
    }

    fn stores(&mut self, volume: u32, is_ok: bool) -> Vec<Action> {
        self.turn.stored(volume, is_ok, self.now, &mut self.actions);
        self.settle()
    }

    /// Ends an I/O well.
    fn done(&mut self, io: RequestId, bytes: u32) -> Vec<Action> {
        self.ends(io, i32::try_from(bytes).expect("small"))
    }
}

/// Of every transfer: whether it reads the base, whether it writes, where, and its length.
fn transfers(actions: &[Action]) -> Vec<(bool, bool, u64, u32)> {
    let transfer = |action: &Action| match *action {
        Action::Start { is_of_base, is_write, position_bytes, bytes, .. } => {
            Some((is_of_base, is_write, position_bytes, bytes))
        }
        _ => None,
    };
    actions.iter().filter_map(transfer).collect()
}

fn pages(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Store { .. })).count()
}

fn fua(command: Command, offset_bytes: u64, length_bytes: u64) -> ClientRequest {
    ClientRequest { fua: true, ..asked(command, offset_bytes, length_bytes) }
}

#[test]
fn a_small_write_copies_its_block_and_is_answered_when_the_bitmap_says_so() {
    let mut bench = Bench::over_base("noop", 64);
    let block = u32::try_from(BLOCK_BYTES).expect("small");
    let reading = bench.asks(asked(Command::Write, 128 * KIB + 4_096, 8_192));
    assert_eq!(transfers(&reading), [(true, false, 128 * KIB, block)]);
    let (io, bytes, _) = starts(&reading)[0];
    let writing = bench.done(io, bytes);
    assert_eq!(transfers(&writing), [(false, true, 128 * KIB, block)]);

    // Until the end, reads get the base, and another write of the block waits; that of another does not.
    let read = bench.asks(asked(Command::Read, 128 * KIB + 4_096, 4_096));
    assert_eq!(transfers(&read), [(true, false, 128 * KIB + 4_096, 4_096)]);
    assert_eq!(transfers(&bench.asks(asked(Command::Write, 128 * KIB, 4_096))), []);
    assert_eq!(transfers(&bench.asks(asked(Command::Write, 192 * KIB, 4_096))), [(true, false, 192 * KIB, block)]);

    let (io, bytes, _) = starts(&writing)[0];
    let storing = bench.done(io, bytes);
    assert_eq!((pages(&storing), pieces(&storing)), (1, vec![]));
    let stored = bench.stores(0, true);
    assert_eq!(pieces(&stored), [Piece::Done]);
    // The write that waited finds the block copied.
    assert_eq!(transfers(&stored), [(false, false, 128 * KIB, block)]);
    let read = bench.asks(asked(Command::Read, 128 * KIB + 4_096, 4_096));
    assert_eq!(transfers(&read), [(false, false, 128 * KIB + 4_096, 4_096)]);
}

#[test]
fn whole_blocks_and_what_lies_behind_the_base_are_not_copied() {
    let mut bench = Bench::over_base("noop", 64);
    let block = u32::try_from(BLOCK_BYTES).expect("small");
    let whole = bench.asks(asked(Command::Write, 64 * KIB, 2 * BLOCK_BYTES));
    assert_eq!(transfers(&whole), [(false, true, 64 * KIB, 2 * block)]);
    let behind = bench.asks(asked(Command::Write, 16 * MIB, 4_096));
    assert_eq!(transfers(&behind), [(false, true, 16 * MIB, 4_096)]);
    let (io, bytes, _) = starts(&behind)[0];
    let answer = bench.done(io, bytes);
    assert_eq!((pages(&answer), pieces(&answer)), (0, vec![Piece::Done]), "it has no bit");
    // One read of both is two transfers, of two files.
    let both = bench.asks(asked(Command::Read, 16 * MIB - 4_096, 8_192));
    assert_eq!(transfers(&both), [(true, false, 16 * MIB - 4_096, 4_096), (false, false, 16 * MIB, 4_096)]);
}

#[test]
fn a_flush_makes_the_data_durable_and_then_the_bitmap() {
    let mut bench = Bench::over_base("noop", 64);
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    assert_eq!(pieces(&bench.syncs(true)), [Piece::Done], "nothing is to be sealed");

    let write = bench.asks(asked(Command::Write, 0, BLOCK_BYTES));
    let (io, bytes, _) = starts(&write)[0];
    bench.done(io, bytes);
    assert_eq!(pieces(&bench.stores(0, true)), [Piece::Done]);
    assert_eq!(syncs(&bench.asks(asked(Command::Flush, 0, 0))), 1);
    let sealing = bench.syncs(true);
    assert_eq!((pages(&sealing), syncs(&sealing), pieces(&sealing)), (1, 0, vec![]));
    let sealed = bench.stores(0, true);
    assert_eq!((syncs(&sealed), pieces(&sealed)), (1, vec![]));
    assert_eq!(pieces(&bench.syncs(true)), [Piece::Done]);

    // So does a durable write of a new block, and one of an old block needs nothing more.
    let write = bench.asks(fua(Command::Write, 256 * KIB, BLOCK_BYTES));
    let (io, bytes, is_durable) = starts(&write)[0];
    assert!(is_durable && pages(&bench.done(io, bytes)) == 1);
    let stored = bench.stores(0, true);
    assert_eq!((syncs(&stored), pieces(&stored)), (1, vec![]));
    assert_eq!(pages(&bench.syncs(true)), 1);
    assert_eq!(syncs(&bench.stores(0, true)), 1);
    assert_eq!(pieces(&bench.syncs(true)), [Piece::Done]);
    let write = bench.asks(fua(Command::Write, 256 * KIB, 4_096));
    let (io, bytes, is_durable) = starts(&write)[0];
    assert!(is_durable);
    assert_eq!(pieces(&bench.done(io, bytes)), [Piece::Done]);
}

#[test]
fn a_trim_takes_whole_blocks_of_the_base_and_zeroes_copy_the_others() {
    let mut bench = Bench::over_base("noop", 64);
    let emptied = |actions: &[Action]| {
        actions
            .iter()
            .filter_map(|action| match *action {
                Action::Empty { position_bytes, length_bytes, .. } => Some((position_bytes, length_bytes)),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let trim = bench.asks(asked(Command::Trim, 60 * KIB, 200 * KIB));
    assert_eq!(emptied(&trim), [(64 * KIB, 192 * KIB)]);
    let zeroes = bench.asks(asked(Command::WriteZeroes, 508 * KIB, 132 * KIB));
    assert_eq!(emptied(&zeroes), [(512 * KIB, 128 * KIB)]);
    assert_eq!(transfers(&zeroes), [(true, false, 448 * KIB, 64 << 10)]);
    assert_eq!(pieces(&bench.asks(asked(Command::Trim, 700 * KIB, 8 * KIB))), [Piece::Done], "a part of a block");
}

/// Two tenants, each with an overlay of its own over the same base, who read what is in the base and copy blocks of it.
#[test]
fn shares_hold_across_two_overlays_because_the_device_below_is_one() {
    for scheduler in ["paternoster", "wfq", "bfq"] {
        let mut bench = Bench::over_base(scheduler, 1);
        let other = bench.turn.add_volume(bench.turn.volume(0).expect("a volume").0.clone());
        bench.put_over_base(other);
        let mut moved = [0_u64; 2];
        let clients: Vec<u32> = [(0, 300), (other, 100)]
            .map(|(volume, weight)| {
                let group = bench.turn.add_group("tenant", 0, weight, 1).expect("a group");
                bench.turn.open(volume, group, ConnectionBounds::default(), Priority::NONE).expect("a connection")
            })
            .to_vec();
        let mut next = 0_u64;
        let mut ask = |bench: &mut Bench, client: u32| {
            next += 1;
            bench.connection = client;
            // Every fourth request writes a part of a block that is mostly new.
            let command = if next.is_multiple_of(4) { Command::Write } else { Command::Read };
            let mut verdict = bench.turn.submit(
                client,
                asked(command, next * 37 % 250 * BLOCK_BYTES, 4_096),
                bench.now,
                &mut bench.actions,
            );
            while let Verdict::Fill(_) = verdict {
                verdict = bench.turn.filled(client, bench.now, &mut bench.actions);
            }
        };
        for _ in 0..16 {
            clients.iter().for_each(|client| ask(&mut bench, *client));
        }
        let mut waiting: Vec<Action> = bench.settle();
        for _ in 0..30_000 {
            if waiting.is_empty() {
                waiting = bench.wait(20_000_000);
            }
            let Some(action) = (!waiting.is_empty()).then(|| waiting.remove(0)) else { break };
            match action {
                Action::Start { io, bytes, .. } => {
                    let client = bench.turn.connection_of(io);
                    let tenant = clients.iter().position(|of| *of == client).expect("a tenant");
                    moved[tenant] += u64::from(bytes);
                    bench.now += 20_000 + u64::from(bytes);
                    let follows = bench.done(io, bytes);
                    waiting.extend(follows);
                }
                Action::Store { volume, .. } => waiting.extend(bench.stores(volume, true)),
                Action::Reply { connection, request, piece } => {
                    bench.turn.sent(request, piece, bench.now, &mut bench.actions);
                    ask(&mut bench, connection);
                    waiting.extend(bench.settle());
                }
                _ => {}
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = moved[0] as f64 / moved[1] as f64;
        assert!((2.7..3.3).contains(&ratio), "{scheduler}: {moved:?}, {ratio:.2}");
    }
}

/// Reads 4 KiB here and there, one at a time; `HOISTWAY_READS` of them for `bench/overlay/run`, which counts instructions.
fn reads(mut bench: Bench) {
    let count = std::env::var("HOISTWAY_READS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_u64);
    let mut answered = 0;
    for number in 0..count {
        let actions = bench.asks(asked(Command::Read, number * 37 % 4_000 * 4_096, 4_096));
        let (io, bytes, _) = starts(&actions)[0];
        for action in bench.done(io, bytes) {
            if let Action::Reply { request, piece, .. } = action {
                bench.turn.sent(request, piece, bench.now, &mut bench.actions);
                answered += 1;
            }
        }
        bench.settle();
        bench.forget();
        bench.now += 100_000;
    }
    assert_eq!(answered, count);
}

#[test]
fn reads_of_a_raw_volume_are_answered() {
    reads(Bench::scheduled("paternoster", 32, 4_096, 64 * MIB));
}

#[test]
fn reads_of_untouched_blocks_are_answered() {
    reads(Bench::over_base("paternoster", 32));
}
