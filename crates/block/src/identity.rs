//! Identities of requests, issuers, groups and queues, as plain indices.

use core::fmt;

/// "None" in links and raw indices.
pub const NIL: u32 = u32::MAX;

/// A request: a slot of the request table and the generation of its use.
///
/// The low [`RequestId::SLOT_BITS`] bits are the slot; the other 12 bits count the slot's reuses.
/// An id that outlives its request therefore no longer matches, unless the slot was reused an exact
/// multiple of 4,096 times since.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u32);

impl RequestId {
    /// Bits of the slot number: a table has at most 2^20 - 1 slots.
    pub const SLOT_BITS: u32 = 20;
    /// The largest number of slots in a table.
    pub const MAX_SLOTS: u32 = (1 << Self::SLOT_BITS) - 1;

    /// The id of the use of `slot` that follows `generation` earlier ones. Surplus bits of either
    /// number are cut off.
    #[inline]
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self((generation << Self::SLOT_BITS) | (slot & Self::MAX_SLOTS))
    }

    /// Index into tables that have one entry per slot.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 & Self::MAX_SLOTS
    }

    /// How many times the slot was used before, modulo 4,096.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }

    /// The id as a single number, for tags, traces and user data.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The id from a number returned by [`RequestId::raw`].
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
}

/// The generation of an id without its slot. A table that is indexed by slot stores this instead of
/// the id, which takes half the memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Generation(u16);

impl Generation {
    /// A value that is the generation of no id.
    pub const NONE: Generation = Generation(u16::MAX);

    /// The generation of this id.
    #[inline]
    pub const fn of(id: RequestId) -> Self {
        let [_, _, low, high] = id.0.to_le_bytes();
        Self(u16::from_le_bytes([low, high]) >> (RequestId::SLOT_BITS - 16))
    }

    /// The id of this generation's use of a slot.
    #[inline]
    pub const fn id(self, slot: u32) -> RequestId {
        RequestId::new(slot, self.0 as u32)
    }
}

/// An issuer: a process, a connection, a set of virtqueues.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ContextId(pub u32);

/// A group of issuers: a cgroup, a tenant.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group above all others; it always exists.
    pub const ROOT: GroupId = GroupId(0);
}

/// A software (per-CPU) queue.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct SoftwareQueue(pub u16);

/// A hardware queue of the device.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct HardwareQueue(pub u16);

/// A block device's number, `MAJ:MIN`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceNumber {
    /// Major number, below 4,096.
    pub major: u32,
    /// Minor number, below 2^20.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_and_a_slot_make_the_id() {
        for id in [RequestId::new(0, 0), RequestId::new(RequestId::MAX_SLOTS - 1, 4_095), RequestId::new(77, 1_234)] {
            assert_eq!(Generation::of(id).id(id.slot()), id);
            assert!(Generation::of(id) != Generation::NONE);
            assert!(Generation::of(RequestId::new(id.slot(), id.generation() + 1)) != Generation::of(id));
        }
    }
}
