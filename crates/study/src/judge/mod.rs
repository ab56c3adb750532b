//! Many small cells, each with a verdict on every scheduler (`hoistway test --scenario everyday`).
//!
//! ```text
//! format (scenario file) -> cells -> runs -> series -> field (figures of a cell) -> verdict -> summary, table, JSON
//!                                             oracle (formula 4) ---^
//! ```
//! The caller makes the cells of the texts and the runs of the cells; everything from a run's series to
//! the table is here, and is a pure function.

pub mod balance;
pub mod cell;
pub mod cell_verdict;
pub mod field;
pub mod format;
pub mod json;
pub mod oracle;
pub mod phases;
pub mod runs;
pub mod series;
pub mod settling;
pub mod show;
pub mod summary;
pub mod verdict;
