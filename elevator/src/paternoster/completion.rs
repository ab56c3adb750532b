//! A request comes back: what is learned from it, and that its issuer is expected with the next one.

use super::Paternoster;
use super::ladder::Way;
use super::state::{Held, ROOT, mark};
use super::walker::{Phase, Step};
use block::time::{MICROSECOND, MILLISECOND};
use block::{Class, Nanos, RequestId};

const LEAST_GHOST_NS: Nanos = 20 * MICROSECOND;
/// Epochs with fewer sync reads say nothing about latency.
const LATENCY_READS: u32 = 64;
/// The device is busy for so long at most with a request that was merged, unless it is this small.
const MERGED_NS: Nanos = MILLISECOND / 2;
pub const LEAST_MERGED_BYTES: u64 = 65_536;
const LEAST_WINDOW_NS: Nanos = 4 * MILLISECOND;

impl Paternoster {
    /// For how long a request is expected at once.
    #[inline]
    pub(super) fn ghost_ns(&self) -> Nanos {
        (self.residence_ns / 2).max(LEAST_GHOST_NS)
    }

    #[inline]
    pub(super) fn roll_generation(&mut self) {
        if self.now >= self.generation_ends_ns {
            self.begin_generation();
        }
    }

    #[inline(never)]
    fn begin_generation(&mut self) {
        let span = self.ghost_ns();
        let since = self.now.saturating_sub(self.generation_ns);
        if since >= span {
            let steps = if since >= span.saturating_mul(2) { 2 } else { 1 };
            self.generation = self.generation.wrapping_add(steps);
            self.generation_ns = self.now;
        }
        self.generation_ends_ns = self.generation_ns.saturating_add(span);
    }

    /// A request that came at some time goes to the device: counted, and what its group had of it.
    #[inline(always)]
    pub(super) fn enter_device(&mut self, tally: u32, bytes: u32, came_ns: Nanos) {
        let now = self.now;
        self.walker.were_inside(now, u64::from(self.inside));
        self.inside = self.inside.wrapping_add(1);
        let tally = self.tallies.at_mut(tally);
        tally.queued = tally.queued.wrapping_sub(1);
        tally.wait_ns = tally.wait_ns.wrapping_add(now.saturating_sub(came_ns));
        tally.serviced = tally.serviced.wrapping_add(1);
        tally.bytes = tally.bytes.wrapping_add(u64::from(bytes));
    }

    /// The device gave it back: nothing is learned.
    #[inline(never)]
    pub(super) fn give_up(&mut self, id: RequestId) {
        self.leave_device::<false>(id);
    }

    /// The device finished it, or else gave it back. False, and nothing happens, if it did not have it.
    #[inline(always)]
    pub(super) fn leave_device<const IS_DONE: bool>(&mut self, id: RequestId) -> bool {
        let entry = match self.slots.get_mut(id.slot()) {
            Some(entry) if entry.id == id && entry.held == Held::Dispatched => entry,
            _ => return false,
        };
        entry.held = Held::Nowhere;
        let (leaf, class, bytes, tally, since_ns) = (entry.leaf, entry.class, entry.bytes, entry.tally, entry.since_ns);
        let is_sync_read = entry.is_sync & entry.is_read;
        self.one_out();
        if IS_DONE {
            self.learn(bytes, tally, since_ns, is_sync_read);
        }
        if class != Class::BestEffort {
            return true;
        }
        if IS_DONE && leaf == self.sole.leaf {
            self.one_done_of_sole();
        } else {
            self.end_sole();
            self.one_less_inside::<IS_DONE>(leaf);
        }
        true
    }

    /// A request fewer is inside.
    #[inline(always)]
    pub(super) fn one_out(&mut self) {
        self.walker.were_inside(self.now, u64::from(self.inside));
        // It is counted.
        self.inside = self.inside.wrapping_sub(1);
        self.roll_generation();
    }

    /// Of a leaf, and of the groups above it.
    #[inline(always)]
    pub(super) fn one_less_inside<const IS_DONE: bool>(&mut self, leaf: u32) {
        if leaf == self.aboard && self.slice_from_ns == 0 {
            self.slice_from_ns = self.now;
        }
        let state = self.members.at_mut(leaf);
        state.marks &= !mark::WAITS;
        if IS_DONE {
            state.marks |= mark::WAITS;
        }
        let comes_back = IS_DONE
            && state.marks & (mark::ASYNC | mark::OWNED) == mark::OWNED
            && u64::from(state.think_ns) <= self.residence_ns / 2;
        let (now, generation) = (self.now, self.generation);
        state.one_less(now, comes_back, generation);
        let mut parent = state.parent;
        while parent != ROOT {
            let state = self.members.at_mut(self.group_member(parent));
            state.one_less(now, comes_back, generation);
            parent = state.parent;
        }
        if comes_back {
            self.ghosts.add(generation);
        }
    }

    /// What a request that went inside at some time and is done says of the device.
    #[inline(always)]
    pub(super) fn learn(&mut self, bytes: u32, tally: u32, since_ns: Nanos, is_sync_read: bool) {
        let stayed_ns = self.now.saturating_sub(since_ns);
        let service_ns = &mut self.tallies.at_mut(tally).service_ns;
        *service_ns = service_ns.wrapping_add(stayed_ns);
        let residence_ns = match self.residence_ns {
            0 => stayed_ns,
            // Between the two.
            before => before.wrapping_add_signed(stayed_ns.cast_signed().wrapping_sub(before.cast_signed()) / 64),
        };
        self.residence_ns = residence_ns;
        self.generation_ends_ns = self.generation_ns.wrapping_add(self.ghost_ns());
        // 64 KiB at most, of what a table of settings keeps.
        let beside = self.settings.work_kib.cast_unsigned() << 10;
        let work = u64::from(bytes).max(super::arrival::LEAST_BYTES).wrapping_add(beside);
        self.ladder.completed(work, self.now, self.busy_from_ns);
        self.busy_from_ns = self.now;
        self.walker.completed(self.now, work, u64::from(self.inside).wrapping_add(1));
        self.completions = self.completions.wrapping_add(1);
        if self.settings.lat_ns != 0 && is_sync_read {
            self.note_latency(stayed_ns);
        }
    }

    #[inline(never)]
    fn note_latency(&mut self, stayed_ns: Nanos) {
        self.sync_reads = self.sync_reads.wrapping_add(1);
        let is_late = stayed_ns > self.settings.lat_ns.unsigned_abs();
        self.late_reads = self.late_reads.wrapping_add(u32::from(is_late));
    }

    /// Looked at with every pick: epochs end, and with them what is measured over one.
    #[inline(always)]
    pub(super) fn step_epoch(&mut self) {
        if self.now < self.look_ns {
            return;
        }
        if self.now.saturating_sub(self.window_ns) >= self.window_length_ns() {
            self.end_window();
        }
        if self.walker.is_due(self.now) {
            self.end_epoch();
        }
        self.look_ns = self.window_ns.saturating_add(self.window_length_ns()).min(self.walker.ends_ns());
    }

    fn window_length_ns(&self) -> Nanos {
        self.walker.epoch_ns().max(LEAST_WINDOW_NS)
    }

    #[inline(never)]
    fn end_window(&mut self) {
        let since = self.now.saturating_sub(self.window_ns);
        self.request_ns = since.checked_div(u64::from(self.completions)).unwrap_or(since);
        // Bytes charged in 2^20 ns, half new and half old.
        let rate = (self.charged.min(1 << 40) << 20).checked_div(since).unwrap_or(0);
        self.rate = (self.rate.wrapping_add(rate)) / 2;
        self.merged_bytes = (self.rate.saturating_mul(MERGED_NS) >> 20).max(LEAST_MERGED_BYTES);
        (self.charged, self.completions, self.window_ns) = (0, 0, self.now);
        self.guard_latency();
        if self.ladder.way() == Way::Flow {
            self.fit_wheels();
        }
    }

    #[inline(never)]
    fn end_epoch(&mut self) {
        let jitter = self.jitter.next();
        let step = self.walker.step(self.now, self.residence_ns, self.request_ns, jitter);
        if !self.messages.is_on() {
            return;
        }
        let walker = &self.walker;
        let floor = [walker.floor_q4() / 16, walker.floor_q4() % 16];
        match step {
            Step::None => {}
            Step::Epoch => self.tell("epoch {0}", [u64::from(walker.epochs)]),
            Step::Cycle if walker.phase() == Phase::Fast => {
                self.tell(
                    "walk fast f={0}+{1}/16 r={2}/65536 n={3}/16",
                    [floor[0], floor[1], walker.ratio(), walker.mean_inside_q4()],
                );
            }
            Step::Cycle => {
                let [whole, part] = floor;
                self.tell(
                    "walk slow f={0}+{1}/16 r={2}/65536 calm={3} n={4}/16",
                    [whole, part, walker.ratio(), u64::from(walker.calm()), walker.mean_inside_q4()],
                );
            }
            Step::Restart => self.tell("restart {0}", [u64::from(walker.restarts)]),
        }
    }

    /// The cap of requests inside follows the share of sync reads that stayed for too long.
    fn guard_latency(&mut self) {
        let (reads, late) = (self.sync_reads, self.late_reads);
        if reads < LATENCY_READS {
            return;
        }
        (self.sync_reads, self.late_reads) = (0, 0);
        let most = self.depth_q4();
        if self.settings.lat_ns == 0 {
            self.cap_q4 = most;
            return;
        }
        let percent = u64::from(late).saturating_mul(100).checked_div(u64::from(reads)).unwrap_or(0);
        if percent > 5 {
            self.cap_q4 = (self.cap_q4.saturating_mul(7) / 8).max(16);
            self.tell("lat hi={0}/{1} dcap={2}", [u64::from(late), u64::from(reads), self.cap_q4 / 16]);
        } else if percent < 2 {
            self.cap_q4 = self.cap_q4.saturating_add((self.cap_q4 / 16).max(8)).min(most);
        }
    }

    /// A slot of the root's wheels spans a part of what may be owed there, but not so little that the next turn of who was
    /// served lies beyond the chain's end: then everybody would be seated anew over and over.
    fn fit_wheels(&mut self) {
        let sum = self.groups.at(ROOT).weight_sum.max(1);
        let bytes = (self.rate.saturating_mul(self.residence_ns.saturating_mul(4)) >> 20).max(16_384);
        let owed = (bytes << 16).checked_div(sum).unwrap_or(1) / 32;
        let wanted = owed.max(self.longest_stride / 32);
        // Slowly: of thousands of groups not all have a turn in a window, and each change seats everybody anew.
        self.longest_stride = self.longest_stride.wrapping_sub(self.longest_stride / 16);
        let root = self.groups.at_mut(ROOT);
        root.ready.resize(&mut self.chains, &mut self.members, wanted);
        root.wait.resize(&mut self.chains, &mut self.members, wanted);
    }
}
