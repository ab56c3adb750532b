//! The issuers that use a queue, and the queue that they move to.

use crate::structures::NIL;

/// Who uses a queue.
///
/// Invariant: a queue without users has no owner and no merge target.
#[derive(Copy, Clone, Debug)]
pub struct Users {
    /// Issuers that use it, including those of scheduled merges.
    count: u32,
    /// Issuers with this queue as candidate for a stable merge.
    candidates: u32,
    /// The only issuer that uses it, or NIL.
    owner: u32,
    /// The issuer whose name appears in messages.
    issuer: u32,
    /// The queue that its issuers move to with their next request, or NIL.
    merges_into: u32,
}

impl Users {
    /// No issuer uses the queue; messages call it by this issuer.
    #[inline(always)]
    pub const fn none(issuer: u32) -> Self {
        Self { count: 0, candidates: 0, owner: NIL, issuer, merges_into: NIL }
    }

    #[inline(always)]
    pub const fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    pub const fn candidates(&self) -> u32 {
        self.candidates
    }

    /// The only issuer that uses the queue, or NIL.
    #[inline(always)]
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    #[inline(always)]
    pub const fn has_owner(&self) -> bool {
        self.owner != NIL
    }

    /// The issuer whose name appears in messages.
    #[inline(always)]
    pub const fn issuer(&self) -> u32 {
        self.issuer
    }

    /// The queue that its issuers move to with their next request, or NIL.
    #[inline(always)]
    pub const fn merges_into(&self) -> u32 {
        self.merges_into
    }

    #[inline(always)]
    pub const fn is_to_merge(&self) -> bool {
        self.merges_into != NIL
    }

    /// `more` issuers use the queue.
    #[inline(always)]
    pub const fn join(&mut self, more: u32) {
        self.count = self.count.wrapping_add(more);
    }

    /// An issuer no longer uses it; the claims of the last one end. False, without effect, if there was none.
    #[inline(always)]
    pub const fn leave(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        self.count = self.count.wrapping_sub(1);
        if self.count == 0 {
            (self.merges_into, self.owner) = (NIL, NIL);
        }
        true
    }

    /// Keeps the queue in use while it is moved; [`Self::release`] ends that, and no claim with it.
    #[inline(always)]
    pub const fn hold(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    #[inline(always)]
    pub const fn release(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// The queue becomes this issuer's.
    #[inline(always)]
    pub const fn own(&mut self, context: u32) {
        self.owner = context;
    }

    /// The queue becomes this issuer's, and messages call it by its name.
    #[inline(always)]
    pub const fn own_by_name(&mut self, context: u32) {
        (self.owner, self.issuer) = (context, context);
    }

    /// No issuer is the only one of the queue.
    #[inline(always)]
    pub const fn share(&mut self) {
        self.owner = NIL;
    }

    /// Its issuers move to another queue with their next requests.
    #[inline(always)]
    pub const fn schedule_merge(&mut self, target: u32) {
        self.merges_into = target;
    }

    #[inline(always)]
    pub const fn add_candidate(&mut self) {
        self.candidates = self.candidates.wrapping_add(1);
    }

    #[inline(always)]
    pub const fn drop_candidate(&mut self) {
        self.candidates = self.candidates.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_end_with_the_last_user() {
        let mut users = Users::none(3);
        assert!(!users.leave() && users.issuer() == 3);
        users.join(2);
        users.own_by_name(7);
        users.schedule_merge(5);
        assert!(users.leave() && users.owner() == 7 && users.merges_into() == 5);
        users.hold();
        assert!(users.leave() && users.has_owner());
        users.release();
        assert!(users.count() == 0 && users.is_to_merge(), "a hold ends no claim");
        users.join(1);
        assert!(users.leave() && !users.has_owner() && !users.is_to_merge() && users.issuer() == 7);
    }
}
