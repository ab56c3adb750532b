//! Filters events of a trace by time, device, action and process.

use std::collections::{BTreeMap, BTreeSet};

use hoistway_block::{DeviceNumber, Nanos, Operation};
use hoistway_workload::trace::{Action, Item, Record};

use crate::exit::Error;
use crate::trace::arguments::FilterArguments;

/// Largest number of I/Os of the selected processes that are tracked until they complete. The
/// kernel may log their dispatch and completion under another process.
const MAX_OUTSTANDING: usize = 1 << 18;

/// The filters of one trace.
pub(super) struct Filter {
    from_ns: Nanos,
    to_ns: Nanos,
    begin_ns: Option<Nanos>,
    /// The selected devices; empty = all, as in the other lists.
    devices: Vec<String>,
    devices_named: BTreeMap<DeviceNumber, String>,
    actions: Vec<Action>,
    /// Whether actions are filtered. `actions` does not say so, because it is empty if only
    /// messages are selected.
    by_action: bool,
    with_messages: bool,
    processes: Vec<String>,
    processes_named: BTreeMap<u32, String>,
    outstanding: Outstanding,
}

/// I/Os queued by selected processes and not completed. The key is device, whether it reads, first
/// byte and a running number; the value is the end.
#[derive(Default)]
struct Outstanding {
    ranges: BTreeMap<(DeviceNumber, bool, u64, u64), u64>,
    number: u64,
}

impl Filter {
    /// The filters of the arguments.
    pub(super) fn new(arguments: &FilterArguments) -> Result<Self, Error> {
        let mut actions = Vec::new();
        let mut with_messages = arguments.actions.is_empty();
        for name in &arguments.actions {
            match Action::of_text(name) {
                Some(action) => actions.push(action),
                None if name == "m" => with_messages = true,
                None => {
                    let what = format!("there is no action '{name}'");
                    let help =
                        "write letters of blkparse, for example Q,D,C: Q M F G S I R D C P U UT X B A, m for messages";
                    return Err(Error::usage(what, help).at("--actions"));
                }
            }
        }
        let (from_ns, to_ns) = arguments.time.map_or((0, Nanos::MAX), |span| (span.from_ns, span.to_ns));
        Ok(Self {
            from_ns,
            to_ns,
            begin_ns: None,
            devices: arguments.devices.clone(),
            devices_named: BTreeMap::new(),
            actions,
            by_action: !arguments.actions.is_empty(),
            with_messages,
            processes: arguments.processes.clone(),
            processes_named: BTreeMap::new(),
            outstanding: Outstanding::default(),
        })
    }

    /// Whether an item is selected. Names of processes, groups and devices always are, and so is
    /// the item about the trace's clock.
    pub(super) fn wants(&mut self, item: &Item) -> bool {
        match item {
            Item::Record(record) => {
                // Each filter sees every record that it needs for its state, whether the others
                // select it or not.
                let is_in_time = self.is_in_time(record.at_ns);
                let is_of_process = self.is_of_process(record);
                let is_of_action = !self.by_action || self.actions.contains(&record.action);
                is_in_time && is_of_process && is_of_action && self.is_of_device(record.device)
            }
            Item::Message { at_ns, device, .. } => {
                self.is_in_time(*at_ns) && self.with_messages && self.processes.is_empty() && self.is_of_device(*device)
            }
            Item::Process { pid, name } => {
                if !self.processes.is_empty() {
                    self.processes_named.insert(*pid, name.clone());
                }
                true
            }
            Item::Device { device, name } => {
                if !self.devices.is_empty() {
                    self.devices_named.insert(*device, name.clone());
                }
                true
            }
            Item::Group { .. } | Item::Clock { .. } => true,
        }
    }

    fn is_in_time(&mut self, at_ns: Nanos) -> bool {
        let since_ns = at_ns - *self.begin_ns.get_or_insert(at_ns);
        (self.from_ns..self.to_ns).contains(&since_ns)
    }

    fn is_of_device(&self, device: DeviceNumber) -> bool {
        let DeviceNumber { major, minor } = device;
        let is_it = |wanted: &String| *wanted == device.to_string() || Some(wanted) == self.devices_named.get(&device);
        self.devices.is_empty()
            || self.devices.iter().any(|wanted| is_it(wanted) || *wanted == format!("{major}-{minor}"))
    }

    /// Whether the event is of a selected process, or is the dispatch or completion of an I/O that
    /// such a process queued.
    fn is_of_process(&mut self, record: &Record) -> bool {
        if self.processes.is_empty() {
            return true;
        }
        let name = self.processes_named.get(&record.pid);
        let pid = record.pid.to_string();
        let is_own = self.processes.iter().any(|wanted| *wanted == pid || Some(wanted) == name);
        match record.action {
            Action::Queued if is_own => self.outstanding.begun(record),
            Action::Issued | Action::Requeued => return is_own || self.outstanding.covered(record, false),
            Action::Completed => return self.outstanding.covered(record, true) || is_own,
            _ => {}
        }
        is_own
    }
}

impl Outstanding {
    fn begun(&mut self, record: &Record) {
        if self.ranges.len() < MAX_OUTSTANDING {
            self.number += 1;
            let key = (record.device, record.operation == Operation::Read, record.offset_bytes, self.number);
            self.ranges.insert(key, record.end_bytes());
        }
    }

    /// Whether a request contains an outstanding I/O; if the request has completed, the I/Os in it
    /// are removed.
    fn covered(&mut self, record: &Record, has_ended: bool) -> bool {
        let is_read = record.operation == Operation::Read;
        let end_bytes = record.end_bytes();
        let first = (record.device, is_read, record.offset_bytes, 0);
        let last = (record.device, is_read, end_bytes.max(record.offset_bytes.saturating_add(1)), 0);
        let inside = self.ranges.range(first..last).filter(|(_, end)| **end <= end_bytes).map(|(key, _)| *key);
        if !has_ended {
            return inside.take(1).count() > 0;
        }
        let inside: BTreeSet<_> = inside.collect();
        for key in &inside {
            self.ranges.remove(key);
        }
        !inside.is_empty()
    }
}
