//! The end of a period: deactivates idle groups, decides which groups lend, and judges the device.
//! Apart from a drain, no other part of io.cost takes a time proportional to the number of groups.

use super::IoCost;
use super::clock::{Vtime, ahead, scaled};
use super::donation::{Loans, TARGET_PERCENT};
use super::hweight::ONE;
use super::model::PERCENT_PPM;
use super::vrate::Findings;
use hoistway_block::{GroupId, Nanos};

/// The margins `low` and `min`, in per cent of a period.
const LOW_PERCENT: u64 = 20;
const MIN_PERCENT: u64 = 10;
/// Timers of waiting bios fire late by this part of a period.
const SLACK_PERCENT: u64 = 1;
const PERIOD_NS: (Nanos, Nanos) = (1_000_000, 1_000_000_000);
/// I/O that was issued more periods ago than this is ignored when it is judged whether the device
/// is late.
const MOST_LAGGING_PERIODS: u64 = 10;

/// Thresholds for a group's budget, that is, for how far its virtual time lags the device's.
#[derive(Copy, Clone, Debug)]
pub struct Margins {
    /// The budget that a group starts with, and that lenders should keep.
    pub target: Vtime,
    /// With less than this a group does not start to lend, and takes back what it lends.
    pub low: Vtime,
    /// With less than this it stops lending.
    pub min: Vtime,
}

/// The present period, its length, and the margins that follow from it.
///
/// Invariant: it has an end exactly while the device's clock runs.
#[derive(Debug)]
pub struct Period {
    length_ns: Nanos,
    slack_ns: Nanos,
    margins: Margins,
    index: u64,
    start_ns: Nanos,
    start_vtime: Vtime,
    end: Option<Nanos>,
}

impl Period {
    pub const NONE: Self = Self {
        length_ns: 1,
        slack_ns: 0,
        margins: Margins { target: 0, low: 0, min: 0 },
        index: 0,
        start_ns: 0,
        start_vtime: 0,
        end: None,
    };

    #[inline]
    pub const fn length_ns(&self) -> Nanos {
        self.length_ns
    }

    /// How late timers of waiting bios may fire.
    #[inline]
    pub const fn slack_ns(&self) -> Nanos {
        self.slack_ns
    }

    #[inline]
    pub const fn margins(&self) -> &Margins {
        &self.margins
    }

    /// Its number.
    #[inline]
    pub const fn index(&self) -> u64 {
        self.index
    }

    #[inline]
    pub const fn start_vtime(&self) -> Vtime {
        self.start_vtime
    }

    #[inline]
    pub const fn end(&self) -> Option<Nanos> {
        self.end
    }

    #[inline]
    pub const fn is_running(&self) -> bool {
        self.end.is_some()
    }

    /// Its length on a clock that runs at this rate.
    pub const fn vtime_at(&self, rate: u64) -> Vtime {
        (self.length_ns / 1_000).saturating_mul(rate)
    }

    /// Sets the length of the periods that begin from now on.
    fn set_length(&mut self, length_ns: Nanos) {
        let (least, most) = PERIOD_NS;
        self.length_ns = length_ns.clamp(least, most);
        self.slack_ns = self.length_ns / 100 * SLACK_PERCENT;
    }

    /// Sets the margins for a clock that runs at this rate.
    pub const fn set_margins(&mut self, rate: u64) {
        let hundredth = self.vtime_at(rate) / 100;
        self.margins = Margins {
            target: hundredth.saturating_mul(TARGET_PERCENT),
            low: hundredth.saturating_mul(LOW_PERCENT),
            min: hundredth.saturating_mul(MIN_PERCENT),
        };
    }

    /// A period begins, when the device's clock shows `vnow`.
    pub const fn start(&mut self, now: Nanos, vnow: Vtime) {
        (self.start_ns, self.start_vtime) = (now, vnow);
        self.prolong(now);
    }

    /// The present period goes on for one more length.
    const fn prolong(&mut self, now: Nanos) {
        self.end = Some(now.saturating_add(self.length_ns));
    }

    /// The period is over: the next one has another number.
    const fn finish(&mut self) {
        self.index = self.index.wrapping_add(1);
    }

    /// No period runs.
    const fn stop(&mut self) {
        self.end = None;
    }
}

/// Use of the device by all groups in a period.
#[derive(Copy, Clone, Debug, Default)]
struct Survey {
    findings: Findings,
    loans: Loans,
    lenders: u32,
}

impl IoCost {
    /// Recomputes the period and margins after a change of parameters.
    pub(super) fn refresh_period(&mut self) {
        let qos = &self.qos;
        let (latency_us, ppm) = if qos.read_latency_us >= qos.write_latency_us {
            (qos.read_latency_us, qos.read_ppm)
        } else {
            (qos.write_latency_us, qos.write_ppm)
        };
        let rest = (100 * PERCENT_PPM).saturating_sub(ppm) / (5 * PERCENT_PPM);
        let times = if ppm == 0 { 2 } else { u64::from(rest).max(2) };
        self.period.set_length(latency_us.saturating_mul(1_000).saturating_mul(times));
        self.period.set_margins(self.base_rate);
    }

    pub(super) fn end_period(&mut self, now: Nanos) {
        let vnow = self.clock.at(now);
        if ahead(vnow, self.period.start_vtime()) <= 0 {
            self.period.prolong(now);
            return;
        }
        let (used_us, debtors) = self.visit_all(vnow, now);
        let survey = self.survey(vnow, now);
        if survey.findings.shortages > 0 && survey.lenders > 0 {
            self.lend(survey.loans, now);
        }
        self.adjust_rate(survey.findings, now);
        self.forgive(used_us, debtors, now);
        self.period.finish();
        if !self.stop_if_idle(now) {
            self.period.start(now, self.clock.at(now));
            self.compensate(now);
        }
    }

    /// Stops the clock if no group is active. True if it did.
    pub(super) fn stop_if_idle(&mut self, now: Nanos) -> bool {
        if !self.active.is_empty() {
            return false;
        }
        self.feedback.rest();
        self.error = 0;
        self.clock.stop(now);
        self.period.stop();
        true
    }

    /// Before a period is judged, pays debts and releases waiting bios as far as the groups'
    /// budgets allow.
    pub(super) fn wake_all(&mut self, now: Nanos) {
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(group) = next else { return };
            next = self.active.after(group);
            let entry = self.groups.at(group);
            if !entry.waiting.is_empty() || entry.debt.is_owed() {
                self.wake(group, now);
            }
        }
    }

    /// Updates statistics and delays, and deactivates groups that did nothing. Returns the device
    /// time used in us, and the number of groups in debt or delayed.
    fn visit_all(&mut self, vnow: Vtime, now: Nanos) -> (u64, u32) {
        let (mut used_us, mut debtors) = (0u64, 0u32);
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(group) = next else { break };
            next = self.active.after(group);
            let entry = self.groups.at_mut(group);
            let spent_us = entry.used.checked_div(self.base_rate).unwrap_or(0);
            entry.stats.usage_us = entry.stats.usage_us.saturating_add(spent_us);
            used_us = used_us.saturating_add(spent_us);
            if !entry.waiting.is_empty() || entry.debt.is_owed() || entry.debt.is_delayed() {
                self.update_debtor(group, now);
                let entry = self.groups.at(group);
                debtors = debtors.saturating_add(u32::from(entry.debt.is_owed() || entry.debt.is_delayed()));
            } else if entry.period_index != self.period.index() && entry.done == entry.vtime {
                let (_, share) = self.groups.shares(group);
                self.take_excess(group, share, vnow);
                self.deactivate(group, now);
            }
        }
        (used_us, debtors)
    }

    fn update_debtor(&mut self, group: GroupId, now: Nanos) {
        let entry = self.groups.at_mut(group);
        let spent_us = entry.debt.indebted_us(now);
        entry.stats.indebt_us = entry.stats.indebt_us.saturating_add(spent_us);
        let (share, _) = self.groups.shares(group);
        self.update_delay(group, share, now);
    }

    pub(super) fn deactivate(&mut self, group: GroupId, now: Nanos) {
        let entry = self.groups.at_mut(group);
        if !entry.is_active {
            return;
        }
        entry.is_active = false;
        entry.used = 0;
        entry.target = 0;
        self.active.remove(group);
        self.groups.set_weights(group, 0, 0);
        self.timers.clear(group);
        self.note(Some(group), now, "idle", &[]);
    }

    /// Determines which groups could lend, which are short, and whose I/O is late.
    fn survey(&mut self, vnow: Vtime, now: Nanos) -> Survey {
        let mut survey = Survey::default();
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(group) = next else { break };
            next = self.active.after(group);
            let (by_weight, by_use) = self.groups.shares(group);
            let entry = self.groups.at_mut(group);
            // A target may be left from the last period, if no group was short of budget then.
            entry.target = 0;
            let used = core::mem::take(&mut entry.used);
            survey.findings.lagging = survey.findings.lagging.saturating_add(u32::from(self.lags(group, vnow)));

            let entry = self.groups.at(group);
            let low = self.period.margins.low.cast_signed();
            let may_lend = entry.waiting.is_empty() && ahead(vnow, entry.vtime) > low;
            if !entry.weights.lends() && !may_lend {
                survey.findings.shortages = survey.findings.shortages.saturating_add(1);
                continue;
            }
            // I/O in flight counts as used: otherwise a slow device would make the group look idle.
            let in_flight = ahead(entry.vtime, entry.done).max(0).unsigned_abs();
            let usage = self.usage(group, used.max(scaled(in_flight, by_use)), now);
            let most = self.groups.max_share(group);
            let target = self.share_needed(group, by_use, most, usage, vnow);
            // With a share below 2 there is nothing to lend.
            if target < most && by_weight >= 2 {
                self.groups.at_mut(group).target = target;
                survey.lenders = survey.lenders.saturating_add(1);
                survey.loans.before = survey.loans.before.saturating_add(by_weight.into());
                survey.loans.after = survey.loans.after.saturating_add(target.into());
                continue;
            }
            let entry = self.groups.at(group);
            if !entry.debt.is_owed() {
                let (active, inuse) = (entry.weights.active(), entry.weights.inuse());
                self.groups.set_weights_at(group, active, active, vnow);
                if inuse != active {
                    self.note(Some(group), now, "short inuse={0}->{1}", &[inuse.into(), active.into()]);
                }
                survey.findings.shortages = survey.findings.shortages.saturating_add(1);
            }
        }
        survey
    }

    /// Whether some I/O of the group has been in the device since before this period. Always false
    /// while the group's tasks are delayed, and if no share of the requests has to meet a latency
    /// target.
    fn lags(&self, group: GroupId, vnow: Vtime) -> bool {
        let entry = self.groups.at(group);
        let is_watched = self.qos.read_ppm != 0 || self.qos.write_ppm != 0;
        let span = ahead(vnow, self.period.start_vtime()).max(0).unsigned_abs();
        let oldest = vnow.wrapping_sub(span.saturating_mul(MOST_LAGGING_PERIODS));
        is_watched
            && !entry.debt.is_delayed()
            && ahead(entry.vtime, entry.done) > 0
            && ahead(entry.vtime, oldest) > 0
            && ahead(entry.done, vnow.wrapping_sub(span)) < 0
    }

    /// The used device time as a share of the period, or of the part of it since the group became
    /// active; 2^16 = all. Until 2026 the kernel narrows the share to 32 bits before it limits it
    /// (`clamp_t(u32, ...)` in `ioc_timer_fn`), so a group that became active just before the
    /// period's end with much I/O in flight may seem to use nothing, and lends.
    fn usage(&self, group: GroupId, used: Vtime, now: Nanos) -> u32 {
        let since_ns = self.groups.at(group).activated_ns.max(self.period.start_ns);
        let span_us = (now.saturating_sub(since_ns) / 1_000).max(1);
        let available = span_us.saturating_mul(self.base_rate).max(1);
        let usage = used.saturating_mul(ONE.into()).div_ceil(available);
        let usage = if self.has_rules_of_2026 { usage } else { usage & u64::from(u32::MAX) };
        u32::try_from(usage).unwrap_or(ONE).clamp(1, ONE)
    }
}
