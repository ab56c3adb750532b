//! Learned concurrency, on devices of which the parallelism is known.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::random::Stream;
use hoistway_shares::{Shares, SharesSettings, TenantId, TurnId, cost_of_bytes};

const MS: u64 = 1_000_000;
const MOST: u32 = 64;
const ITEM_BYTES: u64 = 64 << 10;

/// A device that serves this many items at a time, each in 1 to 3 ms, and makes all others wait; two tenants keep 64 items
/// with it each.
struct Device {
    shares: Shares<()>,
    tenants: [TenantId; 2],
    /// When each of its places is free again.
    places: BinaryHeap<Reverse<u64>>,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    turns: Vec<Option<(TurnId, TenantId)>>,
    now: u64,
    served: [u64; 2],
    random: Stream,
}

impl Device {
    fn new(parallel: usize) -> Self {
        let settings = SharesSettings { tenants: 2, items: 4 * MOST, in_service: MOST, learns: true };
        let mut shares = Shares::new(&settings).expect("memory");
        let tenants = [300, 100].map(|weight| shares.add_tenant(weight, 0).expect("a tenant"));
        let mut device = Self {
            shares,
            tenants,
            places: (0..parallel).map(|_| Reverse(0)).collect(),
            ends: BinaryHeap::new(),
            turns: Vec::new(),
            now: 0,
            served: [0; 2],
            random: Stream::of(1, "learning"),
        };
        for tenant in tenants {
            (0..MOST).for_each(|_| device.ask(tenant));
        }
        device
    }

    fn ask(&mut self, tenant: TenantId) {
        self.shares.submit(tenant, cost_of_bytes(ITEM_BYTES), (), self.now).expect("room");
    }

    fn start(&mut self) {
        while let Some(turn) = self.shares.next(self.now) {
            let Reverse(free) = self.places.pop().expect("a place");
            let end = free.max(self.now) + MS + self.random.below(2 * MS);
            self.places.push(Reverse(end));
            self.ends.push(Reverse((end, self.turns.len() as u64)));
            self.turns.push(Some((turn.id, turn.tenant)));
        }
    }

    /// Lets time pass until the next item ends, or the queue's timer.
    fn step(&mut self) {
        self.start();
        let next_end = self.ends.peek().map(|Reverse((at, _))| *at);
        if let Some(timer) = self.shares.next_timer().filter(|timer| next_end.is_none_or(|end| *timer < end)) {
            self.now = self.now.max(timer);
            return;
        }
        let Reverse((at, number)) = self.ends.pop().expect("an item in service, or a timer");
        self.now = at;
        let (id, tenant) = self.turns[usize::try_from(number).expect("small")].take().expect("in service");
        assert!(self.shares.done(id, at));
        self.served[usize::from(tenant == self.tenants[1])] += 1;
        self.ask(tenant);
    }

    /// Runs for so long; returns the items served, of each tenant.
    fn run(&mut self, time_ns: u64) -> [u64; 2] {
        let (end, before) = (self.now + time_ns, self.served);
        while self.now < end {
            self.step();
        }
        [self.served[0] - before[0], self.served[1] - before[1]]
    }
}

#[test]
fn few_items_in_service_keep_a_device_busy_and_shares_exact() {
    for parallel in [1, 4, 12, 30] {
        let mut device = Device::new(parallel);
        device.run(10_000 * MS);
        let [high, low] = device.run(20_000 * MS);
        // 500 a second of each place.
        let due = 20 * 500 * parallel as u64;
        let ratio = high as f64 / low as f64;
        assert!(high + low >= due * 96 / 100, "{parallel} at a time: {} of {due} served", high + low);
        assert!((2.85..3.15).contains(&ratio), "{parallel} at a time: {high} to {low}");
    }
}

#[test]
fn the_number_follows_a_device_that_changes() {
    let mut device = Device::new(4);
    device.run(10_000 * MS);
    let free = device.now;
    (0..26).for_each(|_| device.places.push(Reverse(free)));
    device.run(10_000 * MS);
    let [high, low] = device.run(20_000 * MS);
    let due = 20 * 500 * 30;
    assert!(high + low >= due * 96 / 100, "{} of {due} served", high + low);
}
