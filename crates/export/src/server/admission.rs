//! Who may hold the connections of a listener, so that no tenant and no peer can take all of them.
//!
//! Promise  a tenant that has fewer connections than are reserved for it is admitted, whatever the
//!          others hold; where its peer has as many as one may have, half of the reserve is open to it, and the
//!          other half is kept for other peers. A bound that is configured holds for every tenant.
//! Cost     one pass over the tenants of a listener per completed handshake.
//!
//! A tenant is an identity, or an export where no identity matches. Half of the connections are
//! reserved in equal parts, the rest is given to those who come first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::peer::{Holder, may_see};
use crate::configuration::{Configuration, Identity, Listener};

/// Most connections reserved for one tenant.
const MAXIMUM_RESERVED: usize = 16;

/// Who a connection counts for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tenant {
    /// The group of a matching identity.
    Identity(String),
    /// An export, for clients without an identity.
    Export(String),
}

impl Tenant {
    /// The tenant of a client that opens an export; `group` is the group charged for its I/O.
    pub fn new(identity: Option<&Identity>, group: &str, export: &str) -> Self {
        match identity {
            Some(_) => Self::Identity(group.to_owned()),
            None => Self::Export(export.to_owned()),
        }
    }
}

/// The limits of one listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of all clients.
    pub most: usize,
    /// Connections of one peer.
    pub of_peer: usize,
    /// Whether this was configured, and is not only there to leave some to others.
    pub is_of_peer_given: bool,
    /// The tenants that connections are reserved for.
    pub tenants: BTreeSet<Tenant>,
}

impl Limits {
    /// The limits of a listener in force.
    pub fn of(configuration: &Configuration, listener: &Listener) -> Self {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let exports = configuration.exports().map(|(_, export)| &export.name.value);
        let exports = exports.filter(|name| may_see(None, listener, name)).map(|name| Tenant::Export(name.clone()));
        let groups = configuration.identities.iter().filter_map(|identity| identity.group.as_ref());
        let tenants = exports.chain(groups.map(|group| Tenant::Identity(group.value.clone()))).collect();
        let of_peer = count(listener.max_connections_per_peer());
        let is_of_peer_given = listener.peer_connections > 0;
        Self { most: count(listener.max_connections), of_peer, is_of_peer_given, tenants }
    }

    /// Connections reserved for each tenant.
    fn reserved(&self) -> usize {
        (self.most / 2 / self.tenants.len().max(1)).min(MAXIMUM_RESERVED)
    }
}

/// Why a client is not admitted, in words for its user.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Full {
    /// The connections that are not reserved for others are in use.
    Tenant,
    /// The peer has as many as one may have.
    Peer,
}

impl Full {
    /// The sentence sent to the client.
    pub const fn text(self) -> &'static str {
        match self {
            Full::Tenant => "all connections that are not reserved for other exports are in use",
            Full::Peer => "this client has as many connections as one client may have",
        }
    }
}

/// The completed connections of one listener.
#[derive(Debug, Default)]
pub struct Admissions(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    of_tenants: BTreeMap<Tenant, usize>,
    of_peers: BTreeMap<Holder, usize>,
}

/// One completed connection; given back when dropped.
#[derive(Debug)]
pub struct Admission {
    admissions: Arc<Admissions>,
    tenant: Tenant,
    peer: Holder,
}

impl Admissions {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no client can be admitted, so that a handshake would be in vain.
    pub fn is_full(&self, most: u64) -> bool {
        self.lock().all as u64 >= most
    }

    /// Admits a client.
    ///
    /// # Errors
    /// The connections that it may have are in use.
    pub fn admit(self: &Arc<Self>, limits: &Limits, tenant: Tenant, peer: Holder) -> Result<Admission, Full> {
        let mut held = self.lock();
        let reserved = limits.reserved();
        let of = |tenant: &Tenant| held.of_tenants.get(tenant).copied().unwrap_or(0);
        let has_reserved = limits.tenants.contains(&tenant) && of(&tenant) < reserved;
        let others = limits.tenants.iter().filter(|other| **other != tenant);
        let kept_for_others: usize = others.map(|other| reserved.saturating_sub(of(other))).sum();
        let is_peer_full = held.of_peers.get(&peer).is_some_and(|count| *count >= limits.of_peer);
        // Many tenants may be behind one address: one of them must not use up what is reserved for another.
        let is_exempt = has_reserved && !limits.is_of_peer_given && of(&tenant) < reserved.div_ceil(2);
        if is_peer_full && !is_exempt {
            return Err(Full::Peer);
        }
        if held.all >= limits.most || (!has_reserved && held.all + kept_for_others >= limits.most) {
            return Err(Full::Tenant);
        }
        held.all += 1;
        *held.of_tenants.entry(tenant.clone()).or_default() += 1;
        *held.of_peers.entry(peer.clone()).or_default() += 1;
        Ok(Admission { admissions: self.clone(), tenant, peer })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut held = self.admissions.lock();
        held.all = held.all.saturating_sub(1);
        give_back(&mut held.of_tenants, &self.tenant);
        give_back(&mut held.of_peers, &self.peer);
    }
}

/// Entries without connections go, because the names of peers are endless.
fn give_back<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> Tenant {
        Tenant::Export(name.to_owned())
    }

    fn peer(pid: u32) -> Holder {
        Holder { uid: Some(0), pid: Some(pid), host: None }
    }

    #[test]
    fn tenants_together_cannot_shut_out_another() {
        let tenants = ["a", "b", "c"].map(export).into_iter().collect();
        let limits = Limits { most: 256, of_peer: 256, is_of_peer_given: false, tenants };
        let admissions = Arc::new(Admissions::default());
        let mut held = Vec::new();
        for name in ["a", "b"] {
            while let Ok(admission) = admissions.admit(&limits, export(name), peer(1)) {
                held.push(admission);
            }
        }
        assert_eq!(held.len(), 240);
        let of_c: Vec<_> = (0..16).map(|_| admissions.admit(&limits, export("c"), peer(2)).unwrap()).collect();
        assert_eq!(admissions.admit(&limits, export("c"), peer(2)).unwrap_err(), Full::Tenant);
        assert!(admissions.is_full(256));
        drop(of_c);
        drop(held);
        assert!(!admissions.is_full(1) && admissions.lock().of_tenants.is_empty());
    }

    #[test]
    fn tenants_behind_one_address_cannot_shut_each_other_out() {
        let tenants = ["a", "b"].map(export).into_iter().collect();
        let limits = Limits { most: 256, of_peer: 224, is_of_peer_given: false, tenants };
        let admissions = Arc::new(Admissions::default());
        let mut held = Vec::new();
        let mut open = |name: &str, pid: u32| {
            let admission = admissions.admit(&limits, export(name), peer(pid));
            admission.map(|admission| held.push(admission))
        };
        let count = (0..256).take_while(|_| open("a", 1).is_ok()).count();
        assert_eq!((count, open("a", 1)), (224, Err(Full::Peer)));
        assert_eq!((0..20).take_while(|_| open("b", 1).is_ok()).count(), 8, "half of the reserve");
        assert_eq!(open("b", 1), Err(Full::Peer));
        assert_eq!((0..20).take_while(|_| open("b", 2).is_ok()).count(), 20, "another peer has the other half");
        let given = Limits { is_of_peer_given: true, ..limits.clone() };
        let admissions = Arc::new(Admissions::default());
        let _held: Vec<_> = (0..224).map(|_| admissions.admit(&given, export("a"), peer(1)).unwrap()).collect();
        assert_eq!(admissions.admit(&given, export("b"), peer(1)).unwrap_err(), Full::Peer, "a bound that was given");
    }

    #[test]
    fn a_peer_cannot_take_all_of_an_export() {
        let tenants = [export("a")].into_iter().collect();
        let limits = Limits { most: 16, of_peer: 14, is_of_peer_given: false, tenants };
        let admissions = Arc::new(Admissions::default());
        let _held: Vec<_> = (0..14).map(|_| admissions.admit(&limits, export("a"), peer(1)).unwrap()).collect();
        assert_eq!(admissions.admit(&limits, export("a"), peer(1)).unwrap_err(), Full::Peer);
        assert!(admissions.admit(&limits, export("a"), peer(2)).is_ok());
    }
}
