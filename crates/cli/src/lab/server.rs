//! The HTTP server of the laboratory: the page's files, and one stream of frames for each page.
//!
//! A page opens a course (`POST /open`), reads its frames (`GET /frames?id=`) and sends orders
//! (`POST /do?id=`). The thread of the stream runs the course: when the browser is gone, the next
//! write fails, and course and thread end. A browser that does not read stops its course.

use std::collections::{BTreeMap, hash_map::RandomState};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hoistway_export::configuration::Address;
use hoistway_export::http::{Answer, Door, Method, Request, Response, Taken};
use hoistway_export::server::socket::Listening;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::exit::Error;
use crate::interrupt::Interrupt;
use hoistway::lab::{Choices, Course, FRAME, Order, State, refusal};

/// Pages at a time.
const PAGES_MAX: usize = 8;
/// Longest body of a request.
const BODY_MAX_BYTES: usize = 256 << 10;
/// A page that was opened reads its frames within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// At least this often something is written, so that a browser that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// An order is answered within this time, or its page is gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Orders that wait for the course.
const ORDERS: usize = 64;

/// Headers of every answer: nothing is kept, and the page may load from here only.
const COMMON_HEADERS: &str = "Cache-Control: no-store\r\n\
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
    ("/axes.js", SCRIPT, include_str!("page/axes.js")),
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
    door: Door,
    visitors: Visitors,
}

/// What the pages are answered from.
struct Visitors {
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
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let (descriptor, of_door) = (OwnedFd::from(listener), Address::Tcp(address));
        let listening = Listening { descriptor, address: of_door.clone(), configured: of_door, file: None };
        let visitors = Visitors { address, choices, pages: Pages::default() };
        Ok(Self { door: Door::new(listening, BODY_MAX_BYTES), visitors })
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        format!("http://{}/", self.visitors.address)
    }

    /// Answers until a signal.
    pub fn serve(mut self, interrupt: &Interrupt) {
        let Self { door, visitors } = &mut self;
        while !interrupt.is_asked() {
            door.turn(Some(Duration::from_millis(100)), &mut |request| visitors.answer(request));
            lock(&visitors.pages).retain(|_, page| page.waiting.is_none() || page.opened.elapsed() < READ_TIMEOUT);
        }
    }
}

impl Visitors {
    fn answer(&self, request: &Request) -> Answer {
        if !self.is_our_page(request) {
            return text(403, "only the page of this laboratory is answered\n");
        }
        let number = |name: &str| request.query.strip_prefix(name).and_then(|id| u64::from_str_radix(id, 16).ok());
        let id = number("id=");
        json(match (request.method, request.path.as_str()) {
            (Method::Get, "/frames") => return self.stream(id),
            (Method::Get, "/choices") => Ok(self.choices.list()),
            (Method::Get | Method::Head, path) => {
                return match FILES.iter().find(|(known, ..)| *known == path) {
                    Some((_, kind, text)) => Answer::Response(page_response(200, kind, *text)),
                    None => text(404, "there is nothing here\n"),
                };
            }
            (Method::Post, "/open") => {
                // The page's former course ends when its channel of orders is closed.
                number("instead=").and_then(|before| lock(&self.pages).remove(&before));
                body(request).and_then(|state| self.open_page(state))
            }
            (Method::Post, "/command") => body(request).and_then(|state: State| self.choices.command(&state)),
            (Method::Post, "/do") => match body(request) {
                Ok(order) => return self.order(order, id),
                Err(error) => Err(error),
            },
            (Method::Post, _) => Err(Error::usage("there is nothing here", "")),
        })
    }

    /// Whether a request comes from a page of this server, or from its address bar: another site
    /// cannot send the first, and a name that points to this machine is not its address.
    fn is_our_page(&self, request: &Request) -> bool {
        let port = self.address.port();
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let is_host = request.header("Host").is_some_and(|host| hosts.iter().any(|known| known == host));
        let is_origin = request
            .header("Origin")
            .is_none_or(|origin| hosts.iter().any(|known| origin.strip_prefix("http://") == Some(known.as_str())));
        let is_json = request.header("Content-Type").is_some_and(|kind| kind.starts_with("application/json"));
        is_host && is_origin && (request.method != Method::Post || is_json)
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
    fn order(&self, order: Order, id: Option<u64>) -> Answer {
        let orders = {
            let mut pages = lock(&self.pages);
            let Some(page) = id.and_then(|id| pages.get_mut(&id)) else { return json(Err(is_gone())) };
            if let Some((course, _)) = &mut page.waiting {
                // The page does not read its frames yet.
                return json(course.carry_out(order).map(|()| json!({})));
            }
            page.orders.clone()
        };
        Answer::Take(Box::new(move |taken| {
            let wait = move || {
                let (answer, answered) = mpsc::sync_channel(1);
                let sent = orders.try_send((order, answer)).map_err(|error| match error {
                    TrySendError::Full(_) => Error::usage("too many changes at a time", "wait a moment"),
                    TrySendError::Disconnected(_) => is_gone(),
                });
                let outcome = sent.and_then(|()| answered.recv_timeout(ANSWER_TIMEOUT).map_err(|_| is_gone())?);
                // A browser that is gone needs no answer.
                let _ = taken.respond(&json_response(outcome.map(|()| json!({}))));
            };
            // Without a thread the connection closes, and the page says so.
            let _ = thread::Builder::new().name("order".into()).spawn(wait);
        }))
    }

    /// Runs the course of a page in a thread of its own, for as long as the page reads.
    fn stream(&self, id: Option<u64>) -> Answer {
        let taken = id.and_then(|id| Some((id, lock(&self.pages).get_mut(&id)?.waiting.take()?)));
        let Some((id, (course, orders))) = taken else { return text(404, "there is no such page\n") };
        let pages = self.pages.clone();
        Answer::Take(Box::new(move |taken| {
            let of_thread = pages.clone();
            let run = move || {
                // The browser is gone, or the laboratory closes.
                let _ = stream_frames(taken, course, &orders);
                lock(&of_thread).remove(&id);
            };
            if thread::Builder::new().name("course".into()).spawn(run).is_err() {
                lock(&pages).remove(&id);
            }
        }))
    }
}

fn is_gone() -> Error {
    Error::usage("this page is no longer open here", "load it again")
}

fn lock(pages: &Pages) -> std::sync::MutexGuard<'_, BTreeMap<u64, Page>> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of a request.
fn body<T: DeserializeOwned>(request: &Request) -> Result<T, Error> {
    serde_json::from_slice(&request.body).map_err(|error| Error::usage(format!("that cannot be read: {error}"), ""))
}

fn page_response(status: u16, kind: &'static str, text: impl Into<Vec<u8>>) -> Response {
    Response { headers: COMMON_HEADERS, ..Response::new(status, kind, text) }
}

fn text(status: u16, text: &str) -> Answer {
    Answer::Response(page_response(status, "text/plain", text))
}

fn json(answer: Result<Value, Error>) -> Answer {
    Answer::Response(json_response(answer))
}

fn json_response(answer: Result<Value, Error>) -> Response {
    let (status, value) = match answer {
        Ok(value) => (200, value),
        Err(error) => (400, refusal(&error)),
    };
    page_response(status, "application/json", value.to_string())
}

/// Advances the course and writes frames until the browser is gone.
fn stream_frames(mut out: Taken, mut course: Course, orders: &Receiver<PendingOrder>) -> io::Result<()> {
    out.write_all(&page_response(200, "text/event-stream", "").stream_head())?;
    let mut written = Instant::now();
    let begin = Instant::now();
    let mut advanced = begin;
    loop {
        let elapsed = advanced.elapsed();
        advanced = Instant::now();
        if course.advance(elapsed, &|| begin.elapsed()) {
            let frame = serde_json::to_string(&course.frame()).map_err(io::Error::other)?;
            write!(out, "data: {frame}\n\n")?;
            written = Instant::now();
        } else if written.elapsed() >= HEARTBEAT {
            out.write_all(b": still here\n\n")?;
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
