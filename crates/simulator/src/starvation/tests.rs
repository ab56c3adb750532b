//! Policies that starve requests on purpose: each promise accepts a fair order and detects the
//! starving one.

use super::*;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Class, Operation, Priority};

/// A policy reduced to its choice: the index among the waiting requests, oldest first.
type Choice = fn(&[(RequestId, Attributes)]) -> usize;

fn fifo(_: &[(RequestId, Attributes)]) -> usize {
    0
}

fn newest_first(waiting: &[(RequestId, Attributes)]) -> usize {
    waiting.len() - 1
}

fn never_a_write(waiting: &[(RequestId, Attributes)]) -> usize {
    waiting.iter().position(|(_, attributes)| attributes.direction() == Direction::Read).unwrap_or(0)
}

fn never_a_read(waiting: &[(RequestId, Attributes)]) -> usize {
    waiting.iter().position(|(_, attributes)| attributes.direction() == Direction::Write).unwrap_or(0)
}

/// Always the lowest sector: a sorting elevator without deadlines.
fn lowest_first(waiting: &[(RequestId, Attributes)]) -> usize {
    (0..waiting.len()).min_by_key(|index| waiting[*index].1.extent.first_sector).unwrap_or(0)
}

fn terms(name: &str, tunables: &[(&'static str, i64)]) -> Terms {
    let tunables = tunables.iter().copied().collect();
    Terms { tunables, ..Terms::of(name) }
}

/// Every promise, with tunables that a few hundred requests of a millisecond each reach.
fn all_terms() -> Vec<Terms> {
    let batches = [
        ("fifo_batch", 4),
        ("writes_starved", 2),
        ("read_expire", 20),
        ("write_expire", 60),
        ("prio_aging_expire", 99),
    ];
    let turns = [
        ("read_expire", 20),
        ("write_expire", 60),
        ("read_batch_expire", 30),
        ("write_batch_expire", 30),
        ("antic_expire", 6),
    ];
    let budgets = [("read_latency", 160), ("write_latency", 160)];
    vec![
        terms("noop", &[]),
        Terms { version: Some(Version(2, 4, 20)), ..terms("noop", &[]) },
        terms("none", &[]),
        terms("wfq", &[]),
        terms("linus", &budgets),
        Terms { version: Some(Version(2, 4, 0)), ..terms("linus", &budgets) },
        terms("nas", &[("expire_ms", 20)]),
        terms("deadline", &batches),
        Terms { version: Some(Version(2, 6, 0)), ..terms("deadline", &batches) },
        terms("mq-deadline", &batches),
        Terms { version: Some(Version(6, 1, 0)), ..terms("mq-deadline", &batches) },
        terms("anticipatory", &turns),
        terms("kyber", &[]),
        terms("mqfq", &[("lead", 0), ("wait_us", 100)]),
        Terms {
            passing: Passing::Aged { after_ns: 20 * MILLISECOND, completions: 16, run: 16 },
            ..terms("paternoster", &[])
        },
    ]
}

/// Inserts two requests and chooses one, each millisecond, 300 times: a read and a write, or as
/// `attributes` says.
fn play(terms: &Terms, choice: Choice, attributes: impl Fn(u64) -> Attributes) -> Result<u64, Broken> {
    let mut ledger = Starvation::new(terms.clone());
    ledger.claim(|_| ());
    let mut waiting = Vec::new();
    for step in 0_u32..300 {
        let now = u64::from(step) * MILLISECOND;
        for number in [2 * step, 2 * step + 1] {
            let attributes = attributes(u64::from(number));
            let id = RequestId::new(number, 0);
            ledger.inserted(id, &attributes, false, now);
            waiting.push((id, attributes));
        }
        let (id, attributes) = waiting.remove(choice(&waiting));
        ledger.chosen(id, &attributes, Some(""), now)?;
        ledger.left_device(id, now + MILLISECOND / 2);
    }
    Ok(ledger.passed_over)
}

/// Descending sectors, so that every later request precedes all others.
fn falling(number: u64) -> Attributes {
    let operation = if number.is_multiple_of(2) { Operation::Read } else { Operation::Write };
    Attributes::new(operation, Extent::new((10_000 - number) * 100, 8))
}

#[test]
fn the_order_of_arrival_keeps_every_promise() {
    for terms in all_terms() {
        // In order of arrival no request is passed over, so the smallest batch or budget suffices.
        assert!(play(&terms, fifo, falling).is_ok(), "{terms:?}: {:?}", play(&terms, fifo, falling));
    }
}

#[test]
fn every_promise_finds_the_policy_that_starves() {
    for terms in all_terms() {
        for (how, choice) in
            [("newest first", newest_first as Choice), ("lowest first", lowest_first), ("no write", never_a_write)]
        {
            // nas does not compare requests of different directions.
            let outcome = match (terms.passing, how) {
                (Passing::NotOverdue, "no write") => continue,
                (Passing::NotOverdue, _) => play(&terms, choice, |number| falling(2 * number)),
                _ => play(&terms, choice, falling),
            };
            assert!(outcome.is_err_and(|what| what.starts_with("P7")), "{terms:?}: {how}");
        }
    }
}

#[test]
fn reads_have_a_promise_too() {
    for terms in
        all_terms().into_iter().filter(|terms| !matches!(terms.passing, Passing::NotOverdue | Passing::ListsInTurn))
    {
        let outcome = play(&terms, never_a_read, falling);
        assert!(outcome.is_err_and(|what| what.starts_with("P7")), "{terms:?}");
    }
}

#[test]
fn aged_classes_go_first() {
    // Real-time reads, and among the first an idle-class read that is never chosen.
    let classes = |number: u64| {
        let class = if number == 1 { Class::Idle } else { Class::RealTime };
        Attributes { priority: Priority::new(class, 4), ..falling(2 * number) }
    };
    let never_an_idle_one: Choice = |waiting| {
        let is_real_time = |(_, attributes): &(RequestId, Attributes)| attributes.class() == Class::RealTime;
        waiting.iter().position(is_real_time).unwrap_or(0)
    };
    for terms in all_terms().into_iter().filter(|terms| terms.passing == Passing::Batches { has_classes: true }) {
        let what = play(&terms, never_an_idle_one, classes).unwrap_err();
        assert!(what.contains("class Idle are older than 99000000 ns"), "{what}");
        let patient = Terms { tunables: [("prio_aging_expire", 1_000), ("fifo_batch", 4)].into(), ..terms.clone() };
        assert!(play(&patient, never_an_idle_one, classes).is_ok());
    }
}
