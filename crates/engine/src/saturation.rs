//! Reports whether a device is saturated, and which groups miss their share because they have too few
//! requests outstanding: numbers and the sentences that `ctl status`, `top` and the server's log
//! show.
//!
//! What is due to a group is its entitlement now: by weight, at most what it would do if none of its
//! requests waited, and of what others leave. That cap is seen from here by Little's law:
//!
//! ```text
//! N = most requests seen outstanding, L = mean here, W = mean of those waiting, A = N - L at the client
//! cap = got x N / (A + L - W) = got x N / (N - W)
//! ```
//!
//! Source: docs/concepts/entitlement.md.
//!
//! Shares are exact only while every tenant has its share of the requests in flight, so each tenant
//! bounds their number to outstanding / share. The least of these bounds is N*; where the device
//! needs more than N* to be saturated, at least one share cannot be reached. Source:
//! docs/specifications/paternoster.md, section 3.1.

use std::collections::BTreeMap;

use hoistway_experiment::share::water_fill;

use crate::depth::DepthState;
use crate::turn::Window;

/// A group with fewer requests outstanding on average gets all it asks for and does not compete.
const DEMAND_MIN: f64 = 0.5;
/// A share counts as kept if the service received is within this fraction of the service due.
const SHARE_TOLERANCE: f64 = 0.05;
/// A group is limited by itself if limiters kept its requests waiting for most of the time.
const THROTTLED_MIN: f64 = 0.5;
/// A depth given by the user counts as used up if this fraction of it is in flight on average.
const FULL_FRACTION: f64 = 0.9;

/// A group's measurements over at least the last second.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub group: u32,
    pub parent: u32,
    pub path: String,
    pub weight: u32,
    pub window: Window,
}

impl Tenant {
    fn is_demanding(&self) -> bool {
        self.window.outstanding >= DEMAND_MIN
    }

    fn is_limited(&self) -> bool {
        self.window.throttled >= THROTTLED_MIN
    }

    /// Bytes that it would have moved if none of its requests had waited; `None` if all of them
    /// waited all the time, which sets no bound.
    fn cap_bytes(&self) -> Option<f64> {
        let Window { waiting, most_outstanding, bytes, .. } = self.window;
        let (most, bytes) = (f64::from(most_outstanding), bytes as f64);
        if self.is_limited() || waiting <= 0.0 {
            return Some(bytes);
        }
        let busy = most - waiting;
        (busy > 0.0 && bytes > 0.0).then(|| bytes * most / busy)
    }
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
    /// The fraction of the total service that it is entitled to, 0 to 1: by weight, at most what it
    /// would do if none of its requests waited, and of what others leave.
    pub due: f64,
    /// The fraction of the total service that it got, 0 to 1.
    pub got: f64,
    /// Mean number of unanswered requests.
    pub outstanding: f64,
    /// The most unanswered requests at a time: what its client keeps, here and on the way.
    pub most_outstanding: u32,
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
    /// Got / due, 0 to 1: what is above counts as all of it.
    pub fn isolation(&self) -> f64 {
        if self.due > 0.0 { (self.got / self.due).min(1.0) } else { 1.0 }
    }

    /// The group's name in sentences.
    pub fn name(&self) -> &str {
        if self.path.is_empty() { "the root group" } else { &self.path }
    }
}

impl Saturation {
    /// Got / due of the group that is worst off, 0 to 1; `None` with fewer than two groups that ask
    /// for more.
    pub fn isolation(&self) -> Option<f64> {
        let least = self.groups.iter().map(GroupShare::isolation).reduce(f64::min);
        least.filter(|_| self.groups.len() >= 2)
    }

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
        let demanding: Vec<&Tenant> = tenants.iter().filter(|tenant| tenant.is_demanding()).collect();
        let total: u64 = tenants.iter().map(|tenant| tenant.window.bytes).sum();
        let part = |bytes: f64| if total > 0 { bytes / total as f64 } else { 0.0 };
        let by_weight = divided(tenants, 1.0, |tenant| (!tenant.is_demanding()).then_some(0.0));
        let entitled = divided(tenants, total as f64, Tenant::cap_bytes);
        let of = |parts: &BTreeMap<u32, f64>, tenant: &Tenant| parts.get(&tenant.group).copied().unwrap_or(0.0);
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
            state.groups.push(GroupShare {
                group: tenant.group,
                path: tenant.path.clone(),
                share: of(&by_weight, tenant),
                due: part(of(&entitled, tenant)),
                got: part(tenant.window.bytes as f64),
                outstanding: tenant.window.outstanding,
                most_outstanding: tenant.window.most_outstanding,
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
        // The rest of the service goes to those that ask for no more than they get.
        let theirs: f64 = self.groups.iter().map(|group| group.got).sum();
        if group.got >= group.share * theirs * (1.0 - SHARE_TOLERANCE) {
            return None;
        }
        // What it cannot use by itself is not withheld from it.
        let is_kept = group.got >= group.due * (1.0 - SHARE_TOLERANCE);
        let (path, percent) = (group.name(), shown_percent(group.share));
        let keeps = format!("{path} keeps {} outstanding", requests(group.outstanding));
        Some(match (self.needed, self.depth_state) {
            _ if !has_shares => {
                let text = format!("{path} is due {percent} %, but this scheduler ignores weights");
                (ShareMiss::IgnoresWeights, text)
            }
            _ if tenant.is_limited() => {
                (ShareMiss::Limit, format!("{path} gets what its limit allows; its share by weight is {percent} %"))
            }
            _ if is_kept && away(group) => {
                let (here, most) = (shown_count(group.outstanding), group.most_outstanding);
                let text = format!(
                    "{path} keeps {here} of its {most} requests here; the others are at its client: more connections \
                     or threads would help, a weight would not"
                );
                (ShareMiss::TooFewRequests, text)
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
            (None, DepthState::Learning) if self.is_held_back() => {
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
        let isolation = self.isolation().map(|part| format!("; isolation {} %", shown_percent(part)));
        let state = match (self.needed, self.depth_state) {
            (Some(needed), _) => format!("saturated by {}{exact}", requests(f64::from(needed))),
            (None, DepthState::Learning) if self.groups.is_empty() || self.is_held_back() => {
                format!("the depth that saturates it is being measured{exact}")
            }
            (None, DepthState::Learning) => format!("not saturated: {in_flight} in flight, and none waits"),
            (None, DepthState::Fixed) => {
                format!("not known to be saturated: {in_flight} in flight of a depth of {limit}")
            }
            (None, DepthState::Idle) => "not measured: fewer than two groups keep it busy".to_owned(),
            (None, _) => format!("not saturated: {in_flight} in flight, and fewer would be slower{exact}"),
        };
        state + &isolation.unwrap_or_default()
    }
}

/// Whether at least one of its requests is at its client on average.
fn away(group: &GroupShare) -> bool {
    f64::from(group.most_outstanding) - group.outstanding >= 1.0
}

fn shown_count(count: f64) -> String {
    let shown = if count < 10.0 { format!("{count:.1}") } else { format!("{count:.0}") };
    shown.strip_suffix(".0").unwrap_or(&shown).to_owned()
}

fn requests(count: f64) -> String {
    let shown = shown_count(count);
    if shown == "1" { "1 request".to_owned() } else { format!("{shown} requests") }
}

/// Rounds to per cents, small values to tenths.
fn shown_percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Divides `capacity` by weight, level by level of the tree, among tenants with at most `cap` each. A
/// group's own requests count as one of its children. By group.
fn divided(tenants: &[Tenant], capacity: f64, cap: impl Fn(&Tenant) -> Option<f64>) -> BTreeMap<u32, f64> {
    let caps: BTreeMap<u32, Option<f64>> = tenants.iter().map(|tenant| (tenant.group, cap(tenant))).collect();
    let mut parts = BTreeMap::new();
    let roots: Vec<&Tenant> = tenants.iter().filter(|it| is_root(it, tenants)).collect();
    share_out(&roots, tenants, &caps, capacity, &mut parts);
    parts
}

/// A group without a parent among the tenants.
fn is_root(tenant: &Tenant, all: &[Tenant]) -> bool {
    tenant.parent == tenant.group || !all.iter().any(|other| other.group == tenant.parent)
}

fn children<'a>(of: &Tenant, all: &'a [Tenant]) -> Vec<&'a Tenant> {
    all.iter().filter(|it| it.parent == of.group && it.group != of.group).collect()
}

/// The most that a group and those below it can use; `None` without a bound.
fn cap_below(tenant: &Tenant, all: &[Tenant], caps: &BTreeMap<u32, Option<f64>>) -> Option<f64> {
    let own = caps.get(&tenant.group).copied().flatten()?;
    children(tenant, all).iter().try_fold(own, |sum, child| Some(sum + cap_below(child, all, caps)?))
}

fn share_out(
    level: &[&Tenant],
    all: &[Tenant],
    caps: &BTreeMap<u32, Option<f64>>,
    capacity: f64,
    parts: &mut BTreeMap<u32, f64>,
) {
    let parties: Vec<_> = level.iter().map(|it| (f64::from(it.weight), cap_below(it, all, caps))).collect();
    for (tenant, part) in level.iter().zip(water_fill(capacity, &parties)) {
        let below = children(tenant, all);
        let own = (f64::from(tenant.weight), caps.get(&tenant.group).copied().flatten());
        let inner: Vec<_> = std::iter::once(own)
            .chain(below.iter().map(|it| (f64::from(it.weight), cap_below(it, all, caps))))
            .collect();
        let divided = water_fill(part, &inner);
        parts.insert(tenant.group, divided[0]);
        for (child, part) in below.iter().zip(&divided[1..]) {
            share_out(&[child], all, caps, *part, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group whose requests all wait, but for one.
    fn tenant(group: u32, parent: u32, weight: u32, outstanding: f64, bytes: u64) -> Tenant {
        let path = ["", "db", "ci", "db/a", "db/b"][group as usize].to_owned();
        let most_outstanding = (0..1_000).find(|count| f64::from(*count) >= outstanding).expect("a small number");
        let waiting = (outstanding - 0.1).max(0.0);
        let window = Window { outstanding, waiting, most_outstanding, bytes, throttled: 0.0 };
        Tenant { group, parent, path, weight, window }
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
        assert_eq!(state.text, "saturated by 32 requests; shares can be exact with up to 5; isolation 25 %");
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
            (true, "saturated by 64 requests; shares can be exact with up to 36; isolation 56 %")
        );
        assert!(!full.groups[0].why.as_deref().expect("a cause").contains("saturate"));
        // While nothing waits there is nothing to be measured: it is said at once.
        let (is_saturated, text) = why(DepthState::Learning, true);
        assert!(!is_saturated && text.contains("no request is queued"), "{text}");
        let learning = Saturation::of(&tenants, DepthState::Learning, 20.0, 128, true);
        assert!(learning.groups[0].why.as_deref().expect("a cause").contains("is being measured"));
        assert!(why(DepthState::Fixed, false).1.contains("ignores weights"));
        let (is_saturated, text) = why(DepthState::Saturated(8), true);
        assert!(is_saturated && text.ends_with("enough for its share of 89 %; the scheduler gave it 50 %"), "{text}");
    }

    /// The worked example of docs/concepts/entitlement.md.
    #[test]
    fn what_is_due_is_at_most_what_a_group_can_use() {
        // Of db's 32 requests 9 are here and 2 of them wait, so that it would do 32 / 30 of what it
        // does if none had to wait.
        let window = |outstanding, waiting, most_outstanding, bytes| Window {
            outstanding,
            waiting,
            most_outstanding,
            bytes,
            throttled: 0.0,
        };
        let db = Tenant { window: window(9.0, 2.0, 32, 30), ..tenant(1, 0, 400, 0.0, 0) };
        let ci = Tenant { window: window(64.0, 50.0, 64, 70), ..tenant(2, 0, 100, 0.0, 0) };
        let state = Saturation::of(&[root(), db.clone(), ci.clone()], DepthState::Saturated(21), 21.0, 32, true);
        let [of_db, of_ci] = &state.groups[..] else { panic!("two groups") };
        assert!(near(of_db.share, 0.8) && near(of_db.due, 0.32) && near(of_db.got, 0.3), "{of_db:?}");
        assert!(near(of_ci.due, 0.68) && near(of_ci.isolation(), 1.0) && near(state.isolation().unwrap(), 0.9375));
        // With weights 100:100 db is entitled to the same, and is the same part below it.
        let busy = Tenant { window: window(9.0, 0.2, 32, 30), ..db };
        let state = Saturation::of(&[root(), busy.clone(), ci.clone()], DepthState::Saturated(21), 21.0, 32, true);
        let sentence = "db keeps 9 of its 32 requests here; the others are at its client: more connections or threads \
                        would help, a weight would not";
        assert_eq!(state.groups[0].why.as_deref(), Some(sentence));
        assert!(state.isolation().unwrap() > 0.99);
        // A limit of its own is no fault of the scheduler, either.
        let window = Window { throttled: 0.9, waiting: 8.0, ..busy.window };
        let limited = Tenant { window, ..busy };
        let state = Saturation::of(&[root(), limited, ci], DepthState::Saturated(21), 21.0, 32, true);
        let sentence = "db gets what its limit allows; its share by weight is 80 %";
        assert_eq!((state.groups[0].why.as_deref(), state.groups[0].isolation()), (Some(sentence), 1.0));
    }

    /// Any tenants in a tree of two levels, under a scheduler that gives each its entitlement, and under
    /// one that gives one of them nearly nothing.
    #[test]
    fn exact_service_is_isolation_and_starving_is_none_whatever_the_tenants() {
        let mut random = hoistway_block::random::Stream::new(51);
        for round in 0..2_000 {
            let mut below = |most: u64| random.below(most);
            let count = 2 + u32::try_from(below(6)).unwrap();
            let parents: Vec<u32> = (0..=count).map(|_| u32::try_from(below(2)).unwrap()).collect();
            let weights: Vec<u32> = (0..=count).map(|_| 1 + u32::try_from(below(1_000)).unwrap()).collect();
            // What each can use, in thousandths of the device; the second can use all of it.
            let demand = |at| match at {
                0 => 0.0,
                2 => 5_000.0,
                _ => (400 + below(3_000)) as f64,
            };
            let demands: Vec<f64> = (0..=count).map(demand).collect();
            let tenant = |at: u32, got: f64| {
                let demand = demands[at as usize];
                let waiting = if demand > got { 1_000.0 * (1.0 - got / demand) } else { 0.0 };
                let outstanding = if demand > 0.0 { 1_000.0 } else { 0.0 };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive amount")]
                let bytes = (got * 1e9) as u64;
                let window = Window { outstanding, waiting, most_outstanding: 1_000, bytes, throttled: 0.0 };
                // The root, two groups below it, and others below the root or the first of them.
                let parent = if at > 2 { parents[at as usize] } else { 0 };
                Tenant { group: at, parent, path: format!("g{at}"), weight: weights[at as usize], window }
            };
            let all: Vec<Tenant> = (0..=count).map(|at| tenant(at, demands[at as usize])).collect();
            let entitled = divided(&all, 1_000.0, |it| Some(demands[it.group as usize]));
            let fair: Vec<Tenant> = (0..=count).map(|at| tenant(at, entitled[&at])).collect();
            let isolation = Saturation::of(&fair, DepthState::Saturated(9), 9.0, 9, true).isolation().unwrap();
            assert!(isolation > 0.999, "{round}: {isolation} {fair:?}");
            // What the first does not get the second does.
            let taken = entitled[&1] * 0.99;
            let starved = |at| {
                entitled[&at]
                    + if at == 1 {
                        -taken
                    } else if at == 2 {
                        taken
                    } else {
                        0.0
                    }
            };
            let starved: Vec<Tenant> = (0..=count).map(|at| tenant(at, starved(at))).collect();
            let isolation = Saturation::of(&starved, DepthState::Saturated(9), 9.0, 9, true).isolation().unwrap();
            assert!(isolation < 0.05, "{round}: {isolation} {starved:?}");
        }
    }

    #[test]
    fn who_gets_nothing_is_due_its_share() {
        for (bytes, isolation) in [(0, 0.0), (1, 0.0125)] {
            let tenants = [root(), tenant(1, 0, 400, 16.0, bytes), tenant(2, 0, 100, 16.0, 100 - bytes)];
            let state = Saturation::of(&tenants, DepthState::Saturated(8), 8.0, 8, true);
            assert!(near(state.groups[0].due, 0.8) && near(state.isolation().unwrap(), isolation), "{state:?}");
        }
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
