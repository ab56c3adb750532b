//! Reports whether a device is saturated, and which groups miss their share because they have too few
//! requests outstanding: numbers and the sentences that `ctl status`, `top` and the server's log
//! show.
//!
//! Shares are exact only while every tenant has its share of the requests in flight, so each tenant
//! bounds their number to outstanding / share. The least of these bounds is N*; where the device
//! needs more than N* to be saturated, at least one share cannot be reached. Source:
//! docs/specifications/paternoster.md, section 3.1.

use crate::depth::DepthState;

/// A group with fewer requests outstanding on average gets all it asks for and does not compete.
const DEMAND_MIN: f64 = 0.5;
/// A share counts as kept if the service received is within this fraction of the service due.
const SHARE_TOLERANCE: f64 = 0.05;
/// A depth given by the user counts as used up if this fraction of it is in flight on average.
const FULL_FRACTION: f64 = 0.9;

/// A group's measurements over at least the last second.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub group: u32,
    pub parent: u32,
    pub path: String,
    pub weight: u32,
    /// Mean number of unanswered requests.
    pub outstanding: f64,
    pub bytes: u64,
    pub is_limited: bool,
}

/// Why a share is not kept.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ShareMiss {
    /// The scheduler knows no weights.
    IgnoresWeights,
    /// A limit of the group's own caps it.
    Limit,
    /// The group keeps fewer requests outstanding than its share needs.
    TooFewRequests,
    /// The group keeps enough requests outstanding, and the scheduler gave it less.
    Scheduler,
    /// The depth that the device needs is being measured.
    Measuring,
    /// All requests are in flight and do not saturate the device, so weights have no effect.
    NotSaturated,
}

impl ShareMiss {
    /// All causes.
    pub const ALL: [ShareMiss; 6] = [
        ShareMiss::IgnoresWeights,
        ShareMiss::Limit,
        ShareMiss::TooFewRequests,
        ShareMiss::Scheduler,
        ShareMiss::Measuring,
        ShareMiss::NotSaturated,
    ];

    /// The cause as a word of metrics: `too_few_requests`.
    pub const fn word(self) -> &'static str {
        match self {
            ShareMiss::IgnoresWeights => "ignores_weights",
            ShareMiss::Limit => "limit",
            ShareMiss::TooFewRequests => "too_few_requests",
            ShareMiss::Scheduler => "scheduler",
            ShareMiss::Measuring => "measuring",
            ShareMiss::NotSaturated => "not_saturated",
        }
    }
}

/// A group that asks for more than it gets.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupShare {
    /// Its number.
    pub group: u32,
    /// Its path; empty for the root.
    pub path: String,
    /// Its share by weight among the groups that ask for more, 0 to 1.
    pub share: f64,
    /// The fraction of the total service due to it, 0 to 1.
    pub due: f64,
    /// The fraction of the total service that it got, 0 to 1.
    pub got: f64,
    /// Mean number of unanswered requests.
    pub outstanding: f64,
    /// Why its share was not kept; none if it was.
    pub miss: Option<ShareMiss>,
    /// The same as a sentence.
    pub why: Option<String>,
}

/// A device's measurements over at least the last second.
#[derive(Clone, PartialEq, Debug)]
pub struct Saturation {
    /// The state of learning its depth.
    pub depth_state: DepthState,
    /// Whether more requests in flight would not make it faster.
    pub is_saturated: bool,
    /// Requests in flight that saturate it (n), if known.
    pub needed: Option<u32>,
    /// Requests in flight up to which shares can be exact (N*); none with fewer than two groups
    /// that ask for more.
    pub exact: Option<f64>,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// The state as a sentence.
    pub text: String,
    /// The groups that ask for more than they get.
    pub groups: Vec<GroupShare>,
}

impl GroupShare {
    /// The group's name in sentences.
    pub fn name(&self) -> &str {
        if self.path.is_empty() { "the root group" } else { &self.path }
    }
}

impl Saturation {
    /// Derives the state from the measurements.
    pub(crate) fn of(
        tenants: &[Tenant],
        depth_state: DepthState,
        in_flight: f64,
        limit: u32,
        has_shares: bool,
    ) -> Self {
        let needed = match depth_state {
            DepthState::Saturated(depth) => Some(depth),
            // A full device makes requests wait, even if it would be faster with more.
            DepthState::Fixed | DepthState::Unsaturated if in_flight >= FULL_FRACTION * f64::from(limit) => Some(limit),
            _ => None,
        };
        let demanding: Vec<&Tenant> = tenants.iter().filter(|tenant| tenant.outstanding >= DEMAND_MIN).collect();
        let total: u64 = tenants.iter().map(|tenant| tenant.bytes).sum();
        let theirs: u64 = demanding.iter().map(|tenant| tenant.bytes).sum();
        let part = |bytes: u64| if total > 0 { bytes as f64 / total as f64 } else { 0.0 };
        let mut state = Self {
            depth_state,
            is_saturated: needed.is_some(),
            needed,
            exact: None,
            in_flight,
            text: String::new(),
            groups: Vec::new(),
        };
        for tenant in &demanding {
            let share = share_of(tenant, tenants, &demanding);
            let (due, got) = (share * part(theirs), part(tenant.bytes));
            let outstanding = tenant.outstanding;
            let path = tenant.path.clone();
            state.groups.push(GroupShare {
                group: tenant.group,
                path,
                share,
                due,
                got,
                outstanding,
                miss: None,
                why: None,
            });
        }
        if state.groups.len() >= 2 {
            state.exact = state.groups.iter().map(|group| group.outstanding / group.share.max(1e-9)).reduce(f64::min);
            let whys: Vec<_> =
                state.groups.iter().zip(&demanding).map(|it| state.why(it.0, it.1, has_shares)).collect();
            state.groups.iter_mut().zip(whys).for_each(|(group, why)| {
                (group.miss, group.why) = why.unzip();
            });
        }
        state.text = state.sentence(limit);
        state
    }

    fn why(&self, group: &GroupShare, tenant: &Tenant, has_shares: bool) -> Option<(ShareMiss, String)> {
        if group.got >= group.due * (1.0 - SHARE_TOLERANCE) {
            return None;
        }
        let (path, percent) = (group.name(), shown_percent(group.share));
        let keeps = format!("{path} keeps {} outstanding", requests(group.outstanding));
        Some(match (self.needed, self.depth_state) {
            _ if !has_shares => {
                let text = format!("{path} is due {percent} %, but this scheduler ignores weights");
                (ShareMiss::IgnoresWeights, text)
            }
            _ if tenant.is_limited => {
                (ShareMiss::Limit, format!("{path} is due {percent} %, but a limit of its own caps it"))
            }
            (Some(needed), _) => {
                let needs = group.share * f64::from(needed);
                if group.outstanding < needs {
                    let text = format!(
                        "{keeps}; its share of {percent} % needs {:.0}: more connections or threads at its client \
                         would help, a weight would not",
                        needs.ceil()
                    );
                    (ShareMiss::TooFewRequests, text)
                } else {
                    let got = shown_percent(group.got);
                    let text = format!("{keeps}, enough for its share of {percent} %; the scheduler gave it {got} %");
                    (ShareMiss::Scheduler, text)
                }
            }
            (None, DepthState::Learning) => {
                let text = format!("{keeps}; the number that its share of {percent} % needs is being measured");
                (ShareMiss::Measuring, text)
            }
            (None, _) if self.is_held_back() => {
                let text = format!(
                    "{keeps}, and only {} of all groups are in flight in the device: the scheduler holds the others \
                     back",
                    requests(self.in_flight)
                );
                (ShareMiss::Scheduler, text)
            }
            (None, _) => {
                let text = format!(
                    "{keeps}, and all of them are in flight in the device, which {} do not saturate: weights have no \
                     effect while no request is queued",
                    requests(self.in_flight)
                );
                (ShareMiss::NotSaturated, text)
            }
        })
    }

    /// Whether requests of the demanding groups wait although the device is not full.
    fn is_held_back(&self) -> bool {
        let outstanding: f64 = self.groups.iter().map(|group| group.outstanding).sum();
        self.in_flight < outstanding * (1.0 - SHARE_TOLERANCE)
    }

    fn sentence(&self, limit: u32) -> String {
        let in_flight = requests(self.in_flight);
        let exact = self.exact.map_or(String::new(), |exact| format!("; shares can be exact with up to {exact:.0}"));
        match (self.needed, self.depth_state) {
            (Some(needed), _) => format!("saturated by {}{exact}", requests(f64::from(needed))),
            (None, DepthState::Learning) => format!("the depth that saturates it is being measured{exact}"),
            (None, DepthState::Fixed) => {
                format!("not known to be saturated: {in_flight} in flight of a depth of {limit}")
            }
            (None, DepthState::Idle) => "not measured: fewer than two groups keep it busy".to_owned(),
            (None, _) => format!("not saturated: {in_flight} in flight, and fewer would be slower{exact}"),
        }
    }
}

fn requests(count: f64) -> String {
    let shown = if count < 10.0 { format!("{count:.1}") } else { format!("{count:.0}") };
    let shown = shown.strip_suffix(".0").unwrap_or(&shown);
    if shown == "1" { "1 request".to_owned() } else { format!("{shown} requests") }
}

/// Rounds to per cents, small values to tenths.
fn shown_percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// The share that the weights promise, level by level, among groups that ask for more. A group's
/// own requests count as one of its children.
fn share_of(tenant: &Tenant, all: &[Tenant], demanding: &[&Tenant]) -> f64 {
    let above = |group: u32| all.iter().find(|tenant| tenant.group == group).map(|tenant| tenant.parent);
    // A tree of groups has fewer levels than groups.
    let path_of = |group: u32| {
        let mut path = vec![group];
        while let Some(parent) = path.last().and_then(|last| above(*last)).filter(|parent| !path.contains(parent)) {
            path.push(parent);
        }
        path
    };
    let is_demanding = |group: u32| demanding.iter().any(|other| path_of(other.group).contains(&group));
    let mut share = 1.0;
    for &node in &path_of(tenant.group) {
        let Some(own) = all.iter().find(|other| other.group == node) else { continue };
        // First the group's own requests beside the groups below it; then each node beside its
        // siblings.
        if node == tenant.group {
            let below: u32 = all
                .iter()
                .filter(|it| it.parent == node && it.group != node && is_demanding(it.group))
                .map(|it| it.weight)
                .sum();
            share *= f64::from(own.weight) / f64::from(own.weight + below);
        }
        if own.parent == node {
            continue;
        }
        let siblings =
            all.iter().filter(|it| it.parent == own.parent && it.group != own.parent && is_demanding(it.group));
        let parents_own = demanding.iter().find(|it| it.group == own.parent).map_or(0, |it| it.weight);
        let weights = siblings.map(|it| it.weight).sum::<u32>() + parents_own;
        share *= f64::from(own.weight) / f64::from(weights.max(1));
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(group: u32, parent: u32, weight: u32, outstanding: f64, bytes: u64) -> Tenant {
        let path = ["", "db", "ci", "db/a", "db/b"][group as usize].to_owned();
        Tenant { group, parent, path, weight, outstanding, bytes, is_limited: false }
    }

    fn root() -> Tenant {
        tenant(0, 0, 100, 0.0, 0)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn a_group_with_too_few_requests_gets_the_number_it_needs() {
        let tenants = [root(), tenant(1, 0, 400, 4.0, 20), tenant(2, 0, 100, 60.0, 80)];
        let state = Saturation::of(&tenants, DepthState::Saturated(32), 32.0, 32, true);
        assert_eq!((state.is_saturated, state.needed, state.exact), (true, Some(32), Some(5.0)));
        assert_eq!(
            state.groups[0].why.as_deref(),
            Some(
                "db keeps 4 requests outstanding; its share of 80 % needs 26: more connections or threads at its client would help, a weight would not"
            )
        );
        assert_eq!((state.groups[0].miss, state.groups[1].miss), (Some(ShareMiss::TooFewRequests), None));
        assert_eq!(state.groups[1].why, None);
        assert_eq!(state.text, "saturated by 32 requests; shares can be exact with up to 5");
    }

    #[test]
    fn every_other_cause_has_its_sentence() {
        let tenants = [root(), tenant(1, 0, 800, 32.0, 50), tenant(2, 0, 100, 32.0, 50)];
        let why = |depth_state, has_shares| {
            let state = Saturation::of(&tenants, depth_state, 64.0, 128, has_shares);
            (state.is_saturated, state.groups[0].why.clone().expect("it is far from its due"))
        };
        let (is_saturated, text) = why(DepthState::Unsaturated, true);
        assert!(!is_saturated && text.contains("which 64 requests do not saturate"), "{text}");
        // The row above says that requests are queued; the sentence does not deny it.
        let held = Saturation::of(&tenants, DepthState::Unsaturated, 20.0, 128, true);
        let text = held.groups[0].why.as_deref().expect("a cause");
        assert_eq!(held.groups[0].miss, Some(ShareMiss::Scheduler));
        assert!(text.ends_with(
            "only 20 requests of all groups are in flight in the device: the scheduler holds the others back"
        ));
        let full = Saturation::of(&tenants, DepthState::Unsaturated, 62.0, 64, true);
        assert_eq!(
            (full.is_saturated, full.text.as_str()),
            (true, "saturated by 64 requests; shares can be exact with up to 36")
        );
        assert!(!full.groups[0].why.as_deref().expect("a cause").contains("saturate"));
        assert!(why(DepthState::Learning, true).1.contains("is being measured"));
        assert!(why(DepthState::Fixed, false).1.contains("ignores weights"));
        let (is_saturated, text) = why(DepthState::Saturated(8), true);
        assert!(is_saturated && text.ends_with("enough for its share of 89 %; the scheduler gave it 50 %"), "{text}");
    }

    #[test]
    fn shares_are_computed_level_by_level_of_the_group_tree() {
        let tenants = [
            root(),
            tenant(1, 0, 300, 0.0, 0),
            tenant(2, 0, 100, 9.0, 25),
            tenant(3, 1, 100, 9.0, 25),
            tenant(4, 1, 200, 9.0, 50),
        ];
        let state = Saturation::of(&tenants, DepthState::Saturated(8), 8.0, 8, true);
        let shares: Vec<f64> = state.groups.iter().map(|group| group.share).collect();
        assert!(near(shares[0], 0.25) && near(shares[1], 0.25) && near(shares[2], 0.5), "{shares:?}");
        assert!(state.groups.iter().all(|group| group.why.is_none()));
        // A group that asks for almost nothing is left out: 300 of 100 + 300 becomes 100 %.
        let idle = [root(), tenant(1, 0, 300, 8.0, 99), tenant(2, 0, 100, 0.1, 1)];
        let state = Saturation::of(&idle, DepthState::Idle, 8.0, 128, true);
        assert!(near(state.groups[0].share, 1.0) && state.exact.is_none());
    }
}
