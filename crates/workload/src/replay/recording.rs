//! The steps of a recording, in memory and serialised for another process.

use hoistway_block::random::{fnv1a64, fnv1a64_continued};
use hoistway_block::{Flags, Nanos, Operation};

use crate::job::Direction;

/// One I/O.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Time since the start of the recording.
    pub at_ns: Nanos,
    /// First byte on the recorded device.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u32,
    /// Number of entries of [`Part::completed`] that had completed before.
    pub after: u32,
    /// Flags of the I/O.
    pub flags: Flags,
    /// Index of the process within the part.
    pub actor: u16,
    /// The kind of I/O.
    pub operation: Operation,
    /// Whether its process kept it in its plug because more followed.
    pub is_plugged: bool,
}

const _: () = assert!(size_of::<Step>() == 32, "one for each I/O of a trace");

impl Step {
    /// The direction under which results count an operation; `None` for a flush.
    pub(crate) const fn direction(operation: Operation) -> Option<Direction> {
        match operation {
            Operation::Read => Some(Direction::Read),
            Operation::Discard | Operation::SecureErase => Some(Direction::Trim),
            Operation::Flush => None,
            _ => Some(Direction::Write),
        }
    }
}

/// The I/Os of one thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// Steps in order of time.
    pub steps: Box<[Step]>,
    /// Steps in the order of their completion, without those whose completion is unknown.
    pub completed: Box<[u32]>,
    /// Maximum number of steps in flight; 0 if no completion is known.
    pub most_in_flight: u32,
    /// Number of processes that issued them, at least 1.
    pub actors: u16,
}

/// The I/Os that one job replays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// One part per thread.
    pub parts: Vec<Part>,
    /// Time from the start of one pass to that of the next.
    pub pass_ns: Nanos,
}

/// The bytes are not a recording.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("these bytes are no recording of this version")]
pub struct Undecodable;

const MAGIC: u64 = u64::from_le_bytes(*b"hwrec\0\0\x01");
const STEP_BYTES: usize = 27;
/// Bit in the byte of the operation that marks a plugged step. Steps outside of plugs are encoded
/// as before this bit existed.
const HELD: u8 = 0x80;

const OPERATIONS: [Operation; 8] = [
    Operation::Read,
    Operation::Write,
    Operation::Discard,
    Operation::SecureErase,
    Operation::WriteZeroes,
    Operation::ZoneAppend,
    Operation::Flush,
    Operation::Passthrough,
];

impl Recording {
    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.parts.iter().flat_map(|part| part.steps.iter())
    }

    /// The byte after the last one that is accessed.
    pub fn span_bytes(&self) -> u64 {
        self.steps().map(|step| step.offset_bytes.saturating_add(u64::from(step.length_bytes))).max().unwrap_or(0)
    }

    /// Length in bytes of the largest I/O of a direction or, without one, of the largest I/O of all
    /// except discards and zeroing.
    pub fn largest_bytes(&self, direction: Option<Direction>) -> u64 {
        let is_meant = |step: &&Step| match direction {
            // Discards and zeroing transfer no data, so they need no memory.
            None => !matches!(step.operation, Operation::Discard | Operation::SecureErase | Operation::WriteZeroes),
            some => Step::direction(step.operation) == some,
        };
        self.steps().filter(is_meant).map(|step| u64::from(step.length_bytes)).max().unwrap_or(0)
    }

    /// The smallest I/O of a direction.
    pub(super) fn smallest_bytes(&self, direction: Direction) -> u64 {
        let meant = self.steps().filter(|step| Step::direction(step.operation) == Some(direction));
        meant.map(|step| u64::from(step.length_bytes)).min().unwrap_or(0)
    }

    /// Whether the trace contained completions.
    pub fn has_completions(&self) -> bool {
        self.parts.iter().any(|part| !part.completed.is_empty())
    }

    /// Maximum number of I/Os of one thread in flight.
    pub fn most_in_flight(&self) -> u32 {
        self.parts.iter().map(|part| part.most_in_flight).max().unwrap_or(0)
    }

    /// Checksum of the whole recording.
    pub(super) fn checksum(&self) -> u64 {
        let mut sum = fnv1a64(&self.pass_ns.to_le_bytes());
        self.encode(&mut |bytes| sum = fnv1a64_continued(sum, bytes));
        sum
    }

    /// Serialises the recording.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.encode(&mut |bytes| all.extend_from_slice(bytes));
        all
    }

    fn encode(&self, put: &mut dyn FnMut(&[u8])) {
        let length = |count: usize| (count as u64).to_le_bytes();
        put(&MAGIC.to_le_bytes());
        put(&self.pass_ns.to_le_bytes());
        put(&length(self.parts.len()));
        for part in &self.parts {
            put(&length(part.steps.len()));
            put(&length(part.completed.len()));
            put(&part.most_in_flight.to_le_bytes());
            put(&part.actors.to_le_bytes());
            for step in &part.steps {
                let mut bytes = [0; STEP_BYTES];
                bytes[..8].copy_from_slice(&step.at_ns.to_le_bytes());
                bytes[8..16].copy_from_slice(&step.offset_bytes.to_le_bytes());
                bytes[16..20].copy_from_slice(&step.length_bytes.to_le_bytes());
                bytes[20..24].copy_from_slice(&step.after.to_le_bytes());
                bytes[24..26].copy_from_slice(&step.flags.0.to_le_bytes());
                let operation = OPERATIONS.iter().position(|known| *known == step.operation).unwrap_or(0);
                bytes[26] = u8::try_from(operation).unwrap_or(0) | if step.is_plugged { HELD } else { 0 };
                put(&bytes);
                put(&step.actor.to_le_bytes());
            }
            part.completed.iter().for_each(|step| put(&step.to_le_bytes()));
        }
    }

    /// Parses the result of [`Recording::to_bytes`].
    ///
    /// # Errors
    /// The bytes are not a recording.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Undecodable> {
        let mut rest = bytes;
        if take::<8>(&mut rest)? != MAGIC.to_le_bytes() {
            return Err(Undecodable);
        }
        let long = |rest: &mut &[u8]| take::<8>(rest).map(u64::from_le_bytes);
        let pass_ns = long(&mut rest)?;
        let count = |rest: &mut &[u8]| usize::try_from(long(rest)?).map_err(|_| Undecodable);
        let mut parts = Vec::new();
        for _ in 0..count(&mut rest)? {
            let (steps, completed) = (count(&mut rest)?, count(&mut rest)?);
            let most_in_flight = u32::from_le_bytes(take(&mut rest)?);
            let actors = u16::from_le_bytes(take(&mut rest)?);
            // Each element consumes input, so a wrong count ends with the input.
            let steps = (0..steps).map(|_| step(&mut rest)).collect::<Result<_, _>>()?;
            let completed =
                (0..completed).map(|_| take(&mut rest).map(u32::from_le_bytes)).collect::<Result<_, _>>()?;
            parts.push(Part { steps, completed, most_in_flight, actors });
        }
        if rest.is_empty() { Ok(Self { parts, pass_ns }) } else { Err(Undecodable) }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Undecodable> {
    let (taken, behind) = rest.split_first_chunk::<N>().ok_or(Undecodable)?;
    *rest = behind;
    Ok(*taken)
}

fn step(rest: &mut &[u8]) -> Result<Step, Undecodable> {
    let (at_ns, offset_bytes) = (u64::from_le_bytes(take(rest)?), u64::from_le_bytes(take(rest)?));
    let (length_bytes, after) = (u32::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
    let flags = Flags(u16::from_le_bytes(take(rest)?));
    let [kind] = take::<1>(rest)?;
    let operation = *OPERATIONS.get(usize::from(kind & !HELD)).ok_or(Undecodable)?;
    let actor = u16::from_le_bytes(take(rest)?);
    Ok(Step { at_ns, offset_bytes, length_bytes, after, flags, actor, operation, is_plugged: kind & HELD != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_survives_being_sent_and_a_cut_one_is_noticed() {
        let step = Step {
            at_ns: 7,
            offset_bytes: 1 << 40,
            length_bytes: 4_096,
            after: 1,
            flags: Flags::SYNC,
            actor: 3,
            operation: Operation::WriteZeroes,
            is_plugged: true,
        };
        let part = Part { steps: vec![step; 3].into(), completed: vec![2, 0].into(), most_in_flight: 2, actors: 4 };
        let recording = Recording { parts: vec![part, Part::default()], pass_ns: 9 };
        let bytes = recording.to_bytes();
        assert_eq!(Recording::from_bytes(&bytes), Ok(recording));
        for end in 0..bytes.len() {
            assert_eq!(Recording::from_bytes(&bytes[..end]), Err(Undecodable), "{end}");
        }
    }
}
