//! The traces of Systor '17 (SNIA IOTTA): `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Times are in seconds, positions and sizes in bytes. Source: docs/specifications/harness.md,
//! section 9.5.

use std::collections::VecDeque;

use hoistway_block::time::SECOND;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, decimal_ns, direction, fields, fits, is_header, number, put};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "systor17",
    doc: "Systor '17: Timestamp,Response,IOType,LUN,Offset,Size",
    has_stages: false,
    fits: |begin| fits(Systor::default(), begin),
    open: |sources, _| {
        Box::new(Lines::new(Systor::default(), sources, "a line is 1455592224.102372,0.000254,R,3,1007636992,4096"))
    },
};

#[derive(Default)]
struct Systor {
    units: Named,
}

impl LineFormat for Systor {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [time, response, kind, unit, offset, size] = fields(line)[..] else {
            return Err(LineError::Wrong("not 6 fields".to_owned()));
        };
        if is_header(time) {
            return Err(LineError::Nothing);
        }
        let at_ns = decimal_ns(time, SECOND, "the timestamp")?;
        // Some records have no response time.
        let latency_ns =
            if response.is_empty() { None } else { Some(decimal_ns(response, SECOND, "the response time")?) };
        let record = Record::io(at_ns, direction(kind)?, number(offset, "the offset")?, number(size, "the size")?);
        put(Record { latency_ns, ..record }, unit, &mut self.units, to)
    }
}
