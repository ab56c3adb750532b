//! Two tenants of one process share a file through the engine, at weights 300 and 100.
//!
//! `cargo run -p hoistway --example share_a_file --no-default-features --features engine [FILE]`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hoistway::engine::{Backing, Client, EngineError, GroupHandle, ShardSettings, VolumeSettings, protocol, start};

const BLOCK_BYTES: u64 = 16 << 10;
const FILE_BYTES: u64 = 64 << 20;

/// Reads blocks here and there, sixteen at a time, until told to stop; returns their number.
fn read_until(stop: &AtomicBool, client: &Client, progress: &AtomicU64) {
    let mut offset_bytes = 0;
    while !stop.load(Ordering::Relaxed) {
        let tickets: Vec<_> = (0..16)
            .map(|_| {
                offset_bytes = (offset_bytes + 7_777 * BLOCK_BYTES) % FILE_BYTES;
                client.submit(protocol::Command::Read, offset_bytes, BLOCK_BYTES, false, Vec::new())
            })
            .collect();
        for ticket in tickets {
            ticket.wait().expect("the file can be read");
            progress.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Shares the file of the first argument, or a temporary one, for two seconds.
///
/// # Errors
/// Those of the engine: the file cannot be opened, for example.
pub fn main() -> Result<(), EngineError> {
    let given = std::env::args().nth(1).filter(|argument| argument.starts_with('/'));
    let own = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = given.unwrap_or_else(|| {
        std::fs::write(own.path(), vec![1; usize::try_from(FILE_BYTES).expect("small")]).expect("its content");
        own.path().display().to_string()
    });
    // The model in front of the file makes every run one of a slow SSD, so that there is something
    // to share: a file in the page cache would be as fast as memory.
    let backing = Backing::parse(&format!("model:ssd,{path}"))?;
    let shard = start(ShardSettings::default(), &[VolumeSettings::new("data", backing)])?;
    let open = |name, weight| -> Result<Client, EngineError> {
        let group: GroupHandle = shard.add_group(name, weight)?;
        shard.client(shard.volumes()[0], group)
    };
    let clients = [open("db", 300)?, open("ci", 100)?];
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        for (client, count) in clients.iter().zip(&counts) {
            scope.spawn(|| read_until(&stop, client, count));
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
    });
    let [of_db, of_ci] = counts.map(AtomicU64::into_inner);
    println!("blocks read: db {of_db}, ci {of_ci}; due 3 to 1");
    shard.stop()?;
    if path.contains("hoistway-share-") {
        std::fs::remove_file(&path).expect("it is ours");
    }
    assert!(of_db > of_ci && of_ci > 0, "{of_db} and {of_ci}");
    Ok(())
}
