//! Shell completions and manual pages, from the same definitions as the parser.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use hoistway_experiment::Exit;

use crate::arguments::Arguments;
use crate::exit::{Error, Outcome, print};

/// `hoistway completions`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway completions bash > /etc/bash_completion.d/hoistway\n  hoistway completions fish > ~/.config/fish/completions/hoistway.fish"
)]
pub struct CompletionsArguments {
    /// Shell to generate completions for
    pub shell: clap_complete::Shell,
}

/// `hoistway man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hoistway man | man -l -\n  hoistway man /usr/local/share/man/man1")]
pub struct ManArguments {
    /// Write hoistway.1, hoistway-test.1, ... into this directory, and serve.toml.5 (into man5 beside it, if it is
    /// man1), instead of printing hoistway.1
    pub directory: Option<PathBuf>,
}

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

/// The page of a command, with the sections that clap does not know.
fn page(command: &clap::Command) -> String {
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut page);
    format!("{}{}", String::from_utf8_lossy(&page), include_str!("manual.roff"))
}

/// Writes a page for each command into the directory, and `serve.toml.5` beside it if it is `man1`, else into it, too.
fn write_pages(directory: &Path) -> io::Result<()> {
    let mut command = Arguments::command();
    command.build();
    write_command(&command, directory)?;
    let files = match (directory.file_name(), directory.parent()) {
        (Some(name), Some(parent)) if name == "man1" => parent.join("man5"),
        _ => directory.to_owned(),
    };
    fs::create_dir_all(&files)?;
    fs::write(files.join("serve.toml.5"), configuration_page())
}

fn write_command(command: &clap::Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command))?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    below.into_iter().try_for_each(|command| write_command(command, directory))
}

/// `serve.toml(5)`.
fn configuration_page() -> String {
    let (begin, end) = (include_str!("serve_toml_begin.roff"), include_str!("serve_toml_end.roff"));
    format!("{begin}{}{end}", hoistway_export::configuration::keys::manual())
}
