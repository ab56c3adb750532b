//! The text of a policy in tests and benchmarks: `mq-deadline@6.1:fifo_batch=1,writes_starved=0`.

use hoistway_elevator::{Any, Configuration, Elevator, Version, registry};

pub(crate) struct Spec<'a> {
    text: &'a str,
    pub(crate) name: &'a str,
    pub(crate) version: Option<Version>,
    tunables: &'a str,
}

impl<'a> Spec<'a> {
    /// Panics if the version is invalid.
    pub(crate) fn parse(text: &'a str) -> Self {
        let (policy, tunables) = text.split_once(':').unwrap_or((text, ""));
        let (name, version) = match policy.split_once('@') {
            None => (policy, None),
            Some((name, version)) => match registry::parse_version(version) {
                Some(version) => (name, Some(version)),
                None => panic!("{text}: {version:?} is no kernel version"),
            },
        };
        Self { text, name, version, tunables }
    }

    /// Tunables and values; panics at one without a value.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.tunables.split(',').filter(|setting| !setting.is_empty()).map(|setting| match setting.split_once('=') {
            Some(setting) => setting,
            None => panic!("{}: {setting:?} is not name=value", self.text),
        })
    }

    /// Builds the policy with its settings; panics if there is no such policy, version or tunable.
    pub(crate) fn build(&self, configuration: &Configuration) -> Any {
        let mut policy = registry::build(self.name, self.version, configuration)
            .unwrap_or_else(|error| panic!("{}: {error:?}", self.text));
        for (name, value) in self.settings() {
            let rows = policy.tunables();
            let index = rows.iter().position(|row| row.name == name);
            let Some((index, row)) = index.and_then(|index| Some((index, rows.get(index)?))) else {
                panic!("{}: there is no tunable {name}", self.text);
            };
            let set = row.parse(value).and_then(|value| policy.set(index, value));
            set.unwrap_or_else(|error| panic!("{}: {name}={value}: {error}", self.text));
        }
        policy
    }
}
