//! `hoistway list`: the available schedulers, limiters, models and options. Everything is read from
//! the tables that the parsers use.

use std::fmt::Write;

use clap::Args;
use hoistway_elevator::limiters::{self, LIMITERS, LimiterEntry};
use hoistway_elevator::registry::{self, Entry};
use hoistway_elevator::tunable::Tunable;
use hoistway_elevator::{Configuration, Limiter, LimiterConfiguration, Version};
use hoistway_experiment::Exit;
use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_experiment::machine::{KEYS, Key};
use hoistway_report::json::Json;
use hoistway_workload::fio::{self, Class};
use hoistway_workload::name::{ALL, names};
use hoistway_workload::program;

use crate::device::listing;
use crate::exit::{Error, Outcome, print};
use crate::scenario::{SHIPPED, Scenario};
use hoistway::lists::{self, scheduler, show_version, tunable, tunables};

/// `hoistway list`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway list\n  hoistway list mq-deadline       its tunables with units, ranges, defaults\n  hoistway list devices           the models behind model:NAME and their parameters\n  hoistway list --json"
)]
pub struct ListArguments {
    /// What to list: schedulers, limiters, devices, workloads, scenarios, options (of job files), machine (parameters
    /// of the simulated computer), or the name of a scheduler [default: an overview]
    #[arg(value_name = "WHAT")]
    pub what: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be listed, besides single schedulers.
const SUBJECTS: [&str; 7] = ["schedulers", "limiters", "devices", "workloads", "scenarios", "options", "machine"];

/// Prints the list that was asked for.
pub fn run(arguments: &ListArguments) -> Outcome {
    let (text, json) = match arguments.what.as_deref() {
        None => overview(),
        Some("schedulers") => (schedulers_text(), lists::schedulers()),
        Some("limiters") => (limiters_text(), Json::List(LIMITERS.iter().map(limiter_json).collect())),
        Some("devices") => (listing::text(), lists::devices()),
        Some("workloads") => (workloads_text(), lists::workloads()),
        Some("scenarios") => (scenarios_text()?, scenarios_json()?),
        Some("machine") => (machine_text(), machine_json()),
        Some("options") => (options_text(), options_json()),
        Some(text) => {
            let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
            let entry = registry::find(name).ok_or_else(|| unknown(name))?;
            let version = version.map(|version| version_of(entry, version)).transpose()?;
            (scheduler_text(entry, version), scheduler(entry, version))
        }
    };
    print(&if arguments.json { format!("{}\n", json.document().trim_end()) } else { text })?;
    Ok(Exit::Done)
}

fn unknown(name: &str) -> Error {
    let known = || SUBJECTS.into_iter().chain(registry::entries().map(|entry| entry.name));
    let meant = did_you_mean(name, known());
    let all: Vec<&str> = known().collect();
    Error::usage(format!("there is no list of '{name}'"), format!("{meant}there are: {}", all.join(", ")))
}

fn version_of(entry: &Entry, text: &str) -> Result<Version, Error> {
    let version = registry::parse_version(text).filter(|version| entry.versions.first().is_none_or(|v| v <= version));
    version.ok_or_else(|| {
        let known: Vec<String> = entry.versions.iter().map(|version| show_version(*version)).collect();
        let what = format!("there is no {} of version '{text}'", entry.name);
        Error::usage(what, format!("its behaviour changed at {}; newer ones are accepted", known.join(", ")))
    })
}

fn overview() -> (String, Json) {
    let mut text = String::from("schedulers\n");
    for entry in registry::entries() {
        let _ = writeln!(text, "  {:<16}{}", entry.name, entry.summary);
    }
    text.push_str("\ndevices (model:NAME[,KEY=VALUE...])\n");
    text.push_str(&listing::overview());
    let _ = writeln!(text, "\nworkloads\n  {}", names().collect::<Vec<_>>().join(" "));
    text.push_str(
        "\nmore: hoistway list schedulers | limiters | devices | workloads | scenarios | options | machine | NAME of a scheduler\n",
    );
    let json = Json::object([
        ("schedulers", lists::schedulers()),
        ("devices", lists::devices()),
        ("workloads", lists::workloads()),
    ]);
    (text, json)
}

fn scenarios_text() -> Result<String, Error> {
    let mut text = String::from("stored experiments: hoistway test --scenario NAME[:STEP]\n");
    for (name, _) in SHIPPED {
        let scenario = Scenario::read(name)?;
        let steps = scenario.names_and_docs();
        let Scenario { title, source, doc, .. } = scenario;
        let _ = writeln!(text, "\n{name}\n  {title} ({source})");
        doc.lines().filter(|line| !line.is_empty()).for_each(|line| text.push_str(&format!("  {line}\n")));
        let width = steps.iter().map(|(name, _)| name.len() + 2).max().unwrap_or(0).max(16);
        for (name, doc) in steps {
            let _ = writeln!(text, "    :{name:<width$}{doc}");
        }
    }
    Ok(text)
}

fn scenarios_json() -> Result<Json, Error> {
    let step = |(name, doc): (String, String)| Json::object([("name", Json::text(name)), ("meaning", Json::text(doc))]);
    let row = |(name, _): &(&str, &str)| {
        let scenario = Scenario::read(name)?;
        let steps = scenario.names_and_docs();
        let Scenario { title, source, doc, .. } = scenario;
        Ok(Json::object([
            ("name", Json::text(*name)),
            ("title", Json::text(title)),
            ("source", Json::text(source)),
            ("meaning", Json::text(doc.trim())),
            ("steps", Json::List(steps.into_iter().map(step).collect())),
        ]))
    };
    Ok(Json::List(SHIPPED.iter().map(row).collect::<Result<_, Error>>()?))
}

fn machine_text() -> String {
    let mut text = String::from("the simulated computer: --machine KEY=VALUE,...\n");
    let width = KEYS.iter().map(|key| key.name.len()).max().unwrap_or(0);
    for key in KEYS {
        let _ = writeln!(text, "  {:<width$}  {:<22} {}", key.name, key.allowed.to_string(), key.doc.trim());
    }
    text
}

fn machine_json() -> Json {
    let row = |key: &Key| {
        Json::object([
            ("name", Json::text(key.name)),
            ("allowed", Json::text(key.allowed.to_string())),
            ("meaning", Json::text(key.doc.trim())),
        ])
    };
    Json::List(KEYS.iter().map(row).collect())
}

fn schedulers_text() -> String {
    let blocks: Vec<String> = registry::entries().map(|entry| scheduler_text(entry, None)).collect();
    blocks.join("\n")
}

fn scheduler_text(entry: &Entry, version: Option<Version>) -> String {
    let weights =
        if entry.traits.has_shares { "divides the device by the groups' weights" } else { "weights have no effect" };
    let at = version.map_or_else(String::new, |version| format!("@{}", show_version(version)));
    let mut text = format!("{}{at}\n  {}; {weights}\n", entry.name, entry.summary);
    if entry.versions.len() > 1 {
        let versions: Vec<String> = entry.versions.iter().map(|version| show_version(*version)).collect();
        let _ = writeln!(text, "  behaviour changed at {}: write {}@{}", versions.join(", "), entry.name, versions[0]);
    }
    tunables_text(tunables(entry, version), &mut text);
    text
}

/// The tunables of a limiter, read from the limiter itself.
fn limiter_tunables(name: &str) -> &'static [Tunable] {
    let depth = Configuration::default().depth;
    let configuration =
        LimiterConfiguration { bios: 1, groups: 1, depth, rotational: false, volatile_cache: false, tick_ns: 0 };
    limiters::build(name, &configuration).map_or(&[], |limiter| limiter.tunables())
}

fn limiters_text() -> String {
    let mut text =
        String::from("limiters in front of every scheduler, in this order: --limiter NAME[:KEY=VALUE,...]\n");
    for LimiterEntry { name, summary, .. } in LIMITERS {
        let _ = writeln!(text, "\n{name}\n  {summary}");
        tunables_text(limiter_tunables(name), &mut text);
    }
    text
}

fn limiter_json(entry: &LimiterEntry) -> Json {
    Json::object([
        ("name", Json::text(entry.name)),
        ("summary", Json::text(entry.summary)),
        ("tunables", Json::List(limiter_tunables(entry.name).iter().map(tunable).collect())),
    ])
}

fn tunables_text(rows: &[Tunable], text: &mut String) {
    if rows.is_empty() {
        text.push_str("  no tunables\n");
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in rows {
        let default = row.default.map_or_else(
            || "by device".to_owned(),
            |default| row.word(default).map_or_else(|| default.to_string(), str::to_owned),
        );
        let _ = writeln!(text, "  {:<width$}  {:<24} default {:<10} {}", row.name, range(row), default, row.doc);
    }
}

fn range(row: &Tunable) -> String {
    match row.unit {
        hoistway_elevator::tunable::Unit::Choice(words) => words.join(" | "),
        unit => format!("{}..{} {}", row.min, row.max, unit.text()).trim_end().to_owned(),
    }
}

fn workloads_text() -> String {
    let mut text = String::new();
    for (name, meaning) in lists::meanings() {
        let _ = writeln!(text, "{name:<10}{meaning}");
        let program = program::ALL.iter().find(|program| program.name() == name);
        for key in program.into_iter().flat_map(|program| program.keys()) {
            let usual = program.map_or_else(String::new, |program| program.value(key.name));
            let _ = writeln!(text, "          {:<10}{:<34} default {usual:<10} {}", key.name, key.allowed, key.doc);
        }
    }
    let _ = writeln!(text, "{:<10}{}", "all", ALL.join(" "));
    text.push_str(
        "\nA suffix changes any option of a job file: randread:bs=4k,iodepth=32 or write:fsync=1; programs (dbench, startup, video)\nhave their own settings, besides size, runtime, loops and similar ones: startup:app=lowriter.\nA name that ends with .fio is a job file.\nThe options: hoistway list options\n",
    );
    text
}

/// How an option of fio is treated: in JSON, in words.
const CLASSES: [(Class, &str, &str); 4] = [
    (Class::Honoured, "honoured", "same meaning as in fio"),
    (Class::NoEffect, "no_effect", "accepted without effect, with a note"),
    (Class::NotYet, "not_yet", "not supported yet, except with a value that changes nothing"),
    (Class::Refused, "refused", "not supported, except with a value that changes nothing"),
];

fn options_text() -> String {
    let mut text =
        String::from("Options of job files and of workload suffixes (randread:bs=4k,iodepth=32), as in fio.\n");
    for (class, _, meaning) in CLASSES {
        let _ = writeln!(text, "\n{meaning}");
        for (name, _, doc) in fio::options().filter(|(_, of, _)| *of == class) {
            let _ = writeln!(text, "  {name:<30} {doc}");
        }
    }
    text
}

fn options_json() -> Json {
    let options = CLASSES.iter().flat_map(|(class, label, _)| {
        fio::options().filter(move |(_, of, _)| of == class).map(|(name, _, doc)| {
            Json::object([("name", Json::text(name)), ("class", Json::text(*label)), ("doc", Json::text(doc))])
        })
    });
    Json::List(options.collect())
}
