//! The tokens of a thread: which are free, and what each one in flight stands for.

/// A fixed number of tokens. Taking and giving back cost a push and a pop; nothing allocates after construction.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<T> {
    /// By token; `None` = free.
    held: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T: Copy> Tokens<T> {
    /// Tokens 0 to `depth` - 1, of which 0 is taken first.
    pub(crate) fn new(depth: u32) -> Self {
        Self { held: vec![None; depth as usize], free: (0..depth).rev().collect() }
    }

    /// Takes a token for what `what` says. One must be free.
    #[inline]
    pub(crate) fn take(&mut self, what: T) -> u32 {
        // Callers have checked that one is free; 0 keeps a broken host from a panic here.
        debug_assert!(!self.free.is_empty(), "no token is free");
        let token = self.free.pop().unwrap_or(0);
        self.held[token as usize] = Some(what);
        token
    }

    /// Gives a token back; answers what it stood for, nothing if it was not in flight.
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

    /// Tokens there are.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        // As many as `new` was told.
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    /// Whether a token is in flight.
    #[inline]
    pub(crate) fn is_held(&self, token: u32) -> bool {
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
