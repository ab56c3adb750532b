//! The list of all fuzz targets.

mod anticipatory;
mod assertion;
mod bfq;
mod canary;
mod cfq;
mod control_request;
mod deadline;
mod device_model;
mod fio_job_file;
mod io_cost;
mod io_cost_lines;
mod io_latency;
mod kyber;
mod limit_lines;
mod limiter;
mod linus;
mod mq_deadline;
mod nas;
mod nbd_handshake;
mod nbd_transmission;
mod none;
mod noop;
mod paternoster;
mod policy;
mod read_latency2;
mod scheduler_spec;
mod serve_configuration;
mod serve_flags;
mod sfq;
mod throttle;
mod trace;
mod virtio_chain;
mod wbt;
mod weights;
mod wfq;
mod workload_name;

use crate::target::Target;

/// Every target that `list` names and `smoke` runs.
pub const TARGETS: &[Target] = &[
    none::TARGET,
    noop::TARGET,
    deadline::TARGET,
    anticipatory::TARGET,
    linus::TARGET,
    read_latency2::TARGET,
    nas::TARGET,
    cfq::TARGET,
    cfq::MERGED,
    cfq::WITH_GROUPS,
    cfq::FIRST,
    cfq::UCHIDA,
    cfq::TARASOV,
    cfq::TARASOV_BY_TIME,
    bfq::TARGET,
    bfq::WITH_WAKERS,
    bfq::MARCH_2019,
    bfq::FIRST,
    paternoster::TARGET,
    paternoster::EXACT,
    sfq::TARGET,
    sfq::ADAPTIVE,
    sfq::STRICT,
    kyber::TARGET,
    mq_deadline::TARGET,
    mq_deadline::BEFORE_6_5,
    wfq::TARGET,
    io_cost::TARGET,
    io_cost_lines::TARGET,
    limit_lines::TARGET,
    throttle::TARGET,
    io_latency::TARGET,
    wbt::TARGET,
    nbd_handshake::TARGET,
    nbd_transmission::TARGET,
    virtio_chain::TARGET,
    control_request::TARGET,
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
