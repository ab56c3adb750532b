//! The command line `hoistway`: parses its arguments, runs one subcommand, and returns its exit code.
//!
//! [`main`] is the whole program. A program of yours that registers its own policies first
//! ([`policy::registry::register`](hoistway::policy::registry::register)) and then calls it has them beside the
//! built-in ones in every subcommand.
// These macros panic if the output is full or closed; `exit::print` and `linux::output` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod arguments;
mod ctl;
mod demo;
mod device;
mod exit;
mod formats;
mod generate;
mod image;
mod interrupt;
mod isolation;
mod judge;
mod lab;
mod layout;
mod list;
mod processes;
mod progress;
mod replay;
mod restore;
mod run_test;
mod scenario;
mod schema;
mod serve;
mod stamp;
mod status;
mod target;
mod top;
mod trace;
mod tune;
mod units;
mod usage;
mod workloads;

use std::ffi::OsString;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use exit::Reporter;
use hoistway_experiment::Exit;

/// Runs the command with the arguments of this process, and returns the process's exit code.
///
/// Whatever the arguments say is carried out, output goes to stdout and stderr; `hoistway --help`
/// lists the subcommands.
pub fn main() -> ExitCode {
    ExitCode::from(main_with(std::env::args_os()))
}

/// The same with these words, of which the first is the program's name, and the exit code as a number.
///
/// For a process that is not the program `hoistway`, such as an interpreter. The native host and
/// `device create` start `/proc/self/exe` with subcommands, so there they do not work.
pub fn main_with(words: impl IntoIterator<Item = OsString>) -> u8 {
    match usage::parse(words) {
        Ok(arguments) => {
            let reporter = Reporter::new(&arguments.general);
            let is_restore = matches!(arguments.command, Command::Restore(_) | Command::Watch(_) | Command::Worker);
            if arguments.general.auto_restore && !is_restore {
                match restore::first(reporter) {
                    Ok(Exit::Done) => {}
                    outcome => return exit::finish(reporter, outcome),
                }
            }
            run(arguments, reporter)
        }
        Err(answer) => exit::finish(Reporter::default(), answer),
    }
}

fn run(arguments: Arguments, reporter: Reporter) -> u8 {
    let outcome = match arguments.command {
        Command::Test(arguments) => run_test::run(&arguments, reporter),
        Command::Tune(arguments) => tune::run(&arguments, reporter),
        Command::Trace(arguments) => trace::run(&arguments, reporter),
        Command::Replay(arguments) => replay::run(&arguments, reporter),
        Command::Compare(arguments) => run_test::compare::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Device(arguments) => device::run(&arguments, reporter),
        Command::Lab(arguments) => lab::run(&arguments, reporter),
        Command::Demo(arguments) => demo::run(&arguments, reporter),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::manual(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments, reporter),
        Command::Top(arguments) => top::run(&arguments, reporter),
        Command::Stat(arguments) => top::stat::run(&arguments),
        Command::Worker => processes::worker(),
        Command::Watch(arguments) => processes::watch(&arguments),
        // These two subcommands return exit codes of their own (docs/specifications/engine.md,
        // section 8).
        Command::Serve(arguments) => return serve::run(*arguments),
        Command::Ctl(arguments) => return ctl::run(arguments),
    };
    exit::finish(reporter, outcome)
}
