//! What goes wrong with a backing: failed I/Os, lost data, and abilities that it does not have after
//! all. The shard puts it into the log.

use hoistway_block::{Operation, RequestId};
use hoistway_linux::ring::Emptying;

use super::Turn;
use super::state::{Part, PartKind, Stage};
use crate::damage::Damage;
use crate::protocol::Failure;

/// Something that an operator must know.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Incident {
    /// An I/O failed.
    Failed(FailedIo),
    /// A volume has lost data.
    Damaged {
        /// The volume.
        volume: u32,
        /// What it has lost.
        damage: Damage,
    },
    /// A volume cannot empty ranges in this way, although its backing said so.
    Withdrawn {
        /// The volume.
        volume: u32,
        /// The way.
        how: Emptying,
    },
}

/// The error of an I/O whose memory is gone, as a guest may make its own shorter. The kernel finds it
/// before any write-back and any flush of a cache, so it reports the loss of no earlier write.
pub(crate) const EFAULT: i32 = 14;

/// An I/O that failed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FailedIo {
    pub volume: u32,
    pub operation: Operation,
    /// Where it begins in the export; of several merged parts, the first.
    pub offset_bytes: u64,
    pub length_bytes: u32,
    /// None if the backing ended before it.
    pub errno: Option<i32>,
}

impl Turn {
    /// Moves the incidents since the last call to `into`.
    #[inline]
    pub fn take_incidents(&mut self, into: &mut Vec<Incident>) {
        into.append(&mut self.incidents);
    }

    /// Notes an I/O that failed, and what its volume has lost by it.
    pub(super) fn note_failure(&mut self, io: RequestId, operation: Operation, result: i32, failure: Failure) {
        let parts = self.queue.bios_of(io).filter_map(|(cookie, _)| self.parts.get(u32::try_from(cookie).ok()?));
        let Some(first) = parts.min_by_key(|part| part.offset_bytes).copied() else { return };
        let volume = self.connections[self.requests[first.request].connection].volume;
        let state = *self.in_flight.at(io);
        let errno = u32::try_from(result).is_err().then_some(-result);
        self.incidents.push(Incident::Failed(FailedIo {
            volume,
            operation,
            offset_bytes: first.offset_bytes,
            length_bytes: state.total_bytes.max(first.length_bytes),
            errno,
        }));
        if operation == Operation::Read && errno.is_none() {
            let (from_bytes, _) = self.transfer_of(&first);
            self.damage(volume, Damage::Truncated { intact_bytes: from_bytes + u64::from(state.done_bytes) });
        } else if errno != Some(EFAULT) && self.may_lose_data(&first, failure) {
            self.damage(volume, Damage::NotDurable);
        }
    }

    /// Whether the failure of a part may be the only report of data that is lost.
    ///
    /// A durable write reports the loss of any earlier one: the kernel's write-back, or the flush of a
    /// device's cache, ran as a part of it. Without the page cache a lack of space is an exception,
    /// because the file system finds it before anything is written.
    fn may_lose_data(&self, part: &Part, failure: Failure) -> bool {
        let is_read = part.kind == PartKind::Read || part.stage != Stage::Transfer;
        let uses_page_cache =
            self.volume_of(self.requests[part.request].connection).is_some_and(|it| it.abilities.uses_page_cache);
        !is_read && self.must_be_durable(part.request) && (uses_page_cache || failure != Failure::NoSpace)
    }

    /// Notes that a volume has lost data.
    pub fn damage(&mut self, volume: u32, damage: Damage) {
        let Some(Some(state)) = self.volumes.get_mut(volume as usize) else { return };
        let both = state.damage.map_or(damage, |before| before.and(damage));
        if state.damage != Some(both) {
            state.damage = Some(both);
            self.incidents.push(Incident::Damaged { volume, damage: both });
        }
    }

    /// Notes that a volume's backing has `left_bytes` of it: it is damaged if that is not all.
    pub fn note_end(&mut self, volume: u32, left_bytes: u64) {
        if self.volume(volume).is_some_and(|(abilities, ..)| left_bytes < abilities.size_bytes) {
            self.damage(volume, Damage::Truncated { intact_bytes: left_bytes });
        }
    }

    /// Makes a volume as it was when it was opened.
    #[cfg(test)]
    pub fn repair(&mut self, volume: u32, abilities: &super::VolumeAbilities) {
        if let Some(Some(state)) = self.volumes.get_mut(volume as usize) {
            (state.damage, state.abilities) = (None, abilities.clone());
        }
    }

    /// Notes that a volume cannot empty ranges in this way.
    pub(super) fn withdraw(&mut self, volume: u32, how: Emptying) {
        let Some(Some(state)) = self.volumes.get_mut(volume as usize) else { return };
        let abilities = &mut state.abilities;
        let before = (abilities.can_punch, abilities.can_zero, abilities.trimming);
        match how {
            Emptying::PunchHole => abilities.can_punch = false,
            Emptying::ZeroRange => abilities.can_zero = false,
            Emptying::Discard => {}
        }
        if abilities.trimming == Some(how) {
            // Kernels before 6.12 discard only in the form of a hole.
            let may_punch = how == Emptying::Discard && abilities.can_punch;
            abilities.trimming = may_punch.then_some(Emptying::PunchHole);
        }
        if before != (abilities.can_punch, abilities.can_zero, abilities.trimming) {
            self.incidents.push(Incident::Withdrawn { volume, how });
        }
    }
}
