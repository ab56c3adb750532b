//! The plan: every cell under every mechanism with every setting, and each tenant that also runs alone.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::mechanism::{Mechanism, Setting};
use super::rounds::Sample;

/// What runs in a cell: a mechanism with one of its settings, or a tenant alone.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// Mechanism and setting, by index.
    Mechanism(usize, usize),
    /// Tenant, by index.
    Alone(usize),
}

/// The plan of all runs.
#[derive(Debug)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// The mechanisms; the first is `none`.
    pub mechanisms: Vec<Mechanism>,
    /// The settings of each cell and mechanism.
    pub settings: BTreeMap<(usize, usize), Vec<Setting>>,
    /// Why a mechanism cannot run in a cell, in the host's words.
    pub refusals: BTreeMap<(usize, usize), String>,
    /// Runs of each subject.
    pub repetitions: u32,
    /// The seed of load and order.
    pub seed: u64,
}

/// The samples of every subject of every cell, by repetition.
pub type Samples = BTreeMap<(usize, Subject), BTreeMap<u32, Sample>>;

impl Plan {
    /// Plans all settings of all cells; `every` leaves out some settings of long knobs.
    pub fn new(cells: Vec<Cell>, mechanisms: Vec<Mechanism>, every: usize, (repetitions, seed): (u32, u64)) -> Self {
        let mut settings = BTreeMap::new();
        for (at, cell) in cells.iter().enumerate() {
            for (number, mechanism) in mechanisms.iter().enumerate() {
                let all = mechanism.settings(cell);
                let last = all.len().saturating_sub(1);
                let is_kept = |index: usize| index.is_multiple_of(every.max(1)) || index == last;
                let kept = all.into_iter().enumerate().filter(|(index, _)| is_kept(*index));
                settings.insert((at, number), kept.map(|(_, setting)| setting).collect());
            }
        }
        Self { cells, mechanisms, settings, refusals: BTreeMap::new(), repetitions, seed }
    }

    /// The number of runs without those that settings are derived from.
    pub fn count(&self) -> usize {
        self.subjects().len() * self.repetitions as usize
    }

    /// Everything that runs, cell by cell. A cell in which `none` cannot run has nothing to be
    /// compared with, and is left out.
    pub fn subjects(&self) -> Vec<(usize, Subject)> {
        let mut subjects = Vec::new();
        for (at, cell) in self.cells.iter().enumerate().filter(|(at, _)| !self.refusals.contains_key(&(*at, 0))) {
            subjects.extend(cell.tenants_alone().into_iter().map(|tenant| (at, Subject::Alone(tenant))));
            for number in (0..self.mechanisms.len()).filter(|number| !self.refusals.contains_key(&(at, *number))) {
                let settings = self.settings.get(&(at, number)).map_or(0, Vec::len);
                subjects.extend((0..settings).map(|setting| (at, Subject::Mechanism(number, setting))));
            }
        }
        subjects
    }
}
