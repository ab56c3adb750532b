//! The traces of Microsoft Research Cambridge (SNIA IOTTA):
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times are those of Windows (100 ns since 1601), sizes are in bytes, response times in units of
//! 100 ns. Source: docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, direction, fields, fits, is_header, number, put};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "msr",
    doc: "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    has_stages: false,
    fits: |begin| fits(Msr::default(), begin),
    open: |sources, _| {
        Box::new(Lines::new(Msr::default(), sources, "a line is 128166372003061629,usr,0,Read,0,4096,57"))
    },
};

/// 1970 in units of 100 ns since 1601.
const UNIX_BEGIN: u64 = 116_444_736_000_000_000;
const UNIT_NS: u64 = 100;

#[derive(Default)]
struct Msr {
    disks: Named,
}

impl LineFormat for Msr {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [time, host, disk, kind, offset, size, response] = fields(line)[..] else {
            return Err(LineError::Wrong("not 7 fields".to_owned()));
        };
        if is_header(time) {
            return Err(LineError::Nothing);
        }
        let time: u64 = number(time, "the timestamp")?;
        let since_1970 = time.checked_sub(UNIX_BEGIN).and_then(|units| units.checked_mul(UNIT_NS));
        let at_ns =
            since_1970.ok_or_else(|| LineError::Wrong("the timestamp is before 1970 or after 2554".to_owned()))?;
        let _: u32 = number(disk, "the disk")?;
        let latency_ns = number::<u64>(response, "the response time")?.checked_mul(UNIT_NS);
        let record = Record::io(at_ns, direction(kind)?, number(offset, "the offset")?, number(size, "the size")?);
        put(Record { latency_ns, ..record }, &format!("{host}.{disk}"), &mut self.disks, to)
    }
}
