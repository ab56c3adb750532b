//! The laboratory's runs as WebAssembly: `hoistway::lab` behind functions of plain numbers.
//!
//! ```text
//! page (WorkerTransport) <--messages--> worker.js --> simulator.js: lab_input, then lab_open, lab_order, ...
//!                                                     and the answer from lab_output
//! ```
//! A question is JSON that the caller writes at [`lab_input`]; an answer is JSON at [`lab_output`].
//! An instance has one page, and a browser calls it from one thread. Build: `web/build`.
#![expect(unsafe_code, reason = "names without mangling, and a function of the browser; no pointer is followed here")]

use std::cell::RefCell;
use std::time::Duration;

use hoistway::Error;
use hoistway::lab::{Choices, Course, Order, State, refusal};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The device of the state to begin with.
const MODEL: &str = "ssd";

#[cfg_attr(target_family = "wasm", link(wasm_import_module = "page"))]
// SAFETY: simulator.js passes a function without arguments that returns a number.
unsafe extern "C" {
    /// Wall time in milliseconds, from any beginning.
    safe fn now_ms() -> f64;
}

/// Questions, answers, and the run of the page.
#[derive(Debug, Default)]
struct Page {
    input: Vec<u8>,
    output: String,
    course: Option<Course>,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
}

impl Page {
    fn question<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.input).map_err(|error| Error::usage(format!("that cannot be read: {error}"), ""))
    }

    fn open(&mut self) -> Result<Value, Error> {
        self.course = None;
        let state: State = self.question()?;
        let (course, lanes) = Choices::new(MODEL, &[])?.start(state)?;
        self.course = Some(course);
        Ok(lanes)
    }

    fn order(&mut self) -> Result<Value, Error> {
        let order: Order = self.question()?;
        let course = self.course.as_mut().ok_or_else(|| Error::usage("nothing runs", ""))?;
        course.carry_out(order).map(|()| json!({}))
    }

    /// The frame after `elapsed`, if there is news.
    fn advance(&mut self, elapsed: Duration) -> bool {
        let Some(course) = &mut self.course else { return false };
        if !course.advance(elapsed, &|| milliseconds(now_ms())) {
            return false;
        }
        self.output = serde_json::to_string(&course.frame()).expect("a frame has numbers and texts only");
        true
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default()
}

/// Answers a question; returns whether the answer is not a refusal.
fn answer(of: impl FnOnce(&mut Page) -> Result<Value, Error>) -> bool {
    PAGE.with_borrow_mut(|page| {
        let answer = of(page);
        let is_done = answer.is_ok();
        page.output = answer.unwrap_or_else(|error| refusal(&error)).to_string();
        is_done
    })
}

/// Makes room for a question of that many bytes; returns where to write it.
// SAFETY: the prefix keeps the name, as those below, apart from every other symbol.
#[unsafe(no_mangle)]
pub extern "C" fn lab_input(bytes: usize) -> *mut u8 {
    PAGE.with_borrow_mut(|page| {
        page.input.clear();
        page.input.resize(bytes, 0);
        page.input.as_mut_ptr()
    })
}

/// Where the last answer or frame is.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_output() -> *const u8 {
    PAGE.with_borrow(|page| page.output.as_ptr())
}

/// Its length.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_output_bytes() -> usize {
    PAGE.with_borrow(|page| page.output.len())
}

/// What can be chosen.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_choices() -> bool {
    answer(|_| Ok(Choices::new(MODEL, &[])?.list()))
}

/// Starts a run of the state, frozen at time 0, in the place of the former.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_open() -> bool {
    answer(Page::open)
}

/// Carries out an order.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_order() -> bool {
    answer(Page::order)
}

/// The command line of the state.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_command() -> bool {
    answer(|page| Choices::new(MODEL, &[])?.command(&page.question()?))
}

/// Advances the run for the wall time since the last call; returns whether there is a frame.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn lab_advance(elapsed_ms: f64) -> bool {
    PAGE.with_borrow_mut(|page| page.advance(milliseconds(elapsed_ms)))
}
