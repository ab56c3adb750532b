//! The HTTP server of the laboratory: the page's files, and one stream of frames for each page.
//!
//! A page opens a course (`POST /open`), reads its frames (`GET /frames?id=`) and sends orders
//! (`POST /do?id=`). The thread of the stream runs the course: when the browser is gone, the next
//! write fails, and course and thread end. A browser that does not read stops its course.

use std::collections::{BTreeMap, hash_map::RandomState};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use experiment::Exit;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tiny_http::{Method, Request, Server, StatusCode};

use crate::command::exit::Error;
use crate::command::interrupt::Interrupt;
use crate::lab::{Choices, Course, FRAME, Order, State, refusal};

/// Pages at a time.
const PAGES_MAX: usize = 8;
/// Longest body of a request.
const BODY_MAX_BYTES: u64 = 256 << 10;
/// A page that was opened reads its frames within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// At least this often something is written, so that a browser that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// An order is answered within this time, or its page is gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Orders that wait for the course.
const ORDERS: usize = 64;

/// Headers of every answer: nothing is kept, and the page may load from here only.
const COMMON_HEADERS: &str = "Connection: close\r\nCache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'\r\n";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("page/index.html")),
    ("/lab.css", "text/css; charset=utf-8", include_str!("page/lab.css")),
    ("/lab.js", SCRIPT, include_str!("page/lab.js")),
    ("/transport.js", SCRIPT, include_str!("page/transport.js")),
    ("/state.js", SCRIPT, include_str!("page/state.js")),
    ("/history.js", SCRIPT, include_str!("page/history.js")),
    ("/controls.js", SCRIPT, include_str!("page/controls.js")),
    ("/lanes.js", SCRIPT, include_str!("page/lanes.js")),
    ("/pictures.js", SCRIPT, include_str!("page/pictures.js")),
    ("/explain.js", SCRIPT, include_str!("page/explain.js")),
    ("/stories.js", SCRIPT, include_str!("page/stories.js")),
];

/// An order on its way to the course, and where the answer goes.
type PendingOrder = (Order, SyncSender<Result<(), Error>>);

/// A page that was opened.
struct Page {
    orders: SyncSender<PendingOrder>,
    /// The course and its orders, until the page reads its frames.
    waiting: Option<(Course, Receiver<PendingOrder>)>,
    opened: Instant,
}

type Pages = Arc<Mutex<BTreeMap<u64, Page>>>;

/// The server.
pub struct Laboratory {
    server: Server,
    address: SocketAddr,
    choices: Choices,
    pages: Pages,
}

impl Laboratory {
    /// Listens on a port of the loopback address; 0 takes a free one.
    ///
    /// # Errors
    /// The port is taken, or may not be used.
    pub fn open(port: u16, choices: Choices) -> Result<Self, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            let help =
                format!("a laboratory may be open already: http://127.0.0.1:{port}/; --port 0 takes a free port");
            Error::failed(format!("cannot listen on port {port} of this machine: {error}"), help)
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| failed(&error))?;
        Ok(Self { server, address, choices, pages: Pages::default() })
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until a signal.
    pub fn serve(&self, interrupt: &Interrupt) {
        while !interrupt.is_asked() {
            // A connection that broke is the browser's affair.
            if let Ok(Some(request)) = self.server.recv_timeout(Duration::from_millis(100)) {
                let _ = self.answer(request);
            }
            lock(&self.pages).retain(|_, page| page.waiting.is_none() || page.opened.elapsed() < READ_TIMEOUT);
        }
    }

    fn answer(&self, mut request: Request) -> io::Result<()> {
        if !self.is_our_page(&request) {
            return respond(request, 403, "text/plain", "only the page of this laboratory is answered\n".to_owned());
        }
        let url = request.url().to_owned();
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let number = |name: &str| query.strip_prefix(name).and_then(|id| u64::from_str_radix(id, 16).ok());
        let id = number("id=");
        let answer = match (request.method(), path) {
            (Method::Get, "/frames") => return self.stream(request, id),
            (Method::Get, "/choices") => Ok(self.choices.list()),
            (Method::Get, path) => {
                return match FILES.iter().find(|(known, ..)| *known == path) {
                    Some((_, kind, text)) => respond(request, 200, kind, (*text).to_owned()),
                    None => respond(request, 404, "text/plain", "there is nothing here\n".to_owned()),
                };
            }
            (Method::Post, "/open") => {
                // The page's former course ends when its channel of orders is closed.
                number("instead=").and_then(|before| lock(&self.pages).remove(&before));
                body(&mut request).and_then(|state| self.open_page(state))
            }
            (Method::Post, "/command") => body(&mut request).and_then(|state: State| self.choices.command(&state)),
            (Method::Post, "/do") => return self.order(request, id),
            _ => Err(Error::usage("only GET and POST are answered", "")),
        };
        respond_json(request, answer)
    }

    /// Whether a request comes from a page of this server, or from its address bar: another site
    /// cannot send the first, and a name that points to this machine is not its address.
    fn is_our_page(&self, request: &Request) -> bool {
        let port = self.address.port();
        let value = |name: &'static str| {
            request.headers().iter().find(|header| header.field.equiv(name)).map(|header| header.value.as_str())
        };
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let is_host = value("Host").is_some_and(|host| hosts.iter().any(|known| known == host));
        let is_origin = value("Origin")
            .is_none_or(|origin| hosts.iter().any(|known| origin.strip_prefix("http://") == Some(known.as_str())));
        let is_json = value("Content-Type").is_some_and(|kind| kind.starts_with("application/json"));
        is_host && is_origin && (*request.method() != Method::Post || is_json)
    }

    fn open_page(&self, state: State) -> Result<Value, Error> {
        let (course, lanes) = self.choices.start(state)?;
        let mut pages = lock(&self.pages);
        if pages.len() >= PAGES_MAX {
            return Err(Error::usage(format!("{PAGES_MAX} pages are open"), "close one of them"));
        }
        let (orders, waiting) = mpsc::sync_channel(ORDERS);
        let id = RandomState::new().build_hasher().finish();
        pages.insert(id, Page { orders, waiting: Some((course, waiting)), opened: Instant::now() });
        Ok(json!({"id": format!("{id:016x}"), "lanes": lanes}))
    }

    /// Hands an order to a course, which carries it out between two frames. The answer is waited for
    /// in a thread of its own, because a course may wait for its browser.
    fn order(&self, mut request: Request, id: Option<u64>) -> io::Result<()> {
        let order = match body::<Order>(&mut request) {
            Ok(order) => order,
            Err(error) => return respond_json(request, Err(error)),
        };
        let orders = {
            let mut pages = lock(&self.pages);
            let Some(page) = id.and_then(|id| pages.get_mut(&id)) else {
                drop(pages);
                return respond_json(request, Err(is_gone()));
            };
            if let Some((course, _)) = &mut page.waiting {
                // The page does not read its frames yet.
                let outcome = course.carry_out(order);
                drop(pages);
                return respond_json(request, outcome.map(|()| json!({})));
            }
            page.orders.clone()
        };
        let wait = move || {
            let (answer, answered) = mpsc::sync_channel(1);
            let sent = orders.try_send((order, answer)).map_err(|error| match error {
                TrySendError::Full(_) => Error::usage("too many changes at a time", "wait a moment"),
                TrySendError::Disconnected(_) => is_gone(),
            });
            let outcome = sent.and_then(|()| answered.recv_timeout(ANSWER_TIMEOUT).map_err(|_| is_gone())?);
            // A browser that is gone needs no answer.
            let _ = respond_json(request, outcome.map(|()| json!({})));
        };
        thread::Builder::new().name("order".into()).spawn(wait).map(|_| ())
    }

    /// Runs the course of a page in a thread of its own, for as long as the page reads.
    fn stream(&self, request: Request, id: Option<u64>) -> io::Result<()> {
        let taken = id.and_then(|id| Some((id, lock(&self.pages).get_mut(&id)?.waiting.take()?)));
        let Some((id, (course, orders))) = taken else {
            return respond(request, 404, "text/plain", "there is no such page\n".to_owned());
        };
        let pages = self.pages.clone();
        let run = move || {
            // The browser is gone, or the laboratory closes.
            let _ = stream_frames(request, course, &orders);
            lock(&pages).remove(&id);
        };
        thread::Builder::new().name("course".into()).spawn(run).map(|_| ())
    }
}

fn is_gone() -> Error {
    Error::usage("this page is no longer open here", "load it again")
}

fn lock(pages: &Pages) -> std::sync::MutexGuard<'_, BTreeMap<u64, Page>> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of a request.
fn body<T: DeserializeOwned>(request: &mut Request) -> Result<T, Error> {
    let mut bytes = Vec::new();
    let read = request.as_reader().take(BODY_MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::failed(format!("cannot read the request: {error}"), ""))?;
    if bytes.len() as u64 > BODY_MAX_BYTES {
        return Err(Error::new(Exit::Usage, "the request is too long", ""));
    }
    serde_json::from_slice(&bytes).map_err(|error| Error::usage(format!("that cannot be read: {error}"), ""))
}

fn respond_json(request: Request, answer: Result<Value, Error>) -> io::Result<()> {
    match answer {
        Ok(value) => respond(request, 200, "application/json", value.to_string()),
        Err(error) => respond(request, 400, "application/json", refusal(&error).to_string()),
    }
}

/// Answers, and has the connection closed: the server's threads each serve one connection at a time,
/// and a connection that stays open could keep the next one waiting.
fn respond(request: Request, code: u16, kind: &str, text: String) -> io::Result<()> {
    let phrase = StatusCode(code).default_reason_phrase();
    let length_bytes = text.len();
    let mut out = request.into_writer();
    write!(
        out,
        "HTTP/1.1 {code} {phrase}\r\nContent-Type: {kind}\r\nContent-Length: {length_bytes}\r\n{COMMON_HEADERS}\r\n{text}"
    )?;
    out.flush()
}

/// Advances the course and writes frames until the browser is gone.
fn stream_frames(request: Request, mut course: Course, orders: &Receiver<PendingOrder>) -> io::Result<()> {
    let mut out = request.into_writer();
    write!(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{COMMON_HEADERS}\r\n")?;
    let mut written = Instant::now();
    let begin = Instant::now();
    let mut advanced = begin;
    loop {
        let elapsed = advanced.elapsed();
        advanced = Instant::now();
        if course.advance(elapsed, &|| begin.elapsed()) {
            let frame = serde_json::to_string(&course.frame()).map_err(io::Error::other)?;
            write!(out, "data: {frame}\n\n")?;
            out.flush()?;
            written = Instant::now();
        } else if written.elapsed() >= HEARTBEAT {
            out.write_all(b": still here\n\n")?;
            out.flush()?;
            written = Instant::now();
        }
        let until = advanced + FRAME;
        loop {
            match orders.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((order, answer)) => {
                    // The asker may have given up.
                    let _ = answer.send(course.carry_out(order));
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
