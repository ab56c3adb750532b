//! Which connections give way when more come than there are places: those of peers that nothing is known of yet.
//!
//! Promise  of N places, a peer loses one only if it holds more than any other, or if at least N peers hold one each.
//!          A peer that takes each step within [`STEP_TIME`] keeps its place while at most N / [`STEP_TIME`] others come in
//!          a second, from however many addresses: 10,000 a second for 1,024 places.
//!          Where more come, each newcomer finds a place in the proportion of that rate to theirs: none is
//!          shut out for good.
//! Cost     one pass over the places for each that is ended, and one over the peers.
//!
//! To end the oldest of all would be right below that rate and let no client in above it; to refuse the newest would let
//! silent peers keep their places. A burst waits in the system's queue, [`room`], so that the rate counts and not its
//! moments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::peer::Holder;

/// What a step of a good peer takes: a round trip, and the server's own work before its turn. No peer that holds one place
/// is ended before.
pub const STEP_TIME: Duration = Duration::from_millis(100);

/// How many newcomers may be accepted now: as many as there are free places and places that can be taken away, because
/// their user holds several or has had its time. If there are none, when one can be taken away next.
pub fn room(waiting: &[(Holder, Instant)], most: usize, now: Instant) -> Result<usize, Instant> {
    let free = most.saturating_sub(waiting.len());
    if free > 0 {
        return Ok(free);
    }
    let mut times: BTreeMap<Holder, (usize, Instant)> = BTreeMap::new();
    for (holder, step_at) in waiting {
        let (count, oldest) = times.entry(holder.user()).or_insert((0, *step_at));
        (*count, *oldest) = (*count + 1, (*oldest).min(*step_at));
    }
    let is_over = |oldest: Instant| now.saturating_duration_since(oldest) >= STEP_TIME;
    let several: usize = times.values().map(|(count, _)| count - 1).sum();
    let room = several + times.values().filter(|(_, oldest)| is_over(*oldest)).count();
    let next = times.values().map(|(_, oldest)| *oldest + STEP_TIME).min();
    next.filter(|_| room == 0).map_or(Ok(room), Err)
}

/// The indices to end, so that at most `most` are left. `waiting` has who holds each connection, and when it came or made
/// its last step.
pub fn surplus(waiting: &[(Holder, Instant)], most: usize, now: Instant) -> Vec<usize> {
    let surplus = waiting.len().saturating_sub(most);
    if surplus == 0 {
        return Vec::new();
    }
    let (mut users, mut peers) = (BTreeMap::new(), BTreeMap::new());
    let numbered = |numbers: &mut BTreeMap<Holder, usize>, holder: Holder| {
        let next = numbers.len();
        *numbers.entry(holder).or_insert(next)
    };
    let mut places: Vec<Place> = waiting
        .iter()
        .enumerate()
        .map(|(at, (holder, step_at))| {
            let user = numbered(&mut users, holder.user());
            Place { at, user, peer: numbered(&mut peers, holder.clone()), step_at: *step_at }
        })
        .collect();
    let (mut of_users, mut of_peers) = (vec![0; users.len()], vec![0; peers.len()]);
    for place in &places {
        of_users[place.user] += 1;
        of_peers[place.peer] += 1;
    }
    let mut ended = Vec::with_capacity(surplus);
    for _ in 0..surplus {
        // A user who starts a process for each connection is one user.
        let held = |place: &Place| (of_users[place.user], of_peers[place.peer]);
        let Some(most_held) = places.iter().map(held).max() else { break };
        let candidates = || places.iter().enumerate().filter(|(_, place)| held(place) == most_held);
        let oldest = candidates().min_by_key(|(_, place)| place.step_at);
        let victim = match oldest {
            // A peer that holds several gives way by its oldest: it may have gone on to the newest.
            Some((_, place)) if most_held.1 == 1 && now.saturating_duration_since(place.step_at) < STEP_TIME => {
                candidates().max_by_key(|(_, place)| place.step_at)
            }
            oldest => oldest,
        };
        let Some((index, _)) = victim else { break };
        let place = places.swap_remove(index);
        of_users[place.user] -= 1;
        of_peers[place.peer] -= 1;
        ended.push(place.at);
    }
    ended
}

/// One connection, with the numbers of its user and its peer.
struct Place {
    at: usize,
    user: usize,
    peer: usize,
    step_at: Instant,
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::{IpAddr, Ipv4Addr};

    use hoistway_block::random::Stream;

    use super::*;

    fn user(uid: u32, pid: u32) -> Holder {
        Holder { uid: Some(uid), pid: Some(pid), host: None }
    }

    fn host(number: u32) -> Holder {
        Holder { uid: None, pid: None, host: Some(IpAddr::V4(Ipv4Addr::from_bits(number))) }
    }

    #[test]
    fn the_oldest_of_the_peer_with_most_gives_way() {
        let now = Instant::now() + Duration::from_secs(100);
        let one = |uid: u32, pid: u32, age_s: u64| (user(uid, pid), now - Duration::from_secs(age_s));
        let first = |waiting: &[(Holder, Instant)]| surplus(waiting, waiting.len() - 1, now);
        assert_eq!(first(&[one(1, 1, 9), one(2, 2, 5), one(2, 2, 8), one(2, 2, 1)]), [2]);
        // A user who starts a process per connection is one user.
        assert_eq!(first(&[one(1, 1, 9), one(1, 1, 8), one(2, 2, 5), one(2, 3, 7), one(2, 4, 1)]), [3]);
        assert_eq!(first(&[one(1, 1, 3), one(2, 2, 5)]), [1]);
        // None has had its time: the newest finds no place.
        assert_eq!(first(&[one(1, 1, 0), (user(2, 2), now - STEP_TIME / 2)]), [0]);
        assert_eq!(first(&[(user(1, 1), now - STEP_TIME / 2), one(1, 1, 0), (user(2, 2), now - STEP_TIME / 4)]), [0]);
        assert_eq!(surplus(&[one(1, 1, 3)], 1, now), Vec::<usize>::new());
        assert_eq!(surplus(&[one(1, 1, 3), one(1, 2, 4), one(2, 1, 9)], 0, now).len(), 3);
    }

    /// Good clients that come one after the other while strangers come at a rate, each from an address of its own
    /// (`addresses` of them, in turn) and silent from its first step on.
    struct Attack {
        places: usize,
        per_second: u64,
        /// Strangers come together, at this interval.
        burst_ms: u64,
        addresses: u32,
        /// Steps of a good client, and the time of each.
        steps: u32,
        step: Duration,
    }

    /// Places and the queue of the system before them.
    struct Listener {
        waiting: Vec<(Holder, Instant)>,
        queue: VecDeque<Holder>,
    }

    impl Listener {
        /// A turn: as many as have room are accepted, and those that are too many are ended.
        fn turn(&mut self, newcomers: Vec<Holder>, places: usize, now: Instant) {
            self.queue.extend(newcomers);
            // What the system's queue has no room for is lost.
            self.queue.truncate(4_096);
            let count = room(&self.waiting, places, now).unwrap_or(0).min(64).min(self.queue.len());
            self.waiting.extend(self.queue.drain(..count).map(|holder| (holder, now)));
            let mut ended = surplus(&self.waiting, places, now);
            ended.sort_unstable();
            ended.into_iter().rev().for_each(|at| _ = self.waiting.swap_remove(at));
        }
    }

    impl Attack {
        /// Of 20 good clients, how many complete their steps.
        fn admitted(&self) -> u32 {
            let (mut random, mut now) = (Stream::new(7), Instant::now());
            let mut listener = Listener { waiting: Vec::new(), queue: VecDeque::new() };
            // The good client's number is 0.
            let good = host(0);
            let (mut strangers, mut admitted) = (0_u64, 0);
            let mut begun_ms = 0;
            for round in 0..20 {
                // Between two good clients, up to 0.2 s, and at first until all places are taken.
                let at_ms = begun_ms + 1 + random.below(200) + if round == 0 { 500 } else { 0 };
                let mut left = self.steps;
                for ms in begun_ms.. {
                    begun_ms = ms + 1;
                    now += Duration::from_millis(1);
                    let due = ms / self.burst_ms * self.burst_ms * self.per_second / 1_000;
                    let stranger = |number: u64| host(1 + u32::try_from(number).unwrap() % self.addresses);
                    let mut newcomers: Vec<Holder> = (strangers..due).map(stranger).collect();
                    strangers = strangers.max(due);
                    if ms == at_ms {
                        // It comes at any place among the strangers of its time.
                        let at = usize::try_from(random.below(newcomers.len() as u64 + 1)).unwrap();
                        newcomers.insert(at, good.clone());
                    }
                    listener.turn(newcomers, self.places, now);
                    let place = listener.waiting.iter().position(|(holder, _)| *holder == good);
                    match place {
                        Some(at) if now.duration_since(listener.waiting[at].1) >= self.step => {
                            (left, listener.waiting[at].1) = (left - 1, now);
                            if left == 0 {
                                listener.waiting.swap_remove(at);
                                admitted += 1;
                                break;
                            }
                        }
                        None if ms >= at_ms && !listener.queue.contains(&good) => break,
                        _ => {}
                    }
                }
            }
            admitted
        }
    }

    #[test]
    fn a_good_client_is_admitted_up_to_the_stated_rate_and_in_proportion_beyond() {
        let network = |per_second, step_ms| Attack {
            places: 256,
            per_second,
            burst_ms: 1,
            addresses: u32::MAX,
            steps: 6,
            step: Duration::from_millis(step_ms),
        };
        // 256 places in 0.1 s are 2,560 a second, whatever the whole handshake takes.
        for (per_second, step_ms) in [(100, 95), (1_000, 95), (2_500, 95), (2_500, 2)] {
            let admitted = network(per_second, step_ms).admitted();
            assert!(admitted >= 18, "{per_second} a second, steps of {step_ms} ms: {admitted} of 20");
        }
        // Their moments do not count: a thousand at once, each half second.
        let bursts = Attack { burst_ms: 500, ..network(2_000, 20) };
        assert!(bursts.admitted() >= 18, "{}", bursts.admitted());
        // Four times as many: a place is found by one of four, who keeps it for its first step.
        let one_step = Attack { steps: 1, ..network(10_240, 95) };
        assert!((1..=10).contains(&one_step.admitted()), "{}", one_step.admitted());
        // Steps that take longer than that have a place while few come.
        assert!(network(500, 300).admitted() >= 18);
        assert!(network(5_000, 300).admitted() < 10);
    }

    #[test]
    fn strangers_from_fewer_addresses_than_places_shut_none_out_at_any_rate() {
        for addresses in [1, 16, 200] {
            let step = Duration::from_millis(300);
            let attack = Attack { places: 256, per_second: 5_000, burst_ms: 1, addresses, steps: 6, step };
            assert_eq!(attack.admitted(), 20, "{addresses} addresses");
        }
    }
}
