//! The forms of CFQ as data: what changed from kernel to kernel. Numbers such as D4 are those of
//! docs/specifications/cfq.md, section 13.

use super::tunables::{self, TunableId};
use crate::interface::{Form, Version};
use crate::tunable::Tunable;

/// What differs between the forms.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    pub(super) tunable_ids: &'static [TunableId],
    pub(super) rows: &'static [Tunable],
    pub(super) clock: Clock,
    /// CFQ of 2.6.26: one service tree per class, no groups, dispatch in rounds.
    pub(super) has_one_level: bool,
    /// What each group has of its own, where a layer above CFQ of 2.6.26 schedules groups
    /// (`two_level`).
    pub(super) per_group: PerGroup,
    /// IOPS mode, `group_idle`, and no idling at all with `slice_idle` 0: the patches of July 2010.
    pub(super) has_iops_mode: bool,
    /// The patches of July 2010 ("V3") forgot the unused rest of a slice in IOPS mode, so that
    /// levels had less effect.
    pub(super) forgets_rest_in_iops_mode: bool,
    pub(super) no_idle: NoIdle,
    pub(super) isolation: Isolation,
    /// Groups as a tree, async queues in each, weights relative to siblings (D4 to D7, D9).
    pub(super) has_hierarchy: bool,
    /// Think times of trees and groups, and the rules that use them (D11 to D16, D20).
    pub(super) has_wide_think_times: bool,
    /// The rules of 4.20 for preemption, dispatch and charges that differ (D10, D17 to D19, D21,
    /// D22).
    pub(super) has_late_rules: bool,
    /// `slice_idle` defaults to 0 where positioning costs nothing (D26).
    pub(super) is_quiet_on_flash: bool,
    /// Favours requests with the PRIO flag, not only metadata (D25).
    pub(super) favours_prio: bool,
}

/// Which queues are in the groups of their issuers; all others are in the root.
#[derive(Copy, Clone, Debug)]
pub struct Splits {
    pub(super) sync: bool,
    pub(super) asynchronous: bool,
}

/// The unit of time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Ticks of HZ.
    Jiffies,
    Nanoseconds,
}

/// Which parts of CFQ of 2.6.26 exist for each group separately.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PerGroup {
    /// Nothing: CFQ of 2.6.26 without groups.
    Nothing,
    /// Service trees and async queues; a single queue of all groups is active.
    Trees,
    /// A complete engine: also an active queue, an idle timer and counts.
    Engine,
}

/// The effect of a request marked as announcing no other (`REQ_NOIDLE`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum NoIdle {
    /// None.
    Ignored,
    /// If the workload had only such requests since it began, its tree is not idled for.
    PerWorkload,
    /// Its queue is not idled for.
    PerQueue,
}

/// Whether queues that are not idled for stay in their group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// As `group_isolation` says; otherwise they compete in the root.
    Tunable,
    Always,
}

const FIRST: Profile = Profile {
    tunable_ids: &tunables::IDS_FIRST,
    rows: &tunables::ROWS_FIRST,
    clock: Clock::Jiffies,
    has_one_level: true,
    per_group: PerGroup::Nothing,
    has_iops_mode: false,
    forgets_rest_in_iops_mode: false,
    no_idle: NoIdle::Ignored,
    isolation: Isolation::Always,
    has_hierarchy: false,
    has_wide_think_times: false,
    has_late_rules: false,
    is_quiet_on_flash: false,
    favours_prio: false,
};

impl Profile {
    /// CFQ of 2.6.26 below a layer of groups.
    pub(super) const fn first_in_groups(per_group: PerGroup) -> Self {
        Profile { per_group, ..FIRST }
    }

    /// Whether queues belong to the groups of their issuers.
    #[inline]
    pub(super) const fn has_groups(&self) -> bool {
        !self.has_one_level || self.is_below_a_layer()
    }

    /// Whether async queues belong to groups as well.
    #[inline]
    pub(super) const fn has_async_per_group(&self) -> bool {
        self.has_hierarchy || self.is_below_a_layer()
    }

    pub(super) const fn splits(&self) -> Splits {
        Splits { sync: self.has_groups(), asynchronous: self.has_async_per_group() }
    }

    #[inline]
    pub(super) const fn is_below_a_layer(&self) -> bool {
        !matches!(self.per_group, PerGroup::Nothing)
    }
}

const WITH_GROUPS: Profile = Profile {
    tunable_ids: &tunables::IDS_GROUPS,
    rows: &tunables::ROWS_GROUPS,
    has_one_level: false,
    no_idle: NoIdle::PerWorkload,
    isolation: Isolation::Tunable,
    ..FIRST
};

const MERGED: Profile =
    Profile { tunable_ids: &tunables::IDS_IOPS, rows: &tunables::ROWS_IOPS, has_iops_mode: true, ..WITH_GROUPS };

const NO_IDLE_PER_QUEUE: Profile = Profile { no_idle: NoIdle::PerQueue, ..MERGED };

const ISOLATED: Profile = Profile {
    tunable_ids: &tunables::IDS_ISOLATED,
    rows: &tunables::ROWS_ISOLATED,
    isolation: Isolation::Always,
    ..NO_IDLE_PER_QUEUE
};

const QUIET_ON_FLASH: Profile = Profile { is_quiet_on_flash: true, ..ISOLATED };

const LAST: Profile = Profile {
    tunable_ids: &tunables::IDS_LAST,
    rows: &tunables::ROWS_LAST,
    clock: Clock::Nanoseconds,
    has_hierarchy: true,
    has_wide_think_times: true,
    has_late_rules: true,
    favours_prio: true,
    ..QUIET_ON_FLASH
};

/// By version; 2.7, which never was a kernel, stands for the patches of 2010-07-21 on top of 2.6.35
/// ("V3"). Therefore the rules that hold since 2.6.38 appear twice.
pub const FORMS: &[Form<&'static Profile>] = &[
    Form { since: Version(2, 6, 26), profile: &FIRST },
    Form { since: Version(2, 6, 35), profile: &WITH_GROUPS },
    Form { since: Version(2, 6, 36), profile: &MERGED },
    Form { since: Version(2, 6, 37), profile: &NO_IDLE_PER_QUEUE },
    Form { since: Version(2, 6, 38), profile: &ISOLATED },
    Form { since: Version(2, 7, 0), profile: &Profile { forgets_rest_in_iops_mode: true, ..MERGED } },
    Form { since: Version(3, 0, 0), profile: &ISOLATED },
    Form { since: Version(4, 2, 0), profile: &QUIET_ON_FLASH },
    Form { since: Version(4, 20, 0), profile: &LAST },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A feature, the first kernel that may have it, and the first that surely has it.
    struct Row(&'static str, Version, Version, fn(&Profile) -> bool);

    const fn v(major: u16, minor: u16, patch: u16) -> Version {
        Version(major, minor, patch)
    }

    /// The table of docs/elevators/cfq.md. What only a comparison of 2.6.37 with 4.20 shows may have
    /// come with any kernel between them.
    const TABLE: [Row; 10] = [
        Row("groups", v(2, 6, 35), v(2, 6, 35), |form| !form.has_one_level),
        Row("IOPS mode", v(2, 6, 36), v(2, 6, 36), |form| form.has_iops_mode),
        Row("no idling per queue", v(2, 6, 37), v(3, 0, 0), |form| form.no_idle == NoIdle::PerQueue),
        Row("isolation", v(2, 6, 38), v(3, 0, 0), |form| !form.has_one_level && form.isolation == Isolation::Always),
        Row("quiet on flash", v(4, 2, 0), v(4, 2, 0), |form| form.is_quiet_on_flash),
        Row("nanoseconds", v(2, 6, 38), v(4, 20, 0), |form| form.clock == Clock::Nanoseconds),
        Row("hierarchy", v(2, 6, 38), v(4, 20, 0), |form| form.has_hierarchy),
        Row("wide think times", v(2, 6, 38), v(4, 20, 0), |form| form.has_wide_think_times),
        Row("late rules", v(2, 6, 38), v(4, 20, 0), |form| form.has_late_rules),
        Row("PRIO flag", v(2, 6, 38), v(4, 20, 0), |form| form.favours_prio),
    ];

    #[test]
    fn no_form_has_a_feature_of_a_later_kernel() {
        for Row(name, may, surely, has) in TABLE {
            for form in FORMS {
                // 2.7 is 2.6.35 with patches.
                let at = if form.since == v(2, 7, 0) { v(2, 6, 36) } else { form.since };
                assert!(at >= may || !has(form.profile), "{name} in {:?}", form.since);
                assert!(at < surely || has(form.profile), "no {name} in {:?}", form.since);
            }
        }
    }
}
