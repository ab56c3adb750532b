//! Compressed traces: `.gz` and `.zst`, recognised by their content and decompressed while they are
//! read.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use hoistway_workload::trace::SAMPLE_BYTES;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Packings that are recognised by their first bytes and not read: name and program.
const NOT_READ: [(&[u8], &str, &str); 5] = [
    (b"\xfd7zXZ\0", "xz", "xz -d"),
    (b"BZh", "bzip2", "bzip2 -d"),
    (b"PK\x03\x04", "zip", "unzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
];

/// What is wrong with a content in a packing that is not read, and the remedy.
pub(super) fn refusal(begin: &[u8]) -> Option<(String, String)> {
    let (_, name, program) = NOT_READ.iter().find(|(magic, ..)| begin.starts_with(magic))?;
    Some((format!("this is {name}; unpack it first"), format!("{program}; .gz and .zst are read as they are")))
}

/// The content, decompressed if it was compressed.
pub(super) fn unpacked(mut content: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    let begin = content.fill_buf()?;
    if begin.starts_with(&GZIP) {
        return Ok(buffered(MultiGzDecoder::new(content)));
    }
    if begin.starts_with(&ZSTD) {
        return Ok(buffered(Frames { source: content, decoder: FrameDecoder::new(), is_inside: false }));
    }
    Ok(content)
}

/// The first read of a sample must return all of it, but decoders return little at a time.
fn buffered(decoder: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(SAMPLE_BYTES, Filled(decoder)))
}

/// Reads until the buffer is full or the content ends.
struct Filled<R>(R);

impl<R: Read> Read for Filled<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.0.read(&mut to[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The data that was read before the error is returned first; the next read returns
                // the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// Concatenated frames of Zstandard.
struct Frames {
    source: Box<dyn BufRead>,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl Read for Frames {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.begin_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() < to.len() && !self.decoder.is_finished() {
                let wanted = BlockDecodingStrategy::UptoBytes(to.len());
                self.decoder.decode_blocks(&mut self.source, wanted).map_err(io::Error::other)?;
            }
            let read = self.decoder.read(to)?;
            if read > 0 || to.is_empty() {
                return Ok(read);
            }
            self.is_inside = !self.decoder.is_finished();
        }
    }
}

impl Frames {
    /// Whether there is another frame; frames without data are skipped.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => {
                    self.is_inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}
