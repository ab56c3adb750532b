//! Tables: case 5 of docs/specifications/harness.md, section 13, and the formats of section 5.7.

mod example;

use example::Example;
use hoistway_report::table::{ClassicRow, TextOptions, classic, classic_rows, text};
use hoistway_report::{bars, markdown};

fn row(kib_per_s: &[u64]) -> ClassicRow {
    ClassicRow { job: "drr".into(), sets: 1, threads: 1, kib_per_s: kib_per_s.to_vec() }
}

/// Case 5: groups 321 654 1011 1402, total 3389.
#[test]
fn t5_the_classic_row_is_iostests() {
    let table = classic_rows(&["cgrp1", "cgrp2", "cgrp3", "cgrp4", "total"], &[row(&[321, 654, 1011, 1402, 3389])]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "job Set NR   cgrp1   cgrp2   cgrp3   cgrp4   total");
    assert_eq!(lines[1], format!("--- --- -- {}", "-".repeat(35)));
    assert_eq!(lines[2], "drr   1  1     321     654    1011    1402    3389");
}

/// Case 5: with eight groups and the total the rule has 63 dashes.
#[test]
fn t5_the_rule_grows_with_the_columns() {
    let names = ["cgrp1", "cgrp2", "cgrp3", "cgrp4", "cgrp5", "cgrp6", "cgrp7", "cgrp8", "total"];
    let table = classic_rows(&names, &[row(&[1; 9])]);
    assert_eq!(table.lines().nth(1).unwrap(), format!("--- --- -- {}", "-".repeat(63)));
}

/// All columns become wider when a value has more than six digits.
#[test]
fn wide_values_widen_all_columns() {
    let table = classic_rows(&["a", "b"], &[row(&[1_234_567, 1])]);
    assert_eq!(table.lines().last().unwrap(), "drr   1  1  1234567        1");
}

/// The whole classic layout: header lines once, a block per scheduler, tunables in iostest's order.
#[test]
fn the_classic_layout_has_its_header_and_blocks() {
    let table = classic(&Example::new(4, &[1, 2], 3).results(), true);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "Host=rack7 Kernel=mq(simulated)",
            "GROUPMODE=1 NRGRP=3",
            "DIR=- DEV=model:ssd",
            "Workload=drr iosched=none Filesz=- bs=4k",
        ]
    );
    assert_eq!((lines[5], lines[6], lines[7]), ("=".repeat(73).as_str(), "AVERAGE[drr] [bw in KB/s]", "-------"));
    assert!(lines[8].starts_with("job Set NR  bronze  silver    gold   total"), "{}", lines[8]);
    assert!(lines[10].starts_with("drr   3  1   "), "{}", lines[10]);
    assert!(lines.contains(
        &"slice_idle=8 back_seek_max=16384 back_seek_penalty=2 fifo_expire_async=250 fifo_expire_sync=125 low_latency=0"
    ));
    assert_eq!(table.matches("AVERAGE[drr]").count(), 4);
    assert!(!classic(&Example::new(1, &[1], 1).results(), false).contains("total"));
}

/// The text table names workload, winners, schedulers without weights, and every tunable in force.
#[test]
fn the_text_table_states_what_was_measured() {
    let example = Example::new(5, &[4], 3);
    let options = TextOptions { per_group_latency: true, ..TextOptions::default() };
    let table = text(&example.results(), &options);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "drr  direct random read, bs 4k, depth 16, 3 groups weight 100:200:400, 20s x 3 sets      model:ssd"
    );
    assert!(lines[2].starts_with("none ") && lines[2].ends_with("no shares"), "{}", lines[2]);
    assert!(lines[3].starts_with("  bronze "), "{}", lines[3]);
    // none has the highest throughput and no shares; of those that keep the weights it is wfq.
    assert!(table.contains("\nhighest total (of those within 10 % of the weights): wfq, "), "{table}");
    assert!(table.contains("\nclosest to the weights: wfq, within "), "{table}");
    assert!(!table.contains(": none, "), "{table}");
    // The slowest group is shown, and the columns are explained below.
    assert!(
        lines[1].contains("worst p99") && table.contains("\n  worst p50: latency of the group that waits longest"),
        "{table}"
    );
    assert!(table.contains("in force: bfq slice_idle=8ms low_latency=0* back_seek_max=16384KiB"), "{table}");
    assert!(table.contains("\nholds: share_error_max <= 5% @ sched=wfq   ("), "{table}");
}

/// One repetition shows no interval, never 0.
#[test]
fn one_set_prints_no_interval() {
    let table = text(&Example::new(2, &[1], 1).results(), &TextOptions::default());
    assert_eq!(table.matches("+--").count(), 2, "{table}");
}

/// If nothing was transferred, as with discards, there is no highest total.
#[test]
fn without_io_there_is_no_highest_total() {
    let mut example = Example::new(5, &[1], 3);
    example.move_nothing();
    let table = text(&example.results(), &TextOptions::default());
    assert!(!table.contains("highest total"), "{table}");
}

/// A winner is named only if its interval is separate from the others' and it kept the due shares.
#[test]
fn winners_are_separated_and_keep_the_weights() {
    let table = |schedulers, sets| text(&Example::new(schedulers, &[1, 4], sets).results(), &TextOptions::default());
    // One set has no interval: it gives an order, and says that it tells no more.
    let once = table(5, 1);
    let remark = "one run only: --sets 3 tells noise from difference\n";
    assert!(
        once.contains(
            "\nhighest total (of those within 10 % of the weights): wfq, 141.9 MiB/s; then bfq low_latency=0 "
        ),
        "{once}"
    );
    assert_eq!((once.matches(remark).count(), table(5, 3).matches(remark).count()), (2, 0), "{once}");
    assert!(!once.contains("distinguishable"), "{once}");
    // Neither of the two supports weights, so the better of two bad shares is no winner.
    let none = table(2, 3);
    assert!(none.contains("\nno winner: no scheduler keeps the weights within 10 %\n"), "{none}");
    assert!(!none.contains("closest") && !none.contains("highest"), "{none}");
}

/// The tail of a scheduler is that of its slowest group, so that other groups do not hide a slow
/// light one.
#[test]
fn the_tail_is_that_of_the_slowest_group() {
    let example = Example::new(5, &[4], 3);
    let options = TextOptions { percentiles: vec![99.0], per_group_latency: true, width: None };
    let table = text(&example.results(), &options);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let cfq = lines.iter().position(|line| line.first() == Some(&"cfq@2.6.36")).unwrap();
    let bronze = &lines[cfq + 1];
    assert_eq!(bronze[0], "bronze");
    assert_eq!(lines[cfq].last(), bronze.last(), "{table}");
    assert_ne!(bronze.last(), lines[cfq + 3].last(), "{table}");
}

/// Bars: one line per group and scheduler, each with its mark.
#[test]
fn bars_show_shares_and_due_marks() {
    let text = bars::shares(&Example::new(5, &[1, 4], 1).results());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 5 * 3);
    assert!(lines[1..].iter().all(|line| line.matches('┃').count() == 1), "{text}");
    let gold = lines.last().unwrap();
    assert!(gold.contains("gold") && gold.contains("57.1%"), "{gold}");
}

/// Markdown: every line has the same number of cells.
#[test]
fn markdown_is_a_rectangle() {
    let text = markdown::table(&Example::new(3, &[1, 2], 2).results(), &[50.0, 99.0]);
    let bars: Vec<usize> = text.lines().skip(2).map(|line| line.matches('|').count()).collect();
    assert_eq!(bars, [11; 8], "{text}");
}

/// Discards have a column beside the throughput if there are any.
#[test]
fn discards_have_a_column_of_their_own() {
    let mut example = Example::new(1, &[4], 1);
    let table = |example: &Example| text(&example.results(), &TextOptions::default());
    let (before, markdown_before) = (table(&example), markdown::table(&example.results(), &[50.0]));
    assert!(!before.contains("discarded") && !markdown_before.contains("discarded"), "{before}");
    example.discard(3 << 20);
    let after = table(&example);
    let column = after.lines().nth(1).unwrap().find("discarded MiB/s").unwrap();
    let row = |text: &str| text.lines().nth(2).unwrap().to_owned();
    assert_eq!(row(&after)[column..].trim_start_matches(' ').split(' ').next(), Some("3.00"), "{after}");
    // The other figures stay the same.
    let words = |text: &str| row(text).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(words(&after).iter().filter(|word| *word != "3.00").eq(&words(&before)), "{after}{before}");
    assert!(markdown::table(&example.results(), &[50.0]).contains("| discarded MiB/s |"));
}

#[test]
fn a_table_fits_the_terminal_and_keeps_the_99th_percentile_longest() {
    let example = Example::new(2, &[1], 3);
    let at = |width| text(&example.results(), &TextOptions { width, ..TextOptions::default() });
    let whole = at(None);
    assert_eq!(whole, at(Some(300)));
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest(&whole) > 80, "{whole}");
    for width in [80, 100, 120] {
        let narrow = at(Some(width));
        assert!(longest(&narrow) <= width, "{width}:\n{narrow}");
        let has_p99 = narrow.lines().any(|line| line.starts_with("sched") && line.contains("worst p99"));
        assert_eq!(has_p99, width > 80, "{narrow}");
        // Nothing is lost but columns, and they are named.
        for heading in ["worst p50", "worst p99.9"] {
            assert!(narrow.contains(heading), "{width}:\n{narrow}");
        }
    }
}
