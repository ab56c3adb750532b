//! What mechanisms guarantee to tenants, with every setting of their knobs (`hoistway test --scenario isolation`).
//!
//! ```text
//! format (scenario file) -> cells x mechanisms -> plan -> runs -> rounds (samples) -> evaluation -> document -> tables
//!                       calibration (what none gives, what tenants get alone) ---^
//! ```
//! The caller makes the cells of the texts and the runs of the plan.

pub mod calibration;
pub mod cell;
pub mod desideratum;
pub mod document;
pub mod evaluation;
pub mod format;
pub mod mechanism;
pub mod plan;
pub mod rounds;
pub mod show;
