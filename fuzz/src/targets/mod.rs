//! The list of all fuzz targets.

mod assertion;
mod canary;
mod control_request;
mod device_model;
mod fio_job_file;
mod http_request;
mod io_cost;
mod io_cost_lines;
mod io_latency;
mod journal;
mod limit_lines;
mod limiter;
mod nbd_handshake;
mod nbd_transmission;
mod overlay;
mod policy;
mod rate;
mod scheduler_spec;
mod serve_configuration;
mod serve_flags;
mod throttle;
mod trace;
mod virtio_chain;
mod wbt;
mod weights;
mod workload_name;

use crate::target::Target;

/// Every target that `list` names and `smoke` runs: one for each policy of the registry, and those
/// written by hand.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    policy::TARGETS.iter().chain(OTHERS)
}

const OTHERS: &[Target] = &[
    io_cost::TARGET,
    io_cost_lines::TARGET,
    limit_lines::TARGET,
    rate::TARGET,
    throttle::TARGET,
    io_latency::TARGET,
    wbt::TARGET,
    nbd_handshake::TARGET,
    nbd_transmission::TARGET,
    overlay::TARGET,
    virtio_chain::TARGET,
    http_request::TARGET,
    control_request::TARGET,
    journal::TARGET,
    serve_configuration::TARGET,
    serve_flags::TARGET,
    fio_job_file::TARGET,
    workload_name::TARGET,
    scheduler_spec::TARGET,
    weights::TARGET,
    device_model::TARGET,
    assertion::TARGET,
    trace::BLKTRACE,
    trace::BLKPARSE,
    trace::BIOSNOOP,
    trace::IOLOG,
    trace::IOLOG_1,
    trace::CSV,
    trace::MSR,
    trace::ALIBABA,
    trace::TENCENT,
    trace::SPC,
    trace::SYSTOR17,
    trace::CLOUDPHYSICS,
    trace::START_UP,
    trace::DISKSIM,
    trace::MQSIM,
    trace::VSCSI,
    trace::DETECTED,
];

/// The target that must be detected, as a test of the fuzzer itself.
pub const CANARY: Target = canary::TARGET;
