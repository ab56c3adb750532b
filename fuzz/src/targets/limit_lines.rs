//! Fuzzes lines of `io.max`, `io.low`, `io.latency` and the throttling files of cgroup v1, as a
//! user may write them.

use crate::target::{Seen, Target};
use hoistway_block::DeviceNumber;
use hoistway_experiment::io_latency_line::{read_io_latency, write_io_latency};
use hoistway_experiment::limit_lines::{
    V1File, read_io_low, read_io_max, read_v1, write_io_low, write_io_max, write_v1,
};
use hoistway_experiment::{Diagnostic, Limits};

pub const TARGET: Target = Target {
    name: "limit-lines",
    promise: "no panic; what is refused changes nothing, what is accepted reads back as written",
    run,
    corpus: || {
        [
            "8:0 rbps=1048576 wbps=max riops=120 wiops=2",
            "8:0 rbps=10485760 idle=2000 latency=100",
            "259:1 target=500",
            "8:0 1048576",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    tokens: &[
        b"8:0 ",
        b"=",
        b"max",
        b"rbps=",
        b"wbps=",
        b"riops=",
        b"wiops=",
        b"idle=",
        b"latency=",
        b"target=",
        b"0",
        b"1",
        b"4294967296",
        b"18446744073709551",
        b"18446744073709551616",
        b"-1",
        b"1M",
    ],
    longest_bytes: 256,
};

/// Applies a line to limits, and returns the device that it named.
type Write = fn(&str, &mut Limits) -> Result<DeviceNumber, Diagnostic>;
/// Returns the line that a file with these limits shows.
type Read = fn(DeviceNumber, &Limits) -> Option<String>;

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    let files: [(Write, Read); 2] = [(write_io_max, read_io_max), (write_io_latency, read_io_latency)];
    let seen = files.into_iter().fold(Seen::NOTHING, |seen, (write, read)| seen.and(&reads_back(text, write, read)));
    let seen = V1File::ALL.into_iter().fold(seen, |seen, file| {
        let write = |line: &str, limits: &mut Limits| write_v1(file, line, limits);
        seen.and(&reads_back(text, write, |device, limits| read_v1(file, device, limits)))
    });
    // Rates that were not given are shown as 0, which cannot be written.
    let (before, mut limits) = (Limits::NONE, Limits::NONE);
    match write_io_low(text, &mut limits) {
        Ok(device) => seen.and(&[u8::from(read_io_low(device, &limits).is_some())]),
        Err(error) => {
            assert_eq!(limits, before, "{text:?} was refused");
            seen.and_message(&error.message, text)
        }
    }
}

/// Applies a line, then the line that is shown afterwards; returns a digest.
fn reads_back(
    text: &str,
    write: impl Fn(&str, &mut Limits) -> Result<DeviceNumber, Diagnostic>,
    read: impl Fn(DeviceNumber, &Limits) -> Option<String>,
) -> Vec<u8> {
    let mut limits = Limits::NONE;
    match write(text, &mut limits) {
        Ok(device) => {
            let shown = read(device, &limits);
            let mut again = Limits::NONE;
            if let Some(line) = &shown {
                assert_eq!(write(line, &mut again), Ok(device), "{line} was shown");
            }
            assert_eq!(again, limits, "{shown:?} was shown for {text:?}");
            vec![1 + u8::from(shown.is_some())]
        }
        Err(error) => {
            assert_eq!(limits, Limits::NONE, "{text:?} was refused: {}", error.message);
            vec![0]
        }
    }
}
