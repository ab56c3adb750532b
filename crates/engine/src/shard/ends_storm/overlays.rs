//! The storm over overlays: the volumes begin with the sectors of a base, their bitmaps are written, and the server is
//! killed in the middle of it. What was answered is there when it is started again, what is read is never a sector of
//! the base that was written over, and what was copied is as it was.

use super::*;
use crate::overlay::format::{BLOCK_BYTES, Boot, Layout, PAGE_BYTES, Page};
use crate::overlay::map::Map;

const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;
/// Sectors of a volume, and of the base below all of them.
pub(super) const SECTORS: u64 = 4 * BLOCK_SECTORS;
const BASE_SECTORS: u64 = 3 * BLOCK_SECTORS;
const BOOT: Boot = [7; 16];
/// The number of the write with which a sector of the base came into being.
const BEFORE: u64 = 1 << 40;

/// What the storm has in addition if its volumes are overlays.
#[derive(Default)]
pub(super) struct Overlays {
    /// The base of all of them: a value for each sector.
    pub base: BTreeMap<u64, u64>,
    /// The pages of the bitmaps, by volume and position in its file.
    files: BTreeMap<(u32, u64), Page>,
    /// Writes of pages in flight.
    pub stores: Vec<(u32, u64, Page)>,
}

fn layout() -> Layout {
    Layout::of(BASE_SECTORS * SECTOR_BYTES)
}

impl Storm {
    /// The volumes become overlays of one base, before anything else.
    pub(super) fn put_over_base(&mut self) {
        self.first = BLOCK_SECTORS / 2 + self.below(3) * BLOCK_SECTORS;
        let mut overlays = Overlays::default();
        overlays.base.extend((0..BASE_SECTORS).map(|sector| (sector, BEFORE + sector)));
        for volume in 0..3 {
            let write = Map::new(layout(), BOOT).sealed_slot(0, &[]);
            overlays.files.insert((volume, write.position_bytes), *write.bytes);
            for sector in 0..super::SECTORS {
                let Some(&value) = overlays.base.get(&(self.first + sector)) else { continue };
                let register = self.registers.at(volume, sector);
                register.called(value, Access::Write(value));
                register.ended(value, End::Wrote);
            }
        }
        self.overlays = Some(overlays);
        self.open_overlays();
    }

    /// Opens the bitmaps as they are in the files.
    fn open_overlays(&mut self) {
        let Some(overlays) = &self.overlays else { return };
        for volume in 0..3 {
            let page = |position| Ok(overlays.files.get(&(volume, position)).copied().unwrap_or([0; PAGE_BYTES]));
            let (map, _) = Map::read(layout(), BOOT, page).expect("a bitmap");
            assert!(self.turn.add_overlay(volume, map, Positions::linear(1 << 40)), "memory");
        }
    }

    pub(super) fn store_begins(&mut self, volume: u32, position_bytes: u64, span: Span) {
        let mut page = [0; PAGE_BYTES];
        self.arena.copy_out(span, &mut page);
        let overlays = self.overlays.as_mut().expect("an overlay");
        let is_second = overlays.stores.iter().any(|(of, ..)| *of == volume);
        assert!(!is_second, "two writes of a bitmap at once, seed {}", self.seed);
        overlays.stores.push((volume, position_bytes, page));
    }

    /// A write of a page ends, well or not.
    pub(super) fn store_done(&mut self) {
        let is_ok = !self.random.chance(1, 30);
        let Some(overlays) = &mut self.overlays else { return };
        let Some((volume, position_bytes, page)) = overlays.stores.pop() else { return };
        if is_ok {
            overlays.files.insert((volume, position_bytes), page);
        }
        self.turn.stored(volume, is_ok, self.now, &mut self.actions);
    }

    /// The server is killed, and with it all clients; what is in flight is done to some extent. Another one starts.
    pub(super) fn die_all(&mut self) {
        // Mostly in the middle of a write of a bitmap.
        let is_writing = self.overlays.as_ref().is_some_and(|overlays| !overlays.stores.is_empty());
        if self.overlays.is_none() || !is_writing && self.random.chance(9, 10) {
            return;
        }
        self.seen.killed += 1;
        for (_, client) in std::mem::take(&mut self.clients) {
            for (cookie, open) in &client.open {
                for sector in open.sectors.clone().filter(|sector| !open.answered.contains(sector)) {
                    self.registers.at(client.volume, sector).ended(*cookie, End::Unanswered);
                }
            }
        }
        let stores = self.overlays.as_mut().map(|overlays| std::mem::take(&mut overlays.stores)).unwrap_or_default();
        for (volume, position_bytes, page) in stores {
            let torn_at = self.index_below(PAGE_BYTES + 1);
            self.seen.torn += 1;
            let Some(overlays) = &mut self.overlays else { return };
            let place = overlays.files.entry((volume, position_bytes)).or_insert([0; PAGE_BYTES]);
            place[..torn_at].copy_from_slice(&page[..torn_at]);
        }
        self.ios.clear();
        self.syncs.clear();
        self.actions.clear();
        self.turn = Turn::new(&self.settings, Arc::clone(&self.arena)).expect("a turn");
        for abilities in &self.volumes {
            self.turn.add_volume(abilities.clone());
        }
        self.groups = vec![0];
        self.groups.extend(["a", "b"].into_iter().filter_map(|name| self.turn.add_group(name, 0, 100, 0)));
        self.open_overlays();
    }

    /// What no client has written is as it is in the base, in every block that was copied.
    pub(super) fn check_copies(&self) {
        let Some(overlays) = &self.overlays else { return };
        let used = self.first..self.first + super::SECTORS;
        for volume in 0..3 {
            let map = self.turn.map(volume).expect("an overlay");
            let copied =
                (0..BASE_SECTORS).filter(|sector| map.is_own(sector / BLOCK_SECTORS) && !used.contains(sector));
            for sector in copied {
                let found = self.stored.get(&(volume, sector));
                assert_eq!(found, overlays.base.get(&sector), "sector {sector} of {volume}, seed {}", self.seed);
            }
        }
    }
}

/// Short storms, because soon every block is the overlay's own.
#[test]
fn what_overlays_answer_fits_a_register_and_survives_a_kill() {
    let count = std::env::var("HOISTWAY_STORMS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut all = Seen::default();
    for seed in 500..500 + count {
        let seen = run(Storm::new(seed, true), seed, 3_000);
        all.answered += seen.answered;
        all.killed += seen.killed;
        all.torn += seen.torn;
    }
    let is_wild = all.answered > count * 100 && all.killed > count / 4 && all.torn > count / 20;
    assert!(is_wild, "the storm was a calm: {all:?}");
}
