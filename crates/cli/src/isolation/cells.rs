//! The cells: tenants on the target, and what their runs are to show.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;
use hoistway_experiment::Machine;
use hoistway_workload::job::Amount;

use crate::exit::Error;
use crate::run_test::groups::Groups;
use crate::scenario::plain_test;
use hoistway::plan::workloads;
use hoistway_study::isolation::cell::{BIN_NS, Cell};
use hoistway_study::isolation::desideratum::Desideratum;
use hoistway_study::isolation::format::{CellText, Part, Settings};

/// The area that all tenants share, so that any number of them fits on any target.
pub const AREA: &str = "isolation";
/// Its size on real targets.
pub const REAL_AREA_BYTES: u64 = 256 << 20;
/// Shortest round and ramp on real targets, where a process may not run for tens of milliseconds.
const REAL_ROUND_NS: Nanos = 100 * MILLISECOND;
const REAL_RAMP_NS: Nanos = 250 * MILLISECOND;
/// Properties of the target that cells depend on.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    /// Whether it is simulated.
    pub is_simulated: bool,
}

/// The cells of a scenario, or of a part of it, whose names contain one of these texts.
pub fn of(settings: &Settings, parts: &[&Part], wanted: &[String], place: Place) -> Result<Vec<Cell>, Error> {
    let is_wanted = |text: &&CellText| {
        let in_parts = parts.iter().all(|part| {
            let fits = part.measurement.is_none_or(|it| it == text.desideratum.measurement());
            fits && (part.cells.is_empty() || part.cells.contains(&text.name))
        });
        in_parts && (wanted.is_empty() || wanted.iter().any(|wanted| text.name.contains(wanted)))
    };
    let mut cells: Vec<Cell> = Vec::new();
    for text in settings.cells.iter().filter(is_wanted) {
        let cell = read(text, settings, place).map_err(|error| error.inside(&format!("cell {}", text.name)))?;
        if cells.iter().any(|other| other.name == cell.name) {
            return Err(Error::usage(format!("cell '{}' occurs twice", cell.name), "give each cell its own name"));
        }
        cells.push(cell);
    }
    if cells.is_empty() {
        return Err(Error::usage("there is no cell to run", "--dry-run prints the names of all cells").at("--cells"));
    }
    Ok(cells)
}

fn read(text: &CellText, settings: &Settings, place: Place) -> Result<Cell, Error> {
    let mut plain = plain_test()?;
    let mut jobs = Vec::new();
    match (text.count, &text.workload) {
        (Some(count), Some(workload)) if text.groups.is_empty() => {
            plain.groups.nrgrp = Some(u32::try_from(count).unwrap_or(u32::MAX));
            plain.groups.weights = vec![text.weights.clone().unwrap_or_else(|| "100..100".to_owned())];
            jobs = workloads::of_name(workload, &[])?.1;
        }
        (None, None) if !text.groups.is_empty() => plain.groups.group.clone_from(&text.groups),
        _ => return Err(Error::usage("a cell has groups, or count and workload", "give one of the two")),
    }
    let mut groups = Groups::read(&plain)?.with_jobs(&jobs, &plain)?;
    hoistway_experiment::group::check(&groups)?;
    let (least_round_ns, least_ramp_ns) = if place.is_simulated { (0, 0) } else { (REAL_ROUND_NS, REAL_RAMP_NS) };
    let round_ns = text.round.unwrap_or(settings.round).0.max(least_round_ns);
    let returns_ns = text.returns.map_or(0, |time| time.0);
    if round_ns == 0 || !round_ns.is_multiple_of(BIN_NS) || !returns_ns.is_multiple_of(BIN_NS) {
        return Err(Error::usage("rounds and returns are whole milliseconds", "write round = \"20ms\""));
    }
    let is_return = text.desideratum.has_return();
    if is_return != (returns_ns > 0) {
        return Err(Error::usage("bursts have a time at which the first tenant returns", "write returns = \"400ms\""));
    }
    let is_about_latency =
        matches!(text.desideratum, Desideratum::LowOverhead | Desideratum::Priority) || text.desideratum.has_return();
    for (index, group) in groups.iter_mut().enumerate() {
        for job in &mut group.jobs {
            AREA.clone_into(&mut job.area.file);
            if !place.is_simulated {
                job.area.size = Some(Amount::Bytes(REAL_AREA_BYTES));
            }
            job.output.bandwidth_log = Some(AREA.to_owned());
            job.output.average_over_ns = if is_return { BIN_NS } else { round_ns };
            if is_about_latency && index == 0 {
                job.output.histogram_log = Some(AREA.to_owned());
                job.output.histogram_every_ns = round_ns;
            }
        }
    }
    let machine = match text.desideratum {
        Desideratum::LowOverhead if place.is_simulated => Machine::parse(&settings.overhead_machine)?,
        _ => Machine::default(),
    };
    let (name, desideratum) = (text.name.clone(), text.desideratum);
    let ramp_ns = text.ramp.unwrap_or(settings.ramp).0;
    // A tenant that comes back has been there before, and its times are those of its jobs.
    let ramp_ns = if is_return { ramp_ns } else { ramp_ns.max(least_ramp_ns) };
    let rounds = text.rounds.unwrap_or(settings.rounds) as usize;
    if rounds < hoistway_experiment::steady_state::ROUNDS {
        return Err(Error::usage(format!("{rounds} rounds show no steady state"), "give at least 5 rounds"));
    }
    Ok(Cell { name, desideratum, groups, ramp_ns, returns_ns, round_ns, rounds, machine })
}
