//! The tokens of a thread: which are free, and what each one in flight stands for.

/// A fixed number of tokens. Taking and returning one cost a push and a pop; nothing allocates
/// after construction.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<T> {
    /// Indexed by token; `None` means free.
    held: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T: Copy> Tokens<T> {
    /// Tokens 0 to `depth` - 1; 0 is taken first.
    pub(crate) fn new(depth: u32) -> Self {
        Self { held: vec![None; depth as usize], free: (0..depth).rev().collect() }
    }

    /// Takes a token that stands for `what`. One must be free.
    #[inline]
    pub(crate) fn take(&mut self, what: T) -> u32 {
        // Callers have checked that one is free; 0 avoids a panic with a broken host.
        debug_assert!(!self.free.is_empty(), "no token is free");
        let token = self.free.pop().unwrap_or(0);
        self.held[token as usize] = Some(what);
        token
    }

    /// Returns a token; yields what it stood for, or `None` if it was not in flight.
    #[inline]
    pub(crate) fn give_back(&mut self, token: u32) -> Option<T> {
        let Some(held) = self.held.get_mut(token as usize) else {
            debug_assert!(false, "token {token} was never issued");
            return None;
        };
        let was = held.take();
        debug_assert!(was.is_some(), "token {token} is not in flight");
        if was.is_some() {
            self.free.push(token);
        }
        was
    }

    /// Number of tokens.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        // `new` got the number as a `u32`.
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    /// Whether a token is in flight.
    #[inline]
    pub(crate) fn is_in_flight(&self, token: u32) -> bool {
        self.held.get(token as usize).is_some_and(Option::is_some)
    }

    /// Whether no token is free.
    #[inline]
    pub(crate) fn are_all_taken(&self) -> bool {
        self.free.is_empty()
    }

    /// Tokens in flight.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        u32::try_from(self.held.len() - self.free.len()).unwrap_or(u32::MAX)
    }
}
