//! Views of measurements: tables, CSV, Markdown, JSON, one HTML page.
//!
//! This crate runs and computes nothing: every figure comes from a [`Cell`](experiment::Cell) or a
//! [`Measurement`](experiment::Measurement).
//!
//! ```text
//! Results (measurements + plan + environment) -> cells -> table::classic, table::text, bars::shares, markdown, csv
//!                                                      -> json::result, json::fio (one run), page::html
//! ```
#![forbid(unsafe_code)]

pub mod bars;
pub mod compare;
pub mod csv;
pub mod fio_json;
pub mod fio_terse;
mod jobs;
pub mod json;
mod legend;
pub mod markdown;
pub mod page;
mod quantity;
mod results;
pub mod table;
mod winners;

pub use results::Results;
