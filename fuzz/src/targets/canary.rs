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

/// Panics on the word, and includes the matched length in the digest: the search takes six guesses
/// of one byte instead of one guess of six.
fn run(bytes: &[u8]) -> Seen {
    let met = |at: usize| bytes[at..].iter().zip(WORD).take_while(|(byte, letter)| byte == letter).count();
    let most = (0..bytes.len()).map(met).max().unwrap_or(0);
    assert!(most < WORD.len(), "the canary died");
    Seen::NOTHING.and(&WORD[..most])
}
