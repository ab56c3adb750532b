//! Scenarios: published experiments as files. Each step is the command line of a `hoistway test`.
//!
//! ```toml
//! title = "The write bomb"
//! source = "linux-kernel, 2003"
//! [[step]]
//! name = "2.4"
//! doc = "one command at a time, the surroundings of 2.4.20"
//! test = "model:sata,queue_depth=1 --machine era=2.4 -w write-bomb.fio -s linus -s nas"
//! ```
//! A scenario that judges has cells instead of steps (`judge/format.rs`).

use hoistway_linux::input::Ceiling;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hoistway_experiment::diagnostic::did_you_mean;
use serde::Deserialize;

use crate::arguments::Command;
use crate::exit::Error;
use crate::run_test::arguments::TestArguments;
use crate::usage;
use hoistway_study::isolation::desideratum::Measurement;
use hoistway_study::isolation::format as isolation;
use hoistway_study::judge::format::{CellText, Grid, Part, Settings};

/// The scenarios included in the program.
pub const SHIPPED: [(&str, &str); 23] = [
    ("bonnie-2003", include_str!("../scenarios/bonnie-2003.toml")),
    ("cgroups-2008", include_str!("../scenarios/cgroups-2008.toml")),
    ("contest-2003", include_str!("../scenarios/contest-2003.toml")),
    ("dbench-2019", include_str!("../scenarios/dbench-2019.toml")),
    ("everyday", include_str!("../scenarios/everyday.toml")),
    ("four-groups-2016", include_str!("../scenarios/four-groups-2016.toml")),
    ("groups-2010", include_str!("../scenarios/groups-2010.toml")),
    ("idling-2016", include_str!("../scenarios/idling-2016.toml")),
    ("isolation", include_str!("../scenarios/isolation.toml")),
    ("readers-2010", include_str!("../scenarios/readers-2010.toml")),
    ("s-bandwidth-latency", include_str!("../scenarios/s-bandwidth-latency.toml")),
    ("s-copy", include_str!("../scenarios/s-copy.toml")),
    ("s-equal-weights", include_str!("../scenarios/s-equal-weights.toml")),
    ("s-fairness", include_str!("../scenarios/s-fairness.toml")),
    ("s-interleaved", include_str!("../scenarios/s-interleaved.toml")),
    ("s-kernel-development", include_str!("../scenarios/s-kernel-development.toml")),
    ("s-latency", include_str!("../scenarios/s-latency.toml")),
    ("s-startup", include_str!("../scenarios/s-startup.toml")),
    ("s-throughput", include_str!("../scenarios/s-throughput.toml")),
    ("s-video", include_str!("../scenarios/s-video.toml")),
    ("shares", include_str!("../scenarios/shares.toml")),
    ("write-bomb", include_str!("../scenarios/write-bomb.toml")),
    ("write-bomb-direct", include_str!("../scenarios/write-bomb-direct.toml")),
];
/// The scenario whose measurements have names of their own.
const ISOLATION: &str = "isolation";
/// The job files included in the program: `-w NAME` uses them if no such file exists.
const JOB_FILES: [(&str, &str); 2] = [
    ("write-bomb.fio", include_str!("../scenarios/write-bomb.fio")),
    ("write-bomb-direct.fio", include_str!("../scenarios/write-bomb-direct.fio")),
];

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Title in one line.
    pub title: String,
    /// Who ran it first, and when.
    #[serde(default)]
    pub source: String,
    /// What is done, and what to look for in the results.
    #[serde(default)]
    pub doc: String,
    /// The steps, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    /// Instead of steps: how cells are judged.
    #[serde(default)]
    pub judge: Settings,
    /// Cells in which all tenants have the same workload.
    #[serde(default)]
    pub grid: Option<Grid>,
    /// Individual cells.
    #[serde(default, rename = "cell")]
    pub cells: Vec<CellText>,
    /// Subsets of the cells that can be judged alone.
    #[serde(default, rename = "part")]
    pub parts: Vec<Part>,
    /// Instead of steps and cells: mechanisms for isolation, and how they are measured.
    #[serde(default)]
    pub isolation: Option<isolation::Settings>,
    /// The requested one of the measurements of isolation; all if none.
    #[serde(skip)]
    pub measurement: Option<Measurement>,
    /// The requested part.
    #[serde(skip)]
    wanted_part: Option<String>,
    /// The directory in which job files are searched.
    #[serde(skip)]
    directory: Option<PathBuf>,
}

/// A step of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name: `--scenario SCENARIO:NAME` runs the step alone.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub doc: String,
    /// Arguments of `hoistway test`, separated by blanks.
    test: String,
}

impl Scenario {
    /// Reads `NAME`, `FILE.toml`, and either with `:STEP`, which selects that step only.
    ///
    /// # Errors
    /// An unknown name, a file that cannot be read, and the first mistake in it, with its line.
    pub fn read(text: &str) -> Result<Self, Error> {
        let (name, step) = match text.rsplit_once(':') {
            Some((name, step)) if !step.is_empty() && !step.contains('/') => (name, Some(step)),
            _ => (text, None),
        };
        let mut scenario = Self::of(name)?;
        if scenario.has_cells() || scenario.isolation.is_some() {
            scenario.wanted_part = step.map(str::to_owned);
            scenario.part().map(|_| ())?;
            scenario.isolation_part().map(|_| ())?;
        } else if let Some(step) = step {
            let names: Vec<String> = scenario.steps.iter().map(|step| step.name.clone()).collect();
            scenario.steps.retain(|known| known.name == step);
            if scenario.steps.is_empty() {
                return Err(Error::usage(
                    format!("scenario {name} has no step '{step}'"),
                    format!("{}there are: {}", meant(step, &names), names.join(", ")),
                ));
            }
        }
        Ok(scenario)
    }

    /// The steps or parts that can be run alone, with their descriptions.
    pub fn names_and_docs(&self) -> Vec<(String, String)> {
        let steps = self.steps.iter().map(|step| (step.name.clone(), step.doc.clone()));
        let parts = self.parts.iter().map(|part| (part.name.clone(), part.doc.clone()));
        let isolation = self.isolation.iter().flat_map(|settings| &settings.parts);
        steps.chain(parts).chain(isolation.map(|part| (part.name.clone(), part.doc.clone()))).collect()
    }

    /// Whether it has cells that are judged instead of steps.
    pub const fn has_cells(&self) -> bool {
        self.grid.is_some() || !self.cells.is_empty()
    }

    /// The requested part; none for the whole scenario.
    pub fn part(&self) -> Result<Option<&Part>, Error> {
        if self.isolation.is_some() {
            return Ok(None);
        }
        self.part_of(&self.parts, |part| &part.name)
    }

    /// The requested part of a scenario that measures isolation; none for the whole scenario.
    pub fn isolation_part(&self) -> Result<Option<&isolation::Part>, Error> {
        let Some(settings) = &self.isolation else { return Ok(None) };
        self.part_of(&settings.parts, |part| &part.name)
    }

    fn part_of<'a, T>(&self, parts: &'a [T], name: impl Fn(&T) -> &String) -> Result<Option<&'a T>, Error> {
        let Some(wanted) = &self.wanted_part else { return Ok(None) };
        let names: Vec<String> = parts.iter().map(|part| name(part).clone()).collect();
        parts.iter().find(|part| name(part) == wanted).map(Some).ok_or_else(|| {
            let what = format!("the scenario has no part '{wanted}'");
            Error::usage(what, format!("{}there are: {}", meant(wanted, &names), names.join(", ")))
        })
    }

    fn of(name: &str) -> Result<Self, Error> {
        // `isolation-bursts` is one of the measurements of `isolation`.
        if let Some((scenario, measurement)) = name.split_once('-')
            && let Some(measurement) = Measurement::named(measurement)
            && scenario == ISOLATION
        {
            return Ok(Self { measurement: Some(measurement), ..Self::of(ISOLATION)? });
        }
        if let Some((_, text)) = SHIPPED.into_iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|ending| ending != "toml") {
            let names: Vec<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
            return Err(Error::usage(
                format!("there is no scenario '{name}'"),
                format!("{}there are: {}, and files that end in .toml", meant(name, &names), names.join(", ")),
            ));
        }
        let text = hoistway_linux::input::text(path, Ceiling::SCENARIO).map_err(|error| {
            Error::usage(
                format!("cannot read the scenario {name}: {error}"),
                "hoistway list scenarios shows the shipped ones",
            )
        })?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { directory: Some(directory.to_owned()), ..Self::parse(name, &text)? })
    }

    fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let scenario: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            Error::usage(
                format!("{name}:{line}: {}", error.message()),
                "a scenario has title, source, doc, and for each [[step]] name, doc, test; or [judge], [grid], [[cell]], [[part]]; or [isolation]",
            )
        })?;
        let kinds = [!scenario.steps.is_empty(), scenario.has_cells(), scenario.isolation.is_some()];
        if kinds.into_iter().filter(|is_there| *is_there).count() > 1 {
            let what = format!("{name} has steps and cells");
            let help = "put [[step]] into one file, [grid] and [[cell]] into another, [isolation] into a third";
            return Err(Error::usage(what, help));
        }
        if kinds == [false; 3] {
            let help = "add [[step]] with name, doc and test; or a [grid] or a [[cell]] for verdicts";
            return Err(Error::usage(format!("{name} has no step"), help));
        }
        let names = |list: Vec<&str>, what: &str| {
            for (index, one) in list.iter().enumerate() {
                let is_fine = !one.is_empty() && one.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
                if !is_fine || list[..index].contains(one) {
                    return Err(Error::usage(
                        format!("{name}: '{one}' cannot be the name of its {what} {}", index + 1),
                        "names are letters, digits, '-', '_', '.', and each is given once",
                    ));
                }
            }
            Ok(())
        };
        names(scenario.steps.iter().map(|step| step.name.as_str()).collect(), "step")?;
        names(scenario.cells.iter().map(|cell| cell.name.as_str()).collect(), "cell")?;
        names(scenario.parts.iter().map(|part| part.name.as_str()).collect(), "part")?;
        Ok(scenario)
    }

    /// The words of a step's command line; job files in the scenario's directory get their path.
    pub fn words(&self, step: &Step) -> Vec<String> {
        let place = |word: &str| match &self.directory {
            Some(directory) if word.ends_with(".fio") && directory.join(word).is_file() => {
                directory.join(word).display().to_string()
            }
            _ => word.to_owned(),
        };
        step.test.split_whitespace().map(place).collect()
    }
}

fn meant(name: &str, known: &[String]) -> String {
    did_you_mean(name, known.iter().map(String::as_str))
}

/// The arguments of `hoistway test` without options, to which `--group` and `-w` of a cell are
/// added.
pub fn plain_test() -> Result<TestArguments, Error> {
    let read = usage::parse(["hoistway", "test"].map(OsString::from));
    match read.map(|read| read.command) {
        Ok(Command::Test(arguments)) => Ok(*arguments),
        _ => Err(Error::failed("'hoistway test' cannot be read", "please report this")),
    }
}

/// A job file included in the program.
pub fn job_file(path: &Path) -> Option<&'static str> {
    JOB_FILES.into_iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_scenarios_can_be_read() {
        for (name, _) in SHIPPED {
            let scenario = Scenario::read(name).unwrap();
            assert!(!scenario.title.is_empty() && !scenario.doc.is_empty() && !scenario.source.is_empty(), "{name}");
            let parts = scenario.names_and_docs();
            assert!(parts.iter().all(|(_, doc)| !doc.is_empty()), "{name}");
            let alone = Scenario::read(&format!("{name}:{}", parts[0].0)).unwrap();
            let is_part = alone.part().unwrap().is_some() || alone.isolation_part().unwrap().is_some();
            assert!(alone.steps.len() == 1 || is_part, "{name}");
        }
    }

    #[test]
    fn each_measurement_of_isolation_has_a_name_of_its_own() {
        let measurement = |name: &str| Scenario::read(name).map(|scenario| scenario.measurement);
        assert_eq!(measurement("isolation").unwrap(), None);
        assert_eq!(measurement("isolation-bursts:quick").unwrap(), Some(Measurement::Bursts));
        let unknown = measurement("isolation-fair").unwrap_err().to_string();
        assert!(unknown.contains("there is no scenario 'isolation-fair'"), "{unknown}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let message = |text: &str| Scenario::parse("a.toml", text).unwrap_err().to_string();
        let step = "[[step]]\nname = \"a\"\ntest = \"\"\n";
        assert!(message("title = \"t\"\nsteps = 1\n").contains("a.toml:2: unknown field `steps`"));
        assert!(message("title = 1\n").contains("a.toml:1: "));
        assert!(message(&format!("title = \"t\"\n{step}{step}")).contains("'a' cannot be the name of its step 2"));
        assert!(message(&format!("title = \"t\"\n{}", step.replace("\"a\"", "\"a/b\""))).contains("'a/b'"));
        assert!(message("title = \"t\"\nstep = []\n").contains("has no step"));
        let unknown = Scenario::read("write-bom").unwrap_err().to_string();
        assert!(unknown.contains("did you mean 'write-bomb'? "), "{unknown}");
        let unknown = Scenario::read("write-bomb:2").unwrap_err().to_string();
        assert!(unknown.contains("has no step '2'"), "{unknown}");
    }
}
