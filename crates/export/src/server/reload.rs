//! The difference between two configurations: changes that can be made while clients are connected,
//! or the reasons why not.
//!
//! Either every difference can be applied, or none is, and the old configuration stays wholly in
//! force. Settings that only new handshakes use (identities, visibility, limits, descriptions) need
//! no change of their own, because the new configuration replaces the old one. Source:
//! docs/specifications/engine.md, section 5.9.

use std::collections::BTreeMap;

use hoistway_experiment::{GroupPriority, Limits};

use crate::configuration::{Address, Configuration, DEFAULT_WEIGHT, Device, Export, Group, Listener, Place, Problem};

/// One change to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Change a group's weight.
    Weight {
        /// The group's path.
        group: String,
        /// Its new weight.
        weight: u64,
    },
    /// Change the weight of a group's own queues.
    LeafWeight {
        /// The group's path.
        group: String,
        /// Its new weight; none = as the group's.
        weight: Option<u64>,
    },
    /// Change a group's priority level.
    Priority {
        /// The group's path.
        group: String,
        /// Its new level.
        priority: Option<GroupPriority>,
    },
    /// Change a group's limits.
    Limits {
        /// The group's path.
        group: String,
        /// Its new limits.
        limits: Limits,
    },
    /// Change a device's policy or its tunables.
    Scheduler {
        /// The device's name.
        device: String,
        /// `NAME[:TUNABLE=VALUE,...]`.
        scheduler: String,
    },
    /// Add an export.
    Added {
        /// The device's name.
        device: String,
        /// The export.
        export: Export,
    },
    /// Remove an export: no new client may open it, connected ones stay.
    Removed {
        /// The device's name.
        device: String,
        /// The export's name.
        export: String,
    },
}

impl Change {
    /// The device and the name of an export that is removed.
    pub fn removed(&self) -> Option<(&str, &str)> {
        match self {
            Self::Removed { device, export } => Some((device, export)),
            _ => None,
        }
    }
}

/// All changes from `old` to `new`, or one problem per field that cannot change while the server
/// runs.
pub fn difference(old: &Configuration, new: &Configuration) -> Result<Vec<Change>, Vec<Problem>> {
    let mut comparison = Comparison::default();
    comparison.keep("root", old.root.as_ref(), new.root.as_ref(), new.root.as_ref().map(|root| &root.place));
    let control = |configuration: &Configuration| configuration.control.as_ref().map(|it| it.unix.clone());
    let place = new.control.as_ref().map(|control| &control.unix.place);
    comparison.keep("control", control(old), control(new), place);
    let metrics = |configuration: &Configuration| configuration.metrics.as_ref().map(|it| it.address.clone());
    let place = new.metrics.as_ref().map(|metrics| &metrics.address.place);
    comparison.keep("metrics", metrics(old), metrics(new), place);
    comparison.keep("stall_timeout_s", old.stall_timeout_s(), new.stall_timeout_s(), None);
    comparison.weights(old, new);
    comparison.shares_beside_weights(old, new);
    comparison.limits(old, new);
    comparison.listeners(old, new);
    for device in &new.devices {
        match old.devices.iter().find(|it| it.name == device.name) {
            Some(before) => comparison.device(before, device),
            None => comparison.refuse(&device.name.place, &format!("device {} is new", device.name)),
        }
    }
    for device in old.devices.iter().filter(|it| !new.devices.iter().any(|other| other.name == it.name)) {
        comparison.refuse(&Place::default(), &format!("device {} is gone", device.name));
    }
    if comparison.problems.is_empty() { Ok(comparison.changes) } else { Err(comparison.problems) }
}

/// The groups of the new configuration, then those that are only in the old one.
fn declared<'a>(old: &'a Configuration, new: &'a Configuration) -> impl Iterator<Item = &'a String> {
    let known = by_path(new);
    let gone = old.groups.iter().filter(move |it| !known.contains_key(it.path.value.as_str()));
    new.groups.iter().chain(gone).map(|group| &group.path.value)
}

/// The groups by their paths: a configuration may have thousands.
fn by_path(configuration: &Configuration) -> BTreeMap<&str, &Group> {
    configuration.groups.iter().map(|group| (group.path.value.as_str(), group)).collect()
}

#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
    problems: Vec<Problem>,
}

impl Comparison {
    fn refuse(&mut self, place: &Place, what: &str) {
        let help = "restart the server for this; nothing of the new file was applied";
        self.problems.push(Problem::new(place, format!("{what}: it cannot change while the server runs"), help));
    }

    /// Requires a value to be unchanged.
    fn keep<T: PartialEq>(&mut self, name: &str, old: T, new: T, place: Option<&Place>) {
        if old != new {
            self.refuse(place.unwrap_or(&Place::default()), &format!("{name} is different"));
        }
    }

    fn weights(&mut self, old: &Configuration, new: &Configuration) {
        let (before, after) = (by_path(old), by_path(new));
        for group in &new.groups {
            if before.get(group.path.value.as_str()).map_or(DEFAULT_WEIGHT, |it| it.weight) != group.weight {
                self.changes.push(Change::Weight { group: group.path.value.clone(), weight: group.weight });
            }
        }
        let gone = old.groups.iter().filter(|it| !after.contains_key(it.path.value.as_str()));
        for group in gone.filter(|group| group.weight != DEFAULT_WEIGHT) {
            self.changes.push(Change::Weight { group: group.path.value.clone(), weight: DEFAULT_WEIGHT });
        }
    }

    fn shares_beside_weights(&mut self, old: &Configuration, new: &Configuration) {
        let (before, after) = (by_path(old), by_path(new));
        for path in declared(old, new) {
            let (before, after) = (before.get(path.as_str()), after.get(path.as_str()));
            let weight = after.and_then(|group| group.leaf_weight);
            if before.and_then(|group| group.leaf_weight) != weight {
                self.changes.push(Change::LeafWeight { group: path.clone(), weight });
            }
            let priority = after.and_then(|group| group.priority);
            if before.and_then(|group| group.priority) != priority {
                self.changes.push(Change::Priority { group: path.clone(), priority });
            }
        }
    }

    fn limits(&mut self, old: &Configuration, new: &Configuration) {
        let (before, after) = (by_path(old), by_path(new));
        for path in declared(old, new) {
            let of = |groups: &BTreeMap<&str, &Group>| groups.get(path.as_str()).map_or(Limits::NONE, |it| it.limits);
            let limits = of(&after);
            if of(&before) != limits {
                self.changes.push(Change::Limits { group: path.clone(), limits });
            }
        }
    }

    fn listeners(&mut self, old: &Configuration, new: &Configuration) {
        let find = |listeners: &[Listener], address: &Address| {
            listeners.iter().find(|it| it.address.value.is_same_place(address)).map(|it| it.address.clone())
        };
        for listener in &new.listeners {
            let address = &listener.address;
            match find(&old.listeners, &address.value) {
                None => self.refuse(&address.place, &format!("the listener {address} is new")),
                Some(before) => {
                    let name = format!("mode or owner_group of {address}");
                    self.keep(&name, before, address.clone(), Some(&address.place));
                }
            }
        }
        for listener in old.listeners.iter().filter(|it| find(&new.listeners, &it.address.value).is_none()) {
            self.refuse(&Place::default(), &format!("the listener {} is gone", listener.address));
        }
    }

    fn device(&mut self, old: &Device, new: &Device) {
        let place = &new.name.place;
        let mut keep = |name: &str, same: bool| {
            if !same {
                self.refuse(place, &format!("{name} of device {} is different", new.name));
            }
        };
        keep("memory", old.memory == new.memory);
        keep("queue_depth", old.queue_depth == new.queue_depth);
        keep("rotational", old.rotational == new.rotational);
        keep("max_request", old.max_request == new.max_request);
        keep("cache", old.cache == new.cache);
        keep("batch_wait_us", old.batch_wait_us == new.batch_wait_us);
        keep("busy_poll_us", old.busy_poll_us == new.busy_poll_us);
        keep("threads", old.threads == new.threads);
        keep("inline_max", old.inline_max == new.inline_max);
        keep("cpu", old.cpu == new.cpu);
        if old.scheduler != new.scheduler {
            let (device, scheduler) = (new.name.value.clone(), new.scheduler.value.clone());
            self.changes.push(Change::Scheduler { device, scheduler });
        }
        let by_name = |exports: &'_ [Export]| -> BTreeMap<String, usize> {
            exports.iter().enumerate().map(|(at, export)| (export.name.value.clone(), at)).collect()
        };
        let (before, after) = (by_name(&old.exports), by_name(&new.exports));
        for export in &new.exports {
            match before.get(&export.name.value).map(|at| &old.exports[*at]) {
                Some(before) => self.export(before, export),
                None => self.changes.push(Change::Added { device: new.name.value.clone(), export: export.clone() }),
            }
        }
        for export in old.exports.iter().filter(|it| !after.contains_key(&it.name.value)) {
            let (device, export) = (new.name.value.clone(), export.name.value.clone());
            self.changes.push(Change::Removed { device, export });
        }
    }

    fn export(&mut self, old: &Export, new: &Export) {
        let name = &new.name;
        self.keep(&format!("backing of export {name}"), &old.backing, &new.backing, Some(&new.backing.place));
        self.keep(&format!("read_only of export {name}"), old.read_only, new.read_only, Some(&name.place));
        let places = (old.vhost_user_blk.as_ref(), new.vhost_user_blk.as_ref());
        self.keep(&format!("vhost_user_blk of export {name}"), places.0, places.1, Some(&name.place));
        self.keep(&format!("ublk of export {name}"), old.ublk, new.ublk, Some(&name.place));
        self.keep(&format!("unsafe_flush of export {name}"), old.unsafe_flush, new.unsafe_flush, Some(&name.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::file;

    const TEXT: &str = r#"
[[device]]
name = "d"
[[device.export]]
name = "a"
backing = "a.img"
group = "g"
[[group]]
path = "g"
weight = 300
[[listen]]
unix = "/run/x.sock"
"#;

    fn changed(line: &str, instead: &str) -> Result<Vec<Change>, Vec<Problem>> {
        assert!(TEXT.contains(line));
        difference(&file::read("x", TEXT).unwrap(), &file::read("x", &TEXT.replacen(line, instead, 1)).unwrap())
    }

    fn refusal(line: &str, instead: &str) -> String {
        let problems = changed(line, instead).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].what.clone()
    }

    #[test]
    fn an_equal_configuration_needs_no_change() {
        assert_eq!(changed("", ""), Ok(Vec::new()));
    }

    #[test]
    fn weights_and_schedulers_change_at_once() {
        let weight = |weight| Ok(vec![Change::Weight { group: "g".into(), weight }]);
        assert_eq!(changed("weight = 300", "weight = 10"), weight(10));
        assert_eq!(changed("weight = 300", ""), weight(100));
        let scheduler = Change::Scheduler { device: "d".into(), scheduler: "noop".into() };
        assert_eq!(changed("name = \"d\"", "name = \"d\"\nscheduler = \"noop\""), Ok(vec![scheduler]));
    }

    #[test]
    fn priorities_change_at_once_and_are_reset_with_their_group() {
        let priority = |level| Change::Priority { group: "g".into(), priority: level };
        let third = Some(GroupPriority::new(3).unwrap());
        assert_eq!(changed("weight = 300", "weight = 300\npriority = 3"), Ok(vec![priority(third)]));
        let with = file::read("x", &TEXT.replacen("weight = 300", "priority = 3", 1)).unwrap();
        let without = file::read("x", &TEXT.replacen("[[group]]\npath = \"g\"\nweight = 300\n", "", 1)).unwrap();
        assert_eq!(difference(&with, &without), Ok(vec![priority(None)]));
        let wrong = file::read("x", &TEXT.replacen("weight = 300", "priority = 8", 1)).unwrap_err();
        assert_eq!(wrong[0].what, "priority = 8 is outside 0 to 7");
    }

    #[test]
    fn limits_change_at_once_and_are_lifted_with_their_group() {
        let limits = Limits { read_bytes_per_s: Some(50 << 20), ..Limits::NONE };
        let limited = "weight = 300\nread_bps_max = \"50MiB\"";
        assert_eq!(changed("weight = 300", limited), Ok(vec![Change::Limits { group: "g".into(), limits }]));
        let with_limits = file::read("x", &TEXT.replacen("weight = 300", "io.max = \"rbps=52428800\"", 1)).unwrap();
        let without = file::read("x", &TEXT.replacen("[[group]]\npath = \"g\"\nweight = 300\n", "", 1)).unwrap();
        let lifted = Change::Limits { group: "g".into(), limits: Limits::NONE };
        assert_eq!(difference(&with_limits, &without), Ok(vec![lifted]));
    }

    #[test]
    fn exports_are_added_and_removed() {
        let another = "[[device.export]]\nname = \"b\"\nbacking = \"b.img\"\n[[group]]";
        let added = changed("[[group]]", another).unwrap();
        assert!(matches!(&added[..], [Change::Added { export, .. }] if export.name.value == "b"), "{added:?}");
        let renamed = changed("name = \"a\"", "name = \"c\"").unwrap();
        assert!(matches!(&renamed[..], [Change::Added { .. }, Change::Removed { export, .. }] if export == "a"));
    }

    #[test]
    fn settings_of_new_handshakes_need_no_change() {
        assert_eq!(changed("[[listen]]", "[[listen]]\nmax_connections = 5"), Ok(Vec::new()));
        assert_eq!(changed("group = \"g\"", "group = \"g\"\ndescription = \"x\""), Ok(Vec::new()));
    }

    #[test]
    fn backings_addresses_and_sizes_need_a_restart() {
        assert!(refusal("a.img", "b.img").starts_with("backing of export a is different"));
        assert!(refusal("name = \"d\"", "name = \"d\"\nmemory = \"64MiB\"").starts_with("memory of device d"));
        assert!(refusal("unix = \"/run/x.sock\"", "unix = \"/run/x.sock\"\nmode = \"0666\"").contains("mode or owner"));
        assert_eq!(changed("/run/x.sock", "/run/y.sock").unwrap_err().len(), 2);
        assert_eq!(changed("name = \"d\"", "name = \"e\"").unwrap_err().len(), 2);
        assert!(refusal("[[device]]", "root = \"/srv\"\n[[device]]").starts_with("root is different"));
        let metrics = "[metrics]\ntcp = \"127.0.0.1:9890\"\n[[device]]";
        assert!(refusal("[[device]]", metrics).starts_with("metrics is different"));
    }
}
