//! Requests through a real ring.

use std::io::{Read, Seek, Write};
use std::os::unix::net::UnixStream;

use super::*;

fn ring() -> Ring {
    Ring::new(Arc::new(Arena::new(1 << 20).expect("1 MiB")), 8).expect("io_uring")
}

fn next(ring: &mut Ring) -> Completion {
    let mut completions = Vec::new();
    while completions.is_empty() {
        ring.enter(Wait::Forever).expect("enter");
        ring.reap(1, &mut completions);
    }
    completions[0]
}

fn span(offset_bytes: u64, length_bytes: u32) -> Span {
    Span { offset_bytes, length_bytes }
}

#[test]
fn gathered_writes_reach_the_file_in_order_and_come_back() {
    let mut ring = ring();
    let mut file = tempfile::tempfile().expect("a temporary file");
    let id = ring.add_file(file.try_clone().expect("clone").into()).expect("room");
    ring.arena().copy_in(span(0, 4), b"hois");
    ring.arena().copy_in(span(8_192, 3), b"twa");
    ring.write(7, id, &[span(0, 4), span(8_192, 3)], 10, true);
    assert_eq!(next(&mut ring), Completion { token: 7, result: 7 });
    let mut text = String::new();
    file.seek(io::SeekFrom::Start(10)).expect("seek");
    file.read_to_string(&mut text).expect("text");
    assert_eq!(text, "hoistwa");
    ring.register_arena();
    ring.read(8, id, &[span(100, 7)], 10);
    assert_eq!(next(&mut ring), Completion { token: 8, result: 7 }, "registered: {:?}", ring.take_refusal());
    let mut back = [0; 7];
    ring.arena().copy_out(span(100, 7), &mut back);
    assert_eq!(&back, b"hoistwa");
}

#[test]
fn a_cancelled_receive_completes_and_the_peer_sees_the_end() {
    let mut ring = ring();
    let (ours, mut peer) = UnixStream::pair().expect("a pair");
    let id = ring.add_file(ours.into()).expect("room");
    ring.receive(1, id, span(0, 64));
    ring.enter(Wait::No).expect("enter");
    assert_eq!(ring.in_flight(), 1);
    ring.cancel(id);
    assert_eq!(next(&mut ring).result, -libc::ECANCELED);
    ring.remove_file(id);
    ring.enter(Wait::No).expect("enter");
    assert_eq!(peer.read(&mut [0; 1]).expect("the end"), 0);
}

#[test]
fn more_requests_than_entries_are_all_done() {
    let mut ring = ring();
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&[1; 4_096]).expect("content");
    let id = ring.add_file(file.into()).expect("room");
    for token in 0..3_000 {
        ring.read(token, id, &[span(token % 256 * 4_096, 1)], token);
    }
    let mut completions = Vec::new();
    while completions.len() < 3_000 {
        ring.enter(Wait::Forever).expect("enter");
        ring.reap(1_024, &mut completions);
    }
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..3_000));
    assert!(completions.iter().all(|completion| completion.result == 1));
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn waiting_ends_with_its_time() {
    let mut ring = ring();
    ring.enter(Wait::AtMost(1_000_000)).expect("the time is no error");
    assert!(!ring.has_news());
}

/// KiB of the arena that are resident.
fn resident_kib(ring: &Ring) -> u64 {
    let address = ring.arena().address(span(0, 1)) as u64;
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut is_in = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((Some(begin), Some(end))) = range.map(|(begin, end)| (bound(begin), bound(end))) {
            is_in = (begin..end).contains(&address);
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_in) {
            return rest.trim().trim_end_matches(" kB").parse().expect("a number");
        }
    }
    panic!("the arena is not mapped");
}

#[test]
fn only_what_was_used_of_a_registered_arena_is_resident() {
    const ARENA_BYTES: u64 = 256 << 20;
    let mut ring = Ring::new(Arc::new(Arena::new(ARENA_BYTES).expect("256 MiB")), 8).expect("io_uring");
    ring.register_arena();
    // Arenas of other tests may lie next to this one, and count.
    assert!(resident_kib(&ring) < 16 << 10, "{} KiB before any request", resident_kib(&ring));
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&[7; 4_096]).expect("written");
    let id = ring.add_file(file.into()).expect("room");
    for (number, offset_bytes) in [0, 2 << 20, ARENA_BYTES - 4_096, 4_096, 0].into_iter().enumerate() {
        ring.read(number as u64, id, &[span(offset_bytes, 4_096)], 0);
        assert_eq!(next(&mut ring), Completion { token: number as u64, result: 4_096 });
        let mut byte = [0];
        ring.arena().copy_out(span(offset_bytes, 1), &mut byte);
        assert_eq!(byte, [7]);
    }
    let Some(pieces) = &ring.table else {
        let error = ring.take_refusal();
        eprintln!("skipped: only_what_was_used_of_a_registered_arena_is_resident: {error:?}");
        return;
    };
    let pinned = pieces.are_pinned.iter().filter(|is_pinned| **is_pinned).count();
    assert!(pinned == 3 || pieces.is_at_limit, "{pinned} pieces");
    assert!(resident_kib(&ring) < 16 << 10, "{} KiB after five requests", resident_kib(&ring));
}

#[test]
fn a_refused_registration_is_told_once_and_the_ring_works_without() {
    let mut ring = ring();
    // The kernel gives a ring one table.
    ring.table().expect("a table");
    ring.table = None;
    ring.register_arena();
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&[7; 4_096]).expect("written");
    let id = ring.add_file(file.into()).expect("room");
    for token in 0..2 {
        ring.read(token, id, &[span(0, 4_096)], 0);
        assert_eq!(next(&mut ring), Completion { token, result: 4_096 });
    }
    let refusal = ring.take_refusal().expect("an error");
    assert_eq!(refusal.raw_os_error(), Some(libc::EBUSY));
    assert!(ring.take_refusal().is_none() && ring.table.is_none());
}

/// Data of a file that is read and written by several spans of registered memory, of memory in two pieces, and of a
/// piece that was not used before, is the same as without.
#[test]
fn gathered_transfers_use_registered_memory_where_all_spans_lie_in_one_piece() {
    let mut ring = Ring::new(Arc::new(Arena::new(8 << 20).expect("8 MiB")), 8).expect("io_uring");
    ring.register_arena();
    let file = tempfile::tempfile().expect("a temporary file");
    let id = ring.add_file(file.into()).expect("room");
    let in_one = [span(8_192, 4_096), span(0, 4_096), span(1 << 20, 512)];
    let in_two = [span(4 << 20, 4_096), span(12_288, 4_096), span((6 << 20) - 512, 512)];
    let can_gather = ring.gathers_registered;
    for (number, (from, to)) in [(in_one, in_two), (in_two, in_one), (in_one, in_one)].into_iter().enumerate() {
        let byte = u8::try_from(number + 1).expect("small");
        (1..).zip(from).for_each(|(factor, span)| ring.arena().fill(span, byte * factor));
        ring.write(1, id, &from, 0, number == 2);
        assert_eq!(next(&mut ring), Completion { token: 1, result: 8_704 }, "write {number}");
        to.into_iter().for_each(|span| ring.arena().fill(span, 0));
        ring.read(2, id, &to, 0);
        assert_eq!(next(&mut ring), Completion { token: 2, result: 8_704 }, "read {number}");
        for (factor, span) in (1..).zip(to) {
            let mut back = vec![0; span.length_bytes as usize];
            ring.arena().copy_out(span, &mut back);
            assert!(back.iter().all(|&it| it == byte * factor), "round {number}, {span:?}");
        }
    }
    let is_pinned = ring.take_refusal().is_none();
    assert_eq!(ring.registered_by_all(&in_one).is_some(), can_gather && is_pinned);
    assert_eq!(ring.registered_by_all(&in_two), None);
}
