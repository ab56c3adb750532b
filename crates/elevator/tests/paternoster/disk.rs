//! Slices on a disk: the order of an issuer's requests, that none of them starves, and which group
//! is served next.

use hoistway_block::time::MILLISECOND;
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId, Sector};
use hoistway_elevator::{
    Any, Attributes, Configuration, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, Side, registry,
};

/// One issuer's queue in front of a disk with one request at a time.
struct Disk {
    policy: Any,
    requests: Requests,
    now: Nanos,
}

impl Disk {
    fn new() -> Self {
        let configuration = Configuration { rotational: true, slots: 64, ..Configuration::default() };
        let policy = registry::build("paternoster", None, &configuration).expect("registered");
        Self { policy, requests: Requests::try_new(64).expect("memory"), now: 1_000 * MILLISECOND }
    }

    fn ask(&mut self, sector: Sector) -> RequestId {
        let mut bio = Attributes::new(Operation::Read, Extent::new(sector, 8));
        (bio.group, bio.context) = (GroupId(0), ContextId(1));
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
        id
    }

    /// Dispatches the next request and completes it 5 ms later.
    fn serve(&mut self) -> Sector {
        let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), self.now) else {
            panic!("nothing is sent");
        };
        let sector = self.requests.attributes(id).extent.first_sector;
        self.requests.move_to(id, Place::Dispatched);
        self.requests.move_to(id, Place::Started);
        self.now += 5 * MILLISECOND;
        self.requests.move_to(id, Place::Complete);
        let _ = self.policy.completed(&self.requests, id, self.now);
        self.end(id);
        sector
    }

    fn end(&mut self, id: RequestId) {
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        self.policy.check(&self.requests).expect("invariants");
        assert_eq!(self.policy.violations(), 0);
    }
}

#[test]
fn requests_go_upwards_and_then_from_below() {
    let mut disk = Disk::new();
    for sector in [500, 100, 900, 300] {
        disk.ask(sector);
    }
    assert_eq!([disk.serve(), disk.serve()], [100, 300]);
    disk.ask(200);
    disk.ask(400);
    assert_eq!([disk.serve(), disk.serve(), disk.serve(), disk.serve()], [400, 500, 900, 200]);
}

/// A bio merged at the front changes the first sector of its request, and a request taken back
/// before its dispatch is gone.
#[test]
fn a_sweep_follows_merges_and_what_is_taken_back() {
    let mut disk = Disk::new();
    let [_, high, gone] = [100, 900, 500].map(|sector| disk.ask(sector));
    let (front, now) = (Extent::new(400, 508), disk.now);
    disk.requests.live_mut(high).expect("live").attributes.extent = front;
    disk.policy.bio_merged(&disk.requests, high, Side::Front, now);
    disk.end(gone);
    disk.ask(300);
    assert_eq!([disk.serve(), disk.serve(), disk.serve()], [100, 300, 400]);
}

/// An issuer always has 15 requests of a stream ahead of the disk's position, and sends two
/// requests behind it. Each of the two is dispatched after at most four times as many requests as
/// are queued. This is repeated a hundred times.
#[test]
fn a_stream_does_not_starve_others() {
    let mut disk = Disk::new();
    let mut ahead = 1_000_000;
    for _ in 0..15 {
        disk.ask(ahead);
        ahead += 8;
    }
    for _ in 0..100 {
        // The disk's position is in the stream.
        assert!(disk.serve() > 1_000);
        disk.ask(ahead);
        ahead += 8;
        disk.ask(16);
        disk.ask(0);
        let (mut since, mut left) = (0, Vec::new());
        while left.len() < 2 {
            let sector = disk.serve();
            since += 1;
            if sector < 1_000 {
                left.push(sector);
            } else {
                disk.ask(ahead);
                ahead += 8;
            }
            assert!(since <= 2 * 4 * 18, "left behind: {left:?}");
        }
        assert_eq!(left, [16, 0], "who came first");
    }
}

/// Two readers of depth 1 on a disk with one request at a time, 5 ms each, weights 100 : 800: turns
/// follow the weights, no turn is skipped, and each lasts for its slice.
#[test]
fn slices_follow_the_weights() {
    let configuration =
        Configuration { rotational: true, slots: 64, groups: 4, contexts: 8, ..Configuration::default() };
    let mut policy = registry::build("paternoster", None, &configuration).expect("registered");
    for (group, weight) in [(1, 100), (2, 800)] {
        policy.group_added(GroupId(group), &GroupSettings::with_weight(weight), 0);
    }
    let mut requests = Requests::try_new(64).expect("memory");
    let mut now = 1_000 * MILLISECOND;
    let ask = |policy: &mut Any, requests: &mut Requests, group: u32, now: Nanos| {
        let mut bio = Attributes::new(Operation::Read, Extent::new(u64::from(group) << 30, 64));
        (bio.group, bio.context) = (GroupId(group), ContextId(group));
        let id = requests.allocate(bio, now).expect("a slot");
        policy.allocated(requests, id, now);
        requests.move_to(id, Place::Queued);
        let _ = policy.insert(requests, id, Position::Sorted(Hint::None), now);
    };
    for group in [1, 2] {
        ask(&mut policy, &mut requests, group, now);
    }
    let mut done = Vec::new();
    while done.len() < 10_000 {
        let id = match policy.choose(&requests, HardwareQueue(0), now) {
            Dispatch::Request { id, .. } => id,
            Dispatch::Hold { until, .. } => {
                now = until;
                let _ = policy.timer(&requests, now);
                continue;
            }
            other => panic!("{other:?}"),
        };
        let group = requests.attributes(id).group.0;
        requests.move_to(id, Place::Dispatched);
        requests.move_to(id, Place::Started);
        now += 5 * MILLISECOND;
        requests.move_to(id, Place::Complete);
        let _ = policy.completed(&requests, id, now);
        let _ = policy.released(&requests, id, now);
        policy.freed(&requests, id, now);
        requests.free(id);
        done.push(group);
        ask(&mut policy, &mut requests, group, now);
    }
    let light = done.iter().filter(|group| **group == 1).count() as f64;
    assert!((light / (done.len() as f64 / 9.0) - 1.0).abs() <= 0.05, "{light} of {}", done.len());
    // Only the first 200 requests: later paternoster tries to serve both groups at once (flow),
    // which costs nothing on this disk. A slice has 20 requests.
    let turns = done[..200].windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((1..=10).contains(&turns), "{turns} changes");
}
