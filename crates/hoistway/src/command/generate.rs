//! Shell completions and manual pages, from the same definitions as the parser.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use hoistway_experiment::Exit;

use crate::command::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::command::exit::{Error, Outcome, print};

/// `hoistway completions SHELL`.
pub fn completions(arguments: &CompletionsArguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "hoistway", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// `hoistway man [DIRECTORY]`.
pub fn manual(arguments: &ManArguments) -> Outcome {
    match &arguments.directory {
        None => print(&page(&Arguments::command()))?,
        Some(directory) => {
            write_pages(directory).map_err(|error| Error::file(directory, "write pages into", &error))?
        }
    }
    Ok(Exit::Done)
}

fn page(command: &clap::Command) -> String {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

fn write_pages(directory: &Path) -> io::Result<()> {
    let mut command = Arguments::command();
    command.build();
    clap_mangen::generate_to(command, directory)
}
