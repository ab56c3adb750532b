//! Policies that a program adds to the registry while it runs (feature `register`; needs the standard
//! library).
//!
//! Hosts find them by name like the built-in ones. Only such a policy is called through a trait
//! object: the built-in ones stay variants of [`Any`](crate::Any).

extern crate std;

use crate::account::GroupAccount;
use crate::group::GroupSettings;
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Merge, MergeSearch, Policy, Position, Side, Version,
    Violation, Wake,
};
use crate::message::Message;
use crate::registry::{Any, BuildError, ENTRIES, Entry, calls, form_at};
use crate::request::{Bio, Requests};
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use core::any::TypeId;
use core::fmt;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use std::boxed::Box;
use std::sync::{PoisonError, RwLock};
use std::vec::Vec;

/// The methods of [`Elevator`] without its constant, and [`Elevator`] for the box that has them.
macro_rules! object {
    ([]
        $(fn $get:ident(&self $(, $arg:ident : $argtype:ty)*) -> $out:ty;)+
        mut
        $(fn $do:ident(&mut self $(, $given:ident : $giventype:ty)*) -> $result:ty;)+
    ) => {
        trait Object: fmt::Debug + Send {
            $(fn $get(&self $(, $arg: $argtype)*) -> $out;)+
            $(fn $do(&mut self $(, $given: $giventype)*) -> $result;)+
        }

        impl<E: Elevator + fmt::Debug + Send> Object for E {
            $(fn $get(&self $(, $arg: $argtype)*) -> $out {
                Elevator::$get(self $(, $arg)*)
            })+
            $(fn $do(&mut self $(, $given: $giventype)*) -> $result {
                Elevator::$do(self $(, $given)*)
            })+
        }

        impl Elevator for Registered {
            /// As for [`Any`]: a host that does not know the policy supplies everything.
            const TRAITS: Traits = Traits { quantum_sectors: 8, ..Traits::TAG_SHARES };

            $(fn $get(&self $(, $arg: $argtype)*) -> $out {
                self.policy.$get($($arg),*)
            })+
            $(fn $do(&mut self $(, $given: $giventype)*) -> $result {
                self.policy.$do($($given),*)
            })+
        }
    };
}

calls!(object []);

/// A policy that the program has registered.
#[derive(Debug)]
pub struct Registered {
    name: &'static str,
    policy: Box<dyn Object>,
}

impl Registered {
    /// The name under which it was registered.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A row that the program has added.
struct Row {
    entry: Entry,
    of: TypeId,
    build: fn(&'static str, Option<Version>, &Configuration) -> Result<Any, BuildError>,
}

static ROWS: RwLock<Vec<&'static Row>> = RwLock::new(Vec::new());

/// The name belongs to another policy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NameTaken {
    /// The name.
    pub name: &'static str,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is already another policy '{}'", self.name)
    }
}

impl core::error::Error for NameTaken {}

/// Adds a policy to the registry of this process, for good. Hosts, storms and the command then know
/// it by this name. `summary` is its line in lists. The same policy may be registered again.
///
/// ```
/// use hoistway_elevator::{Configuration, Elevator, Policy, registry};
///
/// fn add_and_build<P: Policy + std::fmt::Debug + Send + 'static>() {
///     registry::register::<P>("mine", "a policy of this program").unwrap();
///     let policy = registry::build("mine", None, &Configuration::default()).unwrap();
///     assert_eq!((policy.name(), policy.violations()), ("mine", 0));
/// }
/// ```
///
/// # Errors
/// [`NameTaken`] by a built-in policy or by one of another type.
pub fn register<P>(name: &'static str, summary: &'static str) -> Result<(), NameTaken>
where
    P: Policy + fmt::Debug + Send + 'static,
{
    let mut rows = ROWS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(row) = rows.iter().find(|row| row.entry.name == name) {
        return if row.of == TypeId::of::<P>() { Ok(()) } else { Err(NameTaken { name }) };
    }
    if ENTRIES.iter().any(|entry| entry.name == name) {
        return Err(NameTaken { name });
    }
    let versions: Vec<Version> = P::FORMS.iter().map(|form| form.since).collect();
    let entry = Entry { name, summary, traits: P::TRAITS, versions: versions.leak() };
    rows.push(Box::leak(Box::new(Row { entry, of: TypeId::of::<P>(), build: build_one::<P> })));
    Ok(())
}

fn build_one<P: Policy + fmt::Debug + Send + 'static>(
    name: &'static str,
    version: Option<Version>,
    configuration: &Configuration,
) -> Result<Any, BuildError> {
    let policy = P::build(configuration, form_at::<P>(version)?)?;
    Ok(Any::Registered(Registered { name, policy: Box::new(policy) }))
}

/// The registered policy of this name, built; `None` if there is none.
pub(crate) fn build(
    name: &str,
    version: Option<Version>,
    configuration: &Configuration,
) -> Option<Result<Any, BuildError>> {
    let row = rows().into_iter().find(|row| row.entry.name == name)?;
    Some((row.build)(row.entry.name, version, configuration))
}

/// The entries of all registered policies, in the order of their registration.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    rows().into_iter().map(|row| &row.entry)
}

fn rows() -> Vec<&'static Row> {
    ROWS.read().unwrap_or_else(PoisonError::into_inner).clone()
}
