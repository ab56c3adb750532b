//! What iostune decided in July 2010, by the same figures: whether readers are to be waited for (harness 8.1).

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::findings::{StreamStep, delta_gamma};

/// Parallel streams that keep this part of one stream's rate cost nothing that waiting could win back.
const KEPT: f64 = 0.90;

/// Whether the scheduler is to wait for a reader's next request.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idling {
    /// Streams cost each other the disk's speed: wait for each of them (`slice_idle` as it is).
    PerQueue,
    /// Streams add up: never wait for one (`slice_idle=0`), but for a group, whose share would go otherwise (`group_idle`).
    PerGroup,
    /// Nothing is won by waiting and nothing lost: the device does not seek.
    Pointless,
}

/// The three conclusions of the thread, from the staircase without a scheduler.
pub fn idling(streams: &[StreamStep], seeks: bool) -> Option<(Idling, String)> {
    let (delta, gamma) = (delta_gamma(streams, f64::min)?, delta_gamma(streams, f64::max)?);
    let figures = format!("delta {delta:.3}, gamma {gamma:.3}");
    Some(match (delta >= KEPT, seeks) {
        (true, false) => (
            Idling::Pointless,
            format!(
                "{figures}: parallel readers cost nothing and the device does not seek; there is nothing to wait for"
            ),
        ),
        (true, true) => (
            Idling::PerGroup,
            format!(
                "{figures}: parallel readers add up; waiting for one of them leaves the other arms idle. slice_idle=0, \
                 and groups by group_idle (2.6.35 and 36: group_isolation=1 too)"
            ),
        ),
        (false, _) => (
            Idling::PerQueue,
            format!("{figures}: parallel readers cost each other the device's speed; slice_idle stays"),
        ),
    })
}

/// iostune's table of one scheduler: readers, total, each reader's rate, in MB/s, largest first.
pub fn classic_table(scheduler: &str, streams: &[StreamStep]) -> String {
    let mut text = format!("iosched={scheduler}\n");
    for step in streams {
        let _ = write!(text, "{:<2} {:>7.1}  ", step.count, step.bytes_per_s.mean / 1e6);
        for rate in &step.each_bytes_per_s {
            let _ = write!(text, " {:.1}", rate / 1e6);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::staircase;

    /// The three noop rows that were published, and what the thread made of them.
    #[test]
    fn the_published_staircases_give_the_threads_own_conclusions() {
        let rows = [
            ([63.3, 18.7, 21.6, 29.6], true, Idling::PerQueue),
            ([62.5, 86.5, 98.7, 112.5], true, Idling::PerGroup),
            ([243.0, 231.0, 270.6, 262.9], false, Idling::Pointless),
        ];
        for (row, seeks, conclusion) in rows {
            assert_eq!(idling(&staircase(row), seeks).map(|(idling, _)| idling), Some(conclusion), "{row:?}");
        }
        let (_, array) = idling(&staircase(rows[1].0), true).unwrap();
        assert!(array.contains("slice_idle=0") && array.contains("group_idle"), "{array}");
        assert_eq!(idling(&[], true), None);
    }

    #[test]
    fn the_table_has_one_decimal_and_the_largest_first() {
        let mut streams = staircase([63.3, 18.7, 21.6, 29.6]);
        streams.truncate(2);
        streams[1].each_bytes_per_s = vec![10e6, 8.7e6];
        assert_eq!(classic_table("noop", &streams), "iosched=noop\n1     63.3   63.3\n2     18.7   10.0 8.7\n");
    }
}
