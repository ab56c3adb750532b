//! `hoistway trace`: shows the contents of traces, and converts and records them.

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

use crate::arguments::trace::{TraceArguments, TraceCommand};
use crate::exit::{Outcome, Voice};

/// Runs the subcommand.
pub fn run(arguments: &TraceArguments, voice: Voice) -> Outcome {
    match &arguments.command {
        TraceCommand::Info(arguments) => info::run(arguments, voice),
        TraceCommand::Cat(arguments) => cat::run(arguments, voice),
        TraceCommand::Convert(arguments) => convert::run(arguments, voice),
        TraceCommand::Record(arguments) => record::run(arguments, voice),
        TraceCommand::Replay(arguments) => crate::replay::run(arguments, voice),
    }
}
