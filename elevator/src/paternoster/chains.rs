//! Children in rings: the slots of all wheels, and the children in each in the order of their coming.

use crate::structures::{Array, NIL, NoMemory};
use core::hint::select_unpredictable;

/// Slots of a wheel.
pub const SLOTS: u32 = 64;

/// The neighbours of a child in its slot, in a ring that the slot's head closes: before the first and behind the last is the head, so that
/// nobody has to ask whether there is a neighbour. The children of a slot are in the order of their coming. In `prev` of the first means
/// nothing, so that nobody has to write to the next one when the first leaves.
#[derive(Copy, Clone, Debug)]
pub struct Link {
    prev: u32,
    pub next: u32,
}

/// In `next` of a child that is in no wheel; like [`NIL`] never an index.
pub const OFF: u32 = NIL - 1;

/// The links of all children, behind them the heads of all wheels' slots, and at last that of children that are being seated anew.
#[derive(Debug)]
pub struct Chains {
    links: Array<Link>,
    waiting: u32,
}

impl Chains {
    /// # Errors
    /// When memory is short.
    pub fn try_new(wheels: u32, children: u32) -> Result<Self, NoMemory> {
        let heads = wheels.checked_mul(SLOTS).ok_or(NoMemory)?;
        let waiting = children.checked_add(heads).filter(|waiting| *waiting < OFF).ok_or(NoMemory)?;
        let mut links = Array::try_new(waiting.wrapping_add(1), Link { prev: NIL, next: OFF })?;
        for head in children..=waiting {
            *links.at_mut(head) = Link { prev: head, next: head };
        }
        Ok(Self { links, waiting })
    }

    /// Who is behind a child in its slot, or nobody's index.
    #[inline]
    pub fn behind(&self, child: u32) -> u32 {
        self.links.at(child).next
    }

    /// A child is likely to be moved soon: its links come nearer.
    #[inline]
    pub fn prefetch(&self, child: u32) {
        self.links.prefetch(child);
    }

    pub fn is_linked(&self, child: u32) -> bool {
        self.links.at(child).next != OFF
    }

    /// Whether these are behind a head, one after the other, and each knows who is before it but for the first.
    #[cfg(test)]
    pub fn is_ring(&self, head: u32, children: &[u32]) -> bool {
        let last = children.last().copied().unwrap_or(head);
        self.links.at(head).prev == last && children.windows(2).all(|pair| self.links.at(pair[1]).prev == pair[0])
    }

    /// Where children wait that are being seated anew.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Of those that wait, this one goes first.
    pub fn take_waiting(&mut self, child: u32) -> bool {
        let waiting = self.waiting;
        let mut rings = self.rings();
        let Some(link) = rings.get(child).filter(|link| link.next != OFF) else { return false };
        rings.unlink(waiting, child, link);
        rings.set_off(child);
        true
    }

    /// The first of those that wait.
    pub fn next_waiting(&mut self) -> Option<u32> {
        let waiting = self.waiting;
        self.rings().pop_front(waiting)
    }

    #[inline(always)]
    pub fn rings(&mut self) -> Rings<'_> {
        Rings(self.links.as_mut_slice())
    }
}

/// The links, as long as they are being changed: where they lie is looked up once.
#[derive(Debug)]
pub struct Rings<'a>(&'a mut [Link]);

impl Rings<'_> {
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<Link> {
        self.0.get(index as usize).copied()
    }

    #[inline(always)]
    fn get_mut(&mut self, index: u32) -> Option<&mut Link> {
        self.0.get_mut(index as usize)
    }

    /// A child is in no wheel.
    #[inline(always)]
    pub fn set_off(&mut self, child: u32) {
        if let Some(link) = self.get_mut(child) {
            link.next = OFF;
        }
    }

    /// A child is in a wheel, and no head knows of it.
    #[inline(always)]
    pub fn set_lone(&mut self, child: u32) {
        if let Some(link) = self.get_mut(child) {
            link.next = NIL;
        }
    }

    /// The first of a slot, or its head if nobody is there.
    #[inline(always)]
    pub fn first_behind(&self, head: u32) -> u32 {
        self.get(head).map_or(NIL, |link| link.next)
    }

    /// Behind the last of a slot comes one that is in none, or is just leaving it.
    #[inline(always)]
    pub fn receive(&mut self, head: u32, child: u32) {
        let Some(of_head) = self.get_mut(head) else { return };
        let last = core::mem::replace(&mut of_head.prev, child);
        if let Some(link) = self.get_mut(last) {
            link.next = child;
        }
        if let Some(link) = self.get_mut(child) {
            *link = Link { prev: last, next: head };
        }
    }

    #[inline]
    pub fn push_front(&mut self, head: u32, child: u32) -> bool {
        let first = self.first_behind(head);
        match self.get_mut(child) {
            Some(link) if link.next == OFF => *link = Link { prev: head, next: first },
            _ => return false,
        }
        // Both are the head's if nobody was there.
        if let Some(behind) = self.get_mut(first) {
            behind.prev = child;
        }
        if let Some(of_head) = self.get_mut(head) {
            of_head.next = child;
        }
        true
    }

    /// Out of its slot, but its own link stays as it is. Answers whether nobody is left there.
    #[inline(always)]
    pub fn unlink(&mut self, head: u32, child: u32, link: Link) -> bool {
        let Link { prev, next } = link;
        if self.first_behind(head) == child {
            return self.pop(head, next);
        }
        if let Some(before) = self.get_mut(prev) {
            before.next = next;
        }
        if let Some(behind) = self.get_mut(next) {
            behind.prev = prev;
        }
        false
    }

    /// The first of a slot leaves, and this one was behind it. Answers whether nobody is left there, which chance decides.
    #[inline(always)]
    pub fn pop(&mut self, head: u32, next: u32) -> bool {
        let is_left = next == head;
        if let Some(of_head) = self.get_mut(head) {
            let last = select_unpredictable(is_left, head, of_head.prev);
            *of_head = Link { prev: last, next };
        }
        is_left
    }

    /// The first of a slot leaves it; `None` if nobody is there.
    pub fn pop_front(&mut self, head: u32) -> Option<u32> {
        let first = self.first_behind(head);
        if first == head {
            return None;
        }
        let next = core::mem::replace(&mut self.get_mut(first)?.next, OFF);
        self.pop(head, next);
        Some(first)
    }
}
