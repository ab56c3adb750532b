//! The domains of kyber: kinds of I/O that are scheduled separately, and how many requests of each
//! may be in flight.

use hoistway_block::Operation;

/// A kind of I/O with its own tokens.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Reads.
    Read,
    /// Writes, sync or not.
    Write,
    /// Discards.
    Discard,
    /// Everything else; its latency is not measured.
    Other,
}

impl Domain {
    /// All four, in the order of their turns.
    pub const ALL: [Domain; 4] = [Domain::Read, Domain::Write, Domain::Discard, Domain::Other];

    /// The domains whose latency is measured.
    pub const MEASURED: [Domain; 3] = [Domain::Read, Domain::Write, Domain::Discard];

    #[inline]
    pub const fn of(operation: Operation) -> Self {
        match operation {
            Operation::Read => Domain::Read,
            Operation::Write => Domain::Write,
            Operation::Discard => Domain::Discard,
            _ => Domain::Other,
        }
    }

    /// The domain whose turn is next.
    #[inline]
    pub const fn following(self) -> Self {
        match self {
            Domain::Read => Domain::Write,
            Domain::Write => Domain::Discard,
            Domain::Discard => Domain::Other,
            Domain::Other => Domain::Read,
        }
    }

    #[inline]
    pub const fn index(self) -> u32 {
        self as u32
    }

    /// The largest and initial number of tokens.
    pub const fn most_tokens(self) -> u32 {
        match self {
            Domain::Read => 256,
            Domain::Write => 128,
            Domain::Discard => 64,
            Domain::Other => 16,
        }
    }

    /// Requests in a row before another domain has a turn.
    #[inline]
    pub const fn batch(self) -> u32 {
        match self {
            Domain::Read => 16,
            Domain::Write => 8,
            Domain::Discard | Domain::Other => 1,
        }
    }
}

/// One value per domain, with access that can neither fail nor panic.
#[derive(Copy, Clone, Debug)]
pub struct PerDomain<T> {
    pub read: T,
    pub write: T,
    pub discard: T,
    pub other: T,
}

impl<T> PerDomain<T> {
    #[inline]
    pub const fn of(&self, domain: Domain) -> &T {
        match domain {
            Domain::Read => &self.read,
            Domain::Write => &self.write,
            Domain::Discard => &self.discard,
            Domain::Other => &self.other,
        }
    }

    #[inline]
    pub const fn of_mut(&mut self, domain: Domain) -> &mut T {
        match domain {
            Domain::Read => &mut self.read,
            Domain::Write => &mut self.write,
            Domain::Discard => &mut self.discard,
            Domain::Other => &mut self.other,
        }
    }
}

/// The tokens of a domain: how many of its requests may be in flight.
#[derive(Copy, Clone, Debug)]
pub struct Tokens {
    pub depth: u32,
    pub in_use: u32,
    /// Hardware queues that have found no token since the last one was returned.
    pub waiters: u32,
}

impl Tokens {
    pub const fn full(domain: Domain) -> Self {
        Self { depth: domain.most_tokens(), in_use: 0, waiters: 0 }
    }

    /// Takes a token, if there is one. A depth reduced below the number in use gives none until
    /// enough were returned.
    #[inline]
    pub const fn take(&mut self) -> bool {
        if self.in_use >= self.depth {
            return false;
        }
        self.in_use += 1;
        true
    }
}
