//! Caps on requests and bytes per second in front of another device, with credit for bursts: a
//! volume of a cloud provider, or the share of a drive that an instance was sold.
//!
//! A cap is a token bucket: `burst` tokens that are full at the start, refilled at the sustained
//! rate, and a highest rate at which they can be taken. Without credit the two rates are one.
//! Commands start in order of their arrival; a flush costs one request.

use std::collections::VecDeque;

use hoistway_block::{Nanos, Operation, SECTOR_BYTES};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::rate::Pace;

/// Settings of [`Limit`]. A rate of 0 is no cap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitParameters {
    /// Sustained requests per second.
    pub requests_per_s: u64,
    /// Requests per second while there is credit; 0 = as many as the device serves.
    pub burst_requests_per_s: u64,
    /// Requests above the sustained rate that a rested volume serves.
    pub burst_requests: u64,
    /// Requests that a write counts for, in millionths.
    pub write_cost_millionths: u64,
    /// Sustained rate, in kB/s.
    pub kb_per_s: u64,
    /// Rate while there is credit, in kB/s; 0 = what the device transfers.
    pub burst_kb_per_s: u64,
    /// Data above the sustained rate that a rested volume transfers, in MiB.
    pub burst_mib: u64,
}

impl Default for LimitParameters {
    /// No caps.
    fn default() -> Self {
        Self {
            requests_per_s: 0,
            burst_requests_per_s: 0,
            burst_requests: 0,
            write_cost_millionths: 1_000_000,
            kb_per_s: 0,
            burst_kb_per_s: 0,
            burst_mib: 0,
        }
    }
}

/// Sustained rate with credit, and the highest rate.
#[derive(Clone, Debug)]
struct Bucket {
    sustained: Pace,
    highest: Pace,
}

impl Bucket {
    fn ready(&self, now: Nanos) -> Nanos {
        self.highest.ready(self.sustained.ready(now))
    }

    fn spend(&mut self, start: Nanos, cost: u64) {
        self.sustained.spend(start, cost);
        self.highest.spend(start, cost);
    }
}

/// What one request costs at a rate in requests per second: `cost / rate` are nanoseconds.
const REQUEST: u64 = 1_000_000_000;
/// What one byte costs at a rate in kB/s.
const BYTE: u64 = 1_000_000;

/// Holds commands back until they may start, and passes them to the device behind it.
#[derive(Clone, Debug)]
pub struct Limit<D> {
    inner: D,
    requests: Bucket,
    bytes: Bucket,
    /// What a write costs in the unit of [`REQUEST`].
    write_cost: u64,
    /// Commands that may not start yet, with their starts, which rise.
    held: VecDeque<(Nanos, Command)>,
    in_flight: usize,
    total_depth: usize,
}

impl<D: Device> Limit<D> {
    /// `inner` behind these caps.
    pub fn new(inner: D, parameters: &LimitParameters) -> Self {
        let total_depth = inner.info().total_depth();
        let of = parameters;
        Self {
            inner,
            requests: Bucket {
                sustained: Pace::with_credit(of.requests_per_s, of.burst_requests.saturating_mul(REQUEST)),
                highest: Pace::new(of.burst_requests_per_s),
            },
            bytes: Bucket {
                sustained: Pace::with_credit(of.kb_per_s, (of.burst_mib << 20).saturating_mul(BYTE)),
                highest: Pace::new(of.burst_kb_per_s),
            },
            write_cost: of.write_cost_millionths * (REQUEST / 1_000_000),
            held: VecDeque::with_capacity(total_depth),
            in_flight: 0,
            total_depth,
        }
    }

    /// The device behind the caps.
    pub(crate) fn inner(&self) -> &D {
        &self.inner
    }

    fn next_start(&self) -> Nanos {
        self.held.front().map_or(NEVER, |(start, _)| *start)
    }

    fn advance_inner(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        let before = out.len();
        self.inner.advance(now, out);
        self.in_flight -= out.len() - before;
    }
}

impl<D: Device> Device for Limit<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.in_flight >= self.total_depth {
            return Submit::Busy;
        }
        let start = self.bytes.ready(self.requests.ready(now));
        let is_write = !matches!(command.operation, Operation::Read | Operation::Flush);
        self.requests.spend(start, if is_write { self.write_cost } else { REQUEST });
        self.bytes.spend(start, u64::from(command.extent.sectors) * SECTOR_BYTES * BYTE);
        self.in_flight += 1;
        if start > now || !self.held.is_empty() {
            self.held.push_back((start, *command));
            return Submit::Accepted;
        }
        self.inner.submit(now, command)
    }

    fn next_event(&self) -> Nanos {
        self.inner.next_event().min(self.next_start())
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some((start, command)) = self.held.front().copied().filter(|(start, _)| *start <= now) {
            self.advance_inner(start, out);
            self.held.pop_front();
            let submitted = self.inner.submit(start, &command);
            debug_assert_eq!(submitted, Submit::Accepted, "no more are in flight than the device has tags");
        }
        self.advance_inner(now, out);
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty() && self.inner.is_idle()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset(&mut self, now: Nanos) {
        self.held.clear();
        self.in_flight = 0;
        self.inner.reset(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::{Null, NullParameters};
    use hoistway_block::{Extent, Flags, HardwareQueue};

    const SECOND: Nanos = 1_000_000_000;

    fn limited(parameters: &LimitParameters) -> Limit<Null> {
        let null = NullParameters { latency_ns: 100_000, depth: 64, ..NullParameters::default() };
        Limit::new(Null::new("null", &null), parameters)
    }

    /// Keeps `depth` reads of `sectors` in flight until `end`; the completions in each second.
    fn per_second(device: &mut Limit<Null>, depth: u32, sectors: u32, end: Nanos) -> Vec<u32> {
        per_second_of(Operation::Read, device, depth, sectors, end)
    }

    fn per_second_of(operation: Operation, device: &mut Limit<Null>, depth: u32, sectors: u32, end: Nanos) -> Vec<u32> {
        let seconds = usize::try_from(end / SECOND).unwrap();
        let mut done = vec![0; seconds];
        let submit = |device: &mut Limit<Null>, now: Nanos, tag: u32| {
            let extent = Extent::new(0, sectors);
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
        };
        (0..depth).for_each(|tag| submit(device, 0, tag));
        let mut out = Vec::new();
        while device.next_event() < end {
            let now = device.next_event();
            device.advance(now, &mut out);
            for completion in out.drain(..) {
                assert!(completion.at_ns <= now);
                done[usize::try_from(now / SECOND).unwrap()] += 1;
                submit(device, now, completion.tag);
            }
        }
        done
    }

    #[test]
    fn a_burst_lasts_until_its_credit_is_used() {
        let parameters = LimitParameters {
            requests_per_s: 300,
            burst_requests_per_s: 3_000,
            burst_requests: 5_400,
            ..LimitParameters::default()
        };
        // 5,400 of credit go at 3,000 - 300 a second: two seconds.
        let done = per_second(&mut limited(&parameters), 32, 8, 4 * SECOND);
        for (second, (found, expected)) in done.into_iter().zip([3_000_u32, 3_000, 300, 300]).enumerate() {
            assert!(found.abs_diff(expected) <= 40, "second {second}: {found}, expected {expected}");
        }
    }

    #[test]
    fn credit_comes_back_at_the_sustained_rate() {
        let parameters = LimitParameters {
            requests_per_s: 100,
            burst_requests_per_s: 1_000,
            burst_requests: 900,
            ..LimitParameters::default()
        };
        let mut device = limited(&parameters);
        per_second(&mut device, 32, 8, SECOND);
        device.reset(SECOND);
        // 4 seconds of rest give 400 of credit: 1,000 - 100 a second use it in 0.44 s.
        let (mut out, mut tag) = (Vec::new(), 0);
        let begin = 5 * SECOND;
        let mut submit = |device: &mut Limit<Null>, now| {
            let (operation, extent) = (Operation::Read, Extent::new(0, 8));
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            tag += 1;
            device.submit(now, &command)
        };
        (0..32).for_each(|_| assert_eq!(submit(&mut device, begin), Submit::Accepted));
        let mut done = 0_u32;
        while device.next_event() < begin + SECOND {
            let now = device.next_event();
            device.advance(now, &mut out);
            for _ in out.drain(..) {
                done += 1;
                assert_eq!(submit(&mut device, now), Submit::Accepted);
            }
        }
        assert!(done.abs_diff(500) <= 40, "{done}");
    }

    #[test]
    fn large_requests_meet_the_cap_on_bytes_and_small_ones_that_on_requests() {
        let parameters = LimitParameters { requests_per_s: 3_000, kb_per_s: 128_000, ..LimitParameters::default() };
        for (sectors, expected) in [(8, 3_000_u32), (512, 488)] {
            let done = per_second(&mut limited(&parameters), 32, sectors, 2 * SECOND);
            assert!(done[1].abs_diff(expected) <= 2, "{sectors} sectors: {done:?}");
        }
    }

    #[test]
    fn a_write_may_count_for_more_than_a_read() {
        let parameters =
            LimitParameters { requests_per_s: 3_000, write_cost_millionths: 2_500_000, ..LimitParameters::default() };
        for (operation, expected) in [(Operation::Read, 3_000_u32), (Operation::Write, 1_200)] {
            let done = per_second_of(operation, &mut limited(&parameters), 8, 8, 2 * SECOND);
            assert!(done[1].abs_diff(expected) <= 1, "{operation:?}: {done:?}");
        }
    }

    #[test]
    fn below_the_caps_nothing_is_held() {
        let parameters = LimitParameters { requests_per_s: 20_000, kb_per_s: 1_000_000, ..LimitParameters::default() };
        assert_eq!(per_second(&mut limited(&parameters), 1, 8, SECOND), [9_999]);
        assert_eq!(per_second(&mut limited(&LimitParameters::default()), 2, 8, SECOND), [19_998]);
    }
}
