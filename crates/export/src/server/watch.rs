//! Reports on standard error which shares are not kept and why, once when that begins and once when
//! it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Knowledge, Saturation};

/// The interval between two checks: long against the second over which the figures are means.
pub const PAUSE: Duration = Duration::from_secs(5);
/// This many checks in a row must agree before a report, so that a load that starts or stops is not
/// reported.
const AGREEING: u32 = 2;

/// The state of a group on a device.
#[derive(Copy, Clone, Debug, Default)]
struct Known {
    is_told: bool,
    /// Checks in a row that contradict the last report.
    against: u32,
}

/// The groups' states.
#[derive(Debug, Default)]
pub struct Watch {
    known: BTreeMap<(String, String), Known>,
}

impl Watch {
    /// The lines to report after a check of all devices.
    pub fn look(&mut self, devices: &[(String, Saturation)]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut seen = BTreeMap::new();
        for (device, state) in devices {
            for group in &state.groups {
                let key = (device.clone(), group.path.clone());
                let mut known = self.known.remove(&key).unwrap_or_default();
                // Shares fluctuate while the depth is being learned.
                let is_news = known.is_told == group.why.is_none() && state.knowledge != Knowledge::Learning;
                known.against = if is_news { known.against + 1 } else { 0 };
                if known.against >= AGREEING {
                    let again = || format!("{} has its share again", group.name());
                    let text = group.why.clone().unwrap_or_else(again);
                    lines.push(format!("hoistway: note: device '{device}': {text}"));
                    known = Known { is_told: !known.is_told, against: 0 };
                }
                seen.insert(key, known);
            }
        }
        // A group that asks for no more than it gets is forgotten.
        self.known = seen;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::GroupShare;

    fn device(why: Option<&str>) -> Vec<(String, Saturation)> {
        let why = why.map(str::to_owned);
        let group = GroupShare { group: 1, path: "db".into(), share: 0.8, due: 0.8, got: 0.2, outstanding: 4.0, why };
        let state = Saturation {
            knowledge: Knowledge::Saturated(32),
            is_saturated: true,
            needed: Some(32),
            exact: Some(5.0),
            in_flight: 32.0,
            text: String::new(),
            groups: vec![group],
        };
        vec![("ssd0".into(), state)]
    }

    #[test]
    fn what_lasts_is_said_once_and_once_more_when_it_is_over() {
        let mut watch = Watch::default();
        let lines: Vec<Vec<String>> = [Some("a"), Some("b"), Some("c"), None, None, None]
            .into_iter()
            .map(|why| watch.look(&device(why)))
            .collect();
        let said: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
        assert_eq!(said, ["hoistway: note: device 'ssd0': b", "hoistway: note: device 'ssd0': db has its share again"]);
    }

    #[test]
    fn who_comes_and_goes_is_not_talked_about() {
        let mut watch = Watch::default();
        for _ in 0..5 {
            assert!(watch.look(&device(Some("a"))).is_empty() && watch.look(&device(None)).is_empty());
        }
        assert!(watch.look(&device(Some("a"))).is_empty() && watch.look(&[]).is_empty());
        assert!(watch.look(&device(Some("a"))).is_empty());
    }
}
