//! Why due, attainable and actual shares differ: each reason is derived from the figures, and
//! omitted if they do not support it.
//!
//! Shares and throughput are judged separately: a scheduler with exact shares of less than the
//! attainable throughput has not held any group back for others; it has lost throughput.

/// Tolerance of a share: the accuracy of the oracle, and what is required of a scheduler.
const NEAR: f64 = 0.1;
/// Attainable and due shares that differ by less than this count as equal.
const SAME: f64 = NEAR / 3.0;
/// Throughput losses up to this are not reported.
const LOST: f64 = 0.05;
/// Smaller shares are not judged.
const SMALL: f64 = 0.02;

/// The totals of all groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Together {
    /// Attainable bytes per second with the shares nearest to the weights.
    pub can: f64,
    /// Bytes per second if no group is held back.
    pub full: f64,
    /// Actual bytes per second, and the upper end of their interval.
    pub got: f64,
    pub got_high: f64,
    /// Requests in flight that `can` requires.
    pub needed: f64,
    /// The record of the first dispatches, if the host provides one.
    pub seen: Option<Seen>,
}

/// A section of a run, request by request.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Seen {
    /// Number of requests in it.
    pub requests: usize,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Fraction of the time, 0 to 1, in which the scheduler held requests back.
    pub held: f64,
}

/// The figures of one group. The first three are fractions of the total, 0 to 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    pub due: f64,
    pub can: f64,
    pub got: f64,
    /// Requests that it keeps outstanding.
    pub outstanding: f64,
    /// Whether all of them are in flight when it has its attainable rate.
    pub is_all_in_flight: bool,
    /// What it got of its entitlement, and what the group that is worst off got; none if not known.
    pub isolation: Option<(f64, f64)>,
}

/// The statement about the throughput; none if it is the attainable one.
pub fn of_throughput(together: &Together) -> Option<String> {
    let Together { can, full, got, got_high, needed, seen } = *together;
    if got > full.max(can) * (1.0 + LOST) {
        let more = (got / full.max(can) - 1.0) * 100.0;
        return Some(format!(
            "it delivers {more:.0} % more than computed for this device, so the attainable rates are not reliable here"
        ));
    }
    if got >= can * (1.0 - LOST) || got_high >= can {
        return None;
    }
    let mut text = format!("it loses {:.0} % of the throughput attainable with these shares", lost(got, can));
    let Some(seen) = seen else { return Some(text) };
    let mut causes = Vec::new();
    if seen.in_flight < needed * (1.0 - NEAR) {
        causes.push(format!("{:.1} were in flight on average and {needed:.1} are needed", seen.in_flight));
    }
    if seen.held >= 0.03 {
        causes.push(format!("it held requests back {:.0} % of the time", seen.held * 100.0));
    }
    if !causes.is_empty() {
        text.push_str(&format!("; of its first {} requests {}", seen.requests, causes.join(", and ")));
    }
    Some(text)
}

fn lost(got: f64, can: f64) -> f64 {
    (1.0 - got / can.max(1.0)) * 100.0
}

/// The reason for a group's share.
pub fn of_share(share: &Share, has_weights: bool) -> String {
    let off = share.got / share.can.max(f64::MIN_POSITIVE) - 1.0;
    let is_less = share.can < share.due * (1.0 - SAME);
    let first = if is_less && share.is_all_in_flight && off <= NEAR {
        let requests = if share.outstanding > 1.0 {
            format!("{:.0} requests are", share.outstanding)
        } else {
            "one request is".to_owned()
        };
        format!("all its {requests} in flight at once, which is too few for its whole share")
    } else if is_less {
        "less than its share is attainable at this throughput".to_owned()
    } else if share.can > share.due * (1.0 + SAME) {
        "others cannot use their whole shares; the rest is divided among the other groups".to_owned()
    } else {
        "its share is attainable".to_owned()
    };
    if share.due < SMALL {
        return format!("{first} (shares below {:.0} % are not assessed)", SMALL * 100.0);
    }
    let second = if off.abs() <= NEAR { ", and it got that" } else { of_difference(share, has_weights, off > 0.0) };
    format!("{first}{second} ({:+.0} %)", off * 100.0)
}

/// Why a group did not get the attainable rate; what it is entitled to may be less than that.
fn of_difference(share: &Share, has_weights: bool, is_more: bool) -> &'static str {
    let has_its_own = |part: f64| part >= 1.0 - NEAR;
    match share.isolation {
        Some((own, _)) if !is_more && has_its_own(own) => {
            "; it got what it is entitled to, and less of what others leave"
        }
        Some((_, worst)) if is_more && has_its_own(worst) => {
            "; it got more than that, and each group what it is entitled to"
        }
        _ if !has_weights => "; this scheduler ignores weights",
        _ if is_more => "; it got more than that, others less",
        _ => "; it got less than that, others more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(due: f64, can: f64, got: f64) -> Share {
        Share { due, can, got, outstanding: 4.0, is_all_in_flight: false, isolation: None }
    }

    fn together(can: f64, got: f64) -> Together {
        Together { can, full: can, got, got_high: got, needed: 8.0, seen: None }
    }

    /// BFQ delivers 157 of the 175 MB/s that the device can deliver, and each group has its share
    /// of the 157. The text must not say that a group left a part of its share to others.
    #[test]
    fn lost_throughput_is_no_share_that_others_cannot_use() {
        for (due, got) in [(0.25, 0.252), (0.75, 0.748)] {
            let text = of_share(&share(due, due, got), true);
            assert_eq!(text.split(" (").next().unwrap(), "its share is attainable, and it got that");
        }
        let text = of_throughput(&together(175.0, 157.0)).unwrap();
        assert_eq!(text, "it loses 10 % of the throughput attainable with these shares");
    }

    #[test]
    fn a_loss_is_reported_with_the_causes_that_the_figures_support() {
        let seen = |in_flight, held| Some(Seen { requests: 1200, in_flight, held });
        let short = Together { seen: seen(3.1, 0.09), ..together(175.0, 157.0) };
        let text = of_throughput(&short).unwrap();
        let causes = "; of its first 1200 requests 3.1 were in flight on average and 8.0 are needed, and it held requests back 9 % of the time";
        assert!(text.ends_with(causes), "{text}");
        // As many requests are in flight as are needed, and hardly any is held back, so neither is
        // the reason.
        let full = Together { seen: seen(8.0, 0.001), ..together(175.0, 157.0) };
        let text = of_throughput(&full).unwrap();
        assert!(!text.contains("inside") && !text.contains("kept"), "{text}");
    }

    #[test]
    fn throughput_that_is_there_or_may_be_there_is_not_called_lost() {
        assert_eq!(of_throughput(&together(175.0, 170.0)), None);
        assert_eq!(of_throughput(&Together { got_high: 180.0, ..together(175.0, 157.0) }), None);
        // A throughput above the one that was computed for exact shares (`can`) needs no
        // explanation; one above what the device was computed to deliver at all (`full`) does.
        assert_eq!(of_throughput(&Together { full: 190.0, ..together(175.0, 189.0) }), None);
        assert!(of_throughput(&together(175.0, 200.0)).unwrap().contains("14 % more"));
    }

    #[test]
    fn a_group_that_cannot_use_its_share_is_distinguished_from_one_that_gets_the_rest() {
        let heavy = Share { is_all_in_flight: true, ..share(0.75, 0.6, 0.61) };
        let text = of_share(&heavy, true);
        assert!(
            text.starts_with("all its 4 requests are in flight at once") && text.contains("and it got that"),
            "{text}"
        );
        let light = of_share(&share(0.25, 0.4, 0.39), true);
        assert!(light.starts_with("others cannot use their whole shares") && light.contains("it got that"), "{light}");
        // This group got much more than was computed for all its requests in flight, so their
        // number did not limit it.
        let contradicted = of_share(&Share { got: 0.74, ..heavy }, true);
        assert!(!contradicted.contains("in flight at once"), "{contradicted}");
    }

    /// README's NVMe example under bfq: the table says isolation 100 %, so no line may say that a group lost
    /// something to others.
    #[test]
    fn a_group_with_all_of_its_entitlement_has_lost_nothing_to_others() {
        let less = Share { isolation: Some((1.03, 1.0)), ..share(0.11, 0.26, 0.11) };
        assert!(of_share(&less, true).contains("it got what it is entitled to"));
        let more = Share { isolation: Some((2.5, 1.0)), ..share(0.11, 0.26, 0.4) };
        assert!(!of_share(&more, true).contains("others less"));
        let starved = Share { isolation: Some((0.3, 0.3)), ..share(0.75, 0.75, 0.2) };
        assert!(of_share(&starved, true).contains("others more"));
    }

    #[test]
    fn a_missed_share_is_reported_without_an_unobserved_cause() {
        assert!(of_share(&share(0.75, 0.75, 0.5), false).contains("; this scheduler ignores weights (-33 %)"));
        assert!(of_share(&share(0.75, 0.75, 0.5), true).contains("; it got less than that, others more (-33 %)"));
        assert!(of_share(&share(0.25, 0.25, 0.5), true).contains("; it got more than that, others less (+100 %)"));
        assert!(of_share(&share(0.01, 0.01, 0.5), true).ends_with("(shares below 2 % are not assessed)"));
    }
}
