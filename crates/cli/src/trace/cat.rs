//! `hoistway trace cat`: prints a trace as the lines of blkparse.

use std::io::{self, Write};

use hoistway_experiment::Exit;
use hoistway_workload::trace::blkparse::Printer;

use super::filter::Filter;
use super::open::{How, Opened};
use crate::exit::{Error, Outcome, Reporter};
use crate::trace::arguments::CatArguments;

/// Bytes per write.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs the subcommand.
pub fn run(arguments: &CatArguments, reporter: Reporter) -> Outcome {
    let mut filter = Filter::new(&arguments.filter)?;
    let mut trace = Opened::new(&arguments.file, How::new(arguments.format.as_deref(), &arguments.reading))?;
    let mut printer = Printer::default();
    let mut text = Vec::with_capacity(2 * CHUNK_BYTES);
    while let Some(item) = trace.next_wanted(&mut filter)? {
        printer.put_line(&item, &mut text);
        if text.len() >= CHUNK_BYTES && !write(&mut text)? {
            return Ok(Exit::Done);
        }
    }
    if !write(&mut text)? {
        return Ok(Exit::Done);
    }
    trace.conclude(reporter)?;
    reporter.note(trace.summary());
    Ok(Exit::Done)
}

/// Writes the text; returns whether the reader is still there: it may have closed the pipe (`|
/// head`).
fn write(text: &mut Vec<u8>) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text).and_then(|()| out.flush());
    text.clear();
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::failed(format!("cannot write to stdout: {error}"), "")),
    }
}
