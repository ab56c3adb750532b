//! The Storage Performance Council's traces: `ASU,LBA,Size,Opcode,Timestamp[,...]`.
//!
//! Positions are in blocks of 512 bytes, sizes in bytes, times in seconds. Source:
//! docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use hoistway_block::time::SECOND;

use super::formats::Format;
use super::lines::{
    LineError, LineFormat, Lines, Named, decimal_ns, direction, fields, fits, is_header, number, put, sectors,
};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "spc",
    doc: "Storage Performance Council (UMass): ASU,LBA,Size,Opcode,Timestamp",
    has_stages: false,
    fits: |begin| fits(Spc::default(), begin),
    open: |sources, _| Box::new(Lines::new(Spc::default(), sources, "a line is 0,21741712,24576,R,0.000774")),
};

#[derive(Default)]
struct Spc {
    units: Named,
}

impl LineFormat for Spc {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [unit, block, size, kind, time, ..] = fields(line)[..] else {
            return Err(LineError::Wrong("less than 5 fields".to_owned()));
        };
        if is_header(unit) {
            return Err(LineError::Nothing);
        }
        let _: u32 = number(unit, "the ASU")?;
        let at_ns = decimal_ns(time, SECOND, "the timestamp")?;
        let record = Record::io(at_ns, direction(kind)?, sectors(block, "the LBA")?, number(size, "the size")?);
        put(record, unit, &mut self.units, to)
    }
}
