//! Jobs of a job file that replay a trace (`read_iolog=`): the trace is read, and the job becomes
//! its replay.

use std::path::Path;
use std::sync::Arc;

use hoistway_block::{Nanos, Operation};
use hoistway_workload::job::{Amount, Input, Job};
use hoistway_workload::replay::{Fit, Pace, Recording, Replay};
use hoistway_workload::trace::Item;
use hoistway_workload::trace::recording::{Builder, Selection};

use crate::exit::{Error, Reporter};
use crate::trace::arguments::FormatArguments;
use crate::trace::open::{How, Opened};

/// Runtime of a replay without one of its own, which ends with its trace: longer than most traces.
const ENDLESS_NS: Nanos = 86_400_000_000_000;
/// The operations that `replay_skip` can exclude, in the order of its flags: reads, writes, trims,
/// syncs. fio's `replay_redirect`, which names one device for a trace of several, has no effect,
/// because the trace is replayed on the target anyway.
const KINDS: [fn(Operation) -> bool; 4] = [
    |operation| operation == Operation::Read,
    |operation| matches!(operation, Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend),
    |operation| matches!(operation, Operation::Discard | Operation::SecureErase),
    |operation| operation == Operation::Flush,
];

/// The job with the trace that it names, if it names one.
pub fn with_trace(job: Job, reporter: Reporter) -> Result<Job, Error> {
    let Some(input) = job.source.input.clone() else { return Ok(job) };
    if job.threads > 1 {
        let what = format!("job '{}' has {} clones and one trace", job.name, job.threads);
        return Err(Error::usage(what, "write a job with read_iolog for each").at("read_iolog"));
    }
    let (recording, duration_ns) = read(&input, reporter)?;
    let name = Opened::short_name(Path::new(&input.file));
    let mut replay = Replay::new(&name, recording);
    replay.pace = if input.as_fast_as_possible { Pace::Closed } else { Pace::AsRecorded };
    replay.speed_permille = 100_000 / input.time_percent.max(1);
    replay.speed_permille = replay.speed_permille.max(1);
    replay.fit = Fit::Wrap;
    let span_bytes = replay.span_bytes.max(1).next_multiple_of(1 << 20);
    let ends_ns = match replay.pace {
        Pace::AsRecorded => duration_ns.saturating_mul(1_000) / u64::from(replay.speed_permille) + 1_000_000_000,
        _ => ENDLESS_NS,
    };
    let of_trace = replay.job(&job.name, job.effective_depth());
    Ok(job.with(|job| {
        job.shape.mix = of_trace.shape.mix;
        job.shape.pattern = of_trace.shape.pattern;
        job.shape.random_map = of_trace.shape.random_map;
        job.shape.block_sizes = of_trace.shape.block_sizes;
        job.submission.engine = of_trace.submission.engine;
        job.submission.iodepth = of_trace.submission.iodepth;
        job.checks.continue_on_error = of_trace.checks.continue_on_error;
        job.source.replay = of_trace.source.replay;
        if job.area.file.is_empty() {
            job.area.file = of_trace.area.file;
        }
        job.area.placement = of_trace.area.placement;
        job.times.runtime_ns = Some(job.times.runtime_ns.unwrap_or(ends_ns));
        job.area.size = job.area.size.or(Some(Amount::Bytes(span_bytes)));
        job.source.input = None;
    }))
}

/// The recording, and its duration.
fn read(input: &Input, reporter: Reporter) -> Result<(Arc<Recording>, Nanos), Error> {
    let path = Path::new(&input.file);
    let mut trace = Opened::new(path, How::new(None, &FormatArguments::default()))?;
    let is_start_up = trace.format().name == "start-up";
    let mut builder = Builder::new(Selection {
        is_start_up,
        has_stages: trace.format().has_stages,
        plugs: false,
        ..Selection::default()
    });
    let unusable = |wrong: hoistway_workload::trace::recording::Unusable| {
        Error::usage(format!("{}: {wrong}", path.display()), "hoistway trace info shows what is in it")
    };
    while let Some(item) = trace.next()? {
        if let Some(item) = changed(item, input) {
            builder.add(item).map_err(unusable)?;
        }
    }
    trace.conclude(reporter)?;
    reporter.note(trace.summary());
    let recorded = builder.finish().map_err(unusable)?;
    match &recorded.groups[..] {
        [(_, recording)] => Ok((Arc::clone(recording), recorded.duration_ns)),
        _ => Err(Error::usage(format!("{}: there is nothing to replay", path.display()), "hoistway trace info FILE")),
    }
}

/// Applies replay_skip, replay_scale and replay_align to an event; none if it is skipped.
fn changed(item: Item, input: &Input) -> Option<Item> {
    let Item::Record(mut record) = item else { return Some(item) };
    let is_skipped = KINDS.iter().zip(input.skips).any(|(is_kind, is_skipped)| is_skipped && is_kind(record.operation));
    if is_skipped {
        return None;
    }
    record.offset_bytes /= u64::from(input.divide_offsets_by.max(1));
    if input.align_bytes > 0 {
        record.offset_bytes -= record.offset_bytes % u64::from(input.align_bytes);
    }
    Some(Item::Record(record))
}
