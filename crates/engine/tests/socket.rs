//! Client sockets served by a running shard (the threads of one device): data and answers, and
//! clients that vanish, stop, flood, are evicted, are idle or wait for memory.
#![allow(clippy::cast_possible_truncation, reason = "patterns and small sizes")]

mod plain;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use hoistway_engine::{Backing, ShardHandle, ShardSettings, VolumeSettings, start};
use plain::{connect, request};

fn shard(backing: &str, stall_timeout: Duration) -> ShardHandle {
    let volume = VolumeSettings::new("v", Backing::parse(backing).expect("a backing"));
    let settings = ShardSettings { memory_bytes: 64 << 20, stall_timeout, ..ShardSettings::default() };
    start(settings, &[volume]).expect("a shard")
}

/// A time after which no client of these tests is closed for stalling.
const PATIENT: Duration = Duration::from_secs(3_600);
/// For what happens at once or, if it is broken, never or after [`PATIENT`].
const SOON: Duration = Duration::from_secs(60);

/// Whether this becomes true.
fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn data_of_every_size_comes_back_as_sent() {
    let shard = shard("memory:32MiB", PATIENT);
    let mut peer = connect(&shard, None);
    let mut offset = 0;
    for length in [1_u32, 512, 4_096, 4_097, 16_384, 65_536, 100_001, 1 << 20, 5 << 20] {
        let data: Vec<u8> = (0..length).map(|index| (index.wrapping_mul(31) >> 3) as u8).collect();
        peer.send(&[request(1, 1, offset, length), data.clone()].concat());
        assert_eq!(peer.reply(), (1, 0, Vec::new()), "written {length}");
        peer.send(&request(0, 2, offset, length));
        let (cookie, error, back) = peer.reply();
        assert_eq!((cookie, error, back == data), (2, 0, true), "read {length}");
        offset += u64::from(length);
    }
}

#[test]
fn test_16_two_requests_with_one_cookie_are_answered_twice() {
    let shard = shard("memory:1MiB", PATIENT);
    let mut peer = connect(&shard, None);
    peer.send(&[request(0, 7, 0, 512), request(0, 7, 512, 512)].concat());
    assert_eq!([peer.reply().0, peer.reply().0], [7, 7]);
}

#[test]
fn test_17_requests_before_a_disconnect_are_answered() {
    let shard = shard("memory:1MiB", PATIENT);
    for round in 0..200 {
        let (closed, is_closed) = mpsc::channel();
        let mut peer = connect(&shard, Some(closed));
        let mut bytes: Vec<u8> = (0..8).flat_map(|cookie| request(0, cookie, 0, 4_096)).collect();
        bytes.extend(request(3, 0, 0, 0));
        peer.send(&bytes);
        let mut cookies: Vec<u64> = (0..8).map(|_| peer.reply().0).collect();
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..8), "round {round}");
        assert!(peer.is_at_end());
        is_closed.recv_timeout(SOON).expect("nothing is left of it");
    }
}

#[test]
fn test_34_clients_that_vanish_with_requests_in_flight_leave_nothing_behind() {
    let shard = shard("model:null,latency_us=300,memory:8MiB", PATIENT);
    let free = || shard.status().expect("status").memory_bytes.0;
    let before = free();
    let (closed, is_closed) = mpsc::channel();
    for round in 0..200_u64 {
        let mut peer = connect(&shard, Some(closed.clone()));
        let reads: Vec<u8> = (0..100).flat_map(|cookie| request(0, cookie, cookie * 4_096, 4_096)).collect();
        peer.send(&reads);
        // Some clients vanish inside a payload, some after a few answers.
        if round % 2 == 0 {
            peer.send(&[request(1, 500, 0, 65_536), vec![0; 1_000]].concat());
        }
        if round % 3 == 0 {
            peer.reply();
        }
        drop(peer);
    }
    for number in 0..200 {
        let heard = is_closed.recv_timeout(SOON);
        assert!(heard.is_ok(), "client {number} was never let go: {:?}", shard.status());
    }
    let status = shard.status().expect("status");
    assert_eq!((status.requests_in_flight, status.ios_in_flight, status.connections.len()), (0, 0, 0));
    assert_eq!(free(), before, "memory in use");
    assert_eq!(status.violations, 0);
    assert!(is_closed.try_recv().is_err(), "closed twice");
}

#[test]
fn several_workers_keep_the_data_of_their_clients_apart_while_others_vanish() {
    const CLIENTS: u64 = 8;
    let volume = VolumeSettings::new("v", Backing::parse("memory:64MiB").expect("a backing"));
    let settings = ShardSettings { memory_bytes: 64 << 20, threads: 4, queue_depth: 4, ..ShardSettings::default() };
    let shard = start(settings, &[volume]).expect("a shard");
    let before = shard.status().expect("status").memory_bytes.0;
    let (closed, is_closed) = mpsc::channel();
    let client = |number: u64| {
        let (mut peer, shard, closed) = (connect(&shard, Some(closed.clone())), shard.clone(), closed.clone());
        std::thread::spawn(move || {
            let length = 4_096 * (number as u32 % 4 + 1);
            for round in 0..100_u64 {
                // Sixteen requests in flight, so that workers start each other's I/Os.
                let at = |cookie: u64| number * (8 << 20) + cookie * 65_536;
                let byte = |cookie: u64| (number * 31 + round * 7 + cookie) as u8;
                for cookie in 0..16 {
                    peer.send(&[request(1, cookie, at(cookie), length), vec![byte(cookie); length as usize]].concat());
                }
                (0..16).for_each(|_| assert_eq!(peer.reply().1, 0, "written"));
                let reads: Vec<u8> = (0..16).flat_map(|cookie| request(0, cookie, at(cookie), length)).collect();
                peer.send(&reads);
                for _ in 0..16 {
                    let (cookie, error, data) = peer.reply();
                    assert!(
                        error == 0 && data == vec![byte(cookie); length as usize],
                        "client {number}, round {round}"
                    );
                }
                if round % 20 == number {
                    let mut visitor = connect(&shard, Some(closed.clone()));
                    visitor.send(&[reads, request(1, 99, at(15) + 65_536, 65_536), vec![0; 1_000]].concat());
                }
            }
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    for _ in 0..CLIENTS * 6 {
        is_closed.recv_timeout(SOON).expect("nothing is left of it");
    }
    let status = shard.status().expect("status");
    assert_eq!((status.requests_in_flight, status.connections.len(), status.violations), (0, 0, 0));
    assert_eq!((status.memory_bytes.0, status.threads), (before, 4));
}

#[test]
fn tests_36_and_37_clients_that_stop_are_closed_and_others_do_not_notice() {
    let shard = shard("memory:32MiB", Duration::from_millis(300));
    let (closed, is_closed) = mpsc::channel();
    // One client never reads its answers, one stops inside a payload, and one inside a header.
    let mut deaf = connect(&shard, Some(closed.clone()));
    deaf.send(&(0..64).flat_map(|cookie| request(0, cookie, 0, 1 << 20)).collect::<Vec<_>>());
    let mut mute = connect(&shard, Some(closed.clone()));
    mute.send(&[request(1, 0, 0, 1 << 20), vec![0; 10]].concat());
    let mut short = connect(&shard, Some(closed));
    short.send(&request(0, 0, 0, 512)[..5]);
    let mut quiet = connect(&shard, None);
    for _ in 0..3 {
        is_closed.recv_timeout(SOON).expect("closed for stalling");
    }
    // An idle client is not a stalled one.
    quiet.send(&request(0, 1, 0, 512));
    assert_eq!(quiet.reply().0, 1);
    // The peer has the reply a moment before its worker knows that it was sent.
    let is_idle = soon(|| shard.status().expect("status").requests_in_flight == 0);
    assert!(is_idle, "{:?}", shard.status());
}

#[test]
fn a_client_that_vanishes_while_it_waits_for_memory_is_noticed() {
    let shard = shard("memory:32MiB", PATIENT);
    // Clients that never read their answers hold all memory.
    let reads: Vec<u8> = (0..64).flat_map(|cookie| request(0, cookie, 0, 1 << 20)).collect();
    let mut deaf: Vec<_> = (0..6).map(|_| connect(&shard, None)).collect();
    deaf.iter_mut().for_each(|peer| peer.send(&reads));
    let pauses = || shard.status().expect("status").loop_counters.pauses_for_memory;
    let is_waiting = |before: u64| soon(|| pauses() > before);
    assert!(is_waiting(0), "the memory lasts: {:?}", shard.status());
    let (closed, is_closed) = mpsc::channel();
    let before = pauses();
    let mut victim = connect(&shard, Some(closed));
    victim.send(&request(1, 1, 0, 1 << 20));
    assert!(is_waiting(before), "the victim does not wait: {:?}", shard.status());
    drop(victim);
    is_closed.recv_timeout(SOON).expect("its end is noticed");
}

#[test]
fn test_35_an_evicted_client_sees_the_end_although_a_receive_is_outstanding() {
    let shard = shard("memory:1MiB", PATIENT);
    let mut peer = connect(&shard, None);
    let eviction = shard.evict(peer.connection).expect("evicted").expect("it was connected");
    assert!(eviction.wait(SOON));
    assert!(peer.is_at_end());
}

#[test]
fn test_41_a_burst_of_one_client_does_not_hold_up_the_next() {
    let shard = shard("memory:1MiB", PATIENT);
    let (mut flood, mut single) = (connect(&shard, None), connect(&shard, None));
    let burst: Vec<u8> = (0..10_000).flat_map(|cookie| request(0, cookie, 0, 512)).collect();
    let mut sender = flood.stream.try_clone().expect("a clone");
    let flooding = std::thread::spawn(move || {
        use std::io::Write;
        sender.write_all(&burst).expect("sent");
    });
    // The flood's answers are not read yet, so it cannot be over; the other client is served
    // nevertheless.
    single.send(&request(0, 1, 0, 512));
    assert_eq!(single.reply().0, 1);
    for _ in 0..10_000 {
        flood.reply();
    }
    flooding.join().expect("the flood");
}

#[test]
fn test_40_idle_clients_cause_no_wake_ups() {
    let shard = shard("memory:1MiB", PATIENT);
    let peers: Vec<_> = (0..100).map(|_| connect(&shard, None)).collect();
    let turns = || shard.status().expect("status").loop_counters.turns;
    // The status query is itself a wake-up, so the turns between two queries are counted.
    let before = turns();
    std::thread::sleep(Duration::from_millis(500));
    let after = turns();
    assert!(after - before <= 2, "{} turns in half a second of idleness", after - before);
    assert_eq!(peers.len(), 100);
}
