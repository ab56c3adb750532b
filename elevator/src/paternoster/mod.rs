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
//! Read `pick.rs` first, then `walker.rs`: how the floor is learned.

mod arrival;
mod cabin;
mod completion;
mod elevator;
mod ladder;
mod log;
mod pick;
mod state;
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
use crate::structures::{Array, Links, List, NIL, NoMemory};
use crate::tunable::{SettingError, Tunable};
use arrival::SPARE_LEAF;
use block::random::Stream;
use block::time::is_due;
use block::{Class, ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use ladder::{Ladder, Way};
use state::{FREE_LEAF, FREE_SLOT, Ghosts, Group, Held, Leaf, Member, Place, ROOT, Slot};
use tally::Tallies;
use tunables::Settings;
use walker::Walker;
use wheel::Chains;

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
    depth: u64,
    hardware_queues: u64,
    /// Tags there are, and tags taken.
    tags: u64,
    tags_taken: u64,
    now: Nanos,

    slots: Array<Slot>,
    /// A slot is in a leaf, in the list of its class, or on the direct list.
    fifo_links: Links,
    direct: List,
    real_time: List,
    real_time_run: u32,
    idle: List,
    /// Best-effort requests by age.
    oldest: List,
    age_links: Links,
    /// Completions until one that is overdue may go.
    until_overdue: u32,

    leaves: Array<Leaf>,
    first_free_leaf: u32,
    /// Leaves, and behind them groups, from this index on.
    members: Array<Member>,
    first_group: u32,
    /// Their virtual times when a disk is used the other way.
    other_vts: Array<u64>,
    chains: Chains,
    groups: Array<Group>,
    tallies: Array<Tallies>,
    /// The sync leaf of an issuer.
    contexts: Array<u32>,

    queued_total: u32,
    inside: u32,
    ghosts: Ghosts,
    generation: u32,
    generation_ns: Nanos,
    /// How long a request stays in the device, a moving average.
    residence_ns: Nanos,
    /// From completion to completion.
    request_ns: Nanos,
    /// Bytes charged in 2^20 ns, a moving average.
    rate: u64,
    charged: u64,
    /// Requests that compete are not merged beyond this.
    merged_bytes: u64,
    /// The farthest that a child of the root went in one request of this window.
    longest_stride: u64,
    completions: u64,
    window_ns: Nanos,
    walker: Walker,
    /// One issuer at a time, or all: where positioning costs time.
    ladder: Ladder,
    /// The leaf that has the device, and since when.
    aboard: u32,
    boarded_ns: Nanos,
    /// Since its first completion; 0 before.
    slice_from_ns: Nanos,
    /// Since when there was something to do that the ladder has not counted.
    busy_from_ns: Nanos,
    jitter: Stream,
    /// Most requests inside, in sixteenths (`lat_us`), and what it follows.
    cap_q4: u64,
    sync_reads: u32,
    late_reads: u32,
    holds: u64,
    injections: u64,

    is_holding: bool,
    hold_until: Option<Nanos>,
    /// Groups passed over in this choice because leaders below them are held back, and the least of their virtual times.
    aside: [u32; ASIDE],
    set_aside_vt: Option<u64>,
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
        let (slots, groups) = (configuration.slots, configuration.groups.max(1));
        let contexts = configuration.contexts.saturating_add(1);
        // One of each issuer, one async of each group; those that nobody sends to any more hold a request each.
        let leaves = contexts.saturating_add(groups).saturating_add(slots).saturating_add(1);
        let members = leaves.saturating_add(groups);
        let depth =
            u64::from(configuration.depth.device).saturating_mul(u64::from(configuration.hardware_queues.max(1)));
        let give = if configuration.rotational { 100 } else { 3 };
        Ok(Self {
            settings: Settings::DEFAULT,
            is_give_set: false,
            is_rotational: configuration.rotational,
            depth,
            hardware_queues: u64::from(configuration.hardware_queues.max(1)),
            tags: u64::from(configuration.depth.requests),
            tags_taken: 0,
            now: 0,
            slots: Array::try_new(slots, FREE_SLOT)?,
            fifo_links: Links::try_new(slots)?,
            direct: List::EMPTY,
            real_time: List::EMPTY,
            real_time_run: 0,
            idle: List::EMPTY,
            oldest: List::EMPTY,
            age_links: Links::try_new(slots)?,
            until_overdue: 0,
            leaves: free_leaves(leaves)?,
            first_free_leaf: if leaves > 1 { SPARE_LEAF + 1 } else { NIL },
            first_group: leaves,
            members: Array::try_new(members, Member::new(ROOT, WEIGHT_DEFAULT))?,
            chains: Chains::try_new(groups.saturating_mul(2), members)?,
            groups: groups_with_root(groups)?,
            tallies: Array::try_new(groups, Tallies::ZERO)?,
            other_vts: Array::try_new(members, 0)?,
            contexts: Array::try_new(contexts, NIL)?,
            queued_total: 0,
            inside: 0,
            ghosts: Ghosts::NONE,
            generation: 0,
            generation_ns: 0,
            residence_ns: 0,
            request_ns: 0,
            rate: 0,
            charged: 0,
            merged_bytes: completion::LEAST_MERGED_BYTES,
            longest_stride: 0,
            completions: 0,
            window_ns: 0,
            walker: Walker::new(give, depth, configuration.rotational),
            ladder: Paternoster::ladder_for(configuration.rotational, 0),
            aboard: NIL,
            boarded_ns: 0,
            slice_from_ns: 0,
            busy_from_ns: 0,
            jitter: Stream::of(configuration.seed, "paternoster"),
            cap_q4: depth.saturating_mul(16),
            sync_reads: 0,
            late_reads: 0,
            holds: 0,
            injections: 0,
            is_holding: false,
            hold_until: None,
            aside: [NIL; ASIDE],
            set_aside_vt: None,
            lead: 0,
            disordered: NIL,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

#[inline(never)]
fn free_leaves(count: u32) -> Result<Array<Leaf>, NoMemory> {
    let mut leaves = Array::try_new(count, FREE_LEAF)?;
    for leaf in SPARE_LEAF + 1..count {
        leaves.at_mut(leaf).next_free = if leaf + 1 < count { leaf + 1 } else { NIL };
    }
    leaves.at_mut(SPARE_LEAF).is_used = true;
    Ok(leaves)
}

#[inline(never)]
fn groups_with_root(count: u32) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(count, Group::unknown(0))?;
    for number in 1..count {
        *groups.at_mut(number) = Group::unknown(number);
    }
    groups.at_mut(ROOT).is_online = true;
    Ok(groups)
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

    fn account_queued(&mut self, entry: &Slot, is_more: bool) {
        let queued = &mut self.tallies.at_mut(entry.group).of(entry.direction, entry.is_sync).queued;
        *queued = if is_more { queued.wrapping_add(1) } else { queued.wrapping_sub(1) };
    }

    /// A queued request leaves its list, and those that are counted.
    #[inline]
    fn take_off_list(&mut self, slot: u32, entry: &Slot) {
        let list = match entry.class {
            Class::RealTime => &mut self.real_time,
            Class::Idle => &mut self.idle,
            Class::BestEffort => &mut self.leaves.at_mut(entry.leaf).fifo,
        };
        let is_out = list.remove(&mut self.fifo_links, slot);
        if entry.class == Class::BestEffort {
            self.oldest.remove(&mut self.age_links, slot);
        }
        self.must(is_out);
        self.account_queued(entry, false);
        self.queued_total = self.queued_total.saturating_sub(1);
    }

    /// A queued request goes without having been chosen: absorbed, or released.
    #[inline(never)]
    fn take_out(&mut self, slot: u32) {
        let entry = *self.slots.at(slot);
        self.take_off_list(slot, &entry);
        self.slots.at_mut(slot).held = Held::Nowhere;
        if entry.class != Class::BestEffort {
            return;
        }
        let mut member = entry.leaf;
        while member != NIL {
            let state = self.members.at_mut(member);
            state.queued = state.queued.saturating_sub(1);
            if state.queued == 0 && state.place == Place::Ready {
                self.seat(member, Place::Wait);
            }
            member = self.parent_member(member);
        }
    }

    fn unbind(&mut self, slot: u32) {
        let leaf = core::mem::replace(&mut self.slots.at_mut(slot).leaf, NIL);
        if leaf != NIL {
            let state = self.leaves.at_mut(leaf);
            state.held = state.held.saturating_sub(1);
            self.recycle_if_unused(leaf);
        }
    }
}
