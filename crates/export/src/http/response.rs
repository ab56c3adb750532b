//! A response and its bytes.

use super::request::Method;

/// A response with all of its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The status, 200 to 599.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Further headers, each ended by CR and LF.
    pub headers: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A response of a media type.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, headers: "", body: body.into() }
    }

    /// One sentence for people.
    pub fn error(status: u16, why: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{why}\n"))
    }

    /// The refusal of other methods.
    pub(super) fn not_allowed(with_post: bool) -> Self {
        let headers = if with_post { "Allow: GET, HEAD, POST\r\n" } else { "Allow: GET, HEAD\r\n" };
        Self { headers, ..Self::error(405, &format!("{} are answered", headers[7..].trim_end())) }
    }

    /// The bytes to send: the connection ends behind them.
    pub fn bytes(&self, method: Method) -> Vec<u8> {
        let length = self.body.len();
        let mut bytes = self.head(&format!("Content-Length: {length}\r\n"));
        if method != Method::Head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }

    /// The bytes before a body whose length is not known: it ends with the connection.
    pub fn stream_head(&self) -> Vec<u8> {
        self.head("")
    }

    fn head(&self, length: &str) -> Vec<u8> {
        let Self { status, content_type, headers, .. } = self;
        let phrase = phrase(*status);
        format!(
            "HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\n{length}Connection: close\r\n{headers}\r\n"
        )
        .into_bytes()
    }
}

/// The phrase of the statuses in use.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "",
    }
}
