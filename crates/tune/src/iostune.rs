//! The decision for which the script iostune (July 2010) was written, from the figures that it
//! printed: whether to idle for readers.
//!
//! Source: docs/specifications/harness.md, section 8.1.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::{StreamStep, delta_gamma};

/// If parallel streams keep this fraction of one stream's rate, idling has nothing to win back.
const KEPT: f64 = 0.90;

/// Whether the scheduler is to idle for a reader's next request.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idling {
    /// Streams reduce each other's rate: idle for each of them (default `slice_idle`).
    PerQueue,
    /// Streams add up: never idle for a single stream (`slice_idle=0`), only for a group, which
    /// would lose its share otherwise (`group_idle`).
    PerGroup,
    /// The device does not seek, so idling neither gains nor loses anything.
    Pointless,
}

/// One of the three conclusions of the mails in which iostune was published, from the streams
/// without a scheduler. `None` if the rate of one stream or of several is unknown.
pub fn idling(streams: &[StreamStep], seeks: bool) -> Option<(Idling, String)> {
    let (delta, gamma) = (delta_gamma(streams, f64::min)?, delta_gamma(streams, f64::max)?);
    let figures = format!("delta {delta:.3}, gamma {gamma:.3}");
    Some(match (delta >= KEPT, seeks) {
        (true, false) => (
            Idling::Pointless,
            format!(
                "{figures}: parallel readers cost no throughput and the device does not seek, so idling is useless"
            ),
        ),
        (true, true) => (
            Idling::PerGroup,
            format!(
                "{figures}: parallel readers add up; idling for one of them leaves the other arms unused. slice_idle=0, \
                 and groups by group_idle (2.6.35 and 36: group_isolation=1 too)"
            ),
        ),
        (false, _) => {
            (Idling::PerQueue, format!("{figures}: parallel readers reduce the device's throughput; keep slice_idle"))
        }
    })
}

/// iostune's table for one scheduler: readers, total, then the rate of each reader in MB/s, largest
/// first.
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
    use crate::findings::tests::streams;

    /// The three published rows for noop, and the conclusions of the mails.
    #[test]
    fn the_published_staircases_give_the_threads_own_conclusions() {
        let rows = [
            ([63.3, 18.7, 21.6, 29.6], true, Idling::PerQueue),
            ([62.5, 86.5, 98.7, 112.5], true, Idling::PerGroup),
            ([243.0, 231.0, 270.6, 262.9], false, Idling::Pointless),
        ];
        for (row, seeks, conclusion) in rows {
            assert_eq!(idling(&streams(row), seeks).map(|(idling, _)| idling), Some(conclusion), "{row:?}");
        }
        let (_, array) = idling(&streams(rows[1].0), true).unwrap();
        assert!(array.contains("slice_idle=0") && array.contains("group_idle"), "{array}");
        assert_eq!(idling(&[], true), None);
    }

    #[test]
    fn the_table_has_one_decimal_and_the_largest_first() {
        let mut streams = streams([63.3, 18.7, 21.6, 29.6]);
        streams.truncate(2);
        streams[1].each_bytes_per_s = vec![10e6, 8.7e6];
        assert_eq!(classic_table("noop", &streams), "iosched=noop\n1     63.3   63.3\n2     18.7   10.0 8.7\n");
    }
}
