//! What a page can choose from, read from the tables that the parsers use: devices, schedulers with
//! their tunables, and what reasons mean. What it has chosen is checked here.

use hoistway_elevator::registry::{self, Entry};
use hoistway_elevator::tunable::{Tunable, Unit};
use hoistway_elevator::{Configuration, Elevator};
use hoistway_simulator::Session;
use serde_json::{Value, json};

use super::course::Course;
use super::frame::bucket_starts_ns;
use super::state::State;
use crate::error::Error;

/// What the pages of a laboratory can choose from.
#[derive(Clone, Debug)]
pub struct Choices {
    first: State,
}

impl Choices {
    /// The choices, beginning with this model and these schedulers (none: the usual ones).
    ///
    /// # Errors
    /// An unknown device or scheduler.
    pub fn new(model: &str, schedulers: &[String]) -> Result<Self, Error> {
        Ok(Self { first: State::first(model, schedulers)? })
    }

    /// All of them, with the state to begin with.
    pub fn list(&self) -> Value {
        let devices: Vec<Value> =
            hoistway_device::MODELS.iter().map(|row| json!({"name": row.name, "summary": summary(row.text)})).collect();
        json!({
            "devices": devices,
            "schedulers": registry::entries().map(scheduler).collect::<Vec<_>>(),
            "first": self.first,
            "bucket_starts_ns": bucket_starts_ns(),
        })
    }

    /// Starts a run of a state, frozen at time 0; also tells what a page must know about its lanes.
    ///
    /// # Errors
    /// The state is not among the choices, or the simulator refuses it.
    pub fn start(&self, state: State) -> Result<(Course, Value), Error> {
        state.check(&self.first.device)?;
        let course = Course::start(state)?;
        let lanes = of_lanes(course.lanes());
        Ok((course, lanes))
    }

    /// The command line of a state, and whether it repeats the run exactly.
    ///
    /// # Errors
    /// The state is not among the choices.
    pub fn command(&self, state: &State) -> Result<Value, Error> {
        state.check(&self.first.device)?;
        let (line, is_exact) = state.command();
        Ok(json!({"command": line, "is_exact": is_exact}))
    }
}

/// What a page is told of an error.
pub fn refusal(error: &Error) -> Value {
    let first = error.messages.first();
    let (what, help) = first.map_or(("", ""), |it| (it.what.as_str(), it.help.as_str()));
    json!({"error": what, "help": help})
}

/// The description in a model's file.
fn summary(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("doc = \""));
    line.map_or("", |line| line.trim_end_matches('"'))
}

fn scheduler(entry: &Entry) -> Value {
    let policy = registry::build(entry.name, None, &Configuration::default());
    let rows = policy.as_ref().map_or(&[][..], Elevator::tunables);
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "has_shares": entry.traits.has_shares,
        "tunables": rows.iter().map(tunable).collect::<Vec<_>>(),
    })
}

fn tunable(row: &Tunable) -> Value {
    let words: &[&str] = if let Unit::Choice(words) = row.unit { words } else { &[] };
    json!({
        "name": row.name, "unit": row.unit.text(), "min": row.min, "max": row.max, "default": row.default,
        "doc": row.doc, "words": words, "is_switch": row.unit == Unit::Boolean,
    })
}

/// What a page must know about the lanes that were started for it.
fn of_lanes<'a>(lanes: impl Iterator<Item = &'a Session>) -> Value {
    let lane = |session: &Session| {
        let info = session.device();
        let reasons: Vec<Value> = session
            .reasons()
            .iter()
            .map(|name| json!({"name": name, "meaning": hoistway_report::page::gloss(name).unwrap_or_default()}))
            .collect();
        let tunables: Vec<Value> =
            session.tunables().map(|(row, value)| json!({"name": row.name, "value": value})).collect();
        json!({
            "reasons": reasons,
            "tunables": tunables,
            "device": {
                "name": info.name, "capacity_sectors": info.capacity_sectors, "rotational": info.rotational,
                "depth": info.total_depth(),
            },
        })
    };
    lanes.map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_and_scheduler_can_be_chosen_and_is_explained() {
        let list = Choices::new("ssd", &[]).unwrap().list();
        let names = |key: &str| -> Vec<String> {
            let rows = list[key].as_array().unwrap().iter();
            rows.map(|row| {
                assert!(row["summary"].as_str().unwrap().len() > 10, "{row}");
                row["name"].as_str().unwrap().to_owned()
            })
            .collect()
        };
        assert_eq!(names("devices"), hoistway_device::MODELS.iter().map(|row| row.name).collect::<Vec<_>>());
        assert_eq!(names("schedulers"), registry::entries().map(|entry| entry.name).collect::<Vec<_>>());
        assert_eq!(list["first"]["device"], "model:ssd");
    }

    #[test]
    fn a_tunable_comes_with_its_bounds() {
        let list = Choices::new("ssd", &[]).unwrap().list();
        let schedulers = list["schedulers"].as_array().unwrap();
        let of =
            |name: &str| schedulers.iter().find(|row| row["name"] == name).unwrap()["tunables"].as_array().unwrap();
        let give = of("paternoster").iter().find(|row| row["name"] == "give").unwrap();
        assert!(give["min"].as_u64() <= give["default"].as_u64() && give["default"].as_u64() <= give["max"].as_u64());
        assert!(give["doc"].as_str().is_some_and(|doc| !doc.is_empty()) && give["is_switch"] == false, "{give}");
        assert!(of("none").is_empty());
    }

    #[test]
    fn a_run_comes_with_what_its_lanes_are() {
        let choices = Choices::new("raid5x12", &["paternoster".to_owned()]).unwrap();
        let first = choices.first.clone();
        let (_, lanes) = choices.start(first.clone()).unwrap();
        let lane = &lanes.as_array().unwrap()[0];
        assert_eq!((&lane["device"]["rotational"], lanes.as_array().unwrap().len()), (&json!(true), 1));
        let meanings = lane["reasons"].as_array().unwrap().iter().map(|it| it["meaning"].as_str().unwrap());
        assert!(meanings.clone().count() > 0 && meanings.clone().all(|it| !it.is_empty()), "{lane}");
        let other = State { device: "model:/etc/passwd.toml".to_owned(), ..first };
        let refused = choices.start(other.clone()).unwrap_err();
        assert_eq!(choices.command(&other).unwrap_err(), refused);
        let told = refusal(&refused);
        assert_eq!(told["error"], "there is no device 'model:/etc/passwd.toml'");
        assert!(told["help"].as_str().unwrap().contains("raid5x12"), "{told}");
    }
}
