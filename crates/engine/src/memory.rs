//! Divides the arena between groups: bounds per group, reserves, and the order in which waiting
//! connections get freed memory.
//!
//! A group may hold half as much as is free (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions
//! on Networking 6, 1998). One group alone gets a third, and n that flood and go on get one part in n + 2
//! each. Of those that never give anything back, each leaves two thirds of what it found: with this factor
//! a fourth gets a tenth, and hardly more with any other. A group always has one slot of the largest size
//! for itself. A group that floods therefore waits for its own requests, and no group starves.
//! Connections that found no memory queue up per group; freed memory goes to the groups in
//! rotation.

use std::collections::VecDeque;

use hoistway_linux::{Slot, Slots, TOP_CLASS_BYTES};

/// The memory that a group holds, and its waiting connections.
#[derive(Debug, Default)]
struct Share {
    used_bytes: u64,
    reserve: Option<Slot>,
    reserve_is_free: bool,
    waiting: VecDeque<u32>,
    is_in_rotation: bool,
}

/// The most groups of a device, with the root.
pub(crate) const MAX_GROUPS: u32 = 16_384;
/// One part in this many of the arena is reserved for connections' own buffers.
const CONNECTIONS_SHARE: u32 = 4;

/// The arena's slots, divided between groups.
pub(crate) struct Memory {
    slots: Slots,
    /// The end of the arena, from which connections get their receive buffers. It is separate so
    /// that a new client gets a buffer even if groups use up all other memory.
    for_connections: Slots,
    /// Number of slots of the largest class before `for_connections`.
    before_connections: u32,
    shares: Vec<Share>,
    /// Groups with waiting connections, in the order of their next chance.
    rotation: VecDeque<u32>,
    /// Groups whose reserve was in use by others when they were added: they get the next free slots.
    owed: Vec<u32>,
    refusals: u64,
}

/// The most groups, with the root, for which an arena of this size has a reserve: half of it.
pub(crate) fn most_groups(memory_bytes: u64) -> u32 {
    let reserves = memory_bytes / u64::from(TOP_CLASS_BYTES) / 2;
    u32::try_from(reserves).unwrap_or(MAX_GROUPS).min(MAX_GROUPS)
}

impl Memory {
    pub(crate) fn new(bytes: u64, groups: u32) -> Self {
        let top_slots = u32::try_from(bytes / u64::from(TOP_CLASS_BYTES)).unwrap_or(u32::MAX);
        let before_connections = top_slots - top_slots / CONNECTIONS_SHARE;
        let top_slots_bytes = |count: u32| u64::from(count) * u64::from(TOP_CLASS_BYTES);
        let slots = Slots::new(top_slots_bytes(before_connections));
        let for_connections = Slots::new(top_slots_bytes(top_slots - before_connections));
        let shares = (0..groups).map(|_| Share::default()).collect();
        let rotation = VecDeque::with_capacity(groups as usize);
        Self { slots, for_connections, before_connections, shares, rotation, owed: Vec::new(), refusals: 0 }
    }

    /// Reserves a slot that only this group may use, now or as soon as one is free. False if all reserves
    /// together would exceed half of the memory.
    pub(crate) fn add_group(&mut self, group: u32) -> bool {
        let reserved = self.shares.iter().filter(|share| share.reserve.is_some()).count() + self.owed.len() + 1;
        if reserved as u64 * u64::from(TOP_CLASS_BYTES) > self.total_bytes() / 2 {
            return false;
        }
        self.owed.push(group);
        self.pay_reserves();
        true
    }

    /// Whether a group holds no memory and no connection of it waits, so that it can be removed.
    pub(crate) fn is_idle(&self, group: u32) -> bool {
        let share = &self.shares[group as usize];
        share.used_bytes == 0 && share.waiting.is_empty() && (share.reserve.is_none() || share.reserve_is_free)
    }

    /// Frees the reserve of an idle group.
    pub(crate) fn remove_group(&mut self, group: u32) {
        debug_assert!(self.is_idle(group), "group {group} holds memory");
        self.owed.retain(|&owed| owed != group);
        if let Some(reserve) = std::mem::take(&mut self.shares[group as usize]).reserve {
            self.slots.give(reserve);
            self.pay_reserves();
        }
    }

    /// Gives free slots to the groups that have no reserve yet.
    fn pay_reserves(&mut self) {
        while let Some(&group) = self.owed.first() {
            let Some(slot) = self.slots.take(TOP_CLASS_BYTES) else { return };
            let share = &mut self.shares[group as usize];
            (share.reserve, share.reserve_is_free) = (Some(slot), true);
            self.owed.remove(0);
        }
    }

    /// Takes memory that belongs to no group: receive buffers, zeroes.
    pub(crate) fn take_unowned(&mut self, bytes: u32) -> Option<Slot> {
        match self.for_connections.take(bytes) {
            Some(slot) => Some(slot.moved_up(self.before_connections)),
            None => self.slots.take(bytes),
        }
    }

    /// Frees memory of [`Memory::take_unowned`].
    pub(crate) fn give_unowned(&mut self, slot: Slot) {
        let was_taken = match slot.moved_down(self.before_connections) {
            Some(slot) => self.for_connections.give(slot),
            None => self.slots.give(slot),
        };
        debug_assert!(was_taken, "{slot:?} given back twice");
    }

    /// Takes a slot of at least `bytes` for a group; from its reserve if nothing else is free.
    #[inline]
    pub(crate) fn take(&mut self, group: u32, bytes: u32, may_pass_bound: bool) -> Option<Slot> {
        let share = &mut self.shares[group as usize];
        if (may_pass_bound || 2 * (share.used_bytes + u64::from(bytes)) <= self.slots.free_bytes())
            && let Some(slot) = self.slots.take(bytes)
        {
            share.used_bytes += u64::from(slot.bytes());
            return Some(slot);
        }
        match share.reserve {
            Some(reserve) if share.reserve_is_free && bytes <= reserve.bytes() => {
                share.reserve_is_free = false;
                Some(reserve)
            }
            _ => {
                self.refusals += 1;
                None
            }
        }
    }

    /// Frees a group's slot.
    #[inline]
    pub(crate) fn give(&mut self, group: u32, slot: Slot) {
        let share = &mut self.shares[group as usize];
        if share.reserve == Some(slot) {
            debug_assert!(!share.reserve_is_free, "the reserve of group {group} given back twice");
            share.reserve_is_free = true;
            return;
        }
        share.used_bytes -= u64::from(slot.bytes());
        let was_taken = self.slots.give(slot);
        debug_assert!(was_taken, "{slot:?} given back twice");
        if !self.owed.is_empty() {
            self.pay_reserves();
        }
    }

    /// Queues a connection for memory, behind earlier ones of its group.
    pub(crate) fn wait(&mut self, group: u32, connection: u32) {
        let share = &mut self.shares[group as usize];
        debug_assert!(!share.waiting.contains(&connection));
        share.waiting.push_back(connection);
        if !share.is_in_rotation {
            share.is_in_rotation = true;
            self.rotation.push_back(group);
        }
    }

    /// Whether any connection waits.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.rotation.is_empty()
    }

    /// The number of groups with a waiting connection.
    pub(crate) fn waiting_groups(&self) -> usize {
        self.rotation.len()
    }

    /// The next connection to retry, and its group; it no longer waits. If it still finds no
    /// memory, put it back with [`Memory::wait_on`].
    pub(crate) fn next_waiting(&mut self) -> Option<(u32, u32)> {
        let group = self.rotation.pop_front()?;
        let share = &mut self.shares[group as usize];
        let connection = share.waiting.pop_front();
        share.is_in_rotation = !share.waiting.is_empty();
        if share.is_in_rotation {
            self.rotation.push_back(group);
        }
        connection.map(|connection| (group, connection))
    }

    /// Puts a connection that was retried in vain back at the head of its group; the group goes to
    /// the rotation's end.
    pub(crate) fn wait_on(&mut self, group: u32, connection: u32) {
        let share = &mut self.shares[group as usize];
        share.waiting.push_front(connection);
        if !share.is_in_rotation {
            share.is_in_rotation = true;
            self.rotation.push_back(group);
        }
    }

    /// Removes a closed connection from the queue.
    pub(crate) fn forget(&mut self, group: u32, connection: u32) {
        let share = &mut self.shares[group as usize];
        share.waiting.retain(|&waiting| waiting != connection);
        if share.waiting.is_empty() && share.is_in_rotation {
            share.is_in_rotation = false;
            self.rotation.retain(|&other| other != group);
        }
    }

    /// Bytes that a group holds outside its reserve.
    pub(crate) fn used_bytes(&self, group: u32) -> u64 {
        self.shares[group as usize].used_bytes
    }

    /// Bytes free in the arena.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.slots.free_bytes() + self.for_connections.free_bytes()
    }

    /// All bytes of the arena.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.slots.total_bytes() + self.for_connections.total_bytes()
    }

    /// The number of requests for memory that were refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_flood_leave_twice_as_much_as_they_hold() {
        let mut memory = Memory::new(64 << 20, 8);
        assert!((0..8).all(|group| memory.add_group(group)));
        // 48 MiB are not for connections, 8 of them are reserves.
        let flood = |memory: &mut Memory, group| {
            let slots: Vec<Slot> = std::iter::from_fn(|| memory.take(group, 1 << 20, false)).collect();
            slots.len() - 1
        };
        assert_eq!(flood(&mut memory, 0), 13, "a third, and the group's own slot");
        assert_eq!((1..4).map(|group| flood(&mut memory, group)).collect::<Vec<_>>(), [9, 6, 4]);
        assert_eq!(flood(&mut memory, 4), 3);
    }

    /// Groups that come one after another get less and less; as they give memory back, all get as much.
    #[test]
    fn groups_that_flood_together_hold_as_much_as_each_other() {
        let mut memory = Memory::new(128 << 20, 5);
        assert!((0..4).all(|group| memory.add_group(group)));
        let mut held: Vec<VecDeque<Slot>> = vec![VecDeque::new(); 4];
        for round in 0..1_000 {
            for (group, held) in (0..).zip(&mut held) {
                while let Some(slot) = memory.take(group, 64 << 10, false) {
                    held.push_back(slot);
                }
                // One answer is sent.
                if let Some(slot) = held.pop_front().filter(|_| round < 999) {
                    memory.give(group, slot);
                }
            }
        }
        let parts: Vec<u64> = (0..4).map(|group| memory.used_bytes(group) >> 20).collect();
        assert!(parts.iter().all(|part| (14..=16).contains(part)), "a sixth of 92 MiB each: {parts:?}");
    }

    #[test]
    fn the_reserve_serves_when_the_arena_is_empty() {
        let mut memory = Memory::new(8 << 20, 2);
        assert!(memory.add_group(0) && memory.add_group(1));
        while memory.take_unowned(4_096).is_some() {}
        let reserve = memory.take(1, 4_096, false).expect("the reserve");
        assert!(memory.take(1, 4_096, false).is_none());
        memory.give(1, reserve);
        assert!(memory.take(1, 1 << 20, false).is_some());
    }

    #[test]
    fn groups_that_flood_leave_room_for_the_buffers_of_new_connections() {
        let mut memory = Memory::new(64 << 20, 8);
        assert!((0..8).all(|group| memory.add_group(group)));
        for group in 0..8 {
            while memory.take(group, 128 << 10, true).is_some() {}
        }
        let buffers: Vec<Slot> = (0..64).map_while(|_| memory.take_unowned(256 << 10)).collect();
        assert_eq!(buffers.len(), 64, "a quarter of 64 MiB");
        let ends: std::collections::HashSet<u64> = buffers.iter().map(|slot| slot.offset_bytes()).collect();
        assert!(ends.len() == 64 && ends.iter().all(|&at| (48 << 20..64 << 20).contains(&at)), "{ends:?}");
        for slot in buffers {
            memory.give_unowned(slot);
        }
        assert_eq!(memory.free_bytes(), 16 << 20);
    }

    #[test]
    fn waiting_connections_of_different_groups_take_turns() {
        let mut memory = Memory::new(8 << 20, 2);
        for connection in [1, 2, 3] {
            memory.wait(0, connection);
        }
        memory.wait(1, 9);
        let order: Vec<u32> = std::iter::from_fn(|| memory.next_waiting()).map(|(_, connection)| connection).collect();
        assert_eq!(order, [1, 9, 2, 3]);
        assert!(!memory.has_waiting());
    }

    #[test]
    fn a_group_added_to_a_full_arena_gets_its_reserve_when_memory_is_free() {
        let mut memory = Memory::new(8 << 20, 4);
        assert!(memory.add_group(0));
        let held: Vec<Slot> = std::iter::from_fn(|| memory.take(0, 1 << 20, true)).collect();
        assert!(memory.add_group(1) && memory.take(1, 4_096, false).is_none());
        held.into_iter().for_each(|slot| memory.give(0, slot));
        while memory.take(0, 4_096, true).is_some() {}
        let reserve = memory.take(1, 1 << 20, false).expect("the reserve");
        memory.give(1, reserve);
        assert!(!memory.is_idle(0) && memory.is_idle(1));
    }

    #[test]
    fn groups_come_and_go_without_end_up_to_the_stated_number() {
        let bytes = 64 << 20;
        let most = most_groups(bytes);
        let mut memory = Memory::new(bytes, most + 1);
        let free_bytes = memory.free_bytes();
        for _ in 0..3 {
            assert!((0..most).all(|group| memory.add_group(group)) && !memory.add_group(most));
            (0..most).for_each(|group| memory.remove_group(group));
            assert_eq!(memory.free_bytes(), free_bytes);
        }
        assert_eq!((most, most_groups(64 << 30)), (32, MAX_GROUPS));
    }

    #[test]
    fn reserves_never_take_more_than_half() {
        let mut memory = Memory::new(8 << 20, 8);
        let added = (0..8).filter(|&group| memory.add_group(group)).count();
        assert_eq!(added, 4);
    }
}
