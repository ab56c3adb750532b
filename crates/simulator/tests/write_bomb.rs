//! The write bomb of the mailing-list thread of 2003: one process writes the same gigabyte in a
//! loop, another reads a page now and then. Case P12 (docs/specifications/classic-elevators.md,
//! section 12), on the disk model without NCQ and write cache, under Linux 2.4.20 (nr_requests
//! 128).

mod experiments;

use experiments::{KIB, MS, buffered_stream, experiment, random_reads, run};
use hoistway_experiment::Machine;
use hoistway_workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection, Think};

/// The result of a scheduler: MB/s of the writer, mean and median latency of the reader in ms.
struct Given {
    written: f64,
    mean_ms: f64,
    median_ms: f64,
}

fn under(scheduler: &str, with_reader: bool) -> Given {
    let size = |bytes| Some(Amount::Bytes(bytes));
    let blocks = PerDirection::all(BlockSize::Fixed(1_024 * KIB));
    let bomb = buffered_stream(Mix::Write).with(|job| {
        job.shape.block_sizes = blocks;
        job.area.size = size(1_000 << 20);
    });
    let think = Think { time_ns: 100 * MS, ..Think::default() };
    let reader = random_reads(1).with(|job| {
        job.pacing.think = think;
        job.submission.direct = false;
        job.area.size = size(20 << 30);
    });
    let mut groups = vec![("bomb", 100, bomb)];
    if with_reader {
        groups.push(("reader", 100, reader));
    }
    let mut question = experiment("sata,queue_depth=1,write_cache=0", scheduler, groups);
    question.machine = Machine::parse("era=2.4,memory_mib=512").unwrap();
    (question.ramp_ns, question.runtime_ns) = (10_000 * MS, 60_000 * MS);
    let measured = run(&question);
    let latency = measured.groups.get(1).map(|group| group.read.latency.clone()).unwrap_or_default();
    Given {
        written: measured.device.write.sectors as f64 * 512.0 / measured.window_ns as f64 * 1e3,
        mean_ms: latency.mean_ns() / 1e6,
        median_ms: latency.percentile_ns(50.0) as f64 / 1e6,
    }
}

#[test]
fn p12_a_reader_gets_through_a_write_bomb() {
    let linus = under("linus", true);
    for scheduler in ["read-latency2", "nas", "deadline"] {
        let other = under(scheduler, true);
        let times = linus.mean_ms / other.mean_ms;
        assert!(times >= 5.0, "{scheduler}: {:.0} ms, linus {:.0} ms", other.mean_ms, linus.mean_ms);
        let alone = under(scheduler, false);
        assert!(other.written > 0.4 * alone.written, "{scheduler}: {:.1} of {:.1}", other.written, alone.written);
    }
}

/// The claim of the mailing-list thread for its two schedulers, compared with linus. nas costs the
/// writes more than a twentieth, at most 7 %: it serves nine reads where linus serves one, and each
/// takes two seeks from the writes.
#[test]
fn p12_the_read_is_ten_times_faster_for_a_twentieth_of_the_writes() {
    let linus = under("linus", true);
    for (scheduler, least) in [("read-latency2", 0.95), ("nas", 0.93)] {
        let other = under(scheduler, true);
        let (times, kept) = (linus.median_ms / other.median_ms, other.written / linus.written);
        assert!(times >= 10.0 && kept >= least, "{scheduler}: {times:.1} times faster, {kept:.3} of the writes");
    }
}

/// A writer above the limit of dirty pages that finds none that it could write, because all of them are on their
/// way to the device or being read, waits for that: such a run did not end under linus and read-latency2.
#[test]
fn writers_end_that_find_nothing_to_write() {
    let size = |bytes| Some(Amount::Bytes(bytes));
    let blocks = |kib| PerDirection::all(BlockSize::Fixed(kib * KIB));
    let load = buffered_stream(Mix::Write).with(|job| {
        job.shape.block_sizes = blocks(1_024);
        job.area.size = size(2 << 30);
    });
    let build = buffered_stream(Mix::ReadWrite { read_percent: 80 }).with(|job| {
        job.shape.pattern = Pattern::Random { run: 4, repeat_offset: false };
        job.shape.block_sizes = blocks(16);
        job.area.size = size(100 << 20);
        job.pacing.think = Think { time_ns: 10 * MS, blocks: 4, ..Think::default() };
        job.threads = 4;
    });
    for scheduler in ["linus", "read-latency2"] {
        let groups = vec![("build", 100, build.clone()), ("load", 100, load.clone())];
        let mut question = experiment("ide2003", scheduler, groups);
        question.machine = Machine::parse("era=2.4,memory_mib=256").unwrap();
        (question.ramp_ns, question.runtime_ns) = (0, 5_000 * MS);
        assert!(run(&question).groups.iter().all(|group| group.ios() > 0), "{scheduler}");
    }
}
