//! The simulation behind the laboratory's page. Loads and weights can be changed while it runs; frames
//! report its state. `hoistway lab` runs it in a server's thread, `web/` in the browser.
//!
//! ```text
//! State, checked by Choices --> Course: one hoistway_simulator::Session per lane --> Frame, sixty times a second
//!                  Order (pace, step, change) ----^
//! ```
//! Nothing here reads a clock, starts a thread or opens a file: the caller of a course passes the wall
//! time. The same state, orders and times give the same frames.
//!
//! ```
//! use std::time::Duration;
//!
//! use hoistway::lab::{Choices, FRAME, Order, State};
//!
//! let mut state = State::first("ssd", &[])?;
//! state.length_ms = 50;
//! let (mut course, _facts) = Choices::new("ssd", &[])?.start(state)?;
//! // As fast as possible. A clock that stands lets one call go to the end.
//! course.carry_out(Order::Pace(-1.0))?;
//! assert!(course.advance(FRAME, &|| Duration::ZERO));
//! assert!(course.frame().over);
//! # Ok::<(), hoistway::Error>(())
//! ```

mod choices;
mod course;
mod frame;
mod solo;
mod state;

pub use choices::{Choices, refusal};
pub use course::{Course, FRAME, Order};
pub use state::{Change, State, Tenant, What};
