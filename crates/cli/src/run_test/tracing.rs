//! `--trace-out BASE`: a set of blktrace files for every run.

use std::path::{Path, PathBuf};

use hoistway_block::DeviceNumber;
use hoistway_experiment::Experiment;
use hoistway_workload::trace::blktrace::Writer;

use crate::exit::Error;
use hoistway::plan::check::name_of;
use hoistway::plan::machine;

/// The device number of a simulated device and of a volume of the engine: one of those for local
/// use.
pub const DEVICE: DeviceNumber = DeviceNumber { major: 253, minor: 0 };

/// Begins the trace of a run, `BASE-drr-wfq-nr1-set1.blktrace.0`.
pub fn begin(base: &Path, experiment: &Experiment) -> Result<Writer, Error> {
    let base = base_of(base, experiment);
    Writer::create(&base, DEVICE, machine::now_unix_ms() * 1_000_000)
        .map_err(|error| Error::file(&Writer::path_of(&base, 0), "create", &error).at("--trace-out"))
}

/// Ends the trace.
pub fn end(writer: Writer, base: &Path, experiment: &Experiment) -> Result<(), Error> {
    let base = base_of(base, experiment);
    writer
        .finish()
        .map(|_| ())
        .map_err(|error| Error::file(&Writer::path_of(&base, 0), "write", &error).at("--trace-out"))
}

/// The name for `blkparse -i`; files and directories beside a run's result have it too.
pub fn base_of(base: &Path, experiment: &Experiment) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let name: String = name_of(experiment).chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let mut whole = base.as_os_str().to_owned();
    whole.push("-");
    whole.push(name.replace("nr-", "nr").replace("set-", "set"));
    PathBuf::from(whole)
}
