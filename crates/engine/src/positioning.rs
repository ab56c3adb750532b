//! Measures whether positioning costs time on a device that is reported as rotational. Virtual
//! disks report so by default, whatever their storage, and believing it would serve flash one
//! issuer at a time.
//!
//! No disk serves half of its random reads within a millisecond. Only a device that is reported as
//! rotational is measured. An array whose large cache answers the reads looks like flash; its owner
//! can configure that positioning costs time. Sources: docs/specifications/harness.md, section 8.5;
//! docs/specifications/harness.md, section 14 (trap T18).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hoistway_block::random::Stream;
use hoistway_linux::buffer::{Arena, Span};
use hoistway_linux::device::Kind;

use crate::backing::OpenVolume;

/// Whether a device counts as rotational.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Rotational {
    /// As the system reports, unless random reads contradict it.
    #[default]
    Measured,
    /// Positioning costs time.
    Yes,
    /// Positioning costs no time.
    No,
}

const READ_BYTES: u32 = 4_096;
/// The number of informative reads that ends the measurement.
const SUFFICIENT_READS: usize = 32;
/// With fewer informative reads there is no median.
const MIN_READS: usize = 16;
const MAX_READS: u32 = 256;
/// The time limit. A disk that needs 27 ms per read completes too few reads in this time, so it
/// counts as the system reports.
const TIME_LIMIT: Duration = Duration::from_millis(400);
/// Smaller devices are not measured, because a disk's cache may hold that much.
const MIN_DEVICE_BYTES: u64 = 64 << 20;
/// A disk needs more than this for half of its reads.
const POSITIONING_TIME: Duration = Duration::from_millis(1);

/// Decides for all volumes of a device. Returns a message for the user if the measurement
/// contradicts the system; a configured value is applied without one.
pub(crate) fn decide(volumes: &mut [OpenVolume], wanted: Rotational) -> Option<String> {
    match wanted {
        Rotational::Measured => correct(volumes),
        Rotational::Yes | Rotational::No => {
            for volume in volumes.iter_mut().filter(|volume| volume.model.is_none()) {
                volume.facts.is_rotational = wanted == Rotational::Yes;
            }
            None
        }
    }
}

fn correct(volumes: &mut [OpenVolume]) -> Option<String> {
    let mut medians = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| is_reported_rotational(volume)) {
        let Some(number) = device_number(volume).filter(|number| !medians.contains_key(number)) else { continue };
        if let Some(median) = median_of_reads(volume) {
            medians.insert(number, median);
        }
    }
    medians.retain(|_, median| *median < POSITIONING_TIME);
    for volume in volumes.iter_mut().filter(|volume| is_reported_rotational(volume)) {
        let is_fast = device_number(volume).is_some_and(|number| medians.contains_key(&number));
        volume.facts.is_rotational = !is_fast;
    }
    let slowest = medians.values().max()?;
    Some(format!(
        "the system reports it as rotational, but a random read of {READ_BYTES} bytes takes {} us (median), so it is \
         treated as non-rotational (rotational = \"yes\" overrides this)",
        slowest.as_micros()
    ))
}

/// Whether a volume is a file or device with direct I/O that the system reports as rotational,
/// without a model in front.
fn is_reported_rotational(volume: &OpenVolume) -> bool {
    let is_disk = |kind| matches!(kind, Kind::BlockDevice | Kind::RegularFile);
    volume.facts.is_rotational
        && volume.model.is_none()
        && volume.opened.as_ref().is_some_and(|opened| opened.is_direct && is_disk(opened.facts.kind))
}

fn device_number(volume: &OpenVolume) -> Option<u64> {
    volume.opened.as_ref().map(|opened| opened.facts.identity.0)
}

fn median_of_reads(volume: &OpenVolume) -> Option<Duration> {
    let opened = volume.opened.as_ref()?;
    let arena = Arena::new(u64::from(READ_BYTES)).ok()?;
    median(volume.facts.size_bytes, |place| {
        let span = Span { offset_bytes: 0, length_bytes: READ_BYTES };
        let began = Instant::now();
        arena.read_at(opened.file.as_fd(), span, volume.base_bytes + place)?;
        let taken = began.elapsed();
        let mut bytes = [0; READ_BYTES as usize];
        arena.copy_out(span, &mut bytes);
        Ok(Read { taken, is_empty: bytes.iter().all(|byte| *byte == 0) })
    })
}

/// One read: its time, and whether it returned only zeroes, in which case the device may not have
/// had to position.
#[derive(Copy, Clone, Debug)]
struct Read {
    taken: Duration,
    is_empty: bool,
}

/// The median time of reads at random places. `None` if there are too few informative reads: the
/// device is small or slow, mostly zeroes, or unreadable.
fn median(size_bytes: u64, mut read: impl FnMut(u64) -> io::Result<Read>) -> Option<Duration> {
    if size_bytes < MIN_DEVICE_BYTES {
        return None;
    }
    let mut places = Stream::of(1, "engine/positioning");
    let (mut taken, mut spent) = (Vec::with_capacity(SUFFICIENT_READS), Duration::ZERO);
    for _ in 0..MAX_READS {
        let place = places.below(size_bytes / u64::from(READ_BYTES)) * u64::from(READ_BYTES);
        let one = read(place).ok()?;
        spent += one.taken;
        taken.extend((!one.is_empty).then_some(one.taken));
        if taken.len() == SUFFICIENT_READS || spent >= TIME_LIMIT {
            break;
        }
    }
    taken.sort_unstable();
    let middle = taken.get(taken.len() / 2).copied();
    middle.filter(|_| taken.len() >= MIN_READS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Simulates reads of this duration, of which every `every`-th returns something else than
    /// zeroes.
    fn found(size_bytes: u64, taken_us: u64, every: u64) -> Option<Duration> {
        let mut count = 0_u64;
        median(size_bytes, |place| {
            assert!(place % 4_096 == 0 && place + 4_096 <= size_bytes);
            count += 1;
            Ok(Read { taken: Duration::from_micros(taken_us), is_empty: !count.is_multiple_of(every) })
        })
    }

    #[test]
    fn the_median_of_random_reads_is_the_positioning_time() {
        for taken_us in [80, 999, 1_000, 8_000, 25_000] {
            assert_eq!(found(GIB, taken_us, 1), Some(Duration::from_micros(taken_us)));
        }
    }

    #[test]
    fn too_few_informative_reads_give_no_median() {
        assert_eq!(found(MIN_DEVICE_BYTES - 4_096, 80, 1), None, "a disk's cache may hold all of it");
        assert_eq!(found(GIB, 27_000, 1), None, "it is slow");
        assert_eq!((found(GIB, 80, 16), found(GIB, 80, 17)), (Some(Duration::from_micros(80)), None), "zeroes");
        assert_eq!(median(GIB, |_| Err(io::ErrorKind::PermissionDenied.into())), None);
    }

    #[test]
    fn half_of_the_reads_decide() {
        let mut count = 0_u64;
        let mixed = |_| {
            count += 1;
            Ok(Read {
                taken: Duration::from_micros(if count.is_multiple_of(3) { 9_000 } else { 100 }),
                is_empty: false,
            })
        };
        assert_eq!(median(GIB, mixed), Some(Duration::from_micros(100)));
    }
}
