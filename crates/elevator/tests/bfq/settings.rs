//! Writes to tunables and weights: cases 41 and 42 of docs/specifications/bfq.md, section 25.

use crate::host::{FORMS, Host};
use hoistway_block::time::MILLISECOND;
use hoistway_elevator::{Elevator, tunable::SettingError};

#[test]
fn t41_what_is_written_is_forced_into_its_range() {
    for form in FORMS {
        let mut host = Host::on_flash(form);
        let written = [
            ("low_latency", 5, 1),
            ("back_seek_penalty", 0, 1),
            ("max_budget", 3_000_000_000, 2_147_483_647),
            ("fifo_expire_sync", 0, 1),
            // Stored as nanoseconds in 32 bits: quirk Q7 of docs/specifications/bfq.md.
            ("slice_idle", 5_000, 705),
            ("slice_idle_us", 1_234, 1_234),
            ("timeout_sync", 125, 125),
        ];
        for (name, value, shown) in written {
            host.set(name, value);
            assert_eq!(host.setting(name), shown, "{form}: {name}={value}");
        }
        for row in host.policy.tunables() {
            assert_eq!(row.parse("abc"), Err(SettingError::NotANumber), "{form}: {}", row.name);
        }
    }
}

#[test]
fn t41_strict_guarantees_raise_slice_idle_for_good() {
    let mut host = Host::on_flash("6.12:slice_idle=0");
    host.set("strict_guarantees", 1);
    assert_eq!(host.setting("slice_idle"), 8);
    host.set("strict_guarantees", 0);
    assert_eq!(host.setting("slice_idle"), 8, "Q12");
    host.set("slice_idle", 20);
    host.set("strict_guarantees", 1);
    assert_eq!(host.setting("slice_idle"), 20);
}

#[test]
fn t41_timeouts_are_whole_ticks() {
    let mut host = Host::new("6.12", false, 4 * MILLISECOND);
    assert_eq!(host.setting("timeout_sync"), 124);
    for (written, shown) in [(1, 4), (125, 128), (4, 4)] {
        host.set("timeout_sync", written);
        assert_eq!(host.setting("timeout_sync"), shown);
    }
    assert_eq!(Host::new("6.12", false, 10 * MILLISECOND).setting("timeout_sync"), 120);
}

/// The sectors served for one issuer in group 1 and one in group 2, both always backlogged, in 170
/// requests. The maximum budget is one request, so the queue in service can change after each.
fn shares(weights: [u32; 2]) -> [u64; 2] {
    let mut host = Host::on_flash("6.12:max_budget=8,slice_idle=0");
    for (group, weight) in (1..).zip(weights) {
        host.group(group, weight);
        // Each request is served alone, until the default budget no longer applies and the queue's
        // own budget is one request.
        for n in 0..12 {
            host.submit(&format!("R{}g{group}@{group}", n * 8));
            host.finish();
            host.pass_ms(30);
        }
    }
    for group in 1..=2_u32 {
        for n in 0..200 {
            host.submit(&format!("R{}g{group}@{group}", u64::from(group) * 100_000_000 + n * 8));
        }
    }
    let mut sectors = [0; 2];
    for _ in 0..170 {
        let sent = host.dispatch();
        assert!(!sent.is_empty(), "there is enough");
        host.complete();
        sectors[usize::from(sent.contains("@2"))] += 8;
    }
    sectors
}

/// Linux refuses the weights 0 and 1001 with `ERANGE`. Here the range of weights ends at 10000 and
/// is checked by the host; if the policy gets other values, those above 1000 count as 1000, and 0
/// as 1.
#[test]
fn t42_weights_of_groups_end_at_1000() {
    assert_eq!(shares([1_001, 1_000]), shares([1_000, 1_000]));
    assert_eq!(shares([10_000, 500]), shares([1_000, 500]));
    assert_eq!(shares([0, 10]), shares([1, 10]));
    let [first, second] = shares([10_000, 500]);
    assert!(first.abs_diff(2 * second) <= 24, "{first} : {second}");
}
