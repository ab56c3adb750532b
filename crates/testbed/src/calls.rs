//! Random host calls: turns bytes into the actions of a host, for property tests and fuzzers.

use crate::notation::show;
use crate::spec::Spec;
use crate::testbed::Testbed;
use hoistway_block::random::Stream;
use hoistway_block::{
    Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, SoftwareQueue, Status,
};
use hoistway_elevator::limiters::LIMITERS;
use hoistway_elevator::{Bio, Depth, Elevator, GroupPriority, GroupSettings, IoLimits, Limiter, Rates, registry};
use hoistway_queue::Handover;

/// One host call.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// Submit a bio.
    Submit(Bio),
    /// Submit a bio into the plug.
    SubmitPlugged(Bio),
    /// Flush the plug, and unplug the queue.
    Unplug,
    /// Dispatch from a hardware queue.
    Dispatch(HardwareQueue),
    /// Complete the n-th request that the device holds (modulo their number).
    Complete(u8, Status),
    /// Requeue the n-th request.
    Requeue(u8),
    /// The driver refuses the n-th request for lack of room.
    Refuse(u8),
    /// Advance the time.
    Pass(Nanos),
    /// Set the n-th tunable to a value within its range, chosen by the second number.
    Set(u8, u8),
    /// Change the depths.
    SetDepth(Depth),
    /// Switch to the n-th policy of the registry.
    Switch(u8, Handover),
    /// Add a group.
    AddGroup(GroupId, GroupSettings),
    /// Change a group's settings.
    ChangeGroup(GroupId, GroupSettings),
    /// Remove a group.
    RemoveGroup(GroupId),
    /// Set a group's limits.
    Limit(GroupId, IoLimits),
    /// Install or remove the n-th limiter. Only in a testbed with limiters.
    ToggleLimiter(u8),
    /// Set the n-th tunable of an installed limiter, as with [`Call::Set`].
    SetLimiter(u8, u8),
    /// End an issuer.
    ContextExited(ContextId),
    /// Take back what the device has not been given: from 0 to 7 the bios of this issuer, from there
    /// on every fourth bio.
    Withdraw(u8),
    /// From now on make the combined calls that the kernel module makes, or the separate ones.
    Combine(bool),
}

/// A sequence of host calls.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Calls(pub Vec<Call>);

impl From<&[u8]> for Calls {
    fn from(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes);
        Self(std::iter::from_fn(|| bytes.call()).collect())
    }
}

impl Calls {
    /// `count` calls from a seed.
    pub fn random(seed: u64, count: usize) -> Self {
        let mut stream = Stream::of(seed, "testbed/calls");
        // A call takes six bytes at most.
        let bytes: Vec<u8> = (0..count).flat_map(|_| stream.next().to_le_bytes().into_iter().take(6)).collect();
        let mut calls = Self::from(bytes.as_slice());
        calls.0.truncate(count);
        calls
    }

    /// Only the calls that do not replace the policy.
    #[must_use]
    pub fn without_switches(mut self) -> Self {
        self.0.retain(|call| !matches!(call, Call::Switch(..)));
        self
    }
}

/// A bound of a row's range, its default, or a small number.
fn value_of(row: &hoistway_elevator::tunable::Tunable, value: u8) -> i64 {
    match value {
        0..=15 => row.min,
        16..=31 => row.max,
        32..=127 => row.default.unwrap_or(row.max),
        _ => i64::from(value - 128).clamp(row.min, row.max),
    }
}

/// The rest of the input.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next call. Submitting and dispatching are frequent, configuration changes rare.
    fn call(&mut self) -> Option<Call> {
        Some(match self.next()? {
            0..=89 => Call::Submit(self.bio()?),
            90..=119 => Call::SubmitPlugged(self.bio()?),
            120..=126 => Call::Unplug,
            127 => Call::Combine(self.next()? % 2 == 0),
            128..=129 => Call::Withdraw(self.next()? % 12),
            130..=179 => Call::Dispatch(HardwareQueue(u16::from(self.next()?))),
            180..=219 => {
                let which = self.next()?;
                Call::Complete(which, if which < 8 { Status::IoError } else { Status::Ok })
            }
            220..=225 => Call::Requeue(self.next()?),
            226..=229 => Call::Refuse(self.next()?),
            230..=244 => {
                // Up to 2^36 ns, about a minute; most spans are short.
                let (mantissa, exponent) = (self.next()?, self.next()?);
                Call::Pass(Nanos::from(mantissa) << (exponent % 29))
            }
            245..=246 => Call::Set(self.next()?, self.next()?),
            247 => match self.next()? {
                which @ 0..=15 => Call::ToggleLimiter(which),
                row @ 16..=47 => Call::SetLimiter(row, self.next()?),
                group => Call::Limit(GroupId(u32::from(group % 8)), self.limits()?),
            },
            248 => Call::SetDepth(Depth {
                requests: u32::from(self.next()?) + 1,
                device: u32::from(self.next()? % 64) + 1,
            }),
            249 => {
                let which = self.next()?;
                Call::Switch(which, if which % 2 == 0 { Handover::Drain } else { Handover::Carry })
            }
            250..=251 => Call::AddGroup(self.group()?, self.group_settings()?),
            252..=253 => Call::ChangeGroup(self.group()?, self.group_settings()?),
            254 => Call::RemoveGroup(self.group()?),
            255 => Call::ContextExited(ContextId(u32::from(self.next()? % 8))),
        })
    }

    fn bio(&mut self) -> Option<Bio> {
        let (kind, at, size, who) = (self.next()?, self.next()?, self.next()?, self.next()?);
        // A small device, so that requests are often adjacent.
        let extent = Extent::new(u64::from(at) * 8, (u32::from(size % 4) + 1) * 8);
        let (operation, flags) = match kind {
            0..=119 => (Operation::Read, Flags::NONE),
            120..=179 => (Operation::Write, Flags::NONE),
            180..=219 => (Operation::Write, Flags::SYNC),
            220..=225 => (Operation::Write, Flags::FUA),
            226..=231 => (Operation::Write, Flags::PREFLUSH),
            232..=235 => (Operation::Flush, Flags::PREFLUSH),
            236..=243 => (Operation::Discard, Flags::NONE),
            244..=247 => (Operation::WriteZeroes, Flags::NONE),
            248..=249 => (Operation::SecureErase, Flags::NONE),
            250..=251 => (Operation::Passthrough, Flags::NONE),
            252..=253 => (Operation::Read, Flags::META.with(Flags::PRIO)),
            254..=255 => (Operation::Read, Flags::NOMERGE),
        };
        let extent = if operation == Operation::Flush { Extent::new(0, 0) } else { extent };
        let mut bio = Bio::new(operation, extent);
        bio.flags = flags;
        bio.priority = match size / 4 {
            0..=39 => Priority::NONE,
            40..=47 => Priority::new(Class::RealTime, size % 8),
            48..=55 => Priority::new(Class::BestEffort, size % 8),
            _ => Priority::new(Class::Idle, 4),
        };
        bio.context = ContextId(u32::from(who % 8));
        bio.group = GroupId(u32::from(who / 8 % 8));
        bio.software_queue = SoftwareQueue(u16::from(who / 64));
        Some(bio)
    }

    /// Limits that hold requests, but not so low that a run would take hours.
    fn limits(&mut self) -> Option<IoLimits> {
        let (kind, bytes, ios) = (self.next()?, self.next()?, self.next()?);
        let bytes_per_s = 65_536 << (bytes % 10);
        let ios_per_s = 16 << (ios % 8);
        let mut limits = IoLimits::NONE;
        match kind % 6 {
            0 => {}
            1 => limits.max = Rates { bytes_per_s: [bytes_per_s, u64::MAX], ..Rates::UNLIMITED },
            2 => limits.max = Rates { ios_per_s: [u32::MAX, ios_per_s], ..Rates::UNLIMITED },
            3 => limits.max = Rates { bytes_per_s: [bytes_per_s; 2], ios_per_s: [ios_per_s; 2] },
            kind => {
                limits.low = Rates { bytes_per_s: [bytes_per_s; 2], ios_per_s: [0; 2] };
                (limits.idle_us, limits.latency_us) = (u64::from(ios) * 100, 100);
                if kind == 5 {
                    limits.max.bytes_per_s = [2 * bytes_per_s; 2];
                }
            }
        }
        Some(limits)
    }

    fn group(&mut self) -> Option<GroupId> {
        Some(GroupId(u32::from(self.next()? % 8)))
    }

    fn group_settings(&mut self) -> Option<GroupSettings> {
        let (weight, parent) = (self.next()?, self.next()?);
        let mut settings = GroupSettings::with_weight(u32::from(weight) * u32::from(weight) / 6 + 1);
        settings.parent = GroupId(u32::from(parent % 4));
        settings.leaf_weight = (parent & 64 != 0).then_some(u32::from(parent) * 40 + 1);
        // Levels are 0 to 7, so one of nine values sets no priority.
        settings.priority = GroupPriority::new(u32::from(weight % 9)).ok();
        settings.latency_target_ns = if parent >= 128 { u64::from(parent) * 100_000 } else { 0 };
        Some(settings)
    }
}

impl Testbed {
    /// Makes all calls, then lets everything complete.
    ///
    /// # Panics
    /// On a violated invariant, a lost or duplicated bio, or no progress; the message contains the
    /// calls as a script.
    pub fn drive(&mut self, calls: &Calls) {
        for call in &calls.0 {
            self.call(call);
        }
        self.unplug();
        // The last limits may hold requests for a long time, so they are lifted.
        for group in 0..self.settings.configuration.groups {
            self.queue.set_limits(GroupId(group), &IoLimits::NONE, self.now);
        }
        self.rest();
    }

    /// Makes one call. A call that is impossible in the current state is skipped.
    pub fn call(&mut self, call: &Call) {
        match call {
            Call::Submit(bio) => {
                let bio = self.within_limits(bio);
                self.submit(&bio);
            }
            Call::SubmitPlugged(bio) => {
                let bio = self.within_limits(bio);
                self.submit_plugged(&bio);
            }
            Call::Unplug => {
                self.unplug();
                self.unplug_device();
            }
            Call::Dispatch(queue) => {
                let queues = self.settings.configuration.hardware_queues.max(1);
                self.dispatch_from(HardwareQueue(queue.0 % queues));
            }
            Call::Complete(which, status) => self.with_nth(*which, |testbed, index| testbed.complete(index, *status)),
            Call::Requeue(which) => self.with_nth(*which, Self::requeue),
            Call::Refuse(which) => self.with_nth(*which, Self::refuse),
            Call::Pass(span_ns) => self.pass(*span_ns),
            Call::Set(row, value) => self.set_nth(*row, *value),
            Call::SetDepth(depth) => {
                self.history.push(format!("depth:{},{}", depth.requests, depth.device));
                self.queue.set_depth(*depth, self.now);
            }
            Call::Switch(which, handover) => self.switch_to_nth(*which, *handover),
            Call::AddGroup(group, settings) => {
                self.history.push(format!("add:{}", group.0));
                self.queue.add_group(*group, settings, self.now);
            }
            Call::ChangeGroup(group, settings) => {
                self.history.push(format!("change:{}", group.0));
                self.queue.change_group(*group, settings, self.now);
            }
            Call::RemoveGroup(group) => {
                self.history.push(format!("remove:{}", group.0));
                self.queue.remove_group(*group, self.now);
            }
            Call::ContextExited(context) => {
                self.history.push(format!("exit:{}", context.0));
                self.queue.context_exited(*context, self.now);
            }
            Call::Withdraw(which) => self.withdraw(*which),
            Call::Combine(on) => {
                self.history.push(format!("combine:{on}"));
                self.queue.combine_calls(*on);
            }
            Call::Limit(group, limits) => {
                self.history.push(format!("limit:{}:{limits:?}", group.0));
                self.queue.set_limits(*group, limits, self.now);
            }
            Call::ToggleLimiter(which) => self.toggle_limiter(*which),
            Call::SetLimiter(row, value) => self.set_nth_of_limiter(*row, *value),
        }
        self.check();
    }

    /// The bio with queue, group and context numbers reduced to this testbed's.
    fn within_limits(&self, bio: &Bio) -> Bio {
        let configuration = &self.settings.configuration;
        let mut bio = *bio;
        bio.software_queue.0 = bio.software_queue.0.checked_rem(configuration.software_queues).unwrap_or(0);
        bio.hardware_queue.0 = bio.software_queue.0.checked_rem(configuration.hardware_queues).unwrap_or(0);
        bio.group.0 = bio.group.0.checked_rem(configuration.groups).unwrap_or(0);
        bio.context.0 = bio.context.0.checked_rem(configuration.contexts).unwrap_or(0);
        bio
    }

    fn with_nth(&mut self, which: u8, act: impl FnOnce(&mut Self, usize)) {
        if let Some(index) = usize::from(which).checked_rem(self.in_device.len()) {
            act(self, index);
        }
    }

    /// Sets a tunable to a bound of its range, a small number, or its default.
    fn set_nth(&mut self, row: u8, value: u8) {
        let rows = self.queue.elevator().tunables();
        let Some(row) = usize::from(row).checked_rem(rows.len()).and_then(|index| rows.get(index)) else { return };
        let value = value_of(row, value);
        self.history.push(format!("{}={value}", row.name));
        if let Err(error) = self.queue.set(row.name, &value.to_string()) {
            panic!("{}={value} is in range and was refused: {error}", row.name);
        }
    }

    fn toggle_limiter(&mut self, which: u8) {
        let Some(entry) = usize::from(which).checked_rem(LIMITERS.len()).and_then(|index| LIMITERS.get(index)) else {
            return;
        };
        if !self.has_limiters {
            return;
        }
        self.history.push(format!("toggle:{}", entry.name));
        if !self.queue.remove_limiter(entry.name, self.now) {
            self.queue.add_limiter(entry.name, self.now).expect("it is not in place");
        }
    }

    fn set_nth_of_limiter(&mut self, row: u8, value: u8) {
        let rows = self.queue.limiters().flat_map(|limiter| limiter.tunables().iter().map(|row| (limiter.name(), row)));
        let rows: Vec<_> = rows.collect();
        let Some((limiter, row)) = usize::from(row).checked_rem(rows.len()).and_then(|index| rows.get(index)) else {
            return;
        };
        let value = value_of(row, value);
        self.history.push(format!("{limiter}:{}={value}", row.name));
        if let Err(error) = self.queue.set_limiter(limiter, row.name, &value.to_string(), self.now) {
            panic!("{limiter}: {}={value} is in range and was refused: {error}", row.name);
        }
    }

    fn switch_to_nth(&mut self, which: u8, handover: Handover) {
        let policies = Testbed::policies();
        let Some(spec) = usize::from(which).checked_rem(policies.len()).and_then(|index| policies.get(index)) else {
            return;
        };
        self.switch(spec, handover);
    }

    /// Switches to another policy, unless a switch is in progress.
    ///
    /// # Panics
    /// If there is no such policy.
    pub fn switch(&mut self, spec: &str, handover: Handover) {
        let Spec { name, version, .. } = Spec::parse(spec);
        self.history.push(format!("switch:{spec}:{handover:?}"));
        let next = registry::build(name, version, &self.settings.configuration);
        let next = next.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
        // If a switch is in progress, the queue refuses another one, and the call has no effect.
        let _ = self.queue.switch(next, handover, self.now);
        self.check();
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Call::Submit(bio) => f.write_str(&show(bio)),
            Call::SubmitPlugged(bio) => write!(f, "plug:{}", show(bio)),
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_calls() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let calls = Calls::from(bytes.as_slice());
        assert!(calls.0.len() > 500, "{} calls", calls.0.len());
        assert_eq!(calls, Calls::from(bytes.as_slice()));
    }

    #[test]
    fn a_seed_brings_every_kind_of_call() {
        let calls = Calls::random(1, 20_000);
        let kinds: std::collections::BTreeSet<_> =
            calls.0.iter().map(|call| format!("{call:?}").split(['(', ' ']).next().map(str::to_owned)).collect();
        assert_eq!((calls.0.len(), kinds.len()), (20_000, 20), "{kinds:?}");
    }

    #[test]
    fn the_same_seed_brings_the_same_calls() {
        assert_eq!(Calls::random(1, 100), Calls::random(1, 100));
        assert_ne!(Calls::random(1, 100), Calls::random(2, 100));
    }
}
