//! The handshake, from the greeting to the first byte of the transmission, as a state machine over
//! bytes.
//!
//! Promise  every option gets the answer of the specification's tables; a client cannot make it hold
//!          more than one option's data (64 KiB), or write more than one option's answer per call.
//! Cost     one copy of each option's data.
//! Sources  docs/specifications/engine.md, section 4.1; docs/specifications/engine.md, section 4.2;
//!          docs/specifications/engine.md, section 4.4.
//!
//! bytes in -> [`Handshake::advance`] -> bytes out, and a [`Step`] that says what to do with them.
//!
//! It uses no socket, clock or thread: `server.rs` reads, writes and enforces the timeout.

use super::wire::{self, information, option, reply, transmission_flag};

/// Longest option data that is stored; longer data is skipped and answered with TOO_BIG.
const MAXIMUM_KEPT_BYTES: u32 = 64 * 1024;
/// Longest option data that is skipped; longer data ends the connection.
const MAXIMUM_SKIPPED_BYTES: u32 = 32 * 1024 * 1024;
/// Most metadata queries of one option.
const MAXIMUM_QUERIES: u32 = 64;
/// Padding behind the answer to EXPORT_NAME for clients that did not disable it.
const EXPORT_NAME_PADDING: [u8; 124] = [0; 124];

/// The facts about an export that a client may learn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportFacts {
    /// Name, at most 256 bytes.
    pub name: String,
    /// A description for users; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Transmission flags that do not depend on the negotiation ([`transmission_flag`]).
    pub flags: u16,
    /// Smallest block that a client should use, in bytes.
    pub minimum_block_bytes: u32,
    /// Preferred block, in bytes.
    pub preferred_block_bytes: u32,
    /// Longest payload of a request or reply, in bytes.
    pub maximum_payload_bytes: u32,
}

/// What this client may see now.
#[derive(Copy, Clone, Debug)]
pub struct View<'a> {
    /// The exports that it may open, without hidden ones.
    pub exports: &'a [ExportFacts],
    /// Whether LIST is answered.
    pub listing: bool,
    /// Whether the server is shutting down: every option but ABORT is answered with SHUTDOWN.
    pub draining: bool,
}

/// The form of replies.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ReplyForm {
    /// Simple replies, which need no negotiation.
    #[default]
    Simple,
    /// Structured replies.
    Structured,
    /// Extended headers, in both directions.
    Extended,
}

/// The result of a handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// Name of the export that the client opened.
    pub export: String,
    /// Its size as sent to the client.
    pub size_bytes: u64,
    /// Form of the replies.
    pub form: ReplyForm,
    /// Transmission flags as sent to the client.
    pub flags: u16,
    /// Whether `base:allocation` is selected.
    pub allocation_context: bool,
}

/// Why a connection ends during the handshake.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The client requested it (ABORT).
    Aborted,
    /// The client sent an unknown client flag.
    UnknownClientFlags,
    /// An option without its magic number.
    WrongMagic,
    /// Option data longer than the limit for skipping.
    TooLong,
    /// EXPORT_NAME of an export that does not exist for this client, or cannot be opened this way.
    NoSuchExport,
}

/// What to do after a call of [`Handshake::advance`]. The output is always sent first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// All input is consumed: read more.
    NeedInput,
    /// One option was answered and input is left: send, then call again.
    Answered,
    /// The rest of the input is TLS: send, then begin it. Further calls get what TLS decrypts.
    StartTls,
    /// Transmission begins with the next byte of the input.
    Negotiated(Negotiated),
    /// Send, then close.
    Close(Closed),
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    ClientFlags,
    Header,
    Data { option: u32, length: u32 },
    Skip { option: u32, remaining: u32, answer: u32, text: &'static str },
    Over,
}

/// Whether TLS is in use.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Tls {
    /// The listener has none.
    Unavailable,
    /// The client must begin it before anything else.
    Required,
    /// The options arrive through it.
    Running,
}

/// One client's handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    tls: Tls,
    pending: Vec<u8>,
    no_zeroes: bool,
    form: ReplyForm,
    /// The export for which `base:allocation` was selected last.
    context_for: Option<String>,
}

/// An error reply: its type and a sentence for users.
type Refusal = (u32, &'static str);

/// The result of an option, apart from its output.
enum Outcome {
    Next,
    StartTls,
    Go(Negotiated),
    Close(Closed),
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

impl Handshake {
    /// The state after a client has connected; [`Handshake::greeting`] must be sent first.
    pub fn new() -> Self {
        Self {
            state: State::ClientFlags,
            tls: Tls::Unavailable,
            pending: Vec::new(),
            no_zeroes: false,
            form: ReplyForm::Simple,
            context_for: None,
        }
    }

    /// As [`Handshake::new`], for a listener that requires TLS.
    pub fn requiring_tls() -> Self {
        Self { tls: Tls::Required, ..Self::new() }
    }

    /// Whether no export can be opened without TLS.
    pub fn requires_tls(&self) -> bool {
        self.tls != Tls::Unavailable
    }

    /// The first 18 bytes, sent at once on accept.
    pub fn greeting() -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&wire::GREETING_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&wire::HANDSHAKE_FLAGS.to_be_bytes());
        bytes
    }

    /// Consumes the part of `input` that belongs to the next step and appends the answer to
    /// `output`.
    ///
    /// The caller sends `output` whatever the step is. After [`Step::Negotiated`] the rest of
    /// `input` belongs to the transmission; after it and after [`Step::Close`] there must be no
    /// further call (it would return `NeedInput`).
    pub fn advance(&mut self, input: &mut &[u8], view: View<'_>, output: &mut Vec<u8>) -> Step {
        loop {
            let step = match self.state {
                State::ClientFlags => self.client_flags(input),
                State::Header => self.header(input),
                State::Data { option, length } => self.data(option, length, input, view, output),
                State::Skip { option, remaining, answer, text } => {
                    let taken = u32::try_from(input.len()).map_or(remaining, |available| available.min(remaining));
                    *input = &input[taken as usize..];
                    if taken < remaining {
                        self.state = State::Skip { option, remaining: remaining - taken, answer, text };
                        Some(Step::NeedInput)
                    } else {
                        self.state = State::Header;
                        refuse(output, option, (answer, text));
                        Some(Step::Answered)
                    }
                }
                State::Over => Some(Step::NeedInput),
            };
            if let Some(step) = step {
                if matches!(step, Step::Negotiated(_) | Step::Close(_)) {
                    self.state = State::Over;
                }
                return step;
            }
        }
    }

    /// Moves input into `pending` until it holds `wanted` bytes; returns whether it does.
    fn collect(&mut self, wanted: usize, input: &mut &[u8]) -> bool {
        let missing = wanted.saturating_sub(self.pending.len());
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.pending.extend_from_slice(taken);
        *input = rest;
        self.pending.len() >= wanted
    }

    fn client_flags(&mut self, input: &mut &[u8]) -> Option<Step> {
        if !self.collect(4, input) {
            return Some(Step::NeedInput);
        }
        let flags = Fields(&self.pending).u32().unwrap_or(u32::MAX);
        self.pending.clear();
        if flags & !(wire::CLIENT_FIXED_NEWSTYLE | wire::CLIENT_NO_ZEROES) != 0 {
            return Some(Step::Close(Closed::UnknownClientFlags));
        }
        self.no_zeroes = flags & wire::CLIENT_NO_ZEROES != 0;
        self.state = State::Header;
        None
    }

    fn header(&mut self, input: &mut &[u8]) -> Option<Step> {
        if !self.collect(16, input) {
            return Some(Step::NeedInput);
        }
        let mut fields = Fields(&self.pending);
        let (magic, option, length) = (fields.u64(), fields.u32(), fields.u32());
        self.pending.clear();
        let (Some(wire::OPTION_MAGIC), Some(option), Some(length)) = (magic, option, length) else {
            return Some(Step::Close(Closed::WrongMagic));
        };
        if length > MAXIMUM_SKIPPED_BYTES {
            return Some(Step::Close(Closed::TooLong));
        }
        self.state = if length > MAXIMUM_KEPT_BYTES {
            if option == option::EXPORT_NAME {
                return Some(Step::Close(Closed::NoSuchExport));
            }
            let (answer, text) = match self.tls {
                Tls::Required => TLS_REQUIRED,
                _ => (reply::TOO_BIG, "option data are longer than 65536 bytes"),
            };
            State::Skip { option, remaining: length, answer, text }
        } else {
            State::Data { option, length }
        };
        None
    }

    fn data(
        &mut self,
        option: u32,
        length: u32,
        input: &mut &[u8],
        view: View<'_>,
        output: &mut Vec<u8>,
    ) -> Option<Step> {
        if !self.collect(length as usize, input) {
            return Some(Step::NeedInput);
        }
        let data = std::mem::take(&mut self.pending);
        let outcome = self.answer(option, &data, view, output);
        self.pending = data;
        self.pending.clear();
        self.state = State::Header;
        Some(match outcome {
            Outcome::Next => Step::Answered,
            Outcome::StartTls => Step::StartTls,
            Outcome::Go(negotiated) => Step::Negotiated(negotiated),
            Outcome::Close(reason) => Step::Close(reason),
        })
    }

    /// Answers one option with all of its data. The arms are in the order of the protocol's
    /// numbers.
    fn answer(&mut self, option: u32, data: &[u8], view: View<'_>, output: &mut Vec<u8>) -> Outcome {
        if view.draining && option != option::ABORT {
            if option == option::EXPORT_NAME {
                return Outcome::Close(Closed::NoSuchExport);
            }
            refuse(output, option, (reply::SHUTDOWN, "the server is shutting down"));
            return Outcome::Next;
        }
        if self.tls == Tls::Required && !matches!(option, option::STARTTLS | option::ABORT) {
            if option == option::EXPORT_NAME {
                return Outcome::Close(Closed::NoSuchExport);
            }
            refuse(output, option, TLS_REQUIRED);
            return Outcome::Next;
        }
        let result = match option {
            option::EXPORT_NAME => return self.export_name(data, view, output),
            option::ABORT => {
                respond(output, option, reply::ACK, &[]);
                return Outcome::Close(Closed::Aborted);
            }
            option::LIST => list(data, view, output),
            option::STARTTLS => match self.start_tls(data, output) {
                Ok(()) => return Outcome::StartTls,
                Err(refusal) => Err(refusal),
            },
            option::INFO | option::GO => match self.go(option, data, view, output) {
                Ok(negotiated) if option == option::GO => return Outcome::Go(negotiated),
                Ok(_) => Ok(()),
                Err(refusal) => Err(refusal),
            },
            option::STRUCTURED_REPLY => self.structured_reply(data, output),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.metadata(option, data, view, output),
            option::EXTENDED_HEADERS => self.extended_headers(data, output),
            _ => Err((reply::UNSUPPORTED, "option is not supported")),
        };
        if let Err(refusal) = result {
            refuse(output, option, refusal);
        }
        Outcome::Next
    }

    fn export_name(&mut self, data: &[u8], view: View<'_>, output: &mut Vec<u8>) -> Outcome {
        let export = name(data).ok().and_then(|name| find(view, name));
        // Extended headers forbid EXPORT_NAME, which has no error reply.
        let (Some(export), true) = (export, self.form != ReplyForm::Extended) else {
            return Outcome::Close(Closed::NoSuchExport);
        };
        let negotiated = self.negotiated(export);
        output.extend_from_slice(&export.size_bytes.to_be_bytes());
        output.extend_from_slice(&negotiated.flags.to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&EXPORT_NAME_PADDING);
        }
        Outcome::Go(negotiated)
    }

    fn go(&mut self, option: u32, data: &[u8], view: View<'_>, output: &mut Vec<u8>) -> Result<Negotiated, Refusal> {
        let malformed = (reply::INVALID, "option data do not add up");
        let mut fields = Fields(data);
        let name = fields.string().ok_or(malformed)?;
        let count = fields.u16().ok_or(malformed)?;
        if fields.0.len() != usize::from(count) * 2 {
            return Err(malformed);
        }
        let name = self::name(name)?;
        let export = find(view, name).ok_or(UNKNOWN_EXPORT)?;
        let negotiated = self.negotiated(export);

        let mut fact = [0; 12];
        fact[..2].copy_from_slice(&information::EXPORT.to_be_bytes());
        fact[2..10].copy_from_slice(&export.size_bytes.to_be_bytes());
        fact[10..].copy_from_slice(&negotiated.flags.to_be_bytes());
        respond(output, option, reply::INFO, &fact);

        // This fact is sent even if the client did not request it; clients that do not know it must
        // ignore it.
        let mut fact = [0; 14];
        fact[..2].copy_from_slice(&information::BLOCK_SIZE.to_be_bytes());
        fact[2..6].copy_from_slice(&export.minimum_block_bytes.to_be_bytes());
        fact[6..10].copy_from_slice(&export.preferred_block_bytes.to_be_bytes());
        fact[10..].copy_from_slice(&export.maximum_payload_bytes.to_be_bytes());
        respond(output, option, reply::INFO, &fact);

        for (kind, text) in [(information::NAME, &export.name), (information::DESCRIPTION, &export.description)] {
            if fields.0.chunks_exact(2).any(|wanted| wanted == kind.to_be_bytes()) {
                let mut fact = kind.to_be_bytes().to_vec();
                fact.extend_from_slice(text.as_bytes());
                respond(output, option, reply::INFO, &fact);
            }
        }
        respond(output, option, reply::ACK, &[]);
        Ok(negotiated)
    }

    /// The result of opening `export` now.
    fn negotiated(&self, export: &ExportFacts) -> Negotiated {
        let allocation_context = self.context_for.as_deref() == Some(&export.name);
        let mut flags = export.flags;
        if self.form != ReplyForm::Simple {
            flags |= transmission_flag::SEND_DF;
        }
        if self.form == ReplyForm::Extended && allocation_context {
            flags |= transmission_flag::BLOCK_STATUS_PAYLOAD;
        }
        Negotiated {
            export: export.name.clone(),
            size_bytes: export.size_bytes,
            form: self.form,
            flags,
            allocation_context,
        }
    }

    /// Accepts TLS. What was negotiated without it is forgotten, because anyone may have sent it.
    fn start_tls(&mut self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        empty(data)?;
        match self.tls {
            Tls::Unavailable => return Err((reply::POLICY, "TLS is not configured")),
            Tls::Running => return Err((reply::INVALID, "TLS is running already")),
            Tls::Required => self.tls = Tls::Running,
        }
        self.form = ReplyForm::Simple;
        self.context_for = None;
        respond(output, option::STARTTLS, reply::ACK, &[]);
        Ok(())
    }

    fn structured_reply(&mut self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        empty(data)?;
        match self.form {
            ReplyForm::Simple => self.form = ReplyForm::Structured,
            ReplyForm::Structured => return Err((reply::INVALID, "structured replies are already negotiated")),
            ReplyForm::Extended => {
                return Err((reply::EXTENDED_HEADER_REQUIRED, "extended headers are already negotiated"));
            }
        }
        respond(output, option::STRUCTURED_REPLY, reply::ACK, &[]);
        Ok(())
    }

    fn extended_headers(&mut self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        empty(data)?;
        if self.form == ReplyForm::Extended {
            return Err((reply::INVALID, "extended headers are already negotiated"));
        }
        self.form = ReplyForm::Extended;
        respond(output, option::EXTENDED_HEADERS, reply::ACK, &[]);
        Ok(())
    }

    fn metadata(&mut self, option: u32, data: &[u8], view: View<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let selecting = option == option::SET_META_CONTEXT;
        if selecting {
            // SET_META_CONTEXT replaces the previous selection even if it fails.
            self.context_for = None;
        }
        if self.form == ReplyForm::Simple {
            return Err((reply::INVALID, "negotiate structured replies or extended headers first"));
        }
        let malformed = (reply::INVALID, "option data do not add up");
        let mut fields = Fields(data);
        let export_name = fields.string().ok_or(malformed)?;
        let count = fields.u32().ok_or(malformed)?;
        if count > MAXIMUM_QUERIES {
            return Err((reply::TOO_BIG, "more than 64 metadata queries"));
        }
        let mut wanted = count == 0 && !selecting;
        for _ in 0..count {
            let query = name(fields.string().ok_or(malformed)?)?;
            let Some((namespace, leaf)) = query.split_once(':') else {
                return Err((reply::INVALID, "a metadata query needs a namespace and a colon"));
            };
            wanted |= namespace == "base" && (leaf == "allocation" || (leaf.is_empty() && !selecting));
        }
        if !fields.0.is_empty() {
            return Err(malformed);
        }
        let export = find(view, name(export_name)?).ok_or(UNKNOWN_EXPORT)?;
        if wanted {
            let id = if selecting { wire::ALLOCATION_CONTEXT_ID } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend_from_slice(wire::ALLOCATION_CONTEXT.as_bytes());
            respond(output, option, reply::META_CONTEXT, &context);
            if selecting {
                self.context_for = Some(export.name.clone());
            }
        }
        respond(output, option, reply::ACK, &[]);
        Ok(())
    }
}

const UNKNOWN_EXPORT: Refusal = (reply::UNKNOWN, "no such export");
const TLS_REQUIRED: Refusal = (reply::TLS_REQUIRED, "this server requires TLS: send STARTTLS first");

fn list(data: &[u8], view: View<'_>, output: &mut Vec<u8>) -> Result<(), Refusal> {
    empty(data)?;
    if !view.listing {
        return Err((reply::POLICY, "listing is switched off"));
    }
    for export in view.exports {
        let name_bytes = u32::try_from(export.name.len()).unwrap_or(0);
        let mut entry = name_bytes.to_be_bytes().to_vec();
        entry.extend_from_slice(export.name.as_bytes());
        entry.extend_from_slice(export.description.as_bytes());
        respond(output, option::LIST, reply::SERVER, &entry);
    }
    respond(output, option::LIST, reply::ACK, &[]);
    Ok(())
}

fn empty(data: &[u8]) -> Result<(), Refusal> {
    if data.is_empty() { Ok(()) } else { Err((reply::INVALID, "this option carries no data")) }
}

/// A name or query as text.
fn name(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > wire::MAXIMUM_STRING_BYTES {
        return Err((reply::INVALID, "a string is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err((reply::INVALID, "a string is not UTF-8 or contains NUL")),
    }
}

fn find<'a>(view: View<'a>, name: &str) -> Option<&'a ExportFacts> {
    view.exports.iter().find(|export| export.name == name)
}

/// Appends one reply. `data` is generated here and short, so its length fits.
fn respond(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    output.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    output.extend_from_slice(data);
}

/// Replaces the answer from `start` on, with which an export was opened, by a refusal. EXPORT_NAME has no error reply:
/// nothing is sent then.
pub fn refused_instead(output: &mut Vec<u8>, start: usize, text: &'static str) {
    let is_go = output.get(start..).is_some_and(|answer| answer.starts_with(&wire::OPTION_REPLY_MAGIC.to_be_bytes()));
    output.truncate(start);
    if is_go {
        refuse(output, option::GO, (reply::POLICY, text));
    }
}

fn refuse(output: &mut Vec<u8>, option: u32, (kind, text): Refusal) {
    respond(output, option, kind, text.as_bytes());
}

/// Takes big-endian fields off the front of some bytes; `None` when there are too few.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A 32-bit length and that many bytes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > self.0.len() {
            return None;
        }
        let (string, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(string)
    }
}
