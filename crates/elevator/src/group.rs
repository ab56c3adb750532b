//! The tree of groups: parent and weight. Each policy maps the weight to its own range and
//! documents how.

use crate::structures::{Array, NoMemory};
use crate::tunable::SettingError;
use hoistway_block::GroupId;

/// Smallest weight.
pub const WEIGHT_MIN: u32 = 1;
/// Largest weight.
pub const WEIGHT_MAX: u32 = 10_000;
/// Weight of the root, and of a group without an explicit weight.
pub const WEIGHT_DEFAULT: u32 = 100;

/// What a policy is told about a group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// The parent group; the root's parent is the root.
    pub parent: GroupId,
    /// Share relative to its siblings, [`WEIGHT_MIN`]..=[`WEIGHT_MAX`].
    pub weight: u32,
    /// Latency target in ns; 0 = none. Policies without latency targets ignore it.
    pub latency_target_ns: u64,
    /// Weight of the group's own queues among its child groups, in the same range; `None` = same as
    /// `weight`. For policies in which a group's own queues compete with its children (CFQ of
    /// 4.20); all others ignore it.
    pub leaf_weight: Option<u32>,
    /// For the two-level policies of 2008, which have levels instead of weights; `None` = their
    /// default. All others ignore it.
    pub priority: Option<GroupPriority>,
}

/// The level of a group, 0 to 7, for policies with levels of groups instead of weights.
///
/// The level is a separate setting and not derived from the weight: which end of the scale is high,
/// where the middle lies and what a level is worth differ from policy to policy, so no mapping of
/// weights would mean the same in two of them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct GroupPriority(u8);

impl GroupPriority {
    /// The largest level.
    pub const MAX: u32 = 7;

    /// Checks and wraps a level.
    ///
    /// # Errors
    /// [`SettingError::Range`] (ERANGE) outside 0 to 7.
    pub fn new(level: u32) -> Result<Self, SettingError> {
        match u8::try_from(level) {
            Ok(small) if level <= Self::MAX => Ok(Self(small)),
            _ => Err(SettingError::Range),
        }
    }

    /// The level, 0 to 7.
    #[inline]
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl GroupSettings {
    /// A child of the root with this weight.
    #[inline]
    pub const fn with_weight(weight: u32) -> Self {
        Self { parent: GroupId::ROOT, weight, latency_target_ns: 0, leaf_weight: None, priority: None }
    }

    /// The weight, clamped to its range.
    #[inline]
    pub const fn clamped_weight(&self) -> u32 {
        if self.weight < WEIGHT_MIN {
            WEIGHT_MIN
        } else if self.weight > WEIGHT_MAX {
            WEIGHT_MAX
        } else {
            self.weight
        }
    }
}

/// Limits of a group on this device: the kernel's `io.max` and `io.low`, in both directions, which the
/// limiter `throttle` keeps, and exact ceilings, which `rate` keeps.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct IoLimits {
    /// Exact ceilings.
    pub ceilings: Ceilings,
    /// Hard limit (`io.max`, `blkio.throttle.*`).
    pub max: Rates,
    /// Best-effort rate that the group is entitled to when it has requests (`io.low` of 4.12,
    /// `io.high` of 2016); 0 = none.
    pub low: Rates,
    /// Think time above which the group counts as idle, in us; 0 = not given, `u64::MAX` = never
    /// idle.
    pub idle_us: u64,
    /// Tolerated latency above the baseline, in us; `u64::MAX` = not given.
    pub latency_us: u64,
}

impl IoLimits {
    /// No limits.
    pub const NONE: IoLimits = IoLimits {
        ceilings: Ceilings::NONE,
        max: Rates::UNLIMITED,
        low: Rates::ZERO,
        idle_us: 0,
        latency_us: u64::MAX,
    };
}

impl Default for IoLimits {
    fn default() -> Self {
        Self::NONE
    }
}

/// The most that a group may pass per second.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ceiling {
    /// Bytes per second, at least 1; `u64::MAX` = no limit.
    pub bytes_per_s: u64,
    /// I/Os per second, at least 1; `u64::MAX` = no limit.
    pub ios_per_s: u64,
}

impl Ceiling {
    /// No limit.
    pub const NONE: Ceiling = Ceiling { bytes_per_s: u64::MAX, ios_per_s: u64::MAX };
}

/// The ceilings of a group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ceilings {
    /// Of reads.
    pub read: Ceiling,
    /// Of all other operations.
    pub write: Ceiling,
    /// Of both together.
    pub total: Ceiling,
    /// What is not used is saved up for so long, in ns, and may then go at once.
    pub burst_ns: u64,
}

impl Ceilings {
    /// No limits, with the usual burst of 100 ms.
    pub const NONE: Ceilings =
        Ceilings { read: Ceiling::NONE, write: Ceiling::NONE, total: Ceiling::NONE, burst_ns: 100_000_000 };
}

/// Rates by direction, reads first.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Bytes per second; `u64::MAX` = no limit.
    pub bytes_per_s: [u64; 2],
    /// I/Os per second; `u32::MAX` = no limit.
    pub ios_per_s: [u32; 2],
}

impl Rates {
    /// No limit.
    pub const UNLIMITED: Rates = Rates { bytes_per_s: [u64::MAX; 2], ios_per_s: [u32::MAX; 2] };
    /// Zero rates; for best-effort rates this means "none given".
    pub const ZERO: Rates = Rates { bytes_per_s: [0; 2], ios_per_s: [0; 2] };
}

/// The state of a group id.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum GroupState {
    /// Not in use.
    Absent,
    /// Accepts bios.
    Online,
    /// Accepts no more bios; some of its requests still exist.
    Offline,
}

#[derive(Copy, Clone, Debug)]
struct Node {
    settings: GroupSettings,
    state: GroupState,
    requests: u32,
    children: u32,
}

/// The host's table of groups: which exist, their parents, and how many requests each still holds.
///
/// An id becomes free only when the group is offline, has no children, and its last request was
/// freed.
///
/// ```
/// use hoistway_block::GroupId;
/// use hoistway_elevator::{GroupSettings, GroupTree};
///
/// let mut groups = GroupTree::try_new(8).unwrap();
/// let tenant = GroupId(1);
/// assert!(groups.add(tenant, &GroupSettings::with_weight(300)));
/// groups.add_request(tenant);
/// groups.set_offline(tenant);
/// assert!(!groups.remove_if_unused(tenant), "a request of the group is in flight");
/// assert!(groups.remove_request(tenant) && groups.remove_if_unused(tenant));
/// ```
#[derive(Debug)]
pub struct GroupTree {
    nodes: Array<Node>,
}

impl GroupTree {
    /// A tree for ids below `groups`, with the root in place.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        let absent = Node {
            settings: GroupSettings::with_weight(WEIGHT_DEFAULT),
            state: GroupState::Absent,
            requests: 0,
            children: 0,
        };
        let mut nodes = Array::try_new(groups.max(1), absent)?;
        nodes.at_mut(GroupId::ROOT.0).state = GroupState::Online;
        Ok(Self { nodes })
    }

    /// Adds a group below an online parent. False if the id is taken or out of range, or the parent
    /// is not online.
    pub fn add(&mut self, group: GroupId, settings: &GroupSettings) -> bool {
        let parent_online = self.state(settings.parent) == GroupState::Online;
        if group.0 >= self.nodes.len() || self.state(group) != GroupState::Absent || !parent_online {
            return false;
        }
        let node = self.nodes.at_mut(group.0);
        *node = Node { settings: *settings, state: GroupState::Online, requests: 0, children: 0 };
        node.settings.weight = settings.clamped_weight();
        self.nodes.at_mut(settings.parent.0).children += 1;
        true
    }

    /// Changes weights, latency target and priority; the parent stays. False unless the group is
    /// online.
    pub fn change(&mut self, group: GroupId, settings: &GroupSettings) -> bool {
        if self.state(group) != GroupState::Online {
            return false;
        }
        let node = self.nodes.at_mut(group.0);
        node.settings.weight = settings.clamped_weight();
        node.settings.latency_target_ns = settings.latency_target_ns;
        node.settings.leaf_weight = settings.leaf_weight;
        node.settings.priority = settings.priority;
        true
    }

    /// Takes a group offline. Returns false and changes nothing if the group is the root, is not
    /// online, or has children whose ids are still in use.
    pub fn set_offline(&mut self, group: GroupId) -> bool {
        let node = self.nodes.at(group.0);
        if group == GroupId::ROOT || node.state != GroupState::Online || node.children != 0 {
            return false;
        }
        self.nodes.at_mut(group.0).state = GroupState::Offline;
        true
    }

    /// Frees the id if nothing holds it. True if it did: the caller then calls the policy's
    /// `group_removed`.
    pub fn remove_if_unused(&mut self, group: GroupId) -> bool {
        let node = self.nodes.at(group.0);
        if node.state != GroupState::Offline || node.requests != 0 || node.children != 0 {
            return false;
        }
        let parent = node.settings.parent;
        self.nodes.at_mut(group.0).state = GroupState::Absent;
        let above = self.nodes.at_mut(parent.0);
        above.children = above.children.saturating_sub(1);
        true
    }

    /// The group itself, or its nearest online ancestor, which takes over the bios of a group that
    /// is offline or absent.
    pub fn nearest_online(&self, group: GroupId) -> GroupId {
        let mut at = group;
        for _ in 0..self.nodes.len() {
            if at.0 < self.nodes.len() && self.state(at) == GroupState::Online {
                return at;
            }
            at = self.nodes.at(at.0).settings.parent;
        }
        GroupId::ROOT
    }

    /// Counts one more request of the group.
    #[inline]
    pub fn add_request(&mut self, group: GroupId) {
        self.nodes.at_mut(group.0).requests += 1;
    }

    /// Counts one request less. True if it was the last request of an offline group.
    #[inline]
    pub fn remove_request(&mut self, group: GroupId) -> bool {
        let node = self.nodes.at_mut(group.0);
        node.requests = node.requests.saturating_sub(1);
        node.requests == 0 && node.state == GroupState::Offline
    }

    /// Settings of a group.
    #[inline]
    pub fn settings(&self, group: GroupId) -> &GroupSettings {
        &self.nodes.at(group.0).settings
    }

    /// State of an id.
    #[inline]
    pub fn state(&self, group: GroupId) -> GroupState {
        self.nodes.at(group.0).state
    }

    /// Number of requests that the group holds.
    #[inline]
    pub fn requests(&self, group: GroupId) -> u32 {
        self.nodes.at(group.0).requests
    }

    /// The first id that is not in use; `None` if all are.
    pub fn first_absent(&self) -> Option<GroupId> {
        (0..self.nodes.len()).map(GroupId).find(|group| self.state(*group) == GroupState::Absent)
    }

    /// Ids are below this.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.nodes.len()
    }
}
