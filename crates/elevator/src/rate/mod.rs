//! rate: exact ceilings of groups, for reads, writes and both together, in bytes and in I/Os.
//!
//! Promise  in any time t a group passes at most rate x (t + burst) and one bio, and at least rate x t
//!          less one bio while bios wait, from 1 per second up. The parts that a client's request is cut
//!          into are one I/O. The ceilings of groups above bind as well.
//! Cost     a bio without a ceiling: one test; with ceilings O(depth of the tree), O(log groups) when it
//!          waits.
//! Fits     caps that are sold or promised. For the kernel's own behaviour, which gives half of a small
//!          rate, and for best-effort limits, use throttle.
//! Source   ours; the algorithm is that of ITU-T I.371, the set of limits that of libvirt's iotune.
//!
//! submit -> nothing owed at any level? -> pass, owing its amount at each | wait in its own group
//! timer  -> a group's debt is paid -> it offers a bio to the group above -> ... -> root: one goes, and is
//!           owed at each level -> the next
//!
//! Read `bucket.rs` first, which is the arithmetic; `lanes.rs` are the lists of waiting bios. A bio is
//! charged when it goes and not before, so that no level lets bios gather behind it that go at once.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod bucket;
mod lanes;

use crate::group::{Ceilings, GroupSettings, IoLimits};
use crate::interface::Violation;
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, Verdict};
use crate::request::Bio;
use crate::structures::{Array, NoMemory, SortedLinks, Tree};
use bucket::Bucket;
use hoistway_block::{Direction, Flags, GroupId, Nanos, Operation};
use lanes::{Giver, Lane, Lanes, Waiting};

/// Deepest level of the tree that is visited: a bound for every walk upwards. Paths of 256 bytes, which the
/// server takes, have 128 levels.
const DEEPEST: u32 = 256;

/// The two limits of a kind of bios.
#[derive(Copy, Clone, Debug)]
struct Pair {
    bytes: Bucket,
    ios: Bucket,
}

impl Pair {
    const NONE: Pair = Pair { bytes: Bucket::NONE, ios: Bucket::NONE };

    const fn is_limit(&self) -> bool {
        self.bytes.is_limit() || self.ios.is_limit()
    }

    /// When a bio of a lane may go.
    #[inline]
    const fn paid_at(&self, lane: Lane) -> Nanos {
        let bytes = self.bytes.paid_at();
        let ios = if lane.counts() { self.ios.paid_at() } else { 0 };
        if bytes > ios { bytes } else { ios }
    }

    #[inline]
    const fn charge(&mut self, bio: &Waiting, burst_ns: Nanos, now: Nanos) {
        self.bytes.charge(bio.bytes as u64, burst_ns, now);
        self.ios.charge(bio.counts as u64, burst_ns, now);
    }
}

/// A group's ceilings.
#[derive(Clone, Debug)]
struct Group {
    is_present: bool,
    parent: Option<GroupId>,
    read: Pair,
    write: Pair,
    total: Pair,
    burst_ns: Nanos,
    /// The group or one above it has a ceiling.
    is_limited: bool,
    /// The lane whose turn is next.
    turn: Lane,
}

impl Group {
    const ABSENT: Group = Group {
        is_present: false,
        parent: None,
        read: Pair::NONE,
        write: Pair::NONE,
        total: Pair::NONE,
        burst_ns: Ceilings::NONE.burst_ns,
        is_limited: false,
        turn: Lane::FIRST,
    };

    const fn has_ceiling(&self) -> bool {
        self.read.is_limit() || self.write.is_limit() || self.total.is_limit()
    }

    #[inline]
    const fn paid_at(&self, lane: Lane) -> Nanos {
        let own = match lane.direction() {
            Direction::Read => self.read.paid_at(lane),
            Direction::Write => self.write.paid_at(lane),
        };
        let total = self.total.paid_at(lane);
        if own > total { own } else { total }
    }

    // Not inlined: its stack is free again when the timers are set.
    #[inline(never)]
    const fn charge(&mut self, bio: &Waiting, now: Nanos) {
        let own = match bio.direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        };
        own.charge(bio, self.burst_ns, now);
        self.total.charge(bio, self.burst_ns, now);
    }
}

/// The limiter's state.
#[derive(Debug)]
pub struct Rate {
    groups: Array<Group>,
    lanes: Lanes,
    /// Groups in debt for which bios wait, by the time when the first lane may go on.
    timers: Tree,
    timer_links: SortedLinks,
    held: u32,
    violations: u32,
}

impl LimiterPolicy for Rate {
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory> {
        let count = configuration.groups.max(1);
        let mut groups = Array::try_new(count, Group::ABSENT)?;
        groups.at_mut(GroupId::ROOT.0).is_present = true;
        Ok(Self {
            groups,
            lanes: Lanes::try_new(configuration.bios, count)?,
            timers: Tree::EMPTY,
            timer_links: SortedLinks::try_new(count)?,
            held: 0,
            violations: 0,
        })
    }
}

impl Limiter for Rate {
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        if !self.groups.at(bio.group.0).is_limited {
            return Verdict::Pass;
        }
        // A bio that waits and may go now, because a timer is late, goes first.
        if self.next_timer().is_some_and(|at| at <= now) {
            self.timer(now);
        }
        self.submit_by_ceilings(id, bio, now)
    }

    fn next_released(&mut self, _now: Nanos) -> Option<BioId> {
        let bio = self.lanes.take_released()?;
        self.held = self.held.wrapping_sub(1);
        Some(BioId(bio))
    }

    fn withdrawn(&mut self, id: BioId, now: Nanos) {
        match self.lanes.take_out(id.0) {
            Some(group) => {
                self.held = self.held.wrapping_sub(1);
                // What may go because a timer is late is left to that timer: nothing is released here.
                let before_timer = self.next_timer().map_or(now, |at| now.min(at.saturating_sub(1)));
                self.settle(group, before_timer);
            }
            None => self.violations = self.violations.saturating_add(1),
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.timer_links.key(self.timers.first()?)
    }

    fn timer(&mut self, now: Nanos) {
        // Each group at most once: its next time lies in the future.
        for _ in 0..self.groups.len() {
            let Some(group) = self.timers.first() else { break };
            if self.timer_links.key(group).is_none_or(|at| at > now) {
                break;
            }
            self.settle(GroupId(group), now);
        }
        self.release(now);
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        let parent = (group != GroupId::ROOT).then_some(settings.parent);
        let is_limited = parent.is_some_and(|parent| self.groups.at(parent.0).is_limited);
        if let Some(entry) = self.groups.get_mut(group.0) {
            *entry = Group { is_present: true, parent, is_limited, ..Group::ABSENT };
        }
    }

    fn limits_changed(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) {
        let Some(entry) = self.groups.get_mut(group.0).filter(|entry| entry.is_present) else {
            self.violations = self.violations.saturating_add(1);
            return;
        };
        let Ceilings { read, write, total, burst_ns } = limits.ceilings;
        for (pair, ceiling) in [(&mut entry.read, read), (&mut entry.write, write), (&mut entry.total, total)] {
            pair.bytes.set(ceiling.bytes_per_s, now);
            pair.ios.set(ceiling.ios_per_s, now);
        }
        entry.burst_ns = burst_ns;
        self.mark_limited();
        self.settle(group, now);
        self.release(now);
    }

    fn group_removed(&mut self, group: GroupId, _now: Nanos) {
        if !self.lanes.is_empty(group) {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        *self.groups.at_mut(group.0) = Group::ABSENT;
    }

    fn drain(&mut self, _now: Nanos) {
        for group in (0..self.groups.len()).map(GroupId) {
            for lane in Lane::from(Lane::FIRST) {
                while self.lanes.release_own(group, lane).is_some() {}
            }
            self.lanes.clear_rings(group);
            self.disarm(group);
        }
    }

    fn held(&self) -> u32 {
        self.held
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self) -> Result<(), Violation> {
        if self.lanes.count() != self.held {
            return Err(Violation { what: "waiting and held bios are equally many", at: self.held });
        }
        for group in (0..self.groups.len()).map(GroupId) {
            if self.timer_links.is_linked(group.0) && self.lanes.is_empty(group) {
                return Err(Violation { what: "a group has a timer only if bios wait for it", at: group.0 });
            }
        }
        if self.held > 0 && self.timers.is_empty() && !self.lanes.has_released() {
            return Err(Violation { what: "a timer runs while bios wait", at: self.held });
        }
        Ok(())
    }
}

impl Rate {
    #[inline(never)]
    fn submit_by_ceilings(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        let waiting = Waiting {
            group: bio.group,
            bytes: if bio.flags.contains(Flags::BYTES_CHARGED) { 0 } else { charged_bytes(bio) },
            counts: !bio.flags.contains(Flags::IO_CHARGED),
            direction: bio.direction(),
            is_held: true,
            is_released: false,
        };
        if waiting.bytes == 0 && !waiting.counts {
            return Verdict::Pass;
        }
        if !self.lanes.is_free(id.0) {
            self.violations = self.violations.saturating_add(1);
            return Verdict::Pass;
        }
        if !self.lanes.has(bio.group, waiting.lane()) && self.owes_nothing(bio.group, waiting.lane(), now) {
            self.charge(&waiting, now);
            return Verdict::Pass;
        }
        self.lanes.hold(id.0, waiting);
        self.held = self.held.wrapping_add(1);
        self.settle(bio.group, now);
        Verdict::Held
    }

    /// Whether a bio of a lane may go at every level.
    fn owes_nothing(&self, group: GroupId, lane: Lane, now: Nanos) -> bool {
        let mut at = Some(group);
        for _ in 0..DEEPEST {
            let Some(group) = at else { break };
            let entry = self.groups.at(group.0);
            if entry.paid_at(lane) > now {
                return false;
            }
            at = entry.parent;
        }
        true
    }

    /// Charges a bio that goes at every level, after which the groups may be in debt.
    fn charge(&mut self, bio: &Waiting, now: Nanos) {
        let mut at = Some(bio.group);
        for _ in 0..DEEPEST {
            let Some(group) = at else { break };
            let entry = self.groups.at_mut(group.0);
            entry.charge(bio, now);
            at = entry.parent;
            self.offer(group, now);
        }
    }

    /// Releases the bios that may go now, group by group and lane by lane in turn.
    #[inline(never)]
    fn release(&mut self, now: Nanos) {
        // No more bios can go than wait.
        for _ in 0..self.held {
            let Some(bio) = self.release_one(now) else { return };
            let waiting = *self.lanes.at(bio);
            self.charge(&waiting, now);
        }
    }

    /// Finds the bio whose turn it is, from the root down: each group chooses among its lanes that may go
    /// at all levels above.
    // Not inlined: its stack is free again when the bio is charged.
    #[inline(never)]
    fn release_one(&mut self, now: Nanos) -> Option<u32> {
        let mut group = GroupId::ROOT;
        let mut above = u8::MAX;
        for _ in 0..DEEPEST {
            let mut chosen = None;
            let mut open = 0u8;
            for lane in Lane::from(self.groups.at(group.0).turn) {
                if above & lane.bit() == 0 || self.groups.at(group.0).paid_at(lane) > now {
                    continue;
                }
                open |= lane.bit();
                if chosen.is_none() && self.lanes.has(group, lane) {
                    chosen = Some(lane);
                }
            }
            let lane = chosen?;
            above = open;
            self.groups.at_mut(group.0).turn = lane.after(1);
            match self.lanes.next_giver(group, lane)? {
                Giver::Own => return self.lanes.release_own(group, lane),
                Giver::Below(below) => group = below,
            }
        }
        None
    }

    /// A group's lists or debts changed: makes it offer what may go on to the group above, and so on up.
    fn settle(&mut self, group: GroupId, now: Nanos) {
        let mut at = Some(group);
        for _ in 0..DEEPEST {
            let Some(group) = at.filter(|group| self.offer(*group, now)) else { return };
            at = self.groups.at(group.0).parent;
        }
    }

    /// Offers each lane of a group that has bios and owes nothing to the group above, and sets the timer
    /// for the others. True if something changed for the group above.
    fn offer(&mut self, group: GroupId, now: Nanos) -> bool {
        let parent = self.groups.at(group.0).parent;
        let (mut has_changed, mut first) = (false, Nanos::MAX);
        for lane in Lane::from(Lane::FIRST) {
            let has_bios = self.lanes.has(group, lane);
            let paid_at = self.groups.at(group.0).paid_at(lane);
            if has_bios && paid_at > now {
                first = first.min(paid_at);
            }
            if let Some(parent) = parent {
                has_changed |= self.lanes.offer(group, parent, lane, has_bios && paid_at <= now);
            }
        }
        self.disarm(group);
        if first < Nanos::MAX {
            self.timers.insert(&mut self.timer_links, group.0, first);
        }
        has_changed
    }

    #[inline]
    fn disarm(&mut self, group: GroupId) {
        if self.timer_links.is_linked(group.0) {
            self.timers.remove(&mut self.timer_links, group.0);
        }
    }

    /// Computes again which groups have a ceiling, of their own or above.
    #[inline(never)]
    fn mark_limited(&mut self) {
        for index in 0..self.groups.len() {
            let mut at = Some(GroupId(index));
            let mut is_limited = false;
            for _ in 0..DEEPEST {
                let Some(group) = at else { break };
                let entry = self.groups.at(group.0);
                is_limited |= entry.has_ceiling();
                at = entry.parent;
            }
            self.groups.at_mut(index).is_limited = is_limited;
        }
    }
}

/// Bytes charged for a bio: a discard moves no data and counts as one sector.
#[inline]
fn charged_bytes(bio: &Bio) -> u32 {
    match bio.operation {
        Operation::Discard => 512,
        _ => bio.extent.sectors.saturating_mul(512),
    }
}
