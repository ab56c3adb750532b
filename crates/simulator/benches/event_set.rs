//! Nanoseconds per event of the event set, compared with the standard library's heap in the same
//! run. The benchmark is the hold model: remove the earliest event and insert a later one, at a
//! constant number of pending events.
//!
//! `cargo bench -p hoistway-simulator --bench event_set`. Target: at most 30 ns per event at 16,384
//! pending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoistway_block::random::Stream;
use hoistway_simulator::{EventWheel, Payload};

/// Events per iteration.
const EVENTS: u32 = 100_000;

/// Distances from each removed event to the inserted one, drawn beforehand so that drawing is not
/// measured.
fn distances(span_ns: u64) -> Vec<u64> {
    let mut stream = Stream::new(7);
    (0..1 << 16).map(|_| 1 + stream.below(span_ns)).collect()
}

fn event_set(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event set");
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(u64::from(EVENTS)));
    // Flash completes within the wheel's horizon of 4.2 ms, a disk mostly beyond it.
    for (span_ns, span) in [(200_000, "200 us"), (4_000_000, "4 ms"), (20_000_000, "20 ms")] {
        let distances = distances(span_ns);
        let distance = |event: u32| distances[(event & 0xffff) as usize];
        for pending in [16, 256, 16_384] {
            let mut wheel = EventWheel::with_capacity(pending as usize);
            (0..pending).for_each(|event| wheel.insert(distance(event), Payload::new(1, event)));
            group.bench_function(format!("wheel, {pending} within {span}"), |bencher| {
                bencher.iter(|| {
                    for event in 0..EVENTS {
                        let Some((now, payload)) = wheel.pop() else { break };
                        wheel.insert(now + distance(event), payload);
                    }
                    black_box(wheel.len())
                });
            });
            let mut heap = BinaryHeap::with_capacity(pending as usize);
            (0..pending).for_each(|event| heap.push(Reverse((distance(event), event, Payload::new(1, event).index()))));
            let mut sequence = pending;
            group.bench_function(format!("std heap, {pending} within {span}"), |bencher| {
                bencher.iter(|| {
                    for event in 0..EVENTS {
                        let Some(Reverse((now, _, payload))) = heap.pop() else { break };
                        heap.push(Reverse((now + distance(event), sequence, payload)));
                        sequence = sequence.wrapping_add(1);
                    }
                    black_box(heap.len())
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, event_set);
criterion_main!(benches);
