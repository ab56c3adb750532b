//! clap's errors, in the words and the form of all other errors.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use hoistway_experiment::{Diagnostic, Exit};

use crate::arguments::Arguments;
use crate::exit::{Error, Outcome, print};

/// Parses the command line; otherwise returns how the command ends (help and version are no
/// errors).
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Outcome> {
    Arguments::try_parse_from(help_last(words.into_iter().collect())).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Coloured if stdout is a terminal.
            error.print().map_or_else(|_| print(&error.to_string()).map(|()| Exit::Done), |()| Ok(Exit::Done))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print(&error.to_string()).and(Err(Error { messages: Vec::new(), exit: Exit::Usage }))
        }
        _ => Err(in_our_words(&error)),
    })
}

/// `help SUBCOMMAND` is `SUBCOMMAND --help`, at any depth.
fn help_last(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

fn in_our_words(error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) if !texts.is_empty() => Some(texts.join(", ")),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg).unwrap_or_default();
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    // The error is from one of our own parsers and is complete except for the argument's name.
    if let Some(diagnostic) = error.source().and_then(|source| source.downcast_ref::<Diagnostic>()) {
        let name = option.split([' ', '=']).next().unwrap_or("");
        return Error::usage(&diagnostic.message, &diagnostic.help).at(format!("{name} {value}"));
    }
    let rendered = error.render().to_string();
    let mut lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("").trim_start_matches("error: ").to_owned();
    // Names of missing arguments and similar lines follow the first line, up to the tips.
    let is_more = |line: &&str| !["tip:", "Usage:", "For more"].iter().any(|head| line.starts_with(head));
    let more: Vec<&str> = lines.clone().take_while(is_more).collect();
    let what = if more.is_empty() { first } else { format!("{first} {}", more.join(" ")) };
    let unknown = match error.kind() {
        ErrorKind::UnknownArgument => option.split('=').next(),
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand).and_then(|word| match word {
            ContextValue::String(word) => Some(word.as_str()),
            _ => None,
        }),
        _ => None,
    };
    if let Some(help) = unknown.and_then(elsewhere) {
        return Error::usage(what, help);
    }
    let tips: Vec<&str> = lines.filter_map(|line| line.strip_prefix("tip: ")).map(str::trim).collect();
    let help =
        if tips.is_empty() { "see hoistway --help, or hoistway SUBCOMMAND --help".to_owned() } else { tips.join("; ") };
    Error::usage(what, help)
}

/// Where a misplaced word belongs: it may be an option or a subcommand of other subcommands, or an
/// option that was written as a subcommand. Only exact names count.
fn elsewhere(word: &str) -> Option<String> {
    let name = word.trim_start_matches('-');
    let mut options = Vec::new();
    let mut subcommands = Vec::new();
    find(&Arguments::command(), "", name, &mut options, &mut subcommands);
    let listed = |paths: &[String]| paths.join(", ");
    if word.starts_with("--") && !options.is_empty() {
        return Some(format!("--{name} is an option of {}: it follows that subcommand", listed(&options)));
    }
    if word.starts_with('-') {
        return None;
    }
    if !subcommands.is_empty() {
        return Some(format!("it is a subcommand of its own: {}", listed(&subcommands)));
    }
    (!options.is_empty()).then(|| format!("it is an option, --{name}, of {}", listed(&options)))
}

/// The paths of the commands that have an option, and of the subcommands, of this name.
fn find(command: &clap::Command, path: &str, name: &str, options: &mut Vec<String>, subcommands: &mut Vec<String>) {
    // Global options are allowed everywhere.
    let is_root = path.is_empty();
    let path = format!("{path}{} ", command.get_name());
    let is_it = |argument: &&clap::Arg| argument.get_long() == Some(name) && !(is_root && argument.is_global_set());
    if command.get_arguments().any(|argument| is_it(&argument)) {
        options.push(path.trim_end().to_owned());
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        if inner.get_name() == name {
            subcommands.push(format!("{path}{name}"));
        }
        find(inner, &path, name, options, subcommands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        match parse(line.split(' ').map(OsString::from)) {
            Err(Err(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_bad_value_names_option_value_and_remedy() {
        let message = message("hoistway test --runtime 3x");
        assert!(
            message.starts_with("hoistway: error: '3x' is not a time (--runtime 3x)\n  help: write seconds"),
            "{message}"
        );
    }

    #[test]
    fn an_unknown_option_gets_the_nearest() {
        let message = message("hoistway test --wieghts 1,2");
        assert!(message.starts_with("hoistway: error: unexpected argument '--wieghts' found"), "{message}");
        assert!(message.contains("  help: ") && message.contains("'--weights'"), "{message}");
    }

    #[test]
    fn a_misplaced_word_is_reported_with_its_place() {
        // The nearest name by edit distance is replay, which explains nothing.
        let explain = message("hoistway explain");
        assert!(explain.contains("it is an option, --explain, of hoistway test, "), "{explain}");
        assert!(!explain.contains("similar"), "{explain}");
        let status = message("hoistway status");
        assert!(status.contains("hoistway ctl status"), "{status}");
        let control = message("hoistway list --control x");
        assert!(control.contains("--control is an option of hoistway serve, hoistway ctl"), "{control}");
        assert!(!control.contains("--color"), "{control}");
    }

    #[test]
    fn definitions_are_consistent() {
        Arguments::command().debug_assert();
    }
}
