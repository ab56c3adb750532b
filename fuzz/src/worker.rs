//! The process that runs inputs on one target. It may panic, abort, hang or run out of memory: its
//! parent handles that, and finds the input that caused it in a file.

use crate::mutate::{Material, mutant};
use crate::target::Target;
use hoistway_block::random::Stream;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Address space of a worker. Far more than any target may need, so that an unbounded allocation is
/// a finding.
const MEMORY_BYTES: u64 = 2 << 30;
/// Largest number of inputs kept for mutation.
const CORPUS_INPUTS: usize = 4_096;

/// When to stop.
#[derive(Copy, Clone, Debug)]
pub struct Budget {
    /// Largest number of inputs.
    pub runs: Option<u64>,
    /// Longest time.
    pub time: Option<Duration>,
}

/// The result of a worker without a finding; its last line of output.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Inputs that were run.
    pub runs: u64,
    /// Number of different digests.
    pub seen: usize,
}

/// Runs the corpus and then mutants of it until the budget is used up. The same seed gives the same
/// inputs.
pub fn work(target: &Target, seed: u64, budget: Budget, current: &Path) -> std::io::Result<Tally> {
    limit_memory();
    let file = File::create(current)?;
    let begin = Instant::now();
    let mut random = Stream::of(seed, target.name);
    let mut corpus = (target.corpus)();
    let mut seen = HashSet::new();
    let mut first = corpus.clone().into_iter();
    let mut runs = 0;
    loop {
        let is_spent = budget.runs.is_some_and(|limit| runs >= limit)
            || budget.time.is_some_and(|limit| runs % 16 == 0 && begin.elapsed() >= limit);
        if is_spent {
            return Ok(Tally { runs, seen: seen.len() });
        }
        let kept = first.next();
        let is_kept = kept.is_some();
        let input = kept.unwrap_or_else(|| {
            let material = Material { corpus: &corpus, tokens: target.tokens, longest_bytes: target.longest_bytes };
            mutant(&material, &mut random)
        });
        write_current(&file, &input)?;
        if seen.insert((target.run)(&input)) && !is_kept {
            if corpus.len() < CORPUS_INPUTS {
                corpus.push(input);
            } else {
                let at = usize::try_from(random.below(CORPUS_INPUTS as u64)).unwrap_or(0);
                corpus[at] = input;
            }
        }
        runs += 1;
    }
}

/// Runs one input, as [`work`] does.
pub fn work_one(target: &Target, input: &[u8]) {
    limit_memory();
    let _ = (target.run)(input);
}

fn limit_memory() {
    let limit = Rlimit { current: Some(MEMORY_BYTES), maximum: Some(MEMORY_BYTES) };
    if let Err(error) = setrlimit(Resource::As, limit) {
        eprintln!("memory of the worker is not limited: {error}");
    }
}

/// Length first, so that a shorter input needs no truncation.
fn write_current(file: &File, input: &[u8]) -> std::io::Result<()> {
    let mut bytes = Vec::with_capacity(8 + input.len());
    bytes.write_all(&(input.len() as u64).to_le_bytes())?;
    bytes.extend_from_slice(input);
    file.write_all_at(&bytes, 0)
}

/// The input that a worker ran last.
pub fn read_current(current: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(current).ok()?;
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    rest.get(..length).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_input_is_read_back_after_a_longer_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("current");
        let file = File::create(&path).unwrap();
        for input in [b"a longer one".as_slice(), b"short", b""] {
            write_current(&file, input).unwrap();
            assert_eq!(read_current(&path).as_deref(), Some(input));
        }
    }
}
