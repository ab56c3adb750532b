//! Maps the paths of an experiment's groups to the queue's group ids.

use std::collections::BTreeMap;

use hoistway_block::GroupId;
use hoistway_elevator::{GroupPriority, GroupSettings};
use hoistway_experiment::{Experiment, Group, Weight};

/// The groups, parents before their children.
#[derive(Debug)]
pub(crate) struct GroupPlan {
    /// Settings of `GroupId(index + 1)`.
    pub settings: Vec<GroupSettings>,
    paths: Vec<String>,
    by_path: BTreeMap<String, GroupId>,
    /// Id of each group of the experiment.
    pub ids: Vec<GroupId>,
    /// The group of the journal's thread.
    pub journal: GroupId,
}

impl GroupPlan {
    /// The plan of an experiment; a path component without a group of its own gets the default
    /// weight.
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let (settings, paths, by_path, ids) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        let mut plan = Self { settings, paths, by_path, ids, journal: GroupId::ROOT };
        let mut described: BTreeMap<&str, &Group> = BTreeMap::new();
        for group in &experiment.groups {
            described.entry(&group.path).or_insert(group);
        }
        for group in &experiment.groups {
            let id = if group.is_in_root { GroupId::ROOT } else { plan.id_of(&described, &group.path) };
            plan.ids.push(id);
        }
        if let Some(weight) = experiment.machine.journal_weight {
            let weight = u32::try_from(weight).unwrap_or(Weight::MAX);
            plan.settings.push(GroupSettings::with_weight(weight));
            plan.journal = id(plan.settings.len() - 1);
        }
        plan
    }

    /// All ids are below this.
    pub(crate) fn capacity(&self) -> usize {
        self.settings.len() + 1
    }

    /// Paths of the groups by id, as `/proc/PID/cgroup` shows them.
    pub(crate) fn names(&self) -> Vec<String> {
        std::iter::once("/".to_owned()).chain(self.paths.iter().map(|path| format!("/{path}"))).collect()
    }

    fn id_of(&mut self, described: &BTreeMap<&str, &Group>, path: &str) -> GroupId {
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        let parent = match path.rsplit_once('/') {
            Some((above, _)) => self.id_of(described, above),
            None => GroupId::ROOT,
        };
        let own = described.get(path);
        let weight = own.map_or(Weight::DEFAULT, |group| group.weight).get();
        let level = own.and_then(|group| group.group_priority);
        let priority = level.and_then(|level| GroupPriority::new(level.get()).ok());
        let latency_target_ns = own.map_or(0, |group| group.limits.latency_target_ns());
        let leaf_weight = own.and_then(|group| group.leaf_weight).map(Weight::get);
        self.settings.push(GroupSettings { parent, weight, latency_target_ns, leaf_weight, priority });
        self.paths.push(path.to_owned());
        let id = id(self.settings.len() - 1);
        self.by_path.insert(path.to_owned(), id);
        id
    }
}

fn id(index: usize) -> GroupId {
    GroupId(u32::try_from(index + 1).expect("an experiment has fewer than 2^32 groups"))
}
