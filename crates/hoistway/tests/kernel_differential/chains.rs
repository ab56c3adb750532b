//! The compared input: random batches on few places, from a seed alone.
//!
//! A batch enters an idle scheduler as a whole. Behaviour that depends on more than the order
//! within a batch is excluded: [`mq_deadline`] says which of its chains may mix classes; kyber's
//! latency targets are so long that no request misses them, so no depth shrinks during the
//! comparison.

use hoistway_block::random::Stream;
use hoistway_block::{Class, Extent, Operation, Priority, SoftwareQueue};
use hoistway_elevator::Bio;
use hoistway_testbed::notation::{Step, script};

/// I/Os of the largest batch: the kernel's plug holds at most 32.
pub const BATCH_MOST: usize = 32;
/// Sectors of the largest I/O.
pub const IO_MOST: u32 = 32;
pub const DEVICE_SECTORS: u64 = 64 << 11;

/// Batches of a chain whose state carries over.
const CHAIN: usize = 10;
/// Smallest number of I/Os in a batch: fewer would not wait for each other.
const BATCH_LEAST: u64 = 3;
/// An ordinary batch has fewer I/Os than this, which is a few below the plug's capacity, as other
/// I/O of the thread would count too.
const BATCH_USUAL: u64 = 28;
const BLOCK_SECTORS: u64 = 8;

pub type Tunables = Vec<(&'static str, i64)>;

/// Batches for a fresh scheduler with these tunables, one after the other.
pub struct Chain {
    pub tunables: Tunables,
    pub batches: Vec<Vec<Bio>>,
}

/// Even seeds give one batch of all classes. Odd seeds give several batches of one class each, and
/// the scheduler's state carries over from one to the next.
///
/// While requests of a class are in flight, the kernel also tries to dispatch from the lower
/// classes, without success, as often as its timing causes it. Each such try changes the batch of
/// requests that mq-deadline dispatches, which the classes share, unless that batch may continue
/// and a request is ahead of its position. Where none may be ahead (the position is left from an
/// earlier batch) or the batch may not continue (fifo_batch 0), the order of several classes
/// depends on timing; the batches of I/Os are then of a single class.
pub fn mq_deadline(seed: u64) -> Chain {
    let mut random = Stream::of(seed, "kernel_differential");
    let tunables = vec![
        ("fifo_batch", one_of(&mut random, &[0, 1, 2, 3, 16])),
        ("writes_starved", one_of(&mut random, &[-5, 0, 1, 2, 5])),
        ("front_merges", one_of(&mut random, &[0, 1])),
        // At 0 every request is overdue when it is inserted.
        ("read_expire", one_of(&mut random, &[500_000, 0])),
        ("write_expire", one_of(&mut random, &[500_000, 0])),
    ];
    let carries = seed % 2 == 1;
    let of_one_class = carries || tunables.contains(&("fifo_batch", 0));
    let count = if carries { CHAIN } else { 1 };
    let batches = (0..count).map(|_| batch_of_few_places(&mut random, of_one_class)).collect();
    Chain { tunables, batches }
}

/// Several classes in every batch. Three of four seeds give one batch on a fresh scheduler. There
/// the tries without success (see [`mq_deadline`]) either find a request ahead, or make the same
/// change again and again. The fourth gives several batches under prio_aging_expire 0, where every
/// request has aged, so that no try in a class with requests is without success.
pub fn mq_deadline_of_several_classes(seed: u64) -> Chain {
    let mut random = Stream::of(seed, "kernel_differential/classes");
    let carries = seed % 4 == 3;
    let ages_ms: &[i64] = if carries { &[0] } else { &[10_000, 100_000, i32::MAX as i64, 0] };
    let prio_aging_expire = one_of(&mut random, ages_ms);
    let fifo_batches: &[i64] = if prio_aging_expire == 0 { &[0, 1, 2, 3, 16] } else { &[1, 2, 3, 16] };
    let tunables = vec![
        ("prio_aging_expire", prio_aging_expire),
        ("fifo_batch", one_of(&mut random, fifo_batches)),
        ("writes_starved", one_of(&mut random, &[0, 1, 2, 5])),
        ("front_merges", one_of(&mut random, &[0, 1])),
        ("read_expire", one_of(&mut random, &[500_000, 0])),
        ("write_expire", one_of(&mut random, &[500_000, 0])),
    ];
    let count = if carries { CHAIN } else { 1 };
    let batches = (0..count).map(|_| batch_of_several_classes(&mut random)).collect();
    Chain { tunables, batches }
}

/// Seeds 0 and 1 are cases KY5 and KY6 of docs/specifications/classic-elevators.md, section 8;
/// every other seed is a chain of random batches, because kyber's current kind of request and its
/// batch are kept from one batch to the next.
pub fn kyber(seed: u64, with_discards: bool) -> Chain {
    // Eleven days: nothing completes too late, so all domains keep their initial depths.
    let tunables = vec![("read_lat_nsec", 1_000_000_000_000_000), ("write_lat_nsec", 1_000_000_000_000_000)];
    let mut random = Stream::of(seed, "kernel_differential/kyber");
    let batches = match seed {
        0 => [16, 4, 16, 4].map(half_reads_half_writes).into(),
        1 => vec![bios("W10000 W20000 R5000 R4000 R3000"); 2],
        _ => (0..CHAIN).map(|_| batch_of_kinds(&mut random, with_discards)).collect(),
    };
    Chain { tunables, batches }
}

fn one_of<T: Copy>(random: &mut Stream, values: &[T]) -> T {
    values[usize::try_from(random.below(values.len() as u64)).expect("in range")]
}

/// The place of the next I/O: often directly after the last one, else anywhere.
fn place(random: &mut Stream, last: Option<&Bio>, behind: (u64, u64), places: u64) -> Extent {
    let sectors = u32::try_from(BLOCK_SECTORS * (1 + random.below(4))).expect("small").min(IO_MOST);
    let behind = last.filter(|_| random.chance(behind.0, behind.1)).map(|last| last.extent.end());
    let first_sector = behind.unwrap_or_else(|| random.below(places) * BLOCK_SECTORS);
    Extent::new(first_sector.min(DEVICE_SECTORS - u64::from(IO_MOST)), sectors)
}

/// A few places, so that I/Os are often adjacent: in order, in reverse, and across a gap. Or nearly
/// the whole device.
fn places(random: &mut Stream) -> u64 {
    if random.chance(1, 2) { 64 } else { DEVICE_SECTORS / BLOCK_SECTORS - 8 }
}

fn batch_of_few_places(random: &mut Stream, of_one_class: bool) -> Vec<Bio> {
    let priorities = [
        Priority::DEFAULT,
        Priority::new(Class::RealTime, 4),
        Priority::new(Class::Idle, 4),
        Priority::DEFAULT,
        Priority::new(Class::BestEffort, 2),
    ];
    let usable = if random.chance(1, 2) { 2 } else { priorities.len() as u64 };
    let only = random.below(usable);
    let places = places(random);
    let mut bios: Vec<Bio> = Vec::new();
    for _ in 0..BATCH_LEAST + random.below(BATCH_USUAL - BATCH_LEAST) {
        let operation = if random.chance(1, 2) { Operation::Read } else { Operation::Write };
        let mut bio = Bio::new(operation, place(random, bios.last(), (1, 4), places));
        let which = if of_one_class { only } else { random.below(usable) };
        bio.priority = priorities[usize::try_from(which).expect("in range")];
        bios.push(bio);
    }
    bios
}

fn batch_of_several_classes(random: &mut Stream) -> Vec<Bio> {
    const CLASSES: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];
    let reads = one_of(random, &[1, 2, 3]);
    let places = places(random);
    let mut bios: Vec<Bio> = Vec::new();
    for _ in 0..BATCH_LEAST + random.below(BATCH_USUAL - BATCH_LEAST) {
        let operation = if random.chance(reads, 4) { Operation::Read } else { Operation::Write };
        let last = bios.last().copied();
        let mut bio = Bio::new(operation, place(random, last.as_ref(), (1, 3), places));
        // Priority levels do not affect the order, but I/Os of different levels never merge.
        let level = one_of(random, &[4, 4, 4, 0, 7]);
        let drawn = Priority::new(one_of(random, &CLASSES), level);
        bio.priority = last.filter(|_| random.chance(1, 3)).map_or(drawn, |last| last.priority);
        bios.push(bio);
    }
    let first = bios[0].priority.class();
    if bios.iter().all(|bio| bio.priority.class() == first) {
        let other = CLASSES[(first as usize + one_of(random, &[1, 2])) % CLASSES.len()];
        bios.last_mut().expect("at least three").priority = Priority::new(other, 4);
    }
    bios
}

/// Reads, writes and discards in changing shares, often enough of a kind to use up its batch. kyber
/// ignores classes, so several are used. One CPU, which may be any, issues all of a batch.
fn batch_of_kinds(random: &mut Stream, with_discards: bool) -> Vec<Bio> {
    let reads = one_of(random, &[0, 1, 4, 6, 7, 8]);
    let discards = if with_discards { one_of(random, &[0, 0, 1, 3]) } else { 0 };
    let least = if random.chance(1, 2) { BATCH_LEAST } else { 20 };
    let software_queue = SoftwareQueue(u16::try_from(random.below(4)).expect("small"));
    let places = places(random);
    let mut bios: Vec<Bio> = Vec::new();
    for _ in 0..least + random.below(BATCH_MOST as u64 + 1 - least) {
        let operation = match (random.chance(discards, 8), random.chance(reads, 8)) {
            (true, _) => Operation::Discard,
            (false, true) => Operation::Read,
            (false, false) => Operation::Write,
        };
        let mut bio = Bio::new(operation, place(random, bios.last(), (1, 8), places));
        // A discard through io_uring has no priority of its own.
        if operation != Operation::Discard {
            let priorities = [Priority::DEFAULT, Priority::DEFAULT, Priority::new(Class::RealTime, 4)];
            bio.priority = one_of(random, &priorities);
        }
        bio.software_queue = software_queue;
        bios.push(bio);
    }
    bios
}

/// `count` reads, then `count` writes, none adjacent to another.
fn half_reads_half_writes(count: u64) -> Vec<Bio> {
    let places = |letter: char, from: u64| {
        (0..count).map(move |index| format!("{letter}{}", from + index * 100 * BLOCK_SECTORS))
    };
    bios(&places('R', 0).chain(places('W', 50_000)).collect::<Vec<_>>().join(" "))
}

fn bios(text: &str) -> Vec<Bio> {
    let steps = script(text).into_iter();
    let bios = steps.map(|step| match step {
        Step::Submit(bio) => Bio { priority: Priority::DEFAULT, ..bio },
        other => panic!("not a bio: {other:?}"),
    });
    bios.collect()
}
