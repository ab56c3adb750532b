//! Reports on standard error which shares are not kept and why: once when a share is lost and once
//! when it is kept again.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{DepthState, Saturation};

/// The interval between two checks: long compared with the second over which the figures are means.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// This many checks in a row must agree before a change is reported, so that the start or stop of a
/// load causes no report.
const CHECKS_BEFORE_REPORT: u32 = 2;

/// The state of a group on a device.
#[derive(Copy, Clone, Debug, Default)]
struct GroupState {
    is_reported: bool,
    /// Checks in a row that contradict the last report.
    against: u32,
}

/// The groups' states.
#[derive(Debug, Default)]
pub struct ShareMonitor {
    known: BTreeMap<(String, String), GroupState>,
}

impl ShareMonitor {
    /// The lines to report after a check of all devices.
    pub fn check(&mut self, devices: &[(String, Saturation)]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut seen = BTreeMap::new();
        for (device, state) in devices {
            for group in &state.groups {
                let key = (device.clone(), group.path.clone());
                let mut known = self.known.remove(&key).unwrap_or_default();
                // Shares fluctuate while the depth is being learned.
                let is_change = known.is_reported == group.why.is_none() && state.depth_state != DepthState::Learning;
                known.against = if is_change { known.against + 1 } else { 0 };
                if known.against >= CHECKS_BEFORE_REPORT {
                    let again = || format!("{} has its share again", group.name());
                    let text = group.why.clone().unwrap_or_else(again);
                    lines.push(format!("hoistway: note: device '{device}': {text}"));
                    known = GroupState { is_reported: !known.is_reported, against: 0 };
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
        let group = GroupShare {
            group: 1,
            path: "db".into(),
            share: 0.8,
            due: 0.8,
            got: 0.2,
            outstanding: 4.0,
            miss: None,
            why,
        };
        let state = Saturation {
            depth_state: DepthState::Saturated(32),
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
    fn a_lasting_state_is_reported_when_it_begins_and_when_it_ends() {
        let mut monitor = ShareMonitor::default();
        let lines: Vec<Vec<String>> = [Some("a"), Some("b"), Some("c"), None, None, None]
            .into_iter()
            .map(|why| monitor.check(&device(why)))
            .collect();
        let reported: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
        assert_eq!(
            reported,
            ["hoistway: note: device 'ssd0': b", "hoistway: note: device 'ssd0': db has its share again"]
        );
    }

    #[test]
    fn short_changes_are_not_reported() {
        let mut monitor = ShareMonitor::default();
        for _ in 0..5 {
            assert!(monitor.check(&device(Some("a"))).is_empty() && monitor.check(&device(None)).is_empty());
        }
        assert!(monitor.check(&device(Some("a"))).is_empty() && monitor.check(&[]).is_empty());
        assert!(monitor.check(&device(Some("a"))).is_empty());
    }
}
