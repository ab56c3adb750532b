//! Groups that share the device, and their weights.

use std::collections::BTreeSet;

use std::fmt;
use std::str::FromStr;

use hoistway_block::Nanos;
use hoistway_block::time::MICROSECOND;
use hoistway_workload::Job;
use serde::{Deserialize, Serialize};

use crate::{Diagnostic, GROUP_LIMITER, LATENCY_LIMITER};

/// A weight, 1 to 10,000. A group's due share is its weight divided by the sum over all backlogged
/// groups.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u16);

impl Weight {
    /// The smallest weight.
    pub const MIN: u32 = 1;
    /// The largest weight.
    pub const MAX: u32 = 10_000;
    /// The default weight.
    pub const DEFAULT: Weight = Weight(100);

    /// Creates a weight; the error names the value and the range.
    pub fn new(weight: u32) -> Result<Self, Diagnostic> {
        match u16::try_from(weight) {
            Ok(small) if (Self::MIN..=Self::MAX).contains(&weight) => Ok(Self(small)),
            _ => Err(out_of_range(&weight.to_string())),
        }
    }

    /// The weight as a number, 1 to 10,000.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

fn out_of_range(value: &str) -> Diagnostic {
    Diagnostic::new(
        format!("weight {value} is outside {} to {}", Weight::MIN, Weight::MAX),
        "only the ratio of weights matters: 100,200,400 shares as 1,2,4 does",
    )
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> u32 {
        weight.get()
    }
}

impl TryFrom<u32> for Weight {
    type Error = Diagnostic;
    fn try_from(weight: u32) -> Result<Self, Diagnostic> {
        Self::new(weight)
    }
}

impl FromStr for Weight {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(weight) => Self::new(weight),
            Err(_) if digits => Err(out_of_range(text)),
            Err(_) => Err(Diagnostic::new(
                format!("weight '{text}' is not a whole number"),
                format!("weights are {} to {}, decimal", Weight::MIN, Weight::MAX),
            )),
        }
    }
}

/// Priority level of a group, 0 to 7, for schedulers with levels instead of weights. Each scheduler
/// defines which end is the highest.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct GroupPriority(u8);

impl GroupPriority {
    /// The largest level.
    pub const MAX: u32 = 7;

    /// Creates a level; the error names the value and the range.
    pub fn new(level: u32) -> Result<Self, Diagnostic> {
        match u8::try_from(level) {
            Ok(small) if level <= Self::MAX => Ok(Self(small)),
            _ => Err(no_group_priority(&level.to_string())),
        }
    }

    /// The level as a number, 0 to 7.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

fn no_group_priority(value: &str) -> Diagnostic {
    Diagnostic::new(
        format!("group priority '{value}' is outside 0 to {}", GroupPriority::MAX),
        "0 is the highest to uchida, 7 to tarasov; other schedulers share by weight=",
    )
}

impl From<GroupPriority> for u32 {
    fn from(priority: GroupPriority) -> u32 {
        priority.get()
    }
}

impl TryFrom<u32> for GroupPriority {
    type Error = Diagnostic;
    fn try_from(level: u32) -> Result<Self, Diagnostic> {
        Self::new(level)
    }
}

impl FromStr for GroupPriority {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Self, Diagnostic> {
        text.parse().map_err(|_| no_group_priority(text)).and_then(Self::new)
    }
}

/// Parses `--weights`: a list `100,800`, or a range `100..800` spread over `groups` in even steps
/// (rounded down).
///
/// A list determines the number of groups; if `groups` is given as well, both must agree. A range
/// needs `groups`.
pub fn parse_weights(text: &str, groups: Option<usize>) -> Result<Vec<Weight>, Diagnostic> {
    if let Some((first, last)) = text.split_once("..") {
        let (first, last): (Weight, Weight) = (first.trim().parse()?, last.trim().parse()?);
        let Some(count) = groups.filter(|&count| count >= 1) else {
            return Err(Diagnostic::new(
                format!("weights '{text}' do not say how many groups there are"),
                "add --nrgrp N, or write the list: 100,200,400",
            ));
        };
        return Ok(spread(first, last, count));
    }
    let weights = text.split(',').map(|part| part.trim().parse()).collect::<Result<Vec<Weight>, _>>()?;
    match groups {
        Some(count) if count != weights.len() => Err(Diagnostic::new(
            format!("weights '{text}' are {} values for {count} groups", weights.len()),
            format!("give {count} values, or leave --nrgrp out"),
        )),
        _ => Ok(weights),
    }
}

/// `count` weights in even steps from `first` to `last`, both included; values between them are
/// rounded down.
fn spread(first: Weight, last: Weight, count: usize) -> Vec<Weight> {
    let (from, to) = (i64::from(first.0), i64::from(last.0));
    let steps = i64::try_from(count).unwrap_or(i64::MAX).max(2) - 1;
    let at = |step: i64| from + ((to - from) * step).div_euclid(steps);
    // A value between two weights is a weight, so the conversion cannot fail.
    (0..count).map(|step| Weight(u16::try_from(at(step as i64)).unwrap_or(first.0))).collect()
}

/// Limits of a group; `None` means unlimited.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes read per second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<u64>,
    /// Reads per second.
    pub read_ios_per_s: Option<u64>,
    /// Writes per second.
    pub write_ios_per_s: Option<u64>,
    /// Bytes read and written per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes_per_s: Option<u64>,
    /// Reads and writes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ios_per_s: Option<u64>,
    /// For how long an idle group saves up what these rates allow, in ms; `None` means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_ms: Option<u64>,
    /// Best-effort limits: the rates that the group gets if it needs them.
    #[serde(default, skip_serializing_if = "LowLimits::is_none")]
    pub low: LowLimits,
    /// Latency target in us (`io.latency`): while it is missed, siblings with a looser target or
    /// none are throttled. 0 means none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latency_target_us: u64,
}

/// Serde requires a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Best-effort limits (`io.low` of Linux 4.12, `io.high` of the patches of 2016); 0 means none.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LowLimits {
    /// Bytes read per second.
    pub read_bytes_per_s: u64,
    /// Bytes written per second.
    pub write_bytes_per_s: u64,
    /// Reads per second.
    pub read_ios_per_s: u64,
    /// Writes per second.
    pub write_ios_per_s: u64,
    /// Think time above which the group counts as idle, in us; 0 means not given.
    pub idle_us: u64,
    /// Tolerated latency above the baseline, in us; `None` means not given.
    pub latency_us: Option<u64>,
}

impl LowLimits {
    /// No best-effort limit.
    pub const NONE: LowLimits = LowLimits {
        read_bytes_per_s: 0,
        write_bytes_per_s: 0,
        read_ios_per_s: 0,
        write_ios_per_s: 0,
        idle_us: 0,
        latency_us: None,
    };

    /// Bytes per second by direction, reads first.
    pub fn bytes_per_s(&self) -> [u64; 2] {
        [self.read_bytes_per_s, self.write_bytes_per_s]
    }

    /// I/Os per second by direction, reads first.
    pub fn ios_per_s(&self) -> [u32; 2] {
        [self.read_ios_per_s, self.write_ios_per_s].map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))
    }

    /// Whether no value is given.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Limits {
    /// Bytes per second by direction, reads first; `u64::MAX` means unlimited.
    pub fn bytes_per_s(&self) -> [u64; 2] {
        [self.read_bytes_per_s, self.write_bytes_per_s].map(|limit| limit.unwrap_or(u64::MAX))
    }

    /// I/Os per second by direction, reads first; `u32::MAX` means unlimited, as in the kernel.
    pub fn ios_per_s(&self) -> [u32; 2] {
        let at_most = |limit: Option<u64>| limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
        [self.read_ios_per_s, self.write_ios_per_s].map(at_most)
    }

    /// The latency target in nanoseconds; 0 means none.
    pub const fn latency_target_ns(&self) -> Nanos {
        self.latency_target_us.saturating_mul(MICROSECOND)
    }

    /// Names of the limiters that enforce these limits; `rates_by` enforces the maximum rates.
    pub fn limiters(&self, rates_by: &'static str) -> impl Iterator<Item = &'static str> + use<> {
        let maxima = Limits { latency_target_us: 0, low: LowLimits::NONE, ..*self };
        let has_maxima = maxima != Limits::NONE;
        let throttle_is_there = has_maxima && rates_by == GROUP_LIMITER;
        let has_low = !throttle_is_there && !self.low.is_none();
        let has_target = self.latency_target_us > 0;
        let all = [(has_maxima, rates_by), (has_low, GROUP_LIMITER), (has_target, LATENCY_LIMITER)];
        all.into_iter().filter_map(|(is_needed, name)| is_needed.then_some(name))
    }

    /// Whether there is a limit that the kernel's limiter does not know.
    pub fn needs_exact(&self) -> bool {
        self.total_bytes_per_s.is_some() || self.total_ios_per_s.is_some() || self.burst_ms.is_some()
    }

    /// No limit at all.
    pub const NONE: Limits = Limits {
        read_bytes_per_s: None,
        write_bytes_per_s: None,
        read_ios_per_s: None,
        write_ios_per_s: None,
        total_bytes_per_s: None,
        total_ios_per_s: None,
        burst_ms: None,
        low: LowLimits::NONE,
        latency_target_us: 0,
    };
}

/// A group of issuers with its weight and its jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Path from the root, with parts separated by `/`: `db`, `tenants/backup`. Unique within an
    /// experiment. A parent that is not listed itself counts as a group of default weight without
    /// jobs.
    pub path: String,
    /// Weight among its siblings.
    pub weight: Weight,
    /// Whether the group exists in reports only: its issuers belong to the root group, where the
    /// scheduler distinguishes them by process and I/O priority. The weight then only defines the
    /// due share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_root: bool,
    /// Upper limits.
    #[serde(default)]
    pub limits: Limits,
    /// Weight of its own issuers relative to its child groups, for schedulers where they compete
    /// (CFQ of 4.20); `None` means `weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<Weight>,
    /// Its level, for schedulers with levels of groups instead of weights; `None` means the
    /// scheduler's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_priority: Option<GroupPriority>,
    /// I/O priority of its issuers if their job gives none, in Linux's encoding
    /// ([`hoistway_block::Priority`]).
    #[serde(default)]
    pub priority: Option<u16>,
    /// Jobs of the group. Empty for a group that only contains others.
    pub jobs: Vec<Job>,
    /// Start of its jobs after the start of the run, in nanoseconds.
    #[serde(default)]
    pub start_ns: Nanos,
    /// End of its jobs after the start of the run, in nanoseconds; `None` means the end of the run.
    #[serde(default)]
    pub stop_ns: Option<Nanos>,
    /// A later change of weight. Simulated runs only; figures of the whole run still use the first
    /// weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reweigh: Option<Reweigh>,
}

/// A change of a group's weight during the run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reweigh {
    /// Time after the start of the run, in nanoseconds.
    pub at_ns: Nanos,
    /// The new weight.
    pub weight: Weight,
}

impl Group {
    /// A group without limits; its jobs are assigned to it.
    pub fn new(path: impl Into<String>, weight: Weight, mut jobs: Vec<Job>) -> Self {
        let (path, limits) = (path.into(), Limits::NONE);
        for job in &mut jobs {
            job.group.clone_from(&path);
        }
        Self {
            path,
            weight,
            is_in_root: false,
            limits,
            leaf_weight: None,
            group_priority: None,
            priority: None,
            jobs,
            start_ns: 0,
            stop_ns: None,
            reweigh: None,
        }
    }

    /// Path of the parent group; `None` for the root.
    pub fn parent(&self) -> Option<&str> {
        self.path.rsplit_once('/').map(|(parent, _)| parent)
    }
}

/// Checks a path: parts of letters, digits, `-`, `_`, `.`, separated by single `/`.
pub fn check_path(path: &str) -> Result<(), Diagnostic> {
    let part_is_fine = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    if path.split('/').all(part_is_fine) {
        return Ok(());
    }
    Err(Diagnostic::new(
        format!("'{path}' is not a group name"),
        "letters, digits, '-', '_', '.'; nested groups as parent/child",
    ))
}

/// Checks all groups: paths are well-formed and unique, a group with child groups has jobs only if
/// it gives their leaf weight, and groups that exist in reports only request nothing.
pub fn check(groups: &[Group]) -> Result<(), Diagnostic> {
    let paths: BTreeSet<&str> = groups.iter().map(|group| group.path.as_str()).collect();
    let mut seen = BTreeSet::new();
    for group in groups {
        check_path(&group.path)?;
        if !seen.insert(group.path.as_str()) {
            return Err(Diagnostic::new(
                format!("group '{}' is given twice", group.path),
                "give each group a name of its own",
            ));
        }
        let below = format!("{}/", group.path);
        let holds_others = paths.range(below.as_str()..).next().is_some_and(|path| path.starts_with(&below));
        if !group.jobs.is_empty() && group.leaf_weight.is_none() && holds_others {
            let help = format!(
                "move the jobs into a group below it, for example {}/own, or (cfq) say what they weigh: leaf_weight=",
                group.path
            );
            return Err(Diagnostic::new(format!("group '{}' has jobs and holds other groups", group.path), help));
        }
        let asks = group.limits != Limits::NONE || group.leaf_weight.is_some() || group.group_priority.is_some();
        if group.is_in_root && (asks || group.parent().is_some()) {
            return Err(Diagnostic::new(
                format!("group '{}' is one in reports only, and has limits, levels or a group above it", group.path),
                "leave cgroup=root out, or the limits; its processes may have ioprio=",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str, groups: Option<usize>) -> Vec<u32> {
        parse_weights(text, groups).unwrap().into_iter().map(Weight::get).collect()
    }

    #[test]
    fn a_list_and_a_range_of_weights_are_read() {
        assert_eq!(numbers("100,800", None), [100, 800]);
        assert_eq!(numbers("100..800", Some(8)), [100, 200, 300, 400, 500, 600, 700, 800]);
        // 100 + 100/3, 100 + 200/3, rounded down
        assert_eq!(numbers("100..200", Some(4)), [100, 133, 166, 200]);
        assert_eq!(numbers("800..100", Some(2)), [800, 100]);
        assert_eq!(numbers("300..500", Some(1)), [300]);
    }

    #[test]
    fn a_weight_out_of_range_is_named_with_the_range() {
        let message = |text: &str| parse_weights(text, None).unwrap_err().message;
        assert_eq!(message("100,0"), "weight 0 is outside 1 to 10000");
        assert_eq!(message("10001"), "weight 10001 is outside 1 to 10000");
        assert_eq!(message("99999999999999"), "weight 99999999999999 is outside 1 to 10000");
        assert_eq!(message("1e3"), "weight '1e3' is not a whole number");
        assert_eq!(message("-5"), "weight '-5' is not a whole number");
        assert_eq!(message(""), "weight '' is not a whole number");
    }

    #[test]
    fn a_group_priority_is_0_to_7() {
        assert_eq!("7".parse::<GroupPriority>().unwrap().get(), 7);
        for text in ["8", "-1", "", "high"] {
            let message = text.parse::<GroupPriority>().unwrap_err().message;
            assert_eq!(message, format!("group priority '{text}' is outside 0 to 7"));
        }
    }

    #[test]
    fn weights_and_groups_must_agree() {
        let message = |text: &str, groups| parse_weights(text, groups).unwrap_err().message;
        assert_eq!(message("1,2,3", Some(2)), "weights '1,2,3' are 3 values for 2 groups");
        assert_eq!(message("1..3", None), "weights '1..3' do not say how many groups there are");
    }

    #[test]
    fn own_jobs_beside_groups_below_need_a_weight() {
        let below = Group::new("a/b", Weight::DEFAULT, vec![Job::default()]);
        let above = Group::new("a", Weight::DEFAULT, vec![Job::default()]);
        let refused = check(&[above.clone(), below.clone()]).unwrap_err();
        assert!(refused.message.contains("has jobs and holds other groups") && refused.help.contains("leaf_weight="));
        check(&[Group { leaf_weight: Some(Weight::DEFAULT), ..above }, below]).unwrap();
    }

    #[test]
    fn paths_nest_and_stay_inside() {
        for path in ["a", "tenants/db-1", "ü.x"] {
            check_path(path).unwrap();
        }
        for path in ["", "/a", "a/", "a//b", "a/../b", "a b"] {
            check_path(path).unwrap_err();
        }
        let group = |path: &str| Group::new(path, Weight::DEFAULT, Vec::new());
        assert_eq!(group("a/b/c").parent(), Some("a/b"));
        assert_eq!(check(&[group("a"), group("b"), group("a")]).unwrap_err().message, "group 'a' is given twice");
        let in_root = |path: &str| Group { is_in_root: true, ..group(path) };
        check(&[in_root("a"), group("b")]).unwrap();
        check(&[in_root("a/b")]).unwrap_err();
        let limits = Limits { read_bytes_per_s: Some(4096), ..Limits::NONE };
        check(&[Group { limits, ..in_root("a") }]).unwrap_err();
    }
}
