//! The kernel's line for latency targets, `io.latency` of cgroup v2: `MAJ:MIN target=USEC`; parsed
//! and formatted.
//!
//! As with the lines for limits, what the kernel refuses is refused with its error's name and a
//! remedy, and so is what it would misinterpret: it multiplies by 1,000 without checking the range.
//! Source: Linux 6.1, block/blk-iolatency.c; docs/specifications/throttle.md, section 5.

use hoistway_block::DeviceNumber;
use hoistway_block::time::MICROSECOND;

use crate::Diagnostic;
use crate::group::Limits;
use crate::limit_lines::{number, pair, split_device};

/// The only key.
const KEYS: [&str; 1] = ["target"];
/// The largest target whose nanoseconds fit into 64 bits.
const MOST_US: u64 = u64::MAX / MICROSECOND;

/// Writes a line to `io.latency`: `8:0 target=500`; `target=0` and `target=max` remove the target.
///
/// # Errors
/// What is wrong with the line; nothing is changed.
pub fn write_io_latency(line: &str, limits: &mut Limits) -> Result<DeviceNumber, Diagnostic> {
    let (device, rest) = split_device(line)?;
    let mut target_us = None;
    for word in rest.split_whitespace() {
        let (key, value) = pair(word, "io.latency", &KEYS)?;
        let us = number(key, value)?.unwrap_or(0);
        if us > MOST_US {
            let message = format!("target={us} is more than {MOST_US} us: its nanoseconds do not fit into 64 bits");
            return Err(Diagnostic::new(message, "write target=max for no target"));
        }
        target_us = Some(us);
    }
    let Some(target_us) = target_us else {
        let message = "the line has no target (EINVAL)";
        return Err(Diagnostic::new(message, "write target= and microseconds, or target=max for no target"));
    };
    limits.latency_target_us = target_us;
    Ok(device)
}

/// The content of `io.latency` for one device; `None` without a target.
pub fn read_io_latency(device: DeviceNumber, limits: &Limits) -> Option<String> {
    let target_us = limits.latency_target_us;
    (target_us > 0).then(|| format!("{device} target={target_us}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    #[test]
    fn what_is_written_is_shown_and_taken_away_again() {
        let mut limits = Limits { read_bytes_per_s: Some(7), ..Limits::NONE };
        assert_eq!(read_io_latency(SDA, &limits), None);
        assert_eq!(write_io_latency("8:0 target=500", &mut limits), Ok(SDA));
        assert_eq!((limits.latency_target_us, limits.latency_target_ns()), (500, 500_000));
        assert_eq!(read_io_latency(SDA, &limits).as_deref(), Some("8:0 target=500"));
        for none in ["8:0 target=0", "8:0 target=max"] {
            limits.latency_target_us = 500;
            write_io_latency(none, &mut limits).unwrap();
            assert_eq!(limits, Limits { read_bytes_per_s: Some(7), ..Limits::NONE }, "{none}");
        }
    }

    #[test]
    fn a_wrong_line_changes_nothing_and_names_the_remedy() {
        let mut limits = Limits { latency_target_us: 500, ..Limits::NONE };
        let mut says = |line: &str, parts: &[&str]| {
            let error = write_io_latency(line, &mut limits).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
            assert_eq!(limits.latency_target_us, 500, "{line}");
        };
        says("sda target=10", &["'sda' is not a device number (EINVAL)"]);
        says("8:0", &["the line has no target (EINVAL)", "target=max"]);
        says("8:0 500", &["'500' is not of the form key=value (EINVAL)", "target"]);
        says("8:0 targt=5", &["io.latency has no 'targt' (EINVAL)", "did you mean target?"]);
        says("8:0 target=10 latency=5", &["io.latency has no 'latency'"]);
        says("8:0 target=5ms", &["target=5ms is not a whole number (EINVAL)"]);
        says("8:0 target=-1", &["target=-1 is not a whole number (EINVAL)"]);
        says("8:0 target=99999999999999999999", &["does not fit into 64 bits (EINVAL)"]);
        says("8:0 target=18446744073709552", &["more than 18446744073709551 us", "target=max"]);
    }
}
