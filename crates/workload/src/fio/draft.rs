//! A job while its options are read, before they are checked against each other.

use std::collections::BTreeMap;

use hoistway_block::Nanos;

use super::diagnostic::Place;
use super::goals::{STEADY, Target};
use super::units::Base;
use super::values::{Numbers, SizePriority};
use crate::goal::{Search, Steady};
use crate::job::{BlockSize, Job, PerDirection};
use crate::verify::{Kind, Verify};

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
    /// `bs`.
    pub block_bytes: PerDirection<Option<u64>>,
    /// `bsrange`; overrides `bs`.
    pub block_ranges: Option<PerDirection<Option<BlockSize>>>,
    /// `bssplit`; overrides `bs` and `bsrange`.
    pub block_splits: Option<PerDirection<Option<BlockSize>>>,
    /// Percentage of reads by `rwmixread` or `rwmixwrite`, whichever came last.
    pub read_percent: u8,
    /// `rw_sequencer=identical`.
    pub repeats_offset: bool,
    /// `prio`.
    pub priority_level: Option<u8>,
    /// `prioclass`, 1 to 3; 0 = none.
    pub priority_class: u8,
    /// `nice`.
    pub nice: i64,
    /// `cmdprio` and `cmdprio_class`.
    pub other_priority: (u8, u8),
    /// `nrfiles`.
    pub files: Option<u32>,
    /// Number of names in `filename`.
    pub named_files: u32,
    /// `filename_format`.
    pub file_format: String,
    /// `zonemode=strided`.
    pub is_strided: bool,
    /// `zonesize`.
    pub zone_bytes: u64,
    /// `zonerange`.
    pub zone_range_bytes: u64,
    /// `zoneskip`.
    pub zone_skip_bytes: u64,
    /// `cmdprio_bssplit`: entries without a priority of their own take that of `cmdprio`.
    pub priority_splits: Option<PerDirection<Vec<SizePriority>>>,
    /// `priohint`.
    pub priority_hint: u16,
    /// `cmdprio_hint`.
    pub other_hint: u16,
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
            block_bytes: PerDirection::default(),
            block_ranges: None,
            block_splits: None,
            read_percent: 50,
            repeats_offset: false,
            priority_level: None,
            priority_class: 0,
            nice: 0,
            other_priority: (0, 1),
            files: None,
            named_files: 0,
            file_format: String::new(),
            is_strided: false,
            zone_bytes: 0,
            zone_range_bytes: 0,
            zone_skip_bytes: 0,
            priority_splits: None,
            priority_hint: 0,
            other_hint: 0,
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
        if let Some(verify) = &self.job.verify {
            (self.verify_kind, self.verify) = (Some(verify.kind), (**verify).clone());
        }
    }
}
