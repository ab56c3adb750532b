//! Requests that the scheduler wants cut.

use hoistway_block::{Priority, RequestId};

use super::cases::{Bench, MIB, asked, starts};
use super::{Action, ConnectionBounds};
use crate::protocol::{ClientRequest, Command};

/// Ends all I/Os, and those that start then, and the pieces are sent. Returns the lengths of all.
fn end_all(bench: &mut Bench, mut started: Vec<(RequestId, u32, bool)>) -> Vec<u64> {
    let mut lengths = Vec::new();
    while let Some((io, bytes, _)) = started.pop() {
        lengths.push(u64::from(bytes));
        bench.now += 1_000;
        let actions = bench.ends(io, i32::try_from(bytes).expect("small"));
        started.extend(starts(&actions));
        for action in actions {
            if let Action::Reply { request, piece, .. } = action {
                bench.turn.sent(request, piece, bench.now, &mut bench.actions);
            }
        }
        started.extend(starts(&bench.settle()));
    }
    lengths
}

/// While a group leads another that is active, its long requests are cut to 32 KiB. A read in one
/// piece is cut into at most as many parts as the table holds. A block of the device is never cut.
#[test]
fn long_requests_of_a_group_that_leads_are_cut() {
    const KIB: u64 = 1 << 10;
    for (block_bytes, one_piece, length_bytes, part_bytes) in [
        (4_096, false, 128 * KIB, 32 * KIB),
        (4_096, true, 128 * KIB, 32 * KIB),
        (65_536, false, 128 * KIB, 64 * KIB),
        (4_096, true, 16 * MIB, 64 * KIB),
    ] {
        let mut bench = Bench::scheduled("paternoster", 1, block_bytes, 256 * MIB);
        let leader = bench.connection;
        let group = bench.turn.add_group("other", 0, 800, 1).expect("a group");
        let laggard = bench.turn.open(0, group, ConnectionBounds::default(), Priority::NONE).expect("a connection");
        let block = u64::from(block_bytes);
        let mut started = Vec::new();
        let lengths = [(leader, MIB), (leader, MIB), (leader, MIB), (laggard, block), (laggard, block)];
        for (connection, length_bytes) in lengths {
            bench.connection = connection;
            bench.now += 1_000;
            started.extend(starts(&bench.asks(asked(Command::Read, 0, length_bytes))));
        }
        // The last one of the leader waits until the laggard is no longer expected.
        assert_eq!(end_all(&mut bench, started), [MIB, block, block, MIB]);
        let last = starts(&bench.wait(1_000_000));
        assert_eq!(end_all(&mut bench, last), [MIB]);
        bench.connection = leader;
        let read = ClientRequest { one_piece, ..asked(Command::Read, 64 * MIB, length_bytes) };
        let started = starts(&bench.asks(read));
        let lengths = end_all(&mut bench, started);
        assert_eq!(lengths.iter().sum::<u64>(), length_bytes);
        assert!(lengths.iter().all(|bytes| *bytes == part_bytes), "{block_bytes} {lengths:?}");
    }
}
