//! The endpoint for Prometheus: `GET /metrics` on a unix socket or TCP port, answered in OpenMetrics
//! text. A scrape is answered from one status of every device, taken between two control events.

mod exposition;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::{io, thread};

use tiny_http::{Header, Method, Request, Response, Server};

pub use exposition::Snapshot;

use crate::configuration::Address;
use crate::server::socket::Listening;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the endpoint until the process ends.
///
/// `ask` requests a snapshot and returns whether one will come.
///
/// # Errors
/// The thread cannot be started, or the socket is unusable.
pub fn serve(listening: Listening, ask: impl Fn(mpsc::Sender<Snapshot>) -> bool + Send + 'static) -> io::Result<()> {
    let Listening { descriptor, address, .. } = listening;
    rustix::io::ioctl_fionbio(&descriptor, false)?;
    let listener = match address {
        Address::Unix { .. } => tiny_http::Listener::Unix(UnixListener::from(descriptor)),
        Address::Tcp(_) => tiny_http::Listener::Tcp(TcpListener::from(descriptor)),
    };
    let server = Server::from_listener(listener, None).map_err(io::Error::other)?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        for request in server.incoming_requests() {
            // A scraper that disconnects early is no error.
            let _ = answer(request, &ask);
        }
    })?;
    Ok(())
}

fn answer(request: Request, ask: &impl Fn(mpsc::Sender<Snapshot>) -> bool) -> io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return request.respond(Response::from_string("metrics are at /metrics\n").with_status_code(404));
    }
    if *request.method() != Method::Get {
        return request.respond(Response::from_string("only GET is answered\n").with_status_code(405));
    }
    let (sender, receiver) = mpsc::channel();
    let snapshot = if ask(sender) { receiver.recv().ok() } else { None };
    match snapshot.and_then(|snapshot| snapshot.encode().ok()) {
        Some(text) => {
            let mut response = Response::from_string(text);
            if let Ok(header) = Header::from_bytes("Content-Type", CONTENT_TYPE) {
                response.add_header(header);
            }
            request.respond(response)
        }
        None => request.respond(Response::from_string("the server is shutting down\n").with_status_code(503)),
    }
}
