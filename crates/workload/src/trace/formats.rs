//! The list of formats. A new format needs a file in this directory and a line here.

use super::read::{Options, Raw, Source};
use super::{
    alibaba, biosnoop, blkparse, blktrace, cloudphysics, csv, disksim, iolog, mqsim, msr, spc, start_up, systor17,
    tencent, vscsi,
};

/// One trace format.
pub struct Format {
    /// Name, as `--format` takes it.
    pub name: &'static str,
    /// Description in one line.
    pub doc: &'static str,
    /// Whether it records the stages of a request (queued, issued, completed) or only I/Os.
    pub has_stages: bool,
    /// Number of records or lines at the start of a file that it can parse; 0 if the file has
    /// another format.
    pub(super) fits: fn(&[u8]) -> usize,
    /// Starts reading.
    pub(super) open: fn(Vec<Source>, Options) -> Box<dyn Raw>,
}

/// All formats. If several parse a file equally well, the first one is taken.
pub const FORMATS: &[Format] = &[
    blktrace::FORMAT,
    vscsi::FORMAT,
    blkparse::FORMAT,
    biosnoop::FORMAT,
    iolog::FORMAT,
    iolog::FIRST_VERSION,
    csv::FORMAT,
    msr::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    spc::FORMAT,
    systor17::FORMAT,
    cloudphysics::FORMAT,
    start_up::FORMAT,
    disksim::FORMAT,
    mqsim::FORMAT,
];
