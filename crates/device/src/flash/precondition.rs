//! The initial state of a device, computed without simulating the time to reach it.
//!
//! A fresh device has spare room and hides garbage collection; one that has been overwritten at
//! random several times is in its steady state. `fill` only initialises tables; `random` makes all
//! the overwrites one by one, without simulated time.

use hoistway_block::random::Stream;

use super::collect::collect_at_once;
use super::layout::Layout;
use super::parameters::FlashParameters;
use super::translation::{BATCH_UNITS, NONE, Translation, Writer};

/// A translation in the state that `parameters.history.precondition` specifies.
pub(super) fn preconditioned(parameters: &FlashParameters, layout: &Layout, stream: &mut Stream) -> Translation {
    match parameters.history.precondition {
        0 => Translation::new(layout),
        1 => Translation::filled(layout),
        _ => {
            let mut translation = Translation::filled(layout);
            overwrite(&mut translation, parameters, layout, stream);
            translation
        }
    }
}

/// Writes over units chosen at random, collecting garbage as the timed device does, but without
/// taking time.
fn overwrite(translation: &mut Translation, parameters: &FlashParameters, layout: &Layout, stream: &mut Stream) {
    let units = u128::from(layout.logical_units) * u128::from(parameters.history.random_mult_millionths) / 1_000_000;
    let low = usize::try_from(parameters.layout.gc_low).unwrap_or(usize::MAX);
    let mut left = usize::try_from(units).unwrap_or(usize::MAX);
    let mut batch = [NONE; BATCH_UNITS as usize];
    while left > 0 {
        let batch = &mut batch[..left.min(BATCH_UNITS as usize)];
        batch.fill_with(|| u32::try_from(stream.below(u64::from(layout.logical_units))).unwrap_or(0));
        translation.prefetch_written(batch);
        for &unit in &*batch {
            if translation.must_open(Writer::Host) {
                // As in the timed device, the host's writes take a free superblock (one erase block of
                // every plane of every die), and collection then frees superblocks until more than
                // `gc_low` are free.
                if !translation.open(Writer::Host, layout) {
                    return;
                }
                collect_at_once(translation, low, layout);
            }
            translation.write(unit, layout);
        }
        left -= batch.len();
    }
    // The timed device writes whole program units (what one multi-plane program writes), so the
    // last ones, which are filled in part, are filled up.
    translation.pad(Writer::Host, layout);
    translation.pad(Writer::Collector, layout);
}
