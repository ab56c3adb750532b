//! The data of a turn: volumes, connections, requests, parts, I/Os.

use std::collections::VecDeque;

use hoistway_block::{ContextId, GroupId, Nanos, Priority, RequestId};
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ioctl::FileExtent;
use hoistway_linux::ring::Emptying;

use crate::counters::Sums;
use crate::damage::Damage;
use crate::flush::FlushMachine;
use crate::protocol::{ClientRequest, Command, Failure};
use crate::shard::MAX_VOLUMES;
use crate::table::NIL;

/// Bits of [`block`]'s `device` attribute that distinguish a volume's extents; the other bits are
/// the volume's number.
const EXTENT_BITS: u32 = 12;
/// The most FIEMAP extents kept per volume; behind the last one, positions continue in a straight
/// line.
pub(crate) const MAX_EXTENTS_KEPT: usize = (1 << EXTENT_BITS) - 2;
/// The extent number for bytes without a known position.
const NOWHERE: u32 = (1 << EXTENT_BITS) - 1;

/// The abilities of a volume, as the backing reported them.
#[derive(Clone, Debug)]
pub(crate) struct VolumeAbilities {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writes, trims and zeroing are refused.
    pub is_read_only: bool,
    /// I/O must begin and end at multiples of this; 1 = anywhere. A power of two.
    pub alignment_bytes: u32,
    /// Emptying must begin and end at multiples of this; 1 = anywhere. A power of two, and at least
    /// `alignment_bytes`, because zeroes may have to be written after all.
    pub emptying_alignment_bytes: u32,
    /// How ranges are trimmed; none if trimming has no effect.
    pub trimming: Option<Emptying>,
    /// Whether holes can be punched.
    pub can_punch: bool,
    /// Whether ranges can be zeroed and stay allocated.
    pub can_zero: bool,
    /// Whether data is written to the page cache first, which reports a failure later.
    pub uses_page_cache: bool,
    /// Whether there is no storage: reads are zeroes, writes vanish.
    pub is_null: bool,
    /// Whether flushes are answered at once and FUA is ignored.
    pub has_unsafe_flush: bool,
    /// Priority of all its requests.
    pub priority: Priority,
    /// The positions of its bytes, for the elevator.
    pub positions: Positions,
}

/// The positions of a volume's bytes on the device.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    /// Known extents in file order; empty where the file system does not tell.
    pub extents: Vec<FileExtent>,
    /// Position of byte 0 where no extent applies.
    pub base_bytes: u64,
}

/// The position of one byte.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Position on the device in bytes.
    pub device_bytes: u64,
    /// First byte of the volume beyond the extent, or beyond the range without one, that contains
    /// this byte.
    pub until_bytes: u64,
    /// The extent's number: requests of different extents never merge.
    pub extent: u32,
}

impl Positions {
    /// A straight line from `base_bytes` on.
    pub fn linear(base_bytes: u64) -> Self {
        Self { extents: Vec::new(), base_bytes }
    }

    /// The position of the byte at `offset_bytes`.
    #[inline]
    pub fn locate(&self, offset_bytes: u64) -> Place {
        if self.extents.is_empty() {
            return self.nowhere(offset_bytes, u64::MAX);
        }
        let behind = self.extents.partition_point(|extent| extent.file_bytes <= offset_bytes);
        if let Some(index) = behind.checked_sub(1) {
            let extent = &self.extents[index];
            let into = offset_bytes - extent.file_bytes;
            if into < extent.length_bytes {
                return Place {
                    device_bytes: extent.device_bytes + into,
                    until_bytes: extent.file_bytes + extent.length_bytes,
                    extent: u32::try_from(index).unwrap_or(NOWHERE),
                };
            }
        }
        self.nowhere(offset_bytes, self.extents.get(behind).map_or(u64::MAX, |next| next.file_bytes))
    }

    fn nowhere(&self, offset_bytes: u64, until_bytes: u64) -> Place {
        Place { device_bytes: self.base_bytes.wrapping_add(offset_bytes), until_bytes, extent: NOWHERE }
    }
}

/// The `device` attribute of an extent of a volume. Different ones never merge, so that ranges
/// adjacent on the disk but not in the file, or of different files, are never taken for one
/// transfer.
pub(crate) fn device_attribute(volume: u32, extent: u32) -> u32 {
    (volume << EXTENT_BITS) | extent
}

/// The `device` attribute of an extent of the base below a volume.
pub(crate) fn base_attribute(volume: u32, extent: u32) -> u32 {
    device_attribute(MAX_VOLUMES + volume, extent)
}

/// A volume.
#[derive(Debug)]
pub(crate) struct Volume {
    pub abilities: VolumeAbilities,
    pub flush: FlushMachine,
    /// What it has lost since it was opened.
    pub damage: Option<Damage>,
    /// Parts that write, oldest first; kept only where blocks may be read, modified and written
    /// back.
    pub writers_head: u32,
    pub writers_tail: u32,
    /// Of these: parts that modify blocks, and parts that wait for others.
    pub modifying: u32,
    pub blocked: u32,
    /// Client requests and parts that exist.
    pub requests: u32,
    pub parts: u32,
    /// I/Os that do not count against the device's depth any more, and chosen requests that wait for their end.
    pub overdue: u32,
    pub held_back: VecDeque<RequestId>,
    pub sums: Sums,
    /// What it has in addition if it is an overlay.
    pub overlay: Option<Box<super::copying::Overlay>>,
}

impl Volume {
    pub fn new(abilities: VolumeAbilities) -> Self {
        Self {
            abilities,
            flush: FlushMachine::default(),
            damage: None,
            writers_head: NIL,
            writers_tail: NIL,
            modifying: 0,
            blocked: 0,
            requests: 0,
            parts: 0,
            overdue: 0,
            held_back: VecDeque::new(),
            sums: Sums::default(),
            overlay: None,
        }
    }
}

/// The bounds of one connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ConnectionBounds {
    /// Requests in flight, including replies not yet sent.
    pub requests: u32,
    /// Bytes in flight in both directions.
    pub bytes: u64,
    /// The size of the volume that the client was told, if it is less than the present one.
    pub visible_bytes: u64,
}

impl Default for ConnectionBounds {
    /// 128 requests, 64 MiB, the whole volume.
    fn default() -> Self {
        Self { requests: 128, bytes: 64 << 20, visible_bytes: u64::MAX }
    }
}

/// What a connection waits for.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Waiting {
    /// Nothing.
    #[default]
    No,
    /// For one of its replies to be sent.
    Credit,
    /// For one of its parts to end.
    Parts,
    /// For memory, or a table entry.
    Memory,
}

/// The request that a connection must finish submitting before its next.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pending {
    /// Nothing.
    #[default]
    Nothing,
    /// A request without credit yet.
    New(ClientRequest),
    /// A request whose parts do not all exist yet.
    Parts(u32),
}

/// A connection: one context of one group on one volume.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub volume: u32,
    pub group: u32,
    /// Its issuer in the queue: the connection's own number.
    pub context: u32,
    pub bounds: ConnectionBounds,
    /// The size that the client knows: its volume may have grown since.
    pub visible_bytes: u64,
    /// Priority of its requests; if it is none, they have the priority of the volume.
    pub priority: Priority,
    pub requests: u32,
    pub bytes: u64,
    pub pending: Pending,
    pub waiting: Waiting,
    /// The part whose payload is being received.
    pub filling: Option<u32>,
    /// The request that was refused and is answered when its payload has been discarded.
    pub refused: Option<u32>,
    /// The client's memory for the request in `pending`, if it is direct.
    pub memory: Vec<Span>,
    /// Whether the client is gone, so that answers are not needed.
    pub is_closed: bool,
    pub sums: Sums,
}

/// A client's request.
#[derive(Debug)]
pub(crate) struct Request {
    pub asked: ClientRequest,
    pub connection: u32,
    pub arrived_ns: Nanos,
    /// When the first part was started; 0 = none yet.
    pub started_ns: Nanos,
    /// When the last part so far ended.
    pub ended_ns: Nanos,
    /// Where its first part begins: that part alone counts as an I/O.
    pub first_bytes: u64,
    /// First byte that belongs to no part yet.
    pub next_bytes: u64,
    /// End of the range to be processed (a trim may end before the requested end).
    pub end_bytes: u64,
    /// Parts being filled, queued or in the device.
    pub parts_working: u32,
    /// Parts whose data waits to be sent.
    pub parts_unsent: u32,
    /// Pieces of the reply that were handed over and not yet reported as sent.
    pub pieces_unsent: u32,
    /// Parts of a read in one piece, in order.
    pub first_part: u32,
    pub last_part: u32,
    pub failure: Option<Failure>,
    /// Whether the last piece was handed over.
    pub is_answered: bool,
}

impl Default for Request {
    fn default() -> Self {
        let asked = ClientRequest {
            cookie: 0,
            offset_bytes: 0,
            length_bytes: 0,
            payload_bytes: 0,
            command: Command::Cache,
            fua: false,
            no_hole: false,
            fast_zero: false,
            one_piece: false,
            is_direct: false,
            one_extent: false,
            tag: 0,
        };
        Self::new(asked, NIL, 0)
    }
}

impl Request {
    pub fn new(asked: ClientRequest, connection: u32, now: Nanos) -> Self {
        Self {
            asked,
            connection,
            arrived_ns: now,
            started_ns: 0,
            ended_ns: now,
            first_bytes: asked.offset_bytes,
            next_bytes: asked.offset_bytes,
            end_bytes: asked.offset_bytes,
            parts_working: 0,
            parts_unsent: 0,
            pieces_unsent: 0,
            first_part: NIL,
            last_part: NIL,
            failure: None,
            is_answered: false,
        }
    }

    /// Whether every part has ended.
    pub fn is_done(&self) -> bool {
        self.next_bytes >= self.end_bytes && self.parts_working == 0
    }
}

/// The operation of a part.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum PartKind {
    /// Reads into its slot.
    #[default]
    Read,
    /// Writes its slot.
    Write,
    /// Writes from the shared zeroes.
    Zeroes,
    /// Empties its range.
    Empty(Emptying),
}

/// The stage of a part.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// Its payload is being received.
    #[default]
    Filling,
    /// It waits for an older part that touches the same block.
    Blocked,
    /// Its first block is being read, to be completed.
    ReadingHead,
    /// Its last block is being read, to be completed.
    ReadingTail,
    /// Its own transfer is queued or in the device.
    Transfer,
    /// Its data is written to an overlay, whose bitmap does not say so yet.
    Storing,
    /// Its data waits to be sent, alone or with its request.
    Unsent,
}

/// A range of a request that is one bio.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Part {
    pub request: u32,
    pub offset_bytes: u64,
    /// Where it began: zeroes are written in pieces.
    pub begun_bytes: u64,
    pub length_bytes: u32,
    pub kind: PartKind,
    pub stage: Stage,
    pub slot: Option<Slot>,
    /// Two blocks, for the first and last block of a write that covers them only partly.
    pub scratch: Option<Slot>,
    /// The next part of a read in one piece.
    pub next: u32,
    pub older_writer: u32,
    pub newer_writer: u32,
    pub is_modifying: bool,
    /// Of an overlay: whether it reads the base.
    pub is_of_base: bool,
    /// Of an overlay: whether it writes whole blocks, of which it has a part and copies the rest.
    pub is_copying: bool,
}

impl Part {
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + u64::from(self.length_bytes)
    }
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub name: String,
    pub weight: u32,
    pub id: GroupId,
    pub counters: crate::counters::GroupCounters,
    pub connections: u32,
    pub limits: hoistway_experiment::Limits,
    pub usage: super::occupancy::Usage,
}

/// The context of a connection in the queue.
pub(crate) fn context_id(connection: &Connection) -> ContextId {
    ContextId(connection.context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_extents_holes_and_behind_the_last() {
        let extent = |file_bytes, device_bytes, length_bytes| FileExtent { file_bytes, device_bytes, length_bytes };
        let positions =
            Positions { extents: vec![extent(0, 1_000_000, 100), extent(200, 5_000, 50)], base_bytes: 1 << 40 };
        let at = |offset| positions.locate(offset);
        assert_eq!(at(99), Place { device_bytes: 1_000_099, until_bytes: 100, extent: 0 });
        assert_eq!(at(100), Place { device_bytes: (1 << 40) + 100, until_bytes: 200, extent: NOWHERE });
        assert_eq!(at(249), Place { device_bytes: 5_049, until_bytes: 250, extent: 1 });
        assert_eq!(at(250).until_bytes, u64::MAX);
        assert_eq!(Positions::linear(512).locate(1).device_bytes, 513);
    }

    #[test]
    fn extents_of_different_volumes_have_different_attributes() {
        assert_ne!(device_attribute(0, NOWHERE), device_attribute(1, NOWHERE));
        assert_ne!(device_attribute(1, 0), device_attribute(1, 1));
    }
}
