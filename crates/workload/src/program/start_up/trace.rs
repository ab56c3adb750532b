//! Generates traces with the totals of those of the benchmark suite S: requests and sectors per
//! process, kinds, sequential and random.
//!
//! The totals are those of the table in docs/specifications/bfq.md, section 21. A trace that fits
//! them is built from the elements of such traces:
//! - *sweeps* through an inode table: single pages of read-ahead, the first one at a random
//!   position and up to 30 after it, ended by one page that the process waits for;
//! - single pages of metadata, and data reads of 1 to 32 pages, both either random or sequential.
//!
//! Sweeps, metadata and data come in random order and are distributed over the processes in
//! consecutive pieces; the processes take turns of 16 requests on average. The table does not tell
//! how kinds and randomness divide among lowriter's processes: the large process, which has 85,184
//! of the 94,968 sectors, must have most of the data reads and gets 450 of 528.

use hoistway_block::random::Stream;

use super::App;

/// A page: the size of reads of sweeps and metadata, and the unit of data reads.
pub(super) const PAGE_BYTES: u32 = 4096;
/// Largest read in pages: the usual read-ahead window of 128 KiB.
pub(super) const MOST_PAGES: u8 = 32;
/// Longest run of read-aheads.
const MOST_AHEAD: u32 = 31;
/// Approximate mean run of read-aheads.
const USUAL_AHEAD: u32 = 24;
/// Mean number of requests of a turn.
const TURN: u64 = 16;
/// Sectors of a page.
const PAGE_SECTORS: u32 = 8;

/// One request of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub process: u16,
    pub pages: u8,
    pub is_random: bool,
    /// Whether its process does not wait for it.
    pub is_ahead: bool,
}

impl Request {
    pub(super) fn sectors(self) -> u64 {
        u64::from(self.pages) * u64::from(PAGE_SECTORS)
    }
}

/// Totals of some of an application's processes.
struct Totals {
    /// Requests of each process.
    requests: &'static [u32],
    sectors: u32,
    random: u32,
    /// Read-aheads, `RA` in the suite.
    ahead: u32,
    /// Reads of metadata, `RM` in the suite.
    metadata: u32,
    /// Reads of data, `R` in the suite, and the one synchronous write (`WS`) of gnome-terminal,
    /// which the suite replays as a read.
    data: u32,
}

const XTERM: &[Totals] =
    &[Totals { requests: &[632, 86], sectors: 12_072, random: 109, ahead: 554, metadata: 67, data: 97 }];
const GNOME_TERMINAL: &[Totals] = &[Totals {
    requests: &[1087, 852, 667, 100, 40, 33, 2],
    sectors: 41_120,
    random: 404,
    ahead: 1992,
    metadata: 355,
    data: 434,
}];
const LOWRITER: &[Totals] = &[
    Totals { requests: &[643], sectors: 85_184, random: 250, ahead: 175, metadata: 18, data: 450 },
    Totals { requests: &[389, 164, 72], sectors: 9_784, random: 93, ahead: 487, metadata: 60, data: 78 },
];
/// Ours: no trace of a browser is in the suite. The size of one of 2010 (60 MB, most of it in libraries that one process
/// reads in pieces, and a profile of small files).
const BROWSER: &[Totals] =
    &[Totals { requests: &[3_100, 700, 200], sectors: 120_000, random: 900, ahead: 1_400, metadata: 300, data: 2_300 }];

fn totals(app: App) -> &'static [Totals] {
    match app {
        App::Xterm => XTERM,
        App::GnomeTerminal => GNOME_TERMINAL,
        App::Lowriter => LOWRITER,
        App::Browser => BROWSER,
    }
}

/// Number of processes of an application.
pub(super) fn processes(app: App) -> u16 {
    let count: usize = totals(app).iter().map(|totals| totals.requests.len()).sum();
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Generates a trace in its global order.
pub(super) fn make(app: App, random: &mut Stream) -> Box<[Request]> {
    let mut pieces: Vec<Vec<Request>> = Vec::new();
    for totals in totals(app) {
        let requests = totals.requests_of_all(random);
        let mut rest = requests.as_slice();
        for &count in totals.requests {
            let (piece, behind) = rest.split_at(count as usize);
            let process = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
            pieces.push(piece.iter().map(|request| Request { process, ..*request }).collect());
            rest = behind;
        }
    }
    in_turns(&pieces, random)
}

/// A part of a trace that stays together.
#[derive(Copy, Clone)]
enum TraceElement {
    /// This many read-aheads, and the page that the process waits for.
    Sweep(u32),
    Metadata,
    Data(u8),
}

impl Totals {
    fn requests_of_all(&self, random: &mut Stream) -> Vec<Request> {
        let sweeps = self.ahead.div_ceil(USUAL_AHEAD);
        let singles = self.metadata - sweeps;
        let mut elements: Vec<TraceElement> =
            runs(self.ahead, sweeps, random).into_iter().map(TraceElement::Sweep).collect();
        elements.extend((0..singles).map(|_| TraceElement::Metadata));
        let data_pages = self.sectors / PAGE_SECTORS - self.ahead - self.metadata;
        elements.extend(sizes(data_pages, self.data, random).into_iter().map(TraceElement::Data));
        shuffle(&mut elements, random);

        // Each sweep starts at a random position; the remaining random ones are drawn among the
        // single reads.
        let (mut random_left, mut left) = (self.random - sweeps, singles + self.data);
        let mut is_random = |random: &mut Stream| {
            let is_random = random.chance(u64::from(random_left), u64::from(left));
            random_left -= u32::from(is_random);
            left -= 1;
            is_random
        };
        let mut requests = Vec::new();
        let one = |pages, is_random, is_ahead| Request { process: 0, pages, is_random, is_ahead };
        for element in elements {
            match element {
                TraceElement::Sweep(length) => {
                    requests.extend((0..length).map(|index| one(1, index == 0, true)));
                    requests.push(one(1, false, false));
                }
                TraceElement::Metadata => requests.push(one(1, is_random(random), false)),
                TraceElement::Data(pages) => requests.push(one(pages, is_random(random), false)),
            }
        }
        requests
    }
}

/// `count` lengths of 1 to [`MOST_AHEAD`] with the sum `total`.
fn runs(total: u32, count: u32, random: &mut Stream) -> Vec<u32> {
    let mut lengths: Vec<u32> = (0..count).map(|index| total / count + u32::from(index < total % count)).collect();
    for from in 0..lengths.len() {
        let to = draw(lengths.len(), random);
        let most = (lengths[from] - 1).min(MOST_AHEAD - lengths[to]);
        let moved = u32::try_from(random.below(u64::from(most) + 1)).unwrap_or(0);
        lengths[from] -= moved;
        lengths[to] += moved;
    }
    lengths
}

/// `count` sizes of 1 to [`MOST_PAGES`] pages with the sum `total`.
fn sizes(total: u32, count: u32, random: &mut Stream) -> Vec<u8> {
    let mut sizes: Vec<u8> = (0..count).map(|_| 1 + drawn_page(random)).collect();
    let mut sum: u32 = sizes.iter().map(|pages| u32::from(*pages)).sum();
    while sum != total {
        let size = &mut sizes[draw(count as usize, random)];
        if sum > total && *size > 1 {
            let less = (*size / 2).max(1).min(u8::try_from(sum - total).unwrap_or(u8::MAX)).min(*size - 1);
            *size -= less;
            sum -= u32::from(less);
        } else if sum < total && *size < MOST_PAGES {
            let more = (MOST_PAGES - *size).min(u8::try_from(total - sum).unwrap_or(u8::MAX));
            *size += more;
            sum += u32::from(more);
        }
    }
    sizes
}

fn drawn_page(random: &mut Stream) -> u8 {
    u8::try_from(random.below(u64::from(MOST_PAGES))).unwrap_or(0)
}

fn draw(count: usize, random: &mut Stream) -> usize {
    usize::try_from(random.below(count as u64)).unwrap_or(0)
}

fn shuffle<T>(items: &mut [T], random: &mut Stream) {
    for last in (1..items.len()).rev() {
        items.swap(last, draw(last + 1, random));
    }
}

/// Merges the processes' requests: the first process starts; each turn goes to a process in
/// proportion to what it has left.
fn in_turns(pieces: &[Vec<Request>], random: &mut Stream) -> Box<[Request]> {
    let mut rests: Vec<&[Request]> = pieces.iter().map(Vec::as_slice).collect();
    let mut left: u64 = rests.iter().map(|rest| rest.len() as u64).sum();
    let mut trace = Vec::new();
    let mut turn = 0;
    while left > 0 {
        if rests[turn].is_empty() || random.chance(1, TURN) {
            let mut drawn = random.below(left);
            turn = 0;
            while drawn >= rests[turn].len() as u64 {
                drawn -= rests[turn].len() as u64;
                turn += 1;
            }
        }
        if let Some((first, behind)) = rests[turn].split_first() {
            trace.push(*first);
            rests[turn] = behind;
            left -= 1;
        }
    }
    trace.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_table_for_any_seed() {
        // Requests, sectors, processes, random requests, read-aheads, others (metadata, data, one
        // write).
        let table = [
            (App::Xterm, 718, 12_072, 2, 109, 554, 67 + 97),
            (App::GnomeTerminal, 2781, 41_120, 7, 404, 1992, 355 + 433 + 1),
            (App::Lowriter, 1268, 94_968, 4, 343, 662, 78 + 528),
            (App::Browser, 4000, 120_000, 3, 900, 1400, 300 + 2300),
        ];
        for (app, requests, sectors, number, random, ahead, others) in table {
            for seed in 0..20 {
                let trace = make(app, &mut Stream::new(seed));
                let count = |of: fn(&Request) -> bool| trace.iter().filter(|request| of(request)).count();
                assert_eq!((trace.len(), processes(app)), (requests, number), "{app:?}");
                assert_eq!(trace.iter().map(|request| request.sectors()).sum::<u64>(), sectors, "{app:?}");
                assert_eq!(count(|request| request.is_random), random, "{app:?}");
                assert_eq!(count(|request| request.is_ahead), ahead, "{app:?}");
                assert_eq!(count(|request| !request.is_ahead), others, "{app:?}");
                assert!(trace.iter().all(|request| (1..=MOST_PAGES).contains(&request.pages)), "{app:?}");
            }
        }
    }

    #[test]
    fn processes_have_their_share_and_take_turns() {
        let trace = make(App::Lowriter, &mut Stream::new(3));
        let of = |process| trace.iter().filter(move |request| request.process == process);
        assert_eq!([0, 1, 2, 3].map(|process| of(process).count()), [643, 389, 164, 72]);
        assert_eq!(of(0).map(|request| request.sectors()).sum::<u64>(), 85_184);
        let turns = 1 + trace.windows(2).filter(|pair| pair[0].process != pair[1].process).count();
        // 1268 / 16 draws, of which more than a third select the process that already has the turn.
        assert!((25..80).contains(&turns), "{turns} turns");
    }

    #[test]
    fn another_seed_makes_another_trace_and_the_same_seed_the_same() {
        let of = |seed| make(App::Xterm, &mut Stream::new(seed));
        assert!(of(1) == of(1) && of(1) != of(2));
    }
}
