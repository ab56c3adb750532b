//! The pool of requests: tags, the older kernels' two kinds, and the bios that wait for one.

use crate::Settings;
use crate::admitted::Admitted;
use crate::bios::{Bios, Chain};
use crate::era::Allocation;
use crate::request_lists::RequestLists;
use crate::tags::Tags;
use hoistway_block::{Direction, Nanos};
use hoistway_elevator::structures::NoMemory;
use hoistway_elevator::{Admission, Bio, Violation};

/// Who may have a request, and who waits for one.
///
/// Invariants: `tags` counts the requests that are neither free nor the queue's own flush command; a bio is in one of
/// the two chains or in none. The chains use the records that the caller passes.
#[derive(Debug)]
pub(crate) struct Pool {
    tags: Tags,
    lists: RequestLists,
    /// Bios that wait for a tag: first those that may use every tag, then the limited ones, which
    /// may use only a part of the tags. Before blk-mq: those of the first kind and those of the
    /// second.
    waiting: [Chain; 2],
    admitted: Admitted,
}

impl Pool {
    /// Tags for as many requests as the table has slots beyond one for each queue's flush command.
    pub(crate) fn try_new(settings: &Settings, reserved: u32) -> Result<Self, NoMemory> {
        let configuration = &settings.configuration;
        let own = u32::from(configuration.hardware_queues.max(1));
        let most = configuration.slots.saturating_sub(own);
        Ok(Self {
            tags: Tags::new(configuration.depth.requests.min(most).max(1)),
            lists: RequestLists::try_new(settings.era.allocation, configuration.contexts)?,
            waiting: [Chain::EMPTY; 2],
            admitted: Admitted::try_new(settings.bios, reserved)?,
        })
    }

    // ---- taking and giving back ----

    #[inline]
    pub(crate) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Changes the number of tags. [`Pool::retry_all`] lets the waiting bios know.
    pub(crate) fn set_depth(&mut self, requests: u32) {
        self.tags.set_depth(requests);
    }

    /// Whether requests are allocated from the two kinds of the kernels before blk-mq.
    #[inline]
    pub(crate) fn has_lists(&self) -> bool {
        self.lists.rule() != Allocation::Tags
    }

    /// Takes a tag as blk-mq does, except that arrivals do not overtake waiting bios. An error
    /// means that the bio has to wait. Both results say whether the request is limited, that is,
    /// whether the policy allows it only a part of the tags ([`Admission::Shallow`]). A bio that must
    /// be admitted takes one beyond the depth, up to `slots`.
    #[inline]
    pub(crate) fn take(&mut self, admission: Admission, is_new: bool, slots: u32) -> Result<bool, bool> {
        let shallow = if let Admission::Shallow(depth) = admission { Some(depth) } else { None };
        let limited = shallow.is_some();
        let is_behind_others = is_new && !self.waiting[usize::from(limited)].is_empty();
        let must = admission == Admission::Must;
        if !must && (is_behind_others || !self.tags.take(shallow)) {
            return Err(limited);
        }
        if must && !self.tags.take(None) {
            if self.tags.in_use() >= slots {
                return Err(limited);
            }
            self.tags.take_beyond();
        }
        Ok(limited)
    }

    /// Takes a request of the bio's kind, or returns the queue to sleep on.
    pub(crate) fn take_of_kind(&mut self, bio: &Bio, is_must: bool, is_woken: bool, now: Nanos) -> Result<bool, bool> {
        if self.lists.take(&mut self.tags, bio, is_must, is_woken, now) {
            Ok(self.lists.is_second(bio))
        } else {
            Err(self.lists.queue_of(self.lists.is_second(bio)))
        }
    }

    /// The kind of a bio in these eras.
    pub(crate) fn kind_of(&self, bio: &Bio) -> bool {
        self.lists.is_second(bio)
    }

    /// The queue of sleepers for a bio that could not yet try to take a request.
    #[cold]
    pub(crate) fn sleeps_apart(&self, bio: &Bio) -> bool {
        self.has_lists() && self.lists.queue_of(self.lists.is_second(bio))
    }

    /// Returns a tag that was not used.
    #[inline]
    pub(crate) fn take_back(&mut self, limited: bool) {
        self.tags.give_back(limited);
    }

    /// A request was freed.
    #[inline]
    pub(crate) fn give_back(&mut self, is_second: bool) {
        self.tags.give_back(is_second);
        if self.has_lists() {
            self.came_back(is_second);
        }
    }

    #[cold]
    fn came_back(&mut self, is_second: bool) {
        self.lists.came_back(&self.tags, is_second, self.waiting.map(|chain| !chain.is_empty()));
    }

    /// The bio belongs to a request now.
    pub(crate) fn entered(&mut self, bio: &Bio) {
        self.lists.entered(bio);
    }

    /// Bios of `sectors` in all have ended.
    pub(crate) fn left(&mut self, sectors: u32) {
        self.lists.left(sectors);
    }

    pub(crate) fn is_congested(&self, direction: Direction) -> bool {
        self.lists.is_congested(direction == Direction::Write)
    }

    // ---- waiting ----

    /// Whether any bio waits.
    #[inline(always)]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting[0].is_empty() || !self.waiting[1].is_empty()
    }

    /// A bio waits behind the others of its kind.
    pub(crate) fn wait(&mut self, bios: &mut Bios, index: u32, limited: bool) {
        bios.append(&mut self.waiting[usize::from(limited)], index);
    }

    /// A bio that was to be admitted goes on waiting, before the others of its kind.
    pub(crate) fn put_back(&mut self, bios: &mut Bios, index: u32, limited: bool) {
        bios.prepend(&mut self.waiting[usize::from(limited)], index);
    }

    /// Takes the bio of a kind that has waited longest, while a tag is free.
    pub(crate) fn next_for_tag(&mut self, bios: &mut Bios, kind: usize) -> Option<u32> {
        if self.tags.in_use() >= self.tags.depth() {
            return None;
        }
        bios.pop(self.waiting.get_mut(kind)?)
    }

    /// Takes all bios that wait of a kind.
    pub(crate) fn take_waiting(&mut self, kind: usize) -> Chain {
        self.waiting.get_mut(kind).map_or(Chain::EMPTY, |chain| core::mem::replace(chain, Chain::EMPTY))
    }

    /// Number of waiting bios.
    pub(crate) fn waiting(&self, bios: &Bios) -> u32 {
        let lengths = self.waiting.map(|chain| u32::try_from(bios.iter(chain).count()).unwrap_or(u32::MAX));
        lengths.iter().sum()
    }

    /// The depth or the policy changed: all sleepers retry when they are next woken.
    pub(crate) fn retry_all(&mut self) {
        self.lists.retry_all(&self.tags, self.waiting.map(|chain| !chain.is_empty()));
    }

    /// Whether a sleeper is to be woken before the present call returns.
    #[inline]
    pub(crate) fn is_wake_due(&self) -> bool {
        self.lists.next_due().is_some()
    }

    /// Takes the sleeper to be woken next, with its kind; `None` inside if its kind has none left.
    pub(crate) fn next_sleeper(&mut self, bios: &mut Bios) -> Option<(usize, Option<u32>)> {
        let kind = self.lists.next_due()?;
        Some((kind, self.waiting.get_mut(kind).and_then(|chain| bios.pop(chain))))
    }

    /// A sleeper of this kind was woken and got its request, or sleeps again.
    pub(crate) fn woke(&mut self, kind: usize, is_let_in: bool) {
        self.lists.woke(kind, is_let_in);
    }

    // ---- admitted submitters ----

    /// A bio that waited has entered: its submitter runs again.
    #[inline]
    pub(crate) fn admitted(&mut self, cookie: u64) {
        self.admitted.push(cookie);
    }

    #[inline]
    pub(crate) fn take_admitted(&mut self) -> Option<u64> {
        self.admitted.pop()
    }

    #[inline]
    pub(crate) fn has_admitted(&self) -> bool {
        !self.admitted.is_empty()
    }

    /// Removes the admitted whose submitter is gone.
    pub(crate) fn forget_admitted(&mut self, of: &impl Fn(u64) -> bool) {
        self.admitted.forget(of);
    }

    /// Invariants of the older allocations; `sectors` are those of all bios in requests.
    pub(crate) fn check(&self, sectors: u64, is_switching: bool) -> Result<(), Violation> {
        self.lists.check(&self.tags, sectors, is_switching)?;
        for (kind, chain) in self.waiting.iter().enumerate() {
            let sleeps_alone = self.tags.of_kind(kind == 1) == 0 && !chain.is_empty();
            if self.lists.rule() == Allocation::SplitLists && sleeps_alone && !is_switching {
                return Err(Violation { what: "no submitter sleeps for a kind without allocated requests", at: 0 });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Era;
    use hoistway_block::{Extent, Operation};
    use hoistway_elevator::{Configuration, Depth};

    fn pool(era: Era, requests: u32) -> Pool {
        let depth = Depth { requests, device: 1 };
        let configuration = Configuration { depth, slots: 16, contexts: 1, ..Configuration::default() };
        Pool::try_new(&Settings { configuration, era, bios: 4, ..Settings::default() }, 4).unwrap()
    }

    #[test]
    fn an_arrival_does_not_overtake_a_waiting_bio_unless_it_must() {
        let (mut pool, mut bios) = (pool(Era::BLK_MQ, 2), Bios::try_new(4, 4).unwrap());
        assert_eq!(pool.take(Admission::Shallow(1), true, 15), Ok(true));
        assert_eq!(pool.take(Admission::Shallow(1), true, 15), Err(true));
        let index = bios.take(&Bio::new(Operation::Read, Extent::new(0, 8)), 7, 0).unwrap();
        pool.wait(&mut bios, index, false);
        assert_eq!(pool.take(Admission::Full, true, 15), Err(false));
        assert_eq!(pool.take(Admission::Full, false, 15), Ok(false));
        assert_eq!((pool.next_for_tag(&mut bios, 0), pool.waiting(&bios)), (None, 1));
        assert_eq!(pool.take(Admission::Must, true, 3), Ok(false));
        assert_eq!((pool.take(Admission::Must, true, 3), pool.tags().in_use()), (Err(false), 3));
        pool.give_back(true);
        pool.give_back(false);
        assert_eq!((pool.next_for_tag(&mut bios, 0), pool.has_waiting()), (Some(index), false));
    }

    #[test]
    fn a_freed_request_wakes_a_sleeper_of_its_kind() {
        let (mut pool, mut bios) = (pool(Era::LINUX_2_4, 4), Bios::try_new(4, 4).unwrap());
        let bio = Bio::new(Operation::Write, Extent::new(0, 8));
        let taken = [(); 5].map(|()| pool.take_of_kind(&bio, false, false, 0).is_ok());
        let most = taken.iter().filter(|is_taken| **is_taken).count();
        let index = bios.take(&bio, 7, 0).unwrap();
        pool.wait(&mut bios, index, pool.sleeps_apart(&bio));
        assert!((1..5).contains(&most) && !pool.is_wake_due());
        for _ in 0..most {
            pool.give_back(true);
        }
        let Some((kind, Some(woken))) = pool.next_sleeper(&mut bios) else { panic!("a sleeper is due") };
        pool.woke(kind, false);
        assert!(woken == index && !pool.is_wake_due() && !pool.has_waiting());
    }
}
