//! A device with injected faults: errors, slow regions, stalls, hiccups, and resets that lose
//! commands in flight.
//!
//! * Guarantee: every accepted command completes once; a run with faults replays like any other.
//!   Faults of a command are drawn from one seeded stream at its submission. The times of hiccups
//!   are independent of the load, so that two schedulers see the same ones.
//! * Cost: a few comparisons per command and one draw per kind of random fault; nothing is
//!   allocated.
//!
//! ```text
//! errors   the command completes at its usual time, with an error
//! slow     the command completes later; others do not wait for it
//! stall    the device keeps working, but no completion is reported before the end
//! hiccup   the device does nothing: its clock stands still
//! reset    commands in flight are lost (Timeout when the reset is over), and the clock stands still until then
//! ```

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Nanos, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::tags::Tags;

/// Settings of [`Faulty`]; rates in parts per million of commands, 0 = never.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultParameters {
    /// Commands that end with an I/O error.
    pub error_ppm: u64,
    /// First sector of a range that cannot be read or written.
    pub bad_first_sector: u64,
    /// Length of that range in sectors; 0 = no such range.
    pub bad_sectors: u64,
    /// First sector of a range that is slow to read and write.
    pub slow_first_sector: u64,
    /// Length of that range in sectors; 0 = no such range.
    pub slow_sectors: u64,
    /// Added to a command that touches it, in nanoseconds.
    pub slow_ns: u64,
    /// Commands that begin a stall: nothing completes before it ends.
    pub stall_ppm: u64,
    /// Length of a stall in nanoseconds.
    pub stall_ns: u64,
    /// Mean time from the end of a hiccup to the next one, in nanoseconds; each hiccup is moved by
    /// up to a quarter of it. 0 = no hiccups.
    pub hiccup_every_ns: u64,
    /// Length of a hiccup in nanoseconds: the device does nothing.
    pub hiccup_ns: u64,
    /// Commands that end in a reset: all commands in flight, this one included, time out.
    pub reset_ppm: u64,
    /// Time that a reset takes, in nanoseconds.
    pub reset_ns: u64,
}

impl FaultParameters {
    /// Whether any fault can happen at all.
    pub fn is_active(&self) -> bool {
        self.error_ppm > 0
            || self.bad_sectors > 0
            || (self.slow_sectors > 0 && self.slow_ns > 0)
            || self.stall_ppm > 0
            || self.has_hiccups()
            || self.reset_ppm > 0
    }

    fn has_hiccups(&self) -> bool {
        self.hiccup_every_ns > 0 && self.hiccup_ns > 0
    }
}

/// A command in the wrapped device.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    /// The caller's tag.
    tag: u32,
    /// The status that it will have, whatever the medium reports.
    forced: Option<Status>,
    /// Time added to its latency.
    slow_ns: Nanos,
}

/// `inner`, with faults.
#[derive(Clone, Debug)]
pub struct Faulty<D> {
    inner: D,
    parameters: FaultParameters,
    total_depth: usize,
    in_flight: Tags<InFlight>,
    /// Completions by the time at which they are reported.
    answers: Pending<(u32, Status)>,
    /// No command in flight completes before this time.
    stalled_until: Nanos,
    /// The clock of `inner` stands still until then; it shows `max(now, frozen_until) - lag_ns`.
    frozen_until: Nanos,
    /// The total time that the clock stood still, including all of the present freeze.
    lag_ns: Nanos,
    hiccups: Hiccups,
    scratch: Vec<Completion>,
    stream: Stream,
    errors: u64,
}

impl<D> Faulty<D> {
    /// The device that has the faults.
    pub(crate) fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Faulty<D> {
    /// `inner` with these faults; `stream` determines the affected commands.
    pub fn new(inner: D, parameters: &FaultParameters, mut stream: Stream) -> Self {
        let total_depth = inner.info().total_depth();
        Self {
            inner,
            parameters: parameters.clone(),
            total_depth,
            in_flight: Tags::with_capacity(total_depth),
            answers: Pending::with_capacity(total_depth),
            stalled_until: 0,
            frozen_until: 0,
            lag_ns: 0,
            hiccups: Hiccups::new(parameters, &mut stream),
            scratch: Vec::with_capacity(total_depth),
            stream,
            errors: 0,
        }
    }

    fn happens(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.stream.chance(ppm, 1_000_000)
    }

    /// The clock of `inner`.
    #[inline]
    fn inner_clock(&self, now: Nanos) -> Nanos {
        now.max(self.frozen_until) - self.lag_ns
    }

    /// Stops the clock of `inner` from `now` on, and delays all completions not yet reported.
    fn freeze(&mut self, now: Nanos, until: Nanos) {
        let longer_ns = until.saturating_sub(now.max(self.frozen_until));
        if longer_ns == 0 {
            return;
        }
        self.frozen_until = until;
        self.lag_ns += longer_ns;
        self.answers.change_after(now, |at, _| *at += longer_ns);
        if self.stalled_until > now {
            self.stalled_until += longer_ns;
        }
    }

    /// Delays every completion not yet reported at `now`.
    fn stall(&mut self, now: Nanos) {
        let until = now + self.parameters.stall_ns;
        self.stalled_until = self.stalled_until.max(until);
        self.answers.change_after(now, |at, _| *at = until.max(*at));
    }

    /// Loses everything in flight and completes it with an error when the reset is over.
    fn lose_all(&mut self, now: Nanos) {
        self.inner.reset(self.inner_clock(now));
        self.freeze(now, now + self.parameters.reset_ns);
        let over_at = now.max(self.frozen_until);
        self.stalled_until = 0;
        self.answers.change_after(now, |at, (_, status)| (*at, *status) = (over_at, Status::Timeout));
        let answers = &mut self.answers;
        self.in_flight.give_back_all(|lost| answers.insert(over_at, (lost.tag, Status::Timeout)));
    }

    /// Processes the hiccups that have begun by `now`.
    #[inline]
    fn catch_up(&mut self, now: Nanos) {
        while self.hiccups.begin <= now && self.hiccups.begin < NEVER {
            if self.inner.next_event() == NEVER && self.answers.is_empty() {
                // The hiccups of an idle device have no effect, except possibly the last one.
                self.lag_ns += self.hiccups.skip_until(now);
            }
            let (begin, end) = self.hiccups.present();
            self.collect(begin);
            self.freeze(begin, end);
            self.hiccups.next();
        }
    }

    /// Collects what `inner` has completed by `now`.
    #[inline]
    fn collect(&mut self, now: Nanos) {
        let clock = self.inner_clock(now);
        self.inner.advance(clock, &mut self.scratch);
        for completion in self.scratch.drain(..) {
            let Some(in_flight) = self.in_flight.give_back(completion.tag) else { continue };
            let at_ns = (completion.at_ns + self.lag_ns + in_flight.slow_ns).max(self.stalled_until);
            self.answers.insert(at_ns, (in_flight.tag, in_flight.forced.unwrap_or(completion.status)));
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.in_flight.len() + self.answers.len() >= self.total_depth {
            return Submit::Busy;
        }
        // Completions before this time are final, whatever this command causes.
        self.catch_up(now);
        self.collect(now);
        let tag = self.in_flight.take(InFlight { tag: command.tag, forced: None, slow_ns: 0 });
        if self.inner.submit(self.inner_clock(now), &Command { tag, ..*command }) == Submit::Busy {
            self.in_flight.give_back(tag);
            return Submit::Busy;
        }
        let FaultParameters { bad_first_sector, bad_sectors, slow_first_sector, slow_sectors, .. } = self.parameters;
        let fails = meets(command.extent, bad_first_sector, bad_sectors) || self.happens(self.parameters.error_ppm);
        let is_slow = meets(command.extent, slow_first_sector, slow_sectors);
        if let Some(in_flight) = self.in_flight.get_mut(tag) {
            in_flight.forced = fails.then_some(Status::IoError);
            in_flight.slow_ns = if is_slow { self.parameters.slow_ns } else { 0 };
        }
        if self.happens(self.parameters.stall_ppm) {
            self.stall(now);
        }
        if self.happens(self.parameters.reset_ppm) {
            self.lose_all(now);
        }
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        let inner = self.inner.next_event();
        // During a stall, events of `inner` are visible only at the end of the stall.
        let shown = if inner == NEVER { NEVER } else { (inner + self.lag_ns).max(self.stalled_until) };
        match shown.min(self.answers.next()) {
            NEVER => NEVER,
            // A hiccup before the event postpones it, so the host must call at the hiccup's
            // beginning and ask for the next time again.
            next => next.min(self.hiccups.begin),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.catch_up(now);
        self.collect(now);
        while let Some((at_ns, (tag, status))) = self.answers.pop_due(now) {
            self.errors += u64::from(!status.is_ok());
            out.push(Completion { at_ns, tag, status });
        }
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle() && self.answers.is_empty()
    }

    fn counters(&self) -> Counters {
        Counters { errors: self.errors, ..self.inner.counters() }
    }

    fn reset(&mut self, now: Nanos) {
        self.inner.reset(self.inner_clock(now));
        self.in_flight.give_back_all(|_| {});
        self.answers.clear();
    }
}

/// Whether an extent touches a range.
#[inline]
fn meets(extent: Extent, first_sector: u64, sectors: u64) -> bool {
    extent.first_sector < first_sector.saturating_add(sectors) && first_sector < extent.end()
}

/// The hiccups: hiccup k ends about k x (every + length) after the start. Each is moved by its own
/// draw, so that any of them can be computed without the previous ones.
#[derive(Clone, Debug)]
struct Hiccups {
    every_ns: Nanos,
    length_ns: Nanos,
    seed: u64,
    /// Number of the next one, counted from 1.
    number: u64,
    /// When it begins; [`NEVER`] without hiccups.
    begin: Nanos,
}

impl Hiccups {
    fn new(parameters: &FaultParameters, stream: &mut Stream) -> Self {
        let (every_ns, length_ns) = (parameters.hiccup_every_ns, parameters.hiccup_ns);
        if !parameters.has_hiccups() {
            // No draw, so that the other faults are the same in a run without hiccups.
            return Self { every_ns, length_ns, seed: 0, number: 0, begin: NEVER };
        }
        let mut hiccups = Self { every_ns, length_ns, seed: stream.next(), number: 1, begin: 0 };
        hiccups.begin = hiccups.begin_of(1);
        hiccups
    }

    /// The beginning of a hiccup: up to a quarter of `every_ns` earlier or later than without the
    /// draw, so that at least half of `every_ns` remains between two hiccups.
    fn begin_of(&self, number: u64) -> Nanos {
        let moved_ns = Stream::new(self.seed ^ number).below(self.every_ns / 2 + 1);
        let period_ns = self.every_ns.saturating_add(self.length_ns);
        number.saturating_mul(period_ns).saturating_add(moved_ns) - self.length_ns - self.every_ns / 4
    }

    fn present(&self) -> (Nanos, Nanos) {
        (self.begin, self.begin.saturating_add(self.length_ns))
    }

    fn next(&mut self) {
        self.number += 1;
        self.begin = self.begin_of(self.number);
    }

    /// Advances to the last one that has begun by `now`. Returns the total length of the skipped
    /// ones.
    fn skip_until(&mut self, now: Nanos) -> Nanos {
        let periods = now / self.every_ns.saturating_add(self.length_ns);
        let candidates = [periods + 1, periods, periods.saturating_sub(1)];
        let begun = candidates.into_iter().find(|&number| number > self.number && self.begin_of(number) <= now);
        let Some(number) = begun else { return 0 };
        let skipped = number - self.number;
        self.number = number;
        self.begin = self.begin_of(number);
        skipped * self.length_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::{Null, NullParameters};
    use hoistway_block::{Flags, HardwareQueue, Operation};

    const MS: Nanos = 1_000_000;

    /// A null device of 10 us with these faults.
    fn faulty(parameters: &FaultParameters) -> Faulty<Null> {
        Faulty::new(Null::new("null", &NullParameters::default()), parameters, Stream::new(1))
    }

    fn submit(device: &mut Faulty<Null>, now: Nanos, tag: u32, first_sector: u64) {
        let (operation, extent) = (Operation::Read, Extent::new(first_sector, 8));
        let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
        assert_eq!(device.submit(now, &command), Submit::Accepted);
    }

    /// Everything that completes by `now`: tag, time, status.
    fn ends(device: &mut Faulty<Null>, now: Nanos) -> Vec<(u32, Nanos, Status)> {
        let mut out = Vec::new();
        device.advance(now, &mut out);
        out.iter().map(|completion| (completion.tag, completion.at_ns, completion.status)).collect()
    }

    /// Latencies of a closed loop of depth 1 that ends at `end`.
    fn latencies(device: &mut Faulty<Null>, begin: Nanos, end: Nanos) -> Vec<Nanos> {
        let (mut now, mut found, mut out) = (begin, Vec::new(), Vec::new());
        while now < end {
            submit(device, now, 7, 0);
            let submitted = now;
            while out.is_empty() {
                now = device.next_event();
                device.advance(now, &mut out);
            }
            found.extend(out.drain(..).map(|completion| completion.at_ns - submitted));
        }
        found
    }

    #[test]
    fn a_slow_region_delays_what_touches_it_and_nothing_else() {
        let slow = FaultParameters { slow_first_sector: 100, slow_sectors: 8, slow_ns: MS, ..Default::default() };
        let mut device = faulty(&slow);
        for (tag, first_sector) in [(0, 92), (1, 93), (2, 107), (3, 108)] {
            submit(&mut device, 0, tag, first_sector);
        }
        let (quick, late) = (10_000, 1_010_000);
        let expected = [(0, quick, Status::Ok), (3, quick, Status::Ok), (1, late, Status::Ok), (2, late, Status::Ok)];
        assert_eq!(ends(&mut device, 2 * MS), expected);
        assert!(device.is_idle());
    }

    /// 10 ms of work between hiccups of 2 ms: each of about 83 hiccups in a second delays one
    /// command by 2 ms.
    #[test]
    fn hiccups_have_the_configured_interval_and_length() {
        let hiccups = FaultParameters { hiccup_every_ns: 10 * MS, hiccup_ns: 2 * MS, ..Default::default() };
        let mut device = faulty(&hiccups);
        let all = latencies(&mut device, 0, 1_000 * MS);
        let hit = all.iter().filter(|&&latency| latency > 10_000).count();
        assert!((82..=84).contains(&hit), "{hit}");
        assert!(all.iter().all(|&latency| latency == 10_000 || latency == 2_010_000));
        // The clock stands still for 166 of 1,000 ms.
        assert!((83_100..=83_700).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn hiccups_do_not_depend_on_the_load() {
        let hiccups = FaultParameters { hiccup_every_ns: 10 * MS, hiccup_ns: 2 * MS, ..Default::default() };
        let (mut busy, mut idle) = (faulty(&hiccups), faulty(&hiccups));
        latencies(&mut busy, 0, 700 * MS);
        let begin = 700 * MS + 50_000;
        let (busy, idle) = (latencies(&mut busy, begin, 800 * MS), latencies(&mut idle, begin, 800 * MS));
        assert_eq!(busy, idle);
        assert!(busy.contains(&2_010_000));
    }

    #[test]
    fn late_calls_change_no_time_although_the_device_has_hiccups() {
        let hiccups = FaultParameters { hiccup_every_ns: MS, hiccup_ns: 300_000, ..Default::default() };
        let times = |step: Nanos| {
            let mut device = Faulty::new(
                Null::new("null", &NullParameters { latency_ns: 5 * MS, ..NullParameters::default() }),
                &hiccups,
                Stream::new(3),
            );
            (0..8).for_each(|tag| submit(&mut device, u64::from(tag) * 200_000, tag, 0));
            let mut out = Vec::new();
            (1..=20 * MS / step).for_each(|call| device.advance(2 * MS + call * step, &mut out));
            out
        };
        assert_eq!(times(10_000).len(), 8);
        assert_eq!(times(10_000), times(20 * MS));
    }

    #[test]
    fn a_stalled_device_works_on_and_answers_all_at_the_end() {
        let mut device = faulty(&FaultParameters { stall_ppm: 1_000_000, stall_ns: MS, ..Default::default() });
        submit(&mut device, 0, 0, 0);
        submit(&mut device, 5_000, 1, 0);
        assert_eq!(device.next_event(), 1_005_000);
        let expected = [(0, 1_005_000, Status::Ok), (1, 1_005_000, Status::Ok)];
        assert_eq!(ends(&mut device, 2 * MS), expected);
    }

    #[test]
    fn a_reset_loses_what_is_in_flight_and_spares_what_is_done() {
        let mut device = faulty(&FaultParameters { slow_sectors: 8, slow_ns: MS, ..Default::default() });
        // One completed, one slow, one in flight; then the fourth causes the reset.
        submit(&mut device, 0, 0, 100);
        submit(&mut device, 0, 1, 0);
        submit(&mut device, 5_000, 2, 100);
        device.parameters.reset_ppm = 1_000_000;
        device.parameters.reset_ns = 3 * MS;
        submit(&mut device, 10_000, 3, 100);
        device.parameters.reset_ppm = 0;
        // Submitted during the reset: served when it is over.
        submit(&mut device, 20_000, 4, 100);
        let over_at = 3_010_000;
        let mut found = ends(&mut device, 10 * MS);
        found[1..4].sort_unstable_by_key(|&(tag, ..)| tag);
        let lost = |tag| (tag, over_at, Status::Timeout);
        let served = [(0, 10_000, Status::Ok), lost(1), lost(2), lost(3), (4, over_at + 10_000, Status::Ok)];
        assert_eq!(found, served);
        assert_eq!((device.counters().errors, device.is_idle()), (3, true));
    }

    #[test]
    fn each_kind_alone_makes_the_parameters_active() {
        let none = FaultParameters { slow_sectors: 8, hiccup_ns: MS, stall_ns: MS, reset_ns: MS, ..Default::default() };
        assert!(!none.is_active());
        assert!(FaultParameters { slow_ns: 1, ..none.clone() }.is_active());
        assert!(FaultParameters { hiccup_every_ns: 1, ..none.clone() }.is_active());
        assert!(FaultParameters { bad_sectors: 1, ..none.clone() }.is_active());
        assert!(FaultParameters { error_ppm: 1, ..none.clone() }.is_active());
        assert!(FaultParameters { stall_ppm: 1, ..none.clone() }.is_active());
        assert!(FaultParameters { reset_ppm: 1, ..none }.is_active());
    }
}
