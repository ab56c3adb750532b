//! The endpoint for Prometheus: `GET /metrics` on a unix socket or TCP port, answered in OpenMetrics
//! text. A scrape is answered from one status of every device, taken between two control events.

pub mod block;
mod exposition;
mod process;

use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

pub use exposition::Snapshot;

use crate::http::{Answer, Door, Request, Response};
use crate::server::socket::Listening;

/// Where the metrics are.
const PATH: &str = "/metrics";
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a scrape waits for the server's status: half of the time after which Prometheus gives up.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the endpoint until the process ends.
///
/// `ask` requests a snapshot and returns whether one will come.
///
/// # Errors
/// The thread cannot be started.
pub fn serve(listening: Listening, ask: impl Fn(mpsc::Sender<Snapshot>) -> bool + Send + 'static) -> io::Result<()> {
    let mut door = Door::new(listening, 0);
    thread::Builder::new().name("metrics".into()).spawn(move || {
        loop {
            door.turn(None, &mut |request| Answer::Response(answer(request, &ask)));
        }
    })?;
    Ok(())
}

/// Answers a request at the door of a program that is no server: the text of `/metrics`, or why there is none.
pub fn respond(request: &Request, text: impl FnOnce() -> Result<String, String>) -> Response {
    if request.path != PATH {
        return Response::error(404, "metrics are at /metrics");
    }
    match text() {
        Ok(text) => Response::new(200, CONTENT_TYPE, text),
        Err(why) => Response::error(503, &why),
    }
}

fn answer(request: &Request, ask: &impl Fn(mpsc::Sender<Snapshot>) -> bool) -> Response {
    respond(request, || {
        let (sender, receiver) = mpsc::channel();
        if !ask(sender) {
            return Err("the server is shutting down".to_owned());
        }
        let why = match receiver.recv_timeout(SNAPSHOT_TIMEOUT).map(Snapshot::encode) {
            Ok(Ok(text)) => return Ok(text),
            Ok(Err(_)) => "the metrics cannot be written down",
            Err(mpsc::RecvTimeoutError::Disconnected) => "the server is shutting down",
            Err(mpsc::RecvTimeoutError::Timeout) => "the server has not told its status for 5 s",
        };
        Err(why.to_owned())
    })
}
