//! Policies written in Python: each call of the queue becomes a call of a Python method.
//!
//! For prototypes only: a request costs tens of microseconds (docs/howto/sweep.md), and runs take turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hoistway::policy::{
    Configuration, Dispatch, Elevator, Form, GroupId, GroupSettings, HardwareQueue, Nanos, Operation, Policy, Position,
    RequestId, Requests, Side, Traits, Version, Wake, registry, structures::NoMemory,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

hoistway::policy::reasons! {
    /// Why a request was chosen or the device is idled.
    pub enum Why { Chosen = "chosen in Python", Waits = "waits in Python", }
}

/// A registered policy.
struct Registered {
    name: String,
    /// Called with the depths and the size of the device, it returns the policy's object.
    class: Py<PyAny>,
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());
/// The first exception in a policy of the run under way.
static FAILURE: Mutex<Option<PyErr>> = Mutex::new(None);
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
static TURN: Mutex<()> = Mutex::new(());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a policy has raised an exception in the run under way.
pub fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// The exception that a policy has raised.
pub fn take_failure() -> Option<PyErr> {
    HAS_FAILED.store(false, Ordering::Relaxed);
    locked(&FAILURE).take()
}

/// Whether one of the names is a registered policy's.
pub fn names_one<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    let registered = locked(&REGISTERED);
    names.any(|name| registered.iter().any(|row| row.name == name))
}

/// Waits until no other run uses a policy in Python.
pub fn turn() -> MutexGuard<'static, ()> {
    locked(&TURN)
}

/// Calls `registry::register` for the adapter of the place, of which there are as many as numbers.
macro_rules! register_place {
    ($place:expr, $name:expr, $summary:expr, $($number:literal)+) => {
        match $place {
            $($number => Some(registry::register::<Adapter<$number>>($name, $summary)),)+
            _ => None,
        }
    };
}

/// Makes a class or function known as a scheduler of this name; a name that was registered before gets the new one.
#[pyfunction]
pub fn register(name: String, summary: String, class: Py<PyAny>) -> PyResult<()> {
    let mut registered = locked(&REGISTERED);
    if let Some(row) = registered.iter_mut().find(|row| row.name == name) {
        row.class = class;
        return Ok(());
    }
    // The registry keeps names for good, at most sixteen.
    let (known, text) = (name.clone().leak(), summary.leak());
    match register_place!(registered.len(), known, text, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) {
        Some(Ok(())) => registered.push(Registered { name, class }),
        Some(Err(taken)) => return Err(PyValueError::new_err(taken.to_string())),
        None => return Err(PyValueError::new_err("at most 16 names can be registered; use one of them again")),
    }
    Ok(())
}

/// A request as a policy in Python sees it.
#[pyclass(get_all, module = "hoistway._hoistway")]
pub struct Request {
    /// Unique among the requests that are queued or in flight.
    id: u32,
    /// First sector.
    sector: u64,
    /// Number of sectors.
    sectors: u32,
    /// The operation.
    operation: &'static str,
    /// The issuer.
    context: u32,
    /// The issuer's group.
    group: u32,
    /// When it was allocated.
    start_ns: u64,
}

/// A request that was inserted and not yet released.
#[derive(Debug)]
struct Entry {
    id: RequestId,
    seen: Py<Request>,
    is_queued: bool,
}

/// The policy of one place in [`REGISTERED`].
#[derive(Debug)]
pub struct Adapter<const PLACE: usize> {
    /// `None` after an exception: then requests leave in any order, until the run has ended.
    object: Option<Py<PyAny>>,
    /// By slot.
    entries: Vec<Option<Entry>>,
    queued: u32,
    hold_until_ns: Option<Nanos>,
    violations: u32,
}

impl<const PLACE: usize> Policy for Adapter<PLACE> {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(0, 0, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let object = Python::attach(|py| {
            let class = locked(&REGISTERED).get(PLACE).map(|row| row.class.clone_ref(py));
            // The place has been taken only just now: the registry asks for nothing before it is.
            let class = class.ok_or_else(|| PyValueError::new_err("the policy is not registered"))?;
            let depth = configuration.depth;
            class.call1(py, (depth.requests, depth.device, configuration.capacity_sectors))
        });
        let entries = (0..configuration.slots).map(|_| None).collect();
        let mut adapter = Self { object: None, entries, queued: 0, hold_until_ns: None, violations: 0 };
        match object {
            Ok(object) => adapter.object = Some(object),
            Err(error) => adapter.fail(error),
        }
        Ok(adapter)
    }
}

impl<const PLACE: usize> Adapter<PLACE> {
    fn fail(&mut self, error: PyErr) {
        self.object = None;
        locked(&FAILURE).get_or_insert(error);
        HAS_FAILED.store(true, Ordering::Relaxed);
    }

    /// Calls the object, unless it has failed before.
    fn call<T>(&mut self, call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Option<T> {
        let object = self.object.as_ref()?;
        match Python::attach(|py| call(object.bind(py))) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    fn entry(&mut self, id: RequestId) -> Option<&mut Entry> {
        self.entries.get_mut(slot(id))?.as_mut().filter(|entry| entry.id == id)
    }

    /// Tells the object that a request left its queue otherwise than by its choice.
    fn remove(&mut self, id: RequestId, now: Nanos) {
        let Some(entry) = self.entry(id) else { return };
        let was_queued = std::mem::take(&mut entry.is_queued);
        if was_queued {
            self.queued -= 1;
            let seen = Python::attach(|py| self.entry(id).map(|entry| entry.seen.clone_ref(py)));
            self.call(|object| object.call_method1("removed", (seen, now)).map(drop));
        }
    }

    /// Takes a queued request out.
    fn take(&mut self, id: RequestId) -> bool {
        let Some(entry) = self.entry(id) else { return false };
        let was_queued = std::mem::take(&mut entry.is_queued);
        self.queued -= u32::from(was_queued);
        was_queued
    }

    /// The object's choice.
    fn ask(&mut self, now: Nanos) -> Option<Answer> {
        self.call(|object| {
            let answer = object.call_method1("choose", (now,))?;
            if answer.is_none() {
                return Ok(Answer::Nothing);
            }
            if let Ok(request) = answer.cast::<Request>() {
                return Ok(Answer::Request(RequestId::from_raw(request.borrow().id)));
            }
            Ok(Answer::Hold(answer.getattr("until_ns")?.extract()?))
        })
    }

    /// Any queued request, for the end of a run whose policy has failed.
    fn any(&mut self) -> Option<RequestId> {
        let id = self.entries.iter().flatten().find(|entry| entry.is_queued)?.id;
        self.take(id).then_some(id)
    }

    fn chosen(&mut self, id: RequestId) -> Dispatch {
        if self.take(id) {
            return Dispatch::Request { id, reason: Why::Chosen.into() };
        }
        let what = format!("choose() returned request {}, which is not queued", id.raw());
        self.fail(PyValueError::new_err(what));
        self.any().map_or(Dispatch::Empty, |id| Dispatch::Request { id, reason: Why::Chosen.into() })
    }
}

/// The answer of a policy's `choose`.
enum Answer {
    Request(RequestId),
    Hold(Nanos),
    Nothing,
}

fn slot(id: RequestId) -> usize {
    usize::try_from(id.slot()).unwrap_or(usize::MAX)
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Discard => "discard",
        Operation::SecureErase => "secure_erase",
        Operation::WriteZeroes => "write_zeroes",
        Operation::ZoneAppend => "zone_append",
        Operation::Flush => "flush",
        Operation::Passthrough => "passthrough",
    }
}

impl<const PLACE: usize> Elevator for Adapter<PLACE> {
    const TRAITS: Traits = Traits::SHARES;

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, _side: Side, _now: Nanos) {
        let extent = requests.attributes(id).extent;
        let Some(entry) = self.entry(id) else { return };
        Python::attach(|py| {
            let mut seen = entry.seen.borrow_mut(py);
            (seen.sector, seen.sectors) = (extent.first_sector, extent.sectors);
        });
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.bio_merged(requests, keep, Side::Back, now);
        self.remove(gone, now);
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, _at: Position, now: Nanos) -> Wake {
        let request = requests.at(id);
        let attributes = request.attributes;
        let seen = Request {
            id: id.raw(),
            sector: attributes.extent.first_sector,
            sectors: attributes.extent.sectors,
            operation: word(attributes.operation),
            context: attributes.context.0,
            group: attributes.group.0,
            start_ns: request.start_ns,
        };
        let seen = match Python::attach(|py| Py::new(py, seen).map(|seen| (seen.clone_ref(py), seen))) {
            Ok((seen, kept)) => {
                if let Some(place) = self.entries.get_mut(slot(id)) {
                    *place = Some(Entry { id, seen: kept, is_queued: true });
                    self.queued += 1;
                }
                seen
            }
            Err(error) => {
                self.violations += 1;
                self.fail(error);
                return Wake::All;
            }
        };
        self.hold_until_ns = None;
        self.call(|object| object.call_method1("insert", (seen, now)).map(drop));
        Wake::All
    }

    fn choose(&mut self, _requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        if self.queued == 0 {
            return Dispatch::Empty;
        }
        match self.ask(now) {
            Some(Answer::Request(id)) => self.chosen(id),
            Some(Answer::Hold(until)) if until > now => {
                self.hold_until_ns = Some(until);
                Dispatch::Hold { until, reason: Why::Waits.into() }
            }
            Some(Answer::Hold(_) | Answer::Nothing) => Dispatch::Throttled,
            None => self.any().map_or(Dispatch::Empty, |id| Dispatch::Request { id, reason: Why::Chosen.into() }),
        }
    }

    fn drain(&mut self, _requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.hold_until_ns = None;
        match self.ask(now) {
            Some(Answer::Request(id)) if self.take(id) => Some(id),
            _ => {
                let id = self.entries.iter().flatten().find(|entry| entry.is_queued)?.id;
                self.remove(id, now);
                Some(id)
            }
        }
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.queued > 0 && self.hold_until_ns.is_none()
    }

    fn completed(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let seen = Python::attach(|py| self.entry(id).map(|entry| entry.seen.clone_ref(py)));
        if let Some(seen) = seen {
            self.call(|object| object.call_method1("completed", (seen, now)).map(drop));
        }
        Wake::All
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.remove(id, now);
        if self.entry(id).is_some() {
            self.entries[slot(id)] = None;
        }
        Wake::No
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.hold_until_ns
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        if self.hold_until_ns.is_some_and(|until| until <= now) {
            self.hold_until_ns = None;
        }
        Wake::All
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        let given = (group.0, settings.parent.0, settings.weight);
        self.call(|object| object.call_method1("group", given).map(drop));
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.group_added(group, settings, now);
        Wake::All
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn violations(&self) -> u32 {
        self.violations
    }
}
