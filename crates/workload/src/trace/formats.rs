//! The list of formats: a new one is a file beside this one and a line here.

use super::read::{Options, Raw, Source};
use super::{
    alibaba, blkparse, blktrace, cloudphysics, csv, disksim, iolog, mqsim, msr, spc, start_up, systor17, tencent, vscsi,
};

/// One format of traces.
pub struct Format {
    /// As `--format` takes it.
    pub name: &'static str,
    /// Whose it is, in one line.
    pub doc: &'static str,
    /// Whether it tells the stages of a request (queued, issued, completed), not only I/Os.
    pub has_stages: bool,
    /// How many records or lines of a file's begin it explains; 0 if it is another one.
    pub(super) fits: fn(&[u8]) -> usize,
    /// Begins to read.
    pub(super) open: fn(Vec<Source>, Options) -> Box<dyn Raw>,
}

/// All formats. Of those that explain a file equally well, the first is taken.
pub const FORMATS: &[Format] = &[
    blktrace::FORMAT,
    vscsi::FORMAT,
    blkparse::FORMAT,
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
