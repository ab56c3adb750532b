//! Views of measurements: tables, CSV, Markdown, JSON, one HTML page.
//!
//! This crate runs and computes nothing: every figure comes from a [`Cell`](hoistway_experiment::Cell) or a
//! [`Measurement`](hoistway_experiment::Measurement).
//!
//! ```
//! use hoistway_report::{fio_json, table};
//!
//! let direction = r#"{"bw_bytes": 4096000, "iops": 1000.0, "total_ios": 30000, "lat_ns": {"max": 900000}}"#;
//! let jobs = format!(r#"[{{"jobname": "db", "error": 0, "read": {direction}, "write": {direction}}}]"#);
//! let text = format!(r#"{{"fio version": "fio-3.33", "jobs": {jobs}}}"#);
//! let jobs = fio_json::read(&text).unwrap();
//! let row = table::ClassicRow {
//!     job: jobs[0].name.clone(),
//!     sets: 1,
//!     threads: 8,
//!     kib_per_s: vec![(jobs[0].read.bytes_per_s / 1024.0) as u64],
//! };
//! let text = table::classic_rows(&["KB/s"], &[row]);
//! assert!(text.starts_with("job Set NR") && text.ends_with("4000\n"), "{text}");
//! ```
//!
//! Units in views: MiB/s, latencies with their unit, shares in percent; fio's and the classic formats keep their own.
//!
//! ```text
//! Results (measurements + plan + environment) -> cells -> table::classic, table::text, bars::shares, markdown, csv
//!                                                      -> figures, bonnie
//!                                                      -> json::result, json::fio (one run), page::html
//! ```
#![forbid(unsafe_code)]

pub mod bars;
pub mod bonnie;
pub mod compare;
pub mod csv;
pub mod figures;
pub mod fio_json;
pub mod fio_terse;
mod grid;
mod jobs;
pub mod json;
mod legend;
pub mod markdown;
pub mod page;
mod quantity;
mod results;
pub mod table;
mod winners;
pub mod wrap;

pub use results::Results;
