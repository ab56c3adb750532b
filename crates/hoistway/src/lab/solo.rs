//! What each tenant of a page is entitled to: the rates of its solo runs, and its part by weight.
//!
//! `hoistway test` makes the same solo runs (docs/concepts/entitlement.md), as long as its other
//! runs. Here they are short, because a page waits for them.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::entitlement::{Claim, entitled};
use hoistway_experiment::solo::{crowd, outstanding};
use hoistway_experiment::{Experiment, Group};
use hoistway_simulator::Session;

use super::frame::GroupFrame;
use super::state::{State, Tenant};
use crate::error::Error;

/// A half of a solo run, of which the first is the ramp, ends with this many I/Os: the rate of random
/// ones is then exact within a percent.
const HALF_IOS: u64 = 5_000;
/// Or after this time, which is 500 seeks of a disk, and fills the page cache of the stories.
const HALF_NS: Nanos = 5 * SECOND;
/// The time between two looks at how many I/Os are done.
const LOOK_NS: Nanos = 5 * MILLISECOND;

/// Solo rates in bytes per second: alone, and of the full device.
type Rates = (f64, f64);

/// The solo rates of a page's tenants.
#[derive(Debug, Default)]
pub struct Solo {
    /// Each load that has run, with the most I/Os outstanding.
    known: BTreeMap<(String, u32), f64>,
    rates: Vec<Option<Rates>>,
}

impl Solo {
    /// Makes the runs that the loads of a state need and that are not known.
    pub fn measure(&mut self, state: &State) {
        let groups: Vec<Option<(Experiment, Group)>> =
            state.tenants.iter().map(|tenant| described(state, tenant).ok()).collect();
        let population = groups.iter().flatten().map(|(_, group)| outstanding(group)).fold(0, u32::saturating_add);
        let rates = groups.into_iter().zip(&state.tenants).map(|(described, tenant)| {
            let (experiment, group) = described?;
            let full = crowd(&group, population);
            let alone_per_s = self.rate(&experiment, tenant, group)?;
            Some((alone_per_s, self.rate(&experiment, tenant, full)?))
        });
        self.rates = rates.collect();
    }

    fn rate(&mut self, experiment: &Experiment, tenant: &Tenant, group: Group) -> Option<f64> {
        let nameless = Tenant { name: "solo".to_owned(), weight: 100, ..tenant.clone() };
        let key = (nameless.spec(), outstanding(&group));
        if let Some(per_s) = self.known.get(&key) {
            return Some(*per_s);
        }
        let run = Experiment { groups: [group].into_iter().collect(), ..experiment.clone() };
        let per_s = rate_of(&run)?;
        self.known.insert(key, per_s);
        Some(per_s)
    }

    /// The bytes per second that each tenant is entitled to now, among those that issue.
    pub fn due(&self, groups: &[GroupFrame]) -> Vec<Option<u64>> {
        let claim = |(group, rates): (&GroupFrame, &Option<Rates>)| {
            let (alone_per_s, full_per_s) = if group.rests { (0.0, 0.0) } else { rates.unwrap_or_default() };
            Claim { weight: f64::from(group.weight), alone_per_s, full_per_s }
        };
        let claims: Vec<Claim> = groups.iter().zip(&self.rates).map(claim).collect();
        // One that is not known might claim all.
        if groups.iter().zip(&self.rates).any(|(group, rates)| !group.rests && rates.is_none()) {
            return vec![None; groups.len()];
        }
        entitled(&claims).into_iter().map(|per_s| Some(whole(per_s))).collect()
    }
}

/// A rate as a whole number, which both simulations of a page write the same.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate: 0 to 10^12")]
fn whole(per_s: f64) -> u64 {
    per_s.max(0.0).round() as u64
}

/// A tenant alone on the device, without a scheduler.
fn described(state: &State, tenant: &Tenant) -> Result<(Experiment, Group), Error> {
    let alone = State {
        tenants: vec![Tenant { on: true, ..tenant.clone() }],
        schedulers: vec!["none".to_owned()],
        changes: Vec::new(),
        length_ms: 2 * HALF_NS / MILLISECOND,
        ..state.clone()
    };
    let experiment = alone.experiments()?.swap_remove(0);
    let group = experiment.groups[0].clone();
    Ok((experiment, group))
}

/// Bytes per second in the second half of a run; nothing if it cannot run.
fn rate_of(run: &Experiment) -> Option<f64> {
    let mut session = Session::start(run, &[]).ok()?;
    let mut half = |from: (Nanos, u64)| {
        loop {
            session.advance(session.now_ns() + LOOK_NS).ok()?;
            let figures = session.figures();
            let group = &figures.groups[0];
            if group.ios >= from.1 + HALF_IOS || session.now_ns() >= from.0 + HALF_NS || session.is_over() {
                return Some((session.now_ns(), group.ios, group.bytes));
            }
        }
    };
    let begin = half((0, 0))?;
    let end = half((begin.0, begin.1))?;
    (end.0 > begin.0).then(|| (end.2 - begin.2) as f64 * SECOND as f64 / (end.0 - begin.0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(weight: u32, rests: bool) -> GroupFrame {
        GroupFrame { weight, rests, ..GroupFrame::default() }
    }

    /// 4 of 32 I/Os outstanding: what it achieves alone, however large its weight; the other has the rest.
    #[test]
    fn a_tenant_is_due_no_more_than_it_achieves_alone() {
        let mut state = State::first("ssd-lsi", &[]).unwrap();
        state.tenants.truncate(2);
        state.tenants[1].depth = 4;
        let mut solo = Solo::default();
        solo.measure(&state);
        let due = |groups: &[GroupFrame]| solo.due(groups).into_iter().map(Option::unwrap).collect::<Vec<_>>();
        let (deep, shallow) = (solo.rates[0].unwrap(), solo.rates[1].unwrap());
        assert!(shallow.0 < 0.4 * shallow.1 && deep.0 > 0.9 * deep.1, "{deep:?} {shallow:?}");
        let both = due(&[frame(100, false), frame(800, false)]);
        assert_eq!(both[1], whole(shallow.0));
        assert!((both[0] as f64 / deep.1 + shallow.0 / shallow.1 - 1.0).abs() < 0.01, "{both:?}");
        assert_eq!(due(&[frame(100, true), frame(800, false)]), [0, whole(shallow.0)]);
        let known = solo.known.clone();
        solo.measure(&state);
        assert_eq!(solo.known, known);
    }
}
