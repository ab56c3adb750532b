//! The limit of open files: raised as far as allowed, checked before the server says that it is ready, and shared out so
//! that clients leave some to operators, scrapes and the server itself.
//!
//! The system gives out the lowest number that is free, so the number of a new descriptor tells how many the whole server
//! uses. A client whose descriptor has one of the highest numbers is not admitted.

use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use hoistway_engine::Backing;

use crate::configuration::{Configuration, Device, Export};

/// Descriptors that no client gets: 64 connections to the metrics, 17 operators, the files of a reload and of a status.
const RESERVE: u64 = 96;

/// Descriptors of a client with TLS: its socket, and the two ends between its relay and the shard.
const OF_TLS_CLIENT: u64 = 3;

/// Descriptors of a virtual machine's front end with one queue: three copies of its socket, a channel, an in-flight area
/// twice, eight regions of memory, and kick (twice), call (twice) and error of the queue.
const OF_FRONT_END: u64 = 19;

/// Descriptors that are opened after [`check`]: the two ends with which the command hears signals.
const OF_SIGNALS: u64 = 2;

/// The number of descriptors that clients leave: of a small limit, a quarter.
fn reserve(limit: u64) -> u64 {
    RESERVE.min(limit / 4)
}

/// Whether a descriptor that has just been opened is one of those that clients leave.
pub fn is_reserved(descriptor: impl AsFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    u64::try_from(descriptor.as_fd().as_raw_fd()).is_ok_and(|number| number >= limit - reserve(limit))
}

/// Raises the soft limit to the hard one: a shard needs an entry for every connection and volume, which is more than
/// the usual soft limit of 1,024.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without the right to raise it, what is missing is reported by [`check`].
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// What is wrong with the limit before anything is opened; each part fails with a message of its own otherwise.
pub fn shortage(configuration: &Configuration) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current?;
    // Standard streams and signals; a ring and events per device; a socket, an event with a copy and a spare per
    // listener.
    let (devices, exports) = (configuration.devices.len(), configuration.exports().count());
    let needed = 5 + 4 * devices + exports + 4 * configuration.listeners.len();
    let text = || format!("the limit of open files, {limit}, is too low: {needed} are needed before the first client");
    (limit < needed as u64).then(text)
}

/// Whether the limit leaves room for clients, once everything else is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Room {
    /// For all that the listeners allow.
    Enough,
    /// For fewer; a warning about it.
    Less(String),
    /// For none; an error about it.
    None(String),
}

/// Compares the limit with the descriptors in use and with the connections that the listeners allow.
pub fn check(configuration: &Configuration) -> Room {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Room::Enough };
    let used = used_below(limit - reserve(limit));
    let front_ends = configuration.exports().filter(|(_, export)| export.vhost_user_blk.is_some()).count() as u64;
    let wanted = |has_tls: bool| {
        let listeners = configuration.listeners.iter().filter(|listener| listener.tls.is_some() == has_tls);
        listeners.map(|listener| listener.max_connections).sum::<u64>()
    };
    let later = OF_SIGNALS
        + front_ends * OF_FRONT_END
        + threads_to_come(configuration) * hoistway_engine::DESCRIPTORS_OF_A_THREAD;
    room(limit, used + later, wanted(false), wanted(true))
}

/// Descriptors in use that take a client's place. One with a higher number does not: the process that started this one
/// may have left some open.
fn used_below(first_reserved: u64) -> u64 {
    // Without a descriptor for the listing, there is none for a client either.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return first_reserved };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let listed = numbers.filter(|number| *number < first_reserved).count() as u64;
    // The listing's own is closed by now.
    listed.saturating_sub(1)
}

/// Threads that devices will start as clients come: each has one so far.
fn threads_to_come(configuration: &Configuration) -> u64 {
    let has_model =
        |export: &Export| Backing::parse(&export.backing.value).is_ok_and(|backing| backing.model.is_some());
    let of_device = |device: &Device| {
        let wanted = usize::try_from(device.threads).unwrap_or(usize::MAX);
        let most = hoistway_engine::most_threads(wanted, device.cpu.len(), device.exports.iter().any(has_model));
        most.saturating_sub(1) as u64
    };
    configuration.devices.iter().map(of_device).sum()
}

fn room(limit: u64, used: u64, plain: u64, with_tls: u64) -> Room {
    let (wanted, descriptors) = (plain + with_tls, plain + with_tls * OF_TLS_CLIENT);
    let left = limit.saturating_sub(used + reserve(limit));
    // Of both kinds in the proportion in which they may connect.
    let clients = left * wanted / descriptors.max(1);
    if wanted == 0 || clients >= wanted {
        return Room::Enough;
    }
    let text = format!("the limit of open files, {limit}, leaves room for {clients} of {wanted} clients");
    if clients == 0 { Room::None(text) } else { Room::Less(text) }
}

/// How to raise the limit.
pub const HELP: &str = "raise it (ulimit -n, LimitNOFILE= of a service), or lower max_connections";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_how_many_clients_have_room() {
        assert_eq!(room(1_024, 20, 256, 0), Room::Enough);
        assert_eq!(room(1_024, 20, 0, 256), Room::Enough);
        assert!(matches!(room(600, 20, 0, 256), Room::Less(text) if text.ends_with("room for 161 of 256 clients")));
        let less = "the limit of open files, 64, leaves room for 34 of 256 clients".to_owned();
        assert_eq!(room(64, 14, 256, 0), Room::Less(less));
        assert!(matches!(room(12, 10, 256, 0), Room::None(_)));
        assert_eq!(room(12, 10, 0, 0), Room::Enough);
    }

    #[test]
    fn the_numbers_of_descriptors_are_given_out_from_below() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_reserved(&file));
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        let high = i32::try_from(limit - 1).unwrap();
        let high = rustix::io::fcntl_dupfd_cloexec(&file, high).unwrap();
        assert!(is_reserved(&high));
    }
}
