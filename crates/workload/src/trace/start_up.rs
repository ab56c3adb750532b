//! The start-up traces of the benchmark suite S (`comm_startup_lat/*.trace`): the reads of `xterm`
//! and other programs during their start.
//!
//! ```text
//! xterm-31657  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C
//! process-pid    delta  sectors sector   kind    distance   run     rwbs      time(s)   mark
//! ```
//! A process waits for each I/O that is not a read-ahead, and before it issues one, it waits for
//! its own read-aheads. The suite replays the traces in this way, and so does `replay --pace
//! dependent`. Source: docs/specifications/bfq.md, section 21.

use std::collections::VecDeque;

use hoistway_block::time::SECOND;

use super::blkparse::rwbs;
use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, decimal_ns, fits, number, sectors};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "start-up",
    doc: "S suite, start-up traces: process-pid delta sectors sector Seq|Rand distance run rwbs time",
    has_stages: false,
    fits: |begin| fits(StartUp::default(), begin),
    open: |sources, _| {
        let help = "a line is xterm-31657 .000066 8 113248528 Seq 0 8 RA 4.682475 C";
        Box::new(Lines::new(StartUp::default(), sources, help))
    },
};

#[derive(Default)]
struct StartUp {
    processes: Named,
}

impl LineFormat for StartUp {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [process, delta, count, sector, kind, distance, run, marks, time, ..] = fields[..] else {
            return Err(LineError::Wrong("less than 9 fields".to_owned()));
        };
        if !matches!(kind, "Seq" | "Rand") {
            return Err(LineError::Wrong("neither Seq nor Rand".to_owned()));
        }
        decimal_ns(delta, SECOND, "the delta")?;
        let _: i64 = number(distance, "the distance")?;
        let _: i64 = number(run, "the run")?;
        let (operation, flags) =
            rwbs(marks).ok_or_else(|| LineError::Wrong("the kind of I/O is unknown".to_owned()))?;
        let (name, pid) = process.rsplit_once('-').unwrap_or((process, ""));
        let (_, is_new) = self.processes.number(process)?;
        let pid: u32 = number(pid, "the pid")?;
        if is_new {
            to.push_back(Item::Process { pid, name: name.to_owned() });
        }
        let at_ns = decimal_ns(time, SECOND, "the time")?;
        let record = Record::io(at_ns, operation, sectors(sector, "the sector")?, sectors(count, "the count")?);
        to.push_back(Item::Record(Record { pid, flags, ..record }));
        Ok(())
    }
}
