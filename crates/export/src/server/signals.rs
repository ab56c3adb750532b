//! The signals that a server handles, on a thread of their own.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::Event;

/// Turns signals into events: SIGTERM and SIGINT into [`Event::Terminate`], SIGHUP into [`Event::Reload`].
///
/// SIGXFSZ gets a handler that does nothing. A write beyond the limit of file sizes (`ulimit -f`, `LimitFSIZE=`) then
/// fails with EFBIG, which is the error of one request, instead of ending the server.
///
/// # Errors
/// A handler cannot be installed, or the thread cannot be started.
pub fn handle(sender: Sender<Event>) -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Terminate };
            if sender.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
