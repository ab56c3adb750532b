//! `hoistway trace convert`: converts a trace, or a part of it, to another format.

use hoistway_experiment::Exit;

use super::filter::Filter;
use super::open::{How, Opened};
use super::output::{self, Out};
use super::sinks::{Blktrace, FilesOfDevices, Lines, Logs, Sink, Table};
use super::stages::{Reduced, Stages};
use crate::exit::{Error, Outcome, Reporter};
use crate::replay::groups::Grouping;
use crate::trace::arguments::{ConvertArguments, ToName};

/// Runs the subcommand.
pub fn run(arguments: &ConvertArguments, reporter: Reporter) -> Outcome {
    let ConvertArguments { to, out, device, force: is_forced, .. } = arguments;
    let grouping = Grouping::read(arguments.groups_by.as_deref())?;
    if grouping.is_some() && !matches!(to, ToName::Csv | ToName::Fio) {
        let what = "only csv and fio can contain groups";
        return Err(Error::usage(what, "leave it out, or add --to csv").at("--groups-by"));
    }
    if device.iter().any(|name| name.contains(char::is_whitespace) || name.is_empty()) {
        return Err(
            Error::usage("fio's logs cannot contain names with spaces", "give a path without spaces").at("--device")
        );
    }
    if output::is_stdout(out) && *to == ToName::Fio {
        let what = "a job file for fio needs a directory for its logs";
        return Err(Error::usage(what, "name a file; --to iolog3 writes a single log").at("--out -"));
    }
    let mut filter = Filter::new(&arguments.filter)?;
    let mut trace = Opened::new(&arguments.file, How::new(arguments.format.as_deref(), &arguments.reading))?;
    let create = || Out::create(out, *is_forced);
    let files = FilesOfDevices::new(device);
    let mut sink: Box<dyn Sink> = match to {
        ToName::Blktrace => Box::new(Blktrace::converted(out, *is_forced)?),
        ToName::Blkparse => Box::new(Lines::new(create()?)),
        ToName::Csv => Box::new(Table::new(create()?, grouping)?),
        ToName::Iolog3 => Box::new(Logs::alone(create()?, files)?),
        ToName::Fio => Box::new(Logs::with_job_file(create()?, files, grouping.unwrap_or_default(), *is_forced)),
    };
    let needs_stages = matches!(to, ToName::Blktrace | ToName::Blkparse);
    let mut stages = Stages::default();
    let mut ios = Reduced::default();
    while let Some(item) = trace.next_wanted(&mut filter)? {
        match (trace.format().has_stages, needs_stages) {
            (true, true) | (false, false) => sink.put(&item)?,
            (false, true) => stages.put(&item, sink.as_mut())?,
            (true, false) => ios.put(item, sink.as_mut())?,
        }
        if !sink.is_wanted() {
            break;
        }
    }
    // An error leaves no files behind, because they get their names at the very end.
    trace.conclude(reporter)?;
    stages.end(sink.as_mut())?;
    ios.end(sink.as_mut())?;
    for note in sink.finish()? {
        reporter.note(note);
    }
    reporter.note(trace.summary());
    Ok(Exit::Done)
}
