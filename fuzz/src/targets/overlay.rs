//! Fuzzes the file of an overlay: the input is its header and the first pages of its bitmap.

use hoistway_engine::overlay::format::{
    BLOCK_BYTES, Boot, Header, Layout, PAGE_BYTES, Page, SLOTS, SlotState, with_checksum,
};
use hoistway_engine::overlay::map::Map;

use crate::target::{Seen, Target};

pub const TARGET: Target = Target {
    name: "overlay",
    promise: "no panic; what is read is written again as it was; a bitmap has no blocks that the base has not",
    run,
    corpus,
    tokens: &[b"hoistovl", b"hoistbit", &[1, 0, 0, 0], &[0, 0, 1, 0, 0, 0, 0, 0], &[255; 8], &[7; 16]],
    longest_bytes: PAGE_BYTES * 5,
};

const BOOT: Boot = [7; 16];

/// The page with this number of the input, with the checksum that it should have: a wrong one would hide the rest.
fn page(bytes: &[u8], number: usize) -> Page {
    let mut page = [0; PAGE_BYTES];
    let given = bytes.get(number * PAGE_BYTES..).unwrap_or_default();
    let length = given.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&given[..length]);
    if page.iter().all(|byte| *byte == 0) { page } else { with_checksum(page) }
}

fn run(bytes: &[u8]) -> Seen {
    let mut seen = Seen::NOTHING;
    let layout = match Header::decode(&page(bytes, 0)) {
        Ok(header) => {
            assert_eq!(header.encode(), page(bytes, 0), "a header is written again as it was");
            // The input has one page of the bitmap.
            Layout::of(header.base.size_bytes.min(1 << 30))
        }
        Err(error) => {
            seen = seen.and_message(&error.to_string(), "");
            Layout::of(100 * BLOCK_BYTES)
        }
    };
    let slot_of =
        |position: u64| usize::try_from((position - layout.slot_bytes(0, 0)) / PAGE_BYTES as u64).unwrap_or(9);
    for slot in 0..usize::try_from(SLOTS).unwrap_or(0) {
        if let SlotState::Written(found) = SlotState::decode(0, &page(bytes, 1 + slot)) {
            assert_eq!(SlotState::decode(0, &found.encode(0)), SlotState::Written(found));
        }
    }
    match Map::read(layout, BOOT, |position| Ok(page(bytes, 1 + slot_of(position)))) {
        Ok((map, damaged)) => {
            assert!(map.own_blocks() <= layout.blocks, "{} of {}", map.own_blocks(), layout.blocks);
            let end = (layout.blocks + 2) * BLOCK_BYTES;
            let (mut from, mut own) = (0, 0);
            while from < end {
                let (is_own, until) = map.run(from, end);
                assert!(until > from && until <= end, "a run from {from} to {until}");
                own += if is_own { until.min(layout.blocks * BLOCK_BYTES).saturating_sub(from) } else { 0 };
                from = until;
            }
            assert_eq!(own, map.own_blocks() * BLOCK_BYTES, "the runs are the bits");
            seen.and_count(usize::try_from(map.own_blocks()).unwrap_or(0)).and_count(damaged.len())
        }
        Err(error) => seen.and_message(&error.to_string(), ""),
    }
}

fn corpus() -> Vec<Vec<u8>> {
    use hoistway_engine::overlay::format::{BaseIdentity, BitmapPage};
    let base = BaseIdentity { size_bytes: 1 << 30, modified_s: 1_700_000_000, modified_ns: 1 };
    let header = Header { base, is_committing: false, base_path: b"/a".to_vec() }.encode();
    let slot = |generation, boot, words| BitmapPage { generation, boot, words }.encode(0);
    let slots = [
        slot(2, [0; 16], vec![0xff00, 1]),
        slot(1, [0; 16], vec![0xff00]),
        slot(4, BOOT, vec![0xffff, 1, 1 << 63]),
        slot(3, [8; 16], vec![0xff_ffff]),
    ];
    let whole = [header.to_vec(), slots.concat()].concat();
    vec![whole.clone(), whole[..PAGE_BYTES * 2].to_vec(), header.to_vec()]
}
