//! All policies, one line each. No other file names a policy's type.

use crate::account::GroupAccount;
use crate::group::GroupSettings;
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Merge, MergeSearch, Policy, Position, Side, Version,
    Violation, Wake,
};
use crate::message::Message;
use crate::request::{Bio, Requests};
use crate::structures::NoMemory;
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};

registry! { ($)
    // name          variant      type                              one line for `hoistway list schedulers`
    "noop"         = Noop       : crate::noop::Noop,                "first come, first served, with merging";
    "wfq"          = Wfq        : crate::wfq::Wfq,                  "weights of groups and issuers by start-time fair queueing";
    "none"         = Unscheduled: crate::none::Unscheduled,         "no scheduler: per-CPU queues in order of arrival";
    "mq-deadline"  = MqDeadline : crate::mq_deadline::MqDeadline,    "ascending batches with soft deadlines, in three priority classes";
    "linus"          = Linus       : crate::linus::Linus,             "the elevator of 2.4: one sorted list, a budget for being passed over";
    "read-latency2"  = ReadLatency2: crate::linus::ReadLatency2,      "linus with reads placed near the front";
    "nas"            = Nas         : crate::nas::Nas,                 "the elevator by Neil Schemenauer for 2.4.20: \
        reads overtake surplus writes";
    "anticipatory" = Anticipatory: crate::anticipatory::Anticipatory, "deadline that idles the device for a \
        reader's next request (2.6)";
    "deadline"     = Deadline   : crate::deadline::Deadline,        "ascending batches with soft deadlines, reads before writes (2.6)";
    "cfq"          = Cfq        : crate::cfq::Cfq,                  "time slices for issuers, groups by weight, \
        idling for readers (2.6.26 to 4.20)";
    "uchida"       = Uchida     : crate::cfq::Uchida,               "the two-level CFQ by Satoshi Uchida (2008): a \
        complete cfq in each group, levels 0 (high) to 7";
    "tarasov"      = Tarasov    : crate::cfq::Tarasov,              "the two-level CFQ by Vasily Tarasov (2008, \
        OpenVZ): groups take turns, levels 7 (high) to 0";
    "bfq"          = Bfq        : crate::bfq::Bfq,                  "budgets for issuers by weights of groups and \
        levels (B-WF2Q+); low latency for interactive issuers";
    "paternoster"  = Paternoster: crate::paternoster::Paternoster,  "fair at full throughput: holds tenants back \
        only as far as it costs no throughput";
    "sfq"          = SfqD       : crate::sfq::SfqD,                 "SFQ(D): start-time fair queueing with a fixed \
        limit of requests in flight";
    "sfq-d2"       = SfqD2      : crate::sfq::SfqD2,                "SFQ(D2): start-time fair queueing; the depth \
        follows how long requests stay in the device";
    "mqfq"         = Mqfq       : crate::sfq::Mqfq,                 "MQFQ, strict: a tenant ahead of another that \
        has requests in flight is not dispatched";
    "kyber"        = Kyber      : crate::kyber::Kyber,              "tokens per kind of I/O, steered by latency targets";
}

/// What the registry knows about a policy before it is built.
#[derive(Copy, Clone, Debug)]
pub struct Entry {
    /// The name that users write.
    pub name: &'static str,
    /// One-line summary for lists.
    pub summary: &'static str,
    /// The policy's declaration of its needs and promises.
    pub traits: Traits,
    /// The kernel versions at which its behaviour changed, oldest first.
    pub versions: &'static [Version],
}

/// Why a policy could not be built.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// No policy has that name.
    UnknownName,
    /// The policy is younger than this kernel version.
    TooOld {
        /// The first version that has the policy.
        first: Version,
    },
    /// Not enough memory for the tables.
    NoMemory,
}

/// The entry of this name: of a built-in policy, or of one that the program has registered.
pub fn find(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.name == name)
}

/// All entries: the built-in ones in the order of the registry, then the registered ones.
pub fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    #[cfg(feature = "register")]
    let registered = crate::registered::entries();
    #[cfg(not(feature = "register"))]
    let registered = core::iter::empty();
    ENTRIES.iter().chain(registered)
}

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BuildError::UnknownName => f.write_str("no policy has that name"),
            BuildError::TooOld { first: Version(major, minor, patch) } => {
                write!(f, "the policy is younger than that kernel: it begins with {major}.{minor}.{patch}")
            }
            BuildError::NoMemory => NoMemory.fmt(f),
        }
    }
}

impl core::error::Error for BuildError {}

impl From<NoMemory> for BuildError {
    fn from(_: NoMemory) -> Self {
        BuildError::NoMemory
    }
}

/// The form in force at a kernel version: the newest form that is not younger than it. Without a
/// version, the policy's default form.
pub(crate) fn form_at<P: Policy>(version: Option<Version>) -> Result<P::Profile, BuildError> {
    let forms = P::FORMS;
    let newest_not_younger = match version {
        None => forms.get(P::DEFAULT_FORM),
        Some(version) => forms.iter().rev().find(|form| form.since <= version),
    };
    match (newest_not_younger, forms.first()) {
        (Some(form), _) => Ok(form.profile),
        (None, Some(first)) => Err(BuildError::TooOld { first: first.since }),
        (None, None) => Err(BuildError::UnknownName),
    }
}

/// Series of patches outside of the kernel that the name of a version may be, with the kernel that
/// they were made for.
const SERIES: [(&str, Version); 1] = [("v8r3", Version(4, 7, 0))];

/// Parses `6.1`, `2.6.36` or `6`, or the name of a series of patches: `v8r3` (of bfq) is 4.7.
pub fn parse_version(text: &str) -> Option<Version> {
    if let Some((_, version)) = SERIES.iter().find(|(name, _)| *name == text) {
        return Some(*version);
    }
    let mut parts = text.split('.').map(|part| part.parse::<u16>().ok());
    let version = Version(parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    parts.next().is_none().then_some(version)
}

/// Expands the rows into the [`Any`] enum, the list [`ENTRIES`], [`build`] and `for_each_policy!`.
/// The first argument is a dollar sign, for the parameters of the macro that it defines.
macro_rules! registry {
    (($dollar:tt) $($name:literal = $variant:ident : $type:ty, $summary:literal;)+) => {
        /// One of the policies, dispatched by `match` rather than through a trait object, because
        /// the kernel build forbids indirect calls.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "one per queue, never moved on the data path")]
        pub enum Any {
            $(#[doc = $summary] $variant($type),)+
            /// One that the program has registered; the only one behind a trait object.
            #[cfg(feature = "register")]
            Registered($crate::registered::Registered),
        }

        // With the tag in an unused value of some policy's field, each call would decode it, at 3 to 6 instructions.
        // Servers and kernels have 64 bits; the page in the browser may lose them.
        #[cfg(target_pointer_width = "64")]
        const _: () = assert!($(size_of::<Any>() > size_of::<$type>() &&)+ true, "the tag has a place of its own");

        /// All built-in policies, in the order of the registry.
        pub const ENTRIES: &[Entry] = &[$(Entry {
            name: $name,
            summary: $summary,
            traits: <$type as Elevator>::TRAITS,
            versions: {
                const FORMS: &[Form<<$type as Policy>::Profile>] = <$type as Policy>::FORMS;
                const VERSIONS: [Version; FORMS.len()] = {
                    let mut versions = [Version(0, 0, 0); FORMS.len()];
                    let mut at = 0;
                    while at < FORMS.len() {
                        versions[at] = FORMS[at].since;
                        at += 1;
                    }
                    versions
                };
                &VERSIONS
            },
        },)+];

        /// Calls the named macro once, with name and variant of every policy: `"noop" Noop, ...`.
        /// For hosts that need an item for each policy, such as a test; others read
        /// [`registry::ENTRIES`](crate::registry::ENTRIES).
        #[macro_export]
        macro_rules! for_each_policy {
            ($dollar callback:ident) => { $dollar callback! { $($name $variant,)+ } };
        }

        /// Builds a policy by name, in the form of the given kernel version, or in its default form
        /// without one.
        ///
        /// ```
        /// use hoistway_elevator::registry::{self, BuildError};
        /// use hoistway_elevator::{Configuration, Elevator, Version};
        ///
        /// let configuration = Configuration::default();
        /// let bfq = registry::build("bfq", Some(Version(5, 4, 0)), &configuration).unwrap();
        /// assert_eq!(bfq.name(), "bfq");
        /// assert!(bfq.tunables().iter().any(|row| row.name == "slice_idle"));
        /// let error = registry::build("bfq", Some(Version(4, 0, 0)), &configuration).unwrap_err();
        /// assert_eq!(error, BuildError::TooOld { first: Version(4, 7, 0) });
        /// ```
        ///
        /// # Errors
        /// See [`BuildError`].
        pub fn build(name: &str, version: Option<Version>, configuration: &Configuration) -> Result<Any, BuildError> {
            $(
                if name == $name {
                    let profile = form_at::<$type>(version)?;
                    return Ok(Any::$variant(<$type as Policy>::build(configuration, profile)?));
                }
            )+
            #[cfg(feature = "register")]
            if let Some(policy) = $crate::registered::build(name, version, configuration) {
                return policy;
            }
            Err(BuildError::UnknownName)
        }

        impl Any {
            /// The policy's name in the registry.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Any::$variant(_) => $name,)+
                    #[cfg(feature = "register")]
                    Any::Registered(policy) => policy.name(),
                }
            }

            /// Calls the visitor with the concrete policy type, borrowed. One `match` then serves a
            /// host call that makes several policy calls.
            #[inline(always)]
            pub fn visit<V: Visitor>(&mut self, visitor: V) -> V::Answer {
                match self {
                    $(Any::$variant(policy) => visitor.visit(policy),)+
                    #[cfg(feature = "register")]
                    Any::Registered(policy) => visitor.visit(policy),
                }
            }
        }

        calls!(forward [$($variant)+]);
    };
}

/// One host call, compiled separately for each policy type.
pub trait Visitor {
    /// What the visit returns.
    type Answer;

    /// Monomorphised for each policy.
    fn visit<E: Elevator>(self, policy: &mut E) -> Self::Answer;
}

/// An operation that takes ownership of a policy of any type.
pub trait OwnedVisitor {
    /// What the operation returns.
    type Answer;

    /// Monomorphised for each policy that [`Any::into_visitor`] singles out, and once, as [`Any`],
    /// for all others.
    fn visit_owned<E: Elevator>(self, policy: E) -> Self::Answer;
}

impl Any {
    /// Monomorphises the visitor for cheap policies, where enum dispatch per call is measurable.
    pub fn into_visitor<C: OwnedVisitor>(self, carrier: C) -> C::Answer {
        match self {
            Any::Noop(policy) => carrier.visit_owned(policy),
            Any::MqDeadline(policy) => carrier.visit_owned(policy),
            Any::Paternoster(policy) => carrier.visit_owned(policy),
            policy => carrier.visit_owned(policy),
        }
    }
}

/// Calls the named macro with the methods of [`Elevator`] that an [`Any`] forwards: those that read,
/// then those that change.
macro_rules! calls {
    ($callback:ident $head:tt) => {
        $callback! { $head
        fn admit(&self, bio: &Bio, now: Nanos) -> Admission;
        fn merge_search(&self) -> MergeSearch;
        fn longest_sectors(&self, bio: &Bio, now: Nanos) -> u32;
        fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool;
        fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId>;
        fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId>;
        fn drains_by_sector(&self) -> bool;
        fn has_work(&self, queue: HardwareQueue) -> bool;
        fn next_timer(&self) -> Option<Nanos>;
        fn reasons(&self) -> &'static [&'static str];
        fn tunables(&self) -> &'static [Tunable];
        fn setting(&self, index: usize) -> Option<i64>;
        fn group_account(&self, group: GroupId) -> Option<GroupAccount>;
        fn removed_account(&self, group: GroupId) -> Option<GroupAccount>;
        fn violations(&self) -> u32;
        fn check(&self, requests: &Requests) -> Result<(), Violation>;
        mut
        fn reset_group_account(&mut self, group: GroupId, now: Nanos) -> bool;
        fn allocated(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> ();
        fn freed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> ();
        fn merge(&mut self, requests: &Requests, bio: &Bio, now: Nanos) -> Merge;
        fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, now: Nanos) -> ();
        fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) -> ();
        fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake;
        fn insert_new(&mut self, requests: &Requests, id: RequestId, bio: &Bio, now: Nanos) -> Wake;
        fn choose(&mut self, requests: &Requests, queue: HardwareQueue, now: Nanos) -> Dispatch;
        fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId>;
        fn busy_changed(&mut self, queue: HardwareQueue, is_busy: bool) -> ();
        fn started(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake;
        fn requeued(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake;
        fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake;
        fn withdrawn(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> ();
        fn released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake;
        fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake;
        fn timer(&mut self, requests: &Requests, now: Nanos) -> Wake;
        fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake;
        fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> ();
        fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake;
        fn group_offline(&mut self, group: GroupId, now: Nanos) -> ();
        fn group_removed(&mut self, group: GroupId, now: Nanos) -> ();
        fn depth_changed(&mut self, depth: Depth) -> ();
        fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError>;
        fn take_message(&mut self) -> Option<Message>;
        fn trace(&mut self, on: bool) -> ();
        }
    };
}

/// Implements [`Elevator`] for [`Any`] by forwarding every call.
macro_rules! forward {
    ($variants:tt
        $(fn $get:ident(&self $(, $arg:ident : $argtype:ty)*) -> $out:ty;)+
        mut
        $(fn $do:ident(&mut self $(, $given:ident : $giventype:ty)*) -> $result:ty;)+
    ) => {
        impl Elevator for Any {
            /// A host that does not know the concrete policy must supply the context and group of
            /// every request.
            const TRAITS: Traits = Traits { quantum_sectors: 8, ..Traits::TAG_SHARES };

            $(
                #[inline]
                fn $get(&self $(, $arg: $argtype)*) -> $out {
                    forward!(@match self, $get ($($arg),*), $variants)
                }
            )+
            $(
                #[inline]
                fn $do(&mut self $(, $given: $giventype)*) -> $result {
                    forward!(@match self, $do ($($given),*), $variants)
                }
            )+
        }
    };
    (@match $self:ident, $name:ident $args:tt, [$($variant:ident)+]) => {
        match $self {
            $(Any::$variant(policy) => forward!(@call policy, $name $args),)+
            #[cfg(feature = "register")]
            Any::Registered(policy) => forward!(@call policy, $name $args),
        }
    };
    (@call $policy:ident, $name:ident ($($arg:ident),*)) => { $policy.$name($($arg),*) };
}

#[cfg(feature = "register")]
pub use crate::registered::{NameTaken, register};
#[cfg(not(feature = "register"))]
use calls;
#[cfg(feature = "register")]
pub(crate) use calls;
use {forward, registry};
