//! A server of threads that wait for work: two tenants, one of which sends ten times as much, share it by weight.
//!
//! `cargo run -p hoistway-shares --example blocking_server`

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hoistway_shares::{Rejected, Shares, SharesSettings, TenantId};

/// Threads that serve.
const WORKERS: u32 = 2;

/// What clients and workers share.
struct Server {
    begin: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    shares: Shares<Query>,
    is_ending: bool,
}

/// A piece of work: the rows that it reads are its cost, since they are known before.
struct Query {
    rows: u32,
}

impl Server {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn submit(&self, tenant: TenantId, query: Query) -> Result<(), Rejected<Query>> {
        let mut state = self.state.lock().expect("no panic");
        state.shares.submit(tenant, query.rows, query, self.now_ns())?;
        self.changed.notify_one();
        Ok(())
    }

    /// Serves until the server ends and nothing waits; what has been taken in is still served.
    fn work(&self, mut serve: impl FnMut(TenantId, &Query)) {
        let mut state = self.state.lock().expect("no panic");
        loop {
            let now_ns = self.now_ns();
            if let Some(turn) = state.shares.next(now_ns) {
                drop(state);
                serve(turn.tenant, &turn.item);
                state = self.state.lock().expect("no panic");
                assert!(state.shares.done(turn.id, self.now_ns()));
                // There is room for another item, which another worker may wait for.
                self.changed.notify_one();
            } else if state.is_ending && state.shares.waiting() == 0 {
                return;
            } else if let Some(at_ns) = state.shares.next_timer() {
                // All that wait are above their limits.
                let wait = Duration::from_nanos(at_ns.saturating_sub(now_ns));
                state = self.changed.wait_timeout(state, wait).expect("no panic").0;
            } else {
                state = self.changed.wait(state).expect("no panic");
            }
        }
    }

    fn end(&self) {
        self.state.lock().expect("no panic").is_ending = true;
        self.changed.notify_all();
    }
}

/// Serves 440 queries with two threads.
pub fn main() {
    let settings = SharesSettings { in_service: WORKERS, ..SharesSettings::default() };
    let mut shares = Shares::new(&settings).expect("memory");
    let db = shares.add_tenant(300, 0).expect("a right weight, and room");
    let ci = shares.add_tenant(100, 0).expect("a right weight, and room");
    let state = Mutex::new(State { shares, is_ending: false });
    let server = Server { begin: Instant::now(), state, changed: Condvar::new() };
    for number in 0..440 {
        let tenant = if number % 11 == 0 { db } else { ci };
        server.submit(tenant, Query { rows: 10 }).unwrap_or_else(|rejected| panic!("{rejected}"));
    }
    let order = Mutex::new(Vec::new());
    server.end();
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| server.work(|tenant, _| order.lock().expect("no panic").push(tenant)));
        }
    });
    let order = order.into_inner().expect("no panic");
    let of_db = order.iter().take(48).filter(|tenant| **tenant == db).count();
    println!("of the first 48 queries {of_db} are db's, which has 3 of 4 parts; {} were served", order.len());
    assert!((34..=38).contains(&of_db), "{of_db}: two workers may finish in another order");
    assert_eq!(order.len(), 440, "none is lost at the end");
}
