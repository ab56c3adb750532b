//! DiskSim's ASCII format: `time devno blkno bcount flags`.
//!
//! Times are in milliseconds with a fraction, positions and sizes in sectors; bit 0 of the flags
//! marks a read. Source: docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use hoistway_block::Operation;
use hoistway_block::time::MILLISECOND;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, decimal_ns, fits, number, put, sectors};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "disksim",
    doc: "DiskSim 4, ASCII: time(ms) devno blkno bcount flags",
    has_stages: false,
    fits: |begin| fits(DiskSim::with_fraction(), begin),
    open: |sources, _| Box::new(Lines::new(DiskSim::default(), sources, "a line is 4.851300 0 524288 16 1")),
};

#[derive(Default)]
struct DiskSim {
    devices: Named,
    /// Whether times must have a fraction; without one, lines look like MQSim's.
    needs_point: bool,
}

impl DiskSim {
    fn with_fraction() -> Self {
        Self { needs_point: true, ..Self::default() }
    }
}

impl LineFormat for DiskSim {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [time, device, block, count, flags] = fields[..] else {
            return Err(LineError::Wrong("not 5 fields".to_owned()));
        };
        if self.needs_point && !time.contains('.') {
            return Err(LineError::Wrong("the time has no fraction".to_owned()));
        }
        let at_ns = decimal_ns(time, MILLISECOND, "the time")?;
        let _: u32 = number(device, "the device")?;
        let flags =
            u32::from_str_radix(flags, 16).map_err(|_| LineError::Wrong("the flags are no number".to_owned()))?;
        let operation = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
        let record = Record::io(at_ns, operation, sectors(block, "the block")?, sectors(count, "the count")?);
        put(record, device, &mut self.devices, to)
    }
}
