//! Tenants that try to get more than their share: by pulses, forks, many groups or large writes,
//! each beside a plain reader of the same weight. None gains more than 5 %; the attempts and their
//! results are in docs/elevators/paternoster.md.

use super::host::{Host, Issuer};
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{GroupId, Operation};
use hoistway_elevator::{Elevator, GroupSettings};

const SERVERS: usize = 8;
const LATENCY_NS: u64 = 100 * MICROSECOND;

/// The service that `other` got, divided by half of the service of both, which is due to it.
fn gain(host: &Host, honest: u32, other: u32) -> f64 {
    let [honest, other] = [honest, other].map(|number| host.bytes[number as usize] as f64);
    other / ((honest + other) / 2.0)
}

fn plain(settings: &str) -> Host {
    Host::sized(settings, SERVERS, LATENCY_NS, 32, &[100, 100], (16, 2_048))
}

/// Loads that begin and stop in step with intervals that docs/specifications/paternoster.md
/// defines. They are the epoch, over which paternoster measures (4 ms and more); two times for
/// which it expects the next request of a tenant that has none (half a latency, here 50 us, and 2
/// ms and more); and the time whose service a tenant that lags behind can still claim (four
/// latencies, here 400 us).
#[test]
fn pulses_gain_nothing() {
    let mut worst = (0.0_f64, String::new());
    for settings in ["give=3", "give=100"] {
        for period_us in [100, 400, 2_000, 4_000, 8_000, 33_000, 100_000] {
            let period_ns = period_us * MICROSECOND;
            for (part, depth) in [(2, 8), (4, 8), (2, 64), (8, 64)] {
                let mut host = plain(settings);
                let honest = host.issuer(Issuer::of(1, 16));
                let pulser = host.issuer(Issuer::of(2, depth).pulsing(period_ns / part, period_ns));
                host.pass(400 * MILLISECOND);
                let found = gain(&host, honest, pulser);
                if found > worst.0 {
                    worst = (found, format!("{settings}, depth {depth}, on for 1/{part} of {period_ns} ns"));
                }
            }
        }
    }
    println!("most by pulses: {:.3} of its share ({})", worst.0, worst.1);
    assert!(worst.0 <= 1.05, "{worst:?}");
}

#[test]
fn forks_gain_nothing() {
    for settings in ["give=3", "give=100"] {
        // A thousand issuers at a time, each of which sends one request and exits.
        let mut host = plain(settings);
        let honest = host.issuer(Issuer::of(1, 16));
        let forks = host.issuer(Issuer { forks: true, ..Issuer::of(2, 1_000) });
        host.pass(SECOND);
        let found = gain(&host, honest, forks);
        println!("{settings}, 1,000 issuers: {found:.3} of its share");
        assert!(found <= 1.05, "{settings}: {found}");
    }
}

#[test]
fn thousands_of_tiny_groups_gain_nothing() {
    const TINY: u32 = 2_000;
    for settings in ["give=3", "give=100"] {
        let mut host = Host::sized(settings, SERVERS, LATENCY_NS, 32, &[100, 100], (TINY + 4, TINY + 4));
        let honest = host.issuer(Issuer::of(1, 16));
        let tiny: Vec<u32> = (0..TINY)
            .map(|number| {
                let settings = GroupSettings { parent: GroupId(2), ..GroupSettings::with_weight(1 + number % 100) };
                host.policy.group_added(GroupId(3 + number), &settings, host.now);
                host.issuer(Issuer::of(3 + number, 1))
            })
            .collect();
        host.pass(500 * MILLISECOND);
        let of_tiny: u64 = tiny.iter().map(|number| host.bytes[*number as usize]).sum();
        let of_honest = host.bytes[honest as usize];
        let found = of_tiny as f64 / ((of_tiny + of_honest) as f64 / 2.0);
        println!("{settings}, {TINY} groups below one: {found:.3} of its share");
        assert!(found <= 1.05, "{settings}: {found}");
    }
}

/// Shares are counted in bytes. With requests of 1 MiB the shares are off by a few requests at
/// most.
#[test]
fn large_writes_gain_nothing() {
    for settings in ["give=3", "give=100"] {
        let mut host = plain(settings);
        (host.latency_ns, host.sector_ns) = (20 * MICROSECOND, MICROSECOND);
        let honest = host.issuer(Issuer::of(1, 64));
        let writer = host.issuer(Issuer { sectors: 2_048, operation: Operation::Write, ..Issuer::of(2, 64) });
        host.pass(4 * SECOND);
        let found = gain(&host, honest, writer);
        println!("{settings}, 1 MiB writes: {found:.3} of its share");
        assert!(found <= 1.05, "{settings}: {found}");
    }
}

/// A request without data is charged as 4 KiB.
#[test]
fn requests_without_data_gain_nothing() {
    for settings in ["give=3", "give=100"] {
        let mut host = plain(settings);
        let honest = host.issuer(Issuer::of(1, 16));
        let empty = host.issuer(Issuer { sectors: 0, operation: Operation::Flush, ..Issuer::of(2, 64) });
        host.pass(SECOND);
        let [honest, empty] = [honest, empty].map(|number| f64::from(host.count(number, 0, SECOND)));
        let found = empty / ((honest + empty) / 2.0);
        println!("{settings}, requests without data: {found:.3} of its share");
        assert!(found <= 1.05, "{settings}: {found}");
    }
}
