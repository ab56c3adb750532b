//! A constant number of backlogged issuers in groups: an issuer submits again when it has been
//! served.

use crate::spec::Spec;
use hoistway_block::random::Stream;
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId};
use hoistway_elevator::{Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Place, Requests};
use std::collections::VecDeque;

/// Time per turn, so that shares and deadlines advance: a device of 100,000 requests per second.
pub(crate) const STEP_NS: Nanos = 10_000;

/// A policy with a constant number of backlogged issuers in groups of different weight: an issuer
/// submits again when it has been served. A turn takes 10 us, so that slices expire and groups
/// alternate; each issuer has a given number of random 4 KiB reads outstanding.
#[derive(Debug)]
pub struct GroupedLoad<E = Any> {
    policy: E,
    requests: Requests,
    sectors: Vec<u64>,
    turns: usize,
    now: Nanos,
    in_flight: VecDeque<RequestId>,
    depth: usize,
}

/// The load's issuers, groups and outstanding reads. The device takes 32 requests, or the number in
/// flight if that is larger.
#[derive(Copy, Clone, Debug)]
pub struct LoadShape {
    /// Issuers, each with a context of its own.
    pub issuers: u32,
    /// Groups, to which the issuers are assigned in rotation.
    pub groups: u32,
    /// Reads of each issuer, queued or in flight.
    pub outstanding: u32,
    /// Requests in flight, at least one.
    pub in_flight: u32,
}

impl LoadShape {
    /// Two reads of each issuer, and one request in flight in total: every issuer stays backlogged
    /// while one is served.
    pub const fn of_two(issuers: u32, groups: u32) -> Self {
        Self { issuers, groups, outstanding: 2, in_flight: 1 }
    }

    const fn slots(&self) -> u32 {
        self.outstanding * self.issuers + 8
    }
}

impl GroupedLoad<Any> {
    /// The policy with this name, version and settings, as in [`crate::Testbed::new`].
    ///
    /// # Panics
    /// If there is no such policy, version or tunable.
    pub fn new(spec: &str, issuers: u32, groups: u32) -> Self {
        let shape = LoadShape::of_two(issuers, groups);
        Self::of(Self::policy(false, spec, shape), shape)
    }

    /// As [`Self::new`], on a device where positioning costs time.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn on_disk(spec: &str, issuers: u32, groups: u32) -> Self {
        let shape = LoadShape::of_two(issuers, groups);
        Self::of(Self::policy(true, spec, shape), shape)
    }

    /// A policy with room for such a load.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn policy(rotational: bool, spec: &str, shape: LoadShape) -> Any {
        let slots = shape.slots();
        let configuration = Configuration {
            slots,
            rotational,
            contexts: shape.issuers + 1,
            groups: shape.groups + 1,
            depth: Depth { requests: slots, device: shape.in_flight.max(32) },
            ..Configuration::default()
        };
        Spec::parse(spec).build(&configuration)
    }
}

impl<E: Elevator> GroupedLoad<E> {
    /// A load on a policy from [`GroupedLoad::policy`], as an `Any` or as its own type.
    ///
    /// # Panics
    /// If no request is to be in flight.
    pub fn of(policy: E, shape: LoadShape) -> Self {
        let LoadShape { issuers, groups, outstanding, in_flight } = shape;
        assert!(in_flight > 0, "at least one request is in flight");
        let depth = in_flight as usize;
        let mut random = Stream::new(7);
        let mut load = Self {
            policy,
            requests: Requests::try_new(shape.slots()).expect("memory"),
            sectors: (0..4096).map(|_| random.next() >> 30).collect(),
            turns: 0,
            now: 0,
            in_flight: VecDeque::with_capacity(depth + 1),
            depth,
        };
        for group in 1..=groups {
            load.policy.group_added(GroupId(group), &GroupSettings::with_weight(100 + group), 0);
        }
        for ask in 0..outstanding * issuers {
            let issuer = ask % issuers;
            load.ask(GroupId(1 + issuer % groups), ContextId(issuer));
        }
        load
    }

    fn ask(&mut self, group: GroupId, issuer: ContextId) {
        // The number of sectors is a power of two, so that choosing the next costs a mask.
        let first_sector = self.sectors[self.turns % 4096];
        self.turns += 1;
        let mut bio = Attributes::new(Operation::Read, Extent::new(first_sector, 8));
        (bio.context, bio.group) = (issuer, group);
        let id = self.requests.allocate_queued(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        let _ = self.policy.insert_new(&self.requests, id, &bio, self.now);
    }

    /// Chooses and starts one request, completes the oldest one in flight, and submits another for
    /// its issuer.
    ///
    /// # Panics
    /// If nothing is chosen although nothing is in flight.
    pub fn turn(&mut self) {
        self.now += STEP_NS;
        while self.in_flight.len() < self.depth {
            match self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
                Dispatch::Request { id, .. } => {
                    self.requests.start(id, self.now);
                    let _ = self.policy.started(&self.requests, id, self.now);
                    self.in_flight.push_back(id);
                }
                // The policy may be waiting for the completion of a request in flight.
                _ if !self.in_flight.is_empty() => break,
                Dispatch::Hold { until, .. } => {
                    self.now = self.now.max(until);
                    let _ = self.policy.timer(&self.requests, self.now);
                }
                answer => panic!("every issuer is backlogged, and the answer is {answer:?}"),
            }
        }
        let Some(id) = self.in_flight.pop_front() else { return };
        let _ = self.requests.take_back(id, Place::Complete);
        let _ = self.policy.completed_and_released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        if let Some((group, issuer)) = self.requests.give_back(id) {
            self.ask(group, issuer);
        }
    }
}
