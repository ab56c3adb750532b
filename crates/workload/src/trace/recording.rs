//! Selects the I/Os of a trace that are replayed, assigns them to groups and finds out which had
//! completed before which.
//!
//! A trace with stages is replayed from its queued bios or, if it has no queue events, from the
//! issued requests, which are then replayed merged. A completion completes every I/O within its
//! range. Memory per I/O: 40 bytes while the trace is read, 40 bytes for the recording, and an
//! entry in the list of I/Os that have not completed. Source: docs/specifications/harness.md,
//! section 9.8.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hoistway_block::{DeviceNumber, Flags, Nanos, Operation};

use super::Action;
use super::record::{Item, Record};
use crate::replay::{Part, Recording, Step};

/// Maximum number of I/Os of a trace; they take 2.5 GiB of memory while it is read, and as much for
/// the recording.
const MAX_IOS: usize = 1 << 26;
/// Maximum time from the first to the last I/O. Clocks of hosts end after 584 years, and the trace
/// may be repeated.
const MAX_SPAN_NS: Nanos = 1 << 60;
/// Maximum data of one I/O, in bytes.
const MAX_DATA_BYTES: u64 = 64 << 20;
/// The devices of a trace are laid out one after another at multiples of this.
const DEVICE_UNIT_BYTES: u64 = 1 << 20;
/// Maximum number of processes of a group; further ones share these numbers.
const MAX_ACTORS: usize = 1_024;
/// Maximum number of groups.
const MAX_GROUPS: usize = 1_024;
/// Group of I/Os that belong to no group.
const REST: &str = "rest";
/// Maximum number of combinations of process, group and device whose group is cached.
const MAX_MARKS: usize = 4_096;
const UNKNOWN: Nanos = Nanos::MAX;

/// Which I/Os are replayed, and how they are grouped.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Devices by name or `major:minor`; empty means all.
    pub devices: Vec<String>,
    /// Start (inclusive) and end (exclusive), counted from the first event of the trace.
    pub time_ns: (Nanos, Nanos),
    /// Whether writes are replayed as well as reads.
    pub writes: bool,
    /// What makes a group.
    pub by: GroupBy,
    /// Whether each process of the trace becomes a thread of its own.
    pub own_threads: bool,
    /// Whether completions are inferred by the rules of the start-up traces of the benchmark suite
    /// S: a process waits for each I/O that is not a read-ahead, and before it issues one, it waits
    /// for its own read-aheads.
    pub is_start_up: bool,
    /// Whether completions are events of the trace; otherwise no I/O is tracked until it completes.
    pub has_stages: bool,
    /// Whether processes hold I/Os in their plugs as recorded.
    pub plugs: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            time_ns: (0, Nanos::MAX),
            writes: true,
            by: GroupBy::None,
            own_threads: false,
            is_start_up: false,
            has_stages: true,
            plugs: true,
        }
    }
}

/// What makes a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// The whole trace is one group.
    #[default]
    None,
    /// Each process.
    Pid,
    /// Processes of the same name.
    Comm,
    /// The group recorded in the trace.
    Cgroup,
    /// Each device.
    Device,
    /// A table from process id, process name, group or device to group.
    Table(BTreeMap<String, String>),
}

/// The properties that determine the group of an I/O.
#[derive(Clone, Debug)]
pub struct GroupingKey<'a> {
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub process: Option<&'a str>,
    /// The group recorded in the trace.
    pub group: Option<String>,
    /// The device.
    pub device: String,
}

impl GroupBy {
    /// Name of the group of an I/O; `None` if this rule assigns none.
    pub fn name_of(&self, marks: GroupingKey<'_>) -> Option<String> {
        let name = match self {
            GroupBy::None => None,
            GroupBy::Pid => Some(format!("pid{}", marks.pid)),
            GroupBy::Comm => marks.process.map(str::to_owned),
            GroupBy::Cgroup => marks.group,
            GroupBy::Device => Some(marks.device),
            GroupBy::Table(table) => {
                let pid = marks.pid.to_string();
                let keys = [Some(pid.as_str()), marks.process, marks.group.as_deref(), Some(marks.device.as_str())];
                keys.into_iter().flatten().find_map(|key| table.get(key).cloned())
            }
        };
        name.map(|name| plain(&name))
    }
}

/// One I/O before its group and final offset are known.
#[derive(Copy, Clone)]
struct RecordedIo {
    at_ns: Nanos,
    done_ns: Nanos,
    offset_bytes: u64,
    length_bytes: u32,
    pid: u32,
    group: u16,
    device: u16,
    flags: Flags,
    operation: Operation,
    is_plugged: bool,
}

/// The result of reading a trace.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The groups with their I/Os, in order of appearance; none is empty.
    pub groups: Vec<(String, Arc<Recording>)>,
    /// Number of I/Os to replay.
    pub steps: u64,
    /// Time from the first to the last of them.
    pub duration_ns: Nanos,
    /// Number of omitted I/Os by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// The devices, in the order in which they are laid out.
    pub devices: Vec<String>,
    /// Whether merged requests are replayed because no bios were recorded.
    pub is_merged: bool,
    /// Number of I/Os that waited in a plug and do so again in the replay.
    pub held: u64,
}

/// Why a trace cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It has too many I/Os.
    #[error("more than {MAX_IOS} I/Os: replay a part of them (--time A-B)")]
    TooLong,
    /// It spans an implausibly long time.
    #[error(
        "from first to last it takes more than 36 years: its times make no sense; replay a part of it (--time A-B)"
    )]
    TimesMakeNoSense,
    /// It has too many groups.
    #[error("more than {MAX_GROUPS} groups: choose by something else, or give a table (--groups-by file=MAP.csv)")]
    TooManyGroups,
    /// No I/O is left to replay.
    #[error("no I/O is left to replay")]
    Nothing,
}

/// Builds the recordings from the items of a trace.
pub struct Builder {
    selection: Selection,
    begin_ns: Option<Nanos>,
    processes: BTreeMap<u32, String>,
    groups_named: BTreeMap<u64, String>,
    devices_named: BTreeMap<DeviceNumber, String>,
    devices: Vec<DeviceNumber>,
    device_numbers: BTreeMap<DeviceNumber, u16>,
    groups: Vec<String>,
    group_numbers: BTreeMap<String, u16>,
    /// Cached group of a process, group and device; cleared when a name changes.
    groups_of_marks: BTreeMap<(u32, u64, DeviceNumber), u16>,
    seen: Vec<RecordedIo>,
    /// The stage that counts as an I/O so far: completed, issued if any was, queued if any was.
    stage: Action,
    outstanding: Outstanding,
    /// The open plugs.
    plugs: Plugs,
    left_out: BTreeMap<&'static str, u64>,
}

impl Builder {
    /// An empty builder.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            begin_ns: None,
            processes: BTreeMap::new(),
            groups_named: BTreeMap::new(),
            devices_named: BTreeMap::new(),
            devices: Vec::new(),
            device_numbers: BTreeMap::new(),
            groups: Vec::new(),
            group_numbers: BTreeMap::new(),
            groups_of_marks: BTreeMap::new(),
            seen: Vec::new(),
            stage: Action::Completed,
            outstanding: Outstanding::default(),
            plugs: Plugs::default(),
            left_out: BTreeMap::new(),
        }
    }

    /// Takes the next item of the trace.
    ///
    /// # Errors
    /// There are too many I/Os or groups.
    pub fn add(&mut self, item: Item) -> Result<(), Unusable> {
        if matches!(item, Item::Process { .. } | Item::Device { .. } | Item::Group { .. }) {
            self.groups_of_marks.clear();
        }
        match item {
            Item::Record(record) => return self.record(&record),
            Item::Process { pid, name } => _ = self.processes.insert(pid, name),
            Item::Device { device, name } => _ = self.devices_named.insert(device, name),
            Item::Group { group, name } => _ = self.groups_named.insert(group, name),
            Item::Message { .. } | Item::Clock { .. } => {}
        }
        Ok(())
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    fn record(&mut self, record: &Record) -> Result<(), Unusable> {
        let since_ns = record.at_ns - *self.begin_ns.get_or_insert(record.at_ns);
        match record.action {
            action if action == self.stage => {}
            Action::Queued => self.begin_stage(Action::Queued),
            Action::Issued if self.stage == Action::Completed => self.begin_stage(Action::Issued),
            Action::Completed => {
                self.outstanding.completed(record, &mut self.seen);
                return Ok(());
            }
            Action::Plugged | Action::Unplugged | Action::UnpluggedByTimer if self.selection.plugs => {
                self.plugs.note(record, &mut self.seen);
                return Ok(());
            }
            _ => return Ok(()),
        }
        if record.operation == Operation::Passthrough {
            self.leave_out("passthrough commands");
            return Ok(());
        }
        let (from_ns, to_ns) = self.selection.time_ns;
        if since_ns < from_ns || since_ns >= to_ns {
            self.leave_out("I/Os outside of --time");
            return Ok(());
        }
        if !self.is_wanted(record.device) {
            self.leave_out("I/Os of other devices");
            return Ok(());
        }
        if record.operation != Operation::Read && !self.selection.writes {
            self.leave_out("writes");
            return Ok(());
        }
        let Some(length_bytes) = length_of(record) else {
            self.leave_out("I/Os of no length, or of more than 64 MiB");
            return Ok(());
        };
        if self.seen.len() == MAX_IOS {
            return Err(Unusable::TooLong);
        }
        let group = self.group_of(record)?;
        let device = self.device_index(record.device);
        if self.selection.has_stages && record.latency_ns.is_none() && self.stage != Action::Completed {
            self.outstanding.begun(record, self.seen.len());
        }
        let is_plugged = self.stage == Action::Queued && self.plugs.queued(record.pid, self.seen.len());
        self.seen.push(RecordedIo {
            at_ns: record.at_ns,
            done_ns: record.latency_ns.map_or(UNKNOWN, |latency_ns| record.at_ns.saturating_add(latency_ns)),
            // Linux records meaningless sectors for flushes.
            offset_bytes: if record.operation == Operation::Flush { 0 } else { record.offset_bytes },
            length_bytes,
            pid: record.pid,
            group,
            device,
            flags: record.flags,
            operation: record.operation,
            is_plugged,
        });
        Ok(())
    }

    /// An earlier stage of the I/Os is in the trace: what was taken for I/Os had begun before it.
    fn begin_stage(&mut self, stage: Action) {
        self.stage = stage;
        self.seen.clear();
        self.outstanding = Outstanding::default();
        self.plugs = Plugs::default();
        self.left_out.clear();
    }

    fn is_wanted(&self, device: DeviceNumber) -> bool {
        let wanted = &self.selection.devices;
        let name = self.devices_named.get(&device);
        wanted.is_empty() || wanted.iter().any(|it| Some(it) == name || *it == device.to_string())
    }

    fn device_index(&mut self, device: DeviceNumber) -> u16 {
        let devices = &mut self.devices;
        *self.device_numbers.entry(device).or_insert_with(|| {
            devices.push(device);
            u16::try_from(devices.len() - 1).unwrap_or(u16::MAX)
        })
    }

    fn group_of(&mut self, record: &Record) -> Result<u16, Unusable> {
        let marks = (record.pid, record.group, record.device);
        if let Some(known) = self.groups_of_marks.get(&marks) {
            return Ok(*known);
        }
        let number = self.group_of_marks(record)?;
        if self.groups_of_marks.len() == MAX_MARKS {
            self.groups_of_marks.clear();
        }
        self.groups_of_marks.insert(marks, number);
        Ok(number)
    }

    fn group_of_marks(&mut self, record: &Record) -> Result<u16, Unusable> {
        let group = match (self.groups_named.get(&record.group), record.group) {
            (Some(name), _) => Some(name.clone()),
            (None, 0) => None,
            (None, number) => Some(number.to_string()),
        };
        let device = self.devices_named.get(&record.device).cloned().unwrap_or_else(|| record.device.to_string());
        let process = self.processes.get(&record.pid).map(String::as_str);
        let name = self.selection.by.name_of(GroupingKey { pid: record.pid, process, group, device });
        let all = if self.selection.by == GroupBy::None { "trace" } else { REST };
        let name = name.unwrap_or_else(|| all.to_owned());
        if let Some(known) = self.group_numbers.get(&name) {
            return Ok(*known);
        }
        if self.groups.len() == MAX_GROUPS {
            return Err(Unusable::TooManyGroups);
        }
        let number = u16::try_from(self.groups.len()).unwrap_or(u16::MAX);
        self.groups.push(name.clone());
        self.group_numbers.insert(name, number);
        Ok(number)
    }

    /// Ends the trace and returns the recordings.
    ///
    /// # Errors
    /// No I/O is left to replay, or the trace spans too long a time.
    pub fn finish(mut self) -> Result<Recorded, Unusable> {
        let (Some(first), Some(last)) = (self.seen.first(), self.seen.last()) else { return Err(Unusable::Nothing) };
        let (begin_ns, duration_ns) = (first.at_ns, last.at_ns - first.at_ns);
        if duration_ns > MAX_SPAN_NS {
            return Err(Unusable::TimesMakeNoSense);
        }
        if self.selection.is_start_up {
            infer_completions(&mut self.seen);
        }
        let bases = self.bases();
        // The gap before the next repetition is the mean gap between two I/Os.
        let pass_ns = duration_ns.saturating_add((duration_ns / self.seen.len() as u64).max(1));
        self.plugs.end(&mut self.seen);
        let held = self.seen.iter().filter(|seen| seen.is_plugged).count() as u64;
        let all = &self.seen[..];
        let mut members: Vec<Vec<u32>> = self.groups.iter().map(|_| Vec::new()).collect();
        for (index, seen) in (0_u32..).zip(all) {
            members[usize::from(seen.group)].push(index);
        }
        let mut groups = Vec::new();
        for (name, own) in self.groups.iter().zip(members) {
            let threads = if self.selection.own_threads { by_process(all, &own) } else { vec![own] };
            let parts = threads.iter().map(|own| part(all, own, begin_ns, &bases)).collect();
            groups.push((name.clone(), Arc::new(Recording { parts, pass_ns })));
        }
        let name =
            |device: &DeviceNumber| self.devices_named.get(device).cloned().unwrap_or_else(|| device.to_string());
        Ok(Recorded {
            groups,
            steps: self.seen.len() as u64,
            duration_ns,
            left_out: self.left_out,
            devices: self.devices.iter().map(name).collect(),
            is_merged: self.stage != Action::Queued,
            held,
        })
    }

    /// Start of each device, after the end of the previous one.
    fn bases(&self) -> Vec<u64> {
        let mut spans = vec![0_u64; self.devices.len()];
        for seen in &self.seen {
            let span = &mut spans[usize::from(seen.device)];
            *span = (*span).max(seen.offset_bytes.saturating_add(u64::from(seen.length_bytes)));
        }
        let mut base = 0_u64;
        let behind = |span: u64| {
            let begin = base;
            base = base.saturating_add(span.checked_next_multiple_of(DEVICE_UNIT_BYTES).unwrap_or(span));
            begin
        };
        spans.into_iter().map(behind).collect()
    }
}

/// Replaces characters that a group's path must not contain.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@/".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
    let name = name.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect::<Vec<_>>().join("/");
    if name.is_empty() { REST.to_owned() } else { name }
}

/// Length of the I/O rounded up to whole sectors; `None` if it cannot be replayed.
fn length_of(record: &Record) -> Option<u32> {
    let most = match record.operation {
        Operation::Flush => return Some(0),
        Operation::Discard | Operation::SecureErase | Operation::WriteZeroes => u64::from(u32::MAX) / 512 * 512,
        _ => MAX_DATA_BYTES,
    };
    let is_whole = record.offset_bytes.checked_add(record.length_bytes).is_some();
    let length_bytes = record.length_bytes.next_multiple_of(512);
    u32::try_from(length_bytes).ok().filter(|_| is_whole && (1..=most).contains(&length_bytes))
}

/// I/Os that have begun and not completed, by position.
#[derive(Default)]
struct Outstanding {
    /// Maps device, whether the I/O is a read, its first byte and its index to the byte after its
    /// end.
    transfers: BTreeMap<(DeviceKey, bool, u64, usize), u64>,
    flushes: BTreeMap<DeviceKey, VecDeque<usize>>,
}

type DeviceKey = (u32, u32);

impl Outstanding {
    fn begun(&mut self, record: &Record, index: usize) {
        let device = (record.device.major, record.device.minor);
        if record.length_bytes == 0 {
            self.flushes.entry(device).or_default().push_back(index);
        } else {
            let is_read = record.operation == Operation::Read;
            self.transfers.insert((device, is_read, record.offset_bytes, index), record.end_bytes());
        }
    }

    fn completed(&mut self, record: &Record, seen: &mut [RecordedIo]) {
        let device = (record.device.major, record.device.minor);
        let mut done = |index: usize| {
            if let Some(seen) = seen.get_mut(index) {
                seen.done_ns = record.at_ns;
            }
        };
        if record.length_bytes == 0 {
            if let Some(index) = self.flushes.get_mut(&device).and_then(VecDeque::pop_front) {
                done(index);
            }
            return;
        }
        let is_read = record.operation == Operation::Read;
        let (first, end_bytes) = ((device, is_read, record.offset_bytes, 0), record.end_bytes());
        let inside = self.transfers.range(first..(device, is_read, end_bytes, 0)).filter(|(_, end)| **end <= end_bytes);
        for key in inside.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.transfers.remove(&key);
            done(key.3);
        }
    }
}

/// Plugs of processes (since 2.6.39). The plug event follows the queue event of the first bio; that
/// bio and the following ones of the process wait until it unplugs.
#[derive(Default)]
struct Plugs {
    /// Last I/O of each process with an open plug.
    open: BTreeMap<u32, usize>,
    /// Process and index of the last I/O.
    latest: Option<(u32, usize)>,
}

/// Maximum number of open plugs; further ones are ignored.
const MAX_PLUGS: usize = 65_536;

impl Plugs {
    /// Whether the I/O that `pid` queues now is held by its plug.
    fn queued(&mut self, pid: u32, index: usize) -> bool {
        self.latest = Some((pid, index));
        match self.open.get_mut(&pid) {
            Some(last) => {
                *last = index;
                true
            }
            None => false,
        }
    }

    fn note(&mut self, record: &Record, seen: &mut [RecordedIo]) {
        if record.action != Action::Plugged {
            match self.open.remove(&record.pid) {
                Some(last) => release_plug(last, seen),
                // An unplug without a plug of its own process releases all plugs: until 2.6.38 the
                // plug belonged to the queue.
                None => self.end(seen),
            }
        } else if let Some((pid, index)) = self.latest
            && pid == record.pid
            && self.open.len() < MAX_PLUGS
        {
            self.open.insert(pid, index);
            if let Some(seen) = seen.get_mut(index) {
                seen.is_plugged = true;
            }
        }
    }

    /// Releases all plugs.
    fn end(&mut self, seen: &mut [RecordedIo]) {
        std::mem::take(&mut self.open).into_values().for_each(|last| release_plug(last, seen));
    }
}

/// Marks the last I/O of a plug as the one that releases the others.
fn release_plug(last: usize, seen: &mut [RecordedIo]) {
    if let Some(seen) = seen.get_mut(last) {
        seen.is_plugged = false;
    }
}

/// Infers completions by the rules of [`Selection::is_start_up`].
fn infer_completions(all: &mut [RecordedIo]) {
    let mut ahead: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for index in 0..all.len() {
        let RecordedIo { at_ns, pid, flags, .. } = all[index];
        if flags.contains(Flags::READAHEAD) {
            ahead.entry(pid).or_default().push(index);
            continue;
        }
        for read_ahead in ahead.remove(&pid).unwrap_or_default() {
            all[read_ahead].done_ns = at_ns;
        }
        if let Some(next) = all.get(index + 1) {
            all[index].done_ns = next.at_ns;
        }
    }
}

/// Splits the I/Os of these indices into one list per process, in order of appearance.
fn by_process(all: &[RecordedIo], own: &[u32]) -> Vec<Vec<u32>> {
    let mut numbers = BTreeMap::new();
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for index in own {
        let next = lists.len();
        let at = *numbers.entry(all[*index as usize].pid).or_insert(next % MAX_ACTORS);
        if at == next {
            lists.push(Vec::new());
        }
        lists[at].push(*index);
    }
    lists
}

/// The recording of one thread: the I/Os of these indices.
fn part(all: &[RecordedIo], own: &[u32], begin_ns: Nanos, bases: &[u64]) -> Part {
    let seen = |at: u32| &all[own[at as usize] as usize];
    let mut completed: Vec<u32> =
        (0_u32..).zip(own).map(|(at, _)| at).filter(|at| seen(*at).done_ns != UNKNOWN).collect();
    // No I/O completes before it was queued, so none waits for itself or for a later one.
    let done_ns = |at: u32| seen(at).done_ns.max(seen(at).at_ns.saturating_add(1));
    completed.sort_unstable_by_key(|at| (done_ns(*at), *at));
    let mut actors: BTreeMap<u32, u16> = BTreeMap::new();
    let (mut after, mut begun, mut most_in_flight) = (0_usize, 0_usize, 0);
    let mut steps = Vec::with_capacity(own.len());
    for index in own {
        let seen = &all[*index as usize];
        while completed.get(after).is_some_and(|at| done_ns(*at) <= seen.at_ns) {
            after += 1;
        }
        begun += usize::from(seen.done_ns != UNKNOWN);
        most_in_flight = most_in_flight.max(begun - after);
        let next = actors.len() % MAX_ACTORS;
        let actor = *actors.entry(seen.pid).or_insert(u16::try_from(next).unwrap_or(0));
        steps.push(Step {
            at_ns: seen.at_ns - begin_ns,
            offset_bytes: seen.offset_bytes.saturating_add(bases[usize::from(seen.device)]),
            length_bytes: seen.length_bytes,
            after: u32::try_from(after).unwrap_or(u32::MAX),
            flags: seen.flags,
            actor,
            operation: seen.operation,
            is_plugged: seen.is_plugged,
        });
    }
    Part {
        steps: steps.into(),
        completed: completed.into(),
        most_in_flight: u32::try_from(most_in_flight).unwrap_or(u32::MAX),
        actors: u16::try_from(actors.len().clamp(1, MAX_ACTORS)).unwrap_or(1),
    }
}
