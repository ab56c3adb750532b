//! tarasov: each group has the device for a turn, in which only its queues are served; groups go in
//! round robin, or (in the later form) by virtual time.
//!
//! Promise  always backlogged groups share time by level, 7 the highest: as level + 1 (`mapping`
//!          lkml2008), from 1 to 2 (openvz), or by the table of ratios, also from 1 to 2 (the form
//!          by virtual time). The device is never idled for a group: one with nothing queued and
//!          nothing in flight loses its turn.
//! Source   Vasily Tarasov, "cgroups: block: cfq", linux-kernel, 2008-03-21; OpenVZ's
//!          kernel/bc/io_prio.c of the 2.6.18 and later lines;
//!          docs/specifications/cfq.md, section 15.1.

use super::{GROUP_LEVELS, PerGroup, Profile, Turn, must, rows_with};
use crate::cfq::Cfq;
use crate::cfq::profile::Splits;
use crate::cfq::tunables::{MOST, ROWS_FIRST, Ticks};
use crate::group::GroupPriority;
use crate::interface::{Form, Version, Violation};
use crate::structures::{Array, NIL, NoMemory, SortedLinks, Tree};
use crate::tunable::{OutOfRange, Tunable, Unit};
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Level of a group without one.
const DEFAULT_LEVEL: u8 = 4;

/// The advance of a group's virtual time per tick of service, by level.
const RATIOS: [u64; GROUP_LEVELS] = [100, 87, 77, 70, 63, 58, 53, 50];
const LKML_SLICE_NS: Nanos = 100 * MILLISECOND;
const OPENVZ_SLICE_NS: Nanos = 500 * MILLISECOND;

/// The virtual time of a group that returns may differ from the largest one served by at most a
/// slice of level 0, whose ratio this is.
const REACH_RATIO: u64 = 100;

/// Which group is next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// The one that has waited longest; levels determine the slices.
    RoundRobin,
    /// The one with the least virtual time; all slices have the same length.
    VirtualTime,
}

/// How levels map to slices in round robin.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mapping {
    /// CFQ's own formula inverted, with 4 in the middle: slices as level + 1.
    Lkml2008,
    /// From once to twice the base slice.
    OpenVz,
}

const MAPPING_ROW: Tunable = Tunable {
    name: "mapping",
    unit: Unit::Choice(&["lkml2008", "openvz"]),
    min: 0,
    max: 1,
    default: Some(0),
    out_of_range: OutOfRange::Refuse,
    doc: "How a level determines the share: level + 1 as in the report of 2008, or a slice of once to twice the \
        base as in OpenVZ.",
};

const SLICE_ROW: Tunable = Tunable {
    name: "group_slice",
    unit: Unit::Milliseconds,
    min: 1,
    max: MOST,
    default: None,
    out_of_range: OutOfRange::Clamp,
    doc: "Slice of a group of level 4 (lkml2008, default 100), of level 0 (openvz, default 500), or of all (by virtual time, 500).",
};

const fn switch(name: &'static str, doc: &'static str) -> Tunable {
    let (min, max, default) = (0, 1, Some(1));
    Tunable { name, unit: Unit::Boolean, min, max, default, out_of_range: OutOfRange::Clamp, doc }
}

const VIRT_ROW: Tunable =
    switch("virt_mode", "Whether sync requests belong to the groups of their issuers; 0 = all to the root group.");
const WRITE_VIRT_ROW: Tunable =
    switch("write_virt_mode", "Whether each group has async queues of its own; 0 = all async requests are the root's.");

/// A tunable of the layer.
#[derive(Copy, Clone)]
enum Row {
    GroupSlice,
    Mapping,
    VirtMode,
    WriteVirtMode,
}

const ROWS_ROUND: [Tunable; ROWS_FIRST.len() + 4] = rows_with([SLICE_ROW, MAPPING_ROW, VIRT_ROW, WRITE_VIRT_ROW]);
const ROWS_VIRTUAL: [Tunable; ROWS_FIRST.len() + 3] = rows_with([SLICE_ROW, VIRT_ROW, WRITE_VIRT_ROW]);

/// The tunable with this number, counted from the layer's first.
const fn row(kind: Order, number: usize) -> Option<Row> {
    match (number, kind) {
        (0, _) => Some(Row::GroupSlice),
        (1, Order::RoundRobin) => Some(Row::Mapping),
        (2, Order::RoundRobin) | (1, Order::VirtualTime) => Some(Row::VirtMode),
        (3, Order::RoundRobin) | (2, Order::VirtualTime) => Some(Row::WriteVirtMode),
        _ => None,
    }
}

/// The slice of a level.
const fn group_slice(mapping: Mapping, base: u64, level: u8) -> u64 {
    let level = if level > 7 { 7 } else { level as u64 };
    match mapping {
        Mapping::Lkml2008 => (base / 5).saturating_mul(level + 1),
        Mapping::OpenVz => base.saturating_add(base.saturating_mul(level) / 7),
    }
}

#[derive(Copy, Clone, Debug)]
struct State {
    level: u8,
    /// Ticks of service so far, each weighted by the ratio of its level.
    virtual_time: u64,
}

const NEW: State = State { level: DEFAULT_LEVEL, virtual_time: 0 };

/// The list of groups with requests.
#[derive(Debug)]
pub struct Layer {
    kind: Order,
    mapping: Mapping,
    /// The base slice; 0: the mapping's own.
    base_ticks: u64,
    splits: Splits,
    groups: Array<State>,
    links: SortedLinks,
    /// Groups by turn number, or by virtual time.
    order: Tree,
    /// The last turn number assigned, or the largest virtual time ever served.
    position: u64,
    active: u32,
    slice_end_ticks: u64,
    active_since_ns: Nanos,
}

impl Layer {
    fn base(&self, ticks: &Ticks) -> u64 {
        match (self.base_ticks, self.kind, self.mapping) {
            (0, Order::RoundRobin, Mapping::Lkml2008) => ticks.round_up(LKML_SLICE_NS),
            (0, ..) => ticks.round_up(OPENVZ_SLICE_NS),
            (given, ..) => given,
        }
    }

    fn slice(&self, group: u32, ticks: &Ticks) -> u64 {
        let base = self.base(ticks);
        match self.kind {
            Order::RoundRobin => group_slice(self.mapping, base, self.groups.at(group).level),
            Order::VirtualTime => base,
        }
    }

    /// Links a group at the end, or at its virtual time.
    fn link(&mut self, group: u32) {
        let key = match self.kind {
            Order::RoundRobin => {
                self.position = self.position.wrapping_add(1);
                self.position
            }
            Order::VirtualTime => self.groups.at(group).virtual_time,
        };
        self.order.insert(&mut self.links, group, key);
    }

    /// A group got its first request.
    #[inline(never)]
    fn enter(&mut self, group: u32, ticks: &Ticks) {
        if self.kind == Order::VirtualTime {
            // A group whose virtual time is far behind the others' would keep the device for long,
            // and one far ahead would starve; in both cases the virtual time is reset.
            let (reach, position) = (self.base(ticks).saturating_mul(REACH_RATIO), self.position);
            let state = self.groups.at_mut(group);
            if state.virtual_time.abs_diff(position) > reach {
                state.virtual_time = position;
            }
        }
        self.link(group);
    }

    /// Charges the active group for its turn.
    fn charge(&mut self, engine: &Cfq) {
        if self.kind != Order::VirtualTime || self.active == NIL {
            return;
        }
        let used = engine.clock.now().saturating_sub(engine.clock.ticks().at(self.active_since_ns));
        let state = self.groups.at_mut(self.active);
        let ratio = RATIOS.get(usize::from(state.level)).copied().unwrap_or(1);
        state.virtual_time = state.virtual_time.saturating_add(used.saturating_mul(ratio));
        if self.links.is_linked(self.active) {
            self.order.remove(&mut self.links, self.active);
            self.link(self.active);
        }
    }

    /// Starts the next group's turn; the engine's active queue is expired.
    #[inline(never)]
    fn pick(&mut self, engine: &mut Cfq) {
        super::Layer::interrupt(self, engine);
        engine.expire_active();
        let Some(group) = self.order.first() else { return };
        match self.kind {
            // The group is moved to the end at once, so that what happens during its turn cannot
            // change its position.
            Order::RoundRobin => {
                self.order.remove(&mut self.links, group);
                self.link(group);
            }
            Order::VirtualTime => self.position = self.position.max(self.groups.at(group).virtual_time),
        }
        engine.group_begins(group);
        (self.active, self.active_since_ns) = (group, engine.clock.now_ns());
        self.slice_end_ticks = engine.clock.now().saturating_add(self.slice(group, engine.clock.ticks()));
    }
}

impl super::Layer for Layer {
    type Profile = Order;
    const FORMS: &'static [Form<Order>] = &[
        Form { since: Version(2, 6, 18), profile: Order::VirtualTime },
        Form { since: Version(2, 6, 25), profile: Order::RoundRobin },
    ];
    const DEFAULT_FORM: usize = 1;
    const ENGINE: &'static Profile = &Profile::first_in_groups(PerGroup::Trees);

    fn try_new(groups: u32, _ticks: &Ticks, kind: Order) -> Result<Self, NoMemory> {
        Ok(Self {
            kind,
            mapping: Mapping::Lkml2008,
            base_ticks: 0,
            splits: Splits { sync: true, asynchronous: true },
            groups: Array::try_new(groups, NEW)?,
            links: SortedLinks::try_new(groups)?,
            order: Tree::EMPTY,
            position: 0,
            active: NIL,
            slice_end_ticks: 0,
            active_since_ns: 0,
        })
    }

    fn rows(&self) -> &'static [Tunable] {
        match self.kind {
            Order::RoundRobin => &ROWS_ROUND,
            Order::VirtualTime => &ROWS_VIRTUAL,
        }
    }

    fn setting(&self, number: usize, ticks: &Ticks) -> Option<i64> {
        match row(self.kind, number)? {
            Row::GroupSlice => i64::try_from(ticks.ns(self.base(ticks)) / MILLISECOND).ok(),
            Row::Mapping => Some(i64::from(self.mapping == Mapping::OpenVz)),
            Row::VirtMode => Some(i64::from(self.splits.sync)),
            Row::WriteVirtMode => Some(i64::from(self.splits.asynchronous)),
        }
    }

    fn set(&mut self, number: usize, value: i64, ticks: &Ticks) {
        match row(self.kind, number) {
            Some(Row::GroupSlice) => {
                self.base_ticks = ticks.round_up(value.unsigned_abs().saturating_mul(MILLISECOND));
            }
            Some(Row::Mapping) => self.mapping = if value == 0 { Mapping::Lkml2008 } else { Mapping::OpenVz },
            Some(Row::VirtMode) => self.splits.sync = value != 0,
            Some(Row::WriteVirtMode) => self.splits.asynchronous = value != 0,
            None => {}
        }
    }

    fn splits(&self) -> Splits {
        self.splits
    }

    fn set_priority(&mut self, group: u32, priority: Option<GroupPriority>) {
        self.groups.at_mut(group).level = priority.map_or(DEFAULT_LEVEL, GroupPriority::level);
    }

    fn active(&self) -> u32 {
        self.active
    }

    #[inline]
    fn settle(&mut self, engine: &Cfq, group: u32) {
        let (is_linked, is_wanted) = (self.links.is_linked(group), engine.queued_in(group) > 0);
        if is_wanted && !is_linked {
            self.enter(group, engine.clock.ticks());
        } else if !is_wanted && is_linked {
            self.order.remove(&mut self.links, group);
        }
    }

    fn turn(&mut self, engine: &mut Cfq) -> Turn {
        if engine.load.requests() == 0 {
            return Turn::NoGroup;
        }
        let has_no_work = || engine.queued_in(self.active) == 0 && engine.groups.at(self.active).dispatched == 0;
        let is_over = self.active == NIL || engine.clock.now() > self.slice_end_ticks || has_no_work();
        if is_over {
            self.pick(engine);
        }
        match self.active {
            NIL => Turn::NoGroup,
            active if engine.queued_in(active) == 0 => Turn::Wait,
            _ => Turn::Serve { is_new: is_over },
        }
    }

    fn interrupt(&mut self, engine: &mut Cfq) {
        if self.active != NIL {
            self.charge(engine);
            engine.group_ends(self.active, self.active_since_ns);
            engine.expire_active();
            self.active = NIL;
        }
    }

    fn completed(&mut self, _engine: &mut Cfq, _group: u32) {}

    fn renew(&mut self, engine: &mut Cfq, group: u32) {
        if self.links.is_linked(group) {
            self.order.remove(&mut self.links, group);
        }
        if group == self.active {
            super::Layer::interrupt(self, engine);
        }
        *self.groups.at_mut(group) = NEW;
    }

    fn check(&self, engine: &Cfq) -> Result<(), Violation> {
        for group in 0..self.groups.len() {
            let is_wanted = engine.queued_in(group) > 0;
            must(self.links.is_linked(group) == is_wanted, "the groups with requests are in the list", group)?;
        }
        let owner = engine.queues.at(engine.engine.active).group;
        let is_draining = self.active == NIL;
        must(
            engine.engine.active == NIL || owner == self.active || is_draining,
            "the active queue belongs to the active group",
            engine.engine.active,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_levels_by_mapping() {
        let slices = |mapping, base| [0, 1, 2, 3, 4, 5, 6, 7].map(|level| group_slice(mapping, base, level));
        assert_eq!(slices(Mapping::Lkml2008, 100), [20, 40, 60, 80, 100, 120, 140, 160]);
        assert_eq!(slices(Mapping::OpenVz, 500), [500, 571, 642, 714, 785, 857, 928, 1000]);
    }
}
