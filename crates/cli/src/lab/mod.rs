//! `hoistway lab`: schedulers at work on a page in the browser, live.
//!
//! ```text
//! page/*.js --POST /open {state}--> Laboratory --GET /frames (server-sent events)--> page/*.js
//!           --POST /do {order}---->     |
//!                                       +- one thread per page: hoistway::lab::Course
//! ```
//! The server listens on the loopback address only, serves the files of `page/`, which are part of
//! the program, and answers only to pages that it has served itself. The state of a page is one
//! value ([`State`](hoistway::lab::State)), which is also its link. The page reaches the simulation by one
//! interface (`page/transport.js`): this server, or in `web/` a simulation inside the browser.

mod server;

use std::process::{Command, Stdio};

use clap::Args;
use hoistway_experiment::Exit;

use crate::exit::{Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use hoistway::lab::Choices;
use server::Laboratory;

/// The port without `--port`.
const PORT: u16 = 8734;

/// `hoistway lab`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  hoistway lab
  hoistway lab --model sata -s mq-deadline -s bfq -s paternoster
  hoistway lab --port 0 --no-browser            a free port; open the printed address yourself

The page is served on the loopback address only and needs no network. Ctrl-C closes the laboratory.")]
pub struct LabArguments {
    /// Port on the loopback address; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = PORT)]
    port: u16,
    /// Do not open the browser; print the address only
    #[arg(long)]
    no_browser: bool,
    /// Device to begin with: ssd, sata, raid5x12, ... or ./FILE.toml
    #[arg(long, value_name = "NAME", default_value = "ssd")]
    model: String,
    /// Scheduler of a lane to begin with; may be repeated, at most three times [default: none and paternoster]
    #[arg(short = 's', long = "sched", value_name = "SPEC")]
    schedulers: Vec<String>,
}

/// Serves the page until a signal.
///
/// # Errors
/// The port is taken, or device or scheduler does not exist.
pub fn run(arguments: &LabArguments, reporter: Reporter) -> Outcome {
    let interrupt = Interrupt::install()?;
    let choices = Choices::new(&arguments.model, &arguments.schedulers)?;
    let laboratory = Laboratory::open(arguments.port, choices)?;
    let address = laboratory.address();
    print(&format!("{address}\n"))?;
    reporter.note("the laboratory is open at this address, on this machine only; Ctrl-C closes it");
    if !arguments.no_browser {
        open_browser(&address, reporter);
    }
    laboratory.serve(&interrupt);
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

/// Asks the desktop for a browser, if there is one.
fn open_browser(address: &str, reporter: Reporter) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let null = Stdio::null;
    let opened = has_desktop
        && Command::new("xdg-open").arg(address).stdin(null()).stdout(null()).stderr(null()).spawn().is_ok();
    if !opened {
        reporter.note("no browser could be opened here: open the address yourself");
    }
}
