//! `--format NAME[=FILE]` of scenarios whose results are not those of a test.

use std::path::PathBuf;

use crate::exit::{Error, print};
use crate::run_test::arguments::ShowArguments;
use crate::run_test::show::check_place;
use crate::run_test::store;

/// Formats with the places they are written to; none is stdout.
pub type Places<F> = Vec<(F, Option<PathBuf>)>;

/// Parses the arguments; paths that cannot be written are detected before the runs. Without
/// arguments the first of the known formats is printed. `what` has them, in messages.
pub fn read<F: Copy>(arguments: &ShowArguments, known: &[(&str, F)], what: &str) -> Result<Places<F>, Error> {
    let mut places: Places<F> = Vec::new();
    for (text, name, path) in arguments.formats() {
        let format = known.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
        let format = format.ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let what = format!("{what} have no format '{name}'");
            Error::usage(what, format!("there are: {}", names.join(", "))).at(format!("--format {text}"))
        })?;
        places.push((format, path));
    }
    if let Some((_, first)) = known.first().filter(|_| places.is_empty()) {
        places.push((*first, arguments.output.clone()));
    }
    if places.iter().filter(|(_, path)| path.is_none()).count() > 1 {
        let what = "two formats cannot share stdout";
        return Err(Error::usage(what, "write one of them to a file: --format json=FILE").at("--format"));
    }
    for (index, (_, path)) in places.iter().enumerate() {
        let Some(path) = path else { continue };
        if places[..index].iter().any(|(_, other)| other.as_ref() == Some(path)) {
            let what = format!("two formats would be written to {}", path.display());
            return Err(Error::usage(what, "give each its own file: --format FORMAT=FILE"));
        }
        check_place(path)?;
    }
    Ok(places)
}

/// Prints and writes all of them.
pub fn write<F: Copy>(places: &Places<F>, text: impl Fn(F) -> String) -> Result<(), Error> {
    for (format, path) in places {
        match path {
            Some(path) => store::write(path, &text(*format))?,
            None => print(&text(*format))?,
        }
    }
    Ok(())
}
