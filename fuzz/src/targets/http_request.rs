//! Fuzzes the parser of the HTTP door: that of the metrics, which takes no body, and that of the laboratory.

use crate::target::{Seen, Target};
use hoistway_export::http::request::{HEAD_MAX_BYTES, Method, Parsed, parse};

pub const TARGET: Target = Target {
    name: "http-request",
    promise: "no panic; a body within its ceiling; what was decided on a beginning stays, however the bytes are divided",
    run,
    corpus,
    tokens: &[
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"/metrics",
        b"?id=",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b"\r\n\r\n",
        b"\r\n",
        b"\n",
        b"Host: x\r\n",
        b"Content-Length: ",
        b"9000000000000000000",
        b"-1",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: keep-alive, upgrade\r\n",
        b"http://x/",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3],
        &[0],
    ],
    longest_bytes: 3 * HEAD_MAX_BYTES,
};

fn run(bytes: &[u8]) -> Seen {
    let Some((shape, bytes)) = bytes.split_first() else { return Seen::NOTHING };
    let body_max_bytes = if shape & 1 == 0 { 0 } else { 1_024 };
    let whole = parse(bytes, body_max_bytes);
    let lengths = if bytes.len() < 512 { 0..bytes.len() } else { bytes.len() - 64..bytes.len() };
    for length in lengths {
        let beginning = parse(&bytes[..length], body_max_bytes);
        assert!(beginning == Parsed::Incomplete || beginning == whole, "{length} bytes: {beginning:?}, all: {whole:?}");
    }
    match whole {
        Parsed::Incomplete => {
            assert!(bytes.len() < HEAD_MAX_BYTES + body_max_bytes, "{} bytes are kept", bytes.len());
            Seen::NOTHING.and(b"more")
        }
        Parsed::Request(request) => {
            assert!(request.body.len() <= body_max_bytes, "a body of {} bytes", request.body.len());
            assert!(request.body.is_empty() || request.method == Method::Post, "a body of {:?}", request.method);
            assert!(request.path.starts_with('/') && !request.path.contains(['?', '\r', '\n', '\0']));
            Seen::NOTHING.and(&[request.method as u8]).and_count(request.body.len())
        }
        Parsed::Refused(response) => {
            assert!((400..500).contains(&response.status), "{}", response.status);
            assert!(response.bytes(Method::Get).len() < 512, "a long refusal");
            Seen::NOTHING.and(&response.status.to_be_bytes()).and(&response.body)
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    [
        "\0GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        "\0GET /metrics HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\0GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000000000\r\n\r\n",
        "\0GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
        "\u{1}POST /do?id=1f HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n\"step\"",
        "\u{1}POST /open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\u{1}HEAD http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
