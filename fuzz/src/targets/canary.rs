//! A target that fails on purpose, on an input that only feedback, mutation and shortening together
//! find.

use crate::target::{Seen, Target};

pub const TARGET: Target = Target {
    name: "canary",
    promise: "none: it must be found",
    run,
    corpus: || vec![b"a long enough input to begin with, without the word that ends the worker".to_vec()],
    tokens: &[],
    longest_bytes: 128,
};

const WORD: &[u8] = b"canary";

/// Panics if the input contains [`WORD`], and includes the length of the longest matching part in
/// the digest, so that the search has to guess one byte six times, and not six bytes at once.
fn run(bytes: &[u8]) -> Seen {
    let met = |at: usize| bytes[at..].iter().zip(WORD).take_while(|(byte, letter)| byte == letter).count();
    let most = (0..bytes.len()).map(met).max().unwrap_or(0);
    assert!(most < WORD.len(), "the canary died");
    Seen::NOTHING.and(&WORD[..most])
}
