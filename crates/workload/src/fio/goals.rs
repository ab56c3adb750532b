//! Values of options about goals, permitted CPUs and logs of a job.

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

use super::diagnostic::{Findings, Place};
use super::draft::Draft;
use super::options::Outcome;
use super::units;
use super::values::not_one_of;
use crate::goal::{Figure, Search, Steady};
use crate::job::{Input, Job, PerDirection};
use crate::verify::DAMAGED_ERRNO;

/// Names of the errors that fio knows, from number 1 on.
const ERROR_NAMES: [&str; 34] = [
    "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
    "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
    "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
];
/// Maximum number of errors in a list.
const MAX_ERRORS_LISTED: usize = 64;
/// Upper bound of CPU numbers, exclusive.
const MAX_CPUS: u32 = 1_024;
/// Longest prefix of the name of a log.
const MAX_PREFIX_BYTES: usize = 4_096;
/// Maximum limits of the steady state, in I/Os per second, bytes per second and nanoseconds.
/// Multiplied by 10^6 they still fit into 64 bits.
const MAX_IOS: u64 = 1_000_000_000;
const MAX_BYTES: u64 = 1 << 44;
const MAX_LATENCY_NS: Nanos = 10_000 * SECOND;

/// The latency target as given by its options, before it is known whether there is one.
#[derive(Copy, Clone, Debug)]
pub struct Target {
    pub target_ns: Nanos,
    pub window_ns: Nanos,
    pub share_millionths: u32,
    pub continues: bool,
}

impl Default for Target {
    fn default() -> Self {
        Self { target_ns: 0, window_ns: 0, share_millionths: 1_000_000, continues: false }
    }
}

/// Default values of the steady state; the criterion is fio's default.
pub const STEADY: Steady = Steady {
    figure: Figure::Ios,
    by_slope: true,
    limit_millionths: 10_000,
    in_percent: true,
    duration_ns: 0,
    ramp_ns: 0,
    interval_ns: SECOND,
};

/// Stores the goals in the job, completes the names of logs, and checks options that depend on each
/// other.
pub(super) fn resolve<'a>(job: &mut Job, draft: &Draft, at: impl Fn(&str) -> &'a Place, findings: &mut Findings) {
    let Target { target_ns, window_ns, share_millionths, continues } = draft.target;
    job.goals.search = (target_ns > 0).then_some(Search { target_ns, window_ns, share_millionths, continues });
    if target_ns > 0 && window_ns == 0 {
        findings.error(at("latency_target"), "latency_target needs a latency_window", "add latency_window=5s, say");
    }
    let steady = draft.steady;
    job.goals.steady = (steady.duration_ns > 0).then_some(steady);
    if steady.duration_ns > 0 && steady.duration_ns < 2 * steady.interval_ns {
        let message = "steadystate_duration holds less than two intervals of steadystate_check_interval";
        findings.error(at("steadystate_duration"), message, "make it longer: 10s, say");
    }
    if let Some(flow) = &mut job.goals.flow {
        (flow.id, flow.sleep_ns) = draft.flow;
    }
    let name = job.name.trim().to_owned();
    let output = &mut job.output;
    let logs = [&mut output.bandwidth_log, &mut output.latency_log, &mut output.ios_log, &mut output.histogram_log];
    for prefix in logs.into_iter().flatten().filter(|prefix| prefix.is_empty()) {
        prefix.clone_from(&name);
    }
    if output.histogram_log.is_some() && output.histogram_every_ns == 0 {
        findings.error(at("write_hist_log"), "write_hist_log needs a log_hist_msec", "add log_hist_msec=1000, say");
    }
    if job.source.input.as_ref().is_some_and(|input| input.file.is_empty()) {
        job.source.input = None;
    }
}

/// Parses a decimal number such as `99.9` into millionths; at most six decimals are permitted.
fn millionths(text: &str, most: u64) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number from 0 to {most} such as 99.9");
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 6 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let fraction: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let value = whole.checked_mul(1_000_000).and_then(|value| value.checked_add(fraction)).ok_or_else(wrong)?;
    if value > most.saturating_mul(1_000_000) { Err(wrong()) } else { Ok(value) }
}

pub(super) fn latency_percentile(draft: &mut Draft, text: &str) -> Outcome {
    let percent = millionths(text, 100)?;
    draft.target.share_millionths = u32::try_from(percent / 100).unwrap_or(1_000_000);
    Ok(())
}

/// Parses `iops:0.3%` or `bw_slope:1m`.
pub(super) fn steady_state(draft: &mut Draft, text: &str) -> Outcome {
    const FIGURES: [(&str, Figure, bool); 6] = [
        ("iops", Figure::Ios, false),
        ("iops_slope", Figure::Ios, true),
        ("bw", Figure::Bytes, false),
        ("bw_slope", Figure::Bytes, true),
        ("lat", Figure::Latency, false),
        ("lat_slope", Figure::Latency, true),
    ];
    let (word, limit) = text.split_once(':').ok_or_else(|| format!("'{text}' is not FIGURE:LIMIT, as iops:0.3%"))?;
    let known = FIGURES.iter().find(|(name, ..)| *name == word.trim());
    let (_, figure, by_slope) = *known.ok_or_else(|| not_one_of(word, &FIGURES.map(|(name, ..)| name)))?;
    let limit = limit.trim();
    let (limit_millionths, in_percent) = match (limit.strip_suffix('%'), figure) {
        (Some(percent), _) => (millionths(percent, 1_000)?, true),
        (None, Figure::Ios) => (millionths(limit, MAX_IOS)?, false),
        (None, Figure::Bytes) => (draft.numbers.within(limit, 0, MAX_BYTES)?.saturating_mul(1_000_000), false),
        (None, Figure::Latency) => {
            let limit_ns = units::time(limit, hoistway_block::time::MICROSECOND)?.value_ns;
            if limit_ns > MAX_LATENCY_NS {
                return Err(format!("a latency of '{limit}' is not a limit"));
            }
            (limit_ns.saturating_mul(1_000_000), false)
        }
    };
    draft.steady = Steady { figure, by_slope, limit_millionths, in_percent, ..draft.steady };
    Ok(())
}

/// Parses `EIO:ENOSPC,ENOSPC,EILSEQ`: errors of reads, of writes and trims, of verification.
pub(super) fn ignored_errors(draft: &mut Draft, text: &str) -> Outcome {
    let mut lists: Vec<Vec<u16>> = Vec::new();
    for list in text.split(',') {
        let errors = list.split(':').filter(|word| !word.trim().is_empty()).map(|word| errno(word.trim()));
        let errors = errors.collect::<Result<Vec<u16>, String>>()?;
        if errors.len() > MAX_ERRORS_LISTED {
            return Err(format!("more than {MAX_ERRORS_LISTED} errors in one list"));
        }
        lists.push(errors);
    }
    if lists.len() > 3 {
        return Err("there are lists for reads, writes and verification, no more".to_owned());
    }
    let of = |index: usize| lists.get(index).cloned().unwrap_or_default();
    draft.verify.continues |= of(2).contains(&DAMAGED_ERRNO);
    draft.job.goals.ignored_errnos = PerDirection { read: of(0), write: of(1), trim: of(1) };
    Ok(())
}

fn errno(word: &str) -> Result<u16, String> {
    if let Ok(number @ 1..=4_095) = word.parse() {
        return Ok(number);
    }
    if word == "EILSEQ" {
        return Ok(DAMAGED_ERRNO);
    }
    let at = ERROR_NAMES.iter().position(|name| *name == word);
    let number = at.and_then(|at| u16::try_from(at + 1).ok());
    number.ok_or_else(|| format!("'{word}' is not an error: write its number, or a name such as EIO, ENOSPC, EAGAIN"))
}

/// Parses `0,2-5`.
pub(super) fn cpus_allowed(draft: &mut Draft, text: &str) -> Outcome {
    let mut cpus = Vec::new();
    for part in text.split([',', ':']) {
        let wrong = || format!("'{part}' is not a processor: write 0,2-5, numbers below {MAX_CPUS}");
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < MAX_CPUS).ok_or_else(wrong);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    draft.job.affinity.cpus = cpus;
    Ok(())
}

/// Converts a mask with a bit per CPU.
pub(super) fn cpu_mask(draft: &mut Draft, mask: u64) {
    draft.job.affinity.cpus = (0..64).filter(|cpu| mask & (1 << cpu) != 0).collect();
}

pub(super) fn cpu_policy(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.affinity.splits_cpus = match text {
        "shared" => false,
        "split" => true,
        _ => return Err(not_one_of(text, &["shared", "split"])),
    };
    Ok(())
}

/// The first part of the name of a log; empty means the job's name.
pub(super) fn prefix(text: &str) -> Result<Option<String>, String> {
    if text.len() > MAX_PREFIX_BYTES {
        return Err(format!("the name is longer than {MAX_PREFIX_BYTES} bytes"));
    }
    Ok(Some(text.to_owned()))
}

pub(super) fn read_iolog(draft: &mut Draft, text: &str) -> Outcome {
    if text.len() > MAX_PREFIX_BYTES {
        return Err(format!("the name is longer than {MAX_PREFIX_BYTES} bytes"));
    }
    text.clone_into(&mut input(draft).file);
    Ok(())
}

pub(super) fn input(draft: &mut Draft) -> &mut Input {
    draft.job.source.input.get_or_insert_with(|| Box::new(Input { time_percent: 100, ..Input::default() }))
}

/// Parses `read,sync`.
pub(super) fn replay_skip(draft: &mut Draft, text: &str) -> Outcome {
    const WORDS: [&str; 4] = ["read", "write", "trim", "sync"];
    for word in text.split(',') {
        let word = if word.trim() == "flush" { "sync" } else { word.trim() };
        let index = WORDS.iter().position(|known| *known == word).ok_or_else(|| not_one_of(word, &WORDS))?;
        input(draft).skips[index] = true;
    }
    Ok(())
}

/// Converts milliseconds, the unit of the numbers of log intervals and `rate_cycle`.
pub(super) const fn milliseconds(count: u64) -> Nanos {
    count.saturating_mul(MILLISECOND)
}
