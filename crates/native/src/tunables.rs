//! The tunables of the kernel's schedulers, as far as they must be known before switching to one.
//!
//! A kernel may have more or fewer tunables; a run uses those that sysfs shows after the switch.
//! Units are those of the files.

/// One tunable.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tunable {
    /// Its file below `iosched/`, or below `queue/` for those of every queue.
    pub name: &'static str,
    /// Its unit: `ms`, `us`, `ns`, `KiB`; empty for plain numbers.
    pub unit: &'static str,
    /// The largest value that the kernel stores unchanged.
    pub maximum: u64,
}

const fn tunable(name: &'static str, unit: &'static str, maximum: u64) -> Tunable {
    Tunable { name, unit, maximum }
}

/// Larger numbers are silently clamped by the kernel.
const INT: u64 = 0x7fff_ffff;

const BFQ: &[Tunable] = &[
    tunable("back_seek_max", "KiB", INT),
    tunable("back_seek_penalty", "", INT),
    tunable("fifo_expire_async", "ms", INT),
    tunable("fifo_expire_sync", "ms", INT),
    tunable("low_latency", "", 1),
    tunable("max_budget", "", INT),
    // The kernel stores nanoseconds in 32 bits, so values above 4,294 ms overflow: 99999999 becomes
    // 275.
    tunable("slice_idle", "ms", 1_000),
    tunable("slice_idle_us", "us", 1_000_000),
    tunable("strict_guarantees", "", 1),
    tunable("timeout_sync", "ms", INT),
];

const MQ_DEADLINE: &[Tunable] = &[
    tunable("async_depth", "", INT),
    tunable("fifo_batch", "", INT),
    tunable("front_merges", "", 1),
    tunable("prio_aging_expire", "ms", INT),
    tunable("read_expire", "ms", INT),
    tunable("write_expire", "ms", INT),
    tunable("writes_starved", "", INT),
];

const KYBER: &[Tunable] = &[tunable("read_lat_nsec", "ns", u64::MAX), tunable("write_lat_nsec", "ns", u64::MAX)];

/// Tunables of the queue, under every scheduler.
const QUEUE: &[Tunable] = &[
    tunable("nr_requests", "", 10_240),
    tunable("wbt_lat_usec", "us", INT),
    tunable("rotational", "", 1),
    tunable("nomerges", "", 2),
    tunable("read_ahead_kb", "KiB", INT),
    tunable("max_sectors_kb", "KiB", INT),
    tunable("rq_affinity", "", 2),
];

/// The schedulers of Linux 5.0 and later.
pub const SCHEDULERS: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];

/// The name for the scheduler and settings that are in force already.
pub const CURRENT: &str = "current";

/// Resolves a name that the kernel accepts as an alias.
pub fn canonical(name: &str) -> &str {
    if name == "deadline" { "mq-deadline" } else { name }
}

/// The kernel's scheduler for a name: below io.cost it is `none`.
pub fn scheduler_of(name: &str) -> &str {
    if name == crate::io_cost::NAME { "none" } else { canonical(name) }
}

/// The tunables of a scheduler, then those of every queue; for an unknown scheduler only the
/// latter.
pub fn known(scheduler: &str) -> impl Iterator<Item = &'static Tunable> + Clone + use<> {
    let own: &[Tunable] = match canonical(scheduler) {
        "bfq" => BFQ,
        "mq-deadline" => MQ_DEADLINE,
        "kyber" => KYBER,
        _ => &[],
    };
    own.iter().chain(QUEUE)
}

/// The unit of a tunable; empty for an unknown one.
pub fn unit(scheduler: &str, name: &str) -> &'static str {
    known(scheduler).find(|tunable| tunable.name == name).map_or("", |tunable| tunable.unit)
}

/// The prefix of the names of our kernel module's elevators (`kernel/`, docs/kernel.md).
const OF_OUR_MODULE: &str = "hw-";

/// The remedy if the kernel does not offer an elevator of our module.
pub const HOW_TO_LOAD: &str = "the kernel module hoistway is not loaded: modprobe hoistway (docs/kernel.md builds it) ";

/// Whether the scheduler is one of our kernel module's.
pub fn is_of_our_module(scheduler: &str) -> bool {
    scheduler.starts_with(OF_OUR_MODULE)
}

/// Whether weights of cgroups have an effect under the scheduler.
pub fn has_shares(scheduler: &str) -> bool {
    hoistway_linux::cgroup::has_weights(scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elevators_of_our_module_are_known_by_their_prefix() {
        assert!(is_of_our_module("hw-paternoster") && !is_of_our_module("mq-deadline"));
        assert!(has_shares("hw-bfq") && has_shares("hw-paternoster") && has_shares("bfq"));
        assert!(!has_shares("hw-mq-deadline") && !has_shares("none"));
    }

    #[test]
    fn queues_have_tunables_under_every_scheduler() {
        assert!(known("none").any(|tunable| tunable.name == "nr_requests"));
        assert!(known("deadline").any(|tunable| tunable.name == "fifo_batch"), "an alias of the kernel's");
        assert!(!known("kyber").any(|tunable| tunable.name == "slice_idle"));
        assert_eq!((unit("bfq", "slice_idle"), unit("bfq", "of_tomorrow")), ("ms", ""));
    }
}
