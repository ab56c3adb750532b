//! The metrics of a running server, read by an independent parser (`prometheus-parse`).

mod client;
mod server;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use prometheus_parse::{Scrape, Value};
use server::Running;

const DEVICES: &str = r#"
[[device]]
name = "memory"
[[device.export]]
name = "a"
backing = "memory:1MiB"
group = "tenants/a"
[[device.export]]
name = "b"
backing = "memory:1MiB"
group = "tenants/b"
[[group]]
path = "tenants/a"
weight = 300
"#;

/// Sends a request as it stands; returns the status line with the headers, and the body.
fn http(server: &Running, request: &str) -> (String, String) {
    let mut stream = UnixStream::connect(server.directory().join("metrics.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(server: &Running, path: &str) -> (String, String) {
    http(server, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

fn parse(body: &str) -> Scrape {
    Scrape::parse(body.lines().map(|line| Ok(line.to_owned()))).unwrap()
}

fn number(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |sample: &&prometheus_parse::Sample| {
        sample.metric == name && labels.iter().all(|(key, value)| sample.labels.get(key) == Some(value))
    };
    let found: Vec<_> = scrape.samples.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    match found[0].value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
        ref other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn counts_are_those_of_the_status_and_histograms_hold_every_request() {
    let server = Running::with(DEVICES);
    let mut client = Client::open(server.socket(), "a", ReplyForm::Structured);
    (0..5).for_each(|n| assert_eq!(client.write(0, n * 4_096, &[7; 4_096]).error, 0));
    (0..7).for_each(|n| assert_eq!(client.read(n * 8_192, 8_192).error, 0));
    assert_ne!(client.read(2 << 20, 512).error, 0);
    let status = server.status();
    let (head, body) = get(&server, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let scrape = parse(&body);
    for (table, label, key) in [("exports", "export", "name"), ("groups", "group", "path")] {
        for object in status[table].as_array().unwrap() {
            let name = object[key].as_str().unwrap();
            for operation in ["read", "write"] {
                let of = |field: &str| object[operation][field].as_f64().unwrap_or(0.0);
                let labels = [("device", "memory"), (label, name), ("operation", operation)];
                let metric = |what: &str| number(&scrape, &format!("hoistway_{label}_{what}_total"), &labels);
                assert_eq!(metric("requests"), of("requests"), "{name} {operation}: {object}");
                assert_eq!(metric("request_errors"), of("errors"), "{name} {operation}");
                assert_eq!(metric("transferred_bytes"), of("bytes"), "{name} {operation}");
            }
        }
    }
    let reads = [("group", "tenants/a"), ("operation", "read")];
    assert_eq!(number(&scrape, "hoistway_group_requests_total", &reads), 8.0);
    assert_eq!(number(&scrape, "hoistway_group_transferred_bytes_total", &reads), 7.0 * 8_192.0);
    assert_eq!(number(&scrape, "hoistway_group_weight", &reads[..1]), 300.0);
    let histograms: Vec<_> =
        scrape.samples.iter().filter(|sample| sample.metric == "hoistway_group_request_seconds").collect();
    assert_eq!(histograms.len(), 2, "reads and writes of one group: {histograms:?}");
    for sample in histograms {
        let Value::Histogram(buckets) = &sample.value else { panic!("{sample:?}") };
        let counts: Vec<f64> = buckets.iter().map(|bucket| bucket.count).collect();
        let all = if sample.labels.get("operation") == Some("read") { 8.0 } else { 5.0 };
        assert!(counts.is_sorted() && counts.last() == Some(&all), "{counts:?}");
        assert_eq!(buckets.last().map(|bucket| bucket.less_than), Some(f64::INFINITY));
        let labels = [("operation", sample.labels.get("operation").unwrap())];
        assert_eq!(number(&scrape, "hoistway_group_request_seconds_count", &labels), all);
    }
}

/// What each group is due, got, and how isolated it is, in thousandths of a per cent as the status rounds, with
/// the isolation of the device; nothing before a share is known.
fn shares_of_status(status: &serde_json::Value) -> Vec<(String, [i64; 3])> {
    let thousandths = |value: &serde_json::Value| value.as_f64().map(|percent| whole(percent * 1e3));
    let of = |group: &serde_json::Value| {
        let figures = ["due_pct", "got_pct", "isolation_pct"].map(|name| thousandths(&group["share"][name]));
        let [Some(due), Some(got), Some(isolation)] = figures else { return None };
        Some((group["path"].as_str().unwrap().to_owned(), [due, got, isolation]))
    };
    status["groups"].as_array().unwrap().iter().filter_map(of).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "0 to 100,000")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}

/// A snapshot of the server while its load changes: metrics and status say the same, and isolation is got / due in
/// both. The server brings its shares up to date from time to time, so that a scrape is compared with the statuses
/// before and after it where those agree.
#[test]
fn shares_in_metrics_and_status_are_one_figure() {
    let server = Running::with(DEVICES);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut seen = BTreeSet::new();
    std::thread::scope(|scope| {
        // a has one client, b six: a cannot use its weight of 300.
        for export in ["a", "b", "b", "b", "b", "b", "b"] {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = Client::open(server.socket(), export, ReplyForm::Structured);
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(client.read(0, 65_536).error, 0);
                }
            });
        }
        let begun = std::time::Instant::now();
        while seen.len() < 3 && begun.elapsed() < std::time::Duration::from_secs(60) {
            let before = server.status();
            let scrape = parse(&get(&server, "/metrics").1);
            let shares = shares_of_status(&before);
            if shares != shares_of_status(&server.status()) || shares.len() < 2 {
                continue;
            }
            for (group, figures) in &shares {
                let labels = [("device", "memory"), ("group", group.as_str())];
                let metrics = ["share_due", "share_got", "isolation"]
                    .map(|name| whole(1e5 * number(&scrape, &format!("hoistway_group_{name}_ratios"), &labels)));
                assert_eq!(&metrics, figures, "{group}: {before}");
                let [due, got, isolation] = figures.map(|value| value as f64 / 1e5);
                // Both are rounded.
                let quotient = if due > 0.0 { (got / due).min(1.0) } else { 1.0 };
                assert!((isolation - quotient).abs() < 1e-4 / due.max(1e-3), "{group}: {before}");
            }
            let worst = shares.iter().map(|(_, [_, _, isolation])| *isolation).min().unwrap();
            let device = &before["devices"][0]["saturation"]["isolation_pct"];
            assert_eq!(device.as_f64().map(|percent| whole(percent * 1e3)), Some(worst), "{before}");
            seen.insert(format!("{shares:?}"));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(seen.len() >= 3, "too few snapshots: {seen:?}");
}

#[test]
fn other_requests_are_refused_and_the_endpoint_goes_on() {
    let server = Running::with(DEVICES);
    assert!(get(&server, "/").0.starts_with("HTTP/1.1 404"));
    let post = http(&server, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(post.0.starts_with("HTTP/1.1 405"), "{post:?}");
    for bytes in ["\r\n\r\n", "GET", "GET /metrics HTTP/9.9\r\n\r\n", "\u{0}\u{1}\u{2}"] {
        let mut stream = UnixStream::connect(server.directory().join("metrics.sock")).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
    }
    assert!(get(&server, "/metrics?x=1").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn the_process_is_measured_as_by_other_clients_of_prometheus() {
    let server = Running::with(DEVICES);
    let scrape = parse(&get(&server, "/metrics").1);
    let value = |name: &str| number(&scrape, name, &[]);
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
    let files = value("process_open_fds");
    assert!(files > 5.0 && files < value("process_max_fds"), "{files}");
    assert!(value("process_threads") >= 4.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 86_400.0..now + 2.0).contains(&value("process_start_time_seconds")));
}

#[test]
fn every_metric_is_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md")).unwrap();
    let server = Running::with(DEVICES);
    let names: BTreeSet<String> = parse(&get(&server, "/metrics").1).docs.into_keys().collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}_total`")), "{name}");
    }
}
