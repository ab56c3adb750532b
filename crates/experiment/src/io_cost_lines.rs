//! Parses and formats the lines of `io.cost.qos`, `io.cost.model` and `io.weight` as the kernel
//! does.
//!
//! Pure functions of plain values; the caller looks up the device and applies the values. A line is
//! applied as a whole or not at all. Source: Linux 6.1, block/blk-iocost.c;
//! docs/specifications/throttle.md, section 7.2.

use std::fmt;

use hoistway_block::DeviceNumber;

use crate::diagnostic::Diagnostic;

/// EINVAL, the only error that these files return themselves.
pub const EINVAL: u16 = 22;

/// Why a line was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    /// The errno that a write to the kernel's file would return.
    pub errno: u16,
    /// Message for users.
    pub diagnostic: Diagnostic,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for LineError {}

fn invalid(message: impl Into<String>, help: impl Into<String>) -> LineError {
    LineError { errno: EINVAL, diagnostic: Diagnostic::new(message, help) }
}

/// A percentage with two decimals, in hundredths.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Percent {
    /// 1 % is 100.
    pub hundredths: u32,
}

impl Percent {
    /// An integer percentage.
    pub const fn whole(percent: u32) -> Self {
        Self { hundredths: percent.saturating_mul(100) }
    }

    /// In millionths of the whole, the unit of the limiter.
    pub const fn ppm(self) -> u32 {
        self.hundredths.saturating_mul(100)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.hundredths / 100, self.hundredths % 100)
    }
}

/// The values of `io.cost.qos`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct QosValues {
    /// `enable`.
    pub is_enabled: bool,
    /// `ctrl=user`; otherwise the other values are those of the device's class.
    pub is_user: bool,
    /// `rpct`: the percentage of reads that should meet their target.
    pub read_percent: Percent,
    /// `rlat`: target of the latency of reads, in us.
    pub read_latency_us: u64,
    /// `wpct`: the percentage of writes that should meet their target.
    pub write_percent: Percent,
    /// `wlat`: target of the latency of writes, in us.
    pub write_latency_us: u64,
    /// `min`: lower bound of the virtual rate, at which the limiter's virtual time runs relative to
    /// the clock.
    pub min: Percent,
    /// `max`: upper bound of the virtual rate.
    pub max: Percent,
}

/// The values of `io.cost.model`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ModelValues {
    /// `ctrl=user`; otherwise the coefficients are those of the device's class.
    pub is_user: bool,
    /// `rbps`, `rseqiops`, `rrandiops`.
    pub read: [u64; 3],
    /// `wbps`, `wseqiops`, `wrandiops`.
    pub write: [u64; 3],
}

/// Content of a line of `io.weight`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WeightLine {
    /// The weight for all devices without one of their own.
    Default(u32),
    /// The weight for a device; `None` removes it.
    Device(DeviceNumber, Option<u32>),
}

const MOST_PERCENT: u32 = 100;
/// Bounds of the virtual rate: 1 % to 10000 %.
const RATE_HUNDREDTHS: (u64, u64) = (100, 1_000_000);

/// Parses a line of `io.cost.qos`. `now` contains the current values, which keys that are not given
/// keep.
///
/// # Errors
/// EINVAL for everything, as in the kernel; nothing may be changed then.
pub fn parse_qos(line: &str, now: &QosValues) -> Result<(DeviceNumber, QosValues), LineError> {
    let (device, rest) = device_and_rest(line)?;
    let mut qos = *now;
    for word in rest.split_ascii_whitespace() {
        let (key, value) = key_and_value(word, QOS_KEYS)?;
        match key {
            "enable" => qos.is_enabled = number(key, value)? != 0,
            "ctrl" => qos.is_user = is_user(value)?,
            _ => {
                match key {
                    "rpct" => qos.read_percent = share(key, value)?,
                    "rlat" => qos.read_latency_us = number(key, value)?,
                    "wpct" => qos.write_percent = share(key, value)?,
                    "wlat" => qos.write_latency_us = number(key, value)?,
                    "min" => qos.min = rate(key, value)?,
                    "max" => qos.max = rate(key, value)?,
                    _ => return Err(unknown(word, QOS_KEYS)),
                }
                qos.is_user = true;
            }
        }
    }
    if qos.min > qos.max {
        let (min, max) = (qos.min, qos.max);
        return Err(invalid(format!("min={min} is above max={max}"), "give both, with min not above max"));
    }
    Ok((device, qos))
}

/// Parses a line of `io.cost.model`, like [`parse_qos`].
///
/// # Errors
/// As [`parse_qos`].
pub fn parse_model(line: &str, now: &ModelValues) -> Result<(DeviceNumber, ModelValues), LineError> {
    let (device, rest) = device_and_rest(line)?;
    let mut model = *now;
    for word in rest.split_ascii_whitespace() {
        let (key, value) = key_and_value(word, MODEL_KEYS)?;
        let place = match key {
            "ctrl" => {
                model.is_user = is_user(value)?;
                continue;
            }
            "model" if value == "linear" => continue,
            "model" => return Err(invalid(format!("model '{value}' is unknown"), "the only model is linear")),
            "rbps" => &mut model.read[0],
            "rseqiops" => &mut model.read[1],
            "rrandiops" => &mut model.read[2],
            "wbps" => &mut model.write[0],
            "wseqiops" => &mut model.write[1],
            "wrandiops" => &mut model.write[2],
            _ => return Err(unknown(word, MODEL_KEYS)),
        };
        *place = number(key, value)?;
        model.is_user = true;
    }
    Ok((device, model))
}

/// Parses a line of `io.weight`: `default 200`, `200`, `8:0 300` or `8:0 default`.
///
/// # Errors
/// EINVAL for anything else, and for weights outside 1 to 10000.
pub fn parse_weight(line: &str) -> Result<WeightLine, LineError> {
    let line = line.trim();
    if !line.contains(':') {
        let weight = line.strip_prefix("default").unwrap_or(line).trim_start();
        return Ok(WeightLine::Default(weight_of(weight)?));
    }
    let (device, rest) = device_and_rest(line)?;
    match rest.trim() {
        "default" => Ok(WeightLine::Device(device, None)),
        weight => Ok(WeightLine::Device(device, Some(weight_of(weight)?))),
    }
}

/// The line of `io.cost.qos`, without a line end.
pub fn format_qos(device: DeviceNumber, qos: &QosValues) -> String {
    let QosValues { is_enabled, is_user, read_percent, read_latency_us, write_percent, write_latency_us, min, max } =
        qos;
    let (enable, ctrl) = (u8::from(*is_enabled), control(*is_user));
    format!(
        "{device} enable={enable} ctrl={ctrl} rpct={read_percent} rlat={read_latency_us} wpct={write_percent} \
         wlat={write_latency_us} min={min} max={max}"
    )
}

/// The line of `io.cost.model`, without a line end.
pub fn format_model(device: DeviceNumber, model: &ModelValues) -> String {
    let ModelValues { is_user, read: [rbps, rseq, rrand], write: [wbps, wseq, wrand] } = model;
    let ctrl = control(*is_user);
    format!(
        "{device} ctrl={ctrl} model=linear rbps={rbps} rseqiops={rseq} rrandiops={rrand} \
         wbps={wbps} wseqiops={wseq} wrandiops={wrand}"
    )
}

/// A line of `io.weight`, without a line end.
pub fn format_weight(weight: WeightLine) -> String {
    match weight {
        WeightLine::Default(weight) => format!("default {weight}"),
        WeightLine::Device(device, Some(weight)) => format!("{device} {weight}"),
        WeightLine::Device(device, None) => format!("{device} default"),
    }
}

const QOS_KEYS: &str = "enable, ctrl, rpct, rlat, wpct, wlat, min, max";
const MODEL_KEYS: &str = "ctrl, model, rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops";

const fn control(is_user: bool) -> &'static str {
    if is_user { "user" } else { "auto" }
}

fn device_and_rest(line: &str) -> Result<(DeviceNumber, &str), LineError> {
    let line = line.trim();
    let (device, rest) = line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
    let numbers = device.split_once(':').and_then(|(major, minor)| Some((digits(major)?, digits(minor)?)));
    let Some((Ok(major), Ok(minor))) = numbers.map(|(major, minor)| (u32::try_from(major), u32::try_from(minor)))
    else {
        return Err(invalid(
            format!("'{device}' is not a device"),
            "begin with MAJOR:MINOR as in /proc/partitions, e.g. 8:0",
        ));
    };
    Ok((DeviceNumber { major, minor }, rest))
}

fn key_and_value<'a>(word: &'a str, keys: &str) -> Result<(&'a str, &'a str), LineError> {
    word.split_once('=').ok_or_else(|| unknown(word, keys))
}

fn unknown(word: &str, keys: &str) -> LineError {
    invalid(format!("'{word}' is not a setting"), format!("settings are KEY=VALUE; keys: {keys}"))
}

/// Parses digits only, without sign or blanks.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn number(key: &str, value: &str) -> Result<u64, LineError> {
    digits(value)
        .ok_or_else(|| invalid(format!("{key}={value} is not a number"), "give a whole number that is not negative"))
}

fn is_user(value: &str) -> Result<bool, LineError> {
    match value {
        "auto" => Ok(false),
        "user" => Ok(true),
        _ => Err(invalid(format!("ctrl={value} is unknown"), "ctrl is auto or user")),
    }
}

/// A number with any decimals, in hundredths; further decimals are rounded half up.
fn hundredths(value: &str) -> Option<u64> {
    let (whole, decimals) = value.split_once('.').unwrap_or((value, "0"));
    if whole.is_empty() || decimals.is_empty() || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digit = |index: usize| decimals.as_bytes().get(index).map_or(0, |byte| u64::from(byte - b'0'));
    let fraction = digit(0) * 10 + digit(1) + u64::from(digit(2) >= 5);
    digits(whole)?.checked_mul(100)?.checked_add(fraction)
}

fn share(key: &str, value: &str) -> Result<Percent, LineError> {
    let refused = || invalid(format!("{key}={value} is not a share"), "give 0 to 100 per cent, e.g. 95 or 99.90");
    let hundredths = hundredths(value).and_then(|hundredths| u32::try_from(hundredths).ok()).ok_or_else(refused)?;
    if hundredths > MOST_PERCENT * 100 {
        return Err(refused());
    }
    Ok(Percent { hundredths })
}

/// A bound of the virtual rate, clamped to its range.
fn rate(key: &str, value: &str) -> Result<Percent, LineError> {
    let refused = || invalid(format!("{key}={value} is not a rate"), "give 1 to 10000 per cent, e.g. 50 or 120.50");
    let (least, most) = RATE_HUNDREDTHS;
    let bounded = hundredths(value).ok_or_else(refused)?.clamp(least, most);
    Ok(Percent { hundredths: u32::try_from(bounded).map_err(|_| refused())? })
}

fn weight_of(value: &str) -> Result<u32, LineError> {
    let weight = digits(value).and_then(|weight| u32::try_from(weight).ok());
    weight.filter(|weight| (1..=10_000).contains(weight)).ok_or_else(|| {
        invalid(format!("'{value}' is not a weight"), "give 1 to 10000 (100 is the default), or 'default' for a device")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const FLASH: QosValues = QosValues {
        is_enabled: true,
        is_user: false,
        read_percent: Percent::whole(0),
        read_latency_us: 25_000,
        write_percent: Percent::whole(0),
        write_latency_us: 25_000,
        min: Percent::whole(1),
        max: Percent::whole(10_000),
    };
    const MODEL: ModelValues =
        ModelValues { is_user: false, read: [488_636_629, 8_932, 8_518], write: [427_891_549, 28_755, 21_940] };

    #[test]
    fn all_fields_are_shown_with_two_decimals() {
        assert_eq!(
            format_qos(SDA, &FLASH),
            "8:0 enable=1 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00"
        );
        assert_eq!(
            format_model(SDA, &MODEL),
            "8:0 ctrl=auto model=linear rbps=488636629 rseqiops=8932 rrandiops=8518 wbps=427891549 wseqiops=28755 \
             wrandiops=21940"
        );
    }

    #[test]
    fn named_keys_change_and_make_the_values_the_users() {
        let (device, qos) = parse_qos("8:16 rpct=95.5 rlat=5000 min=60 max=1000000\n", &FLASH).unwrap();
        assert_eq!(device, DeviceNumber { major: 8, minor: 16 });
        assert_eq!((qos.read_percent.hundredths, qos.read_percent.ppm(), qos.read_latency_us), (9_550, 955_000, 5_000));
        assert_eq!((qos.is_user, qos.min, qos.max), (true, Percent::whole(60), Percent::whole(10_000)));
        assert_eq!(qos.write_latency_us, 25_000);
        let (_, off) = parse_qos("8:0 enable=0", &FLASH).unwrap();
        assert_eq!(off, QosValues { is_enabled: false, ..FLASH }, "switching on and off leaves the control");
        assert!(!parse_qos("8:0 rlat=1 ctrl=auto", &FLASH).unwrap().1.is_user, "the last word counts");
        let (_, model) = parse_model("8:0 model=linear wbps=7", &MODEL).unwrap();
        assert_eq!(model, ModelValues { is_user: true, write: [7, 28_755, 21_940], ..MODEL });
    }

    #[test]
    fn what_is_written_reads_back() {
        let qos = QosValues { is_user: true, read_percent: Percent { hundredths: 9_999 }, ..FLASH };
        assert_eq!(parse_qos(&format_qos(SDA, &qos), &qos), Ok((SDA, qos)));
        let model = ModelValues { is_user: true, ..MODEL };
        assert_eq!(parse_model(&format_model(SDA, &model), &model), Ok((SDA, model)));
        for weight in [WeightLine::Default(100), WeightLine::Device(SDA, Some(10_000)), WeightLine::Device(SDA, None)] {
            assert_eq!(parse_weight(&format_weight(weight)), Ok(weight));
        }
        assert_eq!(parse_weight("250"), Ok(WeightLine::Default(250)));
    }

    #[test]
    fn decimals_beyond_two_are_rounded() {
        let of = |text| hundredths(text);
        assert_eq!([of("99.994"), of("99.995"), of("0.5"), of("7")], [Some(9_999), Some(10_000), Some(50), Some(700)]);
        assert_eq!([of(""), of("."), of("1."), of(".5"), of("-1"), of("1e2")], [None; 6]);
    }

    #[test]
    fn bad_lines_are_refused_whole() {
        let bad = [
            "",
            "rpct=1",
            "8 rpct=1",
            "8:x rpct=1",
            "-8:0 rpct=1",
            "8:0 rpct",
            "8:0 foo=1",
            "8:0 rpct=101",
            "8:0 rpct=-1",
            "8:0 rlat=",
            "8:0 rlat=1.5",
            "8:0 ctrl=me",
            "8:0 enable=yes",
            "8:0 min=50 max=40",
            "8:0 rlat=99999999999999999999",
        ];
        for line in bad {
            let error = parse_qos(line, &FLASH).expect_err(line);
            assert_eq!(error.errno, EINVAL);
            assert!(!error.diagnostic.message.is_empty() && !error.diagnostic.help.is_empty());
        }
        for line in ["8:0 model=square", "8:0 rbps=x", "8:0 riops=1", "x"] {
            assert!(parse_model(line, &MODEL).is_err(), "{line}");
        }
        for line in ["", "default", "0", "10001", "8:0", "8:0 0", "8:0 10001", "8:0 -1", "default x"] {
            assert!(parse_weight(line).is_err(), "{line}");
        }
    }
}
