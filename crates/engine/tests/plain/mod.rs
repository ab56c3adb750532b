//! A protocol of a few lines and its client, enough to test the shard's sockets without NBD.
//!
//! Request: 1 byte command (0 read, 1 write, 2 flush, 3 bye), 8 cookie, 8 offset, 4 length,
//! little-endian, then payload. Reply: 8 cookie, 4 error (0 = none), 4 length, then data.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hoistway_engine::protocol::{Body, ClientRequest, Command, Parsed, Protocol};
use hoistway_engine::{ClientSocket, ConnectionId, GroupHandle, OnEnd, ShardHandle};

pub const HEADER_BYTES: usize = 21;
const REPLY_BYTES: usize = 16;

struct Plain;

impl Protocol for Plain {
    fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    fn parse(&mut self, bytes: &[u8]) -> Parsed {
        let number = |at: usize, length: usize| {
            let mut raw = [0; 8];
            raw[..length].copy_from_slice(&bytes[at..at + length]);
            u64::from_le_bytes(raw)
        };
        let command = match bytes[0] {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Flush,
            3 => return Parsed::Disconnect { consumed_bytes: HEADER_BYTES },
            _ => return Parsed::Close,
        };
        let length_bytes = number(17, 4);
        let asked = ClientRequest {
            cookie: number(1, 8),
            offset_bytes: number(9, 8),
            length_bytes,
            payload_bytes: if command == Command::Write { u32::try_from(length_bytes).unwrap() } else { 0 },
            command,
            fua: false,
            no_hole: false,
            fast_zero: false,
            one_piece: true,
            is_direct: false,
            one_extent: false,
            tag: 0,
        };
        Parsed::Request { consumed_bytes: HEADER_BYTES, asked }
    }

    fn encode(&mut self, asked: &ClientRequest, body: Body<'_>, out: &mut Vec<u8>) {
        let (error, length) = match body {
            Body::Done => (0, 0),
            Body::Data { length_bytes, last, .. } => {
                assert!(last && u64::from(length_bytes) == asked.length_bytes, "a read in one piece came in several");
                (0, length_bytes)
            }
            Body::Failed { .. } => (5, 0),
            Body::Extents(_) => unreachable!("never asked"),
        };
        out.extend_from_slice(&asked.cookie.to_le_bytes());
        out.extend_from_slice(&u32::to_le_bytes(error));
        out.extend_from_slice(&length.to_le_bytes());
    }
}

/// The client's end.
pub struct Peer {
    pub stream: UnixStream,
    pub connection: ConnectionId,
}

/// Connects a client to the first volume; `closed` gets a message when nothing of it is left in the
/// engine.
pub fn connect(shard: &ShardHandle, closed: Option<std::sync::mpsc::Sender<()>>) -> Peer {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    ours.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let on_closed = closed.map(|closed| {
        Box::new(move |_| {
            let _ = closed.send(());
        }) as OnEnd
    });
    let connection = shard.attach(ClientSocket {
        socket: theirs.into(),
        protocol: Box::new(Plain),
        volume: shard.volumes()[0],
        group: GroupHandle::ROOT,
        told_bytes: u64::MAX,
        received: Vec::new(),
        label: "test".to_owned(),
        on_closed,
    });
    Peer { stream: ours, connection: connection.expect("attached") }
}

pub fn request(command: u8, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![command];
    bytes.extend_from_slice(&cookie.to_le_bytes());
    bytes.extend_from_slice(&offset_bytes.to_le_bytes());
    bytes.extend_from_slice(&length_bytes.to_le_bytes());
    bytes
}

impl Peer {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// The next reply: cookie, error, data.
    pub fn reply(&mut self) -> (u64, u32, Vec<u8>) {
        let mut header = [0; REPLY_BYTES];
        self.stream.read_exact(&mut header).expect("a reply");
        let cookie = u64::from_le_bytes(header[..8].try_into().unwrap());
        let error = u32::from_le_bytes(header[8..12].try_into().unwrap());
        let length = u32::from_le_bytes(header[12..].try_into().unwrap());
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data).expect("data");
        (cookie, error, data)
    }

    /// Whether the server has closed its end.
    pub fn is_at_end(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}
