//! Copies a file like `dd if=a | dd of=b`: read a block, write the same block, one process at a
//! time.
//!
//! A pipe holds 64 KiB, which is one block of this workload's default size. So the reading `dd` can
//! be only a few blocks ahead of the writing one; here one process does both in turn. The first
//! half of the area is the source, the second half the copy. Both go through the page cache, and
//! the copy is synced at its end, because otherwise only the time to fill the page cache would be
//! measured.
//! The benchmark suite S, from which this workload comes, does not sync, since its files are larger
//! than memory. Source: docs/specifications/bfq.md, section 21.

use hoistway_block::Operation;
use serde::{Deserialize, Serialize};

use super::run::{Ask, Step};
use super::settings::{self, Key, Settings};
use crate::job::{BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};

/// Settings of a copy.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Copy {
    /// Block size in bytes.
    pub block_bytes: u32,
}

impl Copy {
    /// Blocks of 64 KiB, the capacity of a pipe.
    pub const USUAL: Self = Self { block_bytes: 64 << 10 };

    /// Smallest part of an area that holds a source block and its copy, in bytes.
    pub(super) fn least_bytes(self) -> u64 {
        2 * u64::from(self.block_bytes)
    }
}

impl Default for Copy {
    fn default() -> Self {
        Self::USUAL
    }
}

const KEYS: &[Key] = &[Key { name: "block", allowed: "4096 to 16m", doc: "Bytes that are read, then written." }];

impl Settings for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn doc(&self) -> &'static str {
        "dd piped into dd: reads the first half of its area and writes it to the second, then syncs; ends when it is done"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn value(&self, key: &str) -> String {
        match key {
            "block" => self.block_bytes.to_string(),
            _ => String::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "block" => {
                let bytes = settings::number(key, value, 4096, 16 << 20)?;
                if !bytes.is_multiple_of(4096) {
                    return Err(format!("block={value} is not a multiple of 4096"));
                }
                self.block_bytes = bytes;
            }
            _ => return Err(settings::unknown(key, KEYS)),
        }
        Ok(())
    }

    fn describe(&self, job: &mut Job) {
        job.shape.mix = Mix::ReadWrite { read_percent: 50 };
        job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(self.block_bytes));
        job.area.placement = Placement::Split;
        job.submission.direct = false;
        job.submission.iodepth = 1;
        job.submission.engine = if job.submission.engine == Engine::Null { Engine::Null } else { Engine::Sync };
    }
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Read,
    Write,
    Synced,
}

/// State of a copy.
#[derive(Clone, Debug)]
pub(super) struct Copying {
    block_bytes: u32,
    /// Number of blocks of the source; the copy starts after them.
    blocks: u64,
    block: u64,
    at: At,
}

impl Copying {
    /// Starts a copy in a part of `part_bytes`, which holds at least two blocks.
    pub(super) fn new(settings: Copy, part_bytes: u64) -> Self {
        let block_bytes = settings.block_bytes.max(1);
        Self { block_bytes, blocks: part_bytes / 2 / u64::from(block_bytes), block: 0, at: At::Read }
    }

    pub(super) fn next(&mut self) -> Step {
        let block = |index: u64| Ask::read(index * u64::from(self.block_bytes), self.block_bytes);
        let step = match self.at {
            At::Read if self.block == self.blocks => {
                self.at = At::Synced;
                return Step::Ask(Ask { operation: Operation::Flush, ..Ask::read(0, 0) });
            }
            At::Read => Step::Ask(block(self.block)),
            At::Write => {
                let write = Ask { operation: Operation::Write, ..block(self.blocks + self.block) };
                self.block += 1;
                Step::Ask(write)
            }
            At::Synced => return Step::Done,
        };
        self.at = if self.at == At::Read { At::Write } else { At::Read };
        step
    }

    /// Copies once more, over the existing copy.
    pub(super) fn restart(&mut self) {
        (self.block, self.at) = (0, At::Read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_from_the_first_half_to_the_second_and_are_synced() {
        let mut copying = Copying::new(Copy { block_bytes: 4096 }, 5 * 4096);
        let mut asked = Vec::new();
        while let Step::Ask(ask) = copying.next() {
            asked.push((ask.operation, ask.offset_bytes / 4096, ask.length_bytes / 4096));
        }
        let (read, write) = (Operation::Read, Operation::Write);
        let expected = [(read, 0, 1), (write, 2, 1), (read, 1, 1), (write, 3, 1), (Operation::Flush, 0, 0)];
        assert_eq!(asked, expected);
        copying.restart();
        assert_eq!(copying.next(), Step::Ask(Ask::read(0, 4096)));
    }

    #[test]
    fn the_block_is_of_whole_pages() {
        let mut copy = Copy::USUAL;
        copy.set("block", "1m").unwrap();
        assert_eq!(copy.value("block"), "1048576");
        assert!(copy.set("block", "5000").is_err() && copy.set("block", "0").is_err());
        assert!(copy.set("size", "1").unwrap_err().contains("block"));
    }
}
