//! `hoistway stat`: the counters of a device in the kernel's own formats, for the tools that read
//! them. Source: docs/specifications/harness.md, sections 10.1 and 10.2.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hoistway_experiment::Exit;

use super::kernel::Kernel;
use super::sample::{DeviceSample, Flow, GroupSample, Interval, Sample, quantile_of};
use super::server::Server;
use super::shares;
use crate::ctl;
use crate::exit::{Error, Outcome, print};
use crate::interrupt::Interrupt;
use crate::units;

/// `hoistway stat`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway stat                                 counters of a server's devices, as in /proc/diskstats\n  hoistway stat --format io.stat                counters of its groups as in io.stat, with shares\n  hoistway stat --format io.stat --group db     only the lines of one group\n  hoistway stat /dev/sda --format io.stat       the kernel's cgroups on a block device\n\nIn io.stat, bytes, requests and throttled_us are totals since the start; share_due, share_got, inflight, p50_us and\np99_us are those of one --interval. Times in diskstats are in milliseconds; the time of a server's flushes is not\nmeasured (0)."
)]
pub struct StatArguments {
    /// Block device [default: the server behind --control]
    #[arg(value_name = "DEVICE")]
    target: Option<PathBuf>,
    /// Control socket of the server
    #[arg(long, value_name = "PATH", value_parser = ctl::socket)]
    control: Option<ctl::Socket>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "diskstats")]
    format: File,
    /// Print only this device of a server
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// With io.stat: print only this group's lines, without the group's path in front
    #[arg(long, value_name = "PATH")]
    group: Option<String>,
    /// With io.stat: interval over which shares and latencies are measured
    #[arg(short = 'd', long = "interval", value_name = "TIME", default_value = "1s", value_parser = units::time)]
    interval_ns: u64,
}

/// The output format.
#[derive(clap::ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum File {
    /// One line per device, as in /proc/diskstats
    Diskstats,
    /// One line per group, as in io.stat of cgroups, with additional fields
    #[value(name = "io.stat")]
    IoStat,
}

enum From {
    Server(Server),
    Kernel(Box<Kernel>),
}

impl From {
    fn sample(&self) -> Result<Sample, Error> {
        match self {
            From::Server(server) => server.sample(),
            From::Kernel(kernel) => kernel.sample(),
        }
    }

    /// `MAJOR:MINOR` of a device; devices of a server have none, so their index is used.
    fn number(&self, index: usize) -> String {
        match self {
            From::Server(_) => number(index),
            From::Kernel(kernel) => kernel.number(),
        }
    }
}

fn number(index: usize) -> String {
    format!("0:{index}")
}

/// Runs the subcommand.
pub fn run(arguments: &StatArguments) -> Outcome {
    let from = match &arguments.target {
        None => From::Server(Server::new(&ctl::socket_of(arguments.control.as_ref()))),
        Some(path) => From::Kernel(Box::new(Kernel::new(path)?)),
    };
    let interrupt = Interrupt::install()?;
    let before = from.sample()?;
    if arguments.format == File::Diskstats {
        let devices: Vec<DeviceSample> = chosen(&before.devices, arguments.device.as_deref())?;
        print(&lines(&devices, |index| from.number(index))?)?;
        return Ok(Exit::Done);
    }
    interrupt.rest(Duration::from_nanos(arguments.interval_ns));
    if let Some(exit) = interrupt.exit() {
        return Ok(exit);
    }
    let now = from.sample()?;
    let interval = Interval::between(&before, &now);
    let mut text = String::new();
    let mut is_found = arguments.group.is_none();
    for (index, device) in now.devices.iter().enumerate() {
        if arguments.device.as_ref().is_some_and(|name| *name != device.name) {
            continue;
        }
        let shares = shares::of(&interval.devices[index], interval.seconds());
        for (group, (passed, share)) in device.groups.iter().zip(interval.devices[index].groups.iter().zip(shares)) {
            let line = io_stat(&from.number(index), group, passed, share, interval.seconds());
            match &arguments.group {
                Some(wanted) if *wanted == group.path => text += &format!("{line}\n"),
                Some(_) => continue,
                None => text += &format!("{}/io.stat:{line}\n", group.path),
            }
            is_found = true;
        }
    }
    if !is_found {
        let group = arguments.group.as_deref().unwrap_or_default();
        let names: Vec<&str> = now.devices.iter().flat_map(|it| &it.groups).map(|it| it.path.as_str()).collect();
        return Err(Error::usage(format!("there is no group '{group}'"), format!("there are: {}", names.join(", "))));
    }
    chosen(&now.devices, arguments.device.as_deref())?;
    print(&text)?;
    Ok(Exit::Done)
}

fn chosen(devices: &[DeviceSample], name: Option<&str>) -> Result<Vec<DeviceSample>, Error> {
    let chosen: Vec<DeviceSample> =
        devices.iter().filter(|device| name.is_none_or(|name| device.name == name)).cloned().collect();
    if chosen.is_empty() {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let what = format!("there is no device '{}'", name.unwrap_or_default());
        return Err(Error::usage(what, format!("there are: {}", names.join(", "))));
    }
    Ok(chosen)
}

/// A line per device, as in `/proc/diskstats`.
pub fn diskstats(devices: &[DeviceSample]) -> Result<String, Error> {
    lines(devices, number)
}

fn lines(devices: &[DeviceSample], number: impl Fn(usize) -> String) -> Result<String, Error> {
    let line = |(index, device): (usize, &DeviceSample)| {
        let fields = device.diskstats.ok_or_else(|| {
            let what = format!("{}: the counters of /proc/diskstats are not available", device.name);
            Error::usage(what, "servers and block devices have them; a stored result has only figures per second")
        })?;
        let number = number(index);
        let (major, minor) = number.split_once(':').unwrap_or(("0", "0"));
        let fields: Vec<String> = fields.iter().map(u64::to_string).collect();
        Ok(format!("{major:>4} {minor:>7} {} {}\n", device.name, fields.join(" ")))
    };
    devices.iter().enumerate().map(line).collect()
}

/// A line of `io.stat`. `passed` is the group's increase in the interval of `seconds`.
fn io_stat(number: &str, group: &GroupSample, passed: &GroupSample, share: shares::Share, seconds: f64) -> String {
    let [Flow { bytes: rbytes, ios: rios, .. }, Flow { bytes: wbytes, ios: wios, .. }] = &group.flows;
    let Flow { bytes: dbytes, ios: dios, .. } = &group.discards;
    let mut line = format!(
        "{number} rbytes={rbytes} wbytes={wbytes} rios={rios} wios={wios} dbytes={dbytes} dios={dios} weight={} \
         share_due={:.4} share_got={:.4}",
        group.weight,
        share.due_percent / 100.0,
        share.got_percent / 100.0,
    );
    if let Some(in_flight) = shares::in_device(passed, seconds) {
        line += &format!(" inflight={in_flight:.1}");
    }
    for (name, part) in [("p50_us", 0.5), ("p99_us", 0.99)] {
        if let Some(ns) = quantile_of(&passed.flows, part) {
            line += &format!(" {name}={}", ns / 1_000);
        }
    }
    if let Some(throttled_ns) = group.throttled_ns {
        line += &format!(" throttled_us={}", throttled_ns / 1_000);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_line_of_diskstats() {
        let mut fields = [0; 17];
        fields[..4].copy_from_slice(&[10, 2, 80, 33]);
        let device = DeviceSample { name: "ssd0".into(), diskstats: Some(fields), ..DeviceSample::default() };
        let line = diskstats(&[device]).expect("counted");
        assert_eq!(line, "   0       0 ssd0 10 2 80 33 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        diskstats(&[DeviceSample::default()]).unwrap_err();
    }

    #[test]
    fn a_group_is_a_line_of_io_stat_without_unknown_counters() {
        let flow = Flow { ios: 4, bytes: 16_384, service_ns: None, ..Flow::default() };
        let group = GroupSample { weight: 300, flows: [flow, Flow::default()], ..GroupSample::default() };
        let share =
            shares::Share { due_percent: 75.0, got_percent: 70.0, is_backlogged: true, reported_isolation: None };
        let expected =
            "8:0 rbytes=16384 wbytes=0 rios=4 wios=0 dbytes=0 dios=0 weight=300 share_due=0.7500 share_got=0.7000";
        assert_eq!(io_stat("8:0", &group, &group, share, 1.0), expected);
        let counted = GroupSample { throttled_ns: Some(5_000_000), ..group.clone() };
        assert_eq!(io_stat("8:0", &counted, &group, share, 1.0), format!("{expected} throttled_us=5000"));
    }
}
