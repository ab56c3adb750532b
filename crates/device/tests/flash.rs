//! The flash model: the results that it must reproduce, numbered as the cases of
//! docs/specifications/devices.md, section 13.
//!
//! The host is the one of that section: 3 us from a completion to the next submission unless stated
//! otherwise.

mod flash_commands;
mod flash_host;

use flash_host::presets::{mqsim, nvme, ssd, ssd_lsi, ssd_plextor};
use flash_host::{Host, Job, flash, random_reads, submit, wait_for};
use hoistway_block::{Extent, Flags, Nanos, Operation};
use hoistway_device::{Device, FlashParameters};

const MS: Nanos = 1_000_000;

#[track_caller]
fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    println!("{what}: {measured:.2}, expected {expected}");
    assert!((measured / expected - 1.0).abs() <= tolerance, "{what}: {measured}, expected {expected}");
}

#[test]
fn t34_idle_reads_lie_between_exact_bounds() {
    // serial + fixed + cell + channel + link, in ns; the cell time is uniform over the jitter.
    for (name, parameters, least, jitter) in [
        ("ssd-lsi", ssd_lsi(), 2_000 + 33_000 + 60_000 + 20_480 + 7_877, 10_000),
        ("ssd", ssd(), 5_000 + 60_000 + 50_000 + 128_000 + 15_170, 10_000),
        ("ssd-plextor", ssd_plextor(), 13_500 + 45_000 + 50_000 + 20_480 + 7_728, 10_000),
        ("nvme", nvme(), 1_200 + 8_000 + 58_000 + 5_120 + 1_241, 12_000),
    ] {
        let mut device = flash(&parameters);
        let blocks = device.info().capacity_sectors / 8;
        let mut stream = hoistway_block::random::Stream::new(1);
        let (mut now, mut shortest, mut longest) = (0, Nanos::MAX, 0);
        for _ in 0..2_000 {
            let extent = Extent::new(stream.below(blocks) * 8, 8);
            submit(&mut device, now, 0, Operation::Read, Flags::NONE, extent);
            let latency = wait_for(&mut device, 0) - now;
            (shortest, longest) = (shortest.min(latency), longest.max(latency));
            now += latency + 1_000;
        }
        assert!(shortest >= least && longest < least + jitter, "{name}: {shortest} to {longest}");
        assert!(shortest < least + 100 && longest > least + jitter - 100, "{name}: {shortest} to {longest}");
    }
}

#[test]
fn t35_random_reads_of_the_lsi_drive_until_the_link_is_full() {
    for (depth, rate, latency_us) in
        [(1, 7_600.0, 131.0), (8, 58_000.0, 137.0), (16, 108_000.0, 149.0), (32, 127_000.0, 252.0)]
    {
        let measured = random_reads(&ssd_lsi(), depth, 500 * MS);
        assert_near(&format!("IOPS at {depth}"), measured.0, rate, 0.03);
        assert_near(&format!("us at {depth}"), measured.1, latency_us, 0.03);
    }
}

/// Rates in MiB/s of two groups of `jobs` jobs, each with `depth` reads in flight; the first
/// group's jobs submit at most one per `interval_ns`.
fn two_groups(depth: usize, jobs: usize, interval_ns: Nanos) -> (f64, f64) {
    let job = |index: usize| {
        let is_first = index < jobs;
        let interval_ns = if is_first { interval_ns } else { 0 };
        // A completion takes 8 us; the 5 us of a submission pass while the device works.
        Job { host_ns: 8_000, interval_ns, ..Job::random(Operation::Read, depth, index as u64) }
    };
    let mut host = Host::new(flash(&ssd_lsi()), (0..2 * jobs).map(job).collect());
    host.run(50 * MS);
    let rates: Vec<f64> = host.run(550 * MS).iter().map(|rate| rate * 4_096.0 / 1_048_576.0).collect();
    (rates[..jobs].iter().sum(), rates[jobs..].iter().sum())
}

#[test]
fn t36_the_two_group_table_of_2016() {
    for (case, measured, expected, published) in [
        ("1 x 1", two_groups(1, 1, 0), (28.6, 28.6), (29.0, 29.0)),
        ("8 x 1", two_groups(8, 1, 0), (204.8, 204.6), (205.0, 205.0)),
        ("1 x 8", two_groups(1, 8, 0), (204.8, 204.8), (196.0, 197.0)),
        // 53 MB/s: one 4 KiB read per 77,283 ns.
        ("8 x 1, A limited", two_groups(8, 1, 77_283), (50.5, 217.0), (51.0, 216.0)),
    ] {
        for (measured, expected, published) in
            [(measured.0, expected.0, published.0), (measured.1, expected.1, published.1)]
        {
            assert_near(case, measured, expected, 0.02);
            assert_near(case, measured, published, 0.05);
        }
    }
}

#[test]
fn t37_the_plextor_drive_is_bound_by_its_firmware() {
    for (depth, rate) in [(1, 6_900.0), (4, 27_400.0), (16, 74_000.0), (32, 74_000.0)] {
        assert_near("reads", random_reads(&ssd_plextor(), depth, 300 * MS).0, rate, 0.03);
    }
    for (depth, rate) in [(1, 22_600.0), (4, 74_000.0), (32, 74_000.0)] {
        let mut host = Host::new(flash(&ssd_plextor()), vec![Job::random(Operation::Write, depth, 1)]);
        assert_near("fresh writes", host.run(300 * MS)[0], rate, 0.03);
    }
}

/// Writes per second and write amplification in `count` periods of `period` each.
fn periods(host: &mut Host, period: Nanos, count: usize) -> Vec<(f64, f64)> {
    (0..count)
        .map(|_| {
            let before = host.device.flash_counters();
            let rate = host.run(host.now + period)[0];
            (rate, host.device.flash_counters().write_amplification_since(&before))
        })
        .collect()
}

/// The write cliff (the rate falls when garbage collection begins) of a drive of 8 GiB / `shrink`;
/// the durations of the test are divided by `shrink` too.
fn write_cliff(parameters: &FlashParameters, shrink: u64, seconds: u64) {
    let device = flash(&parameters.clone().with(|flash| flash.history.precondition = 1));
    let mut host = Host::new(device, vec![Job::random(Operation::Write, 32, 1)]);
    let second = 1_000 * MS / shrink;
    assert_near("before the cliff", host.run(28 * second / 10)[0], 74_100.0, 0.02);
    host.run(3 * second);
    let fallen = periods(&mut host, second / 2, 1)[0].0;
    println!("behind the cliff: {fallen}");
    assert!(fallen < 11_000.0, "behind the cliff: {fallen}");
    let mut course = periods(&mut host, 2 * second, usize::try_from(seconds).unwrap() / 2);
    let (rate, amplification) = course.pop().unwrap();
    assert!((14_000.0..=16_000.0).contains(&rate), "{rate} in the end; before: {course:?}");
    assert_near("write amplification", amplification, 5.6, 0.06);

    let device = flash(&parameters.clone().with(|flash| flash.history.precondition = 2));
    let mut host = Host::new(device, vec![Job::random(Operation::Write, 32, 1)]);
    // The write buffer fills at once.
    host.run(second / 4);
    let rate = host.run(host.now + second)[0];
    println!("preconditioned at random: {rate}");
    assert!((14_000.0..=15_000.0).contains(&rate), "preconditioned at random: {rate}");
}

/// A quarter of the drive, in blocks of half the size; an erase takes half the time, so that erases
/// keep their part of all time.
#[test]
fn t38_random_writes_fall_off_a_cliff_when_the_spare_is_used_up() {
    let parameters = ssd_plextor().with(|flash| {
        flash.layout.simulated_mib = 2_048;
        flash.layout.pages_per_block = 8;
        flash.dies.erase_ns = 1_900_000;
        flash.buffer.write_buffer_kib = 2_048;
        flash.history.random_mult_millionths = 1_500_000;
    });
    write_cliff(&parameters, 4, 80);
}

#[test]
#[ignore = "full size: seconds in a release build"]
fn t38_full_size() {
    write_cliff(&ssd_plextor().with(|flash| flash.layout.pages_per_block = 16), 1, 240);
}

/// a / (a + W0(-a e^-a)), a = 1 + spare factor: the formula of Xiang and Kurkoski for greedy
/// collection.
fn theoretical_amplification(spare: f64) -> f64 {
    let a = 1.0 + spare;
    let x = -a * (-a).exp();
    // Newton's method on w e^w = x, from 0 down to the branch above -1.
    let mut w: f64 = 0.0;
    for _ in 0..100 {
        w -= (w * w.exp() - x) / (w.exp() * (w + 1.0));
    }
    a / (a + w)
}

/// Write amplification over the last third of random writes of 9 x the capacity, on 1,024
/// superblocks of 512 units.
#[test]
fn t39_write_amplification_is_that_of_the_formula() {
    for (spare_millionths, quoted) in [(70_000, 7.82), (150_000, 4.02), (280_000, 2.48), (500_000, 1.72)] {
        let expected = theoretical_amplification(spare_millionths as f64 / 1e6);
        assert_near("formula", expected, quoted, 0.005);
        // The same seed: the longer run begins like the shorter one.
        let after = |random_mult_millionths: u64| {
            let parameters = ssd().with(|flash| {
                flash.layout.dies_per_channel = 1;
                flash.layout.pages_per_block = 64;
                flash.layout.simulated_mib = 2_048;
                flash.layout.overprovision_millionths = spare_millionths;
                flash.history.precondition = 2;
                flash.history.random_mult_millionths = random_mult_millionths;
            });
            flash(&parameters).flash_counters()
        };
        let (two_thirds, all) = (after(6_000_000), after(9_000_000));
        assert_near("write amplification", all.write_amplification_since(&two_thirds), expected, 0.03);
    }
}

#[test]
fn t40_reads_beside_a_writer_by_read_priority() {
    let percentiles = |read_priority: u64, writers: usize| {
        let parameters = ssd_plextor().with(|flash| flash.dies.read_priority = read_priority);
        let jobs = vec![Job::random(Operation::Read, 4, 1), Job::random(Operation::Write, writers, 2)];
        let mut host = Host::new(flash(&parameters), jobs);
        host.run(100 * MS);
        host.run(1_600 * MS);
        (host.jobs[0].percentile_us(50), host.jobs[0].percentile_us(99))
    };
    assert_near("p99 alone", percentiles(1, 0).1, 176.0, 0.1);
    for (name, read_priority, p99) in [("none", 0, 1_275.0), ("residual", 1, 1_180.0), ("suspend", 2, 233.0)] {
        let measured = percentiles(read_priority, 1);
        assert_near(&format!("p50 {name}"), measured.0, 148.0, 0.1);
        assert_near(&format!("p99 {name}"), measured.1, p99, 0.1);
    }
}

#[test]
fn t41_nvme_reads_by_depth() {
    let (rate, latency_us) = random_reads(&nvme(), 1, 300 * MS);
    assert_near("IOPS at 1", rate, 12_100.0, 0.06);
    assert_near("us at 1", latency_us, 82.5, 0.06);
    for (depth, rate) in [(32, 326_000.0), (64, 535_000.0), (128, 737_000.0), (256, 805_000.0)] {
        assert_near(&format!("IOPS at {depth}"), random_reads(&nvme(), depth, 50 * MS).0, rate, 0.06);
    }
    for (depth, mbps) in [(1, 438.0), (16, 3_290.0)] {
        let mut host = Host::new(flash(&nvme()), vec![Job::sequential(Operation::Read, depth, 256)]);
        assert_near(&format!("MB/s at {depth}"), host.run(100 * MS)[0] * 131_072.0 / 1e6, mbps, 0.06);
    }
}

#[test]
fn t41_nvme_writes_fresh_and_in_the_steady_state() {
    let mut host = Host::new(flash(&nvme()), vec![Job::random(Operation::Write, 32, 1)]);
    let fresh = host.run(500 * MS)[0];
    assert!((570_000.0..=600_500.0).contains(&fresh), "{fresh}");

    let parameters = nvme().with(|flash| {
        flash.history.precondition = 2;
        flash.history.random_mult_millionths = 2_000_000;
    });
    let mut host = Host::new(flash(&parameters), vec![Job::random(Operation::Write, 32, 1)]);
    host.run(200 * MS);
    let (rate, amplification) = periods(&mut host, 800 * MS, 1)[0];
    assert_near("steady writes", rate, 160_000.0, 0.06);
    assert_near("write amplification", amplification, 2.46, 0.06);
}

/// The 233 us of case 41 are between the fresh drive's tail and that of one that collects garbage,
/// where all dies wait for their channels at the end of an erase.
#[test]
fn t41_nvme_readers_beside_writers() {
    let p99 = |read_priority: u64, from: Nanos| {
        let parameters = nvme().with(|flash| flash.dies.read_priority = read_priority);
        let mut jobs: Vec<Job> = (0..4).map(|index| Job::random(Operation::Read, 1, 10 + index)).collect();
        jobs.push(Job::random(Operation::Write, 32, 2));
        let mut host = Host::new(flash(&parameters), jobs);
        host.run(from);
        host.run(from + 200 * MS);
        (0..4).map(|job| host.jobs[job].percentile_us(99)).sum::<f64>() / 4.0
    };
    let (fresh, collecting) = (p99(2, 100 * MS), p99(2, 1_400 * MS));
    println!("suspend: {fresh} fresh, {collecting} collecting");
    assert!(fresh < 233.0 && 233.0 < collecting && collecting < 1.4 * 233.0, "suspend: {fresh}, {collecting}");
    let residual = p99(1, 100 * MS);
    assert!(residual > 1_800.0, "residual: {residual}");
}

#[test]
fn t42_a_program_on_one_die_does_not_delay_reads_of_another() {
    let mut device = flash(&ssd_lsi());
    // The filled drive's next program goes to die 0, which also has units 128 to 131. Units 4 to 7
    // are on die 1.
    submit(&mut device, 0, 0, Operation::Write, Flags::NONE, Extent::new(1 << 20, 32));
    let now = wait_for(&mut device, 0) + 200_000;
    submit(&mut device, now, 1, Operation::Read, Flags::NONE, Extent::new(128 * 8, 8));
    submit(&mut device, now, 2, Operation::Read, Flags::NONE, Extent::new(4 * 8, 8));
    let other = wait_for(&mut device, 2) - now;
    // The firmware takes the other read first, which delays this one by 2,000 ns.
    assert!((2_000 + 123_357..2_000 + 133_357).contains(&other), "the other die's read took {other} ns");
    let stuck = wait_for(&mut device, 1) - now;
    assert!(stuck > 1_000_000, "the read behind the program took {stuck} ns");
}

#[test]
fn t43_dd_readers_share_the_link() {
    for (readers, mbps) in [(1, 248.0), (2, 256.0), (4, 256.0), (8, 256.0)] {
        let rates = flash_host::dd::rates_mbps(&mut flash(&ssd()), readers, 200 << 20, 250_000_000);
        assert_near(&format!("{readers} readers"), rates.iter().sum(), mbps, 0.03);
        let (slowest, fastest) =
            (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
        assert!(fastest / slowest < 1.01, "{readers} readers: {rates:?}");
    }
}

#[test]
fn t44_latencies_of_mqsim() {
    for (depth, latency_us) in [(1, 88.3), (4, 93.0), (16, 115.0), (32, 150.0)] {
        let job = Job { host_ns: 0, ..Job::random(Operation::Read, depth, 1) };
        let mut host = Host::new(flash(&mqsim()), vec![job]);
        host.run(300 * MS);
        assert_near(&format!("us at {depth}"), host.jobs[0].mean_latency_us(), latency_us, 0.02);
    }
}
