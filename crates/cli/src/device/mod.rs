//! `hoistway device`: models as files, their fit, and models of the user's own disk.
//!
//! ```text
//! anchors of a model's file --+                                  +-> fit       (table; exit 4)
//! rows of the user's disk ----+-> recipe (experiments) -> rows --+-> search -> calibrate (a new file)
//! ```
//! `rig` provides models as block devices of this machine.

pub mod arguments;
mod calibrate;
mod fit;
mod journal;
mod left;
pub mod listing;
mod measured;
mod rig;
mod rows;

use hoistway_device::{ModelError, Preset};
use hoistway_experiment::Exit;

use crate::device::arguments::DeviceArguments;
use crate::device::arguments::{DeviceCommand, ShowArguments};
use crate::exit::{Error, Outcome, Reporter, print};

/// Runs the subcommand.
pub fn run(arguments: &DeviceArguments, reporter: Reporter) -> Outcome {
    match &arguments.command {
        DeviceCommand::Show(arguments) => show(arguments),
        DeviceCommand::Fit(arguments) => fit::run(arguments, reporter),
        DeviceCommand::Calibrate(arguments) => calibrate::run(arguments, reporter),
        DeviceCommand::Create(arguments) => rig::create(arguments, reporter),
        DeviceCommand::List(arguments) => rig::list(arguments),
        DeviceCommand::Delete(arguments) => rig::delete(arguments, reporter),
        DeviceCommand::Serve(arguments) => rig::serve(arguments),
        DeviceCommand::Keep => rig::keep(),
    }
}

/// Prints a model's own file, comments included; a changed model has none and is generated.
fn show(arguments: &ShowArguments) -> Outcome {
    let preset = load(&arguments.model)?;
    let is_changed = arguments.model.contains(',');
    print(if is_changed { preset.to_toml() } else { preset.text }.as_str())?;
    Ok(Exit::Done)
}

/// A model with its anchors; `NAME[,KEY=VALUE...]`, with or without `model:`.
fn load(text: &str) -> Result<Preset, Error> {
    let text = text.strip_prefix("model:").unwrap_or(text);
    let name = text.split(',').next().unwrap_or(text);
    let mut preset = Preset::load(name.trim()).map_err(wrong_model)?;
    preset.model = hoistway_device::Model::parse(text).map_err(wrong_model)?;
    Ok(preset)
}

/// The error for a model that cannot be loaded.
fn wrong_model(error: ModelError) -> Error {
    Error::usage(error.to_string(), "all models and parameters: hoistway list devices")
}
