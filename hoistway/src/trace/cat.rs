//! `hoistway trace cat`: the lines of blkparse.

use std::io::{self, BufWriter, Write};

use experiment::Exit;
use workload::trace::blkparse::Printer;

use super::open::{How, Opened};
use crate::arguments::trace::CatArguments;
use crate::exit::{Error, Outcome, Voice};

/// The subcommand.
pub fn run(arguments: &CatArguments, voice: Voice) -> Outcome {
    let mut trace = Opened::new(&arguments.file, How::new(arguments.format.as_deref(), &arguments.reading))?;
    let mut printer = Printer::default();
    let mut out = BufWriter::new(io::stdout().lock());
    while let Some(item) = trace.next()? {
        let Some(line) = printer.line(&item) else { continue };
        match writeln!(out, "{line}") {
            Ok(()) => {}
            // A reader that went away (`| head`) has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
            Err(error) => return Err(Error::failed(format!("cannot write to stdout: {error}"), "")),
        }
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Error::failed(format!("cannot write to stdout: {error}"), ""));
        }
        _ => {}
    }
    trace.conclude(voice)?;
    voice.note(trace.summary());
    Ok(Exit::Done)
}
