//! Since when a client has made no progress, separately for what it sends and for what it is sent: one that goes on
//! asking, and does not read the answers, stalls all the same.

use hoistway_block::Nanos;

/// A client's expected operations without progress.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Stalls {
    receive_ns: Option<Nanos>,
    send_ns: Option<Nanos>,
}

impl Stalls {
    /// A receive begins; `is_inside` if the client owes the rest of a request.
    pub fn receives(&mut self, is_inside: bool, now: Nanos) {
        self.receive_ns = is_inside.then_some(now);
    }

    /// A receive has ended.
    pub fn received(&mut self) {
        self.receive_ns = None;
    }

    /// A send begins, or goes on with the rest.
    pub fn sends(&mut self, now: Nanos) {
        self.send_ns = Some(now);
    }

    /// All of a send was taken.
    pub fn sent(&mut self) {
        self.send_ns = None;
    }

    /// When the operation began that has waited the longest.
    pub fn since_ns(&self) -> Option<Nanos> {
        self.receive_ns.into_iter().chain(self.send_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_come_do_not_excuse_answers_that_are_not_read() {
        let mut stalls = Stalls::default();
        stalls.sends(5);
        stalls.receives(true, 7);
        assert_eq!(stalls.since_ns(), Some(5));
        stalls.received();
        stalls.receives(false, 9);
        assert_eq!(stalls.since_ns(), Some(5));
        stalls.sent();
        assert_eq!(stalls.since_ns(), None);
        stalls.receives(true, 11);
        stalls.sent();
        assert_eq!(stalls.since_ns(), Some(11));
    }
}
