//! A request from its bytes.
//!
//! Promise  no input takes more than [`HEAD_MAX_BYTES`] and the body's ceiling; once a beginning of the bytes was
//!          decided on, what follows changes nothing.
//! Cost     one pass over the head for each piece that arrives.

use super::response::Response;

/// Longest head of a request: that of nginx and Apache, which browsers and Prometheus stay far below.
pub const HEAD_MAX_BYTES: usize = 8 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;

/// The methods that a door can answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`: answered as GET, without the body.
    Head,
    /// `POST`, at a door that takes bodies.
    Post,
}

/// A complete request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, from its first slash; `?` and what follows is [`Request::query`].
    pub path: String,
    /// What follows the first `?`; empty without one.
    pub query: String,
    /// The body.
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header, whatever the case of its name; the first one if it occurs several times.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What the bytes so far are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// The beginning of a request.
    Incomplete,
    /// A request. Bytes behind it are no part of it.
    Request(Request),
    /// None that is answered; the response says why.
    Refused(Response),
}

/// Reads a request with a body of at most `body_max_bytes`; 0 refuses POST.
pub fn parse(bytes: &[u8], body_max_bytes: usize) -> Parsed {
    let head = &bytes[..bytes.len().min(HEAD_MAX_BYTES)];
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(head) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX_BYTES => return Parsed::Incomplete,
        Ok(httparse::Status::Partial) => return refused(431, "the head of a request may have 8192 bytes"),
        Err(httparse::Error::TooManyHeaders) => return refused(431, "a request may have 64 headers"),
        Err(_) => return refused(400, "this is no request of HTTP/1.1"),
    };
    match read(&request, &head[..head_bytes], body_max_bytes) {
        Err(response) => Parsed::Refused(response),
        Ok((_, body_bytes)) if bytes.len() - head_bytes < body_bytes => Parsed::Incomplete,
        Ok((request, body_bytes)) => {
            Parsed::Request(Request { body: bytes[head_bytes..head_bytes + body_bytes].to_vec(), ..request })
        }
    }
}

fn refused(status: u16, why: &'static str) -> Parsed {
    Parsed::Refused(Response::error(status, why))
}

/// The request without its body, and the body's length.
fn read(request: &httparse::Request<'_, '_>, head: &[u8], body_max_bytes: usize) -> Result<(Request, usize), Response> {
    let wrong = |why| Response::error(400, why);
    let lines = || head.iter().zip(head.iter().skip(1));
    if head.first() == Some(&b'\n') || lines().any(|(before, byte)| *byte == b'\n' && *before != b'\r') {
        return Err(wrong("a line ends with CR and LF"));
    }
    let method = match request.method.unwrap_or_default() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" if body_max_bytes > 0 => Method::Post,
        _ => return Err(Response::not_allowed(body_max_bytes > 0)),
    };
    let target = request.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(wrong("a path begins with a slash"));
    }
    let headers: Vec<(String, String)> = request
        .headers
        .iter()
        .map(|it| (it.name.to_owned(), String::from_utf8_lossy(it.value).trim().to_owned()))
        .collect();
    let values = |name: &'static str| {
        let named = headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    };
    // A request with two hosts or two lengths means another thing to each of its readers.
    let hosts = values("Host").count();
    if hosts > 1 || (hosts == 0 && request.version == Some(1)) {
        return Err(wrong("a request has one Host"));
    }
    if values("Transfer-Encoding").next().is_some() {
        return Err(Response::error(411, "a body comes with its Content-Length"));
    }
    let lengths: Vec<&str> = values("Content-Length").collect();
    let body_bytes = match lengths[..] {
        [] if method == Method::Post => return Err(Response::error(411, "a body comes with its Content-Length")),
        [] => 0,
        [digits] if !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) => {
            let length = digits.parse().unwrap_or(usize::MAX);
            let most = if method == Method::Post { body_max_bytes } else { 0 };
            if length > most {
                return Err(Response::error(413, "the body is too long"));
            }
            length
        }
        _ => return Err(wrong("Content-Length is one number")),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    Ok((Request { method, path, query, body: Vec::new(), headers }, body_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a refusal, 0 for what is incomplete, 200 for a request.
    fn status(bytes: &[u8], body_max_bytes: usize) -> u16 {
        match parse(bytes, body_max_bytes) {
            Parsed::Incomplete => 0,
            Parsed::Request(_) => 200,
            Parsed::Refused(response) => response.status,
        }
    }

    fn get(headers: &str) -> u16 {
        status(format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes(), 0)
    }

    #[test]
    fn a_request_has_its_parts() {
        let bytes = b"POST /do?id=1?2 HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 3\r\n\r\n{1}GET / HTTP/1.1";
        let Parsed::Request(request) = parse(bytes, 8) else { panic!() };
        assert_eq!((request.method, request.path.as_str(), request.query.as_str()), (Method::Post, "/do", "id=1?2"));
        assert_eq!((request.body.as_slice(), request.header("hOST")), (&b"{1}"[..], Some("a")));
        assert_eq!(status(&bytes[..bytes.len() - 17], 8), 0, "the body is not complete");
        assert_eq!(status(b"GET /metrics HTTP/1.0\r\n\r\n", 0), 200);
        assert_eq!(get("Content-Length: 0\r\nConnection: keep-alive\r\n"), 200);
    }

    #[test]
    fn what_has_two_meanings_or_is_too_long_is_refused() {
        for length in ["-1", "+1", "0x1", "1 1", "1,1", "", "1\r\nContent-Length: 1", "0\r\nContent-Length: 0"] {
            assert_eq!(get(&format!("Content-Length: {length}\r\n")), 400, "{length:?}");
        }
        for length in ["9000000000000000000", "99999999999999999999999", "18446744073709551616", "1"] {
            assert_eq!(get(&format!("Content-Length: {length}\r\n")), 413, "{length}");
        }
        assert_eq!(get("Transfer-Encoding: chunked\r\n"), 411);
        assert_eq!(get("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"), 411);
        assert_eq!(get("Host: y\r\n"), 400);
        assert_eq!(get(" folded: x\r\n"), 400);
        assert_eq!(get("A : b\r\n"), 400);
        assert_eq!(get("A: b\nC: d\r\n"), 400);
        assert_eq!(get("A: \0\r\n"), 400);
        assert_eq!(get(&"A: b\r\n".repeat(HEADERS_MAX)), 431);
        assert_eq!(get(&format!("A: {}\r\n", "b".repeat(HEAD_MAX_BYTES))), 431);
        assert_eq!(status(&[b'A'; HEAD_MAX_BYTES], 0), 431);
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", 8), 411);
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 8), 413);
        for method in ["POST", "PUT", "OPTIONS", "CONNECT", "get"] {
            let bytes = format!("{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(status(bytes.as_bytes(), 0), 405, "{method}");
        }
    }

    #[test]
    fn other_protocols_and_forms_are_refused_at_once() {
        let hello = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
        let texts: [&[u8]; 8] = [
            &hello,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\nHost: x\n\n",
            b"\0\x01\x02",
        ];
        for bytes in texts {
            assert_eq!(status(bytes, 0), 400, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
