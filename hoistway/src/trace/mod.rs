//! `hoistway trace`: what is in a trace, and the same in another format.

pub mod cat;
pub mod convert;
pub mod info;
pub mod open;
pub mod record;

use crate::arguments::trace::{TraceArguments, TraceCommand};
use crate::exit::{Outcome, Voice};

/// The subcommand.
pub fn run(arguments: &TraceArguments, voice: Voice) -> Outcome {
    match &arguments.command {
        TraceCommand::Info(arguments) => info::run(arguments, voice),
        TraceCommand::Cat(arguments) => cat::run(arguments, voice),
        TraceCommand::Convert(arguments) => convert::run(arguments, voice),
        TraceCommand::Record(arguments) => record::run(arguments, voice),
        TraceCommand::Replay(arguments) => crate::replay::run(arguments, voice),
    }
}
