//! The laboratory without its server: a run whose loads and weights change while it goes on, told in
//! frames. `hoistway lab` serves it from a thread; `web/` has it in the browser.
//!
//! ```text
//! State, checked by Choices --> Course: one simulator::Session per lane --> Frame, sixty times a second
//!                  Order (pace, step, change) ----^
//! ```
//! Nothing here reads a clock, starts a thread or opens a file: the caller of a course passes the wall
//! time. The same state, orders and times give the same frames.

mod choices;
mod course;
mod frame;
mod state;

pub use choices::{Choices, refusal};
pub use course::{Course, FRAME, Order};
pub use state::{Change, State, Tenant, What};
