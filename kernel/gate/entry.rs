//! Entry points for the object gate that belong to no single policy: construction, the tables, the
//! data structures.
//!
//! Compiled only by `kernel/gate/run`, which adds one entry point per policy or limiter and event
//! method. An entry named `build` or `drop` may allocate, others may not. Results are stored
//! through a pointer, so that nothing is optimised away.
#![no_std]

use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use core::mem::MaybeUninit;
use hoistway_elevator::registry::{self, Any, BuildError};
use hoistway_elevator::structures::{Bitmap, Heap, Links, List, NoMemory, SortedLinks, Tree};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{
    Admission, Attributes, Bio, BioId, Configuration, Depth, Dispatch, Elevator, GroupAccount, GroupSettings, GroupTree, IoLimits,
    Limiter, LimiterConfiguration, LimiterPolicy, Merge, MergeSearch, Message, Place, Position, RequestEnd, Requests,
    Side, Verdict, Version, Wake,
};

include!(env!("GATE_POLICIES"));

/// Name, version and configuration of a policy to build.
pub struct Order<'a> {
    name: &'a str,
    version: Option<Version>,
    configuration: Configuration,
}

#[unsafe(export_name = "policy.build")]
pub extern "C" fn policy_build(order: &Order, out: &mut MaybeUninit<Result<Any, BuildError>>) {
    out.write(registry::build(order.name, order.version, &order.configuration));
}

#[unsafe(export_name = "policy.drop")]
pub extern "C" fn policy_drop(policy: Any) {
    drop(policy);
}

// ---- additional methods of single limiters ----

#[unsafe(export_name = "io-latency.delay_ns")]
pub extern "C" fn io_latency_delay_ns(limiter: &mut hoistway_elevator::io_latency::IoLatency, group: GroupId, now: Nanos) -> Nanos {
    limiter.delay_ns(group, now)
}

#[unsafe(export_name = "wbt.dirty_throttled")]
pub extern "C" fn wbt_dirty_throttled(limiter: &mut hoistway_elevator::wbt::Wbt, now: Nanos) {
    limiter.dirty_throttled(now);
}

#[unsafe(export_name = "wbt.default_changed")]
pub extern "C" fn wbt_default_changed(limiter: &mut hoistway_elevator::wbt::Wbt, is_on: bool, now: Nanos) {
    if is_on { limiter.enable_default(now) } else { limiter.disable_default(now) }
}

// ---- the table of requests ----

#[unsafe(export_name = "requests.build")]
pub extern "C" fn requests_build(slots: u32, out: &mut MaybeUninit<Result<Requests, NoMemory>>) {
    out.write(Requests::try_new(slots));
}

#[unsafe(export_name = "requests.drop")]
pub extern "C" fn requests_drop(requests: Requests) {
    drop(requests);
}

#[unsafe(export_name = "requests.allocate")]
pub extern "C" fn requests_allocate(requests: &mut Requests, bio: &Attributes, now: Nanos) -> u32 {
    requests.allocate(*bio, now).map_or(hoistway_block::NIL, RequestId::raw)
}

#[unsafe(export_name = "requests.change")]
pub extern "C" fn requests_change(requests: &mut Requests, id: RequestId, place: Place, bio: &Attributes) {
    requests.move_to(id, place);
    if let Some(request) = requests.live_mut(id) {
        request.attributes = *bio;
    }
}

#[unsafe(export_name = "requests.read")]
pub extern "C" fn requests_read(requests: &Requests, slot: u32, out: &mut MaybeUninit<Attributes>) {
    if let Some(id) = requests.id_of(slot) {
        out.write(*requests.attributes(id));
    }
}

#[unsafe(export_name = "requests.free")]
pub extern "C" fn requests_free(requests: &mut Requests, id: RequestId) {
    requests.free(id);
}

// ---- the tree of groups ----

#[unsafe(export_name = "groups.build")]
pub extern "C" fn groups_build(groups: u32, out: &mut MaybeUninit<Result<GroupTree, NoMemory>>) {
    out.write(GroupTree::try_new(groups));
}

#[unsafe(export_name = "groups.drop")]
pub extern "C" fn groups_drop(groups: GroupTree) {
    drop(groups);
}

#[unsafe(export_name = "groups.change")]
pub extern "C" fn groups_change(groups: &mut GroupTree, group: GroupId, settings: &GroupSettings) -> bool {
    groups.add(group, settings) | groups.change(group, settings)
}

#[unsafe(export_name = "groups.leave")]
pub extern "C" fn groups_leave(groups: &mut GroupTree, group: GroupId) -> u32 {
    if groups.set_offline(group) | groups.remove_if_unused(group) { 0 } else { groups.nearest_online(group).0 }
}

// ---- data structures: each operation, whether a policy uses it or not ----

/// One of each data structure.
pub struct Structures {
    links: Links,
    list: List,
    nodes: SortedLinks,
    tree: Tree,
    heap: Heap,
    bitmap: Bitmap,
}

#[unsafe(export_name = "structures.build")]
pub extern "C" fn structures_build(slots: u32, out: &mut MaybeUninit<Result<Structures, NoMemory>>) {
    let build = || {
        Ok(Structures {
            links: Links::try_new(slots)?,
            list: List::EMPTY,
            nodes: SortedLinks::try_new(slots)?,
            tree: Tree::EMPTY,
            heap: Heap::try_new(slots)?,
            bitmap: Bitmap::try_new(slots)?,
        })
    };
    out.write(build());
}

#[unsafe(export_name = "structures.drop")]
pub extern "C" fn structures_drop(structures: Structures) {
    drop(structures);
}

#[unsafe(export_name = "structures.list_put")]
pub extern "C" fn list_put(s: &mut Structures, slot: u32, anchor: u32) -> bool {
    s.list.push_back(&mut s.links, slot)
        | s.list.push_front(&mut s.links, slot)
        | s.list.insert_after(&mut s.links, anchor, slot)
        | s.list.insert_before(&mut s.links, anchor, slot)
}

#[unsafe(export_name = "structures.list_take")]
pub extern "C" fn list_take(s: &mut Structures, slot: u32) -> bool {
    let ends = (s.list.pop_front(&mut s.links), s.list.pop_back(&mut s.links));
    s.list.remove(&mut s.links, slot) | (ends.0 == ends.1)
}

#[unsafe(export_name = "structures.list_walk")]
pub extern "C" fn list_walk(s: &Structures) -> u32 {
    s.list.iter(&s.links).fold(0, |sum, slot| sum ^ slot)
}

#[unsafe(export_name = "structures.tree_insert")]
pub extern "C" fn tree_insert(s: &mut Structures, slot: u32, key: u64) -> bool {
    s.tree.insert(&mut s.nodes, slot, key)
}

#[unsafe(export_name = "structures.tree_remove")]
pub extern "C" fn tree_remove(s: &mut Structures, slot: u32) -> bool {
    s.tree.remove(&mut s.nodes, slot)
}

#[unsafe(export_name = "structures.tree_find")]
pub extern "C" fn tree_find(s: &Structures, key: u64) -> u32 {
    let found = s.tree.lower_bound(&s.nodes, key).or(s.tree.find_exact(&s.nodes, key)).or(s.tree.first());
    found.and_then(|slot| s.nodes.next(slot).or(s.nodes.prev(slot))).or(s.tree.last()).unwrap_or(hoistway_block::NIL)
}

#[unsafe(export_name = "structures.heap_put")]
pub extern "C" fn heap_put(s: &mut Structures, id: u32, key: u64) -> bool {
    s.heap.push(id, key) | s.heap.replace_min(id, key).is_some()
}

#[unsafe(export_name = "structures.heap_update")]
pub extern "C" fn heap_update(s: &mut Structures, id: u32, key: u64) -> bool {
    s.heap.update(id, key) | s.heap.key(id).is_some()
}

#[unsafe(export_name = "structures.heap_take")]
pub extern "C" fn heap_take(s: &mut Structures, id: u32) -> bool {
    s.heap.remove(id) | s.heap.pop_min().is_some()
}

#[unsafe(export_name = "structures.bitmap_change")]
pub extern "C" fn bitmap_change(s: &mut Structures, bit: u32) -> bool {
    s.bitmap.set(bit) | s.bitmap.clear(bit.wrapping_add(1))
}

#[unsafe(export_name = "structures.bitmap_find")]
pub extern "C" fn bitmap_find(s: &Structures, from: u32) -> u32 {
    s.bitmap.next_set_from(from).or(s.bitmap.first_set()).unwrap_or(hoistway_block::NIL)
}
