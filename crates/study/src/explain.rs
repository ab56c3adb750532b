//! `--format explain`: for each group what was due, what was attainable, what it got, and why these
//! differ.
//!
//! The attainable rates are computed (`hoistway_experiment::attainable`) from the outstanding requests of
//! each group and from the device's throughput at each number in flight. The throughput is measured
//! here, on the simulated device itself: with one number of requests of the same job in flight at a
//! time, without scheduler and without host costs. Other hosts could not be measured afterwards;
//! for them the output has the due and actual rates, and the largest number of requests in flight.

mod reasons;

use std::fmt::Write;

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::attainable::{Attainable, Curve, Tenant};
use hoistway_experiment::entitlement::Entitlement;
use hoistway_experiment::job::{Engine, Job, Mix, Pattern};
use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::{Cell, Dispatches, Experiment, Group, Host, SchedulerSpec, Unattended, Weight};
use hoistway_report::Results;
use hoistway_simulator::{HostCosts, Simulator};

use reasons::{Seen, Share, Together};

/// The numbers of requests in flight at which a device is measured, up to its depth.
const POPULATIONS: [u32; 20] = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256];
/// Requests that the queue holds at least, enough for the smallest kernel's rules about batches.
const QUEUE: u32 = 512;
/// The assumed loss if the scheduler has no `give`.
const DEFAULT_LOSS: f64 = 0.03;

/// Measured devices, each with the experiment with one request at a time, which identifies it, and
/// its throughput curve.
pub type Curves = Vec<(Experiment, Curve)>;

/// The explanation of all cells with several groups.
pub fn text(results: &Results<'_>) -> String {
    let cells = results.cells();
    let mut curves = Curves::new();
    let blocks = cells.iter().filter(|cell| cell.groups.len() > 1);
    let blocks: Vec<String> = blocks.map(|cell| explained(cell, results.host, &mut curves)).collect();
    if blocks.is_empty() {
        return "Nothing to explain: no run has two groups.\n".to_owned();
    }
    blocks.join("\n")
}

fn explained(cell: &Cell<'_>, host: &str, curves: &mut Curves) -> String {
    let run = cell.runs[0];
    let mut text = format!("{}: {} MiB/s together\n", cell.name(), mib(cell.bytes_per_s.mean));
    if let Some(entitlement) = &cell.entitlement {
        text.push_str(&isolation(cell, entitlement));
    }
    let Some(fairness) = &cell.fairness else {
        return text + "  what is due is not known: no I/O was done, or no group has a share\n";
    };
    // The host delays the next command only by the cost of the completion, because the process's
    // cost of submission comes after the command.
    let host_ns = run.experiment.machine.complete_ns_in_force();
    let groups: Vec<&Group> = cell.plan_groups().collect();
    let (tenants, job) = match demand_of(&groups, &fairness.due, host_ns) {
        Ok(demand_of) => demand_of,
        Err(why) => return text + &plain(cell, &fairness.due, &why),
    };
    // No more can be in flight than the device takes and the groups ask for.
    let asked =
        groups.iter().flat_map(|group| &group.jobs).map(|job| job.effective_depth().saturating_mul(job.threads));
    let asked = asked.fold(0, u32::saturating_add);
    let depth = run.experiment.device_depth.unwrap_or(run.target.queue_depth).min(asked).max(1);
    if host != "simulator" {
        let bound = tenants.iter().map(|tenant| tenant.outstanding / (tenant.weight / total(&tenants)));
        let bound = bound.fold(f64::from(depth), f64::min);
        let why = format!(
            "the shares can be exact with at most {bound:.1} requests in flight; the throughput at that depth is known only for simulated devices"
        );
        return text + &plain(cell, &fairness.due, &why);
    }
    let curve = match curve_of(&run.experiment, &job, depth, curves) {
        Ok(curve) => curve,
        Err(why) => return text + &plain(cell, &fairness.due, &why),
    };
    let loss = loss_of(cell);
    let can = Attainable::new(&tenants, &curve, f64::from(depth), loss);
    text.push_str(&verdict(&can, loss));
    // The oracle counts requests; the figures are bytes.
    let bytes = cell.bytes_per_s.mean / cell.ios_per_s.mean.max(1.0);
    let together = together(cell, &can, bytes);
    if let Some(reason) = reasons::of_throughput(&together) {
        let _ = writeln!(text, "  {reason} ({} of {} MiB/s)", mib(together.got), mib(together.can));
    }
    let _ = writeln!(
        text,
        "  MiB/s; by weight: of the total attainable, `can`: what each can have of it, with its part of the total against that at the end:"
    );
    let mut rows = Vec::new();
    for (index, group) in cell.groups.iter().enumerate() {
        let [can_bytes, got] = [can.rates[index] * bytes, group.bytes_per_s.mean];
        let share = Share {
            due: fairness.due[index],
            can: can_bytes / together.can.max(1.0),
            got: got / together.got.max(1.0),
            outstanding: tenants[index].outstanding,
            is_all_in_flight: can.in_flight[index] >= can.demand[index] * 0.99,
            isolation: cell.entitlement.as_ref().and_then(|it| Some((it.fulfilled[index]?, it.isolation))),
        };
        let name = vec![group.path.to_owned(), group.weight.to_string()];
        let figures = [share.due * together.can, can_bytes, got].map(mib);
        let why = reasons::of_share(&share, cell.scheduler.has_shares);
        rows.push([name, figures.to_vec(), vec![why]].concat());
    }
    text + &grid(&["group", "weight", "by weight", "can", "got", "why"], &rows)
}

/// The isolation of the cell, and what each group got of what it is entitled to.
fn isolation(cell: &Cell<'_>, entitlement: &Entitlement) -> String {
    let parts = cell.groups.iter().enumerate().map(|(index, group)| {
        let [got, entitled] = [entitlement.got_per_s[index], entitlement.entitled_per_s[index]];
        let counts_ios = cell.runs[0].solo_rates.get(group.index).is_some_and(SoloRates::counts_ios);
        if counts_ios {
            format!("{} got {got:.0} of {entitled:.0} I/Os per second", group.path)
        } else {
            format!("{} got {} of {} MiB/s", group.path, mib(got), mib(entitled))
        }
    });
    let parts: Vec<String> = parts.collect();
    format!("  isolation {:.1} %: of what it is entitled to {}\n", entitlement.isolation * 100.0, parts.join(", "))
}

/// The total of all groups, compared with the attainable one.
fn together(cell: &Cell<'_>, can: &Attainable, bytes: f64) -> Together {
    Together {
        can: can.rates.iter().sum::<f64>() * bytes,
        full: can.full_rate * bytes,
        got: cell.bytes_per_s.mean,
        got_high: cell.bytes_per_s.high(),
        needed: can.in_flight.iter().sum(),
        seen: cell.runs.iter().find_map(|run| run.dispatches.as_ref()).map(seen),
    }
}

/// Summarises the record of the first dispatches.
fn seen(dispatches: &Dispatches) -> Seen {
    let length_ns = dispatches.length_ns.max(1) as f64;
    let in_flight_ns: u64 = dispatches.requests.iter().map(|request| request.service_ns).sum();
    let held_ns: u64 = dispatches.holds.iter().map(|hold| hold.length_ns).sum();
    Seen {
        requests: dispatches.requests.len(),
        in_flight: in_flight_ns as f64 / length_ns,
        held: held_ns as f64 / length_ns,
    }
}

fn total(tenants: &[Tenant]) -> f64 {
    tenants.iter().map(|tenant| tenant.weight).sum()
}

fn mib(bytes_per_s: f64) -> String {
    let value = bytes_per_s / 1_048_576.0;
    if value < 9.995 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// The outstanding requests of each group, each with the time between its completion and the next
/// submission, and the job that they all run; or the reason why this is not meaningful.
pub fn demand_of(groups: &[&Group], due: &[f64], host_ns: Nanos) -> Result<(Vec<Tenant>, Job), String> {
    let mut kind: Option<Job> = None;
    let mut tenants = Vec::new();
    for (group, share) in groups.iter().zip(due) {
        let mut outstanding = 0;
        let mut think_ns = 0;
        for job in &group.jobs {
            closed(job).map_err(|why| format!("{}: {why}", group.path))?;
            let one = job.clone().with(|it| {
                it.name = String::new();
                it.threads = 1;
                it.submission.iodepth = 1;
                it.submission.engine = Engine::Async;
                it.pacing.think = hoistway_experiment::job::Think::default();
                it.output = Default::default();
            });
            let is_other = |known: &Job| {
                known.shape.pattern != one.shape.pattern
                    || known.shape.mix != one.shape.mix
                    || known.shape.block_sizes != one.shape.block_sizes
            };
            if kind.as_ref().is_some_and(is_other) {
                return Err(
                    "the groups issue different kinds of requests, which take different times in the device".to_owned()
                );
            }
            kind.get_or_insert(one);
            outstanding += job.effective_depth() * job.threads;
            think_ns = think_ns.max(job.pacing.think.time_ns);
        }
        let think_ns = (host_ns + think_ns) as f64;
        tenants.push(Tenant { weight: share.max(1e-6) * 1e3, outstanding: f64::from(outstanding), think_ns });
    }
    kind.map(|job| (tenants, job)).ok_or_else(|| "no group has a job".to_owned())
}

/// Whether a job is a closed loop that keeps a fixed number of requests outstanding.
fn closed(job: &Job) -> Result<(), &'static str> {
    if job.source.program.is_some() || job.source.replay.is_some() {
        return Err("the number of outstanding requests of a program or a recording varies");
    }
    if !job.submission.direct {
        return Err("it uses the page cache, which determines the number of outstanding requests");
    }
    let rates = [job.pacing.rate_bytes_per_s.read, job.pacing.rate_bytes_per_s.write, job.pacing.rate_bytes_per_s.trim];
    let ios = [job.pacing.rate_ios_per_s.read, job.pacing.rate_ios_per_s.write, job.pacing.rate_ios_per_s.trim];
    if rates.iter().any(|rate| *rate > 0) || ios.iter().any(|rate| *rate > 0) {
        return Err("it has its own rate limit");
    }
    if !matches!(job.shape.mix, Mix::Read) {
        return Err("the cost of a write depends on the writes before it");
    }
    Ok(())
}

/// The device's throughput in requests per second, by the number of this job's requests in flight.
pub fn curve_of(experiment: &Experiment, job: &Job, depth: u32, known: &mut Curves) -> Result<Curve, String> {
    let experiment = |population: u32| Experiment {
        workload: "population".to_owned(),
        scheduler: SchedulerSpec::named("none"),
        limiters: Vec::new(),
        groups: vec![Group::new("all", Weight::DEFAULT, vec![job.clone().with(|job| job.threads = population)])].into(),
        threads: 1,
        set: 1,
        ramp_ns: 100 * MILLISECOND,
        runtime_ns: 300 * MILLISECOND,
        // The queue holds every request of the population.
        queue_requests: Some(population.max(QUEUE)),
        machine: hoistway_experiment::Machine::default(),
        ..experiment.clone()
    };
    let mut one = experiment(1);
    one.device_depth = Some(depth);
    if let Some((_, curve)) = known.iter().find(|(known, _)| *known == one) {
        return Ok(curve.clone());
    }
    let mut points = Vec::new();
    for population in POPULATIONS.into_iter().filter(|population| *population < depth).chain([depth]) {
        let mut experiment = experiment(population);
        let mut host = Simulator::with_costs(HostCosts::NONE);
        host.check(&experiment)
            .map_err(|refusal| format!("the device refuses a single population: {}", refusal.message))?;
        let mut measured = host.run(&experiment, &mut Unattended).map_err(|error| format!("{error:?}"))?;
        if measured.target.rotational {
            if matches!(job.shape.pattern, Pattern::Sequential { .. }) {
                return Err("on a rotational disk the cost of a request depends on the one before it".to_owned());
            }
            // Enough for a few hundred requests per second.
            (experiment.ramp_ns, experiment.runtime_ns) = (SECOND, 20 * SECOND);
            measured = host.run(&experiment, &mut Unattended).map_err(|error| format!("{error:?}"))?;
        }
        points.push((f64::from(population), measured.ios_per_s()));
    }
    let curve = Curve::new(points);
    known.push((one, curve.clone()));
    Ok(curve)
}

/// The loss that the scheduler may spend: its `give`, if it has one.
fn loss_of(cell: &Cell<'_>) -> f64 {
    let give = cell.scheduler.tunables.iter().find(|tunable| tunable.name == "give");
    give.and_then(|tunable| tunable.value.parse::<f64>().ok()).map_or(DEFAULT_LOSS, |percent| percent / 100.0)
}

fn verdict(can: &Attainable, loss: f64) -> String {
    let cost = (1.0 - can.exact_rate / can.full_rate.max(1.0)).max(0.0) * 100.0;
    let (n_star, n_eps) = (can.n_star, can.n_eps);
    let percent = loss * 100.0;
    let mut text = format!("  shares can be exact with {n_star:.1} requests in flight (N*)");
    if loss < 1.0 {
        let _ = write!(text, "; {:.0} % of the throughput need {n_eps:.1}", 100.0 - percent);
    }
    text.push('\n');
    let what = if loss >= 1.0 {
        format!("give=100: exact shares at any cost, which is {cost:.1} % of the throughput")
    } else if can.n_star >= 1.2 * can.n_eps {
        "so exact shares cost no throughput".to_owned()
    } else if can.n_star >= can.n_eps {
        format!("so exact shares cost {cost:.1} %, not more than {percent:.0}")
    } else {
        format!("so exact shares would cost {cost:.1} %, more than {percent:.0}; `can` is closest to them")
    };
    let _ = writeln!(text, "  {what}");
    text
}

/// Only the due and actual rates.
fn plain(cell: &Cell<'_>, due: &[f64], why: &str) -> String {
    let row = |(group, share): (&hoistway_experiment::cell::CellGroup<'_>, &f64)| {
        vec![
            group.path.to_owned(),
            group.weight.to_string(),
            mib(share * cell.bytes_per_s.mean),
            mib(group.bytes_per_s.mean),
        ]
    };
    let rows: Vec<Vec<String>> = cell.groups.iter().zip(due).map(row).collect();
    format!(
        "  the attainable rates are not known: {why}; MiB/s:\n{}",
        grid(&["group", "weight", "by weight", "got"], &rows)
    )
}

/// Columns, with numbers right-aligned; the first and `why` are left-aligned.
fn grid(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut text = " ".to_owned();
        for (index, cell) in cells.iter().enumerate() {
            let width = widths[index];
            let _ = match header[index] {
                "group" => write!(text, " {cell:<width$}"),
                "why" => write!(text, "  {cell}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(header);
    for row in rows {
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    text
}
