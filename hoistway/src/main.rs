//! The command: reads its arguments, does one thing, says how it went.
#![forbid(unsafe_code)]

mod arguments;
mod exit;
mod generate;
mod interrupt;
mod layout;
mod list;
mod machine;
mod progress;
mod target;
mod test;
mod units;
mod usage;
mod workloads;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use exit::{Outcome, Voice};

fn main() -> ExitCode {
    match usage::parse(std::env::args_os()) {
        Ok(arguments) => {
            let voice = Voice::new(&arguments.general);
            exit::finish(voice, run(&arguments, voice))
        }
        Err(answer) => exit::finish(Voice::default(), answer),
    }
}

fn run(arguments: &Arguments, voice: Voice) -> Outcome {
    match &arguments.command {
        Command::Test(arguments) => test::run(arguments, voice),
        Command::List(arguments) => list::run(arguments),
        Command::Completions(arguments) => generate::completions(arguments),
        Command::Man(arguments) => generate::manual(arguments),
    }
}
