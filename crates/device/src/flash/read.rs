//! Reads: the pages that a command needs, and their path over die, channel and link. A unit is 4
//! KiB, the granularity of the mapping; a page has one or more. To sense a page is to read it from
//! the cells into the die's register.

use std::collections::VecDeque;

use hoistway_block::Nanos;

use super::layout::UNIT_SECTORS;
use super::operations::Event;
use super::translation::NONE;
use super::{Flash, Source};

/// The value of `SensedPage::owner` for a page read by garbage collection.
const COLLECTOR: u32 = u32::MAX;

/// A page between the cells and the host or the collector.
#[derive(Copy, Clone, Debug)]
pub(super) struct SensedPage {
    /// The command, or [`COLLECTOR`].
    owner: u32,
    /// The page's number if it is the collector's.
    page: u32,
    die: u16,
    /// Units that cross the channel.
    units: u8,
    /// Sectors that cross the link.
    sectors: u8,
}

impl SensedPage {
    /// The page of a read within one unit.
    #[inline]
    pub(super) fn of_small_read(command: u32, die: u32, sectors: u32) -> Self {
        Self { owner: command, page: NONE, die: narrow(die), units: 1, sectors: narrow(sectors) }
    }

    pub(super) fn owner(&self) -> u32 {
        self.owner
    }

    /// All fields but the page's number, as one word. The number of units is in the highest bits
    /// and is not 0, so the word is larger than the small codes of other events.
    #[inline]
    pub(super) fn word(&self) -> u64 {
        let [units, sectors] = [self.units, self.sectors].map(u64::from);
        units << 56 | sectors << 48 | u64::from(self.die) << 32 | u64::from(self.owner)
    }

    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.page
    }

    #[inline]
    pub(super) fn from_word(word: u64, page: u32) -> Self {
        let [units, sectors, die @ .., a, b, c, d] = word.to_be_bytes();
        Self { owner: u32::from_be_bytes([a, b, c, d]), page, die: u16::from_be_bytes(die), units, sectors }
    }

    #[inline]
    pub(super) fn is_host(&self) -> bool {
        self.owner != COLLECTOR
    }
}

/// A die without a register for the sensed page: the next page waits until the last one has been
/// transferred over the channel.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldDie {
    is_busy: bool,
    pages: VecDeque<SensedPage>,
}

#[inline]
fn narrow<T: TryFrom<u32> + Default>(value: u32) -> T {
    // The ranges of the parameters keep dies up to 2^16, units of a page up to 16 and its sectors
    // up to 128, so the conversion succeeds.
    T::try_from(value).unwrap_or_default()
}

impl Flash {
    /// Starts sensing every page that the command needs. Buffered and unmapped units need none.
    #[inline]
    pub(super) fn start_read(&mut self, now: Nanos, command: u32) {
        let (mut unit, units, offset, mut left) = {
            let read = self.commands.get(command);
            (read.unit, read.units, u32::from(read.offset), read.sectors)
        };
        if units == 1 {
            return self.start_small_read(now, command, unit, left);
        }
        let (mut pieces, mut ready_sectors) = (0, 0);
        let mut room = UNIT_SECTORS - offset;
        let mut page = SensedPage { owner: command, page: NONE, die: 0, units: 0, sectors: 0 };
        for _ in 0..units {
            let sectors = left.min(room);
            left -= sectors;
            room = UNIT_SECTORS;
            let place = if self.buffer.holds(unit) { NONE } else { self.translation.physical_of(unit) };
            if place == NONE {
                ready_sectors += sectors;
            } else {
                let number = self.layout.page_of(place);
                if number != page.page {
                    if page.page != NONE {
                        self.sense(now, page);
                    }
                    pieces += 1;
                    page.page = number;
                    page.die = narrow(self.layout.die_of(place));
                    (page.units, page.sectors) = (0, 0);
                }
                page.units += 1;
                page.sectors += narrow::<u8>(sectors);
            }
            unit = self.layout.following(unit);
        }
        if page.page != NONE {
            self.sense(now, page);
        }
        let is_ready = ready_sectors > 0 || pieces == 0;
        self.commands.get_mut(command).left = pieces + u32::from(is_ready);
        if is_ready {
            self.send(now, command, ready_sectors);
        }
    }

    /// A read within one unit: one page or none.
    #[inline]
    fn start_small_read(&mut self, now: Nanos, command: u32, unit: u32, sectors: u32) {
        // The command's `left` began as its number of units. Here that is one, which is also the
        // number of pieces to wait for, so `left` is not set.
        let place = if self.buffer.holds(unit) { NONE } else { self.translation.physical_of(unit) };
        if place == NONE {
            return self.send(now, command, sectors);
        }
        let die = self.layout.die_of(place);
        self.sense(now, SensedPage::of_small_read(command, die, sectors));
    }

    /// Starts sensing a page of a victim.
    pub(super) fn sense_victim(&mut self, now: Nanos, page: super::collect::VictimPage) {
        let (die, units) = (narrow(page.die), narrow(page.units));
        self.sense(now, SensedPage { owner: COLLECTOR, page: page.page, die, units, sectors: 0 });
    }

    #[inline]
    pub(super) fn sense(&mut self, now: Nanos, page: SensedPage) {
        if !self.holding.is_empty() {
            let held = &mut self.holding[usize::from(page.die)];
            if held.is_busy {
                held.pages.push_back(page);
                return;
            }
            held.is_busy = true;
        }
        let sensed = self.dies.sense(now, u32::from(page.die));
        self.schedule(sensed, Event::sensed(page));
    }

    /// A page is in the die's register: it crosses the channel and goes to its owner.
    #[inline]
    pub(super) fn sensed(&mut self, now: Nanos, page: SensedPage) {
        let transferred = self.dies.transfer(now, u32::from(page.die), u32::from(page.units), &self.layout);
        if !self.holding.is_empty() {
            self.release_die(transferred, page.die);
        }
        if page.is_host() {
            self.send(transferred, page.owner, u32::from(page.sectors));
        } else {
            self.schedule(transferred, Event::collected(page.page));
        }
    }

    /// A piece of a read crosses the link; after the last piece the read completes. Pieces leave
    /// the link in the order in which they are sent, so completions can wait in a stage.
    #[inline]
    fn send(&mut self, ready: Nanos, command: u32, sectors: u32) {
        let sent = self.link.send_to_host(ready, sectors);
        let read = self.commands.get_mut(command);
        read.left -= 1;
        if read.left == 0 {
            self.stages.read_done.push(sent, command);
            self.agenda.set(Source::ReadDone, self.stages.read_done.next());
        }
    }

    /// The die's register is empty from `at` on.
    fn release_die(&mut self, at: Nanos, die: u16) {
        let held = &mut self.holding[usize::from(die)];
        held.is_busy = false;
        self.dies.hold(u32::from(die), at);
        if let Some(page) = held.pages.pop_front() {
            self.sense(at, page);
        }
    }

    /// After a reset no command waits for a page. The die continues with the collector's pages.
    pub(super) fn forget_held_pages(&mut self, now: Nanos) {
        for die in 0..u16::try_from(self.holding.len()).unwrap_or(u16::MAX) {
            let held = &mut self.holding[usize::from(die)];
            held.pages.retain(|page| !page.is_host());
            let pages = std::mem::take(&mut held.pages);
            held.is_busy = false;
            for page in pages {
                self.sense(now, page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_after_a_while_as_a_word() {
        for page in [
            SensedPage { owner: COLLECTOR, page: 7, die: u16::MAX, units: 1, sectors: 0 },
            SensedPage { owner: 0, page: NONE, die: 0x0102, units: 16, sectors: 128 },
            SensedPage { owner: 0x0a0b_0c0d, page: 1, die: 1, units: u8::MAX, sectors: 3 },
        ] {
            let again = SensedPage::from_word(page.word(), page.number());
            let parts = |page: SensedPage| (page.owner, page.page, page.die, page.units, page.sectors);
            assert_eq!(parts(again), parts(page));
            assert!(page.word() > Event::PROGRAMMED);
        }
    }
}
