//! Tencent's block traces (SNIA IOTTA): `Timestamp,Offset,Size,IOType,VolumeID`; seconds since 1970, sectors, 0 read 1 write.
//!
//! Many records share one second: they are spread evenly inside it, in their order.

use std::collections::VecDeque;

use block::Operation;
use block::time::SECOND;

use super::formats::Format;
use super::lines::{LineFormat, Lines, Named, Unread, fields, fits, is_header, number, sectors};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "tencent",
    doc: "Tencent: Timestamp,Offset,Size,IOType,VolumeID",
    has_stages: false,
    fits: |begin| fits(Tencent::default(), begin),
    open: |sources, _| Box::new(Lines::new(Tencent::default(), sources, "a line is 1538323200,12910952,128,0,1063")),
};

/// Records of one second that are spread together; of more, each part is spread over a part of the second.
const TOGETHER: usize = 1 << 17;

#[derive(Default)]
struct Tencent {
    volumes: Named,
    second: u64,
    /// Of the running second.
    kept: Vec<Record>,
    /// Where in the second the kept ones begin, in ns.
    from_ns: u64,
    has_shared: bool,
}

impl Tencent {
    /// Spreads what is kept up to `end_ns` of its second.
    fn spread(&mut self, end_ns: u64, to: &mut VecDeque<Item>) {
        let count = self.kept.len() as u64;
        self.has_shared |= count > 1;
        let room_ns = end_ns - self.from_ns;
        for (index, record) in self.kept.drain(..).enumerate() {
            // Below a second times at most 2^17 records: far from overflow.
            let at_ns = record.at_ns + self.from_ns + index as u64 * room_ns / count;
            to.push_back(Item::Record(Record { at_ns, ..record }));
        }
        self.from_ns = if end_ns == SECOND { 0 } else { end_ns };
    }
}

impl LineFormat for Tencent {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), Unread> {
        let [time, offset, size, kind, volume] = fields(line)[..] else {
            return Err(Unread::Wrong("not 5 fields".to_owned()));
        };
        if is_header(time) {
            return Err(Unread::Nothing);
        }
        let second: u64 = number(time, "the timestamp")?;
        let at_ns =
            second.checked_mul(SECOND).ok_or_else(|| Unread::Wrong("the timestamp is after 2554".to_owned()))?;
        let operation = match kind {
            "0" => Operation::Read,
            "1" => Operation::Write,
            _ => return Err(Unread::Wrong("the type is neither 0 nor 1".to_owned())),
        };
        let _: u64 = number(volume, "the volume")?;
        let record = Record::io(at_ns, operation, sectors(offset, "the offset")?, sectors(size, "the size")?);
        if second != self.second {
            self.spread(SECOND, to);
            self.second = second;
        } else if self.kept.len() == TOGETHER {
            // Half of what is left for these: a second so full goes on.
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
