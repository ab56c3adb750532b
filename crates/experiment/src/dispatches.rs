//! What was sent to the device, in which order and why: the first so many requests of a window, for a picture of the
//! scheduler at work.
//!
//! ```text
//! queue's trace -> Dispatches Recorder (chosen, started, held, completed) -> Dispatches -> report's picture
//! ```
//! Cost: one row of 56 bytes per request recorded, got at once; hosts turn their trace off again when it is full.

use block::{Extent, GroupId, Nanos, Operation, RequestId};
use elevator::{Attributes, Reason};
use serde::{Deserialize, Serialize};

/// The requests that went to the device in a piece of the window, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Dispatches {
    /// Length of the piece, which begins with the window (or as soon after it as the host could listen), in nanoseconds.
    pub length_ns: Nanos,
    /// Names of the policy's reasons; rows speak of them by index.
    pub reasons: Vec<String>,
    /// The requests.
    pub requests: Vec<DispatchedRequest>,
    /// When the policy had work and kept it back.
    pub holds: Vec<Hold>,
}

/// One request on its way through the device. Stored as a row of numbers, as there are thousands.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct DispatchedRequest {
    /// When the device got it, in nanoseconds after the window's begin.
    pub at_ns: Nanos,
    /// How long the device had it, in nanoseconds.
    pub service_ns: Nanos,
    /// Where.
    pub extent: Extent,
    /// What: blkparse's letter, `R`, `W`, `D` or `N`.
    pub kind: char,
    /// Index into the experiment's groups; none for the system's own I/O.
    pub group: Option<u16>,
    /// Why it and not another; none where nobody chose (the policy was bypassed, or drained).
    pub reason: Option<u8>,
}

/// When, for how long, first sector, sectors, what, group, reason.
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

/// A time in which the policy kept the device from what it had.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Nanos, Nanos, u8)", into = "(Nanos, Nanos, u8)")]
pub struct Hold {
    /// When it began, in nanoseconds after the window's begin.
    pub at_ns: Nanos,
    /// How long it lasted, in nanoseconds.
    pub length_ns: Nanos,
    /// Why.
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

/// Records until it is full. Times of events do not go backwards.
#[derive(Debug)]
pub struct DispatchRecorder {
    begin_ns: Nanos,
    room: usize,
    requests: Vec<(DispatchedRequest, GroupId)>,
    holds: Vec<Hold>,
    /// Chosen, and not with the device yet.
    chosen: Vec<(RequestId, Option<Reason>)>,
    /// With the device: index of its row.
    flying: Vec<(RequestId, usize)>,
    /// The hold that lasts.
    held: Option<(Nanos, Reason)>,
    latest_ns: Nanos,
}

/// Holds kept at most, as a multiple of the requests: a policy may ask for time again and again.
const HOLDS_PER_REQUEST: usize = 2;

impl DispatchRecorder {
    /// A recorder of `room` requests; `begin_ns` is the window's begin on the clock of the events.
    pub fn new(room: usize, begin_ns: Nanos) -> Self {
        Self {
            begin_ns,
            room,
            requests: Vec::with_capacity(room),
            holds: Vec::new(),
            chosen: Vec::new(),
            flying: Vec::new(),
            held: None,
            latest_ns: begin_ns,
        }
    }

    /// Moves the begin, as long as nothing is recorded.
    pub fn begin_at(&mut self, begin_ns: Nanos) {
        if self.requests.is_empty() {
            (self.begin_ns, self.latest_ns) = (begin_ns, begin_ns);
        }
    }

    /// Whether nothing more is to be told: all its requests have come back.
    pub fn is_full(&self) -> bool {
        self.requests.len() >= self.room && self.flying.is_empty()
    }

    /// The policy chose a request.
    pub fn chosen(&mut self, id: RequestId, reason: Option<Reason>) {
        self.chosen.push((id, reason));
    }

    /// The policy has work, and keeps it back.
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

    /// The device got a request.
    pub fn started(&mut self, id: RequestId, at_ns: Nanos, attributes: &Attributes) {
        let place = self.chosen.iter().position(|(known, _)| *known == id);
        let reason = place.and_then(|place| self.chosen.swap_remove(place).1);
        self.end_hold(at_ns);
        if at_ns < self.begin_ns || self.requests.len() >= self.room {
            return;
        }
        self.latest_ns = at_ns;
        self.flying.push((id, self.requests.len()));
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

    /// The device is done with a request.
    pub fn completed(&mut self, id: RequestId, at_ns: Nanos) {
        let Some(place) = self.flying.iter().position(|(known, _)| *known == id) else { return };
        let (_, index) = self.flying.swap_remove(place);
        let request = &mut self.requests[index].0;
        request.service_ns = (at_ns - self.begin_ns).saturating_sub(request.at_ns);
    }

    fn end_hold(&mut self, at_ns: Nanos) {
        let Some((since_ns, Reason(reason))) = self.held.take() else { return };
        if at_ns > since_ns && self.holds.len() < self.room * HOLDS_PER_REQUEST {
            self.holds.push(Hold { at_ns: since_ns - self.begin_ns, length_ns: at_ns - since_ns, reason });
        }
    }

    /// What was recorded. `reasons` are the policy's names; `group_of` says which of the experiment's groups an id is.
    pub fn finish(
        mut self,
        end_ns: Nanos,
        reasons: &[&str],
        group_of: impl Fn(GroupId) -> Option<usize>,
    ) -> Option<Dispatches> {
        let is_cut = self.requests.len() >= self.room;
        let last_ns = if is_cut { self.latest_ns } else { end_ns.max(self.latest_ns) };
        self.end_hold(last_ns);
        // What never came back was with the device to the end.
        for (_, index) in std::mem::take(&mut self.flying) {
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
    fn a_run_that_ends_early_is_told_to_its_end() {
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
