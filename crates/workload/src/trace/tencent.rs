//! Tencent's block traces (SNIA IOTTA): `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Times are in seconds since 1970, positions and sizes in sectors; type 0 is a read, 1 a write.
//! Many records share one second and are spread evenly over it in their order. Source:
//! docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use hoistway_block::Operation;
use hoistway_block::time::SECOND;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, fields, fits, is_header, number, sectors};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "tencent",
    doc: "Tencent: Timestamp,Offset,Size,IOType,VolumeID",
    has_stages: false,
    fits: |begin| fits(Tencent::default(), begin),
    open: |sources, _| Box::new(Lines::new(Tencent::default(), sources, "a line is 1538323200,12910952,128,0,1063")),
};

/// Maximum number of records of one second that are spread together. If there are more, each batch
/// is spread over a part of the second.
const TOGETHER: usize = 1 << 17;

#[derive(Default)]
struct Tencent {
    volumes: Named,
    second: u64,
    /// Records of the current second that are held back.
    kept: Vec<Record>,
    /// Offset in the second at which the held records start, in ns.
    from_ns: u64,
    has_shared: bool,
}

impl Tencent {
    /// Spreads the held records over the second up to `end_ns`.
    fn spread(&mut self, end_ns: u64, to: &mut VecDeque<Item>) {
        let count = self.kept.len() as u64;
        self.has_shared |= count > 1;
        let room_ns = end_ns - self.from_ns;
        for (index, record) in self.kept.drain(..).enumerate() {
            // The product is below 10^9 times 2^17, so it cannot overflow.
            let at_ns = record.at_ns + self.from_ns + index as u64 * room_ns / count;
            to.push_back(Item::Record(Record { at_ns, ..record }));
        }
        self.from_ns = if end_ns == SECOND { 0 } else { end_ns };
    }
}

impl LineFormat for Tencent {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [time, offset, size, kind, volume] = fields(line)[..] else {
            return Err(LineError::Wrong("not 5 fields".to_owned()));
        };
        if is_header(time) {
            return Err(LineError::Nothing);
        }
        let second: u64 = number(time, "the timestamp")?;
        let at_ns =
            second.checked_mul(SECOND).ok_or_else(|| LineError::Wrong("the timestamp is after 2554".to_owned()))?;
        let operation = match kind {
            "0" => Operation::Read,
            "1" => Operation::Write,
            _ => return Err(LineError::Wrong("the type is neither 0 nor 1".to_owned())),
        };
        let _: u64 = number(volume, "the volume")?;
        let record = Record::io(at_ns, operation, sectors(offset, "the offset")?, sectors(size, "the size")?);
        if second != self.second {
            self.spread(SECOND, to);
            self.second = second;
        } else if self.kept.len() == TOGETHER {
            // These records get half of the rest of the second, because more of the same second
            // follow.
            self.spread(self.from_ns + (SECOND - self.from_ns) / 2, to);
        }
        let device = self.volumes.device(volume, to)?;
        self.kept.push(Record { device, ..record });
        Ok(())
    }

    fn end(&mut self, to: &mut VecDeque<Item>) {
        self.spread(SECOND, to);
    }

    fn note(&self) -> Option<String> {
        self.has_shared.then(|| "times are whole seconds: records are spread evenly inside theirs".to_owned())
    }
}
