//! Explanations of the symbols in the text table: one line for each symbol in use.

use hoistway_experiment::cell::Cell;
use hoistway_experiment::measurement::Flag;

use crate::quantity::percentile_name;
use crate::table::{LIMITS_ONLY, mark_of_shares};

/// The lines below the first table.
pub(crate) fn below(cells: &[Cell<'_>], percentiles: &[f64]) -> String {
    let mut lines = Vec::new();
    if cells.is_empty() {
        return String::new();
    }
    lines.push("NR: threads of each group".to_owned());
    lines.push(if cells.iter().any(|cell| cell.bytes_per_s.ci95.is_some()) {
        "+-: half of the 95 % interval over the sets; - where one set has none".to_owned()
    } else {
        "+-: the 95 % interval over the sets; one set has none, --sets 3 has".to_owned()
    });
    let name = percentiles.first().map(|percent| percentile_name(*percent));
    let (some, one) = (cells.iter().any(|cell| cell.groups.len() > 1), cells.iter().any(|cell| cell.groups.len() < 2));
    if some {
        if cells.iter().any(|cell| cell.entitlement.is_some()) {
            lines.push(
                "entitled: what it achieves alone, at most its part by weight and of what others leave".to_owned(),
            );
            lines.push("isolation: got / entitled of the group that is worst off; 100% is perfect".to_owned());
        } else {
            lines.push("share error: of the group that is furthest from its due share by weight".to_owned());
        }
        lines.extend(name.as_ref().map(|name| {
            format!("worst {name}: latency of the group that waits longest; --per-group-latency shows each")
        }));
    }
    if one {
        lines.extend(name.map(|name| format!("{name}: latency of all requests of the group")));
    }
    let has_changed = cells.iter().any(|cell| cell.scheduler.tunables.iter().any(|tunable| !tunable.is_default));
    if has_changed {
        lines.push("*: not the default".to_owned());
    }
    for flag in [Flag::Disturbed, Flag::CpuShort, Flag::NoShares, Flag::ShortWindow, Flag::Errors] {
        let is_shown = |cell: &Cell<'_>| match flag {
            Flag::NoShares => mark_of_shares(cell) == Some(flag.label()),
            _ => cell.flags.contains(&flag),
        };
        if cells.iter().any(is_shown) {
            lines.push(format!("{}: {}", flag.label(), meaning(flag)));
        }
    }
    if cells.iter().any(|cell| mark_of_shares(cell) == Some(LIMITS_ONLY)) {
        lines.push(format!("{LIMITS_ONLY}: weights have no effect under this scheduler, limits do"));
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

const fn meaning(flag: Flag) -> &'static str {
    match flag {
        Flag::Disturbed => "disturbed: other processes used the device",
        Flag::CpuShort => "the processor was saturated",
        Flag::NoShares => "weights have no effect under this scheduler",
        Flag::ShortWindow => "the threads ended before the runtime",
        Flag::Errors => "some requests failed",
    }
}
