//! CloudPhysics' traces as CSV with the header `version,time,op,size,lbn`.
//!
//! Times are in seconds, the operation is a SCSI opcode in hex, sizes are in bytes and positions in
//! sectors. Source: docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use hoistway_block::time::SECOND;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, decimal_ns, fields, fits, is_header, number, sectors};
use super::record::{Item, Record};
use super::scsi;

/// The format.
pub const FORMAT: Format = Format {
    name: "cloudphysics-csv",
    doc: "CloudPhysics as CSV: version,time,op,size,lbn",
    has_stages: false,
    fits: |begin| fits(CloudPhysics, begin),
    open: |sources, _| Box::new(Lines::new(CloudPhysics, sources, "a line is 2,1428.000261,28,4096,4194304")),
};

struct CloudPhysics;

impl LineFormat for CloudPhysics {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [version, time, command, size, block] = fields(line)[..] else {
            return Err(LineError::Wrong("not 5 fields".to_owned()));
        };
        if is_header(version) {
            return Err(LineError::Nothing);
        }
        let version: u32 = number(version, "the version")?;
        if !(1..=2).contains(&version) {
            return Err(LineError::Wrong(format!("version {version} is neither 1 nor 2")));
        }
        let at_ns = decimal_ns(time, SECOND, "the time")?;
        let digits = command.trim_start_matches("0x");
        let is_command = (1..=2).contains(&digits.len());
        let command = u16::from_str_radix(digits, 16).ok().filter(|_| is_command);
        let command = command.ok_or_else(|| LineError::Wrong("the op is no SCSI command in hex".to_owned()))?;
        let (size, offset) = (number(size, "the size")?, sectors(block, "the lbn")?);
        let operation = scsi::operation_of(command);
        let operation = operation.ok_or_else(|| LineError::Skip(format!("SCSI command {command:#04x}")))?;
        to.push_back(Item::Record(Record::io(at_ns, operation, offset, size)));
        Ok(())
    }
}
