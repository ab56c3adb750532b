//! Records the first requests of a window: what was dispatched, in which order and why, to
//! visualise the scheduler's decisions.
//!
//! ```text
//! queue's trace -> Dispatches Recorder (chosen, started, held, completed) -> Dispatches -> report's picture
//! ```
//! Cost: one row of 56 bytes per recorded request, allocated at once; hosts stop tracing when the
//! record is full.

use hoistway_block::{Extent, GroupId, Nanos, Operation, RequestId};
use hoistway_elevator::{Attributes, Reason};
use serde::{Deserialize, Serialize};

/// The requests that were dispatched in a part of the window, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Dispatches {
    /// Length of that part in nanoseconds. It starts with the window, or as soon after it as the
    /// host could trace.
    pub length_ns: Nanos,
    /// Names of the policy's reasons; rows refer to them by index.
    pub reasons: Vec<String>,
    /// The requests.
    pub requests: Vec<DispatchedRequest>,
    /// Times in which the policy had requests and held them back.
    pub holds: Vec<Hold>,
}

/// One request in the device. Serialised as a row of numbers, because there are thousands.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct DispatchedRequest {
    /// Dispatch time, in nanoseconds after the start of the window.
    pub at_ns: Nanos,
    /// Service time in the device, in nanoseconds.
    pub service_ns: Nanos,
    /// Its sectors.
    pub extent: Extent,
    /// Its kind as blkparse's letter: `R`, `W`, `D` or `N`.
    pub kind: char,
    /// Index into the experiment's groups; `None` for the system's own I/O.
    pub group: Option<u16>,
    /// Why it was chosen; `None` if no policy chose it (bypassed or drained).
    pub reason: Option<u8>,
}

/// Time, service time, first sector, sectors, kind, group, reason.
type Row = (Nanos, Nanos, u64, u32, char, Option<u16>, Option<u8>);

impl From<Row> for DispatchedRequest {
    fn from((at_ns, service_ns, first_sector, sectors, kind, group, reason): Row) -> Self {
        Self { at_ns, service_ns, extent: Extent { first_sector, sectors }, kind, group, reason }
    }
}

impl From<DispatchedRequest> for Row {
    fn from(request: DispatchedRequest) -> Self {
        let DispatchedRequest { at_ns, service_ns, extent, kind, group, reason } = request;
        (at_ns, service_ns, extent.first_sector, extent.sectors, kind, group, reason)
    }
}

/// A time in which the policy held back requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Nanos, Nanos, u8)", into = "(Nanos, Nanos, u8)")]
pub struct Hold {
    /// Its start, in nanoseconds after the start of the window.
    pub at_ns: Nanos,
    /// Its length in nanoseconds.
    pub length_ns: Nanos,
    /// The reason.
    pub reason: u8,
}

impl From<(Nanos, Nanos, u8)> for Hold {
    fn from((at_ns, length_ns, reason): (Nanos, Nanos, u8)) -> Self {
        Self { at_ns, length_ns, reason }
    }
}

impl From<Hold> for (Nanos, Nanos, u8) {
    fn from(hold: Hold) -> Self {
        (hold.at_ns, hold.length_ns, hold.reason)
    }
}

/// Records dispatches until it is full. Times of events must not decrease.
#[derive(Debug)]
pub struct DispatchRecorder {
    begin_ns: Nanos,
    room: usize,
    requests: Vec<(DispatchedRequest, GroupId)>,
    holds: Vec<Hold>,
    /// Requests that were chosen and not yet dispatched.
    chosen: Vec<(RequestId, Option<Reason>)>,
    /// Requests in the device, with the index of their row.
    in_flight: Vec<(RequestId, usize)>,
    /// The current hold.
    held: Option<(Nanos, Reason)>,
    latest_ns: Nanos,
}

/// Maximum number of holds relative to the requests, because a policy may start holds repeatedly.
const HOLDS_PER_REQUEST: usize = 2;

impl DispatchRecorder {
    /// A recorder of `room` requests; `begin_ns` is the start of the window on the clock of the
    /// events.
    pub fn new(room: usize, begin_ns: Nanos) -> Self {
        Self {
            begin_ns,
            room,
            requests: Vec::with_capacity(room),
            holds: Vec::new(),
            chosen: Vec::new(),
            in_flight: Vec::new(),
            held: None,
            latest_ns: begin_ns,
        }
    }

    /// Moves the start, as long as nothing is recorded.
    pub fn begin_at(&mut self, begin_ns: Nanos) {
        if self.requests.is_empty() {
            (self.begin_ns, self.latest_ns) = (begin_ns, begin_ns);
        }
    }

    /// Whether recording is finished: it is full and all its requests have completed.
    pub fn is_full(&self) -> bool {
        self.requests.len() >= self.room && self.in_flight.is_empty()
    }

    /// Notes that the policy chose a request.
    pub fn chosen(&mut self, id: RequestId, reason: Option<Reason>) {
        self.chosen.push((id, reason));
    }

    /// Notes that the policy has requests and holds them back.
    pub fn held(&mut self, at_ns: Nanos, reason: Reason) {
        if at_ns < self.begin_ns || self.requests.len() >= self.room {
            return;
        }
        match self.held {
            Some((_, before)) if before == reason => {}
            _ => {
                self.end_hold(at_ns);
                self.held = Some((at_ns, reason));
            }
        }
    }

    /// Notes that a request was dispatched to the device.
    pub fn started(&mut self, id: RequestId, at_ns: Nanos, attributes: &Attributes) {
        let place = self.chosen.iter().position(|(known, _)| *known == id);
        let reason = place.and_then(|place| self.chosen.swap_remove(place).1);
        self.end_hold(at_ns);
        if at_ns < self.begin_ns || self.requests.len() >= self.room {
            return;
        }
        self.latest_ns = at_ns;
        self.in_flight.push((id, self.requests.len()));
        let request = DispatchedRequest {
            at_ns: at_ns - self.begin_ns,
            service_ns: 0,
            extent: attributes.extent,
            kind: letter_of(attributes.operation),
            group: None,
            reason: reason.map(|reason| reason.0),
        };
        self.requests.push((request, attributes.group));
    }

    /// Notes that a request has completed.
    pub fn completed(&mut self, id: RequestId, at_ns: Nanos) {
        let Some(place) = self.in_flight.iter().position(|(known, _)| *known == id) else { return };
        let (_, index) = self.in_flight.swap_remove(place);
        let request = &mut self.requests[index].0;
        request.service_ns = (at_ns - self.begin_ns).saturating_sub(request.at_ns);
    }

    fn end_hold(&mut self, at_ns: Nanos) {
        let Some((since_ns, Reason(reason))) = self.held.take() else { return };
        if at_ns > since_ns && self.holds.len() < self.room * HOLDS_PER_REQUEST {
            self.holds.push(Hold { at_ns: since_ns - self.begin_ns, length_ns: at_ns - since_ns, reason });
        }
    }

    /// The record; `None` if no request was dispatched. `reasons` are the names of the policy's
    /// reasons; `group_of` maps a group id to the index of the experiment's group.
    pub fn finish(
        mut self,
        end_ns: Nanos,
        reasons: &[&str],
        group_of: impl Fn(GroupId) -> Option<usize>,
    ) -> Option<Dispatches> {
        let is_cut = self.requests.len() >= self.room;
        let last_ns = if is_cut { self.latest_ns } else { end_ns.max(self.latest_ns) };
        self.end_hold(last_ns);
        // A request that never completed was in the device until the end.
        for (_, index) in std::mem::take(&mut self.in_flight) {
            let request = &mut self.requests[index].0;
            request.service_ns = (last_ns - self.begin_ns).saturating_sub(request.at_ns);
        }
        let requests = self.requests.into_iter().map(|(request, id)| {
            let group = group_of(id).and_then(|index| u16::try_from(index).ok());
            DispatchedRequest { group, ..request }
        });
        let requests: Vec<DispatchedRequest> = requests.collect();
        let reasons = reasons.iter().map(|name| (*name).to_owned()).collect();
        let length_ns = last_ns - self.begin_ns;
        (!requests.is_empty()).then_some(Dispatches { length_ns, reasons, requests, holds: self.holds })
    }
}

fn letter_of(operation: Operation) -> char {
    match operation {
        Operation::Read => 'R',
        Operation::Discard | Operation::SecureErase => 'D',
        Operation::Flush => 'N',
        Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend | Operation::Passthrough => 'W',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(sector: u64, group: u32) -> Attributes {
        let extent = Extent { first_sector: sector, sectors: 8 };
        Attributes { group: GroupId(group), ..Attributes::new(Operation::Read, extent) }
    }

    fn id(slot: u32) -> RequestId {
        RequestId::new(slot, 1)
    }

    #[test]
    fn requests_keep_order_reason_and_time_in_the_device() {
        let mut recorder = DispatchRecorder::new(2, 1_000);
        recorder.started(id(9), 999, &attributes(5, 1));
        recorder.chosen(id(1), Some(Reason(3)));
        recorder.started(id(1), 1_000, &attributes(100, 1));
        recorder.held(1_100, Reason(4));
        recorder.held(1_200, Reason(4));
        recorder.completed(id(1), 1_250);
        recorder.completed(id(9), 1_260);
        recorder.started(id(2), 1_300, &attributes(200, 2));
        assert!(!recorder.is_full());
        recorder.started(id(3), 1_310, &attributes(300, 2));
        recorder.completed(id(2), 1_400);
        assert!(recorder.is_full());
        let group_of = |id: GroupId| (id.0 == 2).then_some(0);
        let told = recorder.finish(9_000, &["a", "b", "c", "next", "idle"], group_of).unwrap();
        let rows: Vec<Row> = told.requests.iter().map(|request| Row::from(*request)).collect();
        assert_eq!(rows, [(0, 250, 100, 8, 'R', None, Some(3)), (300, 100, 200, 8, 'R', Some(0), None)]);
        assert_eq!(told.holds, [Hold { at_ns: 100, length_ns: 200, reason: 4 }]);
        assert_eq!(told.length_ns, 300);
    }

    #[test]
    fn a_run_that_ends_early_is_recorded_to_its_end() {
        let mut recorder = DispatchRecorder::new(10, 0);
        recorder.started(id(1), 10, &attributes(100, 1));
        recorder.held(20, Reason(0));
        let told = recorder.finish(50, &["idle"], |_| None).unwrap();
        assert_eq!((told.length_ns, told.requests[0].service_ns), (50, 40));
        assert_eq!(told.holds, [Hold { at_ns: 20, length_ns: 30, reason: 0 }]);
        assert_eq!(DispatchRecorder::new(10, 0).finish(50, &[], |_| None), None);
    }

    #[test]
    fn rows_are_stored_as_numbers() {
        let request = DispatchedRequest {
            at_ns: 1,
            service_ns: 2,
            extent: Extent { first_sector: 3, sectors: 4 },
            kind: 'W',
            group: Some(5),
            reason: None,
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text, "[1,2,3,4,\"W\",5,null]");
        assert_eq!(serde_json::from_str::<DispatchedRequest>(&text).unwrap(), request);
    }
}
