//! The picture of share error against throughput.

mod example;

use example::Example;
use hoistway_report::page;

fn figure(schedulers: usize) -> Option<String> {
    let example = Example::new(schedulers, &[1, 4], 2);
    page::figure(&example.results())
}

#[test]
fn every_scheduler_is_a_mark_with_its_figures() {
    let svg = figure(5).expect("a figure");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    for name in ["none", "mq-deadline", "cfq@2.6.36 slice_idle=8", "bfq low_latency=0", "wfq"] {
        // In the panel and in the list beside it.
        assert_eq!(svg.matches(&format!("<title>{name}")).count(), 2, "{name}");
    }
    // `none` has 100 % throughput by definition.
    assert!(svg.contains("<title>none: 100.0 % throughput"), "{svg}");
}

#[test]
fn the_file_stands_alone() {
    let svg = figure(3).expect("a figure");
    // One address: the name of the format itself.
    assert_eq!(svg.matches("http").count(), 1);
    assert!(!svg.contains("<script") && !svg.contains("url(") && !svg.contains("href"));
    assert_eq!(svg.matches("<svg").count(), 1);
}
