//! Reports in the log which shares are not kept and why: once when a share is lost and once
//! when it is kept again.

use std::collections::BTreeMap;
use std::time::Duration;

use hoistway_engine::{DepthState, Saturation};
use tracing::info;

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

/// A share that is not kept any more, or is kept again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareChange {
    device: String,
    group: String,
    /// Why it is not kept; none if it is.
    why: Option<String>,
}

impl ShareChange {
    /// Puts it into the log.
    pub fn log(&self) {
        let Self { device, group, why } = self;
        match why {
            Some(why) => {
                info!(name: "share_missed", target: "share", device, group, why, "device '{device}': {why}");
            }
            None => {
                info!(name: "share_kept", target: "share", device, group, "device '{device}': {group} has its share again");
            }
        }
    }
}

/// The groups' states.
#[derive(Debug, Default)]
pub struct ShareMonitor {
    known: BTreeMap<(String, String), GroupState>,
}

impl ShareMonitor {
    /// What to report after a check of all devices.
    pub fn check(&mut self, devices: &[(String, Saturation)]) -> Vec<ShareChange> {
        let mut changes = Vec::new();
        let mut seen = BTreeMap::new();
        for (device, state) in devices {
            for group in &state.groups {
                let key = (device.clone(), group.path.clone());
                let mut known = self.known.remove(&key).unwrap_or_default();
                // Shares fluctuate while the depth is being learned.
                let is_change = known.is_reported == group.why.is_none() && state.depth_state != DepthState::Learning;
                known.against = if is_change { known.against + 1 } else { 0 };
                if known.against >= CHECKS_BEFORE_REPORT {
                    changes.push(ShareChange {
                        device: device.clone(),
                        group: group.name().to_owned(),
                        why: group.why.clone(),
                    });
                    known = GroupState { is_reported: !known.is_reported, against: 0 };
                }
                seen.insert(key, known);
            }
        }
        // A group that asks for no more than it gets is forgotten.
        self.known = seen;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_engine::GroupShare;

    fn device(why: Option<&str>) -> Vec<(String, Saturation)> {
        let why = why.map(str::to_owned);
        let group = GroupShare {
            group: 1,
            path: "db".into(),
            share: 0.8,
            due: 0.8,
            got: 0.2,
            outstanding: 4.0,
            most_outstanding: 4,
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
        let reported: Vec<ShareChange> = [Some("a"), Some("b"), Some("c"), None, None, None]
            .into_iter()
            .flat_map(|why| monitor.check(&device(why)))
            .collect();
        let change =
            |why: Option<&str>| ShareChange { device: "ssd0".into(), group: "db".into(), why: why.map(str::to_owned) };
        assert_eq!(reported, [change(Some("b")), change(None)]);
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
