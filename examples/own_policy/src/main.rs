//! The whole command `hoistway`, with one policy more.
#![forbid(unsafe_code)]
use std::process::ExitCode;

fn main() -> ExitCode {
    let summary = "first come, first served in each class, with ageing";
    hoistway::policy::registry::register::<own_policy::FifoByClass>("fifo-by-class", summary).expect("a free name");
    hoistway_cli::main()
}
