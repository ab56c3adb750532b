//! The cells of a scenario, with the user's replacements of devices, workloads, weights and
//! tenants.

use hoistway_block::Nanos;
use hoistway_device::Model;
use hoistway_experiment::{Group, Machine};
use hoistway_workload::job::Job;

use crate::exit::{Error, Reporter};
use crate::run_test::arguments::TestArguments;
use crate::run_test::groups::Groups;
use crate::run_test::plan::DEFAULT_WORKLOAD;
use crate::scenario::{Scenario, plain_test};
use crate::workloads::{self, Workload};
use hoistway_study::judge::cell::Cell;
use hoistway_study::judge::format::{CellText, Grid, Kind, Part, Settings, Times};
use hoistway_study::judge::series::BIN_NS;

/// A device and its properties.
struct Place {
    /// Its name in tables: `ssd`.
    name: String,
    target: String,
    is_rotational: bool,
    queue_depth: u32,
}

/// All cells, in order: those of the grid, then the others.
pub fn of(
    scenario: &Scenario,
    part: Option<&Part>,
    user: &TestArguments,
    reporter: Reporter,
) -> Result<Vec<Cell>, Error> {
    let maker = Maker { settings: &scenario.judge, user, reporter, plain: plain_test()? };
    let devices = maker.users_devices()?;
    let mut cells = Vec::new();
    if !user.groups.group.is_empty() {
        let given = user.groups.group.clone();
        let text = CellText {
            name: "given".to_owned(),
            doc: String::new(),
            devices: scenario.grid.as_ref().map(|grid| grid.devices.clone()).unwrap_or_default(),
            groups: given,
            changes: Vec::new(),
            falls: false,
            is_unequal: false,
            machine: None,
            ramp: None,
            runtime: None,
        };
        maker.tenants(&text, devices.as_deref(), &mut cells)?;
    } else {
        let wanted = |kind: Kind| part.is_none_or(|part| part.kinds.is_empty() || part.kinds.contains(&kind));
        let has_users_lists = !user.workload.workload.is_empty() || !user.groups.weights.is_empty();
        if let Some(grid) = scenario.grid.as_ref().filter(|_| wanted(Kind::Grid)) {
            cells.extend(maker.grid(grid, devices.as_deref())?);
        }
        // These cells have workloads and weights of their own, so they are left out if the user
        // names any.
        for text in scenario.cells.iter().filter(|_| !has_users_lists) {
            if wanted(kind_of(text)) {
                maker.tenants(text, devices.as_deref(), &mut cells)?;
            }
        }
        // If the user names workloads or weights, all cells are run, whatever `every` says.
        let every = part.and_then(|part| part.every).filter(|_| !has_users_lists).unwrap_or(1).max(1);
        cells = cells.into_iter().step_by(every).collect();
    }
    if let Some(again) =
        cells.iter().enumerate().find(|(index, cell)| cells[..*index].iter().any(|other| other.name == cell.name))
    {
        let what = format!("cell '{}' occurs twice", again.1.name);
        return Err(Error::usage(what, "give each device, workload and set of weights once"));
    }
    if cells.is_empty() {
        return Err(Error::usage("there is no cell to run", "name devices, workloads and weights, or another part"));
    }
    Ok(cells)
}

fn kind_of(text: &CellText) -> Kind {
    match text {
        _ if !text.changes.is_empty() || text.falls => Kind::Changes,
        _ if text.is_unequal => Kind::Unequal,
        _ => Kind::Tenants,
    }
}

struct Maker<'a> {
    settings: &'a Settings,
    user: &'a TestArguments,
    reporter: Reporter,
    plain: TestArguments,
}

impl Maker<'_> {
    fn users_devices(&self) -> Result<Option<Vec<String>>, Error> {
        let given: Vec<String> = self.user.target.iter().chain(&self.user.judge.device).cloned().collect();
        if let Some(other) =
            given.iter().find(|text| self.user.target.as_ref() == Some(*text) && !text.starts_with("model:"))
        {
            let what = format!("a scenario with verdicts runs on simulated devices, and '{other}' is not one");
            return Err(Error::usage(what, "write model:NAME; hoistway list devices lists them"));
        }
        Ok((!given.is_empty()).then_some(given))
    }

    fn place(text: &str) -> Result<Place, Error> {
        let name = text.strip_prefix("model:").unwrap_or(text).to_owned();
        let target = format!("model:{name}");
        let model = Model::parse(&target).map_err(|wrong| {
            Error::usage(wrong.to_string(), "all models and parameters: hoistway list devices").at(target.clone())
        })?;
        let info = model.info();
        Ok(Place { name, target, is_rotational: info.rotational, queue_depth: count(info.total_depth()) })
    }

    fn grid(&self, grid: &Grid, users_devices: Option<&[String]>) -> Result<Vec<Cell>, Error> {
        let mut arguments = self.plain.workload.clone();
        arguments.workload.clone_from(&grid.workloads);
        if !self.user.workload.workload.is_empty() {
            arguments.workload.clone_from(&self.user.workload.workload);
        }
        let workloads = workloads::read(&arguments, DEFAULT_WORKLOAD, self.reporter)?;
        let users = &self.user.groups.weights;
        let weights = if users.is_empty() { &grid.weights } else { users };
        let mut cells = Vec::new();
        for device in users_devices.unwrap_or(&grid.devices) {
            let place = Self::place(device)?;
            for workload in &workloads {
                let Workload::Named { name, jobs } = workload else {
                    let what = "a job file defines its own groups, which contradict those of the grid";
                    return Err(Error::usage(what, "name a workload, or describe tenants with --group"));
                };
                for weights in weights {
                    let mut plain = self.plain.clone();
                    plain.groups.weights = vec![weights.clone()];
                    let groups = Groups::read(&plain)?.with_jobs(jobs, &plain)?;
                    let name = format!("{} {name} {weights}", place.name);
                    cells.push(self.cell(Kind::Grid, name, &place, groups, None)?);
                }
            }
        }
        Ok(cells)
    }

    fn tenants(&self, text: &CellText, users_devices: Option<&[String]>, cells: &mut Vec<Cell>) -> Result<(), Error> {
        let wrong = |error: Error| error.inside(&format!("cell {}", text.name));
        for device in users_devices.unwrap_or(&text.devices) {
            let place = Self::place(device).map_err(wrong)?;
            let mut plain = self.plain.clone();
            plain.groups.group.clone_from(&text.groups);
            let groups = Groups::read(&plain).and_then(|groups| groups.with_jobs(&[], &plain)).map_err(wrong)?;
            let name = format!("{} {}", place.name, text.name);
            cells.push(self.cell(kind_of(text), name, &place, groups, Some(text)).map_err(wrong)?);
        }
        Ok(())
    }

    fn cell(
        &self,
        kind: Kind,
        name: String,
        place: &Place,
        mut groups: Vec<Group>,
        text: Option<&CellText>,
    ) -> Result<Cell, Error> {
        hoistway_experiment::group::check(&groups)?;
        let jobs = || groups.iter().flat_map(|group| &group.jobs);
        let Times { ramp, writes_ramp, runtime } =
            if place.is_rotational { self.settings.rotational } else { self.settings.flash };
        let writes_ramp = self.settings.writes_ramp_of.get(&place.name).copied().unwrap_or(writes_ramp);
        let usual = if jobs().any(|job| job.shape.mix.has_writes()) { writes_ramp } else { ramp };
        let ramp = text.and_then(|text| text.ramp).unwrap_or(usual);
        let runtime = text.and_then(|text| text.runtime).unwrap_or(runtime);
        let changes: Vec<Nanos> = text.iter().flat_map(|text| &text.changes).map(|time| time.0).collect();
        let last = changes.last().copied().unwrap_or(0);
        let ramp_ns = whole_bins(self.user.workload.ramp.unwrap_or(ramp.0).max(last));
        let runtime_ns = whole_bins(self.user.workload.runtime.unwrap_or(runtime.0));
        if changes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Error::usage(
                format!("{name}: changes are not in order"),
                "write them as times after the start, ascending",
            ));
        }
        if runtime_ns == 0 {
            return Err(Error::usage("a runtime of 0 gives no verdict", "give at least 1s"));
        }
        let is_fall = text.is_some_and(|text| text.falls);
        let machine = text.and_then(|text| text.machine.as_deref()).map(Machine::parse).transpose();
        let machine = machine.map_err(|wrong| Error::usage(wrong.message, wrong.help).at(name.clone()))?;
        let machine = machine.unwrap_or_default();
        groups.iter_mut().flat_map(|group| &mut group.jobs).for_each(count_in_bins);
        let Place { target, is_rotational, queue_depth, .. } = place;
        let (target, is_rotational, queue_depth) = (target.clone(), *is_rotational, *queue_depth);
        let doc = text.map_or_else(String::new, |text| text.doc.clone());
        Ok(Cell {
            kind,
            doc,
            name,
            target,
            is_rotational,
            queue_depth,
            groups,
            ramp_ns,
            runtime_ns,
            changes,
            is_fall,
            machine,
        })
    }
}

/// Rounds a time up to whole bins.
const fn whole_bins(ns: Nanos) -> Nanos {
    ns.div_ceil(BIN_NS) * BIN_NS
}

/// Counts a job's bytes per bin, as fio does for its bandwidth logs.
fn count_in_bins(job: &mut Job) {
    job.output.bandwidth_log = Some("judge".to_owned());
    job.output.average_over_ns = BIN_NS;
}

/// Greater depths make no difference for the loads of any cell.
const DEEPEST: usize = 256;

fn count(depth: usize) -> u32 {
    u32::try_from(depth.min(DEEPEST)).unwrap_or(u32::MAX)
}
