//! An NBD client that sends given bytes, valid or not, and reads the replies.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{self, chunk, command, option, reply};

/// One reply to an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionReply {
    pub kind: u32,
    pub data: Vec<u8>,
}

/// One whole reply to a request, assembled from all its chunks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    pub cookie: u64,
    /// 0 for success.
    pub error: u32,
    /// Offset inside the volume from an ERROR_OFFSET chunk.
    pub error_offset: Option<u64>,
    /// (offset, data) of each content chunk; for a simple reply, one with the request's offset.
    pub content: Vec<(u64, Vec<u8>)>,
    /// (length, flags) of a block status.
    pub extents: Vec<(u64, u64)>,
    /// Chunk types in the order received; empty for a simple reply.
    pub chunks: Vec<u16>,
}

impl Reply {
    /// The data in order; the chunks must cover the range without gap or overlap.
    pub fn data(&self) -> Vec<u8> {
        let mut content = self.content.clone();
        content.sort();
        let mut data = Vec::new();
        let start = content.first().map_or(0, |(offset, _)| *offset);
        for (offset, bytes) in content {
            assert_eq!(offset, start + data.len() as u64, "chunks cover the request once, without a gap");
            data.extend(bytes);
        }
        data
    }
}

/// One connection.
pub struct Client<S = UnixStream> {
    pub stream: S,
    pub form: ReplyForm,
    pub size_bytes: u64,
    pub flags: u16,
}

pub fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text);
    bytes
}

pub fn go_data(name: &str) -> Vec<u8> {
    [&string(name.as_bytes())[..], &[0, 0]].concat()
}

pub fn query_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = string(name.as_bytes());
    bytes.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    queries.iter().for_each(|query| bytes.extend(string(query.as_bytes())));
    bytes
}

pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The header of a request in one of the forms.
pub fn request(form: ReplyForm, flags: u16, command: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let extended = form == ReplyForm::Extended;
    let magic = if extended { wire::EXTENDED_REQUEST_MAGIC } else { wire::REQUEST_MAGIC };
    let flags = if extended && command == command::WRITE { flags | wire::command_flag::PAYLOAD_LEN } else { flags };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    if extended {
        bytes.extend(length.to_be_bytes());
    } else {
        bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
    }
    bytes
}

impl Client {
    /// Connects and sends client flags (3: all is well).
    pub fn connect(path: &Path, client_flags: u32) -> Self {
        let mut stream = UnixStream::connect(path).unwrap();
        // Generous: a hang must fail the test, a busy machine must not.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        greet(&mut stream, client_flags);
        Self::over(stream)
    }

    /// Connects and opens an export in the given form, with `base:allocation` where the form allows
    /// it.
    pub fn open(path: &Path, export: &str, form: ReplyForm) -> Self {
        Self::connect(path, 3).opened(export, form)
    }
}

/// Reads the greeting and sends client flags.
pub fn greet(stream: &mut (impl Read + Write), client_flags: u32) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&client_flags.to_be_bytes()).unwrap();
}

impl<S: Read + Write> Client<S> {
    /// A client whose next bytes are options.
    pub fn over(stream: S) -> Self {
        Self { stream, form: ReplyForm::Simple, size_bytes: 0, flags: 0 }
    }

    /// Negotiates the form and opens an export.
    pub fn opened(mut self, export: &str, form: ReplyForm) -> Self {
        match form {
            ReplyForm::Simple => {}
            ReplyForm::Structured => assert_eq!(self.option(option::STRUCTURED_REPLY, &[])[0].kind, reply::ACK),
            ReplyForm::Extended => assert_eq!(self.option(option::EXTENDED_HEADERS, &[])[0].kind, reply::ACK),
        }
        self.form = form;
        if form != ReplyForm::Simple {
            let replies = self.option(option::SET_META_CONTEXT, &query_data(export, &["base:allocation"]));
            assert_eq!(replies.len(), 2, "{replies:?}");
        }
        self.go(export);
        self
    }

    /// Opens an export with GO.
    pub fn go(&mut self, export: &str) {
        let replies = self.option(option::GO, &go_data(export));
        assert_eq!(replies.last().unwrap().kind, reply::ACK, "{replies:?}");
        let facts = &replies[0].data;
        self.size_bytes = u64::from_be_bytes(facts[2..10].try_into().unwrap());
        self.flags = u16::from_be_bytes(facts[10..12].try_into().unwrap());
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends an option and reads its replies including the last.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.send(&option_bytes(option, data));
        self.option_replies(option)
    }

    pub fn option_replies(&mut self, option: u32) -> Vec<OptionReply> {
        let mut replies = Vec::new();
        loop {
            let head = self.receive(20);
            assert_eq!(head[..8], wire::OPTION_REPLY_MAGIC.to_be_bytes());
            assert_eq!(head[8..12], option.to_be_bytes());
            let kind = word(&head, 12);
            let data = self.receive(word(&head, 16) as usize);
            if kind & (1 << 31) != 0 {
                assert!(!data.is_empty() && data.len() <= 256, "errors carry a short sentence");
            }
            replies.push(OptionReply { kind, data });
            if kind == reply::ACK || kind & (1 << 31) != 0 {
                return replies;
            }
        }
    }

    /// The type of the last reply to an option.
    pub fn last(&mut self, option: u32, data: &[u8]) -> u32 {
        self.option(option, data).last().unwrap().kind
    }

    /// A request in the negotiated form; the payload is not sent.
    pub fn request(&self, flags: u16, command: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
        request(self.form, flags, command, cookie, offset, length)
    }

    /// One request without payload and its reply.
    pub fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u64) -> Reply {
        let cookie = 0x1122_3344_0000_0000 | (offset & 0xffff) | u64::from(command) << 16;
        let bytes = self.request(flags, command, cookie, offset, length);
        self.send(&bytes);
        let reply = self.reply(command, offset, length);
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn read(&mut self, offset: u64, length: u64) -> Reply {
        self.ask(0, command::READ, offset, length)
    }

    /// A write with its payload, and the reply.
    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Reply {
        let mut bytes = self.request(flags, command::WRITE, 77, offset, data.len() as u64);
        bytes.extend(data);
        self.send(&bytes);
        self.reply(command::WRITE, offset, data.len() as u64)
    }

    /// Reads one whole reply. The data behind a simple reply depends on the request.
    pub fn reply(&mut self, asked: u16, offset: u64, length: u64) -> Reply {
        let mut whole = Reply::default();
        loop {
            let magic = u32::from_be_bytes(self.receive(4).try_into().unwrap());
            match magic {
                wire::SIMPLE_REPLY_MAGIC => {
                    assert_ne!(self.form, ReplyForm::Extended);
                    assert!(self.form == ReplyForm::Simple || asked != command::READ, "a simple reply to a READ");
                    let head = self.receive(12);
                    whole.error = word(&head, 0);
                    whole.cookie = long(&head, 4);
                    if asked == command::READ && whole.error == 0 {
                        let data = self.receive(usize::try_from(length).unwrap());
                        whole.content.push((offset, data));
                    }
                    return whole;
                }
                wire::STRUCTURED_REPLY_MAGIC => {
                    assert_eq!(self.form, ReplyForm::Structured);
                    let head = self.receive(16);
                    if self.piece(&mut whole, &head, u64::from(word(&head, 12))) {
                        return whole;
                    }
                }
                wire::EXTENDED_REPLY_MAGIC => {
                    assert_eq!(self.form, ReplyForm::Extended);
                    let head = self.receive(28);
                    assert_eq!(long(&head, 12), offset, "extended replies echo the offset");
                    if self.piece(&mut whole, &head, long(&head, 20)) {
                        return whole;
                    }
                }
                other => panic!("no reply begins with {other:#x}"),
            }
        }
    }

    /// Reads one chunk; returns whether it was the last.
    fn piece(&mut self, whole: &mut Reply, head: &[u8], length: u64) -> bool {
        let (flags, kind) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        whole.cookie = long(head, 4);
        whole.chunks.push(kind);
        let data = self.receive(usize::try_from(length).unwrap());
        match kind {
            chunk::NONE => assert!(data.is_empty() && flags & chunk::DONE != 0),
            chunk::OFFSET_DATA => whole.content.push((long(&data, 0), data[8..].to_vec())),
            chunk::OFFSET_HOLE => whole.content.push((long(&data, 0), vec![0; word(&data, 8) as usize])),
            chunk::BLOCK_STATUS => {
                assert_eq!(word(&data, 0), wire::ALLOCATION_CONTEXT_ID);
                let pairs = data[4..].chunks(8).map(|pair| (u64::from(word(pair, 0)), u64::from(word(pair, 4))));
                whole.extents.extend(pairs);
            }
            chunk::BLOCK_STATUS_EXTENDED => {
                assert_eq!(word(&data, 0), wire::ALLOCATION_CONTEXT_ID);
                let pairs: Vec<_> = data[8..].chunks(16).map(|pair| (long(pair, 0), long(pair, 8))).collect();
                assert_eq!(word(&data, 4) as usize, pairs.len());
                whole.extents.extend(pairs);
            }
            chunk::ERROR | chunk::ERROR_OFFSET => {
                whole.error = word(&data, 0);
                let message = usize::from(u16::from_be_bytes([data[4], data[5]]));
                if kind == chunk::ERROR_OFFSET {
                    whole.error_offset = Some(long(&data, 6 + message));
                }
            }
            other => panic!("unknown chunk {other:#x}"),
        }
        flags & chunk::DONE != 0
    }

    /// Checks that an ordinary READ works, so that the connection is usable.
    pub fn assert_alive(&mut self) {
        let reply = self.read(0, 512);
        assert_eq!((reply.error, reply.data().len()), (0, 512), "not alive");
    }

    /// Checks that the server closes the connection without sending anything.
    pub fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "bytes before the end: {rest:x?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}
