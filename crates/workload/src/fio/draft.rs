//! A job while its options are read, before they are checked against each other.

use std::collections::BTreeMap;

use hoistway_block::Nanos;

use super::diagnostic::Place;
use super::goals::{STEADY, Target};
use super::units::Base;
use super::values::{Numbers, SizePriority};
use crate::goal::{Search, Steady};
use crate::job::{BlockSize, Direction, Job, PerDirection, PrioritySplit};
use crate::verify::{Kind, Verify};

/// The sizes of I/Os.
#[derive(Clone, Debug, Default)]
pub struct BlockOptions {
    /// `bs`.
    pub bytes: PerDirection<Option<u64>>,
    /// `bsrange`; overrides `bs`.
    pub ranges: Option<PerDirection<Option<BlockSize>>>,
    /// `bssplit`; overrides `bs` and `bsrange`.
    pub splits: Option<PerDirection<Option<BlockSize>>>,
}

impl BlockOptions {
    /// The sizes by direction.
    pub fn sizes(&self) -> PerDirection<BlockSize> {
        let mut sizes = PerDirection::default();
        for direction in Direction::ALL {
            let fixed = self.bytes.of(direction).unwrap_or(4096);
            let fixed = BlockSize::Fixed(u32::try_from(fixed).unwrap_or(u32::MAX));
            let range = self.ranges.as_ref().and_then(|ranges| ranges.of(direction).clone());
            let split = self.splits.as_ref().and_then(|splits| splits.of(direction).clone());
            *sizes.of_mut(direction) = match split.or(range).unwrap_or(fixed) {
                BlockSize::Range { min, max } if min == max => BlockSize::Fixed(min),
                BlockSize::Split(entries) if entries.len() == 1 => BlockSize::Fixed(entries[0].bytes),
                other => other,
            };
        }
        sizes
    }
}

/// I/O priorities, of all I/Os and of a share of them.
#[derive(Clone, Debug)]
pub struct PriorityOptions {
    /// `prio`.
    pub level: Option<u8>,
    /// `prioclass`, 1 to 3; 0 = none.
    pub class: u8,
    /// `priohint`.
    pub hint: u16,
    /// `nice`.
    pub nice: i64,
    /// `cmdprio` and `cmdprio_class`.
    pub other: (u8, u8),
    /// `cmdprio_hint`.
    pub other_hint: u16,
    /// `cmdprio_bssplit`: entries without a priority of their own take that of `cmdprio`.
    pub splits: Option<PerDirection<Vec<SizePriority>>>,
}

impl Default for PriorityOptions {
    fn default() -> Self {
        Self { level: None, class: 0, hint: 0, nice: 0, other: (0, 1), other_hint: 0, splits: None }
    }
}

impl PriorityOptions {
    /// The priority of all I/Os in Linux's encoding. A level alone means best effort; a nice value is mapped to a level
    /// as in the kernel.
    pub fn bits(&self) -> u16 {
        let bits = |class, level| with_hint(class, level, self.hint);
        match (self.class, self.level) {
            (0, None) if self.nice != 0 => bits(2, u8::try_from((self.nice + 20) / 5).unwrap_or(4)),
            (0, None) => self.hint << 3,
            (0, Some(level)) => bits(2, level),
            (class, level) => bits(class, level.unwrap_or(0)),
        }
    }

    /// That of a share of them.
    pub fn other_bits(&self) -> u16 {
        let (level, class) = self.other;
        with_hint(class, level, self.other_hint)
    }

    /// Those by size, if any are given.
    pub fn by_size(&self) -> Option<PerDirection<Vec<PrioritySplit>>> {
        let (level, class) = self.other;
        let split = |entry: &SizePriority| {
            let (class, level, hint) = entry.priority.unwrap_or((class, level, self.other_hint));
            PrioritySplit { bytes: entry.bytes, percent: entry.percent, priority_bits: with_hint(class, level, hint) }
        };
        let of = |entries: &[SizePriority]| entries.iter().map(split).collect();
        self.splits.as_ref().map(|splits| PerDirection {
            read: of(&splits.read),
            write: of(&splits.write),
            trim: Vec::new(),
        })
    }
}

fn with_hint(class: u8, level: u8, hint: u16) -> u16 {
    u16::from(class) << 13 | hint << 3 | u16::from(level)
}

/// The names and the number of files.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// `nrfiles`.
    pub count: Option<u32>,
    /// Number of names in `filename`.
    pub named: u32,
    /// `filename_format`.
    pub format: String,
}

/// `zonemode=strided`.
#[derive(Clone, Debug, Default)]
pub struct ZoneOptions {
    pub is_strided: bool,
    /// `zonesize`.
    pub size_bytes: u64,
    /// `zonerange`.
    pub range_bytes: u64,
    /// `zoneskip`.
    pub skip_bytes: u64,
}

/// A job under construction. `[global]` is one as well; job sections start as a copy of it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The fields that need no further check.
    pub job: Job,
    /// How numbers are parsed.
    pub numbers: Numbers,
    /// Where each option was last given.
    pub given_at: BTreeMap<&'static str, Place>,
    /// `ioengine`.
    pub engine: String,
    pub blocks: BlockOptions,
    /// Percentage of reads by `rwmixread` or `rwmixwrite`, whichever came last.
    pub read_percent: u8,
    /// `rw_sequencer=identical`.
    pub repeats_offset: bool,
    pub priority: PriorityOptions,
    pub files: FileOptions,
    pub zones: ZoneOptions,
    /// `verify`.
    pub verify_kind: Option<Kind>,
    /// The options that accompany `verify`.
    pub verify: Verify,
    /// `latency_target` and the options that accompany it.
    pub target: Target,
    /// `steadystate` and the options that accompany it.
    pub steady: Steady,
    /// `flow_id`, and `flow_sleep` in nanoseconds.
    pub flow: (u32, Nanos),
    /// `stonewall`.
    pub begins_phase: bool,
    /// `new_group`.
    pub begins_report_group: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            job: Job::default(),
            numbers: Numbers { base: Base::Binary, ib_suffix: None, remark: None },
            given_at: BTreeMap::new(),
            engine: "psync".to_owned(),
            blocks: BlockOptions::default(),
            read_percent: 50,
            repeats_offset: false,
            priority: PriorityOptions::default(),
            files: FileOptions::default(),
            zones: ZoneOptions::default(),
            verify_kind: None,
            verify: Verify::default(),
            target: Target::default(),
            steady: STEADY,
            flow: (0, 0),
            begins_phase: false,
            begins_report_group: false,
        }
    }
}

impl Draft {
    /// Copies goals and the verification, which consist of several options, from the job, so that
    /// single options can be changed.
    pub fn copy_goals_from_job(&mut self) {
        let goals = &self.job.goals;
        if let Some(search) = goals.search {
            let Search { target_ns, window_ns, share_millionths, continues } = search;
            self.target = Target { target_ns, window_ns, share_millionths, continues };
        }
        self.steady = goals.steady.unwrap_or(self.steady);
        self.flow = goals.flow.map_or(self.flow, |flow| (flow.id, flow.sleep_ns));
        if let Some(verify) = &self.job.checks.verify {
            (self.verify_kind, self.verify) = (Some(verify.kind), (**verify).clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_value_counts_only_without_a_priority() {
        let nice = PriorityOptions { nice: -20, hint: 1, ..PriorityOptions::default() };
        assert_eq!(nice.bits(), 2 << 13 | 1 << 3);
        assert_eq!(PriorityOptions { level: Some(6), ..nice.clone() }.bits(), 2 << 13 | 1 << 3 | 6);
        assert_eq!(PriorityOptions { class: 1, ..nice.clone() }.bits(), 1 << 13 | 1 << 3);
        assert_eq!(PriorityOptions { nice: 0, ..nice }.bits(), 1 << 3);
    }

    #[test]
    fn entries_without_a_priority_take_that_of_the_share() {
        let entry = |priority| SizePriority { bytes: 512, percent: 10, priority };
        let splits = PerDirection { read: vec![entry(None), entry(Some((3, 0, 0)))], ..PerDirection::default() };
        let options = PriorityOptions { other: (7, 1), splits: Some(splits), ..PriorityOptions::default() };
        let bits =
            options.by_size().map(|splits| splits.read.iter().map(|split| split.priority_bits).collect::<Vec<_>>());
        assert_eq!((bits, options.other_bits()), (Some(vec![1 << 13 | 7, 3 << 13]), 1 << 13 | 7));
    }

    #[test]
    fn a_split_overrides_a_range_and_a_range_a_size() {
        let sized = |size| Some(PerDirection { read: Some(size), ..PerDirection::default() });
        let mut options = BlockOptions { bytes: PerDirection::all(Some(512)), ..BlockOptions::default() };
        assert_eq!(options.sizes(), PerDirection::all(BlockSize::Fixed(512)));
        options.ranges = sized(BlockSize::Range { min: 4096, max: 4096 });
        assert_eq!(options.sizes().read, BlockSize::Fixed(4096), "of one size");
        options.splits = sized(BlockSize::Split(Vec::new()));
        assert_eq!(options.sizes().read, BlockSize::Split(Vec::new()));
        assert_eq!(options.sizes().write, BlockSize::Fixed(512));
    }
}
