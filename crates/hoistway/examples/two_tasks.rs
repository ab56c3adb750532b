//! Two tokio tasks share a store in memory: each gets its part of the store's time by weight.
//!
//! `cargo run -p hoistway --example two_tasks --no-default-features --features tokio`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hoistway::queue::{AsyncShares, SharesSettings, TenantId};
use tokio::sync::Mutex;

/// Writes into the store for ever, eight requests at a time; counts the rows.
fn tenant(shares: &AsyncShares, id: TenantId, rows: u32, store: &Arc<Mutex<Vec<u64>>>) -> Arc<AtomicU64> {
    let written = Arc::new(AtomicU64::new(0));
    for _ in 0..8 {
        let (shares, store, written) = (shares.clone(), Arc::clone(store), Arc::clone(&written));
        tokio::spawn(async move {
            // A permit is a turn. Its cost is in rows, so that large requests pay for their size.
            while let Ok(permit) = shares.acquire(id, rows).await {
                let mut store = store.lock().await;
                store.extend((0..rows).map(u64::from));
                store.truncate(1 << 16);
                // What the store does for each row.
                tokio::time::sleep(Duration::from_micros(u64::from(rows) * 50)).await;
                written.fetch_add(u64::from(rows), Ordering::Relaxed);
                drop((store, permit));
            }
        });
    }
    written
}

/// Runs both tenants for a second, and compares what they got with their weights.
#[tokio::main(flavor = "current_thread")]
pub async fn main() {
    let shares = AsyncShares::new(&SharesSettings::default()).expect("memory for the queue");
    let (db, ci) = (shares.add_tenant(300).expect("room"), shares.add_tenant(100).expect("room"));
    let store = Arc::new(Mutex::new(Vec::new()));
    // The second asks for ten times as much in each request.
    let (of_db, of_ci) = (tenant(&shares, db, 10, &store), tenant(&shares, ci, 100, &store));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (of_db, of_ci) = (of_db.load(Ordering::Relaxed), of_ci.load(Ordering::Relaxed));
    println!("rows written: db {of_db}, ci {of_ci}; due 3 to 1");
    assert!((2..=4).contains(&(of_db / of_ci.max(1))), "{of_db} and {of_ci}");
}
