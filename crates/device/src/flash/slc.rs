//! The cache of a consumer drive: blocks of multi-level cells that hold one bit per cell and are
//! programmed several times as fast.
//!
//! The drive writes to the cache while it has room, then to multi-level blocks that nothing has
//! used yet, and when there are none of those either, a write waits until the firmware has moved as
//! much data out of the cache (folding). A folded program costs its die both programs. While the
//! host writes nothing, folding empties the cache. Source: docs/specifications/devices.md, section
//! 6.8.

use hoistway_block::Nanos;

use super::idle_timer::IDLE_NS;
use super::layout::{Layout, UNIT_SECTORS};
use super::parameters::FlashParameters;
use crate::rate::Pace;

/// Bytes of a unit.
const UNIT_BYTES: u64 = UNIT_SECTORS as u64 * 512;

/// How long the die is programmed for data of the host, and from when on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct HostProgram {
    pub(super) start: Nanos,
    pub(super) service_ns: Nanos,
}

/// The cache and what is free beside it; all sizes in units of 4 KiB.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    size: u64,
    used: u64,
    /// Multi-level blocks that nothing has used.
    direct: u64,
    single_ns: Nanos,
    multi_ns: Nanos,
    fold: Pace,
    /// Units that are folded in a second while the host writes nothing.
    fold_per_s: u64,
    last_program: Nanos,
}

impl SlcCache {
    pub(super) fn new(parameters: &FlashParameters, layout: &Layout) -> Self {
        let size = parameters.slc.slc_mib * ((1 << 20) / UNIT_BYTES);
        let logical = parameters.layout.capacity_sectors / u64::from(UNIT_SECTORS);
        let spare = u128::from(logical) * u128::from(parameters.layout.overprovision_millionths) / 1_000_000;
        let physical = logical + u64::try_from(spare).unwrap_or(u64::MAX / 2);
        // A drive in its steady state has neither room.
        let is_new = parameters.history.precondition < 2;
        let programs_per_s = u64::from(layout.dies) * 1_000_000_000 / parameters.dies.program_ns.max(1);
        let by_dies = programs_per_s * u64::from(layout.program_units);
        let by_firmware = parameters.slc.slc_fold_kb_per_s * 1_000 / UNIT_BYTES;
        Self {
            size,
            used: if is_new { 0 } else { size },
            direct: if is_new { physical.saturating_sub(size * parameters.slc.cell_bits) } else { 0 },
            single_ns: parameters.slc.slc_program_ns,
            multi_ns: parameters.dies.program_ns,
            fold: Pace::new(parameters.slc.slc_fold_kb_per_s),
            fold_per_s: if by_firmware == 0 { by_dies } else { by_dies.min(by_firmware) },
            last_program: 0,
        }
    }

    /// Programs `units` of the host at `now`.
    #[inline]
    pub(super) fn program(&mut self, now: Nanos, units: u32) -> HostProgram {
        let units = u64::from(units);
        if self.size == 0 {
            return HostProgram { start: now, service_ns: self.multi_ns };
        }
        self.rest(now);
        self.last_program = now;
        if self.used + units <= self.size {
            self.used += units;
            return HostProgram { start: now, service_ns: self.single_ns };
        }
        if self.direct >= units {
            self.direct -= units;
            return HostProgram { start: now, service_ns: self.multi_ns };
        }
        let start = self.fold.ready(now);
        self.fold.spend(start, units * UNIT_BYTES * 1_000_000);
        HostProgram { start, service_ns: self.single_ns + self.multi_ns }
    }

    /// What was folded since the last program, if the host paused.
    fn rest(&mut self, now: Nanos) {
        let idle_ns = now.saturating_sub(self.last_program).saturating_sub(IDLE_NS);
        if idle_ns > 0 {
            let folded = u128::from(idle_ns) * u128::from(self.fold_per_s) / 1_000_000_000;
            self.used = self.used.saturating_sub(u64::try_from(folded).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4,096 units of multi-level cells, of which 3 x 1,024 hold the 1,024 units of a cache of 4 MiB.
    fn cache(slc_mib: u64, slc_fold_kb_per_s: u64) -> SlcCache {
        let parameters = FlashParameters::default().with(|flash| {
            flash.layout.capacity_sectors = 16 << 11;
            flash.layout.simulated_mib = 16;
            flash.layout.overprovision_millionths = 0;
            flash.slc.slc_mib = slc_mib;
            flash.slc.cell_bits = 3;
            flash.slc.slc_program_ns = 100_000;
            flash.dies.program_ns = 900_000;
            flash.slc.slc_fold_kb_per_s = slc_fold_kb_per_s;
        });
        SlcCache::new(&parameters, &Layout::new(&parameters.layout))
    }

    #[test]
    fn fast_then_direct_then_at_the_rate_of_folding() {
        let mut cache = cache(4, 4_096);
        let mut now = 0;
        let mut run = |units: u64| {
            let services: Vec<Nanos> = (0..units)
                .map(|_| {
                    let program = cache.program(now, 1);
                    now = program.start;
                    program.service_ns
                })
                .collect();
            services.iter().all(|service| *service == services[0]).then(|| services[0])
        };
        assert_eq!(run(1_024), Some(100_000), "4 MiB in single bits");
        assert_eq!(run(1_024), Some(900_000), "16 MiB less three times 4 MiB have never been used");
        assert_eq!(run(1_001), Some(1_000_000), "both programs for each fold");
        assert_eq!(now, 1_000_000_000, "4,096 kB/s are 1,000 units in a second");
    }

    #[test]
    fn a_pause_empties_it_at_the_rate_of_folding() {
        let mut cache = cache(4, 4_096);
        (0..2_048).for_each(|_| assert_eq!(cache.program(0, 1).start, 0));
        let now = IDLE_NS + 500_000_000;
        let fast = (0..600).filter(|_| cache.program(now, 1).service_ns == 100_000).count();
        assert_eq!(fast, 500, "half a second of 1,000 units in a second");
    }

    #[test]
    fn without_a_cache_every_program_is_a_multi_level_one() {
        let mut none = cache(0, 0);
        assert_eq!(none.program(5, 1_000_000), HostProgram { start: 5, service_ns: 900_000 });
    }
}
