//! A scheduler as the user writes it: `bfq:slice_idle=0,low_latency=0`, `cfq@2.6.36`. It is not
//! interpreted here.
//!
//! Only a host knows which names, versions and keys exist; it looks them up in its registry (or in
//! the kernel) and checks them in [`Host::check`](crate::Host::check).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Diagnostic;

/// Format of a specification; every error about one ends with it.
const GRAMMAR: &str = "write NAME[@VERSION][:key=value[,key=value...]], for example bfq:low_latency=0,slice_idle=4";

/// A scheduler's name, version and settings, as text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct SchedulerSpec {
    /// The host's name of the policy: `bfq`, `mq-deadline`, `none`.
    pub name: String,
    /// The kernel version whose behaviour is requested (`2.6.36`), or the name of a series of patches
    /// (`v8r3`); `None` means the newest known.
    pub version: Option<String>,
    /// Tunables to set, in the given order. Keys are unique.
    pub settings: Vec<Setting>,
}

/// One tunable and its value as the user wrote it, in the tunable's own unit.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Setting {
    /// The tunable's name.
    pub key: String,
    /// The value's text; never empty.
    pub value: String,
}

impl SchedulerSpec {
    /// A scheduler with its defaults.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: None, settings: Vec::new() }
    }

    /// The value given for a tunable.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    }

    /// This specification with `key` set to `value`, which replaces an existing value.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        match self.settings.iter_mut().find(|setting| setting.key == key) {
            Some(setting) => value.clone_into(&mut setting.value),
            None => self.settings.push(Setting { key: key.to_owned(), value: value.to_owned() }),
        }
        self
    }

    /// The text with everything except letters, digits, `.` and `-` replaced by `_`, for file
    /// names.
    pub fn slug(&self) -> String {
        let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
        self.to_string().chars().map(keep).collect()
    }
}

impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(version) = &self.version {
            write!(f, "@{version}")?;
        }
        for (index, Setting { key, value }) in self.settings.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl From<SchedulerSpec> for String {
    fn from(spec: SchedulerSpec) -> String {
        spec.to_string()
    }
}

impl TryFrom<String> for SchedulerSpec {
    type Error = Diagnostic;
    fn try_from(text: String) -> Result<Self, Diagnostic> {
        text.parse()
    }
}

impl FromStr for SchedulerSpec {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        let wrong = |what: String| Diagnostic::new(format!("scheduler '{text}': {what}"), GRAMMAR);
        let (head, settings_text) = match text.split_once(':') {
            Some((head, rest)) => (head, Some(rest)),
            None => (text, None),
        };
        let (name, version) = match head.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (head, None),
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() {
            return Err(wrong("the name is missing".to_owned()));
        }
        if let Some(c) = name.chars().find(|&c| !is_word(c)) {
            return Err(wrong(format!("a name has no {c:?}")));
        }
        if let Some(version) = version
            && (version.is_empty() || !version.chars().all(is_word))
        {
            return Err(wrong(format!("'{version}' after '@' is not a version (like 2.6.36)")));
        }
        let mut spec = SchedulerSpec { version: version.map(str::to_owned), ..SchedulerSpec::named(name) };
        for pair in settings_text.into_iter().flat_map(|rest| rest.split(',')) {
            let (key, value) = match pair.split_once('=') {
                _ if pair.is_empty() => return Err(wrong("a setting is missing behind ':' or ','".to_owned())),
                None => return Err(wrong(format!("setting '{pair}' has no '='"))),
                Some((key, value)) => (key.trim(), value.trim()),
            };
            if key.is_empty() || !key.chars().all(is_word) {
                return Err(wrong(format!("'{key}' in '{pair}' is not a name of a tunable")));
            }
            if value.is_empty() {
                return Err(wrong(format!("tunable '{key}' has no value")));
            }
            if let Some(before) = spec.setting(key) {
                return Err(wrong(format!("tunable '{key}' is given twice ({before} and {value})")));
            }
            spec.settings.push(Setting { key: key.to_owned(), value: value.to_owned() });
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_split_and_print_back() {
        let spec: SchedulerSpec = "cfq@2.6.36:slice_idle=0,quantum=8".parse().unwrap();
        assert_eq!((spec.name.as_str(), spec.version.as_deref()), ("cfq", Some("2.6.36")));
        assert_eq!((spec.setting("slice_idle"), spec.setting("quantum")), (Some("0"), Some("8")));
        assert_eq!(spec.to_string(), "cfq@2.6.36:slice_idle=0,quantum=8");
        assert_eq!(spec.slug(), "cfq_2.6.36_slice_idle_0_quantum_8");
    }

    #[test]
    fn json_is_the_text_itself() {
        let spec: SchedulerSpec = "bfq:low_latency=0".parse().unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(json, "\"bfq:low_latency=0\"");
        assert_eq!(serde_json::from_str::<SchedulerSpec>(&json).unwrap(), spec);
    }

    #[test]
    fn each_mistake_is_named() {
        let message = |text: &str| text.parse::<SchedulerSpec>().unwrap_err().message;
        assert_eq!(message(""), "scheduler '': the name is missing");
        assert_eq!(message("bf q"), "scheduler 'bf q': a name has no ' '");
        assert_eq!(message("cfq@"), "scheduler 'cfq@': '' after '@' is not a version (like 2.6.36)");
        assert_eq!(message("bfq:"), "scheduler 'bfq:': a setting is missing behind ':' or ','");
        assert_eq!(message("bfq:a"), "scheduler 'bfq:a': setting 'a' has no '='");
        assert_eq!(message("bfq:=1"), "scheduler 'bfq:=1': '' in '=1' is not a name of a tunable");
        assert_eq!(message("bfq:a="), "scheduler 'bfq:a=': tunable 'a' has no value");
        assert_eq!(message("bfq:a=1,a=2"), "scheduler 'bfq:a=1,a=2': tunable 'a' is given twice (1 and 2)");
    }
}
