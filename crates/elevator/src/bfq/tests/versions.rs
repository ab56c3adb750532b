//! Which kernel brought what: the table of docs/elevators/bfq.md. No form has a feature before its
//! kernel, and all have it from then on, unless a later one removed it. 4.7 stands for the series
//! v8r3.

use super::super::profile::{FORMS, Injection, IoBound, Polls, Preempts, Profile};
use crate::interface::Version;

/// The first kernel with a feature, and the first without it.
struct Row(&'static str, Version, Option<Version>, fn(&Profile) -> bool);

const fn v(major: u16, minor: u16) -> Version {
    Version(major, minor, 0)
}

/// What the series outside of the kernel did until mainline.
const UNTIL_MAINLINE: Option<Version> = Some(v(4, 12));

const TABLE: [Row; 51] = [
    Row("single-queue block layer", v(4, 7), UNTIL_MAINLINE, |form| form.turns.polls == Polls::OnCompletion),
    Row("search at each turn", v(4, 7), UNTIL_MAINLINE, |form| form.turns.looks_up_each),
    Row("rates of turns", v(4, 7), UNTIL_MAINLINE, |form| form.budgets.rates_turns),
    Row("a misfit ends the search", v(4, 7), UNTIL_MAINLINE, |form| form.budgets.gives_up_on_misfit),
    Row("long requests near on flash", v(4, 12), None, |form| form.behaviour.near_sectors != u32::MAX),
    Row("one request with strict_guarantees", v(4, 12), None, |form| form.turns.strict_is_serial),
    Row("interactive again", v(4, 12), None, |form| form.raising.returns_to_interactive),
    Row("weights of groups compared", v(4, 7), Some(v(4, 20)), |form| form.idling.compares_group_weights),
    Row("a spent budget is kept", v(4, 7), Some(v(4, 19)), |form| form.budgets.keeps_spent),
    Row("idling without queueing", v(4, 7), Some(v(4, 19)), |form| form.idling.includes_devices_without_queue),
    Row("async requests at ten times", v(4, 7), Some(v(4, 19)), |form| form.budgets.async_charges == [10, 20]),
    Row("async requests at three times", v(4, 19), None, |form| form.budgets.async_charges == [3, 3]),
    Row("whole timeouts charged", v(4, 19), None, |form| form.budgets.charges_whole_timeouts),
    Row("tags by kind", v(4, 19), None, |form| form.tags.by_kind),
    Row("raising up to 13 s", v(4, 7), Some(v(4, 19)), |form| form.raising.longest_ms == 13_000),
    Row("raising up to 25 s", v(4, 19), None, |form| form.raising.longest_ms == 25_000),
    Row("limited service while raised", v(4, 19), None, |form| form.raising.service_max_sectors != u32::MAX),
    Row("only young queues merge", v(4, 19), None, |form| form.merging.young_only),
    Row("seeky above 4", v(4, 7), Some(v(4, 19)), |form| form.behaviour.seeky_above == 4),
    Row("seeky above 19", v(4, 19), None, |form| form.behaviour.seeky_above == 19),
    Row("queueing above 4", v(4, 7), Some(v(5, 1)), |form| {
        form.behaviour.queueing_above == 4 && !form.behaviour.skips_few_requests
    }),
    Row("queueing above 3", v(5, 1), None, |form| {
        form.behaviour.queueing_above == 3 && form.behaviour.skips_few_requests
    }),
    Row("no idling in large bursts", v(4, 7), Some(v(5, 1)), |form| form.idling.spares_large_bursts),
    Row("bursts begin beside busy queues", v(4, 7), Some(v(5, 2)), |form| form.begins_bursts_always),
    Row("injection by service", v(4, 20), Some(v(5, 2)), |form| form.injection.method == Injection::Service),
    Row("no idling if all are raised", v(4, 20), None, |form| form.idling.spares_if_all_raised),
    Row("async requests at their size", v(5, 1), None, |form| form.budgets.charges_plainly_if_asymmetric),
    Row("no merging on queueing flash", v(5, 2), None, |form| form.merging.skips_queueing_flash),
    Row("no idling for the lowest weight", v(5, 2), None, |form| form.idling.skips_lowest_weight),
    Row("idling in a crowd", v(5, 2), None, |form| form.idling.includes_crowds),
    Row("longer idling for raised queues", v(5, 2), None, |form| form.idling.longer_for_raised),
    Row("totally seeky", v(5, 2), None, |form| form.behaviour.has_totally_seeky),
    Row("weight saved", v(5, 2), None, |form| form.merging.saves_weight),
    Row("injection by service time", v(5, 2), None, |form| form.injection.method == Injection::ServiceTime),
    Row("own async requests", v(5, 2), None, |form| form.injection.includes_own_async),
    Row("wakers", v(5, 3), None, |form| form.injection.has_wakers),
    Row("higher ones preempt", v(5, 3), None, |form| form.turns.preempts != Preempts::MoreRaised),
    Row("preempted ones stay busy", v(5, 3), None, |form| form.turns.keeps_preempted_busy),
    Row("polls", v(5, 8), None, |form| matches!(form.turns.polls, Polls::AfterLast | Polls::AfterFirst)),
    Row("a lone queue is idled for", v(5, 12), None, |form| form.idling.protects_lone_queue),
    Row("default weight only", v(5, 12), None, |form| form.raising.default_weight_only),
    Row("plugging reconsidered", v(5, 12), None, |form| form.turns.preempts == Preempts::AlsoIfNotIdledFor),
    Row("I/O bound by time", v(5, 12), None, |form| form.behaviour.io_bound == IoBound::ShareOfTime),
    Row("half of slice_idle", v(5, 12), None, |form| form.behaviour.think_shift == 1),
    Row("stable merge", v(5, 13), None, |form| form.merging.has_stable),
    Row("woken queues", v(5, 13), None, |form| form.injection.includes_woken),
    Row("tags by weight", v(5, 17), None, |form| form.tags.by_weight && form.injection.limits_waker_detection),
    Row("polls in time", v(5, 18), None, |form| form.turns.polls == Polls::AfterFirst),
    Row("own queues of groups", v(6, 2), None, |form| {
        form.idling.counts_own_queues && form.idling.symmetric_groups == 1
    }),
    Row("actuators", v(6, 3), None, |form| form.has_actuators),
    Row("time of a batch", v(6, 9), None, |form| form.keeps_plug_time),
];

#[test]
fn no_form_has_a_feature_of_a_later_kernel() {
    for Row(name, since, until, has) in TABLE {
        for form in FORMS {
            let expected = form.since >= since && until.is_none_or(|until| form.since < until);
            assert_eq!(has(form.profile), expected, "{name} in {:?}", form.since);
        }
    }
}

/// Between two forms the policy is that of the older one.
#[test]
fn every_form_differs_from_the_one_before() {
    for pair in FORMS.windows(2) {
        let has = |form: usize| TABLE.map(|Row(.., has)| has(pair[form].profile));
        assert_ne!(has(0), has(1), "{:?}", pair[1].since);
    }
}
