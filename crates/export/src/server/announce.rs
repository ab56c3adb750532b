//! Announces that the server is ready: lines on stdout, and a message to the service manager.

use std::env;
use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::configuration::Address;

/// The ready line of one listener: `listening nbd unix:/run/hoistway.sock exports=a,b`.
pub fn ready_line(address: &Address, exports: &[&str]) -> String {
    format!("listening nbd {address} exports={}", exports.join(","))
}

/// The NBD URI of one export behind a listener.
pub fn uri(address: &Address, export: &str, has_tls: bool) -> String {
    let scheme = if has_tls { "nbds" } else { "nbd" };
    match address {
        Address::Unix { path, .. } => {
            format!("{scheme}+unix:///{}?socket={}", escape(export, b""), escape(&path.to_string_lossy(), b"/"))
        }
        Address::Tcp(address) => format!("{scheme}://{address}/{}", escape(export, b"")),
    }
}

/// Percent-encodes everything except letters, digits, `-._~` and the characters in `kept`.
fn escape(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// Sends a state to the service manager (`READY=1`, `STOPPING=1`), if one is listening
/// (`NOTIFY_SOCKET`).
pub fn notify(state: &str) -> io::Result<()> {
    let Ok(name) = env::var("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_socket_and_export() {
        let unix = Address::Unix { path: "/run/a b.sock".into(), mode: 0o660, owner_group: None };
        assert_eq!(uri(&unix, "db/1", false), "nbd+unix:///db%2F1?socket=/run/a%20b.sock");
        let tcp = Address::Tcp("[::1]:10809".parse().unwrap());
        assert_eq!(uri(&tcp, "a", false), "nbd://[::1]:10809/a");
        assert_eq!(uri(&tcp, "a", true), "nbds://[::1]:10809/a");
        assert_eq!(ready_line(&unix, &["a", "b"]), "listening nbd unix:/run/a b.sock exports=a,b");
    }
}
