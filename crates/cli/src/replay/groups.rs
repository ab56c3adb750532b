//! Divides the I/Os of a trace into groups: `--groups-by`.

use hoistway_linux::input::Ceiling;
use std::collections::BTreeMap;
use std::path::Path;

use hoistway_experiment::Weight;
use hoistway_workload::trace::Record;
use hoistway_workload::trace::recording::{GroupBy, GroupingKey};

use crate::exit::Error;
use crate::trace::sinks::Names;

/// How groups are formed, and the weights that a table gives them.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// The criterion.
    pub by: GroupBy,
    /// Weights in the table.
    pub weights: BTreeMap<String, Weight>,
}

impl Grouping {
    /// Parses the option; none without it.
    pub fn read(text: Option<&str>) -> Result<Option<Self>, Error> {
        let Some(text) = text else { return Ok(None) };
        let simple = |by| Ok(Some(Self { by, weights: BTreeMap::new() }));
        match text {
            "pid" => simple(GroupBy::Pid),
            "comm" => simple(GroupBy::Comm),
            "cgroup" => simple(GroupBy::Cgroup),
            "device" => simple(GroupBy::Device),
            _ => match text.strip_prefix("file=") {
                Some(path) => table(Path::new(path)).map(Some).map_err(|error| error.at("--groups-by")),
                None => {
                    let what = format!("'{text}' is not a way to form groups");
                    Err(Error::usage(what, "write pid, comm, cgroup, device or file=MAP.csv").at("--groups-by"))
                }
            },
        }
    }

    /// The group of an I/O.
    pub fn group_of(&self, record: &Record, names: &Names) -> Option<String> {
        let process = names.processes.get(&record.pid).map(String::as_str);
        let (group, device) = (names.group(record.group), names.device(record.device));
        self.by.name_of(GroupingKey { pid: record.pid, process, group, device })
    }
}

/// Reads lines KEY,GROUP[,WEIGHT].
fn table(path: &Path) -> Result<Grouping, Error> {
    let text = hoistway_linux::input::text(path, Ceiling::TABLE).map_err(|error| Error::input(path, &error))?;
    let (mut groups, mut weights) = (BTreeMap::new(), BTreeMap::new());
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (index, line) in lines {
        let at = format!("{}:{}", path.display(), index + 1);
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (key, group, weight) = match fields[..] {
            [key, group] => (key, group, None),
            [key, group, weight] => (key, group, Some(weight)),
            _ => {
                return Err(Error::usage(
                    format!("{at}: '{line}' is not KEY,GROUP[,WEIGHT]"),
                    "for example 1042,db,800",
                ));
            }
        };
        hoistway_experiment::group::check_path(group).map_err(|wrong| Error::from(wrong).at(at.clone()))?;
        if let Some(weight) = weight {
            let weight: Weight = weight.parse().map_err(|wrong| Error::from(wrong).at(at.clone()))?;
            if weights.insert(group.to_owned(), weight).is_some_and(|other| other != weight) {
                return Err(Error::usage(format!("{at}: group {group} has two weights"), "give it one"));
            }
        }
        groups.insert(key.to_owned(), group.to_owned());
    }
    Ok(Grouping { by: GroupBy::Table(groups), weights })
}
