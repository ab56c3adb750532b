//! The groups of a device: made when an export or a client first uses them, removed when nothing does.
//!
//! A group that the configuration names outlives its last use, so that its counters go on when its
//! clients come back, until another group needs the room. Clients that are charged to their own cgroup
//! can name any number of groups, so the number that they can make is bounded, for each user and for
//! all of them; beyond it the nearest known group above is charged.

use std::collections::{BTreeMap, BTreeSet};

use hoistway_engine::{EngineError, GroupHandle, ShardHandle, ShardSettings};
use hoistway_experiment::Limits;

use crate::configuration::{Configuration, Device, Export, prefixes};
use crate::group_use::{GroupUse, UsedGroup};

/// One user's cgroups get at most this part of a device's groups.
const USER_PART: usize = 4;
/// The cgroups of all users get at most this part, so that exports and named groups find room.
const CGROUPS_PART: usize = 2;

/// The groups of one device.
pub struct Groups {
    entries: BTreeMap<String, Entry>,
    /// The most groups, without the root.
    room: usize,
}

struct Entry {
    group: UsedGroup,
    /// The user whose client's cgroup made it, if one did.
    by_uid: Option<u32>,
}

impl Groups {
    /// No groups, with room for as many as the device's memory has.
    pub fn of(device: &Device) -> Self {
        Self { entries: BTreeMap::new(), room: room_of(device) }
    }

    /// The paths of the groups that exist.
    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    /// A group that exists.
    pub fn get(&self, path: &str) -> Option<GroupUse> {
        self.entries.get(path).map(|entry| entry.group.begin())
    }

    /// Begins a use of a group, which is made with all its parents if it is new.
    ///
    /// # Errors
    /// There is no room for it, or the device has stopped.
    pub fn begin(
        &mut self,
        shard: &ShardHandle,
        path: &str,
        configuration: &Configuration,
    ) -> Result<GroupUse, EngineError> {
        if self.missing(path) > self.free() {
            self.remove_unused(shard, |_| false);
        }
        let missing = self.missing(path);
        if missing > self.free() {
            return Err(no_room(shard.name(), path, self.room, self.entries.len() + missing));
        }
        self.make(shard, path, configuration, None)
    }

    /// Begins a use of a cgroup's group for a client of a user. If there is no room for it, the nearest
    /// group above it that exists is used, or else `instead`. Returns the group's path as well.
    ///
    /// # Errors
    /// There is no room for `instead`, or the device has stopped.
    pub fn begin_for_cgroup<'a>(
        &mut self,
        shard: &ShardHandle,
        (path, uid): (&'a str, Option<u32>),
        instead: &'a str,
        configuration: &Configuration,
    ) -> Result<(GroupUse, &'a str), EngineError> {
        if !self.may_make(path, uid) {
            self.remove_unused(shard, |_| false);
        }
        if self.may_make(path, uid) {
            // Without a user id its groups count for root, as those of the system's own clients do.
            let made = self.make(shard, path, configuration, Some(uid.unwrap_or(0)))?;
            return Ok((made, path));
        }
        match prefixes(path).filter(|prefix| self.entries.contains_key(*prefix)).last() {
            Some(above) => Ok((self.begin(shard, above, configuration)?, above)),
            None => Ok((self.begin(shard, instead, configuration)?, instead)),
        }
    }

    /// Whether a user's cgroup may have a group.
    fn may_make(&self, path: &str, uid: Option<u32>) -> bool {
        let missing = self.missing(path);
        let made = |by: &dyn Fn(u32) -> bool| self.entries.values().filter(|it| it.by_uid.is_some_and(by)).count();
        missing == 0
            || (made(&|by| by == uid.unwrap_or(0)) + missing <= self.room / USER_PART
                && made(&|_| true) + missing <= self.room / CGROUPS_PART
                && missing <= self.free())
    }

    fn free(&self) -> usize {
        self.room.saturating_sub(self.entries.len())
    }

    /// How many groups have to be made for a path.
    fn missing(&self, path: &str) -> usize {
        prefixes(path).filter(|prefix| !self.entries.contains_key(*prefix)).count()
    }

    fn make(
        &mut self,
        shard: &ShardHandle,
        path: &str,
        configuration: &Configuration,
        by_uid: Option<u32>,
    ) -> Result<GroupUse, EngineError> {
        let mut parent = GroupHandle::ROOT;
        for prefix in prefixes(path) {
            if let Some(entry) = self.entries.get(prefix) {
                parent = entry.group.handle();
                continue;
            }
            let weight = u32::try_from(configuration.weight(prefix)).unwrap_or(u32::MAX);
            let handle = shard.add_group_below(parent, prefix, weight)?;
            // Known before its settings are made, so that it is removed if one of them fails.
            self.entries.insert(prefix.to_owned(), Entry { group: UsedGroup::new(handle), by_uid });
            set_up(shard, handle, prefix, configuration)?;
            parent = handle;
        }
        let made = self.entries.get(path).map(|entry| entry.group.begin());
        made.ok_or_else(|| EngineError::usage(format!("the group {path:?} has no name"), "name it in the export"))
    }

    /// Removes the groups that nothing uses and the configuration does not name.
    pub fn remove_unnamed(&mut self, shard: &ShardHandle, configuration: &Configuration) {
        if self.entries.values().all(|entry| entry.group.uses() > 0) {
            return;
        }
        let of_identities = configuration.identities.iter().filter_map(|identity| identity.group.as_ref());
        let named: BTreeSet<&str> = configuration
            .groups
            .iter()
            .map(|group| &group.path)
            .chain(of_identities)
            .map(|it| it.value.as_str())
            .collect();
        self.remove_unused(shard, |path| named.contains(path));
    }

    fn remove_unused(&mut self, shard: &ShardHandle, is_kept: impl Fn(&str) -> bool) {
        let unused = self.entries.iter().filter(|(_, entry)| entry.group.uses() == 0);
        let unused: Vec<String> = unused.map(|(path, _)| path.clone()).collect();
        // In reverse order, groups come before the ones above them.
        for path in unused.into_iter().rev().filter(|path| !is_kept(path)) {
            if self.has_below(&path) {
                continue;
            }
            let Some(group) = self.entries.get(&path).map(|entry| entry.group.handle()) else { continue };
            // The engine refuses while the last connection is being finished; the next time it is done.
            if shard.remove_group(group).unwrap_or(false) {
                self.entries.remove(&path);
            }
        }
    }

    fn has_below(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.entries.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
    }

    /// How many groups a configuration's exports and the present clients need, if that is too many.
    /// `charged` are the groups that the open exports use now.
    pub fn lack<'a>(&self, device: &Device, charged: impl Iterator<Item = &'a str>) -> Option<usize> {
        let mut by_exports: BTreeMap<&str, usize> = BTreeMap::new();
        charged.for_each(|path| *by_exports.entry(path).or_default() += 1);
        let of_clients = self
            .entries
            .iter()
            .filter(|(path, entry)| entry.group.uses() > by_exports.get(path.as_str()).copied().unwrap_or(0));
        let mut needed = paths_of(&device.exports);
        needed.extend(of_clients.flat_map(|(path, _)| prefixes(path)));
        (needed.len() > self.room).then_some(needed.len())
    }
}

/// The most groups of a device, without the root.
pub fn room_of(device: &Device) -> usize {
    ShardSettings::most_groups(device.memory.0) as usize - 1
}

/// The groups of exports, with those above them.
pub fn paths_of(exports: &[Export]) -> BTreeSet<&str> {
    exports.iter().flat_map(|export| prefixes(&export.group.value)).collect()
}

/// Gives a new group the settings of the configuration.
fn set_up(
    shard: &ShardHandle,
    group: GroupHandle,
    path: &str,
    configuration: &Configuration,
) -> Result<(), EngineError> {
    if let Some(leaf_weight) = configuration.leaf_weight(path) {
        shard.set_leaf_weight(group, Some(u32::try_from(leaf_weight).unwrap_or(u32::MAX)))?;
    }
    if let Some(priority) = configuration.group_priority(path) {
        shard.set_group_priority(group, Some(priority))?;
    }
    let limits = configuration.limits(path);
    if limits == Limits::NONE { Ok(()) } else { shard.set_limits(group, &limits) }
}

fn no_room(device: &str, path: &str, room: usize, needed: usize) -> EngineError {
    let message = format!("group '{path}': device '{device}' has room for {room} groups, and all are in use");
    EngineError::usage(message, remedy(needed))
}

/// What to do for a number of groups, without the root.
pub fn remedy(groups: usize) -> String {
    let most = ShardSettings::most_groups(u64::MAX) as usize - 1;
    if groups > most {
        return format!("a device has at most {most} groups: let exports share one, or use several devices");
    }
    format!("give the device memory = \"{}MiB\" or more, or let exports share a group", 2 * (groups + 1))
}

#[cfg(test)]
mod tests {
    use hoistway_engine::{Backing, BackingKind, VolumeSettings};

    use super::*;
    use crate::configuration::{Size, file};
    use crate::server::CHECKS;

    struct Bench {
        shard: ShardHandle,
        groups: Groups,
        configuration: Configuration,
    }

    impl Bench {
        /// A device with room for 31 groups.
        fn new() -> Self {
            let memory_bytes = 64 << 20;
            let nothing = Backing { kind: BackingKind::Null(1 << 20), model: None };
            let settings = ShardSettings {
                memory_bytes,
                max_connections: 1,
                max_groups: ShardSettings::most_groups(memory_bytes),
                ..ShardSettings::default()
            };
            let shard = hoistway_engine::start(settings, &[VolumeSettings::new("x", nothing)]).unwrap();
            let device = Device { memory: Size(memory_bytes), ..Device::default() };
            Self { shard, groups: Groups::of(&device), configuration: Configuration::empty() }
        }

        fn client(&mut self, cgroup: &str, uid: u32) -> (GroupUse, String) {
            let cgroup = (cgroup, Some(uid));
            let begun = self.groups.begin_for_cgroup(&self.shard, cgroup, "export", &self.configuration);
            begun.map(|(group, path)| (group, path.to_owned())).unwrap()
        }
    }

    #[test]
    fn a_user_with_any_number_of_cgroups_leaves_the_others_room() {
        let mut bench = Bench::new();
        let hostile: Vec<_> = (0..1_000).map(|at| bench.client(&format!("user-7/{at}"), 7)).collect();
        let own = hostile.iter().filter(|(_, charged)| charged.starts_with("user-7/")).count();
        assert_eq!(own, 31 / USER_PART - 1, "with the group above them");
        assert!(hostile[own..].iter().all(|(_, charged)| charged == "user-7"), "the nearest known group above");
        let (_other, charged) = bench.client("user-8/a", 8);
        assert_eq!(charged, "user-8/a");
        for uid in 100..200 {
            bench.client(&format!("user-{uid}/x"), uid);
        }
        assert!(bench.groups.entries.len() <= 31 / CGROUPS_PART + 1);
        // A path without a known group above is charged to the export's group.
        let all: Vec<_> = (200..300).map(|uid| bench.client(&format!("user-{uid}/x"), uid)).collect();
        assert_eq!(all.last().unwrap().1, "export");
        let exports: Vec<GroupUse> = (0..14)
            .map(|at| bench.groups.begin(&bench.shard, &format!("e{at}"), &bench.configuration).unwrap())
            .collect();
        drop((hostile, all, exports));
        bench.groups.remove_unnamed(&bench.shard, &bench.configuration);
        assert_eq!(bench.groups.paths().collect::<Vec<_>>(), ["user-8", "user-8/a"]);
    }

    #[test]
    fn cgroups_that_come_and_go_never_use_a_device_up() {
        let mut bench = Bench::new();
        for at in 0..10_000 {
            let cgroup = format!("system.slice/container-{at}.scope");
            assert_eq!(bench.client(&cgroup, 0).1, cgroup);
        }
    }

    #[test]
    fn what_a_start_would_refuse_is_found_by_a_check_and_the_number_given_would_do() {
        let text = |memory: &str, exports: usize| {
            let exports =
                (0..exports).map(|at| format!("[[device.export]]\nname = \"e{at}\"\nbacking = \"null:1MiB\"\n"));
            let exports: String = exports.collect();
            format!("[[device]]\nname = \"d\"\nmemory = \"{memory}\"\n{exports}[[listen]]\nunix = \"/x\"\n")
        };
        let check = |text: &str| {
            let configuration = file::read("x", text).unwrap();
            crate::configuration::check::check(&configuration, CHECKS)
        };
        for (memory, most) in [("256MiB", 127), ("2GiB", 1_023), ("64GiB", 1_024)] {
            assert_eq!(check(&text(memory, most)), [], "{memory}");
        }
        let problem = check(&text("256MiB", 1_024)).remove(0);
        assert!(problem.what.contains("have 1024 groups; its memory of 256MiB has room for 127"), "{problem}");
        assert!(problem.help.contains("memory = \"2050MiB\""), "{problem}");
        assert_eq!(check(&text("2050MiB", 1_024)), []);
        let mixed = text("64MiB", 1) + "";
        let mixed = mixed
            .replace("[[listen]]", "[[device.export]]\nname = \"m\"\nbacking = \"model:ssd,null:1MiB\"\n[[listen]]");
        assert!(check(&mixed)[0].what.contains("exports e0 and m share device d, which can have one model only"));
        let local: String = (0..65)
            .map(|at| {
                format!("[[device.export]]\nname = \"u{at}\"\nbacking = \"null:1MiB\"\ngroup = \"g\"\nublk = true\n")
            })
            .collect();
        let local = text("64MiB", 1).replace("[[listen]]", &(local + "[[listen]]"));
        assert!(check(&local)[0].what.contains("65 exports of device d have ublk; a device has at most 64"));
    }

    #[test]
    fn a_device_starts_with_as_many_groups_as_the_check_allows() {
        let mut bench = Bench::new();
        let all: Vec<GroupUse> = (0..31)
            .map(|at| bench.groups.begin(&bench.shard, &format!("e{at}"), &bench.configuration).unwrap())
            .collect();
        let error = bench.groups.begin(&bench.shard, "more", &bench.configuration).unwrap_err();
        assert!(error.message.contains("has room for 31 groups") && error.help.contains("66MiB"), "{error:?}");
        drop(all);
        assert!(bench.groups.begin(&bench.shard, "a/b/c", &bench.configuration).is_ok());
    }
}
