//! What a fuzz target is: a function of bytes that panics when it meets what must not be.

use block::random::{fnv1a64, fnv1a64_continued};

/// One thing to be fuzzed. A row of [`TARGETS`](crate::targets::TARGETS).
#[derive(Copy, Clone)]
pub struct Target {
    /// Name on the command line and in replay commands.
    pub name: &'static str,
    /// One line for `list`: what may not happen.
    pub promise: &'static str,
    /// Feeds the bytes in, panics on a broken promise, and says what it did with them.
    pub run: fn(&[u8]) -> Seen,
    /// Inputs to begin with; the better they are, the deeper the mutations get.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Byte strings that mean something to the target, for mutations to put in.
    pub tokens: &'static [&'static [u8]],
    /// Longer inputs are not tried.
    pub longest_bytes: usize,
}

/// A digest of what a target did. An input with a digest of its own is kept and mutated further: a cheap stand-in for
/// coverage that needs no instrumented build.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Seen(u64);

impl Seen {
    /// Nothing happened yet.
    pub const NOTHING: Seen = Seen(fnv1a64(b""));

    /// One more thing that happened, in order.
    #[must_use]
    pub fn and(self, what: &[u8]) -> Seen {
        Seen(fnv1a64_continued(fnv1a64_continued(self.0, what), &[0xff]))
    }

    /// A message that happened, without what comes from the input: numbers, and words that stand there as well would
    /// make each input look new.
    #[must_use]
    pub fn and_message(self, message: &str, input: &str) -> Seen {
        let words = message.split(|c: char| !c.is_ascii_alphabetic());
        words
            .filter(|word| !word.is_empty() && !input.contains(word))
            .fold(self, |seen, word| seen.and(word.as_bytes()))
    }

    /// How often something happened, as its power of two.
    #[must_use]
    pub fn and_count(self, count: usize) -> Seen {
        self.and(&[u8::try_from(usize::BITS - count.leading_zeros()).unwrap_or(u8::MAX)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_input_only_count_once() {
        let digest = |message: &str, input: &str| Seen::NOTHING.and_message(message, input);
        assert_eq!(digest("3:7: key 'abc' is unknown", "abc=1"), digest("12:1: key 'x' is unknown", "x = 2"));
        assert_ne!(digest("key 'abc' is unknown", "abc"), digest("key 'abc' is given twice", "abc"));
    }

    #[test]
    fn order_and_division_matter() {
        let (a, b) = (b"a".as_slice(), b"b".as_slice());
        assert_ne!(Seen::NOTHING.and(a).and(b), Seen::NOTHING.and(b).and(a));
        assert_ne!(Seen::NOTHING.and(b"ab"), Seen::NOTHING.and(a).and(b));
    }
}
