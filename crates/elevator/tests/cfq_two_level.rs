//! uchida and tarasov, two group schedulers of 2008 in which each group has a CFQ of its own: the
//! cases of docs/specifications/cfq.md, section 19, about them, and their invariants. Shares are of
//! the device's time.

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId};
use hoistway_elevator::group::GroupPriority;
use hoistway_elevator::tunable::SettingError;
use hoistway_elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};
use hoistway_testbed::check_tunables_table;

const HIGH: u32 = 1;
const MIDDLE: u32 = 2;
const LOW: u32 = 3;

/// A load of one issuer: it keeps `depth` requests outstanding in its own region of the disk, and
/// sends each one `think_ns` after a completion.
#[derive(Copy, Clone, Debug)]
struct Flow {
    group: u32,
    context: u32,
    operation: Operation,
    depth: u32,
    think_ns: Nanos,
}

/// An issuer with 32 requests outstanding, so that it is always backlogged.
fn backlogged(group: u32, context: u32) -> Flow {
    Flow { group, context, operation: Operation::Read, depth: 32, think_ns: 0 }
}

/// An issuer that waits for each of its requests, and thinks for 0.1 ms before the next.
fn one_at_a_time(group: u32, context: u32) -> Flow {
    Flow { depth: 1, think_ns: MILLISECOND / 10, ..backlogged(group, context) }
}

/// Two backlogged issuers in each of the groups.
fn readers_of(groups: &[u32]) -> Vec<Flow> {
    groups.iter().flat_map(|group| [backlogged(*group, 2 * group), backlogged(*group, 2 * group + 1)]).collect()
}

/// A policy and a device that serves one request at a time.
struct Bench {
    policy: Any,
    requests: Requests,
    now: Nanos,
    service_ns: Nanos,
    in_device: Option<(RequestId, Nanos)>,
    /// The times of the next requests, each with the index of its flow.
    asks: Vec<(Nanos, usize)>,
    flows: Vec<Flow>,
    next_sector: Vec<u64>,
    /// Group and issuer of each request, in order of service, and when service began.
    served: Vec<(u32, u32, Nanos)>,
}

impl Bench {
    /// `spec` is `name@version:tunable=value,...`; `levels` are the priority levels of groups 1, 2,
    /// ...
    fn new(spec: &str, levels: &[Option<u32>]) -> Self {
        let configuration = Configuration {
            slots: 512,
            groups: 16,
            contexts: 64,
            depth: Depth { requests: 512, device: 1 },
            rotational: true,
            queueing: false,
            ..Configuration::default()
        };
        let (policy, rows) = spec.split_once(':').unwrap_or((spec, ""));
        let (name, version) = policy.split_once('@').unwrap_or((policy, ""));
        let policy = registry::build(name, registry::parse_version(version), &configuration).expect("registered");
        let requests = Requests::try_new(configuration.slots).expect("memory");
        let mut bench = Self {
            policy,
            requests,
            now: SECOND,
            service_ns: MILLISECOND / 5,
            in_device: None,
            asks: Vec::new(),
            flows: Vec::new(),
            next_sector: Vec::new(),
            served: Vec::new(),
        };
        for row in rows.split(',').filter(|row| !row.is_empty()) {
            let (row, value) = row.split_once('=').expect("row=value");
            bench.set(row, value);
        }
        for (group, level) in (1..).zip(levels) {
            bench.policy.group_added(GroupId(group), &settings(*level), bench.now);
        }
        bench
    }

    fn set(&mut self, name: &str, text: &str) {
        let rows = self.policy.tunables();
        let index = rows.iter().position(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"));
        let value = rows[index].parse(text).expect("a value");
        self.policy.set(index, value).expect("in range");
    }

    /// Adds issuers that send requests from now on.
    fn with(&mut self, flows: &[Flow]) -> &mut Self {
        for flow in flows {
            let index = self.flows.len();
            self.flows.push(*flow);
            self.next_sector.push(u64::from(flow.context) << 24);
            for _ in 0..flow.depth {
                self.asks.push((self.now, index));
            }
        }
        self
    }

    fn insert(&mut self, index: usize) {
        let flow = self.flows[index];
        let sector = &mut self.next_sector[index];
        let mut bio = Attributes::new(flow.operation, Extent::new(*sector, 8));
        *sector += 8;
        bio.group = GroupId(flow.group);
        bio.context = ContextId(flow.context);
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    fn dispatch(&mut self) {
        if self.in_device.is_some() || !self.policy.has_work(HardwareQueue(0)) {
            return;
        }
        if let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
            self.requests.move_to(id, Place::Dispatched);
            self.requests.move_to(id, Place::Started);
            let _ = self.policy.started(&self.requests, id, self.now);
            let bio = self.requests.attributes(id);
            self.served.push((bio.group.0, bio.context.0, self.now));
            self.in_device = Some((id, self.now + self.service_ns));
        }
    }

    fn complete(&mut self, id: RequestId) {
        self.in_device = None;
        let bio = *self.requests.attributes(id);
        self.requests.move_to(id, Place::Complete);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        let index = self.flows.iter().position(|flow| flow.context == bio.context.0).expect("a known issuer");
        self.asks.push((self.now + self.flows[index].think_ns, index));
    }

    /// Lets `span_ns` pass.
    fn run(&mut self, span_ns: Nanos) -> &mut Self {
        let end = self.now + span_ns;
        loop {
            while let Some(at) = self.asks.iter().position(|(when, _)| *when <= self.now) {
                let (_, index) = self.asks.remove(at);
                self.insert(index);
            }
            self.dispatch();
            let events = self.asks.iter().map(|ask| ask.0).chain(self.in_device.map(|(_, end)| end));
            let next = events.chain(self.policy.next_timer()).min().unwrap_or(end);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if let Some((id, done)) = self.in_device
                && done <= self.now
            {
                self.complete(id);
            }
            if self.policy.next_timer().is_some_and(|at| at <= self.now) {
                let _ = self.policy.timer(&self.requests, self.now);
            }
            assert_eq!(self.policy.violations(), 0);
        }
        self.now = end;
        self.policy.check(&self.requests).expect("invariants");
        self
    }

    /// Clears the record of served requests.
    fn forget(&mut self) -> &mut Self {
        self.served.clear();
        self
    }

    /// Per cent of the requests, which all take the same time, by group.
    fn shares(&self, groups: &[u32]) -> Vec<f64> {
        let of = |group: &u32| self.served.iter().filter(|served| served.0 == *group).count();
        let total: usize = groups.iter().map(of).sum();
        groups.iter().map(|group| 100.0 * of(group) as f64 / total as f64).collect()
    }

    /// The turns of groups: which group, and how long in ms.
    fn turns(&self) -> Vec<(u32, u64)> {
        let mut turns: Vec<(u32, Nanos, Nanos)> = Vec::new();
        for (group, _, at) in &self.served {
            match turns.last_mut() {
                Some((last, _, until)) if last == group => *until = at + self.service_ns,
                _ => turns.push((*group, *at, at + self.service_ns)),
            }
        }
        turns.iter().map(|(group, from, until)| (*group, (until - from + MILLISECOND / 2) / MILLISECOND)).collect()
    }
}

fn settings(level: Option<u32>) -> GroupSettings {
    let priority = level.map(|level| GroupPriority::new(level).expect("a level"));
    GroupSettings { priority, ..GroupSettings::with_weight(100) }
}

#[track_caller]
fn assert_shares(bench: &Bench, expected: [f64; 3], tolerance: f64) {
    let shares = bench.shares(&[HIGH, MIDDLE, LOW]);
    let is_near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() <= tolerance);
    assert!(is_near, "{shares:.1?}, not {expected:.1?} ± {tolerance}");
}

/// The priority levels of groups HIGH, MIDDLE and LOW in the test report that
/// docs/specifications/cfq.md, section 15.4, quotes, for uchida, where 0 is the highest.
const UCHIDA: [Option<u32>; 3] = [Some(0), Some(4), Some(7)];
/// The same for tarasov, where 7 is the highest.
const TARASOV: [Option<u32>; 3] = [Some(7), Some(4), Some(0)];

#[test]
fn t50_uchida_without_key_offset_shares_as_the_slices() {
    let mut bench = Bench::new("uchida:key_offset=0", &UCHIDA);
    bench.with(&readers_of(&[HIGH, MIDDLE, LOW])).run(30 * SECOND);
    assert_shares(&bench, [61.5, 30.8, 7.7], 0.3);
    let turns = bench.turns();
    assert_eq!(turns[0].0, HIGH);
    assert!(turns.windows(3).all(|three| three[0].0 != three[2].0), "plain rotation: {turns:?}");
}

/// Groups of the levels 0, 4 and 7 are served in the order 7, 4, 0, 4, 0. After its turn, a group
/// of level 4 is placed 160 ms back in the order and one of level 7 280 ms; so between two turns of
/// level 7 each of the other two has two turns, level 4 first.
#[test]
fn t50_uchida_with_key_offset_serves_the_lowest_half_as_often() {
    let mut bench = Bench::new("uchida", &UCHIDA);
    bench.with(&readers_of(&[HIGH, MIDDLE, LOW])).run(5 * SECOND).forget().run(30 * SECOND);
    assert_shares(&bench, [64.0, 32.0, 4.0], 0.3);
    let order: Vec<u32> = bench.turns().iter().map(|turn| turn.0).collect();
    let first = order.iter().position(|group| *group == LOW).expect("every group is served");
    for round in order[first..].chunks_exact(5) {
        assert_eq!(round, [LOW, MIDDLE, HIGH, MIDDLE, HIGH]);
    }
}

#[test]
fn t51_tarasov_shares_as_the_mapping_says() {
    for (spec, shares, slices) in [
        ("tarasov", [57.1, 35.7, 7.1], [160, 100, 20]),
        ("tarasov:mapping=openvz", [43.8, 34.4, 21.9], [1000, 785, 500]),
    ] {
        let mut bench = Bench::new(spec, &TARASOV);
        bench.with(&readers_of(&[HIGH, MIDDLE, LOW])).run(60 * SECOND);
        let turns = bench.turns();
        // A slice is ended by the first tick after its time, so it can be 1 ms longer. That is a
        // twentieth of the shortest slice, so the sums of the turns' lengths are compared, with a
        // tolerance.
        let whole_rounds = turns.len() / 3 * 3;
        let of = |group| turns[..whole_rounds].iter().filter(|turn| turn.0 == group).map(|turn| turn.1).sum::<u64>();
        let (got, total) = ([of(HIGH), of(MIDDLE), of(LOW)], of(HIGH) + of(MIDDLE) + of(LOW));
        for (got, expected) in got.into_iter().zip(shares) {
            let share = 100.0 * got as f64 / total as f64;
            assert!((share - expected).abs() < 0.4, "{spec}: {share:.2}, not {expected}");
        }
        for (number, (group, length_ms)) in turns.iter().take(turns.len() - 1).enumerate() {
            assert_eq!(*group as usize, number % 3 + 1, "{spec}: round robin");
            let slice = slices[number % 3];
            assert!((slice..=slice + 2).contains(length_ms), "{spec}: {length_ms} ms for {slice}");
        }
    }
}

#[test]
fn t51_tarasov_by_virtual_time_shares_by_the_ratios() {
    let mut bench = Bench::new("tarasov@2.6.18:group_slice=50", &TARASOV);
    bench.with(&readers_of(&[HIGH, MIDDLE, LOW])).run(60 * SECOND);
    assert_shares(&bench, [43.6, 34.6, 21.8], 0.3);
    assert!(bench.turns().iter().rev().skip(1).all(|turn| turn.1.is_multiple_of(51) || turn.1 % 51 == 50));
}

#[test]
fn t52_tarasov_a_group_that_runs_empty_loses_its_slice_when_others_wait() {
    let mut bench = Bench::new("tarasov", &[Some(7), Some(4)]);
    bench.with(&[one_at_a_time(HIGH, 1), backlogged(MIDDLE, 2)]).run(20 * SECOND);
    let turns = bench.turns();
    // Each time, the other group is first in the list of groups once more, and so gets two slices
    // of 100 ms in a row.
    assert!(turns.iter().filter(|turn| turn.0 == HIGH).count() >= 98);
    let of_high = bench.served.windows(2).filter(|two| two[0].0 == HIGH && two[1].0 == HIGH).count();
    assert_eq!(of_high, 0, "each request ends its turn");
    assert!(turns.iter().rev().skip(1).filter(|turn| turn.0 == MIDDLE).all(|turn| (200..=204).contains(&turn.1)));
}

/// The load of the previous test, under uchida: the CFQ of the first group idles for the group's
/// reader, so the group keeps the device for its whole slice of 160 ms. If the reader's slice of
/// 100 ms within the group ends while the reader thinks, the group loses the device then.
#[test]
fn uchida_idling_for_a_queue_keeps_the_group() {
    let mut bench = Bench::new("uchida:key_offset=0", &[Some(0), Some(4)]);
    bench.with(&[one_at_a_time(HIGH, 1), backlogged(MIDDLE, 2)]).run(20 * SECOND);
    let turns = bench.turns();
    for (group, length_ms) in turns.iter().take(turns.len() - 1) {
        let slices: &[u64] = if *group == HIGH { &[100, 160] } else { &[80] };
        assert!(slices.iter().any(|slice| (slice - 1..=slice + 1).contains(length_ms)), "{group}: {length_ms} ms");
    }
}

/// A reader that thinks for longer than the idle time loses the device when the timer fires, and
/// not before.
#[test]
fn uchida_a_group_loses_the_device_when_its_idle_timer_fires() {
    let mut bench = Bench::new("uchida", &[Some(0), Some(4)]);
    bench.with(&[Flow { think_ns: 20 * MILLISECOND, ..one_at_a_time(HIGH, 1) }]).run(MILLISECOND);
    bench.with(&[backlogged(MIDDLE, 2)]).run(15 * MILLISECOND);
    let times: Vec<(u32, u64)> = bench.served.iter().map(|served| (served.0, served.2)).collect();
    assert_eq!(times[0], (HIGH, SECOND));
    // The reader's request completed in tick 1000 (at 1 s), and the idle timer fires 8 ticks later.
    assert_eq!(times[1], (MIDDLE, SECOND + 8 * MILLISECOND));
}

#[test]
fn groups_without_a_level_have_the_middle_one_of_their_policy() {
    for (spec, level) in [("uchida:key_offset=0", 3), ("tarasov", 4), ("tarasov@2.6.18", 4)] {
        let mut bench = Bench::new(spec, &[None, Some(level), Some(0)]);
        bench.with(&readers_of(&[1, 2])).run(20 * SECOND);
        let shares = bench.shares(&[1, 2]);
        assert!((shares[0] - 50.0).abs() < 1.5, "{spec}: {shares:?}");
    }
}

#[test]
fn levels_outside_0_to_7_are_refused_with_erange() {
    for level in [8, 9, 100, u32::MAX] {
        assert_eq!(GroupPriority::new(level), Err(SettingError::Range));
    }
    assert_eq!(
        (0..8).map(|level| GroupPriority::new(level).map(GroupPriority::level)).collect::<Vec<_>>(),
        (0..8).map(Ok).collect::<Vec<_>>()
    );
}

#[test]
fn a_level_changed_counts_from_the_next_turn() {
    for spec in ["uchida:key_offset=0", "tarasov"] {
        let mut bench = Bench::new(spec, &[Some(4), Some(4)]);
        bench.with(&readers_of(&[1, 2])).run(4 * SECOND);
        assert!((bench.shares(&[1, 2])[0] - 50.0).abs() < 2.5, "{spec}: {:?}", bench.shares(&[1, 2]));
        let best = if spec == "tarasov" { 7 } else { 0 };
        let _ = bench.policy.group_changed(GroupId(1), &settings(Some(best)), bench.now);
        bench.run(SECOND).forget().run(20 * SECOND);
        let (expected, share) = (100.0 * bench_ratio(spec), bench.shares(&[1, 2])[0]);
        assert!((share - expected).abs() < 1.0, "{spec}: {share}, not {expected}");
    }
}

/// The ratio of the best level's slice to that of level 4.
fn bench_ratio(spec: &str) -> f64 {
    if spec == "tarasov" { 160.0 / 260.0 } else { 160.0 / 240.0 }
}

#[test]
fn a_slice_set_counts_from_the_next_turn() {
    for (spec, length_ms) in [("uchida:key_offset=0,group_slice=50", 40), ("tarasov:group_slice=50", 50)] {
        let mut bench = Bench::new(spec, &[Some(4), Some(4)]);
        bench.with(&readers_of(&[1, 2])).run(4 * SECOND);
        let turns = bench.turns();
        assert!(
            turns.iter().rev().skip(1).all(|turn| (length_ms..=length_ms + 2).contains(&turn.1)),
            "{spec}: {turns:?}"
        );
    }
}

/// Async writes belong to their groups in both policies: shares hold for them as well.
#[test]
fn async_writes_share_by_group() {
    let writer = |group| Flow { operation: Operation::Write, ..backlogged(group, group) };
    for (spec, levels, expected) in
        [("uchida:key_offset=0", UCHIDA, [61.5, 30.8, 7.7]), ("tarasov", TARASOV, [57.1, 35.7, 7.1])]
    {
        let mut bench = Bench::new(spec, &levels);
        bench.with(&[writer(HIGH), writer(MIDDLE), writer(LOW)]).run(30 * SECOND);
        // Up to 16 requests that were moved to the dispatch list before the end of a slice are
        // served after it.
        assert_shares(&bench, expected, 0.8);
    }
}

#[test]
fn a_reader_does_not_preempt_writers_of_another_group() {
    // In tarasov the writers' group is first in the list of groups once more when its slice ends,
    // so it gets two slices in a row.
    for (spec, slice_ms) in [("uchida", 160), ("tarasov", 2 * 160)] {
        let best = if spec == "tarasov" { 7 } else { 0 };
        let mut bench = Bench::new(spec, &[Some(best), Some(4)]);
        bench.with(&[Flow { operation: Operation::Write, ..backlogged(1, 1) }]).run(20 * MILLISECOND);
        bench.with(&[one_at_a_time(2, 2)]).run(400 * MILLISECOND);
        let (group, length_ms) = bench.turns()[0];
        assert_eq!(group, 1);
        assert!((slice_ms - 1..=slice_ms + 4).contains(&length_ms), "{spec}: {length_ms}");
        // Within its own group a reader preempts writers, as in CFQ of 2.6.26.
        let mut bench = Bench::new(spec, &[Some(best)]);
        bench.with(&[Flow { operation: Operation::Write, ..backlogged(1, 1) }]).run(20 * MILLISECOND);
        bench.with(&[one_at_a_time(1, 2)]).run(20 * MILLISECOND);
        let waited = bench.served.iter().find(|served| served.1 == 2).expect("served").2 - (SECOND + 20 * MILLISECOND);
        // Up to 16 requests are in flight.
        assert!(waited < 4 * MILLISECOND, "{spec}: {waited}");
    }
}

/// In the form of 2.6.18, which shares by virtual time, a group that was idle returns with a credit
/// of at most one slice.
#[test]
fn tarasov_idle_groups_save_no_virtual_time() {
    let mut bench = Bench::new("tarasov@2.6.18:group_slice=50", &[Some(4), Some(4), Some(4)]);
    bench.with(&readers_of(&[1, 2])).run(20 * SECOND);
    bench.with(&readers_of(&[3])).forget().run(3 * SECOND);
    assert_shares(&bench, [33.3; 3], 2.0);
}

#[test]
fn an_issuer_that_moves_leaves_its_requests_where_they_are() {
    for spec in ["uchida", "tarasov", "tarasov@2.6.18"] {
        let mut bench = Bench::new(spec, &[Some(4), Some(4)]);
        bench.with(&[backlogged(1, 1), backlogged(2, 2)]).run(50 * MILLISECOND);
        bench.flows[0].group = 2;
        bench.run(SECOND);
        let later = bench.served.iter().filter(|served| served.2 > SECOND + 600 * MILLISECOND);
        assert!(later.clone().all(|served| served.0 == 2) && later.clone().any(|served| served.1 == 1), "{spec}");
        let account = bench.policy.group_account(GroupId(1)).expect("kept");
        let now = bench.now;
        assert!(bench.policy.reset_group_account(GroupId(2), now), "{spec}");
        assert_eq!(bench.policy.group_account(GroupId(2)).expect("kept").serviced.total(), 0, "{spec}");
        let served_before = bench.served.iter().filter(|served| served.0 == 1).count();
        assert_eq!((account.queued.total(), account.serviced.total()), (0, served_before as u64));
        assert!(account.time_ns > 0, "{spec}: its turns are in its account");
        let _ = bench.policy.context_exited(ContextId(1), bench.now);
        bench.policy.group_offline(GroupId(1), bench.now);
        bench.policy.group_removed(GroupId(1), bench.now);
        bench.run(SECOND);
    }
}

/// Two tunables of OpenVZ: if `virt_mode` is 0, all readers belong to the root group, and if
/// `write_virt_mode` is 0, all buffered writes do.
#[test]
fn tarasov_groups_may_be_switched_off_for_readers_or_for_writers() {
    let write = |group, context| Flow { operation: Operation::Write, ..backlogged(group, context) };
    for version in ["", "@2.6.18"] {
        let with = |row: &str| {
            let mut bench = Bench::new(&format!("tarasov{version}:group_slice=50,{row}=0"), &TARASOV);
            bench.with(&readers_of(&[HIGH, LOW])).with(&[write(HIGH, 21), write(LOW, 22)]).run(20 * SECOND);
            let account = |group| bench.policy.group_account(GroupId(group)).expect("kept").serviced;
            [0, HIGH, LOW].map(account)
        };
        let [root, high, low] = with("virt_mode");
        assert!(root.sync > 0 && root.asynchronous == 0, "{root:?}");
        assert!(high.sync + low.sync == 0 && high.asynchronous > low.asynchronous, "{high:?} {low:?}");
        let [root, high, low] = with("write_virt_mode");
        assert!(root.sync == 0 && root.asynchronous > 0, "{root:?}");
        assert!(high.asynchronous + low.asynchronous == 0 && high.sync > low.sync, "{high:?} {low:?}");
    }
}

#[test]
fn tarasov_a_switch_takes_effect_with_the_next_requests() {
    let mut bench = Bench::new("tarasov", &TARASOV);
    bench.with(&readers_of(&[HIGH, LOW])).run(2 * SECOND);
    let served = |bench: &Bench, group| bench.policy.group_account(GroupId(group)).expect("kept").serviced.sync;
    assert_eq!(served(&bench, 0), 0);
    bench.set("virt_mode", "0");
    bench.run(2 * SECOND);
    let before = served(&bench, HIGH);
    bench.run(2 * SECOND);
    assert!(served(&bench, 0) > 10_000 && served(&bench, HIGH) == before);
    bench.set("virt_mode", "1");
    bench.run(2 * SECOND).run(2 * SECOND);
    assert!(served(&bench, HIGH) > before + 5_000);
}

#[test]
fn the_documented_tunables_are_those_in_force() {
    for policy in ["uchida", "tarasov"] {
        check_tunables_table(policy);
    }
}

#[test]
fn mappings_are_words_and_bring_their_own_slice() {
    let mut bench = Bench::new("tarasov", &TARASOV);
    let row = |bench: &Bench, name| bench.policy.tunables().iter().position(|row| row.name == name).expect("a row");
    let slice = row(&bench, "group_slice");
    assert_eq!(bench.policy.setting(slice), Some(100));
    bench.set("mapping", "openvz");
    assert_eq!(bench.policy.setting(slice), Some(500));
    bench.set("group_slice", "200");
    bench.set("mapping", "lkml2008");
    assert_eq!(bench.policy.setting(slice), Some(200), "what was set stays");
    let mapping = row(&bench, "mapping");
    assert_eq!(bench.policy.set(mapping, 2), Err(SettingError::Range));
    assert_eq!(Bench::new("tarasov@2.6.18", &[]).policy.setting(slice), Some(500));
    let beyond = bench.policy.tunables().len();
    assert_eq!(bench.policy.set(beyond, 0), Err(SettingError::Unknown));
}
