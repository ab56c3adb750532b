//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`.
//!
//! Offsets and lengths are in bytes, times in microseconds since 1970. Source:
//! docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, direction, fields, fits, is_header, number, put};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "alibaba",
    doc: "Alibaba: device_id,opcode,offset,length,timestamp",
    has_stages: false,
    fits: |begin| fits(Alibaba::default(), begin),
    open: |sources, _| {
        Box::new(Lines::new(Alibaba::default(), sources, "a line is 419,W,8792731648,16384,1577808000000046"))
    },
};

#[derive(Default)]
struct Alibaba {
    devices: Named,
}

impl LineFormat for Alibaba {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [device, kind, offset, length, time] = fields(line)[..] else {
            return Err(LineError::Wrong("not 5 fields".to_owned()));
        };
        if is_header(device) {
            return Err(LineError::Nothing);
        }
        let _: u64 = number(device, "the device")?;
        let time_us: u64 = number(time, "the timestamp")?;
        let at_ns =
            time_us.checked_mul(1_000).ok_or_else(|| LineError::Wrong("the timestamp is after 2554".to_owned()))?;
        let record = Record::io(at_ns, direction(kind)?, number(offset, "the offset")?, number(length, "the length")?);
        put(record, device, &mut self.devices, to)
    }
}
