//! What is left of a client that dies, literally: the events given to a [`super::Turn`], and the actions
//! that it returns. Source: docs/specifications/engine.md, section 5.9.

use super::Action;
use super::cases::{Bench, MIB, asked, starts};
use crate::protocol::{ClientRequest, Command};
use hoistway_experiment::Limits;

/// A bench with a second client, whose connection is returned: first that of the client that will die.
fn two_clients(alignment_bytes: u32) -> (Bench, u32, u32) {
    let mut bench = Bench::new(alignment_bytes, 64 * MIB);
    let dying = bench.connection;
    let other = bench.connect(0);
    bench.connection = other;
    (bench, dying, other)
}

impl Bench {
    fn asks_as(&mut self, connection: u32, asked: ClientRequest) -> Vec<Action> {
        let other = std::mem::replace(&mut self.connection, connection);
        let actions = self.asks(asked);
        self.connection = other;
        actions
    }

    fn closes(&mut self, connection: u32) -> Vec<Action> {
        self.turn.close(connection, self.now, &mut self.actions);
        self.settle()
    }
}

#[test]
fn what_limits_hold_back_of_a_client_that_dies_is_dropped_at_once() {
    let (mut bench, dying, _) = two_clients(512);
    let free_bytes = bench.turn.memory_bytes().0;
    let slow = Limits { write_bytes_per_s: Some(2), ..Limits::NONE };
    assert_eq!(bench.turn.set_limits(0, &slow, 1), Ok(true));
    // The first goes at once and leaves a debt.
    let (io, bytes, _) = starts(&bench.asks_as(dying, asked(Command::Write, 32_768, 4_096)))[0];
    for at in 0..3 {
        assert_eq!(bench.asks_as(dying, asked(Command::Write, at * 8_192, 4_096)), []);
    }
    assert_eq!(bench.closes(dying), [], "one is in the device");
    assert_eq!(bench.turn.held_by_limiters(), 0);
    assert_eq!(bench.ends(io, i32::try_from(bytes).expect("small")), [Action::Finished { connection: dying }]);
    assert_eq!((bench.turn.held_by_limiters(), bench.turn.requests_in_flight()), (0, 0));
    assert_eq!(bench.turn.memory_bytes().0, free_bytes);
    bench.turn.drain(2);
    assert_eq!(bench.settle(), [], "nothing of it is left for a drain");
}

#[test]
fn a_write_of_a_client_that_died_keeps_overlapping_ios_of_others_back_until_it_ends() {
    let (mut bench, dying, _) = two_clients(1);
    let (departing, bytes, _) = starts(&bench.asks_as(dying, asked(Command::Write, 8_192, 8_192)))[0];
    assert_eq!(bench.closes(dying), [], "it is in the device");
    for command in [Command::Write, Command::Read, Command::Trim] {
        assert_eq!(bench.asks(asked(command, 12_288, 8_192)), [], "{command:?}");
    }
    assert_eq!(starts(&bench.asks(asked(Command::Write, 16_384, 4_096))).len(), 1, "this one does not overlap");
    let after = bench.ends(departing, i32::try_from(bytes).expect("small"));
    assert_eq!(after[0], Action::Finished { connection: dying });
    assert_eq!((starts(&after).len(), after.len()), (2, 4), "{after:?}");
    assert_eq!(bench.turn.counters().violations, 0);
}

#[test]
fn nothing_of_a_client_that_died_is_tried_again_or_goes_on() {
    // Interrupted or short, it ends; no I/O is reported as failed.
    for result in [-11, 512, 0] {
        let (mut bench, dying, _) = two_clients(1);
        let (io, ..) = starts(&bench.asks_as(dying, asked(Command::Write, 0, 4_096)))[0];
        bench.closes(dying);
        assert_eq!(bench.ends(io, result), [Action::Finished { connection: dying }], "{result}");
        let mut incidents = Vec::new();
        bench.turn.take_incidents(&mut incidents);
        assert_eq!(incidents, []);
    }
    // A block that was read is not written back, and what waited for it goes on.
    let (mut bench, dying, _) = two_clients(4_096);
    let (reading, ..) = starts(&bench.asks_as(dying, asked(Command::Write, 100, 200)))[0];
    assert_eq!(bench.asks_as(dying, asked(Command::Write, 400, 200)), []);
    assert_eq!(bench.asks(asked(Command::Write, 700, 200)), [], "all three change the same block");
    assert_eq!(bench.closes(dying), []);
    let after = bench.ends(reading, 4_096);
    assert_eq!((after[0], starts(&after).len()), (Action::Finished { connection: dying }, 1), "{after:?}");
}

#[test]
fn an_io_that_is_kept_back_is_dropped_with_its_own_client() {
    let (mut bench, dying, other) = two_clients(1);
    let (departing, bytes, _) = starts(&bench.asks_as(dying, asked(Command::Write, 0, 4_096)))[0];
    bench.closes(dying);
    assert_eq!(bench.asks(asked(Command::Write, 0, 4_096)), []);
    assert_eq!(bench.closes(other), [Action::Finished { connection: other }]);
    let after = bench.ends(departing, i32::try_from(bytes).expect("small"));
    assert_eq!((after, bench.turn.ios_in_flight()), (vec![Action::Finished { connection: dying }], 0));
}
