//! Jobs by the fio binary instead of our own workers: the cross-check of our generator, on the same stage.
//!
//! ```text
//! experiment -> a job file per group (a section per thread) -> fio in the group's cgroup -> its JSON -> measurement
//! ```
//! On a block device scheduler, groups and what is put back are those of [`NativeHost`]; on a file fio alone does its
//! I/O. Who reads fio's JSON is told by the caller, as the reader belongs to another floor. Source: harness 5.11.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use block::Nanos;
use experiment::job_results::{self, JobMeasurement};
use experiment::measurement::{DeviceCounters, Flag, GroupMeasurement, Tally};
use experiment::{
    Areas, Experiment, Group, Histogram, Host, IssuerPlace, Limits, LiveFigures, Measurement, Progress, Refusal,
    RunError, SchedulerInForce, TargetFacts,
};
use linux::device::{Kind, Opening};
use workload::job::{Amount, GroupWishes, Placement};
use workload::{Engine, Job};

use crate::ground::Ground;
use crate::host::NativeHost;
use crate::stage::Stage;
use crate::tunables::CURRENT;

/// What fio's output of one group says.
pub type ReadOutput = fn(&str) -> Result<Generated, String>;

/// What the fio of a group did.
#[derive(Clone, Debug, Default)]
pub struct Generated {
    /// Reads, writes and trims.
    pub tallies: [Tally; 3],
    /// Over how long the longest of its jobs did them.
    pub longest_ns: Nanos,
    /// Each entry of its output.
    pub jobs: Vec<JobMeasurement>,
}

/// How often the wish to stop is asked for.
const LOOK: Duration = Duration::from_millis(100);
/// After the time of its jobs fio may take so long to end.
const LAST_PATIENCE: Duration = Duration::from_secs(60);
/// Moves itself into the group of its first argument, then becomes the rest of them.
const ENTER: &str = "echo $$ > \"$1/cgroup.procs\" && shift && exec \"$@\"";

/// The host whose load comes from fio.
#[derive(Clone, Debug)]
pub struct FioHost {
    native: NativeHost,
    program: PathBuf,
    read: ReadOutput,
}

impl FioHost {
    /// On the stage of `native`, by this program.
    pub fn new(native: NativeHost, program: PathBuf, read: ReadOutput) -> Self {
        Self { native, program, read }
    }

    fn check_program(&self) -> Result<(), Refusal> {
        let started = Command::new(&self.program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match started {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let message = format!("{} --version ends with {status}", self.program.display());
                Err(Refusal::usage(message, "name the fio binary: --generator fio=PATH"))
            }
            Err(error) => {
                let message = format!("{} cannot be started: {error}", self.program.display());
                Err(Refusal::usage(message, "install fio, or name it: --generator fio=PATH"))
            }
        }
    }

    fn generate(
        &self,
        experiment: &Experiment,
        cgroups: &[Option<PathBuf>],
        progress: &mut dyn Progress,
    ) -> Result<Vec<Generated>, RunError> {
        let failed = |what: &str, source| RunError::Failed { message: what.to_owned(), source: Some(source) };
        let mut ground = Ground::of(&experiment.target)?;
        // fio works in a folder of its own.
        if let Ok(path) = std::path::absolute(&ground.path) {
            ground.path = path.display().to_string();
        }
        let desk = Desk::make().map_err(|error| failed("the folder of fio's job files", error))?;
        let mut fios: Vec<Option<Fio>> = Vec::new();
        for (index, group) in experiment.groups.iter().enumerate() {
            if group.jobs.is_empty() {
                fios.push(None);
                continue;
            }
            let text = match foreign(group) {
                Some(text) => workload::fio::on_target(text, &ground.path).map_err(not_for_us)?,
                None => job_file(experiment, index, &ground)?,
            };
            let fio = Fio::start(&self.program, &desk, (index, &text), cgroups.get(index).and_then(Option::as_deref));
            fios.push(Some(fio.map_err(|error| failed("fio", error))?));
        }
        progress.started(experiment);
        wait(&mut fios, experiment, progress)?;
        let read = |(fio, group): (&mut Option<Fio>, &Group)| match fio {
            None => Ok(Generated::default()),
            Some(fio) => fio.result(self.read).map_err(|message| RunError::Failed {
                message: format!("fio of group {}: {message}", group.path),
                source: None,
            }),
        };
        fios.iter_mut().zip(&experiment.groups).map(read).collect()
    }
}

impl Host for FioHost {
    fn name(&self) -> &'static str {
        "native"
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        self.check_program()?;
        check_jobs(experiment)?;
        if is_block_device(&experiment.target) {
            return self.native.check(experiment);
        }
        experiment.check()?;
        let first = experiment.groups[0].weight;
        let differ = |group: &Group| group.weight != first || group.limits != Limits::NONE;
        if experiment.groups.iter().any(differ) {
            let message = format!("fio on {} knows no groups: the kernel schedules devices", experiment.target);
            return Err(Refusal::usage(message, "leave weights and limits out, or name a block device"));
        }
        if experiment.scheduler.name != CURRENT {
            let message =
                format!("fio on {} cannot choose the scheduler '{}'", experiment.target, experiment.scheduler);
            return Err(Refusal::usage(message, format!("use --sched {CURRENT}, or name a block device")));
        }
        Ok(())
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        self.native.check_writes(experiment, is_block_device(&experiment.target))?;
        if !is_block_device(&experiment.target) {
            let generated = self.generate(experiment, &[], progress)?;
            let scheduler = SchedulerInForce { name: CURRENT.to_owned(), ..SchedulerInForce::default() };
            return Ok(answer(experiment, scheduler, None, generated));
        }
        let stage = Stage::set(experiment, &self.native.watcher())?;
        let generated = self.generate(experiment, &stage.cgroups, progress);
        let (scheduler, weights) = (stage.scheduler.clone(), stage.effective_weights.clone());
        let notes = [stage.notes.clone(), vec![format!("the load is fio's; {}", stage.mechanism)]].concat();
        // What is left behind matters more than why.
        let foreign = stage.strike()?;
        let mut measurement = answer(experiment, scheduler, weights, generated?);
        for (number, text) in notes.into_iter().chain(foreign).enumerate() {
            measurement.target.notes.insert(format!("note {}", number + 1), text);
        }
        Ok(measurement)
    }
}

fn is_block_device(target: &str) -> bool {
    let opening = Opening { writable: false, direct: false, exclusive: false, claimed_bytes: (0, 0) };
    let opened = linux::device::open(Path::new(target), None, opening);
    opened.is_ok_and(|opened| opened.facts.kind == Kind::BlockDevice)
}

/// The job file that only fio can run, where the group is one.
fn foreign(group: &Group) -> Option<&str> {
    group.jobs.iter().find_map(|job| job.foreign.as_deref())
}

fn not_for_us(what: String) -> Refusal {
    Refusal::usage(format!("fio is not started with this file: {what}"), "remove it from the file")
}

/// What fio would do otherwise than we, in one job file per group.
fn check_jobs(experiment: &Experiment) -> Result<(), Refusal> {
    for IssuerPlace { job, group, .. } in experiment.issuers() {
        let what = match job {
            Job { foreign: Some(text), .. } => {
                workload::fio::on_target(text, "x").map_err(not_for_us)?;
                continue;
            }
            Job { program: Some(program), .. } => format!("is the program {}", program.name()),
            Job { engine: Engine::Null, .. } => "does no I/O".to_owned(),
            Job { files: 2.., .. } => "has several files".to_owned(),
            _ if job.phase > 0 || !job.wait_for.is_empty() => "waits for other jobs".to_owned(),
            _ if experiment.groups[group].stop_ns.is_some() => "ends before the run".to_owned(),
            _ => continue,
        };
        let message = format!("job '{}' {what}: fio is not asked for that", job.name);
        return Err(Refusal::usage(message, "leave --generator out: our own generator does it"));
    }
    Ok(())
}

/// The job file of a group: a section per thread, each on the bytes that our own generator would use.
fn job_file(experiment: &Experiment, index: usize, ground: &Ground) -> Result<String, Refusal> {
    let areas = Areas::lay_out(experiment, ground.size_bytes)?;
    let mut jobs = Vec::new();
    for (number, place) in experiment.issuers().enumerate().filter(|(_, place)| place.group == index) {
        let area = areas.of(place.job, place.thread);
        let (start, _) = workload::part_of_thread(place.job, place.thread, area.bytes);
        let size_bytes = workload::size_of_thread(place.job, place.thread, area.bytes);
        let seed = place.job.seed.unwrap_or_else(|| experiment.run_seed()) >> 8;
        let delay = experiment.groups[index].start_ns;
        // What never ends by itself is ended with the run; everything else ends as its job says, with the run at the latest.
        let is_endless = place.job.runtime_ns.is_some_and(|own_ns| own_ns >= Experiment::UNTIL_DONE_NS);
        let run_ns = Some(experiment.runtime_ns).filter(|run_ns| *run_ns != Experiment::UNTIL_DONE_NS);
        jobs.push(Job {
            name: format!("{}.{}", place.job.name, place.thread),
            group: String::new(),
            wishes: GroupWishes::default(),
            threads: 1,
            file: ground.path.clone(),
            directory: String::new(),
            placement: Placement::Shared,
            offset: Amount::Bytes(ground.first_byte + area.first_byte + start),
            offset_increment: Amount::Bytes(0),
            size: Some(Amount::Bytes(size_bytes)),
            file_bytes: None,
            runtime_ns: place.job.runtime_ns.into_iter().chain(run_ns).min(),
            ramp_ns: if is_endless { experiment.ramp_ns } else { place.job.ramp_ns },
            start_delay_ns: (place.job.start_delay_ns.0 + delay, place.job.start_delay_ns.1 + delay),
            priority_bits: experiment.priority_of(&place).0,
            seed: Some(seed.wrapping_add(number as u64)),
            report_group: 0,
            // Results of jobs are added up from those of threads.
            group_reporting: !place.job.has_own_results,
            ..place.job.clone()
        });
    }
    let mut text = String::from("[global]\nlat_percentiles=1\nallow_file_create=0\n\n");
    for job in &jobs {
        text.push_str(&workload::fio::show(std::slice::from_ref(job)));
        if job.engine == Engine::Async && job.direct {
            // io_uring charges other cgroups than that of its process (see `linux::aio`), and many systems forbid it.
            text.push_str("ioengine=libaio\n");
        }
        text.push('\n');
    }
    Ok(text)
}

fn answer(
    experiment: &Experiment,
    scheduler: SchedulerInForce,
    weights: Option<Vec<u32>>,
    generated: Vec<Generated>,
) -> Measurement {
    let longest_ns = generated.iter().map(|generated| generated.longest_ns).max().filter(|longest_ns| *longest_ns > 0);
    let window_ns = longest_ns.unwrap_or(experiment.runtime_ns);
    let entries: Vec<Vec<JobMeasurement>> = generated.iter().map(|it| it.jobs.clone()).collect();
    let mut jobs = job_results::of_entries(experiment, entries).into_iter();
    let mut group = |(index, (group, [read, write, trim])): (usize, (&Group, [Tally; 3]))| GroupMeasurement {
        path: group.path.clone(),
        weight: group.weight.get(),
        effective_weight: weights.as_ref().and_then(|all| all.get(index).copied()).unwrap_or(group.weight.get()),
        read,
        write,
        trim,
        sync: Tally::default(),
        late: 0,
        slip: Histogram::default(),
        throttled_ns: Vec::new(),
        threads: Vec::new(),
        jobs: jobs.next().unwrap_or_default(),
    };
    let groups: Vec<GroupMeasurement> =
        experiment.groups.iter().zip(generated.into_iter().map(|it| it.tallies)).enumerate().map(&mut group).collect();
    let flags = Flag::of_run(experiment, window_ns.max(experiment.runtime_ns), &groups, &scheduler);
    let notes = BTreeMap::from([("generator".to_owned(), "fio".to_owned())]);
    Measurement {
        experiment: experiment.clone(),
        host: "native".to_owned(),
        scheduler,
        target: TargetFacts { path: experiment.target.clone(), notes, ..TargetFacts::default() },
        window_ns,
        groups,
        device: DeviceCounters::default(),
        dispatch_reasons: BTreeMap::new(),
        dispatches: None,
        blkio: BTreeMap::new(),
        alone: Vec::new(),
        flags,
    }
}

/// Waits for all of them, or ends them.
fn wait(fios: &mut [Option<Fio>], experiment: &Experiment, progress: &mut dyn Progress) -> Result<(), RunError> {
    let begun = Instant::now();
    let total_ns = experiment.length_ns();
    // How long a file as it stands takes is its own affair.
    let is_foreign = experiment.groups.iter().any(|group| foreign(group).is_some());
    let patience = if is_foreign { Duration::MAX } else { Duration::from_nanos(total_ns) + LAST_PATIENCE };
    while fios.iter_mut().flatten().any(|fio| fio.is_running()) {
        if progress.cancelled() {
            // Dropping ends them.
            return Err(RunError::Cancelled);
        }
        if begun.elapsed() > patience {
            return Err(RunError::Failed { message: "fio does not end".to_owned(), source: None });
        }
        std::thread::sleep(LOOK);
        let wall_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        progress.advanced(&LiveFigures { elapsed_ns: wall_ns.min(total_ns), total_ns, wall_ns, groups: &[] });
    }
    Ok(())
}

/// One fio, of one group.
struct Fio {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    status: Option<std::process::ExitStatus>,
}

impl Fio {
    fn start(program: &Path, desk: &Desk, (index, text): (usize, &str), cgroup: Option<&Path>) -> io::Result<Self> {
        let path = |ending: &str| desk.0.join(format!("group{index}.{ending}"));
        fs::write(path("fio"), text)?;
        let mut command = match cgroup {
            None => Command::new(program),
            Some(cgroup) => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", ENTER, "sh"]).arg(cgroup).arg(program);
                command
            }
        };
        command.arg("--output-format=json+").arg(format!("--output={}", path("json").display())).arg(path("fio"));
        command.current_dir(&desk.0).stdin(Stdio::null());
        let errors = File::create(path("err"))?;
        command.stdout(errors.try_clone()?).stderr(errors);
        Ok(Self { child: command.spawn()?, output: path("json"), errors: path("err"), status: None })
    }

    fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            // One that cannot be asked is taken for ended; its output then says more.
            self.status = self.child.try_wait().unwrap_or(None);
        }
        self.status.is_none()
    }

    fn result(&mut self, read: ReadOutput) -> Result<Generated, String> {
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned();
        let text = fs::read_to_string(&self.output).map_err(|error| format!("{error}; {said}"))?;
        let generated = read(&text).map_err(|what| format!("{what}; {said}"))?;
        match self.status {
            Some(status) if !status.success() => Err(format!("it ended with {status}; {said}")),
            _ => Ok(generated),
        }
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        // Asked politely it ends its own processes first.
        if let Some(process) = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0)) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let asked = Instant::now();
        while self.is_running() && asked.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for job files and outputs; gone when dropped.
struct Desk(PathBuf);

impl Desk {
    fn make() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hoistway-fio.{}.{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_becomes_a_job_file_with_a_section_per_thread() {
        let job = Job { threads: 2, direct: true, engine: Engine::Async, iodepth: 4, ..Job::default() };
        // As the workload codes are: for ever.
        let job = Job { time_based: true, runtime_ns: Some(Experiment::UNTIL_DONE_NS), ..job };
        let job = Job { name: "drr".into(), placement: Placement::Split, ..job };
        let bounded =
            Job { name: "whole".into(), number_ios: Some(7), io_size: Some(Amount::Bytes(1 << 20)), ..Job::default() };
        let group = |name, jobs| Group::new(name, experiment::Weight::DEFAULT, jobs);
        let groups = [group("a", vec![job.clone()]), group("b", vec![job]), group("c", vec![bounded])];
        let experiment = Experiment {
            target: "/dev/x".into(),
            workload: "drr".into(),
            scheduler: experiment::SchedulerSpec::named(CURRENT),
            limiters: Vec::new(),
            groups: groups.into(),
            threads: 2,
            set: 1,
            seed: 1,
            runtime_ns: 3_000_000_000,
            ramp_ns: 500_000_000,
            device_depth: None,
            queue_requests: None,
            share_unit: experiment::ShareUnit::Bytes,
            machine: experiment::Machine::default(),
        };
        let ground = Ground { path: "/dev/x".into(), first_byte: 0, size_bytes: 96 << 20, is_ours: false };
        let text = job_file(&experiment, 1, &ground).unwrap();
        let jobs = workload::fio::parse("t", text.as_bytes(), &workload::fio::Surroundings::none()).unwrap().jobs;
        // Of 96 MiB the second group has the middle third, of which each thread has a half.
        let place = |job: &Job| (job.offset.of(0) >> 20, job.size.map_or(0, |size| size.of(0)) >> 20);
        assert_eq!(jobs.iter().map(place).collect::<Vec<_>>(), [(32, 16), (48, 16)]);
        assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["drr.0", "drr.1"]);
        for job in &jobs {
            assert_eq!((job.runtime_ns, job.ramp_ns), (Some(3_000_000_000), 500_000_000));
            assert_eq!((job.file.as_str(), job.iodepth, job.engine), ("/dev/x", 4, Engine::Async));
            assert!(job.time_based && job.group_reporting && job.direct);
        }
        assert_ne!(jobs[0].seed, jobs[1].seed);
        // What ends by itself keeps its bounds, is not repeated and has no ramp.
        let text = job_file(&experiment, 2, &ground).unwrap();
        let jobs = workload::fio::parse("t", text.as_bytes(), &workload::fio::Surroundings::none()).unwrap().jobs;
        assert_eq!((jobs[0].number_ios, jobs[0].io_size), (Some(7), Some(Amount::Bytes(1 << 20))));
        assert_eq!((jobs[0].time_based, jobs[0].ramp_ns, jobs[0].runtime_ns), (false, 0, Some(3_000_000_000)));
        // Behind the area fio would find room for a block that the area has not: a file of 10,000 bytes has two of 4 KiB.
        let rest = Job { size: Some(Amount::Bytes(10_000)), ..Job::default() };
        let experiment = Experiment { groups: vec![group("a", vec![rest])].into(), ..experiment };
        let text = job_file(&experiment, 0, &ground).unwrap();
        assert!(text.contains("\nsize=8192\n"), "{text}");
    }
}
