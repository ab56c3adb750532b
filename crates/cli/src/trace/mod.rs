//! `hoistway trace`: shows the contents of traces, and converts and records them.

pub mod arguments;
pub mod cat;
mod compressed;
pub mod convert;
mod filter;
pub mod info;
pub mod open;
mod output;
pub mod record;
pub mod sinks;
mod stages;

use crate::exit::{Outcome, Reporter};
use crate::trace::arguments::{TraceArguments, TraceCommand};

/// Runs the subcommand.
pub fn run(arguments: &TraceArguments, reporter: Reporter) -> Outcome {
    match &arguments.command {
        TraceCommand::Info(arguments) => info::run(arguments, reporter),
        TraceCommand::Cat(arguments) => cat::run(arguments, reporter),
        TraceCommand::Convert(arguments) => convert::run(arguments, reporter),
        TraceCommand::Record(arguments) => record::run(arguments, reporter),
        TraceCommand::Replay(arguments) => crate::replay::run(arguments, reporter),
    }
}
