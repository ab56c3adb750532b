//! Volumes of the storm that are overlays, and the writes of their bitmaps.

use super::{Positions, Storm, Turn, VOLUME_BYTES};
use crate::overlay::format::Layout;
use crate::overlay::map::Map;

/// Of one in two seeds, the first two volumes are overlays, and have half of their bytes in a base.
pub(super) fn put_over_base(turn: &mut Turn, seed: u64) {
    for volume in 0..if seed.is_multiple_of(2) { 2 } else { 0 } {
        let map = Map::new(Layout::of(VOLUME_BYTES / 2), [1; 16]);
        assert!(turn.add_overlay(volume, map, Positions::linear(1 << 40)), "memory for a page");
    }
}

impl Storm {
    pub(super) fn store_begins(&mut self, volume: u32) {
        assert!(!self.stores.contains(&volume), "two writes of a bitmap at once, seed {}", self.seed);
        self.stores.push(volume);
    }

    pub(super) fn store_done(&mut self) {
        let Some(volume) = self.stores.pop() else { return };
        let is_ok = !self.stream.chance(1, 50);
        self.core.turn.stored(volume, is_ok, self.now, &mut self.actions[self.worker]);
    }
}
