//! Budgets, the charge for async requests, and limits on tags: cases 14, 16 and 40 of
//! docs/specifications/bfq.md, section 25. A queue's turn is the time from its selection as the
//! queue in service until it expires. Raising is BFQ's temporary multiplication of a queue's
//! weight.

use crate::host::{FORMS, Host};
use hoistway_elevator::Admission;

/// The lower limit of budgets that bfq reports (the last number of its message) at the end of each
/// of `turns` turns of one issuer.
fn least_budgets(host: &mut Host, turns: u32) -> Vec<u32> {
    let mut least = Vec::new();
    for n in 0..turns {
        host.submit(&format!("R{}@1", n * 8));
        host.finish();
        host.pass_ms(30);
        for line in host.lines_with("recalc_budg: last max_budg") {
            least.push(line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number"));
        }
    }
    least
}

#[test]
fn t14_the_default_budget_stays_for_ten_turns() {
    for form in FORMS {
        let mut host = Host::on_flash(form);
        // With 0 the maximum budget is computed from the device's measured peak rate; here the
        // result is 41961 sectors.
        host.set("max_budget", 0);
        let least = least_budgets(&mut host, 13);
        assert_eq!(least, [[512; 10].as_slice(), &[1_311; 3]].concat(), "{form}");
        // A new queue begins with two thirds of the maximum budget.
        host.submit("R9000000@2");
        host.dispatch();
        assert_eq!(host.lines_with("cur-budget"), ["2S set_in_service_queue, cur-budget = 27974"], "{form}");
    }
}

#[test]
fn t14_a_budget_that_is_set_is_in_force_at_once_for_those_that_grow() {
    let mut host = Host::on_flash("6.12:max_budget=32000");
    // For ten turns the lower limit of budgets is 1/32 of the default maximum, then 1/32 of the
    // maximum that was set.
    assert_eq!(least_budgets(&mut host, 11)[9..], [512, 1_000]);
}

#[test]
fn t16_async_queues_have_the_whole_budget_and_cost_three_times_as_much() {
    for form in FORMS {
        let mut host = Host::on_flash(form);
        host.submit("W0@1");
        host.finish();
        assert_eq!(host.lines_with("bfqq_served"), ["1A bfqq_served 24 secs"], "{form}");
        // The next request comes so late that the queue starts with a new budget instead of the
        // rest of the old one.
        host.pass_ms(25);
        host.submit("W100@1");
        host.dispatch();
        assert_eq!(host.lines_with("cur-budget"), ["1A set_in_service_queue, cur-budget = 16384"], "{form}");
    }
}

#[test]
fn t16_where_weights_differ_or_it_is_raised_they_cost_as_much_as_others() {
    // Issuer 2 has level 6 and therefore weight 20, so the async queue, with weight 40, is not the
    // lightest.
    // So it is in Linux 5.4, and not in 4.19; of the changes for 5.2 to 5.4 none is about it.
    for (form, cost) in FORMS.into_iter().zip([24, 8, 8, 8]) {
        let mut host = Host::on_flash(form);
        host.submit("W0@1 R5000000be6@2");
        host.finish();
        let served = host.lines_with("1A bfqq_served");
        assert_eq!(served, [format!("1A bfqq_served {cost} secs")], "{form}");
    }
    for form in FORMS {
        // A busy async queue that has had no turn for more than half a second is raised by its next
        // request.
        let mut host = Host::on_flash(&format!("{form}:low_latency=1"));
        host.submit("W0@1");
        host.pass_ms(500);
        host.submit("W100000@1");
        host.finish();
        assert_eq!(host.lines_with("bfqq_served"), vec!["1A bfqq_served 24 secs"; 2], "{form}: not yet");
        host.submit("W0@1");
        host.pass_ms(501);
        host.submit("W100000@1");
        host.finish();
        assert_eq!(host.lines_with("bfqq_served"), vec!["1A bfqq_served 8 secs"; 2], "{form}");
    }
}

#[test]
fn t40_async_requests_and_sync_writes_leave_tags_to_reads() {
    for form in FORMS {
        let mut host = Host::on_flash(&format!("{form}:low_latency=1"));
        let depths = |host: &Host| [host.admit("W0@9"), host.admit("W0sync@9"), host.admit("R0@9")];
        assert_eq!(depths(&host), [Admission::Shallow(32), Admission::Shallow(48), Admission::Full], "{form}");
        host.submit("R0@1");
        assert_eq!(depths(&host), [Admission::Shallow(12), Admission::Shallow(24), Admission::Full], "{form}, raised");
    }
}

#[test]
fn t40_a_group_has_tags_by_its_weight() {
    for (form, limited) in FORMS.into_iter().zip([false, false, true, true]) {
        let mut host = Host::on_flash(form);
        host.group(1, 300);
        host.group(2, 100);
        host.submit("R900000000g2@2");
        for n in 0..47 {
            host.submit(&format!("R{}g1@1", n * 8));
        }
        assert_eq!(host.admit("R900000g1@1"), Admission::Full, "{form}");
        host.submit("R900000g1@1");
        let expected = if limited { Admission::Shallow(1) } else { Admission::Full };
        assert_eq!(host.admit("R1000000g1@1"), expected, "{form}");
        // An issuer without queued requests, whose queue is therefore in no tree, is not limited.
        assert_eq!(host.admit("R0g1@3"), Admission::Full, "{form}");
    }
}
