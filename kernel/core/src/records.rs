//! Records of every call, 64 bytes each, and their replay in user space, which must give the same
//! answers.

#[cfg(not(feature = "module"))]
use crate::carried::Carried;
use crate::values::Ask;

/// The kind of a call.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`Carried::allocate`].
    Allocate = 1,
    /// [`Carried::insert`].
    Insert,
    /// [`Carried::dispatch`].
    Dispatch,
    /// [`Carried::requeue`].
    Requeue,
    /// [`Carried::finish`].
    Finish,
    /// [`Carried::find_company`].
    FindCompany,
    /// [`Carried::may_merge`].
    MayMerge,
    /// [`Carried::bio_merged`].
    BioMerged,
    /// [`Carried::absorbed`].
    Absorbed,
    /// [`Carried::neighbour`].
    Neighbour,
    /// [`Carried::timer`].
    Timer,
    /// [`Carried::depth_changed`].
    DepthChanged,
    /// [`Carried::group_added`].
    GroupAdded,
    /// [`Carried::group_weighed`].
    GroupWeighed,
    /// [`Carried::group_offline`].
    GroupOffline,
    /// [`Carried::context_added`].
    ContextAdded,
    /// [`Carried::context_exited`].
    ContextExited,
    /// [`Carried::set`].
    Set,
    /// [`Carried::admit`].
    Admit,
    /// [`Carried::bury_group`].
    BuryGroup,
}

/// One call with its answer.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// A [`Call`].
    pub call: u32,
    /// Request, group, issuer or row.
    pub id: u32,
    /// The time of the call, in nanoseconds.
    pub now_ns: u64,
    /// Bio or request; other calls store their further arguments in it.
    pub ask: Ask,
    /// The policy's answer.
    pub answer: u64,
    /// The rest of the answer.
    pub answer_more: u64,
}

const _: () = assert!(size_of::<Record>() == 64);

/// Packs two 32-bit values into one.
#[inline]
pub(crate) const fn pair(high: u32, low: u32) -> u64 {
    ((high as u64) << 32) | low as u64
}

#[cfg(not(feature = "module"))]
impl Record {
    /// Repeats the recorded call and returns the policy's answer; `None` if the record is invalid.
    pub fn play(&self, carried: &mut Carried) -> Option<(u64, u64)> {
        let (id, ask, now) = (self.id, &self.ask, self.now_ns);
        let call = CALLS.iter().find(|call| **call as u32 == self.call)?;
        Some(match call {
            Call::Allocate => (carried.allocate(ask, now).into(), 0),
            Call::Insert => {
                let at = u32::try_from(self.answer_more).unwrap_or(0);
                (carried.insert(id, ask, at, now).into(), self.answer_more)
            }
            Call::Dispatch => {
                let action = carried.dispatch(u16::try_from(id).unwrap_or(0), now);
                (pair(action.kind, action.id), action.until_ns)
            }
            Call::Requeue => (carried.requeue(id, now).into(), 0),
            Call::Finish => (carried.finish(id, now).into(), 0),
            Call::FindCompany => {
                let (found, side) = carried.find_company(ask, now);
                (pair(found, side), 0)
            }
            Call::MayMerge => (carried.may_merge(id, ask).into(), 0),
            Call::BioMerged => {
                carried.bio_merged(id, ask.context, ask.sector, ask.sectors, now);
                (0, 0)
            }
            Call::Absorbed => (carried.absorbed(id, ask.sectors, ask.context, now).into(), 0),
            Call::Neighbour => (carried.neighbour(id, ask.sector != 0).into(), 0),
            Call::Timer => (carried.timer(now).into(), 0),
            Call::DepthChanged => {
                carried.depth_changed(id, ask.sectors);
                (0, 0)
            }
            Call::GroupAdded => (carried.group_added(id, ask.sectors, now).into(), 0),
            Call::GroupWeighed => (carried.group_weighed(id, ask.sectors, now).into(), 0),
            Call::GroupOffline => {
                carried.group_offline(id, now);
                (0, 0)
            }
            Call::ContextAdded => (carried.context_added().into(), 0),
            Call::ContextExited => (carried.context_exited(id, now).into(), 0),
            Call::Set => (carried.set(id, ask.sector.cast_signed()).into(), 0),
            Call::BuryGroup => {
                carried.bury_group(now);
                (0, 0)
            }
            Call::Admit => (carried.admit(ask, now).into(), 0),
        })
    }
}

#[cfg(not(feature = "module"))]
const CALLS: &[Call] = &[
    Call::Allocate,
    Call::Insert,
    Call::Dispatch,
    Call::Requeue,
    Call::Finish,
    Call::FindCompany,
    Call::MayMerge,
    Call::BioMerged,
    Call::Absorbed,
    Call::Neighbour,
    Call::Timer,
    Call::DepthChanged,
    Call::GroupAdded,
    Call::GroupWeighed,
    Call::GroupOffline,
    Call::ContextAdded,
    Call::ContextExited,
    Call::Set,
    Call::Admit,
    Call::BuryGroup,
];

/// The glue's buffer for the calls of one device: its address, its size in records, the number
/// written.
#[repr(C)]
#[derive(Debug)]
pub struct Recorder {
    pub(crate) into: *mut Record,
    pub(crate) room: u64,
    pub(crate) written: u64,
    pub(crate) lost: u64,
}

impl Recorder {
    /// Records nothing.
    pub(crate) const OFF: Recorder = Recorder { into: core::ptr::null_mut(), room: 0, written: 0, lost: 0 };

    /// Whether calls are recorded.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.room != 0
    }
}
