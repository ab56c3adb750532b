//! The Grafana dashboard and the alert rules of `packaging/grafana` name only metrics that a server exposes.

mod client;
mod server;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use client::Client;
use hoistway_export::metrics::block::BlockSnapshot;
use hoistway_export::nbd::handshake::ReplyForm;
use serde_json::Value;
use server::Running;

const DEVICE: &str = r#"
[[device]]
name = "memory"
[[device.export]]
name = "a"
backing = "memory:1MiB"
"#;

fn packaged(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// The names of all series of a server, also of those that have no samples now.
fn exposed() -> BTreeSet<String> {
    let server = Running::with(DEVICE);
    assert_eq!(Client::open(server.socket(), "a", ReplyForm::Structured).read(0, 512).error, 0);
    let mut stream = UnixStream::connect(server.directory().join("metrics.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let families = answer.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    families.flat_map(|(name, kind)| series(name, kind)).collect()
}

/// The series of a metric of a kind, as Prometheus stores them.
fn series(name: &str, kind: &str) -> Vec<String> {
    let suffixes: &[&str] = match kind {
        "gauge" => &[""],
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_sum", "_count"],
        other => panic!("{name} is a {other}"),
    };
    suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect()
}

/// The words of a text that are names of our metrics.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("hoistway_"))
}

fn unknown<'a>(text: &'a str, exposed: &BTreeSet<String>) -> Vec<&'a str> {
    metrics(text).filter(|name| !exposed.contains(*name)).collect()
}

fn parsed(name: &str) -> Value {
    serde_json::from_str(&packaged(name)).unwrap()
}

/// The expressions of a dashboard.
fn expressions(dashboard: &Value) -> Vec<&str> {
    let queries = array(&dashboard["templating"], "list").iter().filter_map(|it| it["query"]["query"].as_str());
    let targets = array(dashboard, "panels").iter().flat_map(|panel| array(panel, "targets"));
    queries.chain(targets.map(|target| target["expr"].as_str().unwrap())).collect()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_exposed() {
    let exposed = exposed();
    assert!(exposed.contains("hoistway_group_queue_seconds_bucket"), "{exposed:?}");
    let dashboard = parsed("hoistway.json");
    let expressions = expressions(&dashboard);
    for expression in &expressions {
        assert!(metrics(expression).next().is_some(), "no metric in {expression}");
        assert_eq!(unknown(expression, &exposed), Vec::<&str>::new(), "{expression}");
    }
    assert!(expressions.len() > 50, "{expressions:?}");
    for name in ["alerts.yml", "alerts_test.yml"] {
        let text = packaged(name);
        assert!(metrics(&text).count() >= 5, "{name}");
        assert_eq!(unknown(&text, &exposed), Vec::<&str>::new(), "{name}");
    }
    // A name without its suffix, or of a removed metric, is found.
    let planted = "rate(hoistway_device_syncs[5m]) / hoistway_device_threads + hoistway_gone";
    assert_eq!(unknown(planted, &exposed), ["hoistway_device_syncs", "hoistway_gone"]);
}

/// The dashboard of `hoistway top --metrics`, and all that the exporter exposes is in it.
#[test]
fn every_metric_of_block_devices_is_exposed_and_shown() {
    let text = BlockSnapshot::default().encode().unwrap();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let exposed: BTreeSet<String> = families.flat_map(|(name, kind)| series(name, kind)).collect();
    let dashboard = parsed("block.json");
    let mut shown = BTreeSet::new();
    for expression in expressions(&dashboard) {
        assert!(metrics(expression).next().is_some(), "no metric in {expression}");
        assert_eq!(unknown(expression, &exposed), Vec::<&str>::new(), "{expression}");
        shown.extend(metrics(expression));
    }
    let hidden: Vec<&String> =
        exposed.iter().filter(|name| name.starts_with("hoistway_") && !shown.contains(name.as_str())).collect();
    assert!(hidden.is_empty(), "no panel for {hidden:?}");
}

/// Grafana shows one of two panels with the same number, and moves panels that overlap.
#[test]
fn panels_have_numbers_of_their_own_and_do_not_overlap() {
    for (name, least) in [("hoistway.json", 30), ("block.json", 15)] {
        do_not_overlap(&parsed(name), least);
    }
}

fn do_not_overlap(dashboard: &Value, least: usize) {
    let mut numbers = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in array(dashboard, "panels") {
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        let columns = place("x")..place("x") + place("w");
        assert!(columns.end <= 24, "{} is wider than the page", panel["title"]);
        for row in place("y")..place("y") + place("h") {
            assert!(columns.clone().all(|column| taken.insert((row, column))), "{} overlaps", panel["title"]);
        }
    }
    assert!(numbers.len() > least, "{numbers:?}");
}
