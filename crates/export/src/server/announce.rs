//! Announces that the server is ready: lines on stdout, and a message to the service manager.

use std::env;
use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::configuration::{Address, Configuration};

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

/// Tells the service manager a state (`READY=1`, `STOPPING=1`), if there is one (`NOTIFY_SOCKET`). If it cannot be told,
/// the log says so.
pub fn tell(state: &str) {
    if let Err(error) = notify(state) {
        warn!(
            name: "service_manager",
            target: "server",
            "the service manager cannot be notified (NOTIFY_SOCKET): {error}"
        );
    }
}

fn notify(state: &str) -> io::Result<()> {
    let Ok(name) = env::var("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Tells the service manager that the server goes on (`WatchdogSec=` of the unit, `WATCHDOG_USEC` here).
#[derive(Debug)]
pub struct Watchdog {
    /// Half of the time after which the manager ends the server; `None` without a watchdog.
    interval: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// The watchdog that the environment asks this process for.
    pub fn from_environment() -> Self {
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let interval = number("WATCHDOG_USEC").filter(|usec| is_ours && *usec > 0);
        Self { interval: interval.map(|usec| Duration::from_micros(usec.div_ceil(2))), next: Instant::now() }
    }

    /// Sends the message if it is due: the caller has just handled an event, or looked after the devices. Returns how long
    /// it may wait for the next event, at most until `latest`.
    pub fn beat(&mut self, latest: Instant) -> Duration {
        let now = Instant::now();
        if let Some(interval) = self.interval.filter(|_| now >= self.next) {
            self.next = now + interval;
            tell("WATCHDOG=1");
        }
        let next = if self.interval.is_some() { self.next.min(latest) } else { latest };
        next.saturating_duration_since(now)
    }
}

/// The server reads its configuration again: until it is ready, the manager waits.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
}

/// The server serves this configuration; `note` continues the sentence.
pub fn ready(configuration: &Configuration, note: &str) {
    let (devices, exports) = (configuration.devices.len(), configuration.exports().count());
    let counted = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let what = format!("{} on {}", counted(exports, "export"), counted(devices, "device"));
    tell(&format!("READY=1\nSTATUS=serving {what}{note}"));
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
