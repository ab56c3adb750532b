//! The promise of kyber: the kinds of I/O take turns, and within a kind the requests that were
//! flushed together (moved at once from the software queues to the hardware queue's list) precede
//! all later ones.

use std::collections::{BTreeMap, BTreeSet};

use hoistway_block::{HardwareQueue, Operation, RequestId};

use super::{Queued, Waiting};
use crate::invariants::Broken;

/// Kinds of I/O: reads, writes, discards, others.
const KINDS: usize = 4;
const NAMES: [&str; KINDS] = ["READ", "WRITE", "DISCARD", "OTHER"];
/// Requests of a kind in a row before the other kinds have their turn.
const BATCH: [u64; KINDS] = [16, 8, 1, 1];
/// Largest and initial number of tokens of a kind.
const MOST_TOKENS: [u64; KINDS] = [256, 128, 64, 16];

const fn kind_of(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Discard => 2,
        _ => 3,
    }
}

/// The state of one hardware queue, which kyber calls a hardware context.
#[derive(Debug)]
struct HardwareContext {
    /// By kind: choices of other kinds while it waited with a free token.
    passed: [u64; KINDS],
    /// By kind: requests that left its software queues together and are not chosen yet; None = not
    /// known.
    flushed: [Option<BTreeSet<RequestId>>; KINDS],
}

impl HardwareContext {
    fn new(is_empty: bool) -> Self {
        Self { passed: [0; KINDS], flushed: std::array::from_fn(|_| is_empty.then(BTreeSet::new)) }
    }
}

/// The observed rounds and tokens.
#[derive(Debug)]
pub(super) struct Rounds {
    outlets: BTreeMap<HardwareQueue, HardwareContext>,
    /// Whether no request was flushed at the start.
    begins_empty: bool,
    depth: [u64; KINDS],
    /// The kind of the token that each request holds.
    tokens: BTreeMap<RequestId, usize>,
    in_use: [u64; KINDS],
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            outlets: BTreeMap::new(),
            begins_empty: true,
            depth: MOST_TOKENS,
            tokens: BTreeMap::new(),
            in_use: [0; KINDS],
        }
    }
}

impl Rounds {
    /// Resets the passes; depths and tokens stay.
    pub(super) fn reset(&mut self) {
        self.outlets.clear();
        self.begins_empty = false;
    }

    /// The policy's message about the number of tokens of a kind from now on.
    pub(super) fn heard(&mut self, text: &str, number: u64) {
        if let Some(name) = text.strip_suffix(" {1}")
            && let Some(kind) = NAMES.iter().position(|known| *known == name)
        {
            self.depth[kind] = number;
        }
    }

    pub(super) fn takes_token(&mut self, id: RequestId, operation: Operation) {
        let kind = kind_of(operation);
        self.in_use[kind] += 1;
        self.tokens.insert(id, kind);
    }

    pub(super) fn gives_token_back(&mut self, id: RequestId) {
        if let Some(kind) = self.tokens.remove(&id) {
            self.in_use[kind] -= 1;
        }
    }

    /// `chosen` already holds its token.
    pub(super) fn chosen(&mut self, chosen: &Waiting, waiting: &Queued) -> Result<u64, Broken> {
        let queue = chosen.attributes.hardware_queue;
        let own = kind_of(chosen.attributes.operation);
        let waits = |kind: usize| {
            let of_kind = waiting.values().filter(move |other| kind_of(other.attributes.operation) == kind);
            of_kind.filter(move |other| other.attributes.hardware_queue == queue)
        };
        let begins_empty = self.begins_empty;
        let outlet = self.outlets.entry(queue).or_insert_with(|| HardwareContext::new(begins_empty));
        let mut passes = 0;
        for kind in 0..KINDS {
            let is_passed = kind != own && waits(kind).next().is_some() && self.in_use[kind] < self.depth[kind];
            outlet.passed[kind] = if is_passed { outlet.passed[kind] + 1 } else { 0 };
            passes += u64::from(is_passed);
            let allowed = BATCH.iter().sum::<u64>() - BATCH[kind];
            if outlet.passed[kind] > allowed {
                let (name, passed) = (NAMES[kind], outlet.passed[kind]);
                return Err(format!(
                    "P7: {name} was passed over {passed} times on hardware queue {} although it had a token; {allowed} are allowed",
                    queue.0
                ));
            }
        }
        let Some(flushed) = &mut outlet.flushed[own] else {
            // If no request of the kind is left, none is flushed.
            outlet.flushed[own] = waits(own).next().is_none().then(BTreeSet::new);
            return Ok(passes);
        };
        flushed.retain(|id| waiting.get(&id.slot()).is_some_and(|other| other.id == *id) || *id == chosen.id);
        if flushed.is_empty() {
            // Its software queues were flushed for this choice.
            flushed.extend(waits(own).map(|other| other.id));
        } else if !flushed.remove(&chosen.id) {
            let slot = chosen.id.slot();
            return Err(format!("P7: {} #{slot} went before {} that were flushed earlier", NAMES[own], flushed.len()));
        }
        Ok(passes)
    }
}
