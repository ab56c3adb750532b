//! Identifies a client, and derives the group charged for its I/O and the exports that it may see.
//!
//! First the names in a client's certificate are compared, then the credentials of a unix socket's peer
//! (user, group, cgroup), then the listener, then the export's own group applies. The first matching identity, in this order and
//! then in file order, decides. Source: docs/specifications/engine.md, section 5.10.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;

use rustix::net::sockopt;

use crate::configuration::{Address, Configuration, Export, Identity, Listener, PeerMatch, matches};
use crate::tls::certificate;

/// The other end of a connection, as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Peer {
    /// User id, of a unix socket's peer.
    pub uid: Option<u32>,
    /// Group id, likewise.
    pub gid: Option<u32>,
    /// Process id, likewise.
    pub pid: Option<u32>,
    /// The process's cgroup without its leading slash; none for the root cgroup.
    pub cgroup: Option<String>,
    /// Address and port of a TCP peer.
    pub address: Option<String>,
    /// The names in the client's certificate, if it has one.
    pub names: Vec<String>,
}

/// Who holds connections: the user and process of a unix socket's peer, the host of a TCP peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// User id.
    pub uid: Option<u32>,
    /// Process id.
    pub pid: Option<u32>,
    /// Address, of IPv6 the network.
    pub host: Option<IpAddr>,
}

impl Holder {
    /// The same without its process.
    #[must_use]
    pub fn user(&self) -> Self {
        Self { pid: None, ..self.clone() }
    }
}

impl Peer {
    /// Reads the peer of a connected socket. `with_cgroup` reads the peer's cgroup as well.
    pub fn of(socket: impl AsFd, listened_at: &Address, with_cgroup: bool) -> Self {
        match listened_at {
            Address::Unix { .. } => {
                let Ok(credentials) = sockopt::socket_peercred(&socket) else { return Self::default() };
                let pid = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok();
                let cgroup = pid.filter(|_| with_cgroup).and_then(cgroup_of);
                let (uid, gid) = (credentials.uid.as_raw(), credentials.gid.as_raw());
                Self { uid: Some(uid), gid: Some(gid), pid, cgroup, ..Self::default() }
            }
            Address::Tcp(_) => {
                let address = rustix::net::getpeername(&socket).ok().flatten();
                let address = address.and_then(|it| std::net::SocketAddr::try_from(it).ok());
                Self { address: address.map(|it| it.to_string()), ..Self::default() }
            }
        }
    }

    /// Who is behind this connection, for limits of what one peer may hold.
    pub fn holder(&self) -> Holder {
        // Many ports belong to one host, and a host has a whole /64 of IPv6 addresses.
        let host = self.address.as_ref().and_then(|address| address.parse::<std::net::SocketAddr>().ok());
        let host = host.map(|address| match address.ip() {
            IpAddr::V6(ip) if ip.to_ipv4_mapped().is_none() => {
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)))
            }
            ip => ip.to_canonical(),
        });
        Holder { uid: self.uid, pid: self.pid, host }
    }

    /// A short name for lists and for `evict`: `pid:123` or `127.0.0.1:5000`.
    pub fn name(&self) -> String {
        match (self.pid, &self.address) {
            (Some(pid), _) => format!("pid:{pid}"),
            (None, Some(address)) => address.clone(),
            (None, None) => "unknown".to_owned(),
        }
    }
}

/// The v2 cgroup of a process, or the first v1 one.
fn cgroup_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    cgroup_in(&text)
}

fn cgroup_in(text: &str) -> Option<String> {
    let path = |line: &str| line.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned());
    let unified = text.lines().find(|line| line.starts_with("0::")).or_else(|| text.lines().next());
    unified.and_then(path).filter(|path| !path.is_empty())
}

/// The identity that matches a peer on a listener, if any.
pub fn identify<'a>(configuration: &'a Configuration, peer: &Peer, listener: &Address) -> Option<&'a Identity> {
    let first = |fits: &dyn Fn(&PeerMatch) -> bool| configuration.identities.iter().find(|it| fits(&it.property.value));
    let by_certificate = |property: &PeerMatch| match property {
        PeerMatch::Certificate(pattern) => peer.names.iter().any(|name| certificate::fits(pattern, name)),
        _ => false,
    };
    let by_credentials = |property: &PeerMatch| match property {
        PeerMatch::Uid(uid) => peer.uid == Some(*uid),
        PeerMatch::Gid(gid) => peer.gid == Some(*gid),
        PeerMatch::Cgroup => peer.cgroup.is_some(),
        PeerMatch::Certificate(_) | PeerMatch::Listener(_) => false,
    };
    let by_listener =
        |property: &PeerMatch| matches!(property, PeerMatch::Listener(address) if *address == listener.to_string());
    first(&by_certificate).or_else(|| first(&by_credentials)).or_else(|| first(&by_listener))
}

/// Whether a client with this identity may see an export on this listener.
pub fn may_see(identity: Option<&Identity>, listener: &Listener, export: &str) -> bool {
    let allows = |patterns: &[crate::configuration::Sourced<String>]| {
        patterns.iter().any(|pattern| matches(&pattern.value, export))
    };
    allows(&listener.exports) && identity.is_none_or(|identity| allows(&identity.exports))
}

/// The group charged for this client's I/O on an export.
pub fn group_of(identity: Option<&Identity>, peer: &Peer, export: &Export) -> String {
    let by_identity = identity.and_then(|identity| match identity.property.value {
        PeerMatch::Cgroup => peer.cgroup.clone(),
        _ => identity.group.as_ref().map(|group| group.value.clone()),
    });
    by_identity.unwrap_or_else(|| export.group.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::file;

    const TEXT: &str = r#"
[[device]]
name = "d"
[[device.export]]
name = "a"
backing = "memory:1MiB"
[[device.export]]
name = "b"
backing = "memory:1MiB"
group = "tenants/b"
[[listen]]
tcp = "127.0.0.1:10809"
exports = ["a"]
[[identity]]
listener = "tcp:127.0.0.1:10809"
group = "network"
[[identity]]
uid = 1000
group = "tenants/u"
exports = ["a*"]
[[identity]]
cgroup = true
"#;

    fn fixture() -> (Configuration, Address, Address) {
        let configuration = file::read("x", TEXT).unwrap();
        let tcp = configuration.listeners[0].address.value.clone();
        (configuration, tcp, Address::Unix { path: "/x".into(), mode: 0, owner_group: None })
    }

    #[test]
    fn credentials_come_before_the_listener_and_the_export_last() {
        let (configuration, tcp, unix) = fixture();
        let b = &configuration.devices[0].exports[1];
        let group = |peer: Peer, listener: &Address| group_of(identify(&configuration, &peer, listener), &peer, b);
        let user = Peer { uid: Some(1000), cgroup: Some("x".into()), ..Peer::default() };
        assert_eq!(group(user.clone(), &unix), "tenants/u");
        assert_eq!(group(user, &tcp), "tenants/u");
        assert_eq!(group(Peer { cgroup: Some("a/b".into()), ..Peer::default() }, &unix), "a/b");
        assert_eq!(group(Peer::default(), &tcp), "network");
        assert_eq!(group(Peer { uid: Some(7), ..Peer::default() }, &unix), "tenants/b");
    }

    #[test]
    fn an_export_is_seen_where_listener_and_identity_agree() {
        let (configuration, ..) = fixture();
        let listener = &configuration.listeners[0];
        let user = configuration.identities.iter().find(|it| it.property.value == PeerMatch::Uid(1000));
        assert!(may_see(None, listener, "a") && may_see(user, listener, "a"));
        assert!(!may_see(None, listener, "b"), "the listener shows a only");
    }

    #[test]
    fn a_host_is_one_holder_whatever_its_port() {
        let holder = |address: &str| Peer { address: Some(address.to_owned()), ..Peer::default() }.holder();
        assert_eq!(holder("10.0.0.1:5000"), holder("10.0.0.1:5001"));
        assert_eq!(holder("[::ffff:10.0.0.1]:1"), holder("10.0.0.1:2"));
        assert_eq!(holder("[2001:db8::1]:1"), holder("[2001:db8::2]:1"));
        assert_ne!(holder("10.0.0.1:5000"), holder("10.0.0.2:5000"));
    }

    #[test]
    fn cgroups_are_read_from_both_hierarchies() {
        assert_eq!(cgroup_in("0::/system.slice/db.service\n").as_deref(), Some("system.slice/db.service"));
        assert_eq!(cgroup_in("4:memory:/a\n0::/b\n").as_deref(), Some("b"));
        assert_eq!(cgroup_in("4:memory:/a\n").as_deref(), Some("a"));
        assert_eq!(cgroup_in("0::/\n"), None);
    }
}
