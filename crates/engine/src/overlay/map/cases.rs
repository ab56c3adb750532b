//! A file in memory under the bitmap: every write torn at any byte, with and without another boot.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::format::PAGE_BYTES;
use super::*;

const THIS_BOOT: Boot = [1; 16];
const NEXT_BOOT: Boot = [2; 16];
const BLOCKS: u64 = BLOCKS_PER_PAGE + 700;

fn layout() -> Layout {
    Layout::of(BLOCKS * BLOCK_BYTES + 5)
}

/// The file of a new overlay.
fn file(map: &mut Map) -> Vec<u8> {
    let mut file = vec![0; usize::try_from(map.layout().data_bytes).expect("small")];
    for page in 0..map.layout().pages {
        let write = map.sealed_slot(page, &[]);
        put(&mut file, &write, PAGE_BYTES);
        map.stored(page, &[], true);
    }
    file
}

fn put(file: &mut [u8], write: &SlotWrite, bytes: usize) {
    let at = usize::try_from(write.position_bytes).expect("small");
    file[at..at + bytes].copy_from_slice(&write.bytes[..bytes]);
}

fn opened(file: &[u8], boot: Boot) -> Map {
    let read = |position: u64| {
        let at = usize::try_from(position).expect("small");
        Ok(Page::try_from(&file[at..at + PAGE_BYTES]).expect("a page"))
    };
    Map::read(layout(), boot, read).expect("a bitmap").0
}

fn own(map: &Map) -> BTreeSet<u64> {
    (0..BLOCKS).filter(|block| map.is_own(*block)).collect()
}

fn bytes_of(block: u64) -> Range<u64> {
    block * BLOCK_BYTES..block * BLOCK_BYTES + 1
}

#[derive(Clone, Debug)]
enum Step {
    /// These blocks are written, and the next open slots are; before that, as often, a write of them fails.
    Write(Vec<u64>, usize),
    /// Everything is made durable.
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (proptest::collection::vec(0..BLOCKS, 1..20), 0_usize..3).prop_map(|(blocks, fails)| Step::Write(blocks, fails)),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At every point, and with the write of that point torn anywhere, the same boot finds all that was stored before
    /// and at most what was being stored, and another boot all that was sealed before and at most what was being
    /// sealed.
    #[test]
    fn every_torn_prefix_of_a_write_opens_as_before_or_after_it(
        steps in proptest::collection::vec(step(), 1..12),
        torn_at in proptest::collection::vec(0..=PAGE_BYTES, 4),
    ) {
        let mut map = Map::new(layout(), THIS_BOOT);
        let mut file = file(&mut map);
        let (mut stored, mut sealed) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            let is_sealing = matches!(step, Step::Flush);
            if let Step::Write(blocks, fails) = step {
                for _ in 0..fails {
                    map.take_over(&bytes_of(blocks[0]));
                    let page = u32::try_from(page_of(blocks[0])).expect("small");
                    let write = map.open_slot(page, &map.words_to_store(page));
                    // More of it could be all that differs.
                    put(&mut file, &write, torn_at[0].min(12));
                    prop_assert!(own(&opened(&file, THIS_BOOT)).is_superset(&stored));
                    map.give_up();
                }
                blocks.iter().for_each(|block| map.take_over(&bytes_of(*block)));
            }
            let mut all = own(&map);
            all.extend((0..BLOCKS).filter(|block| !map.is_stored(&bytes_of(*block))));
            let pages: Vec<u32> = if is_sealing { map.unsealed().collect() } else { (0..2).collect() };
            for page in pages {
                if !is_sealing && map.next_unstored(page) != Some(page) {
                    continue;
                }
                let words = if is_sealing { map.words(page) } else { map.words_to_store(page) };
                let write =
                    if is_sealing { map.sealed_slot(page, &words) } else { map.open_slot(page, &words) };
                for &bytes in &torn_at {
                    let mut torn = file.clone();
                    put(&mut torn, &write, bytes);
                    let (same, next) = (own(&opened(&torn, THIS_BOOT)), own(&opened(&torn, NEXT_BOOT)));
                    prop_assert!(same.is_superset(&stored) && same.is_subset(&all));
                    let most = if is_sealing { &all } else { &sealed };
                    prop_assert!(next.is_superset(&sealed) && next.is_subset(most));
                }
                put(&mut file, &write, PAGE_BYTES);
                map.stored(page, &words, is_sealing);
                if is_sealing {
                    map.sealed(page, &words);
                }
                let of_page = |block: &u64| page_of(*block) == page as usize;
                stored.extend(all.iter().copied().filter(of_page));
                sealed.extend(all.iter().copied().filter(|block| is_sealing && of_page(block)));
                prop_assert_eq!(own(&opened(&file, THIS_BOOT)), stored.clone());
                prop_assert_eq!(own(&opened(&file, NEXT_BOOT)), sealed.clone());
            }
            prop_assert!(all.iter().all(|block| map.is_stored(&bytes_of(*block))));
            prop_assert_eq!(map.next_unstored(0), None);
            prop_assert_eq!(own(&map), all.clone());
            prop_assert!(!is_sealing || map.unsealed().next().is_none());
            prop_assert!(all.iter().all(|block| map.is_sealed(&bytes_of(*block)) == sealed.contains(block)));
        }
    }

    #[test]
    fn a_run_ends_where_the_owner_changes(blocks in proptest::collection::btree_set(0..BLOCKS, 0..40), from in 0..BLOCKS) {
        let mut map = Map::new(layout(), THIS_BOOT);
        blocks.iter().for_each(|block| map.take_over(&bytes_of(*block)));
        (0..2).for_each(|page| map.stored(page, &[u64::MAX; WORDS_PER_PAGE], false));
        let end = (BLOCKS + 3) * BLOCK_BYTES;
        let (is_own, until) = map.run(from * BLOCK_BYTES + 7, end);
        prop_assert_eq!(is_own, blocks.contains(&from));
        let behind = (from..BLOCKS).find(|block| blocks.contains(block) != is_own);
        let expected = behind.map_or(if is_own { end } else { BLOCKS * BLOCK_BYTES }, |block| block * BLOCK_BYTES);
        prop_assert_eq!(until, expected);
        prop_assert_eq!(map.own_blocks(), blocks.len() as u64);
    }
}

#[test]
fn a_page_without_a_whole_sealed_slot_is_refused_and_one_damaged_slot_is_named() {
    let mut map = Map::new(layout(), THIS_BOOT);
    let mut file = file(&mut map);
    map.take_over(&bytes_of(9));
    let words = map.words_to_store(0);
    let write = map.sealed_slot(0, &words);
    put(&mut file, &write, PAGE_BYTES);
    file[usize::try_from(write.position_bytes).expect("small") + 100] ^= 1;
    let read = |file: &[u8], position: u64| {
        let at = usize::try_from(position).expect("small");
        Ok(Page::try_from(&file[at..at + PAGE_BYTES]).expect("a page"))
    };
    let (found, damaged) = Map::read(layout(), NEXT_BOOT, |position| read(&file, position)).expect("the other slot");
    assert_eq!((found.own_blocks(), damaged), (0, vec![DamagedSlot { page: 0, slot: 0 }]));
    let other = usize::try_from(layout().slot_bytes(0, 1)).expect("small");
    file[other + 100] ^= 1;
    assert!(matches!(Map::read(layout(), NEXT_BOOT, |position| read(&file, position)), Err(NoMap::Damaged(0))));
}
