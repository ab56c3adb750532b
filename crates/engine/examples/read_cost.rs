//! Reads 4 KiB at a time from a backing, for a count of instructions: `bench/overlay/run`.
//!
//! `read_cost BACKING READS`

use hoistway_block::random::Stream;
use hoistway_engine::{Backing, EngineError, GroupHandle, ShardSettings, VolumeSettings, start};

const READ_BYTES: u64 = 4_096;

fn main() -> Result<(), EngineError> {
    let mut words = std::env::args().skip(1);
    let (backing, reads) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let usage = || EngineError::usage("BACKING and READS are needed", "read_cost disk.img 1000");
    let reads: u64 = reads.parse().map_err(|_| usage())?;
    let volume = VolumeSettings { is_read_only: true, ..VolumeSettings::new("v", Backing::parse(&backing)?) };
    // One thread that never polls, so that waiting costs no instructions.
    let settings = ShardSettings { threads: 1, busy_poll_us: 0, queue_depth: 32, ..ShardSettings::default() };
    let shard = start(settings, &[volume])?;
    let size_bytes = shard.facts(shard.volumes()[0])?.size_bytes;
    let client = shard.client(shard.volumes()[0], GroupHandle::ROOT)?;
    let mut places = Stream::new(1);
    for _ in 0..reads {
        let place = places.below(size_bytes / READ_BYTES) * READ_BYTES;
        client.read(place, READ_BYTES).map_err(|error| EngineError::system(format!("{error:?}"), "see the disk"))?;
    }
    shard.stop()
}
