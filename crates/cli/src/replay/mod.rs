//! `hoistway replay TRACE`: a test whose workload is a trace.
//!
//! ```text
//! arguments -> TestArguments (as `test --trace`) -> workload (the trace becomes jobs) -> test -> slip (the report on lateness)
//! ```

pub mod arguments;
pub mod groups;
pub mod job_file;
pub mod lateness;
pub mod workload;

use crate::exit::{Outcome, Reporter};
use crate::replay::arguments::ReplayArguments;
use crate::run_test::arguments::TestArguments;
use crate::run_test::arguments::{GroupArguments, JudgeArguments, WorkloadArguments};

/// Runs the subcommand.
pub fn run(arguments: &ReplayArguments, reporter: Reporter) -> Outcome {
    crate::run_test::run(&as_test(arguments), reporter)
}

/// The equivalent test.
fn as_test(arguments: &ReplayArguments) -> TestArguments {
    let ReplayArguments { trace, target, replay, place, iodepth, size_bytes, runtime, .. } = arguments.clone();
    TestArguments {
        stored: None,
        target,
        scenario: None,
        place,
        workload: WorkloadArguments {
            workload: Vec::new(),
            job: Vec::new(),
            show_jobs: None,
            trace: Some(trace),
            generator: None,
            buffered_async: false,
            max_threads: None,
            threads: None,
            block_bytes: None,
            iodepth,
            size_bytes,
            rwmixread: None,
            fsync: None,
            rate_iops: None,
            runtime,
            ramp: None,
            seed: None,
        },
        replay,
        groups: GroupArguments {
            groups: false,
            nrgrp: None,
            weights: arguments.weights.iter().cloned().collect(),
            group: Vec::new(),
            strict: arguments.strict,
            no_solo: true,
            calibrate: false,
            share_unit: arguments.share_unit,
        },
        schedulers: arguments.schedulers.clone(),
        repetition: arguments.repetition.clone(),
        judge: JudgeArguments::default(),
        output: arguments.output.clone(),
    }
}
