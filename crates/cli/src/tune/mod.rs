//! `hoistway tune`: which scheduler and settings a disk should have, and why. Source:
//! docs/specifications/harness.md, section 8.
//!
//! ```text
//! arguments -> target (opened, facts) -> hoistway_tune::Tuner <-> hosts -> recommendation -> show, save, apply
//! ```
//! The advice itself is in the crate `tune`, which does no I/O; all I/O is here.

mod applied;
pub mod arguments;
mod boot;
mod facts;
mod from_fio;
mod identity;
mod load;
mod measure;
mod page;
mod saved;
mod show;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hoistway_block::DeviceNumber;
use hoistway_experiment::{Exit, SchedulerSpec};
use hoistway_tune::{
    Device, Findings, HostKind, Pace, Recommendation, Request, Tuner, Verdict, classic_batch, gather, idling, recommend,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::PlaceArguments;
use crate::run_test::show::check_place;
use crate::stamp::stamp;
use crate::target::{HostName, Target};
use crate::tune::arguments::Emit;
use crate::tune::arguments::TuneArguments;
use facts::Disk;
use hoistway::plan::machine;
use identity::Identity;
use load::Load;
use measure::Bench;
use saved::Saved;

const SECOND_NS: u64 = 1_000_000_000;

/// The findings and the recommendation.
struct Found {
    saved: Saved,
    recommendation: Recommendation,
}

/// Runs the subcommand.
pub fn run(arguments: &TuneArguments, reporter: Reporter) -> Outcome {
    let acting = &arguments.acting;
    if acting.undo {
        let name = arguments.target.as_deref().map(device_name);
        return applied::undo(name.as_deref(), &acting.root, reporter);
    }
    for path in [&arguments.showing.html, &arguments.showing.save].into_iter().flatten() {
        check_place(path)?;
    }
    crate::restore::warn(reporter);
    if let Some(path) = &arguments.probing.from {
        return conclude(&again(path, arguments)?, arguments, reporter);
    }
    if !arguments.probing.from_fio.is_empty() {
        return conclude(&by_fio(arguments, reporter)?, arguments, reporter);
    }
    match &arguments.target {
        Some(target) => measured(target, arguments, reporter),
        None => listed(),
    }
}

/// The kernel name of a device: `sdb` for `/dev/sdb` as well as for its link `/dev/disk/by-id/...`.
fn device_name(text: &str) -> String {
    let path = Path::new(text);
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real.file_name().map_or_else(|| text.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Lists all disks, without any I/O.
fn listed() -> Outcome {
    let mut text = String::new();
    for disk in facts::disks() {
        let device = disk.device(&format!("/dev/{}", disk.queue.name()), false);
        let class = hoistway_tune::classify(&device, &Findings::default());
        text += &format!("{}\n  probably {}: {}\n", show::line(&device), class.class, class.why);
    }
    print(if text.is_empty() { "no disks\n" } else { &text })?;
    Ok(Exit::Done)
}

/// Decides again from stored measurements.
fn again(path: &Path, arguments: &TuneArguments) -> Result<Found, Error> {
    if arguments.showing.html.is_some() {
        return Err(Error::usage("the page needs measurements of this run", "measure again with --html").at("--html"));
    }
    let mut saved = Saved::read(path)?;
    if let Some(target) = &arguments.target {
        saved.device.name.clone_from(target);
    }
    let recommendation = recommend(&saved.device, &saved.findings, arguments.probing.goal, &saved.only);
    Ok(Found { saved, recommendation })
}

/// Decides from fio's results; only the device's properties are read.
fn by_fio(arguments: &TuneArguments, reporter: Reporter) -> Result<Found, Error> {
    let sources = &arguments.probing.from_fio;
    let findings = from_fio::read(sources, reporter)?;
    let Some(text) = arguments.target.clone().or_else(|| from_fio::device_of(sources)) else {
        let what = "the results do not name exactly one block device".to_owned();
        return Err(Error::usage(what, "name the device: hoistway tune /dev/sdb --from-fio FILE").at("--from-fio"));
    };
    let device = match text.strip_prefix("/dev/") {
        Some(_) => Disk::of(Path::new(&text))?.device(&text, false),
        None => {
            let plan = plan(&text, arguments, reporter)?;
            let interrupt = Interrupt::install()?;
            let target = plan.target.open(arguments.probing.size_bytes, &plan.place, &interrupt, reporter)?;
            let bench =
                Bench { host: plan.host, target: &target, text: &text, may_write: false, interrupt: &interrupt };
            facts::of_host(bench.host().as_mut(), plan.host, &text, None)?
        }
    };
    // The measured schedulers are the candidates. If there are only figures of the device alone,
    // the candidates are those of its class.
    let only: Vec<SchedulerSpec> = findings.candidates.iter().filter_map(|it| it.spec.parse().ok()).collect();
    let recommendation = recommend(&device, &findings, arguments.probing.goal, &only);
    let saved = Saved {
        version: Saved::VERSION,
        hoistway: env!("CARGO_PKG_VERSION").to_owned(),
        device,
        findings,
        only,
        load: None,
    };
    if let Some(path) = &arguments.showing.save {
        saved.write(path)?;
    }
    Ok(Found { saved, recommendation })
}

/// The request, checked before anything is changed.
struct Plan {
    host: HostName,
    target: Target,
    place: PlaceArguments,
    request: Request,
    /// Whether the device may be written to.
    may_write: bool,
}

fn plan(text: &str, arguments: &TuneArguments, reporter: Reporter) -> Result<Plan, Error> {
    let probing = &arguments.probing;
    let is_node = text.starts_with("/dev/") && !Path::new(text).is_dir();
    if is_node && !Path::new(text).exists() {
        return Err(Error::usage(format!("{text}: no such device"), "hoistway tune lists the disks of this machine"));
    }
    let place = PlaceArguments {
        host: probing.host.clone().or_else(|| is_node.then(|| "native".to_owned())),
        device_depth: None,
        machine: None,
        queue_requests: None,
        file: None,
        keep: false,
        exclusive: probing.exclusive,
        destructive: probing.destructive.clone(),
        overwrite_signature: probing.overwrite_signature,
    };
    if probing.probe_writes && is_node && place.destructive.is_none() {
        let help = format!("if its content may be lost, add --destructive {text}");
        return Err(Error::usage(format!("writing to {text} is not allowed"), help).at("--probe-writes"));
    }
    let (host, target) = Target::resolve(Some(text), &place)?;
    if host == HostName::Engine && !target.is_made() {
        let what = format!("{text} is neither a model, a directory nor a block device");
        return Err(Error::usage(what, "name its directory or its device"));
    }
    target.check_destructive(host, &place, true)?;
    let may_write = host != HostName::Native || place.destructive.is_some();
    let load = match &probing.load {
        Some(path) => load::read(path, probing, may_write, target.is_made(), reporter)?,
        None => Load::default(),
    };
    let writes = load.groups.iter().flat_map(|group| &group.jobs).any(|job| job.shape.mix.has_writes());
    if writes {
        target.check_writes(host, &place)?;
    }
    let mut request = request(arguments, host, load)?;
    if probing.current_only {
        request.only = vec![SchedulerSpec::named(CURRENT)];
    }
    Ok(Plan { host, target, place, request, may_write })
}

/// The kernel's present settings.
const CURRENT: &str = "current";

fn request(arguments: &TuneArguments, host: HostName, load: Load) -> Result<Request, Error> {
    let probing = &arguments.probing;
    let specs = probing.candidates.iter().map(|text| text.parse::<SchedulerSpec>());
    let only = specs.collect::<Result<Vec<_>, _>>().map_err(|error| Error::from(error).at("--candidates"))?;
    let is_simulated = host == HostName::Simulator;
    let (step, repeats, budget) = match (probing.quick, probing.thorough) {
        (true, _) => (1, 2, Some(110)),
        (_, true) => (10, 5, None),
        // A little less than the promised five minutes, because opening, file and process starts
        // also take time.
        _ => (3, 3, Some(270)),
    };
    let budget_ns = probing.budget.or(budget.map(|seconds| seconds * SECOND_NS));
    let cost_step = if probing.thorough { 120 } else { 15 };
    let pace = Pace {
        step_ns: step * SECOND_NS,
        ramp_ns: 3 * SECOND_NS / 10,
        repeats,
        cost_step_ns: cost_step * SECOND_NS,
        // Simulated time does not cost the user's time.
        budget_ns: budget_ns.filter(|_| !is_simulated || probing.budget.is_some()),
    };
    let by_facts = probing.no_probe;
    let Load { groups: load, length_ns: load_ns } = load;
    Ok(Request { goal: probing.goal, pace, only, load, load_ns, with_cost: probing.iocost, by_facts })
}

/// Measures and concludes.
fn measured(text: &str, arguments: &TuneArguments, reporter: Reporter) -> Outcome {
    let began = Instant::now();
    let plan = plan(text, arguments, reporter)?;
    let interrupt = Interrupt::install()?;
    let started_unix_ms = machine::now_unix_ms();
    let file_bytes = plan.target.is_made().then_some(arguments.probing.size_bytes);
    let target = match plan.request.by_facts {
        // Reading the properties needs no file and no claim.
        true if plan.host == HostName::Native => None,
        _ => Some(plan.target.open(arguments.probing.size_bytes, &plan.place, &interrupt, reporter)?),
    };
    let Some(target) = target else {
        let device = native_device(text, &plan)?;
        let tuner = Tuner::new(device, plan.request.clone());
        return concluded(tuner, None, text, (began, started_unix_ms), arguments, reporter);
    };
    let bench = Bench { host: plan.host, target: &target, text, may_write: plan.may_write, interrupt: &interrupt };
    let device = match plan.host {
        HostName::Native => native_device(text, &plan)?,
        _ => facts::of_host(bench.host().as_mut(), plan.host, text, file_bytes)?,
    };
    let device = if arguments.probing.current_only { as_it_is(device) } else { device };
    check_offered(&device, &plan.request.only)?;
    say_what_happens(&device, &plan, reporter);
    if arguments.probing.classic {
        return classic(&device, &plan.request, &bench, arguments, reporter);
    }
    let tuner = Tuner::new(device, plan.request.clone());
    concluded(tuner, Some(&bench), text, (began, started_unix_ms), arguments, reporter)
}

fn native_device(text: &str, plan: &Plan) -> Result<Device, Error> {
    Ok(Disk::of(Path::new(text))?.device(text, plan.may_write))
}

/// The device with only its present settings.
fn as_it_is(device: Device) -> Device {
    let name = if device.host == HostKind::Native { SchedulerSpec::named(CURRENT) } else { device.current.clone() };
    Device { schedulers: vec![name.name.clone()], current: name, has_groups: false, ..device }
}

/// Refuses a candidate that is not available.
fn check_offered(device: &Device, only: &[SchedulerSpec]) -> Result<(), Error> {
    let Some(missing) = only.iter().find(|spec| !device.offers(&spec.name)) else { return Ok(()) };
    let names = || device.schedulers.iter().map(String::as_str);
    let meant = hoistway_experiment::diagnostic::did_you_mean(&missing.name, names());
    let what = format!("there is no scheduler '{}' for {}", missing.name, device.name);
    Err(Error::usage(what, format!("{meant}(available: {})", device.schedulers.join(", "))).at("--candidates"))
}

fn say_what_happens(device: &Device, plan: &Plan, reporter: Reporter) {
    reporter.line(&show::line(device));
    let changes = match plan.host {
        HostName::Native => "changes during the measurement: scheduler, iosched/*; restored after every run",
        _ => "no settings of this machine are changed",
    };
    reporter.line(&format!("access: {}   {changes}", plan.target.access(plan.place.destructive.is_some())));
}

/// Measures until there is a recommendation, then shows it.
fn concluded(
    mut tuner: Tuner,
    bench: Option<&Bench<'_>>,
    text: &str,
    (began, started_unix_ms): (Instant, u64),
    arguments: &TuneArguments,
    reporter: Reporter,
) -> Outcome {
    let mut display = Display::new(arguments.showing.progress, reporter.quiet, false, None);
    let recommendation = match bench {
        Some(bench) => match bench.ask(&mut tuner, began, &mut display, reporter)? {
            Some(recommendation) => recommendation,
            None => return Ok(bench.interrupt.exit().unwrap_or(Exit::Interrupted)),
        },
        None => recommend(tuner.device(), &Findings::default(), arguments.probing.goal, &[]),
    };
    if !tuner.left_out().is_empty() {
        reporter.note(format!("left out because of the time limit: {}; --budget TIME", tuner.left_out().join(", ")));
    }
    let saved = Saved {
        version: Saved::VERSION,
        hoistway: env!("CARGO_PKG_VERSION").to_owned(),
        device: tuner.device().clone(),
        findings: tuner.findings(),
        only: tuner.request().only.clone(),
        load: arguments.probing.load.as_ref().map(|path| path.display().to_string()),
    };
    if let Some(path) = &arguments.showing.save {
        saved.write(path)?;
        reporter.note(format!("the measurements are in {0}: hoistway tune {text} --from {0}", path.display()));
    }
    if let Some(path) = &arguments.showing.html {
        let host = bench.map_or("native", |bench| bench.host.text());
        page::write_to(path, host, started_unix_ms, tuner.measurements())?;
    }
    conclude(&Found { saved, recommendation }, arguments, reporter)
}

/// iostune's table.
fn classic(
    device: &Device,
    request: &Request,
    bench: &Bench<'_>,
    arguments: &TuneArguments,
    reporter: Reporter,
) -> Outcome {
    let usual: &[&str] = match device.host {
        HostKind::Native => &[],
        _ => &["noop", "cfq", "mq-deadline", "bfq"],
    };
    let named = |names: Vec<String>| names.into_iter().map(SchedulerSpec::named).collect::<Vec<_>>();
    let specs = match (request.only.is_empty(), usual.is_empty()) {
        (false, _) => request.only.clone(),
        (true, true) => named(device.schedulers.clone()),
        (true, false) => named(usual.iter().map(|name| (*name).to_owned()).collect()),
    };
    let batch = classic_batch(device, &specs, request.pace);
    let mut display = Display::new(arguments.showing.progress, reporter.quiet, false, None);
    let left = request.pace.budget_ns.map(Duration::from_nanos);
    let measurements = bench.measure(&batch, left, &mut display, reporter);
    display.end();
    let measurements = measurements?;
    let missing = batch.experiments.len() - measurements.len();
    if missing > 0 {
        reporter.note(format!(
            "left out because of the time limit: {missing} of {} runs; --budget TIME",
            batch.experiments.len()
        ));
    }
    let findings = gather(&measurements, &device.current, &specs);
    if let Some(exit) = bench.interrupt.exit() {
        return Ok(exit);
    }
    let mut text = String::new();
    for candidate in &findings.candidates {
        text += &hoistway_tune::classic_table(&candidate.spec, &candidate.streams);
    }
    // The rule uses the device's figures without a scheduler.
    let bare = findings.candidates.iter().find(|it| it.spec == "noop" || it.spec == "none");
    if let Some((_, why)) = bare.and_then(|bare| idling(&bare.streams, device.is_rotational)) {
        text += &format!("{why}\n");
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Shows, applies, and returns the exit code.
fn conclude(found: &Found, arguments: &TuneArguments, reporter: Reporter) -> Outcome {
    let Found { saved, recommendation } = found;
    let emit = arguments.showing.emit.or(arguments.showing.json.then_some(Emit::Json));
    match emit {
        Some(emit) => print(&emitted(emit, found, reporter)?)?,
        None => {
            let text = show::text(&saved.device, &saved.findings, recommendation);
            let terminal = terminal_size::terminal_size_of(std::io::stdout());
            print(&terminal.map_or_else(|| text.clone(), |(width, _)| show::wrapped(&text, width.0.into())))?;
        }
    }
    let exit = match recommendation.kernel.verdict {
        Verdict::Inconclusive => Exit::Inconclusive,
        _ => Exit::Done,
    };
    if arguments.acting.apply || arguments.acting.persist {
        return Ok(exit.worse(act(found, arguments, reporter)?));
    }
    if emit.is_none() && saved.device.host == HostKind::Native && recommendation.kernel.verdict == Verdict::Change {
        let from = arguments.showing.save.as_ref().or(arguments.probing.from.as_ref());
        let from = from.map_or_else(String::new, |path| format!(" --from {}", path.display()));
        print(&format!(
            "nothing was changed. Apply now: hoistway tune {}{from} --apply     at every boot: --persist\n",
            saved.device.name
        ))?;
    }
    Ok(exit)
}

/// The recommendation for a device, and the measurements that it is based on.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    /// Version of hoistway.
    hoistway: &'a str,
    /// Version of this layout.
    schema: u32,
    /// The device.
    device: &'a Device,
    /// The measurements.
    findings: &'a Findings,
    /// What to set, and why.
    recommendation: &'a Recommendation,
}

fn emitted(emit: Emit, found: &Found, reporter: Reporter) -> Result<String, Error> {
    let Found { saved, recommendation } = found;
    let disk = || Disk::of(Path::new(&saved.device.name)).ok();
    let identity = || disk().as_ref().and_then(Identity::of).ok_or_else(|| identity::missing(&saved.device.name));
    let name = disk().map_or_else(|| device_name(&saved.device.name), |disk| disk.queue.name());
    let list = boot::assignments(&recommendation.kernel);
    let date = date();
    let number = disk().and_then(|disk| number_of(&disk)).unwrap_or(DeviceNumber { major: 0, minor: 0 });
    let cost = || boot::io_cost(number, &saved.findings, recommendation);
    Ok(match emit {
        Emit::Udev => boot::udev(&identity()?, &list, &date),
        Emit::Systemd => {
            let lines =
                cost().map(|lines| lines.into_iter().next_back().map_or_else(Vec::new, |(_, pair)| pair.to_vec()));
            boot::systemd(&identity()?, &list, &lines.unwrap_or_default(), &date)?
        }
        Emit::Tuned => {
            let active = std::fs::read_to_string("/etc/tuned/active_profile").unwrap_or_default();
            let active = active.trim();
            boot::tuned(&identity()?, &list, if active.is_empty() { "balanced" } else { active }, &name)
        }
        Emit::Sysfs => boot::sysfs(&list, &name, number),
        Emit::Iocost => {
            if number.major == 0 && number.minor == 0 {
                reporter.note("0:0 stands for the device's number, which a model does not have");
            }
            let text = |(name, [model, qos]): (&str, [String; 2])| format!("# {name}\n{model}\n{qos}\n");
            cost()?.into_iter().map(text).collect()
        }
        Emit::IocostHwdb => {
            let firmware = disk().and_then(|disk| disk.read("device/rev").or_else(|| disk.read("device/firmware_rev")));
            boot::io_cost_hwdb(&saved.device, &firmware.unwrap_or_else(|| "*".to_owned()), &cost()?)
        }
        Emit::SeastarYaml => boot::seastar(&saved.device.name, &saved.findings)?,
        Emit::Json => {
            let document = Document {
                hoistway: env!("CARGO_PKG_VERSION"),
                schema: 1,
                device: &saved.device,
                findings: &saved.findings,
                recommendation,
            };
            // Plain data with string keys: serialising it as JSON cannot fail.
            serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
        }
    })
}

fn number_of(disk: &Disk) -> Option<DeviceNumber> {
    let text = disk.queue.number();
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Today as `2026-11-22`.
fn date() -> String {
    let made_at = stamp(machine::now_unix_ms());
    format!("{}-{}-{}", &made_at[..4], &made_at[4..6], &made_at[6..8])
}

/// `--apply` and `--persist`.
fn act(found: &Found, arguments: &TuneArguments, reporter: Reporter) -> Outcome {
    let Found { saved, recommendation } = found;
    let root = &arguments.acting.root;
    if saved.device.host != HostKind::Native {
        let what = format!("{} has no kernel settings to change", saved.device.name);
        return Err(Error::usage(what, "name a block device").at("--apply"));
    }
    let disk = Disk::of(Path::new(&saved.device.name))?;
    check_same(&disk, saved)?;
    if recommendation.kernel.verdict != Verdict::Change && !arguments.acting.persist {
        reporter.note("there is nothing to change");
        return Ok(Exit::Done);
    }
    check_rivals(root, arguments.acting.force, reporter)?;
    let identity = Identity::of(&disk);
    let name = disk.queue.name();
    let id = identity.as_ref().map_or_else(|| name.clone(), Identity::slug);
    let rule = match (arguments.acting.persist, &identity) {
        (false, _) => None,
        (true, None) => return Err(identity::missing(&saved.device.name)),
        (true, Some(identity)) => Some(boot::udev(identity, &boot::assignments(&recommendation.kernel), &date())),
    };
    applied::apply(&disk, &id, &boot::assignments(&recommendation.kernel), root, reporter)?;
    reporter.note(format!("{name} is set; hoistway tune --undo {} reverts it", saved.device.name));
    if let Some(rule) = rule {
        let place: PathBuf =
            applied::install(&id, &name, &format!("/etc/udev/rules.d/99-hoistway-{id}.rules"), &rule, root)?;
        applied::reload_udev(&name, root, reporter);
        reporter.note(format!("{} sets it at every boot", place.display()));
    }
    Ok(Exit::Done)
}

/// Refuses stored measurements of another disk.
fn check_same(disk: &Disk, saved: &Saved) -> Result<(), Error> {
    let now = disk.device(&saved.device.name, false);
    if now.model == saved.device.model && now.size_bytes == saved.device.size_bytes {
        return Ok(());
    }
    let what = format!(
        "{} is {} of {} bytes, and was measured as {} of {} bytes",
        saved.device.name, now.model, now.size_bytes, saved.device.model, saved.device.size_bytes
    );
    Err(Error::refused(what, "it is another disk now: measure again"))
}

fn check_rivals(root: &Path, force: bool, reporter: Reporter) -> Result<(), Error> {
    for (path, is_last) in applied::competing_configuration(root) {
        if is_last && !force {
            let what = format!("{} also sets schedulers of disks", path.display());
            return Err(Error::refused(what, "set it there (--emit tuned prints a profile), or continue with --force"));
        }
        reporter.note(format!(
            "{} also sets schedulers{}",
            path.display(),
            if is_last { "" } else { ", before our rule" }
        ));
    }
    Ok(())
}
