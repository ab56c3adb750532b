//! The endpoint for Prometheus: `GET /metrics` on a unix socket or TCP port, answered in OpenMetrics
//! text. A scrape is answered from one status of every device, taken between two control events.

mod exposition;
mod process;

use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

pub use exposition::Snapshot;

use crate::http::{Answer, Door, Request, Response};
use crate::server::socket::Listening;

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

fn answer(request: &Request, ask: &impl Fn(mpsc::Sender<Snapshot>) -> bool) -> Response {
    if request.path != "/metrics" {
        return Response::error(404, "metrics are at /metrics");
    }
    let (sender, receiver) = mpsc::channel();
    if !ask(sender) {
        return Response::error(503, "the server is shutting down");
    }
    match receiver.recv_timeout(SNAPSHOT_TIMEOUT).map(Snapshot::encode) {
        Ok(Ok(text)) => Response::new(200, CONTENT_TYPE, text),
        Ok(Err(_)) => Response::error(503, "the metrics cannot be written down"),
        Err(mpsc::RecvTimeoutError::Disconnected) => Response::error(503, "the server is shutting down"),
        Err(mpsc::RecvTimeoutError::Timeout) => Response::error(503, "the server has not told its status for 5 s"),
    }
}
