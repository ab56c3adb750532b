//! Turns sections into jobs: globals, clones, phases, engines, and checks that need several options
//! of a job.

use std::collections::BTreeMap;

use super::checks;
use super::diagnostic::{Findings, Place, Severity};
use super::draft::Draft;
use super::engines;
use super::goals;
use super::lex::{Content, Line};
use super::options;
use super::program;
use super::setters::split_names;
use super::values::not_one_of;
use super::{MAX_ERRORS, MAX_IN_FLIGHT, MAX_THREADS, Surroundings};
use crate::job::{Amount, BlockSize, Direction, Distribution, Engine, Job, Mix, Pattern, Placement, Zones};

/// The jobs of a file. The list is incomplete if errors were found.
pub fn expand(name: &str, lines: &[Line], surroundings: &Surroundings<'_>, findings: &mut Findings) -> Vec<Job> {
    let mut globals = Draft::default();
    let mut file = File { jobs: Vec::new(), weights: BTreeMap::new(), threads: 0, in_flight: 0 };
    let first = lines.iter().position(is_section).unwrap_or(lines.len());
    outside(&lines[..first], findings);
    let mut rest = &lines[first..];
    while let Some((head, behind)) = rest.split_first() {
        let end = behind.iter().position(is_section).unwrap_or(behind.len());
        let (body, next) = behind.split_at(end);
        rest = next;
        let Content::Section(section) = &head.content else { continue };
        if section == "global" {
            engines::section(&mut globals, body, findings);
            continue;
        }
        let mut draft = globals.clone();
        draft.job.name.clone_from(section);
        engines::section(&mut draft, body, findings);
        if findings.is_over_limit() {
            break;
        }
        if file.threads >= MAX_THREADS {
            findings.error(&head.place, format!("more than {MAX_THREADS} threads in all jobs together"), "");
            break;
        }
        file.add(draft, &head.place, surroundings, findings);
    }
    if file.jobs.is_empty() && findings.has_no_error() {
        let place = Place { file: name.into(), line: 1, column: 1, text: "".into() };
        findings.error(&place, "the file has no job", "a job begins with a line '[name]'");
    }
    file.jobs
}

/// `job` with the settings from the suffix of a workload code.
pub fn overridden(job: Job, overrides: &str, origin: &str, findings: &mut Findings) -> Job {
    let mut draft = Draft { job, ..Draft::default() };
    draft.copy_goals_from_job();
    let before = draft.job.clone();
    for direction in Direction::ALL {
        if let BlockSize::Fixed(bytes) = before.shape.block_sizes.of(direction) {
            *draft.blocks.bytes.of_mut(direction) = Some(u64::from(*bytes));
        }
    }
    let text: std::sync::Arc<str> = overrides.into();
    let mut column = 1_u32;
    for part in split_settings(overrides) {
        let place = Place { file: origin.into(), line: 1, column, text: text.clone() };
        column = column.saturating_add(u32::try_from(part.len() + 1).unwrap_or(u32::MAX));
        let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value.trim())));
        program::override_one(&mut draft, key.trim(), value, &place, findings);
    }
    let place = Place { file: origin.into(), line: 1, column: 1, text };
    let gave = |names: &[&str]| names.iter().any(|name| draft.given_at.contains_key(name));
    let keeps_sizes = !gave(&["bs", "bsrange", "bssplit"]);
    let keeps_engine = !gave(&["ioengine"]);
    let keeps_mix = !gave(&["rwmixread", "rwmixwrite", "rw"]);
    let keeps_priority = !gave(&["prio", "prioclass", "nice"]);
    let mut job = resolved(draft, &place, &Surroundings { buffered_async: true, ..Surroundings::none() }, findings);
    if keeps_engine {
        job.submission.engine_name.clone_from(&before.submission.engine_name);
    }
    if keeps_priority {
        job.priorities.priority_bits = before.priorities.priority_bits;
    }
    if job.source.program.is_some() {
        // A program describes the remaining fields itself.
        job.area.placement = if job.area.file.is_empty() { before.area.placement } else { job.area.placement };
        return job;
    }
    if keeps_sizes {
        job.shape.block_sizes = before.shape.block_sizes;
    }
    if keeps_mix {
        job.shape.mix = before.shape.mix;
    }
    if keeps_engine {
        // Only an asynchronous engine supports a depth above 1.
        job.submission.engine = if job.submission.iodepth > 1 { Engine::Async } else { before.submission.engine };
    }
    if job.area.file.is_empty() {
        job.area.placement = before.area.placement;
    }
    job
}

/// Splits at commas that are followed by `key=` or an option.
fn split_settings(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(',') {
        let next = text[at + 1..].split(',').next().unwrap_or("");
        if next.contains('=') || options::find(next.trim()).is_some() {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn is_section(line: &Line) -> bool {
    matches!(line.content, Content::Section(_))
}

fn outside(lines: &[Line], findings: &mut Findings) {
    for line in lines.iter().take(MAX_ERRORS + 1) {
        let shown = line.place.text.trim();
        findings.error(&line.place, format!("option <{shown}> outside of [] job section"), "write '[name]' above it");
    }
}

pub(super) fn settings(draft: &mut Draft, lines: &[Line], findings: &mut Findings) {
    // fio applies the unit base to all numbers of a section, wherever it is given there.
    let is_base = |line: &&Line| matches!(&line.content, Content::Setting { key, .. } if key == "kb_base");
    for line in lines.iter().filter(is_base).chain(lines.iter().filter(|line| !is_base(line))) {
        if findings.is_over_limit() {
            return;
        }
        match &line.content {
            Content::Setting { key, value } => options::apply(draft, key, value.as_deref(), &line.place, findings),
            Content::Pragma { key, value } => pragma(draft, key, value, &line.place, findings),
            Content::Section(_) => {}
        }
    }
}

const PRAGMAS: &[&str] = &["weight", "priority", "rbps", "wbps", "riops", "wiops", "high", "sched"];

fn pragma(draft: &mut Draft, key: &str, value: &str, place: &Place, findings: &mut Findings) {
    let mut number = |min, max| draft.numbers.within(value, min, max);
    let group_settings = &mut draft.job.group_settings;
    let outcome = match key {
        "weight" => number(1, 10_000).map(|weight| group_settings.weight = u32::try_from(weight).ok()),
        "priority" => number(0, 7).map(|level| group_settings.priority = u32::try_from(level).ok()),
        "rbps" => number(1, u64::MAX).map(|rate| group_settings.read_bytes_per_s = Some(rate)),
        "wbps" => number(1, u64::MAX).map(|rate| group_settings.write_bytes_per_s = Some(rate)),
        "riops" => number(1, u64::MAX).map(|rate| group_settings.read_ios_per_s = Some(rate)),
        "wiops" => number(1, u64::MAX).map(|rate| group_settings.write_ios_per_s = Some(rate)),
        "high" => number(1, u64::MAX).map(|rate| group_settings.high_bytes_per_s = Some(rate)),
        "sched" if !value.is_empty() => {
            group_settings.scheduler = Some(value.to_owned());
            Ok(())
        }
        "sched" => Err("it needs a scheduler".to_owned()),
        _ => Err(not_one_of(key, PRAGMAS)),
    };
    draft.numbers.ib_suffix = None;
    if let Err(message) = outcome {
        findings.error(place, format!("pragma '{key}': {message}"), "");
    }
}

/// State of a file beyond its single jobs.
struct File {
    jobs: Vec<Job>,
    /// Weight of each group, and where it was given.
    weights: BTreeMap<String, (u32, Place)>,
    threads: u32,
    in_flight: u64,
}

impl File {
    fn add(&mut self, draft: Draft, head: &Place, surroundings: &Surroundings<'_>, findings: &mut Findings) {
        let at = |option: &str| draft.given_at.get(option).unwrap_or(head).clone();
        let (weight_at, wait_at, clones_at) = (at("cgroup_weight"), at("wait_for"), at("numjobs"));
        let files_at = at("filename");
        let (begins_phase, begins_group) = (draft.begins_phase, draft.begins_report_group);
        let mut job = resolved(draft, head, surroundings, findings);
        if let Some(before) = self.jobs.last() {
            job.course.phase = before.course.phase + u32::from(begins_phase);
            job.reporting.report_group = before.reporting.report_group + u32::from(begins_phase || begins_group);
        }
        if !job.course.wait_for.is_empty() && !self.jobs.iter().any(|other| other.name == job.course.wait_for) {
            // Suggesting the nearest of 10,000 names would take too long in a file full of errors.
            let names = self.jobs.iter().take(200).map(|other| other.name.as_str());
            let hint = crate::suggest::nearest(&job.course.wait_for, names);
            let help = hint.map_or("the job must stand above".to_owned(), |name| format!("did you mean '{name}'?"));
            findings.error(&wait_at, format!("wait_for: no job '{}' before this one", job.course.wait_for), help);
        }
        self.check_weight(&job, &weight_at, findings);
        self.check_files(&job, &files_at, findings);
        job.first_thread = self.threads;
        job.reporting.has_own_results = true;
        self.threads = self.threads.saturating_add(job.threads);
        self.in_flight += u64::from(job.threads) * u64::from(job.effective_depth());
        if self.threads > MAX_THREADS {
            findings.error(
                &clones_at,
                format!("{} threads so far; at most {MAX_THREADS} are allowed", self.threads),
                "",
            );
        } else if self.in_flight > MAX_IN_FLIGHT {
            let message = format!("{} I/Os in flight so far; at most {MAX_IN_FLIGHT} are allowed", self.in_flight);
            findings.error(&clones_at, message, "lower numjobs or iodepth");
        }
        self.jobs.push(job);
    }

    /// Refuses jobs that share some of their files but not all. A list of files is one area here
    /// and a single file is another, so a job that names one file of another job's list would not
    /// use the same bytes.
    fn check_files(&self, job: &Job, place: &Place, findings: &mut Findings) {
        let names = |job: &'_ Job| -> Vec<String> {
            if job.area.files > 1 {
                split_names(&job.area.file).into_iter().map(str::to_owned).collect()
            } else {
                vec![job.area.file.clone()]
            }
        };
        let own = names(job);
        let others = self.jobs.iter().filter(|other| !other.area.file.is_empty() && other.area.file != job.area.file);
        let mut others = others.filter(|other| job.area.files > 1 || other.area.files > 1).take(200);
        if let Some(other) = others.find(|other| names(other).iter().any(|name| own.contains(name))) {
            let message = format!("jobs '{}' and '{}' share some of their files, but not all", other.name, job.name);
            findings.error(place, message, "give both the same list in filename, or files of their own");
        }
    }

    fn check_weight(&mut self, job: &Job, place: &Place, findings: &mut Findings) {
        let Some(weight) = job.group_settings.weight else { return };
        let (first, said_at) = self.weights.entry(job.group.clone()).or_insert_with(|| (weight, place.clone()));
        if *first != weight {
            let message = format!("group '{}' has the weight {weight} here", job.group);
            let help = format!("it has {first} at {}:{}; one group has one weight", said_at.file, said_at.line);
            findings.error(place, message, help);
        }
    }
}

/// The job of a draft, with its options checked against each other.
fn resolved(draft: Draft, head: &Place, surroundings: &Surroundings<'_>, findings: &mut Findings) -> Job {
    let at = |option: &str| draft.given_at.get(option).unwrap_or(head);
    if !engines::is_known(&draft.engine) {
        engines::refuse(&draft.engine, at("ioengine"), findings);
        return draft.job;
    }
    if let Some(of) = draft.job.source.program {
        return program::resolved(of, &draft, surroundings, at, findings);
    }
    let mut job = draft.job.clone();
    job.shape.block_sizes = draft.blocks.sizes();
    if let Mix::ReadWrite { read_percent } = &mut job.shape.mix {
        *read_percent = draft.read_percent;
    }
    if let Pattern::Random { repeat_offset, .. } = &mut job.shape.pattern {
        *repeat_offset = draft.repeats_offset;
    }
    if job.area.size == Some(Amount::Bytes(0)) {
        job.area.size = None;
    }
    files(&mut job, &draft, at("nrfiles"), findings);
    zones(&mut job, &draft, at, findings);
    priorities(&mut job, &draft);
    goals::resolve(&mut job, &draft, at, findings);
    checks::resolve(&mut job, &draft, at, findings);
    engines::choose(&mut job, &draft.engine, surroundings, at, findings);
    if job.times.time_based && job.times.runtime_ns.is_none() {
        findings.error(at("time_based"), "time_based needs a runtime", "add runtime=30, say");
    }
    if matches!(job.shape.pattern, Pattern::Random { .. })
        && job.shape.random_map
        && !job.uses_random_map()
        && !job.trims_to_map()
    {
        let message = "blocks may repeat within a pass: the random map needs sizes that are multiples of one, full randomness and no runs";
        findings.remark(Severity::Note, at("rw"), message);
    }
    if !job.submission.invalidate {
        let message =
            "option 'invalidate' has no effect here: simulated caches begin cold, the engine goes past the page cache";
        findings.remark(Severity::Note, at("invalidate"), message);
    }
    job
}

/// Determines the number of files and their names.
fn files(job: &mut Job, draft: &Draft, place: &Place, findings: &mut Findings) {
    let named = draft.files.named.max(1);
    job.area.files = draft.files.count.unwrap_or(named);
    if !job.area.file.is_empty() && job.area.files != named {
        // If there are more names, fio uses the first `nrfiles` of them; if there are fewer, fio
        // refuses as well.
        let message = format!("nrfiles={} and {named} names in filename contradict each other", job.area.files);
        findings.error(place, message, "leave nrfiles out");
    }
    let format = draft.files.format.replace("$clientuid", "");
    if job.area.file.is_empty() && !format.is_empty() && !format.contains("$jobnum") {
        // All threads generate the same names, so they share the files.
        let name = |number: u32| {
            format.replace("$jobname", &job.name).replace("$filenum", &number.to_string()).trim().to_owned()
        };
        job.area.files = if format.contains("$filenum") { job.area.files } else { 1 };
        job.area.file = match job.area.files {
            1 => name(0),
            count => (0..count).map(|number| name(number).replace(':', "\\:")).collect::<Vec<_>>().join(":"),
        };
    }
    job.area.placement = if job.area.file.is_empty() { Placement::Own } else { Placement::Shared };
}

/// The zones of `zonemode=strided`, checked as in fio.
fn zones<'a>(job: &mut Job, draft: &Draft, at: impl Fn(&str) -> &'a Place, findings: &mut Findings) {
    let size_bytes = draft.zones.size_bytes;
    if !draft.zones.is_strided {
        // Before `zonemode` existed, a size and a skip defined zones; fio still accepts that.
        let is_old = size_bytes > 0 && draft.zones.skip_bytes > 0 && !draft.given_at.contains_key("zonemode");
        if !is_old {
            return;
        }
    } else if size_bytes == 0 {
        return findings.error(at("zonemode"), "zonemode=strided needs a zonesize", "add zonesize=256m, say");
    }
    if job.shape.distribution != Distribution::Uniform && matches!(job.shape.pattern, Pattern::Random { .. }) {
        let message = "strided zones and an uneven random_distribution together are not supported";
        return findings.error(at("random_distribution"), message, "remove one of them");
    }
    let range_bytes = if draft.zones.range_bytes > 0 { draft.zones.range_bytes } else { size_bytes };
    let directions = job.shape.mix.directions().iter();
    let largest = directions.map(|direction| u64::from(job.shape.block_sizes.of(*direction).largest_bytes())).max();
    if range_bytes < largest.unwrap_or(1) {
        let message = format!("a zone of {range_bytes} bytes does not hold a block of {}", largest.unwrap_or(1));
        return findings.error(at("zonesize"), message, "make the zones larger, or the blocks smaller");
    }
    job.area.zones = Some(Zones { size_bytes, range_bytes, skip_bytes: draft.zones.skip_bytes });
}

/// Sets the priorities of all I/Os, of a share of them, and by size.
pub(super) fn priorities(job: &mut Job, draft: &Draft) {
    job.priorities.priority_bits = draft.priority.bits();
    let share = &mut job.priorities.priority_share;
    let is_asked = share.read_percent > 0 || share.write_percent > 0;
    share.priority_bits = if is_asked { draft.priority.other_bits() } else { 0 };
    if let Some(splits) = draft.priority.by_size() {
        job.priorities.priority_splits = splits;
    }
}
