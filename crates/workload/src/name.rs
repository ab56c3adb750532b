//! Workloads by name, optionally followed by `:key=value`: fio's names for direct I/O, the twelve codes of
//! which these are six, named jobs, and programs.
//!
//! ```text
//! randread:bs=4k,iodepth=32    direct random reads of 4 KiB, 32 in flight per thread
//! b buffered | d direct    s sequential | r random    r read | w write | m mixed: `drr` is `randread`
//! bonnie:size=256m         three jobs that follow each other over one file
//! startup:app=lowriter     a program with a setting of its own
//! ```
//! Source: docs/specifications/harness.md, section 5.2.

use crate::fio::{self, Diagnostic, Place, Severity};
use crate::job::{Amount, BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};
use crate::program;

/// What fio calls a direction (`rw=randread`), and the code that it stands for here.
pub const FIO: [(&str, &str); 6] =
    [("read", "dsr"), ("write", "dsw"), ("rw", "dsm"), ("randread", "drr"), ("randwrite", "drw"), ("randrw", "drm")];

/// The codes in the order of listings.
pub const CODES: [&str; 12] = ["bsr", "bsw", "bsm", "brr", "brw", "brm", "dsr", "dsw", "dsm", "drr", "drw", "drm"];

/// The codes that the name `all` stands for.
pub const ALL: [&str; 8] = ["bsr", "brr", "bsw", "brw", "dsr", "drr", "dsw", "drw"];

/// Jobs with a name of their own, with a description in one line.
pub const JOBS: [(&str, &str); 2] = [
    ("dd", "buffered sequential reads of 1m to the end of the area; rw=write for the other direction"),
    ("bonnie", "bonnie++'s block phases over one file of 1g: write and sync, rewrite, read, one after the other"),
];

/// All names that [`parse`] accepts, in the order of listings.
pub fn names() -> impl Iterator<Item = &'static str> {
    let programs = program::ALL.iter().map(program::Program::name);
    let fio = FIO.into_iter().map(|(name, _)| name);
    fio.chain(CODES).chain(JOBS.into_iter().map(|(name, _)| name)).chain(programs)
}

/// A workload's name with the code in place of fio's name: equal for two names of the same workload.
///
/// ```
/// assert_eq!(hoistway_workload::name::code("randread:bs=4k"), hoistway_workload::name::code("drr:bs=4k"));
/// ```
pub fn code(name: &str) -> String {
    let (plain, suffix) = name.find(':').map_or((name, ""), |at| name.split_at(at));
    let code = FIO.into_iter().find(|&(fio, _)| fio == plain).map_or(plain, |(_, code)| code);
    format!("{code}{suffix}")
}

/// A parsed workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The given text, in lower case up to the colon.
    pub name: String,
    /// Its jobs; only `bonnie` has more than one.
    pub jobs: Vec<Job>,
    /// Notes about its settings.
    pub notes: Vec<Diagnostic>,
    /// Whether it ends by itself if its settings do not limit it.
    pub ends: bool,
}

/// Why a name is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// The name is unknown.
    #[error("unknown workload '{given}'; known are {}, all, or a .fio file{}", all_names(), did_you_mean(given))]
    Unknown {
        /// The given text.
        given: String,
    },
    /// The name is known, but the settings after it are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Overrides(Vec<Diagnostic>),
}

fn all_names() -> String {
    names().collect::<Vec<_>>().join(" ")
}

fn did_you_mean(given: &str) -> String {
    let name = given.split(':').next().unwrap_or("");
    let hint = crate::suggest::nearest(name, names());
    hint.map_or(String::new(), |name| format!("; did you mean '{name}'?"))
}

/// The jobs of `name[:key=value[,key=value]...]`, and notes about its settings. Names are
/// case-insensitive.
///
/// ```
/// use hoistway_workload::{job::Mix, name};
///
/// let named = name::parse("bsw:size=1g,fsync=8").unwrap();
/// let job = &named.jobs[0];
/// assert_eq!((job.shape.mix, job.submission.direct, job.submission.fsync_every), (Mix::Write, false, 8));
/// let wrong = name::parse("bsw:fsnyc=8").unwrap_err();
/// assert!(wrong.to_string().contains("fsync"), "{wrong}");
/// ```
///
/// # Errors
/// [`BadName`], with all names and the nearest one, or with what is wrong with a setting.
pub fn parse(text: &str) -> Result<Named, BadName> {
    let (plain, overrides) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let plain = plain.to_lowercase();
    let jobs = jobs_of(&plain).ok_or_else(|| BadName::Unknown { given: text.to_owned() })?;
    let name = overrides.map_or_else(|| plain.clone(), |overrides| format!("{plain}:{overrides}"));
    let ends = !CODES.contains(&code(&plain).as_str()) && jobs.iter().all(ends_by_itself);
    let mut named = Named { name, jobs: Vec::new(), notes: Vec::new(), ends };
    let (is_sequence, mut before) = (jobs.len() > 1, None::<String>);
    for mut job in jobs {
        // Name of the step within a sequence of jobs.
        let step = job.name.clone();
        if let Some(overrides) = overrides {
            let does = (job.shape.mix, job.shape.pattern);
            let (changed, notes) =
                fio::override_job(job, overrides, &format!("workload {plain}")).map_err(BadName::Overrides)?;
            if is_sequence && (changed.shape.mix, changed.shape.pattern) != does {
                return Err(fixed_direction(&plain, overrides));
            }
            named.notes.extend(notes.into_iter().filter(|note| !named.notes.contains(note)).collect::<Vec<_>>());
            job = changed;
        }
        job.name = if is_sequence { format!("{}.{step}", named.name) } else { named.name.clone() };
        if let Some(before) = before.replace(job.name.clone()) {
            // A later phase would make the job wait for the jobs of all other groups as well, some
            // of which never end; `wait_for` names only the previous step.
            job.course.wait_for = before;
        }
        named.jobs.push(job);
    }
    Ok(named)
}

fn fixed_direction(name: &str, overrides: &str) -> BadName {
    let place = Place { file: format!("workload {name}").into(), line: 1, column: 1, text: overrides.into() };
    let message =
        format!("{name} is a sequence of writing, rewriting and reading: rw and similar options cannot change it");
    let help = "name a single workload: dd:rw=write, bsr, bsw".to_owned();
    BadName::Overrides(vec![Diagnostic { severity: Severity::Error, place, message, help }])
}

fn ends_by_itself(job: &Job) -> bool {
    !matches!(job.source.program, Some(program::Program::Dbench(_) | program::Program::Video(_)))
}

fn jobs_of(name: &str) -> Option<Vec<Job>> {
    let stream = |bytes, mix| {
        Job::default().with(|job| {
            job.name = name.to_owned();
            job.shape.mix = mix;
            job.area.placement = Placement::Split;
            job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(bytes));
        })
    };
    match name {
        "dd" => Some(vec![stream(1 << 20, Mix::Read)]),
        "bonnie" => {
            // The block size of file systems in 2003. The page cache collects writes of this size,
            // and they are merged when they are written back.
            let phase = |step: &str, mix, end_fsync| {
                let size = Some(Amount::Bytes(1 << 30));
                stream(4 << 10, mix).with(|job| {
                    job.name = step.to_owned();
                    job.area.size = size;
                    job.submission.end_fsync = end_fsync;
                })
            };
            // The writing and the rewriting step end with an fsync, as bonnie++ syncs after
            // writing, so the time of both includes the writes to the device.
            Some(vec![
                phase("write", Mix::Write, true),
                phase("rewrite", Mix::Rewrite, true),
                phase("read", Mix::Read, false),
            ])
        }
        _ => {
            let program = program::ALL.into_iter().find(|program| program.name() == name);
            program
                .map(Job::of)
                .or_else(|| Some(of_code(&code(name))?.with(|job| job.name = name.to_owned())))
                .map(|job| vec![job])
        }
    }
}

fn of_code(code: &str) -> Option<Job> {
    let mut letters = code.chars();
    let (cache, pattern, direction) = (letters.next()?, letters.next()?, letters.next()?);
    if letters.next().is_some() {
        return None;
    }
    let is_direct = match cache {
        'b' => false,
        'd' => true,
        _ => return None,
    };
    let (pattern, placement) = match pattern {
        's' => (Pattern::Sequential { skip_bytes: 0 }, Placement::Split),
        'r' => (Pattern::Random { run: 1, repeat_offset: false }, Placement::Shared),
        _ => return None,
    };
    let mix = match direction {
        'r' => Mix::Read,
        'w' => Mix::Write,
        'm' => Mix::ReadWrite { read_percent: 50 },
        _ => return None,
    };
    Some(Job::default().with(|job| {
        job.name = code.to_owned();
        job.shape.mix = mix;
        job.shape.pattern = pattern;
        job.area.placement = placement; // Draws are uniform: threads share the file, so no thread could keep a map of visited
        // blocks.
        job.shape.random_map = false;
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(if is_direct { 32 << 10 } else { 4 << 10 }));
        job.submission.engine = Engine::Sync;
        job.submission.direct = is_direct;
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(mut named: Named) -> Job {
        assert_eq!(named.jobs.len(), 1, "{}", named.name);
        named.jobs.remove(0)
    }

    #[test]
    fn every_code_means_a_job_and_any_case_will_do() {
        for code in CODES {
            let named = parse(code).expect(code);
            let job = only(named.clone());
            assert_eq!((job.submission.direct, job.name.as_str(), named.notes.len()), (code.starts_with('d'), code, 0));
            assert_eq!(parse(&code.to_uppercase()).expect(code), named);
        }
    }

    #[test]
    fn a_name_of_fio_is_the_same_job_as_its_code() {
        for (name, code) in FIO {
            for suffix in ["", ":bs=4k,iodepth=8"] {
                let (named, coded) = (format!("{name}{suffix}"), format!("{code}{suffix}"));
                let mut same = parse(&named.to_uppercase().replace("BS=4K,IODEPTH", "bs=4k,iodepth")).expect(name);
                assert_eq!((&same.name, &same.jobs[0].name), (&named, &named));
                same.jobs[0].name.clone_from(&coded);
                assert_eq!(same.jobs, parse(&coded).expect(code).jobs, "{named}");
            }
            let options = fio::override_job(Job::default(), &format!("rw={name}"), "a job").expect(name).0;
            let job = only(parse(name).expect(name));
            assert_eq!(
                (job.shape.mix, job.shape.pattern),
                (options.shape.mix, options.shape.pattern),
                "as in fio: {name}"
            );
        }
        assert_eq!((code("startup:app=xterm"), code("read.fio")), ("startup:app=xterm".into(), "read.fio".into()));
    }

    #[test]
    fn an_unknown_code_gets_the_list_and_the_nearest() {
        let message = parse("bxr").expect_err("no such code").to_string();
        assert!(names().all(|code| message.contains(code)) && message.contains("'bsr'"), "{message}");
    }

    #[test]
    fn settings_change_only_what_they_name() {
        let plain = only(parse("drr").expect("a code"));
        let job = only(parse("drr:bs=4k,iodepth=32").expect("right settings"));
        let name = "drr:bs=4k,iodepth=32".to_owned();
        let block_sizes = PerDirection::all(BlockSize::Fixed(4096));
        assert_eq!(
            job,
            plain.with(|job| {
                job.name = name;
                job.shape.block_sizes = block_sizes;
                job.submission.iodepth = 32;
                job.submission.engine = Engine::Async;
            })
        );
    }

    #[test]
    fn a_triple_in_a_setting_keeps_its_commas() {
        let job = only(parse("drm:bs=4k,16k,rwmixread=70").expect("right settings"));
        assert_eq!(
            (job.shape.block_sizes.read, job.shape.block_sizes.write),
            (BlockSize::Fixed(4096), BlockSize::Fixed(16_384))
        );
        assert_eq!(job.shape.mix, Mix::ReadWrite { read_percent: 70 });
    }

    #[test]
    fn a_wrong_setting_is_placed_and_explained() {
        let message = parse("bsw:fsnyc=1").expect_err("no such option").to_string();
        assert!(message.contains("workload bsw:1:1") && message.contains("did you mean 'fsync'?"), "{message}");
    }
}
