//! Anticipation: whether to idle for the issuer of the last sync request, and what ends the idling.

use super::Anticipatory;
use crate::interface::Wake;
use crate::request::Requests;
use hoistway_block::time::is_due;
use hoistway_block::{ContextId, Nanos, RequestId};

/// A request is near up to this many sectors ahead of the last one, or half as many behind it; both
/// double per ms of waiting.
const NEAR_SECTORS: u64 = 8_192;
/// After this time any request is near.
const LONGEST_NEARNESS_NS: Nanos = 20_000_000;
const MILLISECOND: Nanos = 1_000_000;
/// One half, where 256 is 1.
const HALF: u64 = 128;

/// The state of the anticipation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not waiting.
    Off,
    /// For the completion of the last request; after that, for the issuer's next request.
    ForCompletion,
    /// For the issuer's next request, until the timer.
    ForNext { until: Nanos },
    /// Waiting has just ended: the next request is dispatched, whichever issuer it belongs to.
    Over,
}

/// The issuer of the last sync request.
#[derive(Copy, Clone, Debug)]
pub struct Awaited {
    pub context: ContextId,
    /// When its request completed.
    pub done_at: Option<Nanos>,
}

impl Anticipatory {
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.wait, Wait::ForCompletion | Wait::ForNext { .. })
    }

    /// Whether to wait instead of dispatching `next` (a slot), the best sync request.
    pub(super) fn may_wait(&mut self, requests: &Requests, next: Option<u32>, now: Nanos) -> bool {
        // If the last dispatched request was async, or waiting has just ended, a request is
        // dispatched.
        self.awaited.is_some()
            && self.wait != Wait::Over
            && !self.is_pointless(requests, next.and_then(|slot| requests.id_of(slot)), now)
    }

    pub(super) fn begin_wait(&mut self) {
        self.wait = match self.awaited.and_then(|awaited| awaited.done_at) {
            Some(done_at) => self.until_next(done_at),
            None => Wait::ForCompletion,
        };
    }

    fn until_next(&self, done_at: Nanos) -> Wait {
        Wait::ForNext { until: done_at.saturating_add(self.settings.antic_expire_ns.unsigned_abs()) }
    }

    /// A request arrived: is it the awaited one, or does it make further waiting pointless?
    pub(super) fn arrived(&mut self, requests: &Requests, id: RequestId, now: Nanos) {
        if self.is_waiting() && self.is_pointless(requests, Some(id), now) {
            self.wait = Wait::Over;
        }
    }

    /// The last request completed: its issuer's think time starts.
    pub(super) fn awaited_done(&mut self, now: Nanos) {
        if let Some(awaited) = &mut self.awaited {
            awaited.done_at = Some(now);
        }
        if self.wait == Wait::ForCompletion {
            self.wait = self.until_next(now);
        }
    }

    /// The timer expired without a request.
    pub(super) fn timed_out(&mut self, now: Nanos) -> Wake {
        let Wait::ForNext { until } = self.wait else { return Wake::No };
        if !is_due(now, until) {
            return Wake::No;
        }
        self.wait = Wait::Over;
        if let Some(awaited) = self.awaited {
            let issuer = *self.issuers.at(awaited.context.0);
            if issuer.think.samples == 0 {
                self.new_issuers.left_after_one();
            }
            if !issuer.is_alive {
                self.new_issuers.exited_without_cooperator();
            }
        }
        Wake::All
    }

    /// Whether waiting for the issuer is pointless, if `id` can be dispatched instead.
    fn is_pointless(&mut self, requests: &Requests, id: Option<RequestId>, now: Nanos) -> bool {
        let Some(awaited) = self.awaited else { return true };
        let expire_ns = self.settings.antic_expire_ns.unsigned_abs();
        let attributes = id.map(|id| *requests.attributes(id));
        if attributes.is_some_and(|attributes| attributes.context == awaited.context) {
            return true;
        }
        if awaited.done_at.is_some_and(|done_at| now > done_at.saturating_add(expire_ns)) {
            return true;
        }
        let issuer = *self.issuers.at(awaited.context.0);
        if issuer.queued > 0 || issuer.dispatched > 0 {
            return true;
        }
        if let Some(attributes) = attributes.filter(|attributes| attributes.is_sync())
            && self.is_near(&awaited, attributes.extent.first_sector, now)
        {
            // A request near the last one counts as the issuer's own, and enters its history.
            let (first, end) = (attributes.extent.first_sector, attributes.extent.end());
            self.issuers.at_mut(awaited.context.0).issues(&mut self.new_issuers, first, end, now);
            if !issuer.is_alive {
                self.new_issuers.had_cooperator();
            }
            return true;
        }
        if !issuer.is_alive {
            if issuer.think.samples == 0 {
                self.new_issuers.left_after_one();
            }
            if self.new_issuers.exit_no_coop > HALF {
                return true;
            }
        }
        if issuer.think.samples > 0 {
            return issuer.think.mean > expire_ns;
        }
        let likely_gone = self.new_issuers.exit_probability.saturating_mul(self.new_issuers.exit_no_coop);
        self.new_issuers.think_mean_ns > expire_ns || likely_gone > HALF * 256
    }

    /// Whether a request is near the last one: within a distance that grows with the time waited,
    /// or nearer than the issuer usually seeks.
    fn is_near(&self, awaited: &Awaited, first_sector: u64, now: Nanos) -> bool {
        let last = self.class(self.batch.kind()).last_end;
        let waited = match (self.wait, awaited.done_at) {
            (Wait::Off, _) | (_, None) => 0,
            (_, Some(done_at)) => now.saturating_sub(done_at),
        };
        if waited > LONGEST_NEARNESS_NS.min(self.settings.antic_expire_ns.unsigned_abs()) {
            return true;
        }
        let doublings = u32::try_from(waited / MILLISECOND).unwrap_or(u32::MAX);
        let width = NEAR_SECTORS.checked_shl(doublings).unwrap_or(u64::MAX);
        if last <= first_sector.saturating_add(width / 2) && first_sector <= last.saturating_add(width) {
            return true;
        }
        let seek = self.issuers.at(awaited.context.0).seek;
        let usual = if seek.samples == 0 { self.new_issuers.seek_mean_sectors } else { seek.mean };
        usual > last.abs_diff(first_sector)
    }
}
