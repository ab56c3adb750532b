//! The functions that store the value of an option in a job, for the tables of options.

use hoistway_block::time::SECOND;

use super::draft::Draft;
use super::options::Outcome;
use super::units::{self, Base};
use super::values::{distribution, not_one_of};
use crate::goal::Flow;
use crate::job::{Ends, FileOrder, PerDirection, RateProcess, SyncKind};
use crate::program::Program;

const U32: u64 = u32::MAX as u64;
pub(super) const ZONES: &str = "zoned devices are not supported: no host tracks write pointers or resets zones";

/// Converts a number that is already limited to 32 bits, for example by an `Integer` row of the
/// table of options.
pub(super) fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(super) fn byte(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

pub(super) fn hint(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

pub(super) fn each<T>(
    triple: PerDirection<Option<u64>>,
    narrow: fn(u64) -> T,
    missing: PerDirection<T>,
) -> PerDirection<T> {
    PerDirection {
        read: triple.read.map_or(missing.read, narrow),
        write: triple.write.map_or(missing.write, narrow),
        trim: triple.trim.map_or(missing.trim, narrow),
    }
}

/// Longest name or path in bytes: Linux's limit for a path.
const MAX_TEXT_BYTES: usize = 4096;

pub(super) fn store(field: &mut String, text: &str) -> Outcome {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the text is {} bytes long; at most {MAX_TEXT_BYTES} are allowed", text.len()));
    }
    text.clone_into(field);
    Ok(())
}

pub(super) fn file_name(draft: &mut Draft, text: &str) -> Outcome {
    let names: Vec<&str> = split_names(text);
    if names.iter().any(|name| name.is_empty()) {
        return Err(format!("'{text}' has an empty name; '\\:' is a colon"));
    }
    draft.files.named = small(names.len() as u64);
    // A single file is stored by its name. Several are stored as the list was written, because jobs
    // with the same list share the files.
    let name = if let [one] = names[..] { one.replace("\\:", ":") } else { text.to_owned() };
    store(&mut draft.job.area.file, &name)
}

/// Splits at colons that are not escaped by a backslash.
pub(super) fn split_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            names.push(&text[start..at]);
            start = at + 1;
        }
    }
    names.push(&text[start..]);
    names
}

pub(super) fn file_order(draft: &mut Draft, text: &str) -> Outcome {
    let (word, count) = text.split_once(':').map_or((text, None), |(word, count)| (word.trim(), Some(count)));
    draft.job.area.file_order = match word {
        "roundrobin" => FileOrder::RoundRobin,
        "random" => FileOrder::Random,
        "sequential" => FileOrder::Sequential,
        _ => return Err(not_one_of(word, &["roundrobin", "random", "sequential"])),
    };
    draft.job.area.file_run = small(count.map_or(Ok(1), |count| draft.numbers.within(count, 1, U32))?);
    Ok(())
}

pub(super) fn spread(draft: &mut Draft, text: &str) -> Outcome {
    let (distribution, centre_millionths) = distribution(&mut draft.numbers, text)?;
    (draft.job.shape.distribution, draft.job.shape.centre_millionths) = (distribution, centre_millionths);
    Ok(())
}

pub(super) fn zone_mode(draft: &mut Draft, text: &str) -> Outcome {
    draft.zones.is_strided = match text {
        "none" => false,
        "strided" => true,
        "zbd" => return Err(ZONES.to_owned()),
        _ => return Err(not_one_of(text, &["none", "strided"])),
    };
    Ok(())
}

pub(super) fn exit_what(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.course.ends = match text {
        "group" => Ends::Group,
        "stonewall" => Ends::Phase,
        "all" => Ends::All,
        _ => return Err(not_one_of(text, &["group", "stonewall", "all"])),
    };
    Ok(())
}

pub(super) fn priority_splits(draft: &mut Draft, text: &str) -> Outcome {
    draft.priority.splits = Some(draft.numbers.priority_splits(text)?);
    Ok(())
}

pub(super) fn direction(draft: &mut Draft, text: &str) -> Outcome {
    (draft.job.shape.mix, draft.job.shape.pattern) = draft.numbers.direction(text)?;
    Ok(())
}

pub(super) fn program(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.source.program = Some(Program::parse(text)?);
    Ok(())
}

pub(super) fn sequencer(draft: &mut Draft, text: &str) -> Outcome {
    draft.repeats_offset = match text {
        "sequential" => false,
        "identical" => true,
        _ => return Err(not_one_of(text, &["sequential", "identical"])),
    };
    Ok(())
}

pub(super) fn block_ranges(draft: &mut Draft, text: &str) -> Outcome {
    draft.blocks.ranges = Some(draft.numbers.ranges(text)?);
    Ok(())
}

pub(super) fn block_splits(draft: &mut Draft, text: &str) -> Outcome {
    draft.blocks.splits = Some(draft.numbers.split(text)?);
    Ok(())
}

pub(super) fn sync_kind(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.submission.sync = match text {
        "none" | "0" => SyncKind::None,
        "sync" | "1" => SyncKind::Sync,
        "dsync" => SyncKind::DataSync,
        _ => return Err(not_one_of(text, &["none", "sync", "dsync", "0", "1"])),
    };
    Ok(())
}

pub(super) fn start_delay(draft: &mut Draft, text: &str) -> Outcome {
    let (earliest, latest) = units::time_range(text, SECOND)?;
    draft.job.times.start_delay_ns = (earliest.value_ns, latest.value_ns);
    draft.numbers.remark = earliest.remark.or(latest.remark);
    Ok(())
}

pub(super) fn file_sizes(draft: &mut Draft, text: &str) -> Outcome {
    let (least_bytes, most_bytes) = draft.numbers.file_sizes(text)?;
    draft.job.area.file_bytes = Some(most_bytes);
    draft.job.area.least_file_bytes = (least_bytes < most_bytes).then_some(least_bytes);
    Ok(())
}

/// fio has other names of libaio.
pub(super) fn engine(draft: &mut Draft, text: &str) -> Outcome {
    let name = if matches!(text, "aio" | "linuxaio") { "libaio" } else { text };
    store(&mut draft.engine, name)
}

pub(super) fn rate_process(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.pacing.rate_process = match text {
        "linear" => RateProcess::Linear,
        "poisson" => RateProcess::Poisson,
        _ => return Err(not_one_of(text, &["linear", "poisson"])),
    };
    Ok(())
}

pub(super) fn flow(draft: &mut Draft, weight: u64) {
    draft.job.goals.flow = (weight > 0).then(|| Flow { id: 0, weight: small(weight), sleep_ns: 0 });
}

pub(super) fn think_type(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.pacing.think.counts_issued = match text {
        "complete" => false,
        "issue" => true,
        _ => return Err(not_one_of(text, &["complete", "issue"])),
    };
    Ok(())
}

pub(super) fn other_priority(draft: &mut Draft, percent: PerDirection<Option<u64>>) {
    draft.job.priorities.priority_share.read_percent = percent.read.map_or(0, byte);
    draft.job.priorities.priority_share.write_percent = percent.write.map_or(0, byte);
}

pub(super) fn continue_on_error(draft: &mut Draft, text: &str) -> Outcome {
    draft.verify.continues = matches!(text, "verify" | "all" | "1");
    let (read, write) = match text {
        "none" | "0" | "verify" => (false, false),
        "read" => (true, false),
        "write" => (false, true),
        "io" | "all" | "1" => (true, true),
        _ => return Err(not_one_of(text, &["none", "read", "write", "io", "verify", "all", "0", "1"])),
    };
    draft.job.checks.continue_on_error = PerDirection { read, write, trim: write };
    Ok(())
}

pub(super) fn kb_base(draft: &mut Draft, text: &str) -> Outcome {
    draft.numbers.base = match text {
        "1024" => Base::Binary,
        "1000" => Base::Decimal,
        _ => return Err(not_one_of(text, &["1024", "1000"])),
    };
    Ok(())
}
