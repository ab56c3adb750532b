//! The way to the device: requests that the policy chose wait here until they are started, and started ones are
//! counted until they come back.

use hoistway_block::{HardwareQueue, RequestId, Sector};
use hoistway_elevator::structures::{Array, Links, List, NoMemory};

/// Requests between the policy's choice and their completion, by hardware queue.
///
/// Invariants: `chosen` is the length of all lists; `started` is the sum of `started_by_queue`. The lists use the links
/// that the caller passes.
#[derive(Debug)]
pub(crate) struct Device {
    lists: Array<List>,
    chosen: u32,
    started_by_queue: Array<u32>,
    started: u32,
    /// blk-mq's measure of a busy device ([`Device::round_ended`]).
    busy_average: u32,
    /// Sorted drains begin here and wrap: the end of the last request that went to the driver or to
    /// the tail.
    boundary_sector: Sector,
    /// The request at the tail that set the boundary and is not in the driver yet.
    boundary: Option<RequestId>,
}

impl Device {
    pub(crate) fn try_new(queues: u32) -> Result<Self, NoMemory> {
        Ok(Self {
            lists: Array::try_new(queues, List::EMPTY)?,
            chosen: 0,
            started_by_queue: Array::try_new(queues, 0)?,
            started: 0,
            busy_average: 0,
            boundary_sector: 0,
            boundary: None,
        })
    }

    /// Number of hardware queues.
    #[inline]
    pub(crate) fn queues(&self) -> u32 {
        self.started_by_queue.len()
    }

    // ---- chosen requests ----

    /// Requests chosen and not started.
    #[inline]
    pub(crate) fn chosen(&self) -> u32 {
        self.chosen
    }

    /// Whether a request was chosen for this queue and is not started.
    #[inline]
    pub(crate) fn has_chosen(&self, queue: HardwareQueue) -> bool {
        !self.lists.at(u32::from(queue.0)).is_empty()
    }

    /// The slot that is started next.
    #[inline]
    pub(crate) fn first_chosen(&self, queue: HardwareQueue) -> Option<u32> {
        self.lists.at(u32::from(queue.0)).first()
    }

    #[inline]
    pub(crate) fn push_front(&mut self, links: &mut Links, queue: HardwareQueue, slot: u32) {
        self.lists.at_mut(u32::from(queue.0)).push_front(links, slot);
        self.chosen += 1;
    }

    #[inline]
    pub(crate) fn push_back(&mut self, links: &mut Links, queue: HardwareQueue, slot: u32) {
        self.lists.at_mut(u32::from(queue.0)).push_back(links, slot);
        self.chosen += 1;
    }

    /// Appends a request that sorted drains may not pass.
    pub(crate) fn push_tail(&mut self, links: &mut Links, queue: HardwareQueue, id: RequestId, end: Sector) {
        self.push_back(links, queue, id.slot());
        self.boundary_sector = end;
        self.boundary = Some(id);
    }

    /// Inserts a slot behind the last one for which `stays_before` is true; it is called from the list's end on, with
    /// the boundary's sector.
    pub(crate) fn push_sorted(
        &mut self,
        links: &mut Links,
        queue: HardwareQueue,
        slot: u32,
        stays_before: impl Fn(u32, Sector) -> bool,
    ) {
        let list = self.lists.at_mut(u32::from(queue.0));
        let mut before = list.last();
        while let Some(other) = before {
            if stays_before(other, self.boundary_sector) {
                break;
            }
            before = links.prev(other);
        }
        match before {
            Some(other) => list.insert_after(links, other, slot),
            None => list.push_front(links, slot),
        };
        self.chosen += 1;
    }

    #[inline]
    pub(crate) fn pop_front(&mut self, links: &mut Links, queue: HardwareQueue) -> Option<u32> {
        let slot = self.lists.at_mut(u32::from(queue.0)).pop_front(links)?;
        self.chosen = self.chosen.wrapping_sub(1);
        Some(slot)
    }

    /// Takes a chosen request out of its list. False if it is on none.
    pub(crate) fn remove(&mut self, links: &mut Links, queue: HardwareQueue, id: RequestId) -> bool {
        if self.boundary == Some(id) {
            self.boundary = None;
        }
        let is_out = self.lists.at_mut(u32::from(queue.0)).remove(links, id.slot());
        self.chosen = self.chosen.saturating_sub(u32::from(is_out));
        is_out
    }

    /// A request goes to the driver: the boundary becomes its end, unless a request at the tail has
    /// set it.
    #[cold]
    pub(crate) fn move_boundary(&mut self, id: RequestId, end: Sector) {
        if self.boundary.is_none_or(|request| request == id) {
            self.boundary_sector = end;
            self.boundary = None;
        }
    }

    // ---- started requests ----

    /// Requests in the device.
    #[inline]
    pub(crate) fn started(&self) -> u32 {
        self.started
    }

    /// Whether a queue of this depth takes another request.
    #[inline]
    pub(crate) fn has_room(&self, queue: HardwareQueue, depth: u32) -> bool {
        *self.started_by_queue.at(u32::from(queue.0)) < depth
    }

    #[inline]
    pub(crate) fn enter(&mut self, queue: HardwareQueue) {
        *self.started_by_queue.at_mut(u32::from(queue.0)) += 1;
        self.started += 1;
    }

    #[inline]
    pub(crate) fn leave(&mut self, queue: HardwareQueue) {
        // Each request was counted when it was started, so this does not wrap.
        let started = self.started_by_queue.at_mut(u32::from(queue.0));
        *started = started.wrapping_sub(1);
        self.started = self.started.wrapping_sub(1);
    }

    // ---- whether the device is busy ----

    /// Whether a recent dispatch round found no room.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy_average > 0
    }

    /// A dispatch round ended, with room in the device or without: an integer moving average of the rounds without
    /// room, in which a new round weighs one eighth. Returns whether the device is busy now if that has changed.
    #[inline]
    pub(crate) fn round_ended(&mut self, did_fit: bool) -> Option<bool> {
        let was_busy = self.is_busy();
        if did_fit && !was_busy {
            return None;
        }
        self.busy_average = (7 * self.busy_average + if did_fit { 0 } else { 16 }) / 8;
        let is_busy = self.is_busy();
        (is_busy != was_busy).then_some(is_busy)
    }

    /// A new policy learns of a busy device from its own rounds.
    pub(crate) fn forget_busy(&mut self) {
        self.busy_average = 0;
    }

    /// The first invariant that does not hold, with the count found.
    pub(crate) fn broken(&self) -> Option<(&'static str, u32)> {
        let listed: u32 = self.lists.iter().map(List::len).sum();
        let started: u32 = self.started_by_queue.iter().sum();
        if listed != self.chosen {
            return Some(("the dispatch lists hold the chosen requests", listed));
        }
        (started != self.started).then_some(("each started request counts for one hardware queue", started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: HardwareQueue = HardwareQueue(0);

    #[test]
    fn chosen_requests_start_in_order_and_the_counts_follow() {
        let (mut links, mut device) = (Links::try_new(4).unwrap(), Device::try_new(2).unwrap());
        for slot in [1, 2] {
            device.push_back(&mut links, QUEUE, slot);
        }
        device.push_front(&mut links, QUEUE, 3);
        device.push_sorted(&mut links, QUEUE, 0, |other, _| other == 1);
        let order: [_; 5] = core::array::from_fn(|_| device.pop_front(&mut links, QUEUE));
        assert_eq!((order, device.chosen()), ([Some(3), Some(1), Some(0), Some(2), None], 0));
        device.enter(HardwareQueue(1));
        assert!(device.has_room(QUEUE, 1) && !device.has_room(HardwareQueue(1), 1));
        device.leave(HardwareQueue(1));
        assert_eq!((device.started(), device.broken()), (0, None));
    }

    #[test]
    fn a_request_at_the_tail_keeps_the_boundary_until_it_starts() {
        let (mut links, mut device) = (Links::try_new(4).unwrap(), Device::try_new(1).unwrap());
        let boundary = |device: &mut Device| {
            let seen = core::cell::Cell::new(0);
            let (mut links, id) = (Links::try_new(4).unwrap(), RequestId::from_raw(1));
            device.push_back(&mut links, QUEUE, id.slot());
            device.push_sorted(&mut links, QUEUE, 2, |_, sector| {
                seen.set(sector);
                true
            });
            while device.pop_front(&mut links, QUEUE).is_some() {}
            seen.get()
        };
        let [tail, other] = [0, 1].map(RequestId::from_raw);
        device.push_tail(&mut links, QUEUE, tail, 800);
        assert_eq!(device.pop_front(&mut links, QUEUE), Some(tail.slot()));
        device.move_boundary(other, 100);
        assert_eq!(boundary(&mut device), 800);
        device.move_boundary(tail, 800);
        device.move_boundary(other, 100);
        assert_eq!(boundary(&mut device), 100);
    }

    #[test]
    fn busy_begins_with_a_full_round_and_ends_after_fitting_ones() {
        let mut device = Device::try_new(1).unwrap();
        assert_eq!((device.round_ended(true), device.round_ended(false)), (None, Some(true)));
        let ends = (0..8).find_map(|round| device.round_ended(true).map(|is_busy| (round, is_busy)));
        assert_eq!((ends, device.is_busy()), (Some((1, false)), false));
    }
}
