//! `hoistway schema [OUTPUT]`: JSON Schemas of the JSON outputs, derived from the types that produce
//! them, and of the configuration of `serve`.

use clap::Args;
use hoistway_experiment::Exit;
use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_export::configuration::keys;
use hoistway_export::server::devices::report::StatusAnswer;
use hoistway_report::json::ResultDocument;
use hoistway_rig::Rig;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::exit::{Error, Outcome, print};
use crate::run_test::compare::Comparison;
use crate::top::json::IntervalLine;
use crate::tune::Document;
use hoistway_study::isolation;

/// `hoistway schema`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  hoistway schema                   the outputs, and the commands that print them
  hoistway schema test > test.json  for `hoistway test --format json`")]
pub struct SchemaArguments {
    /// Output to describe [default: list them]
    pub output: Option<String>,
}

/// An output with a schema: its name, the commands that print it, its schema.
struct Output {
    name: &'static str,
    commands: &'static str,
    schema: fn() -> Value,
}

const OUTPUTS: [Output; 8] = [
    Output {
        name: "test",
        commands: "test --format json, replay --format json, result.json of a result directory",
        schema: schema_of::<ResultDocument>,
    },
    Output { name: "compare", commands: "compare --json", schema: schema_of::<Comparison<'_>> },
    Output {
        name: "isolation",
        commands: "test --scenario isolation --format json",
        schema: schema_of::<isolation::document::Document>,
    },
    Output { name: "tune", commands: "tune --json, tune --emit json", schema: schema_of::<Document<'_>> },
    Output { name: "ctl-status", commands: "ctl --json status", schema: schema_of::<StatusAnswer> },
    Output { name: "device-list", commands: "device list --json", schema: schema_of::<Vec<Rig>> },
    Output { name: "top", commands: "top --format json: each line", schema: schema_of::<IntervalLine> },
    Output { name: "serve", commands: "an input: the configuration of serve, serve.toml", schema: keys::schema },
];

/// The schema of a type as it is serialised.
fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

/// Prints the schema of an output, or the list of outputs.
pub fn run(arguments: &SchemaArguments) -> Outcome {
    let Some(name) = &arguments.output else {
        let lines = OUTPUTS.map(|output| format!("{:<12} {}\n", output.name, output.commands));
        print(&lines.concat())?;
        return Ok(Exit::Done);
    };
    let names = OUTPUTS.map(|output| output.name);
    let Some(output) = OUTPUTS.iter().find(|output| output.name == name) else {
        let meant = did_you_mean(name, names);
        return Err(Error::usage(
            format!("there is no schema of an output '{name}'"),
            format!("{meant}(available: {})", names.join(", ")),
        ));
    };
    print(&format!("{:#}\n", (output.schema)()))?;
    Ok(Exit::Done)
}
