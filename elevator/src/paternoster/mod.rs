//! paternoster: shares by weight at full throughput; leaders are held back only as far as it costs nothing.
//!
//! Promise  of what the device delivers without a scheduler at most `give` per cent are spent on shares; within that, shares
//!          are as near to the weights as they can be; who asks for less than its share waits for nobody.
//! Cost     expected O(1) for each level of the tree: a chain of 64 slots instead of a sorted set.
//! Fits     flash, and arrays with deep queues; on a single disk its exact mode.
//! Source   specification paternoster.md; start-time fair queueing (Goyal, Vin, Cheng 1996), SFQ(D) (Jin, Chase, Kaur 2004),
//!          MQFQ (Hedayati et al. 2019).
//!
//! insert -> leaf -> chains of the groups above -> pick (lead against the floor) -> host -> completed -> walker
//!
//! Read `pick.rs` first, then `walker/`: how the floor is learned. `sole.rs` is a short cut: one issuer alone needs no order.

mod arrival;
mod cabin;
mod chains;
mod completion;
mod elevator;
mod ladder;
mod lines;
mod log;
mod pick;
mod sole;
mod state;
mod sweep;
mod tags;
mod tally;
mod tree;
mod tunables;
mod walker;
mod wheel;

use crate::account::GroupAccount;
use crate::group::{GroupSettings, WEIGHT_DEFAULT};
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Policy, Position, Side, Version, Violation, Wake,
};
use crate::message::{Message, Messages};
use crate::request::{Bio, Requests};
use crate::structures::{Array, NIL, NoMemory};
use crate::tunable::{SettingError, Tunable};
use arrival::SPARE_LEAF;
use block::random::Stream;
use block::time::is_due;
use block::{Class, ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use cabin::Fare;
use chains::Chains;
use ladder::Ladder;
use lines::{ByAge, ByPlace, Line, Links};
use sole::Sole;
use state::{FREE_SLOT, Ghosts, Group, Held, Member, Place, ROOT, Slot, mark};
use sweep::Sweeps;
use tally::Tallies;
use tunables::Settings;
use walker::Walker;

crate::reasons! {
    /// Why a request was chosen, or what the device waits for.
    pub enum Why {
        FirstInOrder = "first in order",
        LetIn = "leader let in",
        RealTime = "real time",
        Idle = "nobody else",
        Overdue = "overdue",
        HeadInsert = "put in front",
        WaitsForLaggard = "waits for a laggard",
        Aboard = "aboard",
    }
}

/// Groups below which leaders are held back are passed over, up to so many in one choice.
const ASIDE: usize = 4;

/// The policy's state.
#[derive(Debug)]
pub struct Paternoster {
    settings: Settings,
    /// Until `give` is set it goes by the device.
    is_give_set: bool,
    is_rotational: bool,
    /// Requests take the short ways, [`Self::insert_usual`] and [`Self::choose_in_order`], unless something else stands against it.
    is_plain: bool,
    depth: u64,
    hardware_queues: u32,
    /// Tags there are, and tags taken.
    tags: u32,
    tags_taken: u32,
    now: Nanos,

    slots: Array<Slot>,
    /// Of the same requests.
    links: Array<Links>,
    direct: Line,
    real_time: Line,
    real_time_run: u32,
    idle: Line,
    /// In the lines of these two classes.
    queued_of_classes: u32,
    /// Best-effort requests by age; before this time none of them goes out of order because of it.
    oldest: Line,
    overdue_from_ns: Nanos,
    /// Completions until one that is overdue may go.
    until_overdue: u8,

    first_free_leaf: u32,
    /// Leaves, and behind them groups, from this index on.
    members: Array<Member>,
    first_group: u32,
    /// Their virtual times when a disk is used the other way.
    other_vts: Array<u64>,
    chains: Chains,
    groups: Array<Group>,
    tallies: Tallies,
    /// The sync leaf of an issuer.
    contexts: Array<u32>,

    queued_total: u32,
    inside: u32,
    ghosts: Ghosts,
    generation: u32,
    generation_ns: Nanos,
    generation_ends_ns: Nanos,
    /// How long a request stays in the device, a moving average.
    residence_ns: Nanos,
    /// From completion to completion.
    request_ns: Nanos,
    /// Bytes charged in 2^20 ns, a moving average.
    rate: u64,
    charged: u64,
    /// Requests that compete are not merged beyond this.
    merged_bytes: u64,
    /// The farthest that a child of the root went in one request of late.
    longest_stride: u64,
    completions: u32,
    window_ns: Nanos,
    /// Before this time neither a window nor an epoch ends.
    look_ns: Nanos,
    walker: Walker,
    /// One issuer at a time, or all: where positioning costs time.
    ladder: Ladder,
    sole: Sole,
    /// The leaf that has the device, and since when.
    aboard: u32,
    boarded_ns: Nanos,
    /// Nothing in them where positioning costs nothing.
    sweeps: Sweeps,
    fare: Fare,
    /// Since its first completion; 0 before.
    slice_from_ns: Nanos,
    /// Since when there was something to do that the ladder has not counted.
    busy_from_ns: Nanos,
    jitter: Stream,
    /// Most requests inside, in sixteenths (`lat_us`), and what it follows.
    cap_q4: u64,
    sync_reads: u32,
    late_reads: u32,

    is_holding: bool,
    hold_until: Option<Nanos>,
    /// Groups passed over in this choice because leaders below them are held back, and the virtual time of the first of these, which is the least.
    aside: [u32; ASIDE],
    aside_vt: u64,
    /// By how much the last choice at the root was ahead.
    lead: u64,
    /// A group with a wheel that has to be put in order, or NIL.
    disordered: u32,
    messages: Messages,
    violations: u32,
}

impl Policy for Paternoster {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(6, 12, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let (slots, contexts, groups) = (configuration.slots, configuration.contexts, configuration.groups.max(1));
        // One of each issuer, one async of each group; those that nobody sends to any more hold a request each.
        let leaves = contexts.saturating_add(groups).saturating_add(slots).saturating_add(2);
        let members = leaves.saturating_add(groups);
        let hardware_queues = u32::from(configuration.hardware_queues.max(1));
        let depth = u64::from(configuration.depth.device).saturating_mul(u64::from(hardware_queues));
        Ok(Self {
            settings: Settings::DEFAULT,
            is_give_set: false,
            is_rotational: configuration.rotational,
            is_plain: !configuration.rotational,
            depth,
            hardware_queues,
            tags: configuration.depth.requests,
            tags_taken: 0,
            now: 0,
            slots: Array::try_new(slots, FREE_SLOT)?,
            links: Array::try_new(slots, Links::NONE)?,
            direct: Line::EMPTY,
            real_time: Line::EMPTY,
            real_time_run: 0,
            idle: Line::EMPTY,
            queued_of_classes: 0,
            oldest: Line::EMPTY,
            overdue_from_ns: 0,
            until_overdue: 0,
            first_free_leaf: if leaves > 1 { SPARE_LEAF + 1 } else { NIL },
            first_group: leaves,
            members: with_root(free_members(members)?, leaves),
            chains: Chains::try_new(groups.saturating_mul(2), members)?,
            groups: by_number(groups_alike(groups)?, members),
            tallies: Tallies::try_new(groups)?,
            other_vts: Array::try_new(members, 0)?,
            contexts: Array::try_new(contexts.saturating_add(1), NIL)?,
            queued_total: 0,
            inside: 0,
            ghosts: Ghosts::NONE,
            generation: 0,
            generation_ns: 0,
            generation_ends_ns: 0,
            residence_ns: 0,
            request_ns: 0,
            rate: 0,
            charged: 0,
            merged_bytes: completion::LEAST_MERGED_BYTES,
            longest_stride: 0,
            completions: 0,
            window_ns: 0,
            look_ns: 0,
            walker: Walker::new(if configuration.rotational { 100 } else { 3 }, depth, configuration.rotational),
            ladder: Paternoster::ladder_for(configuration.rotational, 0),
            sole: Sole::NOBODY,
            aboard: NIL,
            boarded_ns: 0,
            sweeps: Sweeps::try_new(configuration.rotational, slots, leaves)?,
            fare: Fare::FIRST,
            slice_from_ns: 0,
            busy_from_ns: 0,
            jitter: Stream::of(configuration.seed, "paternoster"),
            cap_q4: depth.saturating_mul(16),
            sync_reads: 0,
            late_reads: 0,
            is_holding: false,
            hold_until: None,
            aside: [NIL; ASIDE],
            aside_vt: 0,
            lead: 0,
            disordered: NIL,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

/// Apart from [`with_root`], so that their stacks are not added.
#[inline(never)]
fn free_members(count: u32) -> Result<Array<Member>, NoMemory> {
    Array::try_new(count, Member::new(ROOT, WEIGHT_DEFAULT))
}

/// Leaves, all free but the spare one, and behind them groups, of which only the root is there.
#[inline(never)]
fn with_root(mut members: Array<Member>, leaves: u32) -> Array<Member> {
    for leaf in SPARE_LEAF + 1..leaves {
        members.at_mut(leaf).line = Line::next_free(if leaf + 1 < leaves { leaf + 1 } else { NIL });
    }
    members.at_mut(SPARE_LEAF).marks = mark::USED;
    members.at_mut(leaves.saturating_add(ROOT)).marks = mark::ONLINE;
    members
}

#[inline(never)]
fn groups_alike(count: u32) -> Result<Array<Group>, NoMemory> {
    Array::try_new(count, Group::numbered(0, ROOT, 0))
}

#[inline(never)]
fn by_number(mut groups: Array<Group>, members: u32) -> Array<Group> {
    for number in 0..groups.len() {
        *groups.at_mut(number) = Group::numbered(number, ROOT, members);
    }
    groups
}

impl Paternoster {
    #[cold]
    #[inline(never)]
    fn complain(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    #[inline]
    fn must(&mut self, holds: bool) {
        if !holds {
            self.complain();
        }
    }

    #[inline]
    fn give(&self) -> u64 {
        match (self.is_give_set, self.is_rotational) {
            (false, true) => 100,
            _ => self.settings.give.unsigned_abs(),
        }
    }

    /// Flash, all at once for good, and nobody who wants to be told.
    fn has_nothing_special(&self) -> bool {
        !self.is_rotational && self.ladder.is_flow_for_good() && !self.messages.is_on()
    }

    const fn depth_q4(&self) -> u64 {
        self.depth.saturating_mul(16)
    }

    fn holds_request(&self, id: RequestId, held: Held) -> bool {
        let slot = self.slots.at(id.slot());
        slot.id == id && slot.held == held
    }

    fn wake_up(&mut self) -> Wake {
        (self.is_holding, self.hold_until) = (false, None);
        Wake::All
    }

    /// A queued request goes without having been chosen: absorbed, or released.
    #[inline(never)]
    fn take_out(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Nowhere;
        let (leaf, tally, class) = (entry.leaf, entry.tally, entry.class);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_sub(1);
        self.queued_total = self.queued_total.saturating_sub(1);
        if class != Class::BestEffort {
            self.unlink_of_class(class, slot);
            return;
        }
        let Links { place, age } = *self.links.at(slot);
        self.members.at_mut(leaf).line.unlink::<ByPlace>(&mut self.links, slot, place);
        if self.is_rotational {
            self.sweeps.remove(leaf, slot);
        }
        self.oldest.unlink::<ByAge>(&mut self.links, slot, age);
        let mut member = leaf;
        while member != NIL {
            let state = self.members.at_mut(member);
            state.queued = state.queued.saturating_sub(1);
            if state.queued == 0 && state.place() == Place::Ready {
                self.seat(member, Place::Wait);
            }
            member = self.parent_member(member);
        }
    }

    /// A request of one of the classes that have a line each leaves it.
    fn unlink_of_class(&mut self, class: Class, slot: u32) {
        let line = if class == Class::RealTime { &mut self.real_time } else { &mut self.idle };
        let place = self.links.at(slot).place;
        line.unlink::<ByPlace>(&mut self.links, slot, place);
        self.queued_of_classes = self.queued_of_classes.saturating_sub(1);
    }

    #[inline]
    fn unbind(&mut self, slot: u32) {
        let leaf = core::mem::replace(&mut self.slots.at_mut(slot).leaf, NIL);
        self.let_go(leaf);
    }

    /// A request less is its leaf's.
    #[inline(always)]
    fn let_go(&mut self, leaf: u32) {
        let Some(state) = self.members.get_mut(leaf) else { return };
        // A request that has a leaf is counted there.
        state.held = state.held.wrapping_sub(1);
        if !state.is(mark::OWNED | mark::ASYNC) {
            self.recycle_if_unused(leaf);
        }
    }
}
