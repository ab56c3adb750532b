//! Reads and writes of files.

use io_uring::opcode;

use super::{FileId, Ring, is_request_memory, ublk, with_gather, with_token};
use crate::buffer::Span;
use crate::window::is_outside;

impl Ring {
    /// The registered buffer that a span lies in, and where in it, as the kernel wants it; `None` if it lies in none.
    fn registered(&mut self, span: Span) -> Option<(u16, *mut u8)> {
        if is_request_memory(span) {
            let (index, offset_bytes) = ublk::place_of(span);
            return Some((index, std::ptr::without_provenance_mut(offset_bytes)));
        }
        let piece = self.piece_of(span)?;
        Some((piece, self.arena.address(span)))
    }

    /// The registered buffer that all spans of a transfer lie in; `None` if there is no such one.
    pub(super) fn registered_by_all(&mut self, spans: &[Span]) -> Option<u16> {
        if !self.gathers_registered {
            return None;
        }
        let first = self.piece_of(*spans.first()?)?;
        spans.iter().all(|&span| self.piece_of(span) == Some(first)).then_some(first)
    }

    /// Reads from `position_bytes` on into the spans, one behind the other (at most
    /// [`MAX_SPANS`](super::MAX_SPANS)).
    pub fn read(&mut self, token: u64, file: FileId, spans: &[Span], position_bytes: u64) {
        let entry = match *spans {
            [span] => match self.registered(span) {
                Some((piece, at)) => self.on_file(
                    file,
                    |fd| opcode::ReadFixed::new(fd, at, span.length_bytes, piece).offset(position_bytes).build(),
                    |fd| opcode::ReadFixed::new(fd, at, span.length_bytes, piece).offset(position_bytes).build(),
                ),
                None if is_outside(span) => return self.read_gathered(token, file, spans, position_bytes),
                None => {
                    let at = self.arena.address(span);
                    self.on_file(
                        file,
                        |fd| opcode::Read::new(fd, at, span.length_bytes).offset(position_bytes).build(),
                        |fd| opcode::Read::new(fd, at, span.length_bytes).offset(position_bytes).build(),
                    )
                }
            },
            _ => return self.read_gathered(token, file, spans, position_bytes),
        };
        self.push(with_token(entry, token));
    }

    fn read_gathered(&mut self, token: u64, file: FileId, spans: &[Span], position_bytes: u64) {
        let registered = self.registered_by_all(spans);
        let (gather, pieces, count) = self.gather(spans);
        let entry = match registered {
            Some(piece) => self.on_file(
                file,
                |fd| opcode::ReadvFixed::new(fd, pieces, count, piece).offset(position_bytes).build(),
                |fd| opcode::ReadvFixed::new(fd, pieces, count, piece).offset(position_bytes).build(),
            ),
            None => self.on_file(
                file,
                |fd| opcode::Readv::new(fd, pieces, count).offset(position_bytes).build(),
                |fd| opcode::Readv::new(fd, pieces, count).offset(position_bytes).build(),
            ),
        };
        self.push(with_gather(entry, token, gather));
    }

    /// Writes the spans, one behind the other, from `position_bytes` on; with `durable` it
    /// completes when the data is on stable storage (RWF_DSYNC).
    pub fn write(&mut self, token: u64, file: FileId, spans: &[Span], position_bytes: u64, durable: bool) {
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        let entry = match *spans {
            [span] => match self.registered(span) {
                Some((piece, at)) => {
                    let (at, length) = (at.cast_const(), span.length_bytes);
                    self.on_file(
                        file,
                        |fd| {
                            opcode::WriteFixed::new(fd, at, length, piece)
                                .offset(position_bytes)
                                .rw_flags(flags)
                                .build()
                        },
                        |fd| {
                            opcode::WriteFixed::new(fd, at, length, piece)
                                .offset(position_bytes)
                                .rw_flags(flags)
                                .build()
                        },
                    )
                }
                None if is_outside(span) => return self.write_gathered(token, file, spans, position_bytes, flags),
                None => {
                    let (at, length) = (self.arena.address(span).cast_const(), span.length_bytes);
                    self.on_file(
                        file,
                        |fd| opcode::Write::new(fd, at, length).offset(position_bytes).rw_flags(flags).build(),
                        |fd| opcode::Write::new(fd, at, length).offset(position_bytes).rw_flags(flags).build(),
                    )
                }
            },
            _ => return self.write_gathered(token, file, spans, position_bytes, flags),
        };
        self.push(with_token(entry, token));
    }

    fn write_gathered(&mut self, token: u64, file: FileId, spans: &[Span], position_bytes: u64, flags: i32) {
        let registered = self.registered_by_all(spans);
        let (gather, pieces, count) = self.gather(spans);
        let entry = match registered {
            Some(piece) => self.on_file(
                file,
                |fd| opcode::WritevFixed::new(fd, pieces, count, piece).offset(position_bytes).rw_flags(flags).build(),
                |fd| opcode::WritevFixed::new(fd, pieces, count, piece).offset(position_bytes).rw_flags(flags).build(),
            ),
            None => self.on_file(
                file,
                |fd| opcode::Writev::new(fd, pieces, count).offset(position_bytes).rw_flags(flags).build(),
                |fd| opcode::Writev::new(fd, pieces, count).offset(position_bytes).rw_flags(flags).build(),
            ),
        };
        self.push(with_gather(entry, token, gather));
    }
}
