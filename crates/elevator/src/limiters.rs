//! All limiters, one line each, in the order in which a bio meets them. No other file names a
//! limiter's type.

use crate::group::{GroupSettings, IoLimits};
use crate::interface::{Depth, Violation};
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};
use crate::message::Message;
use crate::request::Bio;
use crate::structures::NoMemory;
use crate::tunable::{SettingError, Tunable};
use hoistway_block::{GroupId, Nanos};

limiters! {
    // name          variant      type                          one line for `hoistway list limiters`
    "rate"         = Rate       : crate::rate::Rate,            "exact ceilings of groups for reads, writes and both together";
    "throttle"     = Throttle   : crate::throttle::Throttle,    "absolute (.max) and best-effort (.low, .high) limits of groups";
    "io.cost"      = IoCost     : crate::io_cost::IoCost,       "weights of groups in device time, by a cost model";
    "io.latency"   = IoLatency  : crate::io_latency::IoLatency, "latency targets of groups, met by throttling \
        groups with looser targets";
    "wbt"          = Wbt        : crate::wbt::Wbt,              "depth of buffered writes, steered by the latency of reads";
}

/// Limiters that share the device by weight. Combining one with a policy that does so too is
/// allowed, and causes a warning.
pub const PROPORTIONAL: &[&str] = &["io.cost"];

/// What is known about a limiter before it is built.
#[derive(Copy, Clone, Debug)]
pub struct LimiterEntry {
    /// The name that users write.
    pub name: &'static str,
    /// One-line summary for lists.
    pub summary: &'static str,
}

/// Why a limiter could not be installed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LimiterError {
    /// No limiter has that name.
    UnknownName,
    /// It is installed already.
    InPlace,
    /// Not enough memory for its tables.
    NoMemory,
}

impl core::fmt::Display for LimiterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LimiterError::UnknownName => f.write_str("no limiter has that name"),
            LimiterError::InPlace => f.write_str("the limiter is installed already"),
            LimiterError::NoMemory => NoMemory.fmt(f),
        }
    }
}

impl core::error::Error for LimiterError {}

impl From<NoMemory> for LimiterError {
    fn from(_: NoMemory) -> Self {
        LimiterError::NoMemory
    }
}

/// Expands the rows into the [`AnyLimiter`] enum, the list [`LIMITERS`] and [`build`].
macro_rules! limiters {
    ($($name:literal = $variant:ident : $type:ty, $summary:literal;)+) => {
        /// One of the limiters, dispatched by `match`.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "four per queue at most, never moved on the data path")]
        pub enum AnyLimiter { $(#[doc = $summary] $variant($type),)+ }

        /// All limiters, in the order in which a bio meets them.
        pub const LIMITERS: &[LimiterEntry] = &[$(LimiterEntry { name: $name, summary: $summary },)+];

        /// Builds a limiter by name.
        ///
        /// # Errors
        /// See [`LimiterError`].
        pub fn build(name: &str, configuration: &LimiterConfiguration) -> Result<AnyLimiter, LimiterError> {
            $(
                if name == $name {
                    return Ok(AnyLimiter::$variant(<$type as LimiterPolicy>::build(configuration)?));
                }
            )+
            Err(LimiterError::UnknownName)
        }

        impl AnyLimiter {
            /// The limiter's name in the list.
            pub const fn name(&self) -> &'static str {
                match self { $(AnyLimiter::$variant(_) => $name,)+ }
            }
        }

        forward! { [$($variant)+]
            fn next_timer(&self) -> Option<Nanos>;
            fn held(&self) -> u32;
            fn tunables(&self) -> &'static [Tunable];
            fn setting(&self, index: usize) -> Option<i64>;
            fn violations(&self) -> u32;
            fn check(&self) -> Result<(), Violation>;
            mut
            fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict;
            fn next_released(&mut self, now: Nanos) -> Option<BioId>;
            fn withdrawn(&mut self, id: BioId, now: Nanos) -> ();
            fn merged(&mut self, id: BioId, bio: &Bio, now: Nanos) -> ();
            fn issued(&mut self, attributes: &Bio, now: Nanos) -> ();
            fn requeued(&mut self, attributes: &Bio, now: Nanos) -> ();
            fn request_ended(&mut self, end: &RequestEnd, now: Nanos) -> ();
            fn bio_ended(&mut self, id: BioId, bio: &Bio, submitted_ns: Nanos, now: Nanos) -> ();
            fn waited_for_request(&mut self, ns: Nanos) -> ();
            fn timer(&mut self, now: Nanos) -> ();
            fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> ();
            fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> ();
            fn limits_changed(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) -> ();
            fn group_offline(&mut self, group: GroupId, now: Nanos) -> ();
            fn group_removed(&mut self, group: GroupId, now: Nanos) -> ();
            fn depth_changed(&mut self, depth: Depth) -> ();
            fn drain(&mut self, now: Nanos) -> ();
            fn set(&mut self, index: usize, value: i64, now: Nanos) -> Result<(), SettingError>;
            fn take_message(&mut self) -> Option<Message>;
            fn trace(&mut self, on: bool) -> ();
        }
    };
}

/// Implements the trait's methods for [`AnyLimiter`] by forwarding.
macro_rules! forward {
    ($variants:tt
        $(fn $get:ident(&self $(, $a:ident : $at:ty)*) -> $got:ty;)*
        mut
        $(fn $do:ident(&mut self $(, $b:ident : $bt:ty)*) -> $done:ty;)*
    ) => {
        impl Limiter for AnyLimiter {
            $(#[inline] fn $get(&self $(, $a: $at)*) -> $got { forward!(@ $variants self $get ($($a),*)) })*
            $(#[inline] fn $do(&mut self $(, $b: $bt)*) -> $done { forward!(@ $variants self $do ($($b),*)) })*
        }
    };
    (@ [$($variant:ident)+] $self:ident $method:ident $arguments:tt) => {
        match $self { $(AnyLimiter::$variant(limiter) => forward!(@call limiter $method $arguments),)+ }
    };
    (@call $limiter:ident $method:ident ($($argument:ident),*)) => { $limiter.$method($($argument),*) };
}

use {forward, limiters};
