//! A delay in front of another device: a network hop, or dm-delay.
//!
//! Commands reach the inner device at once and their completions are delayed. dm-delay delays the
//! commands instead. If all commands have the same delay, the latencies are the same, and the
//! device sees the same commands, earlier by the delay.

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Operation, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, Submit};
use crate::pending::Pending;
use crate::rate::jittered;
use crate::tags::Tags;

/// Settings of [`Delay`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DelayParameters {
    /// Added to a read, in nanoseconds.
    pub read_ns: u64,
    /// Added to a write, discard or zeroing write, in nanoseconds.
    pub write_ns: u64,
    /// Added to a flush, in nanoseconds.
    pub flush_ns: u64,
    /// Width of the uniform jitter of each delay, in nanoseconds.
    pub jitter_ns: u64,
}

/// Passes commands on at once and delays their completions.
#[derive(Clone, Debug)]
pub struct Delay<D> {
    inner: D,
    parameters: DelayParameters,
    /// The caller's tag and the delay of each command in `inner`.
    inside: Tags<(u32, Nanos)>,
    held: Pending<(u32, Status)>,
    scratch: Vec<Completion>,
    stream: Stream,
}

impl<D> Delay<D> {
    /// The device behind the delay.
    pub(crate) fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Delay<D> {
    /// `inner` behind a delay; `stream` provides the jitter.
    pub fn new(inner: D, parameters: &DelayParameters, stream: Stream) -> Self {
        let depth = inner.info().total_depth();
        Self {
            inner,
            parameters: parameters.clone(),
            inside: Tags::with_capacity(depth),
            held: Pending::with_capacity(depth),
            scratch: Vec::with_capacity(depth),
            stream,
        }
    }
}

impl<D: Device> Device for Delay<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.inside.len() + self.held.len() >= self.info().total_depth() {
            return Submit::Busy;
        }
        let base_ns = match command.operation {
            Operation::Read => self.parameters.read_ns,
            Operation::Flush => self.parameters.flush_ns,
            _ => self.parameters.write_ns,
        };
        let delay_ns = jittered(base_ns, self.parameters.jitter_ns, &mut self.stream);
        let tag = self.inside.take((command.tag, delay_ns));
        let submitted = self.inner.submit(now, &Command { tag, ..*command });
        if submitted == Submit::Busy {
            self.inside.give_back(tag);
        }
        submitted
    }

    fn next_event(&self) -> Nanos {
        self.inner.next_event().min(self.held.next())
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.inner.advance(now, &mut self.scratch);
        for completion in self.scratch.drain(..) {
            if let Some((tag, delay_ns)) = self.inside.give_back(completion.tag) {
                self.held.insert(completion.at_ns + delay_ns, (tag, completion.status));
            }
        }
        while let Some((at_ns, (tag, status))) = self.held.pop_due(now) {
            out.push(Completion { at_ns, tag, status });
        }
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle() && self.held.is_empty()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset(&mut self, now: Nanos) {
        self.inner.reset(now);
        self.inside.give_back_all(|_| {});
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::{Null, NullParameters};
    use hoistway_block::{Extent, Flags, HardwareQueue};

    #[test]
    fn each_kind_of_command_gets_its_own_delay() {
        let parameters = DelayParameters { read_ns: 1_000, write_ns: 2_000, flush_ns: 500, jitter_ns: 0 };
        let mut device = Delay::new(Null::new("null", &NullParameters::default()), &parameters, Stream::new(1));
        for (tag, operation) in [(0, Operation::Read), (1, Operation::Write), (2, Operation::Flush)] {
            let sectors = if operation == Operation::Flush { 0 } else { 8 };
            let extent = Extent::new(0, sectors);
            device.submit(0, &Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) });
        }
        let mut out = Vec::new();
        device.advance(1_000_000, &mut out);
        // 10 us in the null device, then the delay of the operation.
        let ends: Vec<_> = out.iter().map(|c| (c.tag, c.at_ns)).collect();
        assert_eq!(ends, [(2, 10_500), (0, 11_000), (1, 12_000)]);
        assert!(device.is_idle());
    }

    /// A delay of 50 us with a jitter of 20 us: uniform on [40, 60] us, mean 50 us within 4
    /// standard deviations.
    #[test]
    fn the_jitter_is_uniform_round_the_delay() {
        let parameters = DelayParameters { read_ns: 50_000, jitter_ns: 20_000, ..DelayParameters::default() };
        let mut device = Delay::new(Null::new("null", &NullParameters::default()), &parameters, Stream::new(1));
        let (mut out, mut sum_ns) = (Vec::new(), 0);
        for call in 0..10_000 {
            let now = call * 100_000;
            let (operation, extent) = (Operation::Read, Extent::new(0, 8));
            let command = Command { tag: 0, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
            device.advance(now + 99_999, &mut out);
            let added_ns = out.pop().unwrap().at_ns - now - 10_000;
            assert!((40_000..=60_000).contains(&added_ns), "{added_ns}");
            sum_ns += added_ns;
        }
        assert!((sum_ns / 10_000).abs_diff(50_000) < 4 * 5_774 / 100, "{}", sum_ns / 10_000);
    }
}
