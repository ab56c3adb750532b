//! MQSim's ASCII format: `time dev lba size type`.
//!
//! Times are integers, in nanoseconds unless another unit is given; positions and sizes are in
//! sectors; type 0 is a write, 1 a read. Source: docs/specifications/harness.md, section 9.5.

use std::collections::VecDeque;

use hoistway_block::Operation;

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, fits, number, put, sectors};
use super::read::Options;
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "mqsim",
    doc: "MQSim, ASCII: time(ns) dev lba size type",
    has_stages: false,
    fits: |begin| fits(MqSim::new(Options::default()), begin),
    open: |sources, options| Box::new(Lines::new(MqSim::new(options), sources, "a line is 1500000 2 2000000 16 0")),
};

struct MqSim {
    devices: Named,
    unit_ps: u64,
}

impl MqSim {
    fn new(options: Options) -> Self {
        Self { devices: Named::default(), unit_ps: options.ps_per_tick }
    }
}

impl LineFormat for MqSim {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [time, device, block, size, kind] = fields[..] else {
            return Err(LineError::Wrong("not 5 fields".to_owned()));
        };
        let time: u64 = number(time, "the time")?;
        let at_ns = u64::try_from(u128::from(time) * u128::from(self.unit_ps) / 1_000);
        let at_ns = at_ns.map_err(|_| LineError::Wrong("the time is beyond 2^64 ns".to_owned()))?;
        let _: u32 = number(device, "the device")?;
        let operation = match kind {
            "0" => Operation::Write,
            "1" => Operation::Read,
            _ => return Err(LineError::Wrong("the type is neither 0 nor 1".to_owned())),
        };
        put(
            Record::io(at_ns, operation, sectors(block, "the lba")?, sectors(size, "the size")?),
            device,
            &mut self.devices,
            to,
        )
    }
}
