//! Records of all calls that [`Call`] lists, 64 bytes each, and their replay in user space, which
//! must give the same answers.

#[cfg(not(feature = "module"))]
use crate::device_policy::DevicePolicy;
use crate::values::Ask;

/// The kind of a call.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`DevicePolicy::allocate`].
    Allocate = 1,
    /// [`DevicePolicy::insert`].
    Insert,
    /// [`DevicePolicy::dispatch`].
    Dispatch,
    /// [`DevicePolicy::requeue`].
    Requeue,
    /// [`DevicePolicy::finish`].
    Finish,
    /// [`DevicePolicy::find_merge`].
    FindMerge,
    /// [`DevicePolicy::may_merge`].
    MayMerge,
    /// [`DevicePolicy::bio_merged`].
    BioMerged,
    /// [`DevicePolicy::absorbed`].
    Absorbed,
    /// [`DevicePolicy::neighbour`].
    Neighbour,
    /// [`DevicePolicy::timer`].
    Timer,
    /// [`DevicePolicy::depth_changed`].
    DepthChanged,
    /// [`DevicePolicy::group_added`].
    GroupAdded,
    /// [`DevicePolicy::group_weighed`].
    GroupWeighed,
    /// [`DevicePolicy::group_offline`].
    GroupOffline,
    /// [`DevicePolicy::context_added`].
    ContextAdded,
    /// [`DevicePolicy::context_exited`].
    ContextExited,
    /// [`DevicePolicy::set`].
    Set,
    /// [`DevicePolicy::admit`].
    Admit,
    /// [`DevicePolicy::release_group`].
    ReleaseGroup,
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
    /// The attributes of the bio or request; calls that have none store their other arguments here.
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
    pub fn play(&self, device_policy: &mut DevicePolicy) -> Option<(u64, u64)> {
        let (id, ask, now) = (self.id, &self.ask, self.now_ns);
        let call = CALLS.iter().find(|call| **call as u32 == self.call)?;
        Some(match call {
            Call::Allocate => (device_policy.allocate(ask, now).into(), 0),
            Call::Insert => {
                let at = u32::try_from(self.answer_more).unwrap_or(0);
                (device_policy.insert(id, ask, at, now).into(), self.answer_more)
            }
            Call::Dispatch => {
                let action = device_policy.dispatch(u16::try_from(id).unwrap_or(0), now);
                (pair(action.kind, action.id), action.until_ns)
            }
            Call::Requeue => (device_policy.requeue(id, now).into(), 0),
            Call::Finish => (device_policy.finish(id, now).into(), 0),
            Call::FindMerge => {
                let (found, side) = device_policy.find_merge(ask, now);
                (pair(found, side), 0)
            }
            Call::MayMerge => (device_policy.may_merge(id, ask).into(), 0),
            Call::BioMerged => {
                device_policy.bio_merged(id, ask.context, ask.sector, ask.sectors, now);
                (0, 0)
            }
            Call::Absorbed => (device_policy.absorbed(id, ask.sectors, ask.context, now).into(), 0),
            Call::Neighbour => (device_policy.neighbour(id, ask.sector != 0).into(), 0),
            Call::Timer => (device_policy.timer(now).into(), 0),
            Call::DepthChanged => {
                device_policy.depth_changed(id, ask.sectors);
                (0, 0)
            }
            Call::GroupAdded => (device_policy.group_added(id, ask.sectors, now).into(), 0),
            Call::GroupWeighed => (device_policy.group_weighed(id, ask.sectors, now).into(), 0),
            Call::GroupOffline => {
                device_policy.group_offline(id, now);
                (0, 0)
            }
            Call::ContextAdded => (device_policy.context_added().into(), 0),
            Call::ContextExited => (device_policy.context_exited(id, now).into(), 0),
            Call::Set => (device_policy.set(id, ask.sector.cast_signed()).into(), 0),
            Call::ReleaseGroup => {
                device_policy.release_group(now);
                (0, 0)
            }
            Call::Admit => (device_policy.admit(ask, now).into(), 0),
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
    Call::FindMerge,
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
    Call::ReleaseGroup,
];

/// The buffer of the glue (the C files of kernel/module) for the calls of one device: its address,
/// its size in records, and the numbers of records written and lost.
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
