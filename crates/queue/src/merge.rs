//! Merging: which bios and requests may merge, where candidates are searched, and the merge itself.
//!
//! The search order is that of blk-mq: the submitter's newest plugged request, the request merged
//! into last, the hash of ends, the policy's front search. Of the last three, the first candidate
//! decides, even if a limit then forbids the merge. A policy with a list of its own replaces these
//! three.

use crate::bios::{Arrival, Chain, Members};
use crate::limits::Merging;
use crate::plug::Plug;
use crate::slot::Marks;
use crate::{RequestQueue, TraceKind};
use hoistway_block::{Nanos, Operation, RequestId, Sector};
use hoistway_elevator::{Attributes, Bio, Elevator, Hint, Merge, MergeSearch, Place, Side};

impl<E: Elevator> RequestQueue<E> {
    /// Merges a bio into a request if possible; otherwise returns where the policy wants the bio's
    /// own request.
    pub(crate) fn try_merge(
        &mut self,
        arrival: Arrival,
        bio: &Bio,
        plug: Option<&Plug>,
        now: Nanos,
    ) -> Result<RequestId, Hint> {
        if let Some(id) = self.merge_into_plug(arrival, bio, plug, now) {
            return Ok(id);
        }
        match self.find_merge_candidate(bio, now) {
            Merge::No(hint) => Err(hint),
            Merge::Into(id, side) if self.limits_allow(id, bio, side) && self.has_records_for(arrival, id) => {
                Ok(self.join(arrival, bio, (id, side), now))
            }
            Merge::Into(id, side) => {
                if self.settings.era.closes_full_requests
                    && let Some(slot) = self.slots.get_mut(id.slot())
                {
                    slot.marks.set(Marks::NO_MERGE);
                }
                // Only a policy that searches its own list suggests a position; the others
                // determine their order themselves.
                let has_own_list = self.elevator.merge_search() == MergeSearch::Own;
                Err(if has_own_list { self.beside(id, side) } else { Hint::None })
            }
        }
    }

    /// Merges the bio into the plug's newest request, if possible. The policy has not seen the request
    /// yet, so it is asked only how long it may be: what the host has cut would be one request again.
    fn merge_into_plug(&mut self, arrival: Arrival, bio: &Bio, plug: Option<&Plug>, now: Nanos) -> Option<RequestId> {
        if self.settings.merging == Merging::Never {
            return None;
        }
        let id = plug?.newest()?;
        if !self.may_absorb(id, bio) {
            return None;
        }
        let side = self.adjacency(id, bio)?;
        if !self.limits_allow(id, bio, side) {
            self.slots.at_mut(id.slot()).marks.set(Marks::NO_MERGE);
            return None;
        }
        let together = self.requests.attributes(id).extent.sectors.saturating_add(bio.extent.sectors);
        if together > self.elevator.longest_sectors(bio, now) || !self.has_records_for(arrival, id) {
            return None;
        }
        self.grow(arrival, bio, (id, side), now);
        self.counters.bio_merged(bio.operation);
        Some(id)
    }

    fn find_merge_candidate(&mut self, bio: &Bio, now: Nanos) -> Merge {
        let search = self.elevator.merge_search();
        if self.settings.merging == Merging::Never {
            return Merge::No(self.hint_for(bio, now));
        }
        if search == MergeSearch::Own {
            return self.ask_policy(bio, now);
        }
        // Adjacency is checked first: it is the cheapest test, and it mostly fails.
        if let Some(id) = self.merges.last()
            && let Some(side) = self.adjacency(id, bio)
            && self.may_absorb(id, bio)
            && self.elevator.may_merge(&self.requests, id, bio)
        {
            return Merge::Into(id, side);
        }
        if self.settings.merging == Merging::OneHit {
            return Merge::No(Hint::None);
        }
        if self.merges.findable() > 0
            && let Some(id) = self.find_by_end(bio)
        {
            return Merge::Into(id, Side::Back);
        }
        if search == MergeSearch::PipelineThenFront { self.ask_policy(bio, now) } else { Merge::No(Hint::None) }
    }

    /// The policy's own candidate, if the bio may merge into it.
    fn ask_policy(&mut self, bio: &Bio, now: Nanos) -> Merge {
        match self.elevator.merge(&self.requests, bio, now) {
            Merge::Into(id, side)
                if self.may_absorb(id, bio)
                    && self.elevator.may_merge(&self.requests, id, bio)
                    && self.adjacency(id, bio) == Some(side) =>
            {
                Merge::Into(id, side)
            }
            Merge::Into(id, side) => Merge::No(self.beside(id, side)),
            Merge::No(hint) => Merge::No(hint),
        }
    }

    /// The position at which a policy that searches its own list wants a request that is not to be
    /// merged.
    pub(crate) fn hint_for(&mut self, bio: &Bio, now: Nanos) -> Hint {
        if self.elevator.merge_search() != MergeSearch::Own {
            return Hint::None;
        }
        match self.elevator.merge(&self.requests, bio, now) {
            Merge::No(hint) => hint,
            Merge::Into(id, side) => self.beside(id, side),
        }
    }

    /// The position next to a request that could not take the bio.
    fn beside(&self, id: RequestId, side: Side) -> Hint {
        match side {
            Side::Back | Side::Discard => Hint::After(id),
            Side::Front => self.elevator.former(&self.requests, id).map_or(Hint::AtFront, Hint::After),
        }
    }

    #[inline]
    fn find_by_end(&mut self, bio: &Bio) -> Option<RequestId> {
        while let Some(id) = self.ending_at(bio.extent.first_sector) {
            if !self.slots.at(id.slot()).marks.has(Marks::NO_MERGE) {
                let fits = self.may_absorb(id, bio) && self.elevator.may_merge(&self.requests, id, bio);
                return fits.then_some(id);
            }
            self.hash_out(id);
        }
        None
    }

    fn may_absorb(&self, id: RequestId, bio: &Bio) -> bool {
        if !self.requests.is_live(id) || self.slots.at(id.slot()).marks.has(Marks::NO_MERGE) {
            return false;
        }
        let request = self.requests.at(id);
        matches!(request.place, Place::Plugged | Place::Queued)
            && request.attributes.can_share_request(bio)
            && (self.settings.era.merges_contexts || request.attributes.context == bio.context)
    }

    /// The side at which the bio is adjacent to the request; back is tried before front.
    fn adjacency(&self, id: RequestId, bio: &Bio) -> Option<Side> {
        let extent = self.requests.attributes(id).extent;
        if extent.is_followed_by(bio.extent) {
            Some(Side::Back)
        } else if bio.extent.is_followed_by(extent) {
            Some(Side::Front)
        } else if bio.operation == Operation::Discard && self.settings.limits.max_discard_segments > 1 {
            Some(Side::Discard)
        } else {
            None
        }
    }

    fn limits_allow(&self, id: RequestId, bio: &Bio, side: Side) -> bool {
        let request = self.requests.attributes(id);
        let first = if side == Side::Front { bio.extent.first_sector } else { request.extent.first_sector };
        let sectors = u64::from(request.extent.sectors) + u64::from(bio.extent.sectors);
        let segments = u32::from(request.segments) + u32::from(bio.segments);
        if bio.operation == Operation::Discard && segments > u32::from(self.settings.limits.max_discard_segments.max(1))
        {
            // A multi-range discard carries one segment per range; a contiguous one stays a single
            // range.
            return side != Side::Discard && self.settings.limits.allow(bio.operation, first, sectors, 1);
        }
        self.settings.limits.allow(bio.operation, first, sectors, segments)
    }

    fn is_alone(&self, id: RequestId) -> bool {
        matches!(self.slots.at(id.slot()).members(), Members::Alone(_))
    }

    /// Whether records are available for those of the arriving bio and the request's bio that have
    /// none yet.
    fn has_records_for(&mut self, arrival: Arrival, id: RequestId) -> bool {
        let newcomers = u32::from(matches!(arrival, Arrival::Fresh(_)));
        self.bios.reserve(newcomers + u32::from(self.is_alone(id)))
    }

    /// The chain of a request's bios; a single bio without a record gets one.
    fn chain_of(&mut self, id: RequestId) -> Chain {
        match self.slots.at(id.slot()).members() {
            Members::Chain(chain) => chain,
            Members::Alone(cookie) => {
                let request = self.requests.at(id);
                let record = self.bios.take(&request.attributes, cookie, request.start_ns);
                let chain = record.map_or(Chain::EMPTY, |index| self.bios.chain_of(index));
                self.slots.at_mut(id.slot()).set_chain(chain);
                chain
            }
        }
    }

    /// Adds the bio to the request's chain and extent.
    fn grow(&mut self, arrival: Arrival, bio: &Bio, (id, side): (RequestId, Side), now: Nanos) {
        let was_hashed = self.hash_out(id);
        let mut chain = self.chain_of(id);
        let Some(index) = self.record(arrival, bio, now) else { return };
        match side {
            Side::Front => self.bios.prepend(&mut chain, index),
            Side::Back | Side::Discard => self.bios.append(&mut chain, index),
        }
        self.slots.at_mut(id.slot()).set_chain(chain);
        let Some(request) = self.requests.live_mut(id) else { return };
        let attributes = &mut request.attributes;
        if side == Side::Front {
            attributes.extent.first_sector = bio.extent.first_sector;
        }
        attributes.extent.sectors = attributes.extent.sectors.saturating_add(bio.extent.sectors);
        attributes.segments = attributes.segments.saturating_add(bio.segments);
        let end = attributes.extent.end();
        if was_hashed {
            self.merges.add(&mut self.links, self.slots.at_mut(id.slot()), id, end);
        }
    }

    /// Merges a bio into a queued request, which may then be adjacent to its neighbour.
    fn join(&mut self, arrival: Arrival, bio: &Bio, (id, side): (RequestId, Side), now: Nanos) -> RequestId {
        self.grow(arrival, bio, (id, side), now);
        let kind = if side == Side::Front { TraceKind::FrontMerged } else { TraceKind::BackMerged };
        self.trace_bio(kind, bio, id, now);
        self.counters.bio_merged(self.requests.attributes(id).operation);
        let neighbour = match side {
            Side::Back => self.elevator.latter(&self.requests, id).map(|next| (id, next)),
            Side::Front => self.elevator.former(&self.requests, id).map(|previous| (previous, id)),
            Side::Discard => None,
        };
        if let Some((keep, gone)) = neighbour
            && self.settings.merging == Merging::Full
            && self.merge_requests(keep, gone, now)
        {
            return keep;
        }
        self.elevator.bio_merged(&self.requests, id, side, now);
        self.merges.merged_into(id);
        id
    }

    /// `keep` absorbs `gone`, which begins where `keep` ends. Returns whether it did.
    pub(crate) fn merge_requests(&mut self, keep: RequestId, gone: RequestId, now: Nanos) -> bool {
        let tail = *self.requests.attributes(gone);
        let fits = keep != gone
            && self.may_absorb(keep, &tail)
            && !self.slots.at(gone.slot()).marks.has(Marks::NO_MERGE)
            && matches!(self.requests.at(gone).place, Place::Plugged | Place::Queued)
            && self.requests.attributes(keep).extent.is_followed_by(tail.extent)
            && self.elevator.may_merge(&self.requests, keep, &tail)
            && self.limits_allow(keep, &tail, Side::Back)
            && self.bios.reserve(u32::from(self.is_alone(keep)) + u32::from(self.is_alone(gone)));
        if !fits {
            return false;
        }
        let was_hashed = self.hash_out(keep);
        let gone_start_ns = self.requests.at(gone).start_ns;
        let was_inserted = self.slots.at(gone.slot()).marks.has(Marks::INSERTED);
        let (mut chain, gone_chain) = (self.chain_of(keep), self.chain_of(gone));
        if !self.limiters.is_empty() {
            // The absorbed request no longer counts as a request but as a merged bio.
            let first = self.bios.first(gone_chain);
            if let Some(first) = first {
                self.limiters.merged(&self.bios, first, now);
            }
        }
        self.bios.join(&mut chain, gone_chain);
        self.slots.at_mut(keep.slot()).set_chain(chain);
        if let Some(request) = self.requests.live_mut(keep) {
            request.attributes.extent.sectors += tail.extent.sectors;
            request.attributes.segments = request.attributes.segments.saturating_add(tail.segments);
            request.start_ns = request.start_ns.min(gone_start_ns);
        }
        self.slots.at_mut(gone.slot()).set_chain(Chain::EMPTY);
        self.leave_policy(gone);
        self.elevator.requests_merged(&self.requests, keep, gone, now);
        if was_inserted {
            let wake = self.elevator.released(&self.requests, gone, now);
            self.note(wake);
        }
        self.trace_bio(TraceKind::RequestsMerged, &tail, keep, now);
        self.trace(TraceKind::Absorbed, gone, None, now);
        self.counters.request_merged(tail.operation, now);
        if was_hashed {
            self.merges.add(&mut self.links, self.slots.at_mut(keep.slot()), keep, tail.extent.end());
        }
        self.merges.merged_into(keep);
        self.free(gone, tail.group, now);
        true
    }

    /// Tries to merge a request on insertion into the policy, back merges only. True if it was
    /// absorbed.
    pub(crate) fn merge_on_insert(&mut self, id: RequestId, now: Nanos) -> bool {
        if self.settings.merging == Merging::Never || self.elevator.merge_search() == MergeSearch::Own {
            return false;
        }
        if let Some(last) = self.merges.last()
            && self.merge_requests(last, id, now)
        {
            return true;
        }
        if self.settings.merging == Merging::OneHit {
            return false;
        }
        let mut absorbed = false;
        let mut at = id;
        // Each round merges two requests into one, so the table's size bounds the number of rounds.
        for _ in 0..self.requests.capacity() {
            let first_sector = self.requests.attributes(at).extent.first_sector;
            let Some(before) = self.ending_at(first_sector) else { break };
            if !self.merge_requests(before, at, now) {
                break;
            }
            absorbed = true;
            at = before;
        }
        absorbed
    }

    /// Whether others may still merge into this request while it is queued.
    #[inline]
    pub(crate) fn is_open(&self, id: RequestId, attributes: &Attributes) -> bool {
        is_open_kind(attributes) && !self.slots.at(id.slot()).marks.has(Marks::NO_MERGE)
    }

    /// The queued request that ends here and became findable last.
    #[inline]
    fn ending_at(&mut self, end: Sector) -> Option<RequestId> {
        self.merges.ending_at(&mut self.links, &self.requests, end)
    }

    /// Takes a request whose end is about to move out of the index. Returns whether it was there.
    #[inline(always)]
    fn hash_out(&mut self, id: RequestId) -> bool {
        self.merges.remove(&mut self.links, self.slots.at_mut(id.slot()), &self.requests, id)
    }
}

/// Whether requests of this kind may be merged into.
#[inline]
pub(crate) fn is_open_kind(attributes: &Attributes) -> bool {
    attributes.operation.is_mergeable() && !attributes.flags.intersects(Attributes::NEVER_MERGED)
}
