//! A record of blktrace: 48 bytes, then as many as it says. Bytes that are no record are passed over.

/// BLK_IO_TRACE_MAGIC and the version.
const MAGIC: u32 = 0x6561_7407;
const HEAD_BYTES: usize = 48;
/// __BLK_TA_ISSUE, __BLK_TA_COMPLETE, and the bit that says that a group's number follows.
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const GROUP: u32 = 1 << 8;
/// BLK_TC_WRITE, BLK_TC_FLUSH, BLK_TC_PC, BLK_TC_NOTIFY and BLK_TC_DISCARD in the upper half of the action.
const WRITE: u32 = 1 << (16 + 1);
const FLUSH: u32 = 1 << (16 + 2);
const OTHER: u32 = 1 << (16 + 9) | 1 << (16 + 10) | 1 << (16 + 13);

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A request was given to the device.
    Issued,
    /// A request, or the first part of it, has ended.
    Completed,
}

/// An event of a read or a write.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its time on CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// Whether it is a write.
    pub is_write: bool,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Length of the request, or of the part that has ended, in bytes; not 0.
    pub bytes: u32,
    /// The inode of the request's cgroup; 0 if the kernel does not say.
    pub group: u64,
}

/// Appends the events of reads and writes; returns how many bytes are done with.
pub fn read(bytes: &[u8], events: &mut Vec<Event>) -> usize {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
        if number32(head, 0) != MAGIC {
            // A byte at a time, to the next record.
            at += 1;
            continue;
        }
        let end = at + HEAD_BYTES + usize::from(u16::from_ne_bytes([head[46], head[47]]));
        let Some(rest) = bytes.get(at + HEAD_BYTES..end) else { break };
        events.extend(event(head, rest));
        at = end;
    }
    at
}

fn event(head: &[u8], rest: &[u8]) -> Option<Event> {
    let action = number32(head, 28);
    let kind = match action & 0xff {
        ISSUE => Kind::Issued,
        COMPLETE => Kind::Completed,
        _ => return None,
    };
    let length_bytes = number32(head, 24);
    // A flush without data, a discard and a command that is no I/O have no place to be recognised by.
    if action & OTHER != 0 || length_bytes == 0 || (action & FLUSH != 0 && action & WRITE == 0) {
        return None;
    }
    let group = if action & GROUP != 0 && rest.len() >= 8 { number64(rest, 0) } else { 0 };
    let (at_ns, sector, is_write) = (number64(head, 8), number64(head, 16), action & WRITE != 0);
    Some(Event { at_ns, kind, is_write, sector, bytes: length_bytes, group })
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The bytes of a record.
    pub fn bytes(action: u32, at_ns: u64, sector: u64, length_bytes: u32, rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [MAGIC, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(at_ns.to_ne_bytes());
        bytes.extend(sector.to_ne_bytes());
        for number in [length_bytes, action, 0, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(u16::try_from(rest.len()).unwrap().to_ne_bytes());
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn records_are_read_whole_whatever_lies_between() {
        let issued = bytes(ISSUE | GROUP | 1 << 16, 5, 8, 4096, &77_u64.to_ne_bytes());
        let completed = bytes(COMPLETE | WRITE, 9, 16, 512, &[]);
        let note = bytes(1 | 1 << 26, 1, 0, 0, b"fio");
        let flush = bytes(ISSUE | FLUSH, 1, 0, 0, &[]);
        let all = [note, b"junk".to_vec(), issued, flush, completed].concat();
        for cut in 0..=all.len() {
            let mut events = Vec::new();
            let done = read(&all[..cut], &mut events);
            let again = [&all[done..cut], &all[cut..]].concat();
            read(&again, &mut events);
            let expected = [(Kind::Issued, false, 8, 4096, 77), (Kind::Completed, true, 16, 512, 0)];
            let found: Vec<_> = events.iter().map(|it| (it.kind, it.is_write, it.sector, it.bytes, it.group)).collect();
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let mut any: Vec<u8> = Vec::new();
            for _ in 0..40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                any.extend(if state >> 62 == 0 { u64::from(MAGIC) } else { state }.to_ne_bytes());
            }
            let done = read(&any, &mut Vec::new());
            assert!(done <= any.len() && any.len() - done < HEAD_BYTES + usize::from(u16::MAX));
        }
    }
}
